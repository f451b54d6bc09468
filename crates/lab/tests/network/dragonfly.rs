//! Dragonflies: what each routing carries of uniform and of adversarial traffic (Kim, Dally, Scott and
//! Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008, section 4).
//!
//! The balanced one of 72 hosts has 9 groups of 4 routers with 2 hosts and 2 cables to other groups
//! each: a p = 8 hosts and a h = 8 cables to other groups for each group. All cables are alike unless
//! they say otherwise.

use weft_lab::ChannelRun;
use weft_lab::statistics::Verdict;

use super::{file, refusal, run, voq};

const DRAGONFLY: &str = "fabric.dragonfly.hosts_per_router = 2";

const UNIFORM: &str = "pattern = 'uniform'";

/// Every host of a group sends to one in the next group.
const NEXT_GROUP: &str = "pattern.shift = 8";

const SPRAYED: &str = "per_packet = 'random'";
const HASHED: &str = "per_connection = 'hashed'";
const VALIANT: &str = "per_packet = 'valiant'";
const UGAL: &str = "per_packet = 'ugal'";
const UGAL_GLOBAL: &str = "per_packet = 'ugal_global'";

/// With queues without a limit at the outputs.
fn queued(fabric: &str, rule: &str, pattern: &str, load: f64) -> ChannelRun {
    let channel = format!("{fabric}\nroutes.{rule}");
    run(&file(72, &channel, &format!("load = {load}\n{pattern}"), "6 ms"), 1)
}

/// With queues at the inputs under a scheduler that starves nobody, and so many virtual channels with
/// so many packets each.
fn credited(rule: &str, (channels, each): (u32, u32), workload: &str, more: &str) -> String {
    let channel = format!(
        "{DRAGONFLY}\nroutes.{rule}\n\
         flow_control.virtual_channel_credits.channels = {channels}\n{more}"
    );
    let buffer = format!("buffer = {}", channels * each);
    voq(72, &buffer, &channel, workload, "3 ms").replace("'islip'", "'pim'")
}

/// The part of what was offered that was not accepted.
fn lost(run: &ChannelRun) -> f64 {
    1.0 - run.accepted_load() / run.offered_load()
}

/// Cables between groups have half the rate of all others. Of a host's packets 64 in 71 go to other
/// groups, by the 8 cables that its group has for 8 hosts: a minimal route takes one of them, so
/// that they are full at a load of 1/2 x 71/64.
#[test]
fn minimal_routes_carry_uniform_traffic_up_to_the_cables_between_groups() {
    let slow = "fabric.dragonfly = { hosts_per_router = 2, \
                links = [{}, {}, { rate = '0.5 Gbit/s' }] }";
    let bound = 0.5 * 71.0 / 64.0;
    for rule in [SPRAYED, HASHED] {
        let below = queued(slow, rule, UNIFORM, 0.95 * bound);
        assert!(lost(&below) < 0.015, "{rule}: {}", lost(&below));
        let above = queued(slow, rule, UNIFORM, 1.1 * bound);
        assert_eq!(above.judgement.verdict, Verdict::Saturated, "{rule}");
        // Cables that are alike are enough for whatever hosts send.
        let balanced = queued(DRAGONFLY, rule, UNIFORM, 0.9);
        assert!(lost(&balanced) < 0.01, "{rule}: {}", lost(&balanced));
    }
}

/// From one group to the next there is one cable, which the a p hosts of the group share on minimal
/// routes: 1/(a p) = 1/8 for each, whatever is chosen among these.
#[test]
fn minimal_routes_to_the_next_group_share_one_cable() {
    for rule in [SPRAYED, HASHED, "per_packet = 'adaptive'"] {
        let accepted = queued(DRAGONFLY, rule, NEXT_GROUP, 0.3).accepted_load();
        assert!((accepted - 1.0 / 8.0).abs() < 0.002, "{rule}: {accepted}");
    }
}

/// By a third group, a packet takes two cables between groups in place of one. Those from group G to
/// G + d, d = 2 to 8, carry what G sends by G + d, and what G + d - 1 sends by G to G + d: each is a
/// seventh of the 8 hosts of a group. The cable to the next group is left out, as it would be the
/// minimal route. So they are full at 7/(2 x 8), which with many groups is 1/2.
#[test]
fn valiant_carries_half_whatever_the_pattern() {
    let bound = 7.0 / 16.0;
    let below = queued(DRAGONFLY, VALIANT, NEXT_GROUP, 0.95 * bound);
    assert!(lost(&below) < 0.02, "{}", lost(&below));
    let above = queued(DRAGONFLY, VALIANT, NEXT_GROUP, 1.1 * bound);
    assert_eq!(above.judgement.verdict, Verdict::Saturated);
    assert!(above.accepted_load() < bound, "{}", above.accepted_load());
    // Uniform traffic takes two for 64 packets of 71, of all cables: half of what minimal
    // routes carry.
    let bound = 71.0 / 64.0 / 2.0;
    let below = queued(DRAGONFLY, VALIANT, UNIFORM, 0.92 * bound);
    assert!(lost(&below) < 0.015, "{}", lost(&below));
    let above = queued(DRAGONFLY, VALIANT, UNIFORM, 1.1 * bound);
    assert_eq!(above.judgement.verdict, Verdict::Saturated);
}

/// At the overload of either pattern the better of the two is far ahead of the other, and UGAL near it
/// or better: it sees the cable to the next group fill through the credits of its own router.
#[test]
fn ugal_is_near_the_better_of_both() {
    let accepted = |rule: &str, channels: u32, pattern: &str| {
        let text = credited(rule, (channels, 8), &format!("load = 0.9\n{pattern}"), "");
        run(&text, 1).accepted_load()
    };
    for (pattern, is_minimal_better) in [(UNIFORM, true), (NEXT_GROUP, false)] {
        let (minimal, valiant) = (accepted(SPRAYED, 2, pattern), accepted(VALIANT, 3, pattern));
        let (better, worse) =
            if is_minimal_better { (minimal, valiant) } else { (valiant, minimal) };
        assert!(better > 1.5 * worse, "{pattern}: minimal {minimal}, Valiant {valiant}");
        let ugal = accepted(UGAL, 3, pattern);
        assert!(ugal > 0.9 * better, "{pattern}: UGAL {ugal} of {better}");
    }
}

/// Every host sends to the next group and to half of all others at once, over buffers of one packet:
/// with the channels that a routing needs every packet arrives.
#[test]
fn no_routing_stands_still_with_the_channels_that_it_needs() {
    let one = |from: u32, far: u32| {
        let to = (from + far) % 72;
        format!("{{ time = '1 ns', from = {from}, to = {to} }}")
    };
    let far = (0..36).map(|step| 8 + step % 2 * step);
    let packets: Vec<String> =
        far.flat_map(|far| (0..72).map(move |from| one(from, far))).collect();
    let list = format!("source.list = [{}]", packets.join(", "));
    for (rule, needed) in [(SPRAYED, 2), (HASHED, 2), (VALIANT, 3), (UGAL, 3)] {
        for channels in [needed, 2 * needed] {
            let run = run(&credited(rule, (channels, 1), &list, ""), 1);
            assert_eq!(run.backlog + run.in_flight, 0, "{rule}, {channels}: {:?}", run.waiting);
        }
        // A number that cannot be divided so is used as one for each connection.
        let error = refusal(&credited(rule, (needed + 1, 1), &list, ""));
        assert!(error.contains("channel.c.deadlock = refused"), "{error}");
        assert!(error.contains(&format!("a multiple of {needed} virtual channels")), "{error}");
        let run = run(&credited(rule, (1, 1), &list, "deadlock = 'allowed'"), 1);
        assert!(run.waiting[0].contains("a cycle of switches"), "{rule}: {:?}", run.waiting);
    }
}

/// With queues without a limit, a router without a cable to the next group sees nothing wait on the
/// way there. One that knows the queues of its group sends by other groups what that cable does not
/// carry, and by it an eighth: all that is offered, and of uniform traffic most on minimal routes.
#[test]
fn knowledge_of_the_group_makes_up_for_missing_credits() {
    let at = |rule: &str, pattern: &str, load: f64| queued(DRAGONFLY, rule, pattern, load);
    let local = at(UGAL, NEXT_GROUP, 0.4);
    assert!(lost(&local) > 0.1, "{}", lost(&local));
    let global = at(UGAL_GLOBAL, NEXT_GROUP, 0.4);
    assert!(lost(&global) < 0.02, "{}", lost(&global));
    let uniform = at(UGAL_GLOBAL, UNIFORM, 0.8);
    assert!(lost(&uniform) < 0.02, "{}", lost(&uniform));
    // Of the 8 cables of a group a detour takes two and a minimal route one, that to the next group
    // alone: 1 + 7/2 for 8 hosts at the most.
    let above = at(UGAL_GLOBAL, NEXT_GROUP, 0.7);
    let most = 4.5 / 8.0;
    assert!(
        (0.85 * most..1.01 * most).contains(&above.accepted_load()),
        "{}",
        above.accepted_load()
    );
}

#[test]
fn global_knowledge_is_refused_where_queues_do_not_tell_it() {
    let text = credited(UGAL_GLOBAL, (3, 8), "load = 0.1", "");
    let error = refusal(&text);
    assert!(error.contains("channel.c.routes.per_packet = ugal_global"), "{error}");
    assert!(error.contains("output_queued or shared_buffer in all switches"), "{error}");
    let text = file(
        16,
        "fabric.hyperx.dimensions = [16]\nroutes.per_packet = 'ugal_global'",
        "load = 0.1",
        "1 ms",
    );
    let error = refusal(&text);
    assert!(error.contains("all cables that leave their group"), "{error}");
}

#[test]
fn detours_need_a_third_group() {
    let two = "fabric.dragonfly = { hosts_per_router = 2, groups = 2 }";
    for fabric in [two, "fabric.k_ary_tree = { arity = 4, levels = 2 }"] {
        for rule in ["valiant", "ugal"] {
            let channel = format!("{fabric}\nroutes.per_packet = '{rule}'");
            let text = refusal(&file(16, &channel, "load = 0.1", "1 ms"));
            assert!(text.contains(&format!("channel.c.routes.per_packet = {rule}")), "{text}");
            let accepted = "random or adaptive, or a dragonfly of three groups or more";
            assert!(text.contains(accepted), "{text}");
        }
    }
}

//! Cables that fail in one plane of several: which planes hosts leave by, in shares worked out by hand.

use proptest::prelude::*;
use weft_fabric::measure::Drop;
use weft_lab::ChannelRun;
use weft_lab::statistics::Verdict;
use weft_units::Span;

use super::{Channel, completions, count, ends_the_same_with_every_flow, refusal, run};

const SPRAYED: &str = "reliability = 'selective_repeat'\nreordering = 64\nspraying.values = 16";
const KEPT: &str = "reliability = 'selective_repeat'\nreordering = 64";

/// A flow of this many packets of 80 ns in a star, from host 2 to host 1, starting at 1 us.
fn flow(planes: u32, packets: u32, transport: &str, failures: &str) -> ChannelRun {
    let fabric = format!("planes = {planes}\nfailures = {{ {failures} }}");
    let workload =
        format!("x.list = [{{ time = '1 us', from = 2, to = 1, size = '{} B' }}]", packets * 950);
    let own = Channel {
        fabric: &fabric,
        transport,
        workload: &workload,
        run: "length = '5 ms'\nregime = 'from_empty'",
        ..Channel::default()
    };
    own.run()
}

fn lost(run: &ChannelRun) -> u64 {
    run.observations.dropped(Drop::FailedCable)
}

/// How many packets of 80 ns left a host by each plane.
fn by_plane(run: &ChannelRun, host: usize) -> Vec<u64> {
    let hosts = run.hosts as usize;
    let busy = run.observations.busy();
    let ends = &busy[busy.len() - run.ends as usize..];
    ends.chunks(hosts).map(|plane| plane[host].0 / 80_000).collect()
}

/// Of four planes one leads nowhere from the beginning on, at either end of the flow: three take a third each.
#[test]
fn a_sprayed_flow_takes_the_planes_that_are_left() {
    for failed in ["host 1", "host 2"] {
        let failures = format!(
            "detection = '0 ns', cables = [{{ from = '{failed}', to = '2/0.0', at = '0 ns' }}]"
        );
        let run = flow(4, 240, SPRAYED, &failures);
        assert_eq!(lost(&run), 0, "{failed}");
        assert_eq!(by_plane(&run, 2), [80, 80, 0, 80], "{failed}");
        // 320 ns to the target and 80 packets back to back; 60 with all planes.
        let expected = (Span(320_000 + 80 * 80_000), Span(320_000 + 60 * 80_000));
        assert_eq!(completions(&run), [expected], "{failed}");
    }
}

/// Grants leave by a plane that leads to who asked for them: one that is lost costs a timeout of 1 ms.
#[test]
fn grants_take_a_plane_that_leads_to_the_initiator() {
    let transport = format!("{SPRAYED}\ncongestion_control.rccc.base_round_trip = '800 ns'");
    let failures = "detection = '0 ns', cables = [{ from = 'host 2', to = '0/0.0', at = '0 ns' }]";
    let run = flow(2, 500, &transport, failures);
    assert_eq!((lost(&run), count(&run, "timeouts")), (0, 0.0));
    assert!(count(&run, "credit_grants") > 50.0, "{}", count(&run, "credit_grants"));
    assert_eq!(by_plane(&run, 2)[0], 0);
}

/// Of two flows of a host one may leave by either plane, the other by one alone, and windows close all the time.
#[test]
fn no_flow_leaves_by_a_plane_that_leads_others_alone() {
    for window in ["1 kB", "2 kB", "5 kB"] {
        let own = Channel {
            fabric: "planes = 2\nfailures = { detection = '0 ns', cables = [\
                     { from = 'host 1', to = '0/0.0', at = '0 ns' }] }",
            transport: &format!("{SPRAYED}\nwindow = '{window}'"),
            workload: "x.list = [{ from = 0, to = 2, size = '95 kB' }, { from = 0, to = 1, size = '95 kB' }, \
                       { from = 0, to = 3, size = '95 kB' }, { from = 0, to = 1, size = '95 kB' }]",
            run: "length = '5 ms'\nregime = 'from_empty'",
            ..Channel::default()
        };
        let run = own.run();
        assert_eq!((lost(&run), count(&run, "timeouts")), (0, 0.0), "{window}");
        let bins = &run.flows.as_ref().expect("flows").bins;
        assert_eq!(bins.iter().map(|bin| bin.completion.count()).sum::<u64>(), 4, "{window}");
    }
}

/// A flow that keeps to a plane keeps to another one, whichever it had, and stays where its own plane leads on.
#[test]
fn a_flow_that_keeps_to_a_plane_moves_if_it_must() {
    let own = |failures: &str| {
        let run = flow(3, 30, KEPT, failures);
        assert_eq!((lost(&run), count(&run, "timeouts")), (0, 0.0), "{failures}");
        // As fast as one plane.
        let span = Span(320_000 + 30 * 80_000);
        assert_eq!(completions(&run), [(span, span)], "{failures}");
        by_plane(&run, 2).iter().position(|packets| *packets == 30).expect("one plane")
    };
    let first = own("detection = '0 ns', cables = []");
    for plane in 0..3 {
        let failures = format!(
            "detection = '0 ns', cables = [{{ from = 'host 1', to = '{plane}/0.0', at = '0 ns' }}]"
        );
        let now = own(&failures);
        assert_eq!(now == first, plane != first, "plane {plane}: from {first} to {now}");
        assert_ne!(now, plane);
    }
}

/// The cable to host 1 in plane 1 of two fails at 4 us, and hosts know at 6 us. A packet with number k of that plane
/// is at the target at 1.4 us + 80 k, so that from 33 on it is lost, and starts before 6 us up to 62: thirty in
/// all, which are sent again.
#[test]
fn what_leaves_before_the_failure_is_known_is_lost_and_sent_again() {
    let failures = "detection = '2 us', cables = [{ from = 'host 1', to = '1/0.0', at = '4 us' }]";
    let run = flow(2, 200, SPRAYED, failures);
    assert_eq!(lost(&run), 30);
    // By 6 us each plane has sent 63 packets; 200 and thirty less those leave by plane 0.
    assert_eq!(by_plane(&run, 2), [200 + 30 - 63, 63]);
    assert_eq!(run.flows.as_ref().map(|own| own.unfinished), Some(0));
}

/// Away for 40 us, known at once, and known to be back at once: two planes carry 1000 packets in 60 us, of which
/// one is used for 20.
#[test]
fn a_plane_is_used_again_when_it_is_back() {
    let failures = "detection = '0 ns', cables = [{ from = 'host 2', to = '1/0.0', at = '20 us', until = '60 us' }]";
    let run = flow(2, 1_000, SPRAYED, failures);
    let planes = by_plane(&run, 2);
    // What was on the cable when it failed, one packet or two, is sent again; acknowledgments that were on their way to
    // it are lost besides, of one packet each in the 300 ns of the switch.
    assert!((1..=6).contains(&lost(&run)), "{}", lost(&run));
    let sent: u64 = planes.iter().sum();
    assert!((1_001..=1_002).contains(&sent), "{planes:?}");
    assert!(planes[1].abs_diff(250) <= 2, "{planes:?}");
    let took = completions(&run)[0].0;
    // Sixty microseconds of packets and what the first takes, or the timer finds the lost packets later.
    assert!(took >= Span(60_000_000), "{took}");
}

/// Away from 10 us on, which hosts learn 10 us later: 125 packets leave by that plane meanwhile, among them some that
/// are sent for the second time, since what is missing is sent again by both planes. Gaps tell of all that is lost,
/// and of what is lost again what comes behind it: no timer of a millisecond is waited for.
#[test]
fn what_is_lost_twice_in_a_plane_waits_for_no_timer() {
    let failures = "detection = '10 us', cables = [{ from = 'host 2', to = '1/0.0', at = '10 us', until = '60 us' }]";
    for by in ["oblivious", "bitmap", "reps", "mixed"] {
        let transport = format!("{SPRAYED}\nspraying.by = '{by}'");
        let run = flow(2, 1_000, &transport, failures);
        assert!((125..=140).contains(&lost(&run)), "{by}: {}", lost(&run));
        assert_eq!(count(&run, "timeouts"), 0.0, "{by}");
        // Two planes until 10 us, one until 70 us, and both again: 112 + 112 + 750 packets, and the rest.
        let took = completions(&run)[0].0;
        assert!(took < Span(90_000_000), "{by}: {took}");
    }
}

/// At a quarter of its rate in one of two planes a cable of the host carries a fifth of all packets.
#[test]
fn a_plane_at_a_fraction_of_its_rate_takes_its_fraction() {
    let failures = "cables = [{ from = 'host 2', to = '1/0.0', at = '0 ns', rate = 0.25 }]";
    let run = flow(2, 500, SPRAYED, failures);
    assert_eq!(lost(&run), 0);
    let busy = run.observations.busy();
    let ends = &busy[busy.len() - 8..];
    let [fast, slow] = [ends[2].0 / 80_000, ends[6].0 / 320_000];
    assert_eq!(fast + slow, 500);
    assert!(slow.abs_diff(100) <= 1, "{fast} and {slow}");
}

/// Two leaves below one spine in each of two planes. Without the cable of leaf 0 to the spine of plane 1 that plane
/// leads from host to host of a leaf alone.
#[test]
fn a_plane_in_parts_carries_what_it_still_leads_to() {
    let fabric = "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 2, spines = 1 }\nplanes = 2\n\
                  failures = { detection = '0 ns', cables = [{ from = '1/0.0', to = '1/1.0', at = '0 ns' }] }";
    let own = Channel {
        fabric,
        transport: SPRAYED,
        workload: "a.list = [{ time = '1 us', from = 0, to = 1, size = '95 kB' }]\n\
                   b.list = [{ time = '100 us', from = 0, to = 2, size = '95 kB' }]\n\
                   c.list = [{ time = '200 us', from = 3, to = 1, size = '95 kB' }]",
        run: "length = '1 ms'\nregime = 'from_empty'",
        ..Channel::default()
    };
    let run = own.run();
    assert_eq!(lost(&run), 0);
    let bins = &run.flows.as_ref().expect("flows").bins;
    let took: Vec<Span> = bins.iter().filter_map(|bin| bin.completion.max()).collect();
    // To a host of its leaf fifty packets a plane, and to and from the other leaf all hundred in one; 900 ns in three switches and 40 on four cables.
    let far = Span(940_000 + 100 * 80_000);
    assert_eq!(took, [Span(320_000 + 50 * 80_000), far, far]);
    assert_eq!(by_plane(&run, 0), [50 + 100, 50]);
    assert_eq!(by_plane(&run, 3), [100, 0]);
}

/// Packets without a transport leave by the planes that lead to their target as well, and are delivered all.
#[test]
fn packets_that_come_alone_avoid_a_plane() {
    let text = |routes: &str| {
        let fabric = format!(
            "planes = 3\nroutes.{routes}\n\
             failures = {{ detection = '0 ns', cables = [{{ from = 'host 1', to = '1/0.0', at = '0 ns' }}] }}"
        );
        let run = "length = '200 us'\nregime = 'from_empty'";
        let text = Channel { fabric: &fabric, workload: "x", run, ..Channel::default() }.text();
        let transport =
            "[channel.c.adapter.transport]\nacknowledgment = '64 B'\ntimeout = '1 ms'\n\n";
        text.replace(transport, "")
            .replace("[workload.c.source.flows]\nx\n", "[workload.c]\nload = 0.4\n")
    };
    for routes in ["per_packet = 'random'", "per_packet = 'adaptive'", "per_connection = 'hashed'"]
    {
        let text = text(routes);
        let run = run(&text, 1);
        assert_eq!((run.observations.abandoned, lost(&run)), (0, 0), "{text}");
        assert!(run.observations.delivered > 1_000, "{text}");
        // Nothing comes to host 1, and nothing from it, in plane 1.
        assert_eq!(by_plane(&run, 1)[1], 0, "{text}");
    }
}

#[test]
fn a_flow_without_a_way_in_any_plane_is_named() {
    let cables =
        ["0/0.0", "1/0.0"].map(|to| format!("{{ from = 'host 1', to = '{to}', at = '2 us' }}"));
    let failures = format!("detection = '1 us', cables = [{}]", cables.join(", "));
    let run = flow(2, 200, SPRAYED, &failures);
    assert_eq!(run.judgement.verdict, Verdict::Unreachable);
    assert_eq!(run.waiting[0], "flow 0 (x) from host 2 to host 1 has had no way left since 3 us");
    let failures = format!("detection = '1 us', cables = [{}]", cables[0]);
    assert_eq!(flow(2, 200, SPRAYED, &failures).judgement.verdict, Verdict::Settled);
}

#[test]
fn a_cable_of_a_host_is_named_with_its_plane() {
    let text = |cable: &str| {
        let fabric = format!(
            "planes = 2\nfailures = {{ detection = '0 ns', cables = [{{ {cable}, at = '1 us' }}] }}"
        );
        let workload = "x = { load = 0.5, sizes.constant = '10 kB' }";
        Channel { fabric: &fabric, workload, ..Channel::default() }.text()
    };
    let said = refusal(&text("from = 'host 3'"));
    assert!(said.contains("channel.c.failures.cables = from = host 3"), "{said}");
    assert!(said.contains("such as to = '0/0.0': host 3 has a port in each of 2 planes"), "{said}");
    let twice = "from = 'host 3', to = '1/0.0', at = '1 us' }, { from = '1/0.0', to = 'host 3'";
    let said = refusal(&text(twice));
    assert!(
        said.contains("the cable between port 3 of switch 1/0.0 and host 3 in plane 1"),
        "{said}"
    );
    let two = "from = 'host 3', to = '1/0.0', at = '1 us' }, { from = '0/0.0', to = 'host 3'";
    assert_eq!(run(&text(two), 1).flows.map(|own| own.unreachable > 0), Some(true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Under any failures in any planes every packet is accounted for, which the run itself checks; another run has
    /// the same bytes; and flows end once all cables are back.
    #[test]
    fn nothing_is_lost_but_by_a_failure_in_a_plane(
        draws in prop::collection::vec((0_usize..3, 0_usize..8, 0_usize..3, 0_u32..400, 1_u32..600), 1..8),
        (planes, detection, seed) in (2_u32..4, 0_u32..200, 0_u64..1000),
        ports in prop::sample::select(vec!["send", "hold"]),
        (spraying, routes) in prop::sample::select(vec![
            ("", ""), ("spraying = { values = 16, by = 'reps' }", ""), ("spraying.values = 16", ""),
            ("", "routes.per_packet = 'random'"), ("", "routes.per_packet = 'adaptive'"),
        ]),
        pauses in any::<bool>(),
    ) {
        let mut seen = Vec::new();
        let mut cables = Vec::new();
        for (plane, host, spine, at, length) in draws {
            let plane = plane as u32 % planes;
            let own = match spine {
                2 => format!("from = 'host {host}', to = '{plane}/0.{}'", host / 2),
                _ => format!("from = '{plane}/0.{}', to = '{plane}/1.{spine}'", host / 2),
            };
            if !seen.contains(&own) {
                cables.push(format!("{{ {own}, at = '{at} us', until = '{} us' }}", at + length));
                seen.push(own);
            }
        }
        let fabric = format!(
            "fabric.leaf_spine = {{ hosts_per_leaf = 2, leaves = 4, spines = 2 }}\nplanes = {planes}\n{routes}\n\
             failures = {{ detection = '{detection} us', ports = '{ports}', cables = [{}] }}",
            cables.join(", ")
        );
        let pfc = if pauses { ", classes.0.pfc.threshold.dynamic = { alpha = 0.125, below = '1 kB' }" } else { "" };
        let own = Channel {
            hosts: 8,
            fabric: &fabric,
            switch: &format!("memory = '{}'{pfc}", if pauses { "1 MB" } else { "60 kB" }),
            transport: &format!("reliability = 'selective_repeat'\ntimeout = '200 us'\n{spraying}"),
            workload: "x = { load = 0.3, sizes.constant = '40 kB', end = '500 us' }",
            run: "length = '40 ms'\nregime = 'from_empty'",
            ..Channel::default()
        };
        let text = own.text().replacen("timeout = '1 ms'\n", "", 1);
        ends_the_same_with_every_flow(&text, seed)?;
    }
}

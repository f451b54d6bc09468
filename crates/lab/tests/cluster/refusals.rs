//! Settings of coupled channels that do not go together, with their messages.

use super::try_runs;

fn refusal(preset: Option<&str>, overrides: &[&str]) -> String {
    let mut all = vec!["workload.bulk.load=0.5", "run.length=100 us"];
    all.extend(overrides);
    let error = try_runs("clint", preset, &all, 1).unwrap_err().details();
    let [key, value, accepted] = [error.key, error.value, error.accepted].map(Option::unwrap);
    format!("{key} = {value}: accepted is {accepted}")
}

#[test]
fn signalling_needs_a_channel_that_can_carry_it() {
    let detailed = Some("detailed");
    assert_eq!(
        refusal(detailed, &["channel.quick.link.reserved=0.049"]),
        "channel.bulk.switch.scheduled.signalling.carried.by = quick, with \
         channel.quick.link.reserved = 0.049: accepted is a channel with reserved = 0, since what \
         was reserved is packets now"
    );
    assert_eq!(
        refusal(detailed, &["channel.bulk.switch.scheduled.signalling.carried.by=fast"]),
        "channel.bulk.switch.scheduled.signalling.carried.by = fast: accepted is the name of \
         another channel of this system"
    );
    assert_eq!(
        refusal(detailed, &["channel.quick.switch.crossbar.contention=back_pressure"]),
        "channel.bulk.switch.scheduled.signalling.carried.by = quick: accepted is a channel with \
         channel.quick.switch.crossbar.contention = drop, in which what is scheduled can pass"
    );
    assert_eq!(
        refusal(detailed, &["system.hosts=17"]),
        "channel.bulk.switch.scheduled.signalling.carried.by = quick, with system.hosts = 17: \
         accepted is at most 16 hosts, for which its packets have room"
    );
}

#[test]
fn a_schedule_goes_by_the_times_of_its_own_switch() {
    let other = "{ output_queued = { latency = '0 ns', buffers = 'unlimited' } }";
    for (preset, channel, more) in [
        (None, "bulk", "channel.bulk.recovery={}"),
        (Some("detailed"), "bulk", "channel.bulk.recovery={}"),
        (Some("detailed"), "quick", "channel.bulk.recovery={}"),
    ] {
        let own = format!("channel.{channel}.switches={{ '0.0' = {other} }}");
        assert_eq!(
            refusal(preset, &[&own, more]),
            format!(
                "channel.{channel}.switches.0.0 = given: accepted is it in channel.{channel}.switch, \
                 whose times a schedule goes by"
            )
        );
    }
}

#[test]
fn a_table_of_one_switch_has_no_more_of_a_schedule_than_slots() {
    let table = "channel.bulk.fabric.table={ switches = [{ name = 'a', ports = 2 }], cables = [\
                 { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'a.1' }] }";
    let schedule = "channel.bulk.switch.scheduled";
    for (preset, key, more) in [
        (None, "speculation", format!("{schedule}.speculation=fixed_priority")),
        (None, "lengths", format!("{schedule}.lengths=['5 m', '1 m']")),
        (Some("detailed"), "signalling", "channel.bulk.disabled=[]".to_owned()),
    ] {
        assert_eq!(
            refusal(preset, &["system.hosts=2", table, &more]),
            format!(
                "{schedule}.{key} = given: accepted is it only in channel.bulk.switch with \
                 channel.bulk.fabric = star, where the schedule tells hosts of their packets"
            )
        );
    }
}

/// What one link cannot be.
#[test]
fn a_shared_link_is_one_link_with_room_in_its_slots() {
    let of = |setting: &str| {
        let gap = "channel.bulk.switch.scheduled.gap=1106 ns";
        refusal(Some("shared_link"), &[gap, setting])
    };
    let guard = "channel.bulk.switch.scheduled.signalling.carried.shared_link.guard";
    assert_eq!(
        of("channel.quick.link.rate=1 Gbit/s"),
        "channel.bulk.link.rate = 2 Gbit/s: accepted is that of channel.quick.link, 1 Gbit/s: with \
         shared_link it is one"
    );
    assert_eq!(
        of("channel.quick.link.length=4 m"),
        "channel.bulk.link.length = 5 m (25 ns): accepted is that of channel.quick.link, 4 m \
         (20 ns): with shared_link it is one"
    );
    assert_eq!(
        of("channel.bulk.switch.scheduled.latency=1.5 ns"),
        "channel.bulk.switch.scheduled.latency = 1.5 ns: accepted is 90 ns, that of \
         channel.quick.switch: with shared_link both leave by one output"
    );
    assert_eq!(
        of("channel.quick.switch.crossbar.acknowledgments=interleave"),
        "channel.bulk.switch.scheduled.signalling.carried.by = quick, which interleaves \
         acknowledgments with requests: accepted is a channel with adapter.acknowledgments = wait \
         and switch.crossbar.acknowledgments = collide with shared_link, not channel.quick as it is"
    );
    assert_eq!(
        of(&format!("{guard}=299 ns")),
        format!(
            "{guard} = 299 ns: accepted is 300 ns or more: a packet of channel.quick, which may be \
             on the link when a transfer begins, and 156 ns for configuration, grant and \
             acknowledgments"
        )
    );
    assert_eq!(
        of(&format!("{guard}=1107 ns")),
        format!(
            "{guard} = 1.107 us: accepted is at most switch.scheduled.gap = 1.106 us, of which it \
             is a part"
        )
    );
}

#[test]
fn the_lead_has_room_for_the_signalling() {
    assert_eq!(
        refusal(Some("detailed"), &["channel.bulk.switch.scheduled.lead=1.7 us"]),
        "channel.bulk.switch.scheduled.lead = 1.7 us: accepted is 1.748485 us or more: \
         configuration, grant, cable and switch of channel.quick, and \
         signalling.carried.arbitration = 1.26 us"
    );
    let long = "channel.bulk.switch.scheduled.lead=9 us";
    let refused = refusal(Some("detailed"), &[long]);
    assert!(refused.ends_with("accepted is less than a slot, 8.983158 us"), "{refused}");
}

#[test]
fn what_may_be_sent_again_keeps_its_buffer() {
    assert_eq!(
        refusal(None, &["channel.bulk.errors.packet_error_rate=0.1"]),
        "channel.bulk.adapter.release = transmission: accepted is acknowledgment, since a packet \
         that may be sent again keeps its send buffer"
    );
    assert_eq!(
        refusal(None, &["channel.bulk.disabled=[{ host = 16 }]"]),
        "channel.bulk.disabled.host = 16: accepted is a host, below 16"
    );
    assert_eq!(
        refusal(None, &["channel.quick.disabled=[{ host = 1, by = [0, 17] }]"]),
        "channel.quick.disabled.by = 17: accepted is a host, below 16"
    );
}

/// CL-60: the gap has to cover what cables of different lengths do to a slot.
#[test]
fn cables_of_different_lengths_need_a_gap_or_a_measurement() {
    let lengths = "channel.bulk.switch.scheduled.lengths=['5 m', '1 m']";
    let of = |preset: Option<&str>, more: &[&str]| {
        let mut all = vec!["system.hosts=2", lengths];
        all.extend(more);
        refusal(preset, &all)
    };
    let gap = "channel.bulk.switch.scheduled.gap=39 ns";
    assert_eq!(
        of(None, &[gap]),
        "channel.bulk.switch.scheduled.gap = 39 ns: accepted is 40 ns or more, twice what the \
         cables differ, or alignment = round_trips"
    );
    let measured = "channel.bulk.switch.scheduled.alignment=round_trips";
    let all =
        ["workload.bulk.load=0.5", "run.length=100 us", "system.hosts=2", lengths, measured, gap];
    assert!(try_runs("clint", None, &all, 1).is_ok());
    assert_eq!(
        of(None, &["system.hosts=3"]),
        "channel.bulk.switch.scheduled.lengths = 2 lengths: accepted is one length for each of \
         the 3 hosts"
    );
    assert_eq!(
        of(None, &["channel.bulk.link.length=4 m"]),
        "channel.bulk.switch.scheduled.lengths = 5 m: accepted is up to 4 m, \
         channel.bulk.link.length"
    );
    assert_eq!(
        of(Some("detailed"), &[]),
        "channel.bulk.switch.scheduled.signalling = carried: accepted is without lengths, since \
         signalling that travels has links of one length"
    );
}

/// With a bus in front of the adapters the schedule itself tells hosts what became of their packets, two
/// slots after they start.
#[test]
fn a_packet_arrives_before_its_initiator_is_to_know() {
    let said = refusal(Some("interface"), &["channel.bulk.link.length=1000 m"]);
    let way = "channel.bulk.link.length = 18.3455 us on the way: accepted is";
    assert!(said.starts_with(way) && said.contains("two slots"), "{said}");
    let near = ["workload.bulk.load=0.5", "run.length=100 us", "channel.bulk.link.length=900 m"];
    assert!(try_runs("clint", Some("interface"), &near, 1).is_ok());
}

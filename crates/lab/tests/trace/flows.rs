//! Lists of flows: when each starts, what is refused with its line, and how long flows take.

use std::path::Path;

use weft_lab::trace::flows::connection_matrix;
use weft_lab::trace::flows::hpcc::{self, Nodes};
use weft_lab::trace::settings::TraceSettings;
use weft_lab::trace::{Schedule, TraceError};
use weft_units::Time;

use super::{PACKET, WAY, messages, run};

fn matrix(text: &str) -> Result<Schedule, TraceError> {
    connection_matrix::read(text.as_bytes())
}

/// When each message was offered and delivered, by its ends.
fn passages(schedule: &Schedule) -> Vec<(u16, u16, Time, Time)> {
    let played = run(schedule).expect("an end");
    let all = played.machine.account().passages().iter();
    let mut all: Vec<_> = all.map(|own| (own.from, own.to, own.offered, own.delivered)).collect();
    all.sort_unstable();
    all
}

#[test]
fn flows_start_at_their_time_and_leave_one_after_another() {
    let schedule = matrix(
        "# two of one host, one of another\nNodes 4\nConnections 3\n0->1 id 1 start 0 size 100\n\
         0->2 id 2 start 2000000 size 300\n3->2 id 3 start 7e6 size 100\n",
    );
    let schedule = schedule.expect("a legal text");
    assert_eq!(schedule.traffic(), messages(3, 500));
    let times = [(0, 1, 0, WAY), (0, 2, 2_000_000, 2_000_000 + 2 * PACKET + WAY)];
    let last = (3, 2, 7_000_000, 7_000_000 + WAY);
    let expected = times.into_iter().chain([last]);
    let expected: Vec<_> = expected.map(|(a, b, from, to)| (a, b, Time(from), Time(to))).collect();
    assert_eq!(passages(&schedule), expected);
}

#[test]
fn a_flow_starts_by_what_is_sent_or_received_at_its_host() {
    let schedule = matrix(
        "Nodes 4\nConnections 4\nTriggers 2\n0->1 id 1 start 0 size 200 recv_done_trigger 1\n\
         1->2 id 2 trigger 1 size 100 send_done_trigger 2\n3->1 id 3 start 0 size 500 prio 2 \
         recv_done_trigger 2\n1->0 id 4 trigger 2 size 100\ntrigger id 1 oneshot\n\
         trigger id 2 barrier count 2\n",
    );
    let all = passages(&schedule.expect("a legal text"));
    let offered = |from: u16, to: u16| {
        let found = all.iter().find(|own| (own.0, own.1) == (from, to));
        found.map(|own| own.2).expect("such a flow")
    };
    // Two packets of host 0 and five of host 3 take turns at the cable to host 1.
    let received = all.iter().find(|own| own.0 == 0).expect("the first flow").3;
    assert_eq!(offered(1, 2), received);
    let last = all.iter().find(|own| own.0 == 3).expect("the third flow").3;
    assert_eq!(offered(1, 0), last);
    assert_eq!(last, Time(7 * PACKET + 50_000));
}

#[test]
fn an_incast_takes_as_long_as_the_cable_of_its_target_is_busy() {
    let flows: String = (1..4).map(|from| format!("{from} 0 3 100 1000 0\n")).collect();
    let schedule = hpcc::read(format!("3\n{flows}").as_bytes(), &Nodes::hosts(4));
    let all = passages(&schedule.expect("a legal text"));
    let last = all.iter().map(|own| own.3).max();
    assert_eq!(last, Some(Time(30 * PACKET + 50_000)));
}

#[test]
fn nodes_are_numbered_with_the_switches_that_a_topology_names() {
    let nodes = Nodes::read("5 2 4\n0 3\n1 0 100Gbps 1us 0\n".as_bytes()).expect("a topology");
    // Only as many flows are read as the first line says.
    let text = "2\n1 4 3 100 500 0.000001\n2 1 3 100 100 0\n\nFirst line: how many there are\n";
    let all = passages(&hpcc::read(text.as_bytes(), &nodes).expect("a legal text"));
    assert_eq!(all[0], (0, 2, Time(1_000_000), Time(1_000_000 + 4 * PACKET + WAY)));
    assert_eq!(all[1], (1, 0, Time::ZERO, Time(WAY)));
}

#[test]
fn a_matrix_that_cannot_be_meant_is_refused() {
    let head = "Nodes 4\nConnections 1\n";
    let cases = [
        ("Connections 1\n", "the trace ends where `Nodes N` is accepted"),
        ("Nodes 1\n", "line 1: `1` where a number of hosts from 2 to 65535 is accepted"),
        ("0->1 start 0 size 1\n", "line 1: `0->1` where `Nodes N`"),
        ("Failures 1\n", "line 1: `Failures` where `Nodes N`"),
        (&format!("{head}0->4 start 0 size 1\n"), "line 3: rank 4 where 0 to 3 are accepted"),
        (&format!("{head}1->1 start 0 size 1\n"), "line 3: `a flow from host 1 to itself` where"),
        (&format!("{head}0->1 size 1\n"), "one of `start PICOSECONDS` and `trigger N`"),
        (&format!("{head}0->1 start 0 trigger 1 size 1\n"), "one of `start"),
        (&format!("{head}0->1 start 0\n"), "line 3: `` where `size BYTES` is accepted"),
        (&format!("{head}0->1 start -1 size 1\n"), "line 3: `-1` where a time in picoseconds"),
        (&format!("{head}0->1 start nan size 1\n"), "line 3: `nan` where a time"),
        (&format!("{head}0->1 start 0 size 1 addon\n"), "line 3: `addon` where `id N`"),
        (&format!("{head}0->1 id 0 start 0 size 1\n"), "line 3: `0` where a number from 1 on"),
        (&format!("{head}0->1 start 0 size 68719476737\n"), "up to 64 GiB"),
        (head, "line 2: 1 connections are announced, and 0 follow"),
        ("Nodes 4\nTriggers 1\n", "line 2: 1 triggers are announced, and 0 follow"),
        ("Nodes 4\ntrigger id 1 oneshot 5\n", "line 2: `5` where `id N`"),
        ("Nodes 4\ntrigger id 1 multishot\n", "line 2: `multishot` where"),
        ("Nodes 4\ntrigger id 1 barrier\n", "`oneshot`, or `barrier` with `count N`"),
        (&format!("{head}0->1 trigger 7 size 1\n"), "line 3: trigger 7 is described nowhere"),
        ("Nodes 2 3\n", "line 1: `3` where the end of the line is accepted"),
    ];
    for (text, accepted) in cases {
        let error = matrix(text).expect_err(text).to_string();
        assert!(error.contains(accepted), "{text:?}: {error}");
    }
}

#[test]
fn a_trigger_that_nothing_here_can_fire_is_refused() {
    let with = |first: &str, second: &str, trigger: &str| {
        let flows = format!("0->1 id 1 start 0 size 1 {first}\n{second} trigger 1 size 1\n");
        format!("Nodes 4\nConnections 2\nTriggers 1\n{flows}trigger id 1 {trigger}\n")
    };
    let cases = [
        (
            with("", "0->2", "oneshot"),
            "line 6: trigger 1 is fired by 0 flows, where 1 are accepted",
        ),
        (with("send_done_trigger 1", "0->2", "barrier count 2"), "fired by 1 flows, where 2"),
        (with("send_done_trigger 1", "1->2", "oneshot"), "line 5: trigger 1 fires at host 0 and"),
        (with("", "0->2 send_done_trigger 1", "oneshot"), "the lines 5 wait for each other"),
    ];
    for (text, told) in cases {
        let error = matrix(&text).expect_err(&text).to_string();
        assert!(error.contains(told), "{text:?}: {error}");
    }
    let legal = with("recv_done_trigger 1", "1->2", "oneshot");
    assert!(matrix(&legal).is_ok(), "{legal}");
}

#[test]
fn a_list_that_cannot_be_meant_is_refused() {
    let cases = [
        ("", "line 1: `` where a number of flows is accepted"),
        ("2\n0 1 3 100 5 0\n", "line 1: 2 flows are announced, and 1 follow"),
        ("1\n0 9 3 100 5 0\n", "line 2: rank 9 where 0 to 3 are accepted"),
        ("1\n0 0 3 100 5 0\n", "line 2: `a flow from host 0 to itself`"),
        ("1\n0 1 3 100 5 -1\n", "line 2: `-1` where a start in seconds"),
        ("1\n0 1 3 100 5\n", "line 2: `` where a start in seconds"),
        ("1\n0 1 3 100 5 0 7\n", "line 2: `7` where the end of the line"),
    ];
    for (text, accepted) in cases {
        let error = hpcc::read(text.as_bytes(), &Nodes::hosts(4)).expect_err(text).to_string();
        assert!(error.contains(accepted), "{text:?}: {error}");
    }
    let wrong = [
        ("5 2 4\n0 5\n", "line 2: rank 5 where 0 to 4 are accepted"),
        ("5 2 4\n0 0\n", "line 2: `switch 0` was given before"),
        ("5 2 4\n0\n", "line 2: `` where the number of each switch"),
        ("many\n", "line 1: `many` where a number of nodes"),
    ];
    for (text, accepted) in wrong {
        let error = Nodes::read(text.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(accepted), "{text:?}: {error}");
    }
    let nodes = Nodes::read("4 1 3\n1\n".as_bytes()).expect("a topology");
    let error = hpcc::read("1\n0 1 3 100 5 0\n".as_bytes(), &nodes).expect_err("a switch");
    assert!(error.to_string().contains("a node that is a host"), "{error}");
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_name() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("wrong.cm"), "Nodes 4\nnothing\n").expect("a folder of tests");
    let settings = TraceSettings::ConnectionMatrix { file: path("wrong.cm") };
    let error = settings.schedule_for(4).expect_err("no flow").to_string();
    assert!(error.contains("wrong.cm: line 2: `nothing`"), "{error}");
    std::fs::write(path("flow.txt"), "1\n0 1 3 100 5 0\n").expect("a folder of tests");
    std::fs::write(path("topology.txt"), "9 x\n").expect("a folder of tests");
    let topology = Some(path("topology.txt"));
    let settings = TraceSettings::Flows { file: path("flow.txt"), topology };
    let error = settings.schedule_for(4).expect_err("no number").to_string();
    assert!(error.contains("topology.txt: line 1: `x`"), "{error}");
    let before = settings.digest().expect("two files");
    std::fs::write(path("topology.txt"), "5 1 4\n2\n").expect("a folder of tests");
    assert_ne!(settings.digest().expect("two files"), before);
    assert_eq!(settings.schedule_for(4).expect("four hosts").ranks.len(), 4);
    assert!(settings.schedule_for(3).is_err(), "more hosts than there are");
}

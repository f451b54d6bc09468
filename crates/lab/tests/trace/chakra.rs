//! Chakra traces: what nodes do and wait for, which ranks meet in a collective, and what is refused
//! with its node. The files are written byte by byte here, without the reader's own definitions.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use weft_lab::trace::chakra::{self, Roofline};
use weft_lab::trace::collectives::Collective;
use weft_lab::trace::settings::TraceSettings;
use weft_lab::trace::{Schedule, TraceError};
use weft_units::{Bytes, Rate, Time};

use super::{PACKET, WAY, run};

const METADATA: u64 = 1;
const LOAD: u64 = 2;
const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const RECEIVE: u64 = 6;
const COLLECTIVE: u64 = 7;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field with a number.
fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// A field with bytes, a text or a message.
fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A node as it is written.
#[derive(Clone, Default)]
struct Node(Vec<u8>);

/// A node of a type, with a name after its number.
fn node(id: u64, kind: u64) -> Node {
    let mut out = Vec::new();
    number(&mut out, 1, id);
    bytes(&mut out, 2, format!("node-{id}").as_bytes());
    number(&mut out, 3, kind);
    Node(out)
}

impl Node {
    /// Waits for the data of others, which are listed in one field.
    fn after(mut self, others: &[u64]) -> Node {
        let mut packed = Vec::new();
        others.iter().for_each(|other| varint(&mut packed, *other));
        bytes(&mut self.0, 5, &packed);
        self
    }

    /// Waits for the control flow of another, in a field of its own.
    fn behind(mut self, other: u64) -> Node {
        number(&mut self.0, 4, other);
        self
    }

    fn takes(mut self, micros: u64) -> Node {
        number(&mut self.0, 7, micros);
        self
    }

    /// An attribute with an `int64_val`.
    fn with(self, name: &str, value: u64) -> Node {
        self.with_field(name, |out| number(out, 9, value))
    }

    fn with_text(self, name: &str, value: &str) -> Node {
        self.with_field(name, |out| bytes(out, 29, value.as_bytes()))
    }

    fn with_flag(self, name: &str, value: bool) -> Node {
        self.with_field(name, |out| number(out, 27, value.into()))
    }

    fn with_field(mut self, name: &str, value: impl Fn(&mut Vec<u8>)) -> Node {
        let mut attribute = Vec::new();
        bytes(&mut attribute, 1, name.as_bytes());
        value(&mut attribute);
        bytes(&mut self.0, 10, &attribute);
        self
    }

    /// What goes into it, as text.
    fn input(mut self, text: &str) -> Node {
        let mut values = Vec::new();
        bytes(&mut values, 1, text.as_bytes());
        bytes(&mut self.0, 8, &values);
        self
    }
}

/// A message of so many bytes.
fn send(id: u64, to: u64, size: u64) -> Node {
    node(id, SEND).with("comm_dst", to).with("comm_size", size)
}

fn receive(id: u64, from: u64, size: u64) -> Node {
    node(id, RECEIVE).with("comm_src", from).with("comm_size", size)
}

fn collective(id: u64, kind: u64, size: u64) -> Node {
    node(id, COLLECTIVE).with("comm_type", kind).with("comm_size", size)
}

/// A file of a rank.
fn file(nodes: &[Node]) -> Vec<u8> {
    let mut metadata = Vec::new();
    bytes(&mut metadata, 1, b"0.0.4");
    let mut out = Vec::new();
    for message in std::iter::once(&metadata).chain(nodes.iter().map(|node| &node.0)) {
        varint(&mut out, message.len() as u64);
        out.extend_from_slice(message);
    }
    out
}

/// Writes a trace under a name of its own; the name.
fn written(name: &str, ranks: &[Vec<Node>]) -> String {
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chakra-{name}"));
    let prefix = prefix.display().to_string();
    for (rank, nodes) in ranks.iter().enumerate() {
        std::fs::write(format!("{prefix}.{rank}.et"), file(nodes)).expect("a folder of tests");
    }
    prefix
}

fn read_with(name: &str, ranks: &[Vec<Node>], roofline: Roofline) -> Result<Schedule, TraceError> {
    let files: Vec<PathBuf> = chakra::files(&written(name, ranks)).expect("these files");
    chakra::read(&files[..ranks.len()], None, roofline)
}

fn read(name: &str, ranks: &[Vec<Node>]) -> Result<Schedule, TraceError> {
    read_with(name, ranks, Roofline::default())
}

fn refused(name: &str, ranks: &[Vec<Node>]) -> String {
    read(name, ranks).expect_err("a trace that is wrong").to_string()
}

/// When the last rank is done.
fn end(schedule: &Schedule) -> Time {
    let played = run(schedule).expect("an end");
    played.ends.into_iter().max().expect("a rank")
}

#[test]
fn nodes_wait_for_data_and_control_in_exact_picoseconds() {
    let first = vec![
        node(3, COMPUTE).takes(2),
        // On the host itself, beside the accelerator.
        node(1, COMPUTE).takes(5).with_flag("is_cpu_op", true),
        send(9, 1, 300).after(&[3]),
        // Sends after both, though its number comes before theirs.
        send(0, 1, 100).with("comm_tag", 7).behind(9).after(&[1]),
    ];
    let second = vec![
        receive(0, 0, 300),
        receive(1, 0, 100).with("comm_tag", 7),
        node(2, COMPUTE).takes(3).after(&[0, 1]),
    ];
    let schedule = read("wait", &[first, second]).expect("a legal trace");
    let played = run(&schedule).expect("an end");
    let all = played.machine.account().passages().iter();
    let all: Vec<_> = all.map(|own| (own.offered, own.delivered)).collect();
    let (two, five) = (2_000_000, 5_000_000);
    assert_eq!(all, [(Time(two), Time(two + 2 * PACKET + WAY)), (Time(five), Time(five + WAY))]);
    assert_eq!(played.ends, [Time(five + PACKET), Time(five + WAY + 3_000_000)]);
}

#[test]
fn one_computation_at_a_time_has_the_accelerator() {
    let nodes = vec![
        node(0, COMPUTE).takes(2),
        node(1, COMPUTE).takes(3),
        node(2, COMPUTE).takes(4).with_flag("is_cpu_op", true),
        // Memory is beside all of them.
        node(3, LOAD).takes(9),
    ];
    let schedule = read("one", &[nodes[..3].to_vec(), Vec::new()]).expect("a legal trace");
    assert_eq!(run(&schedule).expect("an end").ends[0], Time(5_000_000));
    let schedule = read("one", &[nodes, Vec::new()]).expect("a legal trace");
    assert_eq!(run(&schedule).expect("an end").ends[0], Time(9_000_000));
}

#[test]
fn collectives_are_those_of_the_generated_traces() {
    let cases = [
        (0, Collective::AllreduceRing, 400),
        (1, Collective::Reduce, 400),
        (2, Collective::AllgatherRing, 400),
        (3, Collective::Gather, 400),
        (4, Collective::Scatter, 400),
        (5, Collective::Broadcast, 400),
        (6, Collective::AllToAll, 100),
        (7, Collective::ReduceScatterRing, 400),
        (8, Collective::ReduceScatterRing, 400),
        (9, Collective::Barrier, 0),
    ];
    for (kind, operation, size) in cases {
        let ranks: Vec<_> = (0..4).map(|_| vec![collective(5, kind, 400)]).collect();
        let schedule = read("collectives", &ranks).expect("a legal trace");
        let generated = operation.schedule(4, Bytes(size), 1);
        assert_eq!(schedule.traffic(), generated.traffic(), "{operation:?}");
        assert_eq!(end(&schedule), end(&generated), "{operation:?}");
    }
}

#[test]
fn groups_of_ranks_meet_beside_each_other() {
    let groups = "['[{\"pg_name\": \"0\", \"ranks\": []}, {\"pg_name\": \"5\", \"ranks\": [0, 2]}, \
                  {\"pg_name\": \"6\", \"ranks\": [3, 1]}]']";
    let own = |rank: u64| if rank.is_multiple_of(2) { "5" } else { "6" };
    let ranks: Vec<_> = (0..4)
        .map(|rank| {
            vec![
                node(0, METADATA).input(groups),
                collective(1, 0, 400).with_text("pg_name", own(rank)).after(&[0]),
                collective(2, 9, 0).with_text("pg_name", "0").after(&[1]),
            ]
        })
        .collect();
    let schedule = read("groups", &ranks).expect("a legal trace");
    let two = Collective::AllreduceRing.schedule(2, Bytes(400), 1);
    let all = Collective::Barrier.schedule(4, Bytes(0), 1);
    let messages = |own: &Schedule| own.traffic().messages;
    assert_eq!(messages(&schedule), 2 * messages(&two) + messages(&all));
    let expected = end(&two).0 + end(&all).0;
    assert_eq!(end(&schedule), Time(expected), "two pairs at once, then all");
    // The same groups from a file; the trace alone does not describe them.
    let bare: Vec<_> = ranks.iter().map(|nodes| nodes[..2].to_vec()).collect();
    let bare: Vec<_> =
        bare.into_iter().map(|nodes| vec![node(0, METADATA), nodes[1].clone()]).collect();
    let error = refused("bare", &bare);
    assert!(
        error.contains("node 1 (`node-1`): pg_name = 5, a group that nothing describes"),
        "{error}"
    );
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chakra-groups.json");
    std::fs::write(&file, "{\"5\": [0, 2], \"6\": [3, 1]}").expect("a folder of tests");
    let settings = TraceSettings::Chakra {
        file: format!("{}.2.et", written("bare", &bare)),
        groups: Some(file.display().to_string()),
        peak: None,
        memory: None,
    };
    let schedule = settings.schedule_for(4).expect("a legal trace");
    assert_eq!(end(&schedule), end(&two));
    let before = settings.digest().expect("five files");
    std::fs::write(&file, "{\"5\": [0, 9]}").expect("a folder of tests");
    assert_ne!(settings.digest().expect("five files"), before);
    let error = settings.schedule_for(4).expect_err("no rank 9").to_string();
    assert!(
        error.contains("chakra-groups.json: the trace cannot be read: group 5: rank 9"),
        "{error}"
    );
}

#[test]
fn the_root_is_a_rank_and_the_group_has_its_own_order() {
    let groups = "[{\"pg_name\": \"a\", \"ranks\": [2, 0, 1]}]";
    let ranks = |root: Option<u64>| -> Vec<Vec<Node>> {
        let nodes = |_| {
            let own = collective(1, 5, 100).with_text("pg_name", "a");
            let own = root.map_or(own.clone(), |root| own.with("root", root));
            vec![node(0, METADATA).input(groups), own]
        };
        (0..3).map(nodes).collect()
    };
    let senders = |root| {
        let played = run(&read("root", &ranks(root)).expect("a legal trace")).expect("an end");
        let all = played.machine.account().passages().iter();
        all.map(|own| own.from).collect::<Vec<_>>()
    };
    assert_eq!(senders(None), [2, 2], "the first of the group, to one and then to the other");
    assert_eq!(senders(Some(1)), [1, 1]);
    let error = refused("root", &ranks(Some(7)));
    assert!(error.contains("root = 7, where one of [2, 0, 1] is accepted"), "{error}");
}

#[test]
fn work_takes_as_long_as_operations_or_bytes() {
    let node = |operations, touched| {
        node(0, COMPUTE).with("num_ops", operations).with("tensor_size", touched)
    };
    let roofline =
        Roofline { peak: Some(1e12), memory: Some(Rate::from_bits_per_second(8_000_000_000)) };
    let takes = |operations, touched| {
        let trace = [vec![node(operations, touched)], Vec::new()];
        end(&read_with("work", &trace, roofline).expect("a legal trace"))
    };
    assert_eq!(takes(3_000_000, 1000), Time(3_000_000), "an operation takes a picosecond");
    assert_eq!(takes(1000, 5000), Time(5_000_000), "a byte takes a nanosecond");
    let error = refused("work", &[vec![node(5, 1)], Vec::new()]);
    assert!(
        error.contains("num_ops = 5 and no duration: needed is a duration_micros, or `peak`"),
        "{error}"
    );
    let load = super::chakra::node(4, LOAD).with("tensor_size", 2000);
    let trace = [vec![load], Vec::new()];
    assert_eq!(end(&read_with("work", &trace, roofline).expect("legal")), Time(2_000_000));
    let error = refused("work", &trace);
    assert!(error.contains("tensor_size = 2000 B and no duration"), "{error}");
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_node() {
    let nothing = Vec::new();
    let pair = |first: Vec<Node>, second: Vec<Node>| [first, second];
    let cases: [(&str, [Vec<Node>; 2]); 14] = [
        (
            "node 1 (`node-1`): it waits for node 8",
            pair(vec![node(1, COMPUTE).after(&[8])], nothing.clone()),
        ),
        (
            "the nodes 1, 2 wait for each other",
            pair(vec![node(1, COMPUTE).after(&[2]), node(2, COMPUTE).behind(1)], nothing.clone()),
        ),
        (
            "a number that another node",
            pair(vec![node(1, COMPUTE), node(1, COMPUTE)], nothing.clone()),
        ),
        ("type 77, where 0 to 10", pair(vec![node(1, 77)], nothing.clone())),
        ("without comm_size", pair(vec![node(1, SEND).with("comm_dst", 1)], nothing.clone())),
        ("rank 2 where 0 to 1 are accepted", pair(vec![send(1, 2, 5)], nothing.clone())),
        (
            "comm_src = 1 in the file of rank 0",
            pair(vec![send(1, 1, 5).with("comm_src", 1)], nothing.clone()),
        ),
        (
            "comm_tag = 2147483648, where 0 to 2147483647",
            pair(vec![send(1, 1, 5).with("comm_tag", 1 << 31)], nothing.clone()),
        ),
        (
            "comm_size = 68719476737 B, where up to 68719476736",
            pair(vec![send(1, 1, (1 << 36) + 1)], nothing.clone()),
        ),
        (
            "rank 0 sends 1 messages to rank 1 with comm_tag 0, which receives 0",
            pair(vec![send(1, 1, 5)], nothing.clone()),
        ),
        (
            "comm_type = 10, where 0 (ALL_REDUCE) to 9",
            pair(vec![collective(1, 10, 5)], nothing.clone()),
        ),
        (
            "a collective that 1 of 2 ranks of its group reach",
            pair(vec![collective(1, 0, 5)], nothing.clone()),
        ),
        (
            "allgather_ring of 5 B from place 0 of the group, where rank 0 has allreduce_ring of 5 B",
            pair(vec![collective(1, 0, 5)], vec![collective(1, 2, 5)]),
        ),
        (
            "comm_size = String(\"x\"), where a whole number",
            pair(
                vec![node(1, SEND).with("comm_dst", 1).with_text("comm_size", "x")],
                nothing.clone(),
            ),
        ),
    ];
    for (expected, trace) in cases {
        let error = refused("wrong", &trace);
        assert!(error.contains(expected), "{error}\nwhere {expected} was to be said");
        assert!(error.contains("chakra-wrong."), "{error}");
    }
    let error = chakra::files("nowhere/trace.et").expect_err("no file").to_string();
    assert!(error.contains("nowhere/trace.0.et is not there"), "{error}");
}

#[test]
fn a_file_that_is_cut_short_is_told_by_its_byte() {
    let prefix = written("cut", &[vec![node(1, COMPUTE).takes(3)], Vec::new()]);
    let path = format!("{prefix}.0.et");
    let whole = std::fs::read(&path).expect("the file");
    std::fs::write(&path, &whole[..whole.len() - 2]).expect("a folder of tests");
    let files = chakra::files(&prefix).expect("two files");
    let error = chakra::read(&files, None, Roofline::default()).expect_err("half a node");
    let error = error.to_string();
    assert!(error.contains("chakra-cut.0.et: the trace cannot be read: at byte 8"), "{error}");
    // Files that are not traces.
    std::fs::write(&path, b"num_ranks 2\n").expect("a folder of tests");
    let error = chakra::read(&files, None, Roofline::default()).expect_err("a GOAL text");
    assert!(error.to_string().contains("the metadata of a Chakra trace is accepted"), "{error}");
}

/// One of each kind of node, of both ranks.
fn each_kind() -> [Vec<Node>; 2] {
    let both = |rank: u64| {
        vec![
            node(0, METADATA).input("[{\"pg_name\": \"0\", \"ranks\": [0, 1]}]"),
            node(1, COMPUTE).takes(3).behind(0),
            collective(2, 0, 64).with_text("pg_name", "0").after(&[1]),
            send(3, 1 - rank, 70).with("comm_tag", 4).after(&[2]),
            receive(4, 1 - rank, 70).with("comm_tag", 4),
            collective(5, 5, 9).with("root", 1).after(&[4, 3]),
        ]
    };
    [both(0), both(1)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_bytes_make_the_reader_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let prefix = written("mutated", &each_kind());
        let path = format!("{prefix}.0.et");
        let mut bytes = std::fs::read(&path).expect("the file");
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&path, &bytes).expect("a folder of tests");
        let files = chakra::files(&prefix).expect("two files");
        match chakra::read(&files, None, Roofline::default()) {
            Ok(schedule) => prop_assert!(schedule.check_messages().is_ok()),
            Err(error) => prop_assert!(error.to_string().contains("chakra-mutated.")),
        }
    }
}

#[test]
fn the_trace_that_is_mutated_runs() {
    let schedule = read("each", &each_kind()).expect("a legal trace");
    assert!(end(&schedule) > Time(3_000_000));
}

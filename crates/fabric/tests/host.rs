//! Hosts by hand: what 64 B and 1500 B cost on given buses, what a pipeline can do, what crosses a
//! bus how often.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::sync::Arc;

use proptest::prelude::*;
use weft_fabric::host::{Connection, FlagSettings, Host, HostSettings, Output, Piece};
use weft_units::{Bytes, Span, Time};

/// A bus of 10 ns/B, crossed twice by the copy of the sender; an adapter of 15.625 ns/B.
const COPY: &str = r#"
send = ["call", "copy", "adapter"]
receive = ["deposit", "receive_call", "receive_copy"]
program = { processor = "cpu" }
[resource.cpu]
[resource.bus]
rate = "100 MB/s"
[resource.pci]
[stage.call]
fixed = "1 us"
uses = { cpu = 0 }
[stage.copy]
unit = { chunk = "64 B" }
uses = { cpu = 0, bus = 2 }
[stage.adapter]
unit = "packet"
rate = "64 MB/s"
uses = { pci = 1 }
[stage.deposit]
unit = "packet"
uses = { bus = 1 }
[stage.receive_call]
fixed = "2 us"
uses = { cpu = 0 }
[stage.receive_copy]
unit = { chunk = "64 B" }
uses = { cpu = 0, bus = 2 }
"#;

fn settings(text: &str) -> HostSettings {
    toml::from_str(text).unwrap()
}

/// Two hosts with a channel between them that takes no time.
struct Pair {
    initiator: Host,
    target: Host,
    out: Vec<Output>,
    sent: Vec<(u32, Time)>,
    delivered: Vec<(u32, Time)>,
}

impl Pair {
    fn new(text: &str) -> Pair {
        let build = || settings(text).build(Bytes(64)).unwrap();
        let (mut initiator, mut target) = (build(), build());
        let connection = Arc::new(Connection::new(FlagSettings::default()));
        initiator.connect(1, &connection);
        target.accept(0, &connection);
        Pair { initiator, target, out: Vec::new(), sent: Vec::new(), delivered: Vec::new() }
    }

    fn send(&mut self, now: Time, message: u32, size: u64) {
        let piece = Piece::new(message, Some(1), Bytes(size), Bytes(size), true);
        self.initiator.send(now, piece, &mut self.out);
        self.sort_out(now);
    }

    fn sort_out(&mut self, now: Time) {
        while !self.out.is_empty() {
            for output in std::mem::take(&mut self.out) {
                match output {
                    Output::Packet(packet) => {
                        let mut packet = packet;
                        packet.peer = Some(0);
                        self.target.receive(now, packet, &mut self.out);
                    }
                    Output::Room(_) => self.initiator.wake(now, 1, &mut self.out),
                    Output::Released(_) => self.initiator.release(now, &mut self.out),
                    Output::Sent(message) => self.sent.push((message, now)),
                    Output::Delivered(message) => self.delivered.push((message, now)),
                    Output::Turn(_) | Output::TurnEnded(_) => {
                        unreachable!("the two have a connection")
                    }
                }
            }
        }
    }

    fn run(&mut self) {
        loop {
            let now = self.initiator.next_time().min(self.target.next_time());
            if now == Time::NEVER {
                return;
            }
            let first = self.initiator.next_time() == now;
            let host = if first { &mut self.initiator } else { &mut self.target };
            host.advance(&mut self.out);
            self.sort_out(now);
        }
    }

    fn crossed(host: &Host, name: &str) -> u64 {
        host.resources().find(|(other, _)| *other == name).unwrap().1.crossed.0
    }
}

/// Call 1, copy 2 x 0.64, adapter 1; deposit 0.64, call 2, copy 2 x 0.64.
#[test]
fn a_message_of_64_bytes_by_hand() {
    let mut pair = Pair::new(COPY);
    pair.send(Time::ZERO, 7, 64);
    pair.run();
    assert_eq!(pair.sent, [(7, Time(2_280_000))]);
    assert_eq!(pair.delivered, [(7, Time(3_280_000 + 640_000 + 2_000_000 + 1_280_000))]);
    let spent: Vec<_> = pair.initiator.stages().map(|stage| stage.residence.0).collect();
    assert_eq!(spent[..3], [1_000_000, 1_280_000, 1_000_000]);
    assert_eq!(Pair::crossed(&pair.initiator, "bus"), 128);
    assert_eq!(Pair::crossed(&pair.target, "bus"), 192);
}

/// 23 chunks of 64 B and one of 28 B. The copy takes 31 us with the call; when its last 64 B are
/// through, at 30.44, the adapter takes 1 us for them and the target's bus 0.64; the 28 B, through
/// the adapter 0.4375 later, wait for that bus and take 0.28. Then the receiver calls for 2 and
/// copies for 30.
#[test]
fn a_message_of_1500_bytes_by_hand() {
    let mut pair = Pair::new(COPY);
    pair.send(Time::ZERO, 0, 1500);
    pair.run();
    assert_eq!(pair.sent, [(0, Time(31_000_000))]);
    let deposited = 31_440_000 + 640_000 + 280_000;
    assert_eq!(pair.delivered, [(0, Time(deposited + 2_000_000 + 30_000_000))]);
    let all: u64 = [&pair.initiator, &pair.target]
        .iter()
        .flat_map(|host| host.stages())
        .map(|stage| stage.residence.0)
        .sum();
    assert_eq!(all, pair.delivered[0].1.0, "the stages add up to the way");
}

/// Where copies are handed from stage to stage, what the busiest can do is what all can do, and the
/// receiver's bus, crossed three times, is busiest: 30 ns/B.
#[test]
fn throughput_is_that_of_the_busiest_resource() {
    let mut pair = Pair::new(COPY);
    let (messages, size) = (400, 3200);
    for message in 0..messages {
        pair.send(Time::ZERO, message, size);
    }
    pair.run();
    let steady = pair.delivered[380].1.since(pair.delivered[200].1);
    let per_byte = steady.0 as f64 / (180 * size) as f64;
    assert!((29_900.0..30_400.0).contains(&per_byte), "{per_byte} ps/B");
    let busy = pair.target.resources().find(|(name, _)| *name == "bus").unwrap().1.busy;
    let share = busy.0 as f64 / pair.delivered.last().unwrap().1.0 as f64;
    assert!(share > 0.95, "its bus is busy {share} of the time");
}

/// Memory on the adapter (SCILAN 4.9): the message does not cross the bus on its way in, and the
/// copy is limited by two traversals, 20 ns/B.
#[test]
fn two_traversals_against_three() {
    let text = COPY.replace(
        "[stage.deposit]\nunit = \"packet\"\nuses = { bus = 1 }",
        "[stage.deposit]\nunit = \"packet\"\nuses = { pci = 1 }",
    );
    let mut pair = Pair::new(&text);
    for message in 0..400 {
        pair.send(Time::ZERO, message, 3200);
    }
    pair.run();
    let steady = pair.delivered[380].1.since(pair.delivered[200].1);
    let per_byte = steady.0 as f64 / (180.0 * 3200.0);
    assert!((20_000.0..20_800.0).contains(&per_byte), "{per_byte} ps/B with the calls");
    assert_eq!(Pair::crossed(&pair.target, "bus"), 2 * 400 * 3200);
}

/// The DMA is set up in 34.9 us and moves 88 MB/s; programmed I/O moves 55 MB/s (SCILAN 3.6). They
/// break even near 5 KB.
#[test]
fn programmed_io_below_dma_from() {
    let text = r#"
        send = ["pio", "set_up", "dma"]
        [stage.pio]
        rate = "55 MB/s"
        below = "5120 B"
        [stage.set_up]
        fixed = "34.9 us"
        from = "5120 B"
        [stage.dma]
        rate = "88 MB/s"
        from = "5120 B"
    "#;
    let time = |size| {
        let mut pair = Pair::new(text);
        pair.send(Time::ZERO, 0, size);
        pair.run();
        pair.delivered[0].1
    };
    assert_eq!(time(5119), Time(93_072_727));
    assert_eq!(time(5120), Time(34_900_000 + 58_181_818));
}

/// Pages of 4 KiB that are locked before the copy, 5 us each: three for 10 000 B, one for 1 B.
#[test]
fn pages_are_locked_one_by_one() {
    let text = r#"
        send = ["lock_page"]
        [resource.cpu]
        [stage.lock_page]
        unit = { chunk = "4 KiB" }
        fixed = "5 us"
        uses = { cpu = 0 }
    "#;
    for (size, pages) in [(10_000, 3), (8192, 2), (1, 1)] {
        let mut pair = Pair::new(text);
        pair.send(Time::ZERO, 0, size);
        pair.run();
        assert_eq!(pair.delivered, [(0, Time(pages * 5_000_000))], "{size} B");
    }
}

/// Packets go on one by one through a stage that is for longer messages only.
#[test]
fn what_a_stage_is_not_for_does_not_wait_in_it() {
    let text = r#"
        send = ["copy", "check"]
        [resource.cpu]
        [stage.copy]
        unit = { chunk = "64 B" }
        rate = "64 MB/s"
        uses = { cpu = 0 }
        [stage.check]
        fixed = "10 us"
        from = "1 KiB"
    "#;
    let mut host = settings(text).build(Bytes(64)).unwrap();
    let mut out = Vec::new();
    host.send(Time::ZERO, Piece::new(0, None, Bytes(128), Bytes(128), true), &mut out);
    host.advance(&mut out);
    assert!(matches!(out[..], [Output::Packet(_)]), "{out:?}");
}

/// A check of 10 us a 128 B behind the copy: the bytes do not wait, the end does.
#[test]
fn a_stage_in_passing_holds_only_the_end() {
    let text = r#"
        send = ["copy", "check"]
        [resource.cpu]
        [stage.copy]
        unit = { chunk = "64 B" }
        rate = "64 MB/s"
        uses = { cpu = 0 }
        [stage.check]
        unit = { chunk = "128 B" }
        fixed = "10 us"
        uses = { cpu = 0 }
        in_passing = true
    "#;
    let ends = packets_of(text, 192);
    assert_eq!(ends, [(1, 64, false), (2, 64, false), (13, 64, false), (23, 0, true)]);
    // A store of 1 us for each packet behind the check, and none for the end.
    let text = text.replace("\"check\"]", "\"check\", \"store\"]")
        + "[resource.bus]\n[stage.store]\nunit.chunk = '64 B'\nfixed = '1 us'\nuses = { bus = 1 }\n";
    let ends = packets_of(&text, 192);
    assert_eq!(ends, [(2, 64, false), (3, 64, false), (14, 64, false), (23, 0, true)]);
}

/// When the packets of one message leave a host, in microseconds, their bytes, and which is the last.
fn packets_of(text: &str, size: u64) -> Vec<(u64, u64, bool)> {
    let mut host = settings(text).build(Bytes(64)).unwrap();
    let mut out = Vec::new();
    host.send(Time::ZERO, Piece::new(0, None, Bytes(size), Bytes(size), true), &mut out);
    let mut packets = Vec::new();
    while host.next_time() != Time::NEVER {
        let now = host.next_time();
        host.advance(&mut out);
        packets.extend(out.drain(..).filter_map(|output| match output {
            Output::Packet(packet) => Some((now.0 / 1_000_000, packet.bytes.0, packet.last)),
            _ => None,
        }));
    }
    packets
}

/// With two packets on the way the third waits for the first release.
#[test]
fn a_full_adapter_stalls_the_stage_before_it() {
    let text = r#"
        send = ["store"]
        receive = ["deposit"]
        posted = { packets = 2, until = "deposit" }
        [resource.bus]
        [stage.store]
        unit = "packet"
        fixed = "1 us"
        uses = { bus = 1 }
        [stage.deposit]
        unit = "packet"
        fixed = "5 us"
        uses = { bus = 1 }
    "#;
    let mut pair = Pair::new(text);
    pair.send(Time::ZERO, 0, 256);
    pair.run();
    // Stores end at 1, 2, 7, 12; the first deposit ends at 6, so that the third store ends at 7.
    assert_eq!(pair.sent, [(0, Time(12_000_000))]);
    assert_eq!(pair.delivered, [(0, Time(21_000_000))]);
}

/// A program that sleeps is interrupted once, however much comes while it wakes up.
#[test]
fn one_sleep_one_interrupt() {
    let text = COPY
        .replace("\"receive_call\"", "\"interrupt\", \"receive_call\"")
        .replace("processor = \"cpu\"", "processor = \"cpu\", spin = \"50 us\"")
        + "[stage.interrupt]\nfixed = \"100 us\"\nuses = { cpu = 0 }\nwhen = \"asleep\"\n";
    let mut pair = Pair::new(&text);
    let sleeping = Time(60_000_000);
    for message in 0..3 {
        pair.send(sleeping, message, 64);
    }
    pair.run();
    assert_eq!(pair.target.interrupts(), 1);
    assert_eq!(pair.delivered.len(), 3);
    assert_eq!(pair.delivered[0].1, sleeping + Span(103_920_000 + 3_280_000));
    let last = pair.delivered[2].1;
    pair.send(last + Span::from_ns(40_000), 3, 64);
    pair.run();
    assert_eq!(pair.target.interrupts(), 1, "it still looks");
}

/// A buffer of 128 B under a message of 256 B. The third store, at 2 us, finds it full, looks twice
/// and sleeps; the first 64 B are received at 11 us, and it goes on.
#[test]
fn a_full_receiver_buffer_stalls_the_sender() {
    let text = r#"
        send = ["store"]
        receive = ["copy"]
        window = { buffer = "128 B", fill = "store", release = "copy", look = "2 us" }
        [resource.cpu]
        [stage.store]
        unit = { chunk = "64 B" }
        fixed = "1 us"
        uses = { cpu = 0 }
        [stage.copy]
        unit = { chunk = "64 B" }
        fixed = "10 us"
        uses = { cpu = 0 }
    "#;
    let mut pair = Pair::new(text);
    pair.send(Time::ZERO, 0, 256);
    pair.run();
    // The third store pays for three looks, the last of which found room: 11 + 6 + 1 us. The
    // fourth, at 18 us, does not find the room of the second copy, which ends at 21 us.
    assert_eq!(pair.sent, [(0, Time(28_000_000))]);
    assert_eq!(pair.delivered, [(0, Time(41_000_000))]);
}

#[test]
fn a_buffer_that_can_never_be_emptied_is_refused() {
    let text = COPY.replace(
        "[resource.cpu]",
        "window = { buffer = \"4096 B\", fill = \"copy\", release = \"receive_copy\" }\n[resource.cpu]",
    );
    assert_eq!(
        settings(&text).build(Bytes(64)).unwrap_err().to_string(),
        "host.stage.receive_call.unit is more than fits: accepted is a chunk of at most the \
         receiver buffer, 4 KiB"
    );
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let refusal = |text: &str| settings(text).build(Bytes(64)).unwrap_err().to_string();
    assert_eq!(
        refusal("send = [\"cpoy\"]\n[stage.copy]"),
        "host.send is cpoy: accepted is a stage: copy"
    );
    assert_eq!(
        refusal("[stage.copy]"),
        "host.stage.copy is in neither path: accepted is a stage that is named in `send` or \
         `receive`"
    );
    assert_eq!(
        refusal("send = [\"copy\"]\n[stage.copy]\nuses = { bsu = 1 }\n[resource.bus]"),
        "host.stage.copy.uses is bsu: accepted is a resource: bus"
    );
    assert_eq!(
        refusal("send = [\"copy\"]\n[stage.copy]\n[resource.bus]"),
        "host.resource.bus is not used: accepted is a resource that a stage uses"
    );
    assert_eq!(
        refusal("send = [\"copy\"]\n[stage.copy]\nfrom = \"8 B\"\nbelow = \"8 B\""),
        "host.stage.copy.below is 8 B: accepted is more than `from`, 8 B"
    );
    assert_eq!(
        refusal("receive = [\"irq\"]\n[stage.irq]\nwhen = \"asleep\""),
        "host.program.processor is not given: accepted is a resource, since a stage asks for the \
         program: none is there"
    );
    assert_eq!(
        refusal("receive = [\"copy\"]\nposted = { packets = 2, until = \"copy\" }\n[stage.copy]"),
        "host.posted.until is copy: accepted is a stage of the receive path in packets: "
    );
    assert_eq!(
        refusal("sockets = { request = \"64 B\", lock = \"0 ns\", map = \"0 ns\", backlog = 1 }"),
        "host.sockets.lock is 0 ns: accepted is more than 0 ns"
    );
}

proptest! {
    /// Whatever the sizes and times, every message comes out once and in order, nothing stays
    /// inside, every byte crosses the buses as often as the stages say, and no resource is busy
    /// longer than time goes on.
    #[test]
    fn nothing_is_lost_in_a_host(
        sizes in prop::collection::vec((0u64..5000, 0u64..200_000), 1..40),
        posted in 1u32..6,
        room in 1u32..4,
    ) {
        let text = COPY
            .replace("unit = \"packet\"\nrate", &format!("room = {room}\nunit = \"packet\"\nrate"))
            .replace("program =", &format!(
                "posted = {{ packets = {posted}, until = \"deposit\" }}\nprogram ="
            ));
        let mut pair = Pair::new(&text);
        let mut now = Time::ZERO;
        for (message, (size, gap)) in sizes.iter().enumerate() {
            while pair.initiator.next_time().min(pair.target.next_time()) < now + Span(*gap) {
                let next = pair.initiator.next_time().min(pair.target.next_time());
                let first = pair.initiator.next_time() == next;
                let host = if first { &mut pair.initiator } else { &mut pair.target };
                host.advance(&mut pair.out);
                pair.sort_out(next);
            }
            now += Span(*gap);
            pair.send(now, message as u32, *size);
        }
        pair.run();
        let all = 0..sizes.len() as u32;
        let in_order = |list: &[(u32, Time)]| list.iter().map(|(key, _)| *key).eq(all.clone());
        prop_assert!(in_order(&pair.sent) && in_order(&pair.delivered));
        prop_assert!(pair.initiator.is_idle() && pair.target.is_idle());
        let bytes: u64 = sizes.iter().map(|(size, _)| size).sum();
        prop_assert_eq!(Pair::crossed(&pair.initiator, "bus"), 2 * bytes);
        prop_assert_eq!(Pair::crossed(&pair.target, "bus"), 3 * bytes);
        let end = pair.delivered.last().unwrap().1;
        for host in [&pair.initiator, &pair.target] {
            prop_assert!(host.resources().all(|(_, used)| used.busy.0 <= end.0));
        }
    }

    /// A packet has the parts that the initiator cut it into.
    #[test]
    fn packets_add_up_to_the_message(size in 0u64..3000, payload in 1u64..300) {
        let mut host = settings("").build(Bytes(payload)).unwrap();
        let mut out = Vec::new();
        host.send(Time::ZERO, Piece::new(0, None, Bytes(size), Bytes(size), true), &mut out);
        let packets: Vec<Piece> = out.iter().filter_map(|output| match output {
            Output::Packet(packet) => Some(*packet),
            _ => None,
        }).collect();
        prop_assert_eq!(packets.iter().map(|packet| packet.bytes.0).sum::<u64>(), size);
        prop_assert_eq!(packets.len() as u64, size.div_ceil(payload).max(1));
        prop_assert!(packets.iter().all(|packet| packet.bytes.0 <= payload));
    }
}

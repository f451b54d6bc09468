//! Hosts in front of a channel, with times worked out by hand.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod shipped;
mod sockets;
mod turns;

use proptest::prelude::*;
use weft_fabric::host::HostSettings;
use weft_fabric::measure::{Budget, Latency};
use weft_kernel::{Halt, Queue};
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_lab::drive::host_path::HostPath;
use weft_lab::{Plan, Request, simulate};
use weft_units::{Bytes, Span, Time};

/// A channel that takes every message at once and brings it after a delay; it loses those whose
/// number a test names. It may keep a barrier, which is passed the delay after the last has come.
#[derive(Debug)]
struct Wire {
    delay: Span,
    under_way: Queue<(Ticket, u16)>,
    told: Vec<Notice>,
    offered: u64,
    loses: Option<u64>,
    keeps_barrier: bool,
    at_barrier: Vec<(Ticket, u16)>,
}

impl Wire {
    fn new(delay: Span) -> Wire {
        Wire {
            delay,
            under_way: Queue::new(),
            told: Vec::new(),
            offered: 0,
            loses: None,
            keeps_barrier: false,
            at_barrier: Vec::new(),
        }
    }
}

impl Carrier for Wire {
    fn offer(&mut self, now: Time, message: Message) {
        let ticket = message.ticket;
        let lost = self.loses == Some(self.offered);
        self.offered += 1;
        self.told.push(Notice::Sent { time: now, ticket });
        for to in message.to.hosts() {
            match lost {
                true => self.told.push(Notice::Lost { time: now, ticket, to }),
                false => self.under_way.push(now + self.delay, (ticket, to)),
            }
        }
    }

    fn keeps_barrier(&self) -> bool {
        self.keeps_barrier
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        self.at_barrier.push((ticket, host));
        if self.at_barrier.len() == usize::from(hosts) {
            let all = self.at_barrier.drain(..);
            all.for_each(|one| self.under_way.push(now + self.delay, one));
        }
        true
    }

    fn next_time(&self) -> Time {
        let told = self.told.first().map_or(Time::NEVER, |notice| notice.time());
        told.min(self.under_way.next_time().unwrap_or(Time::NEVER))
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        notices.append(&mut self.told);
        while let Some((time, (ticket, to))) = self.under_way.pop_until(now) {
            notices.push(Notice::Delivered { time, ticket, to });
        }
    }

    fn steps(&self) -> u64 {
        self.offered
    }

    fn waiting(&self) -> Vec<String> {
        Vec::new()
    }
}

/// 10 ns/B a copy, on both sides; the target's begins when the whole message is there.
const COPIES: &str = r#"
    send = ["copy"]
    receive = ["call", "receive_copy"]
    [resource.cpu]
    [stage.copy]
    unit = "packet"
    rate = "100 MB/s"
    uses = { cpu = 0 }
    [stage.call]
    fixed = "1 us"
    uses = { cpu = 0 }
    [stage.receive_copy]
    unit = { chunk = "100 B" }
    rate = "100 MB/s"
    uses = { cpu = 0 }
"#;

fn path(text: &str, hosts: u16, wire: Wire) -> HostPath<Wire> {
    let settings: HostSettings = crate::settings::read(text);
    HostPath::new(&settings, hosts, Bytes(100), wire).unwrap()
}

fn message(from: u16, to: u16, size: u64, ticket: u64) -> Message {
    let (to, size, ticket) = (Destination::Host(to), Bytes(size), Ticket(ticket));
    Message { from, to, size, ticket }
}

fn run(path: &mut HostPath<Wire>) -> Vec<Notice> {
    let mut notices = Vec::new();
    while path.next_time() != Time::NEVER {
        path.advance(path.next_time(), &mut notices);
    }
    notices
}

/// 10 ns/B a copy, 1 us a check of 100 B, 1 us a call at the target.
const CHECKED: &str = r#"
    send = ["copy", "check"]
    receive = ["deposit", "call"]
    resend = "check"
    posted = { packets = 16, until = "deposit" }
    window = { buffer = "4 KiB", fill = "copy", release = "call" }
    [resource.cpu]
    [stage.copy]
    unit = { chunk = "100 B" }
    rate = "100 MB/s"
    uses = { cpu = 0 }
    [stage.check]
    fixed = "1 us"
    unit = { chunk = "100 B" }
    uses = { cpu = 0 }
    in_passing = true
    [stage.deposit]
    unit = "packet"
    [stage.call]
    fixed = "1 us"
    unit = { chunk = "1 KiB" }
    uses = { cpu = 0 }
"#;

/// The wire loses the first of two messages. Its copy, its check, the copy and the check of the second one,
/// and a copy and a check again take 1 us each, and 5 us on the wire lie between the last of them and the
/// target. The second message, whole at 9 us, waits for the first, whole at 11.
#[test]
fn what_is_stored_again_keeps_its_place_by_hand() {
    let wire = Wire { loses: Some(0), ..Wire::new(Span::from_ns(5_000)) };
    let mut path = path(CHECKED, 2, wire);
    path.offer(Time::ZERO, message(0, 1, 100, 1));
    path.offer(Time::ZERO, message(0, 1, 100, 2));
    let [first, second] = [1, 2].map(Ticket);
    assert_eq!(
        run(&mut path),
        [
            Notice::Sent { time: Time(8_000_000), ticket: second },
            Notice::Sent { time: Time(11_000_000), ticket: first },
            Notice::Delivered { time: Time(12_000_000), ticket: first, to: 1 },
            Notice::Delivered { time: Time(13_000_000), ticket: second, to: 1 },
        ]
    );
    assert_eq!(path.units_resent(), Some(1));
}

/// Copied by 3 us in packets of 1 us, the last 5 us on the wire, 1 us of call, 3 us of copy.
#[test]
fn a_message_of_three_packets_by_hand() {
    let mut path = path(COPIES, 2, Wire::new(Span::from_ns(5_000)));
    path.offer(Time::ZERO, message(0, 1, 300, 77));
    let ticket = Ticket(77);
    assert_eq!(
        run(&mut path),
        [
            Notice::Sent { time: Time(3_000_000), ticket },
            Notice::Delivered { time: Time(12_000_000), ticket, to: 1 },
        ]
    );
    let mut budget = Budget::default();
    path.ways().spend(&mut budget, &Budget::default());
    let rows: Vec<_> = budget.rows(1).map(|row| (row.stage.to_owned(), row.mean_ps)).collect();
    let by_hand = [("copy", 3e6), ("channel", 5e6), ("call", 1e6), ("receive_copy", 3e6)];
    assert!(rows.iter().map(|(name, mean)| (name.as_str(), *mean)).eq(by_hand), "{rows:?}");
}

/// Both directions at once share each host's processor and nothing else.
#[test]
fn a_host_that_sends_and_receives_does_one_at_a_time() {
    let mut path = path(COPIES, 2, Wire::new(Span::ZERO));
    path.offer(Time::ZERO, message(0, 1, 100, 0));
    path.offer(Time::ZERO, message(1, 0, 100, 1));
    let ends: Vec<u64> = run(&mut path)
        .into_iter()
        .filter(|notice| matches!(notice, Notice::Delivered { .. }))
        .map(|notice| notice.time().0)
        .collect();
    assert_eq!(ends, [3_000_000, 3_000_000]);
    let (name, cpu) = &path.resources()[0];
    assert_eq!((name.as_str(), cpu.busy, cpu.uses), ("cpu", Span::from_ns(6_000), 6));
}

#[test]
fn a_message_to_several_hosts_is_sent_once_and_received_by_each() {
    let mut path = path(COPIES, 3, Wire::new(Span::ZERO));
    let to = Destination::Hosts(0b110);
    let ticket = Ticket(3);
    path.offer(Time::ZERO, Message { from: 0, to, size: Bytes(100), ticket });
    let notices = run(&mut path);
    assert_eq!(notices.len(), 3);
    assert_eq!(path.carrier().offered, 1);
    let delivered: Vec<_> = notices[1..].iter().map(|notice| notice.time()).collect();
    assert_eq!(delivered, [Time(3_000_000), Time(3_000_000)]);
}

#[test]
fn a_message_with_a_lost_packet_is_lost() {
    let mut wire = Wire::new(Span::ZERO);
    wire.loses = Some(1);
    let mut path = path(COPIES, 2, wire);
    path.offer(Time::ZERO, message(0, 1, 300, 0));
    path.offer(Time::ZERO, message(0, 1, 300, 1));
    let ends: Vec<_> = run(&mut path)
        .into_iter()
        .filter(|notice| !matches!(notice, Notice::Sent { .. }))
        .map(|notice| (notice.ticket().0, matches!(notice, Notice::Lost { .. })))
        .collect();
    assert_eq!(ends, [(0, true), (1, false)]);
}

proptest! {
    /// Every message is sent once and delivered once, those of a pair in order, in order of time,
    /// and the stages account for all of its time.
    #[test]
    fn nothing_is_lost_between_hosts(
        offers in prop::collection::vec((0u16..4, 1u16..4, 0u64..900, 0u64..9_000_000), 1..60),
    ) {
        let mut path = path(COPIES, 4, Wire::new(Span::from_ns(700)));
        let mut notices = Vec::new();
        let mut now = Time::ZERO;
        let mut offered = Vec::new();
        for (number, (from, step, size, gap)) in offers.iter().enumerate() {
            now += Span(*gap);
            path.advance(now, &mut notices);
            let to = (from + step) % 4;
            path.offer(now, message(*from, to, *size, number as u64));
            offered.push((*from, to, now));
        }
        notices.extend(run(&mut path));
        prop_assert!(notices.is_sorted_by_key(|notice| notice.time()));
        let mut youngest = [[None; 4]; 4];
        let (mut sent, mut spent) = (0, 0);
        for notice in &notices {
            let number = notice.ticket().0;
            let (from, to, begun) = offered[number as usize];
            match notice {
                Notice::Sent { .. } => sent += 1,
                _ => {
                    let pair = &mut youngest[usize::from(from)][usize::from(to)];
                    prop_assert!(pair.replace(number) < Some(number));
                    spent += u128::from(notice.time().since(begun).0);
                }
            }
        }
        prop_assert_eq!((sent, notices.len()), (offers.len(), 2 * offers.len()));
        let mut budget = Budget::default();
        path.ways().spend(&mut budget, &Budget::default());
        prop_assert_eq!(budget.total_ps(), spent);
    }
}

/// Every kind of switch takes hosts in front of it by text alone: three copies of 1 us before the
/// channel, of which two go on beside the packets, and 4 us behind it.
#[test]
fn hosts_stand_in_front_of_any_channel() {
    let switches = [
        "scheduled = { latency = '90 ns', lead = '100 ns', scheduler = 'islip' }",
        "crossbar = { latency = '90 ns', contention = 'back_pressure' }",
        "output_buffered = { latency = '90 ns', buffers = 'unlimited', writers = 'unlimited' }",
        "input_queued = { latency = '90 ns', scheduler = 'islip' }",
        "output_queued = { latency = '90 ns' }",
        "ring = { acknowledgment = '8 B' }",
    ];
    for switch in switches {
        let one_way = |host: &str| {
            let text = format!(
                "[system]\ntitle = 'star'\nhosts = 4\n\
                 [channel.c]\npacket = '125 B'\npayload = '100 B'\n\
                 link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n\
                 adapter.send_buffers = 'unlimited'\nswitch.{switch}\n\
                 [workload.c]\nmessage = '300 B'\n\
                 source.list = [{{ time = '1 us', from = 1, to = 2 }}]\n\
                 [run]\nlength = '40 us'\nregime = 'from_empty'\n{host}"
            );
            let plan = Plan::new(&Request::of_text("hosts.toml", &text)).unwrap();
            let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap();
            let seen = &runs[0].observations;
            assert_eq!((seen.generated, seen.delivered), (1, 1), "{switch}");
            assert_eq!(seen.budget.total_ps(), seen.recorder(Latency::OneWay).sum_ps());
            seen.recorder(Latency::OneWay).max().unwrap()
        };
        let hosts = COPIES
            .replace("[resource", "[channel.c.host.resource")
            .replace("[stage", "[channel.c.host.stage");
        let longer = one_way(&format!("[channel.c.host]\n{hosts}")) - one_way("");
        let between = Span::from_ns(5_000)..=Span::from_ns(7_000);
        assert!(between.contains(&longer), "{switch}: {longer}");
    }
}

/// One packet a message: the stages of the channel are those of the messages and stand between those
/// of the hosts. Of three packets only the last one counts, and the channel is one stage.
#[test]
fn the_channel_is_opened_up_where_a_message_is_a_packet() {
    let stages = |size: &str| {
        let text = format!(
            "[system]\ntitle = 'star'\nhosts = 4\n\
             [channel.c]\npacket = '125 B'\npayload = '100 B'\n\
             link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n\
             adapter.send_buffers = 'unlimited'\n\
             switch.crossbar = {{ latency = '90 ns', contention = 'back_pressure' }}\n\
             [channel.c.host]\nsend = ['call']\nreceive = ['poll']\n\
             [channel.c.host.stage]\ncall.fixed = '2 us'\npoll.fixed = '3 us'\n\
             [program]\nrun.ping_pong = {{ size = '{size}', rounds = 2 }}\n\
             [run]\nregime = 'from_empty'\n"
        );
        let plan = Plan::new(&Request::of_text("hosts.toml", &text)).unwrap();
        let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap();
        let seen = &runs[0].observations;
        let rows = seen.budget.rows(seen.delivered).filter(|row| row.mean_ps > 0.0);
        rows.map(|row| (row.stage.to_owned(), row.mean_ps)).collect::<Vec<_>>()
    };
    let named = |rows: &[(&str, f64)]| -> Vec<(String, f64)> {
        rows.iter().map(|(name, mean)| ((*name).to_owned(), *mean)).collect()
    };
    let apart =
        [("call", 2e6), ("transmission", 1e6), ("wire", 4e4), ("switch", 9e4), ("poll", 3e6)];
    assert_eq!(stages("100 B"), named(&apart));
    assert_eq!(stages("300 B"), named(&[("call", 2e6), ("channel", 3.13e6), ("poll", 3e6)]));
}

/// A schedule with signalling of its own carries packets: hosts are refused, not passed over.
#[test]
fn hosts_before_channels_that_act_together_are_refused() {
    let text = "base = 'clint'\npreset = 'detailed'\n\
                [channel.bulk.host]\nsend = ['copy']\n[channel.bulk.host.stage.copy]\nfixed = '1 us'\n\
                [workload.bulk]\nload = 0.1\n";
    let error = Plan::new(&Request::of_text("hosts.toml", text)).unwrap_err().to_string();
    assert!(error.contains("channel.bulk.host"), "{error}");
}

/// A doorbell of 300 ns; what has come is found by a poll of 400 ns, or, where the program has slept,
/// wakes it by an interrupt of 5 us.
const WAITS: &str = r#"
    send = ["doorbell"]
    receive = ["interrupt", "poll"]
    posted.packets = 1
    program = { processor = "cpu", spin = "8 us" }
    [resource.cpu]
    [stage.doorbell]
    fixed = "300 ns"
    uses = { cpu = 0 }
    [stage.interrupt]
    fixed = "5 us"
    when = "asleep"
    uses = { cpu = 0 }
    [stage.poll]
    fixed = "400 ns"
    uses = { cpu = 0 }
"#;

/// Hosts come at 0, 4 and 10 us. The last doorbell is rung at 10.3 us and the barrier is passed 1 us
/// after it. Two programs have polled for less than 8 us since their doorbells (10.3 and 4.3 us) and
/// find it at 11.7 us. That of the first went to sleep at 8.3 us: 11.3 us, 5 us of interrupt, 0.4 us.
#[test]
fn a_barrier_of_the_channel_passes_the_hosts_on_both_sides() {
    let mut wire = Wire::new(Span::from_ns(1_000));
    wire.keeps_barrier = true;
    let mut path = path(WAITS, 3, wire);
    assert!(path.keeps_barrier());
    let mut notices = Vec::new();
    for (host, us) in [(0, 0), (1, 4), (2, 10)] {
        let now = Time(us * 1_000_000);
        path.advance(now, &mut notices);
        assert!(path.barrier(now, host, 3, Ticket(u64::from(host) + 70)));
    }
    notices.extend(run(&mut path));
    let passed =
        |ps, to: u16| Notice::Delivered { time: Time(ps), ticket: Ticket(70 + u64::from(to)), to };
    assert_eq!(notices, [passed(11_700_000, 1), passed(11_700_000, 2), passed(16_700_000, 0)]);
    assert_eq!(path.interrupts(), 1);
    // The one packet that may be on the way is none while others are awaited.
    let mut after = Vec::new();
    path.barrier(Time(20_000_000), 0, 3, Ticket(0));
    path.offer(Time(20_000_000), message(0, 1, 100, 1));
    path.advance(Time(30_000_000), &mut after);
    assert!(
        matches!(after[..], [Notice::Sent { .. }, Notice::Delivered { to: 1, .. }]),
        "{after:?}"
    );
    let mut budget = Budget::default();
    path.ways().spend(&mut budget, &Budget::default());
    let on_channel: Vec<f64> =
        budget.rows(1).filter(|row| row.stage == "channel").map(|row| row.mean_ps).collect();
    assert_eq!(
        on_channel,
        [1e6],
        "what is waited in a barrier is no message's time on the channel"
    );
}

/// Ranks that are in step come together, so that a barrier of the channel takes longer by what the
/// hosts do before it and behind it: 4 turns of 2280 ns more of Maestro's links to the beginning, and
/// 2 to the end; what the stages are on Memory Channel, against none.
#[test]
fn programs_behind_hosts_use_the_barrier_of_the_channel() {
    let barrier = |base: &str, channel: &str, stages: Option<(u64, u64)>| {
        let host = stages.map_or_else(String::new, |(call, poll)| {
            format!(
                "[channel.{channel}.host]\nsend = ['call']\nreceive = ['poll']\n\
                 [channel.{channel}.host.stage]\n\
                 call.fixed = '{call} ns'\npoll.fixed = '{poll} ns'\n"
            )
        });
        let text = format!(
            "base = '{base}'\n{host}[program]\nranks = 4\n\
             run.barrier = {{ rounds = 1, by = 'channel' }}\n[run]\nregime = 'from_empty'\n"
        );
        let plan = Plan::new(&Request::of_text("hosts.toml", &text)).unwrap();
        let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap();
        let of = |name: &str| {
            let own = runs.iter().flat_map(|run| &run.counters).find(|own| own.0 == name);
            own.unwrap().1
        };
        assert!(of("program_messages").abs() < 0.5, "{base}: messages stand in for the barrier");
        // Adapters count their announcements; behind hosts there are only messages.
        let counted = stages.map(|_| runs[0].observations.generated);
        assert_eq!(counted.unwrap_or(0), 0, "{base}: a barrier is no message");
        of("program_barrier_mean_us")
    };
    let maestro = |call, poll| barrier("maestro", "network", Some((call, poll)));
    let longer = maestro(22_800, 4_560) - maestro(13_680, 0);
    assert!((longer - 6.0 * 2.28).abs() < 1e-6, "{longer}");
    let memory_channel = |stages| barrier("memory-channel-2", "memory", stages);
    let longer = memory_channel(Some((3_000, 500))) - memory_channel(None);
    assert!((longer - 3.5).abs() < 1e-6, "{longer}");
}

//! Random channels of links with turns: cables and switches of their own, whatever hosts have in front of
//! them, that carry messages to one or several and barriers.

use std::collections::BTreeMap;
use std::fmt::Write;

use weft_kernel::{Stream, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::drive::Channel;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_units::{Bytes, Time};

use super::spec;

/// Random choices for a channel, from a stream of their own.
struct Draw(Stream);

impl Draw {
    fn new(case: usize) -> Draw {
        Draw(Streams::new(44).stream("turns", case))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    fn from(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The keys of a channel, and how many hosts it has.
struct Drawn {
    hosts: u64,
    keys: String,
}

fn link(draw: &mut Draw) -> String {
    let rate = [40, 100, 200, 200, 333, 800][draw.below(6) as usize];
    let mut link = format!("rate = '{rate} Mbit/s'");
    if draw.one_in(2) {
        let length = draw.from(1, 60);
        write!(link, ", length = '{length} m', delay_per_metre = '5 ns/m'").expect("a text");
    }
    link
}

fn turns(draw: &mut Draw) -> String {
    let around = draw.from(1, 4) * 270 + draw.below(2) * 7;
    let (burst, unit) = match draw.below(4) {
        0 => (", burst.single.packets = 1", 1),
        1 => (", burst.single.packets = 4", 4),
        _ => ("", 1),
    };
    let (symbol, most) = match draw.one_in(2) {
        true => ("four_bits", draw.from(1, 15)),
        false => ("eight_bits", draw.from(1, 40)),
    };
    let fifo = 16 * unit * draw.from(1, 40);
    let hold = draw.of(&["one_frame", "while_allowed"]);
    let decision = draw.of(&["before_turn_around", "after_turn_around"]);
    let phase = draw.of(&["'aligned'", "'random'", "{ at = ['17 ns', '900 ns'] }"]);
    format!(
        "turns = {{ turn_around = '{around} ns', symbol = '{symbol}', most = {most}, fifo = '{fifo} B', \
         hold = '{hold}', decision = '{decision}', phase = {phase}{burst} }}\n"
    )
}

fn transfer(draw: &mut Draw, payload: u64) -> (String, bool) {
    let (set_up, bus) = (draw.below(3) * 40, draw.of(&["shared", "independent"]));
    let rate = [200, 400, 400, 1_000][draw.below(4) as usize];
    let mut keys =
        format!("dma = {{ rate = '{rate} Mbit/s', set_up = '{set_up} ns' }}, bus = '{bus}'");
    let mut add = |more: String| {
        keys += ", ";
        keys += &more;
    };
    if draw.one_in(2) {
        let (most, by) = (draw.below(60), draw.of(&["manager", "host"]));
        add(format!("pio = {{ up_to = '{most} B', by = '{by}', rate = '150 Mbit/s' }}"));
    }
    if draw.one_in(3) {
        add(format!("path.memory.rate = '{} Mbit/s'", draw.from(1, 5) * 100));
    }
    if draw.one_in(3) {
        let (message, page) = (draw.below(900), draw.from(64, 600));
        add(format!(
            "manager = {{ message = '{message} ns', translation = '210 ns', page = '{page} B' }}"
        ));
    }
    if draw.one_in(4) {
        add(format!("reserved = '{} B'", payload + draw.below(2 * payload + 1)));
    }
    if draw.one_in(3) {
        add("forwarding = 'messages'".to_owned());
    }
    let answers = draw.one_in(3);
    if answers {
        add(format!("acknowledgment = '{} B'", draw.below(40)));
    }
    (format!("transfer = {{ {keys} }}\n"), answers)
}

/// A switch under a key.
fn switch(draw: &mut Draw, key: &str) -> String {
    let latency = draw.below(500);
    match draw.below(6) {
        0 => return format!("{key}.output_queued.latency = '{latency} ns'\n"),
        1 => {
            return format!(
                "{key}.crossbar = {{ latency = '{latency} ns', contention = 'back_pressure' }}\n"
            );
        }
        _ => {}
    }
    let (analysis, set_up) = (draw.below(3) * 950, draw.below(3) * 40);
    let (ports, rate) = (draw.from(1, 3), draw.from(2, 9) * 100);
    let forwarding = draw.of(&["packets", "packets", "messages"]);
    let start = draw.of(&["with_room", "with_room", "at_once"]);
    let multicast = !draw.one_in(4);
    let barrier = draw.of(&["", ", barrier = 'controller'", ", barrier = 'processor'"]);
    format!(
        "{key}.fifo_bus = {{ analysis = '{analysis} ns', set_up = '{set_up} ns', \
         rate = '{rate} Mbit/s', ports_per_interface = {ports}, forwarding = '{forwarding}', \
         multicast = {multicast}, multicast_start = '{start}'{barrier} }}\n"
    )
}

/// A tree of switches with two hosts or so each, some with two cables to the one above.
fn fabric(draw: &mut Draw, hosts: u64) -> String {
    let switches = draw.from(2, 5);
    let mut ports = vec![0; switches as usize];
    let mut cables = Vec::new();
    let mut port = |switch: u64| {
        let own = &mut ports[switch as usize];
        *own += 1;
        format!("s{switch}.{}", *own - 1)
    };
    let own = |draw: &mut Draw| match draw.one_in(3) {
        true => format!(", link = {{ {} }}", link(draw)),
        false => String::new(),
    };
    for host in 0..hosts {
        let end = port(draw.below(switches));
        cables.push(format!("{{ from = 'host {host}', to = '{end}'{} }}", own(draw)));
    }
    for switch in 1..switches {
        let above = draw.below(switch);
        let count = if draw.one_in(4) { 2 } else { 1 };
        for _ in 0..count {
            let (from, to) = (port(switch), port(above));
            cables.push(format!("{{ from = '{from}', to = '{to}'{} }}", own(draw)));
        }
    }
    let named = (0..)
        .zip(&ports)
        .map(|(n, ports): (u64, _)| format!("{{ name = 's{n}', ports = {ports} }}"));
    let switches: Vec<String> = named.collect();
    format!(
        "fabric.table = {{ switches = [{}], cables = [{}] }}\n",
        switches.join(", "),
        cables.join(", ")
    )
}

fn channel(draw: &mut Draw) -> Drawn {
    let hosts = draw.from(2, 9);
    let payload = if draw.one_in(3) { draw.below(30) } else { draw.from(30, 700) };
    let mut keys = format!("packet = '16 B'\npayload = '{payload} B'\n");
    writeln!(keys, "link = {{ {} }}", link(draw)).expect("a text");
    keys += &turns(draw);
    let (transfer, answers) = transfer(draw, payload);
    keys += &transfer;
    keys += &switch(draw, "switch");
    if draw.one_in(2) {
        keys += &fabric(draw, hosts);
        if draw.one_in(2) {
            keys += &switch(draw, "switches.s1");
        }
    }
    let buffers = match draw.from(1, 4) {
        4 => "'unlimited'".to_owned(),
        count => count.to_string(),
    };
    writeln!(keys, "adapter.send_buffers = {buffers}").expect("a text");
    if answers && draw.one_in(2) {
        keys += "adapter.release = 'acknowledgment'\n";
    }
    if draw.one_in(4) {
        let (requests, per) = (draw.from(1, 3), draw.from(1, 80));
        writeln!(keys, "adapter.throttle = {{ requests = {requests}, per = '{per} us' }}")
            .expect("a text");
    }
    if draw.one_in(4) {
        keys += "errors = { bit_error_rate = 1e-5, packets = [{ host = 1, packet = 3 }] }\n";
    }
    Drawn { hosts, keys }
}

/// A message that was offered: its initiator, and its targets.
type Offered = (u16, Destination);

/// Offers messages to one host or several, and barriers, to a drawn channel. Returns it with them and their
/// notices, by ticket.
fn carry(case: usize) -> (Driver, Vec<Offered>, Vec<Notice>) {
    let draw = &mut Draw::new(1_000_000 + case);
    let Drawn { hosts, keys } = channel(draw);
    let text = format!(
        "[system]\ntitle = 'random'\nhosts = {hosts}\n[channel.network]\n{keys}\
         [workload.network]\nload = 0.1\n[run]\nlength = '1 ms'\nregime = 'from_empty'\n"
    );
    let (spec, streams) = (spec(&text), Streams::new(case as u64));
    let site = Site {
        name: "network",
        hosts: hosts as u32,
        streams: &streams,
        from: Time::ZERO,
        until: Time(1_000_000_000_000),
        sample: None,
    };
    let mut channel = Driver::new(&spec.channel["network"], None, site).expect(&text);
    let (mut now, mut notices, mut all) = (Time::ZERO, Vec::new(), Vec::new());
    for _ in 0..draw.from(3, 40) {
        now = Time(now.0 + draw.below(3) * draw.below(90_000_000));
        channel.advance(now, &mut notices);
        if draw.one_in(8) {
            for host in 0..hosts as u16 {
                channel.barrier(now, host, hosts as u16, Ticket(BARRIER));
            }
            now = Time(now.0 + 500_000_000);
            channel.advance(now, &mut notices);
            continue;
        }
        let from = draw.below(hosts) as u16;
        let others = ((1 << hosts) - 1) & !(1_u64 << from);
        let drawn = draw.below(1 << hosts) & others;
        let to = match drawn.count_ones() {
            0 => Destination::Host(others.trailing_zeros() as u16),
            1 => Destination::Host(drawn.trailing_zeros() as u16),
            _ => Destination::Hosts(drawn),
        };
        let size = Bytes(if draw.one_in(2) { draw.below(20) } else { draw.below(900) });
        let ticket = Ticket(all.len() as u64);
        channel.offer(now, Message { from, to, size, ticket });
        all.push((from, to));
    }
    channel.advance(Time(now.0 + 20_000_000_000), &mut notices);
    (channel, all, notices)
}

/// The ticket of those who meet at a barrier.
const BARRIER: u64 = 1_000;

/// Each message leaves once and comes to each of its targets once, whole or not, behind the earlier ones of
/// the pair, also where another way would be faster; notices are in the order of time.
#[test]
fn messages_come_once_and_in_order() {
    for case in 0..40 {
        let (channel, all, mut notices) = carry(case);
        assert!(notices.windows(2).all(|two| two[0].time() <= two[1].time()), "{case}");
        notices.retain(|notice| notice.ticket() != Ticket(BARRIER));
        let mut sent = vec![0; all.len()];
        let mut reached: BTreeMap<(u16, u16), Vec<u64>> = BTreeMap::new();
        for notice in notices {
            let Ticket(ticket) = notice.ticket();
            let from = all[ticket as usize].0;
            match notice {
                Notice::Sent { .. } => sent[ticket as usize] += 1,
                Notice::Delivered { to, .. } | Notice::Lost { to, .. } => {
                    reached.entry((from, to)).or_default().push(ticket);
                }
                Notice::FallsThrough { .. } => panic!("{case}: {notice:?}"),
            }
        }
        let is_over = channel.waiting().is_empty() && channel.in_flight() == 0;
        let mut expected: BTreeMap<(u16, u16), Vec<u64>> = BTreeMap::new();
        for (ticket, (from, to)) in (0..).zip(&all) {
            to.hosts().for_each(|to| expected.entry((*from, to)).or_default().push(ticket));
        }
        if is_over {
            assert_eq!(reached, expected, "{case}");
            assert!(sent.iter().all(|count| *count == 1), "{case}: {sent:?}");
        }
        for (pair, tickets) in &reached {
            assert!(expected[pair].starts_with(tickets), "{case}: {pair:?} {tickets:?}");
        }
    }
}

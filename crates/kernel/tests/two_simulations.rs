//! Simulations are values: two in one process do not disturb each other.

use weft_kernel::{Arena, Id, Queue, Stream, Streams};
use weft_units::{Span, Time};

/// Tokens that hop between hosts, each hop after a random span.
struct Simulation {
    queue: Queue<(u16, Id<u64>)>,
    hosts: Vec<Stream>,
    hops: Arena<u64>,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let streams = Streams::new(seed);
        let hosts = (0..8).map(|host| streams.stream("hops", host)).collect();
        let (mut queue, mut hops) = (Queue::new(), Arena::new());
        for host in 0..8 {
            queue.push(Time::ZERO, (host, hops.insert(0)));
        }
        Simulation { queue, hosts, hops }
    }

    /// What happened: when, where, and on which hop of its token.
    fn step(&mut self) -> Option<(Time, u16, u64)> {
        let (now, (host, token)) = self.queue.pop()?;
        let random = &mut self.hosts[usize::from(host)];
        let gap = Span((random.exponential() * 1e5) as u64 / 1_000 * 1_000);
        let to = random.below(8) as u16;
        let hop = self.hops[token] + 1;
        self.hops.remove(token);
        self.queue.push(now + gap, (to, self.hops.insert(hop)));
        Some((now, host, hop))
    }
}

#[test]
fn interleaved_steps_give_what_each_gives_alone() {
    let alone = |seed| -> Vec<_> {
        let mut simulation = Simulation::new(seed);
        (0..5_000).map(|_| simulation.step()).collect()
    };
    let (mut first, mut second) = (Simulation::new(1), Simulation::new(2));
    let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
    let mut whose = Streams::new(3).stream("turns", 0);
    while of_first.len() < 5_000 || of_second.len() < 5_000 {
        if of_second.len() == 5_000 || (of_first.len() < 5_000 && whose.chance(0.5)) {
            of_first.push(first.step());
        } else {
            of_second.push(second.step());
        }
    }
    assert_eq!(of_first, alone(1));
    assert_eq!(of_second, alone(2));
    assert_ne!(of_first, of_second);
}

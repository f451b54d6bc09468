//! The hold model: a fixed number of events wait; each that leaves schedules another. Counts
//! instructions of the queue against a binary heap:
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect="*measured*" \
//!     target/release/examples/hold queue 1000 fabric
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use weft_kernel::{Queue, Stream, Streams};
use weft_units::Time;

/// An event as the engines use it: a kind and two indices.
type Event = [u32; 3];

const EVENTS: usize = 200_000;

trait Pending {
    fn push(&mut self, time: Time, event: Event);
    fn pop(&mut self) -> Option<(Time, Event)>;
}

impl Pending for Queue<Event> {
    #[inline(always)]
    fn push(&mut self, time: Time, event: Event) {
        Queue::push(self, time, event);
    }
    #[inline(always)]
    fn pop(&mut self) -> Option<(Time, Event)> {
        Queue::pop(self)
    }
}

/// The plain alternative: a heap of (time, order of scheduling).
#[derive(Default)]
struct Heap {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    scheduled: u64,
}

impl Pending for Heap {
    #[inline(always)]
    fn push(&mut self, time: Time, event: Event) {
        self.heap.push(Reverse((time, self.scheduled, event)));
        self.scheduled += 1;
    }
    #[inline(always)]
    fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

/// How far ahead events are scheduled, in picoseconds.
fn increment(law: &str, stream: &mut Stream) -> u64 {
    match law {
        // Memoryless, 1 us in the mean.
        "exponential" => (stream.exponential() * 1e6) as u64,
        // What a fabric does: cable and switch delays, packets, arrivals, time-outs.
        "fabric" => match stream.below(10) {
            0..4 => 1_500 + 1_000 * stream.below(50),
            4..7 => 8_344_000,
            7..9 => (stream.exponential() * 16.7e6) as u64,
            _ => 1_000_000_000 + stream.below(1_000_000),
        },
        // Everything happens on the edges of a slot.
        _ => 8_976_000 * (1 + stream.below(4)),
    }
}

#[inline(never)]
fn measured(pending: &mut impl Pending, spans: &[u64]) -> u64 {
    let mut sum = 0;
    for span in spans {
        if let Some((time, event)) = pending.pop() {
            sum ^= time.0;
            pending.push(Time(time.0 + span), event);
        }
    }
    sum
}

fn hold(mut pending: impl Pending, waiting: usize, law: &str) {
    let mut stream = Streams::new(1).stream("hold", 0);
    let mut draw = |events| -> Vec<u64> {
        std::iter::repeat_with(|| increment(law, &mut stream)).take(events).collect()
    };
    for span in draw(waiting) {
        pending.push(Time(span), [7, 8, 9]);
    }
    let warm_up = draw(4 * waiting + EVENTS);
    let steady = draw(EVENTS);
    for span in warm_up {
        if let Some((time, event)) = pending.pop() {
            pending.push(Time(time.0 + span), event);
        }
    }
    let start = std::time::Instant::now();
    black_box(measured(&mut pending, &steady));
    println!(
        "{law} {waiting}: {:.1} ns an event",
        start.elapsed().as_nanos() as f64 / EVENTS as f64
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [which, waiting, law] = arguments.as_slice() else {
        eprintln!("usage: hold queue|heap WAITING exponential|fabric|slots");
        return;
    };
    let waiting = waiting.parse().unwrap_or(1_000);
    match which.as_str() {
        "heap" => hold(Heap::default(), waiting, law),
        _ => hold(Queue::new(), waiting, law),
    }
}

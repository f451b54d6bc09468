//! The queue against a binary heap: the same order for any schedule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;
use weft_kernel::Queue;
use weft_units::Time;

/// The plain model: a heap of (time, order of scheduling).
#[derive(Default)]
struct Oracle {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Push this many events, each `ahead` after the time of the event that left last.
    Push {
        ahead: u64,
        copies: u8,
    },
    Pop {
        times: u8,
    },
    PopUntil {
        ahead: u64,
    },
}

/// Spans from ties to far apart, each order of magnitude as likely as the next.
fn spans() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(0_u64),
        10 => (0..62_u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1)),
        2 => (0..8_u64).prop_map(|slots| slots * 8_976_000),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (spans(), 1..4_u8).prop_map(|(ahead, copies)| Step::Push { ahead, copies }),
        1 => (spans(), 1..90_u8).prop_map(|(ahead, copies)| Step::Push { ahead, copies }),
        4 => (1..12_u8).prop_map(|times| Step::Pop { times }),
        1 => spans().prop_map(|ahead| Step::PopUntil { ahead }),
    ];
    prop::collection::vec(step, 1..400)
}

fn same_order(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut queue, mut oracle) = (Queue::new(), Oracle::default());
    let (mut now, mut scheduled) = (0_u64, 0_u32);
    for step in steps {
        match *step {
            Step::Push { ahead, copies } => {
                for _ in 0..copies {
                    let time = now.saturating_add(ahead);
                    queue.push(Time(time), scheduled);
                    oracle.heap.push(Reverse((time, scheduled)));
                    scheduled += 1;
                }
            }
            Step::Pop { times } => {
                for _ in 0..times {
                    let expected = oracle.heap.pop().map(|Reverse(entry)| entry);
                    let left = queue.pop().map(|(time, event)| (time.0, event));
                    prop_assert_eq!(left, expected);
                    now = left.map_or(now, |(time, _)| time);
                }
            }
            Step::PopUntil { ahead } => {
                let limit = now.saturating_add(ahead);
                let due = oracle.heap.peek().is_some_and(|Reverse((time, _))| *time <= limit);
                let expected = if due { oracle.heap.pop() } else { None };
                let left = queue.pop_until(Time(limit)).map(|(time, event)| (time.0, event));
                prop_assert_eq!(left, expected.map(|Reverse(entry)| entry));
                now = left.map_or(now, |(time, _)| time);
            }
        }
        prop_assert_eq!(queue.len(), oracle.heap.len());
        let next = oracle.heap.peek().map(|Reverse((time, _))| Time(*time));
        prop_assert_eq!(queue.next_time(), next);
    }
    while let Some(Reverse(expected)) = oracle.heap.pop() {
        prop_assert_eq!(queue.pop().map(|(time, event)| (time.0, event)), Some(expected));
    }
    prop_assert!(queue.pop().is_none() && queue.is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn events_leave_as_from_a_heap(steps in steps()) {
        same_order(&steps)?;
    }
}

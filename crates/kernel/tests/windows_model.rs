//! Every interleaving of two threads that take parts through windows, under loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-kernel --test windows_model --release`.
//!
//! A list that two threads want at a time, a part that two threads run or none, and a thread that
//! waits for ever fail; and in each interleaving every part sees the same at the same time.

#![cfg(loom)]

use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;
use weft_kernel::{Observed, Step, TimeWindows, WindowBounds};
use weft_units::{Span, Time};

const PARTS: usize = 2;
const APART: Span = Span(10);
const BOUNDS: WindowBounds = WindowBounds { begin: Time::ZERO, apart: APART, until: Time(1_000) };
/// How often a value crosses.
const CROSSINGS: u32 = 2;

/// What a part sent, and when it arrives.
type Crossing = Vec<(Time, u32)>;

/// Counts what comes, and passes it to the other part until it has crossed often enough.
#[derive(Debug, Default)]
struct Part {
    waiting: Crossing,
    log: Vec<(Time, u32)>,
}

impl Part {
    fn run(&mut self, step: &Step<'_, Crossing, Vec<u32>>) -> Time {
        for mut list in step.arriving() {
            self.waiting.append(&mut list);
        }
        self.waiting.sort();
        let mut earliest = Time::NEVER;
        while self.waiting.first().is_some_and(|(time, _)| *time <= step.last) {
            let (time, value) = self.waiting.remove(0);
            self.log.push((time, value));
            step.observed().push(value);
            if value < CROSSINGS {
                let there = (step.part + 1) % PARTS;
                let to = step.leaving().nth(there);
                to.expect("one list a part").push((time + APART, value + 1));
                earliest = earliest.min(time + APART);
            }
        }
        self.waiting.first().map_or(earliest, |(time, _)| earliest.min(*time))
    }
}

struct Run {
    windows: TimeWindows<Crossing, Vec<u32>>,
    parts: Vec<Mutex<Part>>,
}

impl Run {
    /// Part 0 begins with two values, the second while the first one is on its way; part 1 with
    /// one.
    fn new(threads: usize) -> Run {
        let first = [vec![(Time(0), 0), (Time(3), 0)], vec![(Time(5), 0)]];
        let parts = first.into_iter().map(|waiting| Mutex::new(Part { waiting, log: vec![] }));
        Run { windows: TimeWindows::new(PARTS, threads), parts: parts.collect() }
    }

    fn work(&self, member: usize, mut hears: impl FnMut(u32)) {
        self.windows.work(
            member,
            BOUNDS,
            || false,
            |step| Some(self.part(step.part).run(step)),
            |observed| {
                if member == 0 {
                    observed.lists().for_each(|mut list| list.drain(..).for_each(&mut hears));
                }
                true
            },
        );
    }

    fn part(&self, number: usize) -> MutexGuard<'_, Part> {
        self.parts[number].try_lock().expect("no two threads run one part at a time")
    }

    fn log(&self, part: usize) -> Crossing {
        self.part(part).log.clone()
    }
}

#[test]
fn two_threads_run_each_part_once_in_each_window_and_wait_for_no_list() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = None;
    model.check(|| {
        let run = Arc::new(Run::new(2));
        let other = thread::spawn({
            let run = Arc::clone(&run);
            move || run.work(1, |_| unreachable!("thread 0 hears"))
        });
        run.windows.meet(2);
        let mut heard = vec![];
        run.work(0, |value| heard.push(value));
        other.join().expect("the other thread ends");
        // Windows from 0 to 9, from 10 to 19 and from 20 to 29, by hand.
        let first = [(Time(0), 0), (Time(3), 0), (Time(15), 1), (Time(20), 2), (Time(23), 2)];
        let second = [(Time(5), 0), (Time(10), 1), (Time(13), 1), (Time(25), 2)];
        assert_eq!(run.log(0), first);
        assert_eq!(run.log(1), second);
        assert_eq!(heard, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    });
}

#[test]
fn a_thread_that_ends_the_run_ends_it_for_both_with_the_same_window() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = None;
    model.check(|| {
        let windows = Arc::new(TimeWindows::new(PARTS, 2));
        let other = thread::spawn({
            let windows = Arc::clone(&windows);
            move || breaks_in_the_second_window(&windows, 1)
        });
        windows.meet(2);
        let own = breaks_in_the_second_window(&windows, 0);
        assert_eq!((own, other.join().expect("it ends")), (Time(19), Time(19)));
        assert!(windows.is_ended());
    });
}

/// Part 1 breaks there, whoever runs it. Returns the last window that this thread heard of.
fn breaks_in_the_second_window(windows: &TimeWindows<Crossing, Vec<u32>>, member: usize) -> Time {
    let mut heard = Time::ZERO;
    let run = |step: &Step<'_, Crossing, Vec<u32>>| {
        let is_broken = step.part == 1 && step.last == Time(19);
        (!is_broken).then_some(step.last + Span(1))
    };
    let hear = |observed: &Observed<'_, Vec<u32>>| {
        heard = observed.last;
        true
    };
    windows.work(member, BOUNDS, || false, run, hear);
    heard
}

/// The thread that was refused would have run the second part.
#[test]
fn one_thread_of_two_runs_all_parts() {
    loom::model(|| {
        let run = Run::new(2);
        run.windows.meet(1);
        let mut heard = vec![];
        run.work(0, |value| heard.push(value));
        assert_eq!((run.log(0).len(), run.log(1).len(), heard.len()), (5, 4, 9));
        assert!(!run.windows.is_ended());
    });
}

/// Thread 0 hears of the first window while thread 1 may be in the second one, with which the run
/// ends.
#[test]
fn a_thread_that_cannot_hear_ends_the_run_with_the_next_window() {
    let model = loom::model::Builder::new();
    model.check(|| {
        let windows = Arc::new(TimeWindows::new(PARTS, 2));
        let work = |windows: &TimeWindows<Crossing, Vec<u32>>, member: usize| {
            let mut heard = Time::ZERO;
            let run = |step: &Step<'_, Crossing, Vec<u32>>| Some(step.last + Span(1));
            let hear = |observed: &Observed<'_, Vec<u32>>| {
                heard = observed.last;
                member == 1
            };
            windows.work(member, BOUNDS, || false, run, hear);
            heard
        };
        let other = thread::spawn({
            let windows = Arc::clone(&windows);
            move || work(&windows, 1)
        });
        windows.meet(2);
        let own = work(&windows, 0);
        assert_eq!((own, other.join().expect("it ends")), (Time(19), Time(19)));
    });
}

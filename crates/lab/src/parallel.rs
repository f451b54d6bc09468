//! Independent tasks on a few threads, with results in the order of the tasks, whatever the number
//! of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use weft_kernel::Halt;

/// How often the observer is called while nothing finishes, so that it can look for an interrupt.
const TICK: Duration = Duration::from_millis(100);

/// Runs `task(0)` to `task(count - 1)` on `workers` threads and returns their results in order.
///
/// `observe` is called on the calling thread with the number of finished tasks, after each of them
/// and at least every 100 ms. When it returns `false`, `halt` is asked to stop; tasks that have not
/// begun then do not begin, and their results are `None`.
pub fn map<T: Send>(
    count: usize,
    workers: usize,
    halt: &Halt,
    task: impl Fn(usize) -> T + Sync,
    mut observe: impl FnMut(usize) -> bool,
) -> Vec<Option<T>> {
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers.clamp(1, count.max(1)) {
            let (sender, next, task) = (sender.clone(), &next, &task);
            scope.spawn(move || {
                while !halt.is_asked() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || sender.send((index, task(index))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut done = 0;
        loop {
            match receiver.recv_timeout(TICK) {
                Ok((index, result)) => {
                    results[index] = Some(result);
                    done += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !observe(done) {
                halt.ask();
            }
        }
    });
    results
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::map;
    use weft_kernel::Halt;

    #[test]
    fn results_keep_the_order_of_the_tasks() {
        for workers in [1, 2, 7] {
            let results = map(50, workers, &Halt::new(), |index| index * index, |_| true);
            let expected: Vec<Option<usize>> = (0..50).map(|index| Some(index * index)).collect();
            assert_eq!(results, expected);
        }
    }

    #[test]
    fn an_observer_that_declines_stops_what_has_not_begun() {
        let (halt, ignored, mut declined) = (Halt::new(), AtomicBool::new(false), false);
        // The first three run, and two more at most have begun when the observer declines. A map
        // that does not heed it lets the rest run instead of waiting for ever.
        let task = |index| {
            while index >= 3 && !halt.is_asked() && !ignored.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        let observe = |done| {
            ignored.store(declined, Ordering::Relaxed);
            declined = done >= 3;
            !declined
        };
        let done = map(1000, 2, &halt, task, observe).iter().flatten().count();
        assert!(halt.is_asked());
        assert!((3..=5).contains(&done), "{done} tasks ran");
    }
}

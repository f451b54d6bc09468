//! Programs that close the numbers which they find and do not know: the library goes on with others.

use libc::c_int;

use crate::epoll_control;
use crate::pair::{
    Pair, accelerated, close, has_figures, moved_back, outcome, poll, preloaded, preloaded_and_off,
    recv, send, used,
};
use crate::watched::{Waiting, instance, wait_for_one};

/// The library's numbers in this process, which it has no other file of these kinds of.
fn unknown() -> Vec<c_int> {
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| {
        let link = std::fs::read_link(entry.path()).ok()?;
        let link = link.to_string_lossy();
        let is_meant = link.starts_with("/memfd:weft-live") || link.contains("[eventfd]");
        is_meant.then(|| entry.file_name().to_string_lossy().parse().unwrap())
    });
    numbers.collect()
}

#[test]
fn what_is_closed_of_the_librarys_own_has_another_number_and_all_stays_accelerated() {
    let name =
        "unknown::what_is_closed_of_the_librarys_own_has_another_number_and_all_stays_accelerated";
    preloaded(name, || {
        let (pair, epoll) = (accelerated(), instance());
        let Pair { a, b } = pair;
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, b, libc::EPOLLIN as u32), 0);
        for round in 0..8u8 {
            let before = unknown();
            assert_eq!(before.len(), 5, "the figures, and two events of each end");
            for fd in &before {
                // SAFETY: closes what only the library uses.
                let twice = [(); 2].map(|()| outcome(unsafe { libc::close(*fd) } as isize));
                assert_eq!(twice, [Ok(0), Err(libc::EBADF)]);
            }
            assert_eq!(unknown().len(), 5);
            let waiting = Waiting::begin(epoll);
            assert_eq!(send(a, &[round], 0), Ok(1));
            assert_eq!(waiting.end(), Some(libc::EPOLLIN as u32));
            assert_eq!(recv(b, 9, 0), Ok(vec![round]));
        }
        assert!(moved_back() == 0 && has_figures());
        [a, b].into_iter().for_each(close);
        assert_eq!(unknown().len(), 1, "none is left open");
    });
}

#[test]
fn a_library_that_is_off_has_no_number_and_the_kernel_carries_all() {
    let name = "unknown::a_library_that_is_off_has_no_number_and_the_kernel_carries_all";
    preloaded_and_off(name, || {
        let (Pair { a, b }, epoll) = (used(100), instance());
        assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, b, libc::EPOLLIN as u32), 0);
        for round in 0..100u8 {
            assert_eq!(send(a, &[round], 0), Ok(1));
            assert_eq!(wait_for_one(epoll, 1000), Some(libc::EPOLLIN as u32));
            assert_eq!(poll(b, libc::POLLIN, 1000), libc::POLLIN);
            assert_eq!(recv(b, 9, 0), Ok(vec![round]));
        }
        assert!(unknown().is_empty() && !has_figures());
        // SAFETY: copies a number.
        let copy = unsafe { libc::dup(b) };
        [a, b].into_iter().for_each(close);
        assert_eq!(recv(copy, 9, 0), Ok(vec![]), "the other end has closed");
    });
}

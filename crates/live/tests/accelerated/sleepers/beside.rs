//! What another thread does meanwhile.

use libc::{c_int, epoll_event};

use super::peer::Ends;
use crate::at_once::become_nothing;
use crate::back::pass;
use crate::pair::{Numbers, close, poll};
use crate::watched::instance;

/// What another thread does to both connections meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// Watches in a way in which only the kernel can: the connection leaves.
    WatchAlone,
    Watch,
    Fork,
    Poll,
    Change,
    Copy,
    PassOn,
    FailToBecome,
}

impl Beside {
    pub fn draw(numbers: &mut Numbers) -> Self {
        use Beside::{Change, Copy, FailToBecome, Fork, Nothing, PassOn, Poll, Watch, WatchAlone};
        let all = [WatchAlone, Watch, Fork, Poll, Change, Copy, PassOn, FailToBecome];
        all.get(numbers.below(24) as usize).copied().unwrap_or(Nothing)
    }

    /// Does it to both; `change` registers them anew.
    pub fn act(self, ends: Ends, change: impl FnOnce()) {
        let each = |act: fn(c_int)| ends.into_iter().for_each(act);
        match self {
            Self::Nothing => {}
            Self::WatchAlone => each(|fd| watch(fd, libc::EPOLLIN | libc::EPOLLEXCLUSIVE)),
            Self::Watch => each(|fd| watch(fd, libc::EPOLLIN)),
            Self::Fork => {
                let child = unsafe { libc::fork() };
                if child == 0 {
                    unsafe { libc::usleep(1000) };
                    unsafe { libc::_exit(0) };
                }
                let mut status = -1;
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            }
            Self::Poll => each(|fd| {
                poll(fd, libc::POLLIN, 1);
            }),
            Self::Change => change(),
            Self::Copy => each(|fd| close(unsafe { libc::dup(fd) })),
            Self::PassOn => each(|fd| close(pass(fd))),
            Self::FailToBecome => become_nothing(),
        }
    }
}

/// Watches in an instance of its own, for a moment.
fn watch(fd: c_int, events: c_int) {
    let epoll = instance();
    let mut event = epoll_event { events: events as u32, u64: 0 };
    unsafe {
        assert_eq!(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event), 0);
        libc::epoll_wait(epoll, &mut event, 1, 1);
    }
    close(epoll);
}

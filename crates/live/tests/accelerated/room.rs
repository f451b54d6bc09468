//! Room to send, of which a program hears that waits in an instance.

use std::thread;
use std::time::Duration;

use crate::pair::{Entries, Pair, accelerated, close, moved_back, plain, preloaded, recv, send};
use crate::watched::{Waiting, instance, wait_for_one};
use crate::{epoll_control, epoll_events};

const IN: u32 = libc::EPOLLIN as u32;

#[test]
fn room_is_an_edge_where_a_registration_begins_without_any() {
    preloaded("room::room_is_an_edge_where_a_registration_begins_without_any", || {
        let (write, edge) = (libc::EPOLLOUT as u32, libc::EPOLLET as u32);
        for how in [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD] {
            for pair in [accelerated(), plain()] {
                let epoll = instance();
                if how == libc::EPOLL_CTL_MOD {
                    epoll_control(epoll, libc::EPOLL_CTL_ADD, pair.a, IN | write | edge);
                    assert_eq!(epoll_events(epoll), [(write, 7)]);
                }
                while send(pair.a, &[7; 5000], libc::MSG_DONTWAIT).is_ok() {}
                send(pair.b, b"news", 0).unwrap();
                assert_eq!(epoll_control(epoll, how, pair.a, IN | write | edge), 0);
                assert_eq!(epoll_events(epoll), [(IN, 7)]);
                while recv(pair.b, 10_000, libc::MSG_DONTWAIT).is_ok() {}
                assert_eq!(epoll_events(epoll), [(IN | write, 7)]);
                for fd in [pair.a, pair.b, epoll] {
                    close(fd);
                }
            }
        }
    });
}

#[test]
fn room_is_an_edge_for_an_end_that_has_gone_back_and_has_not_read_its_ring() {
    let name = "room::room_is_an_edge_for_an_end_that_has_gone_back_and_has_not_read_its_ring";
    preloaded(name, || {
        let out = libc::EPOLLOUT as u32;
        // In one call, and in several.
        for size in [1 << 22, 10_000] {
            let (Pair { a, b }, epoll) = (accelerated(), instance());
            let before = moved_back();
            let bytes = vec![2; size];
            let added = epoll_control(epoll, libc::EPOLL_CTL_ADD, b, out | libc::EPOLLET as u32);
            assert_eq!((added, wait_for_one(epoll, 1000)), (0, Some(out)));
            while send(a, &[1; 10_000], libc::MSG_DONTWAIT).is_ok() {}
            // Nothing comes behind what is in the ring: that would bring edges of its own.
            let room = instance();
            assert_eq!(epoll_control(room, libc::EPOLL_CTL_ADD, a, out), 0);
            while moved_back() == before {
                wait_for_one(room, 50);
            }
            close(room);
            // It follows as it waits.
            while wait_for_one(epoll, 100).is_some() {}
            // Before there is room, and after.
            for waits_before in [true, false, true, false, false] {
                let mut sent = 0;
                while let Ok(count) = send(b, &bytes, libc::MSG_DONTWAIT) {
                    sent += count;
                    if count < size {
                        break;
                    }
                }
                let waiting = waits_before.then(|| {
                    while wait_for_one(epoll, 0).is_some() {}
                    Waiting::begin(epoll)
                });
                let mut received = 0;
                while received < sent {
                    received += recv(a, 1 << 20, 0).unwrap().len();
                }
                let woken = waiting.map_or_else(|| wait_for_one(epoll, 5000), Waiting::end);
                assert_eq!(woken, Some(out), "waits before: {waits_before}");
            }
            [a, b, epoll].into_iter().for_each(close);
        }
    });
}

/// The kernel has bytes that stand behind those in the ring, and the program waits for room.
#[test]
fn who_waits_for_room_sleeps_beside_bytes_that_are_not_read() {
    preloaded("room::who_waits_for_room_sleeps_beside_bytes_that_are_not_read", || {
        let (out, edge) = (libc::EPOLLOUT as u32, libc::EPOLLET as u32);
        for kind in [out, out | edge] {
            let (Pair { a, b }, epoll) = (accelerated(), instance());
            let before = moved_back();
            while send(a, &[1; 10_000], libc::MSG_DONTWAIT).is_ok() {}
            thread::sleep(Duration::from_millis(150));
            assert_eq!(send(a, b"behind", libc::MSG_DONTWAIT), Ok(6));
            assert_eq!(moved_back(), before + 1);
            let mut sent = 0;
            while let Ok(count) = send(b, &[2; 10_000], libc::MSG_DONTWAIT) {
                sent += count;
            }
            assert_eq!(epoll_control(epoll, libc::EPOLL_CTL_ADD, b, kind), 0);
            let before = Entries::now();
            let waiting = Waiting::begin(epoll);
            thread::sleep(Duration::from_millis(300));
            let sleeps = Entries::now().since(before).sleeps;
            let mut received = 0;
            while received < sent {
                received += recv(a, 1 << 20, 0).unwrap().len();
            }
            assert_eq!(waiting.end(), Some(out));
            assert!(sleeps < 30, "{sleeps} sleeps in 0.3 s");
            [a, b, epoll].into_iter().for_each(close);
        }
    });
}

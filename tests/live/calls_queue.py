"""Scenes of who is told what: several threads in one instance, and more than there is room for."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import threading
from typing import TYPE_CHECKING

from calls_edges import LATE_S
from calls_stage import EPOLL_CTL_ADD, LASTING, compiled, pair, raw, say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NOW = socket.MSG_DONTWAIT


def named(ends: Iterable[tuple[socket.socket, socket.socket]]) -> Mapping[int, str]:
    """Name the receiving ends of connections by letters."""
    return {b.fileno(): name for (_, b), name in zip(ends, "ABCDEFGH", strict=False)}


@scene
def each_that_sleeps_in_an_instance_is_woken() -> None:
    for how in (select.EPOLLET, 0):
        a, b = pair(LASTING)
        answered = threading.Event()
        with select.epoll() as waiter:
            waiter.register(b, select.EPOLLIN | how)

            def work(
                waiter: select.epoll = waiter,
                b: socket.socket = b,
                answered: threading.Event = answered,
            ) -> None:
                while True:
                    waiter.poll(60, 1)
                    try:
                        said = b.recv(1, NOW)
                    except BlockingIOError:
                        continue
                    if said == b"R":
                        # One of the others reads the answer.
                        b.sendall(b"?")
                        b.sendall(b"!" if answered.wait(LATE_S) else b"-")
                        answered.clear()
                    elif said == b"A":
                        answered.set()
                    else:
                        return

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(4):
                settled()
                a.sendall(b"R")
                say("asked", lambda a=a: a.recv(1))
                settled()
                a.sendall(b"A")
                say("answered", lambda a=a: a.recv(1))
            for _ in threads:
                settled()
                a.sendall(b"E")
            for thread in threads:
                thread.join(LATE_S)
            say("ended", lambda threads=threads: [it.is_alive() for it in threads])


@scene
def who_leaves_wakes_the_next_if_something_is_left() -> None:
    ends = [pair(LASTING) for _ in range(3)]
    with select.epoll() as waiter:
        for _, b in ends:
            waiter.register(b, select.EPOLLIN | select.EPOLLET)
        waiter.poll(0)
        told: list[int] = []
        go_on = threading.Event()

        def work() -> None:
            told.extend(fd for fd, _ in waiter.poll(LATE_S, 1))
            # Until all were told nobody comes back for more.
            go_on.wait(LATE_S)

        threads = [threading.Thread(target=work) for _ in ends]
        for thread in threads:
            thread.start()
        settled(0.1)
        for a, _ in ends:
            a.sendall(b"x")
        settled(0.5)
        say("told", lambda: sorted(told) == sorted(b.fileno() for _, b in ends))
        go_on.set()
        for thread in threads:
            thread.join(LATE_S)


@scene
def nobody_waits_for_ever_behind_those_that_are_not_accelerated() -> None:
    for room, others in ((1, 1), (1, 3), (4, 4), (4, 9), (4, 3)):
        (a, b), fresh = pair(LASTING), [pair(0) for _ in range(others)]
        with select.epoll() as waiter:
            waiter.register(b, select.EPOLLIN)
            for _, end in fresh:
                waiter.register(end, select.EPOLLOUT)
            for _ in range(3):
                a.sendall(b"x")
                told = (fd for _ in range(50) for fd, _ in waiter.poll(LATE_S, room))
                say(f"{room} of {others}", lambda told=told, b=b: b.fileno() in told)
                b.recv(1)
            a.sendall(b"x")
            told = [fd for _ in range(50) for fd, _ in waiter.poll(LATE_S, room)]
            are_there = [end.fileno() in told for end in (b, *(end for _, end in fresh))]
            say("all of them", lambda are_there=are_there: all(are_there))
        for one, other in fresh:
            one.close()
            other.close()


@scene
def nobody_waits_for_ever_behind_other_descriptors() -> None:
    a, b = pair(LASTING)
    pipes = [os.pipe() for _ in range(6)]
    for room in (1, 4):
        with select.epoll() as waiter:
            waiter.register(b, select.EPOLLIN)
            for _, end in pipes:
                waiter.register(end, select.EPOLLOUT)
            for _ in range(3):
                a.sendall(b"x")
                waits = 0
                while waits < 60 and all(fd != b.fileno() for fd, _ in waiter.poll(LATE_S, room)):
                    # So that the kernel is asked in each wait.
                    settled(0.012)
                    waits += 1
                say(f"with room for {room}", lambda waits=waits: waits < 60)
                b.recv(1)
    for ends in pipes:
        for end in ends:
            os.close(end)


@scene
def the_order_holds_where_there_is_room_for_few() -> None:
    ends = [pair(LASTING) for _ in range(5)]
    names = named(ends)
    for how in (0, select.EPOLLET, select.EPOLLONESHOT):
        with select.epoll() as waiter:
            for fd in names:
                waiter.register(fd, select.EPOLLIN | how)
            for room in (1, 2, 3):
                for order in ("CADBE", "EDCBA", "ABCDE"):
                    for name in order:
                        ends["ABCDE".index(name)][0].sendall(b"x")
                    settled()
                    told = ""
                    while len(told) < len(order):
                        for fd, _ in waiter.poll(LATE_S, room):
                            told += names[fd]
                            raw("recv", fd, ctypes.create_string_buffer(9), 9, NOW)
                            waiter.modify(fd, select.EPOLLIN | how)
                    say(f"{how} {room} {order}", lambda told=told: told)
                    # The kernel keeps what it has told of in its place until it is asked again.
                    waiter.poll(0)


@scene
def who_has_something_left_goes_behind_the_others() -> None:
    ends = [pair(LASTING) for _ in range(3)]
    names = named(ends)
    with select.epoll() as waiter:
        for fd in names:
            waiter.register(fd, select.EPOLLIN)
        for name in "BCA":
            ends["ABC".index(name)][0].sendall(b"xxx")
        settled()
        # Nobody reads.
        told = "".join(names[fd] for _ in range(7) for fd, _ in waiter.poll(LATE_S, 1))
        say("one by one", lambda: told)
        told = "".join(names[fd] for _ in range(7) for fd, _ in waiter.poll(LATE_S, 2))
        say("two by two", lambda: told)


@scene
def what_is_asked_for_again_comes_when_it_is_asked_for() -> None:
    ends = [pair(LASTING) for _ in range(4)]
    names = named(ends)
    fds = {name: fd for fd, name in names.items()}
    for how in (select.EPOLLONESHOT, 0):
        with select.epoll() as waiter:
            for fd in names:
                waiter.register(fd, select.EPOLLIN | how if how else 0)
            for a, _ in ends:
                a.sendall(b"x")
            settled()
            say("told", lambda waiter=waiter: "".join(names[fd] for fd, _ in waiter.poll(0)))
            for name in "CADB":
                waiter.modify(fds[name], select.EPOLLIN | how)
            say("again", lambda waiter=waiter: "".join(names[fd] for fd, _ in waiter.poll(0)))
            for fd in names:
                raw("recv", fd, ctypes.create_string_buffer(9), 9, NOW)


@scene
def a_rest_that_was_told_of_does_not_come_before_what_is_new() -> None:
    ends = [pair(LASTING) for _ in range(3)]
    names = named(ends)
    with select.epoll() as waiter:
        for fd in names:
            waiter.register(fd, select.EPOLLIN | select.EPOLLET)
        for order in ("ABC", "CAB", "BCA"):
            for name in order:
                ends["ABC".index(name)][0].sendall(b"xx")
            settled()
            say(order, lambda: "".join(names[fd] for fd, _ in waiter.poll(LATE_S)))
            for fd in names:
                raw("recv", fd, ctypes.create_string_buffer(9), 1, NOW)


@scene
def ends_are_told_in_their_order() -> None:
    for end in ("close", "shutdown"):
        ends = [pair(LASTING) for _ in range(4)]
        names = named(ends)
        with select.epoll() as waiter:
            for fd in names:
                waiter.register(fd, select.EPOLLIN)
            for name in "CADB":
                a = ends["ABCD".index(name)][0]
                if name == "D":
                    a.sendall(b"x")
                elif end == "close":
                    a.close()
                else:
                    a.shutdown(socket.SHUT_WR)
                settled()
            told = "".join(names[fd] for fd, _ in waiter.poll(LATE_S))
            say(end, lambda told=told: told)


@scene
def a_datum_may_begin_like_the_librarys() -> None:
    a, b = pair(LASTING)
    one, other = socket.socketpair()
    with select.epoll() as waiter:
        waiter.register(b, select.EPOLLIN)
        event = struct.pack("=IQ", select.EPOLLIN, 0xF3E71A5B7FFFFFFF)
        say("put in", lambda: raw("epoll_ctl", waiter.fileno(), EPOLL_CTL_ADD, one.fileno(), event))
        a.sendall(b"x")
        other.sendall(b"x")
        room = ctypes.create_string_buffer(48)
        for _ in range(3):
            settled()
            count = raw("epoll_wait", waiter.fileno(), room, 4, 1000)
            say("told", lambda count=count: count)
        a.sendall(b"x")
        b.recv(2, socket.MSG_WAITALL)
        settled()
        say("one", lambda: raw("epoll_wait", waiter.fileno(), room, 4, 1000))
        say("its datum", lambda: hex(struct.unpack_from("=IQ", room)[1]))


HEAPLESS = """
#include <sys/resource.h>
int main(void) {
    int ends[2];
    char byte = 0;
    join(ends);
    for (int round = 0; round < 1500; round++) {
        need(send(ends[round % 2], &byte, 1, 0) == 1);
        need(recv(ends[1 - round % 2], &byte, 1, 0) == 1);
    }
    struct pollfd asked[3] = {{ends[0], POLLIN}, {ends[1], POLLIN}, {2, POLLERR}};
    struct timeval none = {0, 0};
    fd_set set;
    struct rlimit least = {1, 1};
    need(send(ends[0], "xy", 2, 0) == 2);
    need(!setrlimit(RLIMIT_AS, &least) && !setrlimit(RLIMIT_DATA, &least));
    for (size_t size = 1 << 20; size; size /= 2) while (malloc(size));
    int polled = poll(asked, 3, 1000);
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    FD_SET(ends[1], &set);
    int selected = select(ends[0] + ends[1] + 1, &set, 0, 0, &none);
    char text[] = "  found 0 and 0\\n";
    text[8] += polled, text[14] += selected;
    return write(1, text, sizeof text - 1) < 0;
}
"""
"""Asks about connections when all memory is taken."""


@scene
def who_polls_needs_no_memory() -> None:
    compiled(HEAPLESS)

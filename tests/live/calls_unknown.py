"""Scenes of programs that take away the numbers of descriptors that they find and do not know."""

from __future__ import annotations

import fcntl
import functools
import os
import resource
import select
import socket
import threading
from typing import TYPE_CHECKING

from calls_corners import apart, forked
from calls_stage import PATIENCE_S, pair, raw, say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN = 200
"""What the program makes has numbers below."""
USUAL = 1024
MOST = 4096


def unknown() -> list[int]:
    """Find the numbers of open descriptors that the program does not know."""
    found = [int(name) for name in os.listdir("/proc/self/fd")]
    return sorted(fd for fd in found if fd > KNOWN and raw("fcntl", fd, fcntl.F_GETFD) != "EBADF")


def said_of(numbers: list[int], call: Callable[[int], object]) -> list[object]:
    """What a call says of all these numbers, each answer once."""
    return sorted({call(fd) for fd in numbers}, key=str)


def goes_on(what: str, a: socket.socket, b: socket.socket, waiter: select.epoll) -> None:
    """Say whether a connection's bytes arrive, and whether who sleeps for them is woken."""
    for nth in range(3):
        a.sendall(b"ping")
        say(f"{what}, arrives", lambda: b.recv(4, socket.MSG_WAITALL))
        later = threading.Timer(0.05, b.sendall, [b"later %d" % nth])
        later.start()
        # Long enough for a sleep in the kernel.
        say(f"{what}, is told", lambda: [event for _, event in waiter.poll(PATIENCE_S)])
        later.join()
        say(f"{what}, comes back", lambda: a.recv(99))
        say(f"{what}, is told of nothing", lambda: waiter.poll(0))


def take_away(take: Callable[[int], object], again: Callable[[int], object]) -> None:
    """Take what is not known away, twice, and go on with connections."""
    # One that the kernel alone has an unknown number for.
    beyond = os.memfd_create("beyond")
    fcntl.fcntl(beyond, fcntl.F_DUPFD_CLOEXEC, KNOWN + 1)
    a, b = pair()
    c, d = pair()
    with select.epoll() as waiter, select.epoll() as edge:
        waiter.register(a, select.EPOLLIN)
        edge.register(c, select.EPOLLIN | select.EPOLLET)
        say("idle", lambda: waiter.poll(0.05))
        for what in ("once", "once more"):
            if what == "once more":
                fcntl.fcntl(beyond, fcntl.F_DUPFD_CLOEXEC, KNOWN + 1)
            numbers = unknown()
            say(f"{what}", lambda it=numbers: said_of(it, take))
            say(f"{what}, again", lambda it=numbers: said_of(it, again))
            goes_on(what, a, b, waiter)
            goes_on(f"{what}, by edges", c, d, edge)
        say("in a child", lambda: forked(lambda: in_child(take, c, d, edge)))
        goes_on("after the child", c, d, edge)
    e, f = pair()
    with select.epoll() as waiter:
        waiter.register(e, select.EPOLLIN)
        goes_on("one that came later", e, f, waiter)
    a.close()
    settled()
    say("the end", lambda: b.recv(9))


def in_child(
    take: Callable[[int], object], c: socket.socket, d: socket.socket, waiter: select.epoll
) -> None:
    """Take what is not known away in a process that shares a connection."""
    said_of(unknown(), take)
    goes_on("in the child", c, d, waiter)


def over_a_pipe(fd: int) -> object:
    """Put a pipe's end at a number; whether that is there."""
    near, far = os.pipe()
    there = os.dup2(near, fd, inheritable=False) == fd
    os.write(far, b"piped")
    said = (there, os.read(fd, 9))
    for each in (near, far, fd):
        os.close(each)
    return said


def close_each() -> None:
    take_away(functools.partial(raw, "close"), functools.partial(raw, "close"))


def close_ranges() -> None:
    take_away(lambda fd: raw("close_range", fd, fd, 0), lambda fd: raw("fcntl", fd, fcntl.F_GETFD))


def close_all_at_once() -> None:
    say("all", lambda: raw("close_range", KNOWN + 1, (1 << 32) - 1, 0))
    a, b = pair()
    with select.epoll() as waiter:
        waiter.register(a, select.EPOLLIN)
        numbers = unknown()
        say("all", lambda: raw("close_range", KNOWN + 1, (1 << 32) - 1, 0))
        say("again", lambda: said_of([KNOWN + 1, *numbers], functools.partial(raw, "close")))
        goes_on("then", a, b, waiter)


def put_at_each() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST, MOST))
    take_away(over_a_pipe, functools.partial(raw, "close"))


@scene
def what_a_program_does_not_know_it_may_close() -> None:
    for made in (close_each, close_ranges, close_all_at_once, put_at_each):
        for limit in ((USUAL, MOST), (MOST, MOST)):
            print(f"  {made.__name__}, {limit}", flush=True)
            apart(made, *limit)

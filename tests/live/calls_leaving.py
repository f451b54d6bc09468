"""Scenes of descriptors that leave the library's sight while an end of them has shut down."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import threading
from typing import TYPE_CHECKING

from calls_stage import LASTING, LIBC, POLLRDHUP, pair, say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = 400_000
"""More than a ring holds."""
BYTES = bytes(range(251)) * (ALL // 251 + 1)
RUNS = 5


def answered_by(goes_on: Callable[[socket.socket], None]) -> tuple[int, socket.socket]:
    """Connect to a process that answers :func:`last` and goes on; its number, and this end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            end = listener.accept()[0]
            for _ in range(LASTING):
                end.send(end.recv(1))
            goes_on(end)
            os._exit(0)
        return child, socket.create_connection(listener.getsockname())


def last(end: socket.socket) -> None:
    """Last long enough to be accelerated."""
    for _ in range(LASTING):
        end.send(b"x")
        end.recv(1)


def passed_to_itself(end: socket.socket) -> socket.socket:
    """Send a descriptor over a Unix socket, and go on with what arrives there."""
    near, far = socket.socketpair()
    with near, far:
        socket.send_fds(near, [b"x"], [end.fileno()])
        number = socket.recv_fds(far, 1, 1)[1][0]
    end.close()
    return socket.socket(fileno=number)


def streamed(end: socket.socket, leaves_at: int, how: str) -> None:
    """Answer, send all, say the end, and go."""
    done = 0
    while done < ALL:
        if done >= leaves_at:
            end, leaves_at = passed_to_itself(end), ALL
        done += end.send(BYTES[done : min(done + 7_001, ALL)])
    end.shutdown(socket.SHUT_WR)
    if how == "exit":
        os._exit(end.recv(1) != b"")
    if how == "closed at the end":
        end.recv(1)
    end.close()


def received(end: socket.socket, done: int, until: int) -> tuple[int, str]:
    """Receive until so many bytes or the end; how many there were, and how it ended."""
    while done < until:
        try:
            some = end.recv(min(30_011, until - done))
        except OSError as why:
            return done, errno.errorcode[why.errno or 0]
        if not some:
            return done, "end"
        if some != BYTES[done : done + len(some)]:
            return done, "other bytes"
        done += len(some)
    return done, "more"


def half_closed(first: int, other_leaves_at: int, how: str) -> tuple[object, ...]:
    """Shut the sending side down, receive so much, leave, and receive the rest."""
    child, end = answered_by(lambda end: streamed(end, other_leaves_at, how))
    last(end)
    end.shutdown(socket.SHUT_WR)
    done, _ = received(end, 0, first)
    end = passed_to_itself(end)
    with end:
        told = received(end, done, ALL + 1)
    return *told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@scene
def who_has_shut_down_and_leaves_receives_all_that_is_sent() -> None:
    for first in (0, 200_000, 300_000):
        for other_leaves_at in (ALL, 100_000, 300_000):
            for how in ("exit", "close", "closed at the end"):
                told = {half_closed(first, other_leaves_at, how) for _ in range(RUNS)}
                print(f"  {first} {other_leaves_at} {how}: {sorted(told)}", flush=True)


def hears_while_it_looks_at_nothing(end: socket.socket) -> None:
    """Send, look at nothing while the other end leaves, and send more after its end."""
    end.send(bytes(1000))
    settled(1)
    print(f"  hears {end.recv(1)!r}", flush=True)
    end.send(b"more")


@scene
def who_has_shut_down_and_leaves_cannot_send() -> None:
    child, end = answered_by(hears_while_it_looks_at_nothing)
    last(end)
    end.shutdown(socket.SHUT_WR)
    settled()
    with passed_to_itself(end) as end:
        say("send", lambda: end.send(b"x"))
        say("receive all", lambda: sum(map(len, iter(lambda: end.recv(2000), b""))))
    os.waitpid(child, 0)


ONCE = select.EPOLLONESHOT
C = ctypes.CDLL(None, use_errno=True)


def started(call: str, *listed: bytes | None) -> int:
    """Start a program by a call that lists its arguments, in a child; its exit code."""
    child = os.fork()
    if not child:
        getattr(C, call)(*listed)
        os._exit(100 + ctypes.get_errno())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@scene
def programs_are_started_with_listed_arguments() -> None:
    for count in (0, 1, 3, 4, 5, 6, 7, 8, 20, 600):
        listed = [str(number).encode() for number in range(count)]
        there = str(count).encode()
        code = started("execl", b"/bin/sh", b"sh", b"-c", b"exit $(($# % 90))", b"x", *listed, None)
        print(f"  execl {count}: {code}", flush=True)
        code = started("execlp", b"test", b"test", there, b"-ge", b"6", None)
        print(f"  execlp {count}: {code}", flush=True)
        (names := (ctypes.c_char_p * 2)())[0] = b"WORD=" + there
        said = b"test $(($# % 90)) = $((WORD % 90))"
        code = started("execle", b"/bin/sh", b"sh", b"-c", said, b"x", *listed, None, names)
        print(f"  execle {count}: {code}", flush=True)
    print(f"  not there: {started('execl', b'/none', b'none', None)}", flush=True)


def hears_the_end_of(end: socket.socket) -> None:
    """Ring for one who is awake by then, leave, and hear the end."""
    settled(0.4)
    end.send(b"y")
    settled(0.6)
    end = passed_to_itself(end)
    say("receive", lambda: end.recv(1))


@scene
def the_end_is_told_by_who_has_started_programs() -> None:
    for starts in (0, 1, 3):
        child, end = answered_by(hears_the_end_of)
        last(end)
        codes = [started("execl", b"/bin/true", b"true", None) for _ in range(starts)]
        ready = select.poll()
        ready.register(end, select.POLLIN)
        ready.poll(100)
        settled(0.5)
        print(f"  {starts} {codes}: {end.recv(1)!r}", flush=True)
        settled(0.8)
        end.close()
        os.waitpid(child, 0)


def another() -> int:
    """Become another program in a child."""
    child = os.fork()
    if not child:
        os.execv("/bin/true", ["true"])
    return child


def answering_by_turns(end: socket.socket) -> None:
    """Send what is not asked for, then what is."""
    end.send(bytes(1000))
    # It looks at nothing while the other end leaves.
    settled(1)
    while some := end.recv(1):
        end.send(some)


def asked_for_beside_another(end: socket.socket, epoll: select.epoll, how: int) -> None:
    """Let a child take a connection that an instance has into another program, and go on."""
    last(end)
    settled()
    print(f"  {how:#x} {os.waitstatus_to_exitcode(os.waitpid(another(), 0)[1])}", flush=True)
    for _ in range(3):
        say("told", lambda: [events for _, events in epoll.poll(0.2)])
        say("asked", lambda: epoll.modify(end, how))
    say("receive", lambda: len(end.recv(1000, socket.MSG_WAITALL)))
    for _ in range(3):
        end.send(b"z")
        settled(0.2)
        say("asked", lambda: epoll.modify(end, how))
        say("told", lambda: [events for _, events in epoll.poll(1)])
        say("receive", lambda: end.recv(1))


@scene
def an_instance_keeps_what_a_child_has_taken_into_another_program() -> None:
    for how in (select.EPOLLIN, select.EPOLLIN | select.EPOLLET, select.EPOLLIN | ONCE):
        child, end = answered_by(answering_by_turns)
        end.set_inheritable(True)
        with end, select.epoll() as epoll:
            epoll.register(end, how)
            asked_for_beside_another(end, epoll, how)
        os.waitpid(child, 0)


def say_received(end: socket.socket) -> None:
    """Receive a byte."""
    say("receive", lambda: end.recv(1))


def say_answered(end: socket.socket) -> None:
    """Receive what was not asked for, and what is."""
    say("receive", lambda: len(end.recv(1000, socket.MSG_WAITALL)))
    for _ in range(3):
        end.send(b"z")
        say_received(end)
    end.close()


def start_after(moment: float) -> None:
    """Start a program after a moment."""
    settled(moment)
    LIBC.system(b"exit 3")


@scene
def a_descriptor_is_passed_on_while_another_thread_starts_a_program() -> None:
    for begins, passes in ((0.0, 0.1), (0.1, 0.0), (0.0, 0.0)):
        child, end = answered_by(answering_by_turns)
        end.set_inheritable(True)
        last(end)
        settled()
        thread = threading.Thread(target=start_after, args=(begins,))
        thread.start()
        settled(passes)
        end = passed_to_itself(end)
        say_answered(end)
        thread.join()
        os.waitpid(child, 0)


def read_by_edges(end: socket.socket, epoll: select.epoll) -> int:
    """Receive what comes, each time that there is an edge; how much there was."""
    done = 0
    while done < 1000 and epoll.poll(4):
        try:
            while done < 1000:
                done += len(end.recv(300))
        except BlockingIOError:
            continue
    return done


@scene
def an_edge_is_told_again_where_a_child_has_nearly_left() -> None:
    for how in (select.EPOLLIN, select.EPOLLIN | select.EPOLLOUT):
        child, end = answered_by(answering_by_turns)
        end.set_inheritable(True)
        with end, select.epoll() as epoll:
            epoll.register(end, how | select.EPOLLET)
            last(end)
            end.setblocking(False)
            settled()
            leaving = another()
            settled(0.15)
            print(f"  {how:#x} {read_by_edges(end, epoll)}", flush=True)
            os.waitpid(leaving, 0)
        os.waitpid(child, 0)


def ask_until(passed: threading.Event, end: socket.socket) -> None:
    """Make calls that move nothing."""
    while not passed.is_set():
        end.send(b"")


@scene
def a_descriptor_is_passed_on_while_another_thread_is_in_calls() -> None:
    for _ in range(3):
        child, end = answered_by(answering_by_turns)
        last(end)
        settled()
        passed = threading.Event()
        with end.dup() as other:
            thread = threading.Thread(target=ask_until, args=(passed, other))
            thread.start()
            end = passed_to_itself(end)
            passed.set()
            thread.join()
        say_answered(end)
        os.waitpid(child, 0)


def stay_in_a_call(what: str, end: socket.socket) -> None:
    """Be in a call on a connection for longer than the other end looks at nothing."""
    if what == "poll":
        ready = select.poll()
        ready.register(end, select.POLLPRI)
        ready.poll(1500)
    else:
        end.send(bytes(20_000_000))


def sending_and_taking_all(end: socket.socket) -> None:
    """Send what is not asked for, look at nothing for a while, and send more."""
    end.send(BYTES[:5000])
    settled(1)
    end.send(BYTES[5000:8000])
    end.shutdown(socket.SHUT_WR)
    while end.recv(1 << 20):
        pass


@scene
def a_descriptor_is_passed_on_while_another_thread_stays_in_a_call() -> None:
    for what in ("poll", "send"):
        child, end = answered_by(sending_and_taking_all)
        last(end)
        settled()
        with end.dup() as other:
            thread = threading.Thread(target=stay_in_a_call, args=(what, other))
            thread.start()
            settled()
            end = passed_to_itself(end)
            end.settimeout(8)
            print(f"  {what} {received_all(end)}", flush=True)
            thread.join()
        end.close()
        os.waitpid(child, 0)


def received_all(end: socket.socket) -> tuple[int, str]:
    """Receive until the end."""
    done = 0
    while True:
        try:
            some = end.recv(3000)
        except OSError as why:
            return done, type(why).__name__
        if not some or some != BYTES[done : done + len(some)]:
            return done, "other bytes" if some else "end"
        done += len(some)


def say_there(end: socket.socket) -> None:
    """Say the events of an end, and what it receives without waiting."""
    events = select.poll()
    events.register(end, select.POLLIN | POLLRDHUP)
    say("events", lambda: events.poll(0)[0][1])
    say("received", lambda: end.recv(99, socket.MSG_DONTWAIT))


def starts_a_program(is_child: bool, starter: str) -> None:
    """Leave with all descriptors that programs inherit, if it is this process's turn."""
    if starter == ("child" if is_child else "parent"):
        os.system("sleep 0.05")
    elif is_child:
        settled()


@scene
def what_comes_after_the_receiving_was_shut_down_is_received_by_who_has_left_and_not() -> None:
    for starter in ("child", "parent", "none"):
        for inherited in (True, False):
            one, other = pair()
            one.set_inheritable(inherited)
            one.shutdown(socket.SHUT_RD)
            other.send(b"before")
            child = os.fork()
            starts_a_program(not child, starter)
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            print(starter, inherited)
            say_there(one)
            other.send(b"after")
            settled(0.3)
            say_there(one)
            say_there(one)
            say("back", lambda end=one: end.send(b"back"))
            say("answered", lambda end=other: end.recv(9))
            one.shutdown(socket.SHUT_WR)
            settled(0.1)
            say_there(one)
            one.close()
            other.close()

"""Scenes of calls that the kernel refuses, shortens, or makes nothing of: all goes on as it was."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import tempfile
from pathlib import Path

from calls_stage import EPOLLEXCLUSIVE, LIBC, Message, Part, pair, raw, say, scene, settled

CLOSED = 900
"""A number that stands for nothing."""
MSG_CMSG_COMPAT = -(2**31)
MOST = 2**63 - 1
SHORTLY_S = 0.05
INSTANCES = 6
"""More than a connection can be followed in."""


def goes_on(a: socket.socket, b: socket.socket) -> None:
    """Say whether both directions of a connection still carry bytes."""
    for name, one, other in (("there", a, b), ("back", b, a)):
        say(name, lambda one=one: one.send(b"goes on"))
        other.settimeout(5)
        say("arrives", lambda other=other: other.recv(20))


@scene
def a_refused_copy_or_end_leaves_what_is_there() -> None:
    a, b = pair()
    number = a.fileno()
    for refused in (
        lambda: raw("dup2", CLOSED, number),
        lambda: raw("dup3", CLOSED, number, 0),
        lambda: raw("dup3", 0, number, os.O_APPEND),
        lambda: raw("close_range", number, number, 64),
        lambda: raw("close_range", number + 1, number, 0),
    ):
        say("refused", refused)
        goes_on(a, b)


@scene
def a_part_of_more_than_all_memory_is_shortened() -> None:
    a, b = pair()
    place = ctypes.create_string_buffer(b"?" * 64, 100_000)
    part = Part(ctypes.cast(place, ctypes.c_char_p), MOST)
    message = Message(parts=ctypes.pointer(part), part_count=1)
    for name, receive in (
        ("readv", lambda: LIBC.readv(b.fileno(), ctypes.byref(part), 1)),
        ("recvmsg", lambda: LIBC.recvmsg(b.fileno(), ctypes.byref(message), 0)),
    ):
        b.setblocking(False)
        say(f"{name} of nothing", lambda it=receive: (it(), place.raw[:8]))
        a.sendall(b"hello")
        say(name, lambda it=receive: (it(), place.raw[:8]))
        ctypes.memset(place, ord("?"), 8)
        b.setblocking(True)
        goes_on(a, b)


@scene
def who_asks_for_nothing_has_it_after_a_wait() -> None:
    a, b = pair()
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    limit = struct.pack("ll", 0, int(SHORTLY_S * 1e6))
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    say("in time", lambda: raw("recv", b.fileno(), ctypes.create_string_buffer(1), 0, 0))
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(16))
    signal.setitimer(signal.ITIMER_REAL, SHORTLY_S)
    say("until a signal", lambda: raw("recv", b.fileno(), ctypes.create_string_buffer(1), 0, 0))
    signal.signal(signal.SIGALRM, before)
    now = socket.MSG_DONTWAIT
    say("at once", lambda: raw("recv", b.fileno(), ctypes.create_string_buffer(1), 0, now))
    goes_on(a, b)


@scene
def flags_that_are_not_for_programs() -> None:
    a, b = pair()
    part = Part(b"hello", 5)
    message = Message(parts=ctypes.pointer(part), part_count=1)
    for name, end in (("sendmsg", a), ("recvmsg", b)):
        refused = raw(name, end.fileno(), ctypes.byref(message), MSG_CMSG_COMPAT)
        say(name, lambda it=refused: it)
    goes_on(a, b)


@scene
def only_files_are_sent_as_files() -> None:
    near, far = os.pipe()
    file, place = tempfile.mkstemp()
    os.close(file)
    for name, number in (
        ("nothing", CLOSED),
        ("a folder", os.open("/", os.O_RDONLY)),
        ("a pipe", near),
        ("a pipe's other end", far),
        ("a device", os.open("/dev/zero", os.O_RDONLY)),
        ("a file", os.open(Path(__file__), os.O_RDONLY)),
        ("a device to write", os.open("/dev/null", os.O_WRONLY)),
        ("a file to write", os.open(place, os.O_WRONLY)),
        ("a file's place", os.open(place, os.O_PATH)),
    ):
        a, b = pair()
        # A file system ends before the numbers do.
        for offset in (0, 1 << 40, 1 << 62, MOST - 1, MOST, -1, None):
            for length in (0, 7):
                at = None if offset is None else ctypes.c_long(offset)
                by = None if at is None else ctypes.byref(at)
                count = ctypes.c_size_t(length)
                say(
                    f"{name}, {length} from {offset}",
                    lambda a=a, it=number, by=by, n=count: raw("sendfile", a.fileno(), it, by, n),
                )
                say("then", lambda at=at: at and at.value)
        b.setblocking(False)
        say("arrived", lambda b=b: b.recv(3))
        a.close()
        b.close()
        if number != CLOSED:
            os.close(number)
    os.unlink(place)


@scene
def an_instance_that_cannot_follow_takes_what_its_other_end_has_left() -> None:
    for how in ("inside another", "alone", "one of many"):
        a, b = pair()
        b.shutdown(socket.SHUT_WR)
        settled()
        instances = [select.epoll() for _ in range(INSTANCES)]
        if how == "inside another":
            instances[0].register(instances[1])
        last = len(instances) if how == "one of many" else 2
        asked = select.EPOLLIN | (EPOLLEXCLUSIVE if how == "alone" else 0)
        for it in instances[1:last]:
            it.register(a, asked)
        for it in instances[1:last]:
            say(how, lambda it=it: [events for _, events in it.poll(1)])
        say("the end", lambda a=a: a.recv(9))
        say("there", lambda a=a: a.send(b"still"))
        say("arrives", lambda b=b: b.recv(9))
        for it in (*instances, a, b):
            it.close()

"""Scenes of calls by their numbers, through the C library's `syscall`.

They close the numbers that nobody has told the program of, copy descriptors, put others in their
place, and set and ask for what the library else hears by a function's name.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct
import threading
from typing import TYPE_CHECKING

from calls_corners import HIGH, forked
from calls_stage import LIBC, PATIENCE_S, pair, raw, say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = {
    "x86_64": {
        "close": 3,
        "dup": 32,
        "dup3": 292,
        "fcntl": 72,
        "setsockopt": 54,
        "pselect6": 270,
        "splice": 275,
        "connect": 42,
    },
    "aarch64": {
        "close": 57,
        "dup": 23,
        "dup3": 24,
        "fcntl": 25,
        "setsockopt": 208,
        "pselect6": 72,
        "splice": 76,
        "connect": 203,
    },
}[platform.machine()]
CLOSE_RANGE = 436
LAST = (1 << 32) - 1
HIGHEST = 20_000
KNOWN = 1000
"""What the program makes has numbers below."""
WORD_BITS = 64


def by_number(name: str, *arguments: object) -> object:
    """Make a call by its number; its error's name if it fails."""
    wide = [ctypes.c_long(it) if isinstance(it, int) else it for it in arguments]
    return raw("syscall", ctypes.c_long(NUMBERS[name]), *wide)


def close_each(first: int) -> None:
    """Close all numbers from one on, one by one."""
    closed = [at for at in range(first, HIGHEST) if by_number("close", at) == 0]
    # What the library has is there, too, with higher numbers.
    say("closed", lambda: len([at for at in closed if at < KNOWN]))


def close_all(first: int) -> None:
    """Close them by one call."""
    say("closed", lambda: LIBC.syscall(CLOSE_RANGE, first, ctypes.c_uint(LAST), 0))


def go_on_without_others(close: Callable[[int], None]) -> None:
    """Close what is above a connection, and let one end wait for the other."""
    a, b = pair()
    close(max(a.fileno(), b.fileno()) + 1)
    for _ in range(3):
        got: list[bytes] = []
        waiting = threading.Thread(target=lambda got=got: got.append(b.recv(99)))
        waiting.start()
        settled()
        a.sendall(b"word")
        waiting.join(PATIENCE_S)
        say("it came", lambda got=got: got)
    close(b.fileno())
    say("the end", lambda: a.recv(99))


@scene
def numbers_closed_by_number() -> None:
    for close in (close_each, close_all):
        say("ended", lambda close=close: forked(lambda: go_on_without_others(close)))


@scene
def copies_by_number() -> None:
    copies: list[tuple[str, tuple[int, ...]]] = [
        ("dup", ()), ("dup3", (HIGH, 0)), ("fcntl", (fcntl.F_DUPFD, HIGH))
    ]  # fmt: skip
    for name, arguments in copies:
        a, b = pair()
        copy = int(str(by_number(name, b.fileno(), *arguments)))
        b.close()
        a.sendall(b"to the copy")
        say(name, lambda copy=copy: os.read(copy, 99))
        os.write(copy, b"from it")
        say("back", lambda a=a: a.recv(99))
        by_number("close", copy)
        say("the end", lambda a=a: a.recv(99))


@scene
def another_file_in_its_place_by_number() -> None:
    a, b = pair()
    nothing = os.open(os.devnull, os.O_RDONLY)
    number = b.fileno()
    say("replaced", lambda: by_number("dup3", nothing, number, 0) == number)
    say("nothing there", lambda: os.read(number, 99))
    say("the end", lambda: a.recv(99))
    os.close(nothing)


@scene
def disconnected_by_number() -> None:
    a, b = pair()
    nowhere = bytes(16)
    say("disconnected", lambda: by_number("connect", a.fileno(), nowhere, len(nowhere)))
    settled()
    say("the other end", lambda: b.recv(99))
    say("send", lambda: a.send(b"x"))
    say("its name", a.getpeername)


def set_by_number() -> None:
    """Set a time limit, and not to wait at all; in a process that has some seconds."""
    _, b = pair()
    time = struct.pack("ll", 0, 50_000)
    option = (socket.SOL_SOCKET, socket.SO_RCVTIMEO, time, len(time))
    say("time", lambda: by_number("setsockopt", b.fileno(), *option))
    say("after it", lambda: b.recv(99))
    _, b = pair()
    flags = fcntl.fcntl(b, fcntl.F_GETFL)
    more = flags | os.O_NONBLOCK
    say("flag", lambda: by_number("fcntl", b.fileno(), fcntl.F_SETFL, more))
    say("at once", lambda: b.recv(99))


@scene
def settings_by_number() -> None:
    say("ended", lambda: forked(set_by_number))


@scene
def selected_by_number() -> None:
    a, b = pair()
    now = struct.pack("ll", 0, 0)

    def ready() -> object:
        named = (ctypes.c_uint64 * (HIGH // WORD_BITS))()
        named[b.fileno() // WORD_BITS] = 1 << b.fileno() % WORD_BITS
        return by_number("pselect6", b.fileno() + 1, named, None, None, now, None)

    a.sendall(b"there")
    settled()
    say("ready", ready)
    say("read", lambda: b.recv(99))
    say("not ready", ready)
    a.sendall(b"again")
    settled()
    say("ready again", ready)


@scene
def spliced_by_number() -> None:
    a, b = pair()
    out, into = os.pipe()
    for word in (b"one", b"two"):
        a.sendall(b"before " + word)
        os.write(into, word)
        say("moved", lambda: by_number("splice", out, None, a.fileno(), None, 99, 0))
        settled()
        say("in order", lambda: b.recv(99))
    os.close(out)
    os.close(into)

"""Scenes of pointers that lead nowhere: the kernel's error, on accelerated sockets and others.

What each call says is told beside what is left to read at both ends.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import select
import socket
import struct
import tempfile
from ctypes import byref, c_int, c_long, c_size_t, c_uint, c_void_p
from types import FunctionType
from typing import TYPE_CHECKING

from calls_stage import LIBC, pair, raw, scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Call = tuple[object, ...]
    """What it is told as, the C function, and its arguments; those that are functions make them."""
    Kind = Callable[[int], Iterator[Call]]
    Pair = tuple[socket.socket, socket.socket]

KERNELS = 2**64 - 1
ROOM = ctypes.create_string_buffer(4096)
HUGE = c_size_t(2**64 - 1)
NOW = socket.MSG_DONTWAIT
MORE_THAN_THE_KERNEL_TAKES = 5000
NODELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY)
CORK = (socket.IPPROTO_TCP, socket.TCP_CORK)
TIME_LIMIT = (socket.SOL_SOCKET, socket.SO_RCVTIMEO)
FILTER = (socket.SOL_SOCKET, 26)
RECEIVED_OPTIONS = (socket.IPPROTO_IP, 8)
INQ = (socket.IPPROTO_TCP, 36)
TIOCOUTQ, FIONREAD, FIONBIO, FIOASYNC = 0x5411, 0x541B, 0x5421, 0x5452
BARE_SENDMSG, BARE_PPOLL, BARE_CLONE3 = (
    (46, 271, 435) if platform.machine() == "x86_64" else (211, 73, 435)
)
MADE: list[select.epoll] = []


class Place(ctypes.Structure):
    """A part of a message, with an address of any kind: `iovec`."""

    _fields_ = (("base", c_void_p), ("length", c_size_t))


class Letter(ctypes.Structure):
    """A message with addresses of any kind: `msghdr`."""

    _fields_ = (
        ("name", c_void_p),
        ("name_length", c_uint),
        ("parts", c_void_p),
        ("part_count", c_size_t),
        ("control", c_void_p),
        ("control_length", c_size_t),
        ("flags", c_int),
    )


class Counted(ctypes.Structure):
    """The same with its length: `mmsghdr`."""

    _fields_ = (("letter", Letter), ("length", c_uint))


def room() -> int:
    return ctypes.addressof(ROOM)


def parts(*places: tuple[int, int]) -> ctypes.Array[Place]:
    return (Place * len(places))(*(Place(*place) for place in places))


def letter(places: object, count: int = 1, **more: int) -> Letter:
    """Make a message of these parts."""
    if isinstance(places, ctypes.Array):
        made = Letter(parts=ctypes.addressof(places), part_count=count, **more)
        made.keeps = places
        return made
    return Letter(parts=places, part_count=count, **more)


def whole(**more: int) -> Letter:
    return letter(parts((room(), 5)), **more)


def number(fd: int) -> int:
    """Stand for the descriptor among the arguments of a call."""
    return fd


def entry(fd: int) -> ctypes.Array[ctypes.c_char]:
    """Make an entry for `poll`."""
    return ctypes.create_string_buffer(struct.pack("ihh", fd, select.POLLIN, 0))


def named(fd: int) -> ctypes.Array[ctypes.c_char]:
    """Make a set for `select`."""
    return ctypes.create_string_buffer((1 << fd).to_bytes(128, "little"), 128)


def beyond(fd: int) -> int:
    """Say how many descriptors such a set names."""
    return fd + 1


def instance(_fd: int) -> int:
    """Make an `epoll` instance of nothing."""
    MADE.append(select.epoll())
    return MADE[-1].fileno()


def follower(fd: int) -> int:
    """Make one that the descriptor is in."""
    MADE.append(select.epoll())
    MADE[-1].register(fd)
    return MADE[-1].fileno()


def bytes_from(bad: int) -> Iterator[Call]:
    """Make the calls that move bytes themselves."""
    nowhere, five, counted = c_void_p(bad), c_size_t(5), NOW | socket.MSG_TRUNC
    yield "send", "send", number, nowhere, five, NOW
    yield "recv", "recv", number, nowhere, five, NOW
    yield "counted", "recv", number, nowhere, five, counted
    yield "looked at", "recv", number, nowhere, five, NOW | socket.MSG_PEEK
    yield "as much as can be", "recv", number, ROOM, HUGE, NOW
    yield "read", "read", number, nowhere, five
    yield "read as much as can be", "read", number, ROOM, HUGE
    yield "write", "write", number, nowhere, five
    yield "write as much as can be", "write", number, ROOM, HUGE
    yield "sendto", "sendto", number, nowhere, five, NOW, None, 0
    yield "recvfrom", "recvfrom", number, nowhere, five, NOW, None, None
    for name in ("readv", "writev"):
        below = parts((room(), 3), (room(), HUGE.value))
        yield f"{name} there", name, number, parts((bad, 5)), 1
        yield f"{name} there in part", name, number, parts((room(), 3), (bad, 5)), 2
        yield f"{name} below nothing", name, number, below, 2
    for name in ("sendmsg", "recvmsg"):
        yield f"{name} there", name, number, byref(letter(parts((bad, 5)))), NOW


def beside_bytes(bad: int) -> Iterator[Call]:
    """Make those that are told where the bytes are, and more."""
    nowhere, five, sixteen = c_void_p(bad), c_size_t(5), byref(c_uint(16))
    yield "to", "sendto", number, ROOM, five, NOW, nowhere, 16
    yield "from", "recvfrom", number, ROOM, five, NOW, nowhere, sixteen
    yield "how long", "recvfrom", number, ROOM, five, NOW, c_void_p(room() + 99), nowhere
    for name in ("readv", "writev"):
        yield name, name, number, nowhere, 1
        yield f"{name} of none", name, number, nowhere, 0
        yield f"{name} of -1", name, number, parts((room(), 5)), -1
    for name in ("preadv2", "pwritev2"):
        yield name, name, number, nowhere, 1, c_long(-1), 0
    for name in ("sendmsg", "recvmsg"):
        yield name, name, number, nowhere, NOW
        messages = {
            "parts": letter(bad),
            "name": whole(name=bad, name_length=16),
            "control": whole(control=bad, control_length=64),
            "name of -1": whole(name=room(), name_length=2**32 - 1),
            "too many": letter(parts((room(), 5)), MORE_THAN_THE_KERNEL_TAKES),
        }
        for what, message in messages.items():
            yield f"{name}, {what}", name, number, byref(message), NOW
    yield "sendmmsg", "sendmmsg", number, nowhere, 1, NOW
    yield "recvmmsg", "recvmmsg", number, nowhere, 1, NOW, None
    yield "recvmmsg until", "recvmmsg", number, byref(Counted(whole())), 1, NOW, nowhere
    with tempfile.TemporaryFile() as file:
        file.write(bytes(99))
        file.flush()
        yield "sendfile", "sendfile", number, file.fileno(), nowhere, five


def about_sockets(bad: int) -> Iterator[Call]:
    """Make those that ask something of a socket, or tell it."""
    nowhere, unspecified = c_void_p(bad), c_void_p(room() + 2000)
    yield "connect", "connect", number, nowhere, 16
    yield "connect of -1", "connect", number, unspecified, -1
    yield "connect of 1", "connect", number, unspecified, 1
    for name in ("getsockname", "getpeername"):
        yield name, name, number, nowhere, byref(c_uint(16))
        yield f"{name}, length", name, number, ROOM, nowhere
    for option in (NODELAY, CORK, TIME_LIMIT, FILTER, RECEIVED_OPTIONS, INQ):
        yield f"set {option}", "setsockopt", number, *option, nowhere, 4
        yield f"set {option} of -1", "setsockopt", number, *option, ROOM, -1
        yield f"get {option}", "getsockopt", number, *option, nowhere, byref(c_uint(4))
    for request in (TIOCOUTQ, FIONREAD, FIONBIO, FIOASYNC):
        yield f"ioctl {request:x}", "ioctl", number, request, nowhere
    yield "bare sendmsg", "syscall", BARE_SENDMSG, number, nowhere, NOW
    yield "bare ppoll", "syscall", BARE_PPOLL, nowhere, 1, None, None, 0
    yield "bare clone3", "syscall", BARE_CLONE3, nowhere, c_size_t(88)


def waits(bad: int) -> Iterator[Call]:
    """Make those that wait for descriptors; their times the C library itself looks at."""
    nowhere, no_time = c_void_p(bad), (c_long * 2)(0, 0)
    yield "poll", "poll", nowhere, 1, 0
    yield "ppoll", "ppoll", nowhere, 1, None, None
    yield "ppoll by", "ppoll", entry, 1, no_time, nowhere
    yield "select to read", "select", beyond, nowhere, None, None, no_time
    yield "select to write", "select", beyond, named, nowhere, None, no_time
    yield "select for others", "select", beyond, named, None, nowhere, no_time
    yield "select of -1", "select", -1, named, None, None, no_time
    yield "pselect by", "pselect", beyond, named, None, None, no_time, nowhere
    yield "epoll_ctl add", "epoll_ctl", instance, 1, number, nowhere
    yield "epoll_ctl change", "epoll_ctl", follower, 3, number, nowhere
    yield "epoll_ctl remove", "epoll_ctl", follower, 2, number, nowhere
    yield "epoll_wait", "epoll_wait", follower, nowhere, 1, 0
    yield "epoll_wait for none", "epoll_wait", follower, ROOM, 0, 0
    yield "epoll_pwait by", "epoll_pwait", follower, ROOM, 1, 0, nowhere
    yield "epoll_pwait2 until", "epoll_pwait2", follower, ROOM, 1, nowhere, None


def left(end: socket.socket) -> bytes | str:
    """What can be read of a socket's end now."""
    try:
        return end.recv(99, NOW)
    except BlockingIOError:
        return "nothing"
    except OSError as why:
        return str(why.strerror)


def told(make: Callable[[], Pair], bad: int, kinds: Iterable[Kind]) -> None:
    """Make each call on an end of a pair of its own, at whose other end something was sent."""
    for name, function, *arguments in itertools.chain.from_iterable(kind(bad) for kind in kinds):
        ctypes.memset(ROOM, 0, len(ROOM))
        near, far = make()
        with near, far:
            far.send(b"waiting")
            select.select([near], [], [])
            near.setblocking(False)
            fd = near.fileno()
            passed = [it(fd) if isinstance(it, FunctionType) else it for it in arguments]
            said = raw(function, *passed)
            print(f"  {name}: {said}, left {left(near)!r} and {left(far)!r}", flush=True)
        while MADE:
            MADE.pop().close()


ALL = (bytes_from, beside_bytes, about_sockets, waits)


def unmapped() -> int:
    """Where there is memory that nobody may touch."""
    LIBC.mmap.restype = c_void_p
    private_anonymous = 0x22
    return LIBC.mmap(None, c_size_t(8192), 0, private_anonymous, -1, c_long(0))


@scene
def pointers_into_the_kernel() -> None:
    told(pair, KERNELS, ALL)


@scene
def pointers_to_nothing() -> None:
    told(pair, 0, ALL)


@scene
def pointers_to_what_nobody_may_touch() -> None:
    """Not those of bytes, of whose place it is not known before they are moved."""
    told(pair, unmapped(), ALL[1:])


@scene
def pointers_for_sockets_that_are_not_accelerated() -> None:
    for bad in (KERNELS, unmapped()):
        told(socket.socketpair, bad, ALL)

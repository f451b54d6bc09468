"""What the scenes of `calls.py` stand on: a carried connection, and how a call is told."""

from __future__ import annotations

import ctypes
import errno
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
EPOLL_CTL_ADD = 1
POLLRDHUP = 0x2000
EPOLLEXCLUSIVE = 1 << 28
PATIENCE_S = 30
"""What happens at all has happened by then, on a loaded machine too."""
SCENES: list[Callable[[], None]] = []


class Part(ctypes.Structure):
    """A part of a message: `iovec`."""

    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


class Message(ctypes.Structure):
    """A message: `msghdr`."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("parts", ctypes.POINTER(Part)),
        ("part_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class Counted(ctypes.Structure):
    """A message of several, and how much of it has gone: `mmsghdr`."""

    _fields_ = (("message", Message), ("length", ctypes.c_uint))


def scene(made: Callable[[], None]) -> Callable[[], None]:
    """Remember a scene."""
    SCENES.append(made)
    return made


def say(what: str, call: Callable[[], object]) -> None:
    """Print what a call returns, or the error that it raises."""
    try:
        said = call()
    except OSError as why:
        said = errno.errorcode.get(why.errno or 0, type(why).__name__)
    if isinstance(said, bytes) and len(said) > 40:
        said = f"{len(said)} bytes, {sum(said)}"
    print(f"  {what}: {said}", flush=True)


def raw(name: str, *arguments: object) -> object:
    """Call a C function; its error's name if it fails."""
    ctypes.set_errno(0)
    result = getattr(LIBC, name)(*arguments)
    return errno.errorcode[ctypes.get_errno()] if result == -1 else result


LASTING = 1500
"""Rounds after which connections are carried even where those before have been short."""


def pair(rounds: int = 60, family: int = socket.AF_INET) -> tuple[socket.socket, socket.socket]:
    """Make a connection, and use it until it would be carried."""
    where = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((where, 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server = listener.accept()[0]
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(rounds):
        client.sendall(b"ping")
        assert server.recv(4, socket.MSG_WAITALL) == b"ping"
        server.sendall(b"pong")
        assert client.recv(4, socket.MSG_WAITALL) == b"pong"
    return client, server


def settled(seconds: float = 0.05) -> None:
    """Let what was sent arrive."""
    time.sleep(seconds)

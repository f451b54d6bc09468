"""What the scenes of `calls.py` stand on: an accelerated connection, and how a call is told."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
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


class Acceleration:
    """Whether connections that were accelerated still are, as the library's log says."""

    def __init__(self, pairs: list[tuple[socket.socket, socket.socket]]) -> None:
        ends = [end for both in pairs for end in both]
        self.names = [
            "{}:{} to {}:{}: ".format(*end.getsockname(), *end.getpeername()) for end in ends
        ]
        self.begun = len(self.said())
        """What comes after this is not of an earlier connection of the same ports."""
        said = self.said()
        accelerated = [f"{name}accelerated through shared memory" in said for name in self.names]
        assert all(accelerated) or "WEFT_LIVE_LOG" not in os.environ, (
            "they are not accelerated at first"
        )

    @staticmethod
    def said() -> str:
        """Read the log; nothing where there is no library."""
        log = Path(os.environ.get("WEFT_LIVE_LOG", os.devnull))
        return log.read_text() if log.exists() else ""

    def lasts(self) -> bool:
        """Say whether none of them has gone back to the kernel. Without the library none can."""
        since = self.said()[self.begun :]
        return not any(f"{name}back to the kernel" in since for name in self.names)


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
"""Rounds after which connections are accelerated even where those before have been short."""


def pair(rounds: int = 60, family: int = socket.AF_INET) -> tuple[socket.socket, socket.socket]:
    """Make a connection, and use it until it would be accelerated."""
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


JOINS = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <unistd.h>
static char room[1 << 22];
static void need(int holds) { if (!holds) puts("  not made"), exit(1); }
static void join(int ends[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    need(!bind(listener, (void *)&at, length) && !listen(listener, 1));
    getsockname(listener, (void *)&at, &length);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    need(!connect(ends[0], (void *)&at, length));
    need((ends[1] = accept(listener, 0, 0)) >= 0);
    close(listener);
    for (int end = 0; end < 2; end++)
        setsockopt(ends[end], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int round = 0; round < 120; round++)
        need(send(ends[round % 2], "ping", 4, 0) == 4
             && recv(ends[1 - round % 2], room, 4, MSG_WAITALL) == 4);
}
"""
"""What a program in C begins with that joins two ends."""


def compiled(source: str) -> None:
    """Run a program in C that joins two ends, and say how it ended."""
    if shutil.which("cc") is None:
        say("nothing", lambda: "no compiler is there")
        return
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "program"
        # The compiler is looked for by a process that has no library.
        plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        command = ["cc", "-O1", "-pthread", "-x", "c", "-", "-o", str(program)]
        subprocess.run(command, input=(JOINS + source).encode(), env=plain, check=True)
        say("it ended", lambda: subprocess.run([program], check=False, timeout=60).returncode)

"""Scenes of processes that have as many descriptors as they may."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from calls_corners import apart
from calls_stage import pair, raw, say, scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FEW = 64
"""Descriptors that the process may have, and may not allow itself more of."""
MANY = 4096
"""As many as may be, where the process may have more than a set of `select` has bits."""
USUAL = 1024
"""As many bits as a set has."""
CLIENTS = 20
ROUNDS = 60
"""Rounds after which the other end of each connection is looked for."""

CALLER = """
import socket, sys
ends = []
for _ in range(int(sys.argv[2])):
    ends.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
    for _ in range(int(sys.argv[3])):
        ends[-1].sendall(b"ping")
        if ends[-1].recv(4) != b"pong":
            break
sys.stdin.read()
"""


@contextlib.contextmanager
def callers(listener: socket.socket, count: int) -> Iterator[None]:
    """Have a process make connections that does not run under the library."""
    environment = {name: it for name, it in os.environ.items() if name != "LD_PRELOAD"}
    arguments = [listener.getsockname()[1], count, ROUNDS]
    command = [sys.executable, "-c", CALLER, *map(str, arguments)]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stderr=nothing
    ) as process:
        try:
            yield
        finally:
            process.kill()


def answered(listener: socket.socket) -> socket.socket:
    """Take a connection, and use it until its other end is looked for."""
    end = listener.accept()[0]
    end.settimeout(20)
    for _ in range(ROUNDS):
        assert end.recv(4) == b"ping"
        end.sendall(b"pong")
    return end


def until_refused(make: Callable[[], object]) -> str:
    """Make descriptors as long as there are numbers; how many, and the error."""
    made: list[int] = []
    try:
        while isinstance(number := make(), int):
            made.append(number)
    except OSError as why:
        number = errno.errorcode.get(why.errno or 0)
    for it in made:
        os.close(it)
    return f"{len(made)} and {number}"


def accept_all() -> None:
    """Accept connections until there is no number left."""
    with socket.create_server(("127.0.0.1", 0), backlog=FEW) as listener, callers(listener, FEW):
        say("accepted", lambda: until_refused(lambda: answered(listener).detach()))


def make_all() -> None:
    """Make descriptors of each kind beside connections until there is no number left."""
    for name, make in (
        ("dup", lambda: raw("dup", 0)),
        ("fcntl", lambda: fcntl.fcntl(0, fcntl.F_DUPFD, 0)),
        ("socket", lambda: raw("socket", socket.AF_INET, socket.SOCK_STREAM, 0)),
        ("epoll_create1", lambda: raw("epoll_create1", 0)),
    ):
        with socket.create_server(("127.0.0.1", 0)) as listener, callers(listener, CLIENTS):
            ends = [answered(listener) for _ in range(CLIENTS)]
            say(name, lambda it=make: until_refused(it))
            for end in ends:
                end.close()


def select_more_than_a_set_has() -> None:
    """Wait for as many numbers as there may be, with sets of the usual size and with long ones."""
    a, b = pair()
    near, far = os.pipe()
    # The kernel's table of the process stays as long as it has once been.
    for beyond in (False, True):
        for name, number, told in (
            ("a connection", b.fileno(), lambda: a.send(b"x")),
            ("a pipe", near, lambda: os.write(far, b"x")),
        ):
            place = os.dup2(number, MANY - 1) if beyond else number
            bits = bytearray(b"\0" if beyond else b"\xff") * (MANY // 8)
            bits[: USUAL // 8] = bytes(USUAL // 8)
            bits[place // 8] |= 1 << place % 8
            asked = (ctypes.c_ubyte * len(bits))(*bits)
            told()
            found = raw("select", MANY, asked, None, None, (ctypes.c_long * 2)(5, 0))
            say(f"{name} at {place}", lambda it=found: it)
            say("the same bits", lambda asked=asked, bits=bits: bytes(asked) == bytes(bits))
            say("what came", lambda number=number: os.read(number, 9))


@scene
def sets_may_be_shorter_than_is_said() -> None:
    apart(select_more_than_a_set_has, MANY, MANY)


@scene
def a_server_of_few_descriptors_accepts_with_all_of_them() -> None:
    apart(accept_all, FEW, FEW)


@scene
def whoever_may_have_few_descriptors_gets_all_of_them() -> None:
    apart(make_all, FEW, FEW)

"""A process of a family: it does with its connections what `families.py` tells it.

It is told by a socket that stands at a number of its own, so that it keeps it over `exec`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pickle
import select
import socket
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = 150
"""The number by which an agent has its orders, out of the way of those of connections."""
MESSAGES = 100
"""Exchanges after which the first connections of a process are accelerated."""
LIMIT_S = 30
"""An agent that has not answered by then hangs."""
EVENTS = select.POLLIN | select.POLLOUT | select.POLLPRI | select.POLLRDHUP
PROGRAMS = {"reads": "head -c 3", "writes": "printf 'a line\\n'", "nothing": "true"}


def sockets(number: int) -> socket.socket:
    """A connection by its number; the number must be detached again."""
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=number)


class Player:
    """An agent's process: it does what it is told."""

    def __init__(self, orders: int) -> None:
        self.instance: select.epoll | None = None
        self.begin(orders)

    def begin(self, orders: int) -> None:
        """Take orders from a new place, and say who does."""
        if orders != ORDERS:
            os.dup2(orders, ORDERS, inheritable=False)
            os.close(orders)
        os.set_inheritable(ORDERS, False)
        self.orders = socket.socket(fileno=ORDERS)
        self.orders.send(pickle.dumps(os.getpid()))

    def play(self) -> NoReturn:
        """Do what is told until nobody is there to tell."""
        while True:
            order, given, _, _ = socket.recv_fds(self.orders, 1 << 17, 1)
            if not order:
                os._exit(0)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            verb, *arguments = pickle.loads(order)
            try:
                answer = getattr(self, verb)(*arguments, *given), ""
            except OSError as why:
                answer = None, errno.errorcode[why.errno or 0]
            self.orders.send(pickle.dumps(answer))

    def make(self, count: int) -> list[int]:
        """Make connections, and use them until they are accelerated."""
        ends: list[socket.socket] = []
        for _ in range(count):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                client = socket.create_connection(listener.getsockname())
                server = listener.accept()[0]
            ends += (client, server)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.set_inheritable(True)
            for near, far in [(client, server), (server, client)] * MESSAGES:
                near.sendall(b"word")
                assert far.recv(4, socket.MSG_WAITALL) == b"word"
        return [end.detach() for end in ends]

    def by(self, number: int, call: Callable[[socket.socket], Any]) -> Any:
        """Make a call on a connection."""
        end = sockets(number)
        try:
            return call(end)
        finally:
            end.detach()

    def send(self, number: int, data: bytes) -> Any:
        return self.by(number, lambda end: end.send(data, socket.MSG_DONTWAIT))

    def recv(self, number: int, count: int, flags: int = 0) -> Any:
        return self.by(number, lambda end: end.recv(count, socket.MSG_DONTWAIT | flags))

    def peek(self, number: int, count: int) -> Any:
        return self.recv(number, count, socket.MSG_PEEK)

    def unread(self, number: int) -> int:
        return int(struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, bytes(4)))[0])

    def poll(self, *numbers: int) -> list[tuple[int, int]]:
        waiter = select.poll()
        for number in numbers:
            waiter.register(number, EVENTS)
        return sorted(waiter.poll(0))

    def watch(self, number: int, events: int) -> None:
        self.instance = self.instance or select.epoll()
        self.instance.register(number, events)

    def asked(self) -> list[tuple[int, int]]:
        return sorted(self.instance.poll(0)) if self.instance else []

    def shutdown(self, number: int, how: int) -> None:
        self.by(number, lambda end: end.shutdown(how))

    def dup(self, number: int, inherited: bool) -> int:
        return fcntl.fcntl(number, fcntl.F_DUPFD if inherited else fcntl.F_DUPFD_CLOEXEC, 3)

    def close(self, number: int) -> None:
        os.close(number)

    def inherit(self, number: int, inherited: bool) -> None:
        os.set_inheritable(number, inherited)

    def linger(self, number: int) -> None:
        now = struct.pack("ii", 1, 0)
        self.by(number, lambda end: end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now))

    def give(self, number: int, way: int) -> None:
        with socket.socket(fileno=way) as there:
            socket.send_fds(there, [b"x"], [number])

    def take(self, way: int) -> int:
        with socket.socket(fileno=way) as here:
            return socket.recv_fds(here, 1, 1)[1][0]

    def program(self, number: int, does: str, alone: bool) -> tuple[int, bytes]:
        reads, pipe = does == "reads", subprocess.PIPE
        ran = subprocess.run(
            ["sh", "-c", PROGRAMS[does]],
            stdin=number if reads else subprocess.DEVNULL,
            stdout=number if does == "writes" else pipe,
            close_fds=alone,
            timeout=LIMIT_S / 2,
            check=False,
        )
        return ran.returncode, ran.stdout or b""

    def fork(self, _: str, orders: int) -> None:
        if os.fork():
            os.close(orders)
            return
        # What one process takes out of an instance that is inherited the other does not know of
        # ("Descriptors"); so only one goes on with it.
        if self.instance:
            self.instance.close()
            self.instance = None
        self.orders.close()
        self.begin(orders)
        self.play()

    def start(self, _: str, how: str, library: str, orders: int) -> None:
        os.set_inheritable(orders, False)
        environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        if library:
            environment["LD_PRELOAD"] = library
        program = agent_command()
        if how == "spawn":
            there = [(os.POSIX_SPAWN_DUP2, orders, ORDERS)]
            os.posix_spawn(program[0], program, environment, file_actions=there)
        elif not os.fork():
            os.dup2(orders, ORDERS)
            os.execve(program[0], program, environment)
        os.close(orders)

    def exit(self, how: str) -> None:
        sys.exit(0) if how == "exit" else os._exit(0)


def agent_command() -> list[str]:
    """What starts an agent."""
    return [sys.executable, "-I", "-S", __file__]


if __name__ == "__main__":
    Player(ORDERS).play()

"""Random scenes of a connection that a process shares with its forks and with programs.

All act in turn, none waits, and the other end does nothing unless it is told to. To whoever does
what: each byte is read once, where the last reader stopped, and comes where it was written.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import random
import select
import socket
import subprocess
import sys
import time

from calls_stage import pair, say, scene

FAMILIES = [0, 1, 2, 3, 4, 5, 7, 25, 30, 44, 47, 59]
"""From the seventh on they read other bytes, or too few, while each user had a loan of its own."""
MOST_MEMBERS = 5
PATIENCE_S = 20
READ = [1, 100, 5000, 40_000, 300_000]
WRITTEN = [1, 100, 5000, 100_000, 1_000_000, 3_000_000]
AGAIN = -errno.EAGAIN

MEMBER = r"""
import os, socket, sys
end = socket.socket(fileno=int(sys.argv[1]))
for line in iter(sys.stdin.readline, ""):
    what, at, count = line.split()
    if what == "over":
        break
    try:
        if what == "write":
            said = end.send(text(int(at), int(count)), socket.MSG_DONTWAIT)
        elif what == "read":
            said = end.recv(int(count), socket.MSG_DONTWAIT).hex() or "end"
        else:
            said = end.shutdown(socket.SHUT_WR) or 0
    except OSError as why:
        said = -why.errno
    print(said, flush=True)
os._exit(0)
"""


def text(at: int, count: int) -> bytes:
    """Return what stands in either stream from a place on."""
    begin = at % 251
    return (bytes(range(251)) * ((begin + count) // 251 + 1))[begin : begin + count]


PROGRAM = inspect.getsource(text) + MEMBER


class Member:
    """One that has the end, and does with it what it is told: a program, or a fork."""

    def __init__(self, end: socket.socket, *, is_fork: bool, is_plain: bool) -> None:
        """Start it; a plain one has no library of its own."""
        number = end.fileno()
        if is_fork:
            self.start_fork(number)
            return
        environment = {**os.environ}
        if is_plain:
            environment.pop("LD_PRELOAD", None)
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[number],
            env=environment,
        )
        assert program.stdin is not None
        assert program.stdout is not None
        self.process, self.orders, self.answers = program.pid, program.stdin, program.stdout
        self.program = program

    def start_fork(self, number: int) -> None:
        (orders, give), (take, answers) = os.pipe(), os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(give)
            os.close(take)
            for pipe, standard in ((orders, 0), (answers, 1)):
                os.dup2(pipe, standard)
            sys.stdin, sys.stdout, sys.argv = os.fdopen(0), os.fdopen(1, "w"), ["", str(number)]
            try:
                exec(PROGRAM, {})
            finally:
                os._exit(1)
        os.close(orders)
        os.close(answers)
        self.orders, self.answers = os.fdopen(give, "wb"), os.fdopen(take, "rb")

    def do(self, what: str, at: int = 0, count: int = 0) -> int | bytes:
        """Let it act; returns what was read, or a number, below zero for an error."""
        self.orders.write(f"{what} {at} {count}\n".encode())
        self.orders.flush()
        said = self.answers.readline().decode().strip()
        if what == "read" and not said.startswith("-"):
            return b"" if said == "end" else bytes.fromhex(said)
        return int(said)

    def end(self, *, by_kill: bool) -> None:
        """End it."""
        if by_kill:
            os.kill(self.process, 9)
        else:
            # Its pipe has other writers: those that were forked later.
            self.orders.write(b"over 0 0\n")
            self.orders.flush()
        os.waitpid(self.process, 0)
        self.answers.close()


class Own(Member):
    """The process itself."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    def do(self, what: str, at: int = 0, count: int = 0) -> int | bytes:
        try:
            if what == "write":
                return self.socket.send(text(at, count), socket.MSG_DONTWAIT)
            if what == "read":
                return self.socket.recv(count, socket.MSG_DONTWAIT)
            self.socket.shutdown(socket.SHUT_WR)
        except OSError as why:
            return -(why.errno or 0)
        return 0


class Family:
    """A connection one end of which is shared, and what has gone by each way."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.other, self.shared = pair()
        self.members: list[Member] = [Own(self.shared)]
        self.written = self.got = self.sent = self.read = 0
        self.is_shut = False

    def live(self) -> None:
        """Do something at random many times, then all that is left."""
        if self.chance.random() < 0.8:
            self.send(self.chance.choice([10, 1000, 200_000]))
        odds = {self.begin: 12, self.finish: 8, self.send_some: 10, self.get_some: 10}
        odds |= {self.write: 30, self.take: 20, self.shut: 3, self.pause: 7}
        try:
            for _ in range(self.chance.randrange(8, 40)):
                act = self.chance.choices(*zip(*odds.items(), strict=True))[0]
                act(self.chance.choice(self.members))
            self.shut(self.chance.choice(self.members))
            self.drain()
        finally:
            for member in self.members[1:]:
                member.end(by_kill=True)

    def pause(self, _: Member) -> None:
        time.sleep(self.chance.choice([0, 0.01, 0.05]))

    def begin(self, _: Member) -> None:
        is_fork, is_plain = self.chance.random() < 0.25, self.chance.random() < 0.5
        if len(self.members) < MOST_MEMBERS:
            self.members.append(Member(self.shared, is_fork=is_fork, is_plain=is_plain))

    def finish(self, member: Member) -> None:
        if member is not self.members[0]:
            self.members.remove(member)
            member.end(by_kill=self.chance.random() < 0.3)

    def write(self, member: Member) -> None:
        if self.is_shut:
            return
        count = member.do("write", self.written, self.chance.choice(WRITTEN))
        assert isinstance(count, int)
        assert count > 0 or count == AGAIN, f"a write ended with {count}"
        self.written += max(count, 0)

    def take(self, member: Member) -> bool:
        """Let it read; false at the end."""
        piece = member.do("read", 0, self.chance.choice(READ))
        if piece == AGAIN:
            time.sleep(self.chance.choice([0, 0.001, 0.03]))
            return True
        assert isinstance(piece, bytes), f"a read ended with {piece}"
        assert piece == text(self.read, len(piece)), f"other bytes at {self.read} of {self.sent}"
        self.read += len(piece)
        return bool(piece)

    def shut(self, member: Member) -> None:
        if not self.is_shut:
            assert member.do("shut") == 0
            self.is_shut = True

    def send_some(self, _: Member) -> None:
        self.send(self.chance.choice([1, 1000, 100_000]))

    def send(self, count: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self.sent += self.other.send(text(self.sent, count), socket.MSG_DONTWAIT)

    def get_some(self, _: Member) -> None:
        self.get(self.chance.choice([1, 1000, 300_000]))

    def get(self, count: int) -> bool:
        """Read at the other end; false at the end."""
        try:
            piece = self.other.recv(count, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        assert piece == text(self.got, len(piece)), f"other bytes at {self.got} of {self.written}"
        self.got += len(piece)
        return bool(piece)

    def drain(self) -> None:
        """Read all that is left, both ways, up to the ends."""
        is_over = False
        while not is_over:
            assert select.select([self.other], [], [], PATIENCE_S)[0], f"nothing after {self.got}"
            is_over = not self.get(300_000)
        assert self.got == self.written, f"the end after {self.got} of {self.written}"
        self.other.shutdown(socket.SHUT_WR)
        until = time.monotonic() + PATIENCE_S
        while self.take(self.chance.choice(self.members)):
            assert time.monotonic() < until, f"nothing after {self.read} of {self.sent}"
        assert self.read == self.sent, f"the end after {self.read} of {self.sent}"


@scene
def families_share_with_programs() -> None:
    for seed in FAMILIES:
        Family(seed).live()
    say("all in order", lambda: len(FAMILIES))

"""Scenes for `calls.py`: random calls on `epoll` instances in one another, the same in each run."""

from __future__ import annotations

import os
import random
import select
import socket
import threading
from contextlib import suppress

from calls_nested import EDGE, IN, ONCE
from calls_stage import Acceleration, pair, say, scene, settled

HOWS = (IN, IN, EDGE, EDGE, ONCE, EDGE | ONCE, IN | select.EPOLLRDHUP | select.EPOLLET)
MOST = 3
"""Instances in a chain: with a fourth, the kernel refuses some of what is put in."""
PAUSE_S = 0.003
ASIDE_S = 0.005
SLEEP_S = 0.5


class Game:
    """Two connections, a pipe, and instances that hold them and one another."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pairs = [pair(), pair()]
        self.pipe = os.pipe()
        self.instances = [select.epoll() for _ in range(4)]
        self.acceleration = Acceleration(self.pairs)
        # What may be in an instance: what is before it, so there are no rings.
        self.kinds: dict[int, str] = {
            end.fileno(): f"end {at}" for at, (_, end) in enumerate(self.pairs)
        }
        self.kinds[self.pipe[0]] = "pipe"
        for at, it in enumerate(self.instances):
            self.kinds[it.fileno()] = f"instance {at}"
        self.put_in: dict[tuple[int, int], int] = {}
        for _, end in self.pairs:
            self.put(0, end.fileno())
        self.put(1, self.instances[0].fileno())
        self.put(2, self.instances[1].fileno())
        self.put(3, self.instances[0].fileno())

    def put(self, outer: int, fd: int) -> None:
        """Put a number into an instance."""
        how = self.random.choice(HOWS)
        with suppress(FileExistsError):
            self.instances[outer].register(fd, how)
            self.put_in[outer, fd] = how
        print(f"  put {self.kinds[fd]} into {outer}, {how:x}", flush=True)

    def told(self, which: int, wait_s: float = 0) -> list[tuple[str, int]]:
        """What an instance has to tell."""
        # Beside accelerated connections, the kernel is asked about others every so often.
        settled(ASIDE_S)
        told = self.instances[which].poll(wait_s)
        return sorted((self.kinds[fd], events) for fd, events in told)

    def ask(self) -> None:
        """Ask one of the instances."""
        which = self.random.randrange(4)
        say(f"ask {which}", lambda: self.told(which))

    def send(self) -> None:
        """Let something arrive."""
        which = self.random.randrange(3)
        length = self.random.choice((1, 100, 5000))
        self.arrive(which, length)
        print(f"  {length} to {which}", flush=True)

    def arrive(self, which: int, length: int) -> None:
        """Let so much arrive at a connection or the pipe."""
        if which == 2:
            os.write(self.pipe[1], bytes(length))
        else:
            self.pairs[which][0].sendall(bytes(length))
        settled(PAUSE_S)

    def recv(self) -> None:
        """Read some or all."""
        which, length = self.random.randrange(3), self.random.choice((1, 1 << 20))
        if which == 2:
            if select.select([self.pipe[0]], [], [], 0)[0]:
                say("from the pipe", lambda: len(os.read(self.pipe[0], length)))
            return
        end = self.pairs[which][1]
        say(f"{length} from {which}", lambda: len(end.recv(length, socket.MSG_DONTWAIT)))

    def look(self) -> None:
        """Ask by `poll` which of all can be read."""
        polled = select.poll()
        for it in self.instances:
            polled.register(it, select.POLLIN)
        say("look", lambda: sorted(self.kinds[fd] for fd, _ in polled.poll(0)))

    def modify(self) -> None:
        """Change how something is registered."""
        outer, fd = self.random.choice(sorted(self.put_in))
        how = self.random.choice((*HOWS, 0))
        self.instances[outer].modify(fd, how)
        self.put_in[outer, fd] = how
        print(f"  {self.kinds[fd]} in {outer} as {how:x}", flush=True)

    def change(self) -> None:
        """Take something out, or put something in."""
        outer, fd = self.random.choice(sorted(self.put_in))
        if self.random.random() < 0.5 and len(self.put_in) > 3:
            self.instances[outer].unregister(fd)
            del self.put_in[outer, fd]
            print(f"  {self.kinds[fd]} out of {outer}", flush=True)
            return
        outer = self.random.randrange(4)
        inner = [it.fileno() for it in self.instances[: min(outer, MOST - 1)]]
        ends = [end.fileno() for _, end in self.pairs] + [self.pipe[0]]
        self.put(outer, self.random.choice(inner * 2 + ends))

    def sleep(self) -> None:
        """Let a thread wait in an instance while something arrives, and ask it again."""
        which, arrives = self.random.randrange(4), self.random.randrange(3)
        again = self.random.random() < 0.5
        number = [*(end.fileno() for _, end in self.pairs), self.pipe[0]][arrives]
        if select.select([self.instances[which]], [], [], 0)[0]:
            say(f"would not sleep in {which}", lambda: self.told(which))
            return
        unasked = any(fd == number and not how for (_, fd), how in self.put_in.items())
        if unasked or self.ways(which, number) > 1:
            # Each way wakes, and who sleeps may be told of the first alone. What nobody has asked
            # for wakes as well, and may be taken for an edge of something else.
            self.arrive(arrives, 1)
            return
        said: list[object] = []
        thread = threading.Thread(target=lambda: said.append(self.told(which, SLEEP_S)))
        thread.start()
        settled(0.05)
        self.arrive(arrives, 1)
        thread.join()
        say(f"slept in {which}, 1 to {arrives}", lambda: said)
        if again:
            say(f"ask {which}", lambda: self.told(which))

    def ways(self, outer: int, number: int) -> int:
        """Count the ways by which something is in an instance."""
        ways = 0
        for at, fd in self.put_in:
            if at == outer and fd == number:
                ways += 1
            elif at == outer and self.kinds[fd].startswith("instance"):
                ways += self.ways(int(self.kinds[fd].split()[1]), number)
        return ways

    def play(self, moves: int) -> None:
        """Make so many random calls."""
        every = [self.ask] * 6 + [self.send] * 4 + [self.recv] * 3 + [self.look]
        every += [self.modify] * 2 + [self.change, self.sleep]
        for _ in range(moves):
            self.random.choice(every)()
        for which in range(4):
            say(f"in the end, {which}", lambda which=which: self.told(which))
        say("accelerated throughout", self.acceleration.lasts)

    def end(self) -> None:
        """Close everything."""
        for it in (*self.instances, *(end for both in self.pairs for end in both)):
            it.close()
        for end in self.pipe:
            os.close(end)


def play(seed: int) -> None:
    """Play one game."""
    print(f"  game {seed}", flush=True)
    game = Game(seed)
    game.play(60)
    game.end()


@scene
def random_calls_on_nested_instances() -> None:
    for seed in range(12):
        play(seed)

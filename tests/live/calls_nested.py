"""Scenes for `calls.py`: an `epoll` instance in another, or waited for by `poll` and `select`."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from calls_stage import PATIENCE_S, Acceleration, pair, say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable

IN = select.EPOLLIN
EDGE = select.EPOLLIN | select.EPOLLET
ONCE = select.EPOLLIN | select.EPOLLONESHOT
HOWS = {"level": IN, "edge": EDGE, "once": ONCE, "edge once": EDGE | ONCE}


class Nested:
    """Accelerated connections in instances in one another, the innermost first."""

    def __init__(self, *hows: int, ends: int = 1, stays: bool = True) -> None:
        self.pairs = [pair() for _ in range(ends)]
        self.acceleration = Acceleration(self.pairs)
        self.stays = stays
        self.instances = [select.epoll() for _ in hows]
        self.inner, self.outer = self.instances[0], self.instances[-1]
        for (_, end), how in zip(self.pairs, [hows[0]] * ends, strict=True):
            self.inner.register(end, how)
        for inner, outer, how in zip(self.instances, self.instances[1:], hows[1:], strict=False):
            outer.register(inner, how)

    def __enter__(self) -> Nested:
        return self

    def __exit__(self, *_: object) -> None:
        if self.stays:
            say("accelerated throughout", self.acceleration.lasts)
        for it in (*self.instances, *(end for both in self.pairs for end in both)):
            it.close()

    def send(self, data: bytes = b"x", which: int = 0) -> None:
        """Let something arrive at a connection."""
        self.pairs[which][0].sendall(data)
        settled()

    def recv(self, length: int = 99, which: int = 0) -> bytes:
        """Read what has arrived at one."""
        return self.pairs[which][1].recv(length)

    def ask(self, what: str) -> None:
        """Say what each instance has to tell, the outermost first, and how the others look."""
        for depth, it in reversed(list(enumerate(self.instances))):
            say(f"{what}, {depth}", lambda it=it: [event for _, event in it.poll(0)])

    def outermost(self, what: str, wait_s: float = 0) -> None:
        """Say what the outermost has to tell."""
        say(what, lambda: [event for _, event in self.outer.poll(wait_s)])

    def looks(self, what: str) -> None:
        """Say which of the instances can be read, as `poll` and `select` see them."""
        polled = select.poll()
        for it in self.instances:
            polled.register(it, select.POLLIN | select.POLLOUT)
        say(f"{what}, poll", lambda: len(polled.poll(0)))
        everyone = self.instances
        say(f"{what}, select", lambda: len(select.select(everyone, everyone, [], 0)[0]))


def asleep(call: Callable[[], object], then: Callable[[], object], after_s: float = 0.1) -> object:
    """Do something while a thread sleeps in a call; what the call says, and whether it waited."""
    said: list[object] = []
    thread = threading.Thread(target=lambda: said.append(call()))
    thread.start()
    settled(after_s)
    waited = not said
    then()
    thread.join(PATIENCE_S)
    return waited, said


@scene
def an_instance_in_another_tells_as_it_was_asked_to() -> None:
    for name, how in HOWS.items():
        with Nested(IN, how) as nested:
            nested.outermost(f"{name}, nothing")
            nested.send()
            nested.looks(name)
            nested.outermost(name)
            nested.outermost(f"{name}, again")
            nested.send()
            nested.outermost(f"{name}, one more")
            nested.ask(f"{name}, both")
            say("read", nested.recv)
            nested.looks(f"{name}, read")
            nested.ask(f"{name}, read")
            nested.send()
            nested.ask(f"{name}, anew")
            nested.outer.modify(nested.inner, how)
            nested.outermost(f"{name}, modified")
            say("read", nested.recv)
            nested.outer.modify(nested.inner, how)
            nested.ask(f"{name}, modified, read")


@scene
def what_the_inner_was_told_by_edges_or_once_is_told_no_more() -> None:
    for name, how in HOWS.items():
        for outside in (IN, EDGE):
            with Nested(how, outside) as nested:
                nested.send()
                nested.ask(f"{name} {outside:x}")
                nested.ask(f"{name} {outside:x}, again")
                nested.looks(name)
                nested.send()
                nested.looks(f"{name}, one more")
                nested.ask(f"{name} {outside:x}, one more")
                nested.inner.modify(nested.pairs[0][1], how)
                nested.ask(f"{name} {outside:x}, modified")
                say("read", nested.recv)
                nested.ask(f"{name} {outside:x}, read")


@scene
def of_several_each_is_an_edge() -> None:
    for outside in (IN, EDGE):
        with Nested(IN, outside, ends=3) as nested:
            for which in range(3):
                nested.send(which=which)
                nested.outermost(f"{outside:x}, {which}")
            nested.outermost(f"{outside:x}, all")
            for which in range(3):
                say("read", lambda which=which, nested=nested: nested.recv(which=which))
                nested.looks(f"{which} read")
                nested.outermost(f"{outside:x}, {which} read")


@scene
def what_was_read_is_an_edge_where_something_else_is_there() -> None:
    for name, how in HOWS.items():
        for asked in (False, True):
            with Nested(IN, EDGE, ends=2) as nested:
                first = nested.pairs[0][1]
                nested.inner.modify(first, how)
                nested.send(which=1)
                nested.outermost(f"{name}, the second")
                nested.outermost("again")
                nested.send()
                if asked:
                    say("inner", lambda n=nested: [event for _, event in n.inner.poll(0)])
                say("read", nested.recv)
                for again in range(2):
                    nested.outermost(f"{name} {asked}, the first read, {again}")
                nested.send()
                say("read", nested.recv)
                nested.inner.modify(first, how)
                for again in range(2):
                    nested.outermost(f"{name} {asked}, modified, {again}")
                nested.inner.modify(first, 0)
                nested.send()
                say("read", nested.recv)
                nested.inner.modify(first, how)
                for again in range(2):
                    nested.outermost(f"{name} {asked}, read before it was asked for, {again}")


@scene
def what_was_read_is_an_edge_where_something_else_is_around() -> None:
    for how in (IN, EDGE):
        with Nested(how, IN, EDGE) as nested:
            readable, writable = os.pipe()
            os.write(writable, b"!")
            nested.instances[1].register(readable, IN)
            nested.outermost("the pipe")
            nested.outermost("again")
            for round_ in range(2):
                nested.send()
                say("read", nested.recv)
                nested.looks(f"{how:x}, {round_}")
                nested.ask(f"{how:x}, {round_}")
                nested.ask(f"{how:x}, {round_}, again")
            os.close(readable)
            os.close(writable)


@scene
def two_deep_and_in_two_at_once() -> None:
    for middle in (IN, EDGE):
        for outside in (IN, EDGE):
            with Nested(IN, middle, outside) as nested, select.epoll() as other:
                other.register(nested.inner, EDGE)
                name = f"{middle:x} {outside:x}"
                for round_ in range(3):
                    nested.send()
                    nested.looks(name)
                    nested.ask(f"{name}, {round_}")
                    nested.ask(f"{name}, {round_} again")
                    say("other", lambda other=other: [event for _, event in other.poll(0)])
                    say("again", lambda other=other: [event for _, event in other.poll(0)])
                say("read", nested.recv)
                nested.looks(f"{name}, read")
                nested.ask(f"{name}, read")
                say("other", lambda other=other: [event for _, event in other.poll(0)])


@scene
def deeper_than_the_kernel_allows() -> None:
    with Nested(IN, EDGE, IN, EDGE) as nested:
        nested.send()
        nested.ask("four")
        nested.send()
        nested.ask("four, one more")
        wait = waits(nested)["epoll"]
        nested.recv()
        say("four, woken", lambda: asleep(wait, nested.send))
        nested.ask("four, again")
    with Nested(IN, IN, IN, IN, IN, stays=False) as nested, ExitStack() as more:
        nested.send()
        nested.ask("five")
        for count in range(6, 8):
            outer = more.enter_context(select.epoll())
            say(f"{count}", lambda outer=outer: outer.register(nested.outer, IN))
            say("it", lambda outer=outer: [event for _, event in outer.poll(0)])
            nested.instances.append(outer)
            nested.outer = outer
        say("a ring", lambda: nested.inner.register(nested.instances[2], IN))
        say("itself", lambda: nested.inner.register(nested.inner, IN))
        say("read", nested.recv)
        nested.ask("read")


def waits(nested: Nested) -> dict[str, Callable[[], object]]:
    """Ways to sleep for the outermost and the innermost."""
    polled = select.poll()
    polled.register(nested.outer, select.POLLIN)
    inner, outer = nested.inner, nested.outer
    return {
        "epoll": lambda: [event for _, event in outer.poll(PATIENCE_S)],
        "poll": lambda: [event for _, event in polled.poll(PATIENCE_S * 1000)],
        "select": lambda: len(select.select([outer], [], [], PATIENCE_S)[0]),
        "select of both": lambda: len(select.select([outer, inner], [], [], PATIENCE_S)[0]),
        "inner": lambda: [event for _, event in inner.poll(PATIENCE_S)],
    }


@scene
def who_sleeps_in_the_outer_is_woken() -> None:
    for hows in ((IN, IN), (IN, EDGE), (EDGE, EDGE), (IN, ONCE), (IN, IN, IN), (EDGE, IN, EDGE)):
        for depth in range(5):
            with Nested(*hows) as nested:
                name, wait = list(waits(nested).items())[depth]
                said = f"{[f'{how:x}' for how in hows]} {name}"
                say(said, lambda wait=wait, nested=nested: asleep(wait, nested.send))
                nested.ask("then")
                nested.send()
                nested.ask("one more")
                nested.recv()
                nested.ask("read")
                if ONCE not in hows or name == "inner":
                    say(f"{said} again", lambda w=wait, n=nested: asleep(w, n.send))


def all_asleep(instances: list[select.epoll], then: Callable[[], object]) -> object:
    """Do something while a thread sleeps in each; what the waits say."""
    said: list[object] = [None] * len(instances)

    def wait(at: int) -> None:
        said[at] = [event for _, event in instances[at].poll(0.5)]

    threads = [threading.Thread(target=wait, args=(at,)) for at in range(len(instances))]
    for thread in threads:
        thread.start()
    settled(0.1)
    then()
    for thread in threads:
        thread.join()
    return said


@scene
def threads_sleep_in_several_at_once() -> None:
    for middle in (IN, EDGE):
        for outside in (IN, EDGE):
            with Nested(IN, middle) as nested, select.epoll() as other:
                other.register(nested.inner, outside)
                name = f"{middle:x} {outside:x}"
                every = {
                    "inner and outer": [nested.inner, nested.outer],
                    "both outer": [nested.outer, other],
                    "all": [nested.inner, nested.outer, other],
                }
                for what, some in every.items():
                    say(f"{name}, {what}", lambda n=nested, s=some: all_asleep(s, n.send))
                    nested.ask(f"{name}, {what}, then")
                    say("other", lambda o=other: [event for _, event in o.poll(0)])
                    nested.recv()
                    nested.ask(f"{name}, {what}, read")
                    say("other", lambda o=other: [event for _, event in o.poll(0)])


@scene
def two_threads_in_an_outer_are_told_of_an_edge_once() -> None:
    for how in (EDGE, ONCE):
        with Nested(IN, how) as nested:
            outer = nested.outer
            for round_ in range(3):
                told = all_asleep([outer, outer], nested.send)
                say(f"{how:x}, {round_}", lambda told=told: sorted(told, key=str))
                nested.ask(f"{how:x}, {round_}, then")
                nested.recv()
                outer.modify(nested.inner, how)


@scene
def what_is_there_already_is_told_of_what_is_put_in() -> None:
    for how in HOWS.values():
        for inside in HOWS.values():
            a, b = pair()
            acceleration = Acceleration([(a, b)])
            with a, b, select.epoll() as inner, select.epoll() as outer:
                a.sendall(b"x")
                settled()
                name = f"{inside:x} in {how:x}"
                outer.register(inner, how)
                say(f"{name}, empty", lambda o=outer: [event for _, event in o.poll(0)])
                inner.register(b, inside)
                for again in range(2):
                    say(f"{name}, {again}", lambda o=outer: [event for _, event in o.poll(0)])
                inner.unregister(b)
                say(f"{name}, taken out", lambda o=outer: [event for _, event in o.poll(0)])
                inner.register(b, inside)
                say(f"{name}, put in", lambda o=outer: [event for _, event in o.poll(0)])
                outer.unregister(inner)
                outer.register(inner, how)
                for again in range(2):
                    say(f"{name}, anew {again}", lambda o=outer: [event for _, event in o.poll(0)])
                say("inner", lambda i=inner: [event for _, event in i.poll(0)])
                say(f"{name}, told", lambda o=outer: [event for _, event in o.poll(0)])
                say("accelerated throughout", acceleration.lasts)


@scene
def who_sleeps_in_the_outer_hears_of_ends() -> None:
    for ends in ("shutdown", "close", "reset"):
        with Nested(IN | select.EPOLLRDHUP, EDGE) as nested:
            a = nested.pairs[0][0]

            def end(a: socket.socket = a, ends: str = ends, nested: Nested = nested) -> None:
                if ends == "reset":
                    nested.pairs[0][1].sendall(b"unread")
                    settled()
                if ends == "shutdown":
                    a.shutdown(socket.SHUT_WR)
                else:
                    a.close()

            say(ends, lambda n=nested, end=end: asleep(waits(n)["epoll"], end))
            nested.ask(ends)
            nested.ask(f"{ends}, again")
            nested.looks(ends)


@scene
def a_full_connection_has_room_again() -> None:
    for how in (IN, EDGE):
        with Nested(select.EPOLLOUT | select.EPOLLET, how, stays=False) as nested:
            sender, receiver = nested.pairs[0][1], nested.pairs[0][0]
            nested.ask("room")
            sender.setblocking(False)
            count = 0
            while True:
                try:
                    count += sender.send(bytes(1 << 16))
                except BlockingIOError:
                    break
            nested.ask("full")
            say("accelerated so far", nested.acceleration.lasts)

            def drain(receiver: socket.socket = receiver, count: int = count) -> None:
                while count:
                    count -= len(receiver.recv(1 << 20))

            # Before it has been full for so long that it goes back to the kernel.
            say("woken", lambda n=nested, d=drain: asleep(waits(n)["epoll"], d, 0.03))
            nested.inner.poll(0.2)
            nested.ask("after")


def changed(nested: Nested, what: str) -> None:
    """Change something about the inner instance or its registration."""
    end = nested.pairs[0][1]
    if what == "modified":
        nested.outer.modify(nested.inner, IN)
    elif what == "put in":
        nested.outer.register(nested.inner, IN)
    elif what == "connection modified":
        nested.inner.modify(end, IN)
    elif what == "connection put in":
        nested.inner.register(end, IN)
    elif what == "taken out":
        nested.outer.unregister(nested.inner)
        nested.send()
    elif what == "closed":
        nested.inner.close()
        nested.send()


@scene
def the_inner_changes_while_somebody_sleeps() -> None:
    for what in ("modified", "put in", "connection modified", "connection put in"):
        with Nested(IN, IN) as nested:
            end = nested.pairs[0][1]
            nested.send()
            if what == "modified":
                nested.outer.modify(nested.inner, 0)
            elif what == "put in":
                nested.outer.unregister(nested.inner)
            elif what == "connection modified":
                nested.inner.modify(end, 0)
            else:
                nested.inner.unregister(end)
            nested.outermost(f"{what}, before")
            wait = waits(nested)["epoll"]
            say(what, lambda n=nested, what=what, w=wait: asleep(w, lambda: changed(n, what)))
            nested.ask(f"{what}, after")
    for what in ("taken out", "closed"):
        with Nested(IN, IN) as nested:
            outer = nested.outer
            say(
                what,
                lambda n=nested, what=what, o=outer: asleep(
                    lambda: o.poll(0.6), lambda: changed(n, what)
                ),
            )
            say("after", lambda o=outer: o.poll(0))
            if what == "closed":
                continue
            nested.outer.register(nested.inner, EDGE)
            nested.ask("put in again")


@scene
def an_inner_of_two_numbers_stays_until_both_are_closed() -> None:
    with Nested(IN, IN) as nested:
        second = os.dup(nested.inner.fileno())
        say("registered twice", lambda: nested.outer.register(second, EDGE))
        nested.send()
        nested.outermost("both")
        nested.outermost("one")
        nested.inner.close()
        nested.outermost("first closed")
        say("by the second", lambda: len(select.select([second], [], [], 0)[0]))
        os.close(second)
        nested.outermost("both closed")
    with Nested(IN, EDGE) as nested:
        other = os.dup(nested.outer.fileno())
        nested.outer.close()
        with select.epoll.fromfd(other) as outer:
            nested.send()
            say("by another number", lambda: [event for _, event in outer.poll(1)])
            say("again", lambda: [event for _, event in outer.poll(0)])


@scene
def others_in_the_instances_are_told_as_well() -> None:
    for how in (IN, EDGE):
        with Nested(IN, how) as nested:
            ends = [os.pipe(), os.pipe()]
            nested.inner.register(ends[0][0], EDGE)
            nested.outer.register(ends[1][0], EDGE)
            nested.ask("nothing")
            for place in ("inner", "outer"):
                os.write(ends[place == "outer"][1], b"!")
                nested.ask(f"{how:x}, {place}")
                nested.ask(f"{how:x}, {place} again")
                nested.send()
                os.write(ends[place == "outer"][1], b"!")
                nested.ask(f"{how:x}, {place} and the connection")
                say("read", nested.recv)
                nested.looks("after")
                nested.ask(f"{how:x}, after")
            for end in (*ends[0], *ends[1]):
                os.close(end)


@scene
def an_instance_that_follows_already_is_put_into_another() -> None:
    for told in (False, True):
        for how in (IN, EDGE, ONCE):
            with Nested(EDGE) as nested, select.epoll() as outer:
                nested.send()
                if told:
                    nested.ask("inner alone")
                outer.register(nested.inner, how)
                nested.instances.append(outer)
                nested.ask(f"{how:x}")
                nested.send()
                nested.ask(f"{how:x}, one more")
                nested.outer = outer
                nested.recv()
                say("woken", lambda n=nested: asleep(lambda: n.outer.poll(0.5) != [], n.send))


@scene
def a_connection_joins_in_an_inner_instance() -> None:
    with select.epoll() as inner, select.epoll() as outer:
        outer.register(inner, EDGE)
        a, b = pair(rounds=1)
        inner.register(b, IN)
        for _ in range(200):
            a.sendall(b"ping")
            assert outer.poll(PATIENCE_S)
            assert inner.poll(PATIENCE_S)
            assert b.recv(4, socket.MSG_WAITALL) == b"ping"
            b.sendall(b"pong")
            assert a.recv(4, socket.MSG_WAITALL) == b"pong"
        say("nothing", lambda: (outer.poll(0), inner.poll(0)))
        a.close()
        settled()
        say("end", lambda: [event for _, event in outer.poll(0)])
        say("inner", lambda: [event for _, event in inner.poll(0)])
        b.close()


@scene
def the_inner_is_shared_by_a_fork() -> None:
    for who in ("parent", "child"):
        with Nested(IN, IN, stays=who == "parent") as nested:
            nested.send()
            nested.outermost("before")
            ready, done = os.pipe(), os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    os.read(ready[0], 1)
                    if who == "child":
                        nested.ask("child")
                        say("read", nested.recv)
                        nested.ask("child, read")
                finally:
                    os.write(done[1], b"!")
                    os._exit(0)
            if who == "parent":
                nested.ask("parent")
                say("read", nested.recv)
                nested.ask("parent, read")
            os.write(ready[1], b"!")
            os.read(done[0], 1)
            os.waitpid(child, 0)
            settled(0.3)
            nested.ask("after")
            say("sent", nested.send)
            say("woken", lambda n=nested: bool(n.outer.poll(PATIENCE_S)))
            nested.ask("one more")
            say("read", nested.recv)
            nested.ask("read")
            for end in (*ready, *done):
                os.close(end)


@scene
def a_program_that_uses_one_datum_for_all_is_told_of_all() -> None:
    with Nested(IN, IN) as nested:
        readable, writable = os.pipe()
        os.write(writable, b"!")
        nested.outer.register(readable, IN)
        nested.send()
        begun = time.monotonic()
        say("two", lambda: len(nested.outer.poll(1)))
        say("one", lambda: (nested.recv(), len(nested.outer.poll(1)))[1])
        os.read(readable, 1)
        say("none", lambda: len(nested.outer.poll(0.1)))
        say("in time", lambda: time.monotonic() - begun < PATIENCE_S)
        os.close(readable)
        os.close(writable)

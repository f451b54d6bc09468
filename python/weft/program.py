"""Programs in Python: sequential code per rank, in simulated time, on any system.

A program is a generator function of a `Node`. Everything that takes simulated time is yielded, and
what it brings comes back:

    def ping_pong(me):
        if me.rank == 0:
            yield me.send(1, 64)
            answer = yield me.receive(1)
            return answer.time_us
        if me.rank == 1:
            yield me.receive(0)
            yield me.send(0, 64)

    result = weft.run_program("clint", ping_pong, channel="quick")
    result.values[0]

An operation begins when it is called and is over when it is yielded, so that
`sent = me.send(1, 64); yield me.receive(1); yield sent` sends and receives at once.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from weft import _seam
from weft.given import Given, asked_for

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    import pandas as pd

    from weft._core import Machine
    from weft.figure import Figure

Size: TypeAlias = int | str
"""Bytes, or a text with a unit such as "2 kB"."""

Placement: TypeAlias = str | Sequence[int]
"""Which host each rank runs on: "block", "cyclic", "random", or the hosts in order of the ranks."""

RESERVED_TAGS = 0xF0000000
"""Tags from here on are those of barriers and locks."""

_BARRIER = RESERVED_TAGS
_LOCK = RESERVED_TAGS + 0x100
_GRANT = RESERVED_TAGS + 0x200
_CONTROL = 8


@dataclass(frozen=True)
class Message:
    """The result of an operation; for one that receives nothing only the time is meaningful.

    `time_us` is when it was over; `source`, `tag`, `size` (bytes) and `value` are those of the
    message, or of the memory that was read; of a conditional write the value is 1 if it was taken.
    """

    time_us: float
    source: int
    tag: int
    size: int
    value: int


class Operation:
    """An operation that a rank has started: yield it to wait until it has finished."""

    __slots__ = ("_machine", "_number")

    def __init__(self, machine: Machine, number: int) -> None:
        self._machine = machine
        self._number = number

    def __del__(self) -> None:
        self._machine.release(self._number)


Program: TypeAlias = Generator[Operation, Message, Any]
"""The type of a program's generator function."""


class Node:
    """A rank, as its program sees it."""

    def __init__(self, machine: Machine, rank: int) -> None:
        self._machine = machine
        self.rank = rank
        """Its number."""
        self.ranks = machine.ranks()
        """How many ranks there are."""

    @property
    def now_us(self) -> float:
        """The present, in microseconds."""
        return self._machine.now() * 1e-6

    def send(
        self,
        to: int,
        size: Size,
        tag: int = 0,
        *,
        value: int = 0,
        channel: str | None = None,
    ) -> Operation:
        """Send a message; finished when its last byte has left.

        `value` is written in it. `channel` takes the place of what the rules of the run say.
        """
        number = self._machine.send(self.rank, [to], tag, in_bytes(size), value, channel)
        return Operation(self._machine, number)

    def receive(self, source: int | None = None, tag: int | None = None) -> Operation:
        """Receive the oldest message of `source` with `tag`; None is any."""
        return Operation(self._machine, self._machine.receive(self.rank, source, tag))

    def compute(self, span: str) -> Operation:
        """Compute for a span such as "3 us"."""
        picoseconds = _seam.core().span(span)
        return Operation(self._machine, self._machine.compute(self.rank, picoseconds))

    def store(
        self,
        to: int | Sequence[int],
        address: int,
        value: int,
        size: Size = 4,
        *,
        channel: str | None = None,
    ) -> Operation:
        """Store a word into the memory of another rank, or of several by one multicast."""
        targets = [to] if isinstance(to, int) else list(to)
        number = self._machine.store(self.rank, targets, address, value, in_bytes(size), channel)
        return Operation(self._machine, number)

    def load(self, address: int) -> int:
        """Return a word of this rank's own memory; it takes no time."""
        return self._machine.load(self.rank, address)

    def until(self, address: int, least: int) -> Operation:
        """Wait until a word of this rank's own memory is at least `least`."""
        return Operation(self._machine, self._machine.until(self.rank, address, least))

    def read(self, target: int, address: int, size: Size = 4) -> Operation:
        """Read a word of another rank's memory, without involving its program."""
        return Operation(
            self._machine, self._machine.read(self.rank, target, address, in_bytes(size))
        )

    def conditional_write(self, target: int, address: int, value: int, size: Size = 4) -> Operation:
        """Write a word that another rank sees only once all of it is known to have arrived.

        Over when this rank knows; the `value` that it brings is 1 if the word was taken, 0 if the
        other rank left the cluster. By conditional write where the adapters can (Memory Channel 2),
        otherwise by round trip.
        """
        number = self._machine.conditional_write(self.rank, target, address, value, in_bytes(size))
        return Operation(self._machine, number)

    def departure(self, number: int = 0) -> Operation:
        """Wait until this rank is notified that another one is gone; `source` is that rank.

        It is the one that is the `number`th, from 0, of which this rank is told. A rank is gone
        when its host leaves the cluster; its program stops there.
        """
        return Operation(self._machine, self._machine.departure(self.rank, number))

    @property
    def departed(self) -> list[int]:
        """The ranks that this one knows to be gone, in the order of the notifications."""
        return list(self._machine.departed(self.rank))

    def barrier(self) -> Program:
        """Wait until every rank has reached the barrier: `yield from me.barrier()`.

        The dissemination barrier of Hensgen, Finkel and Manber (1988).
        """
        distance, number = 1, 0
        while distance < self.ranks:
            sent = self.send((self.rank + distance) % self.ranks, _CONTROL, _BARRIER + number)
            yield self.receive((self.rank - distance) % self.ranks, _BARRIER + number)
            yield sent
            distance, number = 2 * distance, number + 1

    def lock(self, lock: int = 0, server: int = 0) -> Program:
        """Wait for a lock of the rank that serves locks: `yield from me.lock()`."""
        asked = self.send(server, _CONTROL, _LOCK, value=2 * lock)
        yield self.receive(server, _GRANT + lock)
        yield asked

    def unlock(self, lock: int = 0, server: int = 0) -> Operation:
        """Release a lock; finished when the message that releases it has left."""
        return self.send(server, _CONTROL, _LOCK, value=2 * lock + 1)


@dataclass(frozen=True)
class ProgramResult:
    """The results of a program or a trace. All times are microseconds of simulated time."""

    time_us: float
    """When the last rank ended."""
    values: dict[int, Any]
    """The return value of each rank's program."""
    ranks: pd.DataFrame = field(repr=False)
    """A row for each rank: host, end_us, computing_us, sending_us, waiting_us, idle_us; also
    queued_us if processors are limited."""
    waits: pd.DataFrame = field(repr=False)
    """A row for each rank and the rank that it waited for (none: any): waiting_us."""
    intervals: pd.DataFrame = field(repr=False)
    """A row for each interval of a rank: from_us, until_us, activity, other."""
    messages: pd.DataFrame = field(repr=False)
    """A row for each message: initiator, target, offered_us, delivered_us, size_bytes. If hosts
    have several ranks, the hosts too, as in `waits` and `intervals`."""
    fast_forward: pd.DataFrame = field(repr=False)
    """If `run.fast_forward` is set, a row for each channel: jumps, and the skipped periods, packets
    and time (skipped_us); or what rules skipping out (forbidden, otherwise empty)."""
    shorter_messages: int = 0
    """Messages of a trace that are shorter than their receive, which MPI allows."""

    @property
    def completion(self) -> dict[str, float]:
        """How long messages took from submission to the arrival of their last byte, in µs.

        `mean_us`, `p50_us`, `p99_us` and `longest_us`; a quantile is the shortest time that at
        least that share of the messages does not exceed. For a list of flows these are the flow
        completion times.
        """
        times = self.messages["delivered_us"] - self.messages["offered_us"]
        ordered = sorted(times)
        if not ordered:
            return {}
        return {
            "mean_us": float(times.mean()),
            "p50_us": float(ordered[ceil(0.5 * len(ordered)) - 1]),
            "p99_us": float(ordered[ceil(0.99 * len(ordered)) - 1]),
            "longest_us": float(ordered[-1]),
        }

    def figure(self, title: str = "What each rank did") -> Figure:
        """Draw the space-time figure: a bar for each rank, a line for each message."""
        from weft.plots.rank_times import draw_rank_times  # noqa: PLC0415

        return draw_rank_times(self.intervals, self.messages, self.ranks, title)

    def timeline(self, path: str | PathLike[str], title: str = "What each rank did") -> Path:
        """Write a timeline for Perfetto or chrome://tracing: ranks, messages, arrows between them.

        Args:
            path: the file, which ends with .json.
            title: what was run.

        Raises:
            FolderError: the file cannot be written.

        """
        from weft.timeline import save_timeline  # noqa: PLC0415

        tables = {
            "ranks": self.ranks,
            "intervals": self.intervals,
            "messages": self.messages,
        }
        return save_timeline(tables, path, title)


def run_program(  # noqa: PLR0913 (each is a setting of its own, by keyword)
    system: Given,
    program: Callable[[Node], Program] | Mapping[int, Callable[[Node], Program]],
    *,
    ranks: int | None = None,
    channel: str | None = None,
    route: Sequence[Mapping[str, object]] = (),
    placement: Placement = "block",
    ranks_per_host: int | None = None,
    preset: str | None = None,
    set: Mapping[str, object] | None = None,
    seed: int = 1,
) -> ProgramResult:
    """Run a program on the hosts of a system.

    Args:
        system: a shipped system, a composition file, or a dict with the tables and keys of one.
        program: one generator function for all ranks, or one for each rank that does something.
        ranks: how many ranks there are; as many as are placed, or as hosts take, if not given.
        channel: the channel that all messages take; not needed where there is one.
        route: rules in its place, as `[[program.route]]` in files: a message takes the channel of
            the first rule whose conditions (`up_to`, `kind`) hold, for example
            `[{"up_to": "32 B", "channel": "quick"}, {"channel": "bulk"}]`.
        placement: which host each rank runs on: "block" is the first ranks on host 0, and so on,
            "cyclic" is round robin, "random" draws by the seed, a list names the hosts in order of
            the ranks.
        ranks_per_host: how many ranks a host has at most; one if not given, in a list as many as
            it says. Several need `system.memory`, which `set` can give.
        preset: a named preset of the system.
        set: dotted keys and values that replace those of the system; a load such as
            `{"workload.bulk.load": 0.3}` is traffic beside the program.
        seed: the seed of what is random: placement, traffic, channels. Never random itself.

    Raises:
        WeftError: the system cannot be used, a rank is named that there is not, or the program is
            stuck; then the message says who waits for whom.

    """
    places = (placement, ranks_per_host)
    machine = _machine((system, preset, set, seed), ranks, channel, route, places)
    nodes = [Node(machine, rank) for rank in range(machine.ranks())]
    programs = (
        program if isinstance(program, Mapping) else dict.fromkeys(range(len(nodes)), program)
    )
    crew = _Crew(machine)
    for rank, function in programs.items():
        if not 0 <= rank < len(nodes):
            raise ValueError(f"a program for rank {rank}, where 0 to {len(nodes) - 1} are accepted")
        crew.start(nodes[rank], function(nodes[rank]))
    crew.serve_locks(nodes)
    crew.run()
    ends = [crew.ends.get(rank, 0) for rank in range(len(nodes))]
    return result_of(machine.tables(ends), crew.values)


class _Crew:
    """Runs generators on a machine: deterministic, one thread, in the order of readiness."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.ends: dict[int, int] = {}
        self.values: dict[int, Any] = {}
        self._owners: dict[int, tuple[Node, Program, Operation]] = {}
        self._ready: deque[tuple[Node, Program, Message | None]] = deque()
        self._left = 0
        self._servers: dict[int, Program] = {}

    def start(self, node: Node, program: Program) -> None:
        if not isinstance(program, Generator):
            raise TypeError("a program is a generator function: it yields what takes time")
        self._ready.append((node, program, None))
        self._left += 1

    def serve_locks(self, nodes: Sequence[Node]) -> None:
        """Every rank answers requests for its locks; only those that are asked ever do anything."""
        for node in nodes:
            queues: dict[int, deque[int]] = {}
            for server in (_lock_server(node, queues), _lock_keeper(node, queues)):
                self._servers[id(server)] = server
                self._ready.append((node, server, None))

    def run(self) -> None:
        while True:
            while self._ready:
                self._go_on(*self._ready.popleft())
                self._take_done()
            if self._left == 0:
                return
            self.machine.step()
            for rank in self.machine.take_stopped():
                self._stop(rank)
            self._take_done()

    def _stop(self, rank: int) -> None:
        """End the programs of a rank whose host is gone; they bring no value."""
        waiting = [number for number, own in self._owners.items() if own[0].rank == rank]
        programs = [self._owners.pop(number)[1] for number in waiting]
        programs += [program for node, program, _ in self._ready if node.rank == rank]
        self._ready = deque(own for own in self._ready if own[0].rank != rank)
        for program in programs:
            program.close()
            self._left -= id(program) not in self._servers
        self.ends.setdefault(rank, self.machine.now())

    def _take_done(self) -> None:
        for number in self.machine.take_done():
            # The number may be that of a newer operation by now, which is not over.
            brought = self._brought(number)
            if number in self._owners and brought is not None:
                node, program, _ = self._owners.pop(number)
                self._ready.append((node, program, brought))

    def _brought(self, number: int) -> Message | None:
        outcome = self.machine.outcome(number)
        if outcome is None:
            return None
        picoseconds, *rest = outcome
        return Message(picoseconds * 1e-6, *rest)

    def _go_on(self, node: Node, program: Program, brought: Message | None) -> None:
        serves = id(program) in self._servers
        try:
            operation = next(program) if brought is None else program.send(brought)
            while True:
                if not isinstance(operation, Operation):
                    raise TypeError(
                        f"rank {node.rank} yielded {operation!r}; what is yielded is an operation, "
                        "such as me.send(1, 64); of me.barrier() it is `yield from`"
                    )
                over = self._brought(operation._number)
                if over is None:
                    break
                operation = program.send(over)
        except StopIteration as stop:
            self._left -= 1
            self.ends[node.rank] = self.machine.now()
            self.values[node.rank] = stop.value
            return
        if not serves:
            self.machine.block(operation._number)
        self._owners[operation._number] = (node, program, operation)


def _lock_server(me: Node, queues: dict[int, deque[int]]) -> Program:
    """Grant each lock to those that ask, first come, first served; the first in a queue has it."""
    while True:
        asked = yield me.receive(None, _LOCK)
        lock, released = divmod(asked.value, 2)
        queue = queues.setdefault(lock, deque())
        if not released:
            queue.append(asked.source)
        elif queue and queue[0] == asked.source:
            queue.popleft()
        else:
            continue
        if queue and (released or len(queue) == 1):
            me.send(queue[0], _CONTROL, _GRANT + lock)


def _lock_keeper(me: Node, queues: dict[int, deque[int]]) -> Program:
    """Take locks from those that are gone."""
    for number in count():
        gone = (yield me.departure(number)).source
        for lock, queue in queues.items():
            was_held = bool(queue) and queue[0] == gone
            while gone in queue:
                queue.remove(gone)
            if was_held and queue:
                me.send(queue[0], _CONTROL, _GRANT + lock)


def spell_ways(route: Sequence[Mapping[str, object]], placement: Placement) -> tuple[str, str]:
    """Write rules and placement as the core reads them."""
    places = placement if isinstance(placement, str) else {"hosts": list(placement)}
    return json.dumps([dict(rule) for rule in route]), json.dumps(places)


def _machine(
    system: tuple[Given, str | None, Mapping[str, object] | None, int],
    ranks: int | None,
    channel: str | None,
    route: Sequence[Mapping[str, object]],
    placed: tuple[Placement, int | None],
) -> Machine:
    from weft.api import spell_overrides  # noqa: PLC0415

    given, preset, settings, seed = system
    placement, ranks_per_host = placed
    rules, places = spell_ways(route, placement)
    overrides = spell_overrides(settings or {})
    machine: Machine = _seam.core().Machine(
        asked_for(given), preset, overrides, ranks, channel, rules, places, ranks_per_host, seed
    )
    return machine


def result_of(
    tables: Mapping[str, Mapping[str, Any]], values: dict[int, Any], shorter: int = 0
) -> ProgramResult:
    """Make a result of the tables of the core and of what programs returned."""
    import pandas as pd  # noqa: PLC0415

    frames = {name: pd.DataFrame(dict(columns)) for name, columns in tables.items()}
    ends = frames["ranks"]["end_us"]
    return ProgramResult(
        time_us=float(ends.max()), values=values, shorter_messages=shorter, **frames
    )


def in_bytes(size: Size) -> int:
    """Read a size: a number of bytes, or a text with a unit."""
    if isinstance(size, str):
        parsed: int = _seam.core().size(size)
        return parsed
    return size

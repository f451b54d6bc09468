"""Make a GOAL trace of what the ranks of a program have written down.

They do so in crates/messages/src/fi/record.rs. Every message is one of the trace, whatever call or
collective it came from. A computation begins when the one before it, and all receives that the
program had seen by then, are over; a receive may begin when it was posted. A rank begins with its
first message: what went before is the start of the program, with that of MPI.

A rank that only waits polls again at once. One that asks for messages while it computes (MPI_Test)
takes longer between its polls, and computes all that time; the least that any rank shows is how far
apart the polls of one are that only waits. A rank that waits while another program has its
processor is late to see a message. That time, by the clock that all ranks of a host share, counts
as computing, as does time of another program while the rank computes.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TextIO


class RecordError(Exception):
    """Why what was written down is no trace."""


# A rank that waits is late by this much whatever happens: the interval between two of its polls.
_POLLING_NS = 1000


# So many polls in a row have a mean in which the clock's steps do not show.
_MANY = 100
# Polls are so many times further apart than those of a rank that only waits if it computes.
_APART = 2


def _late_ns(there: int, looked: int, found: int) -> int:
    """Return how much later a rank found what was there than it would by polling all the time."""
    late = found - max(there, looked)
    return late if late > _POLLING_NS else 0


class _Key(NamedTuple):
    """Messages of one key are taken in the order in which they were sent."""

    source: int
    target: int
    tag: int


@dataclass
class _Rank:
    """The file of one rank."""

    path: Path
    name: str
    rank: int
    peers: dict[int, str] = field(default_factory=dict)
    is_whole: bool = False
    has_events: bool = False
    # The clock at its first message and at its last, in nanoseconds.
    span: tuple[int, int] | None = None
    # The least time between two polls, as a mean over many in a row; in nanoseconds.
    between_ns: float = math.inf


@dataclass(frozen=True)
class Trace:
    """The contents of a trace."""

    ranks: int
    messages: int
    size: int
    computing_ns: int
    # Messages not received when the program ended, which a trace cannot contain.
    dropped: int
    # From the last rank's first message to the last message of all, by the clock of the host.
    measured_ns: int | None = None


def _open(path: Path) -> _Rank:
    lines = path.read_text().splitlines()
    first = lines[0].split() if lines else []
    if len(first) != 3 or first[0] != "n":
        raise RecordError(f"{path}: it does not begin with the name of a rank")
    if not first[2].isdigit():
        raise RecordError(f"{path}: the process had no rank: was it started by mpirun?")
    rank = _Rank(path, first[1], int(first[2]))
    for line in lines:
        words = line.split()
        if words[0] == "p":
            rank.peers[int(words[1])] = words[2]
        elif words[0] == "t":
            rank.span = (int(words[1]), int(words[2]))
        elif words[0] == "w" and int(words[1]) >= _MANY:
            rank.between_ns = min(rank.between_ns, int(words[2]) / int(words[1]))
        elif words[0] in {"s", "q", "r"}:
            rank.has_events = True
    rank.is_whole = lines[-1] == "e"
    return rank


def _events(rank: _Rank) -> Iterator[list[str]]:
    with rank.path.open() as file:
        yield from (line.split() for line in file)


class _Matching:
    """How many messages of each key were both sent and received."""

    def __init__(self, ranks: list[_Rank]) -> None:
        by_name = {rank.name: rank.rank for rank in ranks}
        self.peers = [
            {index: by_name[name] for index, name in rank.peers.items() if name in by_name}
            for rank in ranks
        ]
        # By key: size of each message and when it was sent; when each was received.
        sent: dict[_Key, deque[tuple[int, int]]] = defaultdict(deque)
        received: dict[_Key, deque[int]] = defaultdict(deque)
        for rank in ranks:
            for words in _events(rank):
                if words[0] == "s":
                    sent[self.sending(rank, words)].append((int(words[3]), int(words[6])))
                elif words[0] == "r":
                    received[self.receiving(rank, words)].append(int(words[7]))
        self.left_to_send = {key: min(len(each), len(received[key])) for key, each in sent.items()}
        self.left_to_receive = dict(self.left_to_send)
        self.sent, self.received = sent, received
        self.dropped = sum(len(each) - self.left_to_send[key] for key, each in sent.items())
        self._tags: dict[int, int] = {}

    def _peer(self, rank: _Rank, index: str) -> int:
        peer = self.peers[rank.rank].get(int(index))
        if peer is None:
            raise RecordError(f"{rank.path}: a message of a process that is no rank of the program")
        return peer

    def sending(self, rank: _Rank, words: list[str]) -> _Key:
        return _Key(rank.rank, self._peer(rank, words[1]), int(words[2], 16))

    def receiving(self, rank: _Rank, words: list[str]) -> _Key:
        return _Key(self._peer(rank, words[2]), rank.rank, int(words[3], 16))

    def tag(self, key: _Key) -> int:
        """Return a small number for a tag, which holds communicator and more."""
        return self._tags.setdefault(key.tag, len(self._tags))


class _Writer:
    """The operations of one rank, in the order of its program."""

    def __init__(self, out: TextIO, rank: _Rank, matching: _Matching, waiting_ns: float) -> None:
        self._out, self._rank, self._matching = out, rank, matching
        # The time between two polls of a rank that computes.
        self._apart_ns = _APART * waiting_ns
        self._labels = 0
        # The operations that must be over before the next begins.
        self._before: list[str] = []
        # What must have ended before each posted receive begins.
        self._posted: dict[str, list[str]] = {}
        # The sends whose memory is not free yet, and when each message was received.
        self._held: dict[str, tuple[str, int]] = {}
        self.messages = self.size = self.computing_ns = 0

    def _operation(self, what: str, before: Iterable[str]) -> str:
        self._labels += 1
        label = f"l{self._labels}"
        self._out.write(f"{label}: {what}\n")
        for other in before:
            self._out.write(f"{label} requires {other}\n")
        return label

    def write(self) -> None:
        """Write them."""
        for words in _events(self._rank):
            # What went before the first message is the start of the program, with that of MPI.
            if words[0] in {"c", "w"} and (self._labels or self._posted):
                self._compute(self._computed(words))
            elif words[0] == "s":
                self._send(words)
            elif words[0] == "d":
                if held := self._held.pop(words[1], None):
                    self._before.append(self._late(*held, words[2:4]))
            elif words[0] == "q":
                self._posted[words[1]] = list(self._before)
            elif words[0] == "r":
                self._receive(words)
        if not self._labels:
            self._operation("calc 0", [])

    def _computed(self, words: list[str]) -> int:
        """Return how long a rank computed, in nanoseconds: while it polled, all or nothing."""
        if words[0] == "c":
            return int(words[1])
        count, between, whole = map(int, words[1:])
        return whole if between > count * self._apart_ns else 0

    def _compute(self, span: int) -> None:
        if span > 0:
            self.computing_ns += span
            self._before = [self._operation(f"calc {span}", self._before)]

    def _late(self, label: str, there: int, seen: list[str]) -> str:
        """Return what must be over before the rank goes on that finds an operation over."""
        late = _late_ns(there, *map(int, seen))
        if late == 0:
            return label
        self.computing_ns += late
        return self._operation(f"calc {late}", [label])

    def _send(self, words: list[str]) -> None:
        key = self._matching.sending(self._rank, words)
        if self._matching.left_to_send[key] == 0:
            return
        self._matching.left_to_send[key] -= 1
        received = self._matching.received[key].popleft()
        size, context, is_held = int(words[3]), words[4], words[5] == "1"
        what = f"send {size}b to {key.target} tag {self._matching.tag(key)}"
        label = self._operation(what, self._before)
        # The sender of a long message continues, and asks later whether its memory is free.
        if is_held:
            self._held[context] = (label, received)
        else:
            self._before = [label]
        self.messages += 1
        self.size += size

    def _receive(self, words: list[str]) -> None:
        key = self._matching.receiving(self._rank, words)
        posted = self._posted.pop(words[1], [])
        if self._matching.left_to_receive.get(key, 0) == 0:
            return
        self._matching.left_to_receive[key] -= 1
        size, sent = self._matching.sent[key].popleft()
        what = f"recv {size}b from {key.source} tag {self._matching.tag(key)}"
        self._before.append(self._late(self._operation(what, posted), sent, words[5:7]))


def _of_ranks(directory: Path) -> Iterator[_Rank]:
    """Yield what each rank has written down.

    A process writes a file for each domain in which it opens endpoints. Files without events are
    left out, but for the first one of a rank that has no others.
    """
    files: dict[int, list[_Rank]] = defaultdict(list)
    for path in directory.iterdir():
        rank = _open(path)
        files[rank.rank].append(rank)
    for own in files.values():
        yield from [rank for rank in own if rank.has_events] or own[:1]


def make(directory: Path, out: Path) -> Trace:
    """Make a trace of the files in a directory.

    Raises:
        RecordError: If ranks are missing, or one ended before its program did.

    """
    ranks = sorted(_of_ranks(directory), key=lambda rank: rank.rank)
    if not ranks:
        raise RecordError("nothing was written down: did the program call MPI_Init?")
    if [rank.rank for rank in ranks] != list(range(len(ranks))):
        numbers = ", ".join(str(rank.rank) for rank in ranks)
        raise RecordError(f"the ranks that were written down are {numbers}")
    if torn := [str(rank.rank) for rank in ranks if not rank.is_whole]:
        raise RecordError(f"rank {', '.join(torn)} ended before MPI_Finalize")
    matching = _Matching(ranks)
    waiting_ns = min(rank.between_ns for rank in ranks)
    messages = size = computing = 0
    with out.open("w") as file:
        file.write(f"num_ranks {len(ranks)}\n")
        for rank in ranks:
            file.write(f"rank {rank.rank} {{\n")
            writer = _Writer(file, rank, matching, waiting_ns)
            writer.write()
            file.write("}\n")
            messages += writer.messages
            size += writer.size
            computing += writer.computing_ns
    spans = [rank.span for rank in ranks if rank.span is not None]
    measured = None
    if len(spans) == len(ranks):
        measured = max(end for _, end in spans) - max(begin for begin, _ in spans)
    return Trace(len(ranks), messages, size, computing, matching.dropped, measured)

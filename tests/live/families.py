"""Random acts of families of processes that share connections, with the live library and without.

The same acts are played in two worlds, one plain and one with the library, act by act: processes
talk over connections, look at them, fork, start programs with the library and without, pass
connections on, end and are killed. What each act returns must be the same. As bytes and ends travel
at different speeds, the world that lags is asked again for a while before its answer counts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import random
import select
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

from families_agent import LIMIT_S, ORDERS, PROGRAMS, agent_command
from families_kept import KEPT, LIBRARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACTS = 25
PATIENCE_S = 6
"""For so long a world that lags is asked again."""
DELIVERY_S = 0.3
"""The kernel's own delivery takes so long on a loaded machine."""
NOTICED_S = 0.03
"""A death is noticed within that ("Deaths, forks and signals")."""
MOST_AGENTS = 5
MOST_NUMBERS = 8
MOST_UNREAD = 20_000
"""More may not fit the kernel's window, so that part of it would not be there to be looked at."""

Act = tuple[Any, ...]
"""Who does it, what, and with what."""
Answer = tuple[Any, str]
"""What a call returned, and the name of its error."""


@dataclass
class Agent:
    """What is known of an agent: its process in each world, and what it has there."""

    carries: bool
    holds: dict[int, int]
    """The end that each number is of."""
    private: set[int] = field(default_factory=set)
    """Numbers that no program inherits."""
    watched: set[int] = field(default_factory=set)
    orders: list[socket.socket] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)


class DifferentError(Exception):
    """The worlds differ, or one of them is broken."""


class Round:
    """A family in two worlds, and what is known of it."""

    def __init__(self, library: Path, log: Path, seed: int) -> None:
        self.draws = random.Random(seed)
        self.library = str(library)
        self.log = log
        self.agents: dict[str, Agent] = {}
        self.names = (f"{letter}{turn or ''}" for turn in count() for letter in ascii_lowercase)
        self.unread = [0] * 4
        """Bytes that wait at each end."""
        self.shut: list[set[int]] = [set() for _ in range(4)]
        self.killed: set[int] = set()
        """Ends whose last process was killed."""
        self.left: set[int] = set()
        """Ends that a started program has had, or that were passed on."""
        self.refused: set[int] = set()
        """Ends that others have on loan, and of whose error one was told."""
        self.strayed: set[int] = set()
        """Connections that a started program has had, or that were passed on."""
        self.flights: list[tuple[int, list[socket.socket]]] = []
        self.next: list[Act] = []
        self.told: list[str] = []

    def begin(self) -> None:
        """Start the first agent of each world, and let it make its connections."""
        name, theirs = next(self.names), []
        for world in (0, 1):
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.append(near)
            more = {"LD_PRELOAD": self.library, "WEFT_LIVE_LOG": str(self.log)} if world else {}
            if not os.fork():
                os.dup2(far.fileno(), ORDERS)
                # Recorded games name descriptor numbers, which inherited descriptors would shift.
                os.closerange(3, ORDERS)
                os.execve(sys.executable, agent_command(), {**os.environ, **more})
            far.close()
        self.born(name, Agent(True, {}), theirs)
        numbers = self.both((name, "make", 2))[0][0]
        self.agents[name].holds = dict(zip(numbers, range(4), strict=True))

    def end(self) -> None:
        """End all agents."""
        for agent in self.agents.values():
            for process in agent.processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            for orders in agent.orders:
                orders.close()
        for way in chain.from_iterable(ways for _, ways in self.flights):
            way.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
            os.waitpid(-1, 0)

    def born(self, name: str, agent: Agent, orders: list[socket.socket]) -> None:
        """Wait for a new agent in both worlds."""
        agent.orders, self.agents[name] = orders, agent
        agent.processes = [self.heard(name, world) for world in (0, 1)]

    def heard(self, name: str, world: int) -> Any:
        """What an agent says in a world."""
        orders = self.agents[name].orders[world]
        orders.settimeout(LIMIT_S)
        where = ("plain", "accelerated")[world]
        try:
            said = orders.recv(1 << 17)
        except TimeoutError:
            raise DifferentError(f"{name} hangs in the {where} world") from None
        except OSError:
            said = b""
        if not said:
            raise DifferentError(f"{name} has died in the {where} world")
        return pickle.loads(said)

    def tell(self, act: Act, world: int, *given: socket.socket) -> None:
        """Tell an agent what to do in a world."""
        numbers = [it.fileno() for it in given]
        try:
            orders = self.agents[act[0]].orders[world]
            socket.send_fds(orders, [pickle.dumps(act[1:])], numbers)
        except OSError:
            raise DifferentError(f"{act[0]} has died in world {world}") from None

    def both(self, act: Act, *given: list[socket.socket]) -> list[Answer]:
        """Let an agent do something in both worlds."""
        for world in (0, 1):
            self.tell(act, world, *(it[world] for it in given))
        return [self.heard(act[0], world) for world in (0, 1)]

    def one(self, act: Act, world: int) -> Any:
        """Let an agent do something in one world."""
        self.tell(act, world)
        return self.heard(act[0], world)

    def tries(self) -> Iterator[None]:
        """Wait between tries, while there is patience; every end makes a call meanwhile.

        An end that does nothing any more is seen by who has left the library's sight only when it
        makes its next call ("Deaths, forks and signals").
        """
        until, pause = time.monotonic() + PATIENCE_S, 0.002
        while time.monotonic() < until:
            yield
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
            for name, agent in self.agents.items():
                if agent.holds:
                    self.both((name, "poll", *agent.holds))

    def looked(self, act: Act, answers: list[Answer]) -> list[Answer]:
        """Repeat what changes nothing until both worlds say the same."""
        for _ in self.tries():
            if answers[0] == answers[1]:
                break
            answers = self.both(act)
        return answers

    def received(self, act: Act, answers: list[Answer]) -> list[Answer]:
        """Let the world that lags receive what the other has."""
        end = self.agents[act[0]].holds[act[2]]
        nothing: list[Answer] = [(None, "EAGAIN")]
        if socket.SHUT_RD in self.shut[end]:
            # As long as nothing is there its own end is told.
            nothing.append((b"", ""))
        for _ in self.tries():
            counts = [len(value or b"") for value, _ in answers]
            late = [it in nothing for it in answers]
            if answers[0] == answers[1] or (counts[0] == counts[1] and late[0] == late[1]):
                break
            lags = min((0, 1), key=lambda world: (counts[world], not late[world]))
            missing = counts[1 - lags] - counts[lags] or act[3]
            value, error = self.one((*act[:3], missing), lags)
            if value or not counts[lags]:
                answers[lags] = (
                    (answers[lags][0] or b"") + (value or b"") if value else value,
                    error,
                )
            elif (value, error) not in nothing:
                answers[lags] = answers[lags][0], error or "ends"
                break
        return answers

    def sent(self, act: Act, answers: list[Answer]) -> list[Answer]:
        """Let the world that lags send the rest, or be refused."""
        for _ in self.tries():
            counts = [value or 0 for value, _ in answers]
            refused = [error not in ("", "EAGAIN") for _, error in answers]
            if answers[0] == answers[1] or all(refused):
                break
            if any(refused):
                # That the other end refuses a program on a loan hears by the call after ("Sizes").
                lags = int(refused[0])
                answers[lags] = self.one(act, lags)
                continue
            lags = int(counts[1] < counts[0])
            value, error = self.one((*act[:3], act[3][counts[lags] :]), lags)
            refuses = error not in ("", "EAGAIN")
            answers[lags] = (None, error) if refuses else (counts[lags] + (value or 0), "")
        return answers

    def holders(self, end: int) -> int:
        """How many have an end, or will have it once they take it."""
        having = sum(end in agent.holds.values() for agent in self.agents.values())
        return having + sum(end == flown for flown, _ in self.flights)

    def hidden(self, end: int) -> bool:
        """Whether the connection's end may be told of only once what is there is read.

        So it is on a loan ("Sizes"), and where the other end was killed ("Deaths, forks and
        signals").
        """
        return self.unread[end] > 0 and (end // 2 in self.strayed or end ^ 1 in self.killed)

    def possible(self, act: Act) -> bool:
        """Whether an act can be played, and compared."""
        name, verb, *arguments = act
        agent = self.agents.get(name)
        if agent is None:
            return False
        if verb in NUMBERED:
            return arguments[0] in agent.holds and self.possible_on(
                agent, agent.holds[arguments[0]], verb, *arguments[1:]
            )
        if verb == "asked":
            return bool(agent.watched) and not any(map(self.hidden, agent.watched))
        if verb == "take":
            return bool(self.flights) and len(agent.holds) < MOST_NUMBERS
        if verb in ("fork", "start"):
            may_go = verb == "fork" or self.may_leave(*inherited(agent).values())
            return len(self.agents) < MOST_AGENTS and may_go
        # Who goes back to the kernel with a connection hears an end in order of one that is
        # killed with something unread ("Deaths, forks and signals").
        return len(self.agents) > 1 and not (
            verb == "kill" and any(self.unread[it] for it in agent.holds.values())
        )

    def may_leave(self, *ends: int) -> bool:
        """Whether ends can leave the library's sight, and be compared.

        One that does, and reads no more, neither receives nor refuses what comes then ("Sizes").
        """
        return all(socket.SHUT_RD not in self.shut[end] for end in ends)

    def possible_on(self, agent: Agent, end: int, verb: str, *arguments: Any) -> bool:
        """Whether an act on an end can be played, and compared."""
        there, other = self.unread[end], self.unread[end ^ 1]
        does = verb
        if verb == "program":
            does, alone = arguments
            if not self.may_leave(end, *(() if alone else inherited(agent).values())):
                return False
        # A number that is watched and closed, of a connection that another process has too, is told
        # of by the kernel's instance still, and not by the library's ("Descriptors").
        elsewhere = any(end in it.holds.values() for it in self.agents.values() if it != agent)
        ghost = end in agent.watched and (elsewhere or any(end == it for it, _ in self.flights))
        # That it is refused a program hears by the call after ("Sizes"), which it does not make.
        refused = not self.holders(end ^ 1) or socket.SHUT_RD in self.shut[end ^ 1]
        return {
            "send": lambda: other + len(arguments[0]) < MOST_UNREAD,
            "poll": lambda: not self.hidden(end),
            "watch": lambda: not self.hidden(end),
            # What a program on a loan sets the others do not see ("Sizes").
            "linger": lambda: end // 2 not in self.strayed,
            "dup": lambda: len(agent.holds) < MOST_NUMBERS,
            "close": lambda: not ghost,
            "shutdown": lambda: (
                not self.hidden(end) and (arguments[0] == socket.SHUT_WR or end not in self.left)
            ),
            "give": lambda: self.may_leave(end),
            "reads": lambda: there >= 3,
            "writes": lambda: not refused and other < MOST_UNREAD,
        }.get(does, lambda: True)()

    def draw(self, step: int) -> Act:
        """The next act."""
        draws = self.draws
        while True:
            name = draws.choice(list(self.agents))
            verb = draws.choices(list(VERBS), list(VERBS.values()))[0]
            act: Act = name, verb
            if verb in NUMBERED:
                if not self.agents[name].holds:
                    continue
                act = *act, draws.choice(list(self.agents[name].holds))
            act += tuple(self.drawn(verb, step))
            if self.possible(act):
                return act

    def drawn(self, verb: str, step: int) -> list[Any]:
        """With what an act is done."""
        draws = self.draws
        size = draws.randint(1, draws.choice((5, 50, 3000)))
        choices: dict[str, Callable[[], list[Any]]] = {
            "send": lambda: [(b"%d." % step * size)[:size]],
            "recv": lambda: [size],
            "peek": lambda: [size],
            "watch": lambda: [draws.choice((1, 5, 1 | select.POLLRDHUP))],
            "shutdown": lambda: [draws.choice((0, 1, 1, 2))],
            "dup": lambda: [draws.random() < 0.5],
            "inherit": lambda: [draws.random() < 0.5],
            "program": lambda: [draws.choice(list(PROGRAMS)), draws.random() < 0.5],
            "fork": lambda: [next(self.names)],
            "start": lambda: [
                next(self.names),
                draws.choice(("spawn", "exec")),
                self.library if draws.random() < 0.6 else "",
            ],
            "exit": lambda: [draws.choice(("exit", "_exit"))],
        }
        return choices.get(verb, list)()

    def play(self, act: Act) -> None:
        """Play an act in both worlds, and compare."""
        name, verb, *arguments = act
        self.told.append(f"{name}.{verb}({', '.join(map(shown, arguments))})")
        if verb in ("exit", "kill"):
            self.gone(name, act)
            return
        near, far = self.ways(verb)
        try:
            answers = self.both(act, *([far] if far else []))
        finally:
            for way in far:
                way.close()
        compare = {"recv": self.received, "send": self.sent, **dict.fromkeys(LOOKS, self.looked)}
        if verb in compare:
            answers = compare[verb](act, answers)
        said = [error or shown(value) for value, error in answers]
        self.told[-1] += f" = {said[0]}"
        if answers[0] != answers[1] and not self.may_differ(act, answers):
            raise DifferentError(f"plain {said[0]}, accelerated {said[1]}")
        self.learn(act, answers[0], near)

    def may_differ(self, act: Act, answers: list[Answer]) -> bool:
        """Whether answers differ by an error only, and may.

        Each that has a connection on loan is told of one for himself, and where it has something
        unread, a send is told of no reset ("Sizes").
        """
        name, verb, *arguments = act
        agent = self.agents[name]
        ends = {agent.holds[arguments[0]]} if verb in NUMBERED else agent.watched
        may = bool(ends & self.refused) or (verb == "send" and any(map(self.hidden, ends)))
        return may and over(answers[0]) == over(answers[1])

    def ways(self, verb: str) -> tuple[list[socket.socket], list[socket.socket]]:
        """What the controller and an agent get of sockets, where an act needs some."""
        if verb == "take":
            return [], self.flights[0][1]
        if verb not in ("give", "fork", "start"):
            return [], []
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in (0, 1)]
        return [near for near, _ in pairs], [far for _, far in pairs]

    def learn(self, act: Act, answer: Answer, ways: list[socket.socket]) -> None:
        """Remember what an act has changed."""
        name, verb, *arguments = act
        value, error = answer
        if verb in NUMBERED:
            agent, number = self.agents[name], arguments[0]
            self.learn_on(agent, number, agent.holds[number], act, answer)
        if verb == "give":
            end = self.agents[name].holds[arguments[0]]
            self.leave(end)
            self.flights.append((end, ways))
        elif verb == "take":
            self.agents[name].holds[value] = self.flights.pop(0)[0]
        elif verb in ("fork", "start") and not error:
            parent = self.agents[name]
            child = Agent(parent.carries, dict(parent.holds), set(parent.private))
            if verb == "start":
                child = Agent(bool(arguments[2]), inherited(parent))
                self.leave(*child.holds.values())
            self.born(arguments[0], child, ways)
            if self.draws.random() < 0.7:
                self.part(name, arguments[0])

    def learn_on(self, agent: Agent, number: int, end: int, act: Act, answer: Answer) -> None:
        """Remember what an act on an end has changed."""
        verb, (value, error) = act[1], answer
        if end // 2 in self.strayed and error in BROKEN:
            self.refused.add(end)
        if verb == "send" and not error:
            self.unread[end ^ 1] += value
        elif verb == "recv" and not error:
            self.unread[end] = max(self.unread[end] - len(value), 0) if value else 0
        elif verb == "unread" and not error:
            self.unread[end] = value
        elif verb == "watch":
            agent.watched.add(end)
        elif verb == "shutdown" and not error:
            self.shut[end] |= {0, 1} if act[3] == socket.SHUT_RDWR else {act[3]}
        elif verb == "dup":
            agent.holds[value] = end
            (agent.private.discard if act[3] else agent.private.add)(value)
        elif verb == "inherit":
            (agent.private.discard if act[3] else agent.private.add)(number)
        elif verb == "close":
            del agent.holds[number]
            agent.private.discard(number)
        elif verb == "program":
            self.unread[end] -= len(value[1])
            self.unread[end ^ 1] += 7 if act[3] == "writes" else 0
            others = inherited(agent).values() if not act[4] else ()
            self.leave(end, *others)

    def leave(self, *ends: int) -> None:
        """Remember ends that have left the library's sight."""
        self.left.update(ends)
        self.strayed.update(end // 2 for end in ends)

    def part(self, parent: str, child: str) -> None:
        """Let a parent close some ends, and its child the others, next."""
        for connection in (0, 1):
            mine = self.draws.choice((0, 1))
            for name, side in ((parent, mine), (child, 1 - mine)):
                for number, end in self.agents[name].holds.items():
                    if end == 2 * connection + side:
                        self.next.append((name, "close", number))

    def gone(self, name: str, act: Act) -> None:
        """End an agent in both worlds, and wait until it has."""
        agent = self.agents[name]
        # An interpreter that exits leaves its orders before the kernel has closed the rest.
        ends = [os.pidfd_open(process) for process in agent.processes]
        for world in (0, 1):
            if act[1] == "exit":
                self.tell(act, world)
            else:
                os.kill(agent.processes[world], signal.SIGKILL)
        for world in (0, 1):
            with contextlib.suppress(DifferentError):
                self.told[-1] += f" {self.heard(name, world)}"
                raise AssertionError("it has answered")
            agent.orders[world].close()
            select.select([ends[world]], [], [], PATIENCE_S)
            os.close(ends[world])
        del self.agents[name]
        for end in set(agent.holds.values()):
            if not self.holders(end):
                self.heard_of(end ^ 1)
        if act[1] == "kill":
            self.killed |= {end for end in agent.holds.values() if not self.holders(end)}

    def heard_of(self, end: int) -> None:
        """Wait until the kernel has brought the other end's end, where that is told of at once."""
        until = time.monotonic() + DELIVERY_S
        if socket.SHUT_RD in self.shut[end]:
            # Its own end has been told all along.
            time.sleep(NOTICED_S)
        for name, agent in self.agents.items():
            for number in (it for it, held in agent.holds.items() if held == end):
                look = (name, "poll", number)
                while any(not value[0][1] & select.POLLRDHUP for value, _ in self.both(look)):
                    if time.monotonic() > until:
                        return
                    time.sleep(0.005)

    def run(self) -> None:
        """Play a round, and read what is left."""
        self.begin()
        for step in range(ACTS):
            queued = self.next.pop(0) if self.next else None
            usable = queued is not None and self.possible(queued)
            self.play(queued if queued and usable else self.draw(step))
        for name, agent in self.agents.items():
            for number in agent.holds:
                self.play((name, "recv", number, 2 * MOST_UNREAD))
                self.play((name, "recv", number, 1))


def inherited(agent: Agent) -> dict[int, int]:
    """What a program has that an agent starts."""
    return {key: end for key, end in agent.holds.items() if key not in agent.private}


def over(answer: Answer) -> Any:
    """An answer, of which it is not looked whether it tells of an error or of the end behind it."""
    value, error = answer
    if isinstance(value, list):
        return [(number, events & ~select.POLLERR) for number, events in value]
    return "over" if error in BROKEN or value == b"" else answer


def shown(value: Any) -> str:
    """A value, shortened."""
    text = repr(value)
    return text if len(text) < 50 or not isinstance(value, bytes) else f"{len(value)} bytes"


BROKEN = ("EPIPE", "ECONNRESET")
LOOKS = ("poll", "unread", "peek", "asked", "shutdown")
"""What may be asked again, as it changes nothing more."""
ON_NUMBERS = {"send": 18, "recv": 16, "peek": 4, "unread": 4, "poll": 8, "watch": 4}
ON_NUMBERS |= {"shutdown": 4, "dup": 4, "close": 6, "inherit": 3, "linger": 2, "give": 4}
ON_NUMBERS |= {"program": 3}
VERBS = ON_NUMBERS | {"asked": 5, "take": 6, "fork": 6, "start": 5, "exit": 2, "kill": 3}
"""How often each act is drawn."""
NUMBERED = frozenset(ON_NUMBERS)


def differs(library: Path, log: Path, name: str, plays: Callable[[Round], None], seed: int) -> bool:
    """Whether the worlds differ in a round of this name; print how, and how that came about."""
    before = len(log.read_text())
    game = Round(library, log, seed)
    try:
        plays(game)
    except DifferentError as why:
        print(*game.told, f"{why} ({name})", log.read_text()[before:], sep="\n")
        return True
    finally:
        game.end()
    return False


def kept(acts: tuple[Act, ...]) -> Callable[[Round], None]:
    """What plays these acts."""

    def plays(game: Round) -> None:
        game.begin()
        for act in acts:
            game.play(tuple(game.library if it == LIBRARY else it for it in act))

    return plays


def compared(library: Path, rounds: int, seed: int) -> int:
    """Play rounds until the worlds differ in one twice: once they may on a busy machine."""
    games = [(name, kept(acts), 0) for name, acts in KEPT.items()]
    games += [
        (f"--rounds 1 --seed {seed + turn}", Round.run, seed + turn) for turn in range(rounds)
    ]
    bad, played = False, 0
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log"
        log.touch()
        while played < len(games) and not bad:
            bad = all(differs(library, log, *games[played]) for _ in range(2))
            played += 1
        accelerated = log.read_text().count("accelerated through shared memory")
    bad = bad or accelerated < played
    print(f"families: {played} of {len(games)} rounds, {accelerated} ends accelerated,", end=" ")
    print("not the same" if bad else "all the same")
    return int(bad)


def main() -> int:
    """Compare what agents say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 24))
    options = parser.parse_args()
    return compared(options.library.resolve(), options.rounds, options.seed)


if __name__ == "__main__":
    sys.exit(main())

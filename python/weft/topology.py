"""Topology files of other simulators, read as graphs of hosts, switches and cables.

htsim's (`.topo`) are fat trees of two or three tiers, described tier by tier; HPCC's
(`topology.txt`) list switches and cables one by one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from weft import _seam
from weft.cabling import cables

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from weft._core import Asked

Graph = dict[str, Any]

# A metre whose delay is the cable's.
_METRE = "1 m"

_HEAD = ("Nodes", "Tiers", "Podsize")
_OF_TIER = {
    "Downlink_speed_Gbps": "Gbit/s",
    "Radix_Down": "",
    "Radix_Up": "",
    "Downlink_Latency_ns": "ns",
    "Switch_Latency_ns": "ns",
    "Oversubscribed": "",
    "Bundle": "",
    "Queue_Up": "packets",
    "Queue_Down": "packets",
}


class TopologyError(ValueError):
    """A topology file that cannot be read: its name, the line, its text, and what is accepted."""


def read_topology(path: str | os.PathLike[str]) -> Graph:
    """Return a topology file of htsim or HPCC's simulator as a graph for `weft.cables`.

    A file that ends with .topo is htsim's, any other is HPCC's. Hosts come first, in the order of
    their numbers there; switches follow. Edges have `rate`, and as `length` a metre whose
    `delay_per_metre` is the delay of the cable. What belongs to switches is not in it, since the
    composition's `switch` says that: their latency stands at the nodes as `latency_ns`, from
    htsim's `Switch_Latency_ns`; lengths of queues are read and say nothing. Cables that lose
    packets (HPCC's last column) are refused.

        >>> graph = weft.read_topology("fat_tree_1024.topo")
        >>> composition["channel"]["net"]["fabric"] = {"table": weft.cables(graph)}

    Raises:
        TopologyError: the file cannot be used; names it, the line and what is accepted.

    """
    lines = _Lines(Path(path))
    return _htsim(lines) if str(path).endswith(".topo") else _hpcc(lines)


def fabric_settings(
    path: str | os.PathLike[str], asked: Asked, preset: str | None, channel: str | None
) -> list[str]:
    """Return overrides that put the fabric of a topology file in the place of a channel's.

    `asked` is the composition that the channel is of, which need not be named where it is the only
    one.

    Raises:
        TopologyError: the file cannot be used, or there are several channels and none is named.

    """
    from weft.api import spell_overrides  # noqa: PLC0415

    graph = read_topology(path)
    name = channel or _only_channel(path, _seam.show(asked, preset, []))
    return spell_overrides({
        "system.hosts": sum(node["kind"] == "host" for node in graph["nodes"]),
        f"channel.{json.dumps(name)}.fabric": {"table": cables(graph)},
    })  # fmt: skip


def traffic_settings(traffic: str, topology: str | None) -> list[str]:
    """Return the override that has a program carry the flows, or the trace, of a file."""
    from weft.api import spell_overrides  # noqa: PLC0415
    from weft.recorded import TraceFormat, trace_kind  # noqa: PLC0415

    kinds: dict[str, TraceFormat] = {".cm": "htsim", ".et": "chakra", ".goal": "goal"}
    kind = trace_kind(traffic, kinds.get(Path(traffic).suffix, "hpcc"), None, topology)
    return spell_overrides({"program.trace": kind})


def _only_channel(path: str | os.PathLike[str], shown: Mapping[str, Any]) -> str:
    names = [str(channel["name"]) for channel in shown["composition"]["channels"]]
    if len(names) != 1:
        raise TopologyError(
            f"{path}: the fabric of which channel? accepted: --channel with one of "
            f"{', '.join(names)}"
        )
    return names[0]


@dataclass
class _Lines:
    """The words of a file, line by line, and errors about them."""

    path: Path
    rows: list[tuple[int, list[str]]] = field(init=False)

    def __post_init__(self) -> None:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise TopologyError(f"{self.path} cannot be read: {error.strerror}") from error
        split = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)]
        self.rows = [(number, words) for number, words in split if words]

    def wrong(self, number: int, found: str, accepted: str) -> NoReturn:
        raise TopologyError(f"{self.path}: line {number}: {found!r}; accepted: {accepted}")

    def count(self, number: int, word: str, accepted: str, least: int = 1) -> int:
        if not word.isdecimal() or int(word) < least:
            self.wrong(number, word, accepted)
        return int(word)

    def of_unit(self, number: int, word: str, units: Mapping[str, str]) -> str:
        """Write a quantity such as 100Gbps or 1000ns as a composition has it."""
        found = next((unit for unit in units if word.endswith(unit)), "")
        if not found or not _is_positive(word.removesuffix(found)):
            accepted = " or ".join(f"a number with the unit {unit}" for unit in units)
            self.wrong(number, word, accepted)
        return f"{word.removesuffix(found)} {units[found]}"


def _is_positive(word: str) -> bool:
    whole, _, fraction = word.partition(".")
    return f"{whole}{fraction}".isdecimal() and float(word) > 0


def _graph(hosts: int, switches: list[tuple[str, float]], edges: list[dict[str, Any]]) -> Graph:
    named = [{"id": f"host {host}", "kind": "host"} for host in range(hosts)]
    others = [{"id": name, "kind": "switch", "latency_ns": latency} for name, latency in switches]
    return {"nodes": [*named, *others], "edges": edges}


def _edge(one: str, other: str, rate: str, delay: str) -> dict[str, Any]:
    return {"source": one, "target": other, "rate": rate, "length": _METRE,
            "delay_per_metre": delay}  # fmt: skip


_RATES = {"Gbps": "Gbit/s", "Mbps": "Mbit/s"}
_DELAYS = {"ns": "ns", "us": "us", "ms": "ms"}
_CABLE = "FROM TO RATE DELAY LOSS, such as `0 320 100Gbps 1000ns 0`"


def _hpcc(lines: _Lines) -> Graph:
    """Read NODES SWITCHES LINKS, the switches, and a line a cable; what follows is not read."""
    rows = iter(lines.rows)
    number, first = next(rows, (1, []))
    if len(first) != 3:
        lines.wrong(number, " ".join(first), "NODES SWITCHES LINKS, three numbers")
    nodes, switches, links = (lines.count(number, word, "a number from 1 on") for word in first)
    number, listed = next(rows, (number + 1, []))
    if len(listed) != switches or len(set(listed)) != switches:
        lines.wrong(number, " ".join(listed), f"the numbers of {switches} switches, each once")
    known = {lines.count(number, word, f"a switch from 0 to {nodes - 1}", 0) for word in listed}
    if max(known) >= nodes:
        lines.wrong(number, str(max(known)), f"a switch from 0 to {nodes - 1}")
    hosts = {node: f"host {host}" for host, node in enumerate(
        node for node in range(nodes) if node not in known
    )}  # fmt: skip
    edges = []
    for _ in range(links):
        number, words = next(rows, (number + 1, []))
        if len(words) != 5:
            lines.wrong(number, " ".join(words), f"{_CABLE}; {links} of them")
        ends = [lines.count(number, word, "the number of a node", 0) for word in words[:2]]
        if max(ends) >= nodes:
            lines.wrong(number, str(max(ends)), f"a node from 0 to {nodes - 1}")
        if not words[4].replace(".", "").isdecimal() or float(words[4]) != 0:
            lines.wrong(number, words[4], "0, a cable that loses nothing")
        rate = lines.of_unit(number, words[2], _RATES)
        delay = lines.of_unit(number, words[3], _DELAYS)
        one, other = (hosts.get(end, f"switch {end}") for end in ends)
        edges.append(_edge(one, other, rate, delay))
    return _graph(len(hosts), [(f"switch {node}", 0.0) for node in sorted(known)], edges)


@dataclass
class _Tier:
    """A tier in a file: its switches, and their cables downwards."""

    line: int
    said: dict[str, float] = field(default_factory=dict)

    def whole(self, key: str, default: int | None = None) -> int:
        return int(self.said.get(key, default if default is not None else 0))

    @property
    def rate(self) -> str:
        return f"{self.said['Downlink_speed_Gbps']:g} Gbit/s"

    @property
    def delay(self) -> str:
        return f"{self.said['Downlink_Latency_ns']:g} ns"


def _htsim(lines: _Lines) -> Graph:
    """Read Nodes, Tiers and Podsize, then a block a tier from the leaves up."""
    head: dict[str, int] = {}
    tiers: list[_Tier] = []
    for number, words in lines.rows:
        if words[0].startswith("#"):
            continue
        if len(words) != 2:
            lines.wrong(number, " ".join(words), "KEY VALUE")
        key, value = words
        if key in _HEAD and not tiers:
            head[key] = lines.count(number, value, f"{key} N, from 1 on")
        elif key == "Tier" and value == str(len(tiers)):
            tiers.append(_Tier(number))
        elif key in _OF_TIER and tiers:
            if not _is_positive(value) and value != "0":
                lines.wrong(number, value, f"{key} N {_OF_TIER[key]}".strip())
            tiers[-1].said[key] = float(value)
        else:
            keys = ", ".join(_OF_TIER) if tiers else ", ".join(_HEAD)
            lines.wrong(number, f"{key} {value}", f"Tier {len(tiers)}, {keys}")
    last = lines.rows[-1][0] if lines.rows else 1
    for key in _HEAD:
        if key not in head:
            lines.wrong(last, "the end of the file", f"{key} N")
    if head["Tiers"] != len(tiers) or len(tiers) not in {2, 3}:
        lines.wrong(last, f"{len(tiers)} tiers", f"Tiers {head['Tiers']}, and 2 or 3 of them")
    return _tree(lines, head, tiers)


def _tree(lines: _Lines, head: Mapping[str, int], tiers: list[_Tier]) -> Graph:
    """Wire the tree: pods of leaves and aggregation switches, and core switches above them."""
    for tier, above in zip(tiers, [*tiers[1:], None], strict=True):
        needed = ["Downlink_speed_Gbps", "Radix_Down", "Downlink_Latency_ns"]
        for key in [*needed, *(["Radix_Up"] if above else [])]:
            if tier.said.get(key, 0) <= 0:
                lines.wrong(tier.line, f"a tier without {key}", f"{key} N, from 1 on")
    nodes = head["Nodes"]
    pod = head["Podsize"] if len(tiers) == 3 else nodes
    pods = _share(lines, tiers[0], nodes, pod, "Nodes by Podsize")
    leaves = _share(lines, tiers[0], pod, tiers[0].whole("Radix_Down"), "Podsize by Radix_Down")
    counts = [pods * leaves]
    switches = [(f"0.{leaf}", tiers[0].said.get("Switch_Latency_ns", 0.0))
                for leaf in range(counts[0])]  # fmt: skip
    edges = [
        _edge(f"host {host}", f"0.{host // tiers[0].whole('Radix_Down')}",
              tiers[0].rate, tiers[0].delay)
        for host in range(nodes)
    ]  # fmt: skip
    # The switches of the last tier are one group, those below it are divided into pods.
    groups = [pods] * (len(tiers) - 1) + [1]
    for level, (low, high) in enumerate(pairwise(tiers)):
        up = counts[level] * low.whole("Radix_Up")
        counts.append(_share(lines, high, up, high.whole("Radix_Down"),
                             f"the {up} cables up from tier {level} by Radix_Down"))  # fmt: skip
        latency = high.said.get("Switch_Latency_ns", 0.0)
        switches += [(f"{level + 1}.{number}", latency) for number in range(counts[-1])]
        wiring = _between(lines, (low, high), (counts[level], counts[-1]), groups[level + 1])
        edges += [
            _edge(f"{level}.{one}", f"{level + 1}.{other}", high.rate, high.delay)
            for one, other in wiring
        ]
    return _graph(nodes, switches, edges)


def _between(
    lines: _Lines, tiers: tuple[_Tier, _Tier], counts: tuple[int, int], groups: int
) -> Iterator[tuple[int, int]]:
    """Yield the cables between two tiers, of which the upper one stands in so many groups.

    Each switch below has `Bundle` cables to each of the switches above that it reaches; those at
    the same place in different pods reach the same ones.
    """
    low, high = tiers
    bundle = high.whole("Bundle", 1)
    reached = _share(lines, low, low.whole("Radix_Up"), bundle, "Radix_Up by Bundle")
    below, above = (_share(lines, high, count, groups, "switches by pods") for count in counts)
    if above % reached:
        lines.wrong(high.line, f"{above} switches above, of which each below reaches {reached}",
                    "a Radix_Up of which the number of switches above is a multiple")  # fmt: skip
    for switch in range(counts[0]):
        group, place = divmod(switch, below)
        first = place * reached % above
        others = (group * above + first + number for number in range(reached))
        yield from chain.from_iterable([(switch, other)] * bundle for other in others)


def _share(lines: _Lines, tier: _Tier, whole: int, part: int, what: str) -> int:
    if part < 1 or whole % part:
        lines.wrong(
            tier.line, f"{what}: {whole} by {part}", "numbers of which one divides the other"
        )
    return whole // part

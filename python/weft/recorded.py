"""Recorded programs and lists of flows: run from files, and written of collective operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from weft import _seam
from weft.given import Given, asked_for
from weft.program import Placement, ProgramResult, Size, in_bytes, result_of, spell_ways

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from weft._core import Asked
    from weft._seam import Progress

TraceFormat: TypeAlias = Literal["goal", "simgrid", "htsim", "hpcc", "chakra"]
"""The format of a recorded program or of a list of flows, by the simulator that defines it."""

_ENDINGS: dict[str, TraceFormat] = {".cm": "htsim", ".et": "chakra"}

COLLECTIVES = [
    "barrier",
    "broadcast",
    "reduce",
    "allreduce_ring",
    "allreduce_recursive_doubling",
    "all_to_all",
    "gather",
    "gather_v",
    "scatter",
    "scatter_v",
    "allgather_ring",
    "allgather_v",
    "allgather_bruck",
    "reduce_scatter_ring",
    "reduce_scatter_halving",
]
"""The collective operations, by their algorithms."""


def run_trace(  # noqa: PLR0913 (as for run_program)
    file: str | PathLike[str],
    system: Given,
    *,
    format: TraceFormat | None = None,
    speed: float | None = None,
    topology: str | PathLike[str] | None = None,
    groups: str | PathLike[str] | None = None,
    peak: float | None = None,
    memory: str | None = None,
    channel: str | None = None,
    route: Sequence[Mapping[str, object]] = (),
    placement: Placement = "block",
    ranks_per_host: int | None = None,
    preset: str | None = None,
    set: Mapping[str, object] | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> ProgramResult:
    """Run a recorded program, or a list of flows, on a system.

    Args:
        file: a GOAL text, a time-independent trace of SimGrid, a connection matrix of htsim, a
            `flow.txt` of HPCC's simulator, or a Chakra execution trace: NAME of NAME.0.et,
            NAME.1.et, ..., or one of these.
        system: a shipped system, a composition file, or a dict with the tables and keys of one.
        format: what the file is: "goal", "simgrid", "htsim", "hpcc" or "chakra". If not given,
            "simgrid" where there is a `speed`, "htsim" if the file ends with .cm, "chakra" if with
            .et, otherwise "goal".
        speed: instructions that a processor carries out a second, for "simgrid".
        topology: a file of htsim (.topo) or HPCC (`topology.txt`) whose fabric takes the place of
            the channel's, and its hosts that of the system's. Of a list of "hpcc" it says which
            nodes are switches; without it every node is a host.
        groups: process groups of "chakra" that no node of it describes, as a JSON file of
            ASTRA-sim's: {"1": [0, 1]}.
        peak: operations a second of an accelerator, for nodes of "chakra" without a duration.
        memory: the rate of its memory, such as "8 Tbit/s", for the same.
        channel: as for `run_program`, like the rest.
        route: see there.
        placement: see there.
        ranks_per_host: see there; there are as many ranks as all hosts take.
        preset: see there.
        set: see there.
        seed: see there.
        progress: called now and then with the operations done, all of them, and a label; the run
            ends if it returns False.

    """
    from weft.api import spell_overrides  # noqa: PLC0415

    spelled = spell_overrides(set or {})
    ways = (route, placement, ranks_per_host)
    of_chakra = {"groups": groups and str(groups), "peak": peak, "memory": memory}
    kind = trace_kind(file, format, speed, topology, of_chakra)
    asked = asked_for(system)
    if topology is not None:
        from weft.topology import fabric_settings  # noqa: PLC0415

        spelled = [*spelled, *fabric_settings(topology, asked, preset, channel)]
    return trace_of_overrides(kind, (asked, preset, spelled, seed), channel, ways, progress)


def trace_kind(
    file: str | PathLike[str],
    format: TraceFormat | None = None,
    speed: float | None = None,
    topology: str | PathLike[str] | None = None,
    of_chakra: Mapping[str, object] | None = None,
) -> dict[str, dict[str, object]]:
    """Return the table `trace` of a file that would say the same as the arguments of `run_trace`.

    `of_chakra` has those that only "chakra" has; what is None counts as absent.

    Raises:
        ValueError: something is given to a format that has no such thing, or "simgrid" has no
            speed.

    """
    name = str(file)
    if format is None:
        by_ending: TraceFormat = _ENDINGS.get(Path(name).suffix, "goal")
        format = "simgrid" if speed is not None else by_ending
    given = {key: value for key, value in (of_chakra or {}).items() if value is not None}
    if given and format != "chakra":
        raise ValueError(
            f"{', '.join(given)}: given for the format chakra, and only there; this is {format}"
        )
    if (speed is not None) != (format == "simgrid"):
        raise ValueError(
            f"a speed is given for the format simgrid, and only there; this is {format}"
        )
    if format == "simgrid":
        return {"time_independent": {"file": name, "speed": speed}}
    if format == "hpcc":
        # Trees of htsim number hosts alone.
        numbers_switches = topology is not None and not str(topology).endswith(".topo")
        nodes = {"topology": str(topology)} if numbers_switches else {}
        return {"flows": {"file": name, **nodes}}
    if format == "chakra":
        return {"chakra": {"file": name, **given}}
    return {"connection_matrix" if format == "htsim" else "goal": {"file": name}}


def trace_of_overrides(
    kind: Mapping[str, Mapping[str, object]],
    system: tuple[Asked, str | None, list[str], int],
    channel: str | None,
    ways: tuple[Sequence[Mapping[str, object]], Placement, int | None],
    progress: Progress | None = None,
) -> ProgramResult:
    """Like `run_trace`, but with overrides as texts `key=value`, as on the command line.

    Args:
        kind: what `trace_kind` returned.
        system: the system asked for, its preset, the overrides, and the seed.
        channel: as for `run_program`.
        ways: the rules that choose the channel of each message (`route`), the placement, and the
            largest number of ranks on a host.
        progress: as for `run_trace`.

    """
    name, preset, overrides, seed = system
    route, placement, ranks_per_host = ways
    rules, places = spell_ways(route, placement)
    trace = json.dumps(kind)
    tables, shorter = _seam.trace_run(
        (name, preset, overrides),
        trace,
        (channel, rules, places, ranks_per_host),
        seed,
        progress,
    )
    return result_of(tables, {}, shorter)


def generate_trace(
    collective: str,
    ranks: int,
    size: Size | Sequence[Size] = 0,
    rounds: int = 1,
    *,
    root: int = 0,
) -> str:
    """Return a collective operation as a GOAL text.

    Args:
        collective: one of `weft.recorded.COLLECTIVES`.
        ranks: how many ranks take part.
        size: bytes of each rank, such as "64 kB"; for gather_v, scatter_v, allgather_v and
            reduce_scatter_ring also a list, one for each rank.
        rounds: how many times, one after another.
        root: the rank that has the data first, or gets it.

    """
    settings: dict[str, object] = {"operation": collective, "rounds": rounds, "root": root}
    if isinstance(size, str | int):
        settings["size"] = f"{in_bytes(size)} B"
    else:
        settings["sizes"] = [f"{in_bytes(one)} B" for one in size]
    text: str = _seam.core().trace_generate(json.dumps({"collective": settings}), ranks)
    return text

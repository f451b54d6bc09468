"""Emulation of another interconnect: what messages cost there, as the provider reads it.

For each length the simulator runs a trace of a ping-pong and a stream between two hosts of the
system. Latency is half a round trip, the gap is the interval between arrivals of the stream, and
busy is how long the sending rank's processor is occupied.

The software of MPI on this host takes time as well, which is no part of the other interconnect: a
ping-pong of two ranks under emulation says how much, and messages are due earlier by that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from weft.live_figures import size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft._seam import Progress
    from weft.program import ProgramResult

# Two lengths an octave; costs are straight lines between them, and beyond the last.
LENGTHS = (0, 8, *(it for power in range(4, 21) for it in (2**power * 3 // 4, 2**power)))
# Longer messages fill every pipeline by themselves.
_LONG = 32768


@dataclass(frozen=True)
class System:
    """An interconnect, and the channels that messages take."""

    name: str
    preset: str | None = None
    overrides: tuple[str, ...] = ()
    channel: str | None = None
    route: Sequence[Mapping[str, object]] = ()


@dataclass(frozen=True)
class Cost:
    """The costs of a message of one length, in nanoseconds (crates/protocol/src/emulation.rs)."""

    length: int
    busy_ns: int
    gap_ns: int
    latency_ns: int


def costs(system: System, progress: Progress | None = None) -> list[Cost]:
    """Simulate what messages cost on a system, from the first host to the second.

    Raises:
        WeftError: If there is no such system, or a message cannot take the channel.

    """
    made = []
    with TemporaryDirectory(prefix="weft-mpi-as-") as folder:
        for number, length in enumerate(LENGTHS):
            if progress is not None:
                progress(number, len(LENGTHS), f"messages of {size(length)} on {system.name}")
            made.append(_cost(system, length, Path(folder) / "messages.goal"))
    return made


def _cost(system: System, length: int, file: Path) -> Cost:
    from weft.recorded import trace_kind, trace_of_overrides  # noqa: PLC0415 (it loads the core)

    turns, stream = (4, 16) if length < _LONG else (1, 4)
    file.write_text(_trace(length, turns, stream))
    ran = trace_of_overrides(
        trace_kind(file),
        (system.name, system.preset, list(system.overrides), 1),
        system.channel,
        (system.route, "block", None),
    )
    arrived = sorted(ran.messages["delivered_us"])
    turned, streamed = arrived[: 2 * turns], arrived[2 * turns :]
    # Empty buffers take the first messages of a stream faster than the link does.
    settled = streamed[stream // 2 - 1 :]
    return Cost(
        length,
        busy_ns=round(_first_send(ran) * 1000),
        gap_ns=round((settled[-1] - settled[0]) / (len(settled) - 1) * 1000),
        latency_ns=round(turned[-1] / len(turned) * 1000),
    )


def _first_send(ran: ProgramResult) -> float:
    """Return how many microseconds the first rank is busy with its first message."""
    own = ran.intervals[ran.intervals["rank"] == 0]
    first = own.sort_values("from_us").iloc[0]
    if first["activity"] != "sending":
        return 0.0
    return float(first["until_us"] - first["from_us"])


def _trace(length: int, turns: int, stream: int) -> str:
    """Write a ping-pong of two ranks, followed by a stream from the first to the second."""
    there, back = f"{length}b to 1 tag 0", f"{length}b from 1 tag 0"
    one = [f"send {there}", f"recv {back}"] * turns + [f"send {there}"] * stream
    swapped = {"send": "recv", "recv": "send"}
    other = [
        f"{swapped[it.split()[0]]} {length}b {'from' if it.startswith('send') else 'to'} 0 tag 0"
        for it in one
    ]
    return f"num_ranks 2\n{_rank(0, one)}{_rank(1, other)}"


def _rank(number: int, operations: Sequence[str]) -> str:
    lines = [f"l{at}: {what}" for at, what in enumerate(operations)]
    order = [f"l{at} requires l{at - 1}" for at in range(1, len(operations))]
    return "\n".join([f"rank {number} {{", *lines, *order, "}", ""])


def table(costs: Sequence[Cost]) -> str:
    """Write costs as the provider reads them."""
    rows = [f"{it.length} {it.busy_ns} {it.gap_ns} {it.latency_ns}" for it in costs]
    return "\n".join(["# bytes, busy, gap, latency: nanoseconds", *rows, ""])


# The length of the ping-pong's messages, and how long it takes on the emulated interconnect, in ns.
_SHORT = 8
_SPAN_NS = 200_000_000


def rounds(costs: Sequence[Cost]) -> int:
    """Return how many round trips say what this host's software takes; an odd number."""
    return min(max(int(_SPAN_NS / 2 / max(_short(costs).latency_ns, 1)), 25), 5000) * 2 + 1


def without_software(costs: Sequence[Cost], one_way_ns: int) -> tuple[list[Cost], int]:
    """Shorten latencies by what this host's software takes, so that it is a part of them.

    Args:
        costs: Those of the system.
        one_way_ns: What a message of 8 B takes under emulation of these costs.

    Returns:
        The costs for the provider, and the time of the software in nanoseconds, of which no more
        than the latency of 8 B is a part of any message.

    """
    latency = _short(costs).latency_ns
    software = max(one_way_ns - latency, 0)
    less = min(software, latency)
    return [replace(it, latency_ns=max(it.latency_ns - less, 0)) for it in costs], software


def _short(costs: Sequence[Cost]) -> Cost:
    return next(it for it in costs if it.length == _SHORT)


def told(system: System, costs: Sequence[Cost], software_ns: int | None) -> str:
    """Say in a line what messages cost on the system, and what of it is this host's software.

    Args:
        system: The interconnect.
        costs: Those of the system.
        software_ns: What this host's software takes, if that is known.

    """
    by_length = {it.length: it for it in costs}
    short, long = by_length[8], by_length[2**20]
    rate = long.length / long.gap_ns * 1000
    return (
        f"as if on {system.name}: 8 B take {_number(short.latency_ns / 1000, 4)} µs one way, "
        f"1 MiB {_number(long.latency_ns / 1e6, 4)} ms; at most {_number(rate, 4)} MB/s "
        f"({_software(software_ns, short.latency_ns)})"
    )


def _software(software_ns: int | None, latency_ns: int) -> str:
    if software_ns is None:
        return "to which comes what this host's MPI takes"
    takes = f"this host's MPI takes {_number(software_ns / 1000, 2)} µs"
    if software_ns <= latency_ns:
        return f"{takes}, included"
    return f"{takes}, longer than 8 B there, so that short ones take longer than there"


def _number(value: float, digits: int) -> str:
    """Write a number with so many digits that count, and never with an exponent."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.0f}" if rounded >= 10 ** (digits - 1) else f"{rounded:g}"

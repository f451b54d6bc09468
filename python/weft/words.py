"""Names of columns, parts and units, as a person reads them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Suffix of a column's name -> the unit that it stands for. Longest first.
_UNITS = {
    "_mb_per_s_per_host": "MB/s",
    "_bytes_per_s": "B/s",
    "_packets_per_s": "packets/s",
    "_mb_per_s": "MB/s",
    "_per_s": "1/s",
    "_per_ms": "1/ms",
    "_mbit_s": "Mbit/s",
    "_gbit_s": "Gbit/s",
    "_us": "µs",
    "_ns": "ns",
    "_ms": "ms",
    "_packets": "packets",
    "_slots": "slots",
    "_bytes": "B",
    "_kib": "KiB",
}

_TITLES = {
    "offered_load": "Offered load (fraction of link bandwidth)",
    "accepted_load": "Accepted throughput (fraction of link bandwidth)",
    "remote_dma_mb_per_s": "Remote DMA (MB/s)",
    "remote_dma_worst_mb_per_s": "Remote DMA, worst host (MB/s)",
    "accepted_mb_per_s": "Accepted throughput, all hosts (MB/s)",
    "accepted_mb_per_s_per_host": "Accepted throughput of each host (MB/s)",
    "clock_apart_max_us": "Greatest difference of two clocks (µs)",
    "collisions_per_attempt": "Collisions per transmission",
    "run.length": "Simulated time of a run",
}


# Units as the core writes them -> as a person reads them beside a number.
_SHOWN = {"us": "µs", "fraction of link bandwidth": "of link"}


def shown_unit(unit: str) -> str:
    """Write a unit of the core as it is read: "us" -> "µs"."""
    return _SHOWN.get(unit, unit)


_RATIO = re.compile(r"^([\d.]+) bit/([\d.]+) (ps|ns|us)$")
_SECONDS = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6}


def rate(text: str) -> str:
    """Write a rate that a file gives as bits by time as a person says it.

    `2 bit/1.875 ns` -> `1.067 Gbit/s`; any other text stays as it is.
    """
    found = _RATIO.match(text)
    if found is None:
        return text
    per_second = float(found[1]) / (float(found[2]) * _SECONDS[found[3]])
    size, unit = next(
        (size, unit)
        for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (0.0, "bit/s"))
        if per_second >= size
    )
    return f"{per_second / (size or 1):.4g} {unit}"


def unit_of(column: str) -> str:
    """Return the unit that a column's name ends in, or ""."""
    return next((unit for suffix, unit in _UNITS.items() if column.endswith(suffix)), "")


# Ending of a column's name -> the statistic that it stands for. Longest first.
_STATISTICS = {
    "_mean": "Mean",
    "_p50": "Median",
    "_p999": "p99.9",
    "_p99": "p99",
    "_min": "Shortest",
    "_max": "Longest",
}

_OF_AMOUNTS = {"Shortest": "Least", "Longest": "Greatest"}

# Endings of columns about the flows of a group, after its name.
_OF_FLOWS = {
    "_completion": "completion time",
    "_acknowledged": "time until acknowledged",
    "_alone": "completion time alone",
    "_slowdown": "slowdown",
}

# Last words of times that are not called latencies.
_TIMES = ("wait", "trip", "interval", "wrong", "service", "synchronisation")

# Settings of a group of streams whose last word alone says too little.
_OF_STREAMS = {
    "first": "{group} streams",
    "burst.fixed": "messages of {group} streams in a burst",
    "burst.geometric": "messages of {group} streams in a burst, on the mean",
}


def plain(name: str) -> str:
    """`least_choice_first` -> "least choice first"."""
    return name.replace("_", " ").strip()


def prose(text: str) -> str:
    """Replace the column names in a sentence by words; units are beside the numbers."""
    return " ".join(_aloud(word) for word in text.split()).replace(" x ", " × ")


def _aloud(word: str) -> str:
    bare = word.rstrip(",:;")
    if bare.startswith("derived."):
        title = plain(bare.removeprefix("derived.").replace(".", " "))
    elif "_" in bare:
        title = axis_title(bare).split(" (")[0]
    else:
        return word
    return title[:1].lower() + title[1:] + word[len(bare) :]


def axis_title(column: str, channel: str = "") -> str:
    """Name a column on an axis, with its unit: "Mean queueing latency (µs)".

    A load of another channel than the one that is drawn is named with its channel.
    """
    if column in _TITLES:
        return _TITLES[column]
    if ".source.streams." in column:
        group, _, key = column.partition(".source.streams.")[2].partition(".")
        if key in _OF_STREAMS:
            return _OF_STREAMS[key].format(group=plain(group)).capitalize()
    if column.endswith(".load"):
        other = column.split(".")[-2]
        whose = f" on the {other} channel" if channel not in ("", other) else ""
        return f"Offered load{whose} (fraction of link bandwidth)"
    unit = unit_of(column)
    name = column
    for suffix in _UNITS:
        if name.endswith(suffix):
            name = name.removesuffix(suffix)
            break
    name = name.rsplit(".", 1)[-1]
    for ending, prefix in _STATISTICS.items():
        if name.endswith(ending):
            # Only times are short and long.
            which = prefix if _is_time(unit) else _OF_AMOUNTS.get(prefix, prefix)
            name = f"{which} {_measured(name.removesuffix(ending), unit)}"
            break
    text = plain(name)
    text = text[:1].upper() + text[1:]
    return f"{text} ({unit})" if unit else text


def _measured(name: str, unit: str) -> str:
    """Say what a column with a statistic is about: "hot_completion" -> "completion time of hot"."""
    for ending, what in _OF_FLOWS.items():
        if name.endswith(ending):
            group = plain(name.removesuffix(ending))
            return f"{what} of {'all flows' if group == 'all' else group}"
    is_latency = _is_time(unit) and name.rsplit("_", 1)[-1] not in _TIMES
    return f"{plain(name)} latency" if is_latency else plain(name)


def _is_time(unit: str) -> bool:
    return unit in ("ns", "µs", "ms")


def column_head(name: str) -> str:
    """Name a column of a table, with its unit: "queueing mean (µs)"."""
    unit = unit_of(name)
    return f"{prose(name)} ({unit})" if unit else prose(name)


def half_widths(column: str) -> list[str]:
    """Name the columns that may hold the half width of another's 95 % interval.

    `queueing_mean_us` has `queueing_half_width_us`, most others have their own name and an ending.
    """
    names = [column.replace("_mean_", "_half_width_"), f"{column}_half_width",
             column.replace("_load", "_half_width")]  # fmt: skip
    return [name for name in names if name != column]


def short_keys(names: Sequence[str]) -> dict[str, str]:
    """Shorten dotted keys to the fewest of their last parts that tell them apart.

    `channel.data.switch.input_queued.buffer` -> "input queued buffer"; a last part that says too
    little alone comes with the one before it.
    """
    found: dict[str, str] = {}
    for name in names:
        parts = name.split(".")
        for count in range(min(2, len(parts)), len(parts) + 1):
            tail = parts[-count:]
            alike = [other for other in names if other.split(".")[-count:] == tail]
            if len(alike) < 2:
                break
        found[name] = " ".join(plain(part) for part in tail) if "." in name else name
    return found


def in_lines(text: str, most: int) -> str:
    """Break a text that is longer than a line in two, near its middle.

    Args:
        text: it breaks behind a comma, else before a middle dot, else between two words.
        most: letters that a line holds.

    """
    if len(text) <= most:
        return text
    for sign, kept in ((", ", 1), (" · ", 0), (" ", 0)):
        places = [found.start() for found in re.finditer(re.escape(sign), text)]
        if places:
            middle = min(places, key=lambda place: abs(place - len(text) / 2))
            return f"{text[: middle + kept]}\n{text[middle + kept :].lstrip()}"
    return text


def number(value: object, digits: int = 3) -> str:
    """Write a measured number with three significant digits, without exponents where possible."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 6 or size < -4:
        return f"{value:.{digits - 1}e}"
    rounded = round(value, max(digits - 1 - size, 0))
    return f"{rounded:,.{max(digits - 1 - size, 0)}f}".replace(",", "\u202f")


def printed(value: object) -> str:
    """Write a published number with the digits that were printed, no more and no fewer."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return "–"
    return f"{value:.10g}"


def percent(fraction: object, *, sign: bool = True) -> str:
    """Write a fraction as a percentage: 0.12 -> "+12 %"."""
    if not isinstance(fraction, (int, float)) or not math.isfinite(fraction):
        return "–"
    points = 100 * fraction
    digits = 0 if abs(points) >= 9.95 else 1
    if not round(points, digits):
        return "0\u202f%"
    text = f"{points:+.{digits}f}" if sign else f"{points:.{digits}f}"
    return text.replace("-", "−") + "\u202f%"

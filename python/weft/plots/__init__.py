"""Figures from tables: which ones a result gets, and who draws each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.plots.across import figures as across_figures
from weft.plots.budget import along_time, budget
from weft.plots.course import throughput_along_time
from weft.plots.curves import (
    collision_rates,
    curve,
    latency_against_load,
    throughput_against_load,
)
from weft.plots.distribution import distribution
from weft.plots.fabric import fabric, port_occupancy
from weft.plots.pauses import pauses
from weft.plots.program import program_defaults, program_shares
from weft.plots.published import published_against_measured
from weft.plots.rank_times import rank_shares, rank_times
from weft.plots.request import Request
from weft.plots.slowdown import slowdown_by_size
from weft.plots.space_time import space_time
from weft.plots.streams import stream_histogram, stream_throughput

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.figure import Figure
    from weft.result import Result

DRAWN_BY: dict[str, Callable[[Result, Request], Figure | None]] = {
    "latency_against_load": latency_against_load,
    "throughput_against_load": throughput_against_load,
    "collision_rates": collision_rates,
    "histogram": distribution,
    "latency_budget": budget,
    "curve": curve,
    "stream_throughput": stream_throughput,
    "stream_histogram": stream_histogram,
    "fabric": fabric,
    "port_occupancy": port_occupancy,
    "pauses": pauses,
    "slowdown_by_size": slowdown_by_size,
    "latency_along_time": along_time,
    "throughput_along_time": throughput_along_time,
    "space_time": space_time,
    "published": published_against_measured,
    "program_shares": program_shares,
    "rank_times": rank_times,
    "rank_shares": rank_shares,
}

_CURVES = ("latency_against_load", "throughput_against_load", "collision_rates")

_DEFAULT_TITLES = {
    "latency_against_load": "Latency against load",
    "throughput_against_load": "Accepted throughput against offered load",
    "collision_rates": "Collisions",
    "histogram": "Distribution of latency",
    "latency_budget": "Where the time went",
    "space_time": "Who sent what when",
    "slowdown_by_size": "Slowdown by size",
    "pauses": "Who pauses whom",
}

# Kinds that are drawn where a channel has rows in a table that few runs have.
_TABLES = {"slowdown_by_size": "flows", "pauses": "pauses"}


def figures_of(result: Result) -> list[Figure]:
    """Draw what the experiment's file asks for; without a wish, whatever the tables allow."""
    if "across" in result.meta:
        return across_figures(result)
    requests = [Request.from_json(entry) for entry in result.meta.get("figures") or []]
    if not requests:
        requests = _defaults(result)
    if len(result.checks):
        title = "Error of each published number"
        requests.insert(
            0, Request(name="published-against-measured", title=title, kind="published")
        )
    drawn = [DRAWN_BY[request.kind](result, request) for request in requests]
    return [figure for figure in drawn if figure is not None]


def _defaults(result: Result) -> list[Request]:
    """One figure of each kind for each channel that carried traffic; curves where loads differ."""
    points = result.points
    if "channel" not in points:
        return []
    channels = list(dict.fromkeys(points["channel"]))
    swept = [
        str(name) for name in points if str(name).endswith(".load") and points[name].nunique() > 1
    ]
    # Traced runs have few packets, each of which can be seen.
    traced = not result.tables.get("trace", points.head(0)).empty
    superseded = ("histogram",) if traced else ()
    none = points.head(0)
    known = {
        kind: set(result.tables.get(table, none).get("channel", ()))
        for kind, table in _TABLES.items()
    }
    return program_defaults(result) + [
        Request(
            name=f"{channel}-{kind.replace('_', '-')}",
            title=f"{title}: {channel} channel" if len(channels) > 1 else title,
            kind=kind,
            channel=channel,
        )
        for channel in channels
        for kind, title in _DEFAULT_TITLES.items()
        if kind not in superseded
        and (f"workload.{channel}.load" in swept or kind not in _CURVES)
        and (kind not in known or channel in known[kind])
    ]

"""A small stand-in for the extension module: the seam's shapes, with made-up numbers.

Latencies follow closed formulas with a knee, so that pictures look like the real thing; nothing
here is a measurement. It lives in the tests only.
"""

from __future__ import annotations

import json
import math
import time
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__version__ = "0.1.0"

# The point that lasts until it is stopped; tests of Ctrl-C need one.
LASTS: int | None = None


class WeftError(ValueError):
    file: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None
    value: str | None = None
    accepted: str | None = None
    message: str = ""


RUNNABLE = ("clint-table-2-bulk", "clint-quick", "table.toml", "spec.toml")
LOADS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
SINGLE = {0.1: 7.4, 0.3: 10.5, 0.5: 16.8, 0.7: 34.2, 0.9: 464.4}
BURSTY = {0.1: 21.0, 0.3: 32.9, 0.5: 53.5, 0.7: 103.7, 0.9: 1636.7}
SPEC = """\
base = "clint"

[experiment]
title = "Clint, Table 2: latency of the scheduled bulk channel"
section = "4.2, Table 2"

[run]
length = "40 ms"
seeds = 20

[sweep]
"workload.bulk.load" = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
"""


def systems() -> str:
    return json.dumps(
        [
            {
                "name": "clint",
                "title": "Clint (Sun Microsystems Laboratories)",
                "document": "Eberle and Gura, Sun Labs TR-2002-115, 2002",
                "channels": ["bulk", "quick"],
                "presets": ["literal", "fitted"],
            }
        ]
    )


def experiments() -> str:
    return json.dumps(
        [
            {"name": "clint-table-2-bulk", "title": "Table 2", "system": "clint", "section": "4.2"},
            {"name": "clint-quick", "title": "Figure 9", "system": "clint", "section": "4.2"},
        ]
    )


def schema() -> str:
    return json.dumps({"$schema": "draft 2020-12", "title": "Spec", "type": "object"})


def show(name: str, preset: str | None, overrides: list[str]) -> str:
    if name != "clint" and name not in RUNNABLE:
        raise _unknown(name)
    hosts = next((int(o.split("=")[1]) for o in overrides if o.startswith("system.hosts=")), 16)
    return json.dumps(
        {
            "title": "Clint (Sun Microsystems Laboratories)",
            "document": "Eberle and Gura, Separated High-bandwidth and Low-latency Communication "
            "in the Cluster Interconnect Clint, Sun Labs TR-2002-115, 2002",
            "composition": composition(hosts),
            "parameters": parameters(hosts, preset),
        }
    )


def composition(hosts: int) -> dict[str, Any]:
    return {
        "hosts": hosts,
        "channels": [
            {
                "name": "bulk",
                "packet": "2086 B",
                "link": {"rate": "2 Gbit/s", "length": "5 m"},
                "switch": {"kind": "scheduled", "latency": "1.5 ns", "gap": "190 ns"},
                "ports": hosts,
                "scheduler": "least_choice_first",
                "adapter": {"send_buffers": 16, "feed": "fifo"},
            },
            {
                "name": "quick",
                "packet": "36 B",
                "link": {"rate": "0.528 Gbit/s", "length": "5 m"},
                "switch": {"kind": "crossbar", "latency": "90 ns", "contention": "drop"},
                "ports": hosts,
                "scheduler": None,
                "adapter": {"send_buffers": 4, "feed": "fifo"},
            },
        ],
    }


def parameters(hosts: int, preset: str | None) -> list[dict[str, Any]]:
    def entry(key: str, value: object, kind: str, text: str, predicts: str = "") -> dict[str, Any]:
        origin = {"kind": kind, "text": text, "predicts": predicts} if kind else None
        return {"key": key, "value": value, "unit": None, "origin": origin,
                "description": f"What {key.rsplit('.', 1)[-1]} means."}  # fmt: skip

    gap = "0 ns" if preset == "literal" else "190 ns"
    return [
        entry("system.hosts", hosts, "stated", "2"),
        entry("channel.bulk.packet", "2086 B", "stated", "3.2, Table 1 (breq)"),
        entry("channel.bulk.link.rate", "2 Gbit/s", "stated", "2"),
        entry("channel.bulk.link.delay_per_metre", "5 ns/m", "derived",
              "1 / (0.67 × 300 000 km/s), the usual velocity of coaxial cable"),
        entry("channel.bulk.switch.scheduled.gap", gap, "calibrated",
              "Table 2, B4 non-bursty at load 0.7: 34.2 µs",
              "B4 bursty at 0.7 (103.7 µs) and the non-bursty 0.5 cell (16.8 µs)"),
        entry("channel.bulk.switch.scheduled.lead", "1880 ns", "calibrated",
              "Table 2, B4 non-bursty at load 0.1: 7.4 µs", "B4 bursty at 0.1, 0.3 and 0.5"),
        entry("channel.quick.packet", "36 B", "stated", "3.2, Table 1 (qreq)"),
        entry("channel.quick.link.rate", "0.528 Gbit/s", "derived", "66 MHz × 8 bit (3.5)"),
        entry("channel.quick.switch.crossbar.latency", "90 ns", "stated", "3.2"),
        entry("channel.quick.adapter.send_buffers", 4, "", ""),
    ]  # fmt: skip


def run(
    path_or_name: str,
    preset: str | None,
    overrides: list[str],
    options: str,
    progress: Callable[[int, int, str], bool],
    by: object = None,
) -> dict[str, Any]:
    assert by is None, "one process"
    chosen = json.loads(options)
    if path_or_name == "clint-quick":
        return quick(chosen, progress)
    if path_or_name.endswith("broken.toml"):
        raise _unknown_key(path_or_name)
    if path_or_name not in ("clint-table-2-bulk", "table.toml", "spec.toml"):
        raise _unknown(path_or_name)
    return bulk(chosen, progress, preset, overrides)


def chosen(name: str, options: str) -> list[tuple[str, list[str], str]]:
    if name != "clint":
        raise _unknown(name)
    return [(own, [], options) for own in ("clint-table-2-bulk", "clint-quick")]


def reproduce(name: str, options: str, progress: Callable[[int, int, str], bool]) -> dict[str, Any]:
    if name != "clint":
        raise _unknown(name)
    chosen = json.loads(options)
    runs = {"clint-table-2-bulk": bulk(chosen, progress, None, [])}
    if not json.loads(runs["clint-table-2-bulk"]["meta"])["stopped"]:
        runs["clint-quick"] = quick(chosen, progress)
    stopped = any(json.loads(run["meta"])["stopped"] for run in runs.values())
    return {
        "tables": {"checks": checks(runs["clint-table-2-bulk"])},
        "columns": json.dumps([]),
        "meta": json.dumps(
            {
                "title": "Clint: published against measured",
                "system": "clint",
                "preset": None,
                "spec_toml": "",
                "spec_hash": "9f2c1e",
                "version": __version__,
                "seed": 1,
                "stopped": stopped,
            }
        ),
        "runs": runs,
    }


def checks(run: dict[str, Any]) -> dict[str, Any]:
    points = run["tables"]["points"]
    rows: list[dict[str, Any]] = []
    for i, (preset, traffic, load) in enumerate(
        zip(points["preset"], points["traffic"], points["workload.bulk.load"], strict=True)
    ):
        printed = (SINGLE if traffic == "single" else BURSTY).get(round(float(load), 1))
        if printed is None:
            continue
        measured = float(points["queueing_mean_us"][i])
        error = measured / printed - 1
        transient, literal = load > 0.85, preset == "literal"
        # Tight enough for one cell to miss.
        share = 0.02 if (traffic, round(float(load), 1)) == ("bursty", 0.7) else 0.12
        verdict = "within" if abs(error) <= share else "outside"
        rows.append(
            {
                "system": "clint",
                "experiment": "clint-table-2-bulk",
                "quantity": "queueing_mean_us",
                "at": f"bulk, {traffic}, load {load:g}",
                "unit": "us",
                "kind": "number",
                "published": printed,
                "statement": "",
                "measured": measured,
                "half_width": float(points["queueing_half_width_us"][i]),
                "error": error,
                "band": "shown, not judged" if transient else f"within {100 * share:g} %",
                "band_low": math.nan if transient else (1 - share) * printed,
                "band_high": math.nan if transient else (1 + share) * printed,
                "verdict": "report" if transient or literal else verdict,
                "settled": "saturated" if transient else "settled",
                "preset": preset,
                "note": "a transient: a function of the run length" if transient else "",
                "section": "Table 2",
                "counted": 0.0 if literal else 1.0,
                "also": "clint-figure-8" if printed == SINGLE[0.1] else "",
            }
        )
    rows += _of_figure_8(rows[0])
    return _columns(rows)


def _of_figure_8(in_table_2: dict[str, Any]) -> list[dict[str, Any]]:
    """A number that counts elsewhere, a statement that holds, one that is missed, one of ours."""
    nothing = dict.fromkeys(("published", "error", "band_low", "band_high"), math.nan)
    said = {
        **in_table_2, **nothing, "experiment": "clint-figure-8", "quantity": "saturation_load",
        "unit": "", "kind": "statement", "settled": "", "preset": "", "section": "4.2, Figure 8",
        "note": "", "counted": 1.0, "also": "", "half_width": 0.004,
    }  # fmt: skip
    return [
        {**in_table_2, "experiment": "clint-figure-8", "preset": "", "verdict": "report",
         "band": "shown, not judged", "counted": 0.0, "also": "clint-table-2-bulk"},
        {**said, "at": "B1, bulk", "statement": "B1 saturates early", "measured": 0.5,
         "band": "0.46 to 0.57", "band_low": 0.46, "band_high": 0.57, "verdict": "within"},
        {**said, "at": "B3, bulk", "statement": "B3 saturates early", "measured": 0.91,
         "band": "missed", "verdict": "missed",
         "note": "An ideal output-buffered switch does not saturate early; with at most two "
         "writers at a time it does, at 0.80."},
        {**said, "at": "B3, 4 writers", "kind": "unprinted", "statement": "", "measured": 0.88,
         "band": "shown, not judged", "verdict": "report"},
    ]  # fmt: skip


def bulk(
    options: dict[str, Any],
    progress: Callable[[int, int, str], bool],
    preset: str | None,
    overrides: list[str],
) -> dict[str, Any]:
    presets = [preset] if preset else ["literal", "fitted"]
    loads = LOADS
    for override in overrides:
        if override.startswith("workload.bulk.load="):
            value = json.loads(override.split("=", 1)[1])
            loads = value if isinstance(value, list) else [value]
    points: list[dict[str, Any]] = []
    histograms: list[dict[str, Any]] = []
    budget: list[dict[str, Any]] = []
    replications: list[dict[str, Any]] = []
    settings = list(product(presets, ["single", "bursty"], loads))
    stopped = False
    for i, (name, traffic, load) in enumerate(settings):
        label = f"{name} {traffic} load {load:g}"
        wanted = progress(i, len(settings), label)
        while wanted and i == LASTS:
            time.sleep(0.01)
            wanted = progress(i, len(settings), label)
        if not wanted:
            stopped = True
            break
        mean = _latency(name, traffic, load)
        half = mean * (0.15 if load > 0.85 else 0.02 + 0.03 * load)
        points.append(
            {
                "point": float(i), "preset": name, "traffic": traffic, "workload.bulk.load": load,
                "channel": "bulk", "series": f"{name}, {traffic}", "offered_load": load * 0.999,
                "accepted_load": min(load, 0.87), "queueing_mean_us": mean,
                "queueing_half_width_us": half, "queueing_p50_us": 0.7 * mean,
                "queueing_p99_us": 4.6 * mean, "queueing_p999_us": 6.9 * mean,
                "backlog_packets": 1200.0 if load > 0.85 else 3.0,
                "verdict": "saturated" if load > 0.85 else "settled",
                "replications": float(options.get("seeds") or 20),
            }
        )  # fmt: skip
        for seed in range(options.get("seeds") or 2):
            replications.append({"point": float(i), "channel": "bulk", "seed": float(seed + 1),
                                 "queueing_mean_us": mean * (1 + 0.01 * (-1) ** seed)})  # fmt: skip
        histograms += _histogram(i, "bulk", mean)
        budget += _budget(i, "bulk", mean, load)
    figures: list[dict[str, Any]] = [
        {"name": "table-2", "title": "Bulk latency against load",
         "caption": "Both readings of the text, with the printed cells of Table 2. The row at load "
         "0.9 is a transient: its mean grows with the length of the run.",
         "kind": "latency_against_load", "channel": "bulk", "x": None, "y": None,
         "series": "traffic", "panels": "preset"},
        {"name": "distribution", "title": "Distribution of bulk latency", "caption": "",
         "kind": "histogram", "channel": "bulk", "series": "traffic"},
        {"name": "budget", "title": "Where the time went", "caption": "", "kind": "latency_budget",
         "channel": "bulk"},
    ]  # fmt: skip
    published: list[dict[str, Any]] = [
        {"quantity": "queueing_mean_us", "channel": "bulk", "section": "Table 2", "note": "",
         "at": {"workload.bulk.load": load, "traffic": traffic}, "value": value,
         "band": {"relative": 0.12}}
        for traffic, cells in (("single", SINGLE), ("bursty", BURSTY))
        for load, value in cells.items()
    ]  # fmt: skip
    tables: dict[str, list[dict[str, Any]]] = {"points": points, "replications": replications,
              "histograms": histograms,              "budget": budget}  # fmt: skip
    return _result("Clint, Table 2: latency of the scheduled bulk channel", tables, figures,
                   published, stopped, preset)  # fmt: skip


def quick(options: dict[str, Any], progress: Callable[[int, int, str], bool]) -> dict[str, Any]:
    points, collisions = [], []
    loads = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5]
    settings = list(product(["Q1", "Q2"], loads))
    stopped = False
    for i, (name, load) in enumerate(settings):
        if not progress(i, len(settings), f"{name} load {load:g}"):
            stopped = True
            break
        most = 0.35 if name == "Q1" else 0.44
        mean = 0.12 * load / max(most - load, 0.004) + 0.05
        points.append(
            {"point": float(i), "architecture": name, "workload.quick.load": load,
             "channel": "quick", "series": name, "offered_load": load,
             "accepted_load": min(load, most), "queueing_mean_us": mean,
             "queueing_half_width_us": 0.05 * mean, "backlog_packets": 0.0,
             "verdict": "settled" if load < most else "saturated", "replications": 20.0}
        )  # fmt: skip
        for kind, rate in (("request", load), ("acknowledgment", load * (1.1 - load))):
            seen = rate if name == "Q1" or kind == "request" else 0.0
            collisions.append({"point": float(i), "channel": "quick", "collided_with": kind,
                               "collisions_per_attempt": seen,
                               "collisions_per_attempt_half_width": 0.02 * rate})  # fmt: skip
    figures = [
        {"name": "figure-9", "title": "Quick latency against load", "caption": "Q1 drops, Q2 "
         "interleaves.", "kind": "latency_against_load", "channel": "quick", "series":
         "architecture"},
        {"name": "throughput", "title": "Quick throughput against load", "caption": "",
         "kind": "throughput_against_load", "channel": "quick", "series": "architecture"},
        {"name": "figure-10", "title": "Collisions on the quick channel", "caption": "",
         "kind": "collision_rates", "channel": "quick", "series": "architecture"},
    ]  # fmt: skip
    tables = {"points": points, "collisions": collisions}
    title = "Clint, Figures 9 and 10: the quick channel"
    return _result(title, tables, figures, [], stopped, None)


def _latency(preset: str, traffic: str, load: float) -> float:
    table = SINGLE if traffic == "single" else BURSTY
    value = math.exp(np.interp(load, list(table), np.log(list(table.values()))))
    if preset == "fitted":
        return value * (1.02 - 0.06 * load)
    return value * (1.02 - (0.45 if traffic == "single" else 0.25) * load)


def _histogram(point: int, channel: str, mean: float) -> list[dict[str, Any]]:
    edges = np.geomspace(mean / 50, mean * 9, 60)
    share = np.exp(-edges / mean)
    counts = np.round(200_000 * -np.diff(np.concatenate([[1.0], share])))
    lower = np.concatenate([[0.0], edges[:-1]])
    return [
        {"point": float(point), "channel": channel, "latency": "queueing", "lower_us": low,
         "upper_us": high, "count": count}
        for low, high, count in zip(lower, edges, counts, strict=True)
        if count > 0
    ]  # fmt: skip


def _budget(point: int, channel: str, mean: float, load: float) -> list[dict[str, Any]]:
    stages = {"buffer_wait": mean * load * 0.6, "slot_wait": mean * (1 - load * 0.6),
              "transmission": 8.344, "wire": 0.05, "switch": 0.0015}  # fmt: skip
    return [
        {"point": float(point), "channel": channel, "stage": stage, "mean_us": value}
        for stage, value in stages.items()
    ]


def _result(
    title: str,
    tables: dict[str, list[dict[str, Any]]],
    figures: list[dict[str, Any]],
    published: list[dict[str, Any]],
    stopped: bool,
    preset: str | None,
) -> dict[str, Any]:
    described = [
        {"table": "points", "name": "queueing_mean_us", "unit": "µs",
         "description": "Mean time from generation to the start of the successful transmission."},
        {"table": "points", "name": "offered_load", "unit": "",
         "description": "Generated packets as a fraction of the link bandwidth."},
    ]  # fmt: skip
    meta = {
        "title": title, "system": "clint", "preset": preset, "spec_toml": SPEC,
        "spec_hash": "9f2c1e0b77a4", "version": __version__, "seed": 1, "stopped": stopped,
        "section": "4.2", "published": published, "figures": figures,
    }  # fmt: skip
    return {
        "tables": {name: _columns(rows) for name, rows in tables.items()},
        "columns": json.dumps(described),
        "meta": json.dumps(meta),
    }


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {}
    return {
        name: [row[name] for row in rows]
        if isinstance(rows[0][name], str)
        else np.array([row[name] for row in rows], dtype=np.float64)
        for name in rows[0]
    }


class Campaign:
    """A study of which nothing is left to do."""

    def __init__(self, *_: object) -> None: ...

    def pending(self) -> tuple[int, int, int]:
        return (0, 0, 0)


def _unknown(name: str) -> WeftError:
    error = WeftError(
        f"unknown system or experiment `{name}`\n  accepted: clint\n  did you mean `clint`?"
    )
    error.message, error.value, error.accepted = f"unknown system `{name}`", name, "clint"
    return error


def _unknown_key(path: str) -> WeftError:
    error = WeftError(
        f"{path}:3:1: unknown key `hots` in [system]\n    hots = 16\n    ^^^^\n"
        "  accepted: title, document, hosts\n  did you mean `hosts`?"
    )
    error.file, error.line, error.column = path, 3, 1
    error.key, error.value, error.accepted = "system.hots", "16", "title, document, hosts"
    error.message = "unknown key `hots` in [system]"
    return error

"""Tables for a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from weft.checks import COMPUTED, PRINTED, STATEMENT, counted_in_words, readings
from weft.standing import (
    FAILED,
    PARTLY_STUCK,
    SETTLED,
    STUCK,
    UNREACHABLE,
    main_latency,
    notes,
    why_failed,
    why_stuck,
)
from weft.tables import columns_of, distinct, records
from weft.words import column_head, number, percent, printed, short_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.checks import Check
    from weft.result import Result
    from weft.system import Parameter, System

_COLOURS = {"within": "green", "outside": "bold red", "missed": "red", "report": "dim",
            "undecided": "yellow", SETTLED: "green", "saturated": "yellow", "too short": "yellow",
            STUCK: "bold red", PARTLY_STUCK: "bold red", UNREACHABLE: "bold red",
            FAILED: "bold red", "stated": "blue", "derived": "yellow",
            "calibrated": "magenta"}  # fmt: skip

_MEASURED = (
    "offered_load",
    "accepted_load",
    "{latency}_mean_us",
    "{latency}_p99_us",
    "backlog_packets",
    "settles_up_to_load",
    "saturated_from_load",
)
_OF_PROGRAM = ["program_time_us", "program_waiting_share", "background_offered_load"]

# A file or a pipe has no width of its own; nothing may be cut there.
_WIDE = 240


def print_systems(systems: Sequence[Mapping[str, Any]], tried: Sequence[Mapping[str, Any]]) -> None:
    """Print the shipped systems, and under them the shipped experiments."""
    table = _table("name", "title", "channels", "presets")
    for entry in systems:
        table.add_row(entry["name"], entry["title"], ", ".join(entry.get("channels") or []),
                      ", ".join(entry.get("presets") or []))  # fmt: skip
    experiments = _table("experiment", "system", "section", "title")
    for entry in tried:
        experiments.add_row(entry["name"], entry["system"], entry.get("section") or "",
                            entry.get("title") or "")  # fmt: skip
    console = _console()
    console.print(table)
    console.print(experiments)


def print_parameters(system: System) -> None:
    """Print every parameter of a system with its origin, one block a channel or part."""
    console = _console()
    console.print(f"[bold]{_plain(system.title)}[/]")
    if system.document:
        console.print(_plain(system.document), style="dim")
    shown = [one for one in system.parameters if one.key not in {"system.title", "system.document"}]
    groups: dict[str, list[Parameter]] = {}
    for parameter in shown:
        groups.setdefault(parameter.group, []).append(parameter)
    wide = max((len(system.short_key(one)) for one in shown), default=0)
    values = max((len(one.text) for one in shown), default=0)
    for name, parameters in groups.items():
        table = _table(name, "value", "origin", "")
        table.columns[0].min_width, table.columns[1].min_width = wide, values
        table.columns[2].min_width = len("calibrated")
        for parameter in parameters:
            text = parameter.source
            if parameter.predicts:
                text += f"; predicts {parameter.predicts}"
            table.add_row(_plain(system.short_key(parameter)), _plain(parameter.text),
                          _coloured(parameter.origin), _plain(text))  # fmt: skip
        console.print(table)


def print_points(result: Result) -> None:
    """Print the points of a run: what was swept, and what came out."""
    points = columns_of(result.tables, "points")
    axes = {*result.meta.get("axes", ()), "channel"}
    swept = [name for name in points if name in axes and distinct(points[name]) > 1]
    swept.sort(key=lambda name: "." in name)  # names first, then the numbers that were set
    latency = main_latency(points)
    measured = [name.format(latency=latency) for name in _MEASURED]
    measured = [name for name in measured if name in points]
    if "program_time_us" in points:
        # Packets of a program have no load that anybody set: how long it took is what was asked.
        measured = [*_OF_PROGRAM, *(name for name in measured if not name.endswith("_load"))]
        measured = [name for name in measured if name in points and distinct(points[name])]
    if "replications" in points and distinct(points["replications"]) > 1:
        measured.append("replications")
    heads = [*short_keys(swept).values(), *(column_head(name) for name in measured)]
    table = _table(*heads, *(["verdict"] if "verdict" in points else []))
    for column in table.columns[len(swept) : len(heads)]:
        column.justify = "right"
    for row in records(points):
        cells = [_setting(row[name]) for name in swept]
        for name in measured:
            if name == "replications":
                cells.append(printed(row[name]))
                continue
            half = row.get(_half_width(name)) or 0
            spread = f" ± {number(half, 2)}" if half > 0 else ""
            cells.append(f"{number(row[name], 4)}{spread}")
        if "verdict" in points:
            cells.append(_coloured(str(row["verdict"])))
        table.add_row(*cells)
    for column in table.columns:
        # The words above a column may break, the numbers in it may not.
        column.min_width = max((len(str(cell)) for cell in column.cells), default=0)
    console = _console()
    # The notes say how to read the table, so they come first.
    for note in notes(result):
        console.print(f"Note: {_plain(note)}", style="dim")
    console.print(f"[bold]{_plain(result.title)}[/]")
    console.print(table)
    for sentence in [*why_failed(result), *why_stuck(result)]:
        console.print(_plain(sentence), style=_COLOURS[STUCK])


def print_comparison(result: Result) -> None:
    """Print the table of a comparison: a block for each of the rates, the best values marked."""
    from weft.across.summary import (  # noqa: PLC0415
        best_of,
        half_width_of,
        shown,
        shown_spread,
        spread_explained,
    )
    from weft.plots.across import RATES_SHOWN, workloads_of  # noqa: PLC0415

    console = _console()
    workloads = workloads_of(result)
    rows = result.tables["comparison"]
    best = best_of(rows, workloads)
    columns = [column for workload in workloads for column in workload.columns]
    for rates, own in rows.groupby("rates", sort=False):
        heads = [f"{column.title} ({column.unit})" for column in columns]
        table = _table(RATES_SHOWN.get(str(rates), str(rates)), *heads)
        for column in table.columns[1:]:
            column.justify = "right"
        for _, row in own.iterrows():
            cells = [_plain(str(row["system"]))]
            for measured in columns:
                text = shown(row[measured.name])
                if best.get((str(rates), measured.name)) == text:
                    text = f"[bold green]{text}[/]"
                text += f" {shown_spread(row.get(half_width_of(measured.name)))}".rstrip()
                if measured.workload == "barrier" and row.get("barrier_by") == "hardware":
                    text += " [dim]hw[/]"
                cells.append(text)
            table.add_row(*cells)
        console.print(table)
    console.print(spread_explained(rows, result.meta["seeds"]), style="dim")
    for note in result.meta["across"]["notes"]:
        console.print(f"{_plain(str(note['system']))} {_plain(str(note['text']))}", style="dim")


def print_checks(title: str, checks: Sequence[Check]) -> None:
    """Print published against measured, and how many numbers and statements came out."""
    console = _console()
    console.print(f"[bold]{_plain(title)}[/]")
    for experiment in dict.fromkeys(check.experiment for check in checks):
        own = [check for check in checks if check.experiment == experiment]
        preset, _ = readings(own)
        head = f"{experiment} ({preset})" if preset else experiment
        numbers = [check for check in own if check.kind in PRINTED]
        others = [check for check in own if check.kind not in PRINTED]
        if numbers:
            console.print(_checks_table(head, numbers))
        if others:
            console.print(_statements_table(head, others))
    console.print(counted_in_words(list(checks)))


def _checks_table(head: str, checks: list[Check]) -> Table:
    table = _table(head, "published", "measured", "error", "band", "verdict")
    for column in table.columns[1:4]:
        column.justify = "right"
    heading = ""
    for check, place in zip(checks, readings(checks)[1], strict=True):
        named = f"{check.name} ({check.shown_unit})" if check.shown_unit else check.name
        if place and named != heading:
            table.add_row(f"[dim]{_plain(named)}[/]")
            heading = named
        table.add_row(
            _plain("  " + place if place else named),
            printed(check.published),
            _measured(check),
            percent(check.error),
            _band(check),
            _verdict(check),
        )
    return table


def _statements_table(head: str, checks: list[Check]) -> Table:
    table = _table(f"{head}: statements", "measured", "holds if", "verdict")
    table.columns[1].justify = "right"
    heading = ""
    for check in checks:
        said = check.statement if check.kind in (STATEMENT, COMPUTED) else "not in the document"
        if check.kind == COMPUTED:
            said += " (computed by us)"
        if said != heading:
            table.add_row(f"[dim]{_plain(said)}[/]")
            heading = said
        named = f"  {check.label} ({check.shown_unit})" if check.shown_unit else f"  {check.label}"
        table.add_row(
            _plain(named),
            _measured(check),
            _band(check),
            _verdict(check),
        )
    return table


def _band(check: Check) -> str:
    if check.is_claimed:
        return check.band
    return "known miss" if check.verdict == "missed" else "not judged"


def _measured(check: Check) -> str:
    half = f" ± {number(check.half_width, 2)}" if check.half_width else ""
    return f"{number(check.measured, 4)}{half}"


def _verdict(check: Check) -> str:
    """Show the verdict, in brackets where the row does not count."""
    shown = _coloured(check.verdict, check.shown_verdict)
    return shown if check.counted else f"({shown})"


def _half_width(name: str) -> str:
    """Name the column with the half width of a mean that is shown with it."""
    if "_mean_" in name:
        return name.replace("_mean_", "_half_width_")
    return f"{name}_half_width" if name.startswith(("settles_", "saturated_")) else ""


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    for head in heads:
        table.add_column(_plain(head), overflow="fold")
    return table


def _setting(value: object) -> str:
    return _plain(value) if isinstance(value, str) else printed(value)


def _coloured(word: str, shown: str = "") -> str:
    colour = _COLOURS.get(word)
    return f"[{colour}]{shown or word}[/]" if colour else _plain(shown or word)


def _plain(text: str) -> str:
    """Keep rich from reading brackets in a file's words as its own marks."""
    return text.replace("[", "\\[")


def _console() -> Console:
    console = Console(highlight=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(highlight=False, width=_WIDE)

"""The sections of a page of several systems: the table, the figures, what was set and left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.across.summary import (
    BARRIER_BY,
    IN_HARDWARE,
    best_of,
    half_width_of,
    shown,
    shown_spread,
    spread_explained,
)
from weft.plots.across import RATES_SHOWN, budget_of, grouped, workloads_of
from weft.report.markup import Section, section
from weft.report.summary import provenance
from weft.words import number, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from markupsafe import Markup

    from weft.across.workloads import Column, Workload
    from weft.figure import Figure
    from weft.result import Result

    Place = Callable[[list[Figure]], Markup]


@dataclass(frozen=True)
class _Value:
    """What a system measured in a column of the table."""

    text: str
    spread: str
    is_best: bool
    in_hardware: bool


def across_sections(result: Result, place: Place) -> list[Section]:
    """Return the whole page of a comparison, in order."""
    workloads = workloads_of(result)
    figures = {figure.name: figure for figure in result.figures}
    times = [figure for name, figure in figures.items() if name.startswith("where-the-time")]
    sections = [_table_section(result, workloads), _time_section(result, workloads, place, times)]
    for workload in workloads:
        own = [figures[curve.name] for curve in workload.curves if curve.name in figures]
        if own:
            anchor = workload.name.replace("_", "-")
            words = {"title": workload.title, "note": workload.note}
            drawn = place(own)
            name = workload.title
            sections.append(section(anchor, name, "across-workload.html", figures=drawn, **words))
    sections += [_notes_section(result), _settings_section(result), _specs_section(result)]
    sections.append(_again(result))
    return [one for one in sections if one is not None]


def _table_section(result: Result, workloads: Sequence[Workload]) -> Section:
    """Write the table: a group of rows for each of the rates, a row a system."""
    rows = result.tables["comparison"]
    best = best_of(rows, workloads)
    columns = [column for workload in workloads for column in workload.columns]
    groups = [
        (
            _rates(rates),
            [
                (str(row["system"]), [_value(row, column, best) for column in columns])
                for _, row in own.iterrows()
            ],
        )
        for rates, own in rows.groupby("rates", sort=False)
    ]
    return section(
        "summary",
        "Table",
        "across-table.html",
        title=result.title,
        stopped=result.stopped,
        names=", ".join(str(system["title"]) for system in result.meta["across"]["systems"]),
        rates=result.meta["across"]["rates"],
        heads=[f"{column.title} ({column.unit})" for column in columns],
        groups=groups,
        spread=spread_explained(rows, result.meta["seeds"]),
        provided=provenance(result),
    )


def _rates(name: object) -> str:
    return RATES_SHOWN.get(str(name), str(name))


def _value(row: pd.Series[Any], column: Column, best: dict[tuple[str, str], str]) -> _Value:
    text = shown(row[column.name])
    return _Value(
        text=text,
        spread=shown_spread(row.get(half_width_of(column.name))) or "",
        is_best=best.get((str(row["rates"]), column.name)) == text,
        in_hardware=column.workload == "barrier" and row.get(BARRIER_BY) == IN_HARDWARE,
    )


def _time_section(
    result: Result, workloads: Sequence[Workload], place: Place, figures: list[Figure]
) -> Section | None:
    if not figures:
        return None
    workload = next(workload for workload in workloads if workload.budget_at is not None)
    rows = grouped(budget_of(result, workload))
    cells = [
        [
            str(row["system"]),
            _rates(row["rates"]),
            plain(str(row["stage"])),
            str(row["part"]),
            number(row["mean_us"]),
        ]
        for _, row in rows[rows["mean_us"] > 0].iterrows()
    ]
    return section(
        "time",
        "Where the time goes",
        "across-time.html",
        size=workload.budget_at,
        figures=place(figures),
        rows=cells,
    )


def _notes_section(result: Result) -> Section | None:
    systems: dict[str, list[str]] = {}
    for note in result.meta["across"]["notes"]:
        systems.setdefault(str(note["system"]), []).append(str(note["text"]))
    return section("notes", "Notes", "across-notes.html", systems=systems) if systems else None


def _settings_section(result: Result) -> Section | None:
    rows = result.tables.get("settings")
    if rows is None or rows.empty:
        return None
    presets = {"compare": "to be compared", "today": "at rates of today"}
    groups = [
        (
            f"{system}, {presets.get(str(preset), str(preset))}: {len(own)} parameters",
            own.to_dict("records"),
        )
        for (system, preset), own in rows.groupby(["system", "preset"], sort=False)
    ]
    return section("settings", "What was set", "across-settings.html", groups=groups)


def _specs_section(result: Result) -> Section:
    text = str(result.meta["spec_toml"])
    return section("specification", "Workloads", "across-specification.html", text=text)


def _again(result: Result) -> Section:
    across = result.meta["across"]
    rates = across["rates"]
    command = f"weft compare {result.meta['system']}"
    command += f" --rates {rates[0]}" if len(rates) == 1 else ""
    command += " --quick" if across["quick"] else ""
    if one := next(iter(result.meta["specs"]), ""):
        command += f"\nweft run specs/{one}.toml"
    return section(
        "again",
        "Run it again",
        "again.html",
        lead="The same files, seed and version give the same bytes, on any machine and with any "
        "number of threads.",
        command=command,
        code="",
        provided=provenance(result),
    )

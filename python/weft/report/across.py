"""The sections of a page of several systems: the table, the figures, what was set and left out."""

from __future__ import annotations

from html import escape
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
from weft.report.markup import Section, marked, numbers, section, table
from weft.report.summary import provenance
from weft.words import number, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from weft.across.workloads import Column, Workload
    from weft.figure import Figure
    from weft.result import Result

    Place = Callable[[list[Figure]], str]


def across_sections(result: Result, place: Place) -> list[Section]:
    """Return the whole page of a comparison, in order."""
    workloads = workloads_of(result)
    figures = {figure.name: figure for figure in result.figures}
    times = [figure for name, figure in figures.items() if name.startswith("where-the-time")]
    sections = [_table_section(result, workloads), _time_section(result, workloads, place(times))]
    for workload in workloads:
        own = [figures[curve.name] for curve in workload.curves if curve.name in figures]
        if own:
            note = f"<p>{escape(workload.note)}</p>" if workload.note else ""
            body = f"<h2>{escape(workload.title)}</h2>{note}{place(own)}"
            anchor = workload.name.replace("_", "-")
            sections.append(Section(anchor, workload.title, section(anchor, body)))
    sections += [_notes_section(result), _settings_section(result), _specs_section(result)]
    sections.append(_again(result))
    return [one for one in sections if one is not None]


def _table_section(result: Result, workloads: Sequence[Workload]) -> Section:
    names = ", ".join(str(system["title"]) for system in result.meta["across"]["systems"])
    stopped = (
        '<p class="banner">This comparison was stopped before its last run. What stands here was '
        "finished; the rest is missing, not zero.</p>"
        if result.stopped
        else ""
    )
    spread = spread_explained(result.tables["comparison"], result.meta["seeds"])
    body = (
        f"<h1>{escape(result.title)}</h1>{stopped}"
        f'<p class="lead">The same programs on {escape(names)}.</p>{_rates_explained(result)}'
        f'<div class="across">{_comparison(result, workloads)}</div>'
        '<p class="source">The best value of a column is marked ●. Sizes and rates are those of '
        "payload. – is not to be had; the notes say why. What the columns measure stands with the "
        f"figures. {escape(spread)}</p>"
        f'<p class="provenance">{provenance(result)}</p>'
    )
    return Section("summary", "Table", section("summary", body))


def _rates_explained(result: Result) -> str:
    rates = result.meta["across"]["rates"]
    texts = []
    if "published" in rates:
        texts.append("<b>As published</b>: each system as its document describes it.")
    if "today" in rates:
        texts.append(
            "<b>Rates of today</b>: links of 100 Gbit/s and hosts of today, the same for all. "
            "Everything else is what it was: lengths of cables, switches and their delays, "
            "packets, protocols. Time-outs and buffers that follow from a rate follow from the new "
            "one. So it is the designs that differ, and not their decade; but a delay that was "
            "small beside a packet of then is long beside one of today."
        )
    return "".join(f"<p>{text}</p>" for text in texts)


def _comparison(result: Result, workloads: Sequence[Workload]) -> str:
    """Write the table: a group of rows for each of the rates, a row a system."""
    rows = result.tables["comparison"]
    best = best_of(rows, workloads)
    columns = [column for workload in workloads for column in workload.columns]
    heads = [f"{escape(column.title)} ({escape(column.unit)})" for column in columns]
    titles = "".join(f"<th class=n>{text}</th>" for text in heads)
    groups = ""
    for rates, own in rows.groupby("rates", sort=False):
        words = escape(RATES_SHOWN.get(str(rates), str(rates)))
        groups += f'<tbody><tr class="rates"><th colspan="{len(heads) + 1}">{words}</th></tr>'
        for _, row in own.iterrows():
            values = [_value(row, column, best) for column in columns]
            cells = "".join(
                f'<td class=n data-head="{head}"><div>{value}</div></td>'
                for head, value in zip(heads, values, strict=True)
            )
            groups += f"<tr><td><div>{escape(str(row['system']))}</div></td>{cells}</tr>"
        groups += "</tbody>"
    head = f"<thead><tr><th>System</th>{titles}</tr></thead>"
    return f'<div class="scroll"><table>{head}{groups}</table></div>'


def _value(row: pd.Series[Any], column: Column, best: dict[tuple[str, str], str]) -> str:
    text = shown(row[column.name])
    if best.get((str(row["rates"]), column.name)) == text:
        text = f'<b class="best">{text}\u202f●</b>'
    if spread := shown_spread(row.get(half_width_of(column.name))):
        text += f'<small class="note">{spread}</small>'
    if column.workload == "barrier" and row.get(BARRIER_BY) == IN_HARDWARE:
        text += '<small class="note">in hardware</small>'
    return text


def _time_section(result: Result, workloads: Sequence[Workload], figures: str) -> Section | None:
    if not figures:
        return None
    workload = next(workload for workload in workloads if workload.budget_at is not None)
    rows = grouped(budget_of(result, workload))
    rows = rows[rows["mean_us"] > 0]
    cells = [
        [
            escape(str(row["system"])),
            escape(RATES_SHOWN.get(str(row["rates"]), str(row["rates"]))),
            escape(plain(str(row["stage"]))),
            escape(str(row["part"])),
            number(row["mean_us"]),
        ]
        for _, row in rows.iterrows()
    ]
    heads = ["System", "Rates", "Stage", "Part of the way", "Mean (µs)"]
    stages = numbers(table(heads, cells, [4]), len(heads))
    body = (
        "<h2>Where the time goes</h2>"
        f"<p>A ping-pong of {escape(str(workload.budget_at))}, part by part. Where a document "
        'has no hosts, the <a href="#notes">notes</a> say what stands in for them.</p>'
        f"{figures}<details><summary>Every stage</summary>{stages}</details>"
    )
    return Section("time", "Where the time goes", section("time", body))


def _notes_section(result: Result) -> Section | None:
    notes = result.meta["across"]["notes"]
    if not notes:
        return None
    systems = dict.fromkeys(str(note["system"]) for note in notes)
    blocks = ""
    for system in systems:
        items = "".join(
            f"<li>{marked(str(note['text']))}.</li>" for note in notes if note["system"] == system
        )
        blocks += f"<h3>{escape(system)}</h3><ul>{items}</ul>"
    body = f"<h2>What a system cannot do, and what stands in for it</h2>{blocks}"
    return Section("notes", "Notes", section("notes", body))


def _settings_section(result: Result) -> Section | None:
    rows = result.tables.get("settings")
    if rows is None or rows.empty:
        return None
    heads = {"compare": "to be compared", "today": "at rates of today"}
    blocks = ""
    for (system, preset), own in rows.groupby(["system", "preset"], sort=False):
        title = f"{system}, {heads.get(str(preset), str(preset))}: {len(own)} parameters"
        cells = [_setting(row) for _, row in own.iterrows()]
        listed = table(["Parameter", "Before", "Here", "Why"], cells)
        blocks += f"<details><summary>{escape(title)}</summary>{listed}</details>"
    body = (
        "<h2>What was set otherwise</h2><p>Than in the systems' own files, and why. Everything "
        f"else is in <code>weft systems show</code>.</p><div class='settings'>{blocks}</div>"
    )
    return Section("settings", "What was set", section("settings", body))


def _setting(row: pd.Series[str]) -> list[str]:
    origin = str(row["origin"] or "")
    badge = f'<span class="badge {escape(origin)}">{escape(origin)}</span> ' if origin else ""
    return [
        f"<code>{escape(str(row['parameter']))}</code>",
        escape(str(row["before"] or "–")),
        escape(str(row["value"])),
        badge + escape(str(row["why"] or "")),
    ]


def _specs_section(result: Result) -> Section:
    text = escape(str(result.meta["spec_toml"]))
    body = (
        "<h2>What was run</h2><p>The workloads, as their file has them. Each run by itself, "
        "resolved, is a file in <code>specs/</code> of the results folder.</p>"
        f"<details><summary>workloads</summary><pre><code>{text}</code></pre></details>"
    )
    return Section("specification", "Workloads", section("specification", body))


def _again(result: Result) -> Section:
    across = result.meta["across"]
    systems = str(result.meta["system"])
    rates = across["rates"]
    options = f" --rates {rates[0]}" if len(rates) == 1 else ""
    options += " --quick" if across["quick"] else ""
    one = next(iter(result.meta["specs"]), "")
    single = f"\nweft run specs/{one}.toml" if one else ""
    body = (
        "<h2>Run it again</h2><p>The same files, seed and version give the same bytes, on any "
        "machine and with any number of threads.</p>"
        f"<pre><code>weft compare {escape(systems + options + single)}</code></pre>"
        f'<p class="provenance">{provenance(result)}</p>'
    )
    return Section("again", "Run it again", section("again", body))

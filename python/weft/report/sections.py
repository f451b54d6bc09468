"""The sections of the page, in the order in which a reader asks: is it right, what is it, how."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from weft.checks import Check, checks_of, counts
from weft.composition import caption
from weft.plots.request import SETTLED
from weft.system import Parameter, System
from weft.words import number, percent, plain, printed, prose, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd

    from weft.figure import Figure
    from weft.result import Result

    Place = Callable[[list[Figure]], str]

_VERDICT_WORDS = {
    "within": "within the band",
    "outside": "outside the band",
    "report": "reported, no band claimed",
}


@dataclass(frozen=True)
class Section:
    """One part of the page, with its entry in the navigation."""

    anchor: str
    name: str
    html: str


def summary(result: Result) -> Section:
    """Open with the answer: how many published values come out, which do not, and why."""
    checks = checks_of(result)
    body = [f"<h1>{escape(result.title)}</h1>"]
    if result.stopped:
        body.append(
            '<p class="banner">This run was stopped before its last point. What stands here was '
            "finished; the rest is missing, not zero.</p>"
        )
    if note := result.meta.get("note"):
        body.append(f'<p class="lead">{escape(str(note))}</p>')
    body.append(_verdicts(checks) if checks else _settled(result))
    body.append(f'<p class="provenance">{_provenance(result)}</p>')
    return Section("summary", "Summary", _section("summary", "".join(body)))


def checks_section(result: Result, place: Place) -> Section | None:
    """Show every published value beside the measured one."""
    checks = checks_of(result)
    if not checks:
        return None
    drawn = [figure for figure in result.figures if figure.name == "published-against-measured"]
    groups: dict[str, list[Check]] = {}
    for check in checks:
        groups.setdefault(check.experiment, []).append(check)
    tables = "".join(_checks_table(_title_of(result, name), rows) for name, rows in groups.items())
    body = f"<h2>Published against measured</h2>{place(drawn)}{tables}"
    return Section("checks", "Published / measured", _section("checks", body))


def experiment_section(name: str, run: Result, place: Place) -> Section | None:
    """Show one experiment: its figures, and its points in a table that folds away."""
    drawn = [figure for figure in run.figures if figure.name != "published-against-measured"]
    if not drawn and run.points.empty:
        return None
    body = [f"<h2>{escape(run.title)}</h2>"]
    if section := run.meta.get("section"):
        body.append(f'<p class="source">Section {escape(str(section))} of the document.</p>')
    if note := run.meta.get("note"):
        body.append(f"<p>{escape(str(note))}</p>")
    body.append(place(drawn))
    if not run.points.empty:
        body.append(
            f"<details><summary>{len(run.points)} points</summary>{_points_table(run)}</details>"
        )
    return Section(name, _short(run.title), _section(name, "".join(body)))


def composition_section(result: Result) -> Section | None:
    """Draw the system."""
    system = _system_of(result)
    if isinstance(system, str):
        body = f"<h2>Composition</h2><p>It cannot be drawn: {escape(system)}</p>"
        return Section("composition", "Composition", _section("composition", body))
    if not system.composition:
        return None
    source = f'<p class="source">{escape(system.document)}</p>' if system.document else ""
    body = (
        f'<h2>Composition</h2>{source}<figure><div class="picture">{system.picture()}</div>'
        f"<figcaption>{escape(caption(system.composition))}</figcaption></figure>"
    )
    return Section("composition", "Composition", _section("composition", body))


def parameters_section(result: Result) -> Section | None:
    """List every parameter with its origin, and what the calibrated ones predict."""
    system = _system_of(result)
    if isinstance(system, str) or not system.parameters:
        return None
    origins = Counter(parameter.origin or "chosen here" for parameter in system.parameters)
    tally = ", ".join(f"{count} {origin}" for origin, count in origins.items())
    groups: dict[str, list[Parameter]] = {}
    for parameter in system.parameters:
        groups.setdefault(".".join(parameter.key.split(".")[:-1][:2]), []).append(parameter)
    tables = "".join(_parameters_table(name, rows) for name, rows in groups.items())
    body = (
        f"<h2>Parameters</h2><p>{escape(tally)}. <em>Stated</em>: the document says it. "
        "<em>Derived</em>: it follows, by the arithmetic given. <em>Calibrated</em>: fitted to one "
        f"published number, and then held against others.</p>{tables}"
    )
    return Section("parameters", "Parameters", _section("parameters", body))


def specification_section(result: Result) -> Section | None:
    """Give the resolved files, which run again as they stand."""
    texts = {
        run.title: str(run.meta["spec_toml"])
        for run in (result, *result.runs.values())
        if run.meta.get("spec_toml")
    }
    if not texts:
        return None
    opened = " open" if len(texts) == 1 else ""
    blocks = "".join(
        f"<details{opened}><summary>{escape(title)}</summary>"
        f"<pre><code>{escape(text)}</code></pre></details>"
        for title, text in texts.items()
    )
    body = f"<h2>Specification</h2><p>With every default written out.</p>{blocks}"
    return Section("specification", "Specification", _section("specification", body))


def again(result: Result) -> Section:
    """Say how to get the same numbers."""
    system = str(result.meta.get("system") or "")
    if result.runs:
        command, code = f"weft reproduce {system}", f'weft.reproduce("{system}")'
    else:
        command, code = "weft run spec.toml", 'weft.run("spec.toml")'
    body = (
        "<h2>Run it again</h2><p>The same specification, seed and version give the same bytes, on "
        "any machine and with any number of threads. <code>spec.toml</code> lies in the results "
        f"folder.</p><pre><code>{escape(command)}</code></pre>"
        f"<pre><code>import weft\n{escape(code)}</code></pre>"
        f'<p class="provenance">{_provenance(result)}</p>'
    )
    return Section("again", "Run it again", _section("again", body))


def _verdicts(checks: list[Check]) -> str:
    found = counts(checks)
    claimed = found["within"] + found["outside"]
    tiles = "".join(
        f'<li class="{verdict}"><b>{count}</b> {_VERDICT_WORDS[verdict]}</li>'
        for verdict, count in found.items()
    )
    lead = (
        f"{found['within']} of {claimed} published values come out within the band that is claimed "
        "for them."
        if claimed
        else "No band is claimed for any of these values."
    )
    missed = [check for check in checks if check.verdict == "outside"]
    listed = ""
    if missed:
        entries = "".join(f"<li>{_miss(check)}</li>" for check in missed)
        listed = f'<h3>What falls outside</h3><ul class="misses">{entries}</ul>'
    return f'<p class="lead">{lead}</p><ul class="tiles">{tiles}</ul>{listed}'


def _miss(check: Check) -> str:
    note = f" {escape(check.note)}" if check.note else ""
    band = f"; claimed {check.band.text}" if check.band else ""
    return (
        f"<b>{escape(_sentence(check.label))}</b>: published {_printed(check)}, measured "
        f"{_value(check.measured, check.unit)}, {percent(check.error)}{band}.{note}"
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _settled(result: Result) -> str:
    points = result.points
    if points.empty:
        return '<p class="lead">No point was finished.</p>'
    if "verdict" not in points:
        return f'<p class="lead">{len(points)} points.</p>'
    words = ", ".join(f"{n} {verdict}" for verdict, n in Counter(points["verdict"]).items())
    more = ""
    if (points["verdict"] != SETTLED).any():
        more = " The mean of a point that did not settle depends on how long it ran."
    return f'<p class="lead">{len(points)} points: {escape(words)}.{more}</p>'


def _provenance(result: Result) -> str:
    meta = result.meta
    parts = [("version", meta.get("version")), ("first seed", meta.get("seed")),
             ("preset", meta.get("preset")), ("specification", meta.get("spec_hash"))]  # fmt: skip
    return " · ".join(
        f"{name} <code>{escape(str(value))}</code>" for name, value in parts if value is not None
    )


def _checks_table(title: str, checks: list[Check]) -> str:
    heads = ["Quantity", "Published", "Measured", "Error", "Band", "Verdict"]
    rows = [
        [
            f"{escape(_sentence(check.label))}{_note(check)}",
            _printed(check),
            _value(check.measured, check.unit, check.half_width),
            percent(check.error),
            escape(check.band.text) if check.band else "–",
            f'<span class="badge {escape(check.verdict)}">{escape(check.verdict)}</span>',
        ]
        for check in checks
    ]
    sections = ", ".join(dict.fromkeys(check.section for check in checks if check.section))
    source = f' <span class="source">{escape(sections)}</span>' if sections else ""
    return f"<h3>{escape(title)}{source}</h3>{_table(heads, rows, numeric={1, 2, 3, 4})}"


def _note(check: Check) -> str:
    return f'<small class="note">{escape(check.note)}</small>' if check.note else ""


def _printed(check: Check) -> str:
    return f"{printed(check.published)} {escape(check.unit)}".strip() if check.published else "–"


def _value(value: float | None, unit: str, half_width: float | None = None) -> str:
    if value is None:
        return "–"
    spread = f"\u202f±\u202f{number(half_width, 2)}" if half_width else ""
    return f"{number(value, 4)}{spread} {escape(unit)}".strip()


def _points_table(run: Result) -> str:
    points = run.points
    shown = [str(name) for name in points if _worth_showing(points, str(name))]
    heads = [escape(_head(name)) for name in shown]
    rows = [[_cell(name, row[name]) for name in shown] for row in points[shown].to_dict("records")]
    numeric = {i for i, name in enumerate(shown) if points[name].dtype.kind in "fi"}
    return _table(heads, rows, numeric)


def _worth_showing(points: pd.DataFrame, name: str) -> bool:
    """Leave out what is the same everywhere, except what every reader looks for."""
    asked = name in {"offered_load", "accepted_load", "queueing_mean_us", "verdict"}
    return name != "point" and (asked or points[name].nunique() > 1)


def _head(name: str) -> str:
    if "." in name:
        return name
    unit = unit_of(name)
    return f"{prose(name)} ({unit})" if unit else prose(name)


def _cell(name: str, value: object) -> str:
    if isinstance(value, str):
        return escape(value)
    return printed(value) if "." in name else number(value, 4)


def _parameters_table(group: str, parameters: list[Parameter]) -> str:
    rows = [
        [
            f"<code>{escape(_tail(parameter.key, group))}</code>"
            f'<small class="note">{escape(parameter.description)}</small>',
            f"<b>{escape(parameter.text)}</b>",
            _origin(parameter),
        ]
        for parameter in parameters
    ]
    return f"<h3>{escape(group)}</h3>{_table(['Parameter', 'Value', 'Origin'], rows)}"


def _origin(parameter: Parameter) -> str:
    if not parameter.origin:
        return '<span class="badge">chosen here</span>'
    predicts = (
        f'<small class="note">predicts: {escape(parameter.predicts)}</small>'
        if parameter.predicts
        else ""
    )
    kind = escape(parameter.origin)
    return f'<span class="badge {kind}">{kind}</span> {escape(parameter.origin_text)}{predicts}'


def _table(heads: list[str], rows: Iterable[list[str]], numeric: Iterable[int] = ()) -> str:
    """Write a table whose rows a narrow screen may stack: each cell carries its column's name."""
    right = set(numeric)
    head = "".join(
        f"<th{' class=n' if i in right else ''}>{text}</th>" for i, text in enumerate(heads)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{heads[i]}"{" class=n" if i in right else ""}><div>{cell}</div></td>'
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _section(anchor: str, body: str) -> str:
    return f'<section id="{escape(anchor)}">{body}</section>'


def _system_of(result: Result) -> System | str:
    """Take the first system that could be described: all runs of a reproduction share one."""
    candidates = [result.system, *(run.system for run in result.runs.values())]
    return next((found for found in candidates if isinstance(found, System)), result.system)


def _title_of(result: Result, name: str) -> str:
    run = result.runs.get(name)
    return run.title if run else plain(name.replace("-", " "))


def _short(title: str) -> str:
    """Keep the part of a title that tells it from its neighbours: "Table 2"."""
    head = title.split(":", maxsplit=1)[0]
    return head.split(", ", 1)[-1] if ", " in head else head


def _tail(key: str, group: str) -> str:
    return key.removeprefix(group + ".") if group else key

"""The sections of the page below the summary: every value, every experiment, what was run."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any

from weft.checks import CALIBRATED, CLOSED_FORM, PRINTED, STATEMENT, Check, checks_of, readings
from weft.composition import caption, draw
from weft.graph import is_drawn
from weft.report.markup import (
    Section,
    marked,
    measured,
    numbers,
    published,
    section,
    sentence,
    setting_head,
    system_of,
    table,
)
from weft.report.summary import provenance
from weft.standing import main_latency
from weft.system import Parameter, System
from weft.words import (
    column_head,
    half_widths,
    number,
    percent,
    plain,
    printed,
    rate,
    short_keys,
    shown_unit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import pandas as pd

    from weft.figure import Figure
    from weft.result import Result

    Place = Callable[[list[Figure]], str]

# What a parameter table leaves out: it stands in the title, or is not about the system.
_UNSHOWN = ("system.title", "system.document", "experiment.", "figure", "published", "run.",
            "beside")  # fmt: skip


# The two columns of each system, as the head of a table has them and as the core does.
_BESIDE = {"printed": "printed", "here": "here"}


def checks_section(result: Result, place: Place) -> Section | None:
    """Show every published value beside the measured one."""
    checks = checks_of(result)
    if not checks:
        return None
    drawn = [figure for figure in result.figures if figure.name == "published-against-measured"]
    groups: dict[str, list[Check]] = {}
    for check in checks:
        groups.setdefault(check.experiment, []).append(check)
    titles = {name: _title_of(result, name) for name in groups}
    tables = "".join(_checks_of(titles, name, rows) for name, rows in groups.items())
    body = f"<h2>Published against measured</h2>{place(drawn)}{tables}"
    return Section("checks", "Published / measured", section("checks", body))


def beside_sections(result: Result) -> list[Section]:
    """Show the tables of the document that set the systems of a family side by side."""
    rows = result.tables.get("beside")
    if rows is None or rows.empty:
        return []
    titles: dict[str, str] = result.meta.get("titles") or {}
    heads = ["", *(f"{escape(titles[one])}, {kind}" for one in titles for kind in _BESIDE), "Note"]
    shown = ["row", *(f"{kind}_{one}" for one in titles for kind in _BESIDE.values()), "note"]
    sections = []
    for place, (name, own) in enumerate(rows.groupby("table", sort=False)):
        cells = [[marked(str(row[column])) for column in shown] for row in own.to_dict("records")]
        anchor = f"beside-{place}"
        body = (
            f"<h2>{escape(str(name))}: side by side</h2><p>What the document prints for each "
            "system, and what comes out here: a parameter of the composition, or a number of a run."
            "</p>"
            f"{numbers(table(heads, cells), len(heads))}"
        )
        sections.append(Section(anchor, f"{name}, side by side", section(anchor, body)))
    return sections


def experiment_section(name: str, run: Result, place: Place, *, alone: bool) -> Section | None:
    """Show one experiment: its figures, what was run, and its points in a table that folds away."""
    drawn = [figure for figure in run.figures if figure.name != "published-against-measured"]
    arithmetic = _is_arithmetic(run)
    if not drawn and run.points.empty and run.derived.empty:
        return None
    body = [f"<h2>{escape('Results' if alone else run.title)}</h2>"]
    if section_ := run.meta.get("section"):
        body.append(f'<p class="source">Section {escape(str(section_))} of the document.</p>')
    if (asked := run.meta.get("reduced_from")) and not alone:
        made = f"{run.meta['seeds']} of {asked['seeds']} seeds a point"
        of = f"{run.meta['length']} of {asked['length']} simulated in each"
        body.append(f'<p class="size">Reduced size: {escape(made)}, {escape(of)}.</p>')
    if (note := run.meta.get("note")) and not alone:
        body.append(f"<p>{marked(str(note))}</p>")
    if not arithmetic:
        body.append(place(drawn))
    if not alone and not arithmetic:
        body.append(_variants(run))
    if not run.points.empty and not arithmetic:
        count = len(run.points)
        noun = "point" if count == 1 else "points"
        rows = _points_table(run)
        body.append(f"<details><summary>{count} {noun}</summary>{rows}</details>")
    if arithmetic:
        body.append(f"<h3>What follows without a run</h3>{_derived_table(run)}")
    elif not run.derived.empty:
        body.append(
            f"<details><summary>What follows without a run</summary>{_derived_table(run)}</details>"
        )
    return Section(name, _short(run.title), section(name, "".join(body)))


def _is_arithmetic(run: Result) -> bool:
    """Whether all that an experiment holds against the document follows without a run."""
    published = run.meta.get("published") or []
    return bool(published) and all(
        str(entry.get("quantity")).startswith("derived.") for entry in published
    )


def _variants(run: Result) -> str:
    """Draw the channels that an experiment used, once for each variant that looks different."""
    pictures = _pictures(run)
    if not pictures:
        return ""
    drawn = "".join(
        f"<figure><figcaption>{escape(label)}</figcaption>{picture}</figure>"
        for picture, label in pictures.items()
    )
    return f'<details><summary>What was run</summary><div class="pictures">{drawn}</div></details>'


def _pictures(run: Result) -> dict[str, str]:
    """Return the distinct pictures of a run's variants, each with the names that it stands for."""
    busy = set(run.points["channel"]) if "channel" in run.points else set()
    systems = run.variants or (
        {str(run.meta.get("preset") or run.title): run.system}
        if isinstance(run.system, System)
        else {}
    )
    axes: dict[str, dict[str, list[str]]] = {}
    for label, system in systems.items():
        channels = [c for c in system.composition.get("channels") or [] if c["name"] in busy]
        drawn = {**system.composition, "channels": channels}
        wide, narrow = (draw(drawn, title=label, narrow=narrow) for narrow in (False, True))
        picture, bare = _picture(wide, narrow), wide.split("<style>", 1)[1]
        axes.setdefault(label.split(" ")[0], {}).setdefault(bare, []).extend([label, picture])
    found: dict[str, str] = {}
    for pictures in axes.values():
        # An axis whose variants all look alike (another workload) is not one of compositions.
        if len(pictures) > 1 or len(axes) == 1:
            for named in pictures.values():
                found[named[1]] = ", ".join(named[::2])
    return found


def _picture(wide: str, narrow: str) -> str:
    """Put a picture on the page for a wide window and for a narrow one, which shows either."""
    return f'<div class="picture wide">{wide}</div><div class="picture narrow">{narrow}</div>'


def composition_section(result: Result) -> Section | None:
    """Draw the system; of a run of several variants, each that looks different."""
    system = system_of(result)
    if isinstance(system, str):
        body = f"<h2>Composition</h2><p>It cannot be drawn: {escape(system)}</p>"
        return Section("composition", "Composition", section("composition", body))
    if not system.composition:
        return None
    source = f'<p class="source">{escape(system.document)}</p>' if system.document else ""
    variants = {} if result.runs or not result.variants else _pictures(result)
    if len(variants) > 1:
        drawn = "".join(
            f"<figure><figcaption>{escape(label)}</figcaption>{picture}</figure>"
            for picture, label in variants.items()
        )
        words = escape(_numbers(system))
        body = f'<h2>Composition</h2>{source}<div class="pictures">{drawn}</div><p>{words}</p>'
        return Section("composition", "Composition", section("composition", body))
    body = (
        f"<h2>Composition</h2>{source}"
        f"<figure>{_picture(system.picture(), system.picture(narrow=True))}"
        f"<figcaption>{escape(caption(system.composition))}</figcaption></figure>"
    )
    return Section("composition", "Composition", section("composition", body))


def _numbers(system: System) -> str:
    if any(is_drawn(channel) for channel in system.composition.get("channels") or []):
        return caption(system.composition)
    hosts = system.composition.get("hosts")
    return (
        f"Only the channels that carried traffic. The {hosts} hosts are numbered; the coloured "
        "box on each is its adapter, with the number of its send buffers."
    )


def parameters_section(result: Result) -> Section | None:
    """List every parameter with its origin, and what the calibrated ones predict."""
    system = system_of(result)
    if isinstance(system, str) or not system.parameters:
        return None
    shown = [one for one in system.parameters if not one.key.startswith(_UNSHOWN)]
    origins = Counter(_kind(parameter) for parameter in shown)
    tally = ", ".join(f"{count} {origin}" for origin, count in origins.most_common())
    body = (
        f"<h2>Parameters</h2><p>{escape(tally)}. <em>Stated</em>: the document says it. "
        "<em>Derived</em>: it follows, by the arithmetic given. <em>Calibrated</em>: fitted to one "
        "published number, and then held against others. <em>Part</em>: a choice among parts, "
        f"whose numbers follow it.</p>{_parameter_tables(system, shown)}{_differences(result)}"
    )
    return Section("parameters", "Parameters", section("parameters", body))


def _kind(parameter: Parameter) -> str:
    return parameter.origin or ("part" if parameter.choice else "chosen here")


def _parameter_tables(system: System, parameters: list[Parameter]) -> str:
    groups: dict[str, list[Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(parameter.group, []).append(parameter)
    return "".join(
        f"<h3>{escape(name)}</h3>{_parameters_table(system, rows)}" for name, rows in groups.items()
    )


def _differences(result: Result) -> str:
    """List what each variant, or each experiment's preset, sets otherwise than the first."""
    base = system_of(result)
    if isinstance(base, str):
        return ""
    others: dict[str, System] = dict(result.variants)
    for run in result.runs.values():
        others.update(run.variants)
        if not run.variants and isinstance(run.system, System):
            others[f"preset {run.meta.get('preset')}"] = run.system
    blocks = ""
    seen: set[tuple[tuple[str, str], ...]] = set()
    common = {(one.key, one.value) for one in base.parameters}
    for label, system in others.items():
        own = [
            one
            for one in system.parameters
            if (one.key, one.value) not in common and one.key.startswith(("channel.", "system."))
        ]
        values = tuple((one.key, one.value) for one in own)
        if own and values not in seen:
            seen.add(values)
            blocks += (
                f"<details><summary>{escape(label)}: {len(own)} otherwise</summary>"
                f"{_parameter_tables(system, own)}</details>"
            )
    return f"<h3>What the variants set otherwise</h3>{blocks}" if blocks else ""


def specification_section(result: Result) -> Section | None:
    """Give the resolved files, which run again as they stand."""
    texts = {
        run.title: str(run.meta["spec_toml"])
        for run in (result, *result.runs.values())
        if run.meta.get("spec_toml")
    }
    texts.update(result.meta.get("specs") or {})
    if not texts:
        return None
    opened = " open" if len(texts) == 1 else ""
    blocks = "".join(
        f"<details{opened}><summary>{escape(title)}</summary>"
        f"<pre><code>{escape(text)}</code></pre></details>"
        for title, text in texts.items()
    )
    body = f"<h2>Specification</h2><p>As it was run, in one file each.</p>{blocks}"
    return Section("specification", "Specification", section("specification", body))


def again(result: Result) -> Section:
    """Say how to get the same numbers."""
    system = str(result.meta.get("system") or "")
    if result.runs:
        command, code = f"weft reproduce {system}", f'weft.reproduce("{system}")'
    elif names := result.meta.get("compared"):
        command = " && ".join(f"weft run {name}/spec.toml --out {name}" for name in names)
        command += f" && weft report {' '.join(names)}"
        listed = ", ".join(f'"{name}"' for name in names)
        code = f"from weft.comparison import side_by_side\nside_by_side([{listed}])"
    else:
        command, code = "weft run spec.toml", 'weft.run("spec.toml")'
    body = (
        "<h2>Run it again</h2><p>The same specification, seed and version give the same bytes, on "
        "any machine and with any number of threads. <code>spec.toml</code> lies in the results "
        f"folder.</p><pre><code>{escape(command)}</code></pre>"
        f"<pre><code>import weft\n{escape(code)}</code></pre>"
        f'<p class="provenance">{provenance(result)}</p>'
    )
    return Section("again", "Run it again", section("again", body))


def _checks_of(titles: dict[str, str], name: str, checks: list[Check]) -> str:
    """Write the numbers of an experiment in one table, what is said in words in another."""
    numbers = [check for check in checks if check.kind in PRINTED]
    others = [check for check in checks if check.kind not in PRINTED]
    named = (part for check in checks for part in check.section.split(", ") if part)
    sections = ", ".join(dict.fromkeys(named))
    preset, _ = readings(checks)
    words = " · ".join(part for part in (sections, f"preset {preset}" if preset else "") if part)
    source = f' <span class="source">{escape(words)}</span>' if words else ""
    tables = (_numbers_table(numbers, titles) if numbers else "") + (
        _statements_table(others, titles) if others else ""
    )
    return f"<h3>{escape(titles[name])}{source}</h3>{tables}"


def _numbers_table(checks: list[Check], titles: dict[str, str]) -> str:
    heads = ["Quantity", "Published", "Measured", "Error", "Band", "Verdict"]
    rows = [
        [
            f"{escape(sentence(check.name))}{_place(place)}{_note(check, titles)}",
            published(check),
            measured(check, spread=True),
            percent(check.error),
            escape(check.band) if check.is_claimed else "–",
            _badge(check),
        ]
        for check, place in zip(checks, readings(checks)[1], strict=True)
    ]
    return table(heads, rows, numeric={1, 2, 3})


def _statements_table(checks: list[Check], titles: dict[str, str]) -> str:
    heads = ["Statement", "Measured", "Holds if", "Verdict"]
    rows = [
        [
            f"{_said(check)}{_note(check, titles)}",
            measured(check, spread=True),
            escape(check.band) if check.is_claimed else "–",
            _badge(check),
        ]
        for check in checks
    ]
    return f'<div class="statements">{table(heads, rows, numeric={1})}</div>'


def _said(check: Check) -> str:
    """Quote a statement, and say what is measured for it; or say that it is not printed."""
    said = f"“{escape(sentence(check.statement))}”" if check.kind == STATEMENT else "Not printed"
    return f'{said} <span class="place">{escape(check.label)}</span>'


def _badge(check: Check) -> str:
    """Show the verdict; of a row that does not count, without the colour."""
    kind = escape(check.verdict) if check.counted else "aside"
    return f'<span class="badge {kind}">{escape(check.shown_verdict)}</span>'


def _place(place: str) -> str:
    return f' <span class="place">{escape(place)}</span>' if place else ""


def _derived_table(run: Result) -> str:
    heads = ["Quantity", "Value", "Arithmetic"]
    rows = [
        [
            escape(sentence(plain(str(row["quantity"]).replace(".", " ")))),
            f"{number(row['value'], 4)} {escape(shown_unit(str(row['unit'])))}".strip(),
            escape(str(row["arithmetic"])),
        ]
        for row in run.derived.to_dict("records")
    ]
    return table(heads, rows, numeric={1})


# What a reader should know of a number that no run predicts.
_CAVEATS = {
    CLOSED_FORM: "Follows from parameters, without a run.",
    CALIBRATED: "A parameter was calibrated by it.",
}


def _note(check: Check, titles: dict[str, str]) -> str:
    notes = [_CAVEATS[check.kind]] if check.kind in _CAVEATS else []
    notes += [marked(check.note)] if check.note else []
    where = ", ".join(_short(titles[name]) for name in check.also if name in titles)
    if check.counted and where:
        notes.append(f"Also in {escape(where)}.")
    elif not check.counted and check.kind in PRINTED:
        notes.append(f"Counts once, with {escape(where or 'the other row of this number')}.")
    elif not check.counted and check.kind == STATEMENT:
        notes.append("Counts once, with the other rows of this statement.")
    return f'<small class="note">{" ".join(notes)}</small>' if notes else ""


def _points_table(run: Result) -> str:
    points = run.points
    asked = {
        "offered_load",
        "accepted_load",
        f"{main_latency(points)}_mean_us",
        "verdict",
        "reason",
    }
    shown = [str(name) for name in points if _worth_showing(points, str(name), asked)]
    short = short_keys([name for name in shown if "." in name])
    heads = [setting_head(name, short[name]) if name in short else escape(column_head(name))
             for name in shown]  # fmt: skip
    half_of = {name: half for name in points for half in half_widths(str(name)) if half in points}
    asked_for = points.to_dict("records")
    rows = [[_cell(name, row, half_of.get(name)) for name in shown] for row in asked_for]
    numeric = {i for i, name in enumerate(shown) if points[name].dtype.kind in "fi"}
    return numbers(table(heads, rows, numeric), len(heads))


def _worth_showing(points: pd.DataFrame, name: str, asked: set[str]) -> bool:
    """Leave out what is the same everywhere, except what every reader looks for."""
    is_half_width = any(name in half_widths(str(other)) for other in points)
    return name != "point" and not is_half_width and (name in asked or points[name].nunique() > 1)


def _cell(name: str, row: Mapping[Hashable, Any], half: str | None) -> str:
    value = row[name]
    if isinstance(value, str):
        return escape(value)
    if half is not None and isinstance(row[half], float) and row[half] == row[half]:
        return f"{number(value, 4)}\u202f±\u202f{number(row[half], 2)}"
    return printed(value) if "." in name else number(value, 4)


def _parameters_table(system: System, parameters: list[Parameter]) -> str:
    rows = [
        [
            f"<code>{escape(system.short_key(parameter))}</code>"
            f'<small class="note">{escape(parameter.description)}</small>',
            # A long name breaks between its words.
            f"<b>{escape(parameter.text).replace('_', '_<wbr>')}</b>{_aloud(parameter.text)}",
            _origin(parameter),
        ]
        for parameter in parameters
    ]
    return table(["Parameter", "Value", "Origin"], rows)


def _aloud(text: str) -> str:
    """Add what a rate of bits by time is in bits a second."""
    spoken = rate(text)
    return f'<small class="note">{escape(spoken)}</small>' if spoken != text else ""


def _origin(parameter: Parameter) -> str:
    if not parameter.origin:
        return f'<span class="badge">{_kind(parameter)}</span>'
    predicts = (
        f'<small class="note">predicts: {escape(parameter.predicts)}</small>'
        if parameter.predicts
        else ""
    )
    kind = escape(parameter.origin)
    return f'<span class="badge {kind}">{kind}</span> {escape(parameter.source)}{predicts}'


def _title_of(result: Result, name: str) -> str:
    run = result.runs.get(name)
    return run.title if run else plain(name.replace("-", " "))


def _short(title: str) -> str:
    """Keep the part of a title that tells it from its neighbours: "Table 2"."""
    head = title.split(":", maxsplit=1)[0]
    return head.split(", ", 1)[-1] if ", " in head else head

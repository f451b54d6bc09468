"""The sections of the page below the summary: every value, every experiment, what was run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from weft.checks import (
    CALIBRATED,
    CLOSED_FORM,
    COMPUTED,
    PRINTED,
    STATEMENT,
    Check,
    checks_of,
    readings,
)
from weft.composition import caption, draw
from weft.graph import is_drawn
from weft.report.markup import Head, Section, marked, section, sentence, system_of
from weft.report.summary import provenance
from weft.standing import main_latency
from weft.system import Parameter, System
from weft.words import (
    column_head,
    half_widths,
    number,
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

    Place = Callable[[list[Figure]], Markup]

# Keys that a parameter table omits: they are in the title, or not about the system.
_UNSHOWN = ("system.title", "system.document", "experiment.", "figure", "published", "run.",
            "beside")  # fmt: skip


# The two columns of each system, as the head of a table has them and as the core does.
_BESIDE = {"printed": "printed", "here": "here"}


@dataclass(frozen=True)
class _Picture:
    """A drawing of channels, for a wide window and for a narrow one."""

    wide: Markup
    narrow: Markup


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
    return section(
        "checks",
        "Published / measured",
        "checks.html",
        figures=place(drawn),
        statement=STATEMENT,
        groups=[_group(titles, name, rows) for name, rows in groups.items()],
    )


def beside_sections(result: Result) -> list[Section]:
    """Show the tables of the document that set the systems of a family side by side."""
    rows = result.tables.get("beside")
    if rows is None or rows.empty:
        return []
    titles: dict[str, str] = result.meta.get("titles") or {}
    heads = ["", *(f"{titles[one]}, {kind}" for one in titles for kind in _BESIDE), "Note"]
    shown = ["row", *(f"{kind}_{one}" for one in titles for kind in _BESIDE.values()), "note"]
    sections = []
    for place, (name, own) in enumerate(rows.groupby("table", sort=False)):
        cells = [[marked(str(row[column])) for column in shown] for row in own.to_dict("records")]
        words = {"name": str(name), "heads": heads, "rows": cells}
        sections.append(section(f"beside-{place}", f"{name}, side by side", "beside.html", **words))
    return sections


def experiment_section(name: str, run: Result, place: Place, *, alone: bool) -> Section | None:
    """Show one experiment: its figures, what was run, and its points in a table that folds away."""
    drawn = [figure for figure in run.figures if figure.name != "published-against-measured"]
    arithmetic = _is_arithmetic(run)
    if not drawn and run.points.empty and run.derived.empty:
        return None
    return section(
        name,
        _short(run.title),
        "experiment.html",
        title="Results" if alone else run.title,
        source=run.meta.get("section") or "",
        reduced="" if alone else _reduced(run),
        note="" if alone else str(run.meta.get("note") or ""),
        figures="" if arithmetic else place(drawn),
        variants={} if alone or arithmetic else _pictures(run),
        points=None if arithmetic or run.points.empty else _points_table(run),
        is_arithmetic=arithmetic,
        derived=_derived_rows(run),
    )


def _reduced(run: Result) -> str:
    asked = run.meta.get("reduced_from")
    if not asked:
        return ""
    return (
        f"{run.meta['seeds']} of {asked['seeds']} seeds a point, "
        f"{run.meta['length']} of {asked['length']} simulated in each"
    )


def _is_arithmetic(run: Result) -> bool:
    """Whether everything that an experiment compares with the document follows without a run."""
    published = run.meta.get("published") or []
    return bool(published) and all(
        str(entry.get("quantity")).startswith("derived.") for entry in published
    )


def _pictures(run: Result) -> dict[_Picture, str]:
    """Return the distinct pictures of a run's variants, each with the variants that it shows."""
    busy = set(run.points["channel"]) if "channel" in run.points else set()
    systems = run.variants or (
        {str(run.meta.get("preset") or run.title): run.system}
        if isinstance(run.system, System)
        else {}
    )
    axes: dict[str, dict[str, list[tuple[str, _Picture]]]] = {}
    for label, system in systems.items():
        channels = [c for c in system.composition.get("channels") or [] if c["name"] in busy]
        drawn = {**system.composition, "channels": channels}
        wide, narrow = (draw(drawn, title=label, narrow=narrow) for narrow in (False, True))
        picture, bare = _picture(wide, narrow), wide.split("<style>", 1)[1]
        axes.setdefault(label.split(" ")[0], {}).setdefault(bare, []).append((label, picture))
    found: dict[_Picture, str] = {}
    for pictures in axes.values():
        # An axis whose variants all look alike (another workload) is not one of compositions.
        if len(pictures) > 1 or len(axes) == 1:
            for named in pictures.values():
                found[named[0][1]] = ", ".join(label for label, _ in named)
    return found


def _picture(wide: str, narrow: str) -> _Picture:
    # Drawings escape the names that they show.
    return _Picture(Markup(wide), Markup(narrow))


def composition_section(result: Result) -> Section | None:
    """Draw the system; of a run of several variants, each that looks different."""
    system = system_of(result)
    words: dict[str, Any] = {"fault": "", "source": "", "variants": {}, "picture": None}
    if isinstance(system, str):
        words |= {"fault": system, "caption": ""}
    elif not system.composition:
        return None
    else:
        variants = {} if result.runs or not result.variants else _pictures(result)
        several = len(variants) > 1
        words |= {
            "source": system.document,
            "variants": variants if several else {},
            "picture": _picture(system.picture(), system.picture(narrow=True)),
            "caption": _numbers(system) if several else caption(system.composition),
        }
    return section("composition", "Composition", "composition.html", **words)


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
    return section(
        "parameters",
        "Parameters",
        "parameters.html",
        tally=", ".join(f"{count} {origin}" for origin, count in origins.most_common()),
        groups=_grouped(system, shown),
        variants=_differences(result),
    )


def _kind(parameter: Parameter) -> str:
    return parameter.origin or ("part" if parameter.choice else "chosen here")


def _grouped(system: System, parameters: list[Parameter]) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each group's table."""
    groups: dict[str, list[dict[str, str]]] = {}
    for parameter in parameters:
        groups.setdefault(parameter.group, []).append(_row(system, parameter))
    return groups


def _row(system: System, parameter: Parameter) -> dict[str, str]:
    spoken = rate(parameter.text)
    return {
        "key": system.short_key(parameter),
        "description": parameter.description,
        "value": parameter.text,
        # A rate of bits by time is also said in bits a second.
        "rate": spoken if spoken != parameter.text else "",
        "origin": parameter.origin or "",
        "kind": _kind(parameter),
        "source": parameter.source,
        "predicts": parameter.predicts if parameter.origin else "",
    }


def _differences(result: Result) -> list[tuple[str, int, dict[str, list[dict[str, str]]]]]:
    """List what each variant, or each experiment's preset, sets otherwise than the first."""
    base = system_of(result)
    if isinstance(base, str):
        return []
    others: dict[str, System] = dict(result.variants)
    for run in result.runs.values():
        others.update(run.variants)
        if not run.variants and isinstance(run.system, System):
            others[f"preset {run.meta.get('preset')}"] = run.system
    found = []
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
            found.append((label, len(own), _grouped(system, own)))
    return found


def specification_section(result: Result) -> Section | None:
    """Give the resolved files, which can be run again unchanged."""
    texts = {
        run.title: str(run.meta["spec_toml"])
        for run in (result, *result.runs.values())
        if run.meta.get("spec_toml")
    }
    texts.update(result.meta.get("specs") or {})
    if not texts:
        return None
    return section(
        "specification",
        "Specification",
        "specification.html",
        title="Specification",
        lead="As it was run, in one file each.",
        opened=len(texts) == 1,
        files=texts,
    )


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
    return section(
        "again",
        "Run it again",
        "again.html",
        lead=Markup(
            "The same specification, seed and version give the same bytes, on any machine and with "
            "any number of threads. <code>spec.toml</code> lies in the results folder."
        ),
        command=command,
        code=code,
        provided=provenance(result),
    )


def _group(titles: dict[str, str], name: str, checks: list[Check]) -> dict[str, Any]:
    """Put the numbers of an experiment in one table, what is said in words in another."""
    numbers = [check for check in checks if check.kind in PRINTED]
    others = [check for check in checks if check.kind not in PRINTED]
    named = (part for check in checks for part in check.section.split(", ") if part)
    sections = ", ".join(dict.fromkeys(named))
    preset, _ = readings(checks)
    words = " · ".join(part for part in (sections, f"preset {preset}" if preset else "") if part)
    places = readings(numbers)[1] if numbers else []
    return {
        "title": titles[name],
        "source": words,
        "numbers": [
            (check, place, _note(check, titles))
            for check, place in zip(numbers, places, strict=True)
        ],
        "statements": [(check, _note(check, titles)) for check in others],
    }


def _derived_rows(run: Result) -> list[list[str]]:
    return [
        [
            sentence(plain(str(row["quantity"]).replace(".", " "))),
            f"{number(row['value'], 4)} {shown_unit(str(row['unit']))}".strip(),
            str(row["arithmetic"]),
        ]
        for row in run.derived.to_dict("records")
    ]


# Shown with a number that no run predicts.
_CAVEATS = {
    CLOSED_FORM: "Follows from parameters, without a run.",
    CALIBRATED: "A parameter was calibrated by it.",
    COMPUTED: "Computed by us; no document prints it.",
}


def _note(check: Check, titles: dict[str, str]) -> Markup:
    notes: list[str] = [_CAVEATS[check.kind]] if check.kind in _CAVEATS else []
    notes += [marked(sentence(check.note.rstrip(".")) + ".")] if check.note else []
    where = ", ".join(_short(titles[name]) for name in check.also if name in titles)
    if check.counted and where:
        notes.append(f"Also in {where}.")
    elif not check.counted and check.kind in PRINTED:
        notes.append(f"Counts once, with {where or 'the other row of this number'}.")
    elif not check.counted and check.kind == STATEMENT:
        notes.append("Counts once, with the other rows of this statement.")
    return Markup(" ").join(notes)


def _points_table(run: Result) -> dict[str, Any]:
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
    heads = [Head(short[name], name) if name in short else column_head(name) for name in shown]
    half_of = {name: half for name in points for half in half_widths(str(name)) if half in points}
    asked_for = points.to_dict("records")
    rows = [[_cell(name, row, half_of.get(name)) for name in shown] for row in asked_for]
    numeric = {i for i, name in enumerate(shown) if points[name].dtype.kind in "fi"}
    return {"heads": heads, "rows": rows, "numeric": numeric}


def _worth_showing(points: pd.DataFrame, name: str, asked: set[str]) -> bool:
    """Leave out what is the same everywhere, except what every reader looks for."""
    is_half_width = any(name in half_widths(str(other)) for other in points)
    return name != "point" and not is_half_width and (name in asked or points[name].nunique() > 1)


def _cell(name: str, row: Mapping[Hashable, Any], half: str | None) -> str:
    value = row[name]
    if isinstance(value, str):
        return value
    if half is not None and isinstance(row[half], float) and row[half] == row[half]:
        return f"{number(value, 4)}\u202f±\u202f{number(row[half], 2)}"
    return printed(value) if "." in name else number(value, 4)


def _title_of(result: Result, name: str) -> str:
    run = result.runs.get(name)
    return run.title if run else plain(name.replace("-", " "))


def _short(title: str) -> str:
    """Keep the part of a title that distinguishes it from its neighbours: "Table 2"."""
    head = title.split(":", maxsplit=1)[0]
    return head.split(", ", 1)[-1] if ", " in head else head

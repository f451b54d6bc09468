"""The top of the page: is it right, what was found beside, what was fitted."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from weft.checks import LITERAL, Check, checks_of, counts, named_in
from weft.plots.request import SETTLED
from weft.report.markup import Section, marked, measured, published, section, sentence, table
from weft.standing import STANDING, notes, why_stuck
from weft.system import Parameter, System
from weft.words import percent

if TYPE_CHECKING:
    from weft.result import Result

_VERDICT_WORDS = {
    "within": "within the band",
    "outside": "outside the band",
    "missed": "known to be missed",
    "report": "shown without a verdict",
}


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
        body.append(f'<p class="lead">{marked(str(note))}</p>')
    body.append(_verdicts(checks) if checks else _settled(result))
    body.extend(f'<p class="note">Note: {escape(note)}.</p>' for note in notes(result))
    body.append(_findings(result))
    if checks:
        body.append(_calibrated(result, checks))
    body.append(f'<p class="provenance">{provenance(result)}</p>')
    return Section("summary", "Summary", section("summary", "".join(body)))


def provenance(result: Result) -> str:
    """Name what is needed to get the same numbers."""
    meta = result.meta
    parts = [("version", meta.get("version")), ("first seed", meta.get("seed")),
             ("seeds", meta.get("seeds")), ("preset", meta.get("preset")),
             ("measured", meta.get("regime")),
             ("specification", str(meta.get("spec_hash") or "")[:12])]  # fmt: skip
    return " · ".join(
        f"{name} <code>{escape(str(value))}</code>"
        for name, value in parts
        if value not in {None, ""}
    )


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
    if missed := found["missed"]:
        lead = f"{lead[:-1]}; {missed} more {'is' if missed == 1 else 'are'} known to be missed."
    listed = _listed("What falls outside", "outside", checks)
    listed += _listed("What is known to be missed", "missed", checks)
    return f'<p class="lead">{lead}</p><ul class="tiles">{tiles}</ul>{_unjudged(checks)}{listed}'


def _listed(title: str, verdict: str, checks: list[Check]) -> str:
    entries = "".join(f"<li>{_miss(check)}</li>" for check in checks if check.verdict == verdict)
    return f'<h3>{title}</h3><ul class="misses">{entries}</ul>' if entries else ""


def _unjudged(checks: list[Check]) -> str:
    """Say why some values carry no verdict."""
    shown = [check for check in checks if check.verdict == "report"]
    literal = sum(LITERAL in check.preset.split("+") for check in shown)
    if not literal:
        return ""
    rest = len(shown) - literal
    return (
        f"<p>Of the values without a verdict, {literal} belong to the reading <em>literal</em>, "
        "which takes the document at its word and stands beside the judged one for comparison; "
        f"for {rest} the printed number does not allow a verdict, and the row says why.</p>"
    )


def _findings(result: Result) -> str:
    """List what the experiments found, with the way to each."""
    found = [(name, run) for name, run in result.runs.items() if str(run.meta.get("finding") or "")]
    if not found:
        own = str(result.meta.get("finding") or "")
        return f'<p class="finding">{escape(own)}</p>' if own else ""
    items = "".join(
        f'<li>{escape(str(run.meta["finding"]))} <a href="#{escape(name)}">'
        f"{escape(run.title)}</a></li>"
        for name, run in found
    )
    return f'<h3>Findings</h3><ul class="findings">{items}</ul>'


def _calibrated(result: Result, checks: list[Check]) -> str:
    """Show each fitted constant with what it was fitted to and what it then predicts."""
    found = _fitted_constants(result)
    are_of_several = len({system.title for system, _ in found}) > 1
    rows = [
        [
            f"<code>{escape(system.short_key(parameter))}</code>"
            f'<small class="note">{escape(parameter.group)}'
            f"{f', {escape(system.title)}' if are_of_several else ''}</small>",
            f"<b>{escape(parameter.text)}</b>",
            escape(parameter.origin_text) + _errors(parameter.origin_text, parameter.key, checks),
            escape(parameter.predicts) + _errors(parameter.predicts, parameter.key, checks),
        ]
        for system, parameter in found
    ]
    if not rows:
        return ""
    heads = ["Constant", "Value", "Fitted to", "Predicts"]
    return (
        f"<h3>Calibrated constants</h3><p>Everything else is stated in the document or follows "
        f"from it. Beside each number stands the error of this run.</p>"
        f'<div class="calibrated">{table(heads, rows)}</div>'
    )


def _fitted_constants(result: Result) -> list[tuple[System, Parameter]]:
    """Collect the calibrated parameters of the system and of every variant, with their system."""
    systems = [result.system]
    for run in result.runs.values():
        systems += [run.system, *run.variants.values()]
    found: dict[tuple[str, str], tuple[System, Parameter]] = {}
    for system in [one for one in systems if isinstance(one, System)]:
        for parameter in system.parameters:
            if parameter.origin == "calibrated":
                found.setdefault((parameter.key, parameter.value), (system, parameter))
    return list(found.values())


def _errors(text: str, key: str, checks: list[Check]) -> str:
    named = named_in(text, key, checks)
    words = ", ".join(f"{published(check)}: {percent(check.error)}" for check in named)
    return f'<small class="note">{words}</small>' if words else ""


def _miss(check: Check) -> str:
    note = f" {escape(sentence(check.note.rstrip('.')))}." if check.note else ""
    band = f"; claimed {escape(check.band)}" if check.is_claimed else ""
    error = f", {percent(check.error)}" if check.error is not None else ""
    return (
        f"<b>{escape(sentence(check.label))}</b>: published {published(check)}, measured "
        f"{measured(check, spread=True)}{error}{band}.{note}"
    )


def _settled(result: Result) -> str:
    points = result.points
    if points.empty:
        return '<p class="lead">No point was finished.</p>'
    if "verdict" not in points:
        return f'<p class="lead">{len(points)} points.</p>'
    words = ", ".join(f"{n} {verdict}" for verdict, n in Counter(points["verdict"]).items())
    more = ""
    if (~points["verdict"].isin([SETTLED, *STANDING])).any():
        more = " The mean of a point that did not settle depends on how long it ran."
    noun = "point" if len(points) == 1 else "points"
    lead = f'<p class="lead">{len(points)} {noun}: {escape(words)}.{more}</p>'
    why = " ".join(escape(sentence) for sentence in why_stuck(result))
    return lead + (f'<p class="banner">{why}</p>' if why else "")

"""The top of the page: is it right, what was found beside, what was fitted."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from weft.checks import (
    LITERAL,
    NUMBER,
    STATEMENT,
    UNPRINTED,
    Check,
    checks_of,
    counted_in_words,
    counts,
    named_in,
)
from weft.report.markup import Section, marked, measured, published, section, sentence, table
from weft.standing import FAILED, SETTLED, STANDING, notes, why_failed, why_stuck
from weft.system import Parameter, System
from weft.words import percent

if TYPE_CHECKING:
    from weft.result import Result

# The head of each row of numbers at the top, and what its verdicts are called.
_TILES = {
    NUMBER: (
        "Printed numbers",
        {
            "within": "within the band",
            "outside": "outside the band",
            "missed": "known to be missed",
            "undecided": "not decided at this size",
            "report": "shown, not judged",
        },
    ),
    STATEMENT: (
        "Statements",
        {
            "within": "hold",
            "outside": "do not hold",
            "missed": "known not to hold",
            "undecided": "not decided at this size",
            "report": "shown, not judged",
        },
    ),
}

# Verdicts that are named even where there is none of them: their absence is the news.
_ALWAYS_SHOWN = ("within", "outside")


def summary(result: Result) -> Section:
    """Open with the answer: how many published values come out, which do not, and why."""
    checks = checks_of(result)
    body = [f"<h1>{escape(result.title)}</h1>"]
    if result.stopped:
        body.append(
            '<p class="banner">This run was stopped before its last point. What stands here was '
            "finished; the rest is missing, not zero.</p>"
        )
    if result.problems:
        listed = "".join(f"<li>{escape(problem)}</li>" for problem in result.problems)
        body.append(
            '<div class="banner">Not all of these results could be read. What stands here is '
            f"whole.<ul>{listed}</ul></div>"
        )
    for of in (result, *result.runs.values()):
        body.extend(f'<p class="banner">{escape(reason)}</p>' for reason in why_failed(of))
    if reduced := reduced_in_words(result):
        body.append(f'<p class="banner size">{escape(reduced)}</p>')
    if note := result.meta.get("note"):
        body.append(f'<p class="lead">{marked(str(note))}</p>')
    body.append(_verdicts(checks) if checks else _settled(result))
    body.extend(f'<p class="note">Note: {escape(note)}.</p>' for note in notes(result))
    body.append(_findings(result))
    if checks:
        body.append(_calibrated(result, checks))
    body.append(f'<p class="provenance">{provenance(result)}</p>')
    return Section("summary", "Summary", section("summary", "".join(body)))


def reduced_in_words(result: Result) -> str:
    """Say that fewer runs were made than the experiments ask for; "" if as many were."""
    runs = list(result.runs.values()) or [result]
    reduced = [run.meta for run in runs if run.meta.get("reduced_from")]
    left_out = result.meta.get("left_out") or []
    them = "them" if len(left_out) > 1 else "it"
    names = ", ".join(left_out)
    without = f"Not run, since nothing in {them} is judged: {names}." if names else ""
    if not reduced:
        return f"Reduced size. {without}" if without else ""
    which = f"{len(reduced)} of {len(runs)} experiments ran" if len(runs) > 1 else "it ran"
    made = max(int(meta["seeds"]) for meta in reduced)
    asked = max(int(meta["reduced_from"]["seeds"]) for meta in reduced)
    seeds = f", with {made} seeds a point where up to {asked} are asked for" * (made < asked)
    return (
        f"Reduced size: {which} shorter or less often than the file asks for{seeds}. Intervals are "
        "wider, and a band is judged only where the 95\u00a0% interval decides it. " + without
    ).rstrip()


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
    tiles = "".join(_tiles(kind, found[kind]) for kind in _TILES if sum(found[kind].values()))
    listed = _listed("What falls outside", "outside", checks)
    listed += _listed("What is known to be missed", "missed", checks)
    return (
        f'<p class="lead">{counted_in_words(checks)}</p><div class="tally">{tiles}</div>'
        f"{_once(checks, found[UNPRINTED])}{listed}"
    )


def _tiles(kind: str, found: dict[str, int]) -> str:
    """Write the counts of a kind; there may be none of a verdict, and then no colour speaks."""
    title, words = _TILES[kind]
    shown = {
        verdict: count for verdict, count in found.items() if count or verdict in _ALWAYS_SHOWN
    }
    tiles = "".join(
        f'<li class="{verdict if count else "none"}"><b>{count}</b> {words[verdict]}</li>'
        for verdict, count in shown.items()
    )
    return f'<h3>{title}</h3><ul class="tiles">{tiles}</ul>'


def _listed(title: str, verdict: str, checks: list[Check]) -> str:
    chosen = [check for check in checks if check.counted and check.verdict == verdict]
    entries = "".join(f"<li>{_miss(check)}</li>" for check in chosen)
    return f'<h3>{title}</h3><ul class="misses">{entries}</ul>' if entries else ""


def _once(checks: list[Check], unprinted: dict[str, int]) -> str:
    """Say what the counts leave out."""
    sentences = []
    if any(not check.counted for check in checks):
        sentences.append(
            "Each number and each statement counts once, however many experiments and settings it "
            "is held against, and by the worst of them."
        )
    if any(LITERAL in check.preset.split("+") for check in checks):
        sentences.append(
            "The reading <em>literal</em> takes the document at its word; it stands beside the "
            "judged one for comparison and does not count."
        )
    if count := sum(unprinted.values()):
        noun = "number that is" if count == 1 else "numbers that are"
        sentences.append(f"{count} {noun} not in the document stand beside these, not counted.")
    return f"<p>{' '.join(sentences)}</p>" if sentences else ""


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
    found = f"measured {measured(check, spread=True)}{error}{band}.{note}"
    if check.kind == STATEMENT:
        return f"<b>“{escape(sentence(check.statement))}”</b>: {escape(check.label)} {found}"
    return f"<b>{escape(sentence(check.label))}</b>: published {published(check)}, {found}"


def _settled(result: Result) -> str:
    points = result.points
    if points.empty:
        return '<p class="lead">No point was finished.</p>'
    if "verdict" not in points:
        return f'<p class="lead">{len(points)} points.</p>'
    words = ", ".join(f"{n} {verdict}" for verdict, n in Counter(points["verdict"]).items())
    more = ""
    if (~points["verdict"].isin([SETTLED, *STANDING, FAILED])).any():
        more = " The mean of a point that did not settle depends on how long it ran."
    noun = "point" if len(points) == 1 else "points"
    lead = f'<p class="lead">{len(points)} {noun}: {escape(words)}.{more}</p>'
    why = " ".join(escape(sentence) for sentence in why_stuck(result))
    return lead + (f'<p class="banner">{why}</p>' if why else "")

"""The top of the page: is it right, what was found beside, what was fitted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from weft.checks import (
    COMPUTED,
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
from weft.report.markup import Section, published, section
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
    COMPUTED: (
        "Computed by us",
        {
            "within": "agree",
            "outside": "do not agree",
            "missed": "known not to agree",
            "undecided": "not decided at this size",
            "report": "shown, not judged",
        },
    ),
}

# Verdicts that are named even if their count is zero, since that is the news.
_ALWAYS_SHOWN = ("within", "outside")


def summary(result: Result) -> Section:
    """Open with the answer: how many published values come out, which do not, and why."""
    checks = checks_of(result)
    failed = [reason for of in (result, *result.runs.values()) for reason in why_failed(of)]
    return section(
        "summary",
        "Summary",
        "summary.html",
        title=result.title,
        stopped=result.stopped,
        problems=result.problems,
        failed=failed,
        reduced=reduced_in_words(result),
        note=str(result.meta.get("note") or ""),
        lead=counted_in_words(checks) if checks else _settled(result),
        why_stuck="" if checks else " ".join(why_stuck(result)),
        statement=STATEMENT,
        remarks=notes(result),
        findings=_findings(result),
        finding=str(result.meta.get("finding") or ""),
        calibrated=_calibrated(result, checks) if checks else [],
        provided=provenance(result),
        **_verdicts(checks),
    )


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


def provenance(result: Result) -> list[tuple[str, str]]:
    """Name what is needed to get the same numbers."""
    meta = result.meta
    parts = [("version", meta.get("version")), ("first seed", meta.get("seed")),
             ("seeds", meta.get("seeds")), ("preset", meta.get("preset")),
             ("measured", meta.get("regime")), ("ranks", _ranks(meta.get("ranks") or [])),
             ("specification", str(meta.get("spec_hash") or "")[:12])]  # fmt: skip
    return [(name, str(value)) for name, value in parts if value not in {None, ""}]


def _ranks(ranks: list[dict[str, Any]]) -> str:
    """Say how many ranks there were, and the memory of each."""
    if not ranks:
        return ""
    each = ", ".join(f"{own['bytes'] / 1e6:.0f} MB" for own in ranks)
    machines = len({own["machine"] for own in ranks})
    where = f" on {machines} machines" if machines > 1 else ""
    return f"{len(ranks)}{where}, with {each} of memory"


def _verdicts(checks: list[Check]) -> dict[str, Any]:
    """Count the verdicts, name the misses, and say what the counts leave out."""
    found = counts(checks)
    chosen = {
        heading: [check for check in checks if check.counted and check.verdict == verdict]
        for heading, verdict in (
            ("What falls outside", "outside"),
            ("What is known to be missed", "missed"),
        )
    }
    return {
        "tally": [_tiles(kind, found[kind]) for kind in _TILES if sum(found[kind].values())],
        "counted_once": any(not check.counted for check in checks),
        "literal": any(LITERAL in check.preset.split("+") for check in checks),
        "unprinted": sum(found[UNPRINTED].values()),
        "missed": [(heading, misses) for heading, misses in chosen.items() if misses],
    }


def _tiles(kind: str, found: dict[str, int]) -> tuple[str, list[tuple[str, int, str]]]:
    """Return the counts of a kind that are shown."""
    title, words = _TILES[kind]
    shown = [
        (verdict, count, words[verdict])
        for verdict, count in found.items()
        if count or verdict in _ALWAYS_SHOWN
    ]
    return title, shown


def _findings(result: Result) -> list[tuple[str, str, str]]:
    """Return what the experiments found, each with the anchor and the title of its section."""
    return [
        (str(run.meta["finding"]), name, run.title)
        for name, run in result.runs.items()
        if run.meta.get("finding")
    ]


def _calibrated(result: Result, checks: list[Check]) -> list[dict[str, str]]:
    """Return each fitted constant with what it was fitted to and what it then predicts."""
    found = _fitted_constants(result)
    are_of_several = len({system.title for system, _ in found}) > 1
    return [
        {
            "key": system.short_key(parameter),
            "group": parameter.group + (f", {system.title}" if are_of_several else ""),
            "value": parameter.text,
            "fitted_to": parameter.origin_text,
            "fitted_errors": _errors(parameter.origin_text, parameter.key, checks),
            "predicts": parameter.predicts,
            "predicted_errors": _errors(parameter.predicts, parameter.key, checks),
        }
        for system, parameter in found
    ]


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
    return ", ".join(f"{published(check)}: {percent(check.error)}" for check in named)


def _settled(result: Result) -> str:
    points = result.points
    if points.empty:
        return "No point was finished."
    if "verdict" not in points:
        return f"{len(points)} points."
    words = ", ".join(f"{n} {verdict}" for verdict, n in Counter(points["verdict"]).items())
    more = ""
    if (~points["verdict"].isin([SETTLED, *STANDING, FAILED])).any():
        more = " The mean of a point that did not settle depends on how long it ran."
    noun = "point" if len(points) == 1 else "points"
    return f"{len(points)} {noun}: {words}.{more}"

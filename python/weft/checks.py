"""Published against measured: what the table, the dot plot, the page and --json share."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.words import prose, shown_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.result import Result

VERDICTS = ("within", "outside", "missed", "undecided", "report")

# What the document gives: a number, a statement in words, or nothing.
NUMBER, STATEMENT, UNPRINTED = "number", "statement", "unprinted"

# A statement is not within anything.
_OF_STATEMENTS = {"within": "holds", "outside": "does not hold"}

# The reading that takes a document at its word; shown beside the others and never judged.
LITERAL = "literal"

_TEXTS = ("system", "experiment", "quantity", "at", "unit", "kind", "statement", "band", "verdict",
          "settled", "preset", "section", "note")  # fmt: skip
_NUMBERS = ("published", "measured", "half_width", "error", "band_low", "band_high")


@dataclass(frozen=True)
class Check:
    """One published value beside the measured one; a missing number is None, a missing text "".

    `kind` is "number", "statement" (words, which hold if what is measured lies in the band) or
    "unprinted". `band` says in words what counts as reproduced; `band_low` and `band_high` are its
    ends in the unit of the quantity, both included. What is printed once and held against a run at
    several places has `counted` at one of them, the one that came out worst; `also` names the other
    experiments.
    """

    system: str
    experiment: str
    quantity: str
    at: str
    unit: str
    kind: str
    statement: str
    band: str
    verdict: str
    settled: str
    preset: str
    section: str
    note: str
    published: float | None
    measured: float | None
    half_width: float | None
    error: float | None
    band_low: float | None
    band_high: float | None
    counted: bool
    also: tuple[str, ...]

    @property
    def name(self) -> str:
        """The quantity as a person reads it: "mean queueing latency"."""
        return prose(self.quantity)

    @property
    def is_claimed(self) -> bool:
        """Whether a band is claimed for it, so that it is within or outside, if it is decided."""
        return self.verdict in {"within", "outside", "undecided"}

    @property
    def shown_verdict(self) -> str:
        """The verdict as it is said of a number or of a statement: "holds"."""
        return verdict_of(self.kind, self.verdict)

    @property
    def entry(self) -> tuple[str, str, object]:
        """What tells one printed number or statement from another: rows that share it are one."""
        given = self.published if self.kind == NUMBER else self.statement or self.label
        return self.kind, f"{self.system} {self.section}", given

    @property
    def place(self) -> str:
        """Where in the study it stands, with the reading of the document where there is one."""
        return f"{self.at} ({self.preset})" if self.at and self.preset else self.at or self.preset

    @property
    def label(self) -> str:
        """Quantity and place in one line."""
        return f"{self.name}: {self.place}" if self.place else self.name

    @property
    def shown_unit(self) -> str:
        """The unit as a person reads it: "µs"."""
        return shown_unit(self.unit)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the measured value, where one is known."""
        if self.measured is None or self.half_width is None:
            return None
        return self.measured - self.half_width, self.measured + self.half_width

    def to_json(self) -> dict[str, Any]:
        """Return the object that `weft reproduce --json` prints on a line."""
        return {
            "system": self.system,
            "experiment": self.experiment,
            "quantity": self.quantity,
            "at": self.at,
            "unit": self.unit,
            "kind": self.kind,
            "published": self.published,
            "statement": self.statement,
            "measured": self.measured,
            "interval": self.interval,
            "error": self.error,
            "band": self.band,
            "verdict": self.verdict,
            "counted": self.counted,
            "also": self.also,
            "preset": self.preset,
            "section": self.section,
            "note": self.note,
        }


def checks_of(result: Result) -> list[Check]:
    """Read the checks table row by row."""
    return [_check(row) for row in result.checks.to_dict("records")]


def readings(checks: list[Check]) -> tuple[str, list[str]]:
    """Return the preset that all these checks share ("" if they differ) and the place of each.

    A place names the preset only where it tells rows apart.
    """
    presets = {check.preset for check in checks}
    if len(presets) == 1:
        return presets.pop(), [check.at for check in checks]
    return "", [check.place for check in checks]


def verdict_of(kind: str, verdict: str) -> str:
    """Say a verdict of a number or of a statement."""
    return _OF_STATEMENTS.get(verdict, verdict) if kind == STATEMENT else verdict


def counts(checks: list[Check]) -> dict[str, dict[str, int]]:
    """Count what the document gives, each number and each statement once, by kind and verdict.

    Every verdict is named, even where there is none of it.
    """
    found = {kind: dict.fromkeys(VERDICTS, 0) for kind in (NUMBER, STATEMENT, UNPRINTED)}
    for check in checks:
        if check.counted:
            found[check.kind][check.verdict] += 1
    return found


def counted_in_words(checks: list[Check]) -> str:
    """Say how many printed numbers and statements came out, in one or two sentences."""
    found = counts(checks)
    numbers, statements = found[NUMBER], found[STATEMENT]
    parts = []
    if judged := _judged(numbers):
        noun = "number is within its band" if judged == 1 else "numbers are within their bands"
        parts.append(f"{numbers['within']} of {judged} printed {noun}")
    if judged := _judged(statements):
        noun = "statement holds" if judged == 1 else "statements hold"
        parts.append(f"{statements['within']} of {judged} {noun}")
    sentences = [", ".join(parts) or "No band is claimed for any of these"]
    rest = [
        words
        for verdict, words in (
            ("missed", "known to be missed"),
            ("undecided", "that this size cannot decide"),
            ("report", "shown without a verdict"),
        )
        for words in _of_verdict(numbers[verdict], statements[verdict], words)
    ]
    if rest:
        sentences.append("besides, " + ", ".join(rest))
    return "; ".join(sentences) + "."


def _judged(of_kind: Mapping[str, int]) -> int:
    return of_kind["within"] + of_kind["outside"]


def _of_verdict(numbers: int, statements: int, words: str) -> list[str]:
    parts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((numbers, NUMBER), (statements, STATEMENT))
        if count
    ]
    return [f"{' and '.join(parts)} {words}"] if parts else []


def once_each(checks: list[Check]) -> list[Check]:
    """Leave out the rows of an experiment whose number or statement counts in another one."""
    own = {(check.experiment, check.entry) for check in checks if check.counted}
    return [check for check in checks if (check.experiment, check.entry) in own]


def named_in(text: str, key: str, checks: list[Check]) -> list[Check]:
    """Return the checks on the printed latencies that a calibration's words name.

    A constant's origin says what it was fitted to and what it predicts in words with the printed
    numbers in them ("B4 bursty at 0.7 (103.7 us)"); a check belongs to it if it holds one of these
    numbers against a latency of the constant's own channel.
    """
    channel = key.split(".")[1] if key.startswith(("channel.", "workload.")) else ""
    if " us" not in text:
        return []
    printed = {float(found) for found in re.findall(r"\d+\.\d+", text)}
    named: dict[float, Check] = {}
    for check in checks:
        fits = check.published in printed and check.unit == "us" and channel in check.at.split(", ")
        if fits and LITERAL not in check.preset.split("+"):
            named[check.published or 0.0] = check
    return list(named.values())


def _check(row: Mapping[Any, Any]) -> Check:
    fields: dict[str, Any] = {name: str(row.get(name) or "") for name in _TEXTS}
    fields.update({name: _number(row.get(name)) for name in _NUMBERS})
    also = str(row.get("also") or "")
    if not fields["kind"]:  # a results folder from before there were kinds, in which all counted
        fields["kind"] = STATEMENT if fields["published"] is None else NUMBER
    counted = bool(row.get("counted", True))
    return Check(**fields, counted=counted, also=tuple(also.split(", ")) if also else ())


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

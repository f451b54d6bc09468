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

# What the document gives: a number, a statement in words, or nothing. A number that parameters give
# without a run, and one by which a parameter was calibrated, say less than one that a run predicts.
# What we have computed ourselves checks the model, and reproduces nothing.
NUMBER, STATEMENT, UNPRINTED = "number", "statement", "unprinted"
CLOSED_FORM, CALIBRATED, COMPUTED = "closed form", "calibrated", "computed"
KINDS = (NUMBER, CLOSED_FORM, CALIBRATED, STATEMENT, COMPUTED, UNPRINTED)
PRINTED = (NUMBER, CLOSED_FORM, CALIBRATED)

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

    `kind` is "number", "closed form" (a number that follows without a run), "calibrated" (a number
    by which a parameter was calibrated), "statement" (words, which hold if what is measured lies in
    the band), "computed" (no document prints anything; the band is arithmetic of ours) or
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
        """Whether a band is claimed for it: once decided, it is within or outside the band."""
        return self.verdict in {"within", "outside", "undecided"}

    @property
    def shown_verdict(self) -> str:
        """The verdict as it is said of a number or of a statement: "holds"."""
        return verdict_of(self.kind, self.verdict)

    @property
    def entry(self) -> tuple[str, str, object]:
        """The identity of a printed number or statement: rows that share it count as one."""
        given = self.published if self.kind in PRINTED else self.statement or self.label
        kind = NUMBER if self.kind in PRINTED else self.kind
        return kind, f"{self.system} {self.section}", given

    @property
    def place(self) -> str:
        """Its place in the study, with the reading of the document if there is one."""
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
    return _OF_STATEMENTS.get(verdict, verdict) if kind in (STATEMENT, COMPUTED) else verdict


def counts(checks: list[Check]) -> dict[str, dict[str, int]]:
    """Count what the document gives, each number and each statement once, by kind and verdict.

    Every verdict is named, even where there is none of it.
    """
    found = {kind: dict.fromkeys(VERDICTS, 0) for kind in KINDS}
    for check in checks:
        if check.counted:
            found[check.kind][check.verdict] += 1
    return found


def counted_in_words(checks: list[Check]) -> str:
    """Say how many printed numbers and statements came out, in one or two sentences.

    What is known to be missed was judged like the rest; it only comes as no surprise.
    """
    found = counts(checks)
    parts = [
        _came_out(
            found[NUMBER],
            "printed number is within its band",
            "printed numbers are within their bands",
        ),
        _came_out(found[STATEMENT], "statement holds", "statements hold"),
    ]
    computed = _came_out(
        found[COMPUTED],
        "number that we computed and no document prints agrees",
        "numbers that we computed and no document prints agree",
    )
    # Where the document gives nothing, this is the answer.
    if not any(parts):
        parts, computed = [computed], ""
    sentences = [", ".join(part for part in parts if part) or "No band is claimed for any of these"]
    rest = [
        _came_out(
            found[CLOSED_FORM],
            "number that follows without a run agrees",
            "numbers that follow without a run agree",
        ),
        _came_out(
            found[CALIBRATED],
            "number that calibrated a parameter agrees",
            "numbers that calibrated parameters agree",
        ),
        computed,
    ]
    numbers = {verdict: sum(found[kind][verdict] for kind in PRINTED) for verdict in VERDICTS}
    rest += [
        _of_verdict(numbers[verdict], found[STATEMENT][verdict], words)
        for verdict, words in (
            ("undecided", "that this size cannot decide"),
            ("report", "shown without a verdict"),
        )
    ]
    if said := [words for words in rest if words]:
        sentences.append("besides, " + ", ".join(said))
    return "; ".join(sentences) + "."


def judged(found: Mapping[str, int]) -> int:
    """Count what is within or outside of its band, whether or not a miss was known before."""
    return found["within"] + found["outside"] + found["missed"]


def _came_out(found: Mapping[str, int], one: str, several: str) -> str:
    """Say "3 of 4 statements hold (1 known to be missed)"; "" if none was judged."""
    if not (of := judged(found)):
        return ""
    known = f" ({found['missed']} known to be missed)" if found["missed"] else ""
    return f"{found['within']} of {of} {one if of == 1 else several}{known}"


def _of_verdict(numbers: int, statements: int, words: str) -> str:
    parts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((numbers, NUMBER), (statements, STATEMENT))
        if count
    ]
    return f"{' and '.join(parts)} {words}" if parts else ""


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

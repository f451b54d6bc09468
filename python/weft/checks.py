"""Published against measured: what the table, the dot plot, the page and --json share."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.words import prose, shown_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.result import Result

VERDICTS = ("within", "outside", "missed", "report")

# The reading that takes a document at its word; shown beside the others and never judged.
LITERAL = "literal"

_TEXTS = ("system", "experiment", "quantity", "at", "unit", "band", "verdict", "settled", "preset",
          "section", "note")  # fmt: skip
_NUMBERS = ("published", "measured", "half_width", "error", "band_low", "band_high")


@dataclass(frozen=True)
class Check:
    """One published value beside the measured one; a missing number is None, a missing text "".

    `band` says in words what counts as reproduced; `band_low` and `band_high` are its ends in the
    unit of the quantity, both included.
    """

    system: str
    experiment: str
    quantity: str
    at: str
    unit: str
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

    @property
    def name(self) -> str:
        """The quantity as a person reads it: "mean queueing latency"."""
        return prose(self.quantity)

    @property
    def is_claimed(self) -> bool:
        """Whether a band is claimed for it, so that it is within or outside."""
        return self.verdict in {"within", "outside"}

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
            "published": self.published,
            "measured": self.measured,
            "interval": self.interval,
            "error": self.error,
            "band": self.band,
            "verdict": self.verdict,
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


def counts(checks: list[Check]) -> dict[str, int]:
    """Count the verdicts, each named even where there is none."""
    found = Counter(check.verdict for check in checks)
    return {verdict: found[verdict] for verdict in VERDICTS}


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
    return Check(**fields)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

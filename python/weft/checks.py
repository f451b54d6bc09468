"""Published against measured: what the table, the dot plot, the page and --json share."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.words import number, percent, prose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.result import Result

VERDICTS = ("within", "outside", "report")


@dataclass(frozen=True)
class Band:
    """What counts as reproduced: an interval of the measured value, both ends included."""

    low: float
    high: float
    relative: float | None

    @property
    def text(self) -> str:
        """As a person writes it: "±12 %", or "0.33 to 0.37"."""
        if self.relative is not None:
            return "±" + percent(self.relative, sign=False)
        return f"{number(self.low)} to {number(self.high)}"

    def as_error(self, published: float | None) -> tuple[float | None, float | None]:
        """Return the band in fractions of the published value."""
        if self.relative is not None:
            return -self.relative, self.relative
        if not published:
            return None, None
        return self.low / published - 1.0, self.high / published - 1.0


@dataclass(frozen=True)
class Check:
    """One published value beside the measured one; a missing number is None."""

    system: str
    experiment: str
    quantity: str
    unit: str
    published: float | None
    measured: float | None
    half_width: float | None
    error: float | None
    band: Band | None
    verdict: str
    preset: str
    note: str
    section: str

    @property
    def label(self) -> str:
        """The quantity as a person reads it, with the preset where there is one."""
        words = prose(self.quantity)
        return f"{words} ({self.preset})" if self.preset else words

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the measured value."""
        middle = math.nan if self.measured is None else self.measured
        half = self.half_width or 0.0
        return middle - half, middle + half

    def to_json(self) -> dict[str, Any]:
        """Return the object that `weft reproduce --json` prints on a line."""
        known = self.measured is not None
        return {
            "system": self.system,
            "experiment": self.experiment,
            "quantity": self.quantity,
            "unit": self.unit,
            "published": self.published,
            "measured": self.measured,
            "interval": list(self.interval) if known and self.half_width is not None else None,
            "error": self.error,
            "band": None if self.band is None else [self.band.low, self.band.high],
            "verdict": self.verdict,
            "preset": self.preset or None,
            "section": self.section,
            "note": self.note,
        }


def checks_of(result: Result) -> list[Check]:
    """Read the checks table row by row."""
    return [_check(row) for row in result.checks.to_dict("records")]


def counts(checks: list[Check]) -> dict[str, int]:
    """Count the verdicts, each named even where there is none."""
    found = Counter(check.verdict for check in checks)
    return {verdict: found[verdict] for verdict in VERDICTS}


def _check(row: Mapping[Any, Any]) -> Check:
    published = _number(row.get("published"))
    texts = {
        name: str(row.get(name) or "")
        for name in ("system", "experiment", "quantity", "unit", "verdict", "preset", "note",
                     "section")
    }  # fmt: skip
    return Check(
        **texts,
        published=published,
        measured=_number(row.get("measured")),
        half_width=_number(row.get("half_width")),
        error=_number(row.get("error")),
        band=_band(row.get("band"), published),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _band(value: object, published: float | None) -> Band | None:
    """Read a band: a fraction of the published value, or JSON as experiment files write it.

    The core's column is numeric where every band is relative, and text as soon as one is not.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, dict):
        if "between" in value:
            low, high = value["between"]
            return Band(float(low), float(high), None)
        value = value.get("relative")
    if isinstance(value, list) and len(value) == 2:
        return Band(float(value[0]), float(value[1]), None)
    relative = _number(value)
    if relative is None or published is None:
        return None
    ends = sorted((published * (1 - relative), published * (1 + relative)))
    return Band(ends[0], ends[1], relative)

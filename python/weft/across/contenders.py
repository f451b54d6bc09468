"""The systems that are compared: who they are, and at which rates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import _seam
from weft.across.workloads import ComparisonError, nearest
from weft.system import System

if TYPE_CHECKING:
    from collections.abc import Sequence

SHIPPED = ("clint", "maestro", "clan", "scilan", "memory-channel-2")
"""The systems of the five documents."""

OF_TODAY = ("roce", "infiniband", "ultra-ethernet", "slingshot")
"""Systems with current documents: at the rates of today they are compared unchanged."""

PUBLISHED, TODAY = "published", "today"
RATES = {PUBLISHED: (PUBLISHED,), TODAY: (TODAY,), "both": (PUBLISHED, TODAY)}
"""The options for `rates`, and the rates that they stand for."""

COMPARE = "compare"
"""The preset of what a system needs to be one among others."""


@dataclass(frozen=True)
class Contender:
    """One system: `name` is a shipped one or a file, `own` the presets behind `+` in its name."""

    label: str
    name: str
    own: tuple[str, ...]
    offers: tuple[str, ...]
    hosts: int

    def preset(self, rates: str) -> str | None:
        """Return the presets that it is run with."""
        wanted = [COMPARE, *self.own, *((TODAY,) if rates == TODAY else ())]
        present = [preset for preset in wanted if preset in self.offers or preset in self.own]
        return "+".join(present) or None

    def runs_at(self, rates: str) -> bool:
        """Whether its file has a preset for these rates."""
        return rates == PUBLISHED or TODAY in self.offers or self.name in OF_TODAY

    def described(self, presets: str | None) -> System:
        """Describe it with presets, joined by `+`."""
        return System.from_json(self.label, _seam.show(self.name, presets, []))


def contenders(names: Sequence[str]) -> list[Contender]:
    """Look the systems up.

    Raises:
        ComparisonError: fewer than two are named, or one twice.
        WeftError: there is no such system, or its file cannot be used.

    """
    names = list(names) or [*SHIPPED, *OF_TODAY]
    if len(names) < 2:
        raise ComparisonError(
            f"only {names[0]} is named; two systems or more are compared: shipped ones "
            f"({', '.join(entry['name'] for entry in _seam.systems())}) or composition files"
        )
    for name in names:
        _check_is_system(_parts(name)[0])
    labels = _labels(names)
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        raise ComparisonError(f"{twice[0]} is named twice; each system stands in the table once")
    return [_contender(name, label) for name, label in zip(names, labels, strict=True)]


def rates_of(asked: str, found: Sequence[Contender]) -> tuple[list[str], list[dict[str, str]]]:
    """Return the rates to run at, and notes on systems that lack some.

    Raises:
        ComparisonError: rates are asked for that there are not, or only ones that a system lacks.

    """
    if asked not in RATES:
        raise ComparisonError(f"rates are {asked!r}; accepted: {', '.join(RATES)}")
    lacking = [one.label for one in found if not one.runs_at(TODAY)]
    if asked == TODAY and lacking:
        raise ComparisonError(
            f"{lacking[0]} does not say what it would be at rates of today; accepted: a table "
            f"[preset.{TODAY}] in its file, or --rates {PUBLISHED}"
        )
    rates = [one for one in RATES[asked] if one == PUBLISHED or len(lacking) < len(found)]
    notes = [
        {"system": label, "text": f"has no preset `{TODAY}` and is shown as it was published alone"}
        for label in lacking
        if asked != PUBLISHED
    ]
    return rates, notes


def settings_of(contender: Contender, rates: Sequence[str]) -> list[dict[str, Any]]:
    """List what the presets `compare` and `today` set: one row a parameter, with its origin."""
    rows: list[dict[str, Any]] = []
    own = [preset for preset in contender.own if preset not in {COMPARE, TODAY}]
    before: list[str] = own
    for preset in (COMPARE, TODAY):
        if preset not in contender.offers or (preset == TODAY and TODAY not in rates):
            continue
        after = [COMPARE, *own, TODAY] if COMPARE in contender.offers else [*own, TODAY]
        after = [COMPARE, *own] if preset == COMPARE else after
        old = {one.key: one for one in contender.described("+".join(before) or None).parameters}
        for one in contender.described("+".join(after)).parameters:
            known = old.get(one.key)
            if known is None or known.value != one.value:
                rows.append(
                    {
                        "system": contender.label,
                        "preset": preset,
                        "parameter": one.key,
                        "before": known.text if known else "",
                        "value": one.text,
                        "origin": one.origin,
                        "why": one.origin_text,
                    }
                )
        before = after
    return rows


def _contender(name: str, label: str) -> Contender:
    file, own = _parts(name)
    data = _seam.show(file, "+".join(own) or None, [])
    if traffic := [one["key"] for one in data["parameters"] if _is_traffic(one["key"])]:
        raise ComparisonError(
            f"{file} sets {traffic[0]}: it brings traffic of its own, and what is compared runs "
            "the same programs and nothing else; leave [workload] and [program] to another file"
        )
    offers = tuple(data.get("offers") or ())
    presets = [COMPARE, *own] if COMPARE in offers else own
    data = _seam.show(file, "+".join(presets) or None, [])
    hosts = int((data.get("composition") or {}).get("hosts") or 0)
    return Contender(label=label, name=file, own=tuple(own), offers=offers, hosts=hosts)


def _parts(name: str) -> tuple[str, list[str]]:
    """Return the system or file of a name, and the presets behind `+`."""
    file, *own = [name] if name and Path(name).exists() else name.split("+")
    return file, own


def _check_is_system(file: str) -> None:
    """Refuse what is neither a shipped system nor a file, with what would be accepted."""
    known = [str(entry["name"]) for entry in _seam.systems()]
    if file in known or (file.endswith(".toml") and Path(file).is_file()):
        return
    tried = {entry["name"]: entry["system"] for entry in _seam.experiments()}
    if file in tried:
        raise ComparisonError(
            f"{file} is an experiment; the system that it is about: {tried[file]}"
        )
    what = "neither a shipped system nor a composition file"
    if file and Path(file).exists():
        what = "a folder" if Path(file).is_dir() else "no composition file, which ends in .toml"
    raise ComparisonError(
        f"{file or 'an empty name'} is {what}; accepted: {', '.join(known)}, or a file NAME.toml"
        + nearest(file, known)
    )


def _is_traffic(key: str) -> bool:
    """Whether a key makes traffic; what a system says of arrivals offers nothing without a load."""
    names = key.split(".")
    offers = names[0] == "workload" and names[2:3] in (["load"], ["source"])
    return offers or (names[0] == "program" and not names[1].startswith("route"))


def _labels(names: Sequence[str]) -> list[str]:
    """Name files by their stem, or by their path where stems are alike."""
    stems = [Path(name).stem if name.endswith(".toml") else name for name in names]
    alike = {stem for stem, count in Counter(stems).items() if count > 1}
    return [
        str(Path(name)) if stem in alike else stem for name, stem in zip(names, stems, strict=True)
    ]

"""The one table, and what has to be known to read it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from weft import _seam
from weft.across.contenders import COMPARE, PUBLISHED
from weft.across.workloads import Measure
from weft.result import Column
from weft.words import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from weft.across.contenders import Contender
    from weft.across.workloads import Workload

BARRIER_BY = "barrier_by"
IN_HARDWARE, BY_MESSAGES = "hardware", "messages"

COLUMNS = (
    Column("comparison", "hosts", "", "how many hosts the system was run with"),
    Column("comparison", BARRIER_BY, "", "who keeps the barrier: hardware, or messages"),
)


@dataclass(frozen=True)
class Shown:
    """Everything that a table, a figure or a note is made from."""

    systems: Sequence[Contender]
    rates: list[str]
    workloads: list[Workload]
    tables: dict[str, pd.DataFrame]

    def values(self, system: str, rates: str, workload: Workload, measure: Measure) -> Values:
        """Return a measure over what is swept, in the order of the sweep."""
        return values_of(self.tables["replications"], (system, rates), workload, measure)


class Mean(NamedTuple):
    """A mean over seeds and the half width of its 95 % interval.

    The half width is zero where every seed gave the same, and not a number of a single seed.
    """

    value: float
    half_width: float


Values = dict[Any, Mean]


def values_of(
    replications: pd.DataFrame, who: tuple[str, str], workload: Workload, measure: Measure
) -> Values:
    """Return a measure of a system at some rates over what is swept.

    A program that uses several channels has a row for each; what it measured is the same in all.
    """
    found: Values = {}
    rows = replications
    if rows.empty or workload.along not in rows or measure.quantity not in rows:
        return found
    rows = rows[(rows["system"] == who[0]) & (rows["rates"] == who[1])]
    rows = rows[rows["workload"] == workload.name].drop_duplicates(["point", "seed"])
    by_seed: dict[Any, dict[Any, float]] = {}
    for step, seed, value in zip(
        rows[workload.along], rows["seed"], rows[measure.quantity], strict=True
    ):
        if math.isfinite(value):
            by_seed.setdefault(step, {})[seed] = float(value)
    base = by_seed.get(measure.relative_to, {})
    for step in workload.sweep[workload.along]:
        own = by_seed.get(step, {})
        if measure.relative_to is None:
            pairs = [(value, 1.0) for value in own.values()]
        else:
            pairs = [(value, base[seed]) for seed, value in own.items() if seed in base]
        if (mean := _mean(pairs)) is not None:
            found[step] = Mean(mean.value * measure.times, mean.half_width * measure.times)
    return found


def _mean(pairs: list[tuple[float, float]]) -> Mean | None:
    """Divide what the seeds gave by what each gave at the base, or by one."""
    ratio = _seam.ratio(pairs)
    if ratio is None:
        return None
    alike = len(pairs) > 1 and len(set(pairs)) == 1
    # Equal values have no spread, whatever the rounding of their mean leaves.
    return Mean(ratio[0], 0.0) if alike else Mean(*ratio)


def comparison(seen: Shown) -> pd.DataFrame:
    """Return the table: a row a system and rates, a column a measure at one value."""
    import pandas as pd  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    for rates in seen.rates:
        for one in seen.systems:
            if not one.runs_at(rates):
                continue
            row: dict[str, Any] = {"rates": rates, "system": one.label, "hosts": one.hosts}
            for workload in seen.workloads:
                for column in workload.columns:
                    values = seen.values(one.label, rates, workload, column.measure)
                    mean = values.get(column.measure.at, Mean(math.nan, math.nan))
                    row[column.name], row[half_width_of(column.name)] = mean
                if workload.in_hardware:
                    row[BARRIER_BY] = _keeper(seen, (one.label, rates), workload)
            rows.append(row)
    return pd.DataFrame(rows)


def half_width_of(column: str) -> str:
    """Name the column with the half widths of the intervals of another one."""
    return f"{column}_half_width"


def shown(value: object) -> str:
    """Write a value of the table."""
    return number(value, 4 if isinstance(value, float) and value >= 100 else 3)


def shown_spread(half_width: object) -> str:
    """Write the half width of a value of the table; nothing where all seeds gave the same."""
    if not isinstance(half_width, float) or not half_width > 0:
        return ""
    return f"± {number(half_width, 2)}"


def spread_explained(table: pd.DataFrame, seeds: int) -> str:
    """Explain what follows ±, and what it means if there is none."""
    halves = table.filter(regex="_half_width$").to_numpy(dtype=float)
    statistical, known = int((halves > 0).sum()), int((halves >= 0).sum())
    if not known:
        return "Of one seed, so that no interval is known."
    return (
        f"±: the half width of the 95 % interval of the mean over {seeds} seeds. The "
        f"{known - statistical} of {known} values without it are deterministic: every seed gave "
        "the same."
    )


def best_of(table: pd.DataFrame, workloads: Sequence[Workload]) -> dict[tuple[str, str], str]:
    """Return the best value of each column at each of the rates, as it is written."""
    best: dict[tuple[str, str], str] = {}
    for workload in workloads:
        for column in workload.columns:
            for rates, rows in table.groupby("rates", sort=False):
                values = rows[column.name].dropna()
                pick = values.min() if column.best == "least" else values.max()
                # A value that most systems reach is not marked as the best.
                if 0 < (values.map(shown) == shown(float(pick))).sum() <= len(values) / 2:
                    best[str(rates), column.name] = shown(float(pick))
    return best


def notes(seen: Shown) -> list[dict[str, str]]:
    """Say of each system what it cannot do, and what was put in its place."""
    found: list[dict[str, str]] = []
    for one in seen.systems:
        texts = _few_hosts(one, seen.workloads)
        for workload in seen.workloads:
            if workload.in_hardware and _keeper(seen, (one.label, seen.rates[0]), workload):
                texts.append(_who_keeps(seen, one, workload))
        texts += [*_stand_ins(one), *_ways(one)]
        found += [{"system": one.label, "text": text} for text in texts]
    return found


def _few_hosts(one: Contender, workloads: Sequence[Workload]) -> list[str]:
    """Say what a system has too few hosts for, and what ends with the hosts that it has."""
    lacking = [workload for workload in workloads if one.hosts < workload.least_hosts]
    ending = [
        workload.title.lower()
        for workload in workloads
        if workload not in lacking and max(workload.sweep.get("program.ranks", [0])) > one.hosts
    ]
    texts = [
        f"has {one.hosts} hosts; {workload.title.lower()} takes {workload.least_hosts}"
        for workload in lacking
    ]
    if ending:
        texts.append(f"has {one.hosts} hosts, where these end: {', '.join(ending)}")
    return texts


def _keeper(seen: Shown, who: tuple[str, str], workload: Workload) -> str:
    """Say who keeps a barrier: one without a message is kept by the channel."""
    values = seen.values(*who, workload, Measure(workload.in_hardware))
    if not values:
        return ""
    return IN_HARDWARE if max(mean.value for mean in values.values()) == 0 else BY_MESSAGES


def _who_keeps(seen: Shown, one: Contender, workload: Workload) -> str:
    keeper = _keeper(seen, (one.label, seen.rates[0]), workload)
    if keeper == IN_HARDWARE:
        return f"keeps the {workload.title.lower()} in hardware"
    return f"has no {workload.title.lower()} in hardware: messages stand in for it"


def _stand_ins(one: Contender) -> list[str]:
    """Say that a system was given hosts, or a number of them, to be compared."""
    if COMPARE not in one.offers:
        return []
    bare, here = ({p.key: p.value for p in one.described(preset).parameters}
                  for preset in ("+".join(one.own) or None, one.preset(PUBLISHED)))  # fmt: skip
    texts = []
    if any(".host." in key for key in here) and not any(".host." in key for key in bare):
        texts.append("has no hosts in its document: those of its preset `compare` stand in")
    if here["system.hosts"] != bare["system.hosts"]:
        texts.append(f"is run with {here['system.hosts']} hosts instead of {bare['system.hosts']}")
    return texts


def _ways(one: Contender) -> list[str]:
    """Say which channel carries what, where a system has rules for it."""
    rules: dict[str, dict[str, str]] = {}
    for parameter in one.described(one.preset(PUBLISHED)).parameters:
        if parameter.key.startswith("program.route"):
            rule, key = parameter.key.rsplit(".", 1)
            rules.setdefault(rule, {})[key] = parameter.value
    said = [
        f"messages up to {rule['up_to']} by {rule['channel']}"
        if "up_to" in rule
        else f"all others by {rule['channel']}"
        for rule in rules.values()
        if "channel" in rule
    ]
    return ["carries " + ", ".join(said)] if said else []

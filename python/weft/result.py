"""What a run returns: tables, what they mean, and the figures, folder and page made from them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    import pandas as pd

    from weft._core import RawResult
    from weft.figure import Figure
    from weft.system import System


@dataclass(frozen=True)
class Column:
    """What a column of a table holds."""

    table: str
    name: str
    unit: str
    description: str


@dataclass(eq=False, repr=False)
class Result:
    """One run, or all of a system's published experiments (then `runs` holds each of them).

    Attributes:
        tables: the tables by name; the common ones are attributes too (`points`, `checks`, ...).
        columns: unit and meaning of each column.
        meta: title, system, preset, spec_toml, spec_hash, version, seed, stopped, section, ...
        system: the system that was run, or a sentence that says why it cannot be described.
        runs: results of single experiments by name; empty for a single run.

    """

    tables: dict[str, pd.DataFrame]
    columns: tuple[Column, ...]
    meta: dict[str, Any]
    system: System | str
    runs: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def from_core(
        cls, raw: RawResult, describe: Callable[[Mapping[str, Any]], System | str]
    ) -> Result:
        """Build a result from what the core returned."""
        import pandas as pd  # noqa: PLC0415 (half a second)

        meta: dict[str, Any] = json.loads(raw["meta"])
        inner: Any = raw.get("runs") or {}
        return cls(
            tables={name: pd.DataFrame(dict(table)) for name, table in raw["tables"].items()},
            columns=tuple(Column(**entry) for entry in json.loads(raw["columns"])),
            meta=meta,
            system=describe(meta),
            runs={name: cls.from_core(run, describe) for name, run in inner.items()},
        )

    @property
    def title(self) -> str:
        """What was run, in words."""
        return str(self.meta.get("title") or self.meta.get("system") or "Weft")

    @property
    def stopped(self) -> bool:
        """Whether the run was ended before its last point; the tables hold what was finished."""
        return bool(self.meta.get("stopped"))

    @property
    def points(self) -> pd.DataFrame:
        """One row per sweep point and channel: means over replications, with half widths."""
        return self._table("points")

    @property
    def replications(self) -> pd.DataFrame:
        """One row per sweep point, channel and seed."""
        return self._table("replications")

    @property
    def histograms(self) -> pd.DataFrame:
        """Counts per bin of each latency: point, channel, latency, lower_us, upper_us, count."""
        return self._table("histograms")

    @property
    def budget(self) -> pd.DataFrame:
        """Where the time went: mean microseconds per stage of each point and channel."""
        return self._table("budget")

    @property
    def collisions(self) -> pd.DataFrame:
        """Collisions by kind, per point and channel."""
        return self._table("collisions")

    @property
    def checks(self) -> pd.DataFrame:
        """Published against measured, one row a published value; empty for a plain run."""
        return self._table("checks")

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures that the experiment asks for, or those that its tables allow."""
        from weft.plots import figures_of  # noqa: PLC0415

        return figures_of(self)

    def unit_of(self, table: str, name: str) -> str:
        """Return the unit of a column, "" if it has none."""
        return next((c.unit for c in self.columns if (c.table, c.name) == (table, name)), "")

    def save(self, folder: str | os.PathLike[str], *, command: str = "") -> Path:
        """Write the results folder: tables, figures, report.html, spec.toml, provenance.json.

        The folder appears whole or not at all. A results folder that is already there is replaced;
        any other folder that is not empty is refused.

        Args:
            folder: where; created with its parents.
            command: what a person typed to get this, for the provenance record.

        """
        from weft.folder import write  # noqa: PLC0415

        return write(self, Path(folder), command=command)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the self-contained HTML page, which needs no network to be read."""
        from weft.report import page  # noqa: PLC0415

        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(self), encoding="utf-8")
        return target

    def _table(self, name: str) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415

        return self.tables.get(name, pd.DataFrame())

    def _repr_html_(self) -> str:
        shown = self.checks if len(self.checks) else self.points
        return f"<h3>{self.title}</h3>{shown.to_html(index=False)}"

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(table)} rows" for name, table in self.tables.items())
        stopped = ", stopped early" if self.stopped else ""
        return f"<weft.Result {self.title!r} ({sizes}{stopped})>"

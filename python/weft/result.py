"""The result of a run: tables, their meanings, and the figures, folder and page made from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.tables import Tables, columns_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, MutableMapping, Sequence

    import pandas as pd

    from weft._core import RawResult
    from weft._seam import Progress
    from weft.figure import Figure
    from weft.system import System


# Describes what a file or a name stands for: (name, values of each axis of variants or presets) to
# the system and its variants.
Describe = Callable[[str, dict[str, list[str]]], "tuple[System | str, dict[str, System]]"]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

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
        variants: the system under each variant that was run ("architecture B1").
        problems: what of a results folder that was read is damaged or missing, a sentence each.

    """

    tables: MutableMapping[str, pd.DataFrame]
    columns: tuple[Column, ...]
    meta: dict[str, Any]
    system: System | str
    runs: dict[str, Result] = field(default_factory=dict)
    variants: dict[str, System] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @classmethod
    def from_core(cls, raw: RawResult, name: str, describe: Describe) -> Result:
        """Build a result from what the core returned for the file or name `name`."""
        meta: dict[str, Any] = {**json.loads(raw["meta"]), "name": Path(name).stem}
        inner: Any = raw.get("runs") or {}
        tables = Tables(raw["tables"])
        system, variants = describe(name, _named_axes(meta, columns_of(tables, "points")))
        return cls(
            tables=tables,
            columns=tuple(Column(**entry) for entry in json.loads(raw["columns"])),
            meta=meta,
            system=system,
            runs={run: cls.from_core(found, run, describe) for run, found in inner.items()},
            variants=variants,
        )

    @property
    def title(self) -> str:
        """A description of what was run."""
        title = str(self.meta.get("title") or self.meta.get("system") or "Weft")
        name = self.meta.get("name")
        # A file without a title of its own has that of the system beneath it.
        return f"{name}: {title}" if name and title == self.meta.get("system_title") else title

    @property
    def stopped(self) -> bool:
        """Whether the run ended before its last point; the tables have the finished points."""
        return bool(self.meta.get("stopped"))

    @property
    def is_empty(self) -> bool:
        """Whether no point was finished, here or in any of `runs`."""
        own = any(self._rows(name) for name in ("points", "comparison"))
        return not own and all(run.is_empty for run in self.runs.values())

    @property
    def failed(self) -> int:
        """How many points have no result because one of their runs failed."""
        return int(self.meta.get("failed") or 0)

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
        """The latency budget: mean microseconds per stage of each point and channel."""
        return self._table("budget")

    @property
    def trace(self) -> pd.DataFrame:
        """Every recorded transmission: time_us, until_us, kind, initiator, target, content."""
        return self._table("trace")

    @property
    def collisions(self) -> pd.DataFrame:
        """Collisions by kind, per point and channel."""
        return self._table("collisions")

    @property
    def derived(self) -> pd.DataFrame:
        """Quantities that follow from the composition without a run: value, unit, arithmetic."""
        return self._table("derived")

    @property
    def checks(self) -> pd.DataFrame:
        """Published against measured, a row for each place where a number or a statement is held.

        What is printed once has `counted` 1 in one of its rows. Empty for a plain run.
        """
        return self._table("checks")

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many printed numbers and statements came out, each once, by kind and verdict.

        `result.counts["number"]["within"]`; the kinds are "number", "closed form",
        "calibrated", "statement", "computed" and "unprinted", the verdicts "within", "outside",
        "missed", "undecided" and "report".
        """
        from weft.checks import checks_of, counts  # noqa: PLC0415

        return counts(checks_of(self))

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures that the experiment asks for, or those that its tables allow."""
        from weft.plots import figures_of  # noqa: PLC0415

        return figures_of(self)

    def unit_of(self, table: str, name: str) -> str:
        """Return the unit of a column, "" if it has none."""
        return next((c.unit for c in self.columns if (c.table, c.name) == (table, name)), "")

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        command: str = "",
        pictures: bool = True,
        progress: Progress | None = None,
    ) -> Path:
        """Write the results folder: tables, figures, report.html, spec.toml, provenance.json.

        The tables appear whole or not at all, and the figures and the page after them. What Weft
        wrote into the folder before is replaced, and nothing else: a file that somebody added
        stays, and one that somebody changed is kept beside the new one as `NAME.kept.ENDING`.

        Args:
            folder: where; created with its parents.
            command: what a person typed to get this, for the provenance record.
            pictures: whether to draw the figures, and the page that shows them.
            progress: called with the figures that are drawn, all of them, and a label.

        Raises:
            FolderError: the folder cannot be written, holds something else, or is in use.

        """
        from weft.folder import save  # noqa: PLC0415

        save(self, Path(folder), command=command, pictures=pictures, progress=progress)
        return Path(folder)

    def report(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Path:
        """Write the self-contained HTML page, which needs no network to be read.

        Args:
            path: where; its folder is created with its parents.
            progress: as for `save`.

        """
        from weft.place import whole  # noqa: PLC0415
        from weft.progress import Count  # noqa: PLC0415
        from weft.report import page  # noqa: PLC0415

        count = Count(self.pictures, "figures drawn", progress)
        target = Path(path)
        whole(target, page(self, count))
        return target

    def timeline(self, path: str | os.PathLike[str]) -> Path:
        """Write a timeline for Perfetto or chrome://tracing, of the first point and seed.

        It shows what was noted along time: with `run.trace = true` ranks, their messages and the
        transmissions of channels, with `run.sample` throughput and queues.

        Args:
            path: the file, which ends with .json.

        Raises:
            ValueError: nothing was noted along time, or the file has another ending.
            FolderError: the file cannot be written.

        """
        from weft.timeline import save_timeline  # noqa: PLC0415

        return save_timeline(self.tables, path, self.title)

    @property
    def pictures(self) -> int:
        """How many figures there are, those of `runs` among them."""
        return len(self.figures) + sum(run.pictures for run in self.runs.values())

    def _table(self, name: str) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415

        return self.tables.get(name, pd.DataFrame())

    def _rows(self, name: str) -> int:
        return max(map(len, columns_of(self.tables, name).values()), default=0)

    def _repr_html_(self) -> str:
        shown = self.checks if len(self.checks) else self.points
        return f"<h3>{self.title}</h3>{shown.to_html(index=False)}"

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {self._rows(name)} rows" for name in self.tables)
        stopped = ", stopped early" if self.stopped else ""
        return f"<weft.Result {self.title!r} ({sizes}{stopped})>"


def _named_axes(
    meta: Mapping[str, Any], points: Mapping[str, Sequence[Any]]
) -> dict[str, list[str]]:
    """Return the values of each axis of variants or presets, in the order of the file."""
    return {
        axis: list(dict.fromkeys(points[axis]))
        for axis in meta.get("axes") or []
        if "." not in axis and axis in points
    }

"""The verbs: run, reproduce, systems, show, load."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import _seam
from weft.file_schema import of_files
from weft.given import Given, asked_for, name_of
from weft.result import Result
from weft.system import System

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    import pandas as pd

    from weft._core import Asked, RawResult
    from weft._seam import Progress
    from weft.ranks import Ranks


def run(  # noqa: PLR0913 (each is an own choice of the caller)
    path: Given,
    set: Mapping[str, object] | None = None,
    preset: str | None = None,
    seeds: int | None = None,
    *,
    seed: int | None = None,
    length: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run one experiment and return its tables.

    Args:
        path: an experiment file, the name of a shipped experiment, or a dict with the tables and
            keys that such a file would have; files that it names are looked for from the current
            folder.
        set: dotted keys and values that replace those of the file, for example
            `{"channel.bulk.link.rate": "4 Gbit/s", "workload.bulk.load": [0.1, 0.5]}`; a list
            where the file has one value is a sweep.
        preset: a named preset of the system, for example `"literal"`.
        seeds: how many replications, each with its own seed.
        seed: the first seed; the file's (or 1) if not given. Never random.
        length: simulated time of each replication, with its unit: `"40 ms"`.
        workers: runs at the same time; all cores if not given. Results do not depend on it.
        threads: threads of one run of a large fabric, where they make it faster; by default,
            `workers` divided by the number of runs, rounded down, at least one. Results do not
            depend on it, except for a note if a run had one thread although more were requested.
        progress: called with (done, total, label); returning False ends the run early, and the
            result then holds what was finished and says `stopped`.

    Raises:
        WeftError: the file or a setting cannot be used; names the place and what is accepted.

    """
    options = {"seeds": seeds, "seed": seed, "length": length,
               "workers": workers, "threads": threads}  # fmt: skip
    return run_overrides(asked_for(path), preset, spell_overrides(set or {}), options, progress)


def run_overrides(
    asked: Asked,
    preset: str | None,
    overrides: list[str],
    options: Mapping[str, object],
    progress: Progress | None,
    ranks: Ranks | None = None,
) -> Result:
    """Do what `run` does, with overrides as `key=value`, the way the command line has them.

    Where there are ranks, they make each run together, and are gone when the last one is made.
    """
    raw = _seam.run(asked, preset, overrides, _given(options), progress, ranks)
    result = result_of(raw, asked, preset, overrides, options)
    if ranks is not None:
        result.meta["ranks"] = ranks.dismiss()
    return result


def result_of(
    raw: RawResult,
    asked: Asked,
    preset: str | None,
    overrides: list[str],
    options: Mapping[str, object],
) -> Result:
    """Make a result of what the core returned for a request."""
    described = [*overrides, *_as_overrides(options)]
    return Result.from_core(
        raw, name_of(asked), lambda _, axes: _describe(asked, preset, described, axes)
    )


def reproduce(
    name: str,
    *,
    quick: bool = False,
    seeds: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Re-run every published experiment of a system, and compare.

    The result's `checks` has a row for each place where a published number or statement is held
    against a run: quantity, unit, kind, published, statement, measured, half_width, error, band,
    verdict ("within", "outside", "missed" where it is known not to come out, "undecided" where
    fewer runs than the experiment asks for do not tell, or "report" where nothing is claimed).
    `counts` has how many came out, each number and each statement once.
    Its `runs` holds the experiments' own results by name.

    Args:
        name: a shipped system.
        quick: a first look. Experiments that hold nothing against the document are left out; of
            those that ask for more than five seeds a point, three shorter runs are made, and a
            verdict is left undecided where their intervals do not decide it.
        seeds: replications of each point, instead of each experiment's own number.
        workers: threads; all cores if not given. Results do not depend on it.
        progress: as for `run`.

    """
    options = {"quick": quick or None, "seeds": seeds, "workers": workers}
    return reproduce_options(name, options, progress)


def reproduce_options(
    name: str, options: Mapping[str, object], progress: Progress | None
) -> Result:
    """Do what `reproduce` does, with its options as a mapping."""
    raw = _seam.reproduce(name, _given(options), progress)
    described = _as_overrides(options)
    return Result.from_core(
        raw,
        name,
        lambda run, axes: _describe(run, None, [] if run == name else described, axes),
    )


def systems() -> pd.DataFrame:
    """Return the shipped systems: name, title, document, channels, presets."""
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(_seam.systems())


def experiments() -> pd.DataFrame:
    """Return the shipped experiments: name, title, system, section."""
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(_seam.experiments())


def show(
    name: Given,
    preset: str | None = None,
    set: Mapping[str, object] | None = None,
) -> System:
    """Return a system's every parameter with its origin, and its composition.

    Args:
        name: a shipped system or experiment, a file, or a dict with the tables and keys of one.
        preset: a named preset of the system.
        set: dotted keys and values that replace those of the system.

    """
    asked = asked_for(name)
    data = _seam.show(asked, preset, spell_overrides(set or {}))
    return System.from_json(name_of(asked), data)


def schema() -> dict[str, Any]:
    """Return the JSON schema of composition and experiment files, for editors and programs."""
    return of_files(_seam.schema())


def read(folder: str | PathLike[str]) -> Result:
    """Read a results folder back: the same tables, figures and report, without running.

    Of a folder that is damaged what is whole is read; the result's `problems`, and a
    `FolderWarning` for each, say what is not.

    Raises:
        FolderError: there are no results, or nothing of them can be read.

    """
    from weft.folder import read as read_folder  # noqa: PLC0415

    result = read_folder(folder)
    _warn(result.problems)
    return result


def load(folder: str | PathLike[str], table: str = "replications") -> pd.DataFrame:
    """Return a table of a results folder: by default one row per point, channel and replication.

    Units stand in the names of the columns, and for each column in `.attrs["units"]`; what it
    means is in `.attrs["meanings"]`.

    Args:
        folder: a results folder.
        table: "replications", "points" (means over the replications, with half widths), "checks",
            "derived", "budget", "histograms", "collisions" or "trace".

    Raises:
        FolderError: the folder holds no results, or no table of that name that can be read.

    """
    from weft.folder import read_table  # noqa: PLC0415

    found, problems = read_table(folder, table)
    _warn(problems)
    return found


def _warn(problems: Sequence[str]) -> None:
    """Say to the caller's caller what of a folder is damaged."""
    from weft.folder import FolderWarning  # noqa: PLC0415

    for problem in problems:
        warnings.warn(problem, FolderWarning, stacklevel=3)


def spell_overrides(settings: Mapping[str, object]) -> list[str]:
    """Write settings as `key=value` with the value as TOML, which is what the core reads."""
    return [f"{key}={spell_value(value)}" for key, value in settings.items()]


def spell_value(value: object) -> str:
    """Write a value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(k)} = {spell_value(v)}" for k, v in value.items()) + "}"
        )
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return spell_value(value.tolist())
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(spell_value(item) for item in value) + "]"
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"a setting is a number, a text, true or false, or a list of them: {value!r}")


def _given(options: Mapping[str, object]) -> dict[str, object]:
    """Leave out what was not asked for: the file's own setting, or the core's, then holds."""
    return {name: value for name, value in options.items() if value is not None}


def _as_overrides(options: Mapping[str, object]) -> list[str]:
    """Return those options that are settings of the file's [run] as overrides."""
    given = _given(options)
    return spell_overrides({f"run.{key}": given[key] for key in ("seeds", "seed", "length")
                            if key in given})  # fmt: skip


def _describe(
    asked: Asked, preset: str | None, overrides: list[str], axes: Mapping[str, list[str]]
) -> tuple[System | str, dict[str, System]]:
    """Describe the system that a run used, and each variant of it; or say why it cannot be done.

    A finished run is worth more than its picture, so a failure here becomes a sentence in the
    report instead of an exception after the work is done.
    """
    stem = Path(name_of(asked)).stem
    try:
        system = System.from_json(stem, _seam.show(asked, preset, overrides))
        variants = {
            f"{axis} {value}": System.from_json(
                stem,
                _seam.show(asked, preset, [*overrides, *spell_overrides({axis: value})]),
            )
            for axis, values in axes.items()
            for value in values
        }
    except _seam.error_type() as error:
        return str(error), {}
    return system, variants

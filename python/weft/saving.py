"""How commands treat a result: they write it to disk first, then print it, then draw it."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.place import FolderError
from weft.progress import STOPPED, Watch
from weft.timeline import check_timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.drawing import Drawer
    from weft.place import Place
    from weft.result import Result

INPUT_ERROR = 2
INCOMPLETE = 3


@contextmanager
def claimed(out: str | None, name: str, as_json: bool) -> Iterator[Place | None]:
    """Decide where results go, and have that folder for this run alone before the work begins."""
    if out is None and as_json:
        yield None
        return
    from weft.place import claim  # noqa: PLC0415

    with claim(Path(out) if out is not None else Path("out") / name) as place:
        yield place


def noting(timeline: str | None) -> list[str]:
    """Return the overrides that have a run note what its timeline shows."""
    if timeline is None:
        return []
    try:
        check_timeline(timeline)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--timeline") from error
    return ["run.trace=true"]


def _save_timeline(result: Result, timeline: str) -> None:
    try:
        result.timeline(timeline)
    except ValueError as error:
        click.echo(f"{timeline} is not written: {error}", err=True)
        sys.exit(INPUT_ERROR)


def put_out(
    result: Result,
    place: Place | None,
    table: str,
    as_json: bool,
    *,
    pictures: bool = True,
    timeline: str | None = None,
) -> None:
    """Save a result, print the table that was asked for, and say if something of it is missing.

    The tables are on disk and printed before the first picture, and printed if they cannot be
    written: whatever fails then costs no numbers.
    """
    place = spare(result, place)
    lost = keep(result, place)
    if as_json:
        click.echo(dump(_run_object(result, None if lost else place, table)))
    else:
        from weft.console import print_comparison, print_points  # noqa: PLC0415

        (print_comparison if table == "comparison" else print_points)(result)
    if lost:
        click.echo(str(lost), err=True)
        sys.exit(INPUT_ERROR)
    if pictures:
        picture(result, place, as_json)
    elif place is not None and not as_json:
        click.echo(f"\n{place.folder}")
    if timeline is not None and not result.is_empty:
        _save_timeline(result, timeline)
    stop(result)
    if result.failed:
        noun = "point" if result.failed == 1 else "points"
        click.echo(
            f"{result.failed} {noun} failed; all others are as they would be without", err=True
        )
        sys.exit(INCOMPLETE)


def spare(result: Result, place: Place | None) -> Place | None:
    """Let go of a folder whose earlier results a run would replace that was stopped too early."""
    if place is None or not (result.stopped and result.is_empty and place.holds_results):
        return place
    click.echo(f"the earlier results in {place.folder} are kept", err=True)
    return None


def keep(result: Result, place: Place | None) -> FolderError | None:
    """Write what needs no picture; return why it could not be, for when the numbers are printed."""
    from weft.folder import write  # noqa: PLC0415

    if place is not None:
        try:
            write(result, place, shlex.join(["weft", *sys.argv[1:]]))
        except FolderError as error:
            return error
        _remark(place)
    return None


def picture(result: Result, place: Place | None, as_json: bool, *, png: bool = True) -> None:
    """Draw figures and page, and say where the page is."""
    from weft.folder import draw  # noqa: PLC0415

    if place is None:
        return
    try:
        with Watch(ending=None) as watch:
            draw(result, place, watch.step, png=png)
    except KeyboardInterrupt:
        where = place.folder
        click.echo(f"stopped; the tables are kept, and `weft report {where}` draws them", err=True)
        sys.exit(STOPPED)
    _remark(place)
    if not as_json:
        click.echo(f"\n{place.folder / 'report.html'}")


def finish_drawing(drawer: Drawer, index: Path, as_json: bool) -> None:
    """Wait for the pages that are drawn beside the runs, and say where each is."""
    try:
        with Watch(ending=None) as watch:
            for folder, remarks in drawer.finish(watch.step):
                for remark in remarks:
                    click.echo(remark, err=True)
                if not as_json:
                    click.echo(str(folder / "report.html"))
    except KeyboardInterrupt:
        click.echo(
            "the tables are kept, and `weft report DIR` draws a page that is missing", err=True
        )
        raise
    if not as_json:
        click.echo(str(index))


def _remark(place: Place) -> None:
    while place.remarks:
        click.echo(place.remarks.pop(0), err=True)


def stop(result: Result) -> None:
    """Leave with the code of Ctrl-C if a run was stopped."""
    if result.stopped:
        if result.is_empty:
            click.echo("stopped before the first point was finished", err=True)
        else:
            click.echo("stopped; what was finished is kept and marked so", err=True)
        sys.exit(STOPPED)


def _run_object(result: Result, place: Place | None, table: str) -> dict[str, Any]:
    from weft.folder import provenance  # noqa: PLC0415
    from weft.tables import columns_of, records  # noqa: PLC0415

    return {
        **provenance(result, shlex.join(["weft", *sys.argv[1:]])),
        "folder": str(place.folder) if place else None,
        table: records(columns_of(result.tables, table)),
    }


def dump(value: object) -> str:
    """Write JSON for people and programs."""
    return json.dumps(value, indent=2, ensure_ascii=False)

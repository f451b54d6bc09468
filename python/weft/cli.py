"""The command line: `weft systems`, `run`, `reproduce`, `report`, `schema`, `live`.

Tables go to standard output, progress and complaints to standard error; with `--json` standard
output holds JSON alone. Exit codes: 0 done, 1 a published value falls outside its band (only with
`--strict`), 2 the input cannot be used, 130 stopped by Ctrl-C (what was finished is saved).
"""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from weft import _seam
from weft.folder import FolderError
from weft.live import live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.result import Result

INPUT_ERROR = 2
STOPPED = 130

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
_set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the file by its dotted key; a list where one value stood is a sweep.",
)
_preset_option = click.option("--preset", metavar="NAME", help="A named preset of the system.")
_workers_option = click.option(
    "--workers", type=click.IntRange(min=1), help="Threads; all cores if not given."
)
_seeds_option = click.option(
    "--seeds", type=click.IntRange(min=1), help="Replications of each point."
)


def _example(*lines: str) -> str:
    """Set out the examples of a command's help, which click would otherwise fill as text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_example("weft reproduce clint", "weft run clint-table-2-bulk --seeds 5"),
)
@click.version_option(package_name="weft")
def main() -> None:
    """Weft, a laboratory for cluster interconnects.

    Describe a system in a file or take a shipped one, drive it with a workload, and get latency,
    throughput and where the time went, with confidence intervals.
    """


@main.group(
    invoke_without_command=True,
    epilog=_example("weft systems", "weft systems show clint --preset literal"),
)
@_json_option
@click.pass_context
def systems(context: click.Context, as_json: bool) -> None:
    """List what is shipped: systems and their experiments."""
    if context.invoked_subcommand is not None:
        return
    with _complaints(as_json):
        found, tried = _seam.systems(), _seam.experiments()
        if as_json:
            click.echo(_dump({"systems": found, "experiments": tried}))
            return
        from weft.console import print_systems  # noqa: PLC0415

        print_systems(found, tried)


@systems.command(
    epilog=_example(
        "weft systems show clint",
        "weft systems show clint --preset literal --json",
        "weft systems show clint --svg clint.svg",
    )
)
@click.argument("name")
@_preset_option
@_set_option
@click.option("--svg", type=click.Path(dir_okay=False), help="Also draw the composition there.")
@_json_option
def show(
    name: str, preset: str | None, settings: tuple[str, ...], svg: str | None, as_json: bool
) -> None:
    """Show every parameter of a system, with its origin.

    NAME is a shipped system or a composition file.
    """
    from weft.system import System  # noqa: PLC0415

    with _complaints(as_json):
        system = System.from_json(name, _seam.show(name, preset, _checked(settings)))
        if svg:
            Path(svg).write_text(system.picture(), encoding="utf-8")
        if as_json:
            click.echo(_dump({"name": name, **system.to_json()}))
            return
        from weft.console import print_parameters  # noqa: PLC0415

        print_parameters(system)


@main.command(
    epilog=_example(
        "weft run clint-table-2-bulk",
        "weft run my.toml --set channel.bulk.link.rate='4 Gbit/s' --out out/faster",
        "weft run my.toml --set 'workload.bulk.load=[0.1, 0.5]' --seeds 5 --json",
    )
)
@click.argument("experiment", metavar="FILE|NAME")
@_set_option
@_preset_option
@_seeds_option
@click.option("--seed", type=click.IntRange(min=0), help="The first seed; the others follow it.")
@click.option("--length", metavar="TIME", help="Simulated time of a replication: '40 ms'.")
@_workers_option
@click.option("--out", type=click.Path(file_okay=False), help="Results folder [out/NAME].")
@_json_option
def run(  # noqa: PLR0913, PLR0917 (one argument an option)
    experiment: str,
    settings: tuple[str, ...],
    preset: str | None,
    seeds: int | None,
    seed: int | None,
    length: str | None,
    workers: int | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Run one experiment; leave a folder with tables, figures and a page.

    With --json the points are printed and the folder is written only where --out says.
    """
    from weft.api import run_overrides  # noqa: PLC0415

    options = {"seeds": seeds, "seed": seed, "length": length, "workers": workers}
    with _complaints(as_json):
        folder = _folder(out, Path(experiment).stem, as_json)
        overrides = _checked(settings)
        result = _watched(partial(run_overrides, experiment, preset, overrides, options))
        _save(result, folder)
        if as_json:
            click.echo(_dump(_run_object(result, folder)))
        else:
            from weft.console import print_points  # noqa: PLC0415

            print_points(result)
            _say_where(folder)
    _leave(result)


@main.command(
    epilog=_example(
        "weft reproduce clint",
        "weft reproduce --quick",
        "weft reproduce clint --json | jq 'select(.verdict == \"outside\")'",
    )
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Fewer seeds, shorter runs: a first look.")
@_seeds_option
@_workers_option
@click.option("--out", type=click.Path(file_okay=False), help="Results go to DIR/NAME [out].")
@click.option("--strict", is_flag=True, help="Exit with 1 if a value falls outside its band.")
@_json_option
def reproduce(
    names: tuple[str, ...],
    quick: bool,
    seeds: int | None,
    workers: int | None,
    out: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Re-run a system's published experiments and compare; all systems without a NAME.

    With --json: one object a line, with system, experiment, quantity, unit, published, measured,
    interval, error, band, verdict and preset.
    """
    from weft.api import reproduce_options  # noqa: PLC0415
    from weft.checks import checks_of  # noqa: PLC0415

    outside = False
    with _complaints(as_json):
        wanted = names or tuple(dict.fromkeys(e["system"] for e in _seam.experiments()))
        for name in wanted:
            folder = _folder(f"{out}/{name}" if out else None, name, as_json)
            options = {"quick": quick or None, "seeds": seeds, "workers": workers}
            result = _watched(partial(reproduce_options, name, options))
            _save(result, folder)
            checks = checks_of(result)
            outside = outside or any(check.verdict == "outside" for check in checks)
            if as_json:
                for check in checks:
                    click.echo(json.dumps(check.to_json(), ensure_ascii=False, allow_nan=False))
            else:
                from weft.console import print_checks  # noqa: PLC0415

                print_checks(result.title, checks)
                _say_where(folder)
            _leave(result)
    if strict and outside:
        sys.exit(1)


@main.command(epilog=_example("weft report out/clint", "weft report out/clint --out clint.html"))
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--out", type=click.Path(dir_okay=False), help="The page [DIR/report.html].")
@_json_option
def report(folder: str, out: str | None, as_json: bool) -> None:
    """Write the page of a results folder anew: one HTML file that needs no network."""
    from weft.folder import read  # noqa: PLC0415

    with _complaints(as_json):
        target = read(folder).report(Path(out) if out else Path(folder) / "report.html")
        click.echo(_dump({"report": str(target)}) if as_json else str(target))


@main.command(epilog=_example("weft schema > weft.schema.json"))
def schema() -> None:
    """Print the JSON schema of composition and experiment files, for editors that complete keys."""
    with _complaints(as_json=True):
        click.echo(_dump(_seam.schema()))


main.add_command(live)


@contextmanager
def _complaints(as_json: bool) -> Iterator[None]:
    """Say what is wrong with the input as the core says it, and exit with 2."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has left; click ends quietly
        raise
    except (FolderError, OSError) as error:
        _complain(str(error), {"message": str(error)}, as_json)
    except ValueError as error:
        if not isinstance(error, _seam.error_type()):
            raise
        _complain(str(error), _error_object(error), as_json)


def _complain(text: str, described: dict[str, Any], as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps({"error": described}, ensure_ascii=False))
    else:
        click.echo(text, err=True)
    sys.exit(INPUT_ERROR)


def _error_object(error: BaseException) -> dict[str, Any]:
    names = ("file", "line", "column", "key", "value", "accepted", "message")
    return {name: getattr(error, name, None) for name in names}


def _checked(settings: tuple[str, ...]) -> list[str]:
    for entry in settings:
        if "=" not in entry:
            raise click.BadParameter(f"{entry!r} is not KEY=VALUE", param_hint="--set")
    return list(settings)


def _folder(out: str | None, name: str, as_json: bool) -> Path | None:
    """Decide where results go, and refuse a folder that cannot take them before the work."""
    from weft.folder import check_place  # noqa: PLC0415

    if out is None and as_json:
        return None
    folder = Path(out) if out is not None else Path("out") / name
    check_place(folder)
    return folder


def _watched(work: Callable[[_seam.Progress], Result]) -> Result:
    from weft.progress import Watch  # noqa: PLC0415

    with Watch() as watch:
        return work(watch.step)


def _save(result: Result, folder: Path | None) -> None:
    if folder is not None:
        result.save(folder, command=shlex.join(["weft", *sys.argv[1:]]))


def _say_where(folder: Path | None) -> None:
    if folder is not None:
        click.echo(f"\n{folder / 'report.html'}")


def _leave(result: Result) -> None:
    if result.stopped:
        click.echo("stopped; what was finished is kept and marked so", err=True)
        sys.exit(STOPPED)


def _run_object(result: Result, folder: Path | None) -> dict[str, Any]:
    from weft.folder import provenance  # noqa: PLC0415
    from weft.plots.request import records  # noqa: PLC0415

    return {
        **provenance(result, shlex.join(["weft", *sys.argv[1:]])),
        "folder": str(folder) if folder else None,
        "points": records(result.points),
    }


def _dump(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)

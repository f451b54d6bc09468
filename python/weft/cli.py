"""The command line: `weft systems`, `run`, `sweep`, `saturation`, `reproduce`, `report`, ...

Tables go to standard output, progress and complaints to standard error; with `--json` standard
output holds JSON alone. Exit codes: 0 done, 1 a published value falls outside its band (only with
`--strict`), 2 the input cannot be used, or nowhere be written to, 3 a point failed or a results
folder is damaged (all else is there), 130 stopped by Ctrl-C (what was finished is saved).
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft import _seam
from weft.complaints import complaints
from weft.file_schema import of_files
from weft.live import live
from weft.mpi import mpi
from weft.overrides import axes, checked
from weft.place import whole
from weft.progress import Watch
from weft.saving import (
    INCOMPLETE,
    claimed,
    dump,
    keep,
    noting,
    picture,
    put_out,
    spare,
    stop,
)
from weft.topology import fabric_settings, traffic_settings
from weft.trace import trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.result import Result

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
    "--workers",
    type=click.IntRange(min=1),
    help="Runs at the same time; all cores if not given.",
)
_threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Threads for one run of a large fabric; by default, --workers divided by the number of "
    "runs.",
)
_seeds_option = click.option(
    "--seeds", type=click.IntRange(min=1), help="Replications of each point."
)
_pictures_option = click.option(
    "--no-pictures",
    is_flag=True,
    help="Skip figures and page, the slowest part of a short run; `weft report DIR` draws them.",
)
_timeline_option = click.option(
    "--timeline",
    type=click.Path(dir_okay=False),
    help="Record events over time, and write them for Perfetto or chrome://tracing: .json.",
)
_store_option = click.option(
    "--store",
    type=click.Path(file_okay=False),
    help="The store of finished runs, which are reused [the folder `store` beside --out].",
)


def _example(*lines: str) -> str:
    """Set out the examples of a command's help, which click would otherwise fill as text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_example("weft reproduce clint", "weft run clint-table-2-bulk --seeds 5"),
)
@click.version_option(package_name="weft")
@click.pass_context
def main(context: click.Context) -> None:
    """Weft, a laboratory for cluster interconnects.

    Describe a system in a file or take a shipped one, drive it with a workload, and get latency,
    throughput and where the time went, with confidence intervals.
    """
    from weft.ranks import refuse_copies  # noqa: PLC0415

    refuse_copies(context.invoked_subcommand)


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
    with complaints(as_json):
        found, tried = _seam.systems(), _seam.experiments()
        if as_json:
            click.echo(dump({"systems": found, "experiments": tried}))
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

    with complaints(as_json):
        system = System.from_json(name, _seam.show(name, preset, checked(settings)))
        if svg:
            whole(Path(svg), system.picture())
        if as_json:
            click.echo(dump({"name": name, **system.to_json()}))
            return
        from weft.console import print_parameters  # noqa: PLC0415

        print_parameters(system)


@main.command(
    epilog=_example(
        "weft run clint-table-2-bulk",
        "weft run my.toml --set channel.bulk.link.rate='4 Gbit/s' --out out/faster",
        "weft run my.toml --set 'workload.bulk.load=[0.1, 0.5]' --seeds 5 --json",
        "weft run maestro-figure-7 --timeline frames.json",
        "weft run my.toml --topology fat_tree_1024.topo --traffic permutation.cm",
        "mpirun -n 4 weft run large.toml",
    )
)
@click.argument("experiment", metavar="FILE|NAME")
@_set_option
@_preset_option
@_seeds_option
@click.option("--seed", type=click.IntRange(min=0), help="The first seed; the others follow it.")
@click.option("--length", metavar="TIME", help="Simulated time of a replication: '40 ms'.")
@_workers_option
@_threads_option
@click.option("--out", type=click.Path(), help="Results folder [out/NAME].")
@_timeline_option
@click.option(
    "--topology",
    type=click.Path(dir_okay=False),
    help="Fabric and hosts in place of the channel's: htsim's .topo, or HPCC's topology.txt.",
)
@click.option(
    "--traffic",
    type=click.Path(dir_okay=False),
    help="Flows or a trace as the program: .cm of htsim, .goal, Chakra's .et, HPCC's flow.txt.",
)
@_pictures_option
@_json_option
def run(  # noqa: PLR0913, PLR0917 (one argument an option)
    experiment: str,
    settings: tuple[str, ...],
    preset: str | None,
    seeds: int | None,
    seed: int | None,
    length: str | None,
    workers: int | None,
    threads: int | None,
    out: str | None,
    timeline: str | None,
    topology: str | None,
    traffic: str | None,
    no_pictures: bool,
    as_json: bool,
) -> None:
    """Run one experiment, and write a folder with tables, figures and a page.

    --json prints the points, and writes a folder only if --out names one.

    `mpirun -n N weft run ...` divides each run among N processes (docs/howto/cluster.md).
    """
    from weft.api import run_overrides  # noqa: PLC0415
    from weft.ranks import joined  # noqa: PLC0415

    options = {"seeds": seeds, "seed": seed, "length": length,
               "workers": workers, "threads": threads}  # fmt: skip
    alone = {"--workers": workers, "--threads": threads}
    with (
        complaints(as_json),
        joined(alone) as ranks,
        claimed(out, Path(experiment).stem, as_json) as place,
    ):
        overrides = [*checked(settings), *noting(timeline)]
        if topology is not None:
            overrides += fabric_settings(topology, experiment, preset, None)
        if traffic is not None:
            overrides += traffic_settings(traffic, topology)
        if ranks is None:
            _announce([(experiment, preset, overrides, options)])
        work = partial(run_overrides, experiment, preset, overrides, options, ranks=ranks)
        result = _watched(work, is_told=ranks is not None)
        put_out(result, place, "points", as_json, pictures=not no_pictures, timeline=timeline)


def _study_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that every study of many points has."""
    options = [
        click.argument("experiment", metavar="FILE|NAME"),
        click.option(
            "--over",
            multiple=True,
            metavar="KEY=LIST",
            help="Values of a dotted key; every combination with the others is a point.",
        ),
        _set_option,
        _preset_option,
        click.option(
            "--seeds", type=click.IntRange(min=1), help="How many runs each point has, at least."
        ),
        click.option("--length", metavar="TIME", help="Simulated time of a run: '40 ms'."),
        _workers_option,
        click.option(
            "--dask",
            metavar="ADDRESS",
            help="Make the runs on a Dask cluster: its scheduler's address, or 'local'.",
        ),
        click.option("--chunk", type=click.IntRange(min=1), help="Runs in one call of a worker."),
        _store_option,
        click.option("--out", type=click.Path(), help="Results folder [out/NAME]."),
        _pictures_option,
        _json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@main.command(
    epilog=_example(
        "weft sweep clint-figure-8 --seeds 20",
        "weft sweep my.toml --over 'workload.bulk.load=[0.1, 0.5]' --precision 0.02",
        "weft sweep my.toml --paired 'system.hosts=[8, 16]' --paired 'run.seeds=[9, 4]'",
        "weft sweep my.toml --dask tcp://login-node:8786",
    )
)
@_study_options
@click.option(
    "--paired",
    multiple=True,
    metavar="KEY=LIST",
    help="Values of a dotted key that advance together with those of the other --paired.",
)
@click.option("--seed", type=click.IntRange(min=0), help="The first seed; the others follow it.")
@click.option(
    "--precision",
    type=click.FloatRange(min=0, max=1, min_open=True),
    help="Add runs until the half width of the mean queueing latency is this share of it.",
)
def sweep(
    experiment: str,
    over: tuple[str, ...],
    paired: tuple[str, ...],
    settings: tuple[str, ...],
    preset: str | None,
    seed: int | None,
    precision: float | None,
    **options: Any,
) -> None:
    """Run the missing points of a study; after an interruption the same command resumes.

    Each run is stored under the hash of its point, seed and version as soon as it is finished, so
    nothing is lost if the sweep is killed, and more values or seeds add only the new runs. After
    Ctrl-C the results contain the finished points.
    """
    overrides = [*axes(over, paired), *checked(settings)]
    if precision is not None:
        overrides.append(f"run.precision.relative={precision!r}")
    _carry_out(experiment, preset, overrides, {"seed": seed}, options)


@main.command(
    epilog=_example(
        "weft saturation my.toml",
        "weft saturation clint-figure-8 --set traffic=single --channel bulk --width 0.005",
        "weft saturation my.toml --between 0.4 0.9 --seeds 5 --length '20 ms'",
    )
)
@_study_options
@click.option("--channel", help="The channel whose load varies; optional if only one has a load.")
@click.option(
    "--between",
    nargs=2,
    type=float,
    default=(0.05, 1.0),
    show_default=True,
    help="The smallest and the largest load to try.",
)
@click.option(
    "--width", type=float, default=0.01, show_default=True, help="The final interval of loads."
)
def saturation(
    experiment: str,
    over: tuple[str, ...],
    settings: tuple[str, ...],
    preset: str | None,
    channel: str | None,
    between: tuple[float, float],
    width: float,
    **options: Any,
) -> None:
    """Find the load at which each point of a study saturates, by bisection.

    Near saturation a run of a given length is neither settled nor certainly saturated. The result
    is the largest load that settled and the smallest that was saturated, and saturation lies
    between them.
    """
    asked = {"channel": channel, "between": list(between), "width": width}
    overrides = [*axes(over, ()), *checked(settings)]
    _carry_out(experiment, preset, overrides, {"saturation": asked}, options, kind="saturation")


@main.command(
    epilog=_example(
        "weft reproduce clint",
        "weft reproduce --quick",
        "weft reproduce clint --json | jq 'select(.verdict == \"outside\")'",
    )
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--quick",
    is_flag=True,
    help="A first look: only what is compared with the document, with three seeds a point where "
    "more than five are requested; figures as SVG only.",
)
@click.option(
    "--full", multiple=True, metavar="NAME", help="Run this one in full, the others with --quick."
)
@_seeds_option
@_workers_option
@click.option("--out", type=click.Path(), help="Results go to DIR/NAME [out].")
@click.option("--strict", is_flag=True, help="Exit with 1 if a value falls outside its band.")
@_json_option
def reproduce(
    names: tuple[str, ...],
    quick: bool,
    full: tuple[str, ...],
    seeds: int | None,
    workers: int | None,
    out: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Re-run a system's published experiments and compare; all systems without a NAME.

    Several systems also leave DIR/index.html, which leads to the report of each.

    With --json: one object a line, with system, experiment, quantity, unit, kind, published,
    statement, measured, interval, error, band, verdict, counted and preset.
    """
    from weft.api import reproduce_options  # noqa: PLC0415
    from weft.checks import checks_of  # noqa: PLC0415
    from weft.drawing import Drawer  # noqa: PLC0415
    from weft.pilot import announce_reproduction  # noqa: PLC0415
    from weft.report.index import INDEX, Entry, write_index  # noqa: PLC0415
    from weft.saving import finish_drawing  # noqa: PLC0415

    outside, incomplete, entries = False, False, list[Entry]()
    with complaints(as_json), Drawer() as drawer:
        wanted = names or tuple(dict.fromkeys(e["system"] for e in _seam.experiments()))
        if unknown := [name for name in full if name not in wanted]:
            among = ", ".join(wanted)
            raise click.BadParameter(
                f"{unknown[0]} is not among what is reproduced; accepted: {among}",
                param_hint="--full",
            )
        for name in wanted:
            given = {
                "quick": (quick and name not in full) or None,
                "seeds": seeds,
                "workers": workers,
            }
            with claimed(f"{out}/{name}" if out else None, name, as_json) as held:
                announce_reproduction(name, given)
                result = _watched(partial(reproduce_options, name, given))
                place = spare(result, held)
                lost = keep(result, place)
                checks = checks_of(result)
                outside = outside or any(check.verdict == "outside" for check in checks)
                incomplete = incomplete or result.failed > 0
                if as_json:
                    for check in checks:
                        click.echo(json.dumps(check.to_json(), ensure_ascii=False, allow_nan=False))
                else:
                    from weft.console import print_checks  # noqa: PLC0415

                    print_checks(result.title, checks)
                if lost:
                    raise lost
                png = not given["quick"]  # it takes twice as long as all else of a figure
                if len(wanted) == 1:
                    picture(result, place, as_json, png=png)
            if place is not None and len(wanted) > 1:
                drawer.add(place.folder, png=png)
                entries.append(Entry.of(place.folder, result))
                for remark in write_index(entries, place.folder.parent):
                    click.echo(remark, err=True)
            if result.stopped:
                break
        if entries:
            finish_drawing(drawer, entries[0].folder.parent / INDEX, as_json)
        stop(result)
    if incomplete or (strict and outside):
        sys.exit(INCOMPLETE if incomplete else 1)


@main.command(
    epilog=_example(
        "weft compare clint maestro clan scilan memory-channel-2",
        "weft compare clint my.toml --rates published --quick",
        "weft compare scilan scilan+interrupt --workload ping_pong",
    )
)
@click.argument("systems", nargs=-1, metavar="[SYSTEM]...")
@click.option(
    "--rates",
    default="both",
    show_default=True,
    metavar="published|today|both",
    help="As their documents have them, or with links and hosts of today.",
)
@click.option(
    "--workload", "workloads", multiple=True, metavar="NAME", help="Only this one; may be repeated."
)
@click.option(
    "--programs",
    type=click.Path(dir_okay=False),
    help="A file of workloads in place of the shipped one.",
)
@click.option("--quick", is_flag=True, help="Fewer sizes and one seed: a first look.")
@_seeds_option
@_workers_option
@_store_option
@click.option("--out", type=click.Path(), help="Results folder [out/compare].")
@_json_option
def compare(systems: tuple[str, ...], out: str | None, as_json: bool, **options: Any) -> None:
    """Run the same programs on several systems, and write one page with one table.

    Ping-pong, stream, ping-ping, hot spot, all-to-all and barrier on each SYSTEM, a shipped one or
    a composition file, with presets behind + if wanted; without a SYSTEM on the five of the
    documents and four of today. What was run is kept, so a comparison that was stopped goes on
    where it was.
    """
    from weft.across.study import Asked, carry_out  # noqa: PLC0415
    from weft.sweep import STORE  # noqa: PLC0415

    with complaints(as_json), claimed(out, "compare", as_json) as place:
        kept = options.pop("store") or (str(place.folder.parent / "store") if place else STORE)
        result = _watched(partial(carry_out, Asked(systems, store=kept, **options)))
        put_out(result, place, "comparison", as_json)


@main.command(
    epilog=_example(
        "weft report out/clint",
        "weft report out/clint --out clint.html",
        "weft report out/fifo out/voq --out fifo-voq.html",
    )
)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True)
@click.option(
    "--out",
    type=click.Path(dir_okay=False),
    help="The page [DIR/report.html; of several folders, comparison.html].",
)
@_json_option
def report(folders: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Redraw the page and figures of a results folder, or write one page that compares several.

    The page is one HTML file that needs no network. Of a folder that is damaged it shows what is
    whole, and says what is not.
    """
    from weft.folder import of_what_is_whole, read, redraw  # noqa: PLC0415

    with complaints(as_json):
        with Watch(ending=None) as watch:
            if len(folders) == 1 and out is None:
                result, remarks = redraw(Path(folders[0]), watch.step)
                target = Path(folders[0]) / "report.html"
            else:
                from weft.comparison import side_by_side  # noqa: PLC0415

                target, remarks = Path(out or "comparison.html"), []
                result = of_what_is_whole(
                    lambda only_whole: (
                        side_by_side(folders, only_whole=only_whole)
                        if len(folders) > 1
                        else read(folders[0], only_whole=only_whole)
                    ),
                    lambda result: result.report(target, progress=watch.step),
                )
        for remark in [*remarks, *result.problems]:
            click.echo(remark, err=True)
        told = {"report": str(target), **({"problems": result.problems} if result.problems else {})}
        click.echo(dump(told) if as_json else str(target))
        if result.problems:
            sys.exit(INCOMPLETE)


@main.command(epilog=_example("weft schema > weft.schema.json", "weft schema --markdown"))
@click.option("--markdown", is_flag=True, help="Print the reference of every key, for people.")
def schema(markdown: bool) -> None:
    """Print the JSON schema of composition and experiment files, for editors that complete keys."""
    with complaints(as_json=True):
        if markdown:
            from weft.reference import keys_page  # noqa: PLC0415

            click.echo(keys_page(_seam.schema()), nl=False)
        else:
            click.echo(dump(of_files(_seam.schema())))


main.add_command(live)
main.add_command(mpi)
main.add_command(trace)


def _carry_out(
    experiment: str,
    preset: str | None,
    overrides: list[str],
    more: dict[str, object],
    given: dict[str, Any],
    kind: str = "",
) -> None:
    """Do what `sweep` and `saturation` do once their request is read."""
    from weft.sweep import STORE, Study, Where, carry_out  # noqa: PLC0415

    as_json = given["as_json"]
    name = "-".join(part for part in (Path(experiment).stem, kind) if part)
    with complaints(as_json), claimed(given["out"], name, as_json) as place:
        store = given["store"] or (str(place.folder.parent / "store") if place else STORE)
        options = {"seeds": given["seeds"], "length": given["length"], "store": store, **more}
        study = Study(experiment, preset, overrides, options)
        where = Where(given["workers"], given["dask"], given["chunk"])
        if where.executor is None:
            here = {**options, "workers": given["workers"]}
            _announce([(experiment, preset, overrides, here)])
        result = _watched(partial(carry_out, study, where))
        put_out(result, place, "points", as_json, pictures=not given["no_pictures"])


def _announce(studies: list[tuple[str, str | None, list[str], dict[str, Any]]]) -> None:
    """Say beforehand how long studies will take, if that is long."""
    from weft.pilot import announce, of_study, together  # noqa: PLC0415

    announce(together([of_study(*study) for study in studies]))


def _watched(work: Callable[..., Result], *, is_told: bool = False) -> Result:
    with Watch(is_told=is_told) as watch:
        return work(progress=watch.step)


def command() -> None:
    """Run the command line, which the script `weft` leaves to Python, under that name."""
    main(prog_name="weft")

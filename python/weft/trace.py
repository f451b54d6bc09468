"""`weft trace`: run a recorded program, or write one of a collective operation."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from weft import _seam
from weft.place import whole
from weft.progress import STOPPED, Watch
from weft.recorded import COLLECTIVES, TraceFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from weft.program import ProgramResult


@click.group(
    epilog="\b\nExamples:\n"
    "  weft trace generate barrier --ranks 16 --out barrier.goal\n"
    "  weft trace run barrier.goal --system clint --channel quick --picture barrier.svg",
)
def trace() -> None:
    """Run recorded programs on any system, and generate traces of collectives."""


@trace.command(
    epilog="\b\nExamples:\n"
    "  weft trace generate allreduce_ring --ranks 8 --size '64 kB' --out ring.goal\n"
    "  weft trace generate gather_v --ranks 3 --size '1 kB,2 kB,0 B'",
)
@click.argument("collective", metavar="COLLECTIVE", type=click.Choice(COLLECTIVES))
@click.option("--ranks", type=click.IntRange(min=2, max=65535), required=True)
@click.option(
    "--size",
    default="0 B",
    metavar="SIZE[,SIZE...]",
    help="Bytes of each rank: '64 kB'. For the _v operations and reduce_scatter_ring also one per "
    "rank: '1 kB,2 kB,0 B'.",
)
@click.option(
    "--root",
    type=click.IntRange(min=0),
    default=0,
    help="The rank that has the data, or gets it.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=1, help="How many times.")
@click.option("--out", type=click.Path(dir_okay=False), help="The file; standard output if absent.")
def generate(
    collective: str, ranks: int, size: str, root: int, rounds: int, out: str | None
) -> None:
    """Write a collective operation as a GOAL trace.

    COLLECTIVE names the operation and its algorithm: barrier, broadcast, reduce, allreduce_ring,
    allreduce_recursive_doubling, all_to_all, gather, gather_v, scatter, scatter_v, allgather_ring,
    allgather_v, allgather_bruck, reduce_scatter_ring or reduce_scatter_halving.
    """
    from weft.recorded import generate_trace  # noqa: PLC0415

    with _complaints():
        sizes = [one.strip() for one in size.split(",")]
        text = generate_trace(
            collective, ranks, sizes if len(sizes) > 1 else size, rounds, root=root
        )
        if out is None:
            click.echo(text, nl=False)
        else:
            whole(Path(out), text)


@trace.command(
    epilog="\b\nExamples:\n"
    "  weft trace run barrier.goal --system clint --channel quick --timeline barrier.json\n"
    "  weft trace run app.trace --speed 1e9 --system my.toml --placement 3,1,2 --json\n"
    "  weft trace run permutation.cm --system my.toml\n"
    "  weft trace run llama.0.et --system my.toml --peak 1e15 --memory '26 Tbit/s'\n"
    "  weft trace run flow.txt --format hpcc --topology topology.txt --system my.toml\n"
    "  weft trace run app.goal --system my.toml --ranks-per-host 4 --placement cyclic",
)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--system", required=True, metavar="NAME|FILE", help="What it runs on.")
@click.option("--channel", metavar="NAME", help="The channel of all messages.")
@click.option(
    "--route",
    multiple=True,
    metavar="[CONDITION,...:]CHANNEL",
    help="A rule, in order: 'up_to=32 B:quick', then 'bulk'. The first that matches applies.",
)
@click.option(
    "--placement",
    default="block",
    metavar="block|cyclic|random|HOST,...",
    help="Which host each rank runs on.",
)
@click.option(
    "--ranks-per-host",
    type=click.IntRange(min=1),
    help="How many ranks a host has at most: 1 if absent. Several need --set system.memory.",
)
@click.option("--preset", metavar="NAME", help="A named preset of the system.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Replace a value.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(get_args(TraceFormat)),
    help="Format of FILE [by its ending (.cm: htsim, .et: chakra), simgrid with --speed, "
    "else goal].",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    help="Instructions a second: FILE is a time-independent trace of SimGrid.",
)
@click.option(
    "--topology",
    type=click.Path(dir_okay=False),
    help="Fabric and hosts in place of the channel's: htsim's .topo, or HPCC's topology.txt.",
)
@click.option(
    "--groups",
    type=click.Path(dir_okay=False),
    help="Process groups that no node of a Chakra trace describes: a JSON file of ASTRA-sim's.",
)
@click.option(
    "--peak",
    type=click.FloatRange(min=0, min_open=True),
    help="Operations a second of an accelerator, for nodes of Chakra without a duration.",
)
@click.option("--memory", metavar="RATE", help="The rate of its memory, for the same: '8 Tbit/s'.")
@click.option("--seed", type=click.IntRange(min=0), default=1, help="The seed of random numbers.")
@click.option("--picture", type=click.Path(dir_okay=False), help="Space-time: .svg, .png, .json.")
@click.option(
    "--timeline",
    type=click.Path(dir_okay=False),
    help="What each rank did and its messages, for Perfetto or chrome://tracing: .json.",
)
@click.option("--out", type=click.Path(file_okay=False), help="A folder for the tables as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def run(  # noqa: PLR0913, PLR0917 (one argument an option)
    file: str,
    system: str,
    channel: str | None,
    route: tuple[str, ...],
    placement: str,
    ranks_per_host: int | None,
    preset: str | None,
    settings: tuple[str, ...],
    kind: TraceFormat | None,
    speed: float | None,
    topology: str | None,
    groups: str | None,
    peak: float | None,
    memory: str | None,
    seed: int,
    picture: str | None,
    timeline: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Run a recorded program or a list of flows, and show where each rank's time went.

    FILE is a GOAL trace, a time-independent trace of SimGrid, a connection matrix of htsim, a list
    of flows of HPCC's simulator, or a Chakra execution trace: NAME of NAME.0.et, NAME.1.et, ...
    """
    from weft.figure import check_ending  # noqa: PLC0415
    from weft.recorded import trace_kind, trace_of_overrides  # noqa: PLC0415
    from weft.timeline import check_timeline  # noqa: PLC0415
    from weft.topology import fabric_settings  # noqa: PLC0415

    title = f"{Path(file).name} on {Path(system).stem}"
    of_chakra = {"groups": groups, "peak": peak, "memory": memory}
    with _complaints(), Watch("the run, of which nothing is kept") as watch:
        if picture is not None:
            check_ending(picture)
        if timeline is not None:
            check_timeline(timeline)
        fabric = [] if topology is None else fabric_settings(topology, system, preset, channel)
        try:
            result = trace_of_overrides(
                trace_kind(file, kind, speed, topology, of_chakra),
                (system, preset, [*settings, *fabric], seed),
                channel,
                (rules(route), _places(placement), ranks_per_host),
                watch.step,
            )
        except _seam.error_type() as error:
            if not watch.is_stopped:
                raise
            click.echo(str(error), err=True)
            sys.exit(STOPPED)
    if picture is not None:
        result.figure(title).save(picture)
    if timeline is not None:
        with _complaints():
            result.timeline(timeline, title)
    if out is not None:
        tables = {
            "ranks": result.ranks, "waits": result.waits,
            "intervals": result.intervals, "messages": result.messages,
        }  # fmt: skip
        if len(result.fast_forward):
            tables["fast_forward"] = result.fast_forward
        _write(Path(out), tables)
    _show(result, as_json=as_json)


def _show(result: ProgramResult, *, as_json: bool) -> None:
    left_out = result.fast_forward.to_dict("records")
    if as_json:
        ranks = result.ranks.to_dict("records")
        shown = {"time_us": result.time_us, "completion": result.completion, "ranks": ranks}
        if result.shorter_messages:
            shown["shorter_messages"] = result.shorter_messages
        if left_out:
            shown["fast_forward"] = left_out
        click.echo(json.dumps(shown, indent=2))
        return
    click.echo(f"application time {result.time_us:.6g} µs, {len(result.messages)} messages")
    if completion := result.completion:
        told = [f"{name.removesuffix('_us')} {value:.6g} µs" for name, value in completion.items()]
        click.echo("completion of messages: " + ", ".join(told))
    if result.shorter_messages:
        click.echo(f"{result.shorter_messages} are shorter than their receives ask for")
    for own in left_out:
        what = f"{own['periods']:.0f} periods, {own['packets']:.0f} packets"
        if own["forbidden"]:
            what = f"nothing, because of {own['forbidden']}"
        click.echo(f"fast-forward on {own['channel']} left out {what}")
    click.echo(result.ranks.to_string(index=False, float_format=lambda value: f"{value:.4g}"))


def rules(route: tuple[str, ...]) -> list[dict[str, object]]:
    """Read rules as the option has them."""
    rules = []
    for text in route:
        conditions, _, channel = text.rpartition(":")
        rule: dict[str, object] = {"channel": channel}
        for condition in filter(None, conditions.split(",")):
            key, given, value = condition.partition("=")
            if not given or key not in {"up_to", "kind", "nic"}:
                raise click.BadParameter(
                    f"{condition!r} is none of up_to=SIZE, kind=KIND, nic=NUMBER",
                    param_hint="--route",
                )
            rule[key] = int(value) if key == "nic" else value
        rules.append(rule)
    return rules


def _places(text: str) -> str | list[int]:
    """Read a placement as the option has it."""
    if text in {"block", "cyclic", "random", "linear"}:
        return text
    hosts = text.split(",")
    if not all(host.strip().isdecimal() for host in hosts):
        raise click.BadParameter(
            f"{text!r} is neither block, nor cyclic, nor random, nor hosts such as 3,1,2",
            param_hint="--placement",
        )
    return [int(host) for host in hosts]


def _write(folder: Path, tables: dict[str, pd.DataFrame]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)


@contextmanager
def _complaints() -> Iterator[None]:
    """Say what is wrong with the input as the core says it, and exit with 2."""
    try:
        yield
    except (_seam.error_type(), ValueError, OSError) as error:
        click.echo(str(error), err=True)
        sys.exit(2)

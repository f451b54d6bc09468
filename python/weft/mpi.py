"""`weft mpi`: run MPI programs with their messages over shared memory.

The work is done by a provider of libfabric (`crates/messages`), which Open MPI loads; this module
says so to Open MPI, and shows what the provider has carried.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from weft import mpi_figures, mpi_launcher, mpi_record
from weft.live_figures import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weft.mpi_as import System

NOT_FOUND = 127
# As a shell says it of what was killed.
ENDED = 128 + signal.SIGKILL

# The provider's file: libfabric takes every file of a directory that ends so.
PROVIDER = "libweft-fi.so"
# The directory in which the processes meet, as crates/messages/src/rendezvous.rs reads it.
DIRECTORY = "WEFT_MESSAGES_DIRECTORY"
_LONGEST_DIRECTORY = 71
# The directory in which each rank writes down what it does (crates/messages/src/fi/record.rs).
RECORD = "WEFT_MESSAGES_RECORD"
# The table of what messages cost on another interconnect (crates/protocol/src/emulation.rs).
AS = "WEFT_MESSAGES_AS"
# What makes Open MPI choose the provider, and shared memory for windows that it allocates, where
# it would choose a part that crashes in a compare and swap (4.1.4).
CHOICES: Mapping[str, str] = {
    "pml": "cm",
    "mtl": "ofi",
    "opal_common_ofi_provider_include": "weft",
    "osc_rdma_priority": "90",
}
# Where Open MPI keeps shared memory of windows, which would else be in /dev/shm after a crash.
BACKING = (
    "osc_sm_backing_directory",
    "osc_rdma_backing_directory",
    "btl_vader_backing_directory",
)
# What starts the processes of a program.
LAUNCHERS = ("mpirun", "mpiexec", "orterun", "mpirun.openmpi", "mpiexec.openmpi")
_PACKAGES = "Debian's packages are openmpi-bin and libfabric1"


class MpiError(Exception):
    """Why a program cannot be run."""


class PingPongError(Exception):
    """Why it is not known what this host's software takes."""


def provider() -> Path:
    """Find the provider: `WEFT_MESSAGES_PROVIDER`, or beside this module.

    Raises:
        MpiError: If it is not there.

    """
    named = os.environ.get("WEFT_MESSAGES_PROVIDER")
    path = Path(named) if named else Path(__file__).parent / "providers" / PROVIDER
    if not path.is_file():
        raise MpiError(f"no provider at {path}; it is built for Linux on 64-bit machines")
    if path.name != PROVIDER:
        raise MpiError(f"{path}: libfabric loads a provider only by the name {PROVIDER}")
    return path.resolve()


def _is_absolute(value: str) -> bool:
    return value.startswith("/")


def _is_directory(value: str) -> bool:
    return value.startswith("/") and len(os.fsencode(value)) <= _LONGEST_DIRECTORY


# Each variable that the provider reads: whether it takes a value, and what it takes.
SETTINGS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    DIRECTORY: (_is_directory, f"a directory's absolute path of {_LONGEST_DIRECTORY} letters"),
    "WEFT_MESSAGES_FETCH": (("on", "off").__contains__, "on or off"),
    "WEFT_MESSAGES_ONE_HOST": (("on", "off").__contains__, "on or off"),
    "WEFT_MESSAGES_PROVIDER": (lambda _: True, "the provider's path"),
    RECORD: (_is_absolute, "a directory's absolute path"),
    AS: (_is_absolute, "the absolute path of a table of costs"),
}


def check_settings() -> None:
    """Look at the variables that set the provider, which ignores what it cannot take.

    Raises:
        MpiError: If one has another value than it takes, or is none of the provider's.

    """
    for name in sorted(name for name in os.environ if name.startswith("WEFT_MESSAGES")):
        value = os.environ[name]
        if name not in SETTINGS:
            raise MpiError(f"{name}={value}: no such setting; there are {', '.join(SETTINGS)}")
        takes, what = SETTINGS[name]
        if not takes(value):
            raise MpiError(f"{name}={value}: it takes {what}")


@dataclass(frozen=True)
class OpenMpi:
    """The MPI that would run a program."""

    version: str


def _output(*words: str) -> str:
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout


def open_mpi(launcher: str) -> OpenMpi:
    """Look at the MPI of a launcher, or at the one on the path.

    Raises:
        MpiError: If there is none, it is another than Open MPI, or it knows no libfabric.

    """
    found = shutil.which(launcher)
    if found is None:
        raise MpiError(f"there is no {launcher} on the path; {_PACKAGES}")
    said = _output(found, "--version")
    version = re.search(r"\(Open(?:RTE| MPI)\) (\S+)", said)
    if version is None:
        first = said.strip().splitlines()[:1] or ["nothing"]
        raise MpiError(f"{found} is not Open MPI's: it says {first[0]!r}; {_PACKAGES}")
    beside = Path(found).with_name("ompi_info")
    info = str(beside) if beside.exists() else "ompi_info"
    parts = _output(info, "--parsable")
    if parts and "mca:mtl:ofi:" not in parts:
        raise MpiError(f"{found} was built without libfabric (its part 'mtl ofi'); {_PACKAGES}")
    return OpenMpi(version[1])


def environment(path: Path, directory: Path, is_launched: bool) -> dict[str, str]:
    """Return the environment in which Open MPI loads the provider and no other."""
    others = os.environ.get("FI_PROVIDER_PATH", "")
    paths = [str(path.parent), *(it for it in others.split(":") if it and it != str(path.parent))]
    variables = {
        # What the user has chosen for these is kept.
        **{f"OMPI_MCA_{name}": str(directory) for name in BACKING},
        **os.environ,
        "FI_PROVIDER_PATH": ":".join(paths),
        DIRECTORY: str(directory),
        **{f"OMPI_MCA_{name}": value for name, value in CHOICES.items()},
    }
    if not is_launched:
        variables.setdefault("WEFT_MESSAGES_ONE_HOST", "on")
    return variables


def run(command: tuple[str, ...], record: Path | None = None, system: System | None = None) -> int:
    """Run a launcher, or a program alone, with its messages carried; its exit status.

    Args:
        command: What to run.
        record: Where to write a GOAL trace of what the program did.
        system: Messages take as long as they would on this interconnect.

    Raises:
        MpiError: If nothing would be carried, no trace can be made, or no such system simulated.

    """
    if system is None:
        return _recorded(command, record, {})
    found, is_launched, _ = _look(command)
    launcher = command[0] if is_launched else "mpirun"
    with tempfile.TemporaryDirectory(prefix="weft-mpi-as-") as folder:
        path = Path(folder) / "costs"
        _emulate(system, path, lambda rounds: _one_way_ns(found, launcher, path, rounds))
        return _recorded(command, record, {AS: str(path)})


def _emulate(system: System, path: Path, one_way_ns: Callable[[int], int]) -> None:
    """Write the table of what messages cost on a system, less what this host's software takes."""
    from weft import _seam, mpi_as  # noqa: PLC0415 (they load the core)
    from weft.progress import Watch  # noqa: PLC0415

    try:
        with Watch(ending=None) as watch:
            costs = mpi_as.costs(system, watch.step)
    except _seam.error_type() as why:
        raise MpiError(str(why)) from None
    path.write_text(mpi_as.table(costs))
    software = None
    try:
        fitted, software = mpi_as.without_software(costs, one_way_ns(mpi_as.rounds(costs)))
    except PingPongError as why:
        click.echo(f"weft mpi: no ping-pong under emulation: {why}", err=True)
    else:
        path.write_text(mpi_as.table(fitted))
    click.echo(f"weft mpi: {mpi_as.told(system, costs, software)}", err=True)


# A ping-pong that takes so long hangs.
_LIMIT_S = 120


def _one_way_ns(provider: Path, launcher: str, costs: Path, rounds: int) -> int:
    """Return what a message of 8 B takes between two ranks under emulation of these costs.

    Raises:
        MpiError: If there is no directory in which ranks can meet.
        PingPongError: If the two ranks do not run.

    """
    kernels = str(Path(__file__).with_name("mpi_kernels.py"))
    program = (sys.executable, kernels, "one-way", str(provider), str(rounds))
    with _meeting() as directory:
        variables = {
            **environment(provider, directory, is_launched=True),
            AS: str(costs),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        # What the user has recorded is the program.
        variables.pop(RECORD, None)
        try:
            ran = subprocess.run(
                (launcher, "--oversubscribe", "-n", "2", *program),
                env=variables,
                capture_output=True,
                text=True,
                check=False,
                timeout=_LIMIT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as why:
            raise PingPongError(str(why)) from None
    said = ran.stdout.split()
    if ran.returncode != 0 or not said or not said[-1].isdigit():
        reason = _reason(ran.stderr or ran.stdout)
        raise PingPongError(f"{launcher} ended with {ran.returncode}: {reason}")
    return int(said[-1])


def _reason(text: str) -> str:
    """Return the last that ranks said, else the first that their launcher did, between dashes."""
    lines = [it.strip() for it in text.splitlines() if it.strip()]
    dashes = [at for at, line in enumerate(lines) if line.startswith("-----")]
    ranks = lines[: dashes[0]] if dashes else lines
    launcher = [it for it in lines if not it.startswith("-----")]
    return " ".join(ranks[-1:] or launcher[:3])


@contextmanager
def _meeting() -> Iterator[Path]:
    """Name the directory where ranks meet: the user's, or one that is removed whatever happens.

    Raises:
        MpiError: If its path is too long.

    """
    if DIRECTORY in os.environ:
        yield Path(os.environ[DIRECTORY])
        return
    with tempfile.TemporaryDirectory(prefix="weft-mpi-", ignore_cleanup_errors=True) as it:
        if not _is_directory(it):
            takes = SETTINGS[DIRECTORY][1]
            raise MpiError(f"{it}: too long; set TMPDIR, or {DIRECTORY}, which takes {takes}")
        yield Path(it)


def _recorded(command: tuple[str, ...], record: Path | None, more: Mapping[str, str]) -> int:
    if record is None:
        return _run(command, more)
    if not record.parent.is_dir():
        raise MpiError(f"{record}: there is no folder {record.parent}")
    with tempfile.TemporaryDirectory(prefix="weft-mpi-record-") as folder:
        status = _run(command, {RECORD: folder, **more})
        if status != 0:
            click.echo(f"weft mpi: no trace: the program ended with {status}", err=True)
            return status
        try:
            made = mpi_record.make(Path(folder), record)
        except (mpi_record.RecordError, OSError) as why:
            raise MpiError(f"no trace: {why}") from None
    click.echo(f"weft mpi: {record}: {_told(made)}; see: {_next(record)}", err=True)
    return 0


def _told(made: mpi_record.Trace) -> str:
    dropped = f", {made.dropped} more that nobody received" if made.dropped else ""
    computing = f"{made.computing_ns / 1e6:.1f} ms of computing"
    return (
        f"{made.ranks} ranks, {made.messages} messages of {size(made.size)}{dropped}, {computing}"
    )


def _next(record: Path) -> str:
    return f"weft trace run {shlex.quote(str(record))} --system clan"


def _look(command: tuple[str, ...]) -> tuple[Path, bool, OpenMpi]:
    """Find what a run needs: the provider, a launcher, the MPI."""
    path = provider()
    check_settings()
    is_launched = Path(command[0]).name in LAUNCHERS
    return path, is_launched, open_mpi(command[0] if is_launched else "mpirun")


def _run(command: tuple[str, ...], more: Mapping[str, str]) -> int:
    path, is_launched, mpi = _look(command)
    said = f"weft mpi: Open MPI {mpi.version} sends over shared memory of this host, by {path}"
    click.echo(said, err=True)
    with _meeting() as directory:
        variables = {**environment(path, directory, is_launched), **more}
        return _call(command, variables, is_launched)


def _call(command: tuple[str, ...], variables: dict[str, str], is_launched: bool) -> int:
    try:
        process = subprocess.Popen(command, env=variables)
    except OSError as error:
        click.echo(f"weft mpi: {command[0]}: {error.strerror}", err=True)
        return NOT_FOUND
    try:
        # What a program of its own starts and ends is its own matter.
        status = (mpi_launcher.wait if is_launched else mpi_launcher.wait_plainly)(process)
    except mpi_launcher.AloneError as why:
        click.echo(f"weft mpi: {command[0]}: {why}", err=True)
        return ENDED
    return status if status >= 0 else 128 - status


class _Programs(click.Group):
    """A group in which everything after `--` is a launcher with its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[-1] == "--":
            raise click.UsageError("No program after '--'.", ctx)
        if "--" in args and (args[0].startswith("-")):
            here = args.index("--")
            args = [*args[:here], "exec", *args[here:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say how a program of that name would be run."""
        if self.get_command(ctx, args[0]) is None and shutil.which(args[0]):
            raise click.UsageError(f"To run a program: weft mpi -- {shlex.join(args)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Programs,
    subcommand_metavar="-- mpirun [ARGS]... PROGRAM | status | measure",
    epilog="\b\nExamples:\n  weft mpi -- mpirun -n 4 ./program\n  weft mpi status\n"
    "  weft mpi --record run.goal -- mpirun -n 2 ./program\n"
    "  weft mpi --as clan -- mpirun -n 2 NPopenmpi\n"
    "  weft mpi --as clint --route 'up_to=64 B:quick' --route bulk -- mpirun -n 4 ./program\n"
    "  weft mpi measure",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the program's messages, and its computing between them, as a GOAL trace.",
)
@click.option(
    "--as",
    "system",
    metavar="NAME|FILE",
    help="Let messages take as long as they would on this interconnect.",
)
@click.option("--channel", metavar="NAME", help="With --as: the channel of all messages.")
@click.option(
    "--route",
    multiple=True,
    metavar="[CONDITION,...:]CHANNEL",
    help="With --as: a rule, in order, as in `weft trace run`.",
)
@click.option("--preset", metavar="NAME", help="With --as: a named preset of the system.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="With --as: replace a value of the system.",
)
@click.pass_context
def mpi(
    ctx: click.Context,
    record: Path | None,
    system: str | None,
    channel: str | None,
    route: tuple[str, ...],
    preset: str | None,
    settings: tuple[str, ...],
) -> None:
    """Run an MPI program with its messages over shared memory.

    The processes of the program must all be on this host, and the MPI must be Open MPI. What it
    did can be recorded; `weft trace run` says what another interconnect would make of that. With
    --as, the program itself runs as if on the other interconnect, one host a rank.
    """
    is_run = ctx.invoked_subcommand == "exec"
    for option, value, given in (("record", "FILE", record), ("as", "SYSTEM", system)):
        if given is not None and not is_run:
            raise click.UsageError(
                f"--{option} {value} needs a program: weft mpi --{option} {value} -- mpirun ..."
            )
    if system is None:
        if channel or route or preset or settings:
            raise click.UsageError("--channel, --route, --preset and --set need --as SYSTEM.")
        ctx.obj = (record, None)
        return
    from weft.mpi_as import System  # noqa: PLC0415
    from weft.trace import rules  # noqa: PLC0415

    ctx.obj = (record, System(system, preset, settings, channel, rules(route)))


@mpi.command("exec", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def run_program(wanted: tuple[Path | None, System | None], command: tuple[str, ...]) -> NoReturn:
    """Run the launcher, which starts the program."""
    try:
        status = run(command, *wanted)
    except MpiError as why:
        raise click.ClickException(str(why)) from None
    raise SystemExit(status)


@mpi.command(epilog="\b\nExamples:\n  weft mpi status\n  weft mpi status --json | jq '.[].counts'")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def status(as_json: bool) -> None:
    """Show the messages of programs that run now, by rank: messages, bytes, waits."""
    found = list(mpi_figures.endpoints())
    if as_json:
        click.echo(json.dumps([asdict(it) for it in found]))
        return
    if not found:
        click.echo("No program of yours runs under weft mpi.")
        return
    for line in mpi_figures.lines(found):
        click.echo(line)


@mpi.command(
    epilog="\b\nExamples:\n  weft mpi measure\n  weft mpi measure --turns 1 --program stencil"
)
@click.option(
    "--turns",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How often each program is run.",
)
@click.option(
    "--program",
    "wanted",
    multiple=True,
    metavar="NAME",
    help="Predict this one: stencil, LAMMPS or hpcc [stencil, and those that are installed].",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/mpi"),
    show_default=True,
    help="Folder for table, figure, page, composition and traces.",
)
def measure(turns: int, wanted: tuple[str, ...], out: Path) -> None:
    """Fit this host's messages by ping-pong, and hold its predictions against programs.

    Runs ping-pong, a stencil, and LAMMPS and hpcc if they are installed, on two ranks; records
    what they do; and predicts their times by a composition that two sizes of ping-pong alone fit.
    """
    from weft import mpi_measure  # noqa: PLC0415 (it loads the figures)
    from weft.place import FolderError, claim  # noqa: PLC0415
    from weft.progress import STOPPED, Watch  # noqa: PLC0415

    try:
        with claim(out) as place, tempfile.TemporaryDirectory(prefix="weft-mpi-measure-") as it:
            names = wanted or [
                name for name in mpi_measure.programs() if not name.startswith("ping-pong")
            ]
            with Watch() as watch:
                measured = mpi_measure.measure(Path(it), names, turns, watch.step)
            mpi_measure.write(place, measured, Path(it))
        for remark in place.remarks:
            click.echo(remark, err=True)
    except (mpi_measure.MeasureError, FolderError) as why:
        click.echo(f"weft mpi measure: {why}", err=True)
        raise SystemExit(STOPPED if isinstance(why, mpi_measure.StoppedError) else 2) from None
    for line in mpi_measure.lines(measured):
        click.echo(line)
    click.echo(f"\n{out}/report.html")

"""`weft live`: run unmodified programs with their sockets over shared memory.

The work is done by a preload library (`crates/live`); this module starts programs with it, says
what it does in the programs that run, and why it would do nothing for one.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from weft import live_elf, live_figures
from weft.live_figures import LIBRARY, FiguresError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weft.live_measure import Measurement
    from weft.live_model import Prediction

INPUT_ERROR = 2
NOT_FOUND = 127

# With less than this, in bytes, the library does nothing (crates/live/src/memory/means.rs).
_AMPLE = 8 << 30


class LiveError(Exception):
    """Why a program cannot be run or looked at."""


def library() -> Path:
    """Find the preload library: `WEFT_LIVE_LIBRARY`, or beside this module.

    Raises:
        LiveError: If it is not there.

    """
    named = os.environ.get("WEFT_LIVE_LIBRARY")
    path = Path(named) if named else Path(__file__).parent / LIBRARY
    if not path.is_file():
        raise LiveError(f"no preload library at {path}; it is built for Linux on 64-bit machines")
    return path.resolve()


def _is_count(value: str) -> bool:
    return value.isascii() and value.isdecimal() and int(value) < 1 << 64


def _is_ring(value: str) -> bool:
    return _is_count(value) and (size := int(value)).bit_count() == 1 and 4096 <= size <= 1 << 28


def _is_directory(value: str) -> bool:
    return value.startswith("/") and len(os.fsencode(value)) <= 78 and Path(value).is_dir()


def _is_log(value: str) -> bool:
    if value in ("", "stderr"):
        return True
    path = Path(value)
    folder_or_file = path if path.exists() else path.parent
    may_be = len(os.fsencode(value)) < 256 and not path.is_dir()
    return may_be and os.access(folder_or_file, os.W_OK)


# Each variable that the library reads: whether it takes a value, and what it takes.
SETTINGS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "WEFT_LIVE": (("", "on", "off").__contains__, "on or off"),
    "WEFT_LIVE_RING": (_is_ring, "a power of two from 4096 to 268435456, in bytes"),
    "WEFT_LIVE_LIMIT": (_is_count, "a number of connections"),
    "WEFT_LIVE_DIRECTORY": (_is_directory, "a directory's absolute path of at most 78 letters"),
    "WEFT_LIVE_LOG": (_is_log, "stderr, or the path of a file that can be written"),
    "WEFT_LIVE_LIBRARY": (lambda _: True, "the library's path"),
}


def check_settings() -> None:
    """Look at the variables that set the library, which ignores what it cannot take.

    Raises:
        LiveError: If one has another value than it takes, or is none of the library's.

    """
    for name in sorted(name for name in os.environ if name.startswith("WEFT_LIVE")):
        value = os.environ[name]
        if name not in SETTINGS:
            raise LiveError(f"{name}={value}: no such setting; there are {', '.join(SETTINGS)}")
        takes, what = SETTINGS[name]
        if not takes(value):
            raise LiveError(f"{name}={value}: it takes {what}")


def environment(path: Path) -> dict[str, str]:
    """Return the environment that loads the library before all others."""
    others = [
        it
        for it in os.environ.get("LD_PRELOAD", "").split(":")
        if it and it not in (str(path), _UNREACHABLE + str(path))
    ]
    preloaded = ":".join([_preloaded(path), *others])
    return {**os.environ, "LD_PRELOAD": preloaded, "ASAN_OPTIONS": _sanitizer_options()}


# `$LIB` is a folder to the GNU loader alone, and above the root is the root.
_UNREACHABLE = "/$LIB" + "/.." * 8


def _preloaded(path: Path) -> str:
    """Return a path of the library at which loaders of other C libraries find nothing.

    They would load it and miss what it needs, so that the programs below that are linked with such
    a library, musl's for one, would not start.
    """
    found = shutil.which("true")
    if found is None:
        return str(path)
    there = _UNREACHABLE + str(path)
    tried = {**os.environ, "LD_PRELOAD": there, "WEFT_LIVE": "off"}
    try:
        ran = subprocess.run([found], env=tried, capture_output=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return str(path)
    return str(path) if ran.returncode or ran.stderr else there


def _sanitizer_options() -> str:
    """Return the address sanitizer's options, which ends programs if a library precedes its own."""
    name = "verify_asan_link_order"
    options = os.environ.get("ASAN_OPTIONS", "")
    if name in options:
        return options
    return f"{options}:{name}=0" if options else f"{name}=0"


def obstacle(program: str) -> str | None:
    """Say why the library would do nothing for a program; nothing if it would work."""
    if platform.system() != "Linux":
        return f"this is {platform.system()}; the library is for Linux"
    if (limit := _address_space()) is not None:
        return f"{limit}, of which the library's tables would take a part"
    found = shutil.which(program)
    if found is None:
        if "/" not in program:
            return f"there is no program {program!r} on the path"
        return _not_executable(Path(program))
    path = Path(found).resolve()
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{path} runs with other rights than its caller's; such programs are left alone"
    return _obstacle_in_file(path)


def _not_executable(path: Path) -> str:
    """Say why a path names no program."""
    if path.is_dir():
        return f"{path} is a folder, not a program"
    if not path.exists():
        return f"there is no program {path}"
    mode = stat.filemode(path.stat().st_mode)
    return f"{path} is not marked as executable ({mode}); name a program, or use chmod +x"


def _address_space() -> str | None:
    """Say how the address space is limited, if it is so that the library does nothing."""
    import resource  # noqa: PLC0415 (it is not there elsewhere)

    for kind, option in ((resource.RLIMIT_AS, "-v"), (resource.RLIMIT_DATA, "-d")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and limit < _AMPLE:
            return f"memory is limited to {limit >> 20} MiB (ulimit {option} {limit >> 10})"
    return None


def _obstacle_in_file(path: Path) -> str | None:
    try:
        if (runner := _interpreter(path)) is not None:
            return obstacle(runner)
        program = live_elf.read(path)
    except OSError as why:
        return f"{path} cannot be read: {why.strerror}"
    except live_elf.ElfError as why:
        return f"{path} {why}"
    found = _obstacle_in_program(program)
    return None if found is None else f"{path} {found}"


def _obstacle_in_program(program: live_elf.Program) -> str | None:
    if program.loader is None:
        return "is statically linked: no library can be loaded before it"
    if program.is_of_another_c_library:
        return f"uses another C library than GNU's: it is loaded by {program.loader}"
    if program.is_go:
        return "is a Go program: it makes system calls of its own, which no library sees"
    return None


def _interpreter(path: Path) -> str | None:
    """Return the program that runs a script; nothing if the file is none."""
    with path.open("rb") as file:
        if file.read(2) != b"#!":
            return None
        words = file.readline().split()
    return os.fsdecode(words[-1 if words[0].endswith(b"/env") else 0])


def _files(program: str) -> list[tuple[Path, live_elf.Program]]:
    """Read a program and the libraries that it is loaded with."""
    found = shutil.which(program)
    if found is None:
        return []
    path = Path(found).resolve()
    try:
        if (runner := _interpreter(path)) is not None:
            return _files(runner)
        return [(file, live_elf.read(file)) for file in (path, *live_elf.libraries(path))]
    except (OSError, live_elf.ElfError):
        return []


def own_calls(program: str) -> str | None:
    """Say which part of a program calls past the C library: then nothing is accelerated."""
    for file, it in _files(program):
        if it.own_calls:
            said = ", ".join(sorted(it.own_calls))
            return f"{file} makes system calls by instructions of its own ({said})"
        if it.is_go:
            return f"{file} is made by Go, which makes system calls of its own"
    return None


def cautions(program: str) -> list[str]:
    """Say what a program does that brings connections back to the kernel."""
    files = _files(program)
    said = []
    for what, names in live_elf.TRIGGERS.items():
        users = [
            f"{', '.join(used)} in {file.name}"
            for file, it in files
            if (used := sorted(it.imports & set(names.split())))
        ]
        if users:
            said.append(f"it {what}: {'; '.join(users)}")
    said += [
        f"{file} uses liburing: once it sets a ring up, nothing is accelerated"
        for file, it in files
        if any(name.startswith("liburing.") for name in it.needed)
    ]
    return said


def _disagreement(folder: Path) -> str | None:
    """Say why another user's process would not be trusted, as crates/live/src/config.rs decides."""
    named = os.environ.get("WEFT_LIVE_DIRECTORY")
    if named is None:
        return "and WEFT_LIVE_DIRECTORY names no directory of a group of both"
    try:
        about = Path(named).stat()
    except OSError as why:
        return f"and {named} of WEFT_LIVE_DIRECTORY cannot be looked at ({why.strerror})"
    if not about.st_mode & stat.S_IWGRP or about.st_mode & stat.S_IWOTH:
        mode = stat.filemode(about.st_mode)
        return f"and {named} is not one that its group may write and others may not ({mode})"
    said = (folder / "status").read_text().splitlines()
    groups = {
        int(group)
        for line in said
        if line.startswith(("Gid:", "Groups:"))
        for group in line.split()[1:]
    }
    if about.st_gid not in groups:
        return f"who is not in group {about.st_gid} of {named}"
    return None


def peer_obstacle(pid: int) -> str | None:
    """Say why connections with a running process would stay with the kernel."""
    folder = Path("/proc") / str(pid)
    try:
        owner = folder.stat().st_uid
        if owner != os.getuid() and (found := _disagreement(folder)) is not None:
            return f"process {pid} belongs to user {owner}, {found}"
        if not live_figures.has_library(folder):
            return f"process {pid} was not started under weft live"
        networks = [os.readlink(folder / "ns" / "net"), os.readlink("/proc/self/ns/net")]
    except FileNotFoundError:
        return f"there is no process {pid}"
    except OSError as why:
        return f"process {pid} cannot be looked at ({why.strerror})"
    if networks[0] != networks[1] and "WEFT_LIVE_DIRECTORY" not in os.environ:
        return f"process {pid} is in another network namespace, and WEFT_LIVE_DIRECTORY is not set"
    return None


class _Programs(click.Group):
    """A group in which everything after `--` is a program with its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args == ["--"]:
            raise click.UsageError("No program after '--'.", ctx)
        if args and args[0] == "--":
            args = ["exec", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say how a program of that name would be run."""
        if self.get_command(ctx, args[0]) is None and shutil.which(args[0]):
            raise click.UsageError(f"To run a program: weft live -- {shlex.join(args)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Programs,
    subcommand_metavar="-- PROGRAM [ARGS]... | status [PID]... | check PROGRAM | measure",
    epilog="\b\nExamples:\n  weft live -- redis-server\n  weft live status\n  weft live measure",
)
def live() -> None:
    """Run a program with its sockets over shared memory.

    Connections to other programs on this host that were started the same way by the same user go
    through shared memory; all others go through the kernel as ever.
    """


@live.command("exec", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run_program(command: tuple[str, ...]) -> NoReturn:
    """Become the program, with the library loaded."""
    try:
        path = library()
        check_settings()
    except LiveError as why:
        raise click.ClickException(str(why)) from None
    if (found := obstacle(command[0])) is not None:
        click.echo(f"weft live: nothing will be accelerated: {found}", err=True)
    # Python ignores these, and the program would too.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environment(path))
    except OSError as error:
        click.echo(f"weft live: {command[0]}: {error.strerror}", err=True)
        raise SystemExit(NOT_FOUND) from None


@live.command(
    epilog="\b\nExamples:\n  weft live status\n  weft live status $(pgrep redis)\n"
    "  weft live status --json | jq '.[].program'"
)
@click.argument("pids", nargs=-1, type=int, metavar="[PID]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def status(pids: tuple[int, ...], as_json: bool) -> None:
    """Show what the library does in the programs that run now, or in these processes."""
    try:
        found = [live_figures.process(pid) for pid in pids] or list(live_figures.processes())
    except FiguresError as why:
        raise click.ClickException(str(why)) from None
    if as_json:
        click.echo(json.dumps([asdict(process) for process in found]))
        return
    if not found:
        click.echo("No program of yours runs under weft live.")
        return
    for process in found:
        click.echo(f"{process.pid} {process.program}")
        for name, said in live_figures.lines(process):
            click.echo(f"  {name:<16}{said}")


@live.command(
    epilog="\b\nExamples:\n  weft live check redis-server\n  weft live check redis-cli --with 4711"
)
@click.argument("program")
@click.option("--with", "peer", type=int, metavar="PID", help="Also look at the other end.")
def check(program: str, peer: int | None) -> None:
    """Say whether a program could be accelerated, and if not, why."""
    try:
        library()
        why = obstacle(program) or own_calls(program)
    except LiveError as error:
        why = str(error)
    if why is not None:
        click.echo(f"{program} would not be accelerated: {why}")
        raise SystemExit(1)
    if peer is not None and (why := peer_obstacle(peer)) is not None:
        click.echo(f"{program} can be accelerated, but not its connections there: {why}")
        raise SystemExit(1)
    click.echo(f"{program} can be accelerated.")
    for said in cautions(program):
        click.echo(f"  but {said}")


@live.command(
    epilog="\b\nExamples:\n  weft live measure\n  weft live measure --seconds 10 --out out/quick"
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=5),
    default=40.0,
    show_default=True,
    help="How long to measure; below 26 s each case is measured fewer than 5 times.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/live"),
    show_default=True,
    help="Folder for tables, figures, page and composition.",
)
def measure(seconds: float, out: Path) -> None:
    """Measure this host: kernel TCP, Unix sockets and live, by message size.

    Also writes this host's shared memory as a composition, which predicts the live curves; both are
    in one figure. Ctrl-C ends the measurement with the turns that are complete.
    """
    from weft import live_measure, live_page  # noqa: PLC0415 (they load the figures)
    from weft.place import FolderError, claim  # noqa: PLC0415
    from weft.progress import STOPPED, Watch  # noqa: PLC0415

    try:
        path = library()
        with claim(out) as place:
            with Watch() as watch:
                measured = live_measure.measure(path, seconds, watch.step)
            predicted = live_page.write(place, measured)
        for remark in place.remarks:
            click.echo(remark, err=True)
    except (LiveError, live_measure.MeasureError, FolderError) as why:
        click.echo(f"weft live measure: {why}", err=True)
        stopped = isinstance(why, live_measure.StoppedError)
        raise SystemExit(STOPPED if stopped else INPUT_ERROR) from None
    for line in _measured_lines(measured, predicted):
        click.echo(line)
    click.echo(f"\n{out}/report.html")
    if measured.stopped:
        raise SystemExit(STOPPED)


def _measured_lines(measured: Measurement, predicted: tuple[Prediction, ...]) -> Iterator[str]:
    from weft.live_measure import MEDIA, QUANTITIES, UNITS  # noqa: PLC0415
    from weft.live_model import spelled  # noqa: PLC0415
    from weft.live_page import PREDICTED, error_line  # noqa: PLC0415

    for quantity in QUANTITIES:
        said = {it.size_bytes: it for it in predicted if it.quantity == quantity}
        heads = [*MEDIA, *([PREDICTED] if said else [])]
        yield f"\n{quantity}, {UNITS[quantity]}"
        yield f"{'message':>10}" + "".join(f"{head:>22}" for head in heads)
        for size in dict.fromkeys(point.size_bytes for point in measured.points):
            values = [measured.at(medium, quantity, size) for medium in MEDIA]
            values += [said[size].predicted] if said else []
            yield f"{spelled(size):>10}" + "".join(f"{value:>22.3g}" for value in values)
        if said:
            yield f"{PREDICTED}: {error_line(quantity, predicted)}"

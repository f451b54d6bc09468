"""Predict programs by a composition of this host that is fitted to ping-pong alone.

Every run is recorded (`mpi_record`): the trace holds what each rank sent, received and computed,
and the time that all of it took by the host's clock. Two sizes of ping-pong calibrate the two
parameters of the host's memory, latency and rate (`system.memory`); ping-pong of the other sizes
and whole programs are then predicted by running their traces on that composition.

measured.csv        each run: measured, predicted, error, and whether it calibrated
host.toml           this host's messages as a composition
NAME.goal           the trace of each run
report.html         the table and a figure on one page
manifest.json       which of the files Weft wrote, so that it replaces no other
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from weft import mpi, mpi_record
from weft.live_model import spelled
from weft.plots.axes import log_ticks
from weft.report import loose_page
from weft.report.markup import table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from weft.figure import Figure
    from weft.place import Place

RANKS = 2
# Message size and rounds of each ping-pong; the first and the last calibrate.
PING_PONG = ((8, 4000), (1024, 4000), (8192, 2000), (65_536, 1000), (1_048_576, 200))
STENCIL = (1024, 150)
TURNS = 3
# A run that takes so long hangs.
_LIMIT_S = 300
# Rounds in which latency and rate are corrected in turn; each corrects by a small part of the last.
_ROUNDS = 4

_MELT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
run 20
"""
_HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")


class MeasureError(Exception):
    """Why nothing could be measured."""


class StoppedError(MeasureError):
    """It was stopped before there was anything to show."""


@dataclass(frozen=True)
class Host:
    """The cost of a message between two ranks: a latency, and a time per byte, in nanoseconds."""

    latency_ns: float
    ns_per_byte: float


@dataclass(frozen=True)
class Run:
    """A recorded run: its trace, and how long it took by the host's clock, in nanoseconds."""

    trace: Path
    messages: int
    measured_ns: int


@dataclass(frozen=True)
class Verdict:
    """The prediction of the composition for a program, over all turns, in milliseconds."""

    name: str
    messages: int
    measured_ms: float
    predicted_ms: float
    # Relative errors of the turns: the least, the middle and the greatest.
    errors: tuple[float, float, float]
    is_calibrating: bool

    @property
    def error(self) -> float:
        """The middle of the relative errors (predicted - measured) / measured."""
        return self.errors[1]


@dataclass(frozen=True)
class Measurement:
    """The host, and what it says of each program."""

    host: Host
    verdicts: tuple[Verdict, ...]
    turns: int


def programs() -> dict[str, Sequence[str]]:
    """Return the programs that are there: this package's, and Debian's that are installed."""
    kernels = [sys.executable, str(Path(__file__).with_name("mpi_kernels.py"))]
    found: dict[str, Sequence[str]] = {
        _ping_pong(size): [*kernels, "ping-pong", str(size), str(rounds)]
        for size, rounds in PING_PONG
    }
    found["stencil"] = [*kernels, "stencil", *map(str, STENCIL)]
    if shutil.which("lmp"):
        found["LAMMPS"] = ["lmp", "-in", "in.melt", "-log", "none"]
    if shutil.which("hpcc") and _HPCC_INPUT.exists():
        found["hpcc"] = ["hpcc"]
    return found


def _ping_pong(size: int) -> str:
    return f"ping-pong {spelled(size)}"


CALIBRATING = (_ping_pong(PING_PONG[0][0]), _ping_pong(PING_PONG[-1][0]))


def measure(
    folder: Path,
    wanted: Sequence[str],
    turns: int,
    progress: Callable[[int, int, str], bool],
) -> Measurement:
    """Run all programs in turns, fit the host, and predict.

    Args:
        folder: Where traces and composition go.
        wanted: Names of `programs()`; the ping-pongs are run in any case.
        turns: How often each program is run.
        progress: Called with (done, total, label); returning False ends the measurement.

    Raises:
        MeasureError: If a program cannot be run.
        StoppedError: If it is ended before all turns are complete.

    """
    there = programs()
    names = [name for name in there if name.startswith("ping-pong") or name in wanted]
    if missing := [name for name in wanted if name not in there]:
        raise MeasureError(f"{', '.join(missing)}: not there; there are {', '.join(there)}")
    total = turns * len(names)
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for done in range(total):
        turn, index = divmod(done, len(names))
        name = names[index]
        if not progress(done, total, f"{name}, turn {turn + 1}"):
            raise StoppedError("stopped before all turns were complete; nothing was written")
        file = name.replace(" ", "-") + (f"-{turn + 1}" if turn else "")
        runs[name].append(record(there[name], folder / f"{file}.goal"))
    host = fit(folder / "host.toml", [runs[name] for name in CALIBRATING])
    verdicts = tuple(_verdict(name, runs[name], folder / "host.toml") for name in names)
    for found in runs.values():
        for extra in found[1:]:
            extra.trace.unlink()
    return Measurement(host, verdicts, turns)


def record(program: Sequence[str], trace: Path) -> Run:
    """Run a program on two ranks, and make the trace of what it did.

    Raises:
        MeasureError: If it fails, or leaves no trace.

    """
    try:
        path = mpi.provider()
        mpi.open_mpi("mpirun")
    except mpi.MpiError as why:
        raise MeasureError(str(why)) from None
    with tempfile.TemporaryDirectory(prefix="weft-mpi-", ignore_cleanup_errors=True) as it:
        work, records = Path(it) / "work", Path(it) / "record"
        work.mkdir()
        records.mkdir()
        (work / "in.melt").write_text(_MELT)
        if _HPCC_INPUT.exists():
            (work / "hpccinf.txt").write_text(_hpcc_input(_HPCC_INPUT.read_text()))
        variables = {
            **mpi.environment(path, Path(it), is_launched=True),
            mpi.RECORD: str(records),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = ["mpirun", "--oversubscribe", "-n", str(RANKS), *program]
        try:
            ran = subprocess.run(
                command,
                cwd=work,
                env=variables,
                capture_output=True,
                text=True,
                check=False,
                timeout=_LIMIT_S,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise MeasureError(f"{program[0]} did not end within {_LIMIT_S} s") from None
        if ran.returncode != 0:
            said = (ran.stderr or ran.stdout).strip().splitlines()
            raise MeasureError(f"{program[0]} ended with {ran.returncode}: {' '.join(said[-3:])}")
        try:
            made = mpi_record.make(records, trace)
        except (mpi_record.RecordError, OSError) as why:
            raise MeasureError(f"no trace of {program[0]}: {why}") from None
    if made.measured_ns is None:
        raise MeasureError(f"the provider at {path} does not write down how long a run took")
    return Run(trace, made.messages, made.measured_ns)


def _hpcc_input(text: str) -> str:
    """Make hpcc's example small enough for two ranks of one host."""
    changed = {"Ns": "400", "Ps": "1", "Qs": "2"}
    lines = []
    for line in text.splitlines():
        words = line.split()
        is_value = len(words) > 1 and words[0].isdigit() and words[1] in changed
        lines.append(f"{changed[words[1]]} {words[1]}" if is_value else line)
    return "\n".join(lines) + "\n"


def fit(path: Path, calibrating: Sequence[Sequence[Run]]) -> Host:
    """Find latency and rate under which the two calibrating ping-pongs take as long as measured.

    The shortest messages give the latency, the longest the rate; each is solved with the other as
    it is. What a run takes grows linearly with either, except where a rank computes meanwhile.
    """
    short, long = calibrating
    small, large = PING_PONG[0][0], PING_PONG[-1][0]
    middle = [
        statistics.median(run.measured_ns / run.messages for run in runs) for runs in calibrating
    ]
    host = Host(middle[0] / 2, middle[1] / large)
    for _ in range(_ROUNDS):
        latency = host.latency_ns + _missing(short, host, path)
        host = Host(max(latency, 0.1), host.ns_per_byte)
        each = host.ns_per_byte + _missing(long, host, path) / (large - small)
        host = Host(host.latency_ns, max(each, 0.001))
    path.write_text(composition(host))
    return host


def _missing(runs: Sequence[Run], host: Host, path: Path) -> float:
    """Return what a message of these runs takes longer than the host predicts, in nanoseconds."""
    path.write_text(composition(host))
    return statistics.median(
        (run.measured_ns - predict(run.trace, path)) / run.messages for run in runs
    )


def predict(trace: Path, system: Path) -> float:
    """Return the time of a trace on a composition, in nanoseconds."""
    from weft.recorded import run_trace  # noqa: PLC0415 (it loads the core)

    return 1000 * run_trace(trace, system, ranks_per_host=RANKS).time_us


def _verdict(name: str, runs: Sequence[Run], system: Path) -> Verdict:
    predicted = [predict(run.trace, system) for run in runs]
    errors = sorted(
        (said - run.measured_ns) / run.measured_ns
        for said, run in zip(predicted, runs, strict=True)
    )
    return Verdict(
        name,
        runs[0].messages,
        statistics.median(run.measured_ns for run in runs) / 1e6,
        statistics.median(predicted) / 1e6,
        (errors[0], statistics.median(errors), errors[-1]),
        name in CALIBRATING,
    )


def where() -> str:
    """Say when and on what it was measured."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    count = os.cpu_count()
    system = f"{platform.system()} {platform.release()}"
    return f"weft mpi measure, {today}, {system}, {count} processors"


def composition(host: Host) -> str:
    """Write the host as a composition file."""
    values: Mapping[str, object] = {
        "where": json.dumps(where()),
        "latency": f"{host.latency_ns:.1f} ns",
        "rate": f"{1 / host.ns_per_byte:.4f} GB/s",
        "small": spelled(PING_PONG[0][0]),
        "large": spelled(PING_PONG[-1][0]),
    }
    return _COMPOSITION.format(**values)


def write(place: Place, measured: Measurement, drafts: Path) -> None:
    """Write the folder in the place of an earlier measurement."""

    def fill(draft: Path) -> None:
        for file in drafts.iterdir():
            shutil.copy(file, draft / file.name)
        with (draft / "measured.csv").open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow([
                *("program", "messages", "measured_ms", "predicted_ms"),
                *("error_least", "error", "error_most", "calibrated"),
            ])  # fmt: skip
            for it in measured.verdicts:
                writer.writerow([
                    *(it.name, it.messages, f"{it.measured_ms:.6g}", f"{it.predicted_ms:.6g}"),
                    *(f"{error:.4f}" for error in it.errors),
                    "yes" if it.is_calibrating else "no",
                ])  # fmt: skip
        drawn = figure(measured)
        drawn.save(draft / f"{drawn.name}.svg")
        page = loose_page("This host's messages", _sections(measured), [drawn])
        (draft / "report.html").write_text(page, encoding="utf-8")

    place.put(fill)


def lines(measured: Measurement) -> list[str]:
    """Return the table as text."""
    host = measured.host
    said = [
        f"fitted by {' and '.join(CALIBRATING)}: latency {host.latency_ns:.0f} ns, "
        f"rate {1 / host.ns_per_byte:.2f} GB/s",
        f"{'program':>20}{'messages':>10}{'measured, ms':>14}{'predicted, ms':>15}{'error':>12}"
        "   of the turns",
    ]
    for it in measured.verdicts:
        mark = "calibrated" if it.is_calibrating else f"{100 * it.error:+.1f} %"
        said.append(
            f"{it.name:>20}{it.messages:>10}{it.measured_ms:>14.4g}{it.predicted_ms:>15.4g}{mark:>12}"
            f"   {100 * it.errors[0]:+.1f} to {100 * it.errors[2]:+.1f} %"
        )
    return said


def figure(measured: Measurement) -> Figure:
    """Draw predicted against measured times, with the band of 15 %."""
    from weft.figure import Figure  # noqa: PLC0415 (it loads the renderer)
    from weft.theme import HEIGHT, WIDTH  # noqa: PLC0415

    rows = [
        {
            "x": it.measured_ms,
            "y": it.predicted_ms,
            "name": it.name,
            "kind": "calibrating" if it.is_calibrating else "predicted",
        }
        for it in measured.verdicts
    ]
    ends = [time for it in measured.verdicts for time in (it.measured_ms, it.predicted_ms)]
    reach = [min(ends) / 1.5, max(ends) * 1.5]
    axis = {"type": "quantitative", "scale": {"type": "log", "nice": False, "domain": reach}}
    ticks = {"values": log_ticks(*reach), "format": ",.6~g"}
    x_axis = {**axis, "field": "x", "title": "measured, milliseconds", "axis": ticks}
    y_axis = {**axis, "field": "y", "title": "predicted, milliseconds", "axis": ticks}
    bounds = [
        {"x": at, "y": at * (1 + off), "band": off} for off in (-0.15, 0, 0.15) for at in reach
    ]
    return Figure(
        name="predicted",
        title="Predicted against measured time",
        caption="Medians of the turns. The lines are equality and 15 % above and below.",
        spec={
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": WIDTH,
            "height": HEIGHT,
            "layer": [
                {
                    "data": {"values": bounds},
                    "mark": {"type": "line", "opacity": 0.4, "clip": True},
                    "encoding": {"x": x_axis, "y": y_axis, "detail": {"field": "band"}},
                },
                {
                    "data": {"values": rows},
                    "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                    "encoding": {
                        "x": x_axis,
                        "y": y_axis,
                        "color": {"field": "kind", "type": "nominal", "title": None},
                    },
                },
                {
                    "data": {"values": rows},
                    "mark": {"type": "text", "align": "left", "dx": 8},
                    "encoding": {"x": x_axis, "y": y_axis, "text": {"field": "name"}},
                },
            ],
        },
    )


def _sections(measured: Measurement) -> list[tuple[str, Markup]]:
    host = measured.host
    lead = (
        f"{where()}; {RANKS} ranks; {measured.turns} turns. Two ping-pongs fit the "
        f"composition: a message has a latency of {host.latency_ns:.0f} ns and is copied at "
        f"{1 / host.ns_per_byte:.2f} GB/s. Everything else is predicted: what each rank computed "
        "and sent was recorded, and its time follows from the composition. Measured is the time of "
        "the same run, from the last rank's first message to the last message of all."
    )
    heads = ["program", "messages", "measured, ms", "predicted, ms", "error", "of the turns"]
    rows = [
        [
            *(it.name, str(it.messages), f"{it.measured_ms:.4g}", f"{it.predicted_ms:.4g}"),
            "calibrated" if it.is_calibrating else f"{100 * it.error:+.1f} %",
            f"{100 * it.errors[0]:+.1f} to {100 * it.errors[2]:+.1f} %",
        ]
        for it in measured.verdicts
    ]
    paragraph = Markup("<p>{}</p>").format(lead)
    measured_rows = table(heads, rows, range(1, 6))
    return [("Where and how", paragraph), ("Measured and predicted", measured_rows)]


_COMPOSITION = """\
# The messages of MPI programs on one host under weft mpi, written by `weft mpi measure`.
#
# The initiator copies a message, and the target has it a latency later (docs/programs.md, "Several
# ranks on a host"). All ranks are on one host:
# weft trace run FILE --system host.toml --ranks-per-host RANKS

[system]
title = "Messages between the processes of this host under weft mpi"
document = {where}
hosts = {{ value = 2, derived = "the least; the ranks are on one" }}

[system.memory]
latency = {{ value = "{latency}", calibrated = "ping-pong of {small}", \
predicts = "ping-pong of other sizes, and programs" }}
rate = {{ value = "{rate}", calibrated = "ping-pong of {large}", \
predicts = "ping-pong of other sizes, and programs" }}

# Between hosts, which no rank of this host uses.
[channel.none]
packet = {{ value = "64 B", derived = "without effect" }}
payload = {{ value = "64 B", derived = "without effect" }}

[channel.none.link]
rate = {{ value = "1 GB/s", derived = "without effect" }}
length = {{ value = "0 m", derived = "without effect" }}
delay_per_metre = {{ value = "5 ns/m", derived = "without effect" }}

[channel.none.adapter]
send_buffers = {{ value = "unlimited", derived = "without effect" }}

[channel.none.switch.ring]
acknowledgment = {{ value = "8 B", derived = "without effect" }}
bypass = {{ value = "0 ns", derived = "without effect" }}
outstanding = {{ value = "unlimited", derived = "without effect" }}
retry_after = {{ value = "0 ns", derived = "without effect" }}
"""

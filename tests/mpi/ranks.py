"""One run in several processes under MPI: `mpirun -n N weft run FILE`, part of `make test-mpi`.

Whatever the number of ranks, the tables have the same bytes as those of one process; what goes
wrong is said once; a rank that dies ends all, and what was written stays whole. Needs Open MPI's
mpirun and mpi4py; what is missing is named, and the cases are skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A run that takes so long hangs.
LIMIT_S = 150

# Tens of thousands of events happen while a packet is on a cable of four kilometres.
FABRIC = """\
[system]
title = "ranks"
hosts = {hosts}
[channel.c]
packet = "1000 B"
payload = "960 B"
link = {{ rate = "100 Gbit/s", length = "4 km", delay_per_metre = "5 ns" }}
adapter.send_buffers = "unlimited"
switch.output_queued.latency = "90 ns"
fabric.k_ary_tree = {{ arity = {arity}, levels = 3 }}
routes.per_packet = "random"
[workload.c]
load = {load}
[run]
length = "{length}"
regime = "from_empty"
{run}
"""
STAR = """\
[system]
title = "star"
hosts = 4
[channel.c]
packet = "1000 B"
payload = "960 B"
link = { rate = "100 Gbit/s", length = "5 m", delay_per_metre = "5 ns" }
adapter.send_buffers = "unlimited"
switch.output_queued.latency = "90 ns"
[workload.c]
load = 0.5
[run]
length = "100 us"
"""


class FailedError(Exception):
    """Why a case did not pass."""


@dataclass
class Stage:
    """Where runs are made, and by what."""

    weft: list[str]
    folder: Path

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def start(self, ranks: int, *words: str) -> subprocess.Popen[str]:
        """Start `weft` in so many ranks, or without MPI if that is 0."""
        before = ["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks else []
        return subprocess.Popen(
            [*before, *self.weft, *words],
            env={
                **os.environ,
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                # A run that is stopped writes what is finished before it is killed.
                "OMPI_MCA_odls_base_sigkill_timeout": "30",
                "OMPI_MCA_btl": "self,vader",
            },
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, ranks: int, *words: str) -> tuple[int, str, str]:
        """Run it to its end: exit code, what it prints, what it complains of."""
        return finish(self.start(ranks, *words))

    def result(self, ranks: int, file: str, *words: str) -> Path:
        """Run a file to its end; its folder of results."""
        out = self.folder / f"{Path(file).stem}-{ranks}"
        code, _, errors = self.run(ranks, "run", file, "--no-pictures", "--out", str(out), *words)
        if code:
            raise FailedError(f"{ranks} ranks: exit {code}\n{errors[-2000:]}")
        return out


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise FailedError("it hangs") from None
    return process.returncode, out, errors


def check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise FailedError(otherwise[-3000:])


def contents(out: Path) -> dict[str, bytes]:
    """Read what does not say how it came about."""
    found = sorted((out / "tables").iterdir())
    return {path.name: path.read_bytes() for path in [*found, out / "spec.toml"]}


def provenance(out: Path) -> dict[str, object]:
    read: dict[str, object] = json.loads((out / "provenance.json").read_text(encoding="utf-8"))
    return read


def same_tables(stage: Stage) -> str:
    """Two points with two seeds each, all divided among 2 and 4 ranks."""
    text = FABRIC.format(
        hosts=64, arity=4, load=0.4, length="100 us", run="seeds = 2\ntrace = true"
    )
    file = stage.file("same.toml", text + "[sweep]\n'workload.c.load' = [0.2, 0.6]\n")
    whole = stage.result(0, file)
    for ranks in (2, 4):
        out = stage.result(ranks, file)
        for name, content in contents(whole).items():
            check(contents(out).get(name) == content, f"{name} differs on {ranks} ranks")
        notes = json.loads((out / "result.json").read_text(encoding="utf-8"))
        check("rank 0 alone" not in json.dumps(notes), "it was not divided")
        told = provenance(out).get("ranks")
        check(isinstance(told, list) and len(told) == ranks, f"ranks: {told}")
    return f"{len(contents(whole))} files are the same on 2 and 4 ranks"


def undivided(stage: Stage) -> str:
    """A single switch is simulated by rank 0."""
    file = stage.file("star.toml", STAR)
    whole, out = stage.result(0, file), stage.result(2, file)
    check(contents(whole) == contents(out), "the tables differ")
    kept = (out / "result.json").read_text(encoding="utf-8")
    check("simulated on rank 0 alone: the network cannot be divided" in kept, kept)
    return "rank 0 says why"


def one_complaint(stage: Stage) -> str:
    """What is wrong with a file or an option is said once."""
    file = stage.file("wrong.toml", STAR.replace("load = 0.5", "laod = 0.5"))
    good = stage.file("good.toml", STAR)
    for words, said in (
        (("run", file), "unknown key `laod`"),
        (("run", "absent.toml"), "absent.toml"),
        (("run", good, "--threads", "2"), "--threads 2: 4 ranks were started"),
    ):
        code, out, errors = stage.run(4, *words)
        check(code == 2, f"{words}: exit {code}: {errors}")
        lines = [line for line in (out + errors).splitlines() if said in line]
        check(len(lines) == 1, f"{words}: {out}{errors}")
    return "four ranks say it once"


def copies(stage: Stage) -> str:
    """A command that each rank would do as a whole is refused, once."""
    file = stage.file("star.toml", STAR)
    code, out, errors = stage.run(3, "sweep", file)
    check(code == 2, f"exit {code}: {errors}")
    said = "weft sweep: 3 ranks were started, each of which would do all of it"
    check((out + errors).count(said) == 1, out + errors)
    check(not (stage.folder / "out").exists(), "it left results")
    return "sweep says it once"


def idle(stage: Stage) -> str:
    """Ranks for which the network has no parts are told of."""
    text = FABRIC.replace("levels = 3", "levels = 2").replace("4 km", "900 km")
    text = text.format(hosts=4, arity=2, load=0.1, length="5 ms", run="")
    file = stage.file("small.toml", text)
    whole, out = stage.result(0, file), stage.result(6, file)
    check(contents(whole) == contents(out), "the tables differ")
    kept = (out / "result.json").read_text(encoding="utf-8")
    check("divided among 4 of 6 ranks, and 2 had nothing to do" in kept, kept)
    return "four switches take four of six ranks"


def long_run(stage: Stage) -> tuple[str, Path, dict[str, bytes]]:
    """Leave results of a short run in a folder, and return a file that takes long."""
    text = FABRIC.format(hosts=64, arity=4, load=0.4, length="60 us", run="")
    out = stage.result(2, stage.file("short.toml", text))
    return stage.file("long.toml", text.replace("60 us", "100 s")), out, contents(out)


def rank_process(number: int, file: str) -> int:
    """Find the process of a rank that runs a file."""
    wanted = f"OMPI_COMM_WORLD_RANK={number}".encode()
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_rank = wanted in (folder / "environ").read_bytes().split(b"\0")
                if is_rank and file.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    return int(folder.name)
        time.sleep(0.05)
    raise FailedError(f"there is no rank {number}")


def killed(stage: Stage) -> str:
    """A rank that dies ends all, and earlier results stay whole."""
    file, out, before = long_run(stage)
    for number in (1, 0):
        process = stage.start(2, "run", file, "--no-pictures", "--out", str(out))
        victim = rank_process(number, file)
        time.sleep(3)
        check(process.poll() is None, "it ended before it was killed")
        os.kill(victim, signal.SIGKILL)
        code, _, errors = finish(process)
        check(code != 0, "mpirun says that all is well")
        check("signal 9" in errors or "Killed" in errors, errors)
        check(contents(out) == before, "the earlier results are not whole")
        left = [path.name for path in out.parent.iterdir() if path.name.startswith(".")]
        check(not left, f"left behind: {left}")
    return "mpirun names it, and the folder is whole"


def stopped(stage: Stage) -> str:
    """Ctrl-C ends a run as it does in one process."""
    file, out, before = long_run(stage)
    process = stage.start(2, "run", file, "--no-pictures", "--out", str(out))
    rank_process(1, file)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    code, _, errors = finish(process)
    check(code != 0, f"exit {code}")
    check("stopped before the first point was finished" in errors, errors)
    check(contents(out) == before, "the earlier results are not whole")
    return "rank 0 stops the others and keeps what there was"


def stopped_at_two_times(stage: Stage) -> str:
    """Ctrl-C soon after the start, and in the middle, leaves nothing half written."""
    text = FABRIC.format(hosts=64, arity=4, load=0.4, length="300 us", run="seeds = 4")
    file = stage.file("any.toml", text)
    out = stage.result(2, file)
    before, codes = contents(out), list[int]()
    for wait in (0.5, 1.5):
        process = stage.start(2, "run", file, "--no-pictures", "--out", str(out))
        rank_process(0, file)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        code, _, errors = finish(process)
        codes.append(code)
        check(code == 0 or "Traceback" not in errors, f"after {wait} s: {errors}")
        left = [path.name for path in out.parent.iterdir() if path.name.startswith(".")]
        check(not left, f"after {wait} s, left behind: {left}")
        # Whole results of fewer replications may have taken their place.
        after = contents(out)
        check(set(after) == set(before), f"after {wait} s: {sorted(after)}")
    return f"exit codes {codes}"


CASES: list[Callable[[Stage], str]] = [
    same_tables, undivided, idle, one_complaint, copies, killed, stopped, stopped_at_two_times,
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weft", required=True, help="the command, with its Python beside it")
    parser.add_argument("--only", default="", help="run the cases with this in their names")
    options = parser.parse_args()
    weft = Path(options.weft).absolute()
    has_mpi4py = [str(weft.parent / "python"), "-c", "from mpi4py import MPI"]
    if which("mpirun") is None:
        print("skipped ranks: there is no mpirun")
        return 0
    found = subprocess.run(has_mpi4py, capture_output=True, text=True, check=False)
    if found.returncode:
        print(f"skipped ranks: {found.stderr.splitlines()[-1]}")
        return 0
    passed, failed = 0, 0
    for case in CASES:
        if options.only not in case.__name__:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="weft-ranks-") as folder:
            try:
                said = case(Stage([str(weft)], Path(folder)))
            except FailedError as why:
                failed += 1
                print(f"FAILED {case.__name__}: {why}", flush=True)
                continue
        passed += 1
        print(f"ok {case.__name__}: {said} ({time.monotonic() - began:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

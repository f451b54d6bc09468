"""Real MPI programs over the provider: `make test-mpi`.

Each program is run over the provider and over Open MPI's own transports, and passes if both say
the same. Processes are killed at random moments: those that are left must be told, and nothing may
be left in `/dev/shm` or in the directory where they met. The programs are Debian's; what is not
installed is skipped and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from launching import (
    LIMIT_S,
    SHARED,
    SOURCES,
    WEFT,
    FailedError,
    Stage,
    backed,
    figures,
    is_there,
    processor_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# A launcher whose ranks have ended does so in this time, or never.
LAUNCHER_S = 10
HEADER = "/usr/include/rdma/fabric.h"
# Debian's compiler wrapper comes with programs, what it compiles against is in another package.
COMPILER = ["mpicc", "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h"]
MELT = """\
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
thermo 10
run 30
"""


def same(stage: Stage, ranks: int, words: list[str], kept: Callable[[str], list[str]]) -> str:
    """Run a program over the provider and over Open MPI's own transport: both say the same."""
    ours = kept(stage.mpirun(ranks, WEFT, *words))
    theirs = kept(stage.mpirun(ranks, SHARED, *words))
    if not ours or ours != theirs:
        different = next(
            (pair for pair in zip(ours, theirs, strict=False) if len(set(pair)) > 1), ""
        )
        raise FailedError(
            f"{len(ours)} and {len(theirs)} lines; the first that differs: {different}"
        )
    return f"{len(ours)} lines are the same"


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def offered(stage: Stage) -> str:
    said = stage.run("fi_info", "-p", "weft")
    kinds = ("FI_EP_RDM", "FI_EP_DGRAM", "FI_EP_MSG")
    if "provider: weft" not in said or any(kind not in said for kind in kinds):
        raise FailedError(said)
    if ";ofi_" in said:
        raise FailedError(f"a layer on the provider is offered before it: {said}")
    for capabilities in ("FI_RMA", "FI_ATOMIC|FI_RMA"):
        if "provider: weft" not in stage.run("fi_info", "-p", "weft", "-c", capabilities):
            raise FailedError(f"{capabilities} is not offered")
    refused = stage.run("fi_info", "-p", "weft", "-c", "FI_MULTICAST", may_fail=True)
    if "provider: weft" in refused:
        raise FailedError("it offers what it does not carry")
    return "remote memory access is, and multicast is not"


def with_both_threadings(stage: Stage, *words: str) -> list[str]:
    """Run a program where threads share a domain, and where it serialises all calls itself.

    Only then may messages take the ways that are short.
    """
    said = [stage.run(*words)]
    stage.environment["WEFT_TEST_THREADING"] = "domain"
    try:
        said.append(stage.run(*words))
    finally:
        del stage.environment["WEFT_TEST_THREADING"]
    return said


def manual(stage: Stage) -> str:
    program = stage.compile("provider", "gcc", "-lfabric")
    return with_both_threadings(stage, program)[-1].strip()


def remote(stage: Stage) -> str:
    """Remote memory access, directly and where no process may access another's memory."""
    program = stage.compile("remote", "gcc", "-lfabric")
    said = with_both_threadings(stage, program)[-1].strip()
    without_direct_copies(stage, lambda stage: stage.run(program))
    return said


def connected(stage: Stage) -> str:
    program = stage.compile("connected", "gcc", "-lfabric")
    said = with_both_threadings(stage, program)[-1].strip()
    if left := list(stage.directory.iterdir()):
        raise FailedError(f"left in {stage.directory}: {left}")
    return said


def in_c(name: str) -> Callable[[Stage], str]:
    """Run a program of the C interface, which leaves nothing behind."""

    def run(stage: Stage) -> str:
        program = stage.folder / name
        include = SOURCES.parents[1] / "python" / "weft" / "include"
        stage.run(
            *("gcc", "-D_GNU_SOURCE", "-O2", "-Wall", "-Werror", f"-I{include}"),
            *(str(SOURCES / f"{name}.c"), "-o", str(program)),
            *(str(stage.provider), f"-Wl,-rpath,{stage.provider.parent}"),
        )
        said = stage.run(str(program)).strip()
        if left := list(stage.directory.iterdir()):
            raise FailedError(f"left in {stage.directory}: {left}")
        return said

    return run


def fi_pingpong(stage: Stage) -> str:
    for kind in ([], ["-e", "rdm", "-c"], ["-e", "msg", "-c"]):
        port = str(random.SystemRandom().randrange(20_000, 30_000))
        server = subprocess.Popen(
            ["fi_pingpong", "-p", "weft", "-B", port, *kind],
            env=stage.variables(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            listening(server, int(port))
            said = stage.run("fi_pingpong", "-p", "weft", "-P", port, *kind, "127.0.0.1")
            server.wait(LIMIT_S)
        finally:
            server.kill()
        if server.returncode or "1m" not in said:
            raise FailedError(f"exit {server.returncode}: {said}")
    return "datagrams, reliable ones and connections"


def listening(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a server listens; a connection on trial would be the one that it serves."""
    deadline = time.monotonic() + LIMIT_S
    listens = re.compile(rf"^ *\d+: [0-9A-F]+:{port:04X} [0-9A-F:]+ 0A ", re.M)
    tables = [it for it in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if it.exists()]
    while not any(listens.search(it.read_text()) for it in tables):
        if server.poll() is not None or time.monotonic() > deadline:
            raise FailedError(f"the server does not listen: exit {server.returncode}")
        time.sleep(0.05)


def exchange(ranks: int) -> Callable[[Stage], str]:
    return lambda stage: same(stage, ranks, [stage.compile("exchange")], lines)


def without_direct_copies(stage: Stage, run: Callable[[Stage], str]) -> str:
    """Where no process may read the memory of another, as under Yama or in some containers."""
    stage.environment["WEFT_MESSAGES_FETCH"] = "off"
    try:
        return run(stage)
    finally:
        del stage.environment["WEFT_MESSAGES_FETCH"]


def calls(ranks: int) -> Callable[[Stage], str]:
    """Make the calls of OSU's benchmarks, whose messages the program checks."""

    def run(stage: Stage) -> str:
        program = stage.compile("calls", "mpicc", "-pthread")
        said = stage.mpirun(ranks, WEFT, program).splitlines()
        if said != ["point to point", "collectives", "windows"]:
            raise FailedError(str(said))
        return ", ".join(said)

    return run


def in_pieces(stage: Stage) -> str:
    return without_direct_copies(stage, exchange(3))


def recorded(stage: Stage) -> str:
    """What the ranks write down becomes a trace in which every message was sent and received."""
    path = SOURCES.parents[1] / "python" / "weft" / "mpi_record.py"
    spec = importlib.util.spec_from_file_location("mpi_record", path)
    if spec is None or spec.loader is None:
        raise FailedError(f"there is no {path}")
    mpi_record = importlib.util.module_from_spec(spec)
    sys.modules["mpi_record"] = mpi_record
    spec.loader.exec_module(mpi_record)
    folder, out = stage.folder / "record", stage.folder / "run.goal"
    folder.mkdir()
    stage.environment["WEFT_MESSAGES_RECORD"] = str(folder)
    try:
        stage.mpirun(3, WEFT, stage.compile("exchange"))
    finally:
        del stage.environment["WEFT_MESSAGES_RECORD"]
    made = mpi_record.make(folder, out)
    text = out.read_text()
    sent, received = len(re.findall(r": send ", text)), len(re.findall(r": recv ", text))
    if not made.messages == sent == received or made.ranks != 3 or made.dropped:
        raise FailedError(f"{made}, and {sent} sent, {received} received")
    return f"{made.messages} messages of {made.size} bytes"


# As if on an interconnect with 10 us of latency and 100 MB/s, in nanoseconds.
COSTS = {"latency": 10_000, "per_byte": 10}


def as_if(stage: Stage) -> str:
    """Under emulation all calls and programs do the same, and no message comes too early."""
    latency, per_byte = COSTS["latency"], COSTS["per_byte"]
    rows = [
        f"{length} 1000 {2000 + per_byte * length} {latency + per_byte * length}"
        for length in (0, 1000)
    ]
    table = stage.folder / "costs"
    table.write_text("\n".join(rows))
    program = stage.compile("exchange")
    plain = lines(stage.mpirun(3, WEFT, program))
    stage.environment["WEFT_MESSAGES_AS"] = str(table)
    try:
        if lines(stage.mpirun(3, WEFT, program)) != plain:
            raise FailedError("the program says something else")
        for calls in (manual, remote, connected):
            calls(stage)
        least = figures(stage.mpirun(2, WEFT, stage.compile("pingpong"), "3"))
    finally:
        del stage.environment["WEFT_MESSAGES_AS"]
    ratios = {
        length: time_us * 1000 / (latency + per_byte * length) for length, time_us in least.items()
    }
    if len(ratios) != 4 or min(ratios.values()) < 0.999:
        raise FailedError(f"one-way times, by that of the other interconnect: {ratios}")
    return ", ".join(f"{length} B {ratio:.3f} times" for length, ratio in ratios.items())


def netpipe(stage: Stage) -> str:
    out = stage.folder / "netpipe"
    words = ["NPopenmpi", "-i", "-u", "100000", "-n", "5", "-o", str(out)]
    said = stage.mpirun(2, WEFT, *words)
    sizes = len(out.read_text().splitlines()) if out.exists() else 0
    if not sizes and "Integrity check passed" not in said:
        raise FailedError(said[-500:])
    return "integrity of each size"


HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")


def hpcc(stage: Stage) -> str:
    said = run_hpcc(stage, WEFT)
    checks = len(re.findall(r"PASSED", said))
    return f"Success=1, {checks} residuals passed"


def run_hpcc(stage: Stage, transport: tuple[str, ...], order: int = 400) -> str:
    """Run it on two ranks with matrices of this order; what it says."""
    folder = stage.folder / "hpcc"
    folder.mkdir(exist_ok=True)
    text = HPCC_INPUT.read_text()
    for pattern, value in ((r"^\d+( +Ns)", str(order)), (r"^\d+( +Ps)", "1"), (r"^\d+( +Qs)", "2")):
        text = re.sub(pattern, value + r"\1", text, flags=re.M)
    (folder / "hpccinf.txt").write_text(text)
    (folder / "hpccoutf.txt").unlink(missing_ok=True)
    stage.run("mpirun", "--oversubscribe", *transport, "-n", "2", "hpcc", cwd=folder)
    said = (folder / "hpccoutf.txt").read_text()
    if "Success=1" not in said or "FAILED" in said.replace("0 tests completed and failed", ""):
        raise FailedError(said[-1000:])
    return said


def melt(stage: Stage) -> str:
    """32,000 atoms: every number of every step is the same, to the last digit."""
    words = melting(stage)
    step = re.compile(r"^\s*\d+( +-?[\d.e+-]+){5}\s*$")
    return same(stage, 2, words, lambda text: [it for it in text.splitlines() if step.match(it)])


def melting(stage: Stage) -> list[str]:
    (stage.folder / "in.melt").write_text(MELT)
    return ["lmp", "-in", str(stage.folder / "in.melt"), "-log", "none"]


def mpi4py(stage: Stage) -> str:
    python = "/usr/bin/python3"
    ring = [python, "-m", "mpi4py.bench", "ringtest", "-n", "1000", "-l", "20"]
    said = stage.mpirun(3, WEFT, *ring)
    if "time for" not in said:
        raise FailedError(said)
    return same(stage, 3, [python, "-m", "mpi4py.bench", "helloworld"], lines)


def told(stage: Stage) -> str:
    """Kill one of some processes at random moments, without a launcher."""
    program = stage.compile("endings", "gcc", "-lfabric")
    seconds = []
    for _ in range(stage.kills):
        after = random.SystemRandom().randrange(1, 60_000)
        both = with_both_threadings(stage, program, "4", str(after), str(after % 4))
        seconds += [float(said.split()[0]) for said in both]
    return f"told within {max(seconds):.3f} s, in the middle {statistics.median(seconds):.3f} s"


def killed(stage: Stage) -> str:
    """Kill a rank of a program under its launcher at random moments: the others and it end.

    Every other program has windows, whose memory Open MPI keeps in the directory of the run.
    """
    exchanging, calling = stage.compile("exchange"), stage.compile("calls", "mpicc", "-pthread")
    hung = 0
    for turn in range(stage.kills):
        program, argument = (exchanging, "1000") if turn % 2 == 0 else (calling, "windows")
        before = {it.name for it in Path("/dev/shm").iterdir()}
        words = ["mpirun", "--oversubscribe", *WEFT, "-n", "3", program, argument]
        backing = stage.folder / "backing"
        backing.mkdir()
        job = subprocess.Popen(
            words,
            env=stage.variables() | backed(backing),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            ranks = running(job, program, 3)
            time.sleep(random.SystemRandom().random() * 0.8)
            os.kill(random.SystemRandom().choice(ranks), signal.SIGKILL)
            hung += not launcher_ends(job, ranks)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
        if job.returncode == 0:
            raise FailedError("the program did not fail")
        left = {it.name for it in Path("/dev/shm").iterdir()} - before
        if left:
            raise FailedError(f"left in /dev/shm: {left}")
        # As `weft mpi` does at the end of a run.
        shutil.rmtree(backing)
        # Every hundredth time is no fault of the provider's.
        if hung > 1 + stage.kills // 20:
            raise FailedError(f"the launcher did not end {hung} times in {turn + 1}")
        # Whoever comes next takes a process for alive that nobody has waited for yet.
        vanish(ranks)
    # Whoever comes next removes the sockets of the killed.
    exchange(2)(stage)
    if left := list(stage.directory.iterdir()):
        raise FailedError(f"left in {stage.directory}: {left}")
    deadlocks = f"; the launcher deadlocked after the end of all ranks {hung} times" if hung else ""
    return f"{stage.kills} times, nothing left{deadlocks}"


def launcher_ends(job: subprocess.Popen[bytes], ranks: list[int]) -> bool:
    """Wait until all ranks have ended; whether their launcher ends then.

    That of Open MPI 4.1.4 deadlocks in `PMIx_server_finalize` after one or two of a hundred kills.
    """
    deadline = time.monotonic() + LIMIT_S
    while any(is_running(rank) for rank in ranks):
        if time.monotonic() > deadline:
            raise FailedError("a rank does not end")
        time.sleep(0.02)
    try:
        job.wait(LAUNCHER_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def vanish(processes: list[int]) -> None:
    """Wait until somebody has waited for processes that have ended: their launcher, or init."""
    deadline = time.monotonic() + LAUNCHER_S
    while any(Path(f"/proc/{it}").exists() for it in processes) and time.monotonic() < deadline:
        time.sleep(0.05)


def is_running(process: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for has."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def running(job: subprocess.Popen[bytes], program: str, ranks: int) -> list[int]:
    """Wait until so many ranks of a job run; their processes."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and job.poll() is None:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            if parent == job.pid and words[0] == program.encode():
                found.append(int(folder.name))
        if len(found) == ranks:
            return found
        time.sleep(0.05)
    raise FailedError("the ranks did not start")


@dataclass
class Case:
    """A program, and what must be installed for it."""

    name: str
    needs: list[str]
    run: Callable[[Stage], str]
    # Whether it is left out where a change must pass in a short time.
    is_long: bool = False


CASES = [
    Case("what libfabric is offered", ["fi_info"], offered),
    Case("the calls of libfabric", ["gcc", HEADER], manual),
    Case("remote memory access", ["gcc", HEADER], remote),
    Case("connections", ["gcc", HEADER], connected),
    Case("windows in C", ["gcc"], in_c("windows")),
    Case("virtual interfaces in C", ["gcc"], in_c("interfaces")),
    Case("fi_pingpong", ["fi_pingpong"], fi_pingpong),
    Case("exchange, 2 ranks", ["mpirun", *COMPILER], exchange(2)),
    Case("exchange, 5 ranks", ["mpirun", *COMPILER], exchange(5), is_long=True),
    Case("OSU's calls, 2 ranks", ["mpirun", *COMPILER], calls(2)),
    Case("OSU's calls, 4 ranks", ["mpirun", *COMPILER], calls(4), is_long=True),
    Case("what ranks write down", ["mpirun", *COMPILER], recorded),
    Case("as if on another interconnect", ["mpirun", *COMPILER], as_if),
    Case("exchange in pieces", ["mpirun", *COMPILER], in_pieces),
    Case("one of some processes is killed", ["gcc", HEADER], told),
    Case("a rank is killed", ["mpirun", *COMPILER], killed),
    Case("LAMMPS, 32,000 atoms", ["mpirun", "lmp"], melt, is_long=True),
    Case("netpipe", ["mpirun", "NPopenmpi"], netpipe),
    Case("mpi4py", ["mpirun", "/usr/lib/python3/dist-packages/mpi4py"], mpi4py),
    Case("hpcc", ["mpirun", "hpcc", str(HPCC_INPUT)], hpcc, is_long=True),
]


def test(stage: Stage, cases: list[Case], seconds: float) -> int:
    passed = failed = 0
    deadline = time.monotonic() + seconds
    for case in cases:
        missing = [it for it in case.needs if not is_there(it)]
        if missing:
            print(f"skipped {case.name}: there is no {', '.join(missing)}", flush=True)
            continue
        begin, used = time.monotonic(), processor_seconds()
        if begin > deadline:
            print(f"skipped {case.name}: the time is over", flush=True)
            continue
        try:
            said = case.run(stage)
        except FailedError as why:
            failed += 1
            print(f"FAILED {case.name}: {why}", flush=True)
            continue
        passed += 1
        took, used = time.monotonic() - begin, processor_seconds() - used
        print(f"ok {case.name}: {said} ({took:.1f} s, {used:.1f} of processors)", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=200, help="begin no case after so long")
    parser.add_argument("--short", action="store_true", help="leave the long cases out")
    parser.add_argument("--kills", type=int, help="how often something is killed [8, short 3]")
    parser.add_argument("--only", default="", help="run the cases with this in their names")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-mpi-tests-") as folder:
        directory = Path(folder) / "meet"
        directory.mkdir(mode=0o700)
        stage = Stage(options.provider.resolve(), Path(folder), directory)
        if options.short:
            stage.kills = 3
        stage.kills = options.kills or stage.kills
        cases = [
            it for it in CASES if options.only in it.name and not (options.short and it.is_long)
        ]
        return test(stage, cases, options.seconds)


if __name__ == "__main__":
    sys.exit(main())

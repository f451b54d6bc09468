"""What `weft mpi` says about launchers and ranks."""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from weft import mpi, mpi_as, mpi_figures, mpi_measure, mpi_record
from weft.cli import main
from weft.place import claim
from weft.program import Node, Program, run_program
from weft.recorded import run_trace

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN_MPI = 'echo "mpirun (Open MPI) 4.1.4"'


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An Open MPI that prints its environment and what it is to run, alone on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script(
        folder / "mpirun",
        f'[ "$1" = --version ] && {OPEN_MPI} && exit\n'
        'echo "$FI_PROVIDER_PATH|$OMPI_MCA_pml|$OMPI_MCA_mtl"\n'
        'echo "$OMPI_MCA_opal_common_ofi_provider_include|$WEFT_MESSAGES_DIRECTORY|$*"\n'
        'echo "$OMPI_MCA_btl_vader_backing_directory|$OMPI_MCA_osc_sm_backing_directory"\n'
        "exit 7",
    )
    script(folder / "ompi_info", 'echo "mca:mtl:ofi:version:mca:2.1.0"')
    provider = tmp_path / "providers" / mpi.PROVIDER
    provider.parent.mkdir()
    provider.touch()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("WEFT_MESSAGES_PROVIDER", str(provider))
    for name in (mpi.DIRECTORY, "FI_PROVIDER_PATH"):
        monkeypatch.delenv(name, raising=False)
    return folder / "mpirun"


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_launcher_is_told_to_use_the_provider(
    launcher: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert mpi.run(("mpirun", "-n", "2", "./program")) == 7
    said = capfd.readouterr()
    first, second, third = said.out.splitlines()
    assert first == f"{launcher.parents[1]}/providers|cm|ofi"
    include, directory, words = second.split("|")
    assert (include, words) == ("weft", "-n 2 ./program")
    assert third == f"{directory}|{directory}", "no window is in /dev/shm"
    assert Path(directory).parent == Path(tempfile.gettempdir())
    assert Path(directory).name.startswith("weft-mpi-")
    assert not Path(directory).exists(), "it is removed with the run"
    assert said.err.startswith("weft mpi: Open MPI 4.1.4 sends over shared memory of this host")


def test_a_backing_directory_of_the_users_is_kept(
    launcher: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    del launcher
    monkeypatch.setenv("OMPI_MCA_osc_sm_backing_directory", "/large")
    assert mpi.run(("mpirun", "./program")) == 7
    _, second, third = capfd.readouterr().out.splitlines()
    assert third == f"{second.split('|')[1]}|/large"


def test_a_directory_of_the_users_is_kept(
    launcher: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    del launcher
    kept = Path(tempfile.gettempdir()) / f"weft-{os.getpid()}"
    monkeypatch.setenv(mpi.DIRECTORY, str(kept))
    assert mpi.run(("mpirun", str(tmp_path))) == 7
    assert f"|{kept}|" in capfd.readouterr().out


def test_a_program_without_a_launcher_is_alone_on_its_host(launcher: Path) -> None:
    del launcher
    path = mpi.provider()
    assert mpi.environment(path, Path("/somewhere"), False)["WEFT_MESSAGES_ONE_HOST"] == "on"
    assert "WEFT_MESSAGES_ONE_HOST" not in mpi.environment(path, Path("/somewhere"), True)


def test_what_is_missing_is_named_with_its_packages(
    launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(launcher.with_name("ompi_info"), 'echo "mca:mtl:psm2:version"')
    with pytest.raises(mpi.MpiError, match=r"without libfabric.*openmpi-bin and libfabric1"):
        mpi.run(("mpirun", "x"))
    script(launcher, 'echo "HYDRA build details:"')
    with pytest.raises(mpi.MpiError, match=r"not Open MPI's: it says 'HYDRA build details:'"):
        mpi.run(("mpirun", "x"))
    launcher.unlink()
    with pytest.raises(mpi.MpiError, match=r"no mpirun on the path; .*openmpi-bin"):
        mpi.run(("mpirun", "x"))
    monkeypatch.setenv("WEFT_MESSAGES_PROVIDER", "/nowhere/libweft-fi.so")
    said = CliRunner().invoke(main, ["mpi", "--", "mpirun", "x"])
    assert said.exit_code == 1
    assert "no provider at /nowhere/libweft-fi.so" in said.output


def test_a_setting_that_the_provider_would_ignore_is_refused(
    launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del launcher
    monkeypatch.setenv("WEFT_MESSAGES_FETCH", "no")
    with pytest.raises(mpi.MpiError, match="WEFT_MESSAGES_FETCH=no: it takes on or off"):
        mpi.run(("mpirun", "x"))
    monkeypatch.delenv("WEFT_MESSAGES_FETCH")
    monkeypatch.setenv("WEFT_MESSAGES_FECTH", "on")
    with pytest.raises(mpi.MpiError, match="no such setting; there are WEFT_MESSAGES_DIRECTORY"):
        mpi.run(("mpirun", "x"))


def figures(*counts: int) -> bytes:
    return struct.pack(f"={1 + len(mpi_figures.COUNTS)}Q", 1, *counts)


def rank(proc: Path, pid: int, number: int | None, counts: bytes) -> None:
    """Write a process as `/proc` shows it."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text("program\n")
    variable = "" if number is None else f"HOME=/\0OMPI_COMM_WORLD_RANK={number}\0"
    (folder / "environ").write_text(variable)
    file = proc / "memfd:weft-messages (deleted)"
    file.write_bytes(counts)
    (folder / "fd" / "5").symlink_to(file)


def test_the_ranks_that_run_are_read_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The link of a file without a name begins at the root.
    monkeypatch.setattr(mpi_figures, "_FIGURES", f"{tmp_path}/memfd:weft-messages (")
    counts = figures(*range(1, 13))
    rank(tmp_path, 40, 1, counts)
    rank(tmp_path, 41, 0, counts)
    rank(tmp_path, 39, None, counts)
    found = list(mpi_figures.endpoints(tmp_path))
    assert [(it.rank, it.pid) for it in found] == [(0, 41), (1, 40), (None, 39)]
    assert found[0].counts == dict(zip(mpi_figures.COUNTS, range(1, 13), strict=True))
    table = list(mpi_figures.lines(found))
    assert len({len(line) for line in table}) == 1, "the columns stand below their heads"
    assert table[1].split()[:4] == ["0", "41", "program", "1"]
    assert "1 (2 B)" in table[1]
    assert "8 polls, 9 sleeps" in table[1]


def test_what_two_endpoints_of_a_rank_have_carried_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi_figures, "_FIGURES", f"{tmp_path}/memfd:weft-messages (")
    rank(tmp_path, 40, 0, figures(*range(1, 13)))
    (tmp_path / "40" / "fd" / "7").symlink_to(tmp_path / "memfd:weft-messages (deleted)")
    found = list(mpi_figures.endpoints(tmp_path))
    assert [it.rank for it in found] == [0]
    assert found[0].counts == dict(zip(mpi_figures.COUNTS, range(2, 26, 2), strict=True))


def test_figures_of_another_version_are_not_read() -> None:
    assert mpi_figures.read(figures(*range(12))[:-1]) is None
    assert mpi_figures.read(struct.pack("=13Q", 2, *range(12))) is None


def test_status_says_so_if_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_figures, "endpoints", lambda: iter(()))
    said = CliRunner().invoke(main, ["mpi", "status"])
    assert said.output == "No program of yours runs under weft mpi.\n"
    said = CliRunner().invoke(main, ["mpi", "status", "--json"])
    assert json.loads(said.output) == []


def test_a_program_without_dashes_is_told_how(launcher: Path) -> None:
    del launcher
    said = CliRunner().invoke(main, ["mpi", "mpirun", "-n", "2"])
    assert "weft mpi -- mpirun -n 2" in said.output


def test_the_layout_is_the_providers() -> None:
    source = Path(__file__).parents[2] / "crates/messages/src/figures.rs"
    text = source.read_text().split("pub struct Counts {")[1].split("}")[0]
    names = [line.split()[1].rstrip(":") for line in text.splitlines() if "pub" in line.split()]
    assert tuple(names) == mpi_figures.COUNTS
    assert sys.byteorder == "little"


ONE, TWO = "6f" * 32, "74" * 32
# Two ranks: the first computes, sends a long message and a short one; the second has posted a
# receive for the short one before, receives both, and answers. One message nobody receives. The
# first waits for its long message and for the answer, and is late by 2 and 4 us to see that they
# are over; the second polls more slowly than that before it answers, so that it computes.
RECORDS = {
    "a": f"""\
n {ONE} 0
c 999999
p 1 {TWO}
s 1 a0 100000 77 1 1000
c 50
s 1 b0 8 78 0 1100
s 1 cc 4 78 0 1200
w 200 6000 20000
d 77 1300 4000
c 60
q 5
r 5 1 d 16 4100 8100 8300
e
""",
    "b": f"""\
n {TWO} 1
c 5
q 10
c 30
q 11
r 11 2 a0 100000 900 1900 2000
r 10 2 b0 8 2100 2100 2200
c 40
w 10 700 900
s 2 d 16 9 0 3100
p 2 {ONE}
e
""",
}

GOAL = """\
num_ranks 2
rank 0 {
l1: send 100000b to 1 tag 0
l2: calc 50
l3: send 8b to 1 tag 1
l3 requires l2
l4: calc 2000
l4 requires l1
l5: calc 60
l5 requires l3
l5 requires l4
l6: recv 16b from 1 tag 2
l6 requires l5
l7: calc 4000
l7 requires l6
}
rank 1 {
l1: calc 30
l2: recv 100000b from 0 tag 0
l2 requires l1
l3: recv 8b from 0 tag 1
l4: calc 40
l4 requires l1
l4 requires l2
l4 requires l3
l5: calc 900
l5 requires l4
l6: send 16b to 0 tag 2
l6 requires l5
}
"""


def recorded(folder: Path, records: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in records.items():
        (folder / name).write_text(text)
    return folder


def test_what_ranks_wrote_down_becomes_a_trace_that_runs(tmp_path: Path) -> None:
    out = tmp_path / "run.goal"
    made = mpi_record.make(recorded(tmp_path / "records", RECORDS), out)
    assert out.read_text() == GOAL
    assert made == mpi_record.Trace(2, 3, 100_024, 7080, 1)
    ran = run_trace(out, "clan")
    assert len(ran.messages) == 3


def test_a_file_without_events_is_no_rank(tmp_path: Path) -> None:
    windows = {"c": f"n {'75' * 32} 0\ne\n", "d": f"n {'76' * 32} 1\ne\n"}
    out = tmp_path / "run.goal"
    mpi_record.make(recorded(tmp_path / "records", RECORDS | windows), out)
    assert out.read_text() == GOAL


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ({}, "nothing was written down"),
        ({"a": RECORDS["a"]}, "a message of a process that is no rank"),
        ({"b": RECORDS["b"]}, "the ranks that were written down are 1"),
        ({**RECORDS, "b": RECORDS["b"].removesuffix("e\n")}, "rank 1 ended before MPI_Finalize"),
        ({"a": RECORDS["a"].replace(" 0\n", " -\n", 1)}, "was it started by mpirun?"),
        ({"a": "garbage\n"}, "does not begin with the name of a rank"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, records: dict[str, str], why: str) -> None:
    with pytest.raises(mpi_record.RecordError, match=why.replace("?", r"\?")):
        mpi_record.make(recorded(tmp_path / "records", records), tmp_path / "run.goal")


def test_a_record_needs_a_program_and_a_folder(launcher: Path) -> None:
    del launcher
    alone = CliRunner().invoke(main, ["mpi", "--record", "run.goal", "status"])
    assert "weft mpi --record FILE -- mpirun" in alone.output
    nowhere = CliRunner().invoke(main, ["mpi", "--record", "no/run.goal", "--", "mpirun"])
    assert "there is no folder no" in nowhere.output


def test_no_trace_is_made_of_a_program_that_fails(
    launcher: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    del launcher
    assert mpi.run(("mpirun",), tmp_path / "run.goal") == 7
    assert "no trace: the program ended with 7" in capfd.readouterr().err
    assert not (tmp_path / "run.goal").exists()


def test_a_trace_says_how_long_the_run_took_by_the_clock(tmp_path: Path) -> None:
    spans = {"a": "t 1000 9000\ne\n", "b": "t 1500 8000\ne\n"}
    records = {name: text.removesuffix("e\n") + spans[name] for name, text in RECORDS.items()}
    made = mpi_record.make(recorded(tmp_path / "records", records), tmp_path / "run.goal")
    assert made.measured_ns == 7500, "from the first message of the last rank to the last of all"
    assert (tmp_path / "run.goal").read_text() == GOAL


def ping_pong(path: Path, size: int, rounds: int) -> Path:
    """Write the trace of a ping-pong whose ranks compute 100 ns before each message."""
    out = ["num_ranks 2"]
    for rank in range(2):
        out.append(f"rank {rank} {{")
        label = 0
        for _ in range(rounds):
            for what in ("send", "recv") if rank == 0 else ("recv", "send"):
                to = f"{'to' if what == 'send' else 'from'} {1 - rank}"
                for operation in ("calc 100", f"{what} {size}b {to} tag 0"):
                    label += 1
                    out.append(f"l{label}: {operation}")
                    if label > 1:
                        out.append(f"l{label} requires l{label - 1}")
        out.append("}")
    path.write_text("\n".join(out) + "\n")
    return path


def test_ping_pong_fits_latency_and_rate_and_predicts_what_was_not_put_in(tmp_path: Path) -> None:
    truth = tmp_path / "truth.toml"
    truth.write_text(mpi_measure.composition(mpi_measure.Host(740.0, 0.25)))

    def run(size: int) -> mpi_measure.Run:
        trace = ping_pong(tmp_path / f"{size}.goal", size, 50)
        return mpi_measure.Run(trace, 100, round(mpi_measure.predict(trace, truth)))

    small, large = mpi_measure.PING_PONG[0][0], mpi_measure.PING_PONG[-1][0]
    system = tmp_path / "host.toml"
    host = mpi_measure.fit(system, [[run(small)], [run(large)]])
    assert host.latency_ns == pytest.approx(740, rel=0.01)
    assert host.ns_per_byte == pytest.approx(0.25, rel=0.01)
    other = run(20_000)
    said = mpi_measure.predict(other.trace, system)
    assert said == pytest.approx(other.measured_ns, rel=0.01)
    assert said > 100 * (740 + 0.25 * 20_000), "with what the ranks compute"


def test_what_was_measured_becomes_a_folder(tmp_path: Path) -> None:
    verdicts = (
        mpi_measure.Verdict("ping-pong 8 B", 8, 1.0, 1.0, (0.0, 0.0, 0.0), True),
        mpi_measure.Verdict("stencil", 600, 50.0, 40.0, (-0.3, -0.2, 0.1), False),
    )
    measured = mpi_measure.Measurement(mpi_measure.Host(500, 0.5), verdicts, 3)
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    (drafts / "host.toml").write_text(mpi_measure.composition(measured.host))
    with claim(tmp_path / "out") as place:
        mpi_measure.write(place, measured, drafts)
    table = (tmp_path / "out" / "measured.csv").read_text().splitlines()
    assert table[2] == "stencil,600,50,40,-0.3000,-0.2000,0.1000,no"
    page = (tmp_path / "out" / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "-20.0 %" in page
    assert ">calibrated<" in page
    assert "2.00 GB/s" in page
    said = mpi_measure.lines(measured)
    assert said[0].endswith("latency 500 ns, rate 2.00 GB/s")
    assert "-30.0 to +10.0 %" in said[-1]


def test_a_program_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    words = ["mpi", "measure", "--program", "solver", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 2
    assert "solver: not there; there are ping-pong 8 B" in said.output
    assert "stencil" in said.output


def four_turns(length: int) -> dict[int, Callable[[Node], Program]]:
    def first(me: Node) -> Program:
        for _ in range(4):
            yield me.send(1, length)
            yield me.receive(1)

    def second(me: Node) -> Program:
        for _ in range(4):
            yield me.receive(0)
            yield me.send(0, length)

    return {0: first, 1: second}


@pytest.mark.parametrize("system", ["clan", "maestro", "memory-channel-2"])
def test_messages_cost_what_the_simulator_says(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpi_as, "LENGTHS", (0, 8, 1500))
    costs = {it.length: it for it in mpi_as.costs(mpi_as.System(system))}
    for length in (8, 1500):
        time_us = run_program(system, four_turns(length), ranks=2).time_us
        assert costs[length].latency_ns == pytest.approx(time_us * 1000 / 8, abs=1)
    # Messages follow each other no faster than the adapter takes them, nor slower than they arrive.
    assert 0 < costs[1500].gap_ns <= costs[1500].latency_ns
    assert costs[1500].busy_ns > 0
    rows = mpi_as.table(list(costs.values())).splitlines()
    assert [int(row.split()[0]) for row in rows[1:]] == [0, 8, 1500]


def test_a_program_is_run_with_the_costs_of_the_system(
    launcher: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mpi_as, "LENGTHS", (0, 8, 2**20))
    system = mpi_as.System("clint", channel="quick")
    costs = mpi_as.costs(system)
    short = next(it for it in costs if it.length == 8)
    # A ping-pong under emulation takes 700 ns more than it should.
    script(
        launcher,
        f'[ "$1" = --version ] && {OPEN_MPI} && exit\n'
        f'case "$*" in *one-way*) echo {short.latency_ns + 700}; exit;; esac\n'
        'while read -r it; do echo "$it"; done < $WEFT_MESSAGES_AS',
    )
    assert mpi.run(("mpirun", "./program"), None, system) == 0
    said = capfd.readouterr()
    earlier = [replace(it, latency_ns=it.latency_ns - 700) for it in costs]
    assert said.out == mpi_as.table(earlier)
    assert f"as if on clint: 8 B take {short.latency_ns / 1000:.4g} µs one way" in said.err
    assert "this host's MPI takes 0.7 µs, included" in said.err


def test_software_that_takes_longer_than_the_interconnect_is_told() -> None:
    costs = [mpi_as.Cost(length, 10, 20, 500) for length in (0, 8, 2**20)]
    fitted, software = mpi_as.without_software(costs, 1200)
    assert software == 700
    assert [it.latency_ns for it in fitted] == [0, 0, 0]
    assert [(it.busy_ns, it.gap_ns) for it in fitted] == [(10, 20)] * 3
    told = mpi_as.told(mpi_as.System("fast"), costs, software)
    assert "takes 0.7 µs, longer than 8 B there, so that short ones take longer than there" in told
    longer = [*costs[:2], replace(costs[2], latency_ns=9000)]
    fitted, _ = mpi_as.without_software(longer, 1200)
    assert fitted[2].latency_ns == 8500, "no more is taken off than 8 B take there"
    assert mpi_as.without_software(costs, 400) == (costs, 0)
    assert mpi_as.rounds(costs) == 10_001
    assert mpi_as.rounds([mpi_as.Cost(8, 0, 0, 10**9)]) == 51


@pytest.mark.parametrize(
    ("ping_pong", "why"),
    [("echo it crashed >&2; exit 3", "ended with 3: it crashed"), ("echo -1", "ended with 0")],
)
def test_a_ping_pong_that_fails_is_told(
    launcher: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    ping_pong: str,
    why: str,
) -> None:
    monkeypatch.setattr(mpi_as, "LENGTHS", (0, 8, 2**20))
    script(
        launcher,
        f'[ "$1" = --version ] && {OPEN_MPI} && exit\n'
        f'case "$*" in *one-way*) {ping_pong}; exit;; esac\n'
        'while read -r it; do echo "$it"; done < $WEFT_MESSAGES_AS',
    )
    system = mpi_as.System("clan")
    assert mpi.run(("mpirun", "./program"), None, system) == 0
    said = capfd.readouterr()
    assert said.out == mpi_as.table(mpi_as.costs(system)), "with costs that are not shortened"
    assert f"no ping-pong under emulation: mpirun {why}" in said.err
    assert "to which comes what this host's MPI takes" in said.err


@pytest.mark.parametrize("is_users", [False, True])
def test_a_ping_pong_meets_where_the_program_does_and_is_not_recorded(
    launcher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_users: bool
) -> None:
    monkeypatch.setattr(mpi_as, "LENGTHS", (0, 8, 2**20))
    monkeypatch.setenv(mpi.RECORD, str(tmp_path))
    # That of a test is too long for the sockets in it.
    own = tempfile.mkdtemp()
    if is_users:
        monkeypatch.setenv(mpi.DIRECTORY, own)
    seen = tmp_path / "seen"
    script(
        launcher,
        f'[ "$1" = --version ] && {OPEN_MPI} && exit\n'
        f'echo "$WEFT_MESSAGES_DIRECTORY|$WEFT_MESSAGES_RECORD" >> {seen}\necho 90000',
    )
    assert mpi.run(("mpirun", "./program"), None, mpi_as.System("clan")) == 0
    (first, first_record), (second, second_record) = (
        line.split("|") for line in seen.read_text().splitlines()
    )
    assert (first_record, second_record) == ("", str(tmp_path))
    assert [it == own for it in (first, second)] == [is_users] * 2


@pytest.mark.parametrize(
    ("value_ns", "written"),
    [(0, "0"), (40, "0.04"), (7260, "7.3"), (99_600, "100"), (123_000, "120"), (2_000_000, "2000")],
)
def test_what_software_takes_is_written_without_an_exponent(value_ns: int, written: str) -> None:
    costs = [mpi_as.Cost(length, 10, 20, 10**7) for length in (0, 8, 2**20)]
    told = mpi_as.told(mpi_as.System("slow"), costs, value_ns)
    assert f"this host's MPI takes {written} µs, included" in told
    assert "8 B take 10000 µs" in told


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--as", "clent"], "clent"),
        (["--as", "clint"], "channel"),
        (["--as", "clan", "--channel", "quick"], "quick"),
        (["--channel", "quick"], "--channel, --route, --preset and --set need --as"),
    ],
)
def test_another_interconnect_that_cannot_be_is_refused(
    launcher: Path, options: list[str], why: str
) -> None:
    del launcher
    said = CliRunner().invoke(main, ["mpi", *options, "--", "mpirun", "x"])
    assert said.exit_code in {1, 2}
    assert why in said.output
    assert "Traceback" not in said.output


def test_as_needs_a_program() -> None:
    said = CliRunner().invoke(main, ["mpi", "--as", "clan", "status"])
    assert said.exit_code == 2
    assert "--as SYSTEM needs a program" in said.output

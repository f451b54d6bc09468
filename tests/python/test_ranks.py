"""What can be said of ranks without MPI; `tests/mpi/ranks.py` starts some."""

from __future__ import annotations

import re
import signal
import sys

import pytest
from click.testing import CliRunner

from weft.cli import main
from weft.ranks import RanksError, connect, joined, refuse_copies, started
from weft.report.summary import _ranks


def as_rank(monkeypatch: pytest.MonkeyPatch, rank: int, ranks: int) -> None:
    for name in ("PMI_SIZE", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(rank))
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", str(ranks))


def test_a_process_that_nobody_started_as_a_rank_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, 0, 1)
    assert (started(), connect()) == ((0, 1), None)
    with joined({"--workers": 3, "--threads": 2}) as ranks:
        assert ranks is None


def test_mpich_names_ranks_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, 0, 1)
    monkeypatch.delenv("OMPI_COMM_WORLD_SIZE")
    monkeypatch.setenv("PMI_RANK", "2")
    monkeypatch.setenv("PMI_SIZE", "3")
    assert started() == (2, 3)


def test_what_does_not_go_with_ranks_is_said_at_rank_0_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_rank(monkeypatch, 0, 4)
    refused = r"--threads 2: 4 ranks were started, .*; accepted: more ranks, or no mpirun"
    with pytest.raises(RanksError, match=refused), joined({"--workers": None, "--threads": 2}):
        pass
    as_rank(monkeypatch, 1, 4)
    waits: list[float] = []
    monkeypatch.setattr("weft.ranks.time.sleep", waits.append)
    with pytest.raises(SystemExit) as ended, joined({"--workers": None, "--threads": 2}):
        pass
    said = capsys.readouterr()
    assert (ended.value.code, said.out, len(waits)) == (2, "", 1)
    assert said.err.startswith("rank 1 on ")
    assert re.search(refused, said.err)


def test_what_each_rank_would_do_as_a_whole_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("weft.ranks.time.sleep", waits.append)
    for rank in (0, 1):
        as_rank(monkeypatch, rank, 3)
        for command in ("run", "live", "mpi"):
            refuse_copies(command)
        with pytest.raises(SystemExit) as ended:
            refuse_copies("sweep")
        said = capsys.readouterr()
        assert (ended.value.code, said.out, len(waits)) == (2, "", rank)
        expected = "weft sweep: 3 ranks were started, each of which would do all of it"
        assert said.err.startswith(expected) == (rank == 0)
    as_rank(monkeypatch, 0, 1)
    refuse_copies("sweep")


def test_every_command_but_those_for_ranks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, 0, 2)
    refused = {
        name for name in main.commands if CliRunner().invoke(main, [name, "--help"]).exit_code
    }
    assert refused == set(main.commands) - {"run", "live", "mpi"}


def test_ctrl_c_is_up_to_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    during: list[object] = []

    def connected() -> None:
        during[:] = [signal.getsignal(number) for number in numbers]

    monkeypatch.setattr("weft.ranks.connect", connected)
    for rank, expected in (
        (0, [before[0], signal.default_int_handler]),
        (1, [signal.SIG_IGN, signal.SIG_IGN]),
    ):
        as_rank(monkeypatch, rank, 2)
        with joined({}):
            pass
        assert during == expected
        assert [signal.getsignal(number) for number in numbers] == before


def test_ranks_without_mpi4py_name_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, 0, 2)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(RanksError, match=r"2 ranks were started, .*pip install 'weft\[mpi\]'"):
        connect()


def test_a_page_names_the_memory_of_each_rank() -> None:
    ranks = [
        {"rank": rank, "machine": machine, "bytes": size}
        for rank, machine, size in ((0, "a", 60_400_000), (1, "b", 51_000_000))
    ]
    assert _ranks(ranks) == "2 on 2 machines, with 60 MB, 51 MB of memory"
    assert _ranks(ranks[:1]) == "1, with 60 MB of memory"
    assert not _ranks([])

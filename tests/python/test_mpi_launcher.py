"""A launcher that goes on without any process is ended, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from weft import mpi, mpi_launcher

if TYPE_CHECKING:
    from collections.abc import Iterator

ALONE_S = 0.4
OUTPUT = 1 << 12


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let all times be short, and temporary files be the test's own, on a path that is short."""
    monkeypatch.setattr(mpi_launcher, "ALONE_S", ALONE_S)
    monkeypatch.setattr(mpi_launcher, "_LOOK_S", 0.05)
    monkeypatch.setattr(mpi_launcher, "_OBEY_S", 0.2)
    del tmp_path  # Made before, where those of all tests are.
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Put a stand-in for Open MPI's launcher on the path, and a provider where it is looked for."""
    path = tmp_path / "mpirun"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "mpirun (Open MPI) 4.1.4" && exit\n{text}\n'
    )
    path.chmod(0o755)
    (tmp_path / "ompi_info").write_text("#!/bin/sh\necho mca:mtl:ofi:version:mca:2.1.0\n")
    (tmp_path / "ompi_info").chmod(0o755)
    (tmp_path / mpi.PROVIDER).touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("WEFT_MESSAGES_PROVIDER", str(tmp_path / mpi.PROVIDER))


@pytest.mark.parametrize("obeys", [True, False])
def test_one_without_processes_is_ended_and_its_session_removed(
    obeys: bool,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename="node.of.a.domain"))
    sessions = temporary / f"ompi.{'node' if obeys else 'node.of.a.domain'}.{os.getuid()}"
    (sessions / "pid.1").mkdir(parents=True)
    # As where it deadlocks: its rank has ended, and nobody has waited for it.
    trap = "" if obeys else "trap '' TERM\n"
    # It is too short to be seen as it runs.
    text = f"mkdir {sessions}/pid.$$\n{trap}sleep 0 &\nexec sleep 60"
    launcher(tmp_path, monkeypatch, text)
    began_s = time.monotonic()
    assert mpi.run(("mpirun", "-n", "1", "x")) == 128 + signal.SIGKILL
    assert ALONE_S < time.monotonic() - began_s < 30
    said = capfd.readouterr().err.splitlines()[-1]
    assert said.startswith("weft mpi: mpirun: it went on for 0.4 s after the end of its last")
    assert [it.name for it in sessions.iterdir()] == ["pid.1"], "that of another run is kept"


def test_one_with_a_process_or_yet_without_one_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher(tmp_path, monkeypatch, "read nothing < /dev/null\nsleep 1.2 &\nwait\nexit 7")
    assert mpi.run(("mpirun", "-n", "1", "x")) == 7
    # Its own sleep is no child: it has started none.
    launcher(tmp_path, monkeypatch, "exec sleep 1.2")
    assert mpi.run(("mpirun", "-n", "1", "x")) == 0


def test_one_is_left_as_long_as_what_a_rank_has_left_behind_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # As mpirun does, the launcher reads until nobody has the other end.
    rank = "(setsid sh -c 'sleep 1.2; echo late' &) "
    launcher(tmp_path, monkeypatch, f"mkfifo $0.out\n{rank}> $0.out &\nexec cat $0.out")
    assert mpi.run(("mpirun", "-n", "1", "x")) == 0
    assert capfd.readouterr().out == "late\n"


def test_a_process_that_has_left_its_first_thread_has_not_ended() -> None:
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        while mpi_launcher._state(process.pid) != "Z":
            time.sleep(0.01)
        assert not mpi_launcher._has_ended(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert mpi_launcher._has_ended(process.pid)


def test_one_that_ends_by_itself_at_last_keeps_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher(tmp_path, monkeypatch, "exec sleep 0.5")

    def look(self: mpi_launcher._Alone, _now_s: float) -> float:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return ALONE_S

    monkeypatch.setattr(mpi_launcher._Alone, "look", look)
    assert mpi.run(("mpirun", "-n", "1", "x")) == 0


def test_one_is_ended_whoever_interrupts_that(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo; exec sleep 60"], stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        waits = iter([KeyboardInterrupt, KeyboardInterrupt])
        wait = process.wait

        def interrupted(limit_s: float | None = None) -> int:
            for why in waits:
                raise why
            return wait(limit_s)

        monkeypatch.setattr(process, "wait", interrupted)
        mpi_launcher._end(process)
        assert process.returncode == -signal.SIGKILL


def test_a_program_without_a_launcher_may_outlive_what_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher(tmp_path, monkeypatch, "exit 1")
    (tmp_path / "program").write_text("#!/bin/sh\nsleep 0.2 &\nexec sleep 1.2")
    (tmp_path / "program").chmod(0o755)
    assert mpi.run((str(tmp_path / "program"),)) == 0


def test_one_that_is_stopped_or_not_read_is_not_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_launcher, "_LOOK_S", 1)
    with subprocess.Popen(["sleep", "60"]) as process:
        alone = mpi_launcher._Alone(process.pid, had_children=True)
        assert (alone.look(0), alone.look(1), alone.look(2.5)) == (0, 1, 2.5)
        assert alone.look(100) == 4.5, "both were stopped meanwhile"
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert alone.look(101) == 0
        process.send_signal(signal.SIGCONT)
        while mpi_launcher._state(process.pid) == "T":
            time.sleep(0.01)
        assert (alone.look(102), alone.look(103)) == (0, 1), "its time begins anew"
        monkeypatch.setattr(mpi_launcher, "_are_read", lambda: False)
        assert alone.look(104) == 0
        process.kill()


def test_a_full_pipe_is_not_read() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(OUTPUT))
    assert not mpi_launcher._are_read((writer, 2))
    while not mpi_launcher._are_read((writer, 2)):
        os.read(reader, OUTPUT)
    os.close(reader)
    os.close(writer)

"""Windows between Python programs."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from weft import messages
from weft.messages import Window, WindowError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a program does that attaches: six lines.
OTHER = """
from weft.messages import Window
with Window.attach("talk") as window:
    window.barrier(2, 60)
    window.write(64, bytes(window.memory[:5])[::-1])
    window.barrier(2, 60)
"""


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A meeting directory of this test's own, in which nothing is left."""
    folder = Path(tempfile.mkdtemp(prefix="weft-w-"))
    monkeypatch.setenv("WEFT_MESSAGES_DIRECTORY", str(folder))
    yield folder
    folder.rmdir()


def program(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def test_two_programs_exchange_through_a_window() -> None:
    with Window.create("talk", "4 KiB") as window:
        window.write(0, b"hello")
        with program(OTHER) as other:
            window.barrier(2, 60)
            window.barrier(2, 60)
            assert bytes(window.memory[64:69]) == b"olleh"
            assert other.wait(60) == 0
        assert window.members == [0]


def test_writes_appear_in_the_views_of_their_targets() -> None:
    with Window.create("w", 1024) as one, Window.attach("w") as two:
        assert (one.node, two.node, two.members) == (0, 1, [0, 1])
        view = two.memory.view(np.float64)
        one.write(8, np.array([1.5, 2.5]))
        assert view[1:3].tolist() == [1.5, 2.5]
        one.write(0, b"x" * 8, to="others")
        one.write(32, b"y" * 8, to=0)
        one.write(40, memoryview(b"z" * 8), to=[0, 1])
        assert one.read(0, 8) == bytes(8)
        assert two.read(0, 8) == b"x" * 8
        assert [it.read(32, 8) == b"y" * 8 for it in (one, two)] == [True, False]
        assert one.read(40, 8) == two.read(40, 8) == b"z" * 8
        assert two.read_remote(0, 32, 8) == b"y" * 8
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1.0


def test_a_view_outlives_its_window() -> None:
    window = Window.create("w", 64)
    window.write(0, b"kept")
    view = window.memory
    window.close()
    with pytest.raises(WindowError):
        window.write(0, b"x")
    del window
    assert bytes(view[:4]) == b"kept"


def test_locks_conditional_writes_and_errors() -> None:
    with Window.create("w", 1024) as one, Window.attach("w") as two:
        with (
            one.lock(3),
            pytest.raises(WindowError, match="lock 3 was not released within"),
            two.lock(3, timeout=0.01),
        ):
            pass
        with two.lock(3, timeout=10):
            pass
        assert one.errors() == one.errors(1) == 0
        assert one.write_conditional(1, 0, b"yes", errors=0)
        assert not one.write_conditional(1, 0, b"no", errors=7)
        assert one.deliver(1, 100, bytes(range(200)) * 3) == 1
        assert two.read(100, 600) == bytes(range(200)) * 3
        one.sweep()
        assert two.wait(0)
        assert not two.wait(0.01)


def test_errors_say_what_would_be_accepted() -> None:
    with pytest.raises(WindowError, match="there is no window absent in") as absent:
        Window.attach("absent")
    assert absent.value.errno == 2
    with pytest.raises(WindowError, match="letters of a to z"):
        Window.create("a b", 64)
    with pytest.raises(ValueError, match="unknown unit `parsec`; use B"):
        Window.create("w", "1 parsec")
    with Window.create("w", 64) as one:
        with pytest.raises(WindowError, match="5 bytes at 60 lie outside of the window"):
            one.write(60, b"12345")
        with pytest.raises(WindowError, match="accepted are 0"):
            one.write(0, b"x", to=5)
        with pytest.raises(ValueError, match="'all', 'others', or numbers of members"):
            one.write(0, b"x", to=99)
        with (
            Window.attach("w", writes=False) as reader,
            pytest.raises(WindowError, match="has not mapped the window outgoing"),
        ):
            reader.write(0, b"x")


def test_a_killed_program_is_not_waited_for() -> None:
    with Window.create("talk", 64) as window:
        text = (
            'from weft.messages import Window\nwindow = Window.attach("talk")\n'
            'with window.lock(0):\n    print("held", flush=True)\n    window.wait()\n'
            "    while True: window.wait()\n"
        )
        with program(text) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            other.send_signal(signal.SIGKILL)
        with window.lock(0, timeout=10):
            assert window.members == [0]


def test_a_c_compiler_is_told_where_things_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert messages._main() == 0
    include, library, *_ = capsys.readouterr().out.split()
    assert (Path(include.removeprefix("-I")) / "weft_messages.h").is_file()
    assert Path(library).name == "libweft-fi.so"

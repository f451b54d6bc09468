"""`weft live -- PROGRAM` as installed: at once, or by Python where something is to be said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir

import pytest

BIN = Path(sys.executable).parent
LOG = str(Path(gettempdir()) / "weft-live-log")
# Python says on stderr what it imports, wherever it is started.
TELLING = {"PYTHONPROFILEIMPORTTIME": "1"}


def run(command: str, words: list[str], more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of the package's with `live`."""
    plain = {name: it for name, it in os.environ.items() if not name.startswith("WEFT_LIVE")}
    return subprocess.run(
        [BIN / command, "live", *words],
        env={**plain, **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["env"], {}),
        (["/usr/bin/env"], {"WEFT_LIVE": "off"}),
        (["sh", "-c", "env; exit 7"], {"WEFT_LIVE_RING": "65536", "WEFT_LIVE_LIMIT": "0"}),
        (["env"], {"WEFT_LIVE_DIRECTORY": gettempdir(), "WEFT_LIVE_LOG": LOG}),
        (["env"], {"ASAN_OPTIONS": "halt_on_error=0", "LD_PRELOAD": ""}),
    ],
)
def test_a_program_starts_without_python_as_with_it(words: list[str], more: dict[str, str]) -> None:
    at_once = run("weft", ["--", *words], {**more, **TELLING})
    assert at_once.stderr == ""
    by_python = run("weft-python", ["--", *words], more)
    told = [line for line in at_once.stdout.splitlines() if "PYTHONPROFILE" not in line]
    assert sorted(told) == sorted(by_python.stdout.splitlines())
    assert any(line.startswith("LD_PRELOAD=/$LIB/") for line in told)
    assert at_once.returncode == by_python.returncode


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ([], {}),
        (["--"], {}),
        (["--", "no-such-program"], {}),
        (["--", "/tmp"], {}),
        (["--", "true"], {"WEFT_LIVE": "of"}),
        (["--", "true"], {"WEFT_LIVE_RING": "5000"}),
        (["--", "true"], {"WEFT_LIVE_LIMIT": "many"}),
        (["--", "true"], {"WEFT_LIVE_DIRECTORY": "tmp"}),
        (["--", "true"], {"WEFT_LIVE_LOG": "/no/such/folder"}),
        (["--", "true"], {"WEFT_LIVE_LIBRARY": "/no/such/library"}),
        (["--", "true"], {"WEFT_LIVE_RINGS": "65536"}),
        (["true"], {}),
        (["--help"], {}),
        (["status", "--json", "1"], {}),
    ],
)
def test_what_is_to_be_said_is_said_as_ever(words: list[str], more: dict[str, str]) -> None:
    said, by_python = (run(command, words, more) for command in ("weft", "weft-python"))
    assert (said.stderr, said.returncode) == (by_python.stderr, by_python.returncode)
    assert "weft-python" not in by_python.stderr + by_python.stdout
    assert by_python.returncode or by_python.stderr or by_python.stdout


@pytest.mark.parametrize("kind", ["script", "static"])
def test_what_may_not_be_accelerated_is_left_to_python(tmp_path: Path, kind: str) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho started\n")
    if kind == "static":
        made = subprocess.run(
            ["cc", "-static", "-x", "c", "-", "-o", program],
            input='#include <stdio.h>\nint main(void) { puts("started"); }',
            text=True,
            capture_output=True,
            check=False,
        )
        if made.returncode:
            pytest.skip("no static C library")
    program.chmod(0o755)
    ran = run("weft", ["--", str(program)], {})
    assert (ran.stdout, ran.returncode) == ("started\n", 0)
    assert ("statically linked" in ran.stderr) == (kind == "static")


@pytest.mark.parametrize("command", ["weft", "weft-python"])
def test_signals_are_as_they_were_for_the_program(command: str) -> None:
    whole = f"trap - PIPE; exec {BIN / command} live -- sh -c 'kill -PIPE $$; echo ignored'"
    ran = subprocess.run(["sh", "-c", whole], capture_output=True, check=False, timeout=60)
    assert ran.returncode == -signal.SIGPIPE

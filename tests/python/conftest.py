"""Every test runs against the small stand-in core, except those of `REAL`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import fake_core
import weft
from browser import CHROMIUM, Browser

# What these test is the extension module itself.
REAL = {
    *("test_compare", "test_program", "test_wheel", "test_sweep", "test_manual", "test_examples"),
    *("test_live_measure", "test_pilot", "test_messages", "test_mpi", "test_timeline"),
    *("test_given", "test_topology"),
}

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@pytest.fixture(autouse=True)
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if request.module.__name__ not in REAL:
        monkeypatch.setitem(sys.modules, "weft._core", fake_core)
        monkeypatch.setattr(weft, "_core", fake_core, raising=False)
    return fake_core


@pytest.fixture(autouse=True)
def _as_wide_as_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print as to a pipe: the width of the tester's own terminal says nothing of ours."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of a process."""
    if CHROMIUM is None:
        pytest.skip("needs Debian's chromium")
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def bulk() -> weft.Result:
    return weft.run("clint-table-2-bulk")


@pytest.fixture
def quick() -> weft.Result:
    return weft.run("clint-quick")


@pytest.fixture
def reproduction() -> weft.Result:
    return weft.reproduce("clint")

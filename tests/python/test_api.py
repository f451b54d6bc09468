from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fake_core
import weft
from weft.api import spell_overrides


def test_a_run_returns_tables_with_units_in_their_names(bulk: weft.Result) -> None:
    assert isinstance(bulk.points, pd.DataFrame)
    assert {"offered_load", "queueing_mean_us", "queueing_half_width_us", "verdict"} <= set(
        bulk.points
    )
    assert len(bulk.points) == 2 * 2 * 9
    assert len(bulk.replications) == 2 * len(bulk.points)
    assert bulk.unit_of("points", "queueing_mean_us") == "µs"
    assert bulk.checks.empty


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        ("4 Gbit/s", '"4 Gbit/s"'),
        (0.5, "0.5"),
        (16, "16"),
        (True, "true"),
        ([0.1, 0.5], "[0.1, 0.5]"),
        (range(2, 4), "[2, 3]"),
        (np.array([0.1, 0.2]), "[0.1, 0.2]"),
        (np.float64(0.25), "0.25"),
        ({"uniform": [1, 5]}, '{"uniform" = [1, 5]}'),
        ('a "b"', '"a \\"b\\""'),
    ],
)
def test_settings_cross_as_toml(value: object, spelled: str) -> None:
    assert spell_overrides({"key": value}) == [f"key={spelled}"]


def test_a_setting_without_a_spelling_is_refused() -> None:
    with pytest.raises(TypeError, match="a setting is a number"):
        spell_overrides({"key": object()})


def test_a_list_is_a_sweep() -> None:
    result = weft.run("clint-table-2-bulk", set={"workload.bulk.load": [0.1, 0.5]}, preset="fitted")
    assert sorted(set(result.points["workload.bulk.load"])) == [0.1, 0.5]


def test_system_settings_reach_the_picture_and_experiment_settings_do_not() -> None:
    result = weft.run(
        "clint-table-2-bulk", set={"system.hosts": 4, "workload.bulk.load": 0.5}, preset="fitted"
    )
    assert isinstance(result.system, weft.System)
    assert result.system.composition["hosts"] == 4


def test_progress_that_says_false_stops_the_run_with_whole_results() -> None:
    seen: list[int] = []

    def progress(done: int, total: int, label: str) -> bool:
        assert done <= total
        assert label
        seen.append(done)
        return done < 3

    result = weft.run("clint-table-2-bulk", progress=progress)
    assert seen == [0, 1, 2, 3]
    assert result.stopped
    assert len(result.points) == 3


def test_progress_that_returns_nothing_goes_on() -> None:
    assert not weft.run("clint-table-2-bulk", progress=lambda *_: None).stopped


def test_an_error_carries_its_place() -> None:
    with pytest.raises(weft.WeftError) as caught:
        weft.run("broken.toml")
    error = caught.value
    assert (error.file, error.line, error.column) == ("broken.toml", 3, 1)
    assert error.key == "system.hots"
    assert str(error).splitlines()[0] == "broken.toml:3:1: unknown key `hots` in [system]"


def test_a_reproduction_holds_checks_and_runs(reproduction: weft.Result) -> None:
    assert list(reproduction.runs) == ["clint-table-2-bulk", "clint-quick"]
    assert set(reproduction.checks["verdict"]) == {"within", "outside", "missed", "report"}
    assert reproduction.figures[0].name == "published-against-measured"


def test_counts_hold_each_number_and_each_statement_once(reproduction: weft.Result) -> None:
    found = reproduction.counts
    assert found["number"] == {
        "within": 7, "outside": 1, "missed": 0, "undecided": 0, "report": 2
    }  # fmt: skip
    assert (found["statement"]["within"], found["statement"]["missed"]) == (1, 1)
    assert found["unprinted"]["report"] == 1
    assert sum(sum(of_kind.values()) for of_kind in found.values()) == 13 < len(reproduction.checks)


def test_a_system_that_cannot_be_described_does_not_lose_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> str:
        raise fake_core.WeftError("no such system")

    monkeypatch.setattr(fake_core, "show", refuse)
    result = weft.run("clint-table-2-bulk")
    assert result.system == "no such system"
    assert len(result.points) > 0


def test_show_gives_parameters_with_origins() -> None:
    system = weft.show("clint")
    by_key = {parameter.key: parameter for parameter in system.parameters}
    gap = by_key["channel.bulk.switch.scheduled.gap"]
    assert (gap.origin, gap.value) == ("calibrated", "190 ns")
    assert "103.7" in gap.predicts
    assert by_key["channel.quick.adapter.send_buffers"].origin == ""
    assert list(system.table["key"]) == list(by_key)


def test_systems_and_experiments_are_tables() -> None:
    assert list(weft.systems()["name"]) == ["clint"]
    assert set(weft.experiments()["system"]) == {"clint"}


def test_the_core_runs_off_the_main_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal is only handled by a main thread that is not inside the core."""
    threads: list[threading.Thread] = []
    inner = fake_core.run

    def run(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return inner(*given)

    monkeypatch.setattr(fake_core, "run", run)
    weft.run("clint-quick")
    assert threads[0] is not threading.main_thread()


def test_importing_the_package_stays_light() -> None:
    code = (
        "import sys; import weft, weft.cli; "
        "heavy = {'pandas', 'pyarrow', 'vl_convert', 'rich', 'numpy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

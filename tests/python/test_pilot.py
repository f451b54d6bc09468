"""How long a study takes, told before it begins, and how far it is, told while it runs."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from weft import pilot, progress
from weft.cli import main
from weft.pilot import Estimate

STUDY = """\
base = "clint"

[workload.bulk]
load = 0.5

[run]
length = "200 ms"
"""


def job(length: str = "40 ms", **more: Any) -> dict[str, Any]:
    return {"spec": {"run": {"length": length, "trace": True}, **more}, "seed": 1}


def test_what_is_built_before_a_run_is_not_multiplied() -> None:
    asked = []

    def timed(one: dict[str, Any]) -> float:
        run = one["spec"]["run"]
        asked.append(run)
        return 0.1 + float(run["length"].removesuffix(" ps")) * 2e-10

    assert pilot.cost(job(), timed) == pytest.approx(0.1 + 40e9 * 2e-10)
    assert len(asked) == 2, "the second beginning tells enough"
    assert not any(run["trace"] for run in asked)


def test_a_run_that_costs_nothing_and_a_program_give_no_estimate() -> None:
    assert pilot.cost(job(), lambda _: 0.0) is None
    assert pilot.cost(job(), lambda _: 9.0) is None, "the pilot would take as long"
    assert pilot.cost(job(program={"run": {"barrier": {}}}), lambda _: 1 / 0) is None


def test_only_what_takes_long_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    pilot.announce(Estimate(0.5, 2.0, 3))
    pilot.announce(None)
    assert not capsys.readouterr().err
    pilot.announce(pilot.together([Estimate(20, 60, 7), None, Estimate(20, 60, 13)]))
    assert capsys.readouterr().err == (
        "20 runs, about 69 s: between 40 s and 2 min, judged by the beginning of a few of them\n"
    )


def test_a_short_run_says_nothing_and_a_long_one_says_how_long(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    words = ["run", "study.toml", "--json"]
    short = CliRunner().invoke(main, words)
    assert (short.exit_code, short.stderr) == (0, "")
    monkeypatch.setattr(pilot, "_SHORT_S", 0.0)
    told = CliRunner().invoke(main, [*words, "--seeds", "3"])
    assert told.exit_code == 0
    assert told.stderr.startswith("3 runs, about "), told.stderr


def test_without_a_terminal_a_run_says_how_far_it_is_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("weft.progress.time.monotonic", lambda: now[0])
    with progress.Watch(ending=None) as watch:
        for done in range(10):
            now[0] += 10.0
            watch.step(done, 10, "study")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "study: 3 of 10, 70 s left",
        "study: 7 of 10, 30 s left",
    ]

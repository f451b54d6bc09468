"""The real extension module, from the command to the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import weft
from browser import BOXES, Browser
from interrupted import interrupted
from weft.checks import PRINTED, checks_of

STUDY = """\
base = "clint"
preset = "fitted"

[channel.bulk.switch.scheduled.scheduler.islip]
iterations = 4

[workload.bulk]
load = 0.7

[run]
length = "1 ms"
seeds = 2

[sweep]
"channel.bulk.adapter.send_buffers" = [4, 16]
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my-study.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[weft.Result, Path]:
    """All of Clint, once, by the command line; with its objects a line beside it."""
    folder = tmp_path_factory.mktemp("reproduced")
    done = call("reproduce", "clint", "--json", "--seeds", "1", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    (folder / "lines").write_text(done.stdout)
    return weft.read(folder / "clint"), folder / "clint"


def call(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "100"},
    )


def test_clint_is_shipped_with_its_experiments() -> None:
    assert "clint" in set(weft.systems()["name"])
    assert {"clint-figure-8", "clint-table-2-bulk", "clint-b3"} <= set(weft.experiments()["name"])


def test_every_number_of_clint_has_an_origin() -> None:
    system = weft.show("clint")
    numbers = [
        p for p in system.parameters if p.key.startswith("channel.") or p.key == "system.hosts"
    ]
    assert len(numbers) > 30
    assert {p.origin for p in numbers if not p.choice} == {"stated", "derived", "calibrated"}
    assert all(p.predicts for p in numbers if p.origin == "calibrated")
    assert [channel["name"] for channel in system.composition["channels"]] == ["bulk", "quick"]


def test_a_run_of_one_s_own_file_fills_the_tables(study: Path) -> None:
    result = weft.run(study)
    assert list(result.points["channel.bulk.adapter.send_buffers"]) == [4.0, 16.0]
    assert {"offered_load", "accepted_load", "queueing_mean_us", "queueing_half_width_us",
            "queueing_p99_us", "verdict"} <= set(result.points)  # fmt: skip
    assert (result.points["queueing_mean_us"] > 0).all()
    assert len(result.replications) == 2 * len(result.points)
    assert not result.stopped
    assert result.title.startswith("my-study: ")
    assert isinstance(result.system, weft.System)
    assert result.system.composition["channels"][0]["scheduler"] == "islip"
    slot = result.derived.set_index("quantity").loc["bulk.packet_span"]
    assert (slot["value"], slot["unit"]) == (pytest.approx(8.344), "us")


def test_spec_toml_runs_the_same_study_again(study: Path, tmp_path: Path) -> None:
    first = weft.run(study, set={"channel.bulk.adapter.send_buffers": [8, 16]})
    first.save(tmp_path / "one")
    again = weft.run(tmp_path / "one/spec.toml")
    pd.testing.assert_frame_equal(first.points, again.points)


def test_variants_and_sweeps_are_narrowed_by_overrides() -> None:
    result = weft.run(
        "clint-figure-8",
        set={"architecture": ["B1", "B4"], "traffic": "single", "workload.bulk.load": 0.3},
        seeds=1,
        length="1 ms",
    )
    assert list(result.points["architecture"]) == ["B1", "B4"]
    assert set(result.points["traffic"]) == {"single"}
    kinds = {
        label: system.composition["channels"][0]["switch"]["kind"]
        for label, system in result.variants.items()
    }
    assert kinds["architecture B1"] == "crossbar"
    assert kinds["architecture B4"] == "scheduled"


OVERRUN = """\
[system]
title = "Switches that are heard late"
hosts = 4

[channel.data]
packet = "125 B"
payload = "100 B"
link.rate = "1 Gbit/s"
adapter.send_buffers = 4
switch.shared_memory = { latency = "90 ns", buffer = 64 }
flow_control.stop_go = { stop = 2, go = 0, reaction = "9 us" }

[workload.data]
source = "greedy"
pattern.flows = [{ from = 0, to = 2 }, { from = 1, to = 2 }]

[run]
length = "100 us"

[sweep]
"channel.data.switch.shared_memory.buffer" = [4, 64]
"""


def test_a_point_that_fails_is_told_and_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "late.toml").write_text(OVERRUN)
    done = call("run", "late.toml", "--out", "late", "--no-pictures", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stderr.endswith("1 point failed; all others are as they would be without\n")
    assert "whose buffer of 4 cells was full" in " ".join(done.stdout.split())
    points = weft.read(tmp_path / "late").points
    assert list(points.verdict) == ["failed", "settled"]
    assert "whose buffer of 4 cells was full" in points.reason[0]


def test_loading_gives_what_was_saved(study: Path, tmp_path: Path) -> None:
    result = weft.run(study)
    result.save(tmp_path / "saved")
    back = weft.read(tmp_path / "saved")
    filled = {name: table for name, table in result.tables.items() if len(table)}
    assert {"points", "replications", "derived", "histograms"} <= set(filled)
    for name, table in filled.items():
        pd.testing.assert_frame_equal(table, back.tables[name], check_dtype=False)
    assert back.system == result.system
    assert back.meta == result.meta


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"chanel.bulk.packet": "1 B"}, ("chanel", "did you mean `channel`")),
        ({"channel.bulk.linc.rate": "2 Gbit/s"}, ("linc", "did you mean `link`")),
        ({"channel.bulk.link.rate": "2 parsecs"}, ("channel.bulk.link.rate", "parsecs")),
        ({"channel.bulk.link.reserved": 2}, ("reserved", "2")),
        ({"architecture": "B7"}, ("B7", "B1, B2, B3, B4")),
        ({"workload.blk.load": 0.1}, ("there is no channel `blk`", "bulk")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_wrong_setting_is_refused_by_name(
    words: dict[str, object], named: tuple[str, ...]
) -> None:
    with pytest.raises(weft.WeftError) as caught:
        weft.run("clint-figure-8", set=words, seeds=1, length="100 us")
    for word in named:
        assert word in str(caught.value)
    assert caught.value.message


def test_an_error_in_a_file_carries_its_place(study: Path) -> None:
    study.write_text(STUDY.replace("iterations = 4", "iteratons = 4"))
    with pytest.raises(weft.WeftError) as caught:
        weft.run(study)
    assert Path(str(caught.value.file)).name == "my-study.toml"
    assert (caught.value.line, caught.value.column) == (5, 1)
    assert caught.value.key
    assert "iterations" in str(caught.value.accepted)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("run", "nosuch"), "`nosuch` is not shipped; accepted: a name that `weft systems` lists"),
        (("run", "missing.toml"), "missing.toml cannot be read"),
        (("run", "clint"), "there is no [workload.CHANNEL]"),
        (("reproduce", "clynt"), "there is no shipped system `clynt`"),
        (("report", "nowhere"), "nowhere holds no results"),
        (("systems", "show", "clint", "--preset", "fited"), "did you mean `fitted`"),
        (("run", "my-study.toml", "--length", "4"), "write the unit"),
        (("run", "my-study.toml", "--seeds", "0"), "not in the range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_command_says_what_would_be_right(
    study: Path, words: tuple[str, ...], complaint: str
) -> None:
    done = call(*words, cwd=study.parent)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_show_fits_a_terminal_of_a_hundred_columns() -> None:
    done = call("systems", "show", "clint")
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    assert re.search(r"switch\.gap +\d+ ns +calibrated", done.stdout)
    found = json.loads(call("systems", "show", "clint", "--json").stdout)
    assert "channel.bulk.switch.scheduled.gap" in {p["key"] for p in found["parameters"]}


def test_reproduce_prints_one_object_a_line(reproduced: tuple[weft.Result, Path]) -> None:
    text = (reproduced[1].parent / "lines").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == len(reproduced[0].checks)
    for line in lines:
        assert list(line) == [
            *("system", "experiment", "quantity", "at", "unit", "kind", "published", "statement"),
            *("measured", "interval", "error", "band", "verdict", "counted", "also", "preset"),
            *("section", "note"),
        ]
        assert line["verdict"] in {"within", "outside", "missed", "undecided", "report"}
        assert (line["kind"] in PRINTED) == (line["published"] is not None)
        assert (line["kind"] == "statement") == (line["statement"] != "")
        if line["interval"] is not None:
            low, high = line["interval"]
            assert low <= line["measured"] <= high
    ratio = next(line for line in lines if line["quantity"] == "queueing_mean_us, B4 over B1")
    assert (ratio["unit"], ratio["band"]) == ("", "1 to 1000")


def test_rows_of_published_numbers_can_be_told_apart(
    reproduced: tuple[weft.Result, Path],
) -> None:
    checks = checks_of(reproduced[0])
    rows = [(c.experiment, c.quantity, c.at, c.preset, c.statement) for c in checks]
    assert len(rows) > 50
    assert len(set(rows)) == len(rows)
    assert all(c.band for c in checks)


def test_a_number_of_table_2_that_figure_8_shows_counts_once(
    reproduced: tuple[weft.Result, Path],
) -> None:
    rows = [check for check in checks_of(reproduced[0]) if check.published == 7.4]
    assert {check.experiment for check in rows} == {"clint-figure-8", "clint-table-2-bulk"}
    (counted,) = [check for check in rows if check.counted]
    assert (counted.experiment, counted.also) == ("clint-table-2-bulk", ("clint-figure-8",))
    found = reproduced[0].counts
    printed = {check.entry for check in checks_of(reproduced[0]) if check.kind in PRINTED}
    assert sum(sum(found[kind].values()) for kind in PRINTED) == len(printed)
    assert found["statement"]["missed"] == 1


def test_every_table_of_the_seam_is_there(reproduced: tuple[weft.Result, Path]) -> None:
    quick = reproduced[0].runs["clint-figures-9-10"]
    assert {"collided_with", "collisions_per_attempt", "collisions_per_attempt_half_width"} <= set(
        quick.collisions
    )
    assert {"quantity", "value", "unit", "arithmetic"} <= set(quick.derived)
    transient = reproduced[0].runs["clint-transient"]
    assert [figure.name for figure in transient.figures] == ["transient"]


def test_the_page_tells_the_findings_first(reproduced: tuple[weft.Result, Path]) -> None:
    text = (reproduced[1] / "report.html").read_text(encoding="utf-8")
    summary = text[text.index('id="summary"') : text.index('id="checks"')]
    assert "as described, B3 carries 0.9 of the link" in summary
    assert "a transient, not a steady state" in summary
    assert "Calibrated constants" in summary
    assert "53.5\N{NO-BREAK SPACE}µs: " in summary
    assert "What follows without a run" in text
    assert "output-buffered switch" in text


@pytest.mark.parametrize("width", [390, 800, 1400])
def test_a_browser_draws_the_page_without_a_fault_or_a_request(
    reproduced: tuple[weft.Result, Path], browser: Browser, width: int
) -> None:
    page = reproduced[1] / "report.html"
    seen = browser.visit(page, BOXES, width=width)
    assert (seen.complaints, seen.asked, seen.said["faults"]) == ([], [], [])
    drawn = re.findall(r'class="chart vega-embed[^"]*" id="chart-\d+"', seen.dom)
    wanted = len(re.findall(r'class="chart" id="chart-\d+"', page.read_text(encoding="utf-8")))
    assert len(drawn) == wanted > 8


# Charts and tables of every kind that Clint's page has not, each in about a second.
OF_EACH_SYSTEM = (
    *("maestro-tree-multicast", "clan-hot-spot", "scilan-connections"),
    "memory-channel-2-broadcast",
)


@pytest.mark.parametrize("experiment", OF_EACH_SYSTEM)
def test_a_page_of_each_system_has_no_fault(
    browser: Browser, tmp_path: Path, experiment: str
) -> None:
    page = weft.run(experiment, seeds=1).report(tmp_path / "report.html")
    for width in (390, 800, 1400):
        seen = browser.visit(page, BOXES, width=width)
        assert (seen.complaints, seen.asked, seen.said["faults"]) == ([], [], []), width


def test_ctrl_c_keeps_what_was_finished(tmp_path: Path) -> None:
    # 200 runs a point: the first is over, and most of the others have not begun.
    words = ["run", "clint-table-2-bulk", "--out", "here", "--seeds", "200", "--workers", "1"]
    ended, complaints = interrupted(words, 250, tmp_path)
    assert ended == 130, complaints
    assert "what was finished is kept" in complaints
    result = weft.read(tmp_path / "here")
    assert result.stopped
    assert 1 <= len(result.points) < 20
    assert json.loads((tmp_path / "here/provenance.json").read_text())["stopped"]
    assert "stopped before its last point" in (tmp_path / "here/report.html").read_text()


def test_the_readme_s_six_lines_print_a_table(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "queueing_mean_us" in done.stdout
    assert "saturated" in done.stdout

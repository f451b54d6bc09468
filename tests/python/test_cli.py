from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result

import weft
from interrupted import interrupted
from weft.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words, prog_name="weft")


COMMANDS: list[Sequence[str]] = [
    [],
    ["systems"],
    ["systems", "show"],
    ["run"],
    ["reproduce"],
    ["report"],
    ["schema"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_has_an_example(command: Sequence[str]) -> None:
    result = call(*command, "--help")
    assert result.exit_code == 0
    after = result.stdout.split("Examples:\n")[1]
    assert after.strip().startswith("weft ")


def test_systems_lists_what_is_shipped() -> None:
    result = call("systems")
    assert "clint-table-2-bulk" in result.stdout
    assert json.loads(call("systems", "--json").stdout)["systems"][0]["name"] == "clint"


def test_show_prints_origins_and_draws(tmp_path: Path) -> None:
    result = call("systems", "show", "clint", "--svg", "clint.svg")
    assert "calibrated" in result.stdout
    assert "predicts B4 bursty at 0.7" in result.stdout
    assert (tmp_path / "clint.svg").read_text().startswith("<svg")
    shown = json.loads(call("systems", "show", "clint", "--preset", "literal", "--json").stdout)
    values = {p["key"]: p["value"] for p in shown["parameters"]}
    assert values["channel.bulk.switch.scheduled.gap"] == "0 ns"


def test_run_leaves_a_folder_and_says_where(tmp_path: Path) -> None:
    result = call("run", "clint-quick")
    assert result.exit_code == 0, result.output
    assert result.stdout.rstrip().endswith("out/clint-quick/report.html")
    assert "saturated" in result.stdout
    assert weft.read(tmp_path / "out/clint-quick").title.startswith("Clint, Figures 9 and 10")


def test_run_json_is_one_object_and_writes_only_where_told(tmp_path: Path) -> None:
    words = ["run", "clint-table-2-bulk", "--set", "workload.bulk.load=[0.1, 0.5]", "--json"]
    found = json.loads(call(*words).stdout)
    assert found["folder"] is None
    assert len(found["points"]) == 8
    assert found["points"][0]["queueing_mean_us"] > 0
    assert list(tmp_path.iterdir()) == []
    call(*words, "--out", "here")
    assert (tmp_path / "here/result.json").exists()


def test_reproduce_json_is_one_object_a_line() -> None:
    result = call("reproduce", "clint", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == 24
    first = lines[0]
    assert list(first) == [
        *("system", "experiment", "quantity", "at", "unit", "kind", "published", "statement"),
        *("measured", "interval", "error", "band", "verdict", "counted", "also", "preset"),
        *("section", "note"),
    ]
    low, high = first["interval"]
    assert low < first["measured"] < high
    assert first["band"] == "within 12 %"
    assert lines[-1]["published"] is None


def test_reproduce_without_a_name_does_every_system(tmp_path: Path) -> None:
    result = call("reproduce", "--quick", "--out", "demo")
    assert result.exit_code == 0, result.output
    assert (
        "7 of 8 printed numbers are within their bands, 1 of 2 statements hold (1 known to be "
        "missed); besides, 2 numbers shown without a verdict." in result.stdout
    )
    assert "B1 saturates early" in result.stdout
    assert (tmp_path / "demo/clint/report.html").exists()
    assert (tmp_path / "demo/clint/runs/clint-quick/tables/points.csv").exists()


def test_strict_makes_a_miss_an_exit_code() -> None:
    assert call("reproduce", "clint", "--json").exit_code == 0
    assert call("reproduce", "clint", "--json", "--strict").exit_code == 1


def test_report_writes_the_page_anew(tmp_path: Path) -> None:
    call("run", "clint-quick", "--out", "here")
    (tmp_path / "here/report.html").unlink()
    assert call("report", "here").stdout.strip() == "here/report.html"
    assert json.loads(call("report", "here", "--out", "x.html", "--json").stdout) == {
        "report": "x.html"
    }
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


def test_schema_prints_json() -> None:
    assert json.loads(call("schema").stdout)["title"] == "Spec"


def test_a_bad_file_is_told_as_the_core_tells_it() -> None:
    result = call("run", "broken.toml")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "broken.toml:3:1: unknown key `hots` in [system]\n    hots = 16\n    ^^^^\n"
        "  accepted: title, document, hosts\n  did you mean `hosts`?\n"
    )


def test_a_bad_file_is_an_object_with_json() -> None:
    result = call("run", "broken.toml", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "error": {
            "file": "broken.toml",
            "line": 3,
            "column": 1,
            "key": "system.hots",
            "value": "16",
            "accepted": "title, document, hosts",
            "message": "unknown key `hots` in [system]",
        }
    }


def test_a_folder_in_the_way_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("")
    monkeypatch.setattr("fake_core.run", lambda *_: pytest.fail("the run was started"))
    result = call("run", "clint-quick", "--out", "mine")
    assert result.exit_code == 2
    assert "give another folder with --out" in result.stderr


def test_a_setting_without_a_value_is_a_usage_error() -> None:
    result = call("run", "clint-quick", "--set", "seeds")
    assert result.exit_code == 2
    assert "'seeds' is not KEY=VALUE" in result.stderr


def test_an_error_that_is_not_the_input_s_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("fake_core.run", fail)
    result = call("run", "clint-quick")
    assert isinstance(result.exception, ValueError)
    assert str(result.exception) == "a mistake of ours"


def test_ctrl_c_keeps_what_was_finished(tmp_path: Path) -> None:
    before = (
        "import sys; import fake_core; fake_core.LASTS = 3; sys.modules['weft._core'] = fake_core\n"
    )
    ended, complaints = interrupted(
        ["run", "clint-table-2-bulk", "--out", "here"],
        3,
        tmp_path,
        before,
        [HERE, Path(weft.__file__).parent.parent],
    )
    assert ended == 130, complaints
    assert "what was finished is kept" in complaints
    result = weft.read(tmp_path / "here")
    assert result.stopped
    assert len(result.points) == 3


def verbs(group: click.Group, before: str = "weft") -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name, command in group.commands.items():
        place = f"{before} {name}"
        found += [] if command.hidden else [(place, command)]
        found += verbs(command, place) if isinstance(command, click.Group) else []
    return found


@pytest.mark.parametrize(("words", "command"), verbs(main))
def test_the_help_of_every_verb_ends_with_examples_of_it(
    words: str, command: click.Command
) -> None:
    _, _, examples = (command.epilog or "").partition("Examples:\n")
    lines = [line.strip() for line in examples.splitlines()]
    assert lines, f"{words} --help shows no example"
    assert all(line.removeprefix("mpirun -n 4 ").startswith(words) for line in lines)
    done = CliRunner().invoke(main, [*words.split()[1:], "--help"])
    assert "Examples:" in done.output
    for option in (option for option in command.params if isinstance(option, click.Option)):
        assert option.help or option.name == "ranks", f"{words} {option.name} says nothing"

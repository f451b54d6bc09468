"""Results folders of which something is cut off, damaged, missing or of the wrong kind."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import weft
from weft.cli import main
from weft.folder import read


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run and a reproduction, written once; what is damaged is a copy."""
    import sys

    import fake_core

    root = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "weft._core", fake_core)
        patched.setattr(weft, "_core", fake_core, raising=False)
        weft.run("clint-table-2-bulk").save(root / "run", pictures=False)
        weft.reproduce("clint").save(root / "all", pictures=False)
    return {"run": root / "run", "all": root / "all"}


@pytest.fixture
def out(saved: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved["run"], tmp_path / "out"))


def cut(path: Path, share: float = 0.5) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])


def problems(out: Path) -> list[str]:
    return [problem.replace(f"{out}/", "") for problem in read(out).problems]


def test_what_is_whole_has_no_problems(saved: dict[str, Path]) -> None:
    assert read(saved["run"]).problems == read(saved["all"]).problems == ()


def test_a_table_is_read_from_its_other_file(out: Path, bulk: weft.Result) -> None:
    (out / "tables/points.parquet").write_bytes(b"")
    cut(out / "tables/replications.parquet")
    (out / "tables/budget.csv").unlink()
    assert problems(out) == [
        "tables/points.parquet is empty; points.csv, which is whole, is read in its place",
        "tables/replications.parquet is cut off or damaged; replications.csv, which is whole, is "
        "read in its place",
    ]
    with pytest.warns(weft.FolderWarning, match="points.csv, which is whole"):
        points = weft.load(out, "points")
    pd.testing.assert_frame_equal(points, bulk.points, check_like=True)
    assert points.attrs["units"]["queueing_mean_us"] == "µs"
    assert len(weft.load(out, "budget")) == len(bulk.budget)


def test_a_table_of_which_both_files_are_damaged_is_lost_alone(
    out: Path, bulk: weft.Result
) -> None:
    cut(out / "tables/points.parquet")
    cut(out / "tables/points.csv")
    size = (out / "tables/points.csv").stat().st_size
    (told,) = problems(out)
    assert told.startswith(
        f"tables/points.parquet is cut off or damaged, and points.csv has only {size} of the "
    )
    assert told.endswith(" bytes that Weft wrote: the table `points` is lost")
    result = read(out)
    assert "points" not in result.tables
    assert len(result.replications) == len(bulk.replications)
    with pytest.raises(weft.FolderError) as refused:
        weft.load(out, "points")
    assert str(refused.value).endswith(
        "the table `points` is lost; its other tables: replications, histograms, budget"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "result.json is missing"),
        ("", "result.json is empty"),
        ('{"meta": {"title": "cut', "result.json is cut off or damaged at line 1, column 20"),
        ("[" * 100_000, "result.json is cut off or damaged"),
        ("[1, 2]", "result.json is cut off or damaged"),
        (b"\xff\xfe{", "result.json is damaged: byte 0 is no text"),
    ],
)
def test_without_its_contents_the_tables_say_what_they_are(
    out: Path, bulk: weft.Result, text: str | bytes | None, told: str
) -> None:
    target = out / "result.json"
    target.unlink()
    if text is not None:
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert problems(out)[0] == told
    result = read(out)
    assert result.title == bulk.title
    assert result.meta["spec_toml"] == bulk.meta["spec_toml"]
    assert result.meta["seed"] == bulk.meta["seed"]
    for name, table in bulk.tables.items():
        pd.testing.assert_frame_equal(result.tables[name], table)
    assert set(result.columns) == set(bulk.columns)
    assert result.system == f"its description in {target} cannot be read"
    with pytest.warns(weft.FolderWarning):
        assert weft.load(out, "points").attrs["units"]["queueing_mean_us"] == "µs"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("tables", 5, "has `tables` = 5, where a list of texts belongs"),
        ("columns", {}, "has `columns` = {}, where a list of objects belongs"),
        ("columns", [{"name": 1}], "has columns without table, name, unit or description"),
        ("meta", [], "has `meta` = [], where an object belongs"),
        ("meta.axes", 3, "has `meta.axes` = 3, where a list of texts belongs"),
        ("meta.published", "x", 'has `meta.published` = "x", where a list of objects belongs'),
        ("meta.figures", [1], "has `meta.figures` = [1], where a list of objects belongs"),
        ("meta.spec_toml", 1.5, "has `meta.spec_toml` = 1.5, where a text belongs"),
        ("meta.stopped", "no", 'has `meta.stopped` = "no", where true or false belongs'),
        (
            "system",
            {"parameters": 3},
            'has `system` = {"parameters": 3}, which describes no system',
        ),
        ("system", None, ""),
        ("runs", "all", 'has `runs` = "all", where a list of texts belongs'),
        ("variants", {"a": 1}, "has `variants.a` = 1, which describes no system"),
    ],
)
def test_contents_of_a_wrong_kind_are_named(
    out: Path, bulk: weft.Result, path: str, value: Any, told: str
) -> None:
    contents = json.loads((out / "result.json").read_text())
    *above, last = path.split(".")
    place = contents
    for key in above:
        place = place[key]
    place[last] = value
    (out / "result.json").write_text(json.dumps(contents))
    found = problems(out)
    assert f"result.json {told}" in found or not told
    assert any("since Weft wrote it" in one or "of the" in one for one in found)
    assert len(read(out).points) == len(bulk.points)
    assert call("report", str(out)).exit_code == 3


def call(*words: str) -> Any:
    return CliRunner().invoke(main, words, prog_name="weft")


def test_a_report_of_what_is_whole_says_what_is_missing(out: Path) -> None:
    cut(out / "result.json")
    cut(out / "tables/budget.parquet")
    cut(out / "tables/budget.csv")
    (out / "provenance.json").write_text("[]")
    done = call("report", str(out))
    assert done.exit_code == 3
    assert done.stdout == f"{out / 'report.html'}\n"
    assert f"{out / 'provenance.json'} is cut off or damaged\n" in done.stderr
    assert "the table `budget` is lost" in done.stderr
    page = (out / "report.html").read_text()
    assert "Not all of these results could be read." in page
    assert "result.json is cut off or damaged at line " in page
    assert "36 points" in page
    told = json.loads(call("report", str(out), "--out", str(out / "x.html"), "--json").stdout)
    assert len(told["problems"]) == 3


def test_a_folder_of_which_nothing_is_left_is_refused(out: Path) -> None:
    cut(out / "result.json")
    for path in (out / "tables").iterdir():
        path.write_bytes(b"")
    done = call("report", str(out))
    assert done.exit_code == 2
    assert done.stderr.endswith(": nothing of these results can be read\n")
    with pytest.raises(weft.FolderError, match="nothing of these results can be read"):
        weft.read(out)


def test_a_report_of_what_holds_no_results_makes_nothing(out: Path) -> None:
    for given in (out / "spec.toml", out / "nowhere"):
        done = call("report", str(given))
        assert done.exit_code == 2
        assert done.stderr.startswith(f"{given} holds no results: give a folder that weft run, ")
    assert not (out / "nowhere").exists()


def test_one_damaged_run_of_a_reproduction_leaves_the_others(
    saved: dict[str, Path], tmp_path: Path, reproduction: weft.Result
) -> None:
    out = Path(shutil.copytree(saved["all"], tmp_path / "all"))
    cut(out / "runs/clint-quick/result.json")
    (out / "runs/clint-quick/tables/points.parquet").unlink()
    cut(out / "result.json", 0.9)
    result = read(out)
    told = "\n".join(result.problems)
    assert "runs/clint-quick/result.json is cut off or damaged at line" in told
    assert "points.parquet is missing; points.csv, which is whole, is read" in told
    assert list(result.runs) == sorted(reproduction.runs)
    assert len(result.checks) == len(reproduction.checks)
    assert len(result.runs["clint-quick"].points) > 0


def test_a_damaged_manifest_stops_no_reading(out: Path, bulk: weft.Result) -> None:
    for text in ("", "{", '{"files": []}', '{"files": {"a": {}}}'):
        (out / "manifest.json").write_text(text)
        (told,) = problems(out)
        assert told.startswith("manifest.json cannot be read: it is damaged")
        assert len(read(out).points) == len(bulk.points)
    done = call("report", str(out))
    assert (done.exit_code, done.stdout) == (3, f"{out / 'report.html'}\n")


def test_a_file_that_may_not_be_looked_at_is_tried_all_the_same(
    out: Path, bulk: weft.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = os.stat

    def refuse(path: Any, *given: Any, **more: Any) -> os.stat_result:
        if str(path).endswith(("budget.csv", "budget.parquet")):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, *given, **more)

    (out / "tables/budget.parquet").unlink()
    monkeypatch.setattr(os, "stat", refuse)
    assert problems(out) == [
        "tables/budget.parquet is missing; budget.csv, which is whole, is read in its place"
    ]
    assert len(read(out).budget) == len(bulk.budget)


def test_side_by_side_says_what_is_missing_of_each(
    out: Path, saved: dict[str, Path], tmp_path: Path
) -> None:
    cut(out / "tables/points.parquet")
    page = tmp_path / "both.html"
    done = call("report", str(out), str(saved["run"]), "--out", str(page))
    assert done.exit_code == 3, done.output
    assert "points.csv, which is whole, is read in its place" in page.read_text()


def test_no_damage_is_a_traceback(saved: dict[str, Path], tmp_path: Path) -> None:
    """Any byte may be wrong: what comes is a result with its problems, or a sentence."""
    chance = random.Random(7)
    for number in range(60):
        out = Path(shutil.copytree(saved["run"], tmp_path / str(number)))
        files = sorted(path for path in out.rglob("*") if path.is_file())
        hurt = chance.sample(files, chance.randint(1, 3))
        for path in hurt:
            whole = bytearray(path.read_bytes())
            match chance.randrange(4):
                case 0:
                    path.unlink()
                case 1:
                    path.write_bytes(whole[: chance.randrange(len(whole))])
                case 2:
                    for _ in range(chance.randint(1, 20)):
                        whole[chance.randrange(len(whole))] = chance.randrange(256)
                    path.write_bytes(whole)
                case _:
                    path.write_bytes(path.read_bytes() + b"\0more")
        try:
            result = read(out)
        except weft.FolderError:
            continue
        unread = {"spec.toml", "manifest.json"}
        named = [path for path in hurt if path.suffix != ".csv" and path.name not in unread]
        for path in named:
            assert any(str(path) in problem for problem in result.problems), (number, path)
        shutil.rmtree(out)

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import weft
from weft import folder

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_holds_ordinary_files(bulk: weft.Result, tmp_path: Path) -> None:
    root = bulk.save(tmp_path / "deep" / "table-2", command="weft run clint-table-2-bulk")
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {"spec.toml", "provenance.json", "result.json", "report.html"} <= names
    assert {"tables/points.csv", "tables/points.parquet"} <= names
    assert {"figures/table-2.svg", "figures/table-2.png", "figures/composition.svg"} <= names
    assert (root / "figures/table-2.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in root.parent.iterdir()] == ["table-2"]


def test_every_picture_of_a_folder_and_of_a_page_is_told_of(
    reproduction: weft.Result, tmp_path: Path
) -> None:
    told: list[tuple[int, int, str]] = []
    note = lambda done, total, label: told.append((done, total, label))  # noqa: E731
    root = reproduction.save(tmp_path / "out", progress=note)
    drawn = len([one for one in root.rglob("figures/*.*") if one.stem != "composition"])
    assert told[-1] == (drawn // 2, drawn // 2, "figures drawn")
    assert [done for done, _, _ in told] == list(range(1, len(told) + 1))
    told.clear()
    reproduction.report(tmp_path / "page.html", progress=note)
    assert told[-1] == (drawn // 2, drawn // 2, "figures drawn")


def test_provenance_is_enough_to_run_it_again(bulk: weft.Result, tmp_path: Path) -> None:
    root = bulk.save(tmp_path / "out", command="weft run x --seeds 3")
    record = json.loads((root / "provenance.json").read_text())
    assert record == {
        "title": bulk.title,
        "system": "clint",
        "preset": None,
        "version": "0.1.0",
        "seed": 1,
        "spec_hash": "9f2c1e0b77a4",
        "stopped": False,
        "command": "weft run x --seeds 3",
    }
    assert (root / "spec.toml").read_text() == bulk.meta["spec_toml"]


def test_loading_gives_back_what_was_saved(reproduction: weft.Result, tmp_path: Path) -> None:
    read = weft.read(reproduction.save(tmp_path / "out"))
    pd.testing.assert_frame_equal(read.checks, reproduction.checks)
    for name, run in reproduction.runs.items():
        assert list(read.runs[name].tables) == list(run.tables)
        for table, frame in run.tables.items():
            pd.testing.assert_frame_equal(read.runs[name].tables[table], frame)
    assert read.meta == reproduction.meta
    assert read.system == reproduction.system
    assert [f.spec for f in read.figures] == [f.spec for f in reproduction.figures]


def test_the_same_run_writes_the_same_tables(tmp_path: Path) -> None:
    roots = [weft.run("clint-quick").save(tmp_path / name) for name in ("a", "b")]
    for path in (roots[0] / "tables").iterdir():
        assert path.read_bytes() == (roots[1] / "tables" / path.name).read_bytes()


def test_earlier_results_are_replaced_whole(
    bulk: weft.Result, quick: weft.Result, tmp_path: Path
) -> None:
    bulk.save(tmp_path / "out")
    quick.save(tmp_path / "out")
    assert weft.read(tmp_path / "out").title == quick.title
    assert not (tmp_path / "out" / "tables" / "budget.csv").exists()
    assert not (tmp_path / "out" / "figures" / "table-2.svg").exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_of_something_else_is_refused(quick: weft.Result, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(weft.FolderError, match="holds no earlier results"):
        quick.save(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(weft.FolderError, match="is a file"):
        quick.save(tmp_path / "file")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_write_that_fails_leaves_the_earlier_folder(
    bulk: weft.Result, quick: weft.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk.save(tmp_path / "out")

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(folder, "_write_json", full)
    with pytest.raises(weft.FolderError, match=r"out cannot be written: no space .* are kept$"):
        quick.save(tmp_path / "out")
    assert weft.read(tmp_path / "out").title == bulk.title
    assert len(list(tmp_path.iterdir())) == 1


def test_a_stopped_run_is_marked_everywhere(tmp_path: Path) -> None:
    result = weft.run("clint-table-2-bulk", progress=lambda done, *_: done < 2)
    root = result.save(tmp_path / "out")
    assert json.loads((root / "provenance.json").read_text())["stopped"]
    assert weft.read(root).stopped
    assert "was stopped before its last point" in (root / "report.html").read_text()


def test_a_run_stopped_before_its_first_point_can_be_saved(tmp_path: Path) -> None:
    result = weft.run("clint-table-2-bulk", progress=lambda *_: False)
    assert weft.read(result.save(tmp_path / "out")).stopped


def test_loading_what_is_not_a_results_folder(tmp_path: Path) -> None:
    def refusal(of: Path) -> str:
        with pytest.raises(weft.FolderError) as refused:
            weft.read(of)
        return str(refused.value)

    wanted = "give a folder that weft run, sweep, saturation, reproduce or compare has written"
    assert refusal(tmp_path) == (f"{tmp_path} holds no results: {wanted}, which has a result.json")
    for name in "dbcae":
        inner = tmp_path / name
        inner.mkdir()
        (inner / "result.json").touch()
    a, b, c = (tmp_path / name for name in "abc")
    assert refusal(tmp_path).endswith(f"{wanted}, as {a}, {b}, {c} and 2 more")
    page = a / "report.html"
    page.touch()
    assert refusal(page) == f"{page} holds no results: {wanted}, as {a}"

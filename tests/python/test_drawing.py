"""Pages that another process draws."""

from __future__ import annotations

import multiprocessing
import signal
from typing import TYPE_CHECKING

import pytest

from weft.drawing import Drawer
from weft.folder import write
from weft.place import FolderError, claim

if TYPE_CHECKING:
    from pathlib import Path

    import weft


def written(result: weft.Result, folder: Path) -> Path:
    with claim(folder) as place:
        write(result, place, "weft run clint-quick")
    return folder


def test_pages_are_drawn_in_the_order_in_which_they_are_given(
    quick: weft.Result, tmp_path: Path
) -> None:
    folders = [written(quick, tmp_path / name) for name in ("one", "two")]
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int, _label: str) -> bool:
        told.append((done, total))
        return True

    with Drawer() as drawer:
        drawer.add(folders[0], png=True)
        drawer.add(folders[1], png=False)
        drawn = list(drawer.finish(progress))
    assert drawn == [(folder, []) for folder in folders]
    assert told == [(0, 2), (1, 2)]
    for folder in folders:
        assert (folder / "report.html").exists()
        assert list(folder.glob("figures/*.svg"))
    assert list(folders[0].glob("figures/*.png"))
    assert not list(folders[1].glob("figures/*.png"))


def test_a_process_that_is_ended_leaves_the_tables(quick: weft.Result, tmp_path: Path) -> None:
    folder = written(quick, tmp_path / "one")
    # As Python sets it; what replaces this process by a program under live sets it back.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with Drawer() as drawer:
        drawer.add(folder, png=True)
        for child in multiprocessing.active_children():
            child.kill()
        with pytest.raises(FolderError, match=rf"weft report {folder}"):
            list(drawer.finish(lambda *_: True))
    assert (folder / "tables" / "points.csv").exists()
    assert not (folder / "report.html").exists()


def test_who_stops_waits_for_no_page(quick: weft.Result, tmp_path: Path) -> None:
    folder = written(quick, tmp_path / "one")

    def stopped() -> None:
        with Drawer() as drawer:
            drawer.add(folder, png=True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not multiprocessing.active_children()
    assert not (folder / "report.html").exists()


def test_an_error_in_a_later_run_costs_no_page(quick: weft.Result, tmp_path: Path) -> None:
    folder = written(quick, tmp_path / "one")

    def failed() -> None:
        with Drawer() as drawer:
            drawer.add(folder, png=False)
            raise FolderError("the next folder is full")

    with pytest.raises(FolderError, match="full"):
        failed()
    assert (folder / "report.html").exists()

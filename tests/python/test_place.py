"""Whose a file of a results folder is, and who may write there."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import weft
from interrupted import HANGS_S
from weft import folder, manifest, place
from weft.cli import main
from weft.place import claim
from weft.saving import put_out

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


def save(result: weft.Result, at: Path) -> None:
    result.save(at, pictures=False)


def written(at: Path) -> dict[str, bytes]:
    found = (path for path in at.rglob("*") if path.is_file())
    return {path.relative_to(at).as_posix(): path.read_bytes() for path in found}


@pytest.fixture
def out(bulk: weft.Result, tmp_path: Path) -> Path:
    save(bulk, tmp_path / "out")
    return tmp_path / "out"


def test_a_manifest_lists_every_file_that_weft_wrote(
    out: Path, reproduction: weft.Result, tmp_path: Path
) -> None:
    assert set(manifest.read(out)) | {"manifest.json"} == set(written(out))
    save(reproduction, tmp_path / "all")
    listed = set(manifest.read_all(tmp_path / "all"))
    own = {f"runs/{name}/manifest.json" for name in reproduction.runs} | {"manifest.json"}
    assert listed | own == set(written(tmp_path / "all"))
    assert all(entry.holds(out / name) for name, entry in manifest.read(out).items())


def test_what_somebody_added_stays(out: Path, quick: weft.Result) -> None:
    own = {"notes.txt": b"mine", "tables/mine.csv": b"1,2", "mine/deep/a.txt": b"a"}
    for name, text in own.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(text)
    (out / "empty").mkdir()
    (out / "link").symlink_to("notes.txt")
    save(quick, out)
    after = written(out)
    assert {name: after.get(name) for name in own} == own
    assert (out / "empty").is_dir()
    assert (out / "link").is_symlink()
    assert "tables/budget.csv" not in after
    assert weft.read(out).title == quick.title


def test_what_somebody_changed_is_kept_beside_the_new(out: Path, quick: weft.Result) -> None:
    (out / "spec.toml").write_text("mine")
    (out / "tables/budget.csv").write_text("changed, and not written again")
    (out / "tables/points.csv").unlink()
    (out / "tables/points.csv").mkdir()
    with claim(out) as at:
        folder.write(quick, at, "")
    assert (out / "spec.kept.toml").read_text() == "mine"
    assert (out / "tables/budget.csv").read_text() == "changed, and not written again"
    assert (out / "tables/points.kept.csv").is_dir()
    assert (out / "spec.toml").read_text() == quick.meta["spec_toml"]
    assert at.remarks == [
        f"{out / 'spec.toml'} is not as Weft wrote it; it is kept as {out / 'spec.kept.toml'}",
        f"{out / 'tables/points.csv'} is not as Weft wrote it; it is kept as "
        f"{out / 'tables/points.kept.csv'}",
    ]
    (out / "spec.toml").write_text("mine again")
    save(quick, out)
    assert (out / "spec.kept.toml").read_text() == "mine"
    assert (out / "spec.kept-2.toml").read_text() == "mine again"


def test_a_file_where_a_folder_belongs_is_kept(bulk: weft.Result, out: Path) -> None:
    tables = out / "tables"
    for name in list(tables.iterdir()):
        name.unlink()
    tables.rmdir()
    tables.write_text("a file of mine")
    save(bulk, out)
    assert (out / "tables.kept").read_text() == "a file of mine"
    assert (tables / "points.csv").exists()


def test_folders_that_lose_their_last_file_go(
    reproduction: weft.Result, quick: weft.Result, tmp_path: Path
) -> None:
    at = tmp_path / "out"
    save(reproduction, at)
    (at / "runs/clint-quick/notes.txt").write_text("mine")
    save(quick, at)
    assert sorted(written(at / "runs")) == ["clint-quick/notes.txt"]
    assert not (at / "runs/clint-table-2-bulk").exists()


def test_a_folder_without_a_manifest_is_refused(out: Path, quick: weft.Result) -> None:
    before = written(out)
    (out / "manifest.json").unlink()
    with pytest.raises(weft.FolderError, match=r"holds results without a manifest\.json"):
        save(quick, out)
    (out / "manifest.json").write_text('{"files": {"spec.toml": 3}}')
    with pytest.raises(weft.FolderError, match=r"manifest\.json cannot be read \(it is damaged\)"):
        save(quick, out)
    del before["manifest.json"]
    after = written(out)
    assert {name: after[name] for name in before} == before
    assert not (out / ".weft").exists()


def test_a_file_system_that_takes_no_folders_is_named(quick: weft.Result) -> None:
    with pytest.raises(weft.FolderError, match=r"^/proc/results cannot be written: No such file"):
        quick.save("/proc/results", pictures=False)


def test_a_folder_that_another_run_uses_is_refused_by_name(out: Path, quick: weft.Result) -> None:
    before = written(out)
    with claim(out):
        with pytest.raises(weft.FolderError) as refused:
            save(quick, out)
        message = str(refused.value)
        assert message.startswith(f"{out} is in use by another run (process {os.getpid()} on ")
        assert message.endswith("); wait for it, or give another folder with --out")
    assert written(out) == before
    save(quick, out)
    assert weft.read(out).title == quick.title


HOLDS = """\
import sys, time
from pathlib import Path
from weft.place import claim
with claim(Path(sys.argv[1])) as place:
    print("held", flush=True)
    place.put(lambda draft: (draft.joinpath("half").write_text("half"), time.sleep(1000)))
"""


def test_a_lock_dies_with_its_process(out: Path, quick: weft.Result, tmp_path: Path) -> None:
    for at in (out, tmp_path / "new"):
        before = written(out)
        with subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(at)], stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(weft.FolderError, match=f"in use by another run .*{holder.pid}"):
                save(quick, at)
            while not (at / ".weft/draft/half").exists():
                assert holder.poll() is None
            holder.kill()
        assert (at / ".weft/lock").exists()
        assert {name: text for name, text in written(out).items() if name in before} == before
        save(quick, at)
        assert not (at / ".weft").exists()
        assert weft.read(at).title == quick.title


def test_of_many_at_once_one_writes_and_the_others_are_refused(
    quick: weft.Result, tmp_path: Path
) -> None:
    """Folders that are made, locked, refused and removed meet each other's removal all the time."""
    outcomes: list[str] = []

    def work() -> None:
        for _ in range(40):
            try:
                with claim(tmp_path / "deep" / "out"):
                    outcomes.append("held")
            except weft.FolderError as error:
                outcomes.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_S)
    assert len(outcomes) == 160
    assert "held" in outcomes
    others = {one for one in outcomes if one != "held" and "is in use by another run" not in one}
    assert not others
    save(quick, tmp_path / "deep" / "out")


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Break off after so many moves of files, as a killed process does."""
    left = [0]
    replace = Path.replace

    def counted(source: Path, target: Path) -> Path:
        if ".half" not in source.name:
            if not left[0]:
                raise SystemExit("killed")
            left[0] -= 1
        return replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", counted)
        yield left


@pytest.mark.parametrize("moves", [0, 1, 4, 7])
def test_what_was_being_put_in_place_is_put_there_by_the_next(
    out: Path, quick: weft.Result, tmp_path: Path, stopping: list[int], moves: int
) -> None:
    stopping[0] = 1000
    save(quick, tmp_path / "whole")
    (out / "notes.txt").write_text("mine")
    (out / "spec.toml").write_text("changed")
    for at in (out, tmp_path / "new"):
        stopping[0] = moves
        with pytest.raises(SystemExit):
            save(quick, at)
        stopping[0] = 1000
        assert weft.read(at).title == quick.title
        own = {name: text for name, text in written(at).items() if name not in {"notes.txt"}}
        assert own.pop("spec.kept.toml", b"changed") == b"changed"
        assert own == written(tmp_path / "whole")
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "spec.kept.toml").read_text() == "changed"


@pytest.fixture
def default_ctrl_c() -> Iterator[None]:
    """Python's own answer to Ctrl-C, which a library that some other test imports may replace."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_ctrl_c")
def test_ctrl_c_while_files_are_moved_waits_for_the_last(out: Path, quick: weft.Result) -> None:
    def fill(draft: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        folder._fill(quick, draft, "")

    with pytest.raises(KeyboardInterrupt), claim(out) as at, place.uninterrupted():
        at.put(fill)
    assert weft.read(out).title == quick.title
    assert not (out / ".weft").exists()


def test_a_run_stopped_before_its_first_point_replaces_nothing(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = written(out)
    stopped = weft.run("clint-table-2-bulk", progress=lambda *_: False)
    with pytest.raises(SystemExit) as left, claim(out) as at:
        put_out(stopped, at, "points", as_json=False)
    assert left.value.code == 130
    told = f"the earlier results in {out} are kept\nstopped before the first point was finished\n"
    assert capsys.readouterr().err == told
    assert written(out) == before
    # Of one point that was finished more is known than before.
    one = weft.run("clint-table-2-bulk", progress=lambda done, *_: done < 1)
    with pytest.raises(SystemExit), claim(out) as at:
        put_out(one, at, "points", as_json=False, pictures=False)
    assert len(weft.read(out).points) == 1


def test_ctrl_c_while_pictures_are_drawn_leaves_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(weft.Figure, "svg", interrupt)
    done = CliRunner().invoke(main, ["run", "clint-quick", "--out", "here"])
    assert done.exit_code == 130
    assert done.stderr == "stopped; the tables are kept, and `weft report here` draws them\n"
    assert "saturated" in done.stdout
    assert not (tmp_path / "here/.weft").exists()
    assert len(weft.load("here", "points")) == len(weft.read("here").points) > 0
    monkeypatch.undo()


def test_a_place_that_cannot_be_is_told_by_its_name(
    quick: weft.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")

    def refusal(at: Path) -> str:
        with pytest.raises(weft.FolderError) as refused:
            save(quick, at)
        return str(refused.value)

    a_file = f"{tmp_path / 'file'} is a file; give a folder to write the results to"
    assert refusal(tmp_path / "file") == a_file
    assert refusal(tmp_path / "file" / "deep" / "out") == a_file
    assert refusal(tmp_path / ("x" * 300)).endswith("xx cannot be written: File name too long")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/.weft/draft")

    with monkeypatch.context() as patched:
        patched.setattr(os, "mkdir", denied)
        new = tmp_path / "deep" / "new"
        assert refusal(new) == f"{new} cannot be written: Permission denied"
    assert not (tmp_path / "deep").exists()


def test_a_folder_that_may_not_be_written_is_left_as_it_is(
    out: Path, quick: weft.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the results are put in place of stays, and the new ones wait for the permission."""
    before = written(out)
    with monkeypatch.context() as patched:
        # Root, who may run this, is never refused by the system itself.
        patched.setattr(os, "access", lambda path, _: Path(path).name != "tables")
        with pytest.raises(weft.FolderError) as refused:
            save(quick, out)
        assert str(refused.value) == (
            f"{out / 'tables'} cannot be written: Permission denied; the new results are kept, and "
            f"`weft report {out}` puts them in their place"
        )
    assert {name: text for name, text in written(out).items() if name in before} == before
    assert weft.read(out).title == quick.title
    assert not (out / ".weft").exists()


def test_a_page_is_drawn_whatever_the_folder_of_the_tables_allows(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "tables")
    weft.folder.redraw(out)
    assert (out / "report.html").exists()
    assert weft.read(out).problems == ()


FULL = """\
import resource, sys
import fake_core
sys.modules["weft._core"] = fake_core
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from weft.cli import main
main()
"""


def limited(size: int, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(HERE), str(Path(weft.__file__).parent.parent)])
    return subprocess.run(
        [sys.executable, "-c", FULL, str(size), *words],
        capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


@pytest.mark.parametrize("size", [100, 3_000])
def test_a_file_system_that_is_full_costs_no_number_and_no_earlier_result(
    bulk: weft.Result, tmp_path: Path, size: int
) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = limited(size, "run", "clint-quick", "--out", "new/here", "--no-pictures", cwd=tmp_path)
    assert done.returncode == 2
    assert "saturated" in done.stdout
    assert done.stderr == (
        "new/here cannot be written: File too large; nothing of these results is kept there\n"
    )
    assert not (tmp_path / "new").exists()
    save(bulk, tmp_path / "old")
    before = written(tmp_path / "old")
    done = limited(size, "run", "clint-quick", "--out", "old", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert '"folder": null' in done.stdout
    assert done.stderr == "old cannot be written: File too large; the earlier results are kept\n"
    assert written(tmp_path / "old") == before


def test_a_picture_for_which_there_is_no_room_leaves_the_tables(tmp_path: Path) -> None:
    # The tables are smaller than that and the page, with its script, is larger.
    done = limited(300_000, "run", "clint-quick", "--out", "here", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "here cannot be written: File too large; the tables are kept; `weft report here` draws "
        "what is missing\n"
    )
    assert not (tmp_path / "here/report.html").exists()
    assert len(weft.read(tmp_path / "here").points) > 0


def test_what_is_printed_to_a_full_file_says_so(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(HERE), str(Path(weft.__file__).parent.parent)])
    words = [sys.executable, "-c", FULL, "100000", "run", "clint-quick", "--out", "here"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*words, "--no-pictures"], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
    told = "standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert len(weft.read(tmp_path / "here").points) > 0


def test_a_page_is_whole_or_not_there(tmp_path: Path) -> None:
    page = tmp_path / "deep" / "page.html"
    place.whole(page, "first")
    (tmp_path / "link.html").symlink_to(page)
    place.whole(tmp_path / "link.html", "second")
    assert page.read_text() == "second"
    assert [one.name for one in page.parent.iterdir()] == ["page.html"]
    with pytest.raises(weft.FolderError) as refused:
        place.whole(page / "deep" / "below.html", "third")
    told = f"{page / 'deep' / 'below.html'} cannot be written: {page} is a file"
    assert str(refused.value) == told
    place.whole(Path(os.devnull), "gone")
    assert Path(os.devnull).is_char_device()

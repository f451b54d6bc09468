from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

import fake_core
from weft.checks import COMPUTED
from weft.cli import main
from weft.report.index import Entry, index_page, write_index
from weft.report.summary import reduced_in_words

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    import weft


def reduce(result: weft.Result) -> None:
    """Make a result look like one of fewer runs than its experiments ask for."""
    for run in result.runs.values():
        asked = {"seeds": 20, "length": "40 ms"}
        run.meta.update(seeds=3, length="10 ms", reduced_from=asked)
    checks = result.tables["checks"]
    first = checks.index[checks["verdict"] == "within"][0]
    checks.loc[first, "verdict"] = "undecided"


def test_a_reduced_size_is_said_on_its_page(reproduction: weft.Result, tmp_path: Path) -> None:
    assert reduced_in_words(reproduction) == ""
    reduce(reproduction)
    text = reproduction.report(tmp_path / "r.html").read_text(encoding="utf-8")
    summary = text[text.index('id="summary"') : text.index('id="checks"')]
    assert (
        "Reduced size: 2 of 2 experiments ran shorter or less often than the file asks for, with 3 "
        "seeds a point where up to 20 are asked for." in summary
    )
    section = text[text.index('<section id="clint-table-2-bulk"') :]
    assert (
        "Reduced size: 3 of 20 seeds a point, 10 ms of 40 ms simulated in each."
        in section[: section.index("</section>")]
    )


def test_what_a_first_look_leaves_out_is_named(reproduction: weft.Result) -> None:
    reproduction.meta["left_out"] = ["clint-programs", "clint-figure-5"]
    without = "Not run, since nothing in them is judged: clint-programs, clint-figure-5."
    assert reduced_in_words(reproduction) == f"Reduced size. {without}"
    reduce(reproduction)
    assert reduced_in_words(reproduction).endswith(f"decides it. {without}")


def test_what_a_size_cannot_decide_has_no_verdict(
    reproduction: weft.Result, tmp_path: Path
) -> None:
    reduce(reproduction)
    text = reproduction.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "6 of 7 printed numbers are within their bands" in text
    assert "1 number that this size cannot decide" in text
    assert '<li class="undecided"><b>1</b> not decided at this size</li>' in text
    assert '<span class="badge undecided">undecided</span>' in text


def test_the_index_counts_what_we_computed_where_there_is_any(
    reproduction: weft.Result, tmp_path: Path
) -> None:
    entry = Entry.of(tmp_path / "clint", reproduction)
    assert "Computed by us" not in index_page([entry])
    entry.found[COMPUTED].update(within=2, outside=1)
    page = index_page([entry])
    card = page[page.index("Computed by us") :]
    assert "<b>2 of 3</b> agree" in card[: card.index("</dd>")]


def test_the_index_leads_to_each_report_and_says_its_size(
    reproduction: weft.Result, tmp_path: Path
) -> None:
    full = Entry.of(tmp_path / "clint", reproduction)
    reduce(reproduction)
    text = index_page([full, Entry.of(tmp_path / "less", reproduction)])
    of_full, of_less = text.split('<li class="card">')[1:]
    assert 'href="clint/report.html"' in of_full
    assert "<b>7 of 8</b> within their bands" in of_full
    assert "Full size" in of_full
    assert 'href="less/report.html"' in of_less
    assert "<b>6 of 7</b> within their bands" in of_less
    assert "<b>1</b> not decided at this size" in of_less
    assert "Reduced size" in of_less


def test_several_systems_leave_an_index_and_one_of_them_may_be_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {}
    inner = fake_core.reproduce

    def remembered(name: str, options: str, progress: Any) -> Any:
        asked[name] = json.loads(options).get("quick")
        return inner("clint", options, progress)

    monkeypatch.setattr(fake_core, "reproduce", remembered)
    monkeypatch.setattr(fake_core, "chosen", lambda *_: [])
    out = tmp_path / "demo"
    names = ["clint", "maestro"]
    done = CliRunner().invoke(
        main, ["reproduce", *names, "--quick", "--full", "clint", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert asked == {"clint": None, "maestro": True}
    assert done.stdout.splitlines()[-1] == str(out / "index.html")
    text = (out / "index.html").read_text(encoding="utf-8")
    for name in names:
        assert f'href="{name}/report.html"' in text
        assert (out / name / "report.html").exists()
        assert list((out / name).rglob("figure-*.svg"))
        assert bool(list((out / name).rglob("figure-*.png"))) == (name == "clint")


def test_what_is_not_reproduced_cannot_be_full() -> None:
    done = CliRunner().invoke(main, ["reproduce", "clint", "--quick", "--full", "clnt"])
    assert done.exit_code == 2
    assert "clnt is not among what is reproduced; accepted: clint" in done.output


def test_an_index_of_somebody_else_is_kept(reproduction: weft.Result, tmp_path: Path) -> None:
    entries = [Entry.of(tmp_path / "clint", reproduction)]
    index = tmp_path / "index.html"
    index.write_text("mine", encoding="utf-8")
    (remark,) = write_index(entries, tmp_path)
    assert str(tmp_path / "index.kept.html") in remark
    assert (tmp_path / "index.kept.html").read_text(encoding="utf-8") == "mine"
    assert "clint/report.html" in index.read_text(encoding="utf-8")
    # Its own is replaced without a word.
    assert write_index(entries, tmp_path) == []


def test_an_index_says_what_is_missing(reproduction: weft.Result, tmp_path: Path) -> None:
    entry = Entry.of(tmp_path / "clint", reproduction)
    text = index_page([replace(entry, stopped=True), replace(entry, failed=2)])
    of_stopped, of_failed = text.split('<li class="card">')[1:]
    assert "stopped before its last point" in of_stopped
    assert "2 points failed" in of_failed

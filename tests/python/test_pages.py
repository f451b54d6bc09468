"""Pages in a browser: every figure is drawn, nothing is asked for, cut, or on top of another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from browser import BOXES, Browser, Visit
from weft.comparison import side_by_side
from weft.report.index import Entry, write_index

if TYPE_CHECKING:
    from pathlib import Path

    import weft

# A telephone, a tablet, a desk, and between the first two the widths at which the layout changes.
WIDTHS = (390, 500, 700, 800, 1400)


def seen_whole(browser: Browser, page: Path) -> Visit:
    """Open a page at every width, find no fault with it, and return what was seen last."""
    for width in WIDTHS:
        seen = browser.visit(page, BOXES, width=width)
        assert (seen.complaints, seen.asked) == ([], [])
        assert seen.said["texts"] > 0
        assert seen.said["faults"] == [], width
    return seen


def test_every_figure_of_a_run_is_drawn(
    quick: weft.Result, browser: Browser, tmp_path: Path
) -> None:
    seen = seen_whole(browser, quick.report(tmp_path / "report.html"))
    drawn = re.findall(r'class="chart vega-embed[^"]*" id="chart-\d+"', seen.dom)
    assert len(drawn) == len(quick.figures)


def test_long_names_are_whole(reproduction: weft.Result, browser: Browser, tmp_path: Path) -> None:
    for run in reproduction.runs.values():
        run.meta["title"] = "An experiment whose name is longer than any that is shipped with it"
    seen = seen_whole(browser, reproduction.report(tmp_path / "report.html"))
    assert 'class="marks"' in seen.dom


def test_several_results_stand_side_by_side(
    quick: weft.Result, browser: Browser, tmp_path: Path
) -> None:
    long = "channel.data.switch.input_queued.buffer"
    quick.points[long] = [f"{4 + place % 2} packets" for place in range(len(quick.points))]
    quick.meta["axes"] = [*quick.meta.get("axes", []), long]
    names = ("one", "other", "a third one")
    for name in names:
        quick.save(tmp_path / name, command="weft run x.toml")
    page = side_by_side([tmp_path / name for name in names]).report(tmp_path / "all.html")
    seen = seen_whole(browser, page)
    assert re.search(r'class="chart vega-embed[^"]*" id="chart-0"', seen.dom)
    assert f'<span title="{long}">input queued buffer</span>' in seen.dom
    assert f">{long}<" not in seen.dom.replace(f"<code>{long}<", "")


def test_the_index_is_whole(reproduction: weft.Result, browser: Browser, tmp_path: Path) -> None:
    write_index([Entry.of(tmp_path / name, reproduction) for name in ("one", "other")], tmp_path)
    assert "one/report.html" in seen_whole(browser, tmp_path / "index.html").dom


FAULTS = {
    "leaves the page": '<p style="white-space: nowrap; width: 3000px">far</p>'
    '<p style="position: absolute; left: 2000px">away</p>',
    "holds more than it shows": '<div style="overflow: auto; width: 90px">'
    '<p style="width: 900px">wide</p></div>',
    "leaves its drawing": '<svg width="90" height="20"><text x="60" y="15">out of it</text></svg>',
    "cut short": '<svg width="90" height="20"><text x="0" y="15">cut…</text></svg>',
    "leaves its cell": '<table style="table-layout: fixed; width: 60px"><tr>'
    "<td>unbreakablewordthatislong</td></tr></table>",
    "collide": '<div style="position: relative; height: 40px">'
    '<p style="position: absolute; top: 0">one text</p>'
    '<p style="position: absolute; top: 4px">other text</p></div>',
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(browser: Browser, tmp_path: Path, fault: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><body><h1>Page</h1>{FAULTS[fault]}</body>", "utf-8")
    found = browser.visit(page, BOXES).said["faults"]
    assert any(text.startswith(fault) for text in found), found


def test_a_plain_page_has_no_fault(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><body><h1>Page</h1><p>Some text.</p></body>", "utf-8")
    assert browser.visit(page, BOXES).said == {"texts": 2, "faults": []}

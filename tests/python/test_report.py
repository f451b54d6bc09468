from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from weft.checks import (
    CALIBRATED,
    CLOSED_FORM,
    COMPUTED,
    STATEMENT,
    checks_of,
    counted_in_words,
    verdict_of,
)
from weft.report.markup import together
from weft.system import System
from weft.words import rate, short_keys

if TYPE_CHECKING:
    from pathlib import Path

    import weft
    from browser import Browser

VOID = {"meta", "img", "br", "hr", "link", "input", "wbr"}

# Points at the first mark that tells a verdict, as a mouse does, and returns what that shows.
POINTED_AT = """
(() => {
  const mark = document.querySelector('.mark-symbol.role-mark path[aria-label*="verdict"]');
  const box = mark.getBoundingClientRect();
  const place = { bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
  for (const name of ["pointerover", "pointermove", "mouseover", "mousemove"]) {
    const kind = name.startsWith("pointer") ? PointerEvent : MouseEvent;
    mark.dispatchEvent(new kind(name, place));
  }
  return document.querySelector("#vg-tooltip-element.visible").textContent;
})()
"""


class Page(HTMLParser):
    """Collects addresses, anchors and links, and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "action", "data", "srcset"}:
                self.addresses.append(value or "")
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.anchors.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()


@pytest.fixture
def text(reproduction: weft.Result, tmp_path: Path) -> str:
    return reproduction.report(tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_asks_nothing_of_anybody(text: str) -> None:
    page = Page(text)
    assert page.open == []
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_contents_lead_somewhere_and_names_are_unique(text: str) -> None:
    page = Page(text)
    assert len(page.links) > 6
    assert {link.removeprefix("#") for link in page.links} <= set(page.anchors)
    assert len(page.anchors) == len(set(page.anchors))


def test_the_summary_comes_first_and_names_what_falls_outside(text: str) -> None:
    summary = text[text.index('id="summary"') : text.index('id="checks"')]
    assert "7 of 8 printed numbers are within their bands, 1 of 2 statements hold" in summary
    listed = summary[summary.index("What falls outside") :]
    assert "Mean queueing latency: bulk, bursty, load 0.7 (fitted)" in listed
    assert "published 103.7\u00a0µs" in listed
    assert listed[: listed.index("</ul>")].count("<li>") == 1


def test_numbers_and_statements_are_counted_apart(text: str) -> None:
    summary = text[text.index('id="summary"') : text.index('id="checks"')]
    numbers, statements = summary.split("<h3>Printed numbers</h3>")[1].split("<h3>Statements</h3>")
    assert '<li class="within"><b>7</b> within the band</li>' in numbers
    assert '<li class="outside"><b>1</b> outside the band</li>' in numbers
    assert '<li class="report"><b>2</b> shown, not judged</li>' in numbers
    assert '<li class="within"><b>1</b> hold</li>' in statements
    assert '<li class="missed"><b>1</b> known not to hold</li>' in statements
    assert "hold (1 known to be missed); besides, 2 numbers shown without a verdict." in summary
    assert "1 number that is not in the document" in summary


def test_what_says_less_than_a_prediction_is_counted_apart(reproduction: weft.Result) -> None:
    number = next(c for c in checks_of(reproduction) if c.counted and c.verdict == "within")
    closed = replace(number, kind=CLOSED_FORM)
    calibrated = replace(number, kind=CALIBRATED)
    missed = replace(calibrated, verdict="missed")
    assert counted_in_words([number, closed, closed, calibrated, missed]) == (
        "1 of 1 printed number is within its band; besides, 2 of 2 numbers that follow without a "
        "run agree, 1 of 2 numbers that calibrated parameters agree (1 known to be missed)."
    )
    # They are the same number in print all the same.
    assert len({check.entry for check in (number, closed, calibrated)}) == 1


def test_what_no_document_prints_is_no_statement_of_one(reproduction: weft.Result) -> None:
    statement = next(
        check
        for check in checks_of(reproduction)
        if check.kind == STATEMENT and check.verdict == "within"
    )
    computed = replace(statement, kind=COMPUTED)
    failed = replace(computed, verdict="outside")
    assert counted_in_words([statement, computed, failed]) == (
        "1 of 1 statement holds; besides, "
        "1 of 2 numbers that we computed and no document prints agree."
    )
    # A document that gives nothing else is answered by these alone.
    assert counted_in_words([computed]) == (
        "1 of 1 number that we computed and no document prints agrees."
    )
    assert verdict_of(COMPUTED, "outside") == verdict_of(STATEMENT, "outside")


def test_no_fault_is_not_shown_in_the_colour_of_a_fault(text: str) -> None:
    summary = text[text.index('id="summary"') : text.index('id="checks"')]
    assert '<li class="none"><b>0</b> do not hold</li>' in summary
    assert not re.search(r'<li class="(within|outside|missed|undecided|report)"><b>0</b>', summary)
    style = text[: text.index("</style>")]
    assert re.search(r"\.tiles :is\(\.report, \.none\) b { color: var\(--report\); }", style)


def test_what_is_known_to_be_missed_is_named_in_the_summary(text: str) -> None:
    summary = text[text.index('id="summary"') : text.index('id="checks"')]
    listed = summary[summary.index("What is known to be missed") :]
    assert "<b>“B3 saturates early”</b>: saturation load: B3, bulk measured 0.91" in listed
    assert "claimed" not in listed[: listed.index("</ul>")]
    assert '<span class="badge missed">missed</span>' in text


def test_a_number_in_two_experiments_says_where_it_counts(text: str) -> None:
    tables = text[text.index('id="checks"') : text.index('id="clint-table-2-bulk"')]
    of_table_2, of_figure_8 = re.split(r"<h3>[^<]*figure 8", tables, flags=re.IGNORECASE)
    assert "Also in clint figure 8." in of_table_2
    assert "Counts once, with Table 2." in of_figure_8
    assert '<span class="badge aside">report</span>' in of_figure_8


def test_a_statement_is_quoted_and_has_no_dash_for_a_number(text: str) -> None:
    row = re.search(r"<tr><td[^>]*><div>“B1 saturates early”.*?</tr>", text)
    assert row is not None
    assert "0.46 to 0.57" in row[0]
    assert '<span class="badge within">holds</span>' in row[0]
    assert "<div>–</div>" not in row[0]


def test_a_value_without_a_band_keeps_its_reason(text: str) -> None:
    assert "with at most two writers at a time it does, at 0.80" in text


def test_parameters_show_their_origin_and_what_they_predict(text: str) -> None:
    part = text[text.index('id="parameters"') :]
    for words in (
        '<span class="badge stated">stated</span>',
        '<span class="badge derived">derived</span>',
        '<span class="badge calibrated">calibrated</span>',
        "predicts: B4 bursty at 0.7 (103.7\u00a0µs)",
    ):
        assert words in part


def test_a_fitted_constant_says_whose_it_is_where_there_are_several_systems(
    reproduction: weft.Result, text: str, tmp_path: Path
) -> None:
    assert 'class="note">channel.bulk</small>' in text
    run = next(iter(reproduction.runs.values()))
    assert isinstance(run.system, System)
    own = escape(run.system.title)
    parameters = tuple(replace(one, value=f"{one.value}0") for one in run.system.parameters)
    run.system = replace(run.system, title="Clint 2", parameters=parameters)
    both = reproduction.report(tmp_path / "both.html").read_text(encoding="utf-8")
    assert f'class="note">channel.bulk, {own}</small>' in both
    assert 'class="note">channel.bulk, Clint 2</small>' in both


def test_a_plain_run_says_how_many_points_settled(bulk: weft.Result, tmp_path: Path) -> None:
    text = bulk.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "36 points: 32 settled, 4 saturated." in text
    assert "weft run spec.toml" in text
    assert "sweep" in text


def test_words_from_a_file_cannot_break_the_page(bulk: weft.Result, tmp_path: Path) -> None:
    bulk.meta["title"] = "</title><script>alert(1)</script>"
    bulk.meta["figures"][0]["caption"] = "a < b </script>"
    bulk.meta["figures"][0]["title"] = "</script> & co"
    text = bulk.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert Page(text).open == []


def test_a_page_without_a_system_says_why(bulk: weft.Result, tmp_path: Path) -> None:
    bulk.system = "unknown system `x`"
    text = bulk.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "It cannot be drawn: unknown system `x`" in text


def test_keys_are_shortened_to_what_tells_them_apart() -> None:
    fifo, voq = "channel.data.switch.fifo.buffer", "channel.data.switch.voq.buffer"
    up, down = "channel.up.link.rate", "channel.down.link.rate"
    assert short_keys([fifo, voq]) == {fifo: "fifo buffer", voq: "voq buffer"}
    assert short_keys([up, down]) == {up: "up link rate", down: "down link rate"}
    assert short_keys(["preset", up]) == {"preset": "preset", up: "link rate"}


def test_a_mark_tells_its_numbers_when_it_is_pointed_at(
    quick: weft.Result, browser: Browser, tmp_path: Path
) -> None:
    seen = browser.visit(quick.report(tmp_path / "report.html"), POINTED_AT)
    assert (seen.complaints, seen.asked) == ([], [])
    for field in ("series", "verdict", "settled"):
        assert field in seen.said


def test_a_number_stays_on_one_line_with_its_unit() -> None:
    text = together("after 40 ms (464.4 and 1636.7 us) within 20 %, 5 metres, 2 Gbit/s")
    assert text == (
        "after 40\u00a0ms (464.4 and 1636.7\u00a0us) within 20\u00a0%, 5 metres, 2\u00a0Gbit/s"
    )


def test_a_rate_of_bits_by_time_is_said_in_bits_a_second() -> None:
    assert rate("2 bit/1.875 ns") == "1.067 Gbit/s"
    assert rate("1 bit/4 us") == "250 kbit/s"
    assert rate("2 Gbit/s") == "2 Gbit/s"

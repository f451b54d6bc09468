from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    import weft

VOID = {"meta", "img", "br", "hr", "link", "input"}
CHROMIUM = shutil.which("chromium")


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
    assert "13 of 16 published values come out" in summary
    assert "What falls outside" in summary
    assert "Mean queueing latency: bulk, bursty, load 0.7 (literal)" in summary
    assert "published 103.7 µs" in summary


def test_a_value_without_a_band_keeps_its_reason(text: str) -> None:
    assert "with at most two writers at a time it does, at 0.80" in text


def test_parameters_show_their_origin_and_what_they_predict(text: str) -> None:
    part = text[text.index('id="parameters"') :]
    for words in (
        '<span class="badge stated">stated</span>',
        '<span class="badge derived">derived</span>',
        '<span class="badge calibrated">calibrated</span>',
        "predicts: B4 bursty at 0.7 (103.7 µs)",
    ):
        assert words in part


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


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_draws_every_figure_without_a_complaint(
    quick: weft.Result, tmp_path: Path, width: int
) -> None:
    page = quick.report(tmp_path / "report.html")
    done = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},6000"),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert complaints == []
    drawn = re.findall(r'class="chart vega-embed[^"]*" id="chart-\d+"', done.stdout)
    assert len(drawn) == len(quick.figures)

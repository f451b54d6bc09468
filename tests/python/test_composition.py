from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

import fake_core
from weft.composition import draw

if TYPE_CHECKING:
    from pathlib import Path

    from browser import Browser

SVG = "{http://www.w3.org/2000/svg}"


def classes(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [word for part in root.iter() for word in (part.get("class") or "").split()[:1]]


@pytest.mark.parametrize("hosts", [2, 16, 24])
def test_every_host_has_an_adapter_and_a_link_on_each_channel(hosts: int) -> None:
    found = classes(draw(fake_core.composition(hosts)))
    assert found.count("host") == hosts
    assert found.count("adapter") == found.count("link") == 2 * hosts
    assert found.count("switch") == 2


def test_many_hosts_become_an_ellipsis_and_keep_their_number() -> None:
    svg = draw(fake_core.composition(64))
    found = classes(svg)
    assert found.count("host") == 23
    assert "…" in svg
    assert ">63<" in svg
    assert "64 links" in svg


def test_parts_carry_their_names_and_rates() -> None:
    svg = draw(fake_core.composition(16), title="Clint")
    for words in (
        "bulk channel: globally scheduled crossbar",
        "least choice first · latency 1.5 ns · packets of 2086 B",
        "16 links, 2 Gbit/s each way · 5 m",
        "quick channel: bufferless crossbar",
        "drop on contention",
        "Clint: 16 hosts on bulk and quick",
    ):
        assert words in svg


def test_a_narrow_picture_draws_few_hosts_and_says_the_same() -> None:
    wide, narrow = (draw(fake_core.composition(16), narrow=narrow) for narrow in (False, True))
    assert classes(narrow).count("host") == 6
    assert 'viewBox="0 0 330 ' in narrow
    said = [
        [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
         if text.get("class") in {"name", "fact", "rate"} and text.text != "…"]
        for svg in (wide, narrow)
    ]  # fmt: skip
    words = [" ".join(filter(None, texts)).replace(" · ", " ").split() for texts in said]
    assert words[0] == words[1]
    assert len(said[1]) > len(said[0])


@pytest.mark.parametrize("narrow", [False, True])
def test_nothing_is_drawn_outside_the_picture(*, narrow: bool) -> None:
    for hosts in (2, 16, 64):
        root = ElementTree.fromstring(draw(fake_core.composition(hosts), narrow=narrow))
        _, _, width, height = map(float, (root.get("viewBox") or "").split())
        for box in root.iter(f"{SVG}rect"):
            x, y, w, h = (float(box.get(name) or 0) for name in ("x", "y", "width", "height"))
            assert x >= 0
            assert y >= 0
            assert x + w <= width
            assert y + h <= height


MEASURED = """
(() => {
const boxes = [...document.querySelectorAll("rect.switch")].map((it) => it.getBoundingClientRect());
const texts = [...document.querySelectorAll("text.name, text.fact")];
const leaves = texts.filter((one) => {
  const text = one.getBoundingClientRect();
  const inside = (box) => text.left > box.left && text.right < box.right;
  return !boxes.filter((box) => text.top > box.top && text.bottom < box.bottom).some(inside);
});
return [texts.length, leaves.map((it) => it.textContent)];
})()
"""


@pytest.mark.parametrize(("narrow", "lines"), [(False, 4), (True, 10)])
def test_what_stands_on_a_switch_stands_inside_it(
    browser: Browser, tmp_path: Path, *, narrow: bool, lines: int
) -> None:
    composition = fake_core.composition(2)
    composition["channels"][0]["name"] = "WIDE MIDDLE WIDE MIDDLE WIDE MIDDLE WIDE MIDDLE WIDE"
    composition["channels"][1] |= {
        "control": {"kind": "request_acknowledge", "timeout": "1.59 us", "outstanding": 4},
        "switch": {"kind": "crossbar", "contention": "drop", "acknowledgments": "collide"},
    }
    page = tmp_path / "composition.html"
    page.write_text(
        f"<!doctype html><html><body>{draw(composition, narrow=narrow)}</body></html>", "utf-8"
    )
    assert browser.visit(page, MEASURED).said == [lines, []]


def test_a_third_channel_gets_a_row_of_hosts_of_its_own() -> None:
    composition = fake_core.composition(4)
    composition["channels"].append({"name": "third", "switch": {"kind": "input_queued"}})
    found = classes(draw(composition))
    assert found.count("host") == 8
    assert found.count("switch") == 3
    assert found.count("cell") == 3 * 4


def test_a_hub_has_cells_where_its_ports_hold_packets() -> None:
    composition = fake_core.composition(4)
    for transfer, cells in [
        ({"bus": {"arbitration": "50 ns", "buffer": 8}}, 3 * 4),
        ({"bus": {"arbitration": "50 ns", "buffer": None}}, 0),
        ({"crossbar": {"buffer": 8, "arbiter": "request_sampling"}}, 3 * 4),
        ("direct", 0),
    ]:
        composition["channels"][0]["switch"] = {"kind": "hub", "transfer": transfer}
        assert classes(draw(composition)).count("cell") == cells


def test_names_from_a_file_cannot_break_the_picture() -> None:
    composition = fake_core.composition(2)
    composition["channels"][0]["name"] = "<bulk> & co"
    ElementTree.fromstring(draw(composition, title='"quoted"'))

"""The picture of a fabric, from handmade shapes."""

from __future__ import annotations

from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest

from weft.composition import caption, draw
from weft.graph import fact, is_drawn

SVG = "{http://www.w3.org/2000/svg}"
HOSTS_LINK = {"rate": "100 Gbit/s", "length": "5 m"}
UPLINK = {"rate": "400 Gbit/s", "length": "20 m"}


def composition(tiers: list[int], cables: list[list[int]], hosts: int = 4) -> dict[str, Any]:
    """Return a fabric of one switch for each tier that is listed; those of tier 1 have hosts."""
    switches = [
        {"name": f"{number}.x", "tier": tier, "hosts": hosts if tier == 1 else 0}
        for number, tier in enumerate(tiers)
    ]
    fabric = {"kind": "leaf_spine", "switches": switches, "cables": cables,
              "links": [HOSTS_LINK, UPLINK]}  # fmt: skip
    channel = {"name": "net", "packet": "1 kB", "link": HOSTS_LINK, "fabric": fabric,
               "switch": {"kind": "output_queued", "latency": "0 ns"}}  # fmt: skip
    return {"hosts": hosts * tiers.count(1), "channels": [channel]}


def leaf_spine() -> dict[str, Any]:
    """Two leaves with two cables to each of three spines."""
    cables = [[leaf, spine, 1, 2] for leaf in (0, 1) for spine in (2, 3, 4)]
    return composition([1, 1, 2, 2, 2], cables)


def parts(svg: str) -> Counter[str]:
    root = ElementTree.fromstring(svg)
    return Counter(word for part in root.iter() for word in (part.get("class") or "").split()[:1])


def words(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_tiers_stand_above_their_hosts() -> None:
    svg = draw(leaf_spine())
    assert parts(svg)["switch"] == 5
    assert parts(svg)["host"] == 2
    # A line for all cables between two switches, and one to the hosts of each leaf.
    assert parts(svg)["cable"] == 6 + 2
    tops = {
        (title.text or ""): float(group.find(f"{SVG}rect").get("y") or 0)  # type: ignore[union-attr]
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
        if (title := group.find(f"{SVG}title")) is not None
    }
    assert tops["switch 2.x"] < tops["switch 0.x"] < tops["4 hosts of switch 0.x"]


def test_cables_are_counted_between_the_tiers_that_they_join() -> None:
    said = words(draw(leaf_spine()))
    assert "12 cables, 400 Gbit/s each way · 20 m" in said
    assert "8 hosts, 100 Gbit/s each way · 5 m" in said
    assert "leaf spine of 5 switches · packets of 1 kB" in said
    assert "2 cables between 2.x and 0.x, 400 Gbit/s each way · 20 m" in draw(leaf_spine())


def test_planes_are_counted() -> None:
    several = leaf_spine()
    several["channels"][0]["planes"] = 8
    said = words(draw(several))
    assert "8 planes like this · leaf spine of 5 switches · packets of 1 kB" in said
    assert parts(draw(several)) == parts(draw(leaf_spine()))


def test_cables_within_the_lowest_tier_stand_beside_those_to_hosts() -> None:
    said = words(draw(composition([1, 1, 2], [[0, 1, 0, 1], [0, 2, 1, 1], [1, 2, 1, 1]])))
    assert "1 cable, 100 Gbit/s each way · 5 m" in said
    assert "2 cables, 400 Gbit/s each way · 20 m" in said


def test_switches_of_one_tier_stand_in_a_circle() -> None:
    count = 6
    ring = [[number, (number + 1) % count, 1, 1] for number in range(count)]
    svg = draw(composition([1] * count, ring, hosts=3))
    root = ElementTree.fromstring(svg)
    dots = [dot for dot in root.iter(f"{SVG}circle") if "switch" in (dot.get("class") or "")]
    assert len(dots) == count
    assert parts(svg)["cable"] == count
    assert words(svg).count("3") == count
    assert "6 cables, 400 Gbit/s each way · 20 m" in words(svg)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("leaves", "spines"), [(2, 3), (48, 16), (150, 1), (200, 0)])
def test_nothing_is_drawn_outside_the_picture(leaves: int, spines: int, *, narrow: bool) -> None:
    tiers = [1] * leaves + [2] * spines
    cables = [[leaf, leaves + spine, 1, 1] for leaf in range(leaves) for spine in range(spines)]
    cables = cables or [[0, 1, 1, 1]]
    root = ElementTree.fromstring(draw(composition(tiers, cables), narrow=narrow))
    _, _, width, height = map(float, (root.get("viewBox") or "").split())
    ends = [
        (float(part.get(x) or 0) + float(part.get(by) or 0), most)
        for part in root.iter()
        for x, by, most in (
            ("x", "width", width), ("y", "height", height), ("x1", "", width), ("x2", "", width),
            ("y1", "", height), ("y2", "", height), ("cx", "r", width), ("cy", "r", height),
        )
    ]  # fmt: skip
    assert all(0 <= end <= most for end, most in ends)


def test_tiers_with_many_switches_are_drawn_in_part() -> None:
    svg = draw(composition([1] * 100 + [2], [[leaf, 100, 1, 1] for leaf in range(100)]))
    assert "…" in words(svg)
    assert parts(svg)["switch"] == 39 + 1
    # What is counted is the fabric, not the picture.
    assert "100 cables, 400 Gbit/s each way · 20 m" in words(svg)


def test_the_caption_tells_a_fabric_from_a_row_of_hosts() -> None:
    both = leaf_spine()
    assert "numbered" not in caption(both)
    star = {"name": "star", "link": HOSTS_LINK, "adapter": {"send_buffers": 2}}
    both["channels"].append(star)
    assert "Each line is a cable" in caption(both)
    assert "2 send buffers on the star channel" in caption(both)
    # A row of hosts and a fabric do not share hosts.
    assert parts(draw(both))["host"] == 2 + 8


def test_a_channel_of_one_switch_has_no_graph() -> None:
    star = {"name": "star", "switch": {"kind": "output_queued"}}
    assert not is_drawn(star)
    assert fact(star) == ""

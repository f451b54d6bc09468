"""The picture of a fabric: switches in tiers above their hosts, or one tier in a circle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

from weft.words import plain, rate

_MARGIN = 20
_BOX = 26  # height of a switch
_WIDEST = 110  # width of one
_HOST = 26
_GAP = 92  # between two tiers, in which the text about their cables stands
_MOST, _FEW = 40, 10  # switches of a tier that are drawn, in a wide and in a narrow picture
_NARROW = 400  # widths below it are narrow
_LETTER = 7.2  # width of one
_SMALL = 6.2  # width of a small one
_NAMED = 40  # switches in a circle beyond which their names stand on the pointer only


@dataclass(frozen=True)
class _Node:
    """A switch that is drawn."""

    number: int
    name: str
    hosts: int
    x: float
    y: float


def text(x: float, y: float, words: str, kind: str) -> str:
    """Write words around a point."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def plate(middle: float, y: float, lines: list[str], half: float) -> list[str]:
    """Write lines on a plate that keeps cables away from the letters; `y` is its middle."""
    height = 18 * len(lines) + 8
    top = y - height / 2
    return [
        f'<rect class="plate" x="{middle - half:g}" y="{top:g}" width="{2 * half:g}" '
        f'height="{height:g}" rx="4"/>',
        *(text(middle, top + 17 + 18 * row, line, "rate") for row, line in enumerate(lines)),
    ]


def is_drawn(channel: dict[str, Any]) -> bool:
    """Tell whether the switches and cables of a channel can be drawn one by one."""
    return bool((channel.get("fabric") or {}).get("switches"))


def fact(channel: dict[str, Any]) -> str:
    """Say how many switches the fabric has and how they are connected; "" of one switch."""
    fabric = channel.get("fabric") or {}
    count = len(fabric.get("switches") or [])
    return f"{plain(str(fabric['kind']))} of {count} switches" if count else ""


def panel(channel: dict[str, Any], index: int, width: float, top: float) -> tuple[list[str], float]:
    """Draw the switches, cables and hosts of a channel; return them and their height."""
    tiers = {switch["tier"] for switch in channel["fabric"]["switches"]}
    draw = _tree if len(tiers) > 1 else _circle
    return draw(channel, index, width, top)


def _tree(channel: dict[str, Any], index: int, width: float, top: float) -> tuple[list[str], float]:
    fabric = channel["fabric"]
    rows: dict[int, list[int]] = {}
    for number, switch in enumerate(fabric["switches"]):
        rows.setdefault(switch["tier"], []).append(number)
    nodes: dict[int, _Node] = {}
    boxes: list[str] = []
    y = top
    for tier in sorted(rows, reverse=True):
        shown, drawn, box = _row(fabric, rows[tier], index, width, y)
        nodes.update(shown)
        boxes += drawn
        y += _BOX + _GAP
    bottom = y
    leaves = [node for node in nodes.values() if node.hosts]
    hosts = []
    for node in leaves:
        hosts.append(_cable(index, (node.x, node.y + _BOX), (node.x, bottom), ""))
        label = f"{node.hosts} hosts" if box > 8 * _LETTER else str(node.hosts)
        hint = f"{node.hosts} hosts of switch {node.name}"
        hosts.append(_box("host", hint, node.x, bottom, box, label))
    parts = _cables(fabric, nodes, index) + hosts + boxes
    for row, tier in enumerate(sorted(rows, reverse=True)):
        said = [_hosts_said(channel)] if tier == 1 else []
        said += _said(fabric, tier)
        half = min(_LETTER / 2 * max(map(len, said), default=0) + 12, width / 2)
        middle = top + _BOX + _GAP / 2 + row * (_BOX + _GAP)
        parts += plate(width / 2, middle, said, half) if said else []
    return parts, bottom + _HOST - top


def _row(
    fabric: dict[str, Any], numbers: list[int], index: int, width: float, y: float
) -> tuple[dict[int, _Node], list[str], float]:
    """Place a tier's switches beside each other; return them, their boxes and the width of one."""
    most = _FEW if width < _NARROW else _MOST
    places: list[int | None] = list(numbers)
    if len(numbers) > most:
        places = [*numbers[: most - 2], None, numbers[-1]]
    pitch = (width - _MARGIN) / len(places)
    box = min(pitch - min(6, pitch / 4), _WIDEST)
    # All switches of a tier have names in the picture, or none has.
    longest = max(len(fabric["switches"][number]["name"]) for number in numbers)
    is_named = _SMALL * longest < box
    style = "number" if _LETTER * longest < box else "small"
    nodes: dict[int, _Node] = {}
    parts = []
    for place, number in enumerate(places):
        x = _MARGIN / 2 + pitch * (place + 0.5)
        if number is None:
            parts.append(text(x, y + 17, "…", "name"))
            continue
        switch = fabric["switches"][number]
        nodes[number] = _Node(number, switch["name"], switch["hosts"], x, y)
        label = switch["name"] if is_named else ""
        hint = f"switch {switch['name']}"
        parts.append(_box(f"switch c{index % 6}", hint, x, y, box, label, style))
    return nodes, parts, box


def _cables(fabric: dict[str, Any], nodes: dict[int, _Node], index: int) -> list[str]:
    """Draw the cables between switches that are drawn."""
    lines = []
    for one, other, link, count in fabric["cables"]:
        if one not in nodes or other not in nodes:
            continue
        ends = sorted((nodes[one], nodes[other]), key=lambda node: node.y)
        is_level = ends[0].y == ends[1].y
        start = (ends[0].x, ends[0].y + _BOX / (2 if is_level else 1))
        end = (ends[1].x, ends[1].y + (_BOX / 2 if is_level else 0))
        between = f"between {ends[0].name} and {ends[1].name}"
        hint = f"{_counted(count)} {between}, {_rate(fabric['links'][link])}"
        lines.append(_cable(index, start, end, hint))
    return lines


def _circle(
    channel: dict[str, Any], index: int, width: float, top: float
) -> tuple[list[str], float]:
    fabric = channel["fabric"]
    switches = fabric["switches"]
    count = len(switches)
    outside = 44 if count <= _NAMED else 14
    radius = min(width / 2 - outside - _MARGIN, max(80.0, 6.0 * count), 230.0)
    dot = max(2.5, min(14.0, 0.8 * math.pi * radius / count))
    centre = (width / 2, top + outside + radius)
    spots = [
        (
            centre[0] + radius * math.sin(2 * math.pi * number / count),
            centre[1] - radius * math.cos(2 * math.pi * number / count),
        )
        for number in range(count)
    ]
    parts = []
    for one, other, link, cables in fabric["cables"]:
        between = f"between {switches[one]['name']} and {switches[other]['name']}"
        hint = f"{_counted(cables)} {between}, {_rate(fabric['links'][link])}"
        parts.append(_cable(index, spots[one], spots[other], hint))
    for switch, (x, y) in zip(switches, spots, strict=True):
        hint = escape(f"switch {switch['name']} with {switch['hosts']} hosts")
        inside = text(x, y + 4, str(switch["hosts"]), "count") if dot > 9 else ""
        parts.append(
            f'<g><title>{hint}</title><circle class="plate" cx="{x:.1f}" cy="{y:.1f}" '
            f'r="{dot:.1f}"/><circle class="switch c{index % 6}" cx="{x:.1f}" cy="{y:.1f}" '
            f'r="{dot:.1f}"/>{inside}</g>'
        )
        if count <= _NAMED:
            away = (radius + dot + 16) / radius
            name = (centre[0] + (x - centre[0]) * away, centre[1] + (y - centre[1]) * away + 4)
            parts.append(text(round(name[0], 1), round(name[1], 1), switch["name"], "count"))
    y = centre[1] + radius + outside + 12
    for line in [_hosts_said(channel), *_said(fabric, switches[0]["tier"])]:
        parts.append(text(width / 2, y, line, "rate"))
        y += 18
    return parts, y - top


def _said(fabric: dict[str, Any], tier: int) -> list[str]:
    """Say how many cables of each kind a tier has to its own switches and to those below."""
    tiers = [switch["tier"] for switch in fabric["switches"]]
    counts: dict[int, int] = {}
    for one, other, link, count in fabric["cables"]:
        if max(tiers[one], tiers[other]) == tier:
            counts[link] = counts.get(link, 0) + count
    return [
        f"{_counted(count)}, {_rate(fabric['links'][link])}"
        for link, count in sorted(counts.items())
    ]


def _counted(cables: int) -> str:
    return f"{cables} cables" if cables > 1 else "1 cable"


def _hosts_said(channel: dict[str, Any]) -> str:
    hosts = sum(switch["hosts"] for switch in channel["fabric"]["switches"])
    return f"{hosts} hosts, {_rate(channel.get('link') or {})}"


def _rate(link: dict[str, Any]) -> str:
    spoken = f"{rate(str(link.get('rate') or ''))} each way"
    length = link.get("length")
    return f"{spoken} · {length}" if length else spoken


def _cable(index: int, start: tuple[float, float], end: tuple[float, float], hint: str) -> str:
    line = (
        f'<line class="cable c{index % 6}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" '
        f'x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
    )
    return f"{line}><title>{escape(hint)}</title></line>" if hint else f"{line}/>"


def _box(
    kind: str, hint: str, x: float, y: float, width: float, label: str, style: str = "number"
) -> str:
    place = f'x="{x - width / 2:.1f}" y="{y:g}" width="{width:.1f}" height="{_BOX}" rx="4"'
    ground = "" if kind == "host" else f'<rect class="plate" {place}/>'
    words = text(round(x, 1), y + 17.5, label, style) if label else ""
    return f'<g><title>{escape(hint)}</title>{ground}<rect class="{kind}" {place}/>{words}</g>'

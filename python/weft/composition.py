"""The picture of a composition: hosts in a row, each channel's switch above or below them.

A channel of several switches has a drawing of its own (`weft.graph`).

A switch is drawn as one wide bar, so that every link is a straight line and sixteen hosts stay
legible. Two channels share a row of hosts, the first above it and the second below; further
channels get a row of hosts of their own. Text that a reader needs stands on the parts themselves;
where the picture must be narrow, it runs over several lines and fewer hosts are drawn.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import Any

from weft import graph
from weft.theme import DARK, FONT, LIGHT, Theme
from weft.words import plain, rate

_PITCH = 44  # between hosts
_MARGIN = 20
_MOST = 24  # hosts drawn; beyond that the middle ones become an ellipsis
_SWITCH = 54  # height of a switch with two lines on it
_LINE = 18  # height of each line more
_LINK = 74
_ADAPTER = 24
_HOST = 30
_BOX = 32  # width of a host and of its adapters
_LEAST = 520  # width, however few hosts there are
_NARROW, _FEW = 330, 7  # width and hosts of a narrow picture
# Widths of a letter on a switch and on the links, in the widest of the page's fonts.
_NAME, _FACT, _RATE = 9.0, 6.4, 7.2

_PARTS = {
    "scheduled": "globally scheduled crossbar",
    "crossbar": "bufferless crossbar",
    "output_buffered": "output-buffered switch",
    "input_queued": "input-queued switch",
    "output_queued": "output-queued switch",
    "shared_buffer": "shared-buffer switch",
    "shared_memory": "shared-memory switch",
    "fifo_bus": "FIFOs on a bus",
    "ring": "ring of adapters",
}
# Where a switch keeps packets: drawn as small cells beside each port.
_BUFFERED = {"output_buffered", "input_queued", "output_queued"}


@dataclass(frozen=True)
class _Frame:
    """Where the hosts stand: the centre of each drawn one, None for the ellipsis."""

    hosts: int
    width: float
    places: tuple[tuple[float, int | None], ...]

    @classmethod
    def of(cls, hosts: int, channels: list[dict[str, Any]], *, narrow: bool) -> _Frame:
        numbers: list[int | None] = list(range(hosts))
        most = _FEW if narrow else _MOST
        if hosts > most:
            numbers = [*range(most - 2), None, hosts - 1]
        span = len(numbers) * _PITCH
        said = [_said(channel) for channel in channels]
        words = [max(_NAME * len(name), _FACT * len(" · ".join(facts))) for name, facts in said]
        wide = max(span + 2 * _MARGIN, _LEAST, *(2 * _MARGIN + word for word in words))
        width = _NARROW if narrow else wide
        first = (width - span) / 2 + _PITCH / 2
        return cls(hosts, width, tuple((first + i * _PITCH, n) for i, n in enumerate(numbers)))

    def lines(self, facts: list[str], letter: float) -> list[str]:
        """Distribute facts over lines as wide as the picture, without breaking a fact."""
        most = int((self.width - 2 * _MARGIN) / letter)
        found: list[str] = []
        for fact in facts:
            first, *more = textwrap.wrap(fact, most)
            if found and len(found[-1]) + len(first) + 3 <= most and not more:
                found[-1] += f" · {first}"
            else:
                found += [first, *more]
        return found

    @property
    def wired(self) -> list[float]:
        """Centres of the hosts that are drawn."""
        return [x for x, number in self.places if number is not None]


def draw(composition: dict[str, Any], *, title: str = "", narrow: bool = False) -> str:
    """Return the composition as an SVG document that follows a light or a dark page.

    Args:
        composition: `hosts` and a list of `channels`, each with name, packet, link, switch,
            scheduler and adapter, as `weft.show` gives it.
        title: what a screen reader says first.
        narrow: draw it for a telephone.

    """
    hosts = int(composition.get("hosts") or 0)
    channels = list(composition.get("channels") or [])
    frame = _Frame.of(hosts, channels, narrow=narrow)
    parts: list[str] = []
    y = 8.0
    for index, pair in _panels(channels):
        body, height = _panel(frame, pair, index, y)
        parts += body
        y += height + 22
    names = " and ".join(str(channel["name"]) for channel in channels)
    label = escape(f"{title}: {hosts} hosts on {names}".strip(": "))
    size = f'viewBox="0 0 {frame.width:g} {y - 14:g}" width="{frame.width:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="weft-composition" role="img" '
        f'aria-label="{label}" {size} height="{y - 14:g}">\n<title>{label}</title>\n'
        f"<style>{_style()}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _panels(channels: list[dict[str, Any]]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Put two channels to a row of hosts, and a fabric on a drawing of its own."""
    found: list[tuple[int, list[dict[str, Any]]]] = []
    for index, channel in enumerate(channels):
        last = found[-1][1] if found else []
        if len(last) == 1 and not graph.is_drawn(last[0]) and not graph.is_drawn(channel):
            last.append(channel)
        else:
            found.append((index, [channel]))
    return found or [(0, [])]


def _fabric(
    frame: _Frame, channel: dict[str, Any], index: int, top: float
) -> tuple[list[str], float]:
    """Draw a fabric below the lines that say what it is."""
    name, facts = _said(channel)
    lines = [(line, "name") for line in frame.lines([name], _NAME)]
    lines += [(line, "fact") for line in frame.lines(facts, _FACT)]
    parts = [
        graph.text(frame.width / 2, top + 14 + _LINE * place, line, style)
        for place, (line, style) in enumerate(lines)
    ]
    heading = _LINE * len(lines) + 12
    body, height = graph.panel(channel, index, frame.width, top + heading)
    return parts + body, heading + height


def _panel(
    frame: _Frame, channels: list[dict[str, Any]], first: int, top: float
) -> tuple[list[str], float]:
    """Draw a row of hosts with one channel above and, if there is a second, one below."""
    if channels and graph.is_drawn(channels[0]):
        return _fabric(frame, channels[0], first, top)
    parts: list[str] = []
    y = top
    if channels:
        switch, height = _switch(frame, channels[0], first, y, below=False)
        parts += switch
        y += height
        parts += _links(frame, channels[0], first, y)
        y += _LINK
        parts += _adapters(frame, channels[0], first, y)
        y += _ADAPTER
    parts += _hosts(frame, y)
    y += _HOST
    if len(channels) > 1:
        parts += _adapters(frame, channels[1], first + 1, y)
        y += _ADAPTER
        parts += _links(frame, channels[1], first + 1, y)
        y += _LINK
        switch, height = _switch(frame, channels[1], first + 1, y, below=True)
        parts += switch
        y += height
    return parts, y - top


def _kind(channel: dict[str, Any]) -> str:
    return str((channel.get("switch") or {}).get("kind") or "switch")


def _is_buffered(channel: dict[str, Any]) -> bool:
    """Whether the switch keeps packets beside each port, as a hub does that has a buffer."""
    transfer = (channel.get("switch") or {}).get("transfer")
    own = transfer.values() if isinstance(transfer, dict) else []
    return _kind(channel) in _BUFFERED or any(settings.get("buffer") for settings in own)


def _said(channel: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the text on a switch: its kind, and facts about it."""
    switch, control = channel.get("switch") or {}, channel.get("control") or {}
    kind = _kind(channel)
    in_band = control.get("kind") == "request_acknowledge"
    facts = [
        _fact(channel, "planes", "{} planes like this"),
        graph.fact(channel),
        _scheduler(channel),
        _fact(switch, "contention", "{} on contention"),
        # If acknowledgments travel out of band, none of them meets a request here.
        _fact(switch if in_band else {}, "acknowledgments", "acknowledgments {}"),
        _fact(switch, "writers", "{} writers at once"),
        _fact(switch, "latency", "latency {}"),
        _fact(channel, "packet", "packets of {}"),
        _fact(control, "timeout", "timeout {}"),
        _fact(control, "outstanding", "{} outstanding"),
    ]
    name = f"{channel['name']} channel: {_PARTS.get(kind, plain(kind))}"
    return name, [fact for fact in facts if fact]


def _switch(
    frame: _Frame, channel: dict[str, Any], index: int, y: float, *, below: bool
) -> tuple[list[str], float]:
    """Draw a switch; return it and its height."""
    left, width = _MARGIN / 2, frame.width - _MARGIN
    name, facts = _said(channel)
    lines = [(line, "name") for line in frame.lines([name], _NAME)]
    lines += [(line, "fact") for line in frame.lines(facts, _FACT) or [""]]
    height = _SWITCH + _LINE * (len(lines) - 2)
    is_buffered = _is_buffered(channel)
    shift = 0 if not is_buffered else 4 if below else -4
    parts = [
        f'<rect class="switch c{index % 6}" x="{left:g}" y="{y:g}" width="{width:g}" '
        f'height="{height}" rx="6"/>',
        *(
            graph.text(frame.width / 2, y + 23 + _LINE * place + shift, line, style)
            for place, (line, style) in enumerate(lines)
        ),
    ]
    if is_buffered:
        edge = y + 3 if below else y + height - 9
        parts += [
            f'<rect class="cell c{index % 6}" x="{x - 9 + 6 * i:g}" y="{edge:g}" width="5" '
            f'height="6"/>'
            for x in frame.wired
            for i in range(3)
        ]
    return parts, height


def _links(frame: _Frame, channel: dict[str, Any], index: int, y: float) -> list[str]:
    link = channel.get("link") or {}
    spoken = {**link, "rate": rate(str(link.get("rate") or ""))}
    facts = [_fact(spoken, "rate", "{} each way"), _fact(link, "length", "{}")]
    first, *more = (fact for fact in facts if fact) if any(facts) else ("",)
    texts = frame.lines([f"{frame.hosts} links, {first}", *more], _RATE)
    lines = [
        f'<line class="link c{index % 6}" x1="{x:g}" y1="{y:g}" x2="{x:g}" y2="{y + _LINK:g}"/>'
        for x in frame.wired
    ]
    middle = y + _LINK / 2 - _LINE / 2 * (len(texts) - 1)
    half = _RATE / 2 * max(map(len, texts)) + 12
    plate = (
        f'<rect class="plate" x="{frame.width / 2 - half:g}" y="{middle - 13:g}" '
        f'width="{2 * half:g}" height="{26 + _LINE * (len(texts) - 1)}" rx="4"/>'
    )
    words = [
        graph.text(frame.width / 2, middle + 4.5 + _LINE * place, text, "rate")
        for place, text in enumerate(texts)
    ]
    return [*lines, plate, *words]


def _adapters(frame: _Frame, channel: dict[str, Any], index: int, y: float) -> list[str]:
    buffers = (channel.get("adapter") or {}).get("send_buffers")
    mark = "∞" if buffers == "unlimited" else str(buffers or "")
    hint = f"adapter of the {channel['name']} channel: {buffers} send buffers"
    return [
        f'<g><title>{escape(hint)}</title><rect class="adapter c{index % 6}" '
        f'x="{x - _BOX / 2:g}" y="{y:g}" width="{_BOX}" height="{_ADAPTER}"/>'
        f"{graph.text(x, y + 16, mark, 'count')}</g>"
        for x in frame.wired
    ]


def _hosts(frame: _Frame, y: float) -> list[str]:
    parts = []
    for x, number in frame.places:
        if number is None:
            parts.append(graph.text(x, y + 20, "…", "name"))
            continue
        parts.append(
            f'<g><title>host {number}</title><rect class="host" x="{x - _BOX / 2:g}" y="{y:g}" '
            f'width="{_BOX}" height="{_HOST}"/>{graph.text(x, y + 20, str(number), "number")}</g>'
        )
    return parts


def caption(composition: dict[str, Any]) -> str:
    """Say what the picture shows, for the line under it."""
    hosts = composition.get("hosts")
    channels = composition.get("channels") or []
    said = []
    rows = [channel for channel in channels if not graph.is_drawn(channel)]
    if len(rows) < len(channels):
        said.append(
            "Each line is a cable, or all that join the same two switches; "
            "the pointer on a part names it."
        )
    if rows or not channels:
        buffers = (
            f"{(channel.get('adapter') or {}).get('send_buffers', 'no')} send buffers on the "
            f"{channel['name']} channel"
            for channel in rows
        )
        said.append(
            f"The {hosts} hosts stand in the middle, numbered; the coloured boxes on them are "
            f"their adapters ({'; '.join(buffers)})."
        )
    return " ".join(said)


def _scheduler(channel: dict[str, Any]) -> str:
    scheduler = channel.get("scheduler")
    if isinstance(scheduler, dict):
        scheduler = scheduler.get("kind") or next(iter(scheduler), None)
    return plain(str(scheduler)) if scheduler else ""


def _fact(part: dict[str, Any], key: str, words: str) -> str:
    value = part.get(key)
    # A picture need not show an unlimited value, which limits nothing.
    return words.format(plain(str(value))) if value not in {None, "", "unlimited", "0 ns"} else ""


def _style() -> str:
    """Style by class; a page that sets the theme's properties overrules what the file assumes."""
    scope = ".weft-composition"
    series = "".join(f"{scope} .c{i}{{--c:var(--series-{i},var(--own-{i}))}}" for i in range(6))
    return (
        f"{scope}{{{_own(LIGHT)};font-family:{FONT.replace(chr(39), '')}}}"
        f"@media(prefers-color-scheme:dark){{{scope}{{{_own(DARK)}}}}}{series}"
        f"{scope} text{{text-anchor:middle;fill:var(--ink,var(--own-ink))}}"
        f"{scope} .name{{font-size:14px;font-weight:600}}"
        f"{scope} .fact,{scope} .rate{{font-size:12.5px}}"
        f"{scope} .fact{{fill:var(--muted,var(--own-muted))}}"
        f"{scope} .number,{scope} .count{{font-size:12px;font-variant-numeric:tabular-nums}}"
        f"{scope} .small{{font-size:10px;font-variant-numeric:tabular-nums}}"
        f"{scope} .switch{{fill:var(--c);fill-opacity:.1;stroke:var(--c);stroke-width:1.5}}"
        f"{scope} .cell{{fill:var(--c)}}"
        f"{scope} .link{{stroke:var(--c);stroke-width:2}}"
        f"{scope} .cable{{stroke:var(--c);stroke-width:1;stroke-opacity:.55}}"
        f"{scope} .adapter{{fill:var(--c);fill-opacity:.22;stroke:var(--c);stroke-width:1.5}}"
        f"{scope} .host{{fill:var(--raised,var(--own-raised));stroke:var(--muted,"
        f"var(--own-muted));stroke-width:1.2}}"
        f"{scope} .plate{{fill:var(--ground,var(--own-ground))}}"
    )


def _own(theme: Theme) -> str:
    roles = ("ink", "muted", "ground", "raised")
    named = [f"--own-{role}:{theme.colours[role]}" for role in roles]
    numbered = [f"--own-{i}:{colour}" for i, colour in enumerate(theme.series[:6])]
    return ";".join(named + numbered)

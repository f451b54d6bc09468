"""A figure: a Vega-Lite specification that renders itself to SVG, PNG and notebooks."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.theme import DARK, FILE_FONT, LIGHT, paint

if TYPE_CHECKING:
    from types import ModuleType

# The Vega-Lite that draws the files and the page; pinned, so a figure looks the same everywhere.
VEGA_LITE = "6.4"


def renderer() -> ModuleType:
    """Import the drawing library, which needs a standard input; give it one if there is none."""
    import vl_convert  # noqa: PLC0415 (80 MB of it)

    try:
        os.fstat(0)
    except OSError:
        # It gets the lowest free number, which is that of the standard input.
        os.open(os.devnull, os.O_RDONLY)
    return vl_convert


def _renumbered(svg: str) -> str:
    """Give clip paths numbers from 0: the renderer counts on over all figures that it has drawn."""
    numbers: dict[str, int] = {}

    def renumber(found: re.Match[str]) -> str:
        return f"{found[1]}{numbers.setdefault(found[2], len(numbers))}"

    return re.sub(r'(url\(#clip|id="clip)(\d+)', renumber, svg)


@dataclass(frozen=True)
class Figure:
    """One figure of a result.

    `name` is a file name without extension; `caption` says what to see and how to read the marks;
    `spec` is Vega-Lite with the data inside and colours by name (see `weft.theme`).
    """

    name: str
    title: str
    caption: str
    spec: dict[str, Any] = field(repr=False)
    _drawn: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def vega_lite(self, *, dark: bool = False) -> dict[str, Any]:
        """Return the complete Vega-Lite specification, colours and type included."""
        theme = DARK if dark else LIGHT
        painted: dict[str, Any] = paint(self.spec, theme)
        return {**painted, "title": self._title(), "config": theme.config(FILE_FONT)}

    def svg(self, *, dark: bool = False) -> str:
        """Return the figure as an SVG document."""
        spec = self.vega_lite(dark=dark)
        written = json.dumps(spec, sort_keys=True)
        # A file, its PNG and the page show the same drawing, which is laid out once.
        if self._drawn.get("of") != written:
            drawn = renderer().vegalite_to_svg(spec, vl_version=VEGA_LITE)
            self._drawn.update(of=written, svg=_renumbered(str(drawn)))
        return self._drawn["svg"]

    def png(self, *, dark: bool = False, scale: float = 2.0) -> bytes:
        """Return the figure as a PNG file, at `scale` pixels to a CSS pixel."""
        return bytes(renderer().svg_to_png(self.svg(dark=dark), scale=scale))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the figure as .svg, .png or .json, by the extension of `path`."""
        target = check_ending(path)
        match target.suffix:
            case ".svg":
                target.write_text(self.svg(), encoding="utf-8")
            case ".png":
                target.write_bytes(self.png())
            case _:
                text = json.dumps(self.vega_lite(), indent=1, ensure_ascii=False)
                target.write_text(text + "\n", encoding="utf-8")
        return target

    def _title(self) -> dict[str, Any]:
        given = self.spec.get("title") or {}
        return {**given, "text": self.title}

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {
            "application/vnd.vegalite.v6+json": self.vega_lite(),
            "image/svg+xml": self.svg(),
            "text/plain": repr(self),
        }


def check_ending(path: str | os.PathLike[str]) -> Path:
    """Refuse a file that no figure is saved as."""
    target = Path(path)
    if target.suffix not in {".svg", ".png", ".json"}:
        raise ValueError(f"a figure is saved as .svg, .png or .json, not {target.suffix!r}")
    return target

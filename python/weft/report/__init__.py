"""One self-contained HTML page: everything a reader needs, nothing fetched from anywhere.

The figures are in the page twice: as a still picture, which needs no script and prints, and as data
that the script turns into a drawing with tooltips that follows the page's width and its light or
dark ground.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from weft import bundle
from weft.report.across import across_sections
from weft.report.compared import compared_section, differing_section
from weft.report.markup import Section, section
from weft.report.sections import (
    again,
    beside_sections,
    checks_section,
    composition_section,
    experiment_section,
    parameters_section,
    specification_section,
)
from weft.report.summary import summary
from weft.theme import DARK, FONT, LIGHT, MONOSPACE

if TYPE_CHECKING:
    from weft.figure import Figure
    from weft.progress import Count
    from weft.result import Result


def page(result: Result, count: Count | None = None) -> str:
    """Return the whole page; `count` is told of each figure that is drawn."""
    gallery = _Gallery(count)
    if "across" in result.meta:
        return _document(result.title, across_sections(result, gallery.place), gallery)
    compared = "compared" in result.meta
    sections = [
        summary(result),
        checks_section(result, gallery.place),
        *beside_sections(result),
        *([compared_section(result, gallery.place), differing_section(result)] if compared else []),
        *(
            experiment_section(name, run, gallery.place, alone=not result.runs)
            for name, run in (result.runs or {"results": result}).items()
            if not compared
        ),
        composition_section(result),
        None if compared else parameters_section(result),
        specification_section(result),
        again(result),
    ]
    return _document(result.title, [one for one in sections if one is not None], gallery)


def loose_page(title: str, sections: list[tuple[str, str]], figures: list[Figure]) -> str:
    """Return a page of the same look without a result: figures, then headed sections of HTML."""
    gallery = _Gallery()
    pictures = f"<h1>{escape(title)}</h1>{gallery.place(figures)}"
    present = [Section("summary", title, section("summary", pictures))]
    for number, (name, html) in enumerate(sections):
        anchor = f"part-{number}"
        present.append(Section(anchor, name, section(anchor, f"<h2>{escape(name)}</h2>{html}")))
    return _document(title, present, gallery)


def plain_page(title: str, sections: list[tuple[str, str, str]]) -> str:
    """Return a page of the same look from (anchor, name, HTML) alone, without figures."""
    present = [Section(anchor, name, section(anchor, html)) for anchor, name, html in sections]
    return _document(title, present, _Gallery())


def _document(title: str, sections: list[Section], gallery: _Gallery) -> str:
    present = _told_apart(sections)
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{escape(title)}</title>\n<style>\n{_style()}\n</style>\n</head>\n",
            f"<body>\n{_navigation(title, present)}\n<main>\n",
            "\n".join(part.html for part in present),
            "\n</main>\n",
            gallery.scripts(),
            "</body>\n</html>\n",
        )
    )


def _told_apart(sections: list[Section]) -> list[Section]:
    """Lengthen the entries of the contents that would read alike: "Table 2 (bulk)"."""
    names = Counter(section.name for section in sections)
    return [
        replace(section, name=f"{section.name} ({section.anchor.rsplit('-', 1)[-1]})")
        if names[section.name] > 1
        else section
        for section in sections
    ]


class _Gallery:
    """Collects the figures of a page: each gets a place in the text and its data at the end."""

    def __init__(self, count: Count | None = None) -> None:
        self.figures: list[Figure] = []
        self._count = count

    def place(self, figures: list[Figure]) -> str:
        # Rendering runs outside the interpreter, so two at a time halve the wait.
        with ThreadPoolExecutor(2) as pool:
            stills = list(pool.map(self._drawn, figures))
        return "\n".join(
            self._one(figure, still) for figure, still in zip(figures, stills, strict=True)
        )

    def _drawn(self, figure: Figure) -> str:
        still = figure.svg()
        if self._count is not None:
            self._count.one()
        return still

    def _one(self, figure: Figure, still: str) -> str:
        number = len(self.figures)
        self.figures.append(figure)
        encoded = base64.b64encode(still.encode()).decode()
        image = f'<img alt="{escape(figure.title)}" src="data:image/svg+xml;base64,{encoded}">'
        caption = f"<figcaption>{escape(figure.caption)}</figcaption>" if figure.caption else ""
        return (
            f'<figure id="{escape(figure.name)}"><div class="chart" id="chart-{number}">{image}'
            f"</div>{caption}</figure>"
        )

    def scripts(self) -> str:
        if not self.figures:
            return ""
        data = {
            "themes": {
                theme.name: {"colours": theme.colours, "config": theme.config(FONT)}
                for theme in (LIGHT, DARK)
            },
            "charts": [_chart(figure) for figure in self.figures],
        }
        return (
            f'<script type="application/json" id="figures">{_embedded(data)}</script>\n'
            f"<script>{_bundle()}</script>\n<script>{_asset('page.js')}</script>\n"
        )


def _chart(figure: Figure) -> dict[str, Any]:
    subtitle = (figure.spec.get("title") or {}).get("subtitle") or ""
    return {**figure.spec, "title": {"text": figure.title, "subtitle": subtitle}}


def _embedded(data: object) -> str:
    """Write JSON that cannot end the script element that holds it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")


@cache
def _bundle() -> str:
    """Return Vega, kept inside a function: its short global names would collide with others."""
    return "(()=>{" + bundle.script().replace("</script", "<\\/script") + "\n})();"


@cache
def _asset(name: str) -> str:
    return files("weft.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    dark = DARK.css
    return (
        f":root {{ --font: {FONT}; --mono: {MONOSPACE}; {LIGHT.css} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n" + _asset("style.css")
    )


def _navigation(title: str, sections: list[Section]) -> str:
    links = "".join(
        f'<li><a href="#{section.anchor}">{escape(section.name)}</a></li>' for section in sections
    )
    return (
        f'<nav aria-label="Contents"><a class="mark" href="#summary">Weft</a>'
        f'<p class="what">{escape(title)}</p><ul>{links}</ul></nav>'
    )

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
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from weft import bundle
from weft.report.across import across_sections
from weft.report.compared import compared_section, differing_section
from weft.report.markup import Section, render
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
    """Return the whole page; calls `count` for each figure that is drawn."""
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


def loose_page(title: str, sections: list[tuple[str, Markup]], figures: list[Figure]) -> str:
    """Return a page of the same look without a result: figures, then headed sections."""
    gallery = _Gallery()
    opening = Markup("<h1>{}</h1>{}").format(title, gallery.place(figures))
    present = [Section("summary", title, opening)]
    for number, (name, html) in enumerate(sections):
        body = Markup("<h2>{}</h2>{}").format(name, html)
        present.append(Section(f"part-{number}", name, body))
    return _document(title, present, gallery)


def plain_page(title: str, sections: list[tuple[str, str, Markup]]) -> str:
    """Return a page of the same look from (anchor, name, HTML) alone, without figures."""
    return _document(title, [Section(*one) for one in sections], _Gallery())


def _document(title: str, sections: list[Section], gallery: _Gallery) -> str:
    scripts = {}
    if gallery.figures:
        script = Markup(_asset("page.js"))
        scripts = {"figures": gallery.data(), "library": _bundle(), "script": script}
    return render(
        "document.html",
        title=title,
        style=_style(),
        sections=_told_apart(sections),
        scripts=scripts,
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

    def place(self, figures: list[Figure]) -> Markup:
        # Rendering runs outside the interpreter, so two at a time halve the wait.
        with ThreadPoolExecutor(2) as pool:
            stills = list(pool.map(self._drawn, figures))
        first = len(self.figures)
        self.figures += figures
        encoded = (base64.b64encode(still.encode()).decode() for still in stills)
        placed = enumerate(zip(figures, encoded, strict=True), first)
        return render("figures.html", figures=list(placed))

    def _drawn(self, figure: Figure) -> str:
        still = figure.svg()
        if self._count is not None:
            self._count.one()
        return still

    def data(self) -> Markup:
        """Return what the script draws from."""
        return _embedded(
            {
                "themes": {
                    theme.name: {"colours": theme.colours, "config": theme.config(FONT)}
                    for theme in (LIGHT, DARK)
                },
                "charts": [_chart(figure) for figure in self.figures],
            }
        )


def _chart(figure: Figure) -> dict[str, Any]:
    subtitle = (figure.spec.get("title") or {}).get("subtitle") or ""
    return {**figure.spec, "title": {"text": figure.title, "subtitle": subtitle}}


def _embedded(data: object) -> Markup:
    """Write JSON that cannot end the script element that holds it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("</", "<\\/"))


@cache
def _bundle() -> Markup:
    """Return Vega, kept inside a function: its short global names would collide with others."""
    return Markup("(()=>{" + bundle.script().replace("</script", "<\\/script") + "\n})();")


@cache
def _asset(name: str) -> str:
    return files("weft.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _style() -> Markup:
    dark = DARK.css
    return Markup(
        f":root {{ --font: {FONT}; --mono: {MONOSPACE}; {LIGHT.css} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n" + _asset("style.css")
    )

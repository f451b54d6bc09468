"""Templates of the page, and the words and numbers that they put into it.

Templates escape what they are given, except `Markup`, which is what templates return.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from weft.system import System
from weft.words import number, percent, printed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.checks import Check
    from weft.result import Result


@dataclass(frozen=True)
class Section:
    """One part of the page, with its entry in the navigation."""

    anchor: str
    name: str
    html: Markup


@dataclass(frozen=True)
class Head:
    """The title of a column; a longer one shows under the pointer."""

    text: str
    whole: str = ""

    def __str__(self) -> str:
        return self.text


# A number and the unit after it, which stay on one line.
_QUANTITY = re.compile(
    r"(?<=\d) (?=(?:%|[pnµum]?s|[kMGT]?i?B|[kMG]?B/s|[kMG]?bit/s|bit/|m|dB|packets?|slots?|of link)"
    r"(?!\w))"
)

_CODE = re.compile("`([^`]+)`")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("weft.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for one in (together, marked, sentence, published, measured, percent):
        environment.filters[one.__name__] = one
    return environment


def render(template: str, /, **values: object) -> Markup:
    """Fill in a template of this package.

    Raises:
        jinja2.UndefinedError: the template names a value that is not given.

    """
    return Markup(_environment().get_template(template).render(values))


def section(anchor: str, name: str, template: str, /, **values: object) -> Section:
    """Fill in the template of a section."""
    return Section(anchor, name, render(template, **values))


def together(text: str) -> Markup:
    """Keep each number of a text on one line with its unit."""
    return Markup(_QUANTITY.sub("\u00a0", str(escape(text))))


def table(
    heads: Sequence[str | Head], rows: Iterable[Sequence[str]], numeric: Iterable[int] = ()
) -> Markup:
    """Write a table whose rows a narrow screen may stack: each cell carries its column's name."""
    return render("table.html", heads=heads, rows=rows, numeric=set(numeric))


def published(check: Check) -> str:
    """Write the printed number of a check with its unit."""
    if check.published is None:
        return "–"
    return together(f"{printed(check.published)} {check.shown_unit}".strip())


def measured(check: Check, *, spread: bool = False) -> str:
    """Write the measured number of a check with its unit, and its half width if asked for."""
    if check.measured is None:
        return "–"
    half = f"\u202f±\u202f{number(check.half_width, 2)}" if spread and check.half_width else ""
    return together(f"{number(check.measured, 4)}{half} {check.shown_unit}".strip())


def marked(text: str) -> Markup:
    """Escape prose of a file, in which names of code are between backticks."""
    return together(Markup(_CODE.sub(r"<code>\1</code>", str(escape(text)))))


def sentence(text: str) -> str:
    """Begin with a capital letter."""
    return text[:1].upper() + text[1:]


def system_of(result: Result) -> System | str:
    """Take the first system that could be described: all runs of a reproduction share one."""
    candidates = [result.system, *(run.system for run in result.runs.values())]
    return next((found for found in candidates if isinstance(found, System)), result.system)

"""Pieces of markup that every section of the page is made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from weft.system import System
from weft.words import number, printed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.checks import Check
    from weft.result import Result


@dataclass(frozen=True)
class Section:
    """One part of the page, with its entry in the navigation."""

    anchor: str
    name: str
    html: str


# A number and the unit behind it, which stay on one line.
_QUANTITY = re.compile(
    r"(?<=\d) (?=(?:%|[pnµum]?s|[kMGT]?i?B|[kMG]?B/s|[kMG]?bit/s|bit/|m|dB|packets?|slots?|of link)"
    r"(?!\w))"
)


# Columns of numbers that stand beside each other on a desk.
_MOST_COLUMNS = 9

_TAG = re.compile("<[^>]+>")


def together(text: str) -> str:
    """Keep each number of a text on one line with its unit."""
    return _QUANTITY.sub("\u00a0", text)


def setting_head(key: str, words: str) -> str:
    """Head the column of a setting by a few words; its whole key shows under the pointer."""
    return f'<span title="{escape(key)}">{escape(words)}</span>'


def table(heads: list[str], rows: Iterable[list[str]], numeric: Iterable[int] = ()) -> str:
    """Write a table whose rows a narrow screen may stack: each cell carries its column's name."""
    right = set(numeric)
    names = [_TAG.sub("", head) for head in heads]
    head = "".join(
        f"<th{' class=n' if i in right else ''}>{text}</th>" for i, text in enumerate(heads)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-head="{names[i]}"{" class=n" if i in right else ""}>'
            f"<div>{together(cell)}</div></td>"
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def numbers(of: str, columns: int) -> str:
    """Wrap a table of measured numbers, which is stacked where its columns find no room."""
    return f'<div class="numbers{" many" * (columns > _MOST_COLUMNS)}">{of}</div>'


def section(anchor: str, body: str) -> str:
    """Wrap the body of a section."""
    return f'<section id="{escape(anchor)}">{body}</section>'


def published(check: Check) -> str:
    """Write the printed number of a check with its unit."""
    if check.published is None:
        return "–"
    return together(f"{printed(check.published)} {escape(check.shown_unit)}".strip())


def measured(check: Check, *, spread: bool = False) -> str:
    """Write the measured number of a check with its unit, and its half width if asked for."""
    if check.measured is None:
        return "–"
    half = f"\u202f±\u202f{number(check.half_width, 2)}" if spread and check.half_width else ""
    return together(f"{number(check.measured, 4)}{half} {escape(check.shown_unit)}".strip())


def marked(text: str) -> str:
    """Escape prose of a file, in which names of code stand between backticks."""
    return together(re.sub("`([^`]+)`", r"<code>\1</code>", escape(text)))


def sentence(text: str) -> str:
    """Begin with a capital letter."""
    return text[:1].upper() + text[1:]


def system_of(result: Result) -> System | str:
    """Take the first system that could be described: all runs of a reproduction share one."""
    candidates = [result.system, *(run.system for run in result.runs.values())]
    return next((found for found in candidates if isinstance(found, System)), result.system)

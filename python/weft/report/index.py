"""The index page of several reproductions: one line per system, with a link to its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from weft.checks import COMPUTED, NUMBER, STATEMENT, checks_of, counts, judged
from weft.place import claim
from weft.report import plain_page
from weft.report.markup import render, system_of
from weft.report.summary import reduced_in_words
from weft.system import System

if TYPE_CHECKING:
    from pathlib import Path

    from weft.result import Result

INDEX = "index.html"


@dataclass(frozen=True)
class Entry:
    """The index entry of a reproduction; nothing else of it is kept in memory."""

    folder: Path
    title: str
    document: str
    size: str
    found: dict[str, dict[str, int]]
    stopped: bool
    failed: int

    @classmethod
    def of(cls, folder: Path, result: Result) -> Entry:
        """Take what the index needs from a result that lies in `folder`, beside the index."""
        system = system_of(result)
        return cls(
            folder=folder,
            title=str(result.meta.get("system_title") or result.title),
            document=system.document if isinstance(system, System) else "",
            size=reduced_in_words(result),
            found=counts(checks_of(result)),
            stopped=result.stopped,
            failed=result.failed,
        )


def write_index(entries: list[Entry], folder: Path) -> list[str]:
    """Write the page that leads to the reports into the folder that theirs are in.

    A page of that name which Weft did not write is kept under another; the remarks say so.

    Raises:
        FolderError: it cannot be written, or another run uses the folder.

    """

    def fill(draft: Path) -> None:
        (draft / INDEX).write_text(index_page(entries), encoding="utf-8")

    with claim(folder, of_results=True) as place:
        place.put(fill, adding=True)
    return place.remarks


def index_page(entries: list[Entry]) -> str:
    """Return the page that leads to the reports."""
    title = "Published against measured"
    body = render("index.html", title=title, cards=[_card(entry) for entry in entries])
    return plain_page(title, [("summary", "Systems", body)])


def _card(entry: Entry) -> dict[str, Any]:
    return {
        "place": quote(f"{entry.folder.name}/report.html"),
        "title": entry.title,
        "document": entry.document,
        "size": entry.size,
        "stopped": entry.stopped,
        "failed": entry.failed,
        "counts": [
            ("Printed numbers", _counts(entry.found[NUMBER], "within their bands")),
            ("Statements", _counts(entry.found[STATEMENT], "hold")),
            *_computed(entry.found[COMPUTED]),
        ],
    }


def _computed(found: dict[str, int]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [("Computed by us", _counts(found, "agree"))] if any(found.values()) else []


def _counts(found: dict[str, int], words: str) -> list[tuple[str, str]]:
    of = judged(found)
    parts = [(f"{found['within']} of {of}", words)] if of else []
    parts += [
        (str(found[verdict]), said)
        for verdict, said in (
            ("missed", "known to be missed"),
            ("undecided", "not decided at this size"),
            ("report", "shown, not judged"),
        )
        if found[verdict]
    ]
    return parts

"""Pages of the manual that are written from the code when the manual is built."""

from __future__ import annotations

import json
import os
import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from weft import reference

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[([^\]]+)\]\(([^):]+)\)")
# A block with the name of the file that it is, or of the table that comes out.
_NAMED_BLOCK = re.compile(r"^(```[a-z]+) ([\w./-]+(?: [\w./-]+)*)$", re.MULTILINE)
_HEADING = re.compile(r'<h[1-3] id="([^"]+)">(.*?)</h[1-3]>', re.DOTALL)
_PERMALINK = re.compile(r'<a class="headerlink".*?</a>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")

# Rows of address, page, heading and text, one a section, of the pages rendered so far.
_sections: list[tuple[str, str, str, str]] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the systems: what is written about each, and its parameters."""
    _sections.clear()
    written = {path.stem for path in Path(config.docs_dir, "systems").glob("*.md")}
    pages: list[Any] = []
    for name, system in reference.shipped().items():
        # One page may tell of a family: memory-channel of memory-channel-1 and -2.
        page = max((stem for stem in written if name.startswith(stem)), key=len, default=None)
        own = [{"The system": f"systems/{page}.md"}] if page else []
        pages.append({system.title: [*own, {"Every parameter": f"reference/{name}.md"}]})
    nav = config.nav or []
    place = next(i for i, entry in enumerate(nav) if "Reference" in entry)
    config.nav = [*nav[:place], {"Systems": pages}, *nav[place:]]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Name blocks as the highlighter reads it, and unlink what is not in the manual.

    Of a linked file that is in the repository and not in the manual only the name is left.
    """
    folder = Path("/docs", page.file.src_uri).parent

    def name_only(link: re.Match[str]) -> str:
        target = os.path.normpath(folder / link[2].split("#")[0])
        return link[0] if target.startswith("/docs/") or link[2][0] == "#" else link[1]

    return _LINK.sub(name_only, _NAMED_BLOCK.sub(r'\1 title="\2"', markdown))


def on_page_content(html: str, *, page: Page, **_: object) -> str:
    """Note what the page says, section by section, for the search."""
    address, pieces = page.url, _HEADING.split(html)
    # The heading of a page says more than its entry in the contents: "The system".
    title = _words(pieces[2]) if len(pieces) > 1 else str(page.title)
    # What stands before the first heading, then in turn the name, the heading and the text of each.
    found = [("", title, pieces[0]), *zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)]
    for anchor, heading, text in found:
        words = _words(text)
        if words or anchor:
            place = f"{address}#{anchor}" if anchor else address
            _sections.append((place, title, _words(heading), words))
    return html


def _words(html: str) -> str:
    """Leave only the text of markup."""
    return " ".join(unescape(_TAG.sub(" ", _PERMALINK.sub("", html))).split())


def on_post_build(config: MkDocsConfig) -> None:
    """Write the index as a script: a page that is opened from a file may fetch nothing."""
    rows = json.dumps(_sections, ensure_ascii=False, separators=(",", ":"))
    index = Path(config.site_dir, "assets", "search-index.js")
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_text(f"window.manualIndex={rows};\n", encoding="utf-8")

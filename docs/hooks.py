"""Pages of the manual that are written from the code when the manual is built."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from weft import reference

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[([^\]]+)\]\(([^):]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the systems: what is written about each, and its parameters."""
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
    """Leave only the name of a linked file that is in the repository and not in the manual."""
    folder = Path("/docs", page.file.src_uri).parent

    def name_only(link: re.Match[str]) -> str:
        target = os.path.normpath(folder / link[2].split("#")[0])
        return link[0] if target.startswith("/docs/") or link[2][0] == "#" else link[1]

    return _LINK.sub(name_only, markdown)

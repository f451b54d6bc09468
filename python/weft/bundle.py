"""Vega as one script, which a page carries so that it needs no network.

Putting it together takes the renderer longer than all else that a page is made of, and gives the
same each time. So the build does it once: `python -m weft.bundle FILE` writes what `script` reads.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

from weft.figure import VEGA_LITE, renderer

_NAME = "vega.js"


@cache
def script() -> str:
    """Return the script: the one of the build, or a new one if that is of another renderer."""
    try:
        head, _, code = files("weft.report").joinpath(_NAME).read_text("utf-8").partition("\n")
    except FileNotFoundError:
        return _together()
    return code if head == _head() else _together()


def _together() -> str:
    return str(renderer().javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE))


def _head() -> str:
    return f"// Vega-Lite {VEGA_LITE} of vl-convert {renderer().__version__}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(f"{_head()}\n{_together()}", encoding="utf-8")

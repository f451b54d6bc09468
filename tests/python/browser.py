"""A headless browser that opens a page from a file, and says what it did."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from interrupted import HANGS_S

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = shutil.which("chromium")

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")

CUT_OFF = """
setTimeout(() => {
  const page = document.documentElement.clientWidth + 1;
  const beyond = (one) => one.getBoundingClientRect().right > page;
  const scrolls = (one) => one.scrollWidth > one.clientWidth + 1;
  const leaves = (one) => {
    const [text, whole] = [one, one.closest("svg")].map((it) => it.getBoundingClientRect());
    return text.left < whole.left - 3 || text.right > whole.right + 3;
  };
  const cut = [
    ...[...document.querySelectorAll(".chart svg, h1, h2, h3, p, figure")].filter(beyond),
    ...[...document.querySelectorAll(".scroll")].filter(scrolls),
    ...[...document.querySelectorAll(".chart svg.marks text")].filter(leaves),
  ];
  const names = cut.map((one) => `${one.closest("section").id} ${one.textContent.slice(0, 60)}`);
  document.title = [`${cut.length} cut off`, ...names].join(": ");
}, 5000);
"""
"""Says in the title, once all is drawn, what reaches beyond the page or its drawing, or scrolls."""


@dataclass(frozen=True)
class Visit:
    """What was there when the page had come to rest."""

    dom: str
    complaints: list[str]
    """Lines of the console."""
    title: str
    asked: list[str]
    """Addresses that the page asked for and that are no files."""


def visit(page: Path, folder: Path, width: int = 1280, script: str = "") -> Visit:
    """Open a page and run a script at its end; `folder` is for what the browser leaves."""
    if script:
        acted = page.with_name(f"acted-{page.name}")
        text, end, rest = page.read_text(encoding="utf-8").rpartition("</body>")
        acted.write_text(f"{text}<script>(() => {{{script}}})()</script>{end}{rest}", "utf-8")
        page = acted
    log = folder / "net.json"
    done = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"),
            *(f"--user-data-dir={folder / 'profile'}", f"--window-size={width},6000"),
            f"--log-net-log={log}",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_S,
    )
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    return Visit(done.stdout, complaints, title, _asked(log.read_text(encoding="utf-8")))


def _asked(log: str) -> list[str]:
    """Return the addresses that the page asked for; the browser's own business has no origin."""
    begun = [event.get("params") or {} for event in json.loads(log)["events"]]
    return [
        str(request["url"])
        for request in begun
        if request.get("initiator") == "null" and re.match(r"(https?|wss?):", request["url"])
    ]

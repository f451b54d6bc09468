"""A headless browser that opens pages from files and says what they did.

It is started once and spoken to over a pipe, in the DevTools protocol: messages of JSON, each ended
by a zero byte (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from interrupted import HANGS_S

CHROMIUM = shutil.which("chromium")

DRAWN = """
  [...document.querySelectorAll(".chart")].every((chart) => chart.querySelector("details"))
"""
"""Whether each figure is drawn: the menu of a drawing comes last."""

BOXES = Path(__file__).with_name("boxes.js").read_text(encoding="utf-8")
"""Lists the faults of what a page shows, each as words."""


@dataclass(frozen=True)
class Visit:
    """What was there when the page had come to rest."""

    dom: str
    said: Any
    """What the script returned."""
    complaints: list[str]
    """What the page wrote to the console."""
    asked: list[str]
    """Addresses that the page asked for and that are no files."""


class Browser:
    """One Chromium; each visit has a tab of its own."""

    def __init__(self, profile: Path) -> None:
        self._process = subprocess.Popen(
            [
                # The browser reads from descriptor 3 and writes to 4.
                *("sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1', "sh"),
                *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                *("--no-first-run", "--disable-background-networking", "--disable-sync"),
                *("--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe"),
                f"--user-data-dir={profile}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._unread = b""
        self._calls = 0
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._call("Browser.close")
        self._process.communicate(timeout=HANGS_S)

    def visit(
        self,
        page: Path,
        script: str = "null",
        *,
        width: int = 1280,
    ) -> Visit:
        """Open a page, wait until its figures are drawn, and return what `script` evaluates to."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        tab = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._events.clear()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable", tab)
        self._call("Emulation.setDeviceMetricsOverride", tab, width=width, height=1000,
                   deviceScaleFactor=1, mobile=False)  # fmt: skip
        self._call("Page.navigate", tab, url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()
        self._call_js(tab, _WHEN.replace("CONDITION", DRAWN))
        said = self._call_js(tab, script)
        dom = str(self._call_js(tab, "document.documentElement.outerHTML"))
        visit = Visit(dom, said, *_told(self._events))
        self._call("Target.closeTarget", targetId=target)
        return visit

    def _call_js(self, tab: str, expression: str) -> Any:
        """Evaluate JavaScript, and what it promises."""
        done = self._call("Runtime.evaluate", tab, expression=expression, returnByValue=True,
                          awaitPromise=True)  # fmt: skip
        if wrong := done.get("exceptionDetails"):
            raise RuntimeError(json.dumps(wrong))
        return done["result"].get("value")

    def _call(self, method: str, tab: str | None = None, **params: Any) -> dict[str, Any]:
        self._calls += 1
        number = self._calls
        message = {"id": number, "method": method, "params": params}
        if tab is not None:
            message["sessionId"] = tab
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        self._process.stdin.flush()
        while (answer := self._read()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        """Return the next message, and keep it if it is an event."""
        assert self._process.stdout is not None
        end = time.monotonic() + HANGS_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], end - time.monotonic())
            more = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser ended" if ready else "the browser does not answer")
            self._unread += more
        first, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        if "method" in message:
            self._events.append(message)
        return message


# Answers once the condition holds.
_WHEN = """new Promise((resolve) => {
  const look = () => ((CONDITION) ? resolve() : setTimeout(look, 50));
  look();
})"""


def _told(events: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return what was written to the console, and the addresses that are no files."""
    complaints, asked = [], []
    for event in events:
        params = event["params"]
        match event["method"]:
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                complaints.append(json.dumps(params)[:1000])
            case "Network.requestWillBeSent" if re.match(
                "(https?|wss?):", params["request"]["url"]
            ):
                asked.append(params["request"]["url"])
            case "Network.webSocketCreated":
                asked.append(params["url"])
            case _:
                pass
    return complaints, asked

"""The live library between network namespaces: two processes that share nothing but a directory.

Makes two namespaces with a pair of virtual links between them, as containers have, and lets a
server in one talk to a client in the other. Skipped, with the reason, where that is not permitted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 60
SERVER_ADDRESS, CLIENT_ADDRESS = "10.97.0.1", "10.97.0.2"

SERVER = """
import socket, sys
listener = socket.create_server((sys.argv[1], 7000))
print("ready", flush=True)
s = listener.accept()[0]
while more := s.recv(65536): s.sendall(more)
"""

CLIENT = """
import hashlib, os, socket, sys, threading
s = socket.create_connection((sys.argv[1], 7000))
for at in range(300):
    sent = bytes([at % 251]) * 40
    s.sendall(sent); assert s.recv(40, socket.MSG_WAITALL) == sent
sent, got = os.urandom(1 << 20), bytearray()
def send(): s.sendall(sent); s.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send); sender.start()
while more := s.recv(65536): got += more
sender.join()
assert bytes(got) == sent, len(got)
if "kill" in sys.argv: os.kill(os.getpid(), 9)
"""


class SkippedError(Exception):
    """Why namespaces cannot be made here."""


def ran(*words: str) -> None:
    """Run a command that sets something up."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise SkippedError(f"{' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def namespaces(*kinds: str) -> Iterator[list[str]]:
    """Make two network namespaces that are linked; yields the commands that enter them."""
    for needed in ("ip", "unshare", "nsenter"):
        if not shutil.which(needed):
            raise SkippedError(f"no {needed}")
    own = os.readlink("/proc/self/ns/net")
    holders = [
        subprocess.Popen(["unshare", "-n", *kinds, "sleep", str(2 * LIMIT_S)], stderr=-1)
        for _ in range(2)
    ]
    try:
        until = time.monotonic() + 5
        for it in holders:
            while os.readlink(f"/proc/{it.pid}/ns/net") == own:
                if it.poll() is not None or time.monotonic() > until:
                    raise SkippedError("a network namespace cannot be made")
                time.sleep(0.01)
        pids = [str(it.pid) for it in holders]
        name = f"weft{os.getpid() % 10**6}"
        ran("ip", "link", "add", f"{name}a", "netns", pids[0], "type", "veth",
            "peer", "name", f"{name}b", "netns", pids[1])  # fmt: skip
        for pid, end, address in zip(pids, "ab", (SERVER_ADDRESS, CLIENT_ADDRESS), strict=True):
            enter = ["nsenter", "-t", pid, "-n"]
            ran(*enter, "ip", "address", "add", f"{address}/24", "dev", f"{name}{end}")
            ran(*enter, "ip", "link", "set", f"{name}{end}", "up")
        yield pids
    finally:
        for it in holders:
            it.kill()
            it.wait()


def talk(library: Path, folder: Path, kinds: list[str], *words: str, shared: bool) -> str | None:
    """Let a server and a client talk; what was wrong, if anything was."""
    log, directory = folder / "log", folder / "meeting"
    log.write_text("")
    directory.mkdir(exist_ok=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log)}
    if shared:
        environment["WEFT_LIVE_DIRECTORY"] = str(directory)
    # Containers have process numbers of their own too.
    apart = ["unshare", "--pid", "--fork", "--kill-child"]
    with namespaces(*kinds) as pids:
        enter = [
            ["nsenter", "-t", pid, "-n", *(["-U", "--preserve-credentials"] if kinds else [])]
            for pid in pids
        ]
        server = subprocess.Popen(
            [*enter[0], *apart, sys.executable, "-c", SERVER, SERVER_ADDRESS],
            env=environment,
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        server.stdout.readline()
        client = subprocess.run(
            [*enter[1], *apart, sys.executable, "-c", CLIENT, SERVER_ADDRESS, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        server.wait(LIMIT_S)
    if client.stderr or (client.returncode and not words):
        return f"{client.returncode}: {client.stderr[-800:]}"
    if left := [it.name for it in directory.iterdir()]:
        return f"left behind: {left}"
    accelerated = "accelerated through shared memory" in log.read_text()
    if accelerated != shared:
        return "nothing was accelerated" if shared else "accelerated without a directory"
    return None


def main() -> int:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    library = parser.parse_args().library.resolve()
    passed = failed = skipped = 0
    cases: list[tuple[str, list[str], list[str], bool]] = [
        ("a directory between two", [], [], True),
        ("a client that is killed", [], ["kill"], True),
        ("no directory", [], [], False),
        ("user namespaces", ["-r"], [], True),
    ]
    for what, kinds, words, shared in cases:
        with tempfile.TemporaryDirectory() as name:
            try:
                complaint = talk(library, Path(name), kinds, *words, shared=shared)
            except SkippedError as why:
                skipped += 1
                print(f"namespaces, {what}: skipped, {why}", flush=True)
                continue
        print(f"namespaces, {what}: {complaint or 'ok'}", flush=True)
        failed, passed = failed + bool(complaint), passed + (not complaint)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The live library between programs of two users, who agree to share memory or do not.

Starts a server and a client under numbers of users and groups that nobody has, so that no account
is made. Skipped, with the reason, where that is not permitted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 60
SERVER, CLIENT, STRANGER = 61_001, 61_002, 61_003
BOTH, SERVERS, CLIENTS = 61_100, 61_101, 61_102
"""A group of both users, and one of each."""
ACCELERATED = "accelerated through shared memory"
OTHER_USER = (
    "left to the kernel: the other end is another user's, without a WEFT_LIVE_DIRECTORY of both"
)

SERVE = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
s = listener.accept()[0]
while more := s.recv(65536): s.sendall(more)
s.close(); input()
"""

CALL = """
import os, socket, sys, threading
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for at in range(500):
    sent = bytes([at % 251]) * 40
    s.sendall(sent); assert s.recv(40, socket.MSG_WAITALL) == sent
print("met", flush=True); input()
sent, got = os.urandom(1 << 20), bytearray()
def send(): s.sendall(sent); s.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send); sender.start()
while more := s.recv(65536): got += more
sender.join()
assert bytes(got) == sent, len(got)
"""

LOOK = """
import os, sys
for pid in sys.argv[1:]:
    try: print([os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")])
    except PermissionError: pass
    try: open(f"/proc/{pid}/mem").close(); print("memory")
    except PermissionError: pass
"""


@dataclass(frozen=True)
class Case:
    """What each user has said."""

    name: str
    said: tuple[str, ...]
    """What the log says of the connection, of either end."""
    server: int | None = None
    """The group of the server's directory; none has no directory."""
    client: int | None = None
    mode: int = 0o2770
    """The rights of both directories."""
    same: bool = False
    """Whether both ends are the server's user's."""


CASES = (
    Case("a group of both", (ACCELERATED,), BOTH, BOTH),
    Case("one user", (ACCELERATED,), same=True),
    Case("no directory", (OTHER_USER,)),
    Case("a directory of the server's alone", (OTHER_USER,), BOTH, None),
    Case("a directory of the client's alone", (OTHER_USER,), None, BOTH),
    Case("a group in which the client is not", (OTHER_USER,), SERVERS, BOTH),
    Case("a group in which the server is not", (OTHER_USER,), BOTH, CLIENTS),
    Case("a directory that all may write", (OTHER_USER,), BOTH, BOTH, mode=0o2777),
    Case("a directory that its group may not write", (OTHER_USER,), BOTH, BOTH, mode=0o2750),
)


def interpreter() -> str | None:
    """Find a Python that other users may run."""
    for path in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run([path, "-c", ""], user=STRANGER, group=STRANGER, check=True, cwd="/")
            return path
    return None


def start(
    python: str, code: str, user: int, groups: list[int], environment: dict[str, str], *words: str
) -> subprocess.Popen[str]:
    """Start a program as another user."""
    return subprocess.Popen(
        [python, "-c", code, *words],
        env={**os.environ, **environment},
        user=user,
        group=user,
        extra_groups=groups,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def settings(library: Path, folder: Path, group: int | None, mode: int) -> dict[str, str]:
    """Return the environment of an end whose directory is of a group."""
    said = {"LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(folder / "log")}
    if group is None:
        return said
    directory = folder / str(group)
    directory.mkdir(exist_ok=True)
    os.chown(directory, 0, group)
    directory.chmod(mode)
    return {**said, "WEFT_LIVE_DIRECTORY": str(directory)}


def talk(python: str, library: Path, folder: Path, case: Case) -> str | None:
    """Let a server and a client talk; what was wrong, if anything was."""
    log = folder / "log"
    log.write_text("")
    log.chmod(0o666)
    ends = [settings(library, folder, group, case.mode) for group in (case.server, case.client)]
    user, groups = (SERVER, [SERVERS]) if case.same else (CLIENT, [BOTH, CLIENTS])
    server = start(python, SERVE, SERVER, [BOTH, SERVERS], ends[0])
    assert server.stdout is not None
    client = start(python, CALL, user, groups, ends[1], server.stdout.readline().strip())
    assert client.stdout is not None
    complaints = []
    try:
        if client.stdout.readline() == "met\n":
            pids = (str(server.pid), str(client.pid))
            seen = start(python, LOOK, STRANGER, [BOTH], {}, *pids).communicate(timeout=LIMIT_S)
            complaints += [f"a third user sees {it}" for it in seen if it]
        for end in (client, server):
            said = end.communicate("\n", timeout=LIMIT_S)[1]
            complaints += [f"{end.returncode}: {said[-800:]}"] if end.returncode or said else []
    finally:
        for end in (client, server):
            end.kill()
    lines = log.read_text().splitlines()
    found = {line.partition(": ")[2] for line in lines}
    if found != set(case.said) or len(lines) != 2:
        complaints.append(f"the log says {lines}")
    return "; ".join(complaints) or None


def main() -> int:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    library = parser.parse_args().library.resolve()
    python = None if os.geteuid() else interpreter()
    if python is None:
        print("users: skipped, programs cannot be started as other users here")
        return 0
    failed = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            complaint = talk(python, Path(shutil.copy(library, folder)), folder, case)
        print(f"users, {case.name}: {complaint or 'ok'}", flush=True)
        failed += bool(complaint)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

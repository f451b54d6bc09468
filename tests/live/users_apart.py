"""The live library between programs of two users in two network namespaces, as containers have.

Both are given one directory, whose group decides whether they share memory. Skipped, with the
reason, where programs cannot be started as other users or namespaces cannot be made.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import namespaces
import users
from namespaces import LIMIT_S, SERVER_ADDRESS, SkippedError
from users import ACCELERATED, BOTH, CLIENT, CLIENTS, OTHER_USER, SERVER, SERVERS

ELSEWHERE = "left to the kernel: the other end is on another host, or the two addresses differ"
NO_PLACE = "left to the kernel: the place where the two ends would meet is taken or forbidden"
UNANSWERED = ("", "left to the kernel: a call that cannot be accelerated came before")
"""What an end says that finds nobody, which the client ends by shutting its sending down."""


@dataclass(frozen=True)
class Case:
    """What each user has said."""

    name: str
    server: tuple[str, ...]
    """What may be said in the log of the server's end."""
    client: tuple[str, ...]
    group: int | None = BOTH
    """The group of the directory; none has no directory."""
    mode: int = 0o2770
    """The rights of the directory."""
    umask: int = 0o022
    """What the server takes away from the files that it makes."""
    words: tuple[str, ...] = ()
    """What the client is told besides."""
    same: bool = False
    """Whether both ends are the server's user's."""


CASES = (
    Case("a group of both", (ACCELERATED,), (ACCELERATED,)),
    Case("a server that hides its files", (ACCELERATED,), (ACCELERATED,), umask=0o077),
    Case("a client that is killed", (ACCELERATED,), (ACCELERATED,), words=("kill",)),
    Case("one user", (ACCELERATED,), (ACCELERATED,), mode=0o777, umask=0o277, same=True),
    Case("no directory", (ELSEWHERE,), (ELSEWHERE,), group=None),
    Case("a directory that all may write", (OTHER_USER,), (OTHER_USER,), mode=0o2777),
    # Whoever may not write there has no place to wait at, and nobody to find there.
    Case("a group in which the server is not", (NO_PLACE,), UNANSWERED, group=CLIENTS),
    Case("a group in which the client is not", UNANSWERED, (NO_PLACE,), group=SERVERS),
    # Others find the server's place there; whoever is not in the group is turned away.
    Case("a group that lets others in", (OTHER_USER,), (OTHER_USER,), SERVERS, 0o2775),
    Case("a directory that its group may not write", (NO_PLACE,), UNANSWERED, mode=0o2750),
)


def start(
    pid: str, library: Path, log: Path, user: int, groups: list[int], environment: dict[str, str]
) -> list[str]:
    """Return the command that starts a program as another user in the namespace of a process."""
    numbers = ",".join(map(str, groups))
    who = ["setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={numbers}"]
    said = {"LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log), **environment}
    return [
        *("nsenter", "-t", pid, "-n", *who, "env"),
        *(f"{name}={value}" for name, value in said.items()),
    ]


def talk(python: str, library: Path, folder: Path, case: Case) -> str | None:
    """Let a server and a client talk; what was wrong, if anything was."""
    logs = [folder / "server", folder / "client"]
    for log in logs:
        log.touch()
        log.chmod(0o666)
    environment = {}
    directory = folder / "meeting"
    if case.group is not None:
        directory.mkdir()
        os.chown(directory, 0, case.group)
        directory.chmod(case.mode)
        environment["WEFT_LIVE_DIRECTORY"] = str(directory)
    user, groups = (SERVER, [SERVERS]) if case.same else (CLIENT, [BOTH, CLIENTS])
    with namespaces.namespaces() as pids:
        server = subprocess.Popen(
            [
                *start(pids[0], library, logs[0], SERVER, [BOTH, SERVERS], environment),
                *(python, "-c", namespaces.SERVER, SERVER_ADDRESS),
            ],
            cwd="/",
            umask=case.umask,
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        try:
            server.stdout.readline()
            client = subprocess.run(
                [
                    *start(pids[1], library, logs[1], user, groups, environment),
                    *(python, "-c", namespaces.CLIENT, SERVER_ADDRESS, *case.words),
                ],
                cwd="/",
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            server.wait(LIMIT_S)
        finally:
            server.kill()
    if client.stderr or (client.returncode and not case.words):
        return f"{client.returncode}: {client.stderr[-800:]}"
    found = [log.read_text().strip().partition(": ")[2] for log in logs]
    left = [it.name for it in directory.iterdir()] if case.group is not None else []
    if left or found[0] not in case.server or found[1] not in case.client:
        return f"the logs say {found}, left behind: {left}"
    return None


def main() -> int:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    library = parser.parse_args().library.resolve()
    python = None if os.geteuid() else users.interpreter()
    if python is None or not shutil.which("setpriv"):
        print("users apart: skipped, programs cannot be started as other users here")
        return 0
    failed = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            try:
                complaint = talk(python, Path(shutil.copy(library, folder)), folder, case)
            except SkippedError as why:
                print(f"users apart: skipped, {why}")
                return 1 if failed else 0
        print(f"users apart, {case.name}: {complaint or 'ok'}", flush=True)
        failed += bool(complaint)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

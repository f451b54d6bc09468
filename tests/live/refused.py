"""Programs whose system calls are refused, with the live library and without: both say the same.

An outer program, as a container's is, may set a filter that refuses single system calls before it
starts another. A small launcher does so here, for one call at a time and with either error that
such filters give. A scene then runs under that filter without the library and with it; what it says
and how it ends is compared, and whether its connections were accelerated where they can be.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calls_stage import pair, say

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 15
"""A scene takes less than a second."""
PATIENCE_S = 3
"""What a scene waits for has come by then, or is lost."""
NEEDED = ("memfd_create", "eventfd2", "getpid", "gettid")
"""Where one of these is refused, connections stay with the kernel."""
CALLS = (
    "pidfd_open", "epoll_pwait", "epoll_pwait2", "ppoll", "dup3", "prlimit64", "clone3",
    "close_range", "getcpu", "process_vm_readv", "membarrier", "rt_sigprocmask", "futex_waitv",
    "rt_tgsigqueueinfo", "getrusage", *NEEDED,
)  # fmt: skip
NO_CALL, NO_FILTER = 120, 121
LAUNCHER = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
/* launcher ERROR CALL PROGRAM...: the program's calls of this name end with the error. */
int main(int count, char **words) {
    int number = -1;
    NUMBERS
    if (number < 0) return NO_CALL;
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(words[1])),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return perror("no filter can be set"), NO_FILTER;
    execvp(words[3], words + 3);
    return perror(words[3]), 1;
}
"""


def answers(one: socket.socket, other: socket.socket) -> str:
    """Send a few words both ways."""
    for at in range(20):
        for sender, receiver in ((one, other), (other, one)):
            sender.sendall(b"word %03d" % at)
            if (got := receiver.recv(8, socket.MSG_WAITALL)) != b"word %03d" % at:
                return f"{at}: {got!r}"
    return "all"


def later(act: Callable[[], object]) -> int:
    """Do something in a child, when its parent waits already."""
    child = os.fork()
    if not child:
        time.sleep(0.05)
        act()
        os._exit(0)
    return child


def polled(one: socket.socket, other: socket.socket, instance: Any, second: int) -> object:
    """Wait for a connection that has nothing, that has something, and that will have something."""
    instance.register(other, select.POLLIN)
    said = [len(instance.poll(0)), len(instance.poll(0.01 * second))]
    one.sendall(b"here")
    said += [len(instance.poll(PATIENCE_S * second)), other.recv(9)]
    child = later(lambda: one.sendall(b"late"))
    said += [len(instance.poll(PATIENCE_S * second)), other.recv(9)]
    return [*said, os.waitpid(child, 0)[1], answers(one, other)]


def started(one: socket.socket, other: socket.socket) -> object:
    """Let a program read some of what is unread, while its parent has the connection too."""
    one.sendall(b"one\ntwo\nthree")
    command = ["dd", "bs=4", "count=1", "status=none"]
    ran = subprocess.run(command, stdin=other, stdout=subprocess.PIPE, check=False)
    return ran.returncode, ran.stdout, other.recv(20), answers(one, other)


def by_shell(one: socket.socket, other: socket.socket) -> object:
    """Let a shell's children do so, and write."""
    one.sendall(b"one\ntwo\nthree")
    number = other.fileno()
    other.set_inheritable(True)
    how = os.system(f"dd bs=4 count=1 status=none >&2 <&{number}; printf back >&{number}")
    return how, one.recv(4, socket.MSG_WAITALL), other.recv(20), answers(one, other)


def copied(one: socket.socket, other: socket.socket, *, inheritable: bool) -> object:
    """Use another number of a connection, before and after the first is closed."""
    one.sendall(b"before and after")
    number = os.open("/dev/null", os.O_RDONLY)
    os.dup2(other.fileno(), number, inheritable)
    said = [other.recv(7), os.read(number, 4)]
    with socket.socket(fileno=number) as copy:
        other.close()
        copy.settimeout(PATIENCE_S)
        said += [copy.recv(9), answers(one, copy)]
    return [*said, one.recv(9)]


def forked(one: socket.socket, other: socket.socket) -> object:
    """Let a child read and write, then the parent, who is the last to close."""
    one.sendall(b"for the child, for the parent")
    child = later(lambda: other.sendall(other.recv(15)))
    said = [one.recv(15, socket.MSG_WAITALL), os.waitpid(child, 0)[1]]
    said += [other.recv(20), answers(one, other)]
    other.close()
    return [*said, one.recv(9)]


def broken(one: socket.socket, other: socket.socket) -> object:
    """Send after the end: an error and a signal."""
    signals: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _: signals.append(number))
    one.shutdown(socket.SHUT_WR)
    try:
        one.send(b"x")
    except BrokenPipeError:
        signals.append(0)
    signal.signal(signal.SIGPIPE, before)
    return signals, other.recv(9)


STEPS: dict[str, Callable[[socket.socket, socket.socket], object]] = {
    "ping-pong": answers,
    "epoll": lambda *ends: polled(*ends, select.epoll(), 1),
    "poll": lambda *ends: polled(*ends, select.poll(), 1000),
    "subprocess": started,
    "system": by_shell,
    "dup2": lambda *ends: copied(*ends, inheritable=True),
    "dup3": lambda *ends: copied(*ends, inheritable=False),
    "fork": forked,
    "broken pipe": broken,
}


def scene() -> None:
    """Make each step on a connection of its own, and say what came of it."""
    for what, step in STEPS.items():
        ends = pair()
        for end in ends:
            end.settimeout(PATIENCE_S)
        say(what, lambda step=step, ends=ends: step(*ends))


class SkippedError(Exception):
    """Why a filter cannot be set here."""


class Runs:
    """The scene under filters."""

    def __init__(self, library: Path, folder: Path) -> None:
        """Remember where the library is; build the launcher."""
        self.library, self.folder = library, folder
        self.log, self.launcher, source = (folder / it for it in ("log", "launcher", "launcher.c"))
        line = '\n#ifdef SYS_{0}\nif (!strcmp(words[2], "{0}")) number = SYS_{0};\n#endif\n'
        source.write_text(LAUNCHER.replace("NUMBERS", "".join(map(line.format, CALLS))))
        codes = [f"-DNO_CALL={NO_CALL}", f"-DNO_FILTER={NO_FILTER}"]
        subprocess.run(["cc", "-O1", *codes, "-o", self.launcher, source], check=True)

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a scene; what it says goes to files, since others may keep a pipe open."""
        command = [*words, sys.executable, __file__, "--scene"]
        with (self.folder / name).open("w") as out, (self.folder / f"{name}2").open("w") as error:
            return subprocess.Popen(command, stdout=out, stderr=error, start_new_session=True)

    def end(self, name: str, scene: subprocess.Popen[bytes], limit: float) -> tuple[list[str], str]:
        """Wait for a scene: what it said and how it ended, and its last complaints."""
        try:
            how = f"  ended by {scene.wait(max(0.1, limit - time.monotonic()))}"
        except subprocess.TimeoutExpired:
            os.killpg(scene.pid, signal.SIGKILL)
            scene.wait()
            how = f"  hung: ended by nothing in {LIMIT_S} s"
        error = (self.folder / f"{name}2").read_text().strip()[-800:]
        return [*(self.folder / name).read_text().splitlines(), how], error

    def compared(self, call: str, why: str) -> str:
        """Run the scene without the library and with it at once; what came of that."""
        self.log.write_text("")
        under = [str(self.launcher), str(getattr(errno, why)), call] if call else []
        preload = [f"LD_PRELOAD={self.library}", f"WEFT_LIVE_LOG={self.log}"]
        scenes = [self.start("0", *under, "env"), self.start("1", *under, "env", *preload)]
        limit = time.monotonic() + LIMIT_S
        ended = (self.end(str(at), it, limit) for at, it in enumerate(scenes))
        (without, reason), (with_it, complaints) = ended
        code = scenes[0].returncode
        if code in (NO_CALL, NO_FILTER):
            raise SkippedError(reason or "this machine has no such call")
        if without != with_it:
            differing = difflib.unified_diff(without, with_it, "without", "with", "", "", 1, "")
            return "\n".join(["not the same", *differing, complaints])
        if code:
            broken = code == -signal.SIGKILL or not call
            return f"{'not ' * broken}ok, without the library too: {without[-1].strip()}"
        accelerated = self.log.read_text().count("accelerated through shared memory")
        if call not in NEEDED and accelerated < 2 * len(STEPS):
            return f"only {accelerated} ends were accelerated"
        return "ok"


def main() -> int:
    """Run the scene for each call and error, or once as it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--scene", action="store_true", help="run the scene as it is")
    parser.add_argument("--only", default="", help="calls whose name has this in it")
    options = parser.parse_args()
    if options.scene:
        scene()
        return 0
    passed = failed = skipped = 0
    cases = [("", "nothing"), *((call, why) for call in CALLS for why in ("ENOSYS", "EPERM"))]
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(options.library.resolve(), Path(name))
        for call, why in cases:
            if options.only not in call:
                continue
            try:
                said = runs.compared(call, why)
                passed, failed = passed + said.startswith("ok"), failed + (said[:2] != "ok")
            except SkippedError as reason:
                said, skipped = f"skipped, {reason}", skipped + 1
            print(f"refused, {f'{call} with {why}' if call else why}: {said}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

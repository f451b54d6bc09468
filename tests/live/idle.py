"""Idle accelerated connections give the memory of their rings back, however a program waits.

Over connections of two processes with the live library each has sent the other much, and so gone
through both rings of each. Then both wait, for bytes that never come, in `poll`, in an `epoll`
instance, in one inside another, or for each connection in the `recv` of a thread of its own. What
the rings take is the resident memory of their mappings, as `/proc/PID/smaps` says.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONNECTIONS = 50
MOVED = 1 << 20
"""Bytes each way over each connection."""
RINGS = (1 << 18, 1 << 16)
"""The default of `WEFT_LIVE_RING`, and a smaller one."""
HEAD = 6 << 10
"""What a connection takes beside its two rings, with its part of the process's figures."""
LEFT = HEAD + 2 * (16 << 10)
"""What an idle connection may keep: of each ring what is not worth a call."""
PATIENCE_S = 60
"""What happens at all has happened by then, on a loaded machine too."""

END = r"""
import os, select, socket, sys, threading, time

means, count, moved = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if sys.argv[4] == "0":
    listener = socket.create_server(("127.0.0.1", 0), backlog=count)
    print(listener.getsockname()[1], flush=True)
    ends = [listener.accept()[0] for _ in range(count)]
    sends = (True, False)
else:
    ends = [socket.create_connection(("127.0.0.1", int(sys.argv[4]))) for _ in range(count)]
    sends = (False, True)
for end in ends:
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(60):
        for is_sender in sends:
            end.sendall(b"ping") if is_sender else end.recv(4, socket.MSG_WAITALL)


def take(end, left):
    # Without a wait, in which this end would give back what it has written before.
    while left:
        try:
            left -= len(end.recv(left, socket.MSG_DONTWAIT))
        except BlockingIOError:
            time.sleep(0.0002)


# A ring is never full, or a connection of a late process would go back to the kernel.
part = 16 << 10
for is_sender in sends:
    for end in ends:
        for _ in range(moved // part):
            if is_sender:
                end.sendall(bytes(part))
                take(end, 1)
            else:
                take(end, part)
                end.sendall(b"!")
print("moved", flush=True)
assert sys.stdin.readline()
if means == "poll":
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLIN)
    poll.poll()
elif means == "epoll":
    with select.epoll() as instance:
        for end in ends:
            instance.register(end, select.EPOLLIN)
        instance.poll()
elif means == "nested":
    with select.epoll() as inner, select.epoll() as outer:
        for end in ends:
            inner.register(end, select.EPOLLIN)
        outer.register(inner, select.EPOLLIN)
        outer.poll()
else:
    for end in ends:
        threading.Thread(target=end.recv, args=(1,)).start()
"""
MEANS = ("poll", "epoll", "nested", "recv")


class IdleError(Exception):
    """Memory that was not given back, or never taken."""


def resident(process: int) -> int:
    """How many bytes of the segments a process has in memory."""
    total = 0
    is_segment = False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            is_segment = "/memfd:weft-live" in line
        elif is_segment and words[0] == "Rss:":
            total += int(words[1]) * 1024
    return total


def taken(processes: list[int]) -> int:
    """How many bytes a connection takes, in the process in which it takes more."""
    return max(resident(process) for process in processes) // CONNECTIONS


def until_idle(processes: list[int]) -> int:
    """Wait until connections take no more than idle ones may; what they take."""
    end = time.monotonic() + PATIENCE_S
    while (now := taken(processes)) > LEFT:
        if time.monotonic() > end:
            raise IdleError(f"an idle connection still takes {now} bytes")
        time.sleep(0.2)
    return now


def tried(library: Path, means: str, ring: int) -> tuple[int, int]:
    """Let two processes wait; what a connection takes busy and idle, in bytes."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name, "log")
        how = {"LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log), "WEFT_LIVE_RING": str(ring)}
        ends: list[subprocess.Popen[str]] = []

        def start(port: str) -> subprocess.Popen[str]:
            words = [sys.executable, "-c", END, means, str(CONNECTIONS), str(MOVED), port]
            pipe = subprocess.PIPE
            end = subprocess.Popen(
                words, env={**os.environ, **how}, stdin=pipe, stdout=pipe, text=True
            )
            ends.append(end)
            return end

        def line(end: subprocess.Popen[str]) -> str:
            assert end.stdout is not None
            said = end.stdout.readline().strip()
            if not said:
                raise IdleError("an end said nothing")
            return said

        try:
            start(line(start("0")))
            for end in ends:
                line(end)
            joined = log.read_text().count("accelerated through shared memory")
            if joined != 2 * CONNECTIONS:
                raise IdleError(f"{joined} of {2 * CONNECTIONS} ends are accelerated")
            busy = taken([end.pid for end in ends])
            if not 2 * ring <= busy <= 2 * ring + HEAD:
                raise IdleError(f"a busy connection takes {busy} bytes")
            for end in ends:
                assert end.stdin is not None
                print("wait", file=end.stdin, flush=True)
            idle = until_idle([end.pid for end in ends])
            if "back to the kernel" in log.read_text():
                raise IdleError("a connection has gone back to the kernel")
            return busy, idle
        finally:
            for end in ends:
                end.kill()
                end.wait()


def main() -> int:
    """Try each means; say what a connection takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    library = parser.parse_args().library.resolve()
    for ring in RINGS:
        for means in MEANS:
            busy, idle = tried(library, means, ring)
            print(f"  a ring of {ring}, {means}: {busy} busy, {idle} idle", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Scenes of processes that end with a connection, and of programs that are started with one."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from typing import TYPE_CHECKING

from calls_leaving import answered_by, last
from calls_stage import say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENT_S = 4


def awaited(end: socket.socket, count: int) -> tuple[int, str]:
    """Receive so many bytes, or until the end or an error; how many came, and how it ended."""
    got, until = 0, time.monotonic() + PATIENT_S
    end.setblocking(False)
    while time.monotonic() < until:
        try:
            some = len(end.recv(count - got or 1))
        except BlockingIOError:
            time.sleep(0.01)
            continue
        except OSError as why:
            return got, type(why).__name__
        if not some:
            return got, "the end"
        got += some
    return got, "no more"


def killed() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


ENDS: dict[str, Callable[[], None]] = {
    "exit": lambda: os._exit(0),
    "program": lambda: os.execv("/bin/true", ["true"]),
    "kill": killed,
}


@scene
def who_lingers_for_no_time_resets_however_he_ends() -> None:
    for how, ends in ENDS.items():
        for seconds in (0, None):

            def lingering(
                end: socket.socket, ends: Callable[[], None], seconds: int | None
            ) -> None:
                if seconds is not None:
                    linger = struct.pack("ii", 1, seconds)
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                settled(0.2)
                ends()

            child, end = answered_by(lambda end, e=ends, s=seconds: lingering(end, e, s))
            last(end)
            print(f"  {how} {seconds}: {awaited(end, 1)}", flush=True)
            end.close()
            os.waitpid(child, 0)


def leaves_unread(end: socket.socket) -> None:
    """Look at nothing, and go."""
    settled(0.6)
    os._exit(0)


@scene
def who_ends_with_something_unread_resets_who_has_started_a_program() -> None:
    for inherited in (True, False):
        child, end = answered_by(leaves_unread)
        last(end)
        end.set_inheritable(inherited)
        end.send(bytes(2410))
        settled(0.1)
        os.system("true")
        print(f"  {inherited}: {awaited(end, 1)}", flush=True)
        say("error", lambda end=end: end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        end.close()
        os.waitpid(child, 0)

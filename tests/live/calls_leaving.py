"""Scenes of descriptors that leave the library's sight while an end of them has shut down."""

from __future__ import annotations

import errno
import os
import socket

from calls_edges import LASTING
from calls_stage import say, scene, settled

ALL = 400_000
"""More than a ring holds."""
BYTES = bytes(range(251)) * (ALL // 251 + 1)
RUNS = 5


def passed_to_itself(end: socket.socket) -> socket.socket:
    """Send a descriptor over a Unix socket, and go on with what arrives there."""
    near, far = socket.socketpair()
    with near, far:
        socket.send_fds(near, [b"x"], [end.fileno()])
        number = socket.recv_fds(far, 1, 1)[1][0]
    end.close()
    return socket.socket(fileno=number)


def streamed(listener: socket.socket, leaves_at: int, how: str) -> None:
    """Answer, send all, say the end, and go."""
    end = listener.accept()[0]
    for _ in range(LASTING):
        end.send(end.recv(1))
    done = 0
    while done < ALL:
        if done >= leaves_at:
            end, leaves_at = passed_to_itself(end), ALL
        done += end.send(BYTES[done : min(done + 7_001, ALL)])
    end.shutdown(socket.SHUT_WR)
    if how == "exit":
        os._exit(end.recv(1) != b"")
    if how == "closed at the end":
        end.recv(1)
    end.close()
    os._exit(0)


def received(end: socket.socket, done: int, until: int) -> tuple[int, str]:
    """Receive until so many bytes or the end; how many there were, and how it ended."""
    while done < until:
        try:
            some = end.recv(min(30_011, until - done))
        except OSError as why:
            return done, errno.errorcode[why.errno or 0]
        if not some:
            return done, "end"
        if some != BYTES[done : done + len(some)]:
            return done, "other bytes"
        done += len(some)
    return done, "more"


def half_closed(first: int, other_leaves_at: int, how: str) -> tuple[object, ...]:
    """Shut the sending side down, receive so much, leave, and receive the rest."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            streamed(listener, other_leaves_at, how)
        end = socket.create_connection(listener.getsockname())
    for _ in range(LASTING):
        end.send(b"x")
        end.recv(1)
    end.shutdown(socket.SHUT_WR)
    done, _ = received(end, 0, first)
    end = passed_to_itself(end)
    with end:
        told = received(end, done, ALL + 1)
    return *told, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@scene
def who_has_shut_down_and_leaves_receives_all_that_is_sent() -> None:
    for first in (0, 200_000, 300_000):
        for other_leaves_at in (ALL, 100_000, 300_000):
            for how in ("exit", "close", "closed at the end"):
                told = {half_closed(first, other_leaves_at, how) for _ in range(RUNS)}
                print(f"  {first} {other_leaves_at} {how}: {sorted(told)}", flush=True)


@scene
def who_has_shut_down_and_leaves_cannot_send() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            end = listener.accept()[0]
            for _ in range(LASTING):
                end.send(end.recv(1))
            end.send(bytes(1000))
            # It looks at nothing while the other end leaves.
            settled(1)
            print(f"  hears {end.recv(1)!r}", flush=True)
            end.send(b"more")
            os._exit(0)
        end = socket.create_connection(listener.getsockname())
    for _ in range(LASTING):
        end.send(b"x")
        end.recv(1)
    end.shutdown(socket.SHUT_WR)
    settled()
    with passed_to_itself(end) as end:
        say("send", lambda: end.send(b"x"))
        say("receive all", lambda: sum(map(len, iter(lambda: end.recv(2000), b""))))
    os.waitpid(child, 0)

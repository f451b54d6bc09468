"""Scenes at changes: in the middle of a call, and behind what is left in a ring that is given up."""

from __future__ import annotations

import select
import socket

from calls_stage import pair, say, scene

SOON_S = 0.05
LATE_S = 5


def let_go_back(end: socket.socket) -> None:
    """Set what the library does not carry on, and what was set before again."""
    for least in (2, 1):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)


@scene
def arrivals_behind_what_is_left_are_edges() -> None:
    a, b = pair()
    with select.epoll() as waiter:
        waiter.register(b, select.EPOLLIN | select.EPOLLET)
        a.sendall(b"0123456789")
        say("arrived", lambda: len(waiter.poll(LATE_S)))
        let_go_back(b)
        say("in part", lambda: b.recv(4))
        # That it goes back may be an edge, or some.
        while waiter.poll(SOON_S):
            pass
        a.sendall(b"more")
        say("more", lambda: len(waiter.poll(LATE_S)))
        say("all", lambda: b.recv(10, socket.MSG_WAITALL))

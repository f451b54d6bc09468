"""Acts of families of processes by which the live library once differed from the kernel.

`families.py` plays them before it draws others. The ends of a connection are 4 and 5, those of
another 6 and 7, and `LIBRARY` stands for the library.
"""

from __future__ import annotations

import socket
from typing import Any

LIBRARY = "the library"

KEPT: dict[str, tuple[tuple[Any, ...], ...]] = {
    "both directions were shut down, and the program has ended": (
        ("a", "fork", "b"),
        ("a", "close", 5),
        ("b", "close", 4),
        ("b", "send", 5, bytes(1000)),
        ("a", "fork", "c"),
        ("a", "shutdown", 4, socket.SHUT_RD),
        ("b", "start", "d", "exec", LIBRARY),
        ("a", "shutdown", 4, socket.SHUT_WR),
        ("d", "send", 5, bytes(800)),
        ("a", "recv", 4, 40_000),
        ("c", "recv", 4, 40_000),
    ),
    "one beside a program has yet to hear of a reset": (
        ("a", "send", 5, b"0.0.0"),
        ("a", "send", 4, b"1.1."),
        ("a", "start", "b", "exec", LIBRARY),
        ("a", "close", 5),
        ("a", "start", "c", "exec", ""),
        ("b", "exit", "_exit"),
        ("c", "start", "d", "exec", ""),
        ("a", "fork", "e"),
        ("e", "recv", 4, 1275),
        ("c", "send", 7, bytes(1264)),
        ("a", "poll", 4),
        ("a", "send", 4, b"24.24"),
        ("a", "recv", 4, 1),
    ),
    "a program beside others writes to who has reset the connection": (
        ("a", "send", 7, b"6."),
        ("a", "send", 6, b"11."),
        ("a", "close", 7),
        ("a", "close", 4),
        ("a", "close", 5),
        ("a", "fork", "b"),
        ("b", "start", "c", "exec", LIBRARY),
        ("c", "send", 6, bytes(40)),
        ("c", "recv", 6, 2),
        ("c", "send", 6, bytes(40)),
        ("c", "recv", 6, 2),
    ),
    "an end in order is followed by a reset, and a program is started": (
        ("a", "give", 5),
        ("a", "shutdown", 6, socket.SHUT_WR),
        ("a", "fork", "b"),
        ("b", "close", 6),
        ("b", "send", 7, b"18.1"),
        ("a", "exit", "exit"),
        ("b", "start", "c", "exec", LIBRARY),
        ("b", "recv", 7, 40_000),
        ("c", "recv", 7, 1),
        ("b", "send", 7, b"x"),
    ),
    "an end is passed on after what it sent was refused": (
        ("a", "send", 7, b"0"),
        ("a", "close", 7),
        ("a", "send", 6, b"8.8.8.8."),
        ("a", "give", 6),
        ("a", "dup", 4, False),
        ("a", "start", "b", "spawn", LIBRARY),
        ("b", "close", 4),
        ("b", "take"),
        ("b", "recv", 4, 37),
        ("b", "poll", 4),
        ("b", "send", 4, b"x"),
    ),
    "who has shut his direction down ends with something unread": (
        ("a", "shutdown", 4, socket.SHUT_WR),
        ("a", "fork", "b"),
        ("b", "close", 4),
        ("b", "fork", "c"),
        ("c", "program", 7, "writes", False),
        ("c", "send", 5, bytes(26)),
        ("a", "fork", "d"),
        ("a", "close", 4),
        ("d", "exit", "_exit"),
        ("c", "recv", 5, 40_000),
    ),
    "a program is started beside one who has yet to hear of a reset": (
        ("a", "send", 6, bytes(42)),
        ("a", "fork", "b"),
        ("a", "close", 6),
        ("a", "send", 7, b"7.7"),
        ("a", "dup", 7, True),
        ("b", "exit", "_exit"),
        ("a", "recv", 7, 695),
        ("a", "fork", "c"),
        ("c", "start", "d", "spawn", ""),
        ("d", "recv", 3, 75),
    ),
    "an end is taken, once who passed it has ended, by one who has it besides": (
        ("a", "send", 7, b"0.0"),
        ("a", "fork", "b"),
        ("b", "give", 6),
        ("b", "exit", "_exit"),
        ("a", "send", 6, b"5.5.5"),
        ("a", "take"),
        ("a", "recv", 6, 1),
        ("a", "unread", 8),
        ("a", "send", 8, b"9"),
        ("a", "send", 6, b"10"),
        ("a", "recv", 7, 40_000),
        ("a", "recv", 8, 1),
        ("a", "recv", 6, 40_000),
    ),
}
"""What differed, and the acts."""

"""Scenes at the edges: malformed control data, few and high numbers, and shares that come late.

What changes a process for good, as a limit does, happens in a process of its own.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from calls_stage import LASTING, LIBC, Message, Part, pair, raw, say, scene

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = 16
WRONG_LENGTHS = [0, 8, 15, 25, 1 << 20, 1 << 40, (1 << 64) - 1]
UNKNOWN_TYPE = 99
NEW_PROCESSES = 0x20000000
HIGH = 1500
UNUSED = 777
NOBODYS = 54_321
TURNS = 50_000
WORD = b"0123456789abcdef"
LINES = b"one\ntwo\nthree"
LINE = ["dd", "bs=4", "count=1", "status=none"]


def told(
    fd: int, text: bytes, length: int, about: int, kind: int = socket.SCM_RIGHTS, more: bytes = b""
) -> object:
    """Send a text with a header of such a length and a number, and maybe more control data."""
    data = struct.pack("=Qiii4x", length, socket.SOL_SOCKET, kind, about) + more
    control = ctypes.create_string_buffer(data, len(data))
    part = Part(text, len(text))
    message = Message(
        parts=ctypes.pointer(part),
        part_count=1,
        control=ctypes.addressof(control),
        control_length=len(data),
    )
    return raw("sendmsg", fd, ctypes.byref(message), 0)


def shared(unread: bytes = LINES) -> tuple[socket.socket, socket.socket]:
    """Make a connection with something unread; only the second end will be shared."""
    a, b = pair()
    a.sendall(unread)
    a.settimeout(5)
    # A timeout of Python's is a flag that a started program would see.
    seconds = struct.pack("ll", 5, 0)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
    return a, b


def apart(made: Callable[[], None], soft: int = 0, hard: int = 0) -> None:
    """Run a part of a scene in a process of its own, which may have so many descriptors."""
    limit = f"setrlimit(RLIMIT_NOFILE, ({soft}, {hard}))" if soft else ""
    code = f"from resource import *; {limit}\nimport {made.__module__} as it; it.{made.__name__}()"
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=Path(__file__).parent, timeout=30, check=True)


def begun(made: Callable[[], object]) -> int:
    """Begin a part of a scene in a forked process, which has some seconds."""
    process = os.fork()
    if process == 0:
        signal.alarm(9)
        with contextlib.suppress(Exception):
            made()
            os._exit(0)
        os._exit(1)
    return process


def forked(made: Callable[[], object]) -> int:
    """Run a part of a scene in a forked process; how that ended."""
    return os.waitpid(begun(made), 0)[1]


def rest(a: socket.socket, b: socket.socket) -> None:
    """Say what is left to read, and whether the connection goes on, up to its end."""
    say("the rest", lambda: b.recv(99))
    a.sendall(b"more")
    say("more", lambda: b.recv(99))
    b.sendall(b"back")
    say("back", lambda: a.recv(99))
    b.close()
    say("the end", lambda: a.recv(99))


@scene
def rights_of_no_length() -> None:
    a, b = shared()
    near, far = socket.socketpair()

    def try_all() -> None:
        for length in WRONG_LENGTHS:
            say(f"length {length}", lambda it=length: told(near.fileno(), b"x", it, b.fileno()))
            say("another kind", lambda it=length: told(near.fileno(), b"x", it, 0, UNKNOWN_TYPE))

    say("it ended", lambda: forked(try_all))
    say("none is sent", lambda: far.recv(99, socket.MSG_DONTWAIT))
    rest(a, b)


@scene
def second_rights_of_no_length() -> None:
    a, b = shared()
    near, far = socket.socketpair()
    right = (HEADER + 4, near.fileno(), socket.SCM_RIGHTS)

    def try_all() -> None:
        for length in WRONG_LENGTHS:
            wrong = struct.pack("=Qiii4x", length, socket.SOL_SOCKET, socket.SCM_RIGHTS, b.fileno())
            say(f"length {length}", lambda it=wrong: told(near.fileno(), b"x", *right, it))

    say("it ended", lambda: forked(try_all))
    say("none is sent", lambda: far.recv(99, socket.MSG_DONTWAIT))
    rest(a, b)


@scene
def control_data_of_accelerated() -> None:
    cases = [(length, socket.SCM_RIGHTS) for length in WRONG_LENGTHS]
    cases += [(HEADER + 4, kind) for kind in (UNKNOWN_TYPE, socket.SCM_RIGHTS)]
    for length, kind in cases:
        a, b = pair()
        a.sendall(b"before ")
        what = f"length {length}, kind {kind}"
        say(what, lambda a=a, it=(length, kind): told(a.fileno(), b"it ", it[0], 0, it[1]))
        a.sendall(b"after")
        a.close()
        say("all", lambda b=b: b.recv(99, socket.MSG_WAITALL))


@scene
def programs_get_high_numbers() -> None:
    code = f"import os; print(os.read({HIGH}, 4))"
    command = [sys.executable, "-c", code]
    a, b = shared()
    high = fcntl.fcntl(b, fcntl.F_DUPFD_CLOEXEC, HIGH)
    b.close()
    say(
        "the first line",
        lambda: subprocess.run(command, pass_fds=[high], capture_output=True, check=False).stdout,
    )
    rest(a, socket.socket(fileno=high))


@scene
def old_actions_for_new_connections() -> None:
    actions, process = ctypes.create_string_buffer(512), ctypes.c_int()
    LIBC.posix_spawn_file_actions_init(actions)
    LIBC.posix_spawn_file_actions_adddup2(actions, UNUSED, 0)
    names = [name.encode() for name in ["dd", "bs=4", "count=1", "status=none", "of=/dev/null"]]
    arguments = (ctypes.c_char_p * (len(names) + 1))(*names)
    environment = ctypes.c_void_p.in_dll(LIBC, "environ")
    for _ in range(2):
        a, b = shared()
        os.dup2(b.fileno(), UNUSED, inheritable=False)
        given = (actions, None, arguments, environment)
        say("spawned", lambda it=given: LIBC.posix_spawnp(ctypes.byref(process), b"dd", *it))
        say("it ended", lambda: os.waitpid(process.value, 0)[1])
        os.close(UNUSED)
        rest(a, b)
    LIBC.posix_spawn_file_actions_destroy(actions)


def take_all_numbers() -> None:
    """Put a file at each number that may be the library's, and use the connection on."""
    a, b = pair()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with select.epoll() as waiter, Path(__file__).open("rb") as file:
        waiter.register(b, select.EPOLLIN)
        place, own = file.fileno(), range(20, limit)
        for number in own:
            os.dup2(place, number)
        for _ in range(100):
            a.sendall(b"ping")
            assert b.recv(4) == b"ping"
            b.sendall(b"pong")
            assert a.recv(4) == b"pong"
        late = threading.Timer(0.1, a.sendall, (b"late",))
        late.start()
        say("found", lambda: len(waiter.poll(5)))
        say("late", lambda: b.recv(9))
        late.join()
        about = os.fstat(place)
        say("others", lambda: [it for it in own if not os.path.samestat(os.fstat(it), about)])
        say("read", lambda: os.pread(own[-1], 3, 0))
        for number in own:
            os.close(number)
        a.close()
        say("the end", lambda: b.recv(9))


@scene
def all_numbers_taken() -> None:
    apart(take_all_numbers, 256, 256)


@scene
def all_numbers_taken_beyond_what_was_the_limit() -> None:
    apart(take_all_numbers, 256, 4096)


def leave_without_numbers() -> None:
    """Let connections leave by all ways while no number is free."""
    by_shell, by_fork, by_message = [shared() for _ in range(3)]
    near, far = socket.socketpair()
    for _, b in (by_shell, by_fork):
        os.set_inheritable(b.fileno(), False)
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.dup(0))
    say("taken", lambda: len(taken))

    b = by_shell[1]
    os.set_inheritable(b.fileno(), True)
    say("a shell", lambda: os.system(f"exec {' '.join(LINE)} of=/dev/null <&{b.fileno()}"))
    rest(*by_shell)
    taken.append(os.dup(0))

    b = by_fork[1]

    def be_a_program() -> None:
        os.dup2(b.fileno(), 0)
        os.execvp(LINE[0], [*LINE, "of=/dev/null"])

    say("a fork", lambda: forked(be_a_program))
    rest(*by_fork)
    taken.append(os.dup(0))

    a, b = by_message
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [b.fileno()]))
    say("a message", lambda: near.sendmsg([b"x"], [rights]))
    for number in taken[:5]:
        os.close(number)
    with socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]) as copy:
        say("the first line", lambda: copy.recv(4))
    rest(a, b)


@scene
def no_number_is_free() -> None:
    apart(leave_without_numbers, 256, 4096)


@scene
def programs_leave_daemons() -> None:
    a, b = shared()
    writes = "(sleep 0.3; printf word; sleep 0.5)"
    command = ["sh", "-c", f"{writes} 2>/dev/null & exit 0"]
    say("it ended", lambda: subprocess.run(command, stdout=b, check=False).returncode)
    say("it writes", lambda: a.recv(99))
    rest(a, b)


@scene
def programs_leave_daemons_that_read() -> None:
    a, b = shared()
    reads = f"(sleep 0.2; {' '.join(LINE)}; sleep 0.7)"
    command = ["sh", "-c", f"exec 3<&0; {reads} <&3 2>/dev/null & exit 0"]
    near, far = os.pipe()
    say("it ended", lambda: subprocess.run(command, stdin=b, stdout=far, check=False).returncode)
    os.close(far)
    say("the first line", lambda: os.read(near, 9))
    rest(a, b)


@scene
def killed_ones_have_shared() -> None:
    a, b = shared(b"unread")
    process = os.fork()
    if process == 0:
        signal.pause()
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    near, far = socket.socketpair()

    def echo() -> None:
        b.close()
        with socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]) as copy:
            copy.sendall(copy.recv(9))

    socket.send_fds(near, [b"x"], [b.fileno()])
    say("it ended", lambda: forked(echo))
    far.close()
    say("echo", lambda: a.recv(9))
    b.close()
    say("the end", lambda: a.recv(9))


def share_from_outside() -> None:
    """Share with a program whose processes have numbers of their own."""
    a, b = shared()
    say("left", lambda: raw("unshare", NEW_PROCESSES))
    say(
        "the first line",
        lambda: subprocess.run(LINE, stdin=b, capture_output=True, check=False).stdout,
    )
    say("another", lambda: os.waitpid(os.fork() or os._exit(3), 0)[1])
    rest(a, b)


def shell_from_outside() -> None:
    """Share with a shell whose processes have numbers of their own."""
    a, b = shared()
    say("left", lambda: raw("unshare", NEW_PROCESSES))
    os.set_inheritable(b.fileno(), True)
    say("a shell", lambda: os.system(f"exec {' '.join(LINE)} of=/dev/null <&{b.fileno()}"))
    rest(a, b)


def pass_from_outside() -> None:
    """Pass to whoever a connection when the next processes have numbers of their own."""
    a, b = shared()
    near, far = socket.socketpair()
    say("left", lambda: raw("unshare", NEW_PROCESSES))
    say("passed", lambda: socket.send_fds(near, [b"x"], [b.fileno()]))
    with socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]) as copy:
        say("the first line", lambda: copy.recv(4))
    say("another", lambda: os.waitpid(os.fork() or os._exit(3), 0)[1])
    rest(a, b)


@scene
def other_numbers_of_processes() -> None:
    for made in (share_from_outside, shell_from_outside, pass_from_outside):
        apart(made)


@scene
def two_of_one_number() -> None:
    a, b = shared(b"")

    def send_all() -> None:
        for _ in range(TURNS):
            assert raw("send", b.fileno(), WORD, len(WORD), 0) == len(WORD)

    def send_from_outside() -> None:
        raw("unshare", NEW_PROCESSES)
        assert forked(send_all) == 0

    processes = [begun(send_from_outside) for _ in range(2)]
    b.close()
    say("all", lambda: b"".join(iter(lambda: a.recv(65536), b"")) == 2 * TURNS * WORD)
    say("they ended", lambda: [os.waitpid(process, 0)[1] for process in processes])


def make_no_more_processes() -> None:
    # Python looks for this when it connects, in files that nobody else may read.
    "localhost".encode("idna")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODYS, NOBODYS, NOBODYS)
        os.setresuid(NOBODYS, NOBODYS, NOBODYS)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def pass_without_processes() -> None:
    """Pass a connection on when no process can be made."""
    make_no_more_processes()
    a, b = shared()
    near, far = socket.socketpair()
    say("passed", lambda: socket.send_fds(near, [b"x"], [b.fileno()]))
    a.sendall(b"more")
    with socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]) as copy:
        say("all", lambda: copy.recv(len(LINES) + 4, socket.MSG_WAITALL))
        copy.sendall(b"back")
    say("back", lambda: a.recv(99))
    say("on", lambda: (a.sendall(b"on"), b.recv(99)))
    a.close()
    say("the end", lambda: b.recv(99))


def pass_what_is_left_without_processes() -> None:
    """The same once the other end has closed, with little unread and with much."""
    make_no_more_processes()
    for text in (LINES, bytes(100_000)):
        a, b = shared(text)
        a.close()
        near, far = socket.socketpair()
        say("passed", lambda near=near, b=b: socket.send_fds(near, [b"x"], [b.fileno()]))
        b.close()
        with socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]) as copy:
            copy.settimeout(5)
            said = b"".join(iter(lambda it=copy: it.recv(65536), b""))
            say("all", lambda said=said, text=text: (len(said), said == text))


@scene
def no_process_can_be_made() -> None:
    apart(pass_without_processes)


@scene
def no_process_can_be_made_and_the_other_end_has_gone() -> None:
    apart(pass_what_is_left_without_processes)


def limited() -> None:
    """Limit the address space, as a server does that fears its clients, and go on."""
    before = pair(LASTING)
    for kind, most in ((resource.RLIMIT_DATA, 100 << 20), (resource.RLIMIT_AS, 200 << 20)):
        resource.setrlimit(kind, (most, most))
        say("memory", lambda: len(mmap.mmap(-1, 40 << 20)))
        with select.epoll() as waiter:
            for a, b in (before, pair(LASTING)):
                waiter.register(b, select.EPOLLIN)
                a.sendall(b"more")
                say("told", lambda: [events for _, events in waiter.poll(5)])
                say("receive", lambda b=b: b.recv(10))


@scene
def a_program_limits_its_address_space() -> None:
    apart(limited)

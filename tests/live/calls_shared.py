"""Scenes of connections that a process shares with a program that it has started.

The other end does not call, so what it has sent cannot be sent again: the started program gets a
copied connection, and whoever shares it must find what that program has not read, and no more.
"""

from __future__ import annotations

import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from calls_stage import pair, say, scene

if TYPE_CHECKING:
    from collections.abc import Callable

LINES = b"one\ntwo\nthree"
ODD = """
import socket
end = socket.socket(fileno=0)
print(end.recv(9))
end.sendall(b"bye")
end.shutdown(socket.SHUT_WR)
"""
"""What a program does that ends one direction of its standard input."""
MANY = """
import sys
sys.stdout.buffer.write(bytes(5_000_000))
sys.stdout.buffer.flush()
sys.stderr.write("!")
sys.stderr.flush()
sys.stdin.read()
"""
"""What a program does that has written more than the kernel keeps, says so, and stays."""


def shared(unread: bytes = b"unread") -> tuple[socket.socket, socket.socket]:
    """Make a connection with something unread; only the second end will be shared."""
    a, b = pair()
    a.sendall(unread)
    for end in (a, b):
        end.settimeout(5)
    # A timeout of Python's is a flag that the started program would see.
    os.set_blocking(b.fileno(), True)
    return a, b


def first(count: int, end: socket.socket) -> bytes:
    """Let a program read so many bytes."""
    command = ["dd", f"bs={count}", "count=1", "status=none"]
    return subprocess.run(command, stdin=end, capture_output=True, check=False).stdout


def sleeping(end: socket.socket, seconds: float = 9) -> subprocess.Popen[bytes]:
    """Start a program that has the end and does nothing."""
    return subprocess.Popen(["sleep", str(seconds)], stdin=end)


def ended(program: subprocess.Popen[bytes]) -> int:
    """End it."""
    program.kill()
    return program.wait()


def whole(end: socket.socket, count: int) -> bytes:
    """Receive so many bytes, or what comes before the end."""
    return end.recv(count, socket.MSG_WAITALL)


def slowly(end: socket.socket, got: list[bytes], count: int) -> None:
    """Receive so many bytes in pieces with pauses, or what comes before the end."""
    while count > 0 and (piece := end.recv(100_000)):
        got.append(piece)
        count -= len(piece)
        time.sleep(0.005)


def patiently(end: socket.socket, text: bytes) -> None:
    """Send without blocking, whenever the end can be written."""
    while text:
        select.select([], [end], [])
        try:
            text = text[end.send(text) :]
        except BlockingIOError:
            time.sleep(0.001)


def soon(call: Callable[[], object]) -> threading.Thread:
    """Make a call in a while, in a thread."""
    thread = threading.Timer(0.2, call)
    thread.start()
    return thread


@scene
def programs_read_a_part() -> None:
    a, b = shared(LINES)
    say("the first line", lambda: first(4, b))
    say("the second", lambda: first(4, b))
    say("the rest", lambda: b.recv(9))
    a.sendall(b"more")
    say("more", lambda: b.recv(9))
    b.sendall(b"back")
    say("back", lambda: a.recv(9))


@scene
def programs_read_what_the_dead_have_sent() -> None:
    a, b = shared(LINES)
    a.close()
    say("the first line", lambda: first(4, b))
    say("the rest", lambda: b.recv(99))
    say("the end", lambda: b.recv(99))


@scene
def programs_read_much() -> None:
    a, b = shared(b"")
    data = os.urandom(600_000)
    sender = threading.Thread(target=a.sendall, args=(data,))
    sender.start()
    time.sleep(0.2)
    command = ["dd", "bs=1000", "count=200", "iflag=fullblock", "status=none"]
    part = subprocess.run(command, stdin=b, capture_output=True, check=False).stdout
    say("a part", lambda: (len(part), part == data[:200_000]))
    say("the rest", lambda: whole(b, 400_000) == data[200_000:])
    sender.join()


@scene
def programs_write() -> None:
    a, b = shared()
    for text in ("one ", "two "):
        subprocess.run(["printf", text], stdout=b, check=True)
        b.sendall(b"and ")
    say("in order", lambda: whole(a, 16))
    say("unread", lambda: b.recv(9))


@scene
def programs_write_more_than_is_read() -> None:
    for what in ("a word", "the end", "a word, without waiting"):
        a, b = shared()
        b.settimeout(None)
        command, pipe = [sys.executable, "-c", MANY], subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=b, stderr=pipe) as program:
            got: list[bytes] = []
            reader = threading.Timer(0.5, slowly, (a, got, 5_000_004))
            reader.start()
            assert program.stderr is not None
            program.stderr.read(1)
            if what == "the end":
                b.shutdown(socket.SHUT_WR)
            elif what == "a word":
                b.sendall(b"word")
            else:
                os.set_blocking(b.fileno(), False)
                patiently(b, b"word")
            reader.join()
            program.communicate()
        say(f"{what} comes after it", lambda got=got: b"".join(got).lstrip(b"\0"))
        say("all of it", lambda got=got: len(b"".join(got).rstrip(b"word")))


@scene
def programs_end_a_direction() -> None:
    a, b = shared()
    command = [sys.executable, "-c", ODD]
    say(
        "it reads", lambda: subprocess.run(command, stdin=b, capture_output=True, check=True).stdout
    )
    say("what it wrote", lambda: a.recv(9))
    say("the end", lambda: a.recv(9))
    a.sendall(b"other way")
    say("other way", lambda: b.recv(9))
    say("for all", lambda: b.send(b"x"))


@scene
def programs_echo() -> None:
    for alone in (True, False):
        a, b = shared()
        program = subprocess.Popen(["cat"], stdin=b, stdout=b)
        if alone:
            b.close()
        say(f"unread, {alone}", lambda a=a: a.recv(9))
        for count in range(30):
            a.sendall(bytes([count]))
            assert a.recv(9) == bytes([count])
        if alone:
            a.shutdown(socket.SHUT_WR)
            say("its end", lambda a=a, program=program: (a.recv(9), program.wait()))
        else:
            ended(program)
            a.sendall(b"for the other")
            say("the other", lambda b=b: b.recv(99))
            b.close()
            say("the end", lambda a=a: a.recv(9))


@scene
def programs_answer_who_says_no_more() -> None:
    a, b = shared(b"request")
    a.shutdown(socket.SHUT_WR)
    program = subprocess.Popen(["cat"], stdin=b, stdout=b)
    b.close()
    say("it ends", lambda: program.wait(10))
    say("answer", lambda: whole(a, 99))


@scene
def programs_sleep_while_others_read() -> None:
    a, b = shared()
    program = sleeping(b)
    say("unread", lambda: b.recv(9))
    late = soon(lambda: a.sendall(b"late"))
    say("late", lambda: b.recv(9))
    late.join()
    late = soon(lambda: a.sendall(b"later"))
    say("looked for", lambda: select.select([b], [], [], 5)[0] == [b])
    late.join()
    ended(program)
    say("later", lambda: b.recv(9))
    a.close()
    say("the end", lambda: b.recv(9))


@scene
def programs_sleep_while_others_wait() -> None:
    a, b = shared()
    with select.epoll() as level, select.epoll() as edge:
        level.register(b, select.EPOLLIN)
        edge.register(b, select.EPOLLIN | select.EPOLLET)
        program = sleeping(b)
        os.set_blocking(b.fileno(), False)

        def found() -> list[int]:
            return [len(waiter.poll(0.3)) for waiter in (level, edge)]

        say("unread", found)
        say("it is", lambda: b.recv(9, socket.MSG_DONTWAIT))
        say("no more", lambda: b.recv(9, socket.MSG_DONTWAIT))
        say("nothing", found)
        a.sendall(b"more")
        say("more", found)
        say("it is", lambda: b.recv(9, socket.MSG_DONTWAIT))
        ended(program)
        a.sendall(b"and more")
        say("and more", found)
        say("it is", lambda: b.recv(9, socket.MSG_DONTWAIT))
        a.close()
        say("end", found)
        say("it is", lambda: b.recv(9, socket.MSG_DONTWAIT))


@scene
def programs_sleep_while_others_end() -> None:
    a, b = shared(LINES)
    program = sleeping(b, 1)
    say("another reads", lambda: (first(4, b), first(4, b)))
    say("it ends", program.wait)
    say("the rest", lambda: b.recv(9))
    say("flags", lambda: os.get_blocking(b.fileno()))
    b.close()
    say("the end", lambda: a.recv(9))


@scene
def programs_and_others_take_turns() -> None:
    data = bytes(count % 251 for count in range(100_000))
    a, b = shared(data)
    chance, read, sent = random.Random(1), b"", b""
    for turn in range(12):
        count = chance.choice([1, 100, 2000, 8000])
        if chance.random() < 0.5:
            read += first(count, b)
            sent += b"<%d>" % turn
            subprocess.run(["printf", f"<{turn}>"], stdout=b, check=True)
        else:
            read += b.recv(count)
            sent += b"[%d]" % turn
            b.sendall(b"[%d]" % turn)
    read += whole(b, len(data) - len(read))
    say("all in order", lambda: read == data)
    say("the other way too", lambda: whole(a, len(sent)) == sent)


@scene
def shells_share_with_forks() -> None:
    a, b = shared(LINES)
    other = os.fork()
    if other == 0:
        time.sleep(1)
        os._exit(int(b.recv(99) != b"three"))
    os.set_inheritable(b.fileno(), True)
    say(
        "a shell",
        lambda: os.system(f"exec dd bs=4 count=1 status=none of=/dev/null <&{b.fileno()}"),
    )
    say("the second line", lambda: b.recv(4))
    say("the other has the rest", lambda: os.waitpid(other, 0)[1])
    a.sendall(b"more")
    say("more", lambda: b.recv(9))

"""Scenes of calls on descriptors: copies, waiting, connecting, forks, threads."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import itertools
import os
import select
import signal
import socket
import struct
import tempfile
import threading
import time
from typing import TYPE_CHECKING

from calls_stage import (
    EPOLL_CTL_ADD,
    EPOLLEXCLUSIVE,
    LIBC,
    PATIENCE_S,
    POLLRDHUP,
    pair,
    raw,
    say,
    scene,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@scene
def files() -> None:
    a, b = pair()
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(256)) * 100)
        file.flush()
        say("from an offset", lambda: os.sendfile(a.fileno(), file.fileno(), 100, 1000))
        say("arrives", lambda: b.recv(1000, socket.MSG_WAITALL))
        os.lseek(file.fileno(), 50, 0)
        say("from the place", lambda: os.sendfile(a.fileno(), file.fileno(), None, 10))
        say("place", lambda: os.lseek(file.fileno(), 0, 1))
        say("arrives", lambda: b.recv(10, socket.MSG_WAITALL))
        say("beyond the end", lambda: os.sendfile(a.fileno(), file.fileno(), 25_595, 100))
        say("arrives", lambda: b.recv(5, socket.MSG_WAITALL))
        say("at the end", lambda: os.sendfile(a.fileno(), file.fileno(), 25_600, 100))
        say("from a socket", lambda: os.sendfile(file.fileno(), b.fileno(), None, 1))
        say("before the beginning", lambda: os.sendfile(a.fileno(), file.fileno(), -1, 1))
    near, far = os.pipe()
    say("from a pipe", lambda: os.sendfile(a.fileno(), near, None, 1))
    os.write(far, b"piped")
    say("splice in", lambda: raw("splice", near, None, a.fileno(), None, ctypes.c_size_t(5), 0))
    say("arrives", lambda: b.recv(5, socket.MSG_WAITALL))
    a.sendall(b"back")
    settled()
    say("splice out", lambda: raw("splice", b.fileno(), None, far, None, ctypes.c_size_t(4), 0))
    say("arrives", lambda: os.read(near, 9))


@scene
def copies() -> None:
    a, b = pair()
    copies = [os.dup(b.fileno()), fcntl.fcntl(b, fcntl.F_DUPFD_CLOEXEC, 100)]
    LIBC.dup3(b.fileno(), 200, os.O_CLOEXEC)
    copies.append(200)
    a.sendall(b"123456")
    settled()
    for copy in copies:
        say("one of several", lambda copy=copy: os.read(copy, 2))
    os.set_blocking(copies[0], False)
    say("shared flag", lambda: b.recv(1))
    b.close()
    a.sendall(b"ab")
    settled()
    say("after the first is closed", lambda: os.read(copies[1], 9))
    say("the same to itself", lambda: raw("dup2", copies[1], copies[1]))
    say("the same, three", lambda: raw("dup3", copies[1], copies[1], 0))
    say("bad flag", lambda: raw("dup3", copies[1], 210, 1))
    say("beyond", lambda: raw("dup2", copies[1], 1 << 30))
    say("range", lambda: raw("close_range", 100, 200, 0))
    say("closed", lambda: os.read(100, 1))
    os.close(copies[0])
    settled()
    say("end", lambda: a.recv(1))
    say("closed twice", lambda: os.close(200))


@scene
def large_numbers() -> None:
    a, b = pair()
    high = fcntl.fcntl(b, fcntl.F_DUPFD, 3000)
    b.close()
    bits = ctypes.create_string_buffer(1024)
    bits[high // 8] = 1 << high % 8
    span = struct.pack("ll", 0, 50_000)
    say("nothing", lambda: raw("select", high + 1, bits, None, None, span))
    bits[high // 8] = 1 << high % 8
    a.sendall(b"x")
    say("readable", lambda: (raw("select", high + 1, bits, None, None, None), bits[high // 8]))
    say("read", lambda: os.read(high, 1))
    os.close(high)


@scene
def impossible_times() -> None:
    a, b = pair()
    with select.epoll() as waiter:
        waiter.register(b, select.EPOLLIN)
        for is_readable in (False, True):
            for seconds, parts in ((-1, 0), (0, -1), (0, 1_000_000_000), (-1, -1), (0, 0)):
                time = struct.pack("ll", seconds, parts)
                entry = struct.pack("ihh", b.fileno(), select.POLLIN, 0)
                sets = [ctypes.create_string_buffer(128) for _ in range(2)]
                for bits in sets:
                    bits[b.fileno() // 8] = 1 << b.fileno() % 8
                room = ctypes.create_string_buffer(12)
                say("ppoll", lambda it=(entry, 1, time, None): raw("ppoll", *it))
                say(
                    "pselect",
                    lambda it=(1024, sets[0], None, None, time, None): raw("pselect", *it),
                )
                if not is_readable and (seconds, parts) == (0, 1_000_000_000):
                    # Many microseconds are a time.
                    continue
                say("select", lambda it=(1024, sets[1], None, None, time): raw("select", *it))
                number = waiter.fileno()
                say("epoll", lambda it=(number, room, 1, time, None): raw("epoll_pwait2", *it))
            a.sendall(b"x")
            settled()


@scene
def waiting_with_masks() -> None:
    a, b = pair()
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda *_: seen.append(1))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    os.kill(os.getpid(), signal.SIGUSR2)
    none = bytes(128)
    entry = struct.pack("ihh", b.fileno(), select.POLLIN, 0)
    span = struct.pack("ll", 1, 0)
    say("ppoll lets it in", lambda: raw("ppoll", entry, 1, span, none))
    say("seen", lambda: len(seen))
    os.kill(os.getpid(), signal.SIGUSR2)
    bits = ctypes.create_string_buffer(128)
    bits[b.fileno() // 8] = 1 << b.fileno() % 8
    say("pselect lets it in", lambda: raw("pselect", 1024, bits, None, None, span, none))
    os.kill(os.getpid(), signal.SIGUSR2)
    with select.epoll() as waiter:
        waiter.register(b, select.EPOLLIN)
        room = ctypes.create_string_buffer(120)
        say("epoll lets it in", lambda: raw("epoll_pwait", waiter.fileno(), room, 1, 1000, none))
    say("seen", lambda: len(seen))
    os.kill(os.getpid(), signal.SIGUSR2)
    a.sendall(b"x")
    settled()
    say("blocked", lambda: raw("ppoll", entry, 1, span, None))
    say("seen", lambda: len(seen))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
    say("seen after", lambda: len(seen))
    signal.signal(signal.SIGUSR2, before)


@scene
def own_ends_are_edges() -> None:
    room, all_three = select.EPOLLOUT, select.EPOLLIN | select.EPOLLOUT | POLLRDHUP
    for how in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
        for mask in (all_three, select.EPOLLIN | POLLRDHUP, select.EPOLLIN, room):
            a, b = pair()
            with a, b, select.epoll() as edge:
                edge.register(a, mask | select.EPOLLET)
                for what in ("at first", "again", "ended", "with bytes", "ended anew"):
                    if what.startswith("ended"):
                        with contextlib.suppress(OSError):
                            a.shutdown(how)
                    elif what == "with bytes":
                        b.send(b"unread")
                        settled()
                    # The kernel tells of an end again once it was acknowledged, 40 ms later.
                    found = set()
                    while events := edge.poll(0.08):
                        found |= {event for _, event in events}
                    print(f"  {how}, {mask:x}, {what}: {found}", flush=True)


@scene
def own_ends_wake_who_waits_for_edges() -> None:
    for how in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
        a, b = pair()
        with a, b, select.epoll() as edge:
            edge.register(a, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
            edge.poll(0)
            waiter = threading.Timer(0.05, a.shutdown, [how])
            waiter.start()
            say(f"woken by {how}", lambda it=edge: [event for _, event in it.poll(PATIENCE_S)])
            waiter.join()


@scene
def epolls() -> None:
    a, b = pair()
    both = select.EPOLLIN | select.EPOLLOUT | POLLRDHUP
    with select.epoll() as level, select.epoll() as edge, select.epoll() as once:
        level.register(b, both)
        edge.register(b, both | select.EPOLLET)
        once.register(b, select.EPOLLIN | select.EPOLLONESHOT)
        say("twice", lambda: level.register(b, both))
        all_three = {"level": level, "edge": edge, "once": once}

        def ask(what: str) -> None:
            for name, waiter in all_three.items():
                say(f"{what}, {name}", lambda w=waiter: [event for _, event in w.poll(0.05)])

        ask("idle")
        a.sendall(b"abcd")
        settled()
        ask("bytes")
        ask("the same bytes")
        b.recv(2)
        ask("half read")
        a.sendall(b"e")
        settled()
        ask("one more")
        once.modify(b, select.EPOLLIN | select.EPOLLONESHOT)
        ask("armed again")
        b.recv(9)
        a.shutdown(socket.SHUT_WR)
        settled()
        ask("end")
        level.unregister(b)
        say("unregistered", lambda: level.unregister(b))
        say("not there", lambda: level.modify(b, both))
        b.close()
        ask("closed")
    c, d = pair()
    with select.epoll() as inner, select.epoll() as outer:
        say("exclusive", lambda: inner.register(d, select.EPOLLIN | EPOLLEXCLUSIVE))
        say("exclusive, changed", lambda: inner.modify(d, select.EPOLLIN))
        outer.register(inner.fileno(), select.EPOLLIN)
        c.sendall(b"x")
        say("nested", lambda: [event for _, event in outer.poll(1)])
        say("inner", lambda: [event for _, event in inner.poll(1)])
        say("polled", lambda: select.select([inner.fileno()], [], [], 0.1)[0] != [])
        say("read", lambda: d.recv(1))
        say("nested, empty", lambda: outer.poll(0.05))


@scene
def connecting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.socket()
        client.setblocking(False)
        say("starts", lambda: client.connect_ex(listener.getsockname()) in (0, errno.EINPROGRESS))
        say("writable", lambda: select.select([], [client], [], 2)[1] != [])
        say("error", lambda: client.getsockopt(1, socket.SO_ERROR))
        say("again", lambda: client.connect(listener.getsockname()))
        four = LIBC.accept4(listener.fileno(), None, None, os.O_NONBLOCK | os.O_CLOEXEC)
        server = socket.socket(fileno=four)
        say("accepted", lambda: (fcntl.fcntl(four, fcntl.F_GETFD), server.getblocking()))
        say("empty", lambda: server.recv(1))
        for _ in range(100):
            client.send(b"p")
            select.select([server], [], [], 5)
            server.send(server.recv(1))
            select.select([client], [], [], 5)
            client.recv(1)
        say("name", lambda: server.getpeername() == client.getsockname())
        listener.setblocking(False)
        say("nobody", listener.accept)
        say("receive on a listener", lambda: listener.recv(1))
        address = listener.getsockname()
    refused = socket.socket()
    refused.setblocking(False)
    refused.connect_ex(address)
    select.select([], [refused], [], 2)
    say("refused", lambda: errno.errorcode[refused.getsockopt(1, socket.SO_ERROR)])
    say("not connected", lambda: socket.socket().recv(1))
    say("not connected, send", lambda: raw("send", socket.socket().fileno(), b"x", 1, 0x4000))
    # Ends a connection, and makes another with the same socket.
    nowhere = struct.pack("H14x", socket.AF_UNSPEC)
    say("disconnect", lambda: raw("connect", client.fileno(), nowhere, 16))
    say("receive", lambda: client.recv(1))
    say("other end", lambda: server.recv(1))


@scene
def forks() -> None:
    a, b = pair()
    child = os.fork()
    if child == 0:
        for _ in range(50):
            b.sendall(b.recv(4, socket.MSG_WAITALL)[::-1])
        os._exit(0)
    got = b""
    for _ in range(50):
        a.sendall(b"1234")
        got += a.recv(4, socket.MSG_WAITALL)
    say("echoed by the child", lambda: got)
    say("child", lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    a.sendall(b"for the parent")
    say("parent goes on", lambda: b.recv(99))
    b.close()
    say("end", lambda: a.recv(1))
    c, d = pair()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(told, 1)
        os._exit(0)
    d.close()
    settled()
    say("held by the child", lambda: c.recv(1, socket.MSG_DONTWAIT))
    os.write(tell, b"x")
    os.waitpid(child, 0)
    say("end", lambda: c.recv(1))
    e, f = pair()
    child = os.fork()
    if child == 0:
        e.close()
        f.recv(1)
        os._exit(0)
    f.close()
    e.sendall(b"x")
    os.waitpid(child, 0)
    settled()
    say("child ended", lambda: e.recv(1))


@scene
def threads_and_ends() -> None:
    _a, b = pair()
    got: list[object] = []

    def wait() -> None:
        try:
            got.append(b.recv(1))
        except OSError as why:
            got.append(why.errno)

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.1)
    b.shutdown(socket.SHUT_RDWR)
    waiter.join(PATIENCE_S)
    say("shut by another thread", lambda: (got, waiter.is_alive()))
    c, d = pair()
    readers = [threading.Thread(target=lambda: got.append(d.recv(1))) for _ in range(4)]
    for reader in readers:
        reader.start()
    time.sleep(0.05)
    for letter in b"wxyz":
        c.sendall(bytes([letter]))
    for reader in readers:
        reader.join(PATIENCE_S)
    say("four readers", lambda: sorted(it for it in got[1:] if isinstance(it, bytes)))
    c.close()
    say("end", lambda: d.recv(1))


def polled(fd: int) -> list[int]:
    """Wait for something to read."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return [events for _, events in poll.poll()]


def read_all(end: socket.socket) -> int:
    """Read to the end; say how much it was."""
    return sum(len(piece) for piece in iter(functools.partial(end.recv, 1 << 20), b""))


def calling(call: Callable[[], object], got: list[object]) -> threading.Thread:
    """Let a thread make a call, which is about to begin when this returns."""
    begun = threading.Event()

    def run() -> None:
        begun.set()
        got.append(call())

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    return thread


@scene
def closed_under_a_call() -> None:
    calls: dict[str, Callable[[int], object]] = {
        "read": lambda fd: os.read(fd, 9),
        "read of a copy": lambda fd: os.read(fd, 9),
        "write": lambda fd: os.write(fd, bytes(20_000_000)),
        "poll": polled,
    }
    # Asleep as the library does, and in the kernel.
    for how, pause in itertools.product(calls, (0.01, 0.2)):
        a, b = pair()
        fd, kept = b.detach(), -1
        if how == "read of a copy":
            kept, fd = fd, os.dup(fd)
        got: list[object] = []
        waiter = calling(functools.partial(calls[how], fd), got)
        time.sleep(pause)
        os.close(fd)
        settled()
        if how == "write":
            say(f"all that was written, {pause}", lambda a=a: read_all(a))
        else:
            a.setblocking(False)
            say(f"{how}, {pause}: nobody has closed", lambda a=a: a.recv(1))
            a.sendall(b"late")
        waiter.join(PATIENCE_S)
        say("it ends", lambda got=got, waiter=waiter: (got, waiter.is_alive()))
        settled()
        say("then", lambda a=a: a.recv(1))
        if kept >= 0:
            os.write(kept, b"more")
            settled()
            say("the other number", lambda a=a: a.recv(9))
            os.close(kept)


@scene
def closed_and_given_anew() -> None:
    for _ in range(20):
        a, b = pair()
        got: list[object] = []
        fd = b.detach()
        waiter = calling(functools.partial(os.read, fd, 9), got)
        time.sleep(0.03)
        assert raw("shutdown", fd, socket.SHUT_RDWR) == 0
        os.close(fd)
        c, d = pair(0)
        for count in range(100):
            c.sendall(bytes([count]))
            assert d.recv(9) == bytes([count])
        waiter.join(PATIENCE_S)
        assert (got, waiter.is_alive()) == ([b""], False)
        assert a.recv(1) == b""
    say("all ended, and nothing of the next", lambda: True)


def watching(waiter: int, end: socket.socket, datum: int) -> None:
    event = struct.pack("=IQ", select.EPOLLIN, datum)
    assert raw("epoll_ctl", waiter, EPOLL_CTL_ADD, end.fileno(), event) == 0


def found(waiter: int, patience_ms: int) -> tuple[object, bytes]:
    room = ctypes.create_string_buffer(12)
    return raw("epoll_wait", waiter, room, 1, patience_ms), room.raw


def close_under_a_wait(pause: float, *, copied: bool) -> None:
    a, b = pair()
    waiter, kept = LIBC.epoll_create1(0), -1
    if copied:
        waiter, kept = os.dup(waiter), waiter
    watching(waiter, b, 7)
    got: list[object] = []
    thread = calling(lambda: found(waiter, -1), got)
    time.sleep(pause)
    os.close(waiter)
    other = LIBC.epoll_create1(0)
    say("the next has the number", lambda: other == waiter)
    c, d = pair()
    watching(other, d, 8)
    c.sendall(b"not its own")
    settled()
    say("it waits on", thread.is_alive)
    a.sendall(b"x")
    thread.join(PATIENCE_S)
    say("until its own has something", lambda: got)
    say("the other has its own", lambda: found(other, 1000))
    if copied:
        say("and so has the other number", lambda: found(kept, 1000))
        os.close(kept)
    os.close(other)
    settled()
    say("numbers", lambda: sorted(os.listdir("/proc/self/fd"), key=int)[:12])


@scene
def instances_closed_under_a_wait() -> None:
    # Asleep as the library does, and in the kernel; the only number, and one of two.
    for pause, copied in itertools.product((0.01, 0.2), (False, True)):
        print(f"  after {pause} s, copied: {copied}")
        close_under_a_wait(pause, copied=copied)


@scene
def large_transfers() -> None:
    a, b = pair(family=socket.AF_INET6)
    sent = os.urandom(1 << 16) * 40
    sender = threading.Thread(target=lambda: (a.sendall(sent), a.shutdown(socket.SHUT_WR)))
    sender.start()
    got = bytearray()
    while more := b.recv(100_003):
        got += more
    sender.join()
    say("all in order", lambda: (len(got), bytes(got) == sent))
    a.setblocking(False)
    c, d = pair()
    c.setblocking(False)
    count, before = 0, -1
    # What is acknowledged late makes room once more.
    while count > before:
        before = count
        try:
            while True:
                count += c.send(bytes(50_000))
        except BlockingIOError:
            settled(0.2)
    say("not writable", lambda: select.select([], [c], [], 0.05)[1] == [])
    left = count
    while left:
        left -= len(d.recv(min(left, 1 << 20)))
    say("writable", lambda: select.select([], [c], [], 2)[1] == [c])
    say("nothing left", lambda: d.recv(1, socket.MSG_DONTWAIT))


@scene
def urgent() -> None:
    a, b = pair()
    a.sendall(b"before")
    say("send", lambda: a.send(b"!", socket.MSG_OOB))
    a.sendall(b"after")
    settled()
    say("exceptional", lambda: select.select([], [], [b], 1)[2] != [])
    say("up to the mark", lambda: b.recv(99))
    say("urgent", lambda: b.recv(1, socket.MSG_OOB))
    say("rest", lambda: b.recv(99))

"""Odd calls on connections, with the live library and without: both must say the same.

Each scene gets a fresh connection whose two ends have been carried (or would have been), makes its
calls, and says what each returned, `errno` included. The scenes run in one process with the library
and in one without; what they say is compared line by line.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import difflib
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_S = 120
LIBC = ctypes.CDLL(None, use_errno=True)
POLLRDHUP = 0x2000
EPOLLEXCLUSIVE = 1 << 28
SCENES: list[Callable[[], None]] = []


def scene(made: Callable[[], None]) -> Callable[[], None]:
    """Remember a scene."""
    SCENES.append(made)
    return made


def say(what: str, call: Callable[[], object]) -> None:
    """Print what a call returns, or the error that it raises."""
    try:
        said = call()
    except OSError as why:
        said = errno.errorcode.get(why.errno or 0, type(why).__name__)
    if isinstance(said, bytes) and len(said) > 40:
        said = f"{len(said)} bytes, {sum(said)}"
    print(f"  {what}: {said}", flush=True)


def raw(name: str, *arguments: object) -> object:
    """Call a C function; its error's name if it fails."""
    ctypes.set_errno(0)
    result = getattr(LIBC, name)(*arguments)
    return errno.errorcode[ctypes.get_errno()] if result == -1 else result


def pair(rounds: int = 60, family: int = socket.AF_INET) -> tuple[socket.socket, socket.socket]:
    """Make a connection, and use it until it would be carried."""
    where = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((where, 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server = listener.accept()[0]
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(rounds):
        client.sendall(b"ping")
        assert server.recv(4, socket.MSG_WAITALL) == b"ping"
        server.sendall(b"pong")
        assert client.recv(4, socket.MSG_WAITALL) == b"pong"
    return client, server


def settled(seconds: float = 0.05) -> None:
    """Let what was sent arrive."""
    time.sleep(seconds)


@scene
def flags_of_receive() -> None:
    a, b = pair()
    a.sendall(b"0123456789")
    settled()
    say("peek", lambda: b.recv(4, socket.MSG_PEEK))
    say("peek again", lambda: b.recv(40, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    say("truncate", lambda: raw("recv", b.fileno(), None, 3, socket.MSG_TRUNC))
    say("peek and truncate", lambda: raw("recv", b.fileno(), None, 99, 0x22))
    say("after", lambda: b.recv(3))
    say("nothing asked", lambda: b.recv(0))
    say("the rest", lambda: b.recv(99))
    say("empty", lambda: b.recv(1, socket.MSG_DONTWAIT))
    say("empty, peek", lambda: b.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK))
    say("error queue", lambda: b.recv(1, socket.MSG_ERRQUEUE))
    say("no urgent byte", lambda: b.recv(1, socket.MSG_OOB))
    later = threading.Timer(0.1, lambda: (a.sendall(b"cd"), a.close()))
    a.sendall(b"ab")
    later.start()
    say("all, until the end", lambda: b.recv(10, socket.MSG_WAITALL))
    say("end", lambda: b.recv(10, socket.MSG_WAITALL))
    later.join()


@scene
def timeouts_and_watermarks() -> None:
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 60_000))
    say("receive in time", lambda: b.recv(1))
    a.sendall(b"x")
    say("all in time", lambda: b.recv(3, socket.MSG_WAITALL))
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 60_000))
    say("bad timeout", lambda: b.setsockopt(1, socket.SO_RCVTIMEO, struct.pack("ll", 0, 2_000_000)))

    def fill() -> str:
        while True:
            a.send(bytes(1 << 20))

    say("send in time", fill)
    c, d = pair()
    d.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 4)
    c.sendall(b"12")
    settled()
    say("below the mark", lambda: select.select([d], [], [], 0.05)[0] == [d])
    c.sendall(b"34")
    say("at the mark", lambda: select.select([d], [], [], 1)[0] == [d])
    say("read", lambda: d.recv(9))


@scene
def half_close() -> None:
    a, b = pair()
    poller = select.poll()
    every = select.POLLIN | select.POLLOUT | POLLRDHUP
    poller.register(b, every)
    a.sendall(b"last")
    a.shutdown(socket.SHUT_WR)
    settled()
    say("poll", lambda: [event for _, event in poller.poll(1000)])
    say("write after the end", lambda: raw("send", a.fileno(), b"x", 1, socket.MSG_NOSIGNAL))
    say("read", lambda: b.recv(9))
    say("end", lambda: b.recv(9))
    say("end again", lambda: b.recv(9, socket.MSG_DONTWAIT))
    say("other way", lambda: b.send(b"answer"))
    say("other way arrives", lambda: a.recv(6, socket.MSG_WAITALL))
    b.shutdown(socket.SHUT_WR)
    settled()
    say("poll both", lambda: [event for _, event in poller.poll(1000)])
    say("end of the other", lambda: a.recv(1))
    say("shut again", lambda: a.shutdown(socket.SHUT_WR))
    say("how", lambda: raw("shutdown", a.fileno(), 7))
    c, d = pair()
    c.sendall(b"unread")
    settled()
    d.shutdown(socket.SHUT_RD)
    say("what was there", lambda: d.recv(3))
    say("and the rest", lambda: d.recv(9))
    say("then", lambda: d.recv(9))
    say("still sends", lambda: d.send(b"x"))


@scene
def resets() -> None:
    a, b = pair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    a.close()
    settled()
    say("after a linger of none", lambda: b.recv(1))
    say("once", lambda: b.recv(1))
    say("write", lambda: raw("send", b.fileno(), b"x", 1, socket.MSG_NOSIGNAL))
    c, d = pair()
    d.sendall(b"unread")
    settled()
    c.sendall(b"read me")
    c.close()
    settled()
    poller = select.poll()
    poller.register(d, select.POLLIN | select.POLLOUT)
    say("poll", lambda: [event for _, event in poller.poll(1000)])
    say("error", lambda: errno.errorcode.get(d.getsockopt(1, socket.SO_ERROR), "none"))
    e, f = pair()
    f.close()
    settled()
    say("first write", lambda: e.send(b"x"))
    settled()
    say("second", lambda: raw("send", e.fileno(), b"x", 1, socket.MSG_NOSIGNAL))
    say("third", lambda: raw("send", e.fileno(), b"x", 1, socket.MSG_NOSIGNAL))


@scene
def broken_pipes() -> None:
    a, b = pair()
    seen: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _frame: seen.append(number))
    a.shutdown(socket.SHUT_WR)
    say("write", lambda: os.write(a.fileno(), b"x"))
    say("send", lambda: raw("send", a.fileno(), b"x", 1, 0))
    say("quiet send", lambda: raw("send", a.fileno(), b"x", 1, socket.MSG_NOSIGNAL))
    say("vector", lambda: os.writev(a.fileno(), [b"x", b"y"]))
    say("nothing", lambda: os.write(a.fileno(), b""))
    say("signals", lambda: len(seen))
    signal.signal(signal.SIGPIPE, before)
    b.close()


@scene
def queues_and_controls() -> None:
    a, b = pair()
    a.sendall(b"12345")
    settled()

    def number(s: socket.socket, request: int) -> int:
        return struct.unpack("i", fcntl.ioctl(s, request, bytes(4)))[0]

    say("unread", lambda: number(b, termios.FIONREAD))
    say("not sent", lambda: number(a, termios.TIOCOUTQ) <= 5)
    say("at the mark", lambda: number(b, 0x8905))
    b.recv(9)
    say("unread", lambda: number(b, termios.FIONREAD))
    say("not sent", lambda: number(a, termios.TIOCOUTQ))
    say("a terminal's", lambda: fcntl.ioctl(b, termios.TCGETS, bytes(64)))
    fcntl.ioctl(b, termios.FIONBIO, struct.pack("i", 1))
    say("does not block", lambda: b.recv(1))
    say("flags", lambda: fcntl.fcntl(b, fcntl.F_GETFL) & os.O_NONBLOCK != 0)
    fcntl.fcntl(b, fcntl.F_SETFL, fcntl.fcntl(b, fcntl.F_GETFL) & ~os.O_NONBLOCK)
    threading.Timer(0.05, lambda: a.sendall(b"z")).start()
    say("blocks", lambda: b.recv(1))
    state = a.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    say("state", lambda: state)
    say("type", lambda: (b.type, b.family, b.getsockopt(1, socket.SO_ACCEPTCONN)))
    say("unknown option", lambda: b.setsockopt(socket.IPPROTO_TCP, 9999, 1))
    say("cork", lambda: a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1))
    say("corked", lambda: a.send(b"c", socket.MSG_MORE))
    say("uncork", lambda: a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0))
    say("arrives", lambda: b.recv(1))
    say("seek", lambda: os.lseek(a.fileno(), 0, 1))
    say("pread", lambda: os.pread(b.fileno(), 1, 0))
    say("pwrite", lambda: os.pwrite(b.fileno(), b"x", 0))
    say("preadv2 at the place", lambda: os.preadv(b.fileno(), [bytearray(1)], 0))
    say("stat", lambda: oct(os.fstat(a.fileno()).st_mode))
    say("sync", lambda: os.fsync(a.fileno()))
    say("truncate", lambda: os.ftruncate(a.fileno(), 0))


@scene
def signals_of_arrival() -> None:
    a, b = pair()
    seen = threading.Event()
    before = signal.signal(signal.SIGIO, lambda *_: seen.set())
    fcntl.fcntl(b, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(b, fcntl.F_SETFL, fcntl.fcntl(b, fcntl.F_GETFL) | os.O_ASYNC)
    a.sendall(b"x")
    say("signal", lambda: seen.wait(2))
    say("read", lambda: b.recv(1))
    fcntl.fcntl(b, fcntl.F_SETFL, fcntl.fcntl(b, fcntl.F_GETFL) & ~os.O_ASYNC)
    c, d = pair()
    seen.clear()
    fcntl.fcntl(d, fcntl.F_SETOWN, os.getpid())
    fcntl.ioctl(d, 0x5452, struct.pack("i", 1))
    c.sendall(b"x")
    say("signal, by ioctl", lambda: seen.wait(2))
    say("read", lambda: d.recv(1))
    fcntl.ioctl(d, 0x5452, struct.pack("i", 0))
    signal.signal(signal.SIGIO, before)


@scene
def interruptions() -> None:
    for restart in (False, True):
        a, b = pair()
        seen: list[int] = []
        before = signal.signal(signal.SIGUSR1, lambda *_, seen=seen: seen.append(1))
        signal.siginterrupt(signal.SIGUSR1, not restart)
        main = threading.main_thread().ident or 0
        threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1)).start()
        threading.Timer(0.3, lambda a=a: a.sendall(b"x")).start()
        # Python itself would call again: the C function does not.
        buffer = ctypes.create_string_buffer(4)
        say(f"receive, restart {restart}", lambda: raw("recv", b.fileno(), buffer, 1, 0))
        time.sleep(0.3)
        say("handler", lambda: len(seen))
        signal.signal(signal.SIGUSR1, before)
        for call in ("poll", "select"):
            signal.signal(signal.SIGUSR1, lambda *_: None)
            signal.siginterrupt(signal.SIGUSR1, not restart)
            b.setblocking(True)
            while raw("recv", b.fileno(), buffer, 4, socket.MSG_DONTWAIT) not in ("EAGAIN", 0):
                pass
            threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1)).start()
            if call == "poll":
                entry = struct.pack("ihh", b.fileno(), select.POLLIN, 0)
                say("poll", lambda entry=entry: raw("poll", entry, 1, 1000))
            else:
                bits = ctypes.create_string_buffer(128)
                bits[b.fileno() // 8] = 1 << b.fileno() % 8
                say("select", lambda bits=bits: raw("select", 1024, bits, None, None, None))
            signal.signal(signal.SIGUSR1, before)


@scene
def vectors() -> None:
    a, b = pair()
    say("most parts", lambda: os.writev(a.fileno(), [b"x"] * 1024))
    say("too many", lambda: os.writev(a.fileno(), [b"x"] * 1025))
    say("read parts", lambda: len(b.recv(4096, socket.MSG_WAITALL | socket.MSG_DONTWAIT)))
    say("empty parts", lambda: os.writev(a.fileno(), [b"", b"ab", b"", b"c"]))
    parts = [bytearray(1), bytearray(0), bytearray(9)]
    say("scattered", lambda: (os.readv(b.fileno(), parts), bytes(parts[0]), bytes(parts[2])))
    say("no parts", lambda: os.writev(a.fileno(), []))
    say("message", lambda: a.sendmsg([b"12", b"34"], [], socket.MSG_NOSIGNAL))
    settled()
    say("message back", lambda: b.recvmsg(9, 64)[:3:2])
    say("message with address", lambda: a.sendmsg([b"z"], [], 0, ("127.0.0.1", 9)))
    say("to an address", lambda: a.sendto(b"y", ("127.0.0.1", 9)))
    say("from", lambda: b.recvfrom(9))

    class Message(ctypes.Structure):
        _fields_ = (
            ("name", ctypes.c_void_p),
            ("name_length", ctypes.c_uint),
            ("parts", ctypes.c_void_p),
            ("count", ctypes.c_size_t),
            ("control", ctypes.c_void_p),
            ("control_length", ctypes.c_size_t),
            ("flags", ctypes.c_int),
            ("length", ctypes.c_uint),
        )

    texts = [ctypes.create_string_buffer(b"abc", 3), ctypes.create_string_buffer(b"de", 2)]
    vectors = [(ctypes.c_void_p * 2)(ctypes.addressof(text), len(text)) for text in texts]
    messages = (Message * 2)(*(Message(None, 0, ctypes.addressof(vector), 1) for vector in vectors))
    say("two messages", lambda: raw("sendmmsg", a.fileno(), messages, 2, 0))
    say("their lengths", lambda: [message.length for message in messages])
    settled()
    say("both", lambda: b.recv(9))
    a.sendall(b"q")
    settled()
    say("receive several", lambda: raw("recvmmsg", b.fileno(), messages, 2, 0x10000, None))
    say("length", lambda: messages[0].length)
    say("none", lambda: raw("recvmmsg", b.fileno(), messages, 2, socket.MSG_DONTWAIT, None))


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
    child = os.fork()
    if child == 0:
        time.sleep(0.2)
        os._exit(0)
    d.close()
    settled()
    say("held by the child", lambda: c.recv(1, socket.MSG_DONTWAIT))
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
    a, b = pair()
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
    waiter.join(5)
    say("shut by another thread", lambda: (got, waiter.is_alive()))
    c, d = pair()
    readers = [threading.Thread(target=lambda: got.append(d.recv(1))) for _ in range(4)]
    for reader in readers:
        reader.start()
    time.sleep(0.05)
    for letter in b"wxyz":
        c.sendall(bytes([letter]))
    for reader in readers:
        reader.join(5)
    say("four readers", lambda: sorted(it for it in got[1:] if isinstance(it, bytes)))
    c.close()
    say("end", lambda: d.recv(1))


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
    count = 0
    try:
        while True:
            count += c.send(bytes(50_000))
    except BlockingIOError:
        pass
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


def compared(library: Path) -> int:
    """Run all scenes with the library and without; print what differs."""
    command = [sys.executable, __file__, "--scenes"]
    said = []
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log"
        how = {"LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log)}
        for more in ({}, how):
            ran = subprocess.run(
                command,
                env={**os.environ, **more},
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            said.append([*ran.stdout.splitlines(), *ran.stderr.splitlines()[-20:]])
        carried = log.read_text().count("carried over shared memory") if log.exists() else 0
    differing = list(difflib.unified_diff(*said, "without", "with", lineterm="", n=3))
    print("\n".join(differing))
    count = sum(not line.startswith(" ") for line in said[0])
    lines = sum(line.startswith(" ") for line in said[0])
    complaint = bool(differing) or carried < count
    print(f"calls: {count} scenes, {lines} results, {carried} ends carried, ", end="")
    print("not the same" if complaint else "all the same")
    return int(complaint)


def main() -> int:
    """Run the scenes, or compare two runs of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--scenes", action="store_true", help="run the scenes as they are")
    parser.add_argument("--only", default="", help="scenes whose name has this in it")
    options = parser.parse_args()
    if not options.scenes:
        return compared(options.library.resolve())
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for made in SCENES:
        if options.only in made.__name__:
            print(made.__name__, flush=True)
            try:
                made()
            except Exception as why:
                print(f"  ended by {type(why).__name__}: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

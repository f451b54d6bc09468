"""Scenes of calls that move bytes, and of how a connection ends."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING

from calls_stage import (
    PATIENCE_S,
    POLLRDHUP,
    Counted,
    Message,
    Part,
    pair,
    raw,
    say,
    scene,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Callable


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

    def not_acknowledged() -> int:
        until = time.monotonic() + PATIENCE_S
        while (left := number(a, termios.TIOCOUTQ)) and time.monotonic() < until:
            time.sleep(0.01)
        return left

    say("not sent", not_acknowledged)
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
    say("signal", lambda: seen.wait(PATIENCE_S))
    say("read", lambda: b.recv(1))
    fcntl.fcntl(b, fcntl.F_SETFL, fcntl.fcntl(b, fcntl.F_GETFL) & ~os.O_ASYNC)
    c, d = pair()
    seen.clear()
    fcntl.fcntl(d, fcntl.F_SETOWN, os.getpid())
    fcntl.ioctl(d, 0x5452, struct.pack("i", 1))
    c.sendall(b"x")
    say("signal, by ioctl", lambda: seen.wait(PATIENCE_S))
    say("read", lambda: d.recv(1))
    fcntl.ioctl(d, 0x5452, struct.pack("i", 0))
    signal.signal(signal.SIGIO, before)


def pestered(call: Callable[[], object], then: Callable[[], object] | None = None) -> object:
    """Call with a signal now and then until it returns, wherever it is by then.

    After a few of them `then` happens.
    """
    main = threading.main_thread().ident or 0
    over = threading.Event()

    def pester() -> None:
        count = 0
        while not over.wait(0.05):
            signal.pthread_kill(main, signal.SIGUSR1)
            count += 1
            if then and count == 4:
                then()

    other = threading.Thread(target=pester)
    other.start()
    try:
        return call()
    finally:
        over.set()
        other.join()


@scene
def interruptions() -> None:
    for restart in (False, True):
        a, b = pair()
        seen: list[int] = []
        before = signal.signal(signal.SIGUSR1, lambda *_, seen=seen: seen.append(1))
        signal.siginterrupt(signal.SIGUSR1, not restart)
        # Python itself would call again: the C function does not.
        buffer = ctypes.create_string_buffer(4)

        def receive(b: socket.socket = b, buffer: object = buffer) -> object:
            return raw("recv", b.fileno(), buffer, 1, 0)

        send = (lambda a=a: a.sendall(b"x")) if restart else None
        say(f"receive, restart {restart}", lambda f=receive, send=send: pestered(f, send))
        say("handler", lambda seen=seen: bool(seen))
        entry = struct.pack("ihh", b.fileno(), select.POLLIN, 0)
        say("poll", lambda entry=entry: pestered(lambda: raw("poll", entry, 1, 60_000)))
        bits = ctypes.create_string_buffer(128)
        bits[b.fileno() // 8] = 1 << b.fileno() % 8
        say(
            "select",
            lambda bits=bits: pestered(lambda: raw("select", 1024, bits, None, None, None)),
        )
        signal.signal(signal.SIGUSR1, before)


@scene
def looks_wait_for_all() -> None:
    a, b = pair()
    both = socket.MSG_PEEK | socket.MSG_WAITALL
    for left in (b"def", b""):
        a.sendall(b"abc")
        settled()
        sends = (
            (lambda left=left: a.sendall(left)) if left else (lambda: a.shutdown(socket.SHUT_WR))
        )
        later = threading.Timer(0.05, sends)
        later.start()
        say("looked at", lambda: b.recv(6, both))
        later.join()
        say("read", lambda: b.recv(6, socket.MSG_WAITALL))


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

    texts = [ctypes.create_string_buffer(text, len(text)) for text in (b"abc", b"de")]
    parts_of = [Part(ctypes.cast(text, ctypes.c_char_p), len(text)) for text in texts]
    messages = (Counted * 2)(
        *(Counted(Message(parts=ctypes.pointer(part), part_count=1)) for part in parts_of)
    )
    say("two messages", lambda: raw("sendmmsg", a.fileno(), messages, 2, 0))
    say("their lengths", lambda: [message.length for message in messages])
    settled()
    say("both", lambda: b.recv(9))
    a.sendall(b"q")
    settled()
    say("receive several", lambda: raw("recvmmsg", b.fileno(), messages, 2, 0x10000, None))
    say("length", lambda: messages[0].length)
    say("none", lambda: raw("recvmmsg", b.fileno(), messages, 2, socket.MSG_DONTWAIT, None))

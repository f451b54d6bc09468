"""Scenes of what stands behind the ring once the kernel took over, of deaths, and of signals."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from calls_stage import POLLRDHUP, compiled, pair, say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    Pair = tuple[socket.socket, socket.socket]

SIOCATMARK = 0x8905
FIONREAD = 0x541B
EDGE = 1 << 31
ALL = socket.MSG_WAITALL
FAST_OPEN = 0x20000000
WAIT_S = 0.12
NO_LINGER = struct.pack("ii", 1, 0)
IDLE_S = 0.05
"""After so long a library that has heard nothing asks the kernel."""


def splice(end: socket.socket, what: bytes) -> None:
    """Send by a call that only the kernel carries."""
    near, far = os.pipe()
    os.write(far, what)
    assert os.splice(near, end.fileno(), len(what)) == len(what)
    os.close(near)
    os.close(far)


def gone_back() -> Pair:
    """Make a connection with something unread before the kernel took over, and something behind."""
    a, b = pair()
    a.sendall(b"ring")
    splice(a, b"kernel")
    settled()
    return a, b


def looked(look: Callable[[float], list[tuple[int, int]]], seconds: float) -> object:
    """Say what a look finds, and whether it slept if it waited."""
    before = time.thread_time()
    found = [events for _, events in look(seconds)]
    return found, time.thread_time() - before < seconds / 2


def polled(end: socket.socket, events: int, seconds: float = WAIT_S) -> object:
    """Ask for events by `poll`."""
    poll = select.poll()
    poll.register(end, events)
    return looked(lambda limit: poll.poll(1000 * limit), seconds)


def epolled(end: socket.socket, events: int, seconds: float = WAIT_S) -> object:
    """Ask for events by a new epoll instance."""
    with select.epoll() as epoll:
        epoll.register(end, events)
        return looked(epoll.poll, seconds)


@scene
def looks_pass_what_stands_behind_the_ring() -> None:
    for name, events in (("none", 0), ("urgent", select.POLLPRI), ("end", POLLRDHUP)):
        for how in ("open", "shut", "reset"):
            a, b = gone_back()
            if how == "shut":
                a.shutdown(socket.SHUT_WR)
            if how == "reset":
                reset(a)
            settled()
            say(f"{name}, {how}", lambda b=b, events=events: polled(b, events))
            say("by epoll", lambda b=b, events=events: epolled(b, events))
            say("by its edge", lambda b=b, events=events: epolled(b, events | EDGE))
            say("a part", lambda b=b: b.recv(2))
            say("again", lambda b=b, events=events: polled(b, events))
            for _ in range(3):
                say("bytes", lambda b=b: b.recv(20, socket.MSG_DONTWAIT))
            say("after all", lambda b=b, events=events: polled(b, events | select.POLLIN, 0.01))
            a.close()
            b.close()


@scene
def receives_go_on_behind_the_ring() -> None:
    dontwait, look, every = socket.MSG_DONTWAIT, socket.MSG_PEEK, socket.MSG_WAITALL
    for room, flags in (
        (20, 0), (7, 0), (4, 0), (20, look), (6, look), (10, every), (10, look | every),
        (20, dontwait), (20, dontwait | look),
    ):  # fmt: skip
        a, b = gone_back()
        say(f"{room} with {flags}", lambda b=b, room=room, flags=flags: b.recv(room, flags))
        say("then", lambda b=b: b.recv(20, dontwait))
        say("then", lambda b=b: b.recv(20, dontwait))
        a.close()
        b.close()
    a, b = gone_back()
    parts = [bytearray(3), bytearray(4), bytearray(30)]
    say("in parts", lambda: (b.recvmsg_into(parts)[0], bytes(b"".join(parts)).rstrip(b"\0")))
    a.sendall(b"on")
    say("on", lambda: b.recv(20))


@scene
def urgent_marks_end_receives_behind_the_ring() -> None:
    look, every = socket.MSG_PEEK, socket.MSG_WAITALL
    for room, flags, inline, late in (
        (20, 0, 0, 0), (20, look, 0, 0), (8, every, 0, 0), (20, 0, 1, 0), (9, every, 1, 0),
        (20, 0, 0, 1), (20, look, 0, 1), (9, every, 0, 1),
    ):  # fmt: skip
        a, b = pair()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, inline)
        a.sendall(b"ring")
        a.send(b"!", socket.MSG_OOB)
        a.sendall(b"kernel")
        settled()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, inline or late)

        def asked(request: int, b: socket.socket = b) -> int:
            return struct.unpack("i", fcntl.ioctl(b, request, bytes(4)))[0]

        def tell(asked: Callable[[int], int] = asked) -> None:
            say("at the mark", lambda: asked(SIOCATMARK))
            say("before it", lambda: asked(FIONREAD))

        tell()
        say(f"{room} with {flags}", lambda b=b, room=room, flags=flags: b.recv(room, flags))
        for _ in range(2):
            tell()
            say("then", lambda b=b: b.recv(20, socket.MSG_DONTWAIT))
        a.close()
        b.close()


@scene
def urgent_bytes_come_in_line_where_a_program_has_said_so() -> None:
    for both in (False, True):
        a, b = pair()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        if both:
            a.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        for turn in range(20):
            a.sendall(b"%d" % turn)
            say("carried on", lambda b=b: b.recv(20))
        watched = select.poll()
        watched.register(b, select.POLLIN | select.POLLPRI)
        for sent in (b"!", b"two", b""):
            a.sendall(b"ring")
            settled()
            say("before it", lambda watched=watched: [events for _, events in watched.poll(0)])
            if sent:
                a.send(sent, socket.MSG_OOB)
            a.sendall(b"after")
            settled()
            say("with it", lambda watched=watched: [events for _, events in watched.poll(0)])
            for _ in range(3):
                say("in line", lambda b=b: b.recv(20, socket.MSG_DONTWAIT))
            say("not apart", lambda b=b: b.recv(1, socket.MSG_OOB | socket.MSG_DONTWAIT))
        b.send(b"?", socket.MSG_OOB)
        settled()
        say("the other way", lambda a=a: a.recv(20, socket.MSG_DONTWAIT))
        say("or apart", lambda a=a: a.recv(1, socket.MSG_OOB | socket.MSG_DONTWAIT))
        a.close()
        b.close()


def met_by_child(what: str) -> tuple[socket.socket, int, int]:
    """Make a connection with a child, which ends it in a way once a byte is written to a pipe."""
    near, far = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            os.close(far)
            end_as(what, listener.getsockname(), near)
        end = listener.accept()[0]
    os.close(near)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(60):
        assert end.recv(4, socket.MSG_WAITALL) == b"ping"
        end.sendall(b"pong")
    return end, child, far


def end_as(what: str, address: tuple[str, int], near: int) -> None:
    """Connect, wait until told, and end in this way."""
    end = socket.create_connection(address)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(60):
        end.sendall(b"ping")
        assert end.recv(4, socket.MSG_WAITALL) == b"pong"
    # Who sleeps takes what has rung before: nothing lies in the kernel's stream when it ends.
    if "in vain" in what:
        select.select([end], [], [], 0.03)
    if "left" in what:
        end.sendall(b"left")
    os.read(near, 1)
    if "for none" in what:
        polled(end, 0, 0.03)
    if "shut" in what:
        end.shutdown(socket.SHUT_WR)
    if "close" in what:
        end.close()
        os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGKILL)


def error_of(end: socket.socket) -> int:
    return end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


CALLS: dict[str, Callable[[socket.socket], object]] = {
    "s": lambda end: end.send(b"x"),
    "r": lambda end: end.recv(9),
    "d": lambda end: end.recv(9, socket.MSG_DONTWAIT | socket.MSG_PEEK),
    "e": error_of,
    "w": lambda end: end.shutdown(socket.SHUT_WR),
    "p": lambda end: polled(end, select.POLLIN | select.POLLOUT | POLLRDHUP),
}


def all_said(end: socket.socket, calls: str) -> list[object]:
    said: list[object] = []
    for call in calls:
        try:
            said.append(CALLS[call](end))
        except OSError as why:
            said.append(errno.errorcode[why.errno or 0])
        time.sleep(0.002)
    return said


@scene
def ends_and_deaths_are_told_as_the_kernel_tells_them() -> None:
    ends = "killed", "killed, left", "shut, killed", "close", "shut, close"
    waits = "", "waited in vain, ", "waited for none, "
    for what in (wait + what for wait in waits for what in ends):
        for unread in (b"unread", b""):
            for calls in ("ssrr", "rspsp", "wsrr", "essr", "wesr", "swr", "ddss"):
                end, child, far = met_by_child(what)
                end.sendall(unread)
                os.write(far, b"!")
                os.waitpid(child, os.WUNTRACED)
                time.sleep(IDLE_S)
                said = all_said(end, calls)
                say(f"{what}, {len(unread)} unread, {calls}", lambda said=said: said)
                end.close()
                os.close(far)
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)


def streamed_by_child(unread: bytes) -> tuple[socket.socket, int, int]:
    """Receive much from a child that reads nothing, until it is killed."""
    near, far = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            os.close(far)
            end = socket.create_connection(listener.getsockname())
            settled()
            for _ in range(400):
                end.sendall(bytes(10))
                # Its reader reads meanwhile, so that the two meet.
                time.sleep(0.0002)
            os.read(near, 1)
            os.kill(os.getpid(), signal.SIGKILL)
        end = listener.accept()[0]
    os.close(near)
    end.sendall(unread)
    left = 4000
    while left:
        left -= len(end.recv(100))
    return end, child, far


@scene
def what_is_unread_by_who_never_slept_makes_a_death_a_reset() -> None:
    for before, after in ((b"", b""), (b"before", b""), (b"", b"in the ring")):
        for calls in ("ssrr", "rrss", "essr", "ersss", "rpsp"):
            end, child, far = streamed_by_child(before)
            end.sendall(after)
            os.write(far, b"!")
            os.waitpid(child, 0)
            time.sleep(IDLE_S)
            said = all_said(end, calls)
            say(f"{len(before)} and {len(after)}, {calls}", lambda said=said: said)
            end.close()
            os.close(far)


@scene
def looks_that_never_wait_see_a_death() -> None:
    for events in (select.POLLIN, select.POLLIN | select.POLLOUT, select.POLLOUT):
        for kind in ("poll", "epoll", "select"):
            end, child, far = met_by_child("killed")
            # So that the end is a reset, which is an event for who only sends too.
            end.sendall(b"unread")
            poll, epoll = select.poll(), select.epoll()
            poll.register(end, events)
            epoll.register(end, events)
            looks: dict[str, Callable[[], list[tuple[int, int]]]] = {
                "poll": lambda poll=poll: poll.poll(0),
                "epoll": lambda epoll=epoll: epoll.poll(0),
                "select": lambda end=end: [
                    (0, select.POLLIN) for _ in select.select([end], [], [], 0)[0]
                ],
            }
            looks[kind]()
            os.write(far, b"!")
            os.waitpid(child, 0)
            until = time.monotonic() + 5
            seen = False
            while not seen and time.monotonic() < until:
                seen = any(found & ~select.POLLOUT for _, found in looks[kind]())
            say(f"{kind} of {events} sees it", lambda seen=seen: seen)
            epoll.close()
            end.close()
            os.close(far)


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    end.close()


@scene
def parts_leave_a_reset_to_the_next_call() -> None:
    for next_call in ("receive", "error", "send"):
        a, b = pair()
        got: list[bytes] = []
        waiting = threading.Thread(target=lambda b=b, got=got: got.append(b.recv(6, ALL)))
        waiting.start()
        a.sendall(b"ab")
        settled()
        reset(a)
        waiting.join()
        say("a part", lambda got=got: got)
        if next_call == "receive":
            say("then", lambda b=b: b.recv(9))
        if next_call == "send":
            for _ in range(2):
                say("then", lambda b=b: b.send(b"x"))
        settled()
        say("its error", lambda b=b: error_of(b))
        say("then", lambda b=b: b.recv(9))
        b.close()


@scene
def what_was_left_in_the_ring_leaves_a_reset_to_the_next_call() -> None:
    for room, flags in ((9, 0), (9, socket.MSG_PEEK), (9, ALL), (2, 0)):
        a, b = pair()
        a.sendall(b"ring")
        # Only the kernel carries one that waits for so much.
        a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
        settled()
        reset(a)
        settled()
        say(f"{room} with {flags}", lambda b=b, room=room, flags=flags: b.recv(room, flags))
        for _ in range(3):
            say("then", lambda b=b: b.recv(9))
        say("its error", lambda b=b: error_of(b))
        b.close()


@scene
def what_is_over_is_not_reset() -> None:
    for first in (True, False):
        for unread in (b"", b"unread"):
            for aborts in (True, False):
                a, b = pair()
                a.sendall(unread)
                ends = (a, b) if first else (b, a)
                for end in ends:
                    end.shutdown(socket.SHUT_WR)
                    settled()
                if aborts:
                    reset(b)
                b.close()
                settled()
                said = all_said(a, "peprse")
                say(f"{first}, {unread!r}, {aborts}", lambda said=said: said)
                a.close()


@scene
def a_send_that_the_kernel_took_over_leaves_a_reset_to_the_next_call() -> None:
    a, b = pair()
    much = bytes(1 << 24)
    sent: list[int] = []
    sending = threading.Thread(target=lambda: sent.append(a.send(much)))
    sending.start()
    # A full ring is left after a tenth of a second, then the kernel's buffers fill.
    time.sleep(0.5)
    reset(b)
    sending.join()
    say("a part", lambda: [0 < count < len(much) for count in sent])
    for _ in range(2):
        say("then", lambda: a.send(b"x"))
    a.close()


@scene
def nothing_is_sent_to_connect_again() -> None:
    a, b = pair()
    say("send", lambda: a.send(b"x", FAST_OPEN))
    say("sendto", lambda: a.sendto(b"x", FAST_OPEN, b.getsockname()))
    say("nothing came", lambda: b.recv(9, socket.MSG_DONTWAIT))
    a.sendall(b"on")
    say("on", lambda: b.recv(9))


SIGNALS = r"""
enum { RECEIVE, RECEIVE_ALL, RECEIVE_LIMITED, SEND, SEND_LIMITED, SEND_MUCH, KINDS };
static const char *names[] = {"receive", "receive all, in part", "receive with a limit",
                              "send", "send with a limit", "send much"};
static int ends[2], seen;
static char much[1 << 24];
static void see(int signal) { seen = signal; }
static void handle(int signal, int flags) {
    struct sigaction action = {.sa_handler = see, .sa_flags = flags};
    sigaction(signal, &action, 0);
}
static void *receive_later(void *none) {
    usleep(250000);
    while (recv(ends[0], room, sizeof room, 0) > 0);
    return none;
}
static void *send_later(void *none) {
    usleep(250000);
    send(ends[0], "help", 4, 0);
    return none;
}
static long act(int kind) {
    switch (kind) {
    case RECEIVE_ALL: return recv(ends[1], room, 6, MSG_WAITALL);
    case RECEIVE: case RECEIVE_LIMITED: return recv(ends[1], room, 4, 0);
    case SEND_MUCH: return send(ends[1], much, sizeof much, 0);
    default: return send(ends[1], much, 1, 0);
    }
}
static int run(int kind, int microseconds, int flags, int tell) {
    struct itimerval span = {.it_value.tv_usec = microseconds};
    struct timeval limit = {.tv_sec = 9};
    int limits = kind == RECEIVE_LIMITED ? SO_RCVTIMEO : SO_SNDTIMEO;
    sigset_t alarms;
    pthread_t helper;
    handle(SIGALRM, flags);
    join(ends);
    if (kind == RECEIVE_LIMITED || kind == SEND_LIMITED)
        setsockopt(ends[1], SOL_SOCKET, limits, &limit, sizeof limit);
    if (kind == RECEIVE_ALL) send(ends[0], "ab", 2, 0);
    if (kind == SEND || kind == SEND_LIMITED)
        while (send(ends[1], much, 65536, MSG_DONTWAIT) > 0);
    /* The signal is this thread's. */
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarms, 0);
    need(!pthread_create(&helper, 0, kind < SEND ? send_later : receive_later, 0));
    sigprocmask(SIG_UNBLOCK, &alarms, 0);
    seen = 0;
    setitimer(ITIMER_REAL, &span, 0);
    long done = act(kind);
    tell |= seen;
    const char *how = done < 0 ? strerror(errno) : done == sizeof much ? "whole" : "part";
    if (tell && kind == SEND_MUCH) printf("  %s", how);
    else if (tell) printf("  %ld (%s)", done, done < 0 ? how : "");
    if (tell) printf(", %s, %d us, flags %d, signal %d\n", names[kind], microseconds, flags, seen);
    close(ends[1]);
    pthread_join(helper, 0);
    close(ends[0]);
    return tell;
}
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    signal(SIGPIPE, SIG_IGN);
    /* Never sent; who guesses by which handler a sleep was ended may guess this one. */
    handle(SIGUSR1, 0);
    for (int kind = 0; kind < KINDS; kind++)
        for (int which = 0; which < 4; which++) {
            /* A full ring is left after a while: then there may be room before the signal. */
            int then = kind == SEND || kind == SEND_LIMITED ? 30000 : 160000, tries = 0;
            while (!run(kind, which & 1 ? then : 6000, which & 2 ? SA_RESTART : 0, tries++ > 9));
        }
    return 0;
}
"""
"""A handled signal ends a blocked call, or lets it go on."""


@scene
def signals_end_calls_or_let_them_go_on() -> None:
    compiled(SIGNALS)

"""Scenes of defects that a hunt found: blocked calls that must end, limits, and copies that differ.

What would hang or die without its mend happens in a process of its own, which has some seconds.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import functools
import itertools
import mmap
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from calls_corners import begun, forked, shared
from calls_stage import LIBC, Counted, Message, Part, compiled, pair, raw, say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable

MUCH = bytes(64 << 20)
"""More than all buffers take, with the library and without."""
BOTH_WAYS = 40 << 20
TRIALS = 4
SMALL_STACK = 65536
FILE_LIMIT = 4096
NO_WAIT = struct.pack("ll", 0, 0)
A_SECOND = struct.pack("ll", 1, 0)
CLONE3 = 435
CLONE3_ARGUMENTS = 11
WRITES_FIRST = f"""
import signal, socket
signal.alarm(9)
end, rest = socket.socket(fileno=0), {BOTH_WAYS}
while rest:
    rest -= end.send(bytes(min(rest, 1 << 20)))
print("  it read", end.recv(6, socket.MSG_WAITALL))
end.shutdown(socket.SHUT_WR)
while part := end.recv(1 << 20):
    rest += len(part)
print("  it read", rest)
"""
"""What a program does that reads nothing before it has written all."""
TELLS_OPTIONS = """
import fcntl, os, struct
from socket import *
end = socket(fileno=0)
for level, name, size in [
    (SOL_SOCKET, "SO_RCVTIMEO", 16), (SOL_SOCKET, "SO_SNDTIMEO", 16), (SOL_SOCKET, "SO_LINGER", 8),
    (SOL_SOCKET, "SO_KEEPALIVE", 4), (SOL_SOCKET, "SO_PRIORITY", 4), (IPPROTO_IP, "IP_TOS", 4),
    (IPPROTO_TCP, "TCP_NODELAY", 4), (IPPROTO_TCP, "TCP_USER_TIMEOUT", 4),
    (IPPROTO_TCP, "TCP_KEEPIDLE", 4), (IPPROTO_TCP, "TCP_KEEPINTVL", 4),
    (SOL_SOCKET, "SO_SNDBUF", 4), (SOL_SOCKET, "SO_RCVBUF", 4),
]:
    print(" ", name, end.getsockopt(level, globals()[name], size).hex())
print("  mine", fcntl.fcntl(end, fcntl.F_GETOWN) == os.getppid(), fcntl.fcntl(end, fcntl.F_GETSIG))
print("  unread", end.recv(99, MSG_DONTWAIT))
"""
SMALL_THREAD = r"""
static int ends[2];
static void *send_file(void *file) {
    off_t from = 0;
    printf("  sent %zd\n", sendfile(ends[0], fileno(file), &from, 100000));
    return 0;
}
int main(void) {
    FILE *file = tmpfile();
    pthread_attr_t small;
    pthread_t thread;
    setvbuf(stdout, 0, _IONBF, 0);
    join(ends);
    need(fwrite(room, 100000, 1, file) == 1 && !fflush(file));
    need(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 16384));
    need(!pthread_create(&thread, &small, send_file, file) && !pthread_join(thread, 0));
    printf("  got %zd\n", recv(ends[1], room, 100000, MSG_WAITALL));
    return 0;
}
"""
SENDS_WHEN_TOLD = """
import errno, socket, sys
end = socket.socket(fileno=int(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(2):
    try:
        print("  it sends", end.send(b"abc", socket.MSG_NOSIGNAL))
    except OSError as why:
        print("  it sends", errno.errorcode[why.errno])
print("  it reads", end.recv(5))
"""


def plain() -> dict[str, str]:
    """Make the environment of a program that has no library."""
    return {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}


def ended(made: Callable[[], object]) -> None:
    """Run a part of a scene in a forked process, and say how that ended."""
    say("it ended", lambda: forked(made))


def waits(end: socket.socket, option: int, seconds: float) -> None:
    """Let an end's calls wait so long in the kernel; Python's own would make them not block."""
    span = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    end.setsockopt(socket.SOL_SOCKET, option, span)


def timed(call: Callable[[], object]) -> tuple[object, float]:
    """Make a call; what it returns, and in how many seconds."""
    begin = time.monotonic()
    result = call()
    return result, time.monotonic() - begin


def one_of_some(trial: Callable[[], list[bool]]) -> list[bool]:
    """Make trials until all holds in one: what else the machine does only delays what is timed."""
    for _ in range(TRIALS):
        said = trial()
        if all(said):
            break
    return said


def in_part(count: object, whole: int) -> bool:
    return isinstance(count, int) and 0 < count < whole


def parts_of(text: bytes, length: int) -> tuple[ctypes.Array[Part], int]:
    """Make parts of such a length of a text, and say how many."""
    count = len(text) // length
    return (Part * count)(*[Part(text[:length], length) for _ in range(count)]), count


def interrupt_later(seconds: float) -> threading.Timer:
    """Send the main thread a signal, later."""
    main = threading.main_thread().ident or 0
    late = threading.Timer(seconds, signal.pthread_kill, (main, signal.SIGUSR1))
    late.start()
    return late


def caught(restart: bool = False) -> list[int]:
    """Catch a signal; in what is returned each catch is told."""
    hits: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: hits.append(number))
    signal.siginterrupt(signal.SIGUSR1, not restart)
    return hits


@scene
def blocked_sends_end_by_signals() -> None:
    def be_interrupted(restart: bool) -> None:
        a, b = pair()
        hits = caught(restart)
        interrupt_later(0.3)
        sent = raw("send", a.fileno(), MUCH, len(MUCH), 0)
        say("in part", lambda: (in_part(sent, len(MUCH)), len(hits)))
        a.close()
        say("all of it", lambda: sum(map(len, iter(lambda: b.recv(1 << 20), b""))) == sent)

    for restart in (False, True):
        ended(lambda restart=restart: be_interrupted(restart))


@scene
def blocked_sends_end_in_their_time() -> None:
    def time_out(name: str, *more: object) -> list[bool]:
        a, _b = pair()
        waits(a, socket.SO_SNDTIMEO, 0.4)
        sent, seconds = timed(lambda: raw(name, a.fileno(), *more))
        return [in_part(sent, len(MUCH)), 0.3 < seconds < 1.2]

    calls = ("send", MUCH, len(MUCH), 0), ("writev", *parts_of(MUCH, 1 << 20))
    for call in calls:
        trial = functools.partial(time_out, *call)
        ended(lambda it=trial: say("in part, in time", lambda: one_of_some(it)))


@scene
def blocked_sends_of_little_room_end_in_their_time() -> None:
    def time_out() -> list[bool]:
        a, b = pair()
        waits(a, socket.SO_SNDTIMEO, 0.4)

        def read_slowly() -> None:
            for _ in range(30):
                time.sleep(0.05)
                b.recv(60_000)

        threading.Thread(target=read_slowly, daemon=True).start()
        sent, seconds = timed(lambda: raw("send", a.fileno(), MUCH, len(MUCH), 0))
        return [in_part(sent, len(MUCH)), 0.3 < seconds < 1.2]

    ended(lambda: say("in part, in time", lambda: one_of_some(time_out)))


@scene
def waits_for_all_end_in_their_time() -> None:
    def time_out() -> list[bool]:
        a, b = pair()
        waits(b, socket.SO_RCVTIMEO, 0.5)

        def drip() -> None:
            for _ in range(10):
                time.sleep(0.2)
                a.send(b"x")

        threading.Thread(target=drip, daemon=True).start()
        room = ctypes.create_string_buffer(10)
        got, seconds = timed(lambda: raw("recv", b.fileno(), room, 10, socket.MSG_WAITALL))
        return [in_part(got, 10), 0.4 < seconds < 1.3]

    ended(lambda: say("in part, in time", lambda: one_of_some(time_out)))


@scene
def waits_for_all_that_the_kernel_takes_over_end() -> None:
    def be_taken_over(signalled: bool) -> list[bool]:
        a, b = pair()
        caught()
        main = threading.main_thread().ident or 0
        if not signalled:
            waits(b, socket.SO_RCVTIMEO, 0.7)

        def send_in_parts() -> None:
            time.sleep(0.2)
            a.send(b"0123456789")
            time.sleep(0.1)
            # A connection with this option is not accelerated.
            a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
            a.send(b"0123456789")
            time.sleep(0.05)
            a.send(b"0123456789")
            time.sleep(0.3)
            if signalled:
                signal.pthread_kill(main, signal.SIGUSR1)

        threading.Thread(target=send_in_parts).start()
        room = ctypes.create_string_buffer(100)
        got, seconds = timed(lambda: raw("recv", b.fileno(), room, 100, socket.MSG_WAITALL))
        return [got == 30, room.value == b"0123456789" * 3, seconds < 1.3]

    for signalled in (True, False):
        trial = functools.partial(be_taken_over, signalled)
        ended(lambda it=trial: say("all, its bytes, in time", lambda: one_of_some(it)))


def limit_files() -> None:
    """Let no file be larger, and a larger one be the end."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))


def join_under_a_limit() -> None:
    """Make a first connection, and share it, where no file may be large."""
    limit_files()
    a, b = pair()
    b.settimeout(5)
    a.sendall(b"left")
    say("left", lambda: b.recv(4))
    say("it ended", lambda: forked(lambda: a.sendall(b"child")))
    say("child", lambda: b.recv(9))


@scene
def files_may_not_be_large() -> None:
    # What the scenes say is a file too, and maybe too large already. The library's log is.
    log = Path(tempfile.mkstemp()[1])
    log.write_bytes(bytes(FILE_LIMIT))
    usual = {**os.environ, "WEFT_LIVE_LOG": str(log)}
    join = [sys.executable, "-B", "-c", "import calls_hunted as it; it.join_under_a_limit()"]
    two = ["sh", "-c", "true; echo '  two'"]
    for limits, command in ((True, ["true"]), (True, two), (True, join), (False, join)):
        said = subprocess.run(
            command,
            env=usual,
            cwd=Path(__file__).parent,
            preexec_fn=limit_files if limits else None,
            capture_output=True,
            timeout=20,
            check=False,
        )
        print(said.stdout.decode(), end="", flush=True)
        say("it ended", lambda it=said: it.returncode)
    log.unlink()


@scene
def both_ways_are_full_after_leaving() -> None:
    a, b = shared(b"unread")
    a.setblocking(True)

    def write_and_read_all() -> None:
        b.close()
        # What leaves does so while nobody calls at this end.
        time.sleep(0.5)
        writer = threading.Thread(target=a.sendall, args=(bytes(BOTH_WAYS),))
        writer.start()
        say("read", lambda: sum(map(len, iter(lambda: a.recv(1 << 20), b""))))
        writer.join()

    peer = begun(write_and_read_all)
    a.close()
    command = [sys.executable, "-c", WRITES_FIRST]
    with subprocess.Popen(command, stdin=b, stdout=subprocess.PIPE, env=plain()) as started:
        b.close()
        say("the other ended", lambda: os.waitpid(peer, 0)[1])
        said = started.communicate()[0].decode()
        print(said, end="", flush=True)
    say("it ended", lambda: started.returncode)


def in_small_thread(made: Callable[[], None]) -> None:
    """Run a part of a scene in a thread of a small stack."""
    usual = threading.stack_size(SMALL_STACK)
    thread = threading.Thread(target=made)
    thread.start()
    threading.stack_size(usual)
    thread.join()


@scene
def small_threads_pass_connections() -> None:
    def pass_one() -> None:
        a, b = shared(b"unread")
        # What is passed on may come in parts, so this end's calls wait in the kernel.
        a.setblocking(True)
        waits(a, socket.SO_RCVTIMEO, 5)
        near, far = socket.socketpair()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [b.fileno()]))
        b.sendall(b"other")
        settled(0.02)
        in_small_thread(lambda: say("passed", lambda: near.sendmsg([b"x"], [rights])))
        b.close()
        with socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]) as copy:
            say("unread", lambda: copy.recv(99))
            say("sent", lambda: copy.send(b"abc"))
            say("all", lambda: a.recv(8, socket.MSG_WAITALL))
            a.sendall(b"on")
            say("on", lambda: copy.recv(99))
        say("the end", lambda: a.recv(99))

    ended(pass_one)


@scene
def small_threads_send_files() -> None:
    # Python's own threads need more than this.
    compiled(SMALL_THREAD)


def several(texts: list[bytes]) -> ctypes.Array[Counted]:
    """Make messages of such texts."""
    messages = (Counted * len(texts))()
    for counted, text in zip(messages, texts, strict=True):
        counted.message.parts = ctypes.pointer(Part(text, len(text)))
        counted.message.part_count = 1
    return messages


@scene
def several_messages_stop_after_a_part() -> None:
    a, b = pair()
    texts = [bytes(4 << 20), *[bytes(100_000)] * 3]

    def read_at_odd_times() -> None:
        a.close()
        b.setblocking(False)
        for turn in itertools.count():
            # Who slept would make room only while nobody sends.
            with contextlib.suppress(BlockingIOError):
                if not b.recv(1 + turn * 7919 % 40_000):
                    break

    reader = begun(read_at_odd_times)
    b.close()
    a.setblocking(False)
    messages, holes = several(texts), 0
    for _ in range(1500):
        for counted in messages:
            counted.length = 0
        count = LIBC.sendmmsg(a.fileno(), messages, len(texts), 0)
        whole = [messages[it].length == len(texts[it]) for it in range(max(count - 1, 0))]
        holes += not all(whole)
        if count < 0:
            time.sleep(0.0005)
    say("none follows a part", lambda: holes == 0)
    a.close()
    say("it ended", lambda: os.waitpid(reader, 0)[1])


@scene
def so_many_messages_go_at_once() -> None:
    a, b = pair()
    say("sent", lambda: raw("sendmmsg", a.fileno(), several([b"x"] * 1500), 1500, 0))
    a.close()
    say("all", lambda: len(b.recv(9999, socket.MSG_WAITALL)))


@scene
def several_messages_are_waited_for() -> None:
    def wait_for_two() -> None:
        a, b = pair()
        a.sendall(b"12345")
        late = threading.Timer(0.2, a.sendall, (b"67890",))
        late.start()
        rooms = [ctypes.create_string_buffer(10) for _ in range(2)]
        messages = several([b""] * 2)
        for counted, room in zip(messages, rooms, strict=True):
            place = ctypes.cast(room, ctypes.c_char_p)
            counted.message.parts = ctypes.pointer(Part(place, len(room)))
        say("got", lambda: raw("recvmmsg", b.fileno(), messages, 2, 0, None))
        say("lengths", lambda: [it.length for it in messages])
        say("texts", lambda: [it.value for it in rooms])

    ended(wait_for_two)


@scene
def nothing_is_read_or_written() -> None:
    nothing, room = Part(None, 0), ctypes.create_string_buffer(8)
    one, none = ctypes.byref(nothing), Message()
    filled = Message(parts=ctypes.pointer(nothing), part_count=1)

    def ask(calls: list[tuple[str, tuple[object, ...]]]) -> None:
        a, b = pair()
        for name, arguments in calls:
            say(name, lambda it=name, more=arguments: raw(it, a.fileno(), *more))
        a.setblocking(False)
        say("not blocking", lambda: raw("readv", a.fileno(), one, 1))
        say("not blocking", lambda: raw("recvmsg", a.fileno(), ctypes.byref(none), 0))
        say("not blocking", lambda: raw("sendmsg", a.fileno(), ctypes.byref(none), 0))
        a.shutdown(socket.SHUT_WR)
        for name, arguments in calls:
            if name.startswith("write"):
                what = f"{name} at the end"
                say(what, lambda it=name, more=arguments: raw(it, a.fileno(), *more))
        say("empty at the end", lambda: raw("send", a.fileno(), b"", 0, 0))
        say("the end", lambda: b.recv(9))

    for calls in (
        [("readv", (one, 1)), ("readv", (None, 0)), ("read", (None, 0))],
        [("preadv2", (one, 1, ctypes.c_long(-1), 0)), ("readv", (one, -1)), ("readv", (one, 1025))],
        [("__read_chk", (room, ctypes.c_size_t(0), ctypes.c_size_t(1)))],
        [("writev", (None, 0)), ("writev", (one, 1)), ("write", (None, 0)), ("write", (b"", 0))],
        [("sendmsg", (ctypes.byref(filled), 0))],
    ):
        ended(lambda calls=calls: ask(calls))


@scene
def copies_keep_options() -> None:
    a, b = shared(b"unread")
    waits(b, socket.SO_RCVTIMEO, 1)
    waits(b, socket.SO_SNDTIMEO, 3)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5))
    b.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    b.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 16)
    # After that one, which sets it too.
    b.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 3)
    b.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000)
    b.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 99)
    b.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 33)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 33333)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 44444)
    fcntl.fcntl(b, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(b, fcntl.F_SETSIG, signal.SIGUSR2)
    command = [sys.executable, "-c", TELLS_OPTIONS]
    say("it ended", lambda: subprocess.run(command, stdin=b, env=plain(), check=False).returncode)
    b.close()
    say("the end", lambda: a.recv(9))


@scene
def masks_let_signals_in_without_waiting() -> None:
    def let_in() -> None:
        a, b = pair()
        hits = caught()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        empty = ctypes.create_string_buffer(128)
        entry = ctypes.create_string_buffer(struct.pack("ihh", a.fileno(), select.POLLIN, 0), 8)
        chosen = bytearray(128)
        chosen[a.fileno() // 8] |= 1 << a.fileno() % 8
        for ready in (False, True):
            for span in (NO_WAIT, A_SECOND):
                given = {
                    "ppoll": (entry, 1, span, empty),
                    "pselect": (a.fileno() + 1, bytes(chosen), None, None, span, empty),
                }
                for name, arguments in given.items():
                    signal.raise_signal(signal.SIGUSR1)
                    say(name, lambda it=name, more=arguments: raw(it, *more))
                    say("caught", lambda: len(hits))
            b.send(b"x")
            settled(0.02)
            say("ready", lambda it=ready: not it)
        say("pending", lambda: len(signal.sigpending()))

    ended(let_in)


@scene
def many_events_are_asked_for() -> None:
    def ask() -> None:
        a, b = pair()
        room = mmap.mmap(-1, 12 * (2 << 20))
        events = (ctypes.c_char * len(room)).from_buffer(room)
        with select.epoll() as waiter:
            waiter.register(a, select.EPOLLIN)
            for _ in range(2):
                waiter.poll(0.02)
            b.send(b"x")
            for _ in range(2):
                say("found", lambda: raw("epoll_wait", waiter.fileno(), events, 2 << 20, 900))
                what, whose = struct.unpack_from("<Ii", room)
                say("it is the connection", lambda it=(what, whose): (it[0], it[1] == a.fileno()))

    ended(ask)


def made_by_clone() -> int:
    """Make a process by the kernel's call alone."""
    arguments = (ctypes.c_uint64 * CLONE3_ARGUMENTS)()
    arguments[4] = signal.SIGCHLD
    return int(LIBC.syscall(CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments)))


@scene
def processes_made_by_other_calls_share() -> None:
    def share(make: Callable[[], int]) -> None:
        a, b = pair()
        for end in (a, b):
            waits(end, socket.SO_RCVTIMEO, 2)
        process = make()
        if process == 0:
            a.close()
            b.close()
            os._exit(0)
        os.waitpid(process, 0)
        for turn in range(200):
            (a, b)[turn % 2].sendall(b"ping")
            assert (b, a)[turn % 2].recv(4, socket.MSG_WAITALL) == b"ping"
        process = make()
        if process == 0:
            signal.alarm(5)
            a.close()
            asked = b.recv(4, socket.MSG_WAITALL) == b"ques"
            b.sendall(b"answer")
            os._exit(0 if asked else 1)
        b.close()
        a.sendall(b"ques")
        say("answer", lambda: a.recv(6, socket.MSG_WAITALL))
        say("the end", lambda: a.recv(9))
        say("its end", lambda: os.waitpid(process, 0)[1])

    for make in (LIBC._Fork, made_by_clone):
        ended(lambda make=make: share(make))


@scene
def ends_that_others_make_reach_programs() -> None:
    a, b = shared(b"hello")
    command = [sys.executable, "-c", SENDS_WHEN_TOLD, str(b.fileno())]
    with subprocess.Popen(
        command,
        pass_fds=[b.fileno()],
        env=plain(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdout.readline()
        b.shutdown(socket.SHUT_WR)
        say("the end", lambda: a.recv(9))
        # It comes to the program as soon as somebody sees it.
        time.sleep(0.5)
        started.stdin.write("go\n")
        started.stdin.flush()
        print(started.stdout.read(), end="", flush=True)
    say("it ended", lambda: started.returncode)
    b.close()

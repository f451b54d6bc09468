"""Scenes of processes that end with a connection, and of programs that are started with one."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from calls_leaving import answered_by, last, passed_to_itself
from calls_stage import say, scene, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENT_S = 4


def awaited(end: socket.socket, count: int) -> tuple[int, str]:
    """Receive so many bytes, or until the end or an error; how many came, and how it ended."""
    got, until = 0, time.monotonic() + PATIENT_S
    end.setblocking(False)
    while time.monotonic() < until:
        try:
            some = len(end.recv(count - got or 1))
        except BlockingIOError:
            time.sleep(0.01)
            continue
        except OSError as why:
            return got, type(why).__name__
        if not some:
            return got, "the end"
        got += some
    return got, "no more"


def killed() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


ENDS: dict[str, Callable[[], None]] = {
    "exit": lambda: os._exit(0),
    "program": lambda: os.execv("/bin/true", ["true"]),
    "kill": killed,
}


PROGRAM = """
import select, socket, sys, time
end = socket.socket(fileno=int(sys.argv[1]))
def written():
    try:
        return end.send(b"x")
    except OSError as why:
        return type(why).__name__
def read():
    count = 0
    try:
        while some := end.recv(1 << 20):
            count += len(some)
    except OSError as why:
        return count, type(why).__name__
    return count, "the end"
"""
"""What a program begins with that is started with a connection."""


def started(end: socket.socket, does: str) -> int:
    """Start a program that has a connection, which others have too; its process."""
    child = os.fork()
    if not child:
        end.set_inheritable(True)
        program = [sys.executable, "-c", PROGRAM + does, str(end.fileno())]
        os.execv(program[0], program)
    return child


def lingers(seconds: int | None, ends: Callable[[], None]) -> Callable[[socket.socket], None]:
    """Linger for so long, if at all, and end."""

    def goes_on(end: socket.socket) -> None:
        if seconds is not None:
            linger = struct.pack("ii", 1, seconds)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        settled(0.2)
        ends()

    return goes_on


@scene
def who_lingers_for_no_time_resets_however_he_ends() -> None:
    for how, ends in ENDS.items():
        for seconds in (0, None):
            child, end = answered_by(lingers(seconds, ends))
            last(end)
            print(f"  {how} {seconds}: {awaited(end, 1)}", flush=True)
            end.close()
            os.waitpid(child, 0)


def leaves_unread(end: socket.socket) -> None:
    """Look at nothing, and go."""
    settled(0.6)
    os._exit(0)


@scene
def who_ends_with_something_unread_resets_who_has_started_a_program() -> None:
    for inherited in (True, False):
        child, end = answered_by(leaves_unread)
        last(end)
        end.set_inheritable(inherited)
        end.send(bytes(2410))
        settled(0.1)
        os.system("true")
        print(f"  {inherited}: {awaited(end, 1)}", flush=True)
        say("error", lambda end=end: end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        end.close()
        os.waitpid(child, 0)


def sends_and_stays(count: int, more: int = 0) -> Callable[[socket.socket], None]:
    """Send so much, and some more later, and look at nothing."""

    def goes_on(end: socket.socket) -> None:
        end.send(bytes(count))
        settled(1.5)
        end.send(bytes(more))
        settled(4)

    return goes_on


def gone(child: int) -> None:
    """End a process that would stay."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@scene
def a_program_shuts_down_the_receiving_of_all_that_have_its_connection() -> None:
    for how, count in (("SHUT_RD", 66), ("SHUT_RDWR", 100_000)):
        for stays in (0, 9):
            child, end = answered_by(sends_and_stays(count))
            last(end)
            settled(0.1)
            program = started(end, f"end.shutdown(socket.{how}); time.sleep({stays})")
            settled(1)
            print(f"  {how} {count} {stays}: {awaited(end, count + 1)}", flush=True)
            end.close()
            gone(program)
            gone(child)


@scene
def who_sleeps_hears_that_a_program_shuts_its_receiving_down() -> None:
    for how in ("SHUT_RD", "SHUT_RDWR"):
        child, end = answered_by(sends_and_stays(66))
        last(end)
        settled(0.1)
        # What sleeps says when it was woken; whoever sleeps on says nothing.
        heard: list[str] = []

        def receive(end: socket.socket = end, heard: list[str] = heard) -> None:
            count = sum(iter(lambda: len(end.recv(1000)), 0))
            heard.append(f"received {count}")

        def wait(end: socket.socket = end, heard: list[str] = heard) -> None:
            with select.epoll() as waiter:
                waiter.register(end, select.EPOLLRDHUP | select.EPOLLET)
                heard.append(f"told {waiter.poll(PATIENT_S)[0][1]:x}")

        program = started(end, f"time.sleep(0.7); end.shutdown(socket.{how}); time.sleep(9)")
        sleepers = [threading.Thread(target=sleeper, daemon=True) for sleeper in (receive, wait)]
        for sleeper in sleepers:
            sleeper.start()
        for sleeper in sleepers:
            sleeper.join(PATIENT_S)
        print(f"  {how}: {sorted(heard)}", flush=True)
        gone(program)
        gone(child)
        end.close()


def read_by_a_program(end: socket.socket) -> str:
    """Let a program read all that is left."""
    read = subprocess.run(["wc", "-c"], stdin=end, capture_output=True, text=True, check=False)
    return read.stdout.strip()


@scene
def what_is_left_is_read_after_both_directions_were_shut_down() -> None:
    for count in (66, 40_000):
        for way in ("shared", "program", "message"):
            child, end = answered_by(sends_and_stays(count))
            last(end)
            settled(0.1)
            end.shutdown(socket.SHUT_RDWR)
            if way == "shared":
                program = started(end, "time.sleep(9)")
                settled(0.3)
                print(f"  {way} {count}: {awaited(end, count + 1)}", flush=True)
                gone(program)
            elif way == "program":
                print(f"  {way} {count}: {read_by_a_program(end)}", flush=True)
            else:
                end = passed_to_itself(end)
                print(f"  {way} {count}: {awaited(end, count + 1)}", flush=True)
            end.close()
            gone(child)


def leaves_and_sends(way: str) -> Callable[[socket.socket], None]:
    """Send something, leave the library's sight, and send more."""

    def goes_on(end: socket.socket) -> None:
        end.send(bytes(873))
        settled(0.3)
        if way == "program":
            os.waitpid(started(end, "time.sleep(1.2); written(); time.sleep(9)"), 0)
        end = passed_to_itself(end)
        settled(1.2)
        end.send(bytes(931))
        settled(9)

    return goes_on


@scene
def what_comes_after_both_directions_were_shut_down_is_refused() -> None:
    for way in ("program", "message"):
        for first, second in ((socket.SHUT_RD, socket.SHUT_WR), (socket.SHUT_WR, socket.SHUT_RD)):
            child, end = answered_by(leaves_and_sends(way))
            last(end)
            settled(0.1)
            end.shutdown(first)
            settled(0.8)
            end.shutdown(second)
            settled(1.2)
            print(f"  {way} {first}: {awaited(end, 9999)}", flush=True)
            end.close()
            gone(child)


@scene
def who_is_killed_without_another_call_ends_in_order_for_a_program() -> None:
    child, end = answered_by(lambda _: settled(9))
    last(end)
    program = started(end, "time.sleep(1); print('  read', read())")
    settled(0.7)
    gone(child)
    os.waitpid(program, 0)
    say("read", lambda: end.recv(1))
    end.close()


def beside() -> int:
    """Let another process share all connections, and do nothing with them; its number."""
    other = os.fork()
    if not other:
        settled(9)
        os._exit(0)
    return other


def ready(end: socket.socket) -> int:
    """Which events it has now."""
    waiter = select.poll()
    waiter.register(end, select.POLLIN | select.POLLOUT)
    return dict(waiter.poll(0)).get(end.fileno(), 0)


def first_send(end: socket.socket) -> str:
    """Send a byte; what it says."""
    try:
        return str(end.send(b"x", socket.MSG_NOSIGNAL))
    except OSError as why:
        return type(why).__name__


@scene
def a_reset_is_told_to_those_beside_a_program() -> None:
    for looks in (False, True):
        for sends in (False, True):
            child, end = answered_by(leaves_unread)
            last(end)
            other = beside()
            end.send(bytes(2410))
            os.waitpid(child, 0)
            settled(0.1)
            if looks:
                print(f"  {ready(end):x}", flush=True)
            program = started(end, "time.sleep(9)")
            settled(0.5)
            told = first_send(end) if sends else awaited(end, 1)
            print(f"  {looks}: {told}, then {ready(end):x}", flush=True)
            gone(program)
            gone(other)
            end.close()


@scene
def a_reset_that_one_beside_a_program_has_yet_to_hear_of_is_an_event() -> None:
    child, end = answered_by(leaves_unread)
    last(end)
    end.send(bytes(2410))
    os.waitpid(child, 0)
    settled(0.1)
    other = beside()
    program = started(end, "time.sleep(9)")
    settled(0.5)
    print(f"  {ready(end):x}, {first_send(end)}, {ready(end):x}, {first_send(end)}", flush=True)
    gone(program)
    gone(other)
    end.close()


def copiers(end: socket.socket, *known: int) -> list[int]:
    """Processes that have an end, but for this one and those that are known."""
    link, others = f"socket:[{os.fstat(end.fileno()).st_ino}]", []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        process = int(folder.parent.name)
        with contextlib.suppress(OSError):
            if any(os.readlink(it) == link for it in folder.iterdir()):
                others.append(process)
    return sorted(set(others) - {os.getpid(), *known})


def leaves_on_signal(end: socket.socket) -> None:
    """Send a byte, look at nothing, and go when told to."""
    end.send(b"y")
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    settled(9)


def sends_on_signal(end: socket.socket) -> None:
    """Send a byte, and more when told to, and stay."""
    end.send(b"y")
    signal.signal(signal.SIGUSR1, lambda *_: end.send(bytes(100)))
    settled(9)


def started_to(end: socket.socket, does: str) -> int:
    """Start a program that has a connection and does something with it once it gets a signal."""
    waits = "import signal; signal.pthread_sigmask(0, [10]); signal.sigtimedwait([10], 9); "
    return started(end, waits + does + "; time.sleep(9)")


@contextlib.contextmanager
def stopped(*processes: int) -> Iterator[None]:
    """Let processes do nothing meanwhile."""
    for it in processes:
        os.kill(it, signal.SIGSTOP)
    yield
    for it in processes:
        os.kill(it, signal.SIGCONT)


def signalled(process: int) -> None:
    """Let a process do what it waits to do."""
    os.kill(process, signal.SIGUSR1)
    settled(0.3)


@scene
def a_reset_of_which_a_send_for_a_program_was_told_is_told_to_those_beside_it() -> None:
    child, end = answered_by(leaves_on_signal)
    last(end)
    settled(0.1)
    program = started_to(end, "end.send(bytes(439))")
    settled(0.5)
    say("what was left", lambda: end.recv(9))
    end.send(bytes(10))
    settled(0.1)
    with stopped(*copiers(end, program, child)):
        signalled(program)
        signalled(child)
        os.waitpid(child, 0)
    settled(0.3)
    print(f"  {ready(end):x}, {first_send(end)}, {ready(end):x}, {first_send(end)}", flush=True)
    gone(program)
    end.close()


@scene
def what_is_given_to_a_program_that_has_shut_all_down_is_left_to_those_beside_it() -> None:
    child, end = answered_by(sends_on_signal)
    last(end)
    settled(0.1)
    program = started_to(end, "end.shutdown(socket.SHUT_RDWR)")
    settled(0.5)
    say("what was left", lambda: end.recv(9))
    with stopped(*copiers(end, program, child)):
        signalled(child)
        signalled(program)
    settled(0.3)
    print(f"  {awaited(end, 100)}", flush=True)
    gone(program)
    gone(child)
    end.close()


@scene
def who_reads_no_more_is_told_that_the_other_end_was_killed_with_something_unread() -> None:
    child, end = answered_by(lambda _: settled(9))
    last(end)
    end.shutdown(socket.SHUT_RD)
    end.send(bytes(2410))
    say("before", lambda: end.recv(1))
    gone(child)
    settled(0.1)
    for turn in range(2):
        say(f"after {turn}", lambda: end.recv(1))
    end.close()


@scene
def what_is_left_is_read_while_a_copy_of_the_number_is_on_its_way() -> None:
    for takes in (False, True):
        child, end = answered_by(sends_and_stays(1000))
        last(end)
        settled(0.1)
        near, far = socket.socketpair()
        sender = os.fork()
        if not sender:
            socket.send_fds(near, [b"x"], [end.fileno()])
            os._exit(0)
        os.waitpid(sender, 0)
        settled(0.3)
        taken = socket.socket(fileno=socket.recv_fds(far, 1, 1)[1][0]) if takes else end
        print(f"  {takes}: {awaited(taken, 1000)}", flush=True)
        for it in (near, far, taken, end):
            it.close()
        gone(child)


@scene
def a_program_looks_at_all_that_is_there() -> None:
    child, end = answered_by(sends_and_stays(7, 3))
    last(end)
    settled(0.1)
    looks = "time.sleep(2); print('  looked at', len(end.recv(20, socket.MSG_PEEK)))"
    os.waitpid(started(end, looks + "; print('  read', len(end.recv(20)))"), 0)
    end.close()
    gone(child)


MISSES = """
time.sleep(0.3)
misses = 0
for _ in range(300):
    try:
        end.recv(9, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        misses += 1
    time.sleep(0.001)
print("  it missed", misses, "times what it read then:", read())
"""


def sends_little_and_goes(end: socket.socket) -> None:
    """Send a few bytes, and go without a look at what has come."""
    end.send(bytes(7))
    settled(0.6)
    os._exit(0)


@scene
def what_a_program_has_yet_to_read_is_there_while_others_poll() -> None:
    for leaves in (0, 11):
        child, end = answered_by(sends_little_and_goes)
        last(end)
        end.send(bytes(leaves))
        os.waitpid(child, 0)
        settled(0.1)
        program = started(end, MISSES)
        while os.waitpid(program, os.WNOHANG) == (0, 0):
            ready(end)
            time.sleep(0.001)
        end.close()


def sends_and_goes(end: socket.socket) -> None:
    """Send more than is given to a program at a time, and go."""
    end.send(bytes(100_000))
    end.close()


@scene
def a_program_reads_what_came_before_the_end_though_it_cannot_write() -> None:
    for writes in (0, 1, 2):
        child, end = answered_by(sends_and_goes)
        last(end)
        os.waitpid(child, 0)
        # The copy's user hears of a refusal later than the kernel's.
        does = f"for _ in range({writes}): written(); time.sleep(0.1)"
        os.waitpid(started(end, f"{does}\nprint('  read', read())"), 0)
        end.close()


@scene
def a_program_hears_of_an_end_by_exit_as_of_any_other() -> None:
    for ends in (lambda end: os._exit(0), lambda end: end.close()):
        child, end = answered_by(ends)
        last(end)
        os.waitpid(child, 0)
        hears = """
ready = select.poll(); ready.register(end, select.POLLIN | select.POLLRDHUP)
print("  told", ready.poll(1000)[0][1], end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
print("  read", read(), "wrote", written())
"""
        os.waitpid(started(end, hears), 0)
        end.close()

"""What the live library adds to calls on connections that stay with the kernel, counted.

Times are noisy where others have the machine, too; these counts repeat. A program calls on a
connection that stays with the kernel, since its other end runs without the library: valgrind's
callgrind counts the instructions, and `strace` the system calls, with the library and without.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 1_000
"""Rounds that are counted."""
CONSTANT = 145
"""System calls that a connection may cost until it is known that it stays with the kernel."""
PROGRAM = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
static char bytes[64];
static int fd, ep;
static struct epoll_event event = {.events = EPOLLIN}, got[8];
static void need(int holds) { if (!holds) _exit(3); }
static void *nothing(void *_) { pause(); return 0; }
static void by_send(void) { need(send(fd, bytes, 8, 0) == 8); need(recv(fd, bytes, 64, 0) == 8); }
static void by_write(void) { need(write(fd, bytes, 8) == 8); need(read(fd, bytes, 64) == 8); }
static void by_vector(void) {
    struct iovec from = {bytes, 8}, to = {bytes, 64};
    need(writev(fd, &from, 1) == 8);
    need(readv(fd, &to, 1) == 8);
}
static void by_message(void) {
    struct iovec from = {bytes, 8}, to = {bytes, 64};
    struct msghdr out = {.msg_iov = &from, .msg_iovlen = 1}, in = {.msg_iov = &to, .msg_iovlen = 1};
    need(sendmsg(fd, &out, 0) == 8);
    need(recvmsg(fd, &in, 0) == 8);
}
static void by_poll(void) {
    struct pollfd it = {fd, POLLIN, 0};
    need(send(fd, bytes, 8, 0) == 8);
    need(poll(&it, 1, -1) == 1);
    need(recv(fd, bytes, 64, 0) == 8);
}
static void by_select(void) {
    fd_set all;
    FD_ZERO(&all);
    FD_SET(fd, &all);
    need(send(fd, bytes, 8, 0) == 8);
    need(select(fd + 1, &all, 0, 0, 0) == 1);
    need(recv(fd, bytes, 64, 0) == 8);
}
static void put(int how, int events) {
    event.events = events;
    need(!epoll_ctl(ep, how, fd, &event));
}
static void by_epoll(void) {
    need(send(fd, bytes, 8, 0) == 8);
    need(epoll_wait(ep, got, 8, -1) == 1);
    need(recv(fd, bytes, 64, 0) == 8);
}
static void by_change(void) {
    put(EPOLL_CTL_MOD, EPOLLOUT);
    need(send(fd, bytes, 8, 0) == 8);
    put(EPOLL_CTL_MOD, EPOLLIN);
    need(recv(fd, bytes, 64, 0) == 8);
}
/* What redis-benchmark does for each request. */
static void by_turns(void) {
    need(epoll_wait(ep, got, 8, -1) == 1);
    need(write(fd, bytes, 8) == 8);
    put(EPOLL_CTL_DEL, 0);
    put(EPOLL_CTL_ADD, EPOLLIN);
    need(epoll_wait(ep, got, 8, -1) == 1);
    need(read(fd, bytes, 64) == 8);
    put(EPOLL_CTL_DEL, 0);
    put(EPOLL_CTL_ADD, EPOLLOUT);
}
static struct { char *name; void (*round)(void); int events; } all[] = {
    {"send", by_send}, {"write", by_write}, {"vector", by_vector}, {"message", by_message},
    {"poll", by_poll}, {"select", by_select}, {"epoll", by_epoll, EPOLLIN},
    {"change", by_change, EPOLLIN}, {"turns", by_turns, EPOLLOUT}};
/* Every call fails as the kernel says, on the connection, with nothing to read, and on none. */
static void fail(int at, int why) {
    struct iovec part = {bytes, 8};
    struct msghdr it = {.msg_iov = &part, .msg_iovlen = 1};
    need(read(at, bytes, 8) == -1 && errno == why);
    need(readv(at, &part, 1) == -1 && errno == why);
    need(recv(at, bytes, 8, 0) == -1 && errno == why);
    need(recvfrom(at, bytes, 8, 0, 0, 0) == -1 && errno == why);
    need(recvmsg(at, &it, 0) == -1 && errno == why);
    if (why == EAGAIN) return;
    need(write(at, bytes, 8) == -1 && errno == why);
    need(writev(at, &part, 1) == -1 && errno == why);
    need(send(at, bytes, 8, 0) == -1 && errno == why);
    need(sendto(at, bytes, 8, 0, 0, 0) == -1 && errno == why);
    need(sendmsg(at, &it, 0) == -1 && errno == why);
}
static void fail_all(void) {
    need(!fcntl(fd, F_SETFL, O_NONBLOCK));
    fail(fd, EAGAIN);
    need(!fcntl(fd, F_SETFL, 0));
    fail(-1, EBADF);
    fail(1000, EBADF);
    fail(70000, EBADF);
}
static void repeat(void (*round)(void), int count) { while (count--) round(); }
__attribute__((noinline, noclone)) void counted(void (*round)(void), int count) {
    while (count--) round();
    __asm__ volatile("");
}
/* program PORT NAME COUNT KNOWN THREADS */
int main(int words, char **word) {
    need(words == 6);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    there.sin_port = htons(atoi(word[1]));
    pthread_t thread;
    if (atoi(word[5]) > 1) need(!pthread_create(&thread, 0, nothing, 0));
    fd = socket(AF_INET, SOCK_STREAM, 0);
    ep = epoll_create1(0);
    need(!connect(fd, (void *)&there, sizeof there));
    int which = 0;
    while (strcmp(all[which].name, word[2])) which++;
    if (all[which].events) put(EPOLL_CTL_ADD, all[which].events);
    if (atoi(word[4]) == 1) {
        /* Such a connection is the kernel's at the first look, with the same calls afterwards. */
        int low = 2;
        need(!setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
        repeat(all[which].round, 100);
    } else if (atoi(word[4]) == 2) {
        /* The other end is looked for until it has answered so often. */
        repeat(all[which].round, 1400);
    }
    counted(all[which].round, atoi(word[3]));
    fail_all();
    _exit(0);
}
"""


NOT_YET, AT_ONCE, AFTER_ALL = 0, 1, 2


@dataclass(frozen=True)
class Case:
    """A way to move a message there and back."""

    name: str
    """What the program calls it."""
    calls: str
    """What it calls for each message."""
    most: int
    """Instructions that the library, as shipped, may add to these: some 15 % more than it does.
    Built in parts (`codegen-units`) it adds up to three times as many."""
    threads: int = 1
    known: int = AT_ONCE
    """Whether and how it is known by then that the connection stays with the kernel."""
    off: bool = False
    """Whether the library is told to leave everything to the kernel."""

    def environment(self, library: Path) -> dict[str, str]:
        """Return what loads the library."""
        return {"LD_PRELOAD": str(library), **({"WEFT_LIVE": "off"} if self.off else {})}

    def __str__(self) -> str:
        """Say what is counted."""
        known = ", not yet known to be the kernel's" if self.known == NOT_YET else ""
        after = ", off" if self.off else known
        return f"{self.calls}, {self.threads} thread(s){after}"


CASES = (
    Case("send", "send, recv", 26),
    Case("write", "write, read", 24),
    Case("vector", "writev, readv", 26),
    Case("message", "sendmsg, recvmsg", 20),
    Case("poll", "send, poll, recv", 98),
    Case("select", "send, select, recv", 280),
    Case("epoll", "send, epoll_wait, recv", 39),
    Case("change", "send, recv, 2 epoll_ctl", 82),
    Case("turns", "write, read, 2 epoll_wait, 4 epoll_ctl", 186, known=AFTER_ALL),
    Case("send", "send, recv", 46, threads=2),
    Case("turns", "write, read, 2 epoll_wait, 4 epoll_ctl", 860, threads=2),
    Case("send", "send, recv", 150, known=NOT_YET),
    Case("turns", "write, read, 2 epoll_wait, 4 epoll_ctl", 680, known=NOT_YET),
    # The first look of a call is at what holds for most: the library is on.
    Case("vector", "writev, readv", 34, known=NOT_YET, off=True),
    Case("message", "sendmsg, recvmsg", 32, known=NOT_YET, off=True),
    Case("poll", "send, poll, recv", 51, known=NOT_YET, off=True),
    Case("select", "send, select, recv", 47, known=NOT_YET, off=True),
    Case("turns", "write, read, 2 epoll_wait, 4 epoll_ctl", 111, known=NOT_YET, off=True),
    Case("turns", "write, read, 2 epoll_wait, 4 epoll_ctl", 111, threads=2, off=True),
)


@contextlib.contextmanager
def echo() -> Iterator[int]:
    """A server without the library that sends back what comes; its port."""

    def answer(end: socket.socket) -> None:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with end, contextlib.suppress(ConnectionResetError):
            while some := end.recv(100):
                end.sendall(some)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                end = listener.accept()[0]
                threading.Thread(target=answer, args=[end], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def run(command: list[str], environment: dict[str, str]) -> str:
    """Run a command; what it says on `stderr`."""
    environment = {**os.environ, **environment}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=300
    ).stderr


def instructions(program: list[str], environment: dict[str, str]) -> int:
    """Count the instructions of what the program does in `counted`."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    said = run([*valgrind, "--toggle-collect=counted", *program], environment)
    found = re.search(r"Collected : (\d+)", said)
    if found is None:
        raise SystemExit(f"valgrind says no count: {said}")
    return int(found[1])


def system_calls(program: list[str], environment: dict[str, str]) -> int:
    """Count the system calls of a program."""
    added = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    said = run(["strace", "-f", "-c", *added, *program], {})
    found = re.search(r"^100\.00\s+\S+\s+\S+\s+(\d+)\s.*total$", said, re.MULTILINE)
    if found is None:
        raise SystemExit(f"strace says no count: {said}")
    return int(found[1])


def command(program: Path, port: int, case: Case, *, known: int) -> list[str]:
    """Return the command that runs a case."""
    return [str(program), str(port), case.name, *(str(it) for it in (COUNT, known, case.threads))]


def added(library: Path, program: Path, counts_calls: bool) -> Iterator[dict[str, object]]:
    """What the library adds in each case, one after the other."""
    with echo() as port:
        for case in CASES:
            environments: tuple[dict[str, str], ...] = ({}, case.environment(library))
            # Without the library there is nothing to be known.
            without, with_it = (
                instructions(command(program, port, case, known=known), environment)
                for environment, known in zip(environments, (NOT_YET, case.known), strict=True)
            )
            yield {
                "case": f"added to {case}",
                "unit": "instructions",
                "added": round((with_it - without) / COUNT, 1),
                "most": case.most,
            }
            if counts_calls and case.known == AFTER_ALL:
                alike = command(program, port, case, known=case.known)
                calls, more = (system_calls(alike, it) for it in environments)
                yield {
                    "case": f"added to the same, {calls} of the program",
                    "unit": "system calls",
                    "added": more - calls,
                    "most": CONSTANT,
                }

"""Scenes of threads and processes that end, fork or jump while others go on."""

from __future__ import annotations

import os
import resource
import select
import socket
import subprocess
import sys

from calls_stage import compiled, say, scene, settled

LATE_S = 3
LITTLE = 600 << 20
"""As much address space as a program may have that needs most of it."""


def answered_once_more(listener: socket.socket, rounds: int) -> None:
    """Answer so many messages, read the last, and end without closing."""
    end = listener.accept()[0]
    for _ in range(rounds):
        end.recv(8)
        end.send(b"N")
    # The other end sleeps by then.
    settled(0.005)
    end.recv(16, socket.MSG_WAITALL)
    os._exit(0)


@scene
def an_end_is_told_at_whatever_moment_the_connection_joins() -> None:
    for how in ("level", "edge", "recv"):
        told = []
        # One of these numbers lets this end join when the other has just switched.
        for rounds in range(1, 22):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                child = os.fork()
                if not child:
                    answered_once_more(listener, rounds)
                with socket.create_connection(listener.getsockname()) as end:
                    told.append(end_after(end, rounds, how))
                os.waitpid(child, 0)
        print(f"  {how}: {set(told)}", flush=True)


def end_after(end: socket.socket, rounds: int, how: str) -> bytes:
    """Exchange so many messages, send one more, and say what comes then."""
    with select.epoll() as waiter:
        waiter.register(end, select.EPOLLIN | (select.EPOLLET if how == "edge" else 0))
        for _ in range(rounds):
            end.send(b"12345678")
            while how != "recv" and waiter.poll(LATE_S) and not (last := seen(end)):
                pass
            last = end.recv(1) if how == "recv" else last
        end.send(bytes(16))
        if how == "recv":
            return end.recv(1)
        last = None
        while waiter.poll(LATE_S) and not (last := seen(end)):
            pass
        return last or b"nothing"


def seen(end: socket.socket) -> bytes | None:
    """Say what there is; nothing if there is nothing yet."""
    try:
        return end.recv(1, socket.MSG_DONTWAIT) or b"the end"
    except BlockingIOError:
        return None


FORKS = r"""
#include <sys/wait.h>
static volatile int over;
static void *make(void *none) {
    while (!over) {
        int ends[2];
        join(ends);
        for (int round = 0; round < 300; round++)
            need(send(ends[round % 2], "x", 1, 0) == 1
                 && recv(ends[1 - round % 2], room, 1, 0) == 1);
        close(ends[0]), close(ends[1]);
    }
    return none;
}
int main(int count, char **words) {
    pthread_t threads[2];
    char *much = malloc(40 << 20), byte;
    /* Forking takes longer by it. */
    memset(much, 1, 40 << 20);
    for (int looks = 0; looks < 2; looks++) {
        int ill = 0;
        over = 0;
        for (int at = 0; at < 2; at++) need(!pthread_create(&threads[at], 0, make, 0));
        for (int forks = 0; forks < 250; forks++) {
            int status;
            pid_t child = fork();
            if (!child) {
                for (int fd = 3; fd < 40; fd++) {
                    if (looks) recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
                    close(fd);
                }
                _exit(0);
            }
            need(waitpid(child, &status, 0) == child);
            ill += status != 0;
        }
        over = 1;
        for (int at = 0; at < 2; at++) pthread_join(threads[at], 0);
        printf("  %d: %d ended ill\n", looks, ill);
        fflush(stdout);
    }
    return 0;
}
"""
"""Forks while other threads make connections and close them."""


@scene
def forks_beside_threads_that_make_connections() -> None:
    compiled(FORKS)


JUMPS_AWAY = r"""
#include <sys/wait.h>
static sigjmp_buf place;
static volatile sig_atomic_t may_jump;
static void jump(int signal) { if (may_jump) may_jump = 0, siglongjmp(place, signal); }
static void *go_on(void *accelerated) {
    int instance = epoll_create1(0), done = 0;
    struct epoll_event event = {EPOLLIN};
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (!child) _exit(0);
        done += waitpid(child, 0, 0) == child;
        done += !epoll_ctl(instance, EPOLL_CTL_ADD, *(int *)accelerated, &event);
        done += !epoll_ctl(instance, EPOLL_CTL_DEL, *(int *)accelerated, &event);
    }
    close(instance);
    printf("  another did %d of 60\n", done);
    fflush(stdout);
    return 0;
}
int main(void) {
    struct sigaction action = {.sa_handler = jump};
    struct itimerval each = {{0, 53}, {0, 53}}, none = {{0, 0}, {0, 0}};
    int instance = epoll_create1(0), ends[2], other[2];
    join(ends), join(other);
    sigaction(SIGALRM, &action, 0);
    for (int what = 0; what < 3; what++) {
        struct epoll_event event = {EPOLLIN};
        pthread_t thread;
        sigset_t set;
        if (what) epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event);
        setitimer(ITIMER_REAL, &each, 0);
        for (volatile int jumps = 0; jumps < 15000; jumps++)
            if (!sigsetjmp(place, 1)) {
                may_jump = 1;
                while (may_jump)
                    switch (what) {
                    case 0:
                        epoll_ctl(instance, EPOLL_CTL_ADD, ends[0], &event);
                        epoll_ctl(instance, EPOLL_CTL_DEL, ends[0], &event);
                        break;
                    case 1: epoll_wait(instance, &event, 1, 1); break;
                    default: epoll_ctl(instance, EPOLL_CTL_MOD, ends[0], &event);
                    }
            }
        setitimer(ITIMER_REAL, &none, 0);
        sigemptyset(&set);
        sigprocmask(SIG_SETMASK, &set, 0);
        need(!pthread_create(&thread, 0, go_on, other + what % 2));
        pthread_join(thread, 0);
        if (what == 0) close(instance), instance = epoll_create1(0);
    }
    need(send(ends[1], "x", 1, 0) == 1);
    struct epoll_event event;
    printf("  told %d\n", epoll_wait(instance, &event, 1, 5000));
    return 0;
}
"""
"""Jumps out of handlers that interrupt calls on `epoll` instances; then another thread goes on."""


@scene
def who_jumps_out_of_a_handler_leaves_nothing_locked() -> None:
    compiled(JUMPS_AWAY)


@scene
def a_program_has_the_address_space_that_it_may_have() -> None:
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):

        def limit(kind: int = kind) -> None:
            resource.setrlimit(kind, (LITTLE, LITTLE))

        code = f"print(len(bytearray({LITTLE * 3 // 4})))"
        command = [sys.executable, "-c", code]
        say("it ended", lambda it=command, to=limit: subprocess.call(it, preexec_fn=to))


SECOND_LIBRARY = r"""
#include <dlfcn.h>
typedef ssize_t receive(int, void *, size_t, int);
typedef ssize_t transmit(int, const void *, size_t, int);
int main(void) {
    int ends[2];
    join(ends);
    need(send(ends[1], "abc", 3, 0) == 3);
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    need(library != 0);
    receive *other_recv = (receive *)dlsym(library, "recv");
    transmit *other_send = (transmit *)dlsym(library, "send");
    printf("  it received %zd\n", other_recv(ends[0], room, 9, MSG_DONTWAIT));
    printf("  it sent %zd\n", other_send(ends[0], "defg", 4, 0));
    printf("  arrived %zd\n", recv(ends[1], room, 4, MSG_WAITALL));
    join(ends);
    need(send(ends[1], "abc", 3, 0) == 3);
    printf("  later %zd\n", other_recv(ends[0], room, 9, MSG_DONTWAIT));
    return 0;
}
"""
"""A second C library makes calls that no function stands before."""


@scene
def a_second_c_library_finds_what_is_there() -> None:
    compiled(SECOND_LIBRARY)

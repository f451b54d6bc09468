"""Scenes at changes: in the middle of a call, and behind what is left in a ring given up."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import threading

from calls_hunted import ended, several
from calls_stage import LASTING, Message, Part, compiled, pair, raw, say, scene, settled

MUCH = bytes(16 << 20)
"""More than all buffers take, with the library and without."""
SOON_S = 0.05
LATE_S = 5


def let_go_back(end: socket.socket) -> None:
    """Set an option that ends the acceleration, and set it back."""
    for least in (2, 1):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)


@scene
def arrivals_behind_what_is_left_are_edges() -> None:
    a, b = pair()
    with select.epoll() as waiter:
        waiter.register(b, select.EPOLLIN | select.EPOLLET)
        a.sendall(b"0123456789")
        say("arrived", lambda: len(waiter.poll(LATE_S)))
        let_go_back(b)
        say("in part", lambda: b.recv(4))
        # That it goes back may be an edge, or some.
        while waiter.poll(SOON_S):
            pass
        a.sendall(b"more")
        say("more", lambda: len(waiter.poll(LATE_S)))
        say("all", lambda: b.recv(10, socket.MSG_WAITALL))


@scene
def who_waits_already_goes_on_waiting() -> None:
    def change_and_send(flags: int) -> None:
        a, b = pair()
        got: list[object] = []
        room = ctypes.create_string_buffer(9)
        receive = ("recv", b.fileno(), room, 9, flags)
        thread = threading.Thread(target=lambda: got.append(raw(*receive)))
        thread.start()
        settled(0.2)
        if flags:
            a.sendall(b"one")
            settled()
        os.set_blocking(b.fileno(), False)
        for text in (b"two", b"six"):
            settled()
            a.sendall(text)
        thread.join()
        say("received", lambda: (got, room.value[:3]))

    for flags in (socket.MSG_WAITALL, 0):
        ended(lambda flags=flags: change_and_send(flags))


@scene
def who_has_ended_both_ways_refuses_more() -> None:
    def send_much(ways: list[int]) -> None:
        a, b = pair()
        for how in ways:
            b.shutdown(how)
        settled()
        # The end says no more, and is not closed.
        say("sent", lambda: a.sendall(MUCH))
        say("the end", lambda: a.recv(9))

    for ways in ([socket.SHUT_RDWR], [socket.SHUT_WR, socket.SHUT_RD]):
        ended(lambda ways=ways: send_much(ways))


@scene
def who_ends_both_ways_has_sent_all() -> None:
    a, b = pair()
    a.sendall(b"unread")
    b.sendall(b"the last")
    b.shutdown(socket.SHUT_RDWR)
    say("the last", lambda: a.recv(99))
    say("the end", lambda: a.recv(99))
    say("unread", lambda: b.recv(99))
    say("its own end", lambda: b.recv(99))
    b.close()


@scene
def many_parts_are_filled_from_both_streams() -> None:
    # It joins in the middle, with the one stream unread and more in the other.
    for rounds in range(4):
        a, b = pair(rounds)
        text = bytes(range(200))
        for _ in range(20):
            a.sendall(text)
            b.sendall(b"x")
            a.recv(1)
            b.recv(1)
        rooms = [bytearray(9) for _ in range(400)]
        say("filled", lambda end=b, it=rooms: (end.recvmsg_into(it)[0], sum(b"".join(it))))
        say("rest", lambda end=b: end.recv(999))


@scene
def many_parts_are_sent_at_once() -> None:
    # One direction has not yet switched in some of the turns.
    for rounds in range(4):
        a, b = pair(rounds)
        lengths = set()
        for _ in range(20):
            for _ in range(3):
                b.sendmsg([b"x" * 25] * 40)
            settled(0.01)
            lengths.add(len(a.recv(9999)))
        say("arrived together", lambda it=lengths: it)


EDGE = 1 << 31
ONCE = 1 << 30
RDNORM, RDBAND, WRNORM = 0x40, 0x80, 0x100


@scene
def an_arrival_is_an_edge_of_all_that_it_wakes() -> None:
    room = select.EPOLLOUT
    for events in (RDNORM, RDBAND, select.EPOLLPRI, select.EPOLLPRI | room, RDBAND | WRNORM, room):
        a, b = pair()
        with select.epoll() as waiter:
            waiter.register(b, events | EDGE)
            say(f"{events} at first", lambda waiter=waiter: [it for _, it in waiter.poll(SOON_S)])
            for _ in range(2):
                a.sendall(b"x")
                settled()
                say("arrived", lambda waiter=waiter: [it for _, it in waiter.poll(SOON_S)])
        a.close()
        b.close()


@scene
def what_was_just_put_in_is_in_the_next_wait() -> None:
    a, b = pair()
    a.sendall(b"x")
    near, far = os.pipe()
    os.write(far, b"y")
    settled()
    for _ in range(6):
        with select.epoll() as fresh:
            fresh.register(b, select.EPOLLIN)
            fresh.register(near, select.EPOLLIN)
            say("fresh", lambda fresh=fresh: len(fresh.poll(SOON_S)))
    with select.epoll() as waiter:
        waiter.register(b, select.EPOLLIN)
        for _ in range(5):
            say("one", lambda: len(waiter.poll(SOON_S)))
            waiter.register(near, select.EPOLLIN)
            say("two", lambda: len(waiter.poll(SOON_S)))
            waiter.modify(near, 0)
            say("one", lambda: len(waiter.poll(SOON_S)))
            waiter.modify(near, select.EPOLLIN)
            say("two", lambda: len(waiter.poll(SOON_S)))
            waiter.unregister(near)
        waiter.register(near, select.EPOLLIN)
        waiter.poll(SOON_S)
        # Long after that, as waits go.
        for _ in range(5):
            settled()
            say("later", lambda: len(waiter.poll(SOON_S)))
    os.close(near)
    os.close(far)


MANY = 1100
MANY_CONNECTIONS = f"""
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
ends = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range({MANY})]
for end in ends:
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(20):
        end.sendall(b"ping")
        assert end.recv(4, socket.MSG_WAITALL) == b"pong"
for line in sys.stdin:
    ends[int(line)].sendall(b"x")
"""


@scene
def a_poll_of_more_than_a_thousand_finds_those_that_have_something() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, before[1]))
    with socket.create_server(("127.0.0.1", 0), backlog=MANY) as listener:
        # A program of its own: one and what it has forked share a limit of connections.
        command = [sys.executable, "-B", "-c", MANY_CONNECTIONS, str(listener.getsockname()[1])]
        other = subprocess.Popen(command, stdin=subprocess.PIPE)
        ends = [listener.accept()[0] for _ in range(MANY)]
    waiter = select.poll()
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(20):
            assert end.recv(4, socket.MSG_WAITALL) == b"ping"
            end.sendall(b"pong")
        waiter.register(end, select.POLLIN)
    places = {end.fileno(): place for place, end in enumerate(ends)}
    assert other.stdin
    for place in (0, MANY - 1, MANY // 2, MANY - 1, MANY - 2):
        other.stdin.write(b"%d\n" % place)
        other.stdin.flush()
        found = [(places[number], events) for number, events in waiter.poll(5000)]
        say(f"{place}", lambda found=found: found[:3])
        say("its byte", lambda place=place: ends[place].recv(9, socket.MSG_DONTWAIT))
    other.stdin.close()
    for end in ends:
        end.close()
    other.wait()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@scene
def a_poll_of_very_many_finds_those_that_have_something() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, before[1]))
    a, b = pair()
    ends = [b.fileno()] * 3000 + [a.fileno()]
    entries = (ctypes.c_uint64 * len(ends))(*(end | select.POLLIN << 32 for end in ends))
    a.sendall(b"in the ring")
    for room in (2, 9):
        say("all", lambda: raw("poll", entries, len(ends), -1))
        say("of the last", lambda: entries[-1] >> 48)
        say("its bytes", lambda room=room: b.recv(room))
    b.sendall(b"by the kernel")
    settled()
    say("the other", lambda: raw("poll", entries, len(ends), -1))
    say("its bytes", lambda: a.recv(20))
    say("none", lambda: raw("poll", entries, len(ends), 10))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def reset_unread(a: socket.socket, b: socket.socket) -> None:
    """Let one end reset the connection of which the other has something unread."""
    a.sendall(b"unread")
    b.sendall(b"x")
    a.close()
    settled()


@scene
def looks_leave_a_reset_to_the_next_call() -> None:
    for events in (EDGE, EDGE | select.EPOLLOUT, ONCE, 0):
        for early in (True, False):
            a, b = pair()
            with select.epoll() as waiter:
                if early:
                    waiter.register(b, select.EPOLLIN | events)
                    waiter.poll(0)
                reset_unread(a, b)
                if not early:
                    waiter.register(b, select.EPOLLIN | events)
                for _ in range(3):
                    found = waiter.poll(SOON_S)
                    say(f"{events}", lambda found=found: [it for _, it in found])
                for _ in range(2):
                    say("send", lambda b=b: b.send(b"y"))
                say("receive", lambda b=b: b.recv(20))
            b.close()


@scene
def receives_of_nothing_and_of_several_hear_of_a_reset() -> None:
    nothing = Message(parts=ctypes.pointer(Part(None, 0)), part_count=1)
    messages = several([b""])
    calls = (
        ("recv", (None, 0, 0)),
        ("recv", (None, 0, socket.MSG_DONTWAIT | socket.MSG_PEEK)),
        ("recvmsg", (ctypes.byref(nothing), 0)),
        ("recvmmsg", (messages, 1, 0, None)),
    )
    for unread in (True, False):
        for name, arguments in calls:
            a, b = pair()
            reset_unread(a, b)
            if not unread:
                say("all", lambda b=b: b.recv(20))
            say(name, lambda b=b, name=name, more=arguments: raw(name, b.fileno(), *more))
            for _ in range(2):
                say("then", lambda b=b: b.recv(20))
            b.close()


BROKEN_PIPES = r"""
static int ends[2];
static void told(int signal, siginfo_t *about, void *place) {
    printf("  signal %d, code %d, own %d\n", signal, about->si_code, about->si_pid == getpid());
}
int main(void) {
    struct sigaction action = {.sa_sigaction = told, .sa_flags = SA_SIGINFO};
    setvbuf(stdout, 0, _IONBF, 0);
    sigaction(SIGPIPE, &action, 0);
    join(ends);
    need(!shutdown(ends[1], SHUT_WR));
    printf("  write %zd\n", write(ends[1], "x", 1));
    printf("  silent %zd\n", send(ends[1], "x", 1, MSG_NOSIGNAL));
    return 0;
}
"""
"""What a handler is told of a send after the end."""


@scene
def a_broken_pipe_is_the_kernels_signal() -> None:
    compiled(BROKEN_PIPES)


INTERRUPTED = r"""
#include <sys/wait.h>
static sigjmp_buf place;
static volatile int called = -1, may_jump;
static void interrupt(int signal) {
    char byte;
    if (called >= 0) recv(called, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (may_jump) may_jump = 0, siglongjmp(place, signal);
}
static void talk(int listener, struct sockaddr_in *at, int jumps) {
    char byte;
    int ends[2] = {socket(AF_INET, SOCK_STREAM, 0)};
    need(!connect(ends[0], (void *)at, sizeof *at) && (ends[1] = accept(listener, 0, 0)) >= 0);
    if (!sigsetjmp(place, 1)) {
        for (int round = 0; round < 120; round++) {
            called = jumps ? -1 : ends[1];
            may_jump = jumps && round > 8;
            send(ends[round % 2], "x", 1, MSG_DONTWAIT);
            recv(ends[1 - round % 2], &byte, 1, MSG_DONTWAIT);
        }
    }
    called = -1, may_jump = 0;
    close(ends[0]), close(ends[1]);
}
static void *fork_one(void *none) {
    pid_t child = fork();
    if (!child) _exit(7);
    waitpid(child, none, 0);
    return 0;
}
int main(void) {
    int status = 0;
    pthread_t thread;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    struct itimerval each = {{0, 97}, {0, 97}}, none = {{0, 0}, {0, 0}};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    need(!bind(listener, (void *)&at, length) && !listen(listener, 9));
    getsockname(listener, (void *)&at, &length);
    sigaction(SIGALRM, &action, 0);
    for (int jumps = 0; jumps < 2; jumps++) {
        setitimer(ITIMER_REAL, &each, 0);
        for (int count = 0; count < 2000; count++) talk(listener, &at, jumps);
        setitimer(ITIMER_REAL, &none, 0);
    }
    // Whoever forks waits until nobody joins.
    pthread_create(&thread, 0, fork_one, &status);
    pthread_join(thread, 0);
    printf("  forked: %d\n", WEXITSTATUS(status));
    fflush(stdout);
    join((int[2]){0});
    puts("  joined");
    return 0;
}
"""
"""Handlers that call on a connection that is just joining, or jump out of that."""


@scene
def handlers_interrupt_who_joins() -> None:
    compiled(INTERRUPTED)


@scene
def arrivals_are_told_in_their_order() -> None:
    ends = [pair(LASTING) for _ in range(4)]
    names = {b.fileno(): name for (_, b), name in zip(ends, "ABCD", strict=True)}
    by_name = {name: end for end, name in zip(ends, "ABCD", strict=True)}
    for how in (0, select.EPOLLET, select.EPOLLONESHOT):
        with select.epoll() as waiter:
            for fd in names:
                waiter.register(fd, select.EPOLLIN | how)
            for order in ("CADB", "DCBA", "ABCD", "BBCCA", "DDDDDDDDDDDDACB"):
                for name in order:
                    by_name[name][0].sendall(b"x")
                settled()
                told = [names[fd] for fd, _ in waiter.poll(LATE_S)]
                print(f"  {how} {order}: {''.join(told)}", flush=True)
                for fd in names:
                    raw("recv", fd, ctypes.create_string_buffer(99), 99, socket.MSG_DONTWAIT)
                    waiter.modify(fd, select.EPOLLIN | how)
                # The kernel keeps what it has told of in its place until it is asked again.
                waiter.poll(0)


@scene
def arrivals_of_one_that_is_not_accelerated_are_told_in_their_order() -> None:
    a, b = pair()
    with select.epoll() as waiter:
        waiter.register(b, select.EPOLLIN)
        for _ in range(30):
            fresh, other = pair(0)
            with fresh, other:
                waiter.register(other, select.EPOLLIN)
                while waiter.poll(0):
                    pass
                fresh.sendall(b"first")
                a.sendall(b"then")
                told = waiter.poll(LATE_S)
                say("told", lambda told=told, it=other: [fd == it.fileno() for fd, _ in told])
                b.recv(99)
                other.recv(99)
                waiter.poll(0)


@scene
def a_sleeper_is_told_of_arrivals_in_their_order() -> None:
    ends = [pair(LASTING) for _ in range(3)] + [pair(0)]
    names = {b.fileno(): name for (_, b), name in zip(ends, "ABCD", strict=True)}
    with select.epoll() as waiter:
        for fd in names:
            waiter.register(fd, select.EPOLLIN)
        # What the fourth, which is not accelerated, brings after another may be told before that.
        for order in ("CBA", "BCA", "DCBA", "CAB", "DBAC"):

            def send(order: str = order) -> None:
                for name in order:
                    ends["ABCD".index(name)][0].sendall(b"x")

            sender = threading.Timer(0.1, send)
            sender.start()
            told = []
            while len(told) < len(order):
                for fd, _ in waiter.poll(LATE_S):
                    told.append(names[fd])
                    raw("recv", fd, ctypes.create_string_buffer(99), 99, 0)
            sender.join()
            waiter.poll(0)
            say(order, lambda told=told: "".join(told))


@scene
def a_time_before_now_is_no_wait() -> None:
    for rounds in (60, 2):
        a, b = pair(rounds)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            time = struct.pack("@qq", -1, 0)
            say(
                "set",
                lambda b=b, option=option, it=time: b.setsockopt(socket.SOL_SOCKET, option, it),
            )
        for _ in range(60):
            a.sendall(b"x")
            say("one", lambda b=b: b.recv(1, socket.MSG_WAITALL))
            b.sendall(b"y")
            a.recv(1)
        say("none", lambda b=b: b.recv(1))
        say("too much", lambda b=b: raw("send", b.fileno(), MUCH, len(MUCH), 0) == len(MUCH))


@scene
def what_is_put_in_with_bytes_unread_comes_when_it_is_put_in() -> None:
    (a, first), (b, second), (c, third) = (pair(LASTING) for _ in range(3))
    names = {first.fileno(): "A", second.fileno(): "B", third.fileno(): "C"}
    with select.epoll() as waiter:
        for end in (second, third):
            waiter.register(end, select.EPOLLIN)
        for end in (a, b):
            end.sendall(b"x")
        settled()
        waiter.register(first, select.EPOLLIN)
        c.sendall(b"x")
        settled()
        say("told", lambda: "".join(names[fd] for fd, _ in waiter.poll(LATE_S)))

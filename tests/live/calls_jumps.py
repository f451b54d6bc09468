"""Scenes of threads that leave a call in its middle: a handler jumps out of it, or it is cancelled.

They are programs in C, where the C library alone says how a call is left.
"""

from __future__ import annotations

from calls_stage import compiled, scene

JUMPS = r"""
static sigjmp_buf place;
static void jump(int signal) { siglongjmp(place, signal); }
static void wait_for(int fd, int kind) {
    struct pollfd entry = {fd, POLLIN};
    struct epoll_event event = {EPOLLIN};
    int instance;
    fd_set set;
    switch (kind) {
    case 0: recv(fd, room, 9, 0); break;
    case 1: send(fd, room, sizeof room, 0); send(fd, room, sizeof room, 0); break;
    case 2: poll(&entry, 1, -1); break;
    case 3: FD_ZERO(&set); FD_SET(fd, &set); select(fd + 1, &set, 0, 0, 0); break;
    default:
        instance = epoll_create1(0);
        epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event);
        epoll_wait(instance, &event, 1, -1);
    }
    puts("  it returned");
}
int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    signal(SIGALRM, jump);
    for (int kind = 0; kind < 5; kind++)
        for (int late = 0; late < 2; late++) {
            struct itimerval span = {.it_value.tv_usec = late ? 300000 : 9000};
            int ends[2];
            join(ends);
            setitimer(ITIMER_REAL, &span, 0);
            if (!sigsetjmp(place, 1)) wait_for(ends[1], kind);
            /* The connection is used on, then closed: the other end hears of both. */
            if (kind != 1) send(ends[1], "on", 2, 0);
            close(ends[1]);
            struct pollfd entry = {ends[0], POLLIN};
            long count, sum = 0;
            while (poll(&entry, 1, 5000) == 1
                   && (count = recv(ends[0], room, sizeof room, 0)) > 0)
                sum += count;
            printf("  %d %d: %s, end %d\n", kind, late, kind != 1 && sum == 2 ? "on" : "much",
                   entry.revents != 0 && count == 0);
            close(ends[0]);
        }
    return 0;
}
"""


JUMPS_ANYWHERE = r"""
static sigjmp_buf place;
static void jump(int signal) { siglongjmp(place, signal); }
static void go_on(int kind, int *ends, int instance) {
    struct pollfd entry = {ends[1], POLLIN};
    struct epoll_event event;
    for (;;)
        switch (kind) {
        case 0: send(ends[0], room, 1 << 20, MSG_DONTWAIT); recv(ends[1], room, 1 << 20, 0); break;
        case 1: send(ends[1], room, sizeof room, 0); break;
        case 2: send(ends[0], "go", 2, 0); recv(ends[1], room, 2, 0); break;
        case 3: poll(&entry, 1, -1); break;
        default: epoll_wait(instance, &event, 1, -1);
        }
}
static void *idle(void *none) { for (;;) pause(); }
static void be_joined_by_a_thread(void) {
    sigset_t alarm, before;
    pthread_t thread;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &before);
    need(!pthread_create(&thread, 0, idle, 0));
    pthread_sigmask(SIG_SETMASK, &before, 0);
}
int main(void) {
    long stack[1 << 14];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    setvbuf(stdout, 0, _IONBF, 0);
    srand(1);
    need(!sigaltstack(&other, 0));
    for (int kind = 0; kind < 10; kind++) {
        int ended = 0;
        if (kind == 5) be_joined_by_a_thread();
        for (int round = 0; round < 80; round++) {
            int flags = (round & 1 ? SA_RESTART : 0) | (round & 2 ? SA_ONSTACK : 0);
            struct sigaction action = {.sa_handler = jump, .sa_flags = flags};
            struct epoll_event event = {EPOLLIN};
            static int ends[2], instance;
            join(ends);
            need((instance = epoll_create1(0)) >= 0);
            need(!epoll_ctl(instance, EPOLL_CTL_ADD, ends[1], &event));
            sigaction(SIGALRM, &action, 0);
            for (volatile int jumps = 0; jumps < 20; jumps++) {
                struct itimerval span = {.it_value.tv_usec = 1 + rand() % 120};
                if (!sigsetjmp(place, 1)) {
                    setitimer(ITIMER_REAL, &span, 0);
                    go_on(kind % 5, ends, instance);
                }
            }
            /* However far the calls had come, the end is heard of when the descriptor is closed. */
            close(instance);
            close(ends[1]);
            struct pollfd entry = {ends[0], POLLIN};
            long count = 1;
            while (count > 0 && poll(&entry, 1, 5000) == 1)
                count = recv(ends[0], room, sizeof room, 0);
            ended += count <= 0;
            close(ends[0]);
        }
        printf("  %d: %d have ended\n", kind, ended);
    }
    return 0;
}
"""
"""A handler jumps out of calls that sleep, poll and copy, wherever they are."""

CANCELS = r"""
static int ends[2];
static void *receive(void *none) {
    printf("  got %zd\n", recv(ends[1], room, 9, MSG_WAITALL));
    return none;
}
int main(void) {
    int two = 2;
    void *how;
    pthread_t thread;
    setvbuf(stdout, 0, _IONBF, 0);
    alarm(20);
    join(ends);
    need(!pthread_create(&thread, 0, receive, 0));
    usleep(50000);
    need(send(ends[0], "abc", 3, 0) == 3);
    usleep(50000);
    /* The connection goes back, in the middle of the other thread's call. */
    need(!setsockopt(ends[0], SOL_SOCKET, SO_RCVLOWAT, &two, sizeof two));
    need(send(ends[0], "d", 1, 0) == 1);
    usleep(50000);
    need(!pthread_cancel(thread) && !pthread_join(thread, &how));
    printf("  cancelled: %d\n", how == PTHREAD_CANCELED);
    return 0;
}
"""
"""A thread is cancelled in a call that the kernel has taken over."""


@scene
def jumps_out_of_handlers() -> None:
    compiled(JUMPS)


@scene
def jumps_out_of_handlers_wherever_a_call_is() -> None:
    compiled(JUMPS_ANYWHERE)


@scene
def threads_are_cancelled_where_the_kernel_took_over() -> None:
    compiled(CANCELS)

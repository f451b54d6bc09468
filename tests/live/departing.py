"""Descriptors that leave the live library's sight, in real programs: nothing is lost on the way.

Each scene runs a few programs with the library loaded into all of them, lets a connection be
accelerated, and then hands it to somebody who does not know: a static program, a shell's child, a
process at the other end of a Unix socket. It passes if every byte arrives once and in order, and if
a connection was really accelerated before.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

LIMIT_S = 60

# A line for each round, until both ends have joined; then the scene's own words.
COMMON = """
import array, os, re, socket, subprocess, sys, threading, time
def pattern(count, first=0):
    return bytes((first + at) % 251 for at in range(count))
def line(s):
    got = b""
    while not got.endswith(b"\\n"):
        more = s.recv(1)
        if not more: break
        got += more
    return got
def warm_server(s):
    for _ in range(100):
        assert line(s) == b"ping\\n"; s.sendall(b"pong\\n")
def warm_client(s):
    for _ in range(100):
        s.sendall(b"ping\\n"); assert line(s) == b"pong\\n"
def read_all(s):
    got = b""
    while more := s.recv(65536): got += more
    return got
def echoed(s, count):
    sent, small = pattern(count), count // 1000
    for at in range(0, 100 * small, small):
        s.sendall(sent[at:at + small]); got = b""
        while len(got) < small:
            more = s.recv(small - len(got)); assert more, "the other end has gone"
            got += more
        assert got == sent[at:at + small]
    sender = threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR)))
    sender.start(); got = read_all(s); sender.join()
    assert got == sent, (len(got), len(sent))
"""

STATIC = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* Echoes with bare calls, or with the C library's streams. */
int main(int count, char **words) {
    char buffer[4096];
    if (count > 1 && !strcmp(words[1], "streams")) {
        size_t got;
        while ((got = fread(buffer, 1, sizeof buffer, stdin)) > 0)
            if (fwrite(buffer, 1, got, stdout) != got) return 1;
        return fflush(stdout) ? 1 : 0;
    }
    int from = count > 2 ? atoi(words[2]) : 0, to = count > 2 ? from : 1;
    ssize_t got;
    while ((got = read(from, buffer, sizeof buffer)) > 0)
        for (ssize_t done = 0; done < got;) {
            ssize_t sent = write(to, buffer + done, got - done);
            if (sent < 0) return 1;
            done += sent;
        }
    return got < 0;
}
"""

# A server's beginning: it says its port, and answers as `warm_client` asks.
SERVER = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static char buffer[4096];
static int listening(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&address, size);
    listen(listener, 4);
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}
static int warm(int fd) {
    for (int round = 0; round < 100; round++)
        if (recv(fd, buffer, 5, MSG_WAITALL) != 5 || send(fd, "pong\n", 5, 0) != 5) return 0;
    return 1;
}
"""

# Forks a child for each connection, which ends without closing it.
FORKING = (
    SERVER
    + r"""
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
int main(int count, char **words) {
    int kills = count > 1, ended = 0, listener = listening();
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    getsockname(listener, (void *)&at, &size);
    pid_t server = fork();
    while (!server) {
        int fd = accept(listener, 0, 0);
        if (!fork()) {
            if (!warm(fd)) return 1;
            if (kills) raise(SIGKILL);
            exit(0);
        }
        close(fd);
        while (waitpid(-1, 0, WNOHANG) > 0);
    }
    for (int round = 0; round < 60; round++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&at, sizeof at)) return 2;
        for (int round = 0; round < 100; round++)
            if (send(fd, "ping\n", 5, 0) != 5 || recv(fd, buffer, 5, MSG_WAITALL) != 5) return 3;
        ended += recv(fd, buffer, 5, 0) == 0;
        close(fd);
        usleep(25000);
    }
    kill(server, SIGTERM);
    printf("%d ended\n", ended);
    return ended != 60;
}
"""
)

BARE = (
    SERVER
    + r"""
#include <stdlib.h>
#include <string.h>
/* Accepts, answers by the C library's functions, then echoes past them; or calls such a one. */
static long past(long number, long fd, char *buffer, long length) {
#ifdef INSTRUCTION
    long result;
    register long flags __asm__("r10") = 0, none __asm__("r8") = 0, size __asm__("r9") = 0;
    __asm__ volatile("syscall" : "=a"(result)
        : "a"(number), "D"(fd), "S"(buffer), "d"(length), "r"(flags), "r"(none), "r"(size)
        : "rcx", "r11", "memory");
    return result;
#else
    return syscall(number, fd, buffer, length, 0, 0, 0);
#endif
}
static int call(int port) {
    struct sockaddr_in at = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&at, sizeof at)) return 2;
    for (int round = 0; round < 100; round++)
        if (send(fd, "ping\n", 5, 0) != 5 || recv(fd, buffer, 5, MSG_WAITALL) != 5) return 3;
    for (int round = 0; round < 100; round++) {
        char sent[4096];
        memset(sent, round, sizeof sent);
        if (past(SYS_write, fd, sent, sizeof sent) != sizeof sent) return 4;
        for (long got = 0, more; got < (long)sizeof sent; got += more)
            if ((more = past(SYS_read, fd, buffer + got, sizeof sent - got)) <= 0) return 5;
        if (memcmp(buffer, sent, sizeof sent)) return 6;
    }
    return 0;
}
int main(int count, char **words) {
    if (count > 1) return call(atoi(words[1]));
    int fd = accept(listening(), NULL, NULL);
    if (!warm(fd)) return 2;
    long calls[] = {SYS_read, SYS_recvfrom}, got;
    for (int turn = 0; (got = past(calls[turn++ % 2], fd, buffer, sizeof buffer)) > 0;)
        for (long done = 0; done < got;) {
            long sent = past(turn % 2 ? SYS_write : SYS_sendto, fd, buffer + done, got - done);
            if (sent < 0) return 4;
            done += sent;
        }
    return got < 0 ? 5 : 0;
}
"""
)

FILTERED = (
    SERVER
    + r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
/* Accepts and answers, has the kernel kill it at any call but the few that it makes, and echoes;
   then does the same for a second connection that it had accepted before, and for two that it
   accepts now, of which it waits for the last in an instance of `epoll` of before and in a new one.
   The instance has had the first since it was young. */
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_recvfrom), ALLOW(SYS_sendto), ALLOW(SYS_close),
    ALLOW(SYS_munmap), ALLOW(SYS_exit_group), ALLOW(SYS_accept), ALLOW(SYS_epoll_create1),
    ALLOW(SYS_epoll_ctl), ALLOW(SYS_epoll_wait),
#ifdef FORKS
    ALLOW(SYS_clone), ALLOW(SYS_set_robust_list), ALLOW(SYS_wait4),
#endif
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static int is_named(int instance, int fd) {
    struct epoll_event event;
    return epoll_wait(instance, &event, 1, 10000) == 1 && event.data.fd == fd;
}
static int is_in(int instance, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return !epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) && is_named(instance, fd);
}
static int echo(int fd) {
    ssize_t got;
    for (int turn = 0; (got = turn++ % 2 ? read(fd, buffer, sizeof buffer)
                                         : recv(fd, buffer, sizeof buffer, 0)) > 0;)
        for (ssize_t done = 0; done < got;) {
            ssize_t sent = turn % 2 ? write(fd, buffer + done, got - done)
                                    : send(fd, buffer + done, got - done, 0);
            if (sent < 0) return 3;
            done += sent;
        }
    return got < 0 ? 4 : close(fd);
}
int main(void) {
    int listener = listening(), instance = epoll_create1(0);
    int fd = accept(listener, NULL, NULL), later = accept(listener, NULL, NULL);
    if (!is_in(instance, fd) || !warm(fd) || !is_named(instance, fd)) return 2;
    /* What is in the ring now is left there. */
    usleep(100000);
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
#ifdef FORKED
    int told[2];
    if (pipe(told)) return 12;
#ifdef CLONED
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#else
    pid_t child = fork();
#endif
    if (child) {
        int status;
#ifdef SHARED
        /* The connection and the instance are both processes' when the filter is set. */
        if (read(told[0], buffer, 1) != 1) return 11;
#endif
#ifdef KEPT
        /* The child has closed it by then. */
        if (read(told[0], buffer, 1) != 1) return 15;
#endif
        close(fd), close(later);
        return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 8;
    }
#endif
    /* Neither sets anything: a question, and a program that is not there. */
    if (prctl(PR_GET_SECCOMP) != 0) return 5;
    if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL)) return 6;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#ifdef BY_SYSCALL
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 7;
#else
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 7;
#endif
    if (!is_named(instance, fd)) return 10;
#ifdef FORKED
    if (write(told[1], "", 1) != 1) return 13;
#endif
    int failed = echo(fd);
#ifdef KEPT
    if (write(told[1], "", 1) != 1) return 16;
#endif
    failed = failed ? failed : echo(later);
    failed = failed ? failed : echo(accept(listener, NULL, NULL));
    fd = accept(listener, NULL, NULL);
    if (failed || !is_in(instance, fd) || !is_in(epoll_create1(0), fd)) return failed ? failed : 9;
    failed = echo(fd);
#ifdef FORKS
    int status = 0;
    pid_t last = fork();
    if (!last) _exit(0);
    if (last < 0 || waitpid(last, &status, 0) != last || status) return 14;
#endif
    return failed;
}
"""
)

FILTERED_CLIENT = """
port = int(sys.argv[1])
connect = lambda: socket.create_connection(("127.0.0.1", port))
first, second = connect(), connect()
warm_client(first)
first.sendall(pattern(500)); time.sleep(pause)
assert first.recv(500, socket.MSG_WAITALL) == pattern(500)
for s in (first, second, None, None):
    echoed(s or connect(), 200_000)
"""

# The server accepts, lets itself be accelerated, and runs a program on the connection; the client
# had sent everything before the program began, and reads it back.
INHERIT = """
how, words = sys.argv[1], sys.argv[2:]
listener = socket.create_server(("127.0.0.1", 0)); print(listener.getsockname()[1], flush=True)
s = listener.accept()[0]; warm_server(s)
time.sleep(0.3)
if how == "subprocess":
    child = subprocess.Popen(words, stdin=s, stdout=s)
    s.close(); listener.close(); sys.exit(child.wait())
if how == "vfork":
    child = os.posix_spawn(words[0], words, os.environ, file_actions=[
        (os.POSIX_SPAWN_DUP2, s.fileno(), 0), (os.POSIX_SPAWN_DUP2, s.fileno(), 1)])
    s.close(); sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if how == "inetd":
    for number in (0, 1): os.dup2(s.fileno(), number)
    s.close(); os.execv(words[0], words)
if how == "numbered":
    s.set_inheritable(True)
    os.execv(words[0], [*words, "calls", str(s.fileno())])
"""

INHERIT_CLIENT = """
s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); warm_client(s)
sent = pattern(200_000)
s.sendall(sent[:100_000])
time.sleep(0.6)
sender = threading.Thread(target=lambda: (s.sendall(sent[100_000:]), s.shutdown(socket.SHUT_WR)))
sender.start()
got = read_all(s); sender.join()
assert got == sent, (len(got), len(sent))
"""

ECHO = """
listener = socket.create_server(("127.0.0.1", 0)); print(listener.getsockname()[1], flush=True)
s = listener.accept()[0]; warm_server(s)
while more := s.recv(65536): s.sendall(more)
"""

PASSING = """
listener = socket.create_server(("127.0.0.1", 0)); print(listener.getsockname()[1], flush=True)
s = listener.accept()[0]; warm_server(s)
time.sleep(0.3)
here, there = socket.socketpair()
kept = lambda key: key != "LD_PRELOAD" or "accelerated" in sys.argv
env = {key: value for key, value in os.environ.items() if kept(key)}
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(there.fileno())],
                         pass_fds=[there.fileno()], env=env)
socket.send_fds(here, [b"x"], [s.fileno()]); s.close()
sys.exit(child.wait())
"""

PASSED = """
import socket, sys
_, fds, *_ = socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 1, 1)
s = socket.socket(fileno=fds[0])
while more := s.recv(10_000): s.sendall(more)
"""

SHELL_SERVER = """
listener = socket.create_server(("127.0.0.1", 0)); print(listener.getsockname()[1], flush=True)
s = listener.accept()[0]; warm_server(s)
s.sendall(b"head one\\nhead two\\n\\n" + pattern(150_000))
if "waits" in sys.argv: assert line(s) == b"bye\\n"
s.close()
"""

SHELL = r"""
exec 3<>/dev/tcp/127.0.0.1/$1
for ((round = 0; round < 100; round++)); do echo ping >&3; read -r word <&3; done
[ "$word" = pong ] || exit 3
sleep 0.3
while read -r word <&3 && [ -n "$word" ]; do last=$word; done
[ "$last" = "head two" ] || exit 4
head -c 150000 <&3 | sha256sum | cut -d' ' -f1
echo bye >&3
"""


class SceneError(Exception):
    """What went wrong in a scene."""


class Scenes:
    """The scenes, and what they share."""

    def __init__(self, library: Path, folder: Path) -> None:
        """Remember where the library is; build the static program."""
        self.folder, self.log = folder, folder / "log"
        self.env = {**os.environ, "LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(self.log)}
        self.static = folder / "static"
        source = folder / "static.c"
        source.write_text(STATIC)
        subprocess.run(["cc", "-O1", "-static", "-o", self.static, source], check=True)

    def bare(self, flag: str = "", *, client: bool = False) -> None:
        """Let a program call past the C library; one that does so by an instruction stays plain."""
        program, source = self.folder / "bare", self.folder / "bare.c"
        source.write_text(BARE)
        command = ["cc", "-O1", *([flag] if flag else []), "-o", program, source]
        subprocess.run(command, check=True)
        if client:
            self.together(self.python(ECHO), [str(program)], accelerated=not flag)
        else:
            server = subprocess.Popen([program], env=self.env, stdout=subprocess.PIPE, text=True)
            self.together(server, INHERIT_CLIENT, accelerated=not flag)
        reason = "system calls past the C library" if flag else "a call that cannot be accelerated"
        if reason not in self.log.read_text():
            raise SceneError(f"nobody said {reason!r}")

    def filtered(self, *flags: str, pause: float = 0) -> None:
        """Let a program forbid itself nearly all calls while its client looks away for a time."""
        program, source = self.folder / "filtered", self.folder / "filtered.c"
        source.write_text(FILTERED)
        subprocess.run(["cc", "-O1", *flags, "-o", program, source], check=True)
        server = subprocess.Popen([program], env=self.env, stdout=subprocess.PIPE, text=True)
        self.together(server, f"pause = {pause}\n" + FILTERED_CLIENT)
        if "back to the kernel: the process filters its system calls" not in self.log.read_text():
            raise SceneError("the connection that was accelerated did not go back for the filter")

    def python(self, code: str, *words: str) -> subprocess.Popen[str]:
        """Start a Python program with the library."""
        command = [sys.executable, "-c", COMMON + textwrap.dedent(code), *words]
        return subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True)

    def together(
        self, server: subprocess.Popen[str], client: list[str] | str, *, accelerated: bool = True
    ) -> str:
        """Run a client against a server that has said its port; return what the client says."""
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        if isinstance(client, str):
            command = [sys.executable, "-c", COMMON + client, port]
        else:
            command = [*client, port]
        try:
            ran = subprocess.run(
                command, env=self.env, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            ended = server.wait(LIMIT_S)
        except subprocess.TimeoutExpired as why:
            server.kill()
            raise SceneError(f"nobody ended: {why}") from None
        if ran.returncode or ended:
            raise SceneError(f"client {ran.returncode}, server {ended}: {ran.stderr[-1500:]}")
        if accelerated and "accelerated through shared memory" not in self.log.read_text():
            raise SceneError("nothing was accelerated")
        return ran.stdout

    def inherit(self, how: str, *words: str) -> None:
        """Let a program inherit a connection."""
        self.together(self.python(INHERIT, how, *words), INHERIT_CLIENT)

    def passing(self, *words: str) -> None:
        """Pass a connection to another process."""
        self.together(self.python(PASSING, PASSED, *words), INHERIT_CLIENT)

    def shell(self, *words: str) -> None:
        """Let a shell read its lines and a child the rest.

        A shell redirects its connection to its own standard output, past which the C library's
        streams could write; so it is never accelerated.
        """
        client = ["bash", "-c", SHELL, "bash"]
        said = self.together(self.python(SHELL_SERVER, *words), client, accelerated=False)
        wanted = hashlib.sha256(bytes(at % 251 for at in range(150_000))).hexdigest()
        if said.strip() != wanted:
            raise SceneError(f"the shell's child read something else: {said!r}")

    def forking(self, *words: str) -> None:
        """Let children of a server end: their connections count against no limit any more."""
        most = 4
        program, source = self.folder / "forking", self.folder / "forking.c"
        source.write_text(FORKING)
        subprocess.run(["cc", "-O1", "-o", program, source], check=True)
        ran = subprocess.run(
            [program, *words],
            env={**self.env, "WEFT_LIVE_LIMIT": str(most)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        accelerated = self.log.read_text().count("accelerated through shared memory")
        # Each is counted at both ends.
        if ran.returncode or accelerated < 2 * 5 * most:
            raise SceneError(f"{ran.stdout!r} {ran.stderr!r}, {accelerated} accelerated")

    def socat(self) -> None:
        """Let socat copy between an accelerated connection and a static program."""
        server = subprocess.Popen(
            ["socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1", f"EXEC:{self.static}"],
            env=self.env,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stderr is not None
        found = None
        while found is None:
            found = re.search(r"listening on .*:(\d+)", server.stderr.readline())
        code = """
echoed(socket.create_connection(("127.0.0.1", int(sys.argv[1]))), 300_000)
"""
        ran = subprocess.run(
            [sys.executable, "-c", COMMON + code, found[1]],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        server.stderr.read()
        if ran.returncode or server.wait(LIMIT_S):
            raise SceneError(ran.stderr[-1500:])


def main() -> int:
    """Run all scenes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--only", default="", help="scenes whose name has this in it")
    options = parser.parse_args()
    library = options.library.resolve()
    failed = passed = 0
    with tempfile.TemporaryDirectory() as name:
        scenes = Scenes(library, Path(name))
        static, cat = str(scenes.static), shutil.which("cat") or "cat"
        runs = {
            **{
                f"{how} {Path(words[0]).name} {' '.join(words[1:])}".strip(): (
                    lambda how=how, words=words: scenes.inherit(how, *words)
                )
                for how in ("subprocess", "vfork", "inetd")
                for words in ([static], [static, "streams"], [cat])
            },
            "numbered static": lambda: scenes.inherit("numbered", static),
            "passed to a plain process": scenes.passing,
            "passed to an accelerated process": lambda: scenes.passing("accelerated"),
            "calls by the C library's syscall": scenes.bare,
            "calls by an instruction": lambda: scenes.bare("-DINSTRUCTION"),
            "a client's calls by an instruction": lambda: scenes.bare("-DINSTRUCTION", client=True),
            "a filter by prctl": scenes.filtered,
            "a filter by syscall": lambda: scenes.filtered("-DBY_SYSCALL"),
            "a filter in a child": lambda: scenes.filtered("-DFORKED"),
            "a filter where all is shared": lambda: scenes.filtered("-DFORKED", "-DSHARED"),
            "a filter in a child of what its parent keeps": lambda: scenes.filtered(
                "-DFORKED", "-DSHARED", "-DKEPT"
            ),
            "a filter in a cloned child": lambda: scenes.filtered("-DFORKED", "-DCLONED"),
            "a filter in a cloned child that shares": lambda: scenes.filtered(
                "-DFORKED", "-DSHARED", "-DCLONED"
            ),
            "a fork after a filter": lambda: scenes.filtered("-DFORKS"),
            "a filter before a silent client": lambda: scenes.filtered(pause=0.8),
            "bash and a server that waits": lambda: scenes.shell("waits"),
            "bash and a server that has closed": scenes.shell,
        }
        runs["children that end"] = scenes.forking
        runs["children that are killed"] = lambda: scenes.forking("kills")
        if shutil.which("socat"):
            runs["socat"] = scenes.socat
        for what, run in runs.items():
            if options.only not in what:
                continue
            scenes.log.write_text("")
            try:
                run()
                complaint = ""
            except SceneError as why:
                complaint = str(why)
            print(f"departing, {what}: {complaint or 'ok'}", flush=True)
            failed, passed = failed + bool(complaint), passed + (not complaint)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

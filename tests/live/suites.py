"""Other people's tests, and random deaths, under the live library.

* Python's own tests of sockets, with and without the library: both must say the same.
* An echo pair in Node and one in Java, with every byte compared.
* Pairs of processes that exchange patterned bytes until one of them is killed at a random moment:
  the other reads a prefix of what was sent, then the end. Some go back to the kernel meanwhile.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHORT = ["test_select", "test_poll", "test_epoll", "test_selectors", "test_httplib", "test_poplib"]
SHORT += ["test_asyncio.test_streams", "test_socketserver", "test_telnetlib", "test_xmlrpc"]
ASYNCIO = ["buffered_proto", "server", "selector_events", "unix_events", "base_events", "sendfile"]
ASYNCIO += ["sock_lowlevel", "sslproto", "ssl", "events", "subprocess"]
LONG = [*SHORT, "test_socket", "test_ssl", "test_httpservers", "test_urllib2_localnet"]
LONG += ["test_smtplib", *(f"test_asyncio.test_{name}" for name in ASYNCIO), "test_ftplib"]
LONG += ["test_asynchat", "test_asyncore", "test_imaplib", "test_subprocess"]
# These wait for ever where the kernel's virtual sockets are broken, with the library or without.
NOT_RUN = ["*VSOCK*"]
# With the library a suite may take so many times as long before it counts as hanging.
SLOWER = 3

NODE = """
const net = require("net"), crypto = require("crypto");
const rounds = 300, size = 4000, sent = crypto.randomBytes(rounds * size);
const server = net.createServer(c => c.pipe(c)).listen(0, "127.0.0.1", () => {
  const s = net.connect(server.address().port, "127.0.0.1");
  let got = Buffer.alloc(0), at = 0;
  const next = () => at < rounds ? s.write(sent.subarray(at * size, ++at * size)) : s.end();
  s.on("connect", next);
  s.on("data", more => { got = Buffer.concat([got, more]); if (got.length == at * size) next(); });
  s.on("close", () => { server.close(); process.exit(got.equals(sent) ? 0 : 1); });
});
"""

JAVA = """
import java.io.*; import java.net.*; import java.util.*;
class Echo {
  public static void main(String[] words) throws Exception {
    var listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    var server = new Thread(() -> {
      try (var s = listener.accept()) { s.getInputStream().transferTo(s.getOutputStream()); }
      catch (IOException why) { why.printStackTrace(); System.exit(2); }
    });
    server.start();
    var random = new Random(7);
    try (var s = new Socket(InetAddress.getLoopbackAddress(), listener.getLocalPort())) {
      var input = new DataInputStream(s.getInputStream());
      for (int round = 0; round < 500; round++) {
        var sent = new byte[1 + random.nextInt(9000)]; random.nextBytes(sent);
        var got = new byte[sent.length];
        s.getOutputStream().write(sent); input.readFully(got);
        if (!Arrays.equals(sent, got)) System.exit(1);
      }
      s.shutdownOutput();
      if (input.read() != -1) System.exit(3);
    }
    server.join();
  }
}
"""

# A server that accepts one connection, or the client, and says how far it got. Bytes are counted
# from the beginning of the stream, and each is its count modulo 251.
TALKER = """
import random, socket, sys, time
who, port, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
PATTERN = bytes(at % 251 for at in range(251 + 70_000))
def text(at, size): return PATTERN[at % 251:at % 251 + size]
if who == "server":
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    listener.settimeout(5)
    try: s = listener.accept()[0]
    except TimeoutError: print("ok, the other was killed before it came"); sys.exit()
    s.setblocking(True)
else:
    s = socket.create_connection(("127.0.0.1", port))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sent = got = 0
end = "closed"
try:
    for _ in range(30):
        s.sendall(text(sent, 10)); sent += 10
        left = 10
        while left:
            more = s.recv(left)
            if not more: raise EOFError
            assert more == text(got, len(more)), (got, more)
            got += len(more); left -= len(more)
    s.setblocking(False)
    until = time.monotonic() + 20
    back = rng.choice([50, 500, 10**9])
    while time.monotonic() < until:
        back -= 1
        if back == 0:
            # An option that only the kernel honours brings the connection back.
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        try:
            sent += s.send(text(sent, rng.choice([1, 100, 4000, 60_000])))
        except BlockingIOError: pass
        try:
            more = s.recv(rng.choice([1, 500, 65_000]))
            if not more: raise EOFError
            assert more == text(got, len(more)), (got, len(more))
            got += len(more)
        except BlockingIOError: pass
except (EOFError, ConnectionResetError, BrokenPipeError) as why:
    end = type(why).__name__
print("ok", sent, got, end, flush=True)
"""


class Run:
    """Counts what passed and failed, and stops when the time is over."""

    def __init__(self, library: Path, seconds: float) -> None:
        """Remember the library, and when to stop."""
        self.library, self.until = library, time.monotonic() + seconds
        self.passed = self.failed = self.skipped = 0
        self.plain = dict(os.environ)
        self.accelerated = {**os.environ, "LD_PRELOAD": str(library)}

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.until - time.monotonic()

    def say(self, what: str, complaint: str | None) -> None:
        """Count and print; `None` is a pass."""
        self.passed, self.failed = self.passed + (complaint is None), self.failed + bool(complaint)
        print(f"{what}: {complaint or 'ok'}", flush=True)

    def skip(self, what: str, why: str) -> None:
        """Count what was not run."""
        self.skipped += 1
        print(f"{what}: skipped, {why}", flush=True)


class Suite:
    """One of Python's test files, running."""

    def __init__(self, name: str, environment: dict[str, str]) -> None:
        """Start it."""
        command = [sys.executable, "-m", "test", "-u", "network"]
        command += [word for pattern in NOT_RUN for word in ("-i", pattern)] + [name]
        self.folder = tempfile.TemporaryDirectory()
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self.folder.name,
            start_new_session=True,
        )

    def outcome(self, seconds: float) -> str | None:
        """Return what it says at its end, within so many seconds from its beginning, or nothing."""
        try:
            left = self.begin + seconds - time.monotonic()
            said, _ = self.process.communicate(timeout=max(left, 0.1))
        except subprocess.TimeoutExpired:
            self.end()
            return None
        self.folder.cleanup()
        found = re.findall(r"Total tests: (.*)|Result: (\w+)", said)
        words = " ".join(" ".join(pair).strip() for pair in found)
        return f"{self.process.returncode} {words}"

    def end(self) -> None:
        """End it, with all that it has started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.folder.cleanup()


def python_suites(run: Run, names: list[str]) -> None:
    """Run Python's own tests with and without the library."""
    try:
        import test.libregrtest  # noqa: F401
    except ImportError:
        run.skip("python's own tests", "this Python has none")
        return
    for name in names:
        if run.left() < 30:
            run.skip(name, "no time is left")
            continue
        complaint = compared(run, name, at_once=True)
        if complaint and run.left() < 1:
            run.skip(name, "no time is left")
            continue
        if complaint and run.left() > 30:
            # Two at once may be in each other's way: a difference is one that each has alone.
            complaint = compared(run, name, at_once=False)
        run.say(name, complaint)


def compared(run: Run, name: str, *, at_once: bool) -> str | None:
    """Run a test file without the library and with it; say how they differ."""
    plain = Suite(name, run.plain)
    accelerated = Suite(name, run.accelerated) if at_once else None
    without = plain.outcome(run.left())
    enough = SLOWER * (time.monotonic() - plain.begin) + 30
    accelerated = accelerated or Suite(name, run.accelerated)
    gone_by = time.monotonic() - accelerated.begin
    with_it = accelerated.outcome(min(enough, gone_by + run.left()))
    if with_it is None:
        return f"did not end in {enough:.0f} s"
    return None if without == with_it else f"without the library {without}, with it {with_it}"


def echo(run: Run, what: str, needs: str, command: list[str]) -> None:
    """Run a program that compares every byte by itself."""
    if not shutil.which(needs):
        run.skip(what, f"no {needs}")
        return
    with tempfile.NamedTemporaryFile() as log:
        ran = subprocess.run(
            command,
            env={**run.accelerated, "WEFT_LIVE_LOG": log.name},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        accelerated = b"accelerated through shared memory" in log.read()
    complaint = None if accelerated else "nothing was accelerated"
    run.say(what, f"{ran.returncode} {ran.stderr[-500:]}" if ran.returncode else complaint)


def deaths(run: Run, seconds: float, seed: int) -> None:
    """Kill one end of a busy connection at a random moment, again and again."""
    rng = random.Random(seed)
    until = time.monotonic() + min(seconds, run.left())
    rounds = accelerated = 0
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log"
        environment = {**run.accelerated, "WEFT_LIVE_LOG": str(log)}
        while time.monotonic() < until:
            rounds += 1
            log.write_text("")
            complaint = one_death(environment, rng)
            accelerated += "accelerated" in log.read_text()
            if complaint:
                run.say(f"deaths, seed {seed}, round {rounds}", complaint)
                return
    run.say(
        f"deaths: {rounds}, of which {accelerated} accelerated",
        None if accelerated else "none accelerated",
    )


def one_death(environment: dict[str, str], rng: random.Random) -> str | None:
    """Let two processes talk, kill one; say what was wrong with the other."""
    talkers = []
    port = "0"
    for who in ("server", "client"):
        command = [sys.executable, "-c", TALKER, who, port, str(rng.randrange(1 << 30))]
        talker = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        talkers.append(talker)
        if who == "server" and talker.stdout is not None:
            port = talker.stdout.readline().strip()
    time.sleep(rng.uniform(0.05, 0.4))
    victim = rng.randrange(2)
    talkers[victim].send_signal(signal.SIGKILL)
    try:
        said, wrong = talkers[1 - victim].communicate(timeout=30)
    except subprocess.TimeoutExpired:
        talkers[1 - victim].kill()
        talkers[1 - victim].communicate()
        return "the other end did not notice"
    talkers[victim].communicate()
    if talkers[1 - victim].returncode or not said.startswith("ok"):
        # Killed before the other had connected.
        return None if "ConnectionRefused" in wrong else wrong[-800:]
    return None


def main() -> int:
    """Run what there is time for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--short", action="store_true", help="what a change must pass")
    parser.add_argument("--seconds", type=float, default=400, help="end after about so long")
    parser.add_argument("--seed", type=int, default=1, help="whom death meets, and when")
    options = parser.parse_args()
    run = Run(options.library.resolve(), options.seconds)
    with tempfile.TemporaryDirectory() as folder:
        java = Path(folder) / "Echo.java"
        java.write_text(JAVA)
        echo(run, "an echo pair in Node", "node", ["node", "-e", NODE])
        echo(run, "an echo pair in Java", "java", ["java", str(java)])
    deaths(run, 20 if options.short else 60, options.seed)
    python_suites(run, SHORT if options.short else LONG)
    print(f"{run.passed} passed, {run.failed} failed, {run.skipped} skipped")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())

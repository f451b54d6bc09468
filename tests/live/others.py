"""More programs and languages, with the live library and without: both must say the same.

Each case starts what it needs, lets it talk, and returns what was said or how it ended. It runs once
without the library and once with all its processes under it; the two results must be equal, and
with the library connections must really have been carried. What is not installed is skipped by name.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from programs import free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S = 60
DATA = bytes(at * at % 251 for at in range(251)) * 20_000

PERL = r"""
use IO::Socket::INET;
my $l = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1");
if (!fork) {
    my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $l->sockport);
    for my $i (1 .. 500) { print $c "x" x $i, "\n"; die unless <$c> eq "got $i\n"; }
    syswrite $c, "z" x 300000; shutdown $c, 1;
    my $r = join "", <$c>; print length $r, "\n"; exit 0;
}
my $s = $l->accept;
for my $i (1 .. 500) { my $a = <$s>; chomp $a; print $s "got ", length $a, "\n"; }
my $n = 0; while (my $g = sysread $s, my $b, 70000) { $n += $g; }
print $s "y" x 500000; close $s; wait; print "$n $?\n";
"""

RUBY = r"""
require "socket"; require "timeout"
server = TCPServer.new("127.0.0.1", 0)
echo = Thread.new { 5.times.map { Thread.new(server.accept) { |s|
  while (l = s.gets) do s.write(l.strip.reverse + "\n") end; s.close } }.each(&:join) }
clients = 5.times.map { TCPSocket.new("127.0.0.1", server.addr[1]) }
300.times { |i| clients.each { |c| c.puts("line-#{i}-" + "y" * (i * 7)) }
  clients.each { |c| raise unless c.gets == ("line-#{i}-" + "y" * (i * 7)).reverse + "\n" } }
begin; clients[0].read_nonblock(1); rescue IO::WaitReadable => e; puts e.class; end
begin; Timeout.timeout(0.1) { clients[0].gets }; rescue Timeout::Error => e; puts e.class; end
clients.each(&:close_write); puts clients.map(&:read).inspect; echo.join
"""

PHP = r"""<?php
$l = stream_socket_server("tcp://127.0.0.1:0"); $name = stream_socket_get_name($l, false);
$c = stream_socket_client("tcp://$name"); $s = stream_socket_accept($l);
for ($i = 0; $i < 300; $i++) {
    $t = str_repeat(chr(65 + $i % 26), 1 + $i * 13); fwrite($c, $t); $g = "";
    while (strlen($g) < strlen($t)) $g .= fread($s, 9000);
    if ($g !== $t) die("differs"); fwrite($s, "line $i\n");
    if (fgets($c) !== "line $i\n") die("line");
}
stream_set_blocking($c, false); var_dump(fread($c, 1)); fclose($s);
$r = [$c]; $w = $e = null; var_dump(stream_select($r, $w, $e, 1), fread($c, 1), feof($c));
"""

WSGI = """
def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@dataclass
class Stage:
    """Where a case runs, and under which library."""

    folder: Path
    environment: dict[str, str]

    def start(self, *command: object) -> subprocess.Popen[bytes]:
        """Start a program that talks to nobody but by its connections."""
        return subprocess.Popen(
            [str(word) for word in command],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @contextlib.contextmanager
    def serving(self, port: int, *command: object) -> Iterator[None]:
        """Keep a server running meanwhile."""
        server = self.start(*command)
        try:
            wait_for(port)
            yield
        finally:
            server.terminate()
            server.wait(LIMIT_S)

    def say(self, *command: object, given: bytes = b"") -> bytes:
        """Run a program to its end; return what it said, and how it ended if not well."""
        ran = subprocess.run(
            [str(word) for word in command],
            env=self.environment,
            cwd=self.folder,
            input=given,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        failed = f"\nended with {ran.returncode}: {ran.stderr[-300:]!r}" if ran.returncode else ""
        return ran.stdout + failed.encode()


def digest(said: bytes) -> str:
    """Return what tells long texts apart."""
    return f"{len(said)} bytes, {hashlib.sha256(said).hexdigest()[:12]}"


def netcat(stage: Stage) -> str:
    """One way each, so that neither ends before it has sent all."""
    port = free_port()
    with (stage.folder / "got").open("wb") as got:
        taking = subprocess.Popen(
            ["nc.openbsd", "-l", "127.0.0.1", str(port)],
            env=stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=got,
        )
        wait_for(port)
        said = stage.say("nc.openbsd", "-N", "127.0.0.1", port, given=DATA)
        taking.wait(LIMIT_S)
    return f"{said!r}, {taking.returncode}, {digest((stage.folder / 'got').read_bytes())}"


def socat(stage: Stage) -> str:
    """Let a server fork, and run another program on each connection."""
    port = free_port()
    listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"
    with stage.serving(port, "socat", listen, "EXEC:cat"):
        call = ("socat", "-t", "10", "-", f"TCP:127.0.0.1:{port}")
        return str([digest(stage.say(*call, given=DATA)) for _ in range(2)])


def openssl(stage: Stage) -> str:
    """Send lines to a TLS server that turns each around."""
    port = free_port()
    stage.say(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"),
        *("-keyout", "key", "-out", "certificate"),
    )
    server = ("openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", "certificate")
    with stage.serving(port, *server, "-key", "key", "-quiet", "-rev"):
        client = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-quiet"],
            env=stage.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert client.stdin is not None
        assert client.stdout is not None
        got = b""
        for line in range(200):
            client.stdin.write(f"line {line} of a text\n".encode())
            client.stdin.flush()
            got += client.stdout.readline()
        client.terminate()
        client.communicate(timeout=LIMIT_S)
        return digest(got)


def haproxy(stage: Stage) -> str:
    """Let a proxy stand between a client and nginx."""
    front, back = free_port(), free_port()
    (stage.folder / "file").write_bytes(DATA)
    (stage.folder / "nginx.conf").write_text(
        f"user root; daemon off; worker_processes 1; pid {stage.folder}/pid;\n"
        f"error_log {stage.folder}/error.log; events {{}}\n"
        f"http {{ access_log off; server {{ listen 127.0.0.1:{back}; root {stage.folder}; }} }}\n"
    )
    (stage.folder / "haproxy.conf").write_text(
        "defaults\n mode http\n timeout connect 5s\n timeout client 9s\n timeout server 9s\n"
        f"frontend f\n bind 127.0.0.1:{front}\n default_backend b\n"
        f"backend b\n server s 127.0.0.1:{back}\n"
    )
    nginx = ("nginx", "-c", stage.folder / "nginx.conf", "-p", stage.folder)
    with (
        stage.serving(back, *nginx),
        stage.serving(front, "haproxy", "-db", "-f", "haproxy.conf"),
    ):
        url = f"http://127.0.0.1:{front}/file"
        said = stage.say("curl", "-sS", "--fail", f"{url}?[1-5]")
        many = stage.say("wrk", "-t", 1, "-c", 20, "-d", 1, url).decode()
        wrong = re.findall(r"Socket errors.*|Non-2xx.*", many)
        none = stage.say("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"{url}2")
        return f"{digest(said)}, {wrong}, {none!r}"


def mosquitto(stage: Stage) -> str:
    """Publish to a broker, and hear it in two subscribers."""
    port = free_port()
    (stage.folder / "conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nuser root\n"
    )
    with stage.serving(port, "mosquitto", "-c", "conf"):
        where = ("-h", "127.0.0.1", "-p", str(port))
        hear = ["mosquitto_sub", *where, "-t", "a/#", "-C", "1000", "-q", "1"]
        subscribers = [
            subprocess.Popen(hear, env=stage.environment, stdout=subprocess.PIPE) for _ in range(2)
        ]
        time.sleep(0.5)
        text = b"".join(f"{line} is a line\n".encode() for line in range(1000))
        said = stage.say("mosquitto_pub", *where, "-t", "a/b", "-l", "-q", "1", given=text)
        heard = [digest(it.communicate(timeout=LIMIT_S)[0]) for it in subscribers]
        return f"{said!r}, {heard}"


def rsync(stage: Stage) -> str:
    """Send a tree to a server and fetch it back."""
    port = free_port()
    who = "uid = 0\ngid = 0\n" if os.geteuid() == 0 else ""
    conf = f"[all]\npath = {stage.folder}\nread only = no\nuse chroot = no\n{who}"
    (stage.folder / "conf").write_text(conf)
    (stage.folder / "tree").mkdir()
    for number in range(200):
        (stage.folder / "tree" / str(number)).write_bytes(DATA[: number * 997])
    server = ("rsync", "--daemon", "--no-detach", f"--port={port}", "--address=127.0.0.1")
    with stage.serving(port, *server, "--config=conf"):
        url = f"rsync://127.0.0.1:{port}/all"
        said = stage.say("rsync", "-a", "tree/", f"{url}/there/")
        said += stage.say("rsync", "-a", f"{url}/there/", "back/")
    return (said + stage.say("diff", "-r", "tree", "back")).decode()


def sockperf(stage: Stage) -> str:
    """Count what is lost, doubled or out of order, at a rate its table has room for."""
    port = free_port()
    where = ("--tcp", "-i", "127.0.0.1", "-p", port)
    with stage.serving(port, "sockperf", "sr", *where):
        said = stage.say("sockperf", "pp", *where, "-t", 1, "--mps", 20_000).decode()
        return str(re.findall(r"# dropped.*|ERROR.*", said))


def gunicorn(stage: Stage) -> str:
    """Send bodies to a server of forked workers with threads."""
    port = free_port()
    (stage.folder / "echo.py").write_text(WSGI)
    (stage.folder / "body").write_bytes(DATA)
    server = ("/usr/bin/gunicorn", "-k", "gthread", "-w", 2, "--threads", 2, "echo:application")
    with stage.serving(port, *server, "-b", f"127.0.0.1:{port}"):
        url = f"http://127.0.0.1:{port}/"
        return digest(stage.say("curl", "-sS", "--data-binary", "@body", f"{url}?[1-5]"))


def script(*interpreter: str, text: str) -> Callable[[Stage], str]:
    """Run a script that talks to itself."""
    return lambda stage: stage.say(*interpreter, text).decode()


CASES: dict[str, tuple[list[str], Callable[[Stage], str]]] = {
    "netcat": (["nc.openbsd"], netcat),
    "socat": (["socat"], socat),
    "openssl": (["openssl"], openssl),
    "haproxy": (["haproxy", "nginx", "curl", "wrk"], haproxy),
    "mosquitto": (["mosquitto", "mosquitto_pub", "mosquitto_sub"], mosquitto),
    "rsync": (["rsync"], rsync),
    "sockperf": (["sockperf"], sockperf),
    "gunicorn": (["/usr/bin/gunicorn", "curl"], gunicorn),
    "perl": (["perl"], script("perl", "-e", text=PERL)),
    "ruby": (["ruby"], script("ruby", "-e", text=RUBY)),
    "php": (["php"], script("php", "-r", text=PHP.removeprefix("<?php"))),
}


def compared(case: Callable[[Stage], str], library: Path) -> str:
    """Run a case without the library and with it; returns a complaint, or nothing."""
    said, joined = [], 0
    # Where others use the processors a short connection may end before it joins: once more.
    for carried in (False, True, True):
        if joined:
            break
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            log = folder / "live.log"
            log.write_text("")
            more = {"LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log)} if carried else {}
            try:
                said.append(case(Stage(folder, {**os.environ, **more})))
            except (subprocess.TimeoutExpired, TimeoutError) as why:
                return f"{'with' if carried else 'without'} the library: {why}"
            joined = log.read_text().count("carried over shared memory")
        if said[-1] != said[0]:
            return f"without the library {said[0][-600:]!r}, with it {said[-1][-600:]!r}"
    return "" if joined else "nothing was carried"


def main() -> int:
    """Run all cases, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("names", nargs="*", help="cases; all if none is named")
    options = parser.parse_args()
    failed = passed = skipped = 0
    for name, (needs, case) in CASES.items():
        if options.names and name not in options.names:
            continue
        missing = [need for need in needs if not shutil.which(need)]
        if missing:
            print(f"{name}: skipped, no {', '.join(missing)}", file=sys.stderr)
            skipped += 1
            continue
        complaint = compared(case, options.library.resolve())
        print(f"{name}: {complaint or 'ok'}", flush=True)
        failed, passed = failed + bool(complaint), passed + (not complaint)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

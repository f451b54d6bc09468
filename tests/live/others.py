"""More programs and languages, with the live library and without: both must say the same.

Each case starts what it needs, lets it talk, and returns what was said or how it ended. It runs
once without the library and once with all its processes under it; the two results must be equal,
and with the library connections must really have been accelerated. What is not installed is
skipped by name.
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
LIGHTTPD = "/usr/sbin/lighttpd"
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

TCL = r"""
proc accepted {s args} {
  fconfigure $s -blocking 0 -buffering none -translation binary
  fileevent $s readable [list echo $s] }
proc echo {s} { set d [read $s]; if {[eof $s]} {close $s} else {puts -nonewline $s $d} }
set l [socket -server accepted -myaddr 127.0.0.1 0]
set port [lindex [fconfigure $l -sockname] 2]; set done 0; set total 0
proc go {c i} { global size left
  fileevent $c writable {}; fileevent $c readable [list got $c $i]
  set size($c) 0; set left($c) 100; more $c $i }
proc more {c i} { puts -nonewline $c [string repeat a [expr $i*100]]; flush $c }
proc got {c i} { global size left total done
  incr size($c) [string length [read $c]]
  if {$size($c) < $i*100} return
  incr total $size($c); set size($c) 0
  if {[incr left($c) -1]} {more $c $i} else {close $c; incr done} }
for {set i 1} {$i <= 20} {incr i} {
  set c [socket -async 127.0.0.1 $port]
  fconfigure $c -blocking 0 -buffering full -translation binary
  fileevent $c writable [list go $c $i] }
while {$done < 20} {vwait done}
puts "$done $total"
"""

ERLANG = r"""
-export([main/1]).
serve(L) -> {ok, S} = gen_tcp:accept(L),
  P = spawn(fun() -> receive go -> echo(S) end end),
  gen_tcp:controlling_process(S, P), P ! go, serve(L).
echo(S) -> case gen_tcp:recv(S, 0) of
  {ok, B} -> gen_tcp:send(S, B), echo(S); {error, closed} -> gen_tcp:close(S) end.
talk(S, _, 0, Sum) -> gen_tcp:close(S), Sum;
talk(S, Active, N, Sum) -> B = binary:copy(<<N:16>>, N * 7 rem 900 + 1), ok = gen_tcp:send(S, B),
  case Active of false -> {ok, B} = gen_tcp:recv(S, 0); _ -> receive {tcp, S, B} -> ok end end,
  case Active of once -> inet:setopts(S, [{active, once}]); _ -> ok end,
  talk(S, Active, N - 1, Sum + size(B)).
main(_) -> {ok, L} = gen_tcp:listen(0, [binary, {packet, 4}, {active, false}, {backlog, 50}]),
  {ok, Port} = inet:port(L), spawn(fun() -> serve(L) end), Me = self(),
  [spawn(fun() -> {ok, S} = gen_tcp:connect("127.0.0.1", Port, [binary, {packet, 4}, {active, A}]),
    Me ! {sum, talk(S, A, 300, 0)} end) || A <- [false, true, once, false, true, once]],
  io:format("~p~n", [[receive {sum, X} -> X end || _ <- lists:seq(1, 6)]]).
"""

# gRPC 1.51 reads the `errno` of `connect` after more calls. Its first lock that is not free looks
# for a file of the processor's frequency, which few machines have; if that falls in between, gRPC
# takes the connection for refused, with and without the library. It happens once in a process.
GRPC = r"""
import grpc, hashlib, threading
from concurrent import futures
def digest(parts): return hashlib.sha1(b"".join(parts)).hexdigest().encode()
CALLS = {"/t/echo": ("unary_unary", lambda text, _: text[::-1]),
    "/t/down": ("unary_stream", lambda n, _: (b"%d " % i * (i % 300) for i in range(int(n)))),
    "/t/up": ("stream_unary", lambda parts, _: digest(parts)),
    "/t/both": ("stream_stream", lambda parts, _: (part + part for part in parts))}
class Handler(grpc.GenericRpcHandler):
    def service(self, call):
        kind, answer = CALLS[call.method]
        return getattr(grpc, kind + "_rpc_method_handler")(answer)
server = grpc.server(futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((Handler(),))
port = server.add_insecure_port("127.0.0.1:0"); server.start(); said = []
def client():
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
    call = {name: getattr(channel, kind)(name) for name, (kind, _) in CALLS.items()}
    def parts(): return (b"part%d" % i * (i % 1000) for i in range(300))
    try: call["/t/echo"](b"")
    except grpc.RpcError as why:
        if "No such file or directory" not in why.details(): raise
        call["/t/echo"](b"", wait_for_ready=True)
    for i in range(100): assert call["/t/echo"](b"ab" * i) == b"ba" * i
    many = [call["/t/echo"].future(b"%d" % i * 100) for i in range(100)]
    said.append(digest([*call["/t/down"](b"300"), call["/t/up"](parts()), *call["/t/both"](parts()),
        *(one.result() for one in many), call["/t/echo"](bytes(3_000_000))])); channel.close()
threads = [threading.Thread(target=client) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(said), set(said)); server.stop(0).wait()
"""

CGI = """#!/bin/sh
echo "Content-Type: text/plain"; echo; sha256sum
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
    """One way each, so that neither ends before it has sent all.

    That is much more than the kernel keeps of a stream, so that the sender cannot be done before
    the receiver has begun.
    """
    port = free_port()
    with (stage.folder / "got").open("wb") as got:
        taking = subprocess.Popen(
            ["nc.openbsd", "-l", "127.0.0.1", str(port)],
            env=stage.environment,
            stdin=subprocess.DEVNULL,
            stdout=got,
        )
        wait_for(port)
        said = stage.say("nc.openbsd", "-N", "127.0.0.1", port, given=8 * DATA)
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


def proxy(stage: Stage) -> str:
    """Let nginx stand before nginx, with connections that both sides of it keep.

    Its connections wait for edges of both kinds: an answer that is not reported is waited for until
    the client gives up.
    """
    front, back = free_port(), free_port()
    (stage.folder / "file").write_bytes(DATA[:9000])
    (stage.folder / "nginx.conf").write_text(
        f"user root; daemon off; worker_processes 2; pid {stage.folder}/pid;\n"
        f"error_log {stage.folder}/error.log; events {{}}\n"
        f"http {{ access_log off; keepalive_requests 1000000; root {stage.folder};\n"
        f"upstream back {{ server 127.0.0.1:{back}; keepalive 8; }}\n"
        f"server {{ listen 127.0.0.1:{back}; }}\n"
        f"server {{ listen 127.0.0.1:{front}; location / {{ proxy_pass http://back;\n"
        'proxy_http_version 1.1; proxy_set_header Connection ""; } } }\n'
    )
    with stage.serving(front, "nginx", "-c", stage.folder / "nginx.conf", "-p", stage.folder):
        load = ("ab", "-q", "-k", "-s", 10, "-n", 30_000, "-c", 20)
        said = stage.say(*load, f"http://127.0.0.1:{front}/file").decode()
        return str(re.findall(r"(?:Complete|Failed|Keep-Alive) requests:.*|ended with.*", said))


def memcached(stage: Stage) -> str:
    """Try all of memcached's commands, in words and in binary."""
    port = free_port()
    server = ("memcached", "-l", "127.0.0.1", "-p", port, "-u", "root")
    with stage.serving(port, *server):
        where = ("-h", "127.0.0.1", "-p", port)
        return "".join(stage.say("memccapable", *where, how).decode() for how in ("-a", "-b"))


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


def erlang(stage: Stage) -> str:
    """Send packets to processes that take them in each of Erlang's three ways."""
    (stage.folder / "talk.erl").write_text("%% the first line is passed over\n" + ERLANG)
    return stage.say("escript", "talk.erl").decode()


def lighttpd(stage: Stage) -> str:
    """Fetch a file, a part of it, and send a body to a program that the server starts."""
    port = free_port()
    (stage.folder / "file").write_bytes(DATA)
    (stage.folder / "hash.cgi").write_text(CGI)
    (stage.folder / "conf").write_text(
        f'server.document-root = "{stage.folder}"\nserver.port = {port}\n'
        'server.bind = "127.0.0.1"\nserver.modules = ("mod_cgi")\n'
        'cgi.assign = (".cgi" => "/bin/sh")\n'
    )
    url = f"http://127.0.0.1:{port}"
    with stage.serving(port, LIGHTTPD, "-D", "-f", "conf"):
        said = [digest(stage.say("curl", "-sS", f"{url}/file?[1-5]"))]
        said.append(digest(stage.say("curl", "-sS", "-r", "100-999999", f"{url}/file")))
        for more in (["-H", "Expect: 100-continue"], ["-H", "Expect:"]):
            body = ("--data-binary", "@file", f"{url}/hash.cgi")
            said.append(stage.say("curl", "-sS", *more, *body).decode())
        return str(said)


def script(*interpreter: str, text: str) -> Callable[[Stage], str]:
    """Run a script that talks to itself."""
    return lambda stage: stage.say(*interpreter, text).decode()


CASES: dict[str, tuple[list[str], Callable[[Stage], str]]] = {
    "netcat": (["nc.openbsd"], netcat),
    "socat": (["socat"], socat),
    "openssl": (["openssl"], openssl),
    "haproxy": (["haproxy", "nginx", "curl", "wrk"], haproxy),
    "proxy": (["nginx", "ab"], proxy),
    "memcached": (["memcached", "memccapable"], memcached),
    "mosquitto": (["mosquitto", "mosquitto_pub", "mosquitto_sub"], mosquitto),
    "rsync": (["rsync"], rsync),
    "sockperf": (["sockperf"], sockperf),
    "gunicorn": (["/usr/bin/gunicorn", "curl"], gunicorn),
    "lighttpd": ([LIGHTTPD, "curl"], lighttpd),
    "erlang": (["escript"], erlang),
    "tcl": (["tclsh"], lambda stage: stage.say("tclsh", given=TCL.encode()).decode()),
    "grpc": (["/usr/lib/python3/dist-packages/grpc"], script("/usr/bin/python3", "-c", text=GRPC)),
    "perl": (["perl"], script("perl", "-e", text=PERL)),
    "ruby": (["ruby"], script("ruby", "-e", text=RUBY)),
    "php": (["php"], script("php", "-r", text=PHP.removeprefix("<?php"))),
}


def compared(case: Callable[[Stage], str], library: Path) -> str:
    """Run a case without the library and with it; returns a complaint, or nothing."""
    said, joined, told = [], 0, ""
    # Where others use the processors a short connection may end before it joins: once more.
    for accelerated in (False, True, True):
        if joined:
            break
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            log = folder / "live.log"
            log.write_text("")
            more = {"LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log)} if accelerated else {}
            try:
                said.append(case(Stage(folder, {**os.environ, **more})))
            except (subprocess.TimeoutExpired, TimeoutError) as why:
                return f"{'with' if accelerated else 'without'} the library: {why}"
            told = log.read_text()
            joined = told.count("accelerated through shared memory")
        if said[-1] != said[0]:
            return f"without the library {said[0][-600:]!r}, with it {said[-1][-600:]!r}"
    return "" if joined else f"nothing was accelerated: {told[-600:]!r}"


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
        missing = [need for need in needs if not (shutil.which(need) or Path(need).is_dir())]
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

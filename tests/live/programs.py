"""Real programs under the live library, with and without: `make test-live`, `make bench-live`.

Each program is run with both ends plain, both ends accelerated, and one end of each kind. It passes
if its own client says that all went well, and, with both ends accelerated, if connections were
really in shared memory. With `--bench` the plain and the accelerated runs take turns, and one JSON
object a program says the ratio of their medians. The programs are Debian's; one that is not
installed is skipped and named.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT_S = 60
PHP_FPM = next(iter(sorted(Path("/usr/sbin").glob("php-fpm*"), reverse=True)), Path("php-fpm"))
POSTGRES = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@dataclass
class Program:
    """A server, its client, and the figure that the client prints."""

    name: str
    needs: list[str]
    server: Callable[[Path, int], list[str]]
    # Of a port and the seconds that it should take, where a client works for a time.
    client: Callable[[int, int], list[str]]
    figure: str = ""
    setup: Callable[[Path, int], None] = lambda folder, port: None
    environment: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    # The client's; the server's is 0. `None` leaves both to the kernel's choice.
    processor: int | None = 1
    # Only for its figure: what it does differs from another program's in number alone.
    bench_only: bool = False


def free_port() -> int:
    """Return a port that the kernel gives to nobody by itself: it is still free a while later."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, lowest)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def nginx_setup(folder: Path, port: int) -> None:
    (folder / "index.html").write_text("x" * 600)
    (folder / "nginx.conf").write_text(
        "user root; daemon off; worker_processes 1;\n"
        f"pid {folder}/pid; error_log {folder}/error.log;\n"
        "events {}\n"
        f"http {{ access_log off; keepalive_requests 10000000; sendfile on;\n"
        f"  server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    )
    folder.chmod(0o755)


def php_setup(folder: Path, port: int) -> None:
    """Write what nginx and sixteen children of php-fpm need, and a port between them."""
    between = free_port()
    (folder / "sum.php").write_text(
        "<?php $sum = 0; for ($i = 0; $i < 2000; $i++) { $sum += $i * 7 % 13; }\n"
        'echo $sum, str_repeat("x", 600);\n'
    )
    (folder / "php.conf").write_text(
        f"[global]\npid = {folder}/php.pid\nerror_log = {folder}/php.log\n"
        f"[www]\nuser = root\ngroup = root\nlisten = 127.0.0.1:{between}\nclear_env = no\n"
        "pm = static\npm.max_children = 16\n"
    )
    (folder / "nginx.conf").write_text(
        "user root; daemon off; worker_processes 2;\n"
        f"pid {folder}/pid; error_log {folder}/error.log;\n"
        "events {}\n"
        "http { access_log off; keepalive_requests 10000000;\n"
        f"  upstream php {{ server 127.0.0.1:{between}; keepalive 4; }}\n"
        f"  server {{ listen 127.0.0.1:{port}; location / {{\n"
        "    fastcgi_pass php; fastcgi_keep_conn on; fastcgi_param REQUEST_METHOD GET;\n"
        f"    fastcgi_param SCRIPT_FILENAME {folder}/sum.php; }} }} }}\n"
    )
    folder.chmod(0o755)


PHP_SERVER = """
"$1" -R -D -y "$2/php.conf" && nginx -c "$2/nginx.conf" -p "$2" &
php=
trap 'php=$(cat "$2/php.pid"); kill $php $(cat "$2/pid")' TERM
wait
while kill -0 $php; do sleep 0.05; done
"""


def php(connections: int) -> Program:
    """Some twenty processes that compute share the processors, and nothing is pinned."""
    ask = ["wrk", "-t", "1", "-c", str(connections)]
    return Program(
        f"php-{connections}, nothing pinned",
        [str(PHP_FPM), "nginx", "wrk"],
        lambda folder, port: ["sh", "-c", PHP_SERVER, "php", str(PHP_FPM), str(folder)],
        lambda port, seconds: [*ask, "-d", str(seconds), f"http://127.0.0.1:{port}/"],
        r"Requests/sec:\s+([\d.]+)",
        php_setup,
        processor=None,
        bench_only=True,
    )


def run_quietly(command: list[str]) -> None:
    """Run a command; what it prints is shown if it fails."""
    run = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if run.returncode != 0:
        print(run.stdout)
        run.check_returncode()


def postgres_setup(folder: Path, port: int) -> None:
    data = folder / "data"
    shutil.chown(folder, "postgres")
    as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    run_quietly([*as_postgres, f"{POSTGRES}/initdb", "-A", "trust", "-D", str(data)])
    server = subprocess.Popen(
        [*as_postgres, f"{POSTGRES}/postgres", "-D", str(data), "-p", str(port), "-k", ""],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(port)
    url = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres"]
    # It listens before it takes connections.
    run_quietly(["sh", "-c", f"until pg_isready -q -h 127.0.0.1 -p {port}; do sleep 0.1; done"])
    run_quietly(["pgbench", *url, "-i", "-s", "1", "postgres"])
    server.terminate()
    server.wait(LIMIT_S)


def memcached_client(port: int, _seconds: int) -> list[str]:
    """Sets and gets values of many sizes, pipelined and not, and compares every byte."""
    script = f"""
import socket, time
s = socket.create_connection(("127.0.0.1", {port})); f = s.makefile("rb")
begin = time.perf_counter(); done = 0
for round in range(3000):
    value = bytes([round % 251]) * (1 << round % 15)
    store = b"set k%d 0 0 %d\\r\\n" % (round, len(value)) + value + b"\\r\\n"
    s.sendall(store + b"get k%d\\r\\n" % round)
    assert f.readline() == b"STORED\\r\\n"
    assert f.readline() == b"VALUE k%d 0 %d\\r\\n" % (round, len(value))
    assert f.read(len(value) + 2) == value + b"\\r\\n" and f.readline() == b"END\\r\\n"
    done += 2
print("rate", done / (time.perf_counter() - begin))
"""
    return [sys.executable, "-c", script]


def local(port: int) -> list[str]:
    return ["-h", "127.0.0.1", "-p", str(port)]


def redis_server(folder: Path, port: int) -> list[str]:
    return ["redis-server", "--port", str(port), "--save", "", "--dir", str(folder)]


def redis(clients: int, requests: int, *, bench_only: bool = False) -> Program:
    ask = ["-c", str(clients), "-n", str(requests), "-t", "set,get", "-q"]
    return Program(
        f"redis-{clients}",
        ["redis-server", "redis-benchmark"],
        redis_server,
        lambda port, _seconds: ["redis-benchmark", *local(port), *ask],
        r"GET: ([\d.]+) requests",
        bench_only=bench_only,
    )


def nginx(connections: int, *, bench_only: bool = False) -> Program:
    ask = ["wrk", "-t", "1", "-c", str(connections)]
    return Program(
        f"nginx-{connections}",
        ["nginx", "wrk"],
        lambda folder, port: ["nginx", "-c", f"{folder}/nginx.conf", "-p", str(folder)],
        lambda port, seconds: [
            *(*ask, "-d", str(seconds), f"http://127.0.0.1:{port}/index.html"),
        ],
        r"Requests/sec:\s+([\d.]+)",
        nginx_setup,
        bench_only=bench_only,
    )


def pgbench(clients: int, *, pinned: bool = True) -> Program:
    ask = ["-U", "postgres", "-S", "-n", "-c", str(clients)]
    return Program(
        f"pgbench-{clients}" if pinned else f"pgbench-{clients}, nothing pinned",
        ["pgbench", "setpriv"],
        lambda folder, port: [
            *(f"{POSTGRES}/postgres", "-D", f"{folder}/data", "-p", str(port), "-k", ""),
        ],
        lambda port, seconds: ["pgbench", *local(port), *ask, "-T", str(seconds), "postgres"],
        r"tps = ([\d.]+)",
        postgres_setup,
        user="postgres",
        processor=1 if pinned else None,
        bench_only=not pinned,
    )


def iperf3(processor: int, *, bench_only: bool = False) -> Program:
    return Program(
        "iperf3" if processor else "iperf3, one processor",
        ["iperf3"],
        lambda folder, port: ["iperf3", "-s", "-p", str(port)],
        lambda port, seconds: [
            *("iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", str(seconds), "-f", "m"),
        ],
        r"([\d.]+) Mbits/sec\s+receiver",
        processor=processor,
        bench_only=bench_only,
    )


PROGRAMS = [
    redis(50, 50_000),
    redis(1, 10_000),
    redis(20, 100_000, bench_only=True),
    redis(500, 50_000, bench_only=True),
    nginx(50),
    nginx(1),
    nginx(400, bench_only=True),
    Program(
        "curl",
        ["nginx", "curl"],
        lambda folder, port: ["nginx", "-c", f"{folder}/nginx.conf", "-p", str(folder)],
        lambda port, _seconds: [
            *("curl", "-sS", "--fail", "-o", "/dev/null", "-w", "rate %{speed_download}\n"),
            f"http://127.0.0.1:{port}/index.html?[1-200]",
        ],
        setup=nginx_setup,
    ),
    Program(
        "memcached",
        ["memcached"],
        lambda folder, port: ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port)],
        memcached_client,
        r"rate ([\d.]+)",
    ),
    *([pgbench(8), pgbench(1)] if POSTGRES else []),
    # More servers than processors beside a client that polls for all of them.
    *([pgbench(clients, pinned=False) for clients in (8, 32)] if POSTGRES else []),
    iperf3(1),
    iperf3(0, bench_only=True),
    php(3),
    php(10),
    php(40),
]


def wait_for(port: int) -> None:
    """Wait until somebody listens, without a connection: some servers take one at a time."""
    listening = re.compile(rf"^ *\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:0000 0A ", re.MULTILINE)
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(OSError):
                if listening.search(Path(table).read_text()):
                    return
        time.sleep(0.02)
    raise TimeoutError(f"nobody listens on port {port}")


def joined(pid: int) -> int:
    """How many connections a process and those that it forked have had in shared memory."""
    entries: list[Path] = []
    with contextlib.suppress(OSError):
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    for entry in entries:
        # The server may be closing its connections.
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(entry).startswith("/memfd:weft-live ("):
                return int(struct.unpack("3Q", entry.read_bytes()[:24])[2])
    return 0


@contextlib.contextmanager
def serving(program: Program, folder: Path, port: int, library: Path | None) -> Iterator[int]:
    pin = [] if program.processor is None else ["taskset", "-c", "0"]
    command = [*pin, *program.server(folder, port)]
    if program.user:
        who = [f"--reuid={program.user}", f"--regid={program.user}", "--clear-groups"]
        command = ["setpriv", *who, *command]
    log = (folder / "log").open("wb")
    server = subprocess.Popen(command, env=environment(library), stdout=log, stderr=log)
    try:
        wait_for(port)
        yield server.pid
    finally:
        server.terminate()
        try:
            server.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def environment(library: Path | None) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(library)} if library else dict(os.environ)


def run_client(program: Program, port: int, library: Path | None, seconds: int) -> float:
    pin = [] if program.processor is None else ["taskset", "-c", str(program.processor)]
    command = [*pin, *program.client(port, seconds)]
    if program.user:
        who = [f"--reuid={program.user}", f"--regid={program.user}", "--clear-groups"]
        command = ["setpriv", *who, *command]
    ran = subprocess.run(
        command,
        check=False,
        env=environment(library),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    said = ran.stdout + ran.stderr
    if ran.returncode != 0 or "Socket errors" in said or "Non-2xx" in said:
        raise RuntimeError(f"the client ended with {ran.returncode}:\n{said[-2000:]}")
    if not program.figure:
        return 0.0
    found = re.findall(program.figure, said.replace("\r", "\n"))
    if not found:
        raise RuntimeError(f"the client printed no figure:\n{said[-2000:]}")
    return float(found[-1])


def check(program: Program, folder: Path, library: Path) -> str:
    """Run the program in all four ways; returns a complaint, or nothing."""
    for ends in [(None, None), (library, library), (library, None), (None, library)]:
        how = "+".join("accelerated" if end else "plain" for end in ends)
        port = free_port()
        program.setup(folder, port)
        try:
            with serving(program, folder, port, ends[0]) as pid:
                run_client(program, port, ends[1], seconds=1)
                count = joined(pid)
        except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as why:
            return f"{how}: {why}"
        finally:
            shutil.rmtree(folder / "data", ignore_errors=True)
        if (ends == (library, library)) != (count > 0):
            return f"{how}: {count} connections were in shared memory"
    return ""


@contextlib.contextmanager
def busy_processors(*, busy: bool) -> Iterator[None]:
    """Have an endless loop beside the programs on each processor, if so."""
    endless = ["-c", "while True: pass"]
    loops = [
        # Each in a session of its own: the kernel shares a processor among sessions.
        subprocess.Popen(
            ["taskset", "-c", str(processor), sys.executable, *endless], start_new_session=True
        )
        for processor in ((0, 1) if busy else ())
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def bench(
    program: Program, folder: Path, library: Path, turns: int, ends: str
) -> dict[str, object]:
    """Let plain and accelerated runs take turns; `ends` are those that are accelerated."""
    figures: dict[bool, list[float]] = {False: [], True: []}
    port = free_port()
    program.setup(folder, port)
    for turn in range(2 * turns):
        accelerated = turn % 2 == 1
        end = library if accelerated else None
        with serving(program, folder, port, None if ends == "client" else end):
            figures[accelerated].append(
                run_client(program, port, None if ends == "server" else end, seconds=2)
            )
    shutil.rmtree(folder / "data", ignore_errors=True)
    medians = {accelerated: statistics.median(values) for accelerated, values in figures.items()}
    return {
        "program": program.name,
        "ends": ends,
        "plain": figures[False],
        "accelerated": figures[True],
        "ratio": round(medians[True] / medians[False], 3),
        "load_average": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--ends", choices=("both", "client", "server"), default="both", help="which are accelerated"
    )
    parser.add_argument("--busy", action="store_true", help="with a loop on each processor")
    parser.add_argument("names", nargs="*", help="programs; all if none is named")
    options = parser.parse_args()
    failed = passed = skipped = 0
    for program in PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        if program.bench_only and not options.bench:
            continue
        missing = [need for need in program.needs if not shutil.which(need)]
        if missing:
            print(f"{program.name}: skipped, no {', '.join(missing)}", file=sys.stderr)
            skipped += 1
            continue
        with tempfile.TemporaryDirectory() as name:
            folder, library = Path(name), options.library.resolve()
            if options.bench:
                if program.figure:
                    with busy_processors(busy=options.busy):
                        figures = bench(program, folder, library, options.turns, options.ends)
                    print(json.dumps(figures), flush=True)
                continue
            complaint = check(program, folder, library)
        print(f"{program.name}: {complaint or 'ok'}", flush=True)
        failed, passed = failed + bool(complaint), passed + (not complaint)
    if not options.bench:
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

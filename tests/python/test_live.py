"""What `weft live` says about programs and processes."""

from __future__ import annotations

import os
import random
import resource
import shutil
import struct
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from weft import live, live_elf, live_figures

if TYPE_CHECKING:
    from collections.abc import Iterator

GNU_LOADER = b"/lib64/ld-linux-x86-64.so.2\0"


def elf(path: Path, kinds: list[int], bits: int = 2, rest: bytes = GNU_LOADER) -> Path:
    """Write the beginning of an ELF program with segments of these kinds, each with the rest."""
    head = bytearray(64)
    head[:6] = b"\x7fELF" + bytes([bits, 1])
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, len(kinds))
    begin = 64 + 56 * len(kinds)
    segments = [struct.pack("<IIQ40x", kind, 0, begin) for kind in kinds]
    path.write_bytes(bytes(head) + b"".join(segments) + rest)
    path.chmod(0o755)
    return path


def test_a_dynamically_linked_program_has_no_obstacle(tmp_path: Path) -> None:
    assert live.obstacle(str(elf(tmp_path / "dynamic", [6, 3, 1]))) is None


@pytest.mark.parametrize(
    ("kinds", "bits", "mode", "why"),
    [
        ([1, 1], 2, 0o755, "statically linked"),
        ([3], 1, 0o755, "32-bit"),
        ([3], 2, 0o4755, "other rights"),
    ],
)
def test_an_obstacle_is_named(
    tmp_path: Path, kinds: list[int], bits: int, mode: int, why: str
) -> None:
    program = elf(tmp_path / "program", kinds, bits)
    program.chmod(mode)
    assert why in (live.obstacle(str(program)) or "")


def test_a_file_that_is_no_program_is_said_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o644)
    (tmp_path / "file").chmod(0o640)
    said = f"{tmp_path}/file is not marked as executable (-rw-r-----); "
    assert live.obstacle(f"{tmp_path}/file") == said + "name a program, or use chmod +x"
    assert live.obstacle(str(tmp_path)) == f"{tmp_path} is a folder, not a program"
    assert live.obstacle(f"{tmp_path}/none") == f"there is no program {tmp_path}/none"
    assert "on the path" in (live.obstacle("no-such-program") or "")


def test_a_program_of_another_c_library_is_not_for_this_one(tmp_path: Path) -> None:
    program = elf(tmp_path / "program", [3, 1], rest=b"/lib/ld-musl-x86_64.so.1\0")
    assert "/lib/ld-musl-x86_64.so.1" in (live.obstacle(str(program)) or "")


def test_a_script_is_judged_by_its_interpreter(tmp_path: Path) -> None:
    interpreter = elf(tmp_path / "interpreter", [1])
    script = tmp_path / "script"
    script.write_text(f"#!{interpreter} -x\n")
    script.chmod(0o755)
    assert str(interpreter) in (live.obstacle(str(script)) or "")


def test_the_library_comes_before_others_that_are_preloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    assert live.environment(tmp_path / "a.so")["LD_PRELOAD"] == f"{tmp_path}/a.so:/other.so"


def test_the_library_is_found_by_its_own_c_librarys_loader_alone() -> None:
    loaded = live.environment(live.library())
    maps = subprocess.run(
        ["cat", "/proc/self/maps"], env=loaded, capture_output=True, text=True, check=True
    )
    assert live_figures.LIBRARY in maps.stdout
    assert not maps.stderr
    # Another loader opens the path as it stands; a host without `/$LIB` has no such path.
    first = loaded["LD_PRELOAD"].split(":")[0]
    assert first == str(live.library()) or not Path(first).exists()


def test_a_library_that_is_loaded_already_is_not_named_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    once = live.environment(live.library())
    monkeypatch.setenv("LD_PRELOAD", once["LD_PRELOAD"])
    assert live.environment(live.library())["LD_PRELOAD"] == once["LD_PRELOAD"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "verify_asan_link_order=0"),
        ("halt_on_error=0", "halt_on_error=0:verify_asan_link_order=0"),
        ("verify_asan_link_order=1", "verify_asan_link_order=1"),
    ],
)
def test_the_address_sanitizer_is_told_that_a_library_precedes_it(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    monkeypatch.setenv("ASAN_OPTIONS", before)
    assert live.environment(Path("/lib.so"))["ASAN_OPTIONS"] == after


@pytest.mark.parametrize("compiler", [["musl-gcc"], ["gcc", "-fsanitize=address"]])
def test_what_cannot_be_accelerated_starts_as_ever(tmp_path: Path, compiler: list[str]) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no {compiler[0]}")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text('#include <stdio.h>\nint main(void) { puts("started"); }')
    made = subprocess.run([*compiler, source, "-o", program], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no {' '.join(compiler)}")
    loaded = live.environment(live.library())
    for command in ([program], ["sh", "-c", str(program)]):
        ran = subprocess.run(command, env=loaded, capture_output=True, text=True, check=False)
        assert (ran.stdout, ran.stderr, ran.returncode) == ("started\n", "", 0)


def test_everything_after_two_dashes_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(live, "library", lambda: Path("/lib.so"))
    monkeypatch.setattr(os, "execvpe", lambda name, words, env: ran.append((name, words)))
    CliRunner().invoke(live.live, ["--", "sh", "-c", "--help", "status"])
    assert ran == [("sh", ("sh", "-c", "--help", "status"))]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--"], "No program after '--'."),
        (["sh", "-c", "true"], "To run a program: weft live -- sh -c true"),
        (["no-such-program"], "No such command 'no-such-program'"),
    ],
)
def test_a_program_that_is_missing_or_misplaced_is_said(words: list[str], said: str) -> None:
    result = CliRunner().invoke(live.live, words)
    assert result.exit_code == 2
    assert said in result.output
    assert "Usage: live [OPTIONS] -- PROGRAM" in result.output


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("WEFT_LIVE", "maybe", "on or off"),
        ("WEFT_LIVE_RING", "1000", "a power of two from 4096"),
        ("WEFT_LIVE_RING", "2048", "a power of two from 4096"),
        ("WEFT_LIVE_RING", "-4096", "a power of two from 4096"),
        ("WEFT_LIVE_LIMIT", "many", "a number of connections"),
        ("WEFT_LIVE_DIRECTORY", "here", "a directory's absolute path"),
        ("WEFT_LIVE_DIRECTORY", "/no/such/place", "a directory's absolute path"),
        ("WEFT_LIVE_LOG", "/no/such/place", "the path of a file that can be written"),
        ("WEFT_LIVE_LOG", "/", "the path of a file that can be written"),
        ("WEFT_LIVE_RNG", "4096", "no such setting; there are WEFT_LIVE, WEFT_LIVE_RING"),
    ],
)
def test_a_setting_that_the_library_would_ignore_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setattr(live, "library", lambda: Path("/lib.so"))
    monkeypatch.setattr(os, "execvpe", lambda *_: pytest.fail("the program ran"))
    monkeypatch.setenv(name, value)
    result = CliRunner().invoke(live.live, ["--", "true"])
    assert result.exit_code == 1
    assert f"{name}={value}: " in result.output
    assert said in result.output


def test_settings_that_the_library_takes_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = {"": "off", "_RING": "8388608", "_LIMIT": "0", "_DIRECTORY": str(tmp_path)}
    for name, value in taken.items():
        monkeypatch.setenv(f"WEFT_LIVE{name}", value)
    for log in ("stderr", str(tmp_path / "log"), str(Path(__file__))):
        monkeypatch.setenv("WEFT_LIVE_LOG", log)
        live.check_settings()


def test_check_ends_with_one_and_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_LIVE_LIBRARY", "/nowhere/lib.so")
    result = CliRunner().invoke(live.live, ["check", "sh"])
    assert result.exit_code == 1
    assert "/nowhere/lib.so" in result.output


def test_the_figures_of_a_process_are_read_by_name(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text("redis\n")
    file = tmp_path / "figures"
    file.write_bytes(struct.pack("=59Q", 8, *range(10, 68)))
    process = live_figures._read(file, tmp_path / "7")
    assert process is not None
    assert (process.pid, process.program) == (7, "redis")
    assert process.counts["candidates"] == 10
    assert process.fallen_through["elsewhere"] == 24
    assert process.fallen_through["other_user"] == 26
    assert process.fallen_through["epoll"] == 31
    assert process.fallen_through["filter"] == 42
    assert process.fallen_through["withdrawn"] == 43
    assert process.fallen_through["unusable"] == 45
    assert process.moved_back["elsewhere"] == 46
    assert process.moved_back["peer"] == 61
    assert process.moved_back["bare_calls"] == 62
    assert process.moved_back["full"] == 63
    assert process.moved_back["filter"] == 64
    assert process.interrupts == process.counts["word_wakes"] + process.counts["doorbells"]
    assert process.polling_entries == 21
    assert process.kernel_entries == process.interrupts + 18 + 20 + 21 + 22 + 23


@pytest.mark.parametrize(("words", "layout"), [(55, 7), (57, 8), (59, 7)])
def test_the_figures_of_another_version_are_left_alone(
    tmp_path: Path, words: int, layout: int
) -> None:
    file = tmp_path / "figures"
    file.write_bytes(struct.pack(f"={words}Q", layout, *range(words - 1)))
    assert live_figures._read(file, tmp_path) is None


def test_a_go_program_is_left_alone(tmp_path: Path) -> None:
    program = elf(tmp_path / "program", [3], rest=GNU_LOADER + b"\xff Go buildinf:")
    assert "Go program" in (live.obstacle(str(program)) or "")


def machine_code(path: Path, code: bytes) -> Path:
    """Write a dynamic program of x86-64 whose one executable segment is this code."""
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<H", head, 18, 62)
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, 2)
    place = 64 + 2 * 56
    segments = struct.pack("<IIQQQQQQ", 1, 5, place, 0, 0, len(code), len(code), 0)
    segments += struct.pack("<I52x", 3)
    path.write_bytes(bytes(head) + segments + code)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("code", "said"),
    [
        # mov eax, 1; mov rdi, rsi; syscall; test rax, rax
        ("b801000000 4889f7 0f05 4885c0 909090", "(write)"),
        # xor eax, eax; syscall; ret
        ("31c0 0f05 c3 9090909090", "(read)"),
        ("b8a9010000 0f05 4885c0 909090", "io_uring"),
        # Go's: the number comes in an argument, and the result is compared with -4095.
        ("4c89c8 0f05 483d01f0ffff", live_elf.UNKNOWN_CALL),
        # A frame's: mov rdx, [rbp - 40]; syscall; mov [rbp - 8], rax
        ("488b55d8 0f05 488945f8 9090", live_elf.UNKNOWN_CALL),
        # lea rax, [rip + 0x050f] is no system call, and getpid moves no bytes
        ("488d050f050000 4885c0 909090", ""),
        ("b827000000 0f05 4885c0 909090", ""),
        # xor eax, eax; lea rax, [rip + 0x050f7a1a]; mov [rdi - 72], rax
        ("31c0 488d051a7a0f05 488947b8 9090", ""),
    ],
)
def test_system_calls_of_a_programs_own_are_named(tmp_path: Path, code: str, said: str) -> None:
    program = machine_code(tmp_path / "program", bytes.fromhex(code))
    assert live.obstacle(str(program)) is None
    found = live.own_calls(str(program))
    assert (said in (found or "")) if said else found is None


def importing(path: Path, names: list[str]) -> Path:
    """Write a dynamic program that takes these functions from others."""
    strings, symbols = b"\0", bytes(24)
    for name in names:
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 0, 0, 0)
        strings += name.encode() + b"\0"
    # One that it has itself is nobody else's.
    symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, 0, 0)
    strings += b"splice\0"
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    place = 64 + 56
    sections = place + len(symbols) + len(strings)
    struct.pack_into("<QQ", head, 32, 64, sections)
    struct.pack_into("<HHHHH", head, 54, 56, 1, 64, 2, 1)
    tables = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, place, len(symbols), 1, 0, 8, 24)
    tables += struct.pack("<IIQQQQII16x", 0, 3, 0, 0, place + len(symbols), len(strings), 0, 0)
    path.write_bytes(bytes(head) + struct.pack("<I52x", 3) + symbols + strings + tables)
    path.chmod(0o755)
    return path


def test_a_damaged_program_is_refused_or_read(tmp_path: Path) -> None:
    path = importing(tmp_path / "program", ["execve"])
    whole = path.read_bytes()
    draw = random.Random(1)
    read = 0
    for _ in range(400):
        data = bytearray(whole)
        data[draw.randrange(4, len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.choice([len(data), draw.randrange(5, len(data))])])
        with suppress(live_elf.ElfError):
            live_elf.read(path)
            read += 1
    assert 0 < read < 400


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("execve", "inherit"),
        ("posix_spawnp", "inherit"),
        ("vfork", "inherit"),
        ("system", "inherit"),
        ("sendmsg", "SCM_RIGHTS"),
        ("fdopen", "streams"),
        ("__dprintf_chk", "streams"),
        ("dup2", "number 0, 1 or 2"),
        ("splice", "by itself"),
        ("io_uring_queue_init", "io_uring"),
        ("syscall", "bare system calls"),
        ("sockatmark", "urgent"),
    ],
)
def test_what_brings_connections_back_is_named(tmp_path: Path, name: str, said: str) -> None:
    program = importing(tmp_path / "program", ["read", name])
    found = live.cautions(str(program))
    assert len(found) == 1
    assert said in found[0]
    assert f"{name} in program" in found[0]
    assert live.cautions(str(importing(tmp_path / "other", ["read"]))) == []
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    assert live.cautions(str(script)) == found


def test_the_other_end_is_looked_at() -> None:
    assert "not started under weft live" in (live.peer_obstacle(os.getpid()) or "")
    assert "no process" in (live.peer_obstacle(2**22 + 1) or "")


@contextmanager
def running(library: Path | None, **how: Any) -> Iterator[int]:
    """Run a program that has begun, perhaps with a library; its number."""
    loaded = {} if library is None else {"LD_PRELOAD": str(library)}
    with subprocess.Popen(
        ["cat"],
        env={**os.environ, **loaded},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        **how,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b"here\n")
        program.stdin.flush()
        program.stdout.readline()
        yield program.pid
        program.stdin.close()


def test_a_copy_of_the_library_is_found_by_any_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = Path(shutil.copy(live.library(), tmp_path / "copy.so"))
    with running(copy) as pid:
        assert live.peer_obstacle(pid) is None
        assert live_figures.process(pid).counts["candidates"] == 0
        # What only this process names is found too.
        monkeypatch.setenv("WEFT_LIVE_LIBRARY", str(copy))
        monkeypatch.setattr(live_figures, "_NAMING", ("WEFT_LIVE_LIBRARY",))
        assert live.peer_obstacle(pid) is None
        monkeypatch.setenv("WEFT_LIVE_LIBRARY", "/elsewhere.so")
        assert "not started under weft live" in (live.peer_obstacle(pid) or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs as another user")
def test_another_users_program_is_trusted_by_the_directorys_group_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user, group = 61_001, 61_100
    monkeypatch.delenv("WEFT_LIVE_DIRECTORY", raising=False)
    with running(None, user=user, group=user, extra_groups=[group]) as pid:
        before = f"process {pid} belongs to user {user}, "
        none = "and WEFT_LIVE_DIRECTORY names no directory of a group of both"
        assert live.peer_obstacle(pid) == before + none
        monkeypatch.setenv("WEFT_LIVE_DIRECTORY", str(tmp_path))
        tmp_path.chmod(0o2770)
        os.chown(tmp_path, 0, group + 1)
        not_in = f"who is not in group {group + 1} of {tmp_path}"
        assert live.peer_obstacle(pid) == before + not_in
        os.chown(tmp_path, 0, group)
        assert live.peer_obstacle(pid) == f"process {pid} was not started under weft live"
        tmp_path.chmod(0o2777)
        assert "its group may write and others may not" in (live.peer_obstacle(pid) or "")
        missing = tmp_path / "missing"
        monkeypatch.setenv("WEFT_LIVE_DIRECTORY", str(missing))
        unseen = f"and {missing} of WEFT_LIVE_DIRECTORY cannot be looked at"
        assert live.peer_obstacle(pid) == f"{before}{unseen} (No such file or directory)"


def test_a_program_that_may_have_little_memory_is_left_all_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = str(elf(tmp_path / "dynamic", [3]))
    limits = {resource.RLIMIT_AS: 8 << 30, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))
    assert live.obstacle(program) is None
    limits[resource.RLIMIT_DATA] = 1 << 30
    assert "ulimit -d 1048576" in (live.obstacle(program) or "")


def process(**counts: int) -> live_figures.Process:
    """Return what the library could have counted in a process."""
    return live_figures.Process(
        4711,
        "server",
        dict.fromkeys(live_figures._COUNTS, 0) | counts,
        {"peer_plain": 1},
        {"exec": 1200},
    )


def test_status_says_what_is_accelerated_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = process(
        candidates=1003, joined=1002, closed=2, bytes_sent=25_173_120, bytes_received=999,
        messages_sent=5000, word_wakes=40, doorbells=10, sleeps=30, looks=7, questions=3, asides=6,
        turns=4,
    )  # fmt: skip
    monkeypatch.setattr(live_figures, "processes", lambda: iter([busy]))
    assert CliRunner().invoke(live.live, ["status"]).output.splitlines() == [
        "4711 server",
        "  connections     1,000 accelerated now, 1,002 of 1,003 so far",
        "  bytes           25.2 MB sent, 999 B received",
        "  messages        5,000 sent; 50 wake-ups sent, 4,950 avoided; slept 30 times",
        "  system calls    100, 0.02 a message sent: 3 while polling,",
        "                  6 to check other descriptors,",
        "                  4 to yield the processor, the rest to sleep and to wake",
        "  left            1 to the kernel: the other end does not run under weft live",
        "  moved back      1,200 to the kernel: a descriptor is kept open over exec",
    ]


def test_the_figures_are_found_behind_a_number_that_is_closed_meanwhile() -> None:
    # The list's own descriptor is in the list, and gone when its link is read.
    before = os.dup(0)
    figures = os.memfd_create("weft-live")
    os.close(before)
    try:
        found = live_figures._figures(Path("/proc/self"))
    finally:
        os.close(figures)
    assert found == Path(f"/proc/self/fd/{figures}")


def test_status_says_of_a_number_why_it_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(pid: int) -> str:
        ran = CliRunner().invoke(live.live, ["status", str(pid)])
        assert ran.exit_code == 1
        return ran.output

    assert said(99_999_999) == "Error: there is no process 99999999\n"
    assert "runs without the library" in said(os.getpid())

    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(live_figures, "_figures", refuse)
    assert "may not be looked at" in said(os.getpid())


@pytest.mark.parametrize(
    ("counts", "entered"),
    [
        ({"sleeps": 5}, "5: 0 while polling,"),
        (
            {"sleeps": 25_000, "messages_sent": 5},
            "25,000, 5,000 a message sent: 0 while polling,",
        ),
    ],
)
def test_status_counts_system_calls_of_who_sends_little(
    counts: dict[str, int], entered: str
) -> None:
    said = dict(live_figures.lines(process(candidates=1, joined=1, **counts)))
    assert said["system calls"] == entered


def test_status_says_of_a_process_without_connections_nothing_else() -> None:
    assert list(live_figures.lines(process())) == [("connections", "none yet")]


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (1000, "1.00 KB"), (99_950, "100.0 KB"), (10**12, "1.00 TB"), (10**15, "1000 TB")],
)
def test_bytes_are_written_with_their_unit(count: int, said: str) -> None:
    assert live_figures.size(count) == said


@pytest.mark.parametrize(
    ("mapped", "named"),
    [
        ("/opt/weft/libweft_live.so\n", True),
        ("/usr/lib/libc.so.6\n", False),
        ("/opt/weft/libweft_live.so\n/memfd:weft-live (deleted)\n", False),
    ],
)
def test_a_process_without_sockets_is_known_by_the_library(
    tmp_path: Path, mapped: str, named: bool
) -> None:
    folder = tmp_path / "4711"
    folder.mkdir()
    (folder / "maps").write_text("7f00-7f01 r-xp 00000000 08:01 7 " + mapped)
    (folder / "comm").write_text("server\n")
    found = live_figures._without_connections(folder)
    assert (found is not None) == named
    assert found is None or (found.pid, found.program, found.accelerated) == (4711, "server", 0)

"""Facts about an ELF program that decide whether a preload library can accelerate it."""

from __future__ import annotations

import io
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import InterpSegment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The system calls that move a socket's bytes, by their numbers on x86-64.
_CALLS = {
    0: "read",
    1: "write",
    19: "readv",
    20: "writev",
    40: "sendfile",
    44: "sendto",
    45: "recvfrom",
    46: "sendmsg",
    47: "recvmsg",
    275: "splice",
    299: "recvmmsg",
    307: "sendmmsg",
    327: "preadv2",
    328: "pwritev2",
    425: "io_uring_setup",
}
# A call whose number is put into the register elsewhere.
UNKNOWN_CALL = "of a number that is told elsewhere"
_SYSCALL = re.compile(rb"\x0f\x05")
# How a number gets into the register shortly before, with no call, return or jump in between:
# `mov eax, NUMBER`, `xor eax, eax`, `mov rax, NUMBER`.
_NUMBER = re.compile(
    rb"(?:\xb8(..)\x00\x00|\x31\xc0|\x48\xc7\xc0(..)\x00\x00)[^\xc3\xe8\xe9\xeb\xcc]{0,16}\Z",
    re.DOTALL,
)
_LONGEST_BEFORE = 7 + 16
# The middle of `lea REGISTER, [rip + DISTANCE]`: what follows are the upper bytes of the distance.
_ADDRESS = re.compile(rb"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d]..\Z", re.DOTALL)
_LIKELY_AFTER = re.compile(rb"[\x48\x49\x3d\x83\x85\x89\xba\xc3\x5d]")
# `cmp rax, -4095`, the kernel's own boundary between results and errors.
_LOOKS_AT_RESULT = re.compile(rb"\x48\x3d.\xf0\xff\xff", re.DOTALL)
# A move between 64-bit registers, or from the frame into one, and how a function goes on.
_ARGUMENT = re.compile(
    rb"(?:[\x48\x49\x4c\x4d][\x89\x8b][\xc0-\xff]"
    rb"|[\x48\x49\x4c\x4d]\x8b[\x45\x4d\x55\x5d\x65\x6d\x75\x7d].)\Z",
    re.DOTALL,
)
_GOES_ON = re.compile(rb"[\xc3\x5d\x89]|\x48[\x83\x85\x89]")
# Why a program would move connections back, by the C functions that it uses.
TRIGGERS = {
    "runs other programs; a connection that they inherit goes back to the kernel": (
        "execve execv execvp execvpe execl execlp execle fexecve execveat posix_spawn posix_spawnp "
        "posix_spawn_file_actions_adddup2 system popen vfork"
    ),
    "sends messages; a connection that is passed in one (SCM_RIGHTS) goes back": "sendmsg sendmmsg",
    "may open the C library's streams on a connection, which goes back then": (
        "fdopen dprintf vdprintf __dprintf_chk __vdprintf_chk"
    ),
    "duplicates descriptors; a connection that gets number 0, 1 or 2 goes back": "dup2 dup3",
    "may let the kernel move bytes by itself; such a connection goes back": "splice",
    "may use io_uring; once it sets a ring up, nothing is accelerated": (
        "io_uring_queue_init io_uring_queue_init_params io_uring_queue_init_mem "
        "io_uring_queue_init_try_nosqarr io_uring_setup"
    ),
    "may filter its system calls; once it does, nothing is accelerated": "prctl seccomp_load",
    "makes bare system calls; a connection that one names goes back": "syscall",
    "makes asynchronous requests; a connection that one names goes back": (
        "aio_read aio_read64 aio_write aio_write64 lio_listio lio_listio64 io_submit"
    ),
    "may read up to an urgent byte; a connection on which one is sent goes back": "sockatmark",
}
# The mark that the Go linker leaves in every program.
_GO = b"\xff Go buildinf:"

# The library interposes these, or they run before it.
_BELOW = re.compile(r"^(lib(c|pthread|weft_live|uring)[.-]|ld-)")


# The loaders of C libraries that this one is not made for.
_OTHER_LOADERS = ("ld-musl", "ld-uClibc", "klibc-", "linker")


class ElfError(ValueError):
    """Why a file is no program that the library can be loaded into."""


@dataclass(frozen=True)
class Program:
    """A program or a shared library."""

    loader: str | None
    is_go: bool
    needed: tuple[str, ...]
    imports: frozenset[str]
    own_calls: frozenset[str]

    @property
    def is_of_another_c_library(self) -> bool:
        """Whether its loader is not the one of the GNU C library."""
        return (self.loader or "").rpartition("/")[2].startswith(_OTHER_LOADERS)


def read(path: Path) -> Program:
    """Read a file.

    Raises:
        ElfError: if it is no 64-bit ELF file, or cut off.
        OSError: if it cannot be read.

    """
    data = path.read_bytes()
    if data[:4] != b"\x7fELF":
        raise ElfError("is neither a script nor an ELF program")
    if data[4:5] == b"\x01":
        raise ElfError("is a 32-bit program; the library is a 64-bit one")
    try:
        return _parse(data)
    except (ELFError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError):
        # The reader of ELF files meets a damaged one with any of these.
        raise ElfError("is cut off or damaged") from None


def _parse(data: bytes) -> Program:
    file = ELFFile(io.BytesIO(data))
    segments = list(file.iter_segments())
    code = [
        data[segment["p_offset"] :][: segment["p_filesz"]]
        for segment in segments
        if segment["p_type"] == "PT_LOAD" and segment["p_flags"] & P_FLAGS.PF_X
    ]
    own = {
        name
        for part in (code if file["e_machine"] == "EM_X86_64" else [])
        for found in _SYSCALL.finditer(part)
        if (name := _own_call(part, found.start())) is not None
    }
    return Program(
        loader=next(
            (it.get_interp_name() for it in segments if isinstance(it, InterpSegment)), None
        ),
        is_go=_GO in data,
        needed=tuple(
            vars(tag)["needed"]
            for segment in segments
            if isinstance(segment, DynamicSegment)
            for tag in segment.iter_tags("DT_NEEDED")
        ),
        imports=frozenset(_imports(file)),
        own_calls=frozenset(own),
    )


def _own_call(code: bytes, at: int) -> str | None:
    """Name the call that an instruction at this place makes, by the rules of bare_calls.rs.

    The two bytes alone also stand in addresses and numbers, so what stands around them decides.
    """
    before, after = code[max(0, at - _LONGEST_BEFORE) : at], code[at + 2 : at + 8]
    if _ADDRESS.search(before):
        return None
    last = None
    for start in range(len(before)):
        if (found := _NUMBER.match(before, start)) is not None:
            last = found
    if last is not None:
        number = int.from_bytes(last[1] or last[2] or b"", "little")
        return _CALLS.get(number) if _LIKELY_AFTER.match(after) else None
    by_argument = _ARGUMENT.search(before) and _GOES_ON.match(after)
    return UNKNOWN_CALL if _LOOKS_AT_RESULT.match(after) or by_argument else None


def _imports(file: ELFFile) -> Iterator[str]:
    """Yield the names of the functions that a file takes from others."""
    for section in file.iter_sections("SHT_DYNSYM"):
        if isinstance(section, SymbolTableSection):
            for symbol in section.iter_symbols():
                if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
                    yield symbol.name


def libraries(path: Path) -> list[Path]:
    """Return the libraries that a program is loaded with, but for the C library's own parts."""
    try:
        ran = subprocess.run(
            ["ldd", str(path)], capture_output=True, text=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    named = re.findall(r"^\s*(\S+) => (/\S+)", ran.stdout, re.MULTILINE)
    return [type(path)(place) for name, place in named if not _BELOW.match(name)]

"""Windows between Python programs: memory that others write (Memory Channel 2).

    from weft.messages import Window

    with Window.create("talk", "4 KiB") as window:   # the other program: Window.attach("talk")
        window.write(0, b"hello")                    # into the copies of all members
        window.wait()                                # until something comes
        print(window.memory[:8])                     # a numpy view of one's own copy

A window is found by its name, by programs of the same user on this host. Each member has a copy; a
write goes to the copies of its targets, those of one sender in order, those of several in one order
everywhere. The state machines are `weft_protocol`'s; `crates/messages` lets them drive memory.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from ctypes import c_char_p, c_double, c_int, c_longlong, c_size_t, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from weft import _core
from weft.mpi import MpiError, provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from os import PathLike

# What `crates/messages/src/window/c.rs` takes.
_OTHERS = 1 << 63
_TAKES, _WRITES = 1, 2
_MOST_NODES = 32

Data = bytes | bytearray | memoryview | np.ndarray
Targets = Literal["all", "others"] | int


class WindowError(OSError):
    """Why something cannot be done with a window: its text, and `errno`."""


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(provider()))
    except MpiError as why:
        raise WindowError(str(why)) from None
    for name, (arguments, result) in _CALLS.items():
        function = getattr(library, f"weft_window_{name}")
        function.argtypes, function.restype = arguments, result
    return library


_MADE = (ctypes.POINTER(c_int), c_char_p, c_size_t)
_PLACE = (c_uint64, c_void_p, c_size_t)
# The calls of `include/weft_messages.h`: arguments and result.
_CALLS: Mapping[str, tuple[Sequence[type], type | None]] = {
    "create": ((c_char_p, c_char_p, c_uint64, *_MADE), c_void_p),
    "attach": ((c_char_p, c_char_p, c_int, *_MADE), c_void_p),
    "leave": ((c_void_p,), None),
    "close": ((c_void_p,), None),
    "why": ((c_void_p,), c_char_p),
    "memory": ((c_void_p,), c_void_p),
    "bytes": ((c_void_p,), c_uint64),
    "node": ((c_void_p,), c_int),
    "members": ((c_void_p,), c_uint64),
    "write": ((c_void_p, c_uint64, *_PLACE), c_longlong),
    "read": ((c_void_p, *_PLACE), c_longlong),
    "read_remote": ((c_void_p, c_int, *_PLACE), c_longlong),
    "write_conditional": ((c_void_p, c_int, *_PLACE, c_uint64), c_longlong),
    "deliver": ((c_void_p, c_int, *_PLACE), c_longlong),
    "sweep": ((c_void_p, c_uint64), c_longlong),
    "wait": ((c_void_p, c_double), c_longlong),
    "errors": ((c_void_p, c_int), c_longlong),
    "lock": ((c_void_p, c_int, c_double), c_longlong),
    "unlock": ((c_void_p, c_int), c_longlong),
    "barrier": ((c_void_p, c_int, c_double), c_longlong),
}


class _Handle:
    """A window as C has it, closed with its last use: views of its memory keep it."""

    def __init__(
        self, call: str, directory: str | PathLike[str] | None, name: str, what: int
    ) -> None:
        number, why = c_int(), ctypes.create_string_buffer(512)
        path = None if directory is None else str(directory).encode()
        function = getattr(_library(), f"weft_window_{call}")
        self.pointer = function(path, name.encode(), what, ctypes.byref(number), why, len(why))
        if not self.pointer:
            raise WindowError(number.value, why.value.decode(errors="replace"))

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            _library().weft_window_close(self.pointer)


def _seconds(timeout: float | None) -> float:
    return float("inf") if timeout is None else timeout


def _bytes(data: Data) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the bytes of anything that has some, numpy's arrays among them."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, dtype=np.uint8)


class Window:
    """A member's view of a window."""

    def __init__(self, handle: _Handle) -> None:
        """Take a handle; programs call `Window.create` or `Window.attach`."""
        self._handle = handle

    @classmethod
    def create(
        cls, name: str, size: int | str, *, directory: str | PathLike[str] | None = None
    ) -> Self:
        """Make a window and join it.

        Args:
            name: How others find it: letters, digits, `-` and `_`.
            size: Bytes, as a number or as `"4 KiB"`.
            directory: Where it is found, if not in the usual place of this user.

        Raises:
            WindowError: If there is such a window already, or none can be made.

        """
        count = size if isinstance(size, int) else _core.size(size)
        if not 0 <= count < 1 << 63:
            raise WindowError(f"size {size}: a number of bytes is wanted, or such as '4 KiB'")
        return cls(_Handle("create", directory, name, count))

    @classmethod
    def attach(
        cls,
        name: str,
        *,
        takes: bool = True,
        writes: bool = True,
        directory: str | PathLike[str] | None = None,
    ) -> Self:
        """Join a window that another program has made.

        Args:
            name: Its name.
            takes: Whether others may write this member's copy (mapped incoming).
            writes: Whether this member writes (mapped outgoing).
            directory: Where it is found.

        Raises:
            WindowError: If there is no such window.

        """
        access = (_TAKES if takes else 0) | (_WRITES if writes else 0)
        return cls(_Handle("attach", directory, name, access))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the window. Views of its memory stay readable, and change no more."""
        _library().weft_window_leave(self._handle.pointer)

    def _call(self, name: str, *arguments: object) -> int:
        function = getattr(_library(), f"weft_window_{name}")
        result: int = function(self._handle.pointer, *arguments)
        if result < 0:
            why: bytes = _library().weft_window_why(self._handle.pointer)
            raise WindowError(-result, why.decode(errors="replace"))
        return result

    @property
    def node(self) -> int:
        """The number of this member."""
        return self._call("node")

    @property
    def members(self) -> list[int]:
        """The numbers of those who have a copy."""
        found = self._call("members")
        return [node for node in range(_MOST_NODES) if found >> node & 1]

    @property
    def memory(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The own copy of this member as a numpy view, in which others' writes appear."""
        size = self._call("bytes")
        memory = (ctypes.c_uint8 * size).from_address(self._call("memory"))
        # The view keeps this, and this the handle.
        memory._handle = self._handle  # type: ignore[attr-defined]
        view: np.ndarray[tuple[int], np.dtype[np.uint8]] = np.ctypeslib.as_array(memory)
        view.flags.writeable = False
        return view

    def _targets(self, to: Targets | Iterable[int]) -> int:
        if to == "all":
            return 0
        if to == "others":
            return _OTHERS
        nodes = [to] if isinstance(to, int) else list(to)
        for node in nodes:
            if not isinstance(node, int) or not 0 <= node < _MOST_NODES:
                what = f"'all', 'others', or numbers of members, which are {self.members}"
                raise ValueError(f"to={to!r}: accepted are {what}")
        if not nodes:
            raise ValueError("to: no member is named")
        return sum(1 << node for node in set(nodes))

    def write(self, offset: int, data: Data, to: Targets | Iterable[int] = "all") -> None:
        """Write bytes into the copies of the targets.

        Args:
            offset: Where.
            data: Bytes, or a numpy array.
            to: `"all"` (this member's own copy too), `"others"`, a member's number, or several.

        Raises:
            WindowError: Outside of the window, or not mapped by both sides.

        """
        raw = _bytes(data)
        self._call("write", self._targets(to), offset, raw.ctypes.data, raw.nbytes)

    def read(self, offset: int, length: int) -> bytes:
        """Read this member's own copy, each aligned word of 8 bytes at once and in order."""
        place = ctypes.create_string_buffer(max(length, 1))
        self._call("read", offset, place, length)
        return place.raw[:length]

    def read_remote(self, node: int, offset: int, length: int) -> bytes:
        """Read another's copy, as it is behind all that this member has written."""
        place = ctypes.create_string_buffer(max(length, 1))
        self._call("read_remote", node, offset, place, length)
        return place.raw[:length]

    def write_conditional(self, node: int, offset: int, data: Data, errors: int) -> bool:
        """Write one packet, taken only if its target counts so many errors still; say whether."""
        raw = _bytes(data)
        return bool(
            self._call("write_conditional", node, offset, raw.ctypes.data, raw.nbytes, errors)
        )

    def deliver(self, node: int, offset: int, data: Data) -> int:
        """Write a message that arrives whole, again if an error came between; return how often."""
        raw = _bytes(data)
        return self._call("deliver", node, offset, raw.ctypes.data, raw.nbytes)

    def sweep(self, to: Targets | Iterable[int] = "all") -> None:
        """Wait until all that this member has written is in the copies of the targets."""
        self._call("sweep", self._targets(to))

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until something has come since the last call, or so many seconds; say whether."""
        return bool(self._call("wait", _seconds(timeout)))

    def errors(self, node: int | None = None) -> int:
        """Return how many packets a member has missed, this one if none is named."""
        return self._call("errors", -1 if node is None else node)

    @contextmanager
    def lock(self, index: int = 0, timeout: float | None = None) -> Iterator[None]:
        """Hold a lock, 0 to 15, of which one member at a time has each.

        Raises:
            WindowError: If it is not given back in time (seconds).

        """
        self._call("lock", index, _seconds(timeout))
        try:
            yield
        finally:
            self._call("unlock", index)

    def barrier(self, members: int, timeout: float | None = None) -> None:
        """Wait until so many members have come, and what each has written is in all copies.

        Raises:
            WindowError: If they do not come in time (seconds), or there are more.

        """
        self._call("barrier", members, _seconds(timeout))


def _main() -> int:
    """Print what a C compiler wants for `weft_messages.h`."""
    header = Path(__file__).parent / "include"
    print(f"-I{header} {provider()} -Wl,-rpath,{provider().parent}")
    return 0


if __name__ == "__main__":
    sys.exit(_main())

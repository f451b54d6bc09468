"""Windows between Python programs: reflected memory (Memory Channel 2).

    from weft.messages import Window

    with Window.create("talk", "4 KiB") as window:   # the other program: Window.attach("talk")
        window.write(0, b"hello")                    # into the copies of all members
        window.wait()                                # until the copy changes
        print(window.memory[:8])                     # a numpy view of this member's copy

Programs of the same user on this host find a window by its name. Each member has a copy; a write
goes to the copies of its targets. Writes of one sender arrive in order, writes of several senders
in the same order everywhere. The state machines are those of `weft_protocol`.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from ctypes import c_char_p, c_double, c_int, c_longlong, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from weft import _core
from weft.mpi import provider
from weft.native import MADE, Calls, Handle, Library, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

# The argument of `crates/messages/src/window/c.rs`.
_OTHERS = 1 << 63
_TAKES, _WRITES = 1, 2
_MOST_NODES = 32

Data = bytes | bytearray | memoryview | np.ndarray
Targets = Literal["all", "others"] | int


class WindowError(OSError):
    """An error of a window, with its text and `errno`."""


_PLACE = (c_uint64, c_void_p, c_size_t)
# The calls of `include/weft_messages.h`: arguments and result.
_CALLS: Calls = {
    "create": ((c_char_p, c_char_p, c_uint64, *MADE), c_void_p),
    "attach": ((c_char_p, c_char_p, c_int, *MADE), c_void_p),
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


_LIBRARY = Library("weft_window", _CALLS, WindowError)


def _bytes(data: Data) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the bytes of a buffer or a numpy array."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, dtype=np.uint8)


class Window:
    """A member's view of a window."""

    def __init__(self, handle: Handle) -> None:
        """Wrap a handle; programs call `Window.create` or `Window.attach`."""
        self._handle = handle

    @classmethod
    def create(
        cls, name: str, size: int | str, *, directory: str | PathLike[str] | None = None
    ) -> Self:
        """Create a window and join it.

        Args:
            name: The name by which others find it: letters, digits, `-` and `_`.
            size: Bytes, as a number or as `"4 KiB"`.
            directory: The rendezvous directory, if not the default one of this user.

        Raises:
            WindowError: If the window exists already, or cannot be created.

        """
        count = size if isinstance(size, int) else _core.size(size)
        if not 0 <= count < 1 << 63:
            raise WindowError(
                f"size {size}: accepted is a number of bytes, or a text such as '4 KiB'"
            )
        return cls(Handle(_LIBRARY, "create", directory, name.encode(), count))

    @classmethod
    def attach(
        cls,
        name: str,
        *,
        takes: bool = True,
        writes: bool = True,
        directory: str | PathLike[str] | None = None,
    ) -> Self:
        """Join a window that another program created.

        Args:
            name: Its name.
            takes: Whether others may write this member's copy (mapped incoming).
            writes: Whether this member writes (mapped outgoing).
            directory: The rendezvous directory, if not the default one.

        Raises:
            WindowError: If there is no such window.

        """
        access = (_TAKES if takes else 0) | (_WRITES if writes else 0)
        return cls(Handle(_LIBRARY, "attach", directory, name.encode(), access))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the window. Views of its memory stay readable, but no longer change."""
        _LIBRARY.function("leave")(self._handle.pointer)

    def _call(self, name: str, *arguments: object) -> int:
        return self._handle.call(name, *arguments)

    @property
    def node(self) -> int:
        """The number of this member."""
        return self._call("node")

    @property
    def members(self) -> list[int]:
        """The numbers of the members that have a copy."""
        found = self._call("members")
        return [node for node in range(_MOST_NODES) if found >> node & 1]

    @property
    def memory(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The copy of this member as a read-only numpy view, in which writes appear."""
        size = self._call("bytes")
        memory = (ctypes.c_uint8 * size).from_address(self._call("memory"))
        # The view keeps this array alive, which keeps the handle.
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
        """Read this member's copy, in order, each aligned word of 8 bytes atomically."""
        place = ctypes.create_string_buffer(max(length, 1))
        self._call("read", offset, place, length)
        return place.raw[:length]

    def read_remote(self, node: int, offset: int, length: int) -> bytes:
        """Read another member's copy, after all earlier writes of this member."""
        place = ctypes.create_string_buffer(max(length, 1))
        self._call("read_remote", node, offset, place, length)
        return place.raw[:length]

    def write_conditional(self, node: int, offset: int, data: Data, errors: int) -> bool:
        """Write one packet that is applied only if the target's error count is still `errors`."""
        raw = _bytes(data)
        return bool(
            self._call("write_conditional", node, offset, raw.ctypes.data, raw.nbytes, errors)
        )

    def deliver(self, node: int, offset: int, data: Data) -> int:
        """Write a message intact, again after an error; return the number of attempts."""
        raw = _bytes(data)
        return self._call("deliver", node, offset, raw.ctypes.data, raw.nbytes)

    def sweep(self, to: Targets | Iterable[int] = "all") -> None:
        """Wait until all earlier writes of this member are in the copies of the targets."""
        self._call("sweep", self._targets(to))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the copy has changed since the last call; return whether it has."""
        return bool(self._call("wait", seconds(timeout)))

    def errors(self, node: int | None = None) -> int:
        """Return how many packets a member (this one by default) has missed."""
        return self._call("errors", -1 if node is None else node)

    @contextmanager
    def lock(self, index: int = 0, timeout: float | None = None) -> Iterator[None]:
        """Hold one of the locks 0 to 15.

        Raises:
            WindowError: If it is not released within `timeout` seconds.

        """
        self._call("lock", index, seconds(timeout))
        try:
            yield
        finally:
            self._call("unlock", index)

    def barrier(self, members: int, timeout: float | None = None) -> None:
        """Wait until so many members have arrived and the earlier writes of each are in all copies.

        Raises:
            WindowError: If not all arrive within `timeout` seconds, or there are more members.

        """
        self._call("barrier", members, seconds(timeout))


def _main() -> int:
    """Print the compiler flags for `weft_messages.h`."""
    header = Path(__file__).parent / "include"
    print(f"-I{header} {provider()} -Wl,-rpath,{provider().parent}")
    return 0


if __name__ == "__main__":
    sys.exit(_main())

"""Virtual interfaces between Python programs: connected pairs of work queues (cLAN).

    from weft.virtual_interfaces import Adapter

    adapter = Adapter()
    region = adapter.register(np.zeros(4096, dtype=np.uint8))
    vi = adapter.connect("pair")          # the other program: adapter.listen("pair"), then accept()
    vi.receive(region, cookie=1, offset=0, length=64)
    vi.send(region, cookie=2, offset=1024, length=64)
    done = adapter.wait()                 # each descriptor completes once

A transfer has up to 16 KiB. An adapter owns no thread: work is done inside its calls. The state
machine is that of `weft_protocol`.
"""

from __future__ import annotations

import ctypes
import errno
import time
from ctypes import c_char_p, c_double, c_int, c_longlong, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from weft.native import HANDLE, MADE, Calls, Handle, Library, seconds

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np

Reliability = Literal["unreliable_delivery", "reliable_delivery", "reliable_reception"]
LEVELS: tuple[Reliability, ...] = (
    "unreliable_delivery",
    "reliable_delivery",
    "reliable_reception",
)
# Between two looks for a connection request.
_PAUSE_S = 0.0005


class ViError(OSError):
    """An error of a virtual interface, with its text and `errno`."""


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("reliability", c_int),
        ("tag", c_uint32),
        ("sends", ctypes.c_uint16),
        ("receives", ctypes.c_uint16),
    )


class _Done(ctypes.Structure):
    _fields_ = (
        ("vi", c_int),
        ("is_receive", c_int),
        ("cookie", c_uint64),
        ("length", c_uint64),
        ("error", c_int),
    )


_POST = (HANDLE, c_int, c_uint64, c_uint32, c_void_p, c_size_t)
_CALLS: Calls = {
    "open": ((c_char_p, c_uint32, *MADE), c_void_p),
    "close": ((HANDLE,), None),
    "why": ((HANDLE,), c_char_p),
    "register": ((HANDLE, c_uint32, c_void_p, c_size_t, c_int), c_longlong),
    "deregister": ((HANDLE, c_uint32), c_longlong),
    "listen": ((HANDLE, c_char_p), c_longlong),
    "unlisten": ((HANDLE, c_int), c_longlong),
    "accept": ((HANDLE, c_int, ctypes.POINTER(_Attributes)), c_longlong),
    "connect": ((HANDLE, c_char_p, ctypes.POINTER(_Attributes), c_double), c_longlong),
    "disconnect": ((HANDLE, c_int), c_longlong),
    "send": (_POST, c_longlong),
    "receive": (_POST, c_longlong),
    "write": ((*_POST, c_uint32, c_uint64, c_int), c_longlong),
    "wait": ((HANDLE, c_double, ctypes.POINTER(_Done)), c_longlong),
}
_LIBRARY = Library("weft_vi", _CALLS, ViError)


@dataclass(frozen=True)
class Done:
    """A completed descriptor: its interface, queue, cookie, received bytes, and `errno` or zero."""

    vi: int
    is_receive: bool
    cookie: int
    length: int
    error: int


@dataclass(frozen=True)
class Region:
    """A registered array: what peers need to write to it, and the array itself."""

    handle: int
    address: int
    array: np.ndarray


class Interface:
    """One end of a connection."""

    def __init__(self, handle: Handle, number: int) -> None:
        """Wrap a number; programs call `Adapter.connect` or `Listener.accept`."""
        self._handle, self.number = handle, number

    def _post(
        self, name: str, region: Region, cookie: int, place: tuple[int, int | None], *more: int
    ) -> None:
        offset, length = place
        count = region.array.nbytes - offset if length is None else length
        if not 0 <= offset <= region.array.nbytes or not 0 <= count <= region.array.nbytes - offset:
            size = region.array.nbytes
            raise ValueError(f"{count} bytes at {offset}: the region has {size}")
        at = region.address + offset
        self._handle.call(name, self.number, cookie, region.handle, at, count, *more)

    def send(self, region: Region, cookie: int, offset: int = 0, length: int | None = None) -> None:
        """Post bytes of a region to be sent.

        Raises:
            ViError: If the descriptor is not accepted.

        """
        self._post("send", region, cookie, (offset, length))

    def receive(
        self, region: Region, cookie: int, offset: int = 0, length: int | None = None
    ) -> None:
        """Post a part of a region to receive a message.

        Raises:
            ViError: If the descriptor is not accepted.

        """
        self._post("receive", region, cookie, (offset, length))

    def write(
        self,
        region: Region,
        cookie: int,
        *,
        to: tuple[int, int],
        offset: int = 0,
        length: int | None = None,
        is_told: bool = False,
    ) -> None:
        """Post bytes of a region to be written into memory of the peer.

        Args:
            region: A registered array.
            cookie: By which the program recognises the completion.
            to: The handle of the peer's region, and the address there.
            offset: Where the bytes begin.
            length: How many; up to the region's end if not given.
            is_told: Whether the write completes a receive of the peer.

        Raises:
            ViError: If the descriptor is not accepted.

        """
        self._post("write", region, cookie, (offset, length), *to, int(is_told))

    def disconnect(self) -> None:
        """End the connection: its descriptors complete with `ECONNRESET`."""
        self._handle.call("disconnect", self.number)


class Listener:
    """A name under which peers connect."""

    def __init__(self, handle: Handle, number: int) -> None:
        """Wrap a number; programs call `Adapter.listen`."""
        self._handle, self.number = handle, number

    def accept(
        self,
        reliability: Reliability = "reliable_delivery",
        *,
        tag: int = 0,
        depth: tuple[int, int] = (64, 64),
        timeout: float | None = None,
    ) -> Interface:
        """Accept the next connection request; wait for one.

        Raises:
            ViError: If it asks for another reliability level, or none comes within `timeout`.

        """
        attributes = _attributes(reliability, tag, depth)
        deadline = time.monotonic() + seconds(timeout)
        while True:
            try:
                number = self._handle.call("accept", self.number, ctypes.byref(attributes))
            except ViError as why:
                if why.errno != errno.EAGAIN:
                    raise
                if time.monotonic() > deadline:
                    raise ViError(errno.ETIMEDOUT, f"no request within {timeout} s") from None
                time.sleep(_PAUSE_S)
            else:
                return Interface(self._handle, number)

    def close(self) -> None:
        """Listen no longer."""
        self._handle.call("unlisten", self.number)


def _attributes(reliability: Reliability, tag: int, depth: tuple[int, int]) -> _Attributes:
    if reliability not in LEVELS:
        raise ValueError(f"reliability={reliability!r}: accepted are {', '.join(LEVELS)}")
    return _Attributes(LEVELS.index(reliability), tag, *depth)


class Adapter:
    """The virtual interfaces of one process, with one completion queue."""

    def __init__(
        self, completions: int = 256, *, directory: str | PathLike[str] | None = None
    ) -> None:
        """Open an adapter.

        Args:
            completions: Entries of the completion queue; one too many breaks its connection.
            directory: The rendezvous directory, if not the default one of this user.

        Raises:
            ViError: If it cannot be opened.

        """
        self._handle = Handle(_LIBRARY, "open", directory, completions)
        # Arrays stay where they are while they are registered.
        self._regions: dict[int, Region] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the adapter and its connections."""
        self._handle.__del__()
        self._regions.clear()

    def register(self, array: np.ndarray, *, tag: int = 0, writable: bool = False) -> Region:
        """Register an array, whose memory must be contiguous.

        Args:
            array: The memory.
            tag: Its protection tag, which must be that of the interfaces that use it.
            writable: Whether peers may write to it.

        """
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise ValueError("the array must be contiguous and writable")
        address = array.ctypes.data
        handle = self._handle.call("register", tag, address, array.nbytes, int(writable))
        region = Region(handle, address, array)
        self._regions[handle] = region
        return region

    def deregister(self, region: Region) -> None:
        """End a registration; a descriptor that still uses it breaks its connection."""
        self._handle.call("deregister", region.handle)
        self._regions.pop(region.handle, None)

    def listen(self, name: str) -> Listener:
        """Listen for connection requests under a name."""
        return Listener(self._handle, self._handle.call("listen", name.encode()))

    def connect(
        self,
        name: str,
        reliability: Reliability = "reliable_delivery",
        *,
        tag: int = 0,
        depth: tuple[int, int] = (64, 64),
        timeout: float | None = None,
    ) -> Interface:
        """Connect to a listener.

        Raises:
            ViError: If nobody listens there, or the request is rejected or not answered.

        """
        attributes = ctypes.byref(_attributes(reliability, tag, depth))
        number = self._handle.call("connect", name.encode(), attributes, seconds(timeout))
        return Interface(self._handle, number)

    def wait(self, timeout: float | None = None) -> Done | None:
        """Return the next completed descriptor; `None` if there is none within `timeout`."""
        done = _Done()
        if not self._handle.call("wait", seconds(timeout), ctypes.byref(done)):
            return None
        return Done(done.vi, bool(done.is_receive), done.cookie, done.length, done.error)

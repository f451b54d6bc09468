"""Active messages between Python programs: messages that call handlers (Clint 3.1).

    from weft.active_messages import Node

    node = Node(0)                                    # the other program: Node(1)
    node.open(4)
    node.join((0, 4), network=1)
    node.join((1, 4), network=1)
    node.handle(4, 0, lambda message: print(message.arguments, message.payload))
    node.send(4, to=(1, 4), handler=0, arguments=(7,), payload=b"bytes")
    node.wait()                                       # handlers are called here

There are up to 16 nodes; a payload has up to 2048 bytes. A handler may return an `Answer`. The
state machines are those of `weft_protocol`.
"""

from __future__ import annotations

import ctypes
import errno
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_double,
    c_int,
    c_longlong,
    c_size_t,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from weft.native import HANDLE, MADE, Calls, Handle, Library, seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

_ARGUMENTS = 5
# How long a send waits for a buffer between two tries.
_PAUSE_S = 0.01


class ActiveError(OSError):
    """An error of active messages, with its text and `errno`."""


class _Message(ctypes.Structure):
    _fields_ = (
        ("node", c_uint16),
        ("endpoint", c_uint16),
        ("arguments", c_uint32 * _ARGUMENTS),
        ("payload", c_void_p),
        ("length", c_size_t),
    )


class _Answer(ctypes.Structure):
    _fields_ = (
        ("handler", c_uint16),
        ("arguments", c_uint32 * _ARGUMENTS),
        ("payload", c_void_p),
        ("length", c_size_t),
    )


_Handler = CFUNCTYPE(c_int, c_void_p, POINTER(_Message), POINTER(_Answer))
_CALLS: Calls = {
    "open": ((c_char_p, c_uint16, *MADE), c_void_p),
    "close": ((HANDLE,), None),
    "why": ((HANDLE,), c_char_p),
    "endpoint": ((HANDLE, c_uint16), c_longlong),
    "handle": ((HANDLE, c_uint16, c_uint16, _Handler, c_void_p), c_longlong),
    "join": ((HANDLE, c_uint16, c_uint16, c_uint32), c_longlong),
    "send": (
        (
            *(HANDLE, c_uint16, c_uint16, c_uint16, c_uint16),
            *(POINTER(c_uint32 * _ARGUMENTS), c_char_p, c_size_t),
        ),
        c_longlong,
    ),
    "wait": ((HANDLE, c_double), c_longlong),
    "outstanding": ((HANDLE,), c_longlong),
    "counts": ((HANDLE, POINTER(c_uint64 * 5)), c_longlong),
}
_LIBRARY = Library("weft_am", _CALLS, ActiveError)


@dataclass(frozen=True)
class Message:
    """A message as its handler receives it; `payload` is `None` unless it is a bulk message."""

    initiator: tuple[int, int]
    arguments: tuple[int, ...]
    payload: bytes | None


@dataclass(frozen=True)
class Answer:
    """The answer of a handler: the handler to call at the initiator, arguments, payload."""

    handler: int
    arguments: tuple[int, ...] = ()
    payload: bytes | None = None


@dataclass(frozen=True)
class Counts:
    """Messages delivered, failed, handled here, refused here, and malformed packets."""

    delivered: int
    failed: int
    handled: int
    refused: int
    damaged: int


def _words(arguments: tuple[int, ...]) -> ctypes.Array[c_uint32]:
    if len(arguments) > _ARGUMENTS or not all(0 <= it < 1 << 32 for it in arguments):
        raise ValueError(f"arguments={arguments}: accepted are up to {_ARGUMENTS} of 32 bits")
    return (c_uint32 * _ARGUMENTS)(*arguments)


class Node:
    """One process, a port of Clint's switch."""

    def __init__(self, number: int, *, directory: str | PathLike[str] | None = None) -> None:
        """Open a node.

        Args:
            number: 0 to 15; one process at a time has each.
            directory: The rendezvous directory, if not the default one of this user.

        Raises:
            ActiveError: If another process has this number, or it is out of range.

        """
        if not 0 <= number < 1 << 16:
            raise ValueError(f"node {number}: accepted are 0 to 15")
        self._handle = Handle(_LIBRARY, "open", directory, number)
        self._handlers: dict[tuple[int, int], Any] = {}
        self._raised: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the node and its links."""
        self._handle.__del__()

    def open(self, endpoint: int) -> None:
        """Open an endpoint of this node."""
        self._handle.call("endpoint", endpoint)

    def join(self, member: tuple[int, int], network: int) -> None:
        """Make an endpoint (node, endpoint) a member of a virtual network; both nodes check."""
        self._handle.call("join", *member, network)

    def handle(
        self, endpoint: int, index: int, handler: Callable[[Message], Answer | None]
    ) -> None:
        """Set a handler of an endpoint. It must not use its node, but may return an answer.

        Raises:
            ActiveError: If the endpoint is not open.

        """
        kept: list[bytes | None] = [None]

        def called(_: int, message: Any, answer: Any) -> int:
            if self._raised is not None:
                return 0
            try:
                it = message.contents
                payload = ctypes.string_at(it.payload, it.length) if it.payload else None
                said = handler(Message((it.node, it.endpoint), tuple(it.arguments), payload))
                if said is None:
                    return 0
                to = answer.contents
                to.handler, to.arguments = said.handler, _words(said.arguments)
                # The library copies it after this returns.
                kept[0] = said.payload
                if said.payload is not None:
                    to.payload = ctypes.cast(ctypes.c_char_p(said.payload), c_void_p).value
                    to.length = len(said.payload)
            except BaseException as why:
                self._raised = why
                return 0
            return 1

        function = _Handler(called)
        self._handle.call("handle", endpoint, index, function, None)
        self._handlers[endpoint, index] = function

    def _call(self, name: str, *arguments: object) -> int:
        try:
            return self._handle.call(name, *arguments)
        finally:
            # The exception of a handler.
            if (why := self._raised) is not None:
                self._raised = None
                raise why

    def send(
        self,
        endpoint: int,
        *,
        to: tuple[int, int],
        handler: int,
        arguments: tuple[int, ...] = (),
        payload: bytes | None = None,
    ) -> None:
        """Send a message from an endpoint; wait while all send buffers are in use.

        Args:
            endpoint: Of this node.
            to: The target's node and endpoint.
            handler: The index of its handler.
            arguments: Up to five words of 32 bits.
            payload: Up to 2048 bytes; with one it is a bulk message.

        Raises:
            ActiveError: If protection refuses it, or the target does not exist.

        """
        words = ctypes.byref(_words(arguments))
        length = 0 if payload is None else len(payload)
        while True:
            try:
                self._call("send", endpoint, *to, handler, words, payload, length)
            except ActiveError as why:
                if why.errno != errno.EAGAIN:
                    raise
                self._call("wait", _PAUSE_S)
            else:
                return

    def wait(self, timeout: float | None = None) -> bool:
        """Make progress until a message is handled, acknowledged, refused or failed.

        Returns:
            Whether one was within `timeout`. An exception of a handler is raised here.

        """
        return bool(self._call("wait", seconds(timeout)))

    @property
    def outstanding(self) -> int:
        """The number of messages that are neither delivered nor failed, answers included."""
        return self._call("outstanding")

    @property
    def counts(self) -> Counts:
        """The message counters."""
        found = (c_uint64 * 5)()
        self._call("counts", ctypes.byref(found))
        return Counts(*found)

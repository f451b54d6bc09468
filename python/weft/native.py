"""The functions of `include/weft_messages.h`, and handles of their objects."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from typing import TYPE_CHECKING

from weft.mpi import MpiError, provider

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

# The last arguments of a function that opens: where it stores an error's number and text.
MADE = (ctypes.POINTER(c_int), c_char_p, c_size_t)

Calls = dict[str, tuple["Sequence[type]", type | None]]


@cache
def _file() -> ctypes.CDLL:
    return ctypes.CDLL(str(provider()))


class Library:
    """The functions of one prefix.

    Args:
        prefix: `weft_window`, `weft_vi` or `weft_am`.
        calls: Arguments and result of each function.
        error: What is raised with a number of `errno` and a text.

    """

    def __init__(
        self,
        prefix: str,
        calls: Mapping[str, tuple[Sequence[type], type | None]],
        error: type[OSError],
    ) -> None:
        """Load nothing yet: the provider may be missing."""
        self._prefix, self._calls, self.error = prefix, calls, error

    def function(self, name: str) -> ctypes._NamedFuncPointer:
        """Return a function of the library."""
        try:
            function = getattr(_file(), f"{self._prefix}_{name}")
        except MpiError as why:
            raise self.error(str(why)) from None
        function.argtypes, function.restype = self._calls[name]
        found: ctypes._NamedFuncPointer = function
        return found


class Handle:
    """An object of the library, closed when its last user is gone."""

    def __init__(
        self, library: Library, call: str, directory: str | PathLike[str] | None, *what: object
    ) -> None:
        """Open it, or raise the library's error."""
        self._library = library
        number, why = c_int(), ctypes.create_string_buffer(512)
        path = None if directory is None else str(directory).encode()
        function = library.function(call)
        self.pointer = function(path, *what, ctypes.byref(number), why, len(why))
        if not self.pointer:
            raise library.error(number.value, why.value.decode(errors="replace"))

    def __del__(self) -> None:
        if pointer := getattr(self, "pointer", None):
            self.pointer = None
            self._library.function("close")(pointer)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function, and raise the library's error if it fails."""
        if self.pointer is None:
            raise self._library.error("it is closed")
        result: int = self._library.function(name)(self.pointer, *arguments)
        if result < 0:
            why: bytes = self._library.function("why")(self.pointer)
            raise self._library.error(-result, why.decode(errors="replace"))
        return result


def seconds(timeout: float | None) -> float:
    """Return a timeout as the library takes it."""
    return float("inf") if timeout is None else timeout


HANDLE = c_void_p

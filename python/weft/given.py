"""What can be run: a file, a shipped name, or a composition as a dict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from weft._core import Asked

Given: TypeAlias = str | PathLike[str] | Mapping[str, object]
"""A composition or an experiment: the path of a file, the name of something shipped, or a dict
with the tables and keys that a file would have."""

NAME = "composition"
"""The name of a composition without a file in messages, results and reports."""

_ACCEPTED = (
    "a text, a finite number, true or false, a list of values, or a dict of them by name; leave a "
    "key out for its default"
)


def asked_for(given: Given) -> Asked:
    """Return what the core is asked for: a name, or a composition with what it is called.

    Raises:
        TypeError: the composition holds what no file could say; names the key.

    """
    if not isinstance(given, Mapping):
        return fspath(given)
    return NAME, json.dumps(_table(given, ""), ensure_ascii=False, allow_nan=False)


def name_of(asked: Asked) -> str:
    """Return a request as one text, for a person."""
    return asked if isinstance(asked, str) else asked[0]


def _plain(value: object, path: str) -> Any:
    """Return a value of a composition as JSON has it."""
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return _table(value, path)
    if isinstance(value, list | tuple | range):
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, float) and value - value == 0:
        return value
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return _plain(value.tolist(), path)
    raise TypeError(f"{NAME}: {path} = {value!r}: accepted is {_ACCEPTED}")


def _table(table: Mapping[Any, object], path: str) -> dict[str, Any]:
    found = {}
    for name, value in table.items():
        if not isinstance(name, str):
            where = path or "the composition"
            raise TypeError(f"{NAME}: key {name!r} in {where}: accepted is a text")
        found[name] = _plain(value, _joined(path, name))
    return found


def _joined(path: str, name: str) -> str:
    """Return a dotted key; a name with a dot in it is quoted."""
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    own = name if is_bare else json.dumps(name, ensure_ascii=False)
    return f"{path}.{own}" if path else own

"""The private extension module, written in Rust. JSON crosses as text, columns as arrays."""

from collections.abc import Callable
from typing import TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

__version__: str
CODE: str

Column: TypeAlias = npt.NDArray[np.float64] | npt.NDArray[np.int64] | list[str]
Progress: TypeAlias = Callable[[int, int, str], bool]

class WeftError(ValueError):
    """A file or a setting that cannot be used, with its place and what would be accepted."""

    file: str | None
    line: int | None
    column: int | None
    key: str | None
    value: str | None
    accepted: str | None
    message: str

class RawResult(TypedDict):
    tables: dict[str, dict[str, Column]]
    columns: str
    meta: str

class Campaign:
    """A study of which the runs are handed out and taken back."""

    def __new__(
        cls, name: str, preset: str | None, overrides: list[str], options: str
    ) -> Campaign: ...
    def pending(self) -> tuple[int, int, int]: ...
    def jobs(self, first: int, last: int) -> str: ...
    def put(self, runs: list[tuple[str, bytes]]) -> None: ...
    def outcome(self, stopped: bool) -> RawResult: ...

class RawReproduction(RawResult):
    runs: dict[str, RawResult]

def systems() -> str: ...
def show(name_or_path: str, preset: str | None, overrides: list[str]) -> str: ...
def experiments() -> str: ...
def run(
    path_or_name: str,
    preset: str | None,
    overrides: list[str],
    options: str,
    progress: Progress,
) -> RawResult: ...
def reproduce(name: str, options: str, progress: Progress) -> RawReproduction: ...
def schema() -> str: ...
def simulate(jobs: str, workers: int = 1) -> list[tuple[str, bytes]]: ...

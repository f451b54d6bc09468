"""The one place that calls the extension module: decodes its JSON, keeps Ctrl-C alive.

Nothing else in the package imports `weft._core`, so tests put a small recorded core in its place.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from weft._core import Asked, Campaign, Connection, RawReproduction, RawResult

Progress = Callable[[int, int, str], bool | None]
"""Called with (steps done, steps in all, what is running); returning False ends the run."""

_Outcome = TypeVar("_Outcome")
_Callback = Callable[[int, int, str], bool]

# Short enough that Ctrl-C feels immediate, long enough to cost nothing.
_POLL_S = 0.05


def core() -> ModuleType:
    """Return the extension module."""
    from weft import _core  # noqa: PLC0415

    return _core


def error_type() -> type[ValueError]:
    """Return `WeftError`, for an `except` clause that must not import the core up front."""
    kind: type[ValueError] = core().WeftError
    return kind


def version() -> str:
    """Return the version that is part of every result's identity."""
    return str(core().__version__)


def systems() -> list[dict[str, Any]]:
    """Return what is shipped, one entry a system."""
    found: list[dict[str, Any]] = json.loads(core().systems())
    return found


def experiments() -> list[dict[str, Any]]:
    """Return the shipped experiments."""
    found: list[dict[str, Any]] = json.loads(core().experiments())
    return found


def show(asked: Asked, preset: str | None, overrides: list[str]) -> dict[str, Any]:
    """Return a system's parameters, with their origins, and its composition."""
    found: dict[str, Any] = json.loads(core().show(asked, preset, overrides))
    return found


def schema() -> dict[str, Any]:
    """Return the JSON schema of the settings of a whole study, one without layers."""
    found: dict[str, Any] = json.loads(core().schema())
    return found


def ratio(pairs: list[tuple[float, float]]) -> tuple[float, float] | None:
    """Divide sums over replications: the ratio, and the half width of its 95 % interval.

    The half width of a single replication is not a number. None if the denominators are zero.
    """
    found = core().ratio(pairs)
    return found and (found[0], math.nan if found[1] is None else found[1])


def run(
    asked: Asked,
    preset: str | None,
    overrides: list[str],
    options: Mapping[str, object],
    progress: Progress | None,
    ranks: Connection | None = None,
) -> RawResult:
    """Run one experiment; with `ranks`, as rank 0 of several processes that share the run."""
    text = json.dumps(options)

    def call(callback: _Callback) -> RawResult:
        raw: RawResult = core().run(asked, preset, overrides, text, callback, ranks)
        return raw

    return _drive(call, progress)


def follow(by: Connection) -> None:
    """Simulate parts, as a rank other than 0, until rank 0 has no more."""
    core().follow(by)


def dismiss(by: Connection) -> None:
    """Let the other ranks go, at rank 0."""
    core().dismiss(by)


def campaign(
    asked: Asked, preset: str | None, overrides: list[str], options: Mapping[str, object]
) -> Campaign:
    """Plan a study that other processes carry out."""
    made: Campaign = core().Campaign(asked, preset, overrides, json.dumps(options))
    return made


def simulate(jobs: str) -> None:
    """Carry out runs that a campaign wrote down, for the time that it takes."""
    core().simulate(jobs)


def picoseconds(text: str) -> int:
    """Read a span such as "40 ms"."""
    return int(core().span(text))


def reproduce(
    name: str, options: Mapping[str, object], progress: Progress | None
) -> RawReproduction:
    """Run every published experiment of a system."""
    text = json.dumps(options)

    def call(callback: _Callback) -> RawReproduction:
        raw: RawReproduction = core().reproduce(name, text, callback)
        return raw

    return _drive(call, progress)


def chosen(name: str, options: Mapping[str, object]) -> list[tuple[str, list[str], dict[str, Any]]]:
    """Return name, overrides and options of the experiments that `reproduce` runs."""
    found = core().chosen(name, json.dumps(options))
    return [(own, overrides, json.loads(given)) for own, overrides, given in found]


def trace_run(
    system: tuple[Asked, str | None, list[str]],
    trace: str,
    ways: tuple[str | None, str, str, int | None],
    seed: int,
    progress: Progress | None,
) -> tuple[dict[str, dict[str, Any]], int]:
    """Run a trace; `ways` are the channel, the rules, the placement and ranks on a host.

    Returns its tables, and how many messages were shorter than what received them asks for.
    """

    def call(callback: _Callback) -> tuple[dict[str, dict[str, Any]], int]:
        raw: tuple[dict[str, dict[str, Any]], int] = core().trace_run(
            *system, trace, *ways, seed, callback
        )
        return raw

    return _drive(call, progress)


def _drive(call: Callable[[_Callback], _Outcome], progress: Progress | None) -> _Outcome:
    """Run `call` on a thread of its own and wait for it, so that signals are still delivered.

    Python handles a signal on the main thread, between two of its instructions; a main thread that
    is inside the core would handle it only when the run is over. On KeyboardInterrupt the core is
    told to stop and is waited for, so that no run goes on behind the caller's back.
    """
    stop = threading.Event()
    outcome: list[_Outcome] = []
    failure: list[BaseException] = []

    def report(done: int, total: int, label: str) -> bool:
        wanted = progress is None or progress(done, total, label) is not False
        return wanted and not stop.is_set()

    def work() -> None:
        try:
            outcome.append(call(report))
        except BaseException as error:  # handed to the thread that waits, whatever it is
            failure.append(error)

    thread = threading.Thread(target=work, name="weft-run", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_S)
    except KeyboardInterrupt:
        stop.set()
        thread.join()
        raise
    if failure:
        raise failure[0]
    return outcome[0]

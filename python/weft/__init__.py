"""Weft, a laboratory for cluster interconnects.

    >>> import weft
    >>> result = weft.run("clint-figure-8", set={"workload.bulk.load": [0.1, 0.5, 0.9]})
    >>> result.points[["architecture", "traffic", "queueing_mean_us", "verdict"]]
    >>> result.save("out/figure-8")         # tables, figures, report.html, provenance
    >>> weft.load("out/figure-8")           # one row per point, channel and replication

Every column and every parameter carries its unit in its name or beside it; every mean carries the
half width of its 95 % confidence interval; a mean from a run that did not settle says so in the
column `verdict`.
"""

from typing import TYPE_CHECKING, Any

from weft.across import compare
from weft.across.workloads import ComparisonError
from weft.api import experiments, load, read, reproduce, run, schema, show, systems
from weft.figure import Figure
from weft.folder import FolderError
from weft.program import (
    Message,
    Node,
    Operation,
    ProgramResult,
    generate_trace,
    run_program,
    run_trace,
)
from weft.result import Result
from weft.spread import SweepError
from weft.sweep import saturation, sweep
from weft.system import Parameter, System

if TYPE_CHECKING:
    from weft._core import WeftError

__all__ = [
    "ComparisonError",
    "Figure",
    "FolderError",
    "Message",
    "Node",
    "Operation",
    "Parameter",
    "ProgramResult",
    "Result",
    "SweepError",
    "System",
    "WeftError",
    "__version__",
    "compare",
    "experiments",
    "generate_trace",
    "load",
    "read",
    "reproduce",
    "run",
    "run_program",
    "run_trace",
    "saturation",
    "schema",
    "show",
    "sweep",
    "systems",
]


def __getattr__(name: str) -> Any:
    """Load the extension module only when something of it is asked for."""
    if name in {"WeftError", "__version__"}:
        from weft import _core  # noqa: PLC0415

        return getattr(_core, name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")

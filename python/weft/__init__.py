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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.api import experiments, load, read, reproduce, run, schema, show, systems
from weft.folder import FolderError, FolderWarning
from weft.result import Result
from weft.sweep import saturation, sweep
from weft.system import Parameter, System

if TYPE_CHECKING:
    from weft._core import WeftError
    from weft.across import compare
    from weft.across.workloads import ComparisonError
    from weft.cabling import GraphError, cables
    from weft.figure import Figure
    from weft.program import (
        Message,
        Node,
        Operation,
        ProgramResult,
        run_program,
    )
    from weft.recorded import generate_trace, run_trace
    from weft.spread import SweepError
    from weft.topology import TopologyError, read_topology

__all__ = [
    "ComparisonError",
    "Figure",
    "FolderError",
    "FolderWarning",
    "GraphError",
    "Message",
    "Node",
    "Operation",
    "Parameter",
    "ProgramResult",
    "Result",
    "SweepError",
    "System",
    "TopologyError",
    "WeftError",
    "__version__",
    "cables",
    "compare",
    "experiments",
    "generate_trace",
    "load",
    "read",
    "read_topology",
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


# Names that a plain run does not need, and the modules from which they are loaded on first use.
_ELSEWHERE = {
    **dict.fromkeys(("WeftError", "__version__"), "weft._core"),
    "ComparisonError": "weft.across.workloads",
    "Figure": "weft.figure",
    **dict.fromkeys(("GraphError", "cables"), "weft.cabling"),
    **dict.fromkeys(("TopologyError", "read_topology"), "weft.topology"),
    **dict.fromkeys(("Message", "Node", "Operation", "ProgramResult", "run_program"),
                    "weft.program"),
    **dict.fromkeys(("generate_trace", "run_trace"), "weft.recorded"),
    "SweepError": "weft.spread",
    "compare": "weft.across",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load what a plain run does without only when it is asked for."""
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")

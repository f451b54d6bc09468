"""The same programs on several systems: one table, figures of all systems, one page.

`workloads.toml` says what is run. What a system needs to be one among others, such as which channel
takes which message, stands in its preset `compare`; the rates of today in its preset `today`.
"""

from __future__ import annotations

from weft.across.study import compare

__all__ = ["compare"]

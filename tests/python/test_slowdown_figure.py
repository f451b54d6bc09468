"""Slowdown by size, from handmade tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from weft.plots.request import Request
from weft.plots.slowdown import slowdown_by_size

if TYPE_CHECKING:
    import weft

SIZES = ("all", "up to 1 KB", "up to 100 KB", "up to 10 KB", "larger")


def flow(group: str, size: str, p50: float | None, **more: Any) -> dict[str, Any]:
    return {"point": 0, "channel": "net", "group": group, "size": size, "flows": 5,
            "slowdown_p50": p50, "slowdown_p99": (p50 or 0.0) * 10, **more}  # fmt: skip


def drawn(rows: list[dict[str, Any]], axes: tuple[str, ...] = ()) -> weft.Figure | None:
    result = SimpleNamespace(tables={"flows": pd.DataFrame(rows)}, meta={"axes": list(axes)})
    request = Request(name="s", title="S", kind="slowdown_by_size", channel="net")
    return slowdown_by_size(cast("weft.Result", result), request)


def values(figure: weft.Figure | None) -> list[dict[str, Any]]:
    assert figure is not None
    rows: list[dict[str, Any]] = figure.spec["data"]["values"]
    return rows


CALLS = [flow("calls", size, 1.0 + place) for place, size in enumerate(SIZES)]


def test_each_size_has_a_median_and_a_p99_and_the_row_of_all_is_left_out() -> None:
    rows = values(drawn(CALLS))
    assert {(row["size"], row["statistic"], row["slowdown"]) for row in rows} == {
        ("1 KB", "median", 2.0), ("1 KB", "p99", 20.0),
        ("100 KB", "median", 3.0), ("100 KB", "p99", 30.0),
        ("10 KB", "median", 4.0), ("10 KB", "p99", 40.0),
        ("larger", "median", 5.0), ("larger", "p99", 50.0),
    }  # fmt: skip


def test_sizes_stand_in_their_order_and_the_axis_begins_at_a_flow_alone() -> None:
    figure = drawn(CALLS)
    assert figure is not None
    encoding = figure.spec["layer"][0]["encoding"]
    assert encoding["x"]["sort"] == ["1 KB", "10 KB", "100 KB", "larger"]
    assert encoding["y"]["scale"]["domain"][0] == 1.0


def test_groups_have_panels_and_one_of_a_single_size_has_none() -> None:
    incast = [flow("incast", size, 3.0) for size in ("all", "up to 1 MB")]
    assert {row["panel"] for row in values(drawn(CALLS + incast))} == {"calls"}
    other = [flow("bulk", size, 3.0) for size in SIZES]
    figure = drawn(CALLS + other)
    assert figure is not None
    assert figure.spec["facet"]["sort"] == ["calls", "bulk"]
    assert drawn(incast) is None


def test_settings_have_colours() -> None:
    rows = [{**row, "control": control} for control in ("none", "swift") for row in CALLS]
    assert {row["series"] for row in values(drawn(rows, ("control",)))} == {"none", "swift"}


def test_a_size_without_flows_is_left_out() -> None:
    rows = values(drawn([*CALLS[:3], flow("calls", "larger", None)]))
    assert "larger" not in {row["size"] for row in rows}

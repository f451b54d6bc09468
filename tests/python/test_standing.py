"""Which latency is shown, who waits for whom, and notes: on the terminal and on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from weft.console import print_points
from weft.plots import figures_of
from weft.standing import main_latency, why_stuck

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    import weft

CYCLE = "the buffers of a cycle of switches are full and each waits for the next: switch a, b"


def a_fabric(result: weft.Result, *, stuck: int = 0) -> weft.Result:
    """Make a result that of a fabric of several switches, whose last points are stuck."""
    points = result.points.copy()
    points["one_way_mean_us"] = points["queueing_mean_us"] + 100.0
    points["one_way_half_width_us"] = 0.5
    points["one_way_p99_us"] = points["queueing_p99_us"] + 100.0
    points["hops_mean"] = 3.0
    points["waiting_for"] = ""
    if stuck:
        last = points.index[-stuck:]
        points.loc[last, "verdict"] = "stuck"
        points.loc[last, ["one_way_mean_us", "one_way_half_width_us", "one_way_p99_us"]] = None
    runs = points[["point", "channel"]].copy()
    runs["waiting_for"] = None
    runs.loc[points["verdict"] == "stuck", "waiting_for"] = f"{CYCLE}; 7 packets wait at port 1"
    result.tables["points"] = points.drop(columns="waiting_for")
    result.tables["replications"] = runs
    result.meta["figures"] = []
    return result


def test_the_latency_that_is_shown_holds_all_waits(bulk: weft.Result) -> None:
    assert main_latency(bulk.points) == "queueing"
    assert main_latency(a_fabric(bulk).points) == "one_way"
    messages = pd.DataFrame({"one_way_mean_us": [1.0]})
    assert main_latency(messages) == "one_way"
    assert main_latency(pd.DataFrame({"settles_up_to_load": [0.5]})) == "queueing"


def test_the_terminal_names_the_cycle_and_no_mean(
    bulk: weft.Result, capsys: pytest.CaptureFixture[str]
) -> None:
    result = a_fabric(bulk, stuck=1)
    result.meta["notes"] = ["channel bulk: 4 ports are empty"]
    print_points(result)
    printed = capsys.readouterr().out
    assert "mean one way latency (µs)" in printed
    assert "queueing" not in printed
    [row] = [line for line in printed.splitlines() if line.rstrip().endswith("stuck")]
    assert "–" in row
    assert "nan" not in row
    assert "±" not in row
    assert f": {CYCLE}. From then on nothing is delivered. 1 more wait." in printed
    assert "Note: channel bulk: 4 ports are empty" in printed


def test_many_points_that_are_stuck_are_counted(bulk: weft.Result) -> None:
    told = why_stuck(a_fabric(bulk, stuck=5))
    assert len(told) == 3 + 2
    assert told[3] == "2 more points are stuck."
    assert why_stuck(bulk.__class__({}, (), {}, "none")) == []


def test_flows_without_a_way_are_named(bulk: weft.Result) -> None:
    result = a_fabric(bulk, stuck=1)
    for table in ("points", "replications"):
        result.tables[table] = result.tables[table].replace("stuck", "unreachable")
    [told] = why_stuck(result)
    assert told.startswith("Unreachable")
    assert told.endswith(f": {CYCLE}. 1 more wait.")


def test_the_page_says_who_waits_for_whom(bulk: weft.Result, tmp_path: Path) -> None:
    result = a_fabric(bulk, stuck=2)
    result.meta["notes"] = ["channel bulk: <4> ports are empty"]
    page = result.report(tmp_path / "r.html").read_text(encoding="utf-8")
    summary = page[page.index('id="summary"') : page.index("</section>")]
    assert summary.count(CYCLE) == 2
    assert "Note: channel bulk: &lt;4&gt; ports are empty." in summary
    [picture] = [one for one in figures_of(result) if "latency-against-load" in one.name]
    assert "2 stuck, without a mean" in picture.spec["title"]["subtitle"]
    drawn = [row["y"] for row in picture.spec["data"]["values"]]
    assert min(drawn) > 100.0
    assert len(drawn) == len(result.points) - 2

"""What streams got, which ports filled, and the fabric with its slider, from handmade tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pytest

from weft.plots.fabric import fabric, port_occupancy
from weft.plots.request import Request
from weft.plots.streams import stream_histogram, stream_throughput
from weft.words import axis_title

if TYPE_CHECKING:
    import weft

QUENCH, STOP = "source_quench", "link_level"


def request(kind: str, series: str = "flow_control") -> Request:
    return Request(name="one", title="One", kind=kind, channel="fabric", series=series)


def stream(point: int, seed: int, group: str, number: int, rate: float) -> dict[str, Any]:
    return {"point": point, "channel": "fabric", "seed": seed, "group": group,
            "from": f"host {number}", "to": "host 9", "way": "1 17 2",
            "stream_mb_per_s": rate, "fair_mb_per_s": 50.0}  # fmt: skip


def cable(point: int, link: int, start: tuple[str, int], end: tuple[str, int]) -> dict[str, Any]:
    return {"point": point, "channel": "fabric", "link": link, "name": f"{start[0]} to {end[0]}",
            "from": start[0], "to": end[0], "from_tier": start[1], "to_tier": end[1]}  # fmt: skip


HOST, OTHER = ("host 0", 0), ("host 1", 0)
LEAF, TOP = ("switch 1", 1), ("switch 2", 2)


def sample(point: int, time: float, link: int, load: float, waiting: int) -> dict[str, Any]:
    return {"point": point, "channel": "fabric", "time_us": time, "link": link,
            "link_load": load, "waiting": waiting, "held": 0}  # fmt: skip


@pytest.fixture
def result() -> weft.Result:
    """Two points of one setting each; the first has two runs."""
    points = pd.DataFrame({"point": [0, 1], "channel": "fabric", "flow_control": [QUENCH, STOP]})
    streams = [
        stream(0, 1, "background", 0, 40.0),
        stream(0, 1, "hot", 1, 60.0),
        stream(0, 1, "background", 2, 55.0),
        stream(0, 2, "hot", 1, 99.0),
        stream(1, 1, "hot", 1, 9.9),
        stream(1, 1, "background", 0, 10.0),
    ]
    links, samples = [], []
    for point in (0, 1):
        links += [cable(point, 0, HOST, LEAF), cable(point, 1, LEAF, TOP),
                  cable(point, 2, TOP, LEAF), cable(point, 3, LEAF, OTHER),
                  cable(point, 4, OTHER, LEAF)]  # fmt: skip
        samples += [sample(point, 0.0, 0, 0.9, 0), sample(point, 10.0, 0, 0.5, 0),
                    sample(point, 20.0, 1, 0.011, 0), sample(point, 30.0, 1, 1.0, 3 + point),
                    sample(point, 30.0, 3, 0.0, 7)]  # fmt: skip
    tables = {"points": points, "streams": pd.DataFrame(streams),
              "links": pd.DataFrame(links), "samples": pd.DataFrame(samples)}  # fmt: skip
    return cast("weft.Result", SimpleNamespace(tables=tables, points=points))


def values(figure: weft.Figure | None) -> list[dict[str, Any]]:
    assert figure is not None
    rows: list[dict[str, Any]] = figure.spec["data"]["values"]
    return rows


def test_streams_of_the_first_run_are_ranked_beside_their_fair_share(result: weft.Result) -> None:
    drawn = stream_throughput(result, request("stream_throughput"))
    rows = values(drawn)
    ranks = [(row["rank"], row["stream_mb_per_s"]) for row in rows if row["panel"] == QUENCH]
    assert ranks == [(1, 60.0), (2, 55.0), (3, 40.0)]
    assert {row["fair_mb_per_s"] for row in rows} == {50.0}
    assert next(row for row in rows if row["rank"] == 1)["name"].endswith(" to host 9")
    spec = drawn.spec if drawn else {}
    marks = [layer["mark"]["type"] for layer in spec["spec"]["layer"]]
    assert marks == ["bar", "tick"]
    assert spec["facet"]["sort"] == [STOP, QUENCH] or spec["facet"]["sort"] == [QUENCH, STOP]


def test_groups_have_a_legend_where_there_are_several(result: weft.Result) -> None:
    def legend() -> Any:
        drawn = stream_throughput(result, request("stream_throughput", series=""))
        assert drawn is not None
        return drawn.spec["layer"][0]["encoding"]["color"]["legend"]

    assert legend() == {}
    result.tables["streams"]["group"] = "hot"
    assert legend() is None


def test_of_points_that_are_not_told_apart_the_last_is_drawn(result: weft.Result) -> None:
    rows = values(stream_throughput(result, request("stream_throughput", series="")))
    assert [row["stream_mb_per_s"] for row in rows] == [10.0, 9.9]


def test_a_histogram_counts_the_streams_of_all_runs(result: weft.Result) -> None:
    drawn = stream_histogram(result, request("stream_histogram"))
    rows = {(row["panel"], row["low"]): (row["high"], row["streams"]) for row in values(drawn)}
    assert rows == {
        (QUENCH, 40): (50, 1),
        (QUENCH, 60): (70, 1),
        (QUENCH, 50): (60, 1),
        (QUENCH, 90): (100, 1),
        (STOP, 0): (10, 1),
        (STOP, 10): (20, 1),
    }
    assert drawn is not None
    assert drawn.spec["title"]["subtitle"] == "6 streams of all runs"


def test_occupancy_is_zero_at_the_instants_that_the_table_leaves_out(result: weft.Result) -> None:
    rows = values(port_occupancy(result, request("port_occupancy")))
    curve = [
        (row["time_us"], row["waiting"])
        for row in rows
        if row["panel"] == STOP and row["name"] == "switch 1 to switch 2"
    ]
    assert curve == [(0.0, 0), (10.0, 0), (20.0, 0), (30.0, 4)]
    assert {row["panel"] for row in rows} == {QUENCH, STOP}


def test_only_the_ports_with_the_longest_queues_are_drawn(result: weft.Result) -> None:
    extra = [sample(0, 30.0, 5 + number, 1.0, 10 + number) for number in range(9)]
    cables = [cable(0, 5 + number, LEAF, (f"host {9 + number}", 0)) for number in range(9)]
    result.tables["samples"] = pd.concat([result.tables["samples"], pd.DataFrame(extra)])
    result.tables["links"] = pd.concat([result.tables["links"], pd.DataFrame(cables)])
    rows = values(port_occupancy(result, request("port_occupancy")))
    names = {row["name"] for row in rows if row["panel"] == QUENCH}
    assert names == {f"switch 1 to host {9 + number}" for number in range(1, 9)}


def test_the_slider_steps_through_the_samples(result: weft.Result) -> None:
    drawn = fabric(result, request("fabric"))
    rows = values(drawn)
    assert drawn is not None
    step = drawn.spec["params"][0]
    assert (step["bind"]["min"], step["bind"]["max"], step["value"]) == (0, 2, 2)
    assert {"filter": "datum.step === step"} in drawn.spec["transform"]
    # The first instant is before anything moved. A cable that is nearly idle is not drawn, one
    # with cells that wait is.
    shown = [(row["step"], row["link"], row["load"], row["waiting"])
             for row in rows if row["panel"] == QUENCH]  # fmt: skip
    assert shown == [(0, 0, 0.5, 0), (2, 1, 1.0, 3), (2, 3, 0.0, 7)]


def test_the_way_up_stands_on_the_left_and_the_way_down_on_the_right(result: weft.Result) -> None:
    drawn = fabric(result, request("fabric"))
    assert drawn is not None
    lookup = drawn.spec["transform"][1]["from"]
    places = {row["link"]: (row["x"], row["x2"]) for row in lookup["data"]["values"]}
    assert places == {0: (0, 1), 1: (1, 2), 2: (2, 3), 3: (3, 4), 4: (0, 1)}
    assert {"name", "x", "y", "x2", "y2"} == set(lookup["fields"])


@pytest.mark.parametrize("draw", [stream_throughput, stream_histogram, port_occupancy, fabric])
def test_without_its_table_nothing_is_drawn(result: weft.Result, draw: Any) -> None:
    result.tables.clear()
    assert draw(result, request("any")) is None


def test_settings_of_streams_are_named_with_their_group() -> None:
    streams = "workload.fabric.source.streams"
    assert axis_title(f"{streams}.hot.first") == "Hot streams"
    assert axis_title(f"{streams}.all.burst.fixed") == "Messages of all streams in a burst"
    assert axis_title("workload.bulk.load").startswith("Offered load")

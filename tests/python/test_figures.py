from __future__ import annotations

import dataclasses
import itertools
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from colours import VISIONS, contrast, difference, luminance, seen_by
from weft.checks import checks_of, named_in
from weft.plots.distribution import distribution, measured_time
from weft.plots.overlay import MARK, overlaid
from weft.plots.request import Request, series_labels, spread
from weft.report.markup import marked
from weft.theme import DARK, LIGHT, SHAPES, Theme, paint
from weft.words import axis_title

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import weft


def figure(result: weft.Result, name: str) -> weft.Figure:
    return next(figure for figure in result.figures if figure.name == name)


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


def encodings(spec: dict[str, Any], channel: str) -> list[dict[str, Any]]:
    found = [
        part["encoding"][channel] for part in walk(spec) if channel in part.get("encoding", {})
    ]
    return [entry for entry in found if isinstance(entry, dict)]


def test_an_experiment_gets_the_figures_that_it_asks_for(bulk: weft.Result) -> None:
    assert [figure.name for figure in bulk.figures] == ["table-2", "distribution", "budget"]


def test_without_a_wish_every_kind_that_the_tables_allow_is_drawn(quick: weft.Result) -> None:
    quick.meta["figures"] = []
    kinds = [figure.name for figure in quick.figures]
    assert kinds == [
        "quick-latency-against-load",
        "quick-throughput-against-load",
        "quick-collision-rates",
    ]


def test_latency_has_a_logarithmic_axis_with_its_unit(bulk: weft.Result) -> None:
    drawn = figure(bulk, "table-2").spec
    axes = [y for y in encodings(drawn, "y") if "title" in y]
    assert {y["title"] for y in axes} == {"Mean queueing latency (µs)"}
    assert {y["scale"]["type"] for y in axes} == {"log"}
    assert {x["title"] for x in encodings(drawn, "x") if "title" in x} == {
        "Offered load (fraction of link bandwidth)"
    }


def test_intervals_are_drawn_and_never_below_a_logarithmic_axis(bulk: weft.Result) -> None:
    rows = figure(bulk, "table-2").spec["data"]["values"]
    measured = [row for row in rows if row["mark"] == "measured"]
    assert len(measured) == len(bulk.points)
    assert all(0 < row["lower"] < row["y"] < row["upper"] for row in measured)


def test_printed_numbers_stand_at_their_settings_in_every_panel(bulk: weft.Result) -> None:
    rows = figure(bulk, "table-2").spec["data"]["values"]
    printed = [row for row in rows if row["mark"] == "published"]
    assert len(printed) == 2 * 10
    at_half = {(row["panel"], row["y"]) for row in printed if row["x"] == 0.5}
    assert at_half == {(panel, y) for panel in ("fitted", "literal") for y in (16.8, 53.5)}


def test_points_that_did_not_settle_are_hollow(bulk: weft.Result) -> None:
    spec = figure(bulk, "table-2").spec
    hollow = [part for part in walk(spec) if part.get("fill") == "$ground"]
    assert len(hollow) == 1
    assert "hollow: did not settle" in spec["title"]["subtitle"]


def test_a_setting_that_nobody_named_still_separates_its_curves(bulk: weft.Result) -> None:
    request = Request(name="x", title="", kind="latency_against_load", series="traffic")
    labels = series_labels(bulk.points, "workload.bulk.load", request, bulk)
    assert set(labels) == {
        "single · literal",
        "single · fitted",
        "bursty · literal",
        "bursty · fitted",
    }


def test_collisions_are_told_apart_by_opponent(quick: weft.Result) -> None:
    rows = figure(quick, "figure-10").spec["data"]["values"]
    assert {row["series"] for row in rows} == {
        f"{name} · with {kind}s" for name in ("Q1", "Q2") for kind in ("request", "acknowledgment")
    }


def test_a_figure_is_drawn_where_there_is_no_standard_input(tmp_path: Path) -> None:
    code = (
        "import os; os.close(0); from weft.figure import Figure; "
        "Figure('a', 'A', '', {'data': {'values': [{'x': 1}]}, 'mark': 'point', "
        "'encoding': {'x': {'field': 'x', 'type': 'quantitative'}}}).save('a.svg')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_the_tail_of_a_distribution_falls_from_one_to_the_floor_of_the_axis(
    bulk: weft.Result,
) -> None:
    rows = pd.DataFrame(figure(bulk, "distribution").spec["data"]["values"])
    curves = [curve for _, curve in rows.groupby("series")]
    assert len({curve["latency"].iloc[0] for curve in curves}) == 1
    for curve in curves:
        assert (curve["share"].diff().dropna() <= 0).all()
        assert curve["share"].iloc[0] <= 1
        assert curve["share"].iloc[-1] == rows["share"].min() <= 1e-3


def test_distributions_of_different_panels_are_not_one(bulk: weft.Result) -> None:
    bins, points = bulk.histograms, bulk.points
    alone = bins[bins["point"] == bins["point"].iloc[0]]
    twins = [
        alone.assign(point=point, answer=answer, upper_us=alone["upper_us"] * times)
        for point, answer, times in zip(points["point"].unique()[:2], "ab", (1.0, 2.0), strict=True)
    ]
    tables = {**bulk.tables, "histograms": pd.concat(twins)}
    request = Request(name="d", title="D", kind="histogram", channel="bulk", panels="answer")
    drawn = distribution(dataclasses.replace(bulk, tables=tables), request)
    assert drawn is not None
    assert drawn.spec["facet"]["sort"] == ["a", "b"]
    rows = pd.DataFrame(drawn.spec["data"]["values"])
    ends = rows.groupby("panel")["latency"].max()
    assert ends["b"] == pytest.approx(2 * ends["a"])


def test_packets_that_all_took_equally_long_have_no_distribution(bulk: weft.Result) -> None:
    alike = bulk.histograms.assign(lower_us=0.0, upper_us=1e-6)
    result = dataclasses.replace(bulk, tables={**bulk.tables, "histograms": alike})
    assert "distribution" not in [drawn.name for drawn in result.figures]


def test_curves_that_coincide_are_one_under_both_names(bulk: weft.Result) -> None:
    bins = bulk.histograms
    alone = bins[bins["point"] == bins["point"].iloc[0]]
    twins = [alone.assign(point=point) for point in bins["point"].unique()[:2]]
    alike = dataclasses.replace(bulk, tables={**bulk.tables, "histograms": pd.concat(twins)})
    values = figure(alike, "distribution").spec["data"]["values"]
    (name,) = {row["series"] for row in values}
    assert name == "load 0.1, load 0.2"


def test_a_budget_adds_up_to_the_whole(bulk: weft.Result) -> None:
    rows = pd.DataFrame(figure(bulk, "budget").spec["data"]["values"])
    assert list(dict.fromkeys(rows["stage"]))[:2] == ["buffer wait", "slot wait"]
    totals = bulk.budget.groupby("point")["mean_us"].sum()
    assert rows.groupby("bar")["mean_us"].sum().max() == pytest.approx(totals.max())


def test_a_stage_that_one_point_has_alone_stands_where_that_point_passes_it(
    bulk: weft.Result,
) -> None:
    ways = {"direct": ["store", "wire", "poll"], "hub": ["store", "wire", "switch", "poll"],
            "flag": ["store", "bus_wait", "wire", "poll", "read"]}  # fmt: skip
    at = [{"point": i, "channel": "bulk", "path": path} for i, path in enumerate(ways)]
    rows = [
        {**point, "stage": stage, "mean_us": 1.0}
        for point, stages in zip(at, ways.values(), strict=True)
        for stage in stages
    ]
    bulk.tables["budget"] = pd.DataFrame(rows)
    bulk.tables["points"] = pd.DataFrame([{**point, "offered_load": 0.5} for point in at])
    bulk.meta["axes"] = ["path"]
    asked = {"name": "ways", "title": "", "kind": "latency_budget", "channel": "bulk"}
    bulk.meta["figures"] = [{**asked, "panels": "path"}]
    drawn = figure(bulk, "ways").spec
    stages = drawn["encoding"]["color"]["scale"]["domain"]
    assert stages == ["store", "bus wait", "wire", "switch", "poll", "read"]
    bars = list(dict.fromkeys(row["bar"] for row in drawn["data"]["values"]))
    assert [bar.split(" · ")[0] for bar in bars] == ["direct", "hub", "flag"]


@pytest.mark.parametrize(("y", "dashed"), [("accepted_load", True), ("queueing_mean_us", False)])
def test_the_line_of_all_that_is_offered_is_drawn_for_loads_only(
    bulk: weft.Result, y: str, *, dashed: bool
) -> None:
    asked = {"name": "rates", "title": "", "kind": "throughput_against_load", "channel": "bulk"}
    bulk.meta["figures"] = [{**asked, "y": y}]
    assert ('"strokeDash": [3, 4]' in json.dumps(figure(bulk, "rates").spec)) == dashed


def test_stages_stand_behind_each_other_along_time(bulk: weft.Result) -> None:
    asked = {"name": "time", "title": "", "kind": "latency_along_time", "channel": "bulk"}
    bulk.meta["figures"] = [asked]
    drawn = figure(bulk, "time").spec
    assert [x["stack"] for x in encodings(drawn, "x")] == ["zero"]
    totals = bulk.budget.groupby("point")["mean_us"].sum()
    rows = pd.DataFrame(drawn["data"]["values"])
    assert rows.groupby("bar")["mean_us"].sum().max() == pytest.approx(totals.max())


def test_a_trace_is_drawn_host_by_host(bulk: weft.Result) -> None:
    sent = {"point": 0, "channel": "bulk", "seed": 1, "content": ""}
    bulk.tables["trace"] = pd.DataFrame([
        {**sent, "time_us": 3.0, "until_us": 4.0, "kind": "frame", "initiator": None, "target": 1},
        {**sent, "time_us": 1.0, "until_us": 2.0, "kind": "frame", "initiator": 0, "target": None},
        {**sent, "time_us": 2.1, "until_us": 2.2, "kind": "null", "initiator": None, "target": 0},
        {**sent, "time_us": 2.1, "until_us": 2.2, "kind": "null", "initiator": 7, "target": None},
        {**sent, "seed": 2, "time_us": 0.0, "until_us": 9.0, "kind": "frame", "initiator": 5},
    ])  # fmt: skip
    bulk.meta["figures"] = [{"name": "lanes", "title": "", "kind": "space_time"}]
    rows = figure(bulk, "lanes").spec["data"]["values"]
    assert [(row["lane"], row["way"], row["kind"], row["start"]) for row in rows] == [
        ("host 0", "from the host", "frame", 1.0),
        ("host 0", "to the host", "null", 2.1),
        ("host 1", "to the host", "frame", 3.0),
    ]


def test_without_a_trace_there_is_no_space_time_picture(bulk: weft.Result) -> None:
    bulk.meta["figures"] = [{"name": "lanes", "title": "", "kind": "space_time"}]
    assert not bulk.figures


def test_the_dot_plot_shows_each_value_that_has_an_error(reproduction: weft.Result) -> None:
    rows = figure(reproduction, "published-against-measured").spec["data"]["values"]
    marked = [row for row in rows if not row["head"]]
    assert len(marked) == 20, "a number that counts in another experiment has no row of its own"
    banded = [row for row in marked if row["band_low"] is not None]
    assert len(banded) == 8
    *most, last = banded
    for row in most:
        assert (row["band_low"], row["band_high"]) == pytest.approx((-0.12, 0.12))
    assert (last["band_low"], last["band_high"]) == pytest.approx((-0.02, 0.02))


def test_a_huge_error_is_drawn_at_the_edge_with_its_number(reproduction: weft.Result) -> None:
    reproduction.tables["checks"].loc[0, "error"] = 4.0
    rows = figure(reproduction, "published-against-measured").spec["data"]["values"]
    assert rows[1]["error"] == 0.4
    assert rows[1]["beyond"] == "+400\u202f% (literal)"


def test_a_long_label_of_the_dot_plot_stands_in_two_lines(reproduction: weft.Result) -> None:
    long = "acknowledgments over requests, single packets, offered load 0.05"
    reproduction.tables["checks"].loc[0, "at"] = long
    drawn = figure(reproduction, "published-against-measured")
    assert drawn.spec["data"]["values"][1]["label"].split("\n") == [
        "acknowledgments over requests,",
        "single packets, offered load 0.05",
    ]
    svg = drawn.svg()
    assert ">single packets, offered load 0.05<" in svg, "a line of its own, and whole"
    size = re.search(r'font-size="([\d.]+)px"[^>]*><tspan>acknowledgments over requests,', svg)
    assert size
    assert 2 * float(size[1]) < drawn.spec["height"]["step"], "both within one row"


def test_constants_find_the_checks_that_their_words_name(reproduction: weft.Result) -> None:
    checks = checks_of(reproduction)
    words = "B4 bursty at 0.7 (103.7 us) and the non-bursty 0.5 cell (16.8 us)"
    named = named_in(words, "channel.bulk.switch.scheduled.gap", checks)
    assert {check.published for check in named} == {103.7, 16.8}
    assert {check.preset for check in named} == {"fitted"}
    assert named_in(words, "channel.quick.control.timeout", checks) == []


def test_a_ratio_is_no_mark_on_an_axis_of_latencies(bulk: weft.Result) -> None:
    before = len(figure(bulk, "table-2").spec["data"]["values"])
    bulk.meta["published"].append(
        {"quantity": "queueing_mean_us", "at": {"traffic": "single"}, "over": {"preset": "x"},
         "value": None, "band": {"between": [0.0, 1.0]}, "section": ""}
    )  # fmt: skip
    del bulk.__dict__["figures"]
    assert len(figure(bulk, "table-2").spec["data"]["values"]) == before


def test_words_on_an_axis_keep_the_order_of_the_file(bulk: weft.Result) -> None:
    lengths = {0.1: "40 ms", 0.5: "400 ms", 0.9: "4 s"}
    points = bulk.points[bulk.points["workload.bulk.load"].isin(lengths)]
    length = points["workload.bulk.load"].map(lengths)
    bulk.tables["points"] = points.assign(**{"run.length": length})
    bulk.meta["figures"] = [
        {
            "name": "transient",
            "title": "",
            "kind": "latency_against_load",
            "channel": "bulk",
            "x": "run.length",
            "series": "traffic",
        }
    ]
    drawn = figure(bulk, "transient").spec
    sorts = [x["sort"] for x in encodings(drawn, "x") if "sort" in x]
    assert sorts[0] == ["40 ms", "400 ms", "4 s"]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_colour_stands_out_from_its_ground(theme: Theme) -> None:
    ground = luminance(theme.colours["ground"])
    marks = [*theme.series, *(theme.colours[role] for role in ("within", "outside", "report"))]
    text = [theme.colours[role] for role in ("ink", "muted", "accent")]
    assert min(contrast(luminance(colour), ground) for colour in marks) >= 3.0
    assert min(contrast(luminance(colour), ground) for colour in text) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_as_many_stages_as_a_path_has_differ_in_colour(theme: Theme) -> None:
    # Memory Channel 2 with a flag, through the hub.
    assert len(set(theme.series)) == len(theme.series) >= 15


# Okabe and Ito's own eight stay 10.8 apart, by the same measure; six can do better.
LEAST_APART = 12.0


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_six_lines_can_be_told_apart_by_every_eye(theme: Theme, vision: str) -> None:
    lines = [seen_by(vision, colour) for colour in theme.series[: len(SHAPES)]]
    assert len(lines) == 6
    assert min(difference(*pair) for pair in itertools.combinations(lines, 2)) >= LEAST_APART


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_a_fault_can_be_told_from_a_success_by_every_eye(theme: Theme, vision: str) -> None:
    within, outside = (seen_by(vision, theme.colours[role]) for role in ("within", "outside"))
    assert difference(within, outside) >= LEAST_APART


def test_each_line_has_a_shape_of_its_own() -> None:
    assert len(set(SHAPES)) == len(SHAPES) == 6


def test_differences_of_colours_are_those_of_the_standard() -> None:
    # Sharma, Wu and Dalal 2005, Table 1: rows 1, 7, 14 and 25.
    for one, other, expected in (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 0.0, 0.0), (50.0, -1.0, 2.0), 2.3669),
        ((50.0, -0.001, 2.49), (50.0, 0.0011, -2.49), 4.7461),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ):
        assert difference(one, other) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_painting_leaves_no_colour_by_name(bulk: weft.Result, theme: Theme) -> None:
    for drawn in bulk.figures:
        assert '"$' not in json.dumps(paint(drawn.spec, theme))


def test_figures_render_as_files_and_in_notebooks(quick: weft.Result, tmp_path: Path) -> None:
    drawn = figure(quick, "figure-9")
    assert drawn.svg().startswith("<svg")
    assert drawn.svg(dark=True) != drawn.svg()
    assert drawn.save(tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(drawn.save(tmp_path / "f.json").read_text())["title"]["text"] == drawn.title
    with pytest.raises(ValueError, match=r"\.svg, \.png or \.json"):
        drawn.save(tmp_path / "f.pdf")
    bundle = drawn._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.vegalite.v6+json", "image/svg+xml", "text/plain"}


def test_a_figure_is_the_same_after_others(quick: weft.Result) -> None:
    drawn = next(drawn for drawn in quick.figures if "clip0" in drawn.svg())
    assert drawn.svg() == drawn.svg()


def test_every_figure_of_a_reproduction_renders(reproduction: weft.Result) -> None:
    runs = reproduction.runs.values()
    for drawn in [*reproduction.figures, *(f for run in runs for f in run.figures)]:
        assert drawn.title in drawn.svg()


@pytest.mark.parametrize(
    ("count", "most", "chosen"), [(3, 6, [0, 1, 2]), (9, 3, [0, 4, 8]), (9, 1, [4])]
)
def test_spread_keeps_the_ends(count: int, most: int, chosen: list[int]) -> None:
    assert spread(range(count), most) == chosen


def test_a_measured_axis_runs_along_what_was_swept(bulk: weft.Result) -> None:
    bulk.meta["figures"] = [
        {
            "name": "carried",
            "title": "",
            "kind": "latency_against_load",
            "channel": "bulk",
            "x": "accepted_load",
            "series": "traffic",
        }
    ]
    bulk.tables["points"] = bulk.points[bulk.points["preset"] == "fitted"]
    values = figure(bulk, "carried").spec["data"]["values"]
    assert {row["series"] for row in values if row["mark"] == "measured"} == {"single", "bursty"}


def test_a_single_point_makes_no_curve(quick: weft.Result) -> None:
    quick.meta["figures"] = []
    quick.tables["points"] = quick.points.head(1)
    quick.tables["collisions"] = quick.collisions[
        quick.collisions["point"] == quick.points["point"].iloc[0]
    ]
    assert not [drawn.name for drawn in quick.figures if "against" in drawn.name]


def test_a_load_of_another_channel_is_named_with_it() -> None:
    assert axis_title("workload.bulk.load", "bulk").startswith("Offered load (")
    other = axis_title("workload.bulk.load", "quick")
    assert other == "Offered load on the bulk channel (fraction of link bandwidth)"
    assert axis_title("accepted_mb_per_s_per_host").endswith("(MB/s)")
    assert axis_title("queueing_p999_us") == "P99.9 queueing latency (µs)"
    assert axis_title("hops_mean") == "Mean hops"
    assert axis_title("turn_wait_max_us") == "Longest turn wait (µs)"
    assert axis_title("mapped_memory_max_kib") == "Greatest mapped memory (KiB)"
    assert axis_title("calls_slowdown_p99") == "P99 slowdown of calls"
    assert axis_title("victims_completion_mean_us") == "Mean completion time of victims (µs)"
    assert axis_title("all_acknowledged_max_us") == (
        "Longest time until acknowledged of all flows (µs)"
    )


def test_a_traced_run_is_drawn_packet_by_packet(quick: weft.Result) -> None:
    quick.meta["figures"] = []
    packet = {"point": 0, "channel": "quick", "seed": 1, "sequence": 0, "slot": None}
    quick.tables["trace"] = pd.DataFrame(
        [
            packet | {"time_us": 2.0, "until_us": 2.7, "kind": "qreq", "initiator": 1, "target": 0,
                      "content": None},
            packet | {"time_us": 1.0, "until_us": 1.2, "kind": "gnt", "initiator": None,
                      "target": 1, "content": "0"},
        ]
    )  # fmt: skip
    values = figure(quick, "quick-space-time").spec["data"]["values"]
    assert [(row["lane"], row["kind"]) for row in values] == [("host 1", "gnt"), ("host 1", "qreq")]
    assert "quick-histogram" not in [drawn.name for drawn in quick.figures]
    assert "Who sent what when" in figure(quick, "quick-space-time").svg()
    for name, wait in (("time_us", 50.0), ("until_us", 150.0)):
        quick.tables["trace"][name] += wait
    del quick.figures
    drawn = figure(quick, "quick-space-time").svg()
    assert ">100<" in drawn
    assert "e+" not in drawn, "a time axis is read without exponents"


def test_a_program_shows_its_time_and_where_it_went(quick: weft.Result) -> None:
    first = quick.points.iloc[:2].copy()
    first["program.run.ping_pong.size"] = ["4 B", "1 kB"]
    first["program_time_us"] = [10.0, 90.0]
    measured = {"computing": [0.5, 0.0], "sending": [0.1, 0.2], "waiting": [0.4, 0.7]}
    for name, shares in measured.items():
        first[f"program_{name}_share"] = shares
    first["point"] = [0, 1]
    first["workload.quick.load"] = 0.1
    quick.tables["points"] = pd.concat([first, first.assign(channel="bulk", program_time_us=None)])
    quick.meta["figures"], quick.meta["axes"] = [], ["program.run.ping_pong.size"]
    quick.meta["published"] = []
    drawn = {one.name: one for one in quick.figures}
    bars = pd.DataFrame(drawn["program-shares"].spec["data"]["values"])
    assert list(dict.fromkeys(bars["bar"])) == ["size 4 B · 10.0 µs", "size 1 kB · 90.0 µs"]
    assert bars.groupby("bar")["share"].sum().tolist() == pytest.approx([1, 1])
    assert bars.loc[bars["activity"] == "idle", "share"].tolist() == pytest.approx([0, 0.1])
    times = drawn["program-time"].spec["data"]["values"]
    assert [(row["x"], row["y"]) for row in times] == [("4 B", 10.0), ("1 kB", 90.0)]
    assert "waiting" in drawn["program-shares"].svg()
    points = quick.tables["points"]
    quick.tables["points"] = points.assign(by=["boxes", "messages", "boxes", "messages"])
    quick.meta["axes"] = ["by", "program.run.ping_pong.size"]
    del quick.figures
    times = figure(quick, "program-time").spec["data"]["values"]
    assert [row["x"] for row in times] == ["4 B", "1 kB"], "names are told apart, counts run along"
    quick.tables["points"] = first.assign(channel=["quick", "bulk"], by=["quick", "bulk"])
    del quick.figures
    times = figure(quick, "program-time").spec["data"]["values"]
    assert [(row["series"], row["y"]) for row in times] == [("quick", 10.0), ("bulk", 90.0)]


def test_names_of_code_in_prose_are_marked() -> None:
    assert marked("`cfg` < 1") == "<code>cfg</code> &lt; 1"


def marks(*curves: tuple[str, list[float]], panel: str = "") -> list[dict[str, object]]:
    return [
        {"x": x, "y": y, "series": name, "panel": panel}
        for name, heights in curves
        for x, y in enumerate(heights)
    ]


def test_a_curve_on_another_one_is_dashed_and_the_marks_beneath_it_are_larger() -> None:
    values = marks(("one", [1, 2, 3]), ("on it", [1, 2.001, 9]), ("apart", [5, 6, 7]),
                   ("on both", [1, 2, 8]))  # fmt: skip
    dash, size = overlaid(values, "series", log=False)
    over = {value["series"]: (value["over"], value["area"]) for value in values}
    assert over == {"one": (0, MARK + 180), "on it": (1, MARK + 90), "apart": (0, MARK + 180),
                    "on both": (2, MARK)}  # fmt: skip
    solid, *dashed = dash["strokeDash"]["scale"]["range"]
    assert solid == [1, 0]
    assert len({tuple(one) for one in dashed}) == 2
    assert size["size"]["field"] == "area"


def test_curves_that_only_cross_or_stand_in_other_panels_are_drawn_as_ever() -> None:
    crossing = marks(("up", [1, 2, 3]), ("down", [3, 2, 1]))
    assert overlaid(crossing, "series", log=False) == ({}, {})
    assert "over" not in crossing[0]
    beside = marks(("one", [1, 2])) + marks(("two", [1, 2]), panel="beside")
    assert overlaid(beside, "series", ("panel",), log=False) == ({}, {})
    # On a logarithmic axis it is the ratio that looks near: a percent of a thousandth is nothing.
    decades = marks(("one", [1, 1.5, 1000]), ("two", [1, 2.5, 1100]))
    assert overlaid(decades, "series", log=False) != ({}, {})
    decades = marks(("one", [1, 1.5, 1000]), ("two", [1, 2.5, 1100]))
    assert overlaid(decades, "series", log=True) == ({}, {})


def test_curves_over_load_that_coincide_show_both(bulk: weft.Result) -> None:
    asked = {"name": "load", "title": "", "kind": "throughput_against_load", "channel": "bulk"}
    bulk.meta["figures"] = [asked]
    drawn = figure(bulk, "load").spec
    assert "dashed: lies on another curve" in drawn["title"]["subtitle"]
    fields = [layer["encoding"].get("strokeDash", {}).get("field") for layer in drawn["layer"]]
    assert fields.count("over") == 1


def test_a_distribution_says_whose_times_it_has() -> None:
    assert measured_time("one_way") == ("one way latency", "packets")
    assert measured_time("completion") == ("completion time", "flows")
    assert measured_time("calls_completion") == ("completion time of calls", "flows")

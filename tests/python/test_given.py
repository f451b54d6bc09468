"""Compositions as dicts and graphs as tables of cables, against the real extension module."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import weft

if TYPE_CHECKING:
    from pathlib import Path

STUDY = """\
[system]
title = "A switch"
hosts = 4

[channel.data]
packet = "64 B"
payload = "48 B"
link.rate = "1 Gbit/s"
adapter.send_buffers = "unlimited"
switch.output_queued.latency = "90 ns"

[workload.data]
load = 0.5

[run]
length = "1 ms"
seeds = 2

[sweep]
"workload.data.load" = [0.2, 0.6]
"""


def study() -> dict[str, Any]:
    """Return what the text says, with the values that a script would have."""
    return {
        "system": {"title": "A switch", "hosts": np.int64(4)},
        "channel": {
            "data": {
                "packet": "64 B",
                "payload": "48 B",
                "link": {"rate": "1 Gbit/s"},
                "adapter": {"send_buffers": "unlimited"},
                "switch": {"output_queued": {"latency": "90 ns"}},
            }
        },
        "workload": {"data": {"load": 0.5}},
        "run": {"length": "1 ms", "seeds": 2},
        "sweep": {"workload.data.load": np.array([0.2, 0.6])},
    }


def same(one: weft.Result, other: weft.Result) -> None:
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, other.tables[name])


def test_a_dict_runs_as_the_file_that_it_would_be(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    from_file = weft.run(file)
    assert len(from_file.points) == 2
    same(weft.run(study()), from_file)
    same(weft.sweep(study(), store=None), from_file)
    with ThreadPoolExecutor(2) as pool:
        same(weft.sweep(study(), store=None, executor=pool), from_file)
    settings = {"workload.data.load": 0.6}
    same(weft.run(study(), set=settings, seeds=1), weft.run(file, set=settings, seeds=1))


def test_what_a_dict_ran_is_saved_and_runs_again(tmp_path: Path) -> None:
    result = weft.run(study())
    assert isinstance(result.system, weft.System)
    assert result.system.composition["hosts"] == 4
    result.save(tmp_path / "out")
    same(weft.run(tmp_path / "out" / "spec.toml"), result)


def test_a_dict_stands_on_what_is_shipped_and_on_files_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = weft.show({"base": "clint", "system": {"hosts": 4}})
    assert shipped.composition["hosts"] == 4
    assert len(shipped.parameters) == len(weft.show("clint").parameters)
    (tmp_path / "below.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    assert weft.show({"base": "below.toml", "system": {"hosts": 8}}).composition["hosts"] == 8


def test_programs_and_traces_run_on_a_dict(tmp_path: Path) -> None:
    system = {key: value for key, value in study().items() if key in {"system", "channel"}}

    def ping(me: weft.Node) -> Any:
        if me.rank == 0:
            yield me.send(1, 48)
        if me.rank == 1:
            yield me.receive(0)

    file = tmp_path / "system.toml"
    file.write_text(STUDY.split("[workload", maxsplit=1)[0])
    assert weft.run_program(system, ping).time_us == weft.run_program(file, ping).time_us > 0
    goal = tmp_path / "barrier.goal"
    goal.write_text(weft.generate_trace("barrier", 4))
    assert weft.run_trace(goal, system).time_us == weft.run_trace(goal, file).time_us > 0


@pytest.mark.parametrize(
    ("change", "key", "value", "accepted"),
    [
        ({"link": {"rate": "1 Gbps"}}, "channel.data.link.rate", "1 Gbps", "Gbit/s"),
        ({"link": {"rate": 1}}, "channel.data.link.rate", "1", "Gbit/s"),
        ({"lnik": {}}, "channel.data.lnik", None, "link"),
        ({"switch": {"output_queue": {}}}, "channel.data.switch", "output_queue", "output_queued"),
    ],
)
def test_what_is_wrong_is_named_by_key_value_and_what_is_accepted(
    change: dict[str, object], key: str, value: str | None, accepted: str
) -> None:
    composition = study()
    composition["channel"]["data"] |= change
    with pytest.raises(weft.WeftError) as raised:
        weft.run(composition)
    error = raised.value
    assert str(error).startswith("composition: ")
    assert error.line is None
    assert error.key is not None
    assert error.key.startswith(key)
    assert value is None or value in str(error)
    assert accepted in str(error)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "channel.data.link.rate = <object"),
        (None, "channel.data.link.rate = None: accepted is a text, a finite number"),
        (math.nan, "channel.data.link.rate = nan"),
        (np.inf, "channel.data.link.rate = inf"),
        (["1 Gbit/s", {1}], r"channel.data.link.rate\[1\] = \{1\}"),
        ({1: "Gbit/s"}, "key 1 in channel.data.link.rate: accepted is a text"),
        ({"a.b": b"1"}, "channel.data.link.rate.\"a.b\" = b'1'"),
    ],
)
def test_what_no_file_could_say_is_refused(value: object, said: str) -> None:
    composition = study()
    composition["channel"]["data"]["link"]["rate"] = value
    with pytest.raises(TypeError, match=said):
        weft.run(composition)


def two_racks(kind: type[Any] = nx.Graph) -> Any:
    """Return two leaves with two hosts each, and a spine; links are added back to front."""
    graph = kind()
    graph.add_nodes_from(["a", "b", "c", "d"], kind="host")
    graph.add_nodes_from(["left", "right", "spine"], kind="switch")
    fast = {"rate": "4 Gbit/s", "length": "20 m"}
    slow = {"rate": "1 Gbit/s", "length": "2 m"}
    graph.add_edge("spine", "right", **fast)
    graph.add_edge("spine", "left", **fast)
    for host, leaf in [("d", "right"), ("c", "right"), ("b", "left"), ("a", "left")]:
        graph.add_edge(leaf, host, **slow)
    return graph


def as_dict(graph: Any, *, pairs: bool) -> dict[str, Any]:
    if not pairs:
        return json.loads(json.dumps(nx.node_link_data(graph, edges="edges")))  # type: ignore[no-any-return]
    return {"nodes": dict(graph.nodes(data=True)), "edges": list(graph.edges(data=True))}


FAST, SLOW = {"rate": "4 Gbit/s", "length": "20 m"}, {"rate": "1 Gbit/s", "length": "2 m"}
TABLE = {
    "switches": [
        {"name": "left", "ports": 3},
        {"name": "right", "ports": 3},
        {"name": "spine", "ports": 2},
    ],
    "cables": [
        {"from": "host 0", "to": "left.0", "link": SLOW},
        {"from": "host 1", "to": "left.1", "link": SLOW},
        {"from": "host 2", "to": "right.0", "link": SLOW},
        {"from": "host 3", "to": "right.1", "link": SLOW},
        {"from": "left.2", "to": "spine.0", "link": FAST},
        {"from": "right.2", "to": "spine.1", "link": FAST},
    ],
}


def test_ports_follow_the_order_of_the_nodes_whatever_that_of_the_edges() -> None:
    graph = two_racks()
    assert weft.cables(graph) == TABLE
    for pairs in (False, True):
        plain = as_dict(graph, pairs=pairs)
        assert weft.cables(plain) == TABLE
        plain["edges"].reverse()
        assert weft.cables(plain) == TABLE
    older = as_dict(graph, pairs=False)
    older["links"] = older.pop("edges")
    assert weft.cables(older) == TABLE


@pytest.mark.parametrize("plain", [False, True])
def test_parallel_edges_are_cables_of_their_own(plain: bool) -> None:
    graph = two_racks(nx.MultiGraph)
    graph.add_edge("left", "spine", rate="2 Gbit/s", length="7 m")
    table = weft.cables(as_dict(graph, pairs=False) if plain else graph)
    assert [switch["ports"] for switch in table["switches"]] == [4, 3, 3]
    assert [(one["from"], one["to"], one["link"]["length"]) for one in table["cables"][4:]] == [
        ("left.2", "spine.0", "20 m"),
        ("left.3", "spine.1", "7 m"),
        ("right.2", "spine.2", "20 m"),
    ]


def test_links_are_of_the_channel_where_no_edge_says_anything() -> None:
    graph = two_racks()
    for _, _, attributes in graph.edges(data=True):
        attributes.clear()
    assert all(set(cable) == {"from", "to"} for cable in weft.cables(graph)["cables"])


def test_attributes_of_other_names_are_named_or_left_out_on_request() -> None:
    graph = two_racks()
    nx.set_edge_attributes(graph, 1.5, "weight")
    with pytest.raises(weft.GraphError, match=r"edge 'a' - 'left' has weight = 1.5, which no"):
        weft.cables(graph)
    assert weft.cables(graph, ignore=["weight"]) == TABLE
    nx.set_node_attributes(graph, dict(graph.nodes(data="kind")), "role")
    for _, attributes in graph.nodes(data=True):
        del attributes["kind"]
    assert weft.cables(graph, kind="role", ignore=["weight"]) == TABLE


def edited(change: str) -> Any:
    graph = two_racks()
    match change:
        case "no kind":
            graph.add_edge("left", "new", **SLOW)
        case "kind":
            graph.add_node("new", kind="router")
        case "rate":
            del graph.edges["left", "spine"]["rate"]
        case "unit":
            graph.edges["left", "spine"]["rate"] = 4e9
        case "reserved":
            nx.set_edge_attributes(graph, "half", "reserved")
        case "loop":
            graph.add_edge("left", "left", **SLOW)
        case "hosts":
            graph.add_edge("a", "b", **SLOW)
        case "two cables":
            graph.add_edge("a", "right", **SLOW)
        case "no cable":
            graph.add_node("new", kind="switch")
        case "directed":
            return graph.to_directed()
    return graph


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("no kind", 'node \'new\' has no kind; accepted: kind = "host" or "switch"'),
        ("kind", "node 'new' has kind = 'router'; accepted: \"host\" or \"switch\""),
        ("rate", "edge 'left' - 'spine' has no rate, which other edges have; accepted: a text"),
        ("unit", "edge 'left' - 'spine' has rate = 4000000000.0; accepted: a text with its unit"),
        ("reserved", "edge 'a' - 'left' has reserved = 'half'; accepted: a number from 0 to 1"),
        ("loop", "edge 'left' - 'left' has both ends in one node"),
        ("hosts", "edge 'a' - 'b' joins two hosts; accepted: a switch at one end at least"),
        ("two cables", "host 'a' has 2 edges; accepted: one, to its switch"),
        ("no cable", "switch 'new' has no edge; accepted: one or more"),
        ("directed", "the graph is directed"),
    ],
)
def test_a_graph_that_cannot_be_cabled_is_refused_by_name(change: str, said: str) -> None:
    graph = edited(change)
    for given in (graph, as_dict(graph, pairs=False)):
        with pytest.raises(weft.GraphError) as raised:
            weft.cables(given)
        # A dict has the ends of an edge in the order in which they are written.
        assert said in str(raised.value).replace("'spine' - 'left'", "'left' - 'spine'")


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ([1], "a list is no graph; accepted: a networkx graph, or a dict"),
        ({"nodes": []}, r"a dict with the keys \['nodes'\]; accepted: a networkx graph"),
        ({"nodes": ["a"], "edges": []}, "node 'a'; accepted: a dict with `id`"),
        ({"nodes": {}, "edges": ["ab"]}, "edge 'ab'; accepted: a dict with `source`"),
        ({"nodes": {}, "edges": [("a", "b")]}, "edge 'a' - 'b' ends in 'a', which is no node"),
        (
            {"nodes": {1: {"kind": "host"}, "1": {"kind": "switch"}}, "edges": []},
            "two nodes of the name 1",
        ),
    ],
)
def test_what_is_no_graph_is_refused(graph: Any, said: str) -> None:
    with pytest.raises(weft.GraphError, match=said):
        weft.cables(graph)


def test_a_packet_takes_the_time_of_the_cables_of_its_way() -> None:
    composition = study()
    del composition["sweep"]
    composition["channel"]["data"] |= {
        "link": {"rate": "1 Gbit/s", "delay_per_metre": "5 ns/m"},
        "fabric": {"table": weft.cables(two_racks())},
    }
    composition["workload"]["data"] = {
        "source": {
            "list": [{"time": "5 us", "from": 0, "to": 2}, {"time": "9 us", "from": 0, "to": 1}]
        }
    }
    composition["run"] = {"length": "1 ms", "seeds": 1, "trace": True}
    links = weft.run(composition).tables["links"].set_index("name")["link_load"]
    # 64 B take 512 ns at 1 Gbit/s and 128 ns at 4 Gbit/s, of a millisecond.
    expected = {
        "host 0 to switch left": 2 * 512e-6,
        "port 1 of switch left to host 1": 512e-6,
        "port 2 of switch left to switch spine": 128e-6,
        "port 1 of switch spine to switch right": 128e-6,
        "port 0 of switch right to host 2": 512e-6,
    }
    assert dict(links[links > 0]) == pytest.approx(expected, rel=1e-9)


def test_more_hosts_than_the_graph_has_are_refused() -> None:
    composition = study()
    composition["system"]["hosts"] = 5
    composition["channel"]["data"]["fabric"] = {"table": weft.cables(two_racks())}
    with pytest.raises(weft.WeftError, match="5"):
        weft.run(composition)

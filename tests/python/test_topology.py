"""Topology files of other simulators: which cables they mean, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import weft
from weft.cli import main

if TYPE_CHECKING:
    from pathlib import Path

FAT_TREE = """# 2 pods of 2 leaves, and 2 core switches by two cables each
Nodes 8
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 50
Queue_Up 100

Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 500

Tier 2
Downlink_speed_Gbps 400
Radix_Down 4
Downlink_Latency_ns 2.5
Bundle 2
"""

NET = """
[system]
title = "A star"
hosts = 2

[channel.net]
packet = "1000 B"
payload = "1000 B"
link = { rate = "1 Gbit/s", length = "1 m", delay_per_metre = "5 ns" }
adapter.send_buffers = "unlimited"
switch.output_queued = { latency = "0 ns" }
"""

LIST = (
    "5 1 4\n0\n0 1 100Gbps 1us 0\n0 2 100Gbps 1us 0.000\n3 0 100Gbps 1us 0\n0 4 25Gbps 1000ns 0\n"
)


def read(tmp_path: Path, text: str, name: str = "tree.topo") -> dict[str, Any]:
    path = tmp_path / name
    path.write_text(text)
    return weft.read_topology(path)


def joined(graph: dict[str, Any]) -> Counter[tuple[str, str]]:
    return Counter((edge["source"], edge["target"]) for edge in graph["edges"])


def test_a_fat_tree_of_htsim_is_wired_pod_by_pod(tmp_path: Path) -> None:
    graph = read(tmp_path, FAT_TREE)
    switches = {node["id"]: node["latency_ns"] for node in graph["nodes"][8:]}
    above = ("1.0", "1.1", "1.2", "1.3", "2.0", "2.1")
    assert switches == {f"0.{leaf}": 50 for leaf in range(4)} | dict.fromkeys(above, 0)
    found = joined(graph)
    assert [found["host 5", "0.2"], found["0.0", "1.0"], found["0.0", "1.1"]] == [1, 1, 1]
    assert [found["0.3", "1.2"], found["0.3", "1.3"], found["0.1", "1.2"]] == [1, 1, 0]
    # Switches at the same place in both pods reach the same core switch, by two cables.
    assert [found["1.0", "2.0"], found["1.1", "2.1"], found["1.2", "2.0"]] == [2, 2, 2]
    assert [found["1.3", "2.1"], found["1.0", "2.1"], found.total()] == [2, 0, 8 + 8 + 8]
    cables = {(edge["source"], edge["target"]): edge for edge in graph["edges"]}
    links = [cables[ends] for ends in (("host 0", "0.0"), ("0.0", "1.0"), ("1.0", "2.0"))]
    assert [(one["rate"], one["delay_per_metre"]) for one in links] == [
        ("100 Gbit/s", "1000 ns"), ("200 Gbit/s", "500 ns"), ("400 Gbit/s", "2.5 ns"),
    ]  # fmt: skip


def test_a_leaf_and_spine_of_htsim_joins_every_leaf_with_every_spine(tmp_path: Path) -> None:
    text = (
        "Nodes 32\nTiers 2\nPodsize 32\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\nRadix_Up 2\n"
        "Downlink_Latency_ns 1000\nOversubscribed 4\nTier 1\nDownlink_speed_Gbps 100\n"
        "Radix_Down 4\nDownlink_Latency_ns 1000\n"
    )
    found = joined(read(tmp_path, text))
    upward = {ends: count for ends, count in found.items() if ends[0].startswith("0.")}
    assert upward == {(f"0.{leaf}", f"1.{spine}"): 1 for leaf in range(4) for spine in range(2)}
    assert found.total() == 32 + 8


def test_nodes_of_hpcc_are_hosts_in_order_without_the_switches(tmp_path: Path) -> None:
    graph = read(tmp_path, LIST + "\nthe rest is not read", "topology.txt")
    assert [node["id"] for node in graph["nodes"]] == [*(f"host {n}" for n in range(4)), "switch 0"]
    assert joined(graph).keys() == {
        ("switch 0", "host 0"), ("switch 0", "host 1"), ("host 2", "switch 0"),
        ("switch 0", "host 3"),
    }  # fmt: skip
    last = graph["edges"][3]
    assert (last["rate"], last["delay_per_metre"]) == ("25 Gbit/s", "1000 ns")


def test_a_topology_takes_the_place_of_a_fabric(tmp_path: Path) -> None:
    star, topology, flows = (tmp_path / name for name in ("star.toml", "topology.txt", "flow.txt"))
    star.write_text(NET)
    topology.write_text(LIST)
    flows.write_text("2\n1 4 3 100 2000 0\n2 3 3 100 1000 0.00001\n")
    arguments = ["trace", "run", str(flows), "--format", "hpcc", "--system", str(star), "--json"]
    ran = CliRunner().invoke(main, [*arguments, "--topology", str(topology)])
    assert ran.exit_code == 0, ran.output
    # Two packets leave for a slower cable without a gap between their bytes.
    slow, fast = 2 * 0.32 + 2, 0.08 + 2
    times = {rank["rank"]: rank["end_us"] for rank in json.loads(ran.output)["ranks"]}
    assert times[3] == pytest.approx(slow)
    assert times[2] == pytest.approx(10 + fast)
    result = weft.run_trace(flows, star, format="hpcc", topology=topology)
    assert result.completion["longest_us"] == pytest.approx(slow)
    tree = tmp_path / "tree.topo"
    tree.write_text(FAT_TREE)
    matrix = tmp_path / "one.cm"
    matrix.write_text("Nodes 8\nConnections 1\n0->7 start 0 size 1000\n")
    result = weft.run_trace(matrix, star, topology=tree)
    # Before a cable of twice the rate a packet waits until that will not run dry in its middle.
    waits = (0.08 - 0.04) + (0.04 - 0.02)
    assert result.time_us == pytest.approx(0.08 + waits + 2 * (1 + 0.5 + 0.0025))


def test_an_experiment_takes_topology_and_traffic(tmp_path: Path) -> None:
    system, tree, matrix = (tmp_path / name for name in ("net.toml", "tree.topo", "all.cm"))
    system.write_text(NET)
    tree.write_text(FAT_TREE)
    flows = "".join(f"{host}->{(host + 3) % 8} start 0 size 1000\n" for host in range(8))
    matrix.write_text(f"Nodes 8\nConnections 8\n{flows}")
    arguments = ["run", str(system), "--topology", str(tree), "--traffic", str(matrix), "--json"]
    ran = CliRunner().invoke(main, [*arguments, "--timeline", str(tmp_path / "all.json")])
    assert ran.exit_code == 0, ran.output
    point = json.loads(ran.output)["points"][0]
    assert point["program_messages"] == 8
    assert "rank 7 on host 7" in (tmp_path / "all.json").read_text()
    tree.write_text("Nodes 8\nTiers\n")
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 2
    assert "tree.topo: line 2: 'Tiers'; accepted: KEY VALUE" in told.output
    tree.unlink()
    told = CliRunner().invoke(main, arguments)
    assert "tree.topo cannot be read: No such file or directory" in told.output


def test_a_channel_has_to_be_named_where_there_are_several(tmp_path: Path) -> None:
    topology, matrix = tmp_path / "topology.txt", tmp_path / "one.cm"
    topology.write_text(LIST)
    matrix.write_text("Nodes 2\nConnections 1\n0->1 start 0 size 1\n")
    arguments = ["trace", "run", str(matrix), "--system", "clint", "--topology", str(topology)]
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 2
    assert "the fabric of which channel? accepted: --channel with one of bulk, quick" in ran.output


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("Nodes 8", "Nodes many"), "line 2: 'many'; accepted: Nodes N, from 1 on"),
        (("Nodes 8", "Nodes 6"), "Nodes by Podsize: 6 by 4"),
        (("Podsize 4\n", ""), "accepted: Podsize N"),
        (("Tier 1", "Tier 2"), "line 14: 'Tier 2'; accepted: Tier 1, "),
        (("Tiers 3", "Tiers 2"), "'3 tiers'; accepted: Tiers 2, and 2 or 3 of them"),
        (("Radix_Up 2\n", ""), "line 6: 'a tier without Radix_Up'"),
        (("Queue_Up 100", "Queue_Up -1"), "'-1'; accepted: Queue_Up N packets"),
        (("Queue_Up 100", "Queues 100"), "'Queues 100'; accepted: Tier 1, "),
        (("Queue_Up 100", "Queue_Up"), "accepted: KEY VALUE"),
        (("Bundle 2", "Bundle 3"), "Radix_Up by Bundle: 2 by 3"),
        (("Radix_Down 4", "Radix_Down 3"), "the 8 cables up from tier 1 by Radix_Down: 8 by 3"),
    ],
)
def test_a_tree_that_cannot_be_meant_is_refused(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    assert change[0] in FAT_TREE
    with pytest.raises(weft.TopologyError) as refused:
        read(tmp_path, FAT_TREE.replace(*change, 1))
    assert told in str(refused.value)
    assert "tree.topo: line " in str(refused.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("5 1 4", "5 1"), "line 1: '5 1'; accepted: NODES SWITCHES LINKS"),
        (("\n0\n", "\n0 1\n"), "line 2: '0 1'; accepted: the numbers of 1 switches, each once"),
        (("\n0\n", "\n7\n"), "line 2: '7'; accepted: a switch from 0 to 4"),
        (("0 1 100Gbps", "0 9 100Gbps"), "line 3: '9'; accepted: a node from 0 to 4"),
        (("100Gbps", "100"), "line 3: '100'; accepted: a number with the unit Gbps"),
        (("1us", "0us"), "line 3: '0us'; accepted: a number with the unit ns"),
        (("0.000", "0.001"), "line 4: '0.001'; accepted: 0, a cable that loses nothing"),
        (("5 1 4", "5 1 5"), "line 7: ''; accepted: FROM TO RATE DELAY LOSS"),
    ],
)
def test_a_list_of_cables_that_cannot_be_meant_is_refused(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    assert change[0] in LIST
    with pytest.raises(weft.TopologyError) as refused:
        read(tmp_path, LIST.replace(*change, 1), "topology.txt")
    assert told in str(refused.value)

"""A graph of hosts, switches and cables, as the table of cables of a composition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

# The settings that a cable may have, and how each is written.
_WRITTEN = {
    "rate": 'a text with its unit, such as "400 Gbit/s"',
    "length": 'a text with its unit, such as "3 m"',
    "delay_per_metre": 'a text with its unit, such as "5 ns/m"',
    "reserved": "a number from 0 to 1",
}
_KINDS = ("host", "switch")
_SHAPE = "a networkx graph, or a dict of `nodes` and `edges` as networkx.node_link_data writes it"


class GraphError(ValueError):
    """A graph that cannot be cabled, with the node or the edge and what is accepted."""


@dataclass(frozen=True)
class _Edge:
    """A cable: the nodes at its ends, by their numbers, and what it has of its own."""

    ends: tuple[int, int]
    link: dict[str, Any]


def cables(graph: Any, *, kind: str = "kind", ignore: Collection[str] = ()) -> dict[str, Any]:
    """Return a graph as what stands under `fabric.table` in a composition.

    Every node says by an attribute whether it is a host or a switch. Hosts are numbered from 0 in
    the order in which they stand in the graph, and `system.hosts` is how many there are. A switch
    has its node's name, and a port for each of its cables: they are numbered in the order in
    which the nodes at the other ends stand in the graph, however the edges are ordered; parallel
    edges stay in their own order. An edge may have `rate`, `length` and `delay_per_metre`, texts
    with units, and `reserved`, a fraction. Each of them stands on all edges or on none; those of
    the channel's `link` then hold.

        >>> graph = networkx.Graph()
        >>> graph.add_nodes_from(["leaf", "spine"], kind="switch")
        >>> graph.add_nodes_from(["a", "b"], kind="host")
        >>> graph.add_edge("leaf", "spine", rate="800 Gbit/s", length="20 m")
        >>> graph.add_edge("a", "leaf", rate="400 Gbit/s", length="2 m")
        >>> graph.add_edge("b", "spine", rate="400 Gbit/s", length="2 m")
        >>> composition["channel"]["net"]["fabric"] = {"table": weft.cables(graph)}

    Args:
        graph: an undirected `networkx` graph, with parallel edges if it is a MultiGraph; or a dict
            of the shape of `networkx.node_link_data`: `nodes`, a list of dicts with an `id` each or
            a dict of attributes by name, and `edges` (or `links`), a list of dicts with `source`
            and `target`, or of tuples `(source, target, attributes)`.
        kind: the attribute of nodes that is "host" or "switch".
        ignore: attributes of edges that say nothing about the cable, such as `["weight"]`.

    Raises:
        GraphError: an attribute is missing or cannot be used, a cable has both ends in one node or
            in two hosts, a host has not exactly one cable; names the node or the edge.

    """
    nodes, found = _read(graph)
    kinds = [_kind(name, attributes, kind) for name, attributes in nodes]
    names = [name for name, _ in nodes]
    edges = _edges(names, found, ignore)
    _check_ends(names, kinds, edges)
    return _table(names, kinds, edges)


def _table(names: list[Any], kinds: list[str], edges: list[_Edge]) -> dict[str, Any]:
    """Give every host its number and every cable its ports."""
    hosts = iter(range(len(names)))
    numbers = [next(hosts) if kind == "host" else None for kind in kinds]
    ports = [0] * len(names)

    def end(node: int) -> str:
        if numbers[node] is not None:
            return f"host {numbers[node]}"
        ports[node] += 1
        return f"{names[node]}.{ports[node] - 1}"

    listed = []
    for edge in edges:
        cable: dict[str, Any] = {"from": end(edge.ends[0]), "to": end(edge.ends[1])}
        listed.append(cable | ({"link": edge.link} if edge.link else {}))
    switches = [
        {"name": str(name), "ports": count}
        for name, kind, count in zip(names, kinds, ports, strict=True)
        if kind == "switch"
    ]
    return {"switches": switches, "cables": listed}


def _read(graph: Any) -> tuple[list[tuple[Any, Mapping[str, Any]]], list[tuple[Any, Any, Any]]]:
    """Return the nodes of a graph and its edges, with their attributes."""
    if isinstance(graph, Mapping):
        directed = graph.get("directed", False)
        edges = graph.get("edges", graph.get("links"))
        if "nodes" not in graph or edges is None:
            raise GraphError(f"a dict with the keys {sorted(map(str, graph))}; accepted: {_SHAPE}")
        nodes, edges = _listed_nodes(graph["nodes"]), [_listed_edge(edge) for edge in edges]
    elif callable(getattr(graph, "nodes", None)) and callable(getattr(graph, "edges", None)):
        directed = graph.is_directed()
        nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    else:
        raise GraphError(f"a {type(graph).__name__} is no graph; accepted: {_SHAPE}")
    if directed:
        raise GraphError(
            "the graph is directed, and a cable goes both ways; accepted: an undirected graph, "
            "such as graph.to_undirected()"
        )
    return nodes, edges


def _listed_nodes(nodes: Any) -> list[tuple[Any, Mapping[str, Any]]]:
    if isinstance(nodes, Mapping):
        return list(nodes.items())
    for node in nodes:
        if not isinstance(node, Mapping) or "id" not in node:
            raise GraphError(f"node {node!r}; accepted: a dict with `id` and attributes")
    return [(node["id"], node) for node in nodes]


def _listed_edge(edge: Any) -> tuple[Any, Any, Any]:
    """Read an edge as node_link_data has it, or as a tuple; `key` tells parallel ones apart."""
    if isinstance(edge, Mapping) and {"source", "target"} <= edge.keys():
        own = {name: edge[name] for name in edge if name not in {"source", "target", "key"}}
        return edge["source"], edge["target"], own
    if isinstance(edge, tuple | list) and len(edge) in {2, 3}:
        return edge[0], edge[1], edge[2] if len(edge) == 3 else {}
    raise GraphError(
        f"edge {edge!r}; accepted: a dict with `source`, `target` and attributes, or a tuple "
        "(source, target, attributes)"
    )


def _kind(name: Any, attributes: Mapping[str, Any], kind: str) -> str:
    found = attributes.get(kind)
    if found is None:
        raise GraphError(f'node {name!r} has no {kind}; accepted: {kind} = "host" or "switch"')
    if found not in _KINDS:
        raise GraphError(f'node {name!r} has {kind} = {found!r}; accepted: "host" or "switch"')
    return str(found)


def _edges(
    names: list[Any], found: Iterable[tuple[Any, Any, Any]], ignore: Collection[str]
) -> list[_Edge]:
    """Return the cables in the order of the nodes at their ends, the earlier node first."""
    places = {name: place for place, name in enumerate(names)}
    if len(places) < len(names) or len({str(name) for name in names}) < len(names):
        twice = next(a for i, a in enumerate(names) if str(a) in map(str, names[:i]))
        raise GraphError(f"two nodes of the name {twice!s}; accepted: a name for each node")
    edges = []
    for one, other, attributes in found:
        for name in (one, other):
            if name not in places:
                raise GraphError(f"edge {one!r} - {other!r} ends in {name!r}, which is no node")
        if one == other:
            raise GraphError(f"edge {one!r} - {other!r} has both ends in one node; accepted: two")
        link = _link((one, other), attributes, ignore)
        low, high = sorted((places[one], places[other]))
        edges.append(_Edge((low, high), link))
    edges.sort(key=lambda edge: edge.ends)
    for name, written in _WRITTEN.items():
        without = [edge for edge in edges if name not in edge.link]
        if without and len(without) < len(edges):
            one, other = (names[end] for end in without[0].ends)
            raise GraphError(
                f"edge {one!r} - {other!r} has no {name}, which other edges have; accepted: "
                f"{written} on every edge, or on none, where that of the channel's link holds"
            )
    return edges


def _link(
    ends: tuple[Any, Any], attributes: Mapping[str, Any], ignore: Collection[str]
) -> dict[str, Any]:
    where = f"edge {ends[0]!r} - {ends[1]!r}"
    link = {}
    for name, value in attributes.items():
        if name in ignore:
            continue
        if name not in _WRITTEN:
            raise GraphError(
                f"{where} has {name} = {value!r}, which no cable has; accepted: "
                f"{', '.join(_WRITTEN)}, and anything named in `ignore`"
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number if name == "reserved" else isinstance(value, str)):
            raise GraphError(f"{where} has {name} = {value!r}; accepted: {_WRITTEN[name]}")
        link[name] = value
    return {name: link[name] for name in _WRITTEN if name in link}


def _check_ends(names: list[Any], kinds: list[str], edges: list[_Edge]) -> None:
    counts = [0] * len(names)
    for edge in edges:
        if all(kinds[end] == "host" for end in edge.ends):
            one, other = (names[end] for end in edge.ends)
            raise GraphError(
                f"edge {one!r} - {other!r} joins two hosts; accepted: a switch at one end at least"
            )
        for end in edge.ends:
            counts[end] += 1
    for name, kind, count in zip(names, kinds, counts, strict=True):
        if kind == "host" and count != 1:
            raise GraphError(f"host {name!r} has {count} edges; accepted: one, to its switch")
        if count == 0:
            raise GraphError(f"switch {name!r} has no edge; accepted: one or more")

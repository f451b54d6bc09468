"""The reference in Markdown, written from the schema and from the shipped systems themselves.

Nothing of it stands in a file that a person edits, so that it cannot be out of date: the manual is
built with it, and `weft schema --markdown` prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weft.system import System

# What any value may carry beside itself; told once, at the top of the page.
_ORIGINS = {"stated", "derived", "calibrated", "predicts"}

_Schema = dict[str, Any]


def keys_page(schema: _Schema) -> str:
    """Write the reference of every key, part by part, in the order in which files name them."""
    known: _Schema = schema["$defs"]
    lines = [
        "# Every part and key",
        "",
        "Written from the types that run (`weft schema`). A key without a default has to be there. "
        "Any value may be a table that says where it comes from: "
        '`{ value = ..., stated = "section" }`, with `derived` or `calibrated` and `predicts` in '
        "place of `stated` (see [files](../files.md#origins)).",
        "",
        "## A file",
        "",
        *_table(_rows(schema)),
    ]
    for name in _in_order(schema, known):
        definition = known[name]
        lines += ["", f"## {name}", "", _sentence(definition.get("description", "")), ""]
        lines += _table(_rows(definition))
    return "\n".join(lines) + "\n"


def system_page(system: System) -> str:
    """Write every parameter of a system, with its origin, a table for each channel or section."""
    lines = [f"# {system.title}: every parameter", ""]
    if system.document:
        lines += [f"Document: {system.document}.", ""]
    groups: dict[str, list[str]] = {}
    for one in system.parameters:
        if one.key in {"system.title", "system.document"}:
            continue
        source = f"{one.origin or 'chosen here'}: {one.source}" if one.source else one.origin
        predicts = f"; predicts {one.predicts}" if one.predicts else ""
        cells = (f"`{system.short_key(one)}`", one.text, f"{source}{predicts}", one.description)
        groups.setdefault(one.group, []).append(_row(cells))
    for name, rows in groups.items():
        head = _row(("key", "value", "origin", "meaning"))
        lines += [f"## {name}", "", head, "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _in_order(schema: _Schema, known: _Schema) -> list[str]:
    """Return the names of the definitions, each after the one that first names it."""
    found: list[str] = []
    waiting = list(_named(schema.get("properties", {})))
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting = [*_named(known[name]), *waiting]
    return found


def _named(node: Any) -> Iterator[str]:
    """Every definition that a part of the schema refers to, in order."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield str(node["$ref"]).rsplit("/", 1)[-1]
        for value in node.values():
            yield from _named(value)
    elif isinstance(node, list):
        for value in node:
            yield from _named(value)


def _rows(schema: _Schema, prefix: str = "") -> Iterator[str]:
    """Write a row for each key of a table, or each variant of a choice and the keys in it."""
    for variant in schema.get("oneOf", []):
        if "const" in variant:
            meaning = _sentence(variant.get("description", ""))
            yield _row((f'`"{variant["const"]}"`', "", "", meaning))
            continue
        yield from _rows_of_table(variant, prefix, variant.get("description", ""))
    yield from _rows_of_table(schema, prefix, "")


def _rows_of_table(table: _Schema, prefix: str, meaning: str) -> Iterator[str]:
    required = table.get("required", [])
    for name, described in table.get("properties", {}).items():
        if name in _ORIGINS:
            continue
        value = _bare(described)
        text = described.get("description") or meaning
        default = _default(described, required=name in required)
        yield _row((f"`{prefix}{name}`", _kind(value, described), default, _sentence(text)))
        if "$ref" not in value and ("properties" in value or "oneOf" in value):
            yield from _rows(value, f"{prefix}{name}.")


def _bare(described: _Schema) -> _Schema:
    """Leave out the other way to write a value: the table that carries its origin."""
    for branch in described.get("anyOf", []):
        if "value" not in branch.get("properties", {}) and branch.get("type") != "null":
            return dict(branch)
    return described


def _kind(value: _Schema, described: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = str(value["$ref"]).rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    inner = value.get("additionalProperties")
    if isinstance(inner, dict):
        return f"by name: {_kind(inner, inner)}"
    kind = value.get("type")
    if kind == "array":
        items = _bare(value.get("items") or {})
        return f"list of {_kind(items, items)}"
    unit = described.get("x-unit") or value.get("x-unit")
    example = next(iter(value.get("examples") or described.get("examples") or []), None)
    if unit and kind == "string":
        return f'quantity, `"{example}"`' if example else "quantity"
    kinds = [
        one for one in (kind if isinstance(kind, list) else [kind]) if one not in {None, "null"}
    ]
    words = {"integer": "whole number", "boolean": "true or false", "string": "text",
             "object": "table"}  # fmt: skip
    named = " or ".join(words.get(one, str(one)) for one in kinds)
    options = [_option(one) for one in value.get("oneOf", []) if one.get("type") or "const" in one]
    return named or " or ".join(dict.fromkeys(options)) or "value"


def _option(variant: _Schema) -> str:
    if "const" in variant:
        return f'`"{variant["const"]}"`'
    return {"integer": "whole number", "object": "a part below"}.get(
        str(variant["type"]), str(variant["type"])
    )


def _default(described: _Schema, *, required: bool) -> str:
    if "default" not in described:
        return "required" if required else ""
    default = described["default"]
    if default in (None, "", [], {}) or isinstance(default, dict):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _sentence(text: str) -> str:
    return " ".join(str(text).split())


def _table(rows: Iterator[str]) -> list[str]:
    filled = list(rows)
    return (
        [_row(("key", "value", "default", "meaning")), "|---|---|---|---|", *filled]
        if filled
        else []
    )


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

"""The reference in Markdown, written from the schema and from the shipped systems themselves.

Nothing of it stands in a file that a person edits, so that it cannot be out of date: the manual is
built with it, and `weft schema --markdown` prints it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import weft
from weft import _seam

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import click

    from weft.system import System

# Keys that any value may have beside it; explained once, at the top of the page.
_ORIGINS = {"stated", "derived", "calibrated", "predicts"}

# Shown instead of a default beside the parts of a choice.
_CHOICE = "one of these"

# The places of a part are listed one by one up to this many.
_MOST_PLACES = 4

# Characters of a key beyond which parts are taken to hold themselves.
_DEEPEST = 200

_Schema = dict[str, Any]


def shipped() -> dict[str, System]:
    """Describe every system that is shipped, by name."""
    return {name: weft.show(name) for name in weft.systems()["name"]}


def pages() -> dict[str, str]:
    """Write every generated page, by file name."""
    found = {
        "keys.md": keys_page(_seam.schema()),
        "commands.md": commands_page(),
        "python.md": python_page(),
    }
    for name, system in shipped().items():
        found[f"{name}.md"] = system_page(system)
    return found


def commands_page() -> str:
    """Write the help of every command."""
    from weft.cli import main  # noqa: PLC0415 (it imports this module for `schema --markdown`)

    lines = ["# Commands", ""]
    for path, command in _commands(main, ("weft",)):
        lines += [f"## {' '.join(path)}", "", "```", _help(command, path), "```", ""]
    return "\n".join(lines)


def python_page() -> str:
    """Write signature and documentation of everything that `import weft` offers."""
    lines = ["# Python", "", "```python", "import weft", "```", ""]
    for name in weft.__all__:
        item = getattr(weft, name)
        if name.startswith("_") or not (inspect.isfunction(item) or inspect.isclass(item)):
            continue
        lines += [f"## weft.{name}", "", *_documented(item, name)]
        if inspect.isclass(item) and not issubclass(item, Exception):
            for member, inner in vars(item).items():
                if not member.startswith("_") and getattr(inner, "__doc__", None):
                    lines += [f"### {name}.{member}", "", *_documented(inner, member)]
    return "\n".join(lines)


def _documented(item: Any, name: str) -> list[str]:
    lines = []
    if inspect.isfunction(item):
        parameters = ",\n    ".join(str(one) for one in inspect.signature(item).parameters.values())
        returned = inspect.signature(item).return_annotation
        lines += ["```python", f"{name}(\n    {parameters}\n) -> {returned}", "```", ""]
    text = inspect.getdoc(getattr(item, "fget", None) or getattr(item, "func", None) or item) or ""
    return [*lines, "```text", text, "```", ""]


def _commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


def _help(command: click.Command, path: tuple[str, ...]) -> str:
    import click  # noqa: PLC0415 (only a page needs it)

    context = click.Context(command, info_name=" ".join(path), max_content_width=88)
    return command.get_help(context)


def keys_page(schema: _Schema) -> str:
    """Write the reference of every key, part by part, in the order in which files name them."""
    known: _Schema = schema["$defs"]
    lines = [
        "# Every part and key",
        "",
        "Written from the types that run (`weft schema`). A key without a default has to be there. "
        "Any value may be a table that says where it comes from: "
        '`{ value = ..., stated = "section" }`, with `derived` or `calibrated` and `predicts` in '
        "place of `stated` (see [files](../files.md#origins)). `base`, `unset`, `preset`, "
        "`[sweep]` and `[variant]` are told there, too: they are gone before a part sees the file.",
        "",
        "## A file",
        "",
        *_table(_rows(schema)),
    ]
    for name, places in _places(schema).items():
        definition = known[name]
        meaning = _sentence(definition.get("description", ""))
        where = ", ".join(f"`{place}`" for place in places[:_MOST_PLACES])
        if len(places) > _MOST_PLACES:
            where += f" and {len(places) - _MOST_PLACES} more"
        lines += ["", f"## {name}", "", f"{where}: {meaning[:1].lower()}{meaning[1:]}", ""]
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


def _places(schema: _Schema) -> dict[str, list[str]]:
    """Return every place in a file where a definition may be used, in the order of a file."""
    found: dict[str, list[str]] = {}

    def look(node: Any, place: str) -> None:
        for name, value in node.get("properties", {}).items():
            if name not in _ORIGINS:
                look(_bare(value), f"{place}.{name}" if place else name)
        for branch in [*node.get("oneOf", []), *node.get("anyOf", [])]:
            look(branch, place)
        for inner, more in (("items", ""), ("additionalProperties", ".NAME")):
            if isinstance(node.get(inner), dict):
                look(_bare(node[inner]), place + more)
        if name := _referred(node):
            # A definition that holds itself would never end; none is deeper than its own name.
            if place in found.setdefault(name, []) or len(place) > _DEEPEST:
                return
            found[name].append(place)
            look(schema["$defs"][name], place)

    look(schema, "")
    return found


def _referred(node: _Schema) -> str:
    """Return the name of the definition that a part of the schema stands for, or nothing."""
    return str(node.get("$ref", "")).rsplit("/", 1)[-1]


def _rows(schema: _Schema, prefix: str = "") -> Iterator[str]:
    """Write a row for each key of a table, or each variant of a choice and the keys in it."""
    for variant in schema.get("oneOf", []):
        if "const" in variant:
            meaning = _sentence(variant.get("description", ""))
            yield _row((f'`"{variant["const"]}"`', "", "", meaning))
            continue
        yield from _rows_of_table(variant, prefix, variant.get("description", ""), _CHOICE)
    yield from _rows_of_table(schema, prefix, "")


def _rows_of_table(table: _Schema, prefix: str, meaning: str, choice: str = "") -> Iterator[str]:
    required = table.get("required", [])
    for name, described in table.get("properties", {}).items():
        if name in _ORIGINS:
            continue
        value = _bare(described)
        text = described.get("description") or meaning
        default = choice or _default(described, required=name in required)
        yield _row((f"`{prefix}{name}`", _kind(value, described), default, _sentence(text)))
        if "$ref" not in value and ("properties" in value or "oneOf" in value):
            yield from _rows(value, f"{prefix}{name}.")


def _bare(described: _Schema) -> _Schema:
    """Drop the alternative form of a value: the table with its origin."""
    for branch in described.get("anyOf", []):
        if "value" not in branch.get("properties", {}) and branch.get("type") != "null":
            return _bare(branch)
    return described


def _kind(value: _Schema, described: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = _referred(value)
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

"""The JSON schema of files, made from the schema of the settings that a whole study has."""

from typing import Any

_Schema = dict[str, Any]

# What a file says about files, layers and studies rather than about parts.
_KEYS: _Schema = {
    "base": {
        "type": "string",
        "description": "The file beneath this one: a shipped name, or a path relative to it.",
    },
    "unset": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Keys of the files beneath that are left out, with all that is below them.",
    },
    "preset": {
        "description": "The presets to merge; or a table of presets, each a partial file.",
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "additionalProperties": {"$ref": "#"}},
        ],
    },
    "sweep": {
        "type": "object",
        "description": "Axes: keys and the lists of their values; `paired` lists advance together.",
    },
    "variant": {
        "type": "object",
        "description": "Axes of named sets of changes.",
        "additionalProperties": {"type": "object", "additionalProperties": {"$ref": "#"}},
    },
}
_ORIGIN: _Schema = {
    kind: {"type": "string"} for kind in ("stated", "derived", "calibrated", "predicts")
}


def of_files(settings: _Schema) -> _Schema:
    """Return the schema of files, given that of the settings of a whole study.

    A file need not say what the files beneath it or a preset say, so no key of a table is required.
    """
    schema: _Schema = _Files(settings.get("$defs", {})).changed(settings)
    schema["properties"] = {**_KEYS, **schema.get("properties", {})}
    return schema


class _Files:
    """Changes a schema; `definitions` are those that it refers to."""

    def __init__(self, definitions: _Schema) -> None:
        self.definitions = definitions

    def changed(self, node: Any, *, is_form: bool = False) -> Any:
        """Copy a schema; `is_form` where it is one of several, told apart by what they require."""
        if isinstance(node, list):
            return [self.changed(one) for one in node]
        if not isinstance(node, dict):
            return node
        kept = {
            key: self.changed(value)
            for key, value in node.items()
            if key not in {"anyOf", "oneOf", "required"} or not isinstance(value, list)
        }
        if is_form and "required" in node:
            kept["required"] = node["required"]
        for key in {"anyOf", "oneOf"} & node.keys():
            kept[key] = [self.changed(form, is_form=True) for form in node[key]]
            if names := [name for form in node[key] for name in self.bare(form)]:
                kept[key].append({"enum": names})
        others = kept.get("additionalProperties")
        if isinstance(others, dict) and not self.is_table(others):
            kept["additionalProperties"] = _with_origin(others)
        return kept

    def bare(self, form: _Schema) -> list[str]:
        """Name the part that one of several forms chooses, if it may stand without its settings."""
        names = list(form.get("properties", {}).keys() - _ORIGIN.keys() - {"value"})
        if len(names) != 1 or form.get("required") != names:
            return []
        return names if self.takes_empty_table(form["properties"][names[0]]) else []

    def takes_empty_table(self, schema: _Schema) -> bool:
        schema = self.followed(schema)
        if any(self.takes_empty_table(form) for form in schema.get("anyOf", [])):
            return True
        return schema.get("type") == "object" and not schema.get("required")

    def is_table(self, schema: _Schema) -> bool:
        followed = self.followed(schema)
        return followed.get("type") == "object" or {"anyOf", "oneOf"} & followed.keys() != set()

    def followed(self, schema: _Schema) -> _Schema:
        name = schema.get("$ref", "").removeprefix("#/$defs/")
        found: _Schema = self.definitions.get(name, schema)
        return found


def _with_origin(value: _Schema) -> _Schema:
    leaf = {
        "type": "object",
        "properties": {"value": value, **_ORIGIN},
        "required": ["value"],
        "additionalProperties": False,
    }
    return {"anyOf": [value, leaf]}

"""A described system: its parameters with their origins, and its composition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd


@dataclass(frozen=True)
class Parameter:
    """One number or choice of a composition, and where it comes from.

    `origin` is "stated" (the document says it), "derived" (computed from what it says),
    "calibrated" (fitted to a published number) or "" (chosen here, or by the reader's own file).
    `origin_text` is the section, the arithmetic, or the number that it was fitted to; `predicts`
    names a published number that a calibrated value meets without having been fitted to it.
    `choice` marks a choice among parts, whose value is the part's name.
    """

    key: str
    value: str
    unit: str
    origin: str
    origin_text: str
    predicts: str
    description: str
    choice: bool = False

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Parameter:
        """Read one entry of the core's list."""
        origin = entry.get("origin") or {}
        return cls(
            key=entry["key"],
            value=spell(entry["value"]),
            unit=entry.get("unit") or "",
            origin=origin.get("kind") or "",
            origin_text=origin.get("text") or "",
            predicts=origin.get("predicts") or "",
            description=entry.get("description") or "",
            choice=bool(entry.get("choice")),
        )

    @property
    def group(self) -> str:
        """The channel or the section that it belongs to: `channel.bulk`, `system`."""
        names = self.key.split(".")
        return ".".join(names[:2]) if names[0] in {"channel", "workload"} else names[0]

    @property
    def source(self) -> str:
        """The origin's words, a bare section of the document named as one."""
        bare = self.origin == "stated" and self.origin_text[:1].isdigit()
        return f"section {self.origin_text}" if bare else self.origin_text

    @property
    def text(self) -> str:
        """The value as it is read aloud, with its unit where the value does not hold it."""
        return f"{self.value} {self.unit}".strip()


@dataclass(frozen=True)
class System:
    """The result of `weft.show`; `composition` is plain data (hosts and a list of channels)."""

    name: str
    title: str
    document: str
    parameters: tuple[Parameter, ...]
    composition: dict[str, Any]

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> System:
        """Read the core's description of a system."""
        return cls(
            name=name,
            title=data.get("title") or name,
            document=data.get("document") or "",
            parameters=tuple(Parameter.from_json(entry) for entry in data.get("parameters") or []),
            composition=dict(data.get("composition") or {}),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` reads back."""
        return {
            "title": self.title,
            "document": self.document,
            "composition": self.composition,
            "parameters": [
                {
                    "key": parameter.key,
                    "value": parameter.value,
                    "unit": parameter.unit,
                    "description": parameter.description,
                    "choice": parameter.choice,
                    "origin": {
                        "kind": parameter.origin,
                        "text": parameter.origin_text,
                        "predicts": parameter.predicts,
                    }
                    if parameter.origin
                    else None,
                }
                for parameter in self.parameters
            ],
        }

    def short_key(self, parameter: Parameter) -> str:
        """Return a key within its group, without the names of the parts that were chosen.

        `channel.bulk.switch.scheduled.gap` becomes `switch.gap`: that the switch is `scheduled`
        stands in a row of its own.
        """
        values = {one.key: one.value for one in self.parameters}
        names = parameter.key.split(".")
        kept = [
            name
            for i, name in enumerate(names)
            if i == len(names) - 1 or values.get(".".join(names[:i])) != name
        ]
        return ".".join(kept).removeprefix(parameter.group + ".")

    @property
    def table(self) -> pd.DataFrame:
        """The parameters, one row each: key, value, unit, origin, origin_text, predicts, ..."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(
            [vars(parameter) for parameter in self.parameters],
            columns=list(Parameter.__dataclass_fields__),
        )

    def picture(self, *, narrow: bool = False) -> str:
        """Return the composition as an SVG document: hosts, adapters, links, switches.

        Args:
            narrow: draw it for a telephone: 330 pixels wide, with at most 7 of the hosts.

        """
        from weft.composition import draw  # noqa: PLC0415

        return draw(self.composition, title=self.title, narrow=narrow)

    def _repr_html_(self) -> str:
        return self.picture() + self.table.to_html(index=False)


def spell(value: object) -> str:
    """Write a parameter's value as a file would: true, 16, "2 Gbit/s" without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, list):
        return ", ".join(spell(item) for item in value)
    return str(value)

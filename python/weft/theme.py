"""The look of every figure and page: type, colours, and the Vega-Lite settings made from them.

Figures are written with the names of colours (`"$ink"`, `"$outside"`) and painted last, so that one
figure serves the light page, the dark page and the printed file.

The first six colours of a series have the hues of Okabe and Ito's (blue, vermillion, green, purple,
orange, black). Their lightness is spread so that each pair stays apart for every form of colour
blindness, and so that each stands out from its ground by 3 : 1. More, for the stages of a budget,
only ever stand beside their name. A shape goes with each colour of a curve, so no curve rests on
colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', "
    "'DejaVu Sans', Arial, sans-serif"
)
# For files, whose text is laid out here and drawn elsewhere: families of one set of widths.
FILE_FONT = "Arial, 'Liberation Sans', Helvetica, Arimo, sans-serif"
MONOSPACE = "ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', monospace"

# Drawing size of a figure, in CSS pixels; the page lets the width follow its own.
WIDTH = 640
HEIGHT = 360

SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-right"]
CROSS = "M-0.6,-0.6L0.6,0.6M0.6,-0.6L-0.6,0.6"


@dataclass(frozen=True)
class Theme:
    """Colours by role, as hexadecimal RGB."""

    name: str
    colours: dict[str, str]
    series: tuple[str, ...]

    @property
    def css(self) -> str:
        """The colours as CSS custom properties, one a line."""
        named = [f"--{role}: {value};" for role, value in self.colours.items()]
        numbered = [f"--series-{i}: {value};" for i, value in enumerate(self.series)]
        return "\n".join(named + numbered)

    def config(self, font: str) -> dict[str, Any]:
        """Return the Vega-Lite `config` that belongs to this theme."""
        ink, muted, line = (self.colours[role] for role in ("ink", "muted", "line"))
        return {
            "background": self.colours["ground"],
            "font": font,
            "padding": 8,
            "view": {"stroke": None},
            "range": {"category": list(self.series), "symbol": SHAPES},
            "title": {
                "anchor": "start",
                "frame": "group",
                "color": ink,
                "fontSize": 15,
                "fontWeight": 600,
                "offset": 14,
                "subtitleColor": muted,
                "subtitleFontSize": 12,
                "subtitlePadding": 5,
            },
            "axis": {
                "labelColor": muted,
                "titleColor": ink,
                "titleFontWeight": "normal",
                "titleFontSize": 12,
                "labelFontSize": 11,
                "titlePadding": 10,
                "labelPadding": 6,
                "gridColor": line,
                "gridWidth": 1,
                "domain": False,
                "ticks": False,
                "labelFlush": False,
            },
            "axisX": {"domain": True, "domainColor": muted, "grid": False, "ticks": True},
            "legend": {
                "orient": "top",
                "direction": "horizontal",
                "title": None,
                "labelColor": ink,
                "labelFontSize": 12,
                "labelLimit": 280,
                "symbolSize": 90,
                "symbolStrokeWidth": 2,
                "columnPadding": 18,
                "rowPadding": 5,
                "offset": 10,
            },
            "header": {"labelColor": ink, "titleColor": ink},
            "line": {"strokeWidth": 2, "strokeJoin": "round"},
            "text": {"color": ink, "fontSize": 11},
        }


LIGHT = Theme(
    name="light",
    colours={
        "ground": "#ffffff",
        "raised": "#f6f7f8",
        "ink": "#1b1f24",
        "muted": "#5b6570",
        "line": "#e3e6e9",
        "accent": "#00588f",
        "within": "#1a7f5a",
        "outside": "#b8431a",
        "report": "#6a6f78",
        "undecided": "#8a6d00",
        "stated": "#00588f",
        "derived": "#7a5a00",
        "calibrated": "#98407a",
    },
    series=(
        *("#4f8fe1", "#962500", "#0f7b54", "#965c82", "#d07b03", "#303336"),
        *("#5b6570", "#6b4fa0", "#7d5a3c"),
        *("#a3174f", "#4d7a00", "#00808a", "#303f9f", "#d23c8c", "#8d2f00"),
    ),
)

DARK = Theme(
    name="dark",
    colours={
        "ground": "#14171b",
        "raised": "#1c2026",
        "ink": "#e8eaed",
        "muted": "#9aa4af",
        "line": "#2b3138",
        "accent": "#6fb7ea",
        "within": "#4cc397",
        "outside": "#ee7d4a",
        "report": "#9aa4af",
        "undecided": "#d8b545",
        "stated": "#6fb7ea",
        "derived": "#dcb53f",
        "calibrated": "#e39bc6",
    },
    series=(
        *("#4a85c9", "#e1691c", "#7ccc9b", "#985976", "#fdc503", "#e6eff6"),
        *("#9aa4af", "#b4a0e8", "#c9a184"),
        *("#f48fb1", "#aed581", "#4dd0e1", "#8c9eff", "#ff5fae", "#ffab91"),
    ),
)


def paint(value: Any, theme: Theme) -> Any:
    """Return the same figure with every named colour (`"$ink"`) replaced by the theme's."""
    if isinstance(value, dict):
        return {key: paint(item, theme) for key, item in value.items()}
    if isinstance(value, list):
        return [paint(item, theme) for item in value]
    if isinstance(value, str) and value.startswith("$"):
        return theme.colours.get(value[1:], value)
    return value

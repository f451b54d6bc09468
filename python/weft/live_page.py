"""The folder that `weft live measure` leaves: tables, figures, a page, and the host as files.

measured.csv                 medium, quantity, size, median, least and most of the turns
predicted.csv                what the composition says of each size, and its error
host.toml                    this host's shared memory as a composition
latency.toml, throughput.toml  experiments on it: `weft run latency.toml` predicts the curve again
latency.svg, .png            all media and the prediction in one figure; throughput likewise
report.html                  both figures and the tables on one page
manifest.json                which of the files Weft wrote, so that it replaces no other
"""

from __future__ import annotations

import csv
import datetime
import os
import platform
import statistics
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from weft import live_model
from weft.figure import Figure
from weft.live_measure import LATENCY, LIVE, QUANTITIES, THROUGHPUT, UNITS
from weft.plots.axes import log_ticks
from weft.report import loose_page
from weft.report.markup import table
from weft.theme import HEIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from weft.live_measure import Measurement
    from weft.live_model import Prediction
    from weft.place import Place

PREDICTED = "weft live, predicted"
_TITLES = {
    LATENCY: "Latency against message size",
    THROUGHPUT: "Throughput against message size",
}
_AXES = {LATENCY: "one way, microseconds", THROUGHPUT: "GB/s"}


def write(place: Place, measured: Measurement) -> tuple[Prediction, ...]:
    """Write the whole folder, in the place of an earlier measurement; returns the predictions.

    With one processor there are none: nobody polls, and the model has no sleep.
    """
    predicted: list[Prediction] = []
    place.put(lambda draft: predicted.extend(_fill(draft, measured)))
    return tuple(predicted)


def _fill(draft: Path, measured: Measurement) -> tuple[Prediction, ...]:
    sizes = tuple(dict.fromkeys(point.size_bytes for point in measured.points))
    predicted: tuple[Prediction, ...] = ()
    if len(set(measured.processors)) > 1 and live_model.BULK in sizes:
        found = live_model.calibrate(measured, sizes)
        live_model.write(draft, measured, sizes, found, _where())
        predicted = live_model.predict(draft, measured, sizes)
    _table(
        draft / "measured.csv",
        ["medium", "quantity", "unit", "size_bytes", "median", "least", "most"],
        (
            [
                *(point.medium, point.quantity, UNITS[point.quantity], point.size_bytes),
                *(f"{value:.6g}" for value in (point.median, point.least, point.most)),
            ]
            for point in measured.points
        ),
    )
    if predicted:
        _table(
            draft / "predicted.csv",
            ["quantity", "unit", "size_bytes", "predicted", "measured", "error", "calibrated"],
            (
                [
                    *(it.quantity, UNITS[it.quantity], it.size_bytes, f"{it.predicted:.6g}"),
                    *(f"{it.measured:.6g}", f"{it.error:.4f}", "yes" if it.calibrated else "no"),
                ]
                for it in predicted
            ),
        )
    figures = [figure(quantity, measured, predicted) for quantity in QUANTITIES]
    for drawn in figures:
        drawn.save(draft / f"{drawn.name}.svg")
        drawn.save(draft / f"{drawn.name}.png")
    page = loose_page("This host's sockets", _sections(measured, predicted), figures)
    (draft / "report.html").write_text(page, encoding="utf-8")
    return predicted


def _table(path: Path, head: list[str], rows: Iterable[list[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def _where() -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    count = os.cpu_count()
    return (
        f"weft live measure, {today}, {platform.system()} {platform.release()}, {count} processors"
    )


def error_line(quantity: str, predicted: tuple[Prediction, ...]) -> str:
    """State the error of the sizes that did not calibrate, in one sentence."""
    errors = [abs(it.error) for it in predicted if it.quantity == quantity and not it.calibrated]
    if not errors:
        return ""
    return (
        f"predicted at {len(errors)} sizes with a median error of "
        f"{100 * statistics.median(errors):.0f} % and at most {100 * max(errors):.0f} %"
    )


def figure(quantity: str, measured: Measurement, predicted: tuple[Prediction, ...]) -> Figure:
    """Draw all media over message size, and the prediction of the live library's curve."""
    rows: list[dict[str, Any]] = [
        {
            "x": point.size_bytes,
            "y": point.median,
            "least": point.least,
            "most": point.most,
            "series": point.medium,
        }
        for point in measured.points
        if point.quantity == quantity
    ]
    rows += [
        {"x": it.size_bytes, "y": it.predicted, "series": PREDICTED}
        for it in predicted
        if it.quantity == quantity
    ]
    order = list(dict.fromkeys(row["series"] for row in rows))
    sizes = sorted({row["x"] for row in rows})
    labels = {size: live_model.spelled(size) for size in sizes}
    text = "".join(f"datum.value == {size} ? '{name}' : " for size, name in labels.items())
    x_axis = {
        "field": "x",
        "type": "quantitative",
        "scale": {"type": "log", "base": 2, "nice": False},
        "title": "message",
        "axis": {"values": sizes, "labelExpr": f"{text}''"},
    }
    ends = [row[name] for row in rows for name in ("y", "least", "most") if row.get(name)]
    reach = [min(ends) / 1.3, max(ends) * 1.3]
    y_axis = {
        "field": "y",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "domain": reach},
        "title": _AXES[quantity],
        "axis": {"format": ",.6~g", "values": log_ticks(*reach)},
    }
    colour = {"field": "series", "type": "nominal", "scale": {"domain": order}}
    dash = {
        "condition": {"test": f"datum.series === '{PREDICTED}'", "value": [5, 4]},
        "value": [1, 0],
    }
    base = {"x": x_axis, "y": y_axis, "color": colour}
    stated = error_line(quantity, predicted)
    return Figure(
        name=quantity,
        title=_TITLES[quantity],
        caption="Medians of the turns; the bars reach from the least to the most. "
        + (f"The dashed curve is the composition's: {stated}." if stated else ""),
        spec={
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": WIDTH,
            "height": HEIGHT,
            "title": {"subtitle": f"{LIVE}: {stated}" if stated else ""},
            "data": {"values": rows},
            "layer": [
                {
                    "transform": [{"filter": "isValid(datum.least)"}],
                    "mark": {"type": "rule", "opacity": 0.5},
                    "encoding": {
                        **base,
                        "y": {**y_axis, "field": "least"},
                        "y2": {"field": "most"},
                    },
                },
                {"mark": {"type": "line"}, "encoding": {**base, "strokeDash": dash}},
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {
                        **base,
                        "shape": colour,
                        "tooltip": [
                            {"field": "series", "title": "medium"},
                            {"field": "x", "title": "message, B"},
                            {"field": "y", "title": _AXES[quantity], "format": ".4~g"},
                        ],
                    },
                },
            ],
        },
    )


def _sections(measured: Measurement, predicted: tuple[Prediction, ...]) -> list[tuple[str, Markup]]:
    turns = f"{measured.turns} turns" + (", stopped early" if measured.stopped else "")
    here, there = measured.processors
    words = f"{_where()}; processors {here} and {there}; {turns}."
    lead = Markup("<p>{}</p>").format(words)
    media = list(dict.fromkeys(point.medium for point in measured.points))
    sizes = list(dict.fromkeys(point.size_bytes for point in measured.points))
    sections = [("Where and how", lead)]
    for quantity in QUANTITIES:
        said = {it.size_bytes: it for it in predicted if it.quantity == quantity}
        heads = ["message", *media, *(["predicted", "error"] if said else [])]
        rows = []
        for size in sizes:
            row = [live_model.spelled(size)]
            row += [f"{measured.at(medium, quantity, size):.3g}" for medium in media]
            if said:
                mark = "calibrated" if said[size].calibrated else f"{100 * said[size].error:+.0f} %"
                row += [f"{said[size].predicted:.3g}", mark]
            rows.append(row)
        name = f"{_TITLES[quantity]}, {_AXES[quantity]}"
        sections.append((name, table(heads, rows, range(1, len(heads)))))
    return sections

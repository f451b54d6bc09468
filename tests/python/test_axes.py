from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from weft.plots.axes import log_ticks

if TYPE_CHECKING:
    import weft


@pytest.mark.parametrize("ratio", [1.02, 1.3, 2.08, 3.0, 9.0, 11.0, 90.0, 300.0, 320.0, 1e6, 1e15])
@pytest.mark.parametrize("low", [0.00097, 0.1, 0.3, 1.0, 2.6, 7.7, 99.0, 4321.0])
def test_every_range_has_at_least_three_and_not_too_many_round_ticks(
    low: float, ratio: float
) -> None:
    ticks = log_ticks(low, low * ratio)
    assert 3 <= len(ticks) <= 9
    assert all(one < other for one, other in itertools.pairwise(ticks))
    assert low <= ticks[0]
    assert ticks[-1] <= low * ratio
    written = {f"{tick:.6g}" for tick in ticks}
    assert len(written) == len(ticks), "each has a label of its own"


def test_ticks_are_the_numbers_that_a_reader_expects() -> None:
    assert log_ticks(1, 1000) == [1, 10, 100, 1000]
    assert log_ticks(0.9, 60) == pytest.approx([1, 2, 5, 10, 20, 50])
    assert log_ticks(0.2, 0.42) == pytest.approx([0.2, 0.3, 0.4])
    assert log_ticks(1, 1e15) == pytest.approx([10.0**power for power in range(0, 16, 2)])


def test_every_logarithmic_axis_of_a_figure_says_where_its_ticks_are(
    reproduction: weft.Result,
) -> None:
    found = [
        encoding
        for run in reproduction.runs.values()
        for figure in run.figures
        for encoding in _logarithmic(figure.spec)
    ]
    assert len(found) > 4
    assert all(len(encoding["axis"]["values"]) >= 3 for encoding in found)


def _logarithmic(value: object) -> list[dict[str, dict[str, list[float]]]]:
    if isinstance(value, list):
        return [found for item in value for found in _logarithmic(item)]
    if not isinstance(value, dict):
        return []
    scale = value.get("scale")
    own = [value] if isinstance(scale, dict) and scale.get("type") == "log" else []
    return own + [found for item in value.values() for found in _logarithmic(item)]

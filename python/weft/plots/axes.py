"""Where a logarithmic axis is labelled."""

from __future__ import annotations

import math
from itertools import count

# One number does not define a logarithmic axis, and two do not show that it is one.
_LEAST = 3
_MOST = 8

# Powers of ten alone leave a range that is shorter than this almost bare.
_FEW_DECADES = 2.5


def log_ticks(low: float, high: float) -> list[float]:
    """Return at least three round numbers from `low` to `high`, both positive and apart.

    Powers of ten, or every second or third of them where they would crowd; over few decades 1, 2
    and 5 of each; over less than one, equal steps.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) < _FEW_DECADES
    steps = (1, 2, 5) if few else (1,)
    ticks = [step * 10.0**power for power in powers for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) >= _LEAST:
        return ticks if few else ticks[:: math.ceil(len(ticks) / _MOST)]
    return _equal_steps(low, high)


def _equal_steps(low: float, high: float) -> list[float]:
    """Return multiples of the widest round step that gives enough of them."""
    size = math.floor(math.log10(high - low))
    for power in count(size, -1):
        for step in (5, 2, 1):
            first = math.ceil(low / (step * 10.0**power))
            last = math.floor(high / (step * 10.0**power))
            if last - first + 1 >= _LEAST:
                # Divided, where the power is negative, so that 0.3 is not 0.30000000000000004.
                return [
                    place * step / 10.0**-power if power < 0 else place * step * 10.0**power
                    for place in range(first, last + 1)
                ]
    raise AssertionError("some step is short enough")  # the count has no end

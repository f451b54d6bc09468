"""A composition of this host's shared memory: calibrated by three measurements, tested by the rest.

SCILAN's argument is that a socket over shared memory costs a fixed time a message and two copies,
and that both can be measured apart (Research Report 256, section 4.2: Xmax from the two rates). The
same holds here. Of what `weft live measure` has found, the latency and the throughput of the
smallest message and the throughput of one of 64 KiB give the parameters; the model then predicts
latency and throughput at all other sizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.live_measure import LATENCY, LIVE, THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from weft.live_measure import Measurement

# The size that calibrates the copies, in bytes; the calls are calibrated by the smallest.
BULK = 65_536

# Pieces in which a long message is handed over, and a direction's ring: as in crates/live.
_PIECE_BYTES = 32_768
_PIECE = "32 KiB"
# A model in which sending takes no time could send without end.
_LEAST_CALL_NS = 0.1
_RING = "256 KiB"

_FILES = {LATENCY: "latency.toml", THROUGHPUT: "throughput.toml"}
_QUANTITY = {LATENCY: "one_way_mean_us", THROUGHPUT: "accepted_mb_per_s"}
# From the unit of a measurement to that of the model's table.
_SCALE = {LATENCY: 1.0, THROUGHPUT: 1000.0}


@dataclass(frozen=True)
class Calibration:
    """The parameters: times a message in nanoseconds, and of each copy in nanoseconds a byte."""

    send_call_ns: float
    receive_call_ns: float
    copy_ns_per_byte: float


@dataclass(frozen=True)
class Prediction:
    """The prediction of the model for a size, in the unit of the measurement."""

    quantity: str
    size_bytes: int
    predicted: float
    measured: float
    calibrated: bool

    @property
    def error(self) -> float:
        """The relative error: (predicted - measured) / measured."""
        return (self.predicted - self.measured) / self.measured


def calibrating(sizes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Return which sizes calibrate by which quantity."""
    return {LATENCY: (min(sizes),), THROUGHPUT: (min(sizes), BULK)}


def calibrate(measured: Measurement, sizes: tuple[int, ...]) -> Calibration:
    """Find the parameters under which the model meets the calibrating measurements.

    Messages in a row are limited by the slower end alone, one message at a time passes both. Both
    ends copy between the same two memories, so one rate serves for both, that of long messages in
    a row, less the calls of the slower end; the transmitter's call is what small ones in a row cost
    beside it, and the receiver's, one for each piece, what is left of the latency. Where either
    would be less than nothing, the model misses that measurement.
    """
    small = min(sizes)
    each, whole = (size / measured.at(LIVE, THROUGHPUT, size) for size in (small, BULK))
    latency = 1000 * measured.at(LIVE, LATENCY, small)
    send = receive = 0.0
    copy = whole / BULK
    # Each round corrects the copies by a thousandth of the round before.
    for _ in range(8):
        send = max(each - small * copy, _LEAST_CALL_NS)
        receive = max(latency - send - 2 * small * copy, 0.0)
        calls = max(send, BULK / _PIECE_BYTES * receive)
        copy = (whole - calls if calls < whole else whole) / BULK
    return Calibration(send, receive, copy)


def write(
    folder: Path, measured: Measurement, sizes: tuple[int, ...], found: Calibration, where: str
) -> None:
    """Write the composition and its two experiments, with what was measured as their numbers."""
    (folder / "host.toml").write_text(_composition(found, min(sizes), where), encoding="utf-8")
    for quantity, name in _FILES.items():
        (folder / name).write_text(_experiment(quantity, measured, sizes), encoding="utf-8")


def predict(folder: Path, measured: Measurement, sizes: tuple[int, ...]) -> tuple[Prediction, ...]:
    """Run both experiments of a folder, and hold what they say against what was measured."""
    from weft.api import run  # noqa: PLC0415 (it loads the core)

    found = []
    for quantity, name in _FILES.items():
        points = run(folder / name).points
        said = dict(
            zip(points["workload.memory.message"], points[_QUANTITY[quantity]], strict=True)
        )
        found += [
            Prediction(
                quantity,
                size,
                float(said[spelled(size)]) / _SCALE[quantity],
                measured.at(LIVE, quantity, size),
                size in calibrating(sizes)[quantity],
            )
            for size in sizes
        ]
    return tuple(found)


def spelled(size: int) -> str:
    """Write a size as files of this project do: "64 B", "16 KiB"."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def _composition(found: Calibration, small: int, where: str) -> str:
    values: Mapping[str, object] = {
        "where": json.dumps(where),
        "send": f"{found.send_call_ns:.1f} ns",
        "receive": f"{found.receive_call_ns:.1f} ns",
        "copy": f"{1 / found.copy_ns_per_byte:.3f} GB/s",
        "small": spelled(small),
        "piece": _PIECE,
        "ring": _RING,
    }
    return _COMPOSITION.format(**values)


def _experiment(quantity: str, measured: Measurement, sizes: tuple[int, ...]) -> str:
    listed = ", ".join(f'"{spelled(size)}"' for size in sizes)
    numbers = "".join(
        _NUMBER.format(
            quantity=_QUANTITY[quantity],
            size=spelled(size),
            value=f"{measured.at(LIVE, quantity, size) * _SCALE[quantity]:.6g}",
            note="calibrated" if size in calibrating(sizes)[quantity] else "predicted",
        )
        for size in sizes
    )
    return _EXPERIMENT[quantity].format(sizes=listed) + numbers + _FIGURE[quantity]


_COMPOSITION = """\
# The shared memory of one host under weft live, written by `weft live measure`.
#
# A program copies its message into a ring that both ends have mapped, its partner copies it out;
# no kernel is entered and, while the partner polls, nobody is woken (compare systems/scilan.toml).

[system]
title = "Shared memory of this host under weft live"
document = {where}
hosts = {{ value = 2, derived = "two processes on two processors" }}

[channel.memory]
packet = {{ value = "64 B", derived = "a cache line" }}
payload = {{ value = "64 B", derived = "a cache line" }}

[channel.memory.link]
rate = {{ value = "1000 GB/s", derived = "one memory: the copies are what takes time" }}
length = {{ value = "0 m", derived = "one memory" }}
delay_per_metre = {{ value = "5 ns/m", derived = "without effect at no length" }}

[channel.memory.adapter]
send_buffers = {{ value = "unlimited", derived = "what is on the way is bounded by the ring" }}

[channel.memory.switch.ring]
acknowledgment = {{ value = "8 B", derived = "without effect: nothing is refused" }}
bypass = {{ value = "0 ns", derived = "between two hosts nothing passes" }}
outstanding = {{ value = "unlimited", derived = "bounded by the ring" }}
retry_after = {{ value = "0 ns", derived = "nothing is refused" }}

[channel.memory.host]
send = {{ value = ["send_call", "transmitter_copy"], derived = "a send copies into the ring" }}
receive = {{ value = ["receive_call", "receiver_copy", "read_pointer"], \
derived = "a receive copies out of it" }}

[channel.memory.host.resource.processor]

[channel.memory.host.program]
processor = {{ value = "processor", derived = "loads and stores move the bytes" }}
look_every = {{ value = "0 ns", derived = "a poll reads a word in the own cache" }}

[channel.memory.host.window]
buffer = {{ value = "{ring}", derived = "WEFT_LIVE_RING" }}
fill = {{ value = "transmitter_copy", derived = "the copy fills the ring" }}
release = {{ value = "read_pointer", derived = "the reader's pointer frees it" }}
look = {{ value = "0 ns", derived = "in the times of the calls" }}
wake = {{ value = "0 ns", derived = "a writer that waits polls" }}

[channel.memory.host.stage.send_call]
fixed = {{ value = "{send}", \
calibrated = "throughput at {small}, less the copy", predicts = "throughput at all other sizes" }}
unit = {{ value = "message", derived = "a call is made for a message" }}
uses.processor = {{ value = 0, derived = "it moves no data" }}

[channel.memory.host.stage.transmitter_copy]
rate = {{ value = "{copy}", \
calibrated = "throughput at 64 KiB, less the calls", predicts = "throughput at all other sizes" }}
unit.chunk = {{ value = "{piece}", derived = "a long message is handed over in such pieces" }}
uses.processor = {{ value = 0, derived = "loads and stores" }}
room = {{ value = "unlimited", derived = "a program has its message" }}

[channel.memory.host.stage.receive_call]
fixed = {{ value = "{receive}", \
calibrated = "latency at {small}, less the call of send and both copies", predicts = "latency \
at all other sizes" }}
unit.chunk = {{ value = "{piece}", derived = "a receive returns with the piece that is there" }}
uses.processor = {{ value = 0, derived = "it moves no data" }}

[channel.memory.host.stage.receiver_copy]
rate = {{ value = "{copy}", \
derived = "as the transmitter's: both copy between the same two memories" }}
unit.chunk = {{ value = "{piece}", derived = "as the transmitter's" }}
uses.processor = {{ value = 0, derived = "loads and stores" }}

[channel.memory.host.stage.read_pointer]
unit.chunk = {{ value = "{piece}", derived = "the pointer is stored as a receive returns" }}
"""

_RUN = """
[run]
length = "500 us"
regime = "from_empty"

[sweep]
"workload.memory.message" = [{sizes}]
"""

_EXPERIMENT = {
    LATENCY: """\
# Ping-pong over this host's shared memory.

base = "./host.toml"

[experiment]
title = "Latency of this host's shared memory against message size"
section = "weft live measure"

[workload.memory]
message = "64 B"

[workload.memory.source.ping_pong]
pairs = [{{ from = 0, to = 1 }}]
"""
    + _RUN,
    THROUGHPUT: """\
# Messages one way over this host's shared memory.

base = "./host.toml"

[experiment]
title = "Throughput of this host's shared memory against message size"
section = "weft live measure"

[workload.memory]
message = "64 B"
pattern = {{ flows = [{{ from = 0, to = 1 }}] }}
source = "greedy"
"""
    + _RUN,
}

_NUMBER = """
[[published]]
quantity = "{quantity}"
at = {{ "workload.memory.message" = "{size}" }}
value = {value}
band = "report_only"
section = "measured"
note = "{note}"
"""

_FIGURE = {
    LATENCY: """
[[figure]]
name = "latency"
title = "Latency of shared memory"
caption = "One way, of one message at a time. Crosses are what was measured."
kind = "latency_against_load"
channel = "memory"
x = "workload.memory.message"
y = "one_way_mean_us"
""",
    THROUGHPUT: """
[[figure]]
name = "throughput"
title = "Throughput of shared memory"
caption = "Of messages in a row. Crosses are what was measured."
kind = "throughput_against_load"
channel = "memory"
x = "workload.memory.message"
y = "accepted_mb_per_s"
""",
}

"""The real extension module keeps to the seam. Small runs: a second in all."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import weft

pytestmark = pytest.mark.skipif(
    not hasattr(pytest.importorskip("weft._core"), "run"), reason="needs the built core"
)


def test_clint_is_shipped_with_its_experiments() -> None:
    assert "clint" in set(weft.systems()["name"])
    assert "clint" in set(weft.experiments()["system"])


def test_every_parameter_of_clint_has_an_origin() -> None:
    system = weft.show("clint")
    assert len(system.parameters) > 15
    assert {p.origin for p in system.parameters} <= {"stated", "derived", "calibrated"}
    assert all(p.predicts for p in system.parameters if p.origin == "calibrated")
    assert system.composition["hosts"] == 16
    assert [channel["name"] for channel in system.composition["channels"]] == ["bulk", "quick"]


def test_a_small_run_fills_the_tables() -> None:
    result = weft.run(
        "clint-table-2-bulk",
        set={"workload.bulk.load": [0.3, 0.5]},
        preset="fitted",
        seeds=2,
        length="2 ms",
    )
    assert {
        "point",
        "channel",
        "series",
        "workload.bulk.load",
        "offered_load",
        "accepted_load",
        "queueing_mean_us",
        "queueing_half_width_us",
        "queueing_p99_us",
        "verdict",
    } <= set(result.points)
    assert not result.stopped
    assert (result.points["queueing_mean_us"] > 0).all()
    assert len(result.replications) == 2 * len(result.points)
    assert {"point", "channel", "latency", "lower_us", "upper_us", "count"} <= set(
        result.histograms
    )
    assert [figure.name for figure in result.figures]


def test_a_mistyped_key_is_refused_with_its_place() -> None:
    with pytest.raises(weft.WeftError) as caught:
        weft.run("clint-table-2-bulk", set={"channel.bulk.linc.rate": "2 Gbit/s"})
    assert caught.value.key
    assert caught.value.accepted
    assert "linc" in str(caught.value)


def test_the_installed_command_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "systems", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["systems"]

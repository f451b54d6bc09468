"""What `weft live measure` measures, predicts and leaves."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft import live, live_measure, live_model, live_page
from weft.live_measure import KERNEL, LATENCY, LIVE, MEDIA, THROUGHPUT, Measurement, Point
from weft.place import FolderError, claim

SIZES = (64, 1024, 65_536)


def host(processors: tuple[int, int] = (1, 0)) -> Measurement:
    """A host that is exactly as the model says: 100 ns and 150 ns a message, 10 GB/s a copy."""
    points = []
    for size in SIZES:
        pieces = max(1, size // 32_768)
        latency = (100 + 150 * pieces + size / 10 + min(size, 32_768) / 10) / 1000
        rate = size / max(100 + size / 10, 150 * pieces + size / 10)
        for medium, factor in zip(MEDIA, (80, 70, 1), strict=True):
            points += [
                Point(medium, LATENCY, size, factor * latency, latency, 99 * latency),
                Point(medium, THROUGHPUT, size, rate / factor, rate / 99, rate),
            ]
    return Measurement(tuple(points), processors, 5, stopped=False)


def test_the_parameters_meet_what_they_are_calibrated_by() -> None:
    measured = host()
    found = live_model.calibrate(measured, SIZES)
    small = 64
    copy = found.copy_ns_per_byte
    # A message of 64 KiB is received in two pieces.
    calls = max(found.send_call_ns, 2 * found.receive_call_ns)
    rate = 65_536 / (calls + 65_536 * copy)
    assert rate == pytest.approx(measured.at(LIVE, THROUGHPUT, 65_536))
    rate = small / (found.send_call_ns + small * copy)
    assert rate == pytest.approx(measured.at(LIVE, THROUGHPUT, small))
    whole = found.send_call_ns + found.receive_call_ns + 2 * small * copy
    assert whole == pytest.approx(1000 * measured.at(LIVE, LATENCY, small))


def test_no_parameter_is_below_zero() -> None:
    absurd = tuple(
        Point(LIVE, quantity, size, 0.001 if quantity == LATENCY else 1.0, 0.0, 1.0)
        for size in SIZES
        for quantity in (LATENCY, THROUGHPUT)
    )
    found = live_model.calibrate(Measurement(absurd, (1, 0), 1, stopped=False), SIZES)
    assert (found.send_call_ns, found.receive_call_ns) == (live_model._LEAST_CALL_NS, 0.0)


def write(folder: Path, measured: Measurement) -> tuple[live_model.Prediction, ...]:
    with claim(folder) as place:
        return live_page.write(place, measured)


def test_a_host_whose_calls_take_nothing_is_predicted_all_the_same(tmp_path: Path) -> None:
    measured = host()
    fast = tuple(
        replace(one, median=10.0) if (one.quantity, one.size_bytes) == (THROUGHPUT, 64) else one
        for one in measured.points
    )
    predicted = write(tmp_path / "out", replace(measured, points=fast))
    assert all(it.predicted > 0 for it in predicted)


def test_the_composition_predicts_the_host_it_was_made_from(tmp_path: Path) -> None:
    measured = host()
    predicted = write(tmp_path / "out", measured)
    assert {(it.quantity, it.size_bytes) for it in predicted} == {
        (quantity, size) for quantity in (LATENCY, THROUGHPUT) for size in SIZES
    }
    # Two calls of the receiver in 64 KiB, which the copies of the model hide, are the difference.
    assert max(abs(it.error) for it in predicted if it.quantity == LATENCY) < 0.12
    assert [it.size_bytes for it in predicted if it.calibrated] == [64, 64, 65_536]
    stated = live_page.error_line(LATENCY, predicted)
    assert stated.startswith("predicted at 2 sizes with a median error of ")


def test_the_folder_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, host())
    names = {path.name for path in folder.iterdir()}
    figures = {
        f"{name}.{kind}" for name in (LATENCY, THROUGHPUT) for kind in ("svg", "png", "toml")
    }
    assert names == figures | {"measured.csv", "predicted.csv", "host.toml", "report.html",
                               "manifest.json"}  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "no draft is left"
    with (folder / "measured.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert next(row["median"] for row in rows if row["medium"] == KERNEL) == "21.024"
    composition = tomllib.loads((folder / "host.toml").read_text())
    stage = composition["channel"]["memory"]["host"]["stage"]
    assert stage["transmitter_copy"]["rate"]["calibrated"] == "throughput at 64 KiB, less the calls"
    page = (folder / "report.html").read_text()
    assert "weft live, predicted" in page
    assert page.count("<figure") == len((LATENCY, THROUGHPUT))


def test_with_one_processor_nothing_is_predicted(tmp_path: Path) -> None:
    assert write(tmp_path / "out", host((0, 0))) == ()
    assert not (tmp_path / "out" / "host.toml").exists()


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(FolderError, match="not empty"):
        write(tmp_path, host())
    write(tmp_path / "out", host((0, 0)))
    (tmp_path / "out/notes.txt").write_text("mine")
    write(tmp_path / "out", host((0, 0)))
    assert (tmp_path / "out/notes.txt").read_text() == "mine"


def test_a_stop_keeps_the_turns_that_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_measure, "_one", lambda *_: 1.0)
    turn = len(SIZES) * len(MEDIA) * 2
    stop = turn + turn // 2
    measured = live_measure.measure(Path("/lib.so"), 40, lambda done, *_: done < stop, SIZES)
    assert (measured.turns, measured.stopped, len(measured.points)) == (1, True, turn)
    with pytest.raises(live_measure.StoppedError):
        live_measure.measure(Path("/lib.so"), 40, lambda done, *_: done < turn - 1, SIZES)


@pytest.mark.parametrize(("seconds", "turns"), [(5, 1), (11, 2), (26, 5), (400, 5)])
def test_where_time_is_short_there_are_fewer_turns_but_none_is_too_short(
    seconds: float, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[float] = []

    def one(_library: Path, _case: object, span: float, _where: object) -> float:
        spans.append(span)
        return 1.0

    monkeypatch.setattr(live_measure, "_one", one)
    measured = live_measure.measure(Path("/lib.so"), seconds, lambda *_: True)
    assert (measured.turns, measured.stopped) == (turns, False)
    assert len(spans) == turns * len(live_measure.SIZES) * len(MEDIA) * 2
    assert min(spans) > 0.03
    assert sum(spans) < seconds


def test_this_host_is_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        live.library()
    except live.LiveError:
        pytest.skip("the preload library is not built here")
    monkeypatch.setattr(live_measure, "TURNS", 1)
    monkeypatch.setattr(live_measure, "SIZES", SIZES)
    monkeypatch.setattr(live_measure.measure, "__defaults__", (SIZES,))
    out = tmp_path / "out"
    ran = CliRunner().invoke(live.live, ["measure", "--seconds", "5", "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "throughput, GB/s" in ran.output
    assert (out / "latency.png").read_bytes()[:4] == b"\x89PNG"
    with (out / "measured.csv").open() as file:
        assert {row["medium"] for row in csv.DictReader(file)} == set(MEDIA)

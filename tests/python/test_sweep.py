"""Studies that are kept, against the real extension module: killed, spread, extended."""

from __future__ import annotations

import filecmp
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import weft
from interrupted import HANGS_S
from weft.spread import SweepError
from weft.sweep import spell_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STUDY = """\
[system]
title = "A cell switch"
hosts = 8

[channel.data]
packet = "64 B"
payload = "48 B"
link.rate = "1 Gbit/s"
adapter.send_buffers = "unlimited"
switch.input_queued.scheduler.islip.iterations = 1

[workload.data]
load = 0.5
arrivals = "bernoulli"

[run]
length = "3 ms"
seeds = 2

[sweep]
"workload.data.load" = [0.2, 0.4, 0.6, 0.8]
"""

ITERATIONS = "channel.data.switch.input_queued.scheduler.islip.iterations"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "weft", *words]


def assert_same(one: weft.Result, other: weft.Result) -> None:
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, other.tables[name])
    assert one.meta == other.meta


def stored() -> int:
    return len(list(Path("out/store").glob("??/*.run")))


def same_files(one: Path, other: Path) -> Iterator[Path]:
    """Every file of a folder that the other has with the same bytes; fails at one that differs."""
    names, others = (
        sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
        for root in (one, other)
    )
    # What was being written when it was killed lies in a folder of its own for a day.
    assert names == [name for name in others if name.parts[0] != "drafts"]
    for name in names:
        assert filecmp.cmp(one / name, other / name, shallow=False), name
        yield name


def test_stored_points_are_not_run_again(study: Path) -> None:
    first = weft.sweep(study)
    assert stored() == 8
    seen: list[tuple[int, int]] = []
    again = weft.sweep(study, progress=lambda done, total, _: seen.append((done, total)))
    assert seen == [(8, 8)]
    assert_same(again, first)
    assert_same(weft.run(study), first)
    assert len(weft.sweep(study, {"workload.data.load": [0.2, 0.3]}, seeds=3).points) == 2
    assert stored() == 8 + 1 + 3


def test_lists_multiply_or_advance_together(study: Path) -> None:
    both: dict[str, list[object]] = {ITERATIONS: [1, 2], "channel.data.packet": ["64 B", "128 B"]}
    assert len(weft.sweep(study, both, store=None).points) == 16
    together = weft.sweep(study, {"workload.data.load": [0.4]}, paired=both, store=None)
    assert list(together.points[ITERATIONS]) == [1.0, 2.0]
    assert list(together.points["channel.data.packet"]) == ["64 B", "128 B"]
    assert not Path("out").exists()
    assert spell_axes({"a.b": range(2)}, [{"c": ["x"], "d": [True]}]) == [
        'sweep."a.b"=[0, 1]',
        'sweep.paired=[{ "c" = ["x"], "d" = [true] }]',
    ]
    with pytest.raises(weft.WeftError, match="equally long"):
        weft.sweep(study, paired={"a": [1], "b": [1, 2]})


def test_runs_are_added_until_the_interval_is_narrow(study: Path) -> None:
    result = weft.sweep(study, set={"workload.data.load": [0.4, 0.6]}, precision=0.03)
    points = result.points
    width = points["queueing_half_width_us"] / points["queueing_mean_us"]
    assert (width <= 0.03).all()
    assert (points["replications"] >= 5).all()
    assert len(result.replications) == points["replications"].sum() == stored()


def test_the_load_at_which_a_switch_stops_settling(study: Path) -> None:
    set_ = {"workload.data.load": 0.5, "channel.data.switch.input_queued.queues": "fifo"}
    result = weft.saturation(study, set=set_, between=(0.3, 1.0), seeds=3, length="20 ms")
    found = result.points.iloc[0]
    # FIFO queues and uniform traffic of 8 hosts: about 0.62 (Karol, Hluchyj, Morgan 1987).
    assert 0.55 < found["settles_up_to_load"] <= found["saturated_from_load"] + 0.01 < 0.70
    assert found["accepted_load"] == pytest.approx(0.63, abs=0.03)
    assert len(result.replications) == found["runs"] == stored()
    done = subprocess.run(
        command("saturation", str(study), "--set", "workload.data.load=0.5", "--length", "1 ms",
                "--seeds", "2", "--width", "0.2", "--json"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    row = json.loads(done.stdout)["points"][0]
    assert row["channel"] == "data"
    assert 0 < row["settles_up_to_load"] < 1


def test_a_sweep_that_is_killed_ends_with_the_same_bytes(study: Path) -> None:
    words = command("sweep", "study.toml", "--over", f"{ITERATIONS}=[1, 2, 4]", "--seeds", "8",
                    "--length", "6 ms", "--workers", "1", "--out")  # fmt: skip
    done = subprocess.run([*words, "whole/study"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The provenance names the command, and so the folder.
    again = [*words, "whole/study"]
    Path("whole").rename("kept")
    chance = random.Random(4)
    for _ in range(6):
        process = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.2, 2.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(again, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = list(same_files(Path("kept/study"), Path("whole/study")))
    assert {Path("tables/points.parquet"), Path("report.html")} <= set(names)
    runs = list(same_files(Path("kept/store"), Path("whole/store")))
    assert len([name for name in runs if name.suffix == ".run"]) == 96


def test_ctrl_c_leaves_whole_points_and_the_rest_for_later(study: Path) -> None:
    words = command("sweep", "study.toml", "--seeds", "40", "--length", "30 ms", "--workers", "1",
                    "--out", "out/study")  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while stored() < 45 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=HANGS_S)
    assert process.returncode == 130, complaints
    result = weft.read("out/study")
    assert result.stopped
    assert 1 <= len(result.points) < 4
    assert set(result.points["replications"]) == {40}
    assert 45 <= stored() < 160


class Unreliable(Executor):
    """An executor that loses every third call, as one does whose worker was killed."""

    def __init__(self, *, always: bool = False) -> None:
        self.calls = 0
        self._always = always
        self._pool = ThreadPoolExecutor(2)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        if self._always or self.calls % 3 == 0:
            lost: Future[Any] = Future()
            lost.set_exception(BrokenExecutor("its worker was killed"))
            return lost
        return self._pool.submit(fn, *args, **kwargs)


def test_any_executor_makes_the_same_runs_and_a_lost_chunk_is_sent_again(study: Path) -> None:
    plain = weft.run(study)
    executor = Unreliable()
    assert_same(weft.sweep(study, executor=executor, chunk=1), plain)
    assert executor.calls == 8 + 3
    again = Unreliable()
    assert_same(weft.sweep(study, executor=again), plain)
    assert again.calls == 0
    precise: dict[str, Any] = {"set": {"workload.data.load": 0.6}, "precision": 0.03, "store": None}
    spread = weft.sweep(study, executor=Unreliable(), **precise)
    assert_same(spread, weft.sweep(study, **precise))


def test_an_executor_that_never_answers_is_given_up(study: Path) -> None:
    with pytest.raises(SweepError, match="failed 4 times"):
        weft.sweep(study, executor=Unreliable(always=True))
    with pytest.raises(SweepError, match="no Dask scheduler answers"):
        weft.sweep(study, executor="nonsense://nowhere")


def test_progress_ends_what_an_executor_does(study: Path) -> None:
    result = weft.sweep(study, executor=ThreadPoolExecutor(1), chunk=1,
                        progress=lambda done, _total, _label: done < 3)  # fmt: skip
    assert result.stopped
    assert 3 <= stored() < 8
    assert len(result.points) <= stored() // 2


def test_a_worker_of_other_code_is_refused(study: Path) -> None:
    from weft import _core

    campaign = _core.Campaign(str(study), None, [], "{}")
    assert campaign.pending() == (8, 0, 8)
    jobs = json.loads(campaign.jobs(0, 1))
    jobs[0]["code"] = "0.0.1+abc"
    with pytest.raises(weft.WeftError, match=r"the run is for weft 0\.0\.1"):
        _core.simulate(json.dumps(jobs))
    with pytest.raises(RuntimeError, match="is not a key"):
        campaign.put([("12", b"")])
    campaign.outcome(True)
    with pytest.raises(RuntimeError, match="it is over"):
        campaign.pending()


SCHEDULER = """\
import sys, time
from distributed import Client, LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    pids = [worker.pid for worker in cluster.workers.values()]
    print(cluster.scheduler_address, *pids, flush=True)
    sys.stdin.read()
"""


def test_a_dask_worker_that_is_killed_costs_its_chunk_only(study: Path) -> None:
    pytest.importorskip("distributed")
    script = study.parent / "cluster.py"
    script.write_text(SCHEDULER)
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as cluster:  # fmt: skip
        assert cluster.stdin is not None
        assert cluster.stdout is not None
        address, victim, _other = cluster.stdout.readline().split()
        words = command("sweep", "study.toml", "--seeds", "20", "--length", "20 ms", "--chunk", "2",
                        "--dask", address, "--out", "out/study")  # fmt: skip
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              text=True) as sweep:  # fmt: skip
            while stored() < 10 and sweep.poll() is None:
                time.sleep(0.02)
            os.kill(int(victim), signal.SIGKILL)
            _, complaints = sweep.communicate(timeout=HANGS_S)
        assert sweep.returncode == 0, complaints
        # The script that holds the cluster ends with its input.
        cluster.stdin.close()
    plain = weft.run(study, seeds=20, length="20 ms")
    pd.testing.assert_frame_equal(weft.load("out/study", "points"), plain.points, check_dtype=False)
    assert stored() == 80


def test_a_table_is_loaded_with_its_units(study: Path) -> None:
    weft.sweep(study).save("out/study")
    rows = weft.load("out/study")
    assert len(rows) == 8
    assert list(rows["seed"]) == [1.0, 2.0] * 4
    assert rows.attrs["units"]["queueing_mean_us"] == "us"
    assert "generation of a packet" in rows.attrs["meanings"]["queueing_mean_us"]
    assert len(weft.load("out/study", "points")) == 4
    with pytest.raises(weft.FolderError, match="no table `pionts`; it has: points"):
        weft.load("out/study", "pionts")
    import pyarrow.parquet as pq

    field = pq.read_schema("out/study/tables/points.parquet").field("accepted_load")
    assert field.metadata[b"unit"] == b"fraction of link bandwidth"


def test_results_are_put_side_by_side(study: Path) -> None:
    weft.sweep(study).save("out/one")
    weft.sweep(study, set={ITERATIONS: 4}).save("out/four")
    done = subprocess.run(command("report", "out/one", "out/four"), capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.stdout == "comparison.html\n", done.stderr
    page = Path("comparison.html").read_text(encoding="utf-8")
    assert "one and four, side by side" in page
    assert f"<code>{ITERATIONS}</code>" in page
    for name in ("one", "four"):
        assert f"<b>{name}</b>" in page
    assert '<th class="n">mean queueing latency (µs)</th>' in page
    refused = subprocess.run(command("report", "out/one", "out/none"), capture_output=True,
                             text=True, check=False)  # fmt: skip
    assert refused.returncode == 2
    assert "holds no results" in refused.stderr

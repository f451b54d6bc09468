"""What a run loads before it is over, and what its files hold without it."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import weft
from weft import tables
from weft.tables import Tables

if TYPE_CHECKING:
    from pathlib import Path

RUN = """\
base = "clint"
preset = "fitted"
run.length = "100 us"
workload.bulk.load = 0.5
"""

# What draws and what makes DataFrames; each takes longer to load than a short run takes.
HEAVY = {"pandas", "vl_convert", "weft.report", "weft.plots", "distributed"}

LOADED = """\
import json, sys
from weft.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

BEFORE = """\
import json, sys
from weft import _core, cli
simulate = _core.run
def run(*given):
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
    return simulate(*given)
_core.run = run
cli.main()
"""

# The largest size that the process had, of which its parent's is no part as in `getrusage`.
SIZE = """\
import sys
from pathlib import Path
from weft.cli import main
try:
    main()
finally:
    status = Path("/proc/self/status").read_text().splitlines()
    print(next(line for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""


def loaded(*words: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_a_run_without_pictures_loads_nothing_that_draws(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(RUN)
    words = ("run", "small.toml", "--out", "here", "--no-pictures")
    assert not HEAVY & loaded(*words, cwd=tmp_path)
    assert not HEAVY & loaded("sweep", *words[1:3], "again", words[-1], cwd=tmp_path)
    assert not HEAVY & loaded(*words[:2], "--json", cwd=tmp_path)
    assert "pyarrow" not in loaded(*words[:2], "--json", cwd=tmp_path)
    assert {path.name for path in (tmp_path / "here").iterdir()} == {
        *("manifest.json", "provenance.json", "result.json", "spec.toml", "tables")
    }
    done = loaded("report", "here", cwd=tmp_path)
    assert HEAVY - {"distributed"} <= done
    assert (tmp_path / "here/figures/bulk-histogram.png").exists()


def test_a_run_that_draws_loads_what_draws_after_the_simulation(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(RUN)
    words = [sys.executable, "-c", BEFORE, "run", "small.toml", "--out", "here"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    before = json.loads(done.stderr.splitlines()[-1])
    assert "weft.cli" in before
    assert not {*HEAVY, "pyarrow", "rich", "numpy"} & set(before)
    assert (tmp_path / "here/report.html").exists()


def test_a_run_without_pictures_needs_little_memory(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(RUN)
    words = [sys.executable, "-c", SIZE, "run", "small.toml", "--out", "here", "--no-pictures"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    # It was 324 MB with pandas and what draws; in kilobytes, as Linux has it.
    assert 10_000 < int(done.stderr.split()[-2]) < 150_000


def test_drawn_later_is_as_if_drawn_at_once(tmp_path: Path, quick: weft.Result) -> None:
    quick.save(tmp_path / "once")
    quick.save(tmp_path / "later", pictures=False)
    weft.read(tmp_path / "later").save(tmp_path / "later")
    names = [{path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*")
              if path.is_file()} for root in (tmp_path / "once", tmp_path / "later")]  # fmt: skip
    assert names[0] == names[1]


VALUES: dict[str, Any] = {
    "numbers": np.array([1.0, math.nan, 1e-300, -0.1, 1e22, math.inf]),
    "whole": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "texts": ["a", "", 'with "quotes", and a comma', "two\nlines", "é ✓", "nan"],
}


def test_tables_are_written_as_pandas_writes_them(tmp_path: Path) -> None:
    described = [weft.result.Column("t", "numbers", "us", "some numbers")]
    for name, own in (("raw", Tables({"t": VALUES})), ("frame", {"t": pd.DataFrame(VALUES)})):
        (tmp_path / name).mkdir()
        tables.write(own, described, tmp_path / name)
    for file in ("t.csv", "t.parquet"):
        assert (tmp_path / "raw" / file).read_bytes() == (tmp_path / "frame" / file).read_bytes()
    frame = pd.DataFrame(VALUES)
    text = (tmp_path / "raw/t.csv").read_bytes().decode()
    assert text == frame.to_csv(index=False, lineterminator="\n")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "raw/t.parquet"), frame)
    assert pq.read_schema(tmp_path / "raw/t.parquet").field("numbers").metadata == {
        b"unit": b"us",
        b"description": b"some numbers",
    }
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["numbers"] for row in rows] == ["1.0", "", "1e-300", "-0.1", "1e+22", "inf"]


def test_a_table_becomes_a_frame_once_and_stays_what_was_made_of_it() -> None:
    held = Tables({"t": VALUES, "empty": {}})
    assert held.columns("t")["texts"] is VALUES["texts"]
    held["t"]["more"] = 7
    assert list(held["t"]["more"]) == [7] * 6
    assert list(held.columns("t")) == [*VALUES, "more"]
    assert tables.records(tables.columns_of(held, "t"))[1]["numbers"] is None
    assert tables.distinct(VALUES["numbers"].tolist()) == 5
    assert tables.columns_of(held, "nowhere") == {}
    assert held["empty"].empty
    del held["t"]
    assert list(held) == ["empty"]

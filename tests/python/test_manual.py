"""The manual: its generated pages say what the code says, and its how-to pages do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import weft
from weft import _seam, reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from browser import Browser

ROOT = Path(__file__).parents[2]

# Takes the place of dask_jobqueue where there is no SLURM: the same call, processes right here.
CLUSTER = """\
from distributed import LocalCluster

class SLURMCluster(LocalCluster):
    def __init__(self, **asked):
        assert asked["processes"] == asked["cores"]
        super().__init__(n_workers=2, threads_per_worker=1, dashboard_address=None)

    def adapt(self, minimum_jobs, maximum_jobs):
        assert minimum_jobs <= maximum_jobs
"""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_graph_of_the_page_on_interconnects_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(blocks("howto/interconnect.md", "python")[0], found)
    assert list(found["result"].points.verdict) == ["settled", "settled"]
    # Six hosts and three cables between switches, each in both directions.
    assert len(found["result"].tables["links"]) == 2 * (6 + 3) * 2


def described(node: Any) -> Iterator[tuple[str, str]]:
    """Every key of the schema that has a meaning of its own."""
    if isinstance(node, dict):
        for name, value in (node.get("properties") or {}).items():
            if name not in {"value", "stated", "derived", "calibrated", "predicts"}:
                yield name, value.get("description", "")
        for value in node.values():
            yield from described(value)
    elif isinstance(node, list):
        for value in node:
            yield from described(value)


def test_the_reference_holds_every_key_with_its_meaning() -> None:
    schema = _seam.schema()
    page = reference.keys_page(schema)
    headings = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert set(headings) == set(schema["$defs"])
    assert not [name for name in headings if name[-1].isdigit()], "two types have one name"
    keys = list(described(schema))
    assert len(keys) > 150
    for name, meaning in keys:
        words = " ".join(meaning.split()).replace("|", "\\|")
        assert re.search(rf"^\| `(\w+\.)*{re.escape(name)}` \| .*{re.escape(words)}", page,
                         re.MULTILINE), name  # fmt: skip
    assert "| `send_buffers` | " in page
    switches = "`channel.NAME.switch`, `channel.NAME.switches.NAME`: the switches of a channel."
    assert switches in page
    scheduler = re.search(r"^## SchedulerSettings\n\n(.*)$", page, re.MULTILINE)
    assert scheduler is not None
    for switch in ("scheduled", "input_queued"):
        assert f"`channel.NAME.switch.{switch}.scheduler`" in scheduler[1]
    assert reference.keys_page({**schema, "properties": {}}).count("\n## ") == 1


def test_every_shipped_system_has_its_parameters_with_their_origins() -> None:
    pages = reference.pages()
    for name in weft.systems()["name"]:
        system = weft.show(name)
        rows = [line for line in pages[f"{name}.md"].splitlines() if line.startswith("| `")]
        shown = {"system.title", "system.document"}
        assert len(rows) == len([one for one in system.parameters if one.key not in shown])
    assert "| `switch.gap` | 150 ns | calibrated: least squares" in pages["clint.md"]


def test_commands_and_functions_are_documented_from_the_code() -> None:
    pages = reference.pages()
    for heading in ("weft sweep", "weft saturation", "weft systems show", "weft live"):
        assert f"## {heading}\n" in pages["commands.md"]
    assert "--precision FLOAT RANGE" in pages["commands.md"]
    for name in ("sweep", "saturation", "load", "run"):
        assert f"## weft.{name}\n\n```python\n{name}(" in pages["python.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    site = tmp_path_factory.mktemp("manual") / "site"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "--quiet", "build", "--site-dir",
         str(site)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return site


def test_the_manual_is_built_and_asks_nothing_of_anybody(site: Path) -> None:
    names = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    assert {"index.html", "tour.html", "howto/cluster.html", "reference/keys.html",
            "reference/clint.html", "systems/clint.html"} <= names  # fmt: skip
    for name in names:
        page = (site / name).read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(https?:[^"]*)', page)
        assert [address for address in fetched if "canonical" not in address] == [], name
        assert "```" not in page, f"a block of {name} is not one"


def test_the_index_of_the_search_leads_to_every_section(site: Path) -> None:
    script = (site / "assets/search-index.js").read_text(encoding="utf-8")
    rows = json.loads(script.removeprefix("window.manualIndex=").rstrip(";\n"))
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    for address, page, heading, _ in rows:
        name, _, anchor = address.partition("#")
        assert not anchor or f'id="{anchor}"' in pages[site / name], (page, heading)
    indexed = {address.partition("#")[0] for address, *_ in rows}
    assert {"tour.html", "comparison.html", "reference/keys.html", "systems/clint.html"} <= indexed
    assert len(rows) > 200
    assert not [text for *_, text in rows if "<" in text and "</" in text]


@pytest.mark.parametrize("page", ["index.html", "howto/sweeps.html"])
def test_the_search_finds_from_a_file_without_a_request(
    site: Path, browser: Browser, page: str
) -> None:
    ask = """(() => {
      const input = document.querySelector(".manual-search__input");
      input.value = "SHA-256 store";
      input.dispatchEvent(new Event("input"));
    })()"""
    seen = browser.visit(site / page, ask)
    assert (seen.complaints, seen.asked) == ([], [])
    found = re.findall(
        r'<li class=""><a class="" href="([^"]+)"><strong class="">([^<]+)', seen.dom
    )
    assert found
    assert found[0][0].startswith(f"{site.as_uri()}/howto/sweeps.html")
    nothing = browser.visit(site / page, ask.replace("SHA-256 store", "zzyzx"))
    assert "Nothing of that is in the manual" in nothing.dom


def test_the_torus_of_the_manual_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = blocks("howto/interconnect.md", "toml")
    Path("torus.toml").write_text(files[0])
    Path("wavefront.toml").write_text(files[1])
    over = {"workload.data.load": [0.2, 0.4, 0.6]}
    for name in ("torus", "wavefront"):
        points = weft.sweep(f"{name}.toml", over).points
        assert list(points["verdict"]) == ["settled"] * 3
        # Of 15 others on a 4 x 4 torus 4 are one cable away, 6 two, 4 three and 1 four.
        mean = 1 + (4 * 1 + 6 * 2 + 4 * 3 + 1 * 4) / 15
        assert points["hops_mean"].iloc[-1] == pytest.approx(mean, rel=0.02)
    system = weft.show("wavefront.toml")
    assert system.composition["channels"][0]["scheduler"] == "wavefront"


def test_the_slurm_file_of_the_manual_runs(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (tmp_path / "dask_jobqueue.py").write_text(CLUSTER)
    (tmp_path / "sweep_slurm.py").write_text(blocks("howto/cluster.md", "python")[0])
    (tmp_path / "my.toml").write_text(
        'base = "clint"\npreset = "fitted"\nworkload.bulk.load = 0.3\nrun.length = "200 us"\n'
        '[sweep]\n"workload.bulk.load" = [0.1, 0.3]\n'
    )
    done = subprocess.run([sys.executable, "sweep_slurm.py", "my.toml"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    points = weft.load(tmp_path / "out/sweep", "points")
    pd.testing.assert_frame_equal(points, weft.run(tmp_path / "my.toml").points, check_dtype=False)


def test_the_slurm_file_of_the_manual_asks_for_what_slurm_understands(tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    code = blocks("howto/cluster.md", "python")[0]
    cluster = re.search(r"cluster = SLURMCluster\(.*?\n    \)\n", code, re.DOTALL)
    assert cluster is not None
    script = (
        'from dask_jobqueue import SLURMCluster\nif __name__ == "__main__":\n    '
        + cluster[0].replace(
            "SLURMCluster(", "SLURMCluster(scheduler_options={'dashboard_address': None}, "
        )
        + "    print(cluster.job_script())\n    cluster.close()\n"
    )
    (tmp_path / "ask.py").write_text(script)
    done = subprocess.run([sys.executable, "ask.py"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in ("#SBATCH -p short", "#SBATCH -A my-project", "#SBATCH --cpus-per-task=16",
                 "#SBATCH -t 01:00:00"):  # fmt: skip
        assert line in done.stdout
    assert "--lifetime 55m" in done.stdout

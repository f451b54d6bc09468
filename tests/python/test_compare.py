"""Several systems side by side, against the real extension module."""

from __future__ import annotations

import json
import math
import os
import re
import statistics
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pandas as pd
import pytest
from click.testing import CliRunner

import weft
from browser import BOXES
from systems import plain_switch
from weft.across.contenders import OF_TODAY, SHIPPED, contenders, rates_of, settings_of
from weft.across.summary import (
    Mean,
    _keeper,
    best_of,
    half_width_of,
    shown,
    shown_spread,
    values_of,
)
from weft.across.workloads import parse, read
from weft.cli import main
from weft.plots.across import RATES_SHOWN, grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from browser import Browser
    from weft.across.summary import Shown

ROOT = Path(__file__).parents[2]

MINE = """\
base = "clint"

[channel.bulk.link]
rate = "4 Gbit/s"
"""

# A system of its own, which has no preset at all.
PLAIN = plain_switch(2, "data")

ONE_SIZE = """\
[ping_pong]
title = "Ping-pong"
along = "program.run.ping_pong.size"
budget_at = "{size}"

[ping_pong.settings]
program.ranks = 2
program.run.ping_pong.rounds = 20

[ping_pong.sweep]
"program.run.ping_pong.size" = ["{size}"]

[[ping_pong.column]]
name = "one_way"
title = "One way"
quantity = "program_one_way_mean_us"
at = "{size}"
best = "least"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "words.md").write_text("# No composition")
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "plain.toml").write_text(PLAIN)
    (tmp_path / "busy.toml").write_text('base = "clint"\n[workload.bulk]\nload = 0.1\n')
    (tmp_path / "swept.toml").write_text('base = "clint"\n[sweep]\n"system.hosts" = [8, 16]\n')
    return tmp_path


def one_way(systems: Sequence[str], size: str) -> list[float]:
    Path("one.toml").write_text(ONE_SIZE.format(size=size))
    found = weft.compare(systems, rates="published", programs="one.toml", store=None)
    return list(found.tables["comparison"]["one_way"])


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> weft.Result:
    place = tmp_path_factory.mktemp("quick")
    (place / "mine.toml").write_text(MINE)
    return weft.compare(["memory-channel-2", str(place / "mine.toml")], quick=True, store=None)


def test_one_table_of_a_shipped_system_and_a_file(quick: weft.Result) -> None:
    table = quick.tables["comparison"]
    assert list(table["system"]) == ["memory-channel-2", "mine"] * 2
    assert list(table["rates"]) == ["published", "published", "today", "today"]
    assert list(table["barrier_by"]) == ["hardware", "messages"] * 2
    values = [name for name in table if not str(name).endswith("_half_width")]
    assert table[values].notna().all(axis=None)
    best = best_of(table, read(None)[0])
    assert best["published", "one_way_8_b_us"] == shown(table["one_way_8_b_us"][:2].min())
    assert best["today", "stream_64_kb_mb_per_s"] == shown(table["stream_64_kb_mb_per_s"][2:].max())
    # What both keep is nobody's lead, and shares are of what the pair has alone.
    assert ("published", "victim_share_percent") not in best
    assert table["victim_share_percent"].between(99, 101).all()
    assert table["other_messages_percent"].between(15, 60).all()
    # Links twice as fast as Clint's, in slots whose gap stays: less than twice as much.
    clint = weft.compare(["clint", "maestro"], rates="published", workloads=["stream"], store=None)
    stream = "stream_64_kb_mb_per_s"
    faster = table[stream][1] / clint.tables["comparison"][stream][0]
    assert 1.5 < faster < 2


def test_every_run_accounts_for_every_packet(quick: weft.Result) -> None:
    points = quick.points
    assert set(points["workload"]) == set(quick.meta["across"]["workloads"])
    assert (points["generated_packets"] == points["delivered_packets"]).all()
    assert (points["backlog_packets"] + points["in_flight_packets"] == 0).all()
    assert (points["generated_packets"] > 0).groupby(points["workload"]).any().sum() >= 6


def test_the_stages_of_a_message_add_up_to_its_way(quick: weft.Result) -> None:
    budget = grouped(quick.budget)
    sums = budget.groupby(["point", "channel"])["mean_us"].sum().reset_index()
    both = sums.merge(quick.points, on=["point", "channel"])
    assert len(both) == len(sums) > 40
    assert list(both["mean_us"]) == pytest.approx(list(both["one_way_mean_us"]), rel=1e-9)
    # A host stands before the network and one behind it, whatever its stages are called.
    for _, rows in budget.groupby(["point", "channel"]):
        parts = list(dict.fromkeys(rows["part"]))
        assert parts[0] == "sending host and adapter"
        assert parts[-1] == "receiving host and adapter"


def test_a_folder_holds_the_page_and_reads_back(quick: weft.Result, tmp_path: Path) -> None:
    place = quick.save(tmp_path / "results", command="weft compare memory-channel-2 mine.toml")
    page = (place / "report.html").read_text(encoding="utf-8")
    assert page.count('class="best"') >= 12
    assert "in hardware" in page
    assert "carries messages up to 32\xa0B by quick, all others by bulk." in page
    assert "http" not in page.split("<script", maxsplit=1)[0].replace("http://www.w3.org", "")
    curves = {figure.name for figure in quick.figures}
    assert {"ping-pong", "barrier", "victim", "where-the-time-goes-today"} <= curves
    assert {path.stem for path in (place / "figures").glob("*.svg")} == curves
    again = weft.read(place)
    pd.testing.assert_frame_equal(again.tables["comparison"], quick.tables["comparison"])
    assert again.report(tmp_path / "again.html").read_text(encoding="utf-8") == page
    spec = place / "specs" / "mine-ping-pong-today.toml"
    single = weft.run(spec).points
    own = quick.points
    own = own[(own["system"] == "mine") & (own["rates"] == "today")]
    own = own[own["workload"] == "ping_pong"]
    assert list(single["program_one_way_mean_us"]) == list(own["program_one_way_mean_us"])


def test_values_have_intervals_over_seeds_or_are_deterministic(tmp_path: Path) -> None:
    found = weft.compare(["clint", "maestro"], rates="published", workloads=["all_to_all"],
                         quick=True, seeds=3, store=None)  # fmt: skip
    table = found.tables["comparison"].set_index("system")
    column = "all_to_all_8_mb_per_s_per_host"
    rows = found.replications
    rows = rows[(rows["system"] == "maestro") & (rows["program.ranks"] == 8)]
    seeds = list(rows["program_mb_per_s_per_host"])
    assert len(set(seeds)) == len(seeds) == 3
    # Student's t of 97.5 % and two degrees of freedom.
    half = 4.302652729911275 * statistics.stdev(seeds) / math.sqrt(3)
    assert table[column]["maestro"] == pytest.approx(statistics.mean(seeds))
    assert table[f"{column}_half_width"]["maestro"] == pytest.approx(half)
    assert table[f"{column}_half_width"]["clint"] == 0
    page = Path(found.report(tmp_path / "page.html")).read_text(encoding="utf-8")
    assert page.count('<small class="note">±') == 1
    assert "The 1 of 2 values without it are deterministic" in page
    drawn = {figure.name: figure for figure in found.figures}["all-to-all"].spec
    ends = {(v["system"], v["x"]): (v["lower"], v["upper"]) for v in drawn["data"]["values"]}
    mean = table[column]["maestro"]
    assert ends["maestro", "8"] == pytest.approx((mean - half, mean + half))
    assert ends["clint", "8"][0] == ends["clint", "8"][1]
    assert "95 % interval" in drawn["title"]["subtitle"]


def test_a_share_is_a_ratio_over_seeds() -> None:
    workload = next(one for one in read(None)[0] if one.name == "hot_spot")
    share = next(one for one in workload.columns if one.name == "victim_share_percent").measure
    rows = pd.DataFrame({
        "system": "a", "rates": "published", "workload": "hot_spot", "point": [0, 0, 1, 1],
        "seed": [1, 2, 1, 2], "program.run.hot_spot.senders": [0, 0, 5, 5],
        "program_victim_mb_per_s": [10.0, 20.0, 5.0, 10.0],
    })  # fmt: skip
    who = ("a", "published")
    # Each seed keeps half of what it had, although the seeds differ by a factor of two.
    both = values_of(rows, who, workload, share)[5]
    assert both.value == 50.0
    assert both.half_width == pytest.approx(0, abs=1e-9)
    alone = values_of(rows[rows["seed"] == 1], who, workload, share)[5]
    assert alone.value == 50.0
    assert math.isnan(alone.half_width)
    assert shown_spread(alone.half_width) == ""


@pytest.fixture(scope="module")
def shipped() -> weft.Result:
    return weft.compare(quick=True, seeds=3, store=None)


def test_the_page_is_whole(shipped: weft.Result, browser: Browser, tmp_path: Path) -> None:
    page = shipped.report(tmp_path / "page.html")
    for width in (390, 800, 1400):
        seen = browser.visit(page, BOXES, width=width)
        assert (seen.complaints, seen.asked, seen.said["faults"]) == ([], [], []), width


def test_runs_that_are_there_are_not_made_again() -> None:
    def barriers(progress: Callable[[int, int, str], bool]) -> weft.Result:
        both, only = ["clint", "maestro"], ["barrier"]
        return weft.compare(both, rates="published", workloads=only, quick=True, store="store",
                            progress=progress)  # fmt: skip

    steps: list[tuple[int, int]] = []

    def stop(done: int, total: int, _: str) -> bool:
        steps.append((done, total))
        return done < 2

    first = barriers(stop)
    assert first.stopped
    assert len(first.points) < 6
    steps.clear()

    def go_on(done: int, total: int, _: str) -> bool:
        steps.append((done, total))
        return True

    whole = barriers(go_on)
    assert not whole.stopped
    assert steps[-1] == (4, 4)
    assert whole.tables["comparison"]["barrier_8_us"].notna().all()


# What a comparison says must be what the experiment of the system says that publishes it.


def test_memory_channel_is_as_fast_as_in_its_own_experiment() -> None:
    own = weft.run("memory-channel-2-latency").points.set_index("path")["one_way_mean_us"]
    direct, hub = one_way(["memory-channel-2+virtual_hub", "memory-channel-2"], "8 B")
    assert own["direct"] == pytest.approx(2.17, rel=0.01)
    assert direct == pytest.approx(own["direct"], rel=1e-9)
    assert hub == pytest.approx(own["hub"], rel=1e-9)


def test_scilan_is_as_fast_as_in_its_own_experiment() -> None:
    points = weft.run("scilan-table-3", set={"workload.sci.message": ["0 B", "64 B"]}).points
    own = points.set_index(["waiting", "workload.sci.message"])["one_way_mean_us"]
    Path("pair.toml").write_text('base = "scilan"\n[preset.compare.system]\nhosts = 2\n')
    for size in ("0 B", "64 B"):
        polling, interrupt = one_way(["pair.toml", "pair.toml+interrupt"], size)
        # Twenty rounds fill no buffer, after which the read pointer would be looked at once.
        assert polling == pytest.approx(own["polling", size], rel=1e-9 if size == "0 B" else 1e-3)
        assert interrupt == pytest.approx(own["interrupt", size], rel=1e-3)
    assert own["polling", "0 B"] == pytest.approx(16.1, rel=0.02)


def test_clan_is_as_fast_as_in_its_own_experiment() -> None:
    own = weft.run("clan-figure-2", set={"hops": "one"}).points["one_way_mean_us"].iloc[0]
    assert one_way(["clan", "maestro"], "16 B")[0] == pytest.approx(own, rel=1e-9)


def test_maestro_carries_what_its_own_experiment_publishes() -> None:
    found = weft.compare(["maestro", "clan"], rates="published", workloads=["stream"], store=None)
    assert found.tables["comparison"]["stream_64_kb_mb_per_s"][0] == pytest.approx(20.0, rel=0.02)


def test_clint_by_hand() -> None:
    # 36 B at 0.528 Gbit/s less 4.9 %, two cables of 25 ns, 90 ns of switch; in the hosts 330 ns of
    # doorbell, 330 ns of fetch, 32 B twice over the bus, 330 ns of deposit and 400 ns of poll.
    link = 36 * 8 / (0.528e3 * 0.951)
    by_hand = link + 0.05 + 0.09 + 3 * 0.33 + 0.4 + 2 * 32 * 8 / 4224
    assert one_way(["clint", "maestro"], "32 B")[0] == pytest.approx(by_hand, rel=1e-5)


# What a host costs, wherever a system has it: stages before an adapter, a window of mapped memory,
# end points of connections, transfers between memory and FIFO.
OF_HOSTS = re.compile(
    r"channel\.\w+\.(host\.stage\.\w+\.(fixed|rate)|host\.window\.(look|wake)"
    r"|window\.(store|memory|poll|bus\.rate)|endpoints\.(send|receive|per_message)"
    r"|transfer\.(dma|pio)\.rate)"
)

# What is neither, but follows from a rate by the arithmetic that the system's file gives beside it.
FOLLOWS = {
    "clint": {"bulk.switch.scheduled.lead", "quick.control.request_acknowledge.timeout"},
    "maestro": {"network.switch.fifo_bus.rate"},
    "clan": {"fabric.endpoints.receive_buffer"},
    "scilan": {"sci.switch.ring.bypass", "sci.host.posted.packets", "sci.host.stage.pci.room",
               "sci.host.stage.adapter.room"},
    "memory-channel-2": {"memory.adapter.send_buffers", "memory.window.receive_buffers",
                         "memory.switch.hub.transfer.crossbar.buffer"},
    "memory-channel-1": {"memory.adapter.send_buffers", "memory.window.receive_buffers"},
}  # fmt: skip


@pytest.mark.parametrize("name", [*SHIPPED, "memory-channel-1"])
def test_rates_of_today_scale_links_and_hosts_and_nothing_else(name: str) -> None:
    one = contenders([name, "maestro" if name == "clan" else "clan"])[0]
    then, now = (
        {p.key: p.value for p in one.described(one.preset(rates)).parameters}
        for rates in ("published", "today")
    )
    assert set(then) == set(now), "a preset of rates adds and removes nothing"
    changed = {key for key in then if then[key] != now[key]}
    follows = {key for key in changed if key.removeprefix("channel.") in FOLLOWS[name]}
    assert len(follows) == len(FOLLOWS[name])
    links = {key for key in changed if re.fullmatch(r"channel\.\w+\.link\.rate", key)}
    assert links == {key for key in then if key.endswith(".link.rate")}
    of_hosts = {key for key in then if OF_HOSTS.fullmatch(key)}
    assert of_hosts
    assert changed == links | of_hosts | follows
    derived = {p.key: p.origin for p in one.described(one.preset("today")).parameters}
    assert {derived[key] for key in changed} == {"derived"}
    rows = settings_of(one, ["published", "today"])
    assert {row["parameter"] for row in rows if row["preset"] == "today"} == changed


def test_rates_of_today_are_the_same_for_all() -> None:
    for one in contenders([*SHIPPED, "memory-channel-1"]):
        today = {p.key: p.value for p in one.described(one.preset("today")).parameters}
        rates = [value for key, value in today.items() if key.endswith(".link.rate")]
        assert "100 Gbit/s" in rates, one.label
        set_otherwise = settings_of(one, ["published", "today"])
        assert all(row["origin"] and row["why"] for row in set_otherwise), one.label
        assert any(row["preset"] == "today" for row in set_otherwise), one.label


def test_systems_of_today_stand_at_both_rates_as_they_are() -> None:
    found = contenders([*OF_TODAY, "clint"])
    assert rates_of("today", found) == (["today"], [])
    for one in found[: len(OF_TODAY)]:
        assert one.preset("published") == one.preset("today")
        assert settings_of(one, ["published", "today"]) == []


def test_a_barrier_that_takes_messages_at_any_size_is_not_kept_in_hardware() -> None:
    workload = next(one for one in read(None)[0] if one.in_hardware)

    def kept_by(*messages: float) -> str:
        values = {size: Mean(count, 0.0) for size, count in enumerate(messages)}
        return _keeper(
            cast("Shown", SimpleNamespace(values=lambda *_: values)), ("a", ""), workload
        )

    assert [kept_by(), kept_by(0, 0), kept_by(0, 6)] == ["", "hardware", "messages"]


def test_a_system_of_two_hosts_is_shown_with_what_it_can_do() -> None:
    found = weft.compare(["clint", "plain.toml"], quick=True, store=None)
    table = found.tables["comparison"]
    rows = list(zip(table["rates"], table["system"], strict=True))
    assert rows == [("published", "clint"), ("published", "plain"), ("today", "clint")]
    plain = table.iloc[1]
    # By hand: 1 us on the link, 40 ns of cables and 10 ns of switch.
    assert plain["one_way_8_b_us"] == pytest.approx(1.05)
    assert pd.isna(plain["hot_spot_mb_per_s"])
    assert pd.isna(plain["barrier_8_us"])
    notes = [note["text"] for note in found.meta["across"]["notes"] if note["system"] == "plain"]
    assert "has 2 hosts; hot spot takes 8" in notes
    assert any("no preset `today`" in note for note in notes)
    assert "–" in Path(found.report("page.html")).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["clint"], "only clint is named; two systems or more are compared"),
        (["clint", "clint"], "clint is named twice"),
        (["clint", "maestr"], "did you mean `maestro`?"),
        (
            ["clint", "nosuch"],
            "nosuch is neither a shipped system nor a composition file; accepted:",
        ),
        (["clint", "nowhere.toml"], "nowhere.toml is neither a shipped system nor"),
        (["clint", "clint.toml"], "clint.toml is neither a shipped system nor"),
        (["clint", "words.md"], "words.md is no composition file, which ends in .toml"),
        (["clint", "maestro", "--store", "mine.toml"], "is a file"),
        (["clint", "here"], "here is a folder; accepted: "),
        (["clint", ""], "an empty name is neither"),
        (["clint", "maestro", "--workload", ""], "there is no workload ``; accepted: ping_pong"),
        (["clint", "maestro", "--seeds", "0"], "0 is not in the range x>=1"),
        (["clint", "maestro", "--programs", "here"], "is a directory"),
        (["maestro", "clint-figure-8"], "is an experiment; the system that it is about: clint"),
        (["maestro", "busy.toml"], "busy.toml sets workload.bulk.load: it brings traffic"),
        (["maestro", "swept.toml"], "swept has sweeps or variants of its own"),
        (["clint", "scilan+interupt"], "interrupt"),
        (["clint", "maestro", "--rates", "future"], "accepted: published, today, both"),
        (["clint", "plain.toml", "--rates", "today"], "[preset.today] in its file"),
        (["clint", "maestro", "--workload", "ping-pong"], "did you mean `ping_pong`?"),
        (["clint", "maestro", "--programs", "none.toml"], "none.toml cannot be read"),
        (["clint", "maestro", "--programs", "plain.toml"], "plain.toml: [system] has an unknown"),
        (["clint", "maestro", "--out", "mine.toml"], "is a file"),
    ],
)
def test_wrong_input_is_refused_with_what_is_accepted(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["compare", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr
    # An experiment is no system, and is not offered as one.
    accepted = done.stderr.partition("accepted:")[2]
    assert not [name for name in _experiments() if name in accepted]
    assert not Path("out/compare").exists()


@cache
def _experiments() -> list[str]:
    return list(weft.experiments()["name"])


def test_a_system_of_two_channels_needs_rules() -> None:
    second = PLAIN[PLAIN.index("[channel") :].replace("channel.data", "channel.other")
    Path("two.toml").write_text(PLAIN + second)
    with pytest.raises(weft.ComparisonError, match=r"\[\[preset.compare.program.route\]\]"):
        weft.compare(["clint", "two.toml"], rates="published", quick=True, store=None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no workload"),
        ("ping_pong = 3", "is no table"),
        ("[a]\ntitle = 'A'\n", "lacks `along`"),
        (ONE_SIZE.replace('best = "least"', 'best = "most good"'), "accepted: least, most"),
        (ONE_SIZE.replace('\nat = "{size}"', '\nat = "9 B"'), "at is '9 B'; accepted: {size}"),
        (ONE_SIZE.replace("along = ", 'along = "x"\n#'), "one of them that of `along`"),
        ("[a", "is no TOML"),
    ],
)
def test_a_wrong_file_of_workloads_is_refused(text: str, said: str) -> None:
    with pytest.raises(weft.ComparisonError) as refused:
        parse(text, "mine.toml")
    assert str(refused.value).startswith("mine.toml")
    assert said in str(refused.value)


def test_the_page_of_the_manual_shows_this_table(shipped: weft.Result) -> None:
    """`UPDATE_EXPECT=1` stores what comes out."""
    workloads, _ = read(None)
    columns = [column for workload in workloads for column in workload.columns]
    lines = []
    for rates, rows in shipped.tables["comparison"].groupby("rates", sort=False):
        words = [f"{column.title} ({column.unit})" for column in columns]
        lines += ["", f"| {RATES_SHOWN[str(rates)]} | {' | '.join(words)} |"]
        lines += ["|---" + "|--:" * len(columns) + "|"]
        for _, row in rows.iterrows():
            cells = [
                f"{shown(row[column.name])} {shown_spread(row[half_width_of(column.name)])}".strip()
                for column in columns
            ]
            cells[-1] += " hw" * (row["barrier_by"] == "hardware")
            lines += [f"| {row['system']} | {' | '.join(cells)} |"]
    path = ROOT / "docs" / "compare.md"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split("<!-- table -->")
    after = rest.split("<!-- /table -->")[1]
    expected = f"{before}<!-- table -->\n" + "\n".join(lines[1:]) + f"\n<!-- /table -->{after}"
    if os.environ.get("UPDATE_EXPECT"):
        path.write_text(expected, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == expected


def test_the_command_prints_json() -> None:
    command = ["compare", "clint", "maestro", "--rates", "published", "--workload", "barrier"]
    done = CliRunner().invoke(main, [*command, "--quick", "--store", "store", "--json"])
    assert done.exit_code == 0, done.stderr
    rows = json.loads(done.stdout)["comparison"]
    assert [row["system"] for row in rows] == ["clint", "maestro"]
    assert rows[0]["barrier_8_us"] < rows[1]["barrier_8_us"]


def test_the_shipped_workloads_are_six_questions() -> None:
    workloads, _ = read(None)
    names = [workload.name for workload in workloads]
    assert names == ["ping_pong", "stream", "ping_ping", "hot_spot", "hot_spot_sender",
                     "all_to_all", "barrier"]  # fmt: skip
    columns = [column for workload in workloads for column in workload.columns]
    assert len({column.name for column in columns}) == len(columns) == 10
    quick = [workload.steps(64, quick=True)[workload.along] for workload in workloads]
    assert all(2 <= len(steps) <= 3 for steps in quick)
    for workload in workloads:
        shown = {column.measure.at for column in workload.columns} | {workload.budget_at}
        assert shown - {None} <= set(workload.steps(64, quick=True)[workload.along])

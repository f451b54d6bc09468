"""Programs and traces from Python, on the real core."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import weft
from interrupted import interrupted
from systems import plain_switch
from weft.cli import main
from weft.recorded import COLLECTIVES

if TYPE_CHECKING:
    from pathlib import Path

    from weft.program import Program

STAR = plain_switch(4, "c")
WAY = 1.05


@pytest.fixture
def star(tmp_path: Path) -> str:
    path = tmp_path / "star.toml"
    path.write_text(STAR)
    return str(path)


def test_a_study_shows_what_each_rank_did(tmp_path: Path) -> None:
    path = tmp_path / "ranks.toml"
    program = "[program]\nrun.ping_pong = { size = '64 B', rounds = 3 }\n"
    path.write_text(STAR + program)
    drawn = {figure.name: figure for figure in weft.run(path).figures}
    bars = drawn["rank-shares"].spec["data"]["values"]
    ends = [sum(bar["time_us"] for bar in bars if bar["rank"] == rank) for rank in (0, 1)]
    assert ends[0] == pytest.approx(6 * WAY)
    assert "rank-times" not in drawn
    path.write_text(STAR + program + "[run]\ntrace = true\n")
    traced = {figure.name: figure for figure in weft.run(path).figures}
    assert "rank-shares" not in traced
    bars, lines = (layer["data"]["values"] for layer in traced["rank-times"].spec["layer"])
    assert [line["initiator"] for line in lines] == [0, 1] * 3
    assert {bar["activity"] for bar in bars} <= {"sending", "waiting"}
    assert "Rank" in traced["rank-times"].svg()
    # An activity has one colour in all figures: its place among all of them, whether it is there.
    encodings = [drawn[name].spec["encoding"] for name in ("rank-shares", "program-shares")]
    encodings.append(traced["rank-times"].spec["layer"][0]["encoding"])
    for encoding in encodings:
        assert encoding["color"]["scale"]["domain"][:3] == ["computing", "sending", "waiting"]
    assert "computing" not in encodings[0]["color"]["legend"]["values"]


def ping_pong(me: weft.Node) -> Program:
    if me.rank == 0:
        yield me.send(1, 64, tag=3, value=7)
        answer = yield me.receive(1)
        return answer
    question = yield me.receive(0, 3)
    yield me.compute("1 us")
    yield me.send(0, "250 B", value=question.value + 1)
    return me.now_us


def test_a_message_to_and_fro_in_exact_microseconds(star: str) -> None:
    result = weft.run_program(star, ping_pong, ranks=2)
    answer = result.values[0]
    back = WAY + 1 + 2 + WAY
    assert (answer.source, answer.size, answer.value) == (1, 250, 8)
    assert answer.time_us == pytest.approx(back, abs=1e-9)
    assert result.time_us == pytest.approx(back, abs=1e-9)
    assert result.ranks["computing_us"].tolist() == [0, 1]
    assert result.waits["waited_for"].tolist() == [1, 0]
    assert result.messages["delivered_us"].tolist() == pytest.approx([WAY, back])


def test_the_same_program_runs_on_clint_and_twice_the_same() -> None:
    runs = [weft.run_program("clint", ping_pong, ranks=2, channel=c) for c in ("quick", "bulk")]
    assert runs[0].time_us < runs[1].time_us
    again = weft.run_program("clint", ping_pong, ranks=2, channel="quick")
    assert again.intervals.equals(runs[0].intervals)


def test_rules_say_which_message_takes_which_channel() -> None:
    rules = [{"up_to": "100 B", "channel": "quick"}, {"channel": "bulk"}]
    mixed = weft.run_program("clint", ping_pong, ranks=2, route=rules)
    quick = weft.run_program("clint", ping_pong, ranks=2, channel="quick")
    there = mixed.messages["delivered_us"]
    assert there[0] == quick.messages["delivered_us"][0]
    assert there[1] != quick.messages["delivered_us"][1]


def test_a_barrier_a_lock_and_memory(star: str) -> None:
    held: list[tuple[float, float]] = []

    def program(me: weft.Node) -> Program:
        yield from me.barrier()
        yield from me.lock(server=2)
        begun = me.now_us
        yield me.compute("300 ns")
        held.append((begun, me.now_us))
        yield me.unlock(server=2)
        if me.rank == 1:
            yield me.store([0, 2, 3], 8, 5)
            return None
        word = yield me.until(8, 5)
        again = yield me.read((me.rank + 1) % 4, 8, "4 B")
        return word.value, me.load(8), again.value

    result = weft.run_program(star, program)
    assert len(held) == 4
    assert all(a[1] <= b[0] for a, b in pairwise(held))
    assert result.values[2] == (5, 5, 5)
    assert result.values[0][:2] == (5, 5)


def test_a_conditional_write_by_the_adapters_and_by_messages(star: str) -> None:
    def program(me: weft.Node) -> Program:
        if me.rank == 0:
            written = yield me.conditional_write(1, 8, 42, "8 B")
            return written.source, written.value, written.time_us
        word = yield me.until(8, 1)
        return word.value, me.load(8), word.time_us

    whole = {"channel.memory.window.conditional_write": False}
    runs = [
        weft.run_program("memory-channel-2", program, preset="virtual_hub"),
        weft.run_program("memory-channel-2", program, preset="virtual_hub", set=whole),
        weft.run_program(star, program, ranks=2),
    ]
    for run in runs:
        assert run.values[0][:2] == (1, 1)
        assert run.values[1][:2] == (42, 42)
        assert run.values[1][2] < run.values[0][2]
    ways = [run.values[1][2] for run in runs]
    assert ways[1] > 2 * ways[0]
    assert runs[2].values[0][2] == pytest.approx(4 * WAY)


@pytest.mark.parametrize(("victim", "takers", "second_us"), [(1, [1, 2, 3], 140), (2, [1, 3], 210)])
def test_a_lock_outlives_its_holder_and_who_waits_for_it(
    victim: int, takers: list[int], second_us: float
) -> None:
    held: list[tuple[int, float]] = []

    def program(me: weft.Node) -> Program:
        if me.rank == 0:
            yield me.compute("50 us")
            # It never had it.
            yield me.unlock()
            gone = yield me.departure()
            return gone.source, me.departed
        yield me.compute(f"{10 * me.rank} us")
        yield from me.lock()
        held.append((me.rank, me.now_us))
        yield me.compute("200 us")
        yield me.unlock()
        return "through"

    cluster = {
        "heartbeat": "20 us",
        "time_out": "60 us",
        "retry": "40 us",
        "events": [{"at": "100 us", "what": {"dies": victim}}],
    }
    settings = {"channel.memory.window.cluster": cluster, "system.hosts": 4}
    result = weft.run_program("memory-channel-2", program, set=settings)
    assert [rank for rank, _ in held] == takers
    assert held[1][1] >= second_us
    others = {rank: "through" for rank in (1, 2, 3) if rank != victim}
    assert result.values == {0: (victim, [victim]), **others}


def test_a_program_that_waits_for_ever_says_who_waits_for_whom(star: str) -> None:
    def program(me: weft.Node) -> Program:
        yield me.receive(1 - me.rank, 4)

    with pytest.raises(weft.WeftError, match="rank 0 waits for a message of rank 1 with tag 4"):
        weft.run_program(star, program, ranks=2)


def test_what_a_program_names_must_be_there(star: str) -> None:
    def to_nobody(me: weft.Node) -> Program:
        yield me.send(9, 8)

    def without_unit(me: weft.Node) -> Program:
        yield me.compute("5")

    def yields_a_number(me: weft.Node) -> Any:
        yield 5

    with pytest.raises(weft.WeftError, match="rank 0 names rank 9; accepted: 0 to 1"):
        weft.run_program(star, to_nobody, ranks=2)
    with pytest.raises(TypeError, match="rank 0 yielded 5; what is yielded is an operation"):
        weft.run_program(star, {0: yields_a_number}, ranks=2)
    with pytest.raises(ValueError, match="a program for rank 7, where 0 to 1"):
        weft.run_program(star, {7: to_nobody}, ranks=2)
    with pytest.raises(weft.WeftError, match=r"program\.channel.*bulk, quick"):
        weft.run_program("clint", ping_pong)
    with pytest.raises(ValueError, match="unit"):
        weft.run_program(star, {0: without_unit}, ranks=2)


def test_a_trace_is_generated_run_and_drawn(star: str, tmp_path: Path) -> None:
    text = weft.generate_trace("barrier", 4)
    trace = tmp_path / "barrier.goal"
    trace.write_text(text)
    result = weft.run_trace(trace, star)
    assert result.time_us == pytest.approx(2 * WAY)
    assert len(result.messages) == 8
    figure = result.figure()
    assert figure.name == "rank-times"
    svg = figure.svg()
    assert "Time (µs)" in svg
    assert svg.count("<path") > 16


def test_the_command_line_generates_and_runs_traces(star: str, tmp_path: Path) -> None:
    trace, picture = tmp_path / "gather.goal", tmp_path / "gather.svg"
    arguments = ["trace", "generate", "gather", "--ranks", "4", "--size", "1 kB"]
    written = CliRunner().invoke(main, [*arguments, "--out", str(trace)])
    assert written.exit_code == 0, written.output
    assert trace.read_text().startswith("num_ranks 4\n")
    run = ["trace", "run", str(trace), "--system", star, "--json", "--picture", str(picture)]
    shown = CliRunner().invoke(main, [*run, "--out", str(tmp_path / "tables")])
    assert shown.exit_code == 0, shown.output
    assert len(json.loads(shown.output)["ranks"]) == 4
    assert picture.read_text().startswith("<svg")
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        *("intervals.csv", "messages.csv", "ranks.csv", "waits.csv")
    }
    on_clint = ["trace", "run", str(trace), "--system", "clint"]
    rules = ["--route", "up_to=1 kB:quick", "--route", "bulk"]
    assert CliRunner().invoke(main, [*on_clint, *rules]).exit_code == 0
    refused = CliRunner().invoke(main, on_clint)
    assert refused.exit_code == 2
    assert "program.channel" in refused.output


def test_a_trace_tells_how_far_it_is_and_ends_when_told_to(tmp_path: Path) -> None:
    file = tmp_path / "long.goal"
    file.write_text(weft.generate_trace("all_to_all", 16, "2 kB", 400), encoding="utf-8")
    told: list[tuple[int, int, str]] = []

    def enough(done: int, total: int, label: str) -> bool:
        told.append((done, total, label))
        return len(told) < 3

    with pytest.raises(weft.WeftError, match=r"was stopped at .* before its end"):
        weft.run_trace(file, "clint", channel="bulk", progress=enough)
    assert len(told) == 3
    # A send and a receive for each of 16 x 15 messages of a round.
    assert {total for _, total, _ in told} == {400 * 16 * 15 * 2}
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)


def test_a_trace_that_is_interrupted_ends_with_130_and_writes_nothing(tmp_path: Path) -> None:
    trace = weft.generate_trace("all_to_all", 16, "2 kB", 400)
    (tmp_path / "long.goal").write_text(trace, encoding="utf-8")
    words = ["trace", "run", "long.goal", "--system", "clint", "--channel", "bulk"]
    ended, complaints = interrupted([*words, "--out", "here", "--picture", "p.svg"], 1, tmp_path)
    assert ended == 130, complaints
    assert "stopping the run, of which nothing is kept" in complaints
    assert "the program was stopped at" in complaints
    assert [path.name for path in tmp_path.iterdir()] == ["long.goal"]


def test_a_bad_trace_is_refused_with_its_line(star: str, tmp_path: Path) -> None:
    trace = tmp_path / "bad.goal"
    trace.write_text("num_ranks 2\nrank 0 {\na: send 8k to 1\n}\n")
    refused = CliRunner().invoke(main, ["trace", "run", str(trace), "--system", star])
    assert refused.exit_code == 2
    assert "line 3: `8k` where a number of bytes such as `8b` is accepted" in refused.output


def test_a_time_independent_trace_runs_at_a_speed(star: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text("0 compute 1e3\n0 send 1 100\n1 recv 0 100\n")
    result = weft.run_trace(trace, star, speed=1e9)
    assert result.time_us == pytest.approx(1 + WAY)
    assert list(result.ranks["rank"]) == [0, 1]
    drawn = result.figure().svg()
    assert "computing" in drawn
    assert "waiting" in drawn


def test_long_messages_of_traces_and_programs_leave_out_periods(star: str, tmp_path: Path) -> None:
    ring, plain_star = tmp_path / "ring.goal", tmp_path / "plain.toml"
    ring.write_text(weft.generate_trace("allreduce_ring", 4, "4 MB"))
    crossbar = 'switch.crossbar = { latency = "10 ns", contention = "back_pressure" }'
    plain_star.write_text(STAR.replace(crossbar, 'switch.output_queued.latency = "10 ns"'))

    def program(me: weft.Node) -> Program:
        if me.rank == 0:
            yield me.send(1, "1 MB")
        if me.rank == 1:
            yield me.receive(0)

    def run(fast: bool) -> list[weft.ProgramResult]:
        asked: dict[str, object] = {"run.fast_forward": fast}
        return [
            weft.run_trace(ring, plain_star, set=asked),
            weft.run_program(str(plain_star), program, set=asked),
        ]

    for plain, fast in zip(run(fast=False), run(fast=True), strict=True):
        assert len(plain.fast_forward) == 0
        (left_out,) = fast.fast_forward.to_dict("records")
        assert (left_out["channel"], left_out["forbidden"]) == ("c", "")
        assert left_out["packets"] > 4000
        for name in ("ranks", "waits", "intervals", "messages"):
            assert getattr(plain, name).equals(getattr(fast, name)), name
    words = ["trace", "run", str(ring), "--set", "run.fast_forward=true", "--system"]
    (told,) = re.findall(
        r"fast-forward on c left out \d+ periods, (\d+) packets",
        CliRunner().invoke(main, [*words, str(plain_star)]).output,
    )
    assert int(told) > 4000
    of_crossbar = CliRunner().invoke(main, [*words, star]).output
    assert "fast-forward on c left out nothing, because of adapters" in of_crossbar


def test_what_a_trace_says_of_messages_is_shown_or_refused(star: str, tmp_path: Path) -> None:
    trace = tmp_path / "sizes.goal"

    def run(sent: str, received: str) -> str:
        ranks = f"rank 0 {{\n{sent}\n}}\nrank 1 {{\n{received}\n}}\n"
        trace.write_text(f"num_ranks 2\n{ranks}")
        return CliRunner().invoke(main, ["trace", "run", str(trace), "--system", star]).output

    assert "shorter" not in run("send 80b to 1", "recv 80b from 0")
    assert "1 are shorter than their receives ask for" in run("send 80b to 1", "recv 90b from 0")
    assert "rank 1 (line 6) receives 70 B of a message of 80 B" in run(
        "send 80b to 1", "recv 70b from 0"
    )
    assert "sizes.goal: line 3: rank 0 sends 1 messages" in run("send 80b to 1", "calc 1")


def test_every_collective_of_the_core_has_its_name_here(star: str, tmp_path: Path) -> None:
    known = weft.schema()["$defs"]["Collective"]["oneOf"]
    assert [one["const"] for one in known] == COLLECTIVES
    for collective in COLLECTIVES:
        (tmp_path / "one.goal").write_text(weft.generate_trace(collective, 4, 400))
        assert weft.run_trace(tmp_path / "one.goal", star).time_us > WAY


def test_ranks_with_differently_many_bytes() -> None:
    text = weft.generate_trace("gather_v", 3, ["1 kB", 20, "0 B"], root=1)
    assert "send 1000b to 1" in text
    assert "send 0b to 1" in text
    assert "20b" not in text, "what the root has is not sent"
    arguments = ["trace", "generate", "gather_v", "--ranks", "3", "--root", "1"]
    shown = CliRunner().invoke(main, [*arguments, "--size", "1 kB, 20 B, 0 B"])
    assert shown.output == text
    for sizes, message in (("1 kB,2 kB", "2 sizes where accepted are 3, one a rank"),
                           ("1 kB,2 kB,3", "unit")):  # fmt: skip
        refused = CliRunner().invoke(main, [*arguments, "--size", sizes])
        assert refused.exit_code == 2
        assert message in refused.output
    with pytest.raises(ValueError, match="root 3 where 0 to 2 are accepted"):
        weft.generate_trace("broadcast", 3, "1 kB", root=3)
    with pytest.raises(ValueError, match="none for gather, whose ranks all have `size`"):
        weft.generate_trace("gather", 3, [1, 2, 3])


def test_ranks_are_placed(tmp_path: Path) -> None:
    trace = tmp_path / "ring.goal"
    trace.write_text(weft.generate_trace("allgather_ring", 4, "4 kB"))
    run = ["trace", "run", str(trace), "--system", "clan", "--json"]
    times = {}
    for placement in ("linear", "random", "0,16,32,48"):
        shown = CliRunner().invoke(main, [*run, "--placement", placement])
        assert shown.exit_code == 0, shown.output
        told = json.loads(shown.output)
        times[placement] = told["time_us"]
        hosts = [rank["host"] for rank in told["ranks"]][:4]
        assert len(set(hosts)) == 4
        assert placement != "0,16,32,48" or hosts == [0, 16, 32, 48]
    assert times["0,16,32,48"] > times["linear"]
    refused = CliRunner().invoke(main, [*run, "--placement", "round"])
    assert refused.exit_code == 2
    assert "neither block, nor cyclic, nor random, nor hosts such as 3,1,2" in refused.output


_MEMORY = {"system.memory.latency": "300 ns", "system.memory.rate": "1 GB/s"}


def test_ranks_on_one_host_send_through_its_memory(star: str) -> None:
    def ring(me: Any) -> Program:
        sent = me.send((me.rank + 1) % me.ranks, 100)
        yield me.receive((me.rank - 1) % me.ranks)
        yield sent
        return me.now_us

    result = weft.run_program(star, ring, ranks=4, ranks_per_host=2, set=_MEMORY)
    # What comes from the other host, and what was sent there and has left.
    there, left = pytest.approx(WAY), pytest.approx(1.0)
    assert [result.values[rank] for rank in range(4)] == [there, left, there, left]
    assert list(result.ranks["host"]) == [0, 0, 1, 1]
    ends = result.messages.sort_values("initiator")[["initiator_host", "target_host"]]
    assert ends.to_numpy().tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]
    spec = json.dumps(result.figure().spec)
    assert '"3 on 1"' in spec
    assert '"Rank on host"' in spec
    turns = weft.run_program(star, ring, ranks=4, ranks_per_host=2, placement="cyclic", set=_MEMORY)
    assert list(turns.ranks["host"]) == [0, 1, 0, 1]
    assert turns.time_us > result.time_us
    with pytest.raises(weft.WeftError, match=r"system\.memory"):
        weft.run_program(star, ring, placement=[0, 0])
    with pytest.raises(ValueError, match="ranks_per_host = 0"):
        weft.run_program(star, ring, ranks_per_host=0)
    alone = weft.run_program(star, ring, set=_MEMORY)
    assert "3 on" not in json.dumps(alone.figure().spec)
    assert "initiator_host" not in alone.messages


def test_ranks_of_a_host_take_turns_at_its_processors(star: str) -> None:
    def compute(me: Any) -> Program:
        yield me.compute("10 us")

    shared = _MEMORY | {"system.processors": 1}
    result = weft.run_program(star, compute, ranks=3, ranks_per_host=3, set=shared)
    assert list(result.ranks["queued_us"]) == [0, 10, 20]
    assert result.time_us == 30
    assert '"queued"' in json.dumps(result.figure().spec)


def test_a_trace_of_64_ranks_runs_on_16_hosts(tmp_path: Path) -> None:
    trace = tmp_path / "sum.goal"
    trace.write_text(weft.generate_trace("allreduce_recursive_doubling", 64, "1 kB"))
    run = ["trace", "run", str(trace), "--system", "clint", "--channel", "bulk"]
    memory = [f"--set={key}={value}" for key, value in _MEMORY.items()]
    refused = CliRunner().invoke(main, run)
    assert refused.exit_code == 2
    assert "64 ranks, where at most 16 are accepted" in refused.output
    refused = CliRunner().invoke(main, [*run, "--ranks-per-host", "4"])
    assert refused.exit_code == 2
    assert "system.memory" in refused.output
    times = {}
    for placement in ("block", "cyclic", "random"):
        wide = [*run, *memory, "--ranks-per-host", "4", "--placement", placement, "--json"]
        shown = CliRunner().invoke(main, wide)
        assert shown.exit_code == 0, shown.output
        told = json.loads(shown.output)
        hosts = [rank["host"] for rank in told["ranks"]]
        assert sorted(hosts) == [rank // 4 for rank in range(64)]
        times[placement] = told["time_us"]
    assert times["block"] < times["random"]


def test_a_trace_beside_traffic_takes_longer(star: str, tmp_path: Path) -> None:
    trace = tmp_path / "ring.goal"
    trace.write_text(weft.generate_trace("allreduce_ring", 4, "40 kB"))
    times = [
        weft.run_trace(trace, star, set={"workload.c.load": load}).time_us
        for load in (1e-9, 0.3, 0.6)
    ]
    assert times[0] == weft.run_trace(trace, star).time_us
    assert times == sorted(set(times))
    with pytest.raises(ValueError, match=r"workload\.quick.*channels of the program: bulk"):
        weft.run_trace(trace, "clint", channel="bulk", set={"workload.quick.load": 0.1})


def test_lists_of_flows_run_as_their_simulators_have_them(star: str, tmp_path: Path) -> None:
    matrix = tmp_path / "two.cm"
    matrix.write_text("Nodes 4\nConnections 2\n0->1 start 0 size 64\n2->3 start 5e6 size 64\n")
    result = weft.run_trace(matrix, star)
    assert result.completion == pytest.approx(
        dict.fromkeys(("mean_us", "p50_us", "p99_us", "longest_us"), WAY)
    )
    assert list(result.messages["offered_us"]) == [0, 5]
    flows = tmp_path / "flow.txt"
    flows.write_text("1\n1 3 3 100 64 0.000002\n")
    arguments = ["trace", "run", str(flows), "--system", star, "--format", "hpcc", "--json"]
    shown = json.loads(CliRunner().invoke(main, arguments).output)
    assert shown["completion"]["longest_us"] == pytest.approx(WAY)
    assert shown["ranks"][3]["end_us"] == pytest.approx(2 + WAY)
    flows.write_text("1\n1 4 3 100 64 0.000002\n")
    told = CliRunner().invoke(main, arguments)
    assert "line 2: rank 4 where 0 to 3 are accepted" in told.output


def test_a_chakra_trace_runs_by_any_of_its_files(star: str, tmp_path: Path) -> None:
    def message(*fields: tuple[int, int | bytes]) -> bytes:
        # Numbers below 128, and texts shorter than that.
        tagged = (
            bytes([tag << 3, value]) if isinstance(value, int)
            else bytes([tag << 3 | 2, len(value)]) + value
            for tag, value in fields
        )  # fmt: skip
        return b"".join(tagged)

    def attribute(name: bytes, value: int) -> tuple[int, bytes]:
        return 10, message((1, name), (9, value))

    compute = ((1, 1), (3, 4), attribute(b"num_ops", 60), attribute(b"tensor_size", 100))
    send = ((1, 2), (3, 5), (5, b"\x01"), attribute(b"comm_dst", 1), attribute(b"comm_size", 64))
    receive = ((1, 1), (3, 6), attribute(b"comm_src", 0), attribute(b"comm_size", 64))
    for rank, nodes in enumerate([(compute, send), (receive,)]):
        messages = [message((1, b"0.0.4")), *(message(*node) for node in nodes)]
        framed = b"".join(bytes([len(one)]) + one for one in messages)
        (tmp_path / f"two.{rank}.et").write_bytes(framed)
    file = tmp_path / "two.0.et"
    result = weft.run_trace(file, star, peak=2e7)
    assert result.time_us == pytest.approx(3 + WAY), "60 operations at 20 a microsecond"
    arguments = ["trace", "run", str(tmp_path / "two.1.et"), "--system", star, "--json"]
    both = ["--peak", "2e7", "--memory", "0.16 Gbit/s"]
    shown = json.loads(CliRunner().invoke(main, [*arguments, *both]).output)
    assert shown["time_us"] == pytest.approx(5 + WAY), "100 bytes at 20 a microsecond"
    told = CliRunner().invoke(main, arguments)
    assert "two.0.et: node 1: num_ops = 60 and no duration" in told.output
    told = CliRunner().invoke(main, [*arguments, "--format", "goal", "--peak", "1"])
    assert "peak: given for the format chakra" in told.output


def test_a_format_takes_only_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a speed is given for the format simgrid"):
        weft.run_trace(tmp_path / "a.goal", "clint", format="goal", speed=1e9)
    with pytest.raises(ValueError, match="this is simgrid"):
        weft.run_trace(tmp_path / "a.trace", "clint", format="simgrid")

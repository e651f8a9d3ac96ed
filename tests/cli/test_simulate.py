"""`dse simulate`: a graph, a trace, or a kernel on a GPU; what it prints and writes."""

import json
from pathlib import Path

import pytest

from dse.simulator.case import idg

SHARES = ("throughput", "latency", "same warp")
GRAPH = (Path(__file__).parent / "mix.toml").read_text()
TRACE = """
.block 2
    GLD.U32 R2, global14[R0]; // stride=128
    FADD32 R2, g[A1+0x4], R2; // stride=64
    BAR.ARV.WAIT b0, 0xfff;
    FADD32 R3, R2, R2;        // lanes=8
"""
EFFECTS = ("issue", "same_warp", "held", "dependence", "barriers", "divergence", "conflicts", "uncoalesced",
           "in_flight", "channels")  # fmt: skip


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "mix.toml"
    path.write_text(GRAPH)
    return path


@pytest.fixture
def simulated(answer):
    """`simulated("example", changes=["warps=4"])`: what `dse simulate` finds."""

    def simulated(*words, changes=()):
        return answer("simulate", *words, *(word for change in changes for word in ("--what-if", change)))

    return simulated


def whole(result):
    return result["issue_share"] + sum(row[name] for row in result["subsystems"] for name in SHARES)


def test_the_example(simulated, tmp_path):
    """The worked example of 25 cycles, and what would change it."""
    trace, changes = tmp_path / "profile.json", ["warps=4", "memory.Lambda=0.5x", "scheduler=gto"]
    result = simulated("example", "--profile", trace, changes=changes)
    assert (result["name"], result["warps"], result["slots"], result["groups"]) == ("example", 1, 1, 1)
    assert (result["makespan_cycles"], result["entries"], result["in_ticks"]) == (25, 6, False)
    assert result["ipc"] == pytest.approx(6 / 25)
    assert result["bottleneck"] in ("computation latency", "memory latency")  # 12 cycles each
    shares = [(row["subsystem"], row["entries"], row["busy"], row["latency"]) for row in result["subsystems"]]
    assert shares == [
        ("computation", 4, pytest.approx(4 / 25), pytest.approx(12 / 25)),
        ("memory", 2, pytest.approx(4 / 25), pytest.approx(12 / 25)),
    ]
    assert whole(result) == pytest.approx(1)
    gains = [(row["what if"], row["makespan"], row["gain"]) for row in result["what_if"]]
    cycles = zip(changes, (35, 19, 25), strict=True)
    assert gains == [(change, makespan, pytest.approx(25 / makespan)) for change, makespan in cycles]
    assert "M5" in json.dumps(json.loads(trace.read_text())["traceEvents"])


def test_it_is_printed_and_drawn(run_dse, tmp_path):
    path = tmp_path / "profile.svg"
    ran = run_dse("simulate", "example", "--profile", path, "--window", "0", "12", "--what-if", "warps=4")
    assert (ran.code, ran.err) == (0, "")
    for text in (f"wrote {path}", "25 cycles", "bound by", "latency", "What if", "0.714x", "16.0%"):
        assert text in ran.out
    svg = path.read_text()
    assert ("C3" in svg, "M5" in svg) == (True, False)  # M5 enters at cycle 19


def test_a_graph_of_ones_own(simulated, graph):
    options = ("--warps", "60", "--scheduler", "oldest", "--groups", "2")
    result = simulated(graph, *options, changes=["sfu.lambda=1", "issue_limit=0.1"])
    assert (result["warps"], result["groups"]) == (60, 2)
    assert result["bottleneck"].startswith("sfu ")
    assert result["entries"] == 60 * 2 * 10
    assert result["makespan_cycles"] >= 4 * 60 * 2 * 5
    assert [row["subsystem"] for row in result["subsystems"]] == ["alu", "sfu"]  # none enters the third
    assert whole(result) == pytest.approx(1)
    faster, slower = result["what_if"]
    assert faster["gain"] > 1.5
    assert slower["makespan"] >= 10 * (60 * 2 * 10 - 1)


def test_nothing_that_takes_time(simulated, graph):
    """No cycles, so no rates: not a number that JSON has not."""
    none = "{ lambda = 0, Lambda = 0 }"
    text = GRAPH.replace("{ lambda = 1, Lambda = 18 }", none).replace("{ lambda = 4, Lambda = 40 }", none)
    graph.write_text(text.replace("issue_limit = 1", "").replace("same_warp = 2", ""))
    result = simulated(graph, changes=["warps=2", "alu.Lambda=3"])
    assert (result["makespan_cycles"], result["ipc"], result["subsystems"][0]["busy"]) == (0, None, None)
    assert [row["gain"] for row in result["what_if"]] == [None, 0]


def test_a_kernel_on_a_gpu(simulated, toy_kernel, tmp_path):
    where = (toy_kernel, "--gpu", "a100", "--set", "n=65536", "--set", "block=128")
    changes = ("dram=off", "dram.lambda=4x", "dram.Lambda=0.5x", "blocks=1", "scheduler=gto")
    result = simulated(*where, "--profile", tmp_path / "p.json", changes=changes)
    assert (result["kernel"], result["gpu"]) == ("toy", "NVIDIA A100-PCIE-40GB")
    items = result["parameters"]["items"]
    blocks = -(-65536 // (128 * items))
    assert result["blocks"] == result["groups"] == -(-blocks // 108)
    assert (result["warps"], whole(result)) == (4, pytest.approx(1))
    assert {row["subsystem"] for row in result["subsystems"]} <= {*idg.SUBSYSTEMS} - {"barrier"}
    # All instructions of the kernel, of which an entry stands for several.
    insts = (8 + 4 * items) * 4 * result["groups"]
    assert result["ipc"] * result["makespan_cycles"] == pytest.approx(insts)
    gains = {row["what if"]: row["gain"] for row in result["what_if"]}
    assert list(gains) == list(changes)
    assert gains["dram=off"] > 1.2
    assert gains["dram.Lambda=0.5x"] > 1.05
    assert gains["dram.lambda=4x"] < 0.9
    assert gains["blocks=1"] < 1.0
    assert "load" in (tmp_path / "p.json").read_text()
    fewer = simulated(*where, "--warps", "8", "--groups", "3", changes=["blocks=1"])
    assert (fewer["slots"], fewer["groups"]) == (2, 3)


def test_every_effect_of_a_trace_can_be_left_out(simulated, tmp_path):
    (tmp_path / "short.sass").write_text(TRACE)
    changes = [*(f"{name}=off" for name in EFFECTS), "barrier.Lambda=0"]
    result = simulated(tmp_path / "short.sass", changes=changes)
    assert (result["name"], result["warps"], result["slots"], result["entries"]) == ("short", 2, 1, 8)
    # The second warp's load enters once the pipe has let in 1,024 bytes, 8 x 440 / 12 cycles after the first.
    # Then it waits 440 cycles for what it loads, 266 for an operand with conflicts, 24 for the barrier, 4 for
    # the other warp's last addition, and 24 for its own.
    expected = 8 * 440 / 12 + 440 + 266 + 24 + 4 + 24
    assert result["makespan_cycles"] == pytest.approx(expected)
    saved = {row["what if"]: expected - row["makespan"] for row in result["what_if"]}
    # Nor is the barrier, and so the other warp, held up then.
    assert saved["conflicts=off"] == pytest.approx(266 - 74 + 24 + 4)
    assert saved["uncoalesced=off"] == saved["in_flight=off"] == pytest.approx(8 * 440 / 12 - 64)
    assert saved["divergence=off"] == pytest.approx(2)  # an issue slot is what is left of 4 cycles
    assert saved["issue=off"] == saved["channels=off"] == pytest.approx(0)
    assert saved["barrier.Lambda=0"] == pytest.approx(24 + 4 - 8)  # a warp issues after 8 cycles

"""`dse simulate` with a trace: TEG's effects left out, a kernel's trace or one made for it, and mistakes."""

import json

import pytest

from dse.core import catalogue

MATMUL = catalogue.folder("kernels") / "matmul_abt"
TRACE = """
.block 2
    GLD.U32 R2, global14[R0]; // stride=128
    FADD32 R2, g[A1+0x4], R2; // stride=64
    BAR.ARV.WAIT b0, 0xfff;
    FADD32 R3, R2, R2;        // lanes=8
"""
OFF = ("issue", "same_warp", "held", "dependence", "barriers", "divergence", "conflicts", "uncoalesced",
       "in_flight", "channels")  # fmt: skip


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "short.sass"
    path.write_text(TRACE)
    return path


def test_every_effect_can_be_left_out(trace, run_dse):
    changes = [each for name in OFF for each in ("--what-if", f"{name}=off")]
    ran = run_dse("simulate", str(trace), "--json", *changes, "--what-if", "barrier.Lambda=0")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert (found["name"], found["warps"], found["slots"], found["entries"]) == ("short", 2, 1, 8)
    # The second warp's load enters once the pipe has let in 1,024 bytes, 8 x 440 / 12 cycles after the first.
    # Then it waits 440 cycles for what it loads, 266 for an operand with conflicts, 24 for the barrier, 4 for
    # the other warp's last addition, and 24 for its own.
    expected = 8 * 440 / 12 + 440 + 266 + 24 + 4 + 24
    assert found["makespan_cycles"] == pytest.approx(expected)
    gain = {each["what if"]: expected - each["makespan"] for each in found["what_if"]}
    # Nor is the barrier, and so the other warp, held up then.
    assert gain["conflicts=off"] == pytest.approx(266 - 74 + 24 + 4)
    assert gain["uncoalesced=off"] == gain["in_flight=off"] == pytest.approx(8 * 440 / 12 - 64)
    assert gain["divergence=off"] == pytest.approx(2)  # an issue slot is what is left of 4 cycles
    assert gain["issue=off"] == gain["channels=off"] == pytest.approx(0)
    assert gain["barrier.Lambda=0"] == pytest.approx(24 + 4 - 8)  # a warp issues after 8 cycles


@pytest.mark.slow
def test_a_kernel_has_a_trace_or_gets_one(run_dse):
    for name, trace in (("matmul_abt", True), ("mat_tiled", False)):
        ran = run_dse("simulate", name, "--teg", "--warps", "1000")
        block = 8 if trace else 16
        assert (ran.code, ran.err) == (
            2,
            f"dse: warps: found 1000, expected up to {block}, or a multiple of it up to 32\n",
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--gpu", "a100"),
            "gpu: found NVIDIA A100-PCIE-40GB with TEG, expected gtx-280 or another GPU of",
        ),
        (("--set", "padding=0"), "trace.sass: found --set with a trace, expected none"),
        (("--order", "dataflow"), "--order: found 'dataflow' with TEG, expected program"),
        (("--scheduler", "lrr"), "--scheduler: found 'lrr', expected one of rr, gto, oldest"),
        (("--what-if", "conflicts=on"), "--what-if: conflicts=on: found 'on', expected off"),
        (
            ("--what-if", "conflict=off"),
            "--what-if: conflict=off: found 'conflict', expected one of 16 names; did you mean conflicts?",
        ),
        (("--what-if", "sfo.lambda=1"), "--what-if: sfo.lambda=1: found 'sfo', expected one of sp,"),
    ],
)
def test_mistakes(arguments, message, run_dse):
    ran = run_dse("simulate", "matmul_abt", "--teg", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_no_trace_in_a_graph(run_dse, tmp_path):
    graph = tmp_path / "graph.toml"
    graph.write_text("")
    ran = run_dse("simulate", str(graph), "--teg")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"dse: {graph}: found TEG with a graph, expected neither\n"

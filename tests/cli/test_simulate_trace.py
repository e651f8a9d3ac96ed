"""`dse simulate` with a trace: TEG's effects left out, a kernel's trace or one made for it, and mistakes."""

import json

import pytest

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

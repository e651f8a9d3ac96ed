"""Reading graph.toml: what is right is read, what is wrong gets one clear line."""

from pathlib import Path

import numpy as np
import pytest

from dse.core import catalogue
from dse.errors import DseError
from dse.simulator import Loop
from dse.simulator.case import graph_file as graphs

GOOD = """
name = "chain"

[core]
warps = 2
issue_limit = 2

[subsystems]
alu = { lambda = 1, Lambda = 4.5 }
mem = { lambda = 2, Lambda = 60, cap = 6 }
spare = { lambda = 3, Lambda = 3 }

[[instruction]]
name = "load"
subsystem = "mem"
kind = "memory"
needs = ["next"]

[[instruction]]
name = "use"
subsystem = "alu"
needs = ["load"]
Lambda = 0

[[instruction]]
name = "next"
subsystem = "alu"
needs = ["use", "load"]
same_warp = 0.5

[[instruction]]
name = "meet"
subsystem = "spare"
kind = "barrier"
lambda = 0.25

[[loop]]
first = "load"
last = "next"
trips = 7
"""

TWO = """
name = "two"
[core]
warps = 3
[subsystems]
alu = { lambda = 1, Lambda = 4 }
[[program]]
[[program.instruction]]
name = "a"
subsystem = "alu"
[[program]]
[[program.instruction]]
name = "a"
subsystem = "alu"
[[program.instruction]]
name = "b"
subsystem = "alu"
needs = ["a", "b"]
[[program.loop]]
first = "b"
last = "b"
trips = 3
"""


@pytest.fixture
def write(tmp_path):
    """`write(old, new)`: a graph.toml with one piece of the good one replaced."""

    def write(old: str = "", new: str = "", good: str = GOOD) -> Path:
        assert not old or good.count(old) == 1
        path = tmp_path / "graph.toml"
        path.write_text(good.replace(old, new) if old else good)
        return path

    return write


def test_reads_everything(write):
    graph = graphs.load(write())
    assert (graph.name, graph.subsystems) == ("chain", ("alu", "mem", "spare"))
    assert graph.labels == (("load", "use", "next", "meet"),)
    case = graph.case
    assert (case.warps, case.slots, case.groups, case.issue_limit) == (2, 1, 1, 2)
    assert (case.order, case.scheduler, case.assignment) == ("program", "rr", (0,))
    assert case.caps == (np.inf, 6, np.inf)
    [program] = case.programs
    np.testing.assert_array_equal(program.subsystem, [1, 0, 0, 2])
    np.testing.assert_array_equal(program.throughput_cycles, [2, 1, 1, 0.25])
    np.testing.assert_array_equal(program.latency_cycles, [60, 0, 4.5, 3])  # 0 is said, and not left out
    np.testing.assert_array_equal(program.same_warp, [0, 0, 0.5, 0])
    assert program.preds == ((2,), (0,), (0, 1), ())
    assert program.kind == "mccb"
    assert program.loops == (Loop(0, 3, 7),)


def test_several_programs(write):
    graph = graphs.load(write(good=TWO))
    assert graph.labels == (("a",), ("a", "b"))
    assert graph.case.assignment == (0, 1)
    first, second = graph.case.programs
    assert first.loops == ()
    assert (second.preds, second.loops) == (((), (0, 1)), (Loop(1, 2, 3),))
    assigned = write("warps = 3", "warps = 3\nassignment = [1, 0, 1]", TWO)
    assert graphs.load(assigned).case.assignment == (1, 0, 1)
    kernels = catalogue.folder("kernels")
    mix = graphs.load(kernels / "instruction_mix" / "graph.toml").case
    assert (mix.warps, mix.issue_limit, mix.programs[0].loops) == (48, 1, (Loop(0, 5, 256),))
    np.testing.assert_array_equal(mix.programs[0].throughput_cycles, [1, 1, 1, 1, 4])
    assert mix.programs[0].preds == ((4,), (0,), (1,), (2,), (3,))  # the first waits for the trip before
    barrier = graphs.load(kernels / "iterative_barrier" / "graph.toml").case
    assert (barrier.warps, barrier.slots, barrier.groups) == (8, 6, 6)
    assert (barrier.programs[0].kind, barrier.programs[0].barriers) == ("cb", 1024)


CORE = "[core]\nwarps = 2\nissue_limit = 2\n"
PART = '[[program.instruction]]\nname = "x"\nsubsystem = "alu"'
LOOP = '[[loop]]\nfirst = "use"\nlast = "meet"\ntrips = 2'
FIRST = '[[program]]\n[[program.instruction]]\nname = "a"\nsubsystem = "alu"\n[[program]]\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "chain"\n', "", "name: found nothing, expected a value"),
        ("warps = 2", "warp = 2", r"core\.warp: found an unknown field, .*; did you mean warps\?"),
        ("warps = 2", "warps = 0", "case: found 1 groups of 0 warps, expected 1 to"),
        ("warps = 2", "slots = 2", "case: groups: found 1, expected 2 or more"),
        (CORE, "core = 3\n", "core: found 3, expected a table"),
        ("lambda = 2", "lambda = -2", r"subsystems\.mem\.lambda: found -2, expected greater than or equal"),
        ("Lambda = 60", "lam = 60", r"subsystems\.mem\.(Lambda: found nothing|lam: found an unknown)"),
        ("cap = 6", "cap = nan", "case: caps: found nan"),
        ('"barrier"', '"barier"', r"instruction\.4\.kind: found 'barier', expected .*'barrier'"),
        ('subsystem = "mem"', 'subsystem = "men"', r"instruction load: subsystem: .*; did you mean mem\?"),
        ('["load"]', '["lod"]', r"instruction use: needs: found 'lod', .*; did you mean load\?"),
        ('["load"]', '"load"', r"instruction\.2\.needs: found 'load', expected a valid list"),
        ('["load"]', '["meet"]', "instruction use: needs: found 'meet', expected an earlier one"),
        ('name = "use"', 'name = "load"', "instruction: name: found 'load' twice"),
        ('first = "load"', 'first = "meet"', "loop: last: found 'next' before 'meet'"),
        ('first = "load"', 'first = "lead"', r"loop: first: found 'lead', .*; did you mean load\?"),
        ("trips = 7", f"trips = 7\n{LOOP}", "program: loops: found"),
        ("[[loop]]", f"[[program]]\n{PART}\n[[loop]]", r"instruction: found beside \[\[program\]\]"),
        ("[[loop]]", f"{PART}\n[[loop]]", r"program: found .*, expected a valid list"),
        ("[core]", "[core", "is not TOML: .*line"),
        # One of several programs
        ('needs = ["a", "b"]\n', "ned = 1\n", r"program\.2\.instruction\.2\.ned: found .* mean needs\?"),
        ("[[program.loop]]", "[[loop]]", "loop: found beside"),
        (FIRST, "[[program]]\ninstruction = []\n[[program]]\n", r"program\.1\.instruction: found \[\], exp"),
        ('"alu"\n[[program]]', '"alu"\nkind = "barrier"\n[[program]]', "case: found 0 and 1 barriers in"),
    ],
)
def test_a_mistake_gets_one_line(write, old, new, message):
    refused(write(old, new, GOOD if old in GOOD else TWO), message)


def refused(path, message):
    with pytest.raises(DseError, match=f"^{path}: {message}"):
        graphs.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'name = "a"\n[subsystems]\nalu = { lambda = 1, Lambda = 1 }\n', "instruction: found nothing, exp"),
        (b'name = "a"\nsubsystems = {}\n[[instruction]]\nname = "x"\nsubsystem = "a"\n', "subsystems: found"),
        (b'name = "\xff"', "text: found byte 8 that is no UTF-8"),
        (None, "cannot read: No such file"),
    ],
)
def test_nothing_to_run(tmp_path, content, message):
    path = tmp_path / "graph.toml"
    if content:
        path.write_bytes(content)
    refused(path, message)

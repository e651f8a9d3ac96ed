"""Traces: what is read of a listing, mistakes in one line, and traces made of described kernels."""

from typing import Any

import numpy as np
import pytest

from dse import kernels
from dse.core import catalogue
from dse.errors import DseError
from dse.evaluate.curve import place_launch
from dse.hardware import gpus
from dse.simulator.case import trace_text
from dse.simulator.case.kernel_trace import listing
from dse.simulator.case.program import Loop
from dse.simulator.case.trace import TraceAccess
from dse.types import CLASSES, Kernel, PerClass

KERNELS = catalogue.folder("kernels")
GTX280 = gpus.load("gtx-280", np.float64).gpu


def read(text):
    return trace_text.parse(text, "t.sass")


def one(text):
    return read(text).instructions[0]


def test_a_listing():
    trace = read(
        """
        // any words, and C = A * B
        .kernel saxpy
        .block 4
        /*0000*/ MOV.U16 R0H, g [0x1].U16; /* 0x10004205 0x0023c780 */
        /*0008*/ IMAD.U16 R0, R0H, g[0x6].U16, R1;
        /*0010*/ GLD.U32 R2, global14[R0];  // stride=8 lanes=30
        /*0018*/ FMAD32 R2, R2, c[0x1][0x0], R3
        /*0020*/ ISET.S32.C0 o[0x7f], R0, R1, LT;
        @C0.NE GST.U32 global14[R0], R2;
        RET C0.NE;
        """
    )
    assert (trace.name, trace.block, trace.loops) == ("saxpy", 4, ())
    kinds = ["move", "int_mad16", "load", "float_mad", "int_add", "store", "int_add"]
    assert [instruction.kind for instruction in trace.instructions] == kinds
    needs = [(), (0,), (1,), (2,), (1,), (1, 3, 4), (4,)]
    assert [instruction.needs for instruction in trace.instructions] == needs
    assert trace.instructions[3].text == "FMAD32 R2, R2, c[0x1][0x0], R3"
    load = trace.instructions[2]
    assert (load.access, load.lanes) == (TraceAccess("global", 4, 8), 30)
    assert trace.instructions[0].access == TraceAccess("shared", 2, 0)  # a parameter is the same for all


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("GLD.U64 R4, global14[R1]", TraceAccess("global", 8, 8)),
        ("GLD.S128 R4, global14[R1] // stride=96 pitch=4096", TraceAccess("global", 16, 96, None, 4096)),
        ("GST.U8 global14[R1], R4 // transactions=9", TraceAccess("global", 1, 1, 9)),
        ("LLD.U32 R4, local[0x8]", TraceAccess("global", 4, 4)),
        ("FADD32 R2, g[A1+0xb], R2", TraceAccess("shared", 4, 4)),
        ("FADD32 R2, g[A1+0xb], R2 // ways=3", TraceAccess("shared", 4, 4, 3)),
        ("R2G.U32.U32 g[A1], R2 // stride=68", TraceAccess("shared", 4, 68)),
        ("MOV32 R2, s[0x10]", TraceAccess("shared", 4, 0)),
        ("DADD R2, g[A1], R4", TraceAccess("shared", 8, 8)),
        ("FADD32I R2, R2, 0x3f800000", None),
        ("BAR.ARV.WAIT b0, 0xfff", None),
    ],
)
def test_accesses(line, expected):
    assert one(line).access == expected


@pytest.mark.parametrize(
    ("lines", "needs"),
    [
        ("MOV R7, R1; DADD R8, R0, R6;", (0,)),  # pairs
        ("GLD.U128 R4, global14[R1]; FADD R0, R7, R0;", (0,)),
        ("GLD.U128 R4, global14[R1]; FADD R0, R8, R0;", ()),
        ("MOV R7, R1; GST.U128 global14[R1], R4;", (0,)),
        ("MOV R2, R1; GLD.U128 R4, global14[R1];", ()),  # an address is one register
        ("MOV R2L, R1; FADD R0, R2H, R0;", (0,)),  # halves
        ("R2A A1, R1; FADD R0, g[A1+0x2], R0;", (0,)),
        ("FADD R1, R2, R3; R2G.U32.U32 g[A1], R1;", (0,)),
        ("FADD R0, -R1, |R2|; FADD R3, -R0, R1;", (0,)),
    ],
)
def test_dependences(lines, needs):
    assert read(lines.replace("; ", "\n")).instructions[1].needs == needs


def test_loops_carry_results_around():
    trace = read(
        """
        MVI R0, 0x0
        .repeat 3
            .repeat 2
                FADD R0, R1, R0
            .end
            FMUL R1, R0, R2
        .end
        .repeat 1
            FMUL R3, R1, R1
        .end
        """
    )
    assert set(trace.loops) == {Loop(1, 2, 2), Loop(1, 3, 3)}
    # Of itself, of what was there before the loop, and of the product of the outer iteration before
    assert [instruction.needs for instruction in trace.instructions] == [(), (0, 1, 2), (1,), (2,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FADD32 R1, R2, R3\nFADDD R1, R2, R3", ":2: found opcode 'FADDD', .*did you mean FADD"),
        ("FADD R1, R2, {}", ":1: found operand '{}', expected a register, memory in brackets, or a number"),
        ("fadd", ":1: found 'fadd', expected an opcode"),
        ("GLD.U32 R1, R2", ":1: found R1, R2, expected one such as global14"),
        ("GLD.U32 R1, global14[R2] // strid=4", ":1: found 'strid' with a value, .* did you mean stride"),
        ("GLD.U32 R1, global14[R2] // stride=x", ":1: stride: found 'x', expected a whole number"),
        ("GLD.U32 R1, global14[R2] // ways=2", ":1: found ways with an access to global memory"),
        ("FADD R1, g[A1], R2 // pitch=2", ":1: found pitch with an access to shared memory"),
        ("FADD R1, R1, R2 // stride=4", ":1: found stride with an instruction without access"),
        ("FADD R1, R1, R2 // lanes=33", ":1: lanes: found 33, expected 1 to 32"),
        ("FADD R1, R1, R2 // lanes=0", ":1: lanes: found 0, expected 1 or more"),
        ("// stride=4", ":1: found stride on its own, expected an instruction before it"),
        (".repeat 0", ":1: .repeat: found 0, expected 1 or more"),
        (".repeat 2\nNOP", ":1: found .repeat without .end, expected both"),
        (".repeat 2\n.end", ":2: found .end, expected an instruction since .repeat"),
        (".end", ":1: found .end, expected a .repeat before it"),
        (".blok 2", ":1: found '.blok 2', expected one of .* did you mean .block"),
        ("// nothing", ": found no instruction, expected at least one"),
        pytest.param("GLD.U32 R1" + "," * 200_000, ":1: found operand ''", id="as long as a file"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(DseError, match=f"^t.sass{message}"):
        read(text)


def runs_of(trace, *kinds, by_register=False):
    """How often instructions of these kinds run; `by_register`: of those alone that address by a register."""
    runs = np.ones(len(trace.instructions))
    for loop in trace.loops:
        runs[loop.first : loop.stop] *= loop.trips
    return sum(
        n
        for item, n in zip(trace.instructions, runs, strict=True)
        if item.kind.startswith(kinds)
        and (not by_register or (item.access is not None and "[A" in item.text))
    )


@pytest.mark.parametrize("name", ["matmul_abt", "hopping_aos", "hopping_soa"])
def test_descriptions_count_what_the_traces_have(name):
    trace = trace_text.load(KERNELS / name / trace_text.FILE)
    description = kernels.load(name)
    parameters = {key: values[0] for key, values in description.space.values.items()}
    kernel, launch = place_launch(description, GTX280, parameters, description.sizes())
    assert kernel.work.fp32 == runs_of(trace, "float")
    assert kernel.work.barrier == runs_of(trace, "barrier")
    assert (kernel.load_insts, kernel.store_insts) == (runs_of(trace, "load"), runs_of(trace, "store"))
    assert kernel.shared_insts == runs_of(trace, "move", "float", by_register=True)
    whole = runs_of(trace, "int", "move") + runs_of(trace, "float", by_register=True)
    assert kernel.work.int32 + kernel.shared_insts == whole
    assert launch.warps_per_block <= (trace.block or 0)


def test_a_trace_of_a_described_kernel():
    description = kernels.load("mat_tiled")
    kernel, launch = place_launch(description, GTX280, {"tile": 16}, description.sizes())
    trace = read(listing("mat_tiled", GTX280, kernel, int(launch.warps_per_block)))
    assert (trace.name, trace.block) == ("mat_tiled", 8)
    whole = max(loop.trips for loop in trace.loops if loop.first == 0) / 2  # a phase has whole instructions
    work = {"barrier": kernel.work.barrier, "float": kernel.work.fp32, "int": kernel.work.int32}
    work |= {"load": kernel.load_insts, "store": kernel.store_insts, "move": kernel.shared_insts}
    for kind, count in work.items():
        assert runs_of(trace, kind) == pytest.approx(float(count), abs=whole), kind
    loads = {instruction.access for instruction in trace.instructions if instruction.kind == "load"}
    assert loads == {TraceAccess("global", count=32)}  # Hong & Kim count them uncoalesced


def kernel(**work: float) -> Kernel:
    counts: dict[str, Any] = dict.fromkeys(set(Kernel.__dataclass_fields__) - {"work", "phases"}, 1.0)
    return Kernel(work=PerClass(**(dict.fromkeys(CLASSES, 0.0) | work)), **counts)


def test_products_of_matrices_have_no_instruction_there():
    assert "FMAD" in listing("k", GTX280, kernel(fp32=4.0), 4)
    with pytest.raises(DseError, match=r"^k: mma_fp16: found products of matrices, expected none in a TEG"):
        listing("k", GTX280, kernel(fp32=4.0, mma_fp16=2048.0), 4)

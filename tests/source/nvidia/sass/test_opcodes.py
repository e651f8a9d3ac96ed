"""The table of opcodes: what instructions write, and how wide."""

from pathlib import Path

import pytest
from support.sass_code import program_of

from dse.source.machine.recorded import PIPES
from dse.source.nvidia.sass.listing import parse
from dse.source.nvidia.sass.opcodes import OPCODES, Opcode, opcode
from dse.source.nvidia.sass.operands import PT, UPT, B, operand
from dse.source.nvidia.sass.program import SassProgram, program

LISTINGS = sorted((Path(__file__).parents[1] / "listings").glob("*.sass"))


def test_each_pipe_has_rows():
    assert {row.pipe for row in OPCODES.values()} == set(PIPES)


def unwritten(code: SassProgram) -> set[str]:
    """The instructions that read a register or a predicate that none on a way to them writes."""
    written: dict[int, set[int]] = {0: set()}  # slots where each block begins
    waiting = [0]
    missing = {}
    while waiting:
        block = code.blocks[waiting.pop()]
        slots = set(written[block.index])
        for step in block.steps:
            guard = {step.guard} - {PT, UPT, -1}
            missing[step.address] = {slot for slot in {*step.reads, *guard} - slots if slot < B}, step.text
            slots.update(step.writes)
        for following in block.successors:
            before = written.get(following)
            if before is None or not slots <= before:
                written[following] = slots | (before or set())
                waiting.append(following)
    return {text for slots, text in missing.values() if slots}


@pytest.mark.parametrize("path", LISTINGS, ids=lambda path: path.stem)
def test_the_compiler_reads_nothing_that_the_table_does_not_say_was_written(path):
    for listing in parse(path.read_text(), path.name):
        assert unwritten(program(listing)) == set()


# An instruction, how many of its operands it writes, and registers of the first and of each that it reads.
FORMS = [
    ("IADD3 R1 P0 PT R2 R3 RZ", 3, 1, [1, 1, 1]),
    ("IADD3.X R2 P0 PT R3 R4 RZ P1 !PT", 3, 1, [1, 1, 1, 1, 1]),
    ("IADD3.64 R2 PT PT R4 R6 RZ", 3, 2, [2, 2, 2]),
    ("LOP3.LUT P0 R1 R2 R3 RZ 0xc0 !PT", 2, 1, [1, 1, 1, 1, 1]),
    ("IMAD.HI.U32 R2 R4 R5 R6", 1, 1, [1, 1, 2]),
    ("FFMA2 R2 R4 R6 R8", 1, 2, [2, 2, 2]),
    ("CS2R R2 SRZ", 1, 2, [1]),
    ("I2F.F64.S64 R2 R4", 1, 2, [2]),
    ("F2I.F64.FLOOR R2 R4", 1, 1, [2]),
    ("UF2F.F64.F32 UR4 UR6", 1, 2, [1]),
    ("FCHK P0 R1 R2", 1, 1, [1, 1]),
    ("VOTE.ANY R0 PT P1", 2, 1, [1]),
    ("VOTE.ALL P0 P1", 1, 1, [1]),
    ("SHFL.IDX PT R0 R1 R2 0x1f", 2, 1, [1, 1, 1]),
    ("LDC.64 R2 c[0x0][0x28]", 1, 2, [1]),
    ("LDSM.16.M88.4 R4 [R2]", 1, 4, [1]),
    ("STSM.16.M88.4 [R2] R4", 0, 1, [4, 4]),
    ("LDTM.x64 R4 tmem[UR11]", 1, 64, [1]),
    ("LDTM.16dp256bit.x2 R4 tmem[UR11]", 1, 8, [1]),
    ("STTM.16dp32bit_t0_t15.x32 tmem[UR11] R4", 0, 1, [1, 32]),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0 [UR12+0x18000] R8", 1, 1, [1, 1]),
    ("SYNCS.EXCH.64 URZ [UR8] UR4", 1, 1, [1, 2]),
    ("SYNCS.CCTL.IV [UR8]", 0, 1, [1]),
    ("USETMAXREG.DEALLOC.CTAPOOL 0x18", 0, 1, [1]),
    ("ELECT P0 URZ PT", 2, 1, [1]),
    ("LDGSTS.E.128 [R1] [R2.64]", 0, 1, [1, 1]),
    ("STS.64 [R2] R4", 0, 1, [2, 2]),
    ("ATOMG.E.ADD PT R3 [R2.64] R7", 2, 1, [1, 1]),
    ("ATOM.E.CAS.64 R4 [R2.64] R6 R8", 1, 2, [2, 2, 2]),
    ("EXIT", 0, 1, []),
    ("BMOV.32 B6 R16", 1, 1, [1]),
    ("R2P PR R0 0x3", 0, 1, [1, 1, 1]),
]


def of(text: str) -> tuple[Opcode, tuple[str, ...], list[str]]:
    """The row, modifiers and operands of an instruction."""
    name, *operands = text.split()
    row = opcode(name)
    assert row is not None
    return row, tuple(name.split(".")[1:]), operands


@pytest.mark.parametrize(("text", "written", "target_words", "source_words"), FORMS)
def test_operands_written_and_registers_of_each(text, written, target_words, source_words):
    row, modifiers, operands = of(text)
    assert row.destinations(tuple(map(operand, operands))) == written
    assert row.widths(modifiers, len(operands) - written) == (target_words, source_words)


def test_the_forms_reach_all_ways_to_tell_what_is_written_and_how_wide():
    tested = "".join(of(text)[0].form for text, *_ in FORMS)
    assert set("Uvtregwxyb?cKB") <= set(tested)


BYTES = (
    "LDG.E 4, LDG.E.U8 1, LDG.E.S16.CONSTANT 2, STS.128 16, LDS.U.64 8, LDSM.16.M88.2 8, STSM.16.M88.4 16, "
    "LDGSTS.E.BYPASS.128 16, RED.E.ADD.F64.RN.STRONG.GPU 8, REDG.E.MIN.S64.STRONG.GPU 8, ATOM.E.ADD.F16x2 4, "
    "ATOMG.E.ADD.F32x4.FTZ.RN.STRONG.GPU 16, REDG.E.ADD.BF16x4.RN.STRONG.GPU 8"
)


@pytest.mark.parametrize("case", BYTES.split(", "))
def test_bytes_of_an_access(case):
    text, size = case.split()
    row, modifiers, _ = of(text)
    assert row.data(modifiers) == int(size)
    assert row.accesses_memory


CONVERSIONS = ("F2F.F64.F32", "F2F.F32.F64", "I2F.F64", "F2I.F64.TRUNC")


@pytest.mark.parametrize(
    ("text", "half", "whole"),
    [
        *((f"{name} R2, R4", "fp64", "sfu") for name in CONVERSIONS),
        *((f"{name} R2, R4", "sfu", "sfu") for name in ("I2F", "MUFU.RSQ")),
        ("DADD R2, R4, R6", "fp64", "fp64"),
    ],
)
def test_conversions_with_doubles_keep_the_slower_pipe_busy(text, half, whole):
    """On consumer parts float64's, 2 a cycle; on those with a whole float64 pipe the one of 16 a cycle."""
    for arch, pipe in ((75, half), (86, half), (89, half), (70, whole), (80, whole), (90, whole)):
        assert program_of(text, "EXIT", arch=arch).steps[0].pipe == pipe


def test_pairs_of_bfloat16_are_slower_than_those_of_fp16_where_these_are_twice_as_fast():
    for text, arch, pipe in (
        ("HFMA2.MMA.BF16_V2 R0, R1, R2, R3", 80, "fp32"),
        ("HFMA2.MMA R0, R1, R2, R3", 80, "fp16"),
        ("HFMA2.BF16_V2 R0, R1, R2, R3", 90, "fp16"),
        ("FFMA2 R0, R2, R4, R6", 100, "fp32x2"),
    ):
        assert program_of(text, "EXIT", arch=arch).steps[0].pipe == pipe

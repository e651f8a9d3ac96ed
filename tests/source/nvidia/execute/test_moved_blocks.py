"""Blocks that are known by the first of their row access just what they do when each is run."""

from typing import Any

import numpy as np
import pytest
from support.sass_code import program_of

from dse.source.machine.addresses import Addresses
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.liveness import Purpose
from dse.source.nvidia.execute.interpret import bind_program, bound_for, run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.execute.moved_blocks import addresses_of, alike_in_control
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import SassProgram

HEAD = ("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "S2R R6, SR_CTAID.Y", "MOV R8, 0x4")
PLACE = "IMAD R4, R1, 0x40, R0"  # of the thread in the row of blocks
LOAD = ("IMAD.WIDE R2, R4, R8, c[0x0][0x160]", "LDG.E R5, [R2.64]")
LOOP = 16 * (len(HEAD) + 3)


def toy(*code: str) -> SassProgram:
    return program_of(*HEAD, *code, "EXIT")


STRIP = toy(PLACE, "IMAD R4, R6, 0x1000, R4", *LOAD)
UP_TO_N = toy(PLACE, "ISETP.GE.AND P0, PT, R4, c[0x0][0x170], PT", "@P0 EXIT", *LOAD)
SWITCHED = toy("LOP3.LUT R4, R1, 0x5, RZ, 0x3c, !PT; IMAD R4, R4, 0x40, R0; IMAD R4, R6, 0x800, R4", *LOAD)


def delayed(*then: str, load: tuple[str, ...] = LOAD, step: str = "0x1") -> SassProgram:
    """A table tells how far the accesses of a trip lie; threads have other numbers than those of the next
    block.
    """
    return toy(
        "MOV R10, c[0x0][0x168]; MOV R11, c[0x0][0x16c]; MOV R12, RZ; LDG.E R7, [R10.64]",
        *then,
        "IMAD R9, R7, R0, RZ",
        "IMAD R4, R1, 0x40, R9",
        *load,
        "IADD3 R10, R10, 0x4, RZ",
        f"IADD3 R12, R12, {step}, RZ",
        "ISETP.LT.AND P0, PT, R12, c[0x0][0x170], PT",
        f"@P0 BRA {LOOP:#x}",
    )


TABLE = np.random.default_rng(1).integers(1, 9, 200).astype(np.int32)
BIG = "ISETP.GT.AND P1, PT, R7, 0x5, PT"
MARKED = delayed(BIG, load=(LOAD[0], "@P1 LDG.E R5, [R2.64]"))
CHOSEN = delayed(BIG, "@P1 IADD3 R7, R7, 0x20, RZ")
HASTY = delayed(step="R7")  # data say how many trips there are
SKIPPED = delayed(BIG, f"@P1 BRA {LOOP + 16 * 7:#x}")  # and where threads go
STEADY = toy(
    "MOV R12, RZ",
    PLACE,
    "IMAD.WIDE R2, R4, R8, c[0x0][0x160]; LDG.E R5, [R2.64]; IADD3 R2, P1, R2, 0x1000, RZ",
    "IMAD.X R3, RZ, RZ, R3, P1; IADD3 R12, R12, 0x1, RZ; ISETP.LT.AND P0, PT, R12, c[0x0][0x170], PT",
    f"@P0 BRA {LOOP:#x}",
)
# 64-bit places: y * 2^33 + x * 64 + thread, times 4 by shifts of the pair.
SHIFTED = toy(
    PLACE,
    "SHF.L.U32 R5, R6, 0x1, RZ; SHF.L.U32 R2, R4, 0x2, RZ; SHF.L.U64.HI R3, R4, 0x2, R5",
    "IADD3 R2, P0, R2, c[0x0][0x160], RZ; IADD3.X R3, R3, c[0x0][0x164], RZ, P0, !PT; LDG.E R7, [R2.64]",
)
SCALED = toy(
    PLACE,
    "SHF.L.U32 R5, R6, 0x1, RZ; LEA R2, P0, R4, c[0x0][0x160], 0x2",
    "LEA.HI.X R3, R4, c[0x0][0x164], R5, 0x2, P0; LDG.E R7, [R2.64]",
)
# The factor's register still has the block's number in threads that take no part.
PARTLY = toy(
    "MOV R8, R1; IMAD R4, R8, 0x40, R0; ISETP.GE.AND P0, PT, R0, 0x28, PT",
    f"@P0 BRA {16 * 11:#x}",
    "MOV R8, 0x4",
    *LOAD,
)


def places(grid: Dimensions) -> list[Dimensions]:
    return [(x, y, 0) for y in range(grid[1]) for x in range(grid[0])]


def asked(found: Addresses, block: int) -> list[tuple[int, list[int]]]:
    """(instruction, addresses of its threads) in the order of execution."""
    row, executions = int(found.row[block]), []
    for stream in found.machine.streams:
        mask = np.broadcast_to(stream.lanes.mask, stream.lanes.shape)[row]
        base = np.broadcast_to(stream.base, stream.lanes.shape)[row][mask]
        if len(base):
            moved = int(found.moved(stream.step)[block])
            executions += [(stream.step, (base + offset + moved).tolist()) for offset in stream.offsets()]
    return executions


def found_and_run(made: SassProgram, grid: Dimensions, *arguments: Any) -> tuple[Addresses, Machine]:
    launch = LaunchArguments(grid, (64, 1, 1), arguments)
    first = run(bind_program(made), launch, [(0, 0, 0)])
    outcome = run(first.bound, launch, places(grid), loops=LoopPolicy.RUN)
    return addresses_of(first, places(grid)), outcome


CASES = {
    "strip": (STRIP, (50, 4, 1), (None,), 8),  # the last block of the grid along x by itself
    "up to n": (UP_TO_N, (50, 1, 1), (None, None, 64 * 40 + 7), 4),  # in full, in part, none, the last
    "switched": (SWITCHED, (8, 64, 1), (None,), 16),  # along y
    "delayed": (delayed(), (40, 1, 1), (None, TABLE, 8), 2),
    "for long": (delayed(), (40, 1, 1), (None, TABLE, 200), 2),
    "marked": (MARKED, (40, 1, 1), (None, TABLE, 200), 2),
    "chosen": (CHOSEN, (40, 1, 1), (None, TABLE, 200), 2),
    "hasty": (HASTY, (40, 1, 1), (None, TABLE, 400), 2),
    "skipped": (SKIPPED, (40, 1, 1), (None, TABLE, 200), 2),
    "steady": (STEADY, (40, 2, 1), (None, None, 100), 4),
    "partly": (PARTLY, (50, 1, 1), (None,), 2),
    "shifted": (SHIFTED, (60, 2, 1), (None,), 4),
    "scaled": (SCALED, (60, 2, 1), (None,), 4),
}


@pytest.mark.quick(
    "chosen", "steady", "delayed", "switched", "strip", "partly", "shifted", "up to n", "scaled"
)
@pytest.mark.parametrize(("made", "grid", "arguments", "rows"), CASES.values(), ids=CASES)
def test_equals_running_each_block(made: SassProgram, grid: Dimensions, arguments: tuple, rows: int):
    actual, item = found_and_run(made, grid, *arguments)
    assert actual.machine.shape[0] == rows
    expected = Addresses.of(item)
    for block in range(len(places(grid))):
        assert asked(actual, block) == asked(expected, block)


def test_low_words_that_overflow_begin_another_row():
    actual, item = found_and_run(
        toy(PLACE, "SHF.L.U32 R4, R4, 0x14, RZ; IMAD.WIDE.U32 R2, R4, R8, c[0x0][0x160]; LDG.E R5, [R2.64]"),
        (200, 1, 1),
        None,
    )
    assert 2 < actual.machine.shape[0] < 50
    for block in range(200):
        assert asked(actual, block) == asked(Addresses.of(item), block)


@pytest.mark.parametrize(
    "made",
    [
        toy("LOP3.LUT R4, R1, 0x5, RZ, 0x3c, !PT", *LOAD),
        toy("IMAD R4, R1, R1, R0", *LOAD),
        toy("I2F R4, R1", *LOAD),
        toy("IMAD.WIDE R10, R1, R8, c[0x0][0x168]", "LDG.E R4, [R10.64]", *LOAD),
    ],
    ids=["bits", "square", "float", "by data"],
)
def test_each_block_is_run_where_addresses_do_not_move_evenly(made: SassProgram):
    actual, item = found_and_run(made, (30, 1, 1), None, np.arange(30, dtype=np.int32) ** 2)
    assert actual.machine.shape[0] == 30
    for block in range(30):
        assert asked(actual, block) == asked(Addresses.of(item), block)


def test_blocks_agree_in_atomics_on_shared_memory_and_in_what_other_warps_have_in_a_descriptors_register():
    product = "UTCHMMA gdesc[UR10], gdesc[UR14], tmem[UR16], tmem[UR18], idesc[UR19]"
    made = toy(
        "ATOMS.ADD R3, [R8], R8; LDS R7, [R8]; ISETP.GT.AND P0, PT, R7, R1, PT; @P0 EXIT",
        "S2UR UR19, SR_CTAID.X; ISETP.GT.AND P1, PT, R0, 0x1f, PT",
        f"@P1 BRA {16 * (len(HEAD) + 9):#x}; UMOV UR19, 0x8210010; {product}",
    )
    launch = LaunchArguments((1000, 1, 1), (64, 1, 1), [])
    boxes = alike_in_control(bound_for(bind_program(made), Purpose.CONTROL), launch, 1000, 100)
    assert not isinstance(boxes, str), boxes
    at_once = boxes.firsts[:, 0] < 64 * 4  # which threads add up
    assert (boxes.sizes[at_once].sum(), boxes.sizes.sum()) == (256, 1000)

"""Loops that are skipped count exactly as if they were run; those that cannot be known are not skipped."""

import numpy as np
import pytest

from dse.cuda.interpret import compiled, run
from dse.cuda.launch import Launch
from dse.cuda.listing import parse
from dse.cuda.machine import Machine
from dse.cuda.program import program


def both(trips: int, *body: str, contents: np.ndarray | None = None) -> tuple[Machine, Machine]:
    """A loop over R4 = 0, 1, ... of two warps, skipped and run in full. R0 is the thread, R2 its pointer."""
    head = (
        "S2R R0, SR_TID.X",
        "MOV R8, 0x4",
        "IMAD.WIDE R2, R0, R8, c[0x0][0x168]",
        "MOV R4, RZ",
        "MOV R9, RZ",
    )
    start = 16 * len(head)
    tail = (
        "IADD3 R4, R4, 0x1, RZ",
        "ISETP.LT.AND P0, PT, R4, c[0x0][0x160], PT",
        f"@P0 BRA {start:#x}",
        "EXIT",
    )
    lines = [f"  /*{16 * place:04x}*/ {line} ;" for place, line in enumerate((*head, *body, *tail))]
    made = program(parse("\t.target sm_80\n\t.section .text.toy,\n" + "\n".join(lines), "toy.sass")[0])
    launch = Launch((1, 1, 1), (64, 1, 1), [trips, contents])
    first, second = (run(compiled(made), launch, [(0, 0, 0)], skip_loops=skip) for skip in (True, False))
    totals = [
        [counts for counts in machine.phase_counts if counts is not None] for machine in (first, second)
    ]
    for skipped, full in zip(*totals, strict=True):
        np.testing.assert_array_equal(skipped, full)
    return first, second


@pytest.mark.parametrize(
    "body",
    [
        ["LDG.E R6, [R2.64]", "IADD3 R2, P1, R2, 0x4, RZ", "IADD3.X R3, RZ, R3, RZ, P1, !PT"],
        ["LDG.E R6, [R2.64]", "IMAD.WIDE R2, R8, 0x100, R2"],
        ["IMAD.WIDE R6, R4, R8, c[0x0][0x168]", "LDG.E R6, [R6.64+0x4]"],
        [
            "LEA R6, P1, R4, c[0x0][0x168], 0x3",
            "LEA.HI.X R7, R4, c[0x0][0x16c], RZ, 0x3, P1",
            "LDG.E.64 R6, [R6.64]",
        ],
        ["LDS R6, [R4.X4+0x10]"],
        ["SHF.L.U32 R6, R4, 0x7, RZ", "LDS R6, [R6]"],
        ["ISETP.EQ.AND P1, PT, R4, 0x2bc, PT", "@P1 STS [R0.X4], R5"],  # once, in the middle
        ["ISETP.GT.U32.AND P1, PT, R4, R0, PT", "@!P1 STS [R0.X4], R5"],  # lanes drop out one by one
        ["IMNMX R6, R4, 0x1f4, PT", "LDS R7, [R6.X4]"],  # moves on, then stays
        ["SHF.R.S32.HI R6, RZ, 0x8, R4", "LDS R7, [R6.X4]"],  # moves on now and then
        ["ISETP.LT.AND P1, PT, R4, 0x1f4, PT", "SEL R6, R4, R8, P1", "IMAD R6, R6, 0x8, RZ", "LDS R7, [R6]"],
        ["IADD3 R9, R9, R4, RZ", "STG.E [R2.64], R9"],  # grows faster and faster, but is only stored
    ],
    ids=lambda body: body[0].split()[0] + str(len(body)),
)
def test_even_loops_are_skipped_exactly(body):
    skipped, full = both(1500, *body)
    assert skipped.repeats
    assert len(skipped.trace) < 0.6 * len(full.trace)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (["LOP3.LUT R6, R4, 0x3f, RZ, 0xc0, !PT", "LDS R7, [R6.X4]"], "LOP3 of what changes"),
        (["IADD3 R9, R9, R4, RZ", "LDS R7, [R9]"], "does not change evenly"),
        (["IMAD R6, R4, R4, RZ", "LDS R7, [R6]"], "both factors change"),
        (["IMAD R6, R4, R0, RZ", "LDS R7, [R6.X4]"], "moves on by different distances"),
        (["I2F R6, R4", "F2I.TRUNC.NTZ R6, R6", "LDS R7, [R6.X4]"], "I2F of what changes"),
        (["BAR.SYNC 0x0"], "holds a barrier"),
        (["LDS R7, [R4.X4]", "STS [R7], R8"], "stores what is loaded again"),
    ],
)
def test_what_cannot_be_known_is_run(body, why):
    skipped, full = both(100, *body)
    assert len(skipped.trace) == len(full.trace)
    assert why in " ".join(skipped.compiled.irregular.values())


def test_data_are_not_taken_for_even():
    """The same loop, with contents that are known and with some that are not."""
    body = ["LDG.E R6, [R2.64]", "LDS R7, [R6.X4]", "IADD3 R2, R2, 0x4, RZ"]
    known, _ = both(300, *body, contents=np.arange(400, dtype=np.int32))
    assert not known.repeats
    unknown, _ = both(300, *body)
    assert unknown.repeats
    assert unknown.unknown


@pytest.mark.parametrize(
    "body",
    [
        ["IMAD.WIDE R6, R4, R8, c[0x0][0x168]", "LDG.E R6, [R6.64]"],
        # the index overflows on the way, and the address jumps back
        ["IADD3 R9, R9, 0x400000, RZ", "IMAD.WIDE R6, R9, R8, c[0x0][0x168]", "LDG.E R6, [R6.64]"],
    ],
)
def test_addresses_of_skipped_trips_are_kept(body):
    skipped, full = both(1000, *body)

    def touched(machine: Machine) -> set[int]:
        places: set[int] = set()
        for stream in machine.streams:
            start = int(stream.base.flat[0]) + stream.offset
            places.update(start + trip * stream.stride for trip in range(stream.repeats))
        return places

    assert {place // 32 for place in touched(skipped)} == {place // 32 for place in touched(full)}
    assert len(skipped.streams) < len(full.streams) / 5

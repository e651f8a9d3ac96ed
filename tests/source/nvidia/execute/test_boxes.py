"""Warps that act as one: elected threads, uniform registers, boxes of tensors, waits in shared memory."""

from functools import partial

import numpy as np
import pytest
from support import sass_code

from dse.errors import DseError
from dse.source.machine.launch import OF_CLUSTER, TensorMap, address_of
from dse.source.nvidia.machine.state import Machine

ran = partial(sass_code.ran, arch=90, threads=64)


def addresses(machine: Machine, place: int = 0) -> list[int]:
    """Addresses in global memory that one block stores to."""
    (stream,) = machine.streams
    shape = stream.lanes.shape
    mask = np.broadcast_to(stream.lanes.mask, shape)[place]
    return (np.broadcast_to(stream.base, shape)[place][mask] + stream.offset).tolist()


def test_one_thread_of_each_warp_is_elected_the_lowest_active():
    code = ("S2R R2, SR_TID.X", "MOV R3, RZ", "LOP3.LUT R4, R2, 0x1f, RZ, 0xc0, !PT",
            "ISETP.LT.AND P1, PT, R4, 0x5, PT", "@P1 EXIT", "ELECT P0, URZ, PT",
            "@P0 STG.E [R2.64], R0", "EXIT")  # fmt: skip
    assert addresses(ran(*code)) == [5, 37]


def test_a_uniform_register_takes_the_value_of_the_lowest_thread_for_its_warp():
    code = ("S2R R2, SR_TID.X", "MOV R5, RZ", "LOP3.LUT R4, R2, 0x1f, RZ, 0xc0, !PT",
            "ISETP.GE.AND P1, PT, R4, 0x5, PT", "@P1 R2UR UR4, R2", "MOV R4, UR4",
            "ISETP.LT.AND P2, PT, R2, 0x2, PT", "@P2 STG.E [R4.64], R0", "EXIT")  # fmt: skip
    assert addresses(ran(*code)) == [5, 5]


def test_lanes_with_another_value_than_the_first_take_their_turns():
    """Initialise an mbarrier, whose address a uniform register must have, at each lane's own address."""
    code = ("S2R R2, SR_TID.X", "MOV R5, RZ", "LOP3.LUT R8, R2, 0x18, RZ, 0xc0, !PT",
            "PLOP3.LUT P2, PT, PT, PT, PT, 0x80, 0x0", "@P2 R2UR P0, UR6, R8",  # 0x40
            "@P2 PLOP3.LUT P2, PT, P0, PT, PT, 0x80, 0x0", "MOV R4, UR6", "STG.E [R4.64], R0",
            "@P2 BRA 0x40", "EXIT")  # fmt: skip
    machine = ran(*code, threads=32)
    turns = [np.broadcast_to(s.base, (1, 32))[s.lanes.mask].tolist() for s in machine.streams]
    assert [(len(turn), *{*turn}) for turn in turns] == [(32, 0), (24, 8), (16, 16), (8, 24)]


@pytest.mark.parametrize("write", ["STAS [R2.64], R4", "REDAS.ADD [R2], R4", "UBLKCP.S.S [UR4], [UR8], UR6"])
def test_what_another_block_writes_into_shared_memory_is_not_known(write):
    code = ("UMOV UR6, 0x1", "MOV R4, 0x8", "STS [UR4], R4", write, "LDS R2, [UR4]", "STG.E [R2.64], R0")
    (taint,) = ran(*code, "EXIT").unknown.values()
    assert ran(*code, "EXIT").sources[taint.bit_length() - 1] == OF_CLUSTER


def test_a_block_that_asks_for_the_work_of_another_gets_none():
    """As one of a launch does if all blocks do their own: the work of the grid is the same."""
    code = ("SYNCS.ARRIVE.TRANS64 RZ, [UR4], R0", "UGETNEXTWORKID.SELFCAST [UR6], [UR4]",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R0", "LDS.128 R4, [UR6]",
            "LOP3.LUT P0, RZ, R6, 0x1, RZ, 0xc0, !PT", "@P0 BRA 0x0", "EXIT")  # fmt: skip
    machine = ran(*code)
    assert (len(machine.trace), machine.unknown) == (2, {})


TENSOR = TensorMap(2, (100, 256), (256, 1), (64, 32))
# The box at (row, column) in UR11, UR10; the address of the first argument's descriptor in UR4, UR5.
BOX = ("ULDC UR4, c[0x0][0x198]", "ULDC UR5, c[0x0][0x19c]", "UIADD3 UR4, UR4, 0x30, URZ")
LOAD = (*BOX, "S2R R0, SR_TID.X", "ISETP.EQ.AND P0, PT, R0, 0x20, PT", "VOTEU.ANY UP0, P0")


@pytest.mark.parametrize(("load", "receivers"), [(" [UR8], [UR4]", 1), (".MULTICAST [UR8], [UR4], UR7", 3)])
def test_a_box_is_loaded_once_and_only_what_lies_in_the_tensor(load: str, receivers: int):
    code = (*LOAD, "UMOV UR10, 0x20", "UMOV UR11, 0x40", "UMOV UR7, 0xd0000", f"@UP0 UTMALDG.2D{load}",
            "@P0 SYNCS.ARRIVE.TRANS64 RZ, [UR9], R0", "EXIT")  # fmt: skip
    machine = ran(*code, arguments=(TENSOR,))
    rows = [address_of(0) + 2 * (256 * row + 32) for row in range(64, 100)]
    assert addresses(machine) == [start + part for start in rows for part in (0, 32)]
    (row,) = machine.bound.memory_rows.values()
    (counts,) = machine.phase_counts
    assert counts is not None
    assert counts[row : row + 4, 0].tolist() == [1, 72, 0, 72 * 32]
    assert (counts[row + 4 : row + 8, 0] / receivers).tolist() == [1, 0, 64 * 64 / 128, 64 * 64]
    assert machine.unknown == {}


@pytest.mark.parametrize("place", ["UTMALDG.2D.IM2COL [UR8], [UR4]", "UTMALDG.3D [UR8], [UR4]"])
def test_boxes_that_are_not_read_are_named(place):
    with pytest.raises(DseError, match=r"toy: instruction 0x60 \(UTMALDG.*found a"):
        ran(*LOAD, place, "EXIT", arguments=(TENSOR,))


def test_a_loop_moves_boxes_on_until_they_leave_the_tensor():
    code = (*LOAD, "UMOV UR10, 0x0", "UMOV UR11, 0x0", "UMOV UR6, 0x0",
            "@UP0 UTMALDG.2D [UR8], [UR4]",  # 0x90
            "@P0 SYNCS.ARRIVE.TRANS64 RZ, [UR9], R0",
            "UIADD3 UR11, UR11, 0x1, URZ", "UIADD3 UR6, UR6, 0x1, URZ",
            "UISETP.LT.AND UP1, UPT, UR6, 0x60, UPT", "BRA.U UP1, 0x90", "EXIT")  # fmt: skip
    machine = ran(*code, arguments=(TENSOR,))
    (row,) = machine.bound.memory_rows.values()
    counts = machine.phase_counts[0]
    assert counts is not None
    rows = sum(min(64, 100 - first) for first in range(96))
    assert counts[row : row + 2, 0].tolist() == [96, 2 * rows]
    assert sum(stream.repeats for stream in machine.streams) == 96
    assert any(stream.repeats > 10 for stream in machine.streams)  # those that lie inside


def test_a_wait_that_nobody_ends_is_an_error():
    wait = ("S2R R0, SR_TID.X", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R0", "@!P0 BRA 0x10", "EXIT")
    with pytest.raises(DseError, match=r"PHASECHK.*found threads that wait for others for ever"):
        ran(*wait)
    code = ("S2R R0, SR_TID.X", "SYNCS.ARRIVE.TRANS64 RZ, [UR4], R0", *wait[1:])
    assert len(ran(*code).trace) == 3  # no turn of the loop


def test_the_shape_of_a_product_is_read_when_it_is_run():
    def product(descriptor: int, *guard: str):
        code = (*guard, "UMOV UR8, 0x0", f"UMOV UR7, 0x{descriptor:x}",
                "UTCHMMA gdesc[UR10], gdesc[UR12], tmem[UR14], tmem[UR6], idesc[UR7]", "EXIT")  # fmt: skip
        return ran(*code).program.steps[-2].product

    actual = product(0x8210010)
    assert actual is not None
    assert (actual.kind, actual.multiply_adds) == ("mma_fp16", 128 * 128 * 16)
    with pytest.raises(DseError, match=r"UTCHMMA.*found the instruction descriptor 0x0, expected a product"):
        product(0)
    code = ("UMOV UR7, 0x8210010", "UTCHMMA.2CTA gdesc[UR10], gdesc[UR12], tmem[UR14], tmem[UR6], idesc[UR7]")
    with pytest.raises(DseError, match=r"2CTA.*found a product of two blocks, expected .* its clusters"):
        ran(*code, "EXIT")


def test_guards_of_copies_tell_whether_global_memory_is_read():
    code = ("S2R R2, SR_TID.X", "MOV R3, RZ", "ISETP.LT.AND P0, PT, R2, 0x8, PT",
            "LDGSTS.E [R2], [R2.64], P0", "EXIT")  # fmt: skip
    machine = ran(*code, threads=32)
    (row,) = machine.bound.memory_rows.values()
    counts = machine.phase_counts[0]
    assert counts is not None
    assert counts[row + 3, 0] == 8
    assert counts[row + 7, 0] == 32

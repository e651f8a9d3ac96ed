"""One warp alone, its time computed by hand."""

from dataclasses import replace

import pytest
from support.sass_code import launched, listing_of, ran

from dse.source.caches.cache_model import kept_at_random
from dse.source.nvidia.execute.interpret import bind_program
from dse.source.nvidia.profile.walk import walk
from dse.source.nvidia.sass.listing import Control
from dse.source.nvidia.sass.program import program
from dse.source.profile.single_warp import SOURCES, Timing, Walk, longest_warp

LATENCY = dict.fromkeys(SOURCES, 5.0) | {"global": 400.0, "copy": 400.0, "barrier": 0.0, "control": 0.0}
TIMES = Timing(LATENCY, {"fp32": 2.0}, {"mma_fp16": 1 / 256, "mma_warp": 8.0}, code_line=5.0)


def walked(*code: str, threads: int = 32, warp: int | None = None) -> dict[tuple[int, int], Walk]:
    machine = ran(*code, threads=threads, arguments=(1000,))
    return walk(machine, 0, longest_warp(machine, machine.program.blocks, 0) if warp is None else warp, TIMES)


def test_a_chain_waits_for_each_result():
    (actual,) = walked("IADD3 R1, R2, R3, RZ", *["IADD3 R1, R1, R3, RZ"] * 2, "EXIT").values()
    assert (actual.passes, actual.cycles, actual.insts, actual.chain) == (1, 0 + 5 + 5 + 1 + 1, 4, 3)
    assert actual.latencies @ list(LATENCY.values()) == 10


def test_a_pipe_takes_its_time():
    (actual,) = walked(*(f"FADD R{n}, R20, R21" for n in range(4)), "EXIT").values()
    assert (actual.cycles, actual.chain) == (3 * 2 + 1 + 1, 1)


def test_a_scoreboard_is_clear_after_its_last_result():
    """The compiler has six of them: a wait for the first of two results may be one for both."""
    code = listing_of("MUFU.RCP R1, R20; MUFU.RCP R2, R21; IADD3 R3, R1, R1, RZ; EXIT")
    controls = [Control(1, 0, ()), Control(3, 0, ()), Control(1, 7, (0,)), Control(5, 7, ())]
    encoded = [replace(x, control=y) for x, y in zip(code.instructions, controls, strict=True)]
    for listing, cycles in ((code, 5 + 1 + 1), (replace(code, instructions=tuple(encoded)), 1 + 5 + 1 + 5)):
        machine = launched(bind_program(program(listing)), 1, 32, 1000)
        (alone,) = walk(machine, 0, 0, TIMES).values()
        assert alone.cycles == cycles
        assert alone.chain == 2


def test_loads_in_flight_arrive_together():
    loads = "LDG.E R4, [R20.64]; LDG.E R5, [R20.64+0x4]; IADD3 R6, R4, R5, RZ; LDG.E R7, [R20.64+0x8]"
    (actual,) = walked(loads, "IADD3 R7, R7, R6, RZ; EXIT").values()
    assert (actual.loads, actual.waits) == (3, 2)
    assert actual.cycles == (1 + 400) + 1 + 400 + 1 + 1


def test_barriers_part_the_phases():
    actual = walked("IADD3 R1, R2, R3, RZ; BAR.SYNC 0x0; IADD3 R1, R1, R3, RZ; EXIT", threads=64)
    assert list(actual) == [(-1, 0x10), (0x10, -1)]
    assert [phase.insts for phase in actual.values()] == [2, 2]


@pytest.mark.parametrize("trips", [3, 10, 1000])
def test_long_loops_are_not_walked_but_counted(trips):
    loop = f"IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, {trips:#x}, PT; @P0 BRA 0x10"
    (actual,) = walked("MOV R4, RZ", loop, "EXIT").values()
    assert actual.insts == 1 + 3 * trips + 1
    # MOV; then a trip takes 5 for the sum, 5 for the compare, 1 for the branch
    assert (actual.cycles, actual.chain) == (5 + 11 * trips + 1, 1 + trips + 1)


@pytest.mark.quick("64", "128")
@pytest.mark.parametrize("kib", [64, 128, 192])
def test_long_code_is_waited_for(kib):
    """A line of 128 bytes holds 8 instructions, and takes 5 cycles if it is not there."""
    count = kib * 1024 // 16
    (actual,) = walked(*[f"IADD3 R{n % 64}, R90, R91, RZ" for n in range(count - 1)], "EXIT").values()
    missed = 1 - kept_at_random(kib / 128)
    assert actual.cycles == pytest.approx(count * (1 + missed * 5 / 8))
    assert actual.slots == pytest.approx(actual.cycles)


def test_a_loop_that_fits_is_fetched_once():
    straight = [f"FADD R{n % 64}, R90, R91" for n in range(16384 - 5)]
    loop = "IADD3 R84, R84, 0x1, RZ; ISETP.LT.AND P0, PT, R84, 0x3e8, PT"
    back = f"@P0 BRA {16 * (len(straight) + 1):#x}"
    (actual,) = walked(*straight, "MOV R84, RZ", loop, back, "EXIT").values()
    fetched = (1 - kept_at_random(2)) * 5 / 8 * 3  # each FADD waits for its pipe longer than for its line
    assert actual.cycles == pytest.approx(len(straight) * 2 + 1000 * 11 + fetched, abs=10)


def test_the_warp_with_most_to_do():
    code = ["S2R R0, SR_TID.X; ISETP.LT.AND P0, PT, R0, 0x20, PT; @P0 EXIT; IADD3 R1, R1, R2, RZ; EXIT"]
    (actual,) = walked(*code, threads=64).values()
    assert actual.insts == 5
    (actual,) = walked(*code, threads=64, warp=0).values()
    assert actual.insts == 3


def pipelined(depth: int, work: list[str], trips: int = 1000) -> Walk:
    """A loop that copies ahead: so many groups are in flight when the oldest is waited for."""
    copy = ["LDGSTS.E.128 [R20], [R22.64]", "LDGDEPBAR"]
    wait, back = f"DEPBAR.LE SB0, {depth - 1:#x}; BAR.SYNC 0x0", f"@P0 BRA {16 * (1 + len(copy) * depth):#x}"
    count = f"IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, {trips:#x}, PT"
    total = Walk()
    for phase in walked(
        "MOV R4, RZ", *copy * depth, wait, *work, *copy, count, back, "EXIT", threads=64
    ).values():
        total = total + phase
    return total


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_a_copy_costs_its_latency_over_the_groups_in_flight(depth):
    actual = pipelined(depth, [])
    copies = dict(zip(SOURCES, actual.latencies, strict=True))["copy"]
    assert copies / 1000 == pytest.approx(1 / depth, rel=0.01)
    assert actual.cycles / 1000 == pytest.approx(400 / depth, rel=0.1)
    assert actual.loads / actual.waits == pytest.approx(depth, rel=0.01)


def test_work_hides_copies():
    work = [f"FADD R{30 + n}, R50, R51" for n in range(30)] * 7  # 420 cycles of the pipe
    single, two, three = (pipelined(depth, work) for depth in (1, 2, 3))
    copies = [dict(zip(SOURCES, item.latencies, strict=True))["copy"] for item in (single, two, three)]
    assert single.cycles / 1000 == pytest.approx(400 + 420, rel=0.1)
    assert two.cycles == pytest.approx(three.cycles)
    assert copies[0] == pytest.approx(1000, rel=0.01)
    assert copies[1] < 3


def test_products_of_a_warp_group_are_waited_for_by_group():
    product = "HGMMA.64x128x16.F32 R24, gdesc[UR8], R24"
    code = ["WARPGROUP.ARRIVE", product, product, f"{product}, gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x0", "EXIT"]
    (actual,) = walked(*code, threads=128).values()
    single = 64 * 128 * 16 / 4 / 256  # of a warp, on its sub-partition
    assert actual.cycles == pytest.approx(1 + 3 * single + LATENCY["mma_fp16"] + 2, abs=1)
    in_flight = [*code[:4], "WARPGROUP.DEPBAR.LE gsb0, 0x1", "EXIT"]
    (actual,) = walked(*in_flight, threads=128).values()
    assert actual.cycles < 1 + 3 * single


def test_products_of_a_block_take_the_pipes_of_all_warps():
    product = "UTCHMMA gdesc[UR10], gdesc[UR14], tmem[UR16], tmem[UR18], idesc[UR19]"
    code = ["UMOV UR19, 0x8210010", product, product, "UTCBAR [UR20], URZ"]
    machine = ran(*code, "SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR20], R8", "EXIT", threads=128)
    (actual,) = walk(machine, 0, 0, replace(TIMES, partitions=4.0), 4).values()
    assert actual.cycles == pytest.approx(2 * 128 * 128 * 16 / 256 / 4 + LATENCY["mma_fp16"], abs=8)


def test_products_out_of_registers_wait_for_their_sums():
    chain = ["HMMA.16816.F32 R4, R20, R24, R4"] * 3
    (actual,) = walked(*chain, "EXIT").values()
    assert actual.cycles == 2 * 8 + 1 + 1  # the pipe takes 8 cycles for each, longer than the sum to come
    apart = [f"HMMA.16816.F32 R{4 * n}, R40, R44, R{4 * n}" for n in range(1, 5)]
    (actual,) = walked(*apart, "EXIT").values()
    assert actual.cycles == 3 * 8 + 1 + 1


def test_warps_in_step_take_turns():
    """Of three warps two share a sub-partition; the SM's banks serve all, one access after the other."""
    shared = Timing(LATENCY, {"fp32": 2.0}, partitions=2.0, barrier=9.0)

    def in_step(*code: str) -> float:
        machine = ran(*code, threads=96, arguments=(1000,))
        return sum(item.cycles for item in walk(machine, 0, 0, shared, 3).values())

    assert in_step(*(f"FADD R{n}, R20, R21" for n in range(4)), "EXIT") == 3 * (2 * 2) + 2 + 2
    assert in_step("FADD R1, R20, R21", "IADD3 R2, R1, R1, RZ", "EXIT") == (5 + 2) + 2 + 2
    assert in_step("BAR.SYNC 0x0", "EXIT") == (2 + 9) + 2
    # Neither load holds the warp up: the second is served after all of the first, 3 cycles later.
    assert in_step("LDS R1, [RZ]; LDS R2, [RZ]; IADD3 R3, R1, R2, RZ; EXIT") == 2 * 3 + 5 + 2 + 2

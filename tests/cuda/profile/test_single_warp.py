"""One warp alone, its time worked out by hand."""

import pytest

from dse.cuda.caches.cache_model import kept_at_random
from dse.cuda.execute.interpret import bind_program, run
from dse.cuda.machine.launch import LaunchArguments
from dse.cuda.profile.single_warp import Timing, Walk, longest_warp, walk
from dse.cuda.sass.listing import parse
from dse.cuda.sass.opcodes import PIPES
from dse.cuda.sass.program import program

LATENCY = dict.fromkeys(PIPES, 5.0) | {"global": 400.0, "barrier": 0.0, "control": 0.0}
TIMES = Timing(LATENCY, {"fp32": 2.0})


def walked(*code: str, threads: int = 32, warp: int | None = None) -> dict[tuple[int, int], Walk]:
    lines = [f"  /*{16 * place:04x}*/ {line} ;" for place, line in enumerate(code)]
    made = program(parse("\t.target sm_80\n\t.section .text.toy,\n" + "\n".join(lines), "toy.sass")[0])
    machine = run(bind_program(made), LaunchArguments((1, 1, 1), (threads, 1, 1), [1000]), [(0, 0, 0)])
    return walk(machine, 0, longest_warp(machine, 0) if warp is None else warp, TIMES)


def test_a_chain_waits_for_each_result():
    (found,) = walked("IADD3 R1, R2, R3, RZ", "IADD3 R1, R1, R3, RZ", "IADD3 R1, R1, R3, RZ", "EXIT").values()
    assert (found.passes, found.cycles, found.insts, found.chain) == (1, 0 + 5 + 5 + 1 + 1, 4, 3)
    assert found.latencies @ list(LATENCY.values()) == 10


def test_a_pipe_takes_its_time():
    code = [f"FADD R{n}, R20, R21" for n in range(4)]
    (found,) = walked(*code, "EXIT").values()
    assert found.cycles == 3 * 2 + 1 + 1
    assert found.chain == 1


def test_loads_in_flight_arrive_together():
    code = [
        "LDG.E R4, [R20.64]",
        "LDG.E R5, [R20.64+0x4]",
        "IADD3 R6, R4, R5, RZ",
        "LDG.E R7, [R20.64+0x8]",
        "IADD3 R7, R7, R6, RZ",
        "EXIT",
    ]
    (found,) = walked(*code).values()
    assert (found.loads, found.waits) == (3, 2)
    assert found.cycles == (1 + 400) + 1 + 400 + 1 + 1


def test_barriers_part_the_phases():
    code = ["IADD3 R1, R2, R3, RZ", "BAR.SYNC 0x0", "IADD3 R1, R1, R3, RZ", "EXIT"]
    found = walked(*code, threads=64)
    assert list(found) == [(-1, 0x10), (0x10, -1)]
    assert [phase.insts for phase in found.values()] == [2, 2]


@pytest.mark.parametrize("trips", [3, 10, 1000])
def test_long_loops_are_not_walked_but_counted(trips):
    code = [
        "MOV R4, RZ",
        "IADD3 R4, R4, 0x1, RZ",
        f"ISETP.LT.AND P0, PT, R4, {trips:#x}, PT",
        "@P0 BRA 0x10",
        "EXIT",
    ]
    (found,) = walked(*code).values()
    assert found.insts == 1 + 3 * trips + 1
    # MOV; then a trip takes 5 for the sum, 5 for the compare, 1 for the branch
    assert found.cycles == 5 + 11 * trips + 1
    assert found.chain == 1 + trips + 1


@pytest.mark.parametrize("kib", [4, 16, 24, 64])
def test_long_code_is_waited_for(kib):
    """A line of 128 bytes holds 8 instructions, and takes 5 cycles if it is not there."""
    count = kib * 1024 // 16
    (found,) = walked(*[f"IADD3 R{n % 64}, R90, R91, RZ" for n in range(count - 1)], "EXIT").values()
    missed = 1 - kept_at_random(kib / 16)
    assert found.cycles == pytest.approx(count * (1 + missed * 5 / 8))
    assert found.slots == pytest.approx(found.cycles)


def test_a_loop_that_fits_is_fetched_once():
    straight = [f"FADD R{n % 64}, R90, R91" for n in range(4096 - 5)]
    loop = ["IADD3 R84, R84, 0x1, RZ", "ISETP.LT.AND P0, PT, R84, 0x3e8, PT"]
    back = f"@P0 BRA {16 * (len(straight) + 1):#x}"
    (found,) = walked(*straight, "MOV R84, RZ", *loop, back, "EXIT").values()
    missed = 1 - kept_at_random(4)
    assert found.cycles == pytest.approx(
        len(straight) * 2 + 1000 * 11 + missed * 5 / 8 * 3, abs=10
    )  # each FADD waits for its pipe longer than for its line


def test_the_warp_with_most_to_do():
    code = [
        "S2R R0, SR_TID.X",
        "ISETP.LT.AND P0, PT, R0, 0x20, PT",
        "@P0 EXIT",
        "IADD3 R1, R1, R2, RZ",
        "EXIT",
    ]
    (found,) = walked(*code, threads=64).values()
    assert found.insts == 5
    (found,) = walked(*code, threads=64, warp=0).values()
    assert found.insts == 3

"""Kernels run through the interpreter, held against the same work done in NumPy."""

from typing import Any

import numpy as np
import pytest
from support.sass_code import bound, launched, program_of, ran

from dse.errors import DseError
from dse.source.machine.launch import REGION_BITS, UnknownArgument, address_of
from dse.source.nvidia.machine.state import Machine

ARCHS = (75, 80, 90, 120)


def launch(
    kernel: str, *arguments: Any, grid: Any = 4, block: Any = 256, arch: int = 80, **options: Any
) -> Machine:
    """All blocks of a launch of a stored kernel, run."""
    return launched(bound(kernel, arch), grid, block, *arguments, **options)


def total(machine: Machine) -> np.ndarray:
    """[counters, blocks] over all phases."""
    return sum(found for found in machine.phase_counts if found is not None)  # type: ignore[return-value]


def accesses(machine: Machine, opcode: str) -> np.ndarray:
    """(requests, sectors, passes, threads) of the whole launch, over the instructions of one opcode."""
    counts, found = total(machine), np.zeros(4)
    for index, row in machine.bound.memory_rows.items():
        if machine.program.steps[index].opcode == opcode:
            found = found + counts[row : row + 4].sum(axis=1)
    return found


def warp_instructions(machine: Machine) -> float:
    counts, blocks = total(machine), machine.program.blocks
    return float(sum(len(block.steps) * counts[2 * block.index].sum() for block in blocks))


def places(machine: Machine, opcode: str, argument: int) -> list[np.ndarray]:
    """Bytes from what an argument points to: one array of threads for each execution of an opcode."""
    found = []
    for stream in machine.streams:
        if machine.program.steps[stream.step].opcode == opcode:
            mask = np.broadcast_to(stream.lanes.mask, machine.shape)
            address = np.broadcast_to(stream.base + stream.offset, machine.shape)[mask]
            if address[0] >> REGION_BITS == argument + 1:
                found.append(address - address_of(argument))
    return found


def warps_of(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 32)


def sectors_of(addresses: np.ndarray, active: np.ndarray | None = None) -> int:
    """Sectors that warps touch, each warp by itself: a plain loop."""
    active = np.ones(addresses.shape, bool) if active is None else active
    pairs = zip(warps_of(addresses), warps_of(active), strict=True)
    return sum(len(set((warp[on] // 32).tolist())) for warp, on in pairs)


def conflicts_of(words: np.ndarray, active: np.ndarray) -> int:
    """Passes through the banks of 4-byte accesses, by the definition."""
    passes = 0
    for warp, on in zip(warps_of(words), warps_of(active), strict=True):
        if on.any():
            different = np.unique(warp[on])
            passes += max(int(np.count_nonzero(different % 32 == bank)) for bank in range(32))
    return passes


@pytest.mark.parametrize("arch", ARCHS)
def test_vector_add_counts(arch):
    n = 1000
    machine = launch("vector_add", None, None, None, n, arch=arch)
    i = np.arange(1024)
    loads, stores = accesses(machine, "LDG"), accesses(machine, "STG")
    assert loads.tolist() == [2 * 32, 2 * sectors_of(4 * i, i < n), 2 * 32, 2 * n]
    assert (2 * stores).tolist() == loads.tolist()
    exits = [s.index for s in machine.program.steps if s.opcode == "EXIT"]
    assert warp_instructions(machine) == 32 * (exits[1] + 1)  # the last warp has threads that go on
    assert not machine.unknown


@pytest.mark.parametrize("stride", [1, 2, 5, 8, 33])
def test_strided_copy_sectors(stride):
    machine = launch("strided_copy", None, None, 1024, stride)
    assert accesses(machine, "LDG")[1] == sectors_of(4 * stride * np.arange(1024))


@pytest.mark.parametrize(("name", "ways"), [("transpose_conflicts", 32), ("transpose_padded", 1)])
def test_transpose_bank_conflicts(name, ways):
    machine = launch(name, None, None, 128, grid=(4, 4, 1), block=(32, 8, 1))
    requests = 16 * 8 * 4
    assert accesses(machine, "LDS")[[0, 2]].tolist() == [requests, ways * requests]
    assert accesses(machine, "STS")[[0, 2]].tolist() == [requests, requests]
    assert accesses(machine, "STG")[[0, 1]].tolist() == [requests, 4 * requests]


def test_divergent_warps_run_both_ways_and_meet_again():
    n = 10
    machine = launch("divergent", None, None, n)
    counts, third = total(machine), np.count_nonzero(np.arange(256) % 3 == 0) * 4
    (loop,) = [
        block for block in machine.program.blocks if any(step.opcode == "FFMA" for step in block.steps)
    ]
    assert counts[2 * loop.index].sum() == 32 * n
    assert counts[2 * loop.index + 1].sum() == third * n
    assert accesses(machine, "STG")[[0, 3]].tolist() == [32 + 32, 1024 + 1024 - third]  # the last one whole


def test_loop_whose_length_is_data():
    data = np.arange(1, 1025, dtype=np.int32)
    machine = launch("collatz", data, None)
    trips = []
    for value in data.tolist():
        count = 0
        while value != 1:
            value, count = 3 * value + 1 if value % 2 else value // 2, count + 1
        trips.append(count)
    (found,) = places(machine, "STG", 1)
    assert found.tolist() == [4 * count for count in trips]
    counts = total(machine)
    longest = warps_of(np.array(trips)).max(axis=1).sum()
    loop = [
        block for block in machine.program.blocks if block.index in block.successors and len(block.steps) > 1
    ]
    assert [counts[2 * b.index].sum() for b in loop] == [longest] * len(loop)
    assert [counts[2 * b.index + 1].sum() for b in loop] == [sum(trips)] * len(loop)
    assert not machine.unknown


@pytest.mark.parametrize("arch", ARCHS)
def test_sparse_matrix_vector(arch):
    rng = np.random.default_rng(1)
    n = 500
    lengths = rng.integers(0, 40, n)
    lengths[:32] = 0  # a warp that has nothing to do
    rows = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = rng.integers(0, n, rows[-1]).astype(np.int32)
    machine = launch("spmv", rows, columns, None, None, None, n, grid=2, arch=arch)
    counted = [
        np.concatenate(places(machine, "LDG", argument) or [np.zeros(0, int)]) for argument in range(4)
    ]
    assert np.array_equal(np.sort(counted[1]), 4 * np.arange(rows[-1]))
    assert np.array_equal(np.sort(counted[2]), 4 * np.arange(rows[-1]))
    assert np.array_equal(np.sort(counted[3]), np.sort(4 * columns))
    assert np.concatenate(places(machine, "STG", 4)).tolist() == [4 * i for i in range(n)]
    assert not machine.unknown


@pytest.mark.parametrize("arch", ARCHS)
def test_warp_wide_instructions(arch):
    machine = launch("warp_wide", None, arch=arch)
    (found,) = places(machine, "STG", 0)
    for i in range(1024):
        lane, first = i % 32, i - i % 32
        warp = range(first, first + 32)
        r = sum(j % 5 == 0 for j in warp if j < i)
        r += 100 * any(j % 37 == 3 for j in warp) + 7 * all(j > 32 for j in warp)
        down = i + 3 if lane + 3 < 32 else i
        up = i - 2 if lane % 8 >= 2 else i
        s = 3 * (first + (i ^ 5) % 32) + down + up
        q = sum(1 << (j - first) for j in warp if j % 3 == i % 3)
        assert found[i] == 4 * (r + s + q % 64), i


@pytest.mark.parametrize("arch", ARCHS)
def test_scan_phases_and_divergence(arch):
    threads = 256
    machine = launch("scan", None, None, grid=1, arch=arch)
    rounds = threads.bit_length() - 1
    assert sum(found is not None for found in machine.phase_counts) == 2 + 2 * rounds
    t = np.arange(threads)
    shifted = [t[t >= 2**k] for k in range(rounds)]
    loads = accesses(machine, "LDS")
    assert loads[3] == sum(map(len, shifted)) + threads * (rounds + 1)
    assert loads[0] == sum(len(np.unique(t // 32)) for t in shifted) + threads // 32 * (rounds + 1)
    assert accesses(machine, "STS")[3] == threads * (rounds + 1)


def test_up_sweep_bank_conflicts():
    n = 512
    machine = launch("up_sweep", None, n, grid=1)
    t, d, apart, passes, threads = np.arange(256), n // 2, 1, 0, 0
    while d:
        passes += conflicts_of(apart * (2 * t + 2) - 1, t < d)
        threads += d
        d, apart = d // 2, apart * 2
    stores = accesses(machine, "STS")
    assert stores[[2, 3]].tolist() == [passes, threads]
    assert not machine.unknown


def test_histogram_conflicts_follow_the_data():
    data = np.random.default_rng(2).integers(0, 256, 4096).astype(np.uint8)
    machine = launch("histogram", data, None, 4096, grid=2)
    expected = 0
    for warp in data.reshape(-1, 32):
        expected += np.bincount(warp % 32, minlength=32).max()  # lanes of one bank take turns
    assert accesses(machine, "ATOMS")[[2, 3]].tolist() == [expected, 4096]


def test_local_memory():
    n = 50
    machine = launch("local_array", None, None, n, grid=1)
    i = np.arange(256)
    word = np.stack([(k * 7 + i) % 40 for k in range(n)] + [i % 40])
    # words of a warp's 32 lanes lie side by side: one sector for 8 lanes that ask for the same word
    sectors = sum(
        len({(w, lane // 8) for lane, w in enumerate(warp)}) for warp in word.reshape(-1, 32).tolist()
    )
    assert accesses(machine, "LDL")[[0, 1]].tolist() == [8 * (n + 1), sectors]
    values = np.tile(np.arange(40), (256, 1))
    for k in range(n):
        values[i, (k * 7 + i) % 40] += k
    (found,) = places(machine, "STG", 1)
    assert found.tolist() == (4 * values[i, i % 40]).tolist()


def test_recursion_and_calls():
    machine = launch("recursive", None, grid=1, block=64)
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13]
    # hardware does not gather threads that return at different depths, nor need we: each stores once
    found = np.sort(np.concatenate(places(machine, "STG", 0)))
    assert found.tolist() == sorted(4 * fibonacci[i % 8] for i in range(64))
    machine = launch("calls", None, 9, grid=1)

    def far_away(n: int) -> int:
        s = 0
        for i in range(n):
            s = s + s * i + 1
        return s & 1023

    found = np.sort(np.concatenate(places(machine, "STG", 0)))
    assert found.tolist() == sorted(4 * far_away(i % 4 if i & 1 else 9) for i in range(256))


def test_atomics_give_each_thread_its_turn_and_say_so():
    machine = launch("take_turns", None, np.zeros(4, np.int32), grid=1, block=64)
    (found,) = places(machine, "STG", 1)
    assert found.tolist() == [4 * (k + 100) for k in range(64)]
    names = {
        machine.sources[bit] for taint in machine.unknown.values() for bit in range(8) if taint >> bit & 1
    }
    assert names == {"the order of atomic operations"}


def test_what_depends_on_unknown_data_is_reported():
    machine = launch("collatz", np.ones(1024, np.int32), None)
    assert not machine.unknown
    machine = launch("spmv", None, None, None, None, None, 1000)
    whats = {what for _, what in machine.unknown}
    assert whats >= {"branch"}
    assert "contents of argument 0" in machine.sources
    machine = launch("vector_add", None, None, None, UnknownArgument())
    assert machine.sources == ["argument 3"]
    assert {what for _, what in machine.unknown} == {"branch"}


def test_endless_loop_ends_in_one_line():
    with pytest.raises(
        DseError, match=r"spin: still running after 500 basic blocks.*contents of argument 0"
    ) as error:
        launch("spin", None, step_limit=500)
    assert "\n" not in str(error.value)


def test_unknown_opcode_is_named():
    with pytest.raises(DseError, match=r"toy: instruction 0x10: opcode: found FROB\.X"):
        program_of("S2R R0, SR_TID.X", "FROB.X R1, R0", "EXIT")


def test_form_that_matters_but_has_no_rule_is_named():
    code = ("S2R R0, SR_TID.X", "HMUL2 R4, R0, R0", "STG.E [R2.64], R4", "EXIT")
    ran(*code)  # only stored: counted
    code = ("S2R R0, SR_TID.X", "HMUL2 R2, R0, R0", "STG.E [R2.64], R1", "EXIT")
    with pytest.raises(DseError, match=r"toy: instruction 0x10 \(HMUL2 R2, R0, R0\)"):
        ran(*code)
    branch = ("HMUL2 R2, R0, R0", "ISETP.GE.AND P0, PT, R2, RZ, PT", "@P0 BRA 0x40", "NOP", "EXIT")
    machine = ran(*branch)
    assert machine.sources == ["results of HMUL2"]  # data as any


def test_a_phase_is_over_when_it_is_waited_for_before_compute_capability_9():
    code = (
        "ATOMS.ARRIVE.64 R2, [RZ]",  # R3: the upper word, whose highest bit is the phase
        "LDS R4, [0x4]",
        "LOP3.LUT P0, RZ, R4, 0x80000000, R3, 0x48, !PT",
        "@!P0 BRA 0x10",
        "EXIT",
    )
    machine = ran(*code)
    assert warp_instructions(machine) == 5  # nobody waits a second time


def test_threads_that_wait_for_ever_are_an_error():
    # half of the threads of a warp wait at a convergence point for the others, who wait at a barrier
    code = (
        "S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x10, PT; BSSY B0, 0x60; @P0 BRA 0x50; BSYNC B0",
        "BAR.SYNC 0x0; EXIT",
    )
    with pytest.raises(DseError, match="wait for others for ever"):
        ran(*code)


def test_threads_that_break_out_are_not_waited_for():
    code = (
        "S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x10, PT; BSSY B0, 0x60; @P0 BREAK B0; @P0 BRA 0x70",
        "NOP; BSYNC B0; EXIT",
    )
    machine = ran(*code)
    assert warp_instructions(machine) == 8


def test_threads_that_have_ended_are_not_waited_for():
    code = (
        "S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x10, PT; BSSY B0, 0x60; @P0 BRA 0x70; NOP; NOP",
        "BSYNC B0; EXIT",
    )
    machine = ran(*code)
    # sixteen end while the others wait; these then end by themselves
    assert warp_instructions(machine) == 8 + 1


def test_atomics_on_different_words_take_turns_apart():
    code = (
        "S2R R0, SR_TID.X; LOP3.LUT R1, R0, 0x1, RZ, 0xc0, !PT; MOV R5, 0x3; ATOMS.ADD R3, [R1.X4], R5",
        "LDS R4, [R3.X4]; EXIT",
    )
    machine = ran(*code, threads=64)
    assert machine.r[3][0].tolist() == [3 * (thread // 2) for thread in range(64)]


def test_offsets_shift_the_sectors():
    code = (
        "S2R R0, SR_TID.X; MOV R5, 0x4; IMAD.WIDE R2, R0, R5, c[0x0][0x160]; LDG.E R4, [R2.64]",
        "LDG.E R4, [R2.64+0x4]; LDG.E R4, [R2.64+0x20]; EXIT",
    )
    machine = ran(*code, threads=64, arguments=(None,))
    rows = [total(machine)[row : row + 3, 0].tolist() for row in machine.bound.memory_rows.values()]
    # requests, sectors, lines of two warps
    assert rows == [[2, 8, 2], [2, 10, 4], [2, 8, 4]]

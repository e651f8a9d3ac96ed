"""Kernels run through the interpreter, held against the same work done in NumPy."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from support.sass_code import bound, launched, program_of, ran

from dse.errors import DseError
from dse.source.machine.launch import REGION_BITS, LaunchArguments, UnknownArgument, address_of
from dse.source.nvidia.execute.interpret import bind_program
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.profile.characterise import run_sample


def launch(
    kernel: str, *arguments: Any, grid: Any = 4, block: Any = 256, arch: int = 80, **options: Any
) -> Machine:
    """All blocks of a launch of a stored kernel, run."""
    return launched(bound(kernel, arch), grid, block, *arguments, **options)


def total(machine: Machine) -> np.ndarray:
    """[counters, blocks] over all phases."""
    return sum(phase_count for phase_count in machine.phase_counts if phase_count is not None)  # type: ignore[return-value]


def accesses(machine: Machine, opcode: str) -> np.ndarray:
    """(requests, sectors, passes, threads) of the whole launch, over the instructions of one opcode."""
    counts, actual = total(machine), np.zeros(4)
    for index, row in machine.bound.memory_rows.items():
        if machine.program.steps[index].opcode == opcode:
            actual = actual + counts[row : row + 4].sum(axis=1)
    return actual


def warp_instructions(machine: Machine) -> float:
    counts, blocks = total(machine), machine.program.blocks
    return float(sum(len(block.steps) * counts[2 * block.index].sum() for block in blocks))


def places(machine: Machine, opcode: str, argument: int) -> list[np.ndarray]:
    """Bytes from what an argument points to: one array of threads for each execution of an opcode."""
    seen = []
    for stream in machine.streams:
        if machine.program.steps[stream.step].opcode == opcode:
            mask = np.broadcast_to(stream.lanes.mask, machine.shape)
            address = np.broadcast_to(stream.base + stream.offset, machine.shape)[mask]
            if address[0] >> REGION_BITS == argument + 1:
                seen.append(address - address_of(argument))
    return seen


def warps_of(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 32)


def test_loop_whose_length_is_data():
    data = np.arange(1, 1025, dtype=np.int32)
    machine = launch("collatz", data, None)
    trips = []
    for value in data.tolist():
        count = 0
        while value != 1:
            value, count = 3 * value + 1 if value % 2 else value // 2, count + 1
        trips.append(count)
    (actual,) = places(machine, "STG", 1)
    assert actual.tolist() == [4 * count for count in trips]
    counts = total(machine)
    longest = warps_of(np.array(trips)).max(axis=1).sum()
    loop = [b for b in machine.program.blocks if b.index in b.successors and len(b.steps) > 1]
    assert [counts[2 * b.index].sum() for b in loop] == [longest] * len(loop)
    assert [counts[2 * b.index + 1].sum() for b in loop] == [sum(trips)] * len(loop)
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
    sectors = sum(len({(w, n // 8) for n, w in enumerate(warp)}) for warp in word.reshape(-1, 32).tolist())
    assert accesses(machine, "LDL")[[0, 1]].tolist() == [8 * (n + 1), sectors]
    values = np.tile(np.arange(40), (256, 1))
    for k in range(n):
        values[i, (k * 7 + i) % 40] += k
    (actual,) = places(machine, "STG", 1)
    assert actual.tolist() == (4 * values[i, i % 40]).tolist()


@pytest.mark.parametrize("form", ["M88", "MT88"])
def test_matrices_go_through_shared_memory_by_rows(form):
    """Each lane has a row's address and two halves of a row of each matrix, or of a column."""
    machine = ran(
        "S2R R0, SR_TID.X; IMAD R2, R0, 0x20, RZ; IMAD R4, R0, 0x30005, RZ; IMAD R5, R0, 0x50001, RZ",
        f"STSM.16.{form}.2 [R2], R4; LDS.128 R8, [R2]; LDSM.16.{form}.2 R12, [R2]",
        "LDG.E R20, [R8.64]; LDG.E R20, [R10.64]; LDG.E R20, [R12.64]; EXIT",
    )
    lane = np.arange(32)
    words = [lane * factor for factor in (0x30005, 0x50001)]
    halves = np.array([[word & 0xFFFF, word >> 16] for word in words])  # [matrix, half, lane]
    matrices = halves.transpose(0, 2, 1).reshape(2, 8, 8)
    if form == "MT88":
        matrices = matrices.transpose(0, 2, 1)
    stored = np.stack(machine.r[8:12], axis=-1)[0, :16].astype(np.uint32)
    assert stored.view(np.uint16).reshape(2, 8, 8).tolist() == matrices.tolist()
    assert [machine.r[12][0].tolist(), machine.r[13][0].tolist()] == [word.tolist() for word in words]


def test_atomics_give_each_thread_its_turn_and_say_so():
    machine = launch("take_turns", None, np.zeros(4, np.int32), grid=1, block=64)
    (actual,) = places(machine, "STG", 1)
    assert actual.tolist() == [4 * (k + 100) for k in range(64)]
    names = {machine.sources[n] for taint in machine.unknown.values() for n in range(8) if taint >> n & 1}
    assert names == {"what atomic operations return"}


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


def test_predicates_in_bits_of_a_register_are_known_whatever_it_held():
    clear, keep = (f"LOP3.LUT R0, R0, {mask}, !PT" for mask in ("0xfffffffe, RZ, 0xc0", "0x1, RZ, 0xfc"))
    for bit, expected in (("0x1", {"address"}), ("0x2", {"address", "branch"})):
        test = f"LOP3.LUT P1, RZ, R0, {bit}, RZ, 0xc0, !PT; @P1 EXIT; EXIT"
        machine = ran("LDG.E R0, [R2.64]; STS [R0], R9", clear, f"@P0 {keep}", test)
        assert {what for _, what in machine.unknown} == expected


COPY, STORE, LOAD = "LDGSTS.E [R4], [R2.64]", "STS [R4], R9", "LDS R5, [R4]; STS [R5], R9; EXIT"
RUN = "UMOV UR8, 0x40; ULDC.64 UR4, c[0x0][0x160]; UMOV UR6, 0x2; UBLKCP.S.G [UR8], [UR4], UR6"
FILL = "STS [R6{}], R9; IADD3 R6, R6, {}, RZ; IADD3 R8, R8, 0x1, RZ; ISETP.LT.AND P1, PT, R8, 0x40, PT"
FILL += "; @P1 BRA 0x70"
# Instructions behind the first six, and the data of stores, the last aside, that loads ask for.
FED = {
    "a store behind a copy": (f"{COPY}; {STORE}; {LOAD}", {"STS [R4]"}),
    "a copy behind the load": (f"{STORE}; {LOAD.replace('EXIT', COPY)}; EXIT", {"STS [R4]"}),
    "a copy behind a store": (f"{STORE}; {COPY}; {LOAD}", {"LDGSTS"}),
    "one thread stores, all load": (f"{COPY}; @P0 {STORE}; {LOAD}", {"LDGSTS", "STS [R4]"}),
    "a byte of four": (f"{COPY}; STS.U8 [R4], R9; {LOAD}", {"LDGSTS", "STS.U8"}),
    "that byte": (f"{COPY}; STS.U8 [R4], R9; {LOAD.replace('LDS', 'LDS.U8')}", {"STS.U8"}),
    "a store elsewhere": (f"STS [R4+0x1000], R8; {STORE}; {LOAD}", {"STS [R4]"}),
    "before it a store that a load decides on": (
        f"STS [RZ+0x80], R4; {STORE}; LDS R7, [0x80]; STS [R7+0x10], R8; LDS R5, [0x8c]; STS [R5], R9; EXIT",
        {"STS [RZ+0x80]", "STS [R7+0x10]"},
    ),
    "an atomic operation": (f"{STORE}; ATOMS.ADD R7, [R4], R8; {LOAD}", {"STS [R4]", "ATOMS"}),
    "a run of bytes": (f"{STORE}; {RUN}; {LOAD}", {"STS [R4]", "UBLKCP"}),
    "a run of bytes elsewhere": (f"{STORE}; {RUN.replace('0x40', '0x200')}; {LOAD}", {"STS [R4]"}),
    # trips of a loop that are skipped: one of them stored what is loaded, or none of them did
    "a loop that moves": (
        f"{STORE}; {FILL.format('', '0x100')}; LDS R5, [0x2000]; STS [R5], R9; EXIT",
        {"STS [R6]"},
    ),
    "a loop in place": (f"{STORE}; {FILL.format('+0x2000', '0x0')}; {LOAD}", {"STS [R4]"}),
}


@pytest.mark.parametrize(("code", "expected"), FED.values(), ids=FED)
def test_loads_ask_for_the_data_of_stores_where_they_read(code: str, expected: set[str]):
    number = "S2R R4, SR_TID.X; SHF.L.U32 R4, R4, 0x2, RZ; ISETP.EQ.AND P0, PT, R4, RZ, PT"
    made = bind_program(program_of(f"{number}; NOP; MOV R6, RZ; MOV R8, RZ", code))
    machine, _ = run_sample(made, LaunchArguments((2, 1, 1), (32, 1, 1), [None]))
    asked = [step.text for step in machine.program.steps if step.needed and step.stores_shared]
    assert {next(text for text in expected if of.startswith(text)) for of in asked} == expected
    assert ({what for _, what in machine.unknown} == {"address"}) == bool(expected & {"LDGSTS", "UBLKCP"})


def test_endless_loop_ends_in_one_line():
    with pytest.raises(DseError, match=r"spin: still running after 500 basic blocks.*contents of argument 0"):
        launch("spin", None, step_limit=500, loops=LoopPolicy.RUN)


def test_unknown_opcode_is_named():
    with pytest.raises(DseError, match=r"toy: instruction 0x10: opcode: found FROB\.X"):
        program_of("S2R R0, SR_TID.X", "FROB.X R1, R0", "EXIT")


def test_a_call_by_a_pointer_is_named():
    with pytest.raises(DseError, match=r"instruction 0x10 \(CALL.*: found a call that .* by a pointer"):
        ran("MOV R8, RZ", "CALL.REL.NOINC R8, 0x0", "EXIT")


def test_form_that_matters_but_has_no_rule_is_named():
    code = ("S2R R0, SR_TID.X", "HSET2.GT.AND R4, R0, R0, PT", "STG.E [R2.64], R4", "EXIT")
    ran(*code)  # only stored: counted
    code = ("S2R R0, SR_TID.X", "HSET2.GT.AND R2, R0, R0, PT", "STG.E [R2.64], R1", "EXIT")
    with pytest.raises(DseError, match=r"toy: instruction 0x10 \(HSET2.GT.AND R2, R0, R0, PT\)"):
        ran(*code)
    branch = ("HSET2.GT.AND R2, R0, R0, PT", "ISETP.GE.AND P0, PT, R2, RZ, PT", "@P0 BRA 0x40", "NOP", "EXIT")
    machine = ran(*branch)
    assert machine.sources == ["results of HSET2"]  # data as any
    with pytest.raises(DseError, match="IDP"):  # whole numbers
        ran("IDP R2, R2, R0, RZ", *branch[1:])


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


@pytest.mark.parametrize(
    ("meeting", "ends"),
    [
        ("@P0 BAR.ARV R2, 0x40; @!P0 BAR.SYNC 0x3, 0x40", True),
        ("@P0 BAR.ARV 0x3, R5; @!P0 BAR.SYNC R2, R5", True),
        ("@P0 BAR.ARV 0x3, 0x40; @!P0 BAR.SYNC R6, R6", True),  # barrier and count in a register
        ("@P0 BAR.ARV 0x2, 0x40; @!P0 BAR.SYNC R2, 0x40", False),
        ("BAR.SYNC R4, 0x20; NOP", True),  # each warp waits for itself
        ("BAR.SYNC R4, 0x40; NOP", False),  # at barriers 0 and 1
    ],
)
def test_registers_name_barriers(meeting: str, ends: bool):
    warp = "S2R R0, SR_TID.X; SHF.R.U32.HI R4, RZ, 0x5, R0; ISETP.EQ.AND P0, PT, R4, RZ, PT"
    code = (warp, "MOV R2, 0x3; MOV R5, 0x40; MOV R6, 0x400003", meeting, "EXIT")
    with nullcontext() if ends else pytest.raises(DseError, match="wait for others for ever"):
        assert warp_instructions(ran(*code, threads=64)) == 2 * 9


@pytest.mark.parametrize(("least", "stops"), [("0x10", True), ("0x20", False)])
def test_a_guarded_trap_stops_threads_whose_guard_holds(least: str, stops: bool):
    code = f"S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, {least}, PT; @P0 BPT.TRAP 0x1; EXIT"
    with pytest.raises(DseError, match="come to a trap") if stops else nullcontext():
        ran(code)


def test_threads_that_have_ended_are_not_waited_for():
    code = (
        "S2R R0, SR_TID.X; ISETP.GE.AND P0, PT, R0, 0x10, PT; BSSY B0, 0x60; @P0 BRA 0x70; NOP; NOP",
        "BSYNC B0; EXIT",
    )
    machine = ran(*code)
    # sixteen end while the others wait; these then end by themselves
    assert warp_instructions(machine) == 8 + 1


@pytest.mark.parametrize(("address", "here"), [(address_of(0), "ATOM"), (0x400, "LDS")])
def test_atomics_at_generic_addresses_are_done_where_these_lead(address: int, here: str):
    """As of two halves: in global memory at once, in shared memory by a loop, which QSPC leads to."""
    machine = ran(
        f"MOV R2, {address & 0xFFFFFFFF:#x}; MOV R3, {address >> 32:#x}",
        "ATOM.E.ADD.F16x2.RN.STRONG.GPU P0, RZ, [R2.64], R4; @P0 EXIT; QSPC.E.S P0, RZ, [R2]; @!P0 BPT.TRAP",
        "LDS R5, [R2]; EXIT",
    )
    assert accesses(machine, "LDS")[0] == (here == "LDS")
    assert not machine.unknown


def test_atomics_on_different_words_take_turns_apart():
    code = (
        "S2R R0, SR_TID.X; LOP3.LUT R1, R0, 0x1, RZ, 0xc0, !PT; MOV R5, 0x3; ATOMS.ADD R3, [R1.X4], R5",
        "LDS R4, [R3.X4]; EXIT",
    )
    machine = ran(*code, threads=64)
    assert machine.r[3][0].tolist() == [3 * (thread // 2) for thread in range(64)]


def test_blocks_at_other_barriers_come_together():
    code = (
        "S2R R0, SR_CTAID.X; ISETP.NE.AND P0, PT, R0, RZ, PT; @P0 BRA 0x40; BAR.SYNC 0x0",
        "IADD3 R0, R0, 0x1, RZ; BAR.SYNC 0x0; EXIT",
    )
    machine = ran(*code, blocks=2)
    assert {(span.opened, span.closed) for span in machine.phases} == {
        *((-1, 0x30), (0x30, 0x50), (0x50, -1)),  # of the first block
        (-1, 0x50),
    }
    last = machine.program.blocks[-1].index
    assert [index for index, _ in machine.trace].count(last) == 1


@pytest.mark.parametrize(
    ("mask", "slots"), [("", {0: 8, 3: 11, 4: 12, 7: 15}), (", 0x81", {0: 8, 7: 12}), (", 0xc", {2: 8, 3: 9})]
)
def test_loads_of_256_bits_write_a_lower_and_an_upper_half(mask: str, slots: dict[int, int]):
    """The lower half is named last; a mask leaves words out, and the others move up."""
    data, upper = np.arange(100, 108, dtype=np.int32), "R12" if mask != ", 0xc" else "RZ"
    load = ("LDC.64 R2, c[0x0][0x380]", f"LDG.E.ENL2.256 {upper}, R8, [R2.64]{mask}", "MOV R5, RZ")
    stores = [text for slot in slots.values() for text in (f"MOV R4, R{slot}", "STG.E [R4.64], R0")]
    machine = ran(*load, *stores, "EXIT", arch=100, threads=1, arguments=(data,))
    stored = [int(s.base.flat[0]) for s in machine.streams if machine.program.steps[s.step].stores]
    assert stored == [100 + word for word in slots]
    assert accesses(machine, "LDG")[:2].tolist() == [1, 1]

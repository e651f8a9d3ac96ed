"""Loops that are skipped count exactly as if they were run; those that cannot be known are not skipped, or
estimated.
"""

from typing import Any

import numpy as np
import pytest
from support.sass_code import launched, program_of

from dse.errors import DseError
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import bind_program, run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import SassProgram


def totals(machine: Machine) -> dict[tuple[int, int], np.ndarray]:
    """Counts by the barriers that open and close a phase; at the end how often it is passed."""
    actual: dict[tuple[int, int], np.ndarray] = {}
    for phase, counts in zip(machine.phases, machine.phase_counts, strict=True):
        if counts is not None:
            key = (phase.opened, phase.closed)
            actual[key] = actual.get(key, 0) + np.vstack([counts, counts.any(axis=0)])
    return actual


HEAD = ("S2R R0, SR_TID.X", "MOV R8, 0x4", "IMAD.WIDE R2, R0, R8, c[0x0][0x168]", "MOV R4, RZ", "MOV R9, RZ")
START = 16 * len(HEAD)  # address of the loop


def loop(*body: str) -> SassProgram:
    """A loop over R4 = 0, 1, ... up to the first argument. R0 is the thread, R2 its pointer."""
    trip = "IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, c[0x0][0x160], PT"
    return program_of(*HEAD, *body, trip, f"@P0 BRA {START:#x}", "EXIT")


def loop_run(made: SassProgram, trips: int, contents: np.ndarray | None = None, **options: Any) -> Machine:
    """By two warps."""
    return launched(bind_program(made), 1, 64, trips, contents, **options)


def assert_same_counts(first: Machine, second: Machine) -> None:
    actual, expected = totals(first), totals(second)
    assert actual.keys() == expected.keys()
    for phase, counts in expected.items():
        np.testing.assert_array_equal(actual[phase], counts)


def both(trips: int, *body: str, contents: np.ndarray | None = None) -> tuple[Machine, Machine]:
    """A loop skipped and run in full."""
    made = loop(*body)
    first, second = (loop_run(made, trips, contents, loops=way) for way in (LoopPolicy.SKIP, LoopPolicy.RUN))
    assert_same_counts(first, second)
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
        ["BAR.SYNC 0x0", "LDS R6, [R4.X4]", "BAR.SYNC 0x0"],
        ["LDS R6, [R4.X4]", "STG.E [R6], R8", "STS [R4.X4], RZ"],  # memory that holds nothing anywhere
        ["LDS R6, [R0.X4]", "LDS R7, [R6+0x40]", "STS [R0.X4], R8"],  # the same every time but the first
    ],
    ids=lambda body: body[0].split()[0] + str(len(body)),
)
def test_even_loops_are_skipped_exactly(body):
    skipped, full = both(800, *body)
    assert skipped.repeats
    assert len(skipped.trace) < 0.6 * len(full.trace)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (["LOP3.LUT R6, R4, 0x3f, RZ, 0xc0, !PT", "LDS R7, [R6.X4]"], "LOP3: bits that change"),
        (["IADD3 R9, R9, R4, RZ", "LDS R7, [R9]"], "does not change evenly"),
        (["IMAD R6, R4, R4, RZ", "LDS R7, [R6]"], "both factors change"),
        (["IMAD R6, R4, R0, RZ", "LDS R7, [R6.X4]"], "moves on by different distances"),
        (["I2F R6, R4", "F2I.TRUNC.NTZ R6, R6", "LDS R7, [R6.X4]"], "I2F of what changes"),
        (["LDS R7, [R4.X4]", "STS [R7], R8"], "loads from different places"),
        (["LDS R7, [R0.X4]", "LDS R6, [R7]", "STS [R0.X4], R4"], "stores what is loaded again"),
        (
            ["LDS R7, [R0.X4]", "IADD3 R7, R7, 0x4, RZ", "LDS R6, [R7]", "STS [R0.X4], R7"],
            "differs from trip to trip",
        ),
    ],
)
def test_what_cannot_be_known_is_run(body, why):
    skipped, full = both(100, *body)
    assert len(skipped.trace) == len(full.trace)
    assert why in " ".join(skipped.irregular.values())


def test_data_are_not_taken_for_even():
    """The same loop, with contents that are known, even and not, and with some that are not known."""
    body = ["LDG.E R6, [R2.64]", "LDS R7, [R6.X4]", "IADD3 R2, R2, 0x4, RZ"]
    known, _ = both(300, *body, contents=np.arange(400, dtype=np.int32) ** 2 % 397)
    assert not known.repeats
    assert both(300, *body, contents=np.arange(400, dtype=np.int32))[0].repeats
    unknown, _ = both(300, *body)
    assert unknown.repeats
    assert unknown.unknown


NESTED = {
    "another address": ["IMAD R7, R5, 0x100, R4", "LDS R6, [R7.X4]"],
    "a barrier": ["BAR.SYNC 0x0", "LDS R6, [R4.X4]"],
    "a guard of both": ["IADD3 R7, R4, R5, RZ", "ISETP.LT.AND P1, PT, R7, 0x40, PT", "@P1 LDS R6, [R7.X4]"],
    "met once": ["ISETP.EQ.AND P1, PT, R4, R5, PT", "@P1 LDS R6, [R0.X4]"],
    "a product of both": ["IMAD R7, R4, R5, RZ", "LDS R6, [R7.X4]"],
    "bits of both": ["IADD3 R7, R4, R5, RZ", "SHF.R.S32.HI R7, RZ, 0x3, R7", "LDS R6, [R7.X4]"],
}


@pytest.mark.parametrize("bound", ["0x28", "R5"])  # as long each time; a triangle
@pytest.mark.parametrize("body", NESTED.values(), ids=NESTED)
def test_nested_loops_count_exactly(body, bound):
    head = (*HEAD, "MOV R5, RZ")
    around, inside = 16 * len(head), 16 * (len(head) + 1)
    inner = f"IADD3 R4, R4, 0x1, RZ; ISETP.LT.AND P0, PT, R4, {bound}, PT; @P0 BRA {inside:#x}"
    outer = f"IADD3 R5, R5, 0x1, RZ; ISETP.LT.AND P0, PT, R5, c[0x0][0x160], PT; @P0 BRA {around:#x}"
    made = program_of(*head, "MOV R4, RZ", *body, inner, outer, "EXIT")
    skipped, full = (loop_run(made, 24, loops=loops) for loops in (LoopPolicy.ESTIMATE, LoopPolicy.RUN))
    assert_same_counts(skipped, full)
    assert not skipped.estimated
    assert skipped.repeats


GATHER = ["IMAD.WIDE R2, R4, R8, c[0x0][0x168]", "LDG.E R6, [R2.64]", "LEA R6, R0, R6, 0x2", "LDS R7, [R6]"]


def test_loops_whose_addresses_depend_on_data_are_estimated():
    data = 4 * (np.arange(2000, dtype=np.int32) % 7 * 4)
    made = loop(*GATHER)
    actual, full = loop_run(made, 600, data), loop_run(made, 600, data, loops=LoopPolicy.RUN)
    (estimated,) = actual.estimated.values()
    assert estimated.trips > 550
    assert len(actual.trace) < 50
    rows = {actual.program.steps[index].opcode: row for index, row in actual.bound.memory_rows.items()}
    (counts,), (expected,) = totals(actual).values(), totals(full).values()
    passes = counts[rows["LDS"] + 2], expected[rows["LDS"] + 2]
    np.testing.assert_allclose(*passes, rtol=estimated.spread + 1e-9)
    counts[rows["LDS"] + 2] = expected[rows["LDS"] + 2]
    np.testing.assert_array_equal(counts, expected)  # all else is exact
    assert not loop_run(made, 600, data, loops=LoopPolicy.SKIP).estimated


@pytest.mark.parametrize(("trips", "more"), [(500, []), (20, ["BAR.SYNC 0x0", *["MOV R9, RZ"] * 150])])
def test_addresses_of_estimated_trips_follow_the_mean(trips: int, more: list[str]):
    """Threads move on by 400 bytes a trip, more or less. Of few trips with barriers one is executed."""
    data = np.random.default_rng(3).integers(0, 40, 1000).astype(np.int32)
    moved = "IMAD.WIDE R2, R4, R8, c[0x0][0x168]; LDG.E R6, [R2.64]; MOV R10, 0x190; IMAD R6, R4, R10, R6"
    place = "IADD3 R6, R6, R0, RZ; IADD3 R6, P1, R6, c[0x0][0x168], RZ"
    place += "; IADD3.X R7, RZ, c[0x0][0x16c], RZ, P1, !PT; LDG.E.U8 R9, [R6.64]"
    made = loop(moved, place, *more)
    actual, full = loop_run(made, trips, data), loop_run(made, trips, data, loops=LoopPolicy.RUN)
    assert actual.estimated
    step = next(step.index for step in made.steps if step.text.startswith("LDG.E.U8"))

    def places(machine: Machine) -> np.ndarray:
        streams = [stream for stream in machine.streams if stream.step == step]
        return np.concatenate([int(stream.base.flat[0]) + stream.offsets() for stream in streams])

    assert abs(places(actual) - places(full)).max() < 100


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (["ISETP.EQ.AND P1, PT, R6, 0x3, PT", "@P1 LDS R7, [R0.X4]"], "loads from different places"),
        (["IADD3 R9, R9, R6, RZ", "LDS R7, [R9.X4]"], "loads from different places"),
        (["STS [R0.X4], R6", "LDS R7, [R0.X4]", "LDS R7, [R7]"], "stores what is loaded again"),
    ],
    ids=["guard", "what lives on", "store"],
)
def test_data_that_steer_are_not_estimated(body, why):
    data = np.arange(400, dtype=np.int32) % 5 * 4
    made = loop("IMAD.WIDE R2, R4, R8, c[0x0][0x168]", "LDG.E R6, [R2.64]", *body)
    actual, full = (loop_run(made, 400, data, loops=loops) for loops in (LoopPolicy.ESTIMATE, LoopPolicy.RUN))
    assert_same_counts(actual, full)
    assert not actual.estimated
    assert why in " ".join(actual.irregular.values())


@pytest.mark.parametrize(
    "body", [[], ["BAR.SYNC 0x0"], ["LDG.E R6, [R2.64]", "BAR.SYNC 0x0", "LDS R6, [R6]"]]
)
def test_endless_loops_are_proven(body):
    made = bind_program(program_of(*HEAD, *body, f"BRA {START:#x}", "EXIT"))
    with pytest.raises(DseError, match="toy: still running after 1000000000 basic blocks"):
        run(made, LaunchArguments((1, 1, 1), (64, 1, 1), [0, None]), [(0, 0, 0)], step_limit=10**9)

"""Which instructions are evaluated: those that addresses and branches depend on."""

import pytest
from support.sass_code import program_of

from dse.errors import DseError
from dse.source.nvidia.execute.slice import mark_needed

GUARDED = "S2R R0, SR_TID.X; ISETP.EQ.AND P0, PT, R0, RZ, PT; @P0 IMAD.WIDE R2, R0, 0x4, RZ"
UNDER_IT = "FADD R2, R8, R8; " + GUARDED  # the sum goes where the address comes later
PRODUCT = "HMMA.16816.F32 R12, R12, R16, R20; EXIT"
UNIFORM = "UFADD UR4, UR8, UR8; S2R R0, SR_TID.X; ISETP.EQ.AND P0, PT, R0, RZ, PT"
USES = "@P0 R2UR UR4, R0; @UP0 STG.E [UR4.U32], R9"
SPILL = "IADD3 R1, R1, -0x10, RZ; STL [R1], R5; STL [R1+0x4], R6"
PACKED = (
    "FADD R0, R8, R8; ISETP.GT.AND P0, PT, R9, RZ, PT; LOP3.LUT R0, R0, 0xfffffffe, RZ, 0xc0, !PT; "
    "@P0 LOP3.LUT R0, R0, 0x1, RZ, 0xfc, !PT"
)
TESTED = "LOP3.LUT P1, RZ, R0, {}, RZ, 0xc0, !PT; @P1 EXIT; EXIT"
CASES = {
    "addresses, not what is stored": (
        "S2R R0, SR_TID.X; MOV R9, 0x5; IMAD.WIDE R2, R0, 0x4, RZ; FADD R9, R9, R9; STG.E [R2.64], R9; EXIT",
        [0, 2],
    ),
    "an address that is data after it was written again": (
        "S2R R4, SR_TID.X; MOV R5, RZ; STG.E [R4.64], R6; FADD R4, R4, R4; STG.E [R6.64], R4; EXIT",
        [0, 1],
    ),
    "predicated writes do not end what was there": (
        "MOV R4, 0x1; ISETP.EQ.AND P0, PT, R7, RZ, PT; @P0 MOV R4, 0x2; STS [R4], R6; EXIT",
        [0, 1, 2],
    ),
    "guarded work": ("FSETP.GT.AND P0, PT, R7, R8, PT; @P0 FADD R9, R9, R9; STG.E [R2.64], R9; EXIT", []),
    "a guard that ends threads": ("FSETP.GT.AND P0, PT, R7, R8, PT; @P0 EXIT; STG.E [R2.64], R9; EXIT", [0]),
    "a spilled address": (f"{SPILL}; LDL R8, [R1+0x4]; STS [R8], R5; EXIT", [0, 2, 3]),
    "a word at an unknown place": (f"{SPILL}; LDL R8, [R9]; STS [R8], R5; EXIT", [0, 1, 2, 3]),
    "data in shared memory": ("STS [R3], R4; LDS R5, [R6]; FADD R5, R5, R5; STG.E [R8.64], R5; EXIT", []),
    "addresses in shared memory": ("STS [R3], R4; LDS R5, [R6]; STS [R5], R4; EXIT", [0, 1]),
    "round a loop": (
        "MOV R0, RZ; STS [R4], R5; IADD3 R4, R4, R0, RZ; IADD3 R0, R0, 0x1, RZ; "
        "ISETP.LT.AND P0, PT, R9, R8, PT; @P0 BRA 0x10; EXIT",
        [0, 2, 3, 4],
    ),
    "a predicate in a bit of a register": (f"{PACKED}; {TESTED.format('0x1')}", [1, 2, 3, 4]),
    "a bit of the sum that was there": (f"{PACKED}; {TESTED.format('0x2')}", [0, 4]),
    "a predicate and the sum": (f"{PACKED}; {TESTED.format('0x3')}", [0, 1, 2, 3, 4]),
    "such a register as address": (f"{PACKED}; STS [R0], R9; EXIT", [0, 1, 2, 3]),
    # What only threads under a guard want is not wanted before they get it.
    "under one guard": (f"{UNDER_IT}; @P0 STG.E [R2.64], R9; {PRODUCT}", [1, 2, 3]),
    "under another guard": (f"{UNDER_IT}; @!P0 STG.E [R2.64], R9; {PRODUCT}", [0, 1, 2, 3]),
    "a guard written between": (
        f"{UNDER_IT}; ISETP.EQ.AND P0, PT, R9, RZ, PT; @P0 STG.E [R2.64], R9; {PRODUCT}",
        [0, 1, 2, 3, 4],
    ),
    # A warp has a uniform register if a thread wrote it.
    "a vote by the same guard": (f"{UNIFORM}; VOTEU.ANY UP0, P0; {USES}; {PRODUCT}", [1, 2, 3, 4]),
    "a vote by another guard": (f"{UNIFORM}; VOTEU.ANY UP0, P1; {USES}; {PRODUCT}", [0, 1, 2, 3, 4]),
}


def needed(code: str, global_stores: bool = False) -> list[int]:
    """Places of the instructions that are needed."""
    made = program_of(code)
    mark_needed(made, global_stores)
    return [step.index for step in made.steps if step.needed]


def test_a_guard_shows_in_results_that_other_threads_use():
    test, left = "FSETP.GT.AND P0, PT, R7, R8, PT", "@P0 IMAD R9, R5, R5, R5"
    for after, shows in (("@P0 STS [R9], R4", False), ("STS [R9], R4", True), ("@!P0 STS [R9], R4", True)):
        made = program_of(f"{test}; {left}; {after}; EXIT")
        mark_needed(made)
        assert made.steps[1].guard_shows == shows


@pytest.mark.parametrize(("code", "expected"), CASES.values(), ids=CASES)
def test_what_addresses_and_branches_depend_on_is_needed(code: str, expected: list[int]):
    assert needed(code) == expected


def test_global_stores_matter_only_on_request():
    code = "STG.E [R2.64], R4; LDG.E R5, [R2.64]; STS [R5], R4; EXIT"
    assert (needed(code), needed(code, global_stores=True)) == ([1], [0, 1])


def test_guards_that_are_known_anyway_are_said_to_be():
    code = "FSETP.GT.AND P0, PT, R7, R8, PT; @P0 FADD R9, R9, R9; {}STG.E [R2.64], R9; EXIT"
    for more, known in (("", False), ("@P0 EXIT; ", True)):
        made = program_of(code.format(more))
        mark_needed(made)
        assert made.steps[1].guard_known == known


def test_a_branch_must_lead_somewhere():
    with pytest.raises(DseError, match=r"toy: instruction 0x0: branch: found 0x48, expected"):
        program_of("BRA 0x48", "EXIT")

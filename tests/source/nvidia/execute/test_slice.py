"""Which instructions are evaluated."""

import pytest

from dse.errors import DseError
from dse.source.nvidia.execute.slice import mark_needed
from dse.source.nvidia.sass.listing import parse
from dse.source.nvidia.sass.program import SassProgram, program


def toy(*code: str) -> SassProgram:
    lines = [f"        /*{16 * place:04x}*/  {line} ;" for place, line in enumerate(code)]
    return program(parse("\t.target sm_80\n\t.section .text.toy,\n" + "\n".join(lines), "toy.sass")[0])


def needed(*code: str, global_stores: bool = False) -> list[int]:
    """Places of the instructions that are needed."""
    made = toy(*code)
    mark_needed(made, global_stores)
    return [step.index for step in made.steps if step.needed]


def test_stored_values_are_not_needed_addresses_are():
    code = (
        "S2R R0, SR_TID.X",
        "MOV R9, 0x5",
        "IMAD.WIDE R2, R0, 0x4, RZ",
        "FADD R9, R9, R9",
        "STG.E [R2.64], R9",
        "EXIT",
    )
    assert needed(*code) == [0, 2]


def test_the_slice_follows_the_flow():
    # R4 is an address in the first store, and data only after it was written again
    code = (
        "S2R R4, SR_TID.X",
        "MOV R5, RZ",
        "STG.E [R4.64], R6",
        "FADD R4, R4, R4",
        "STG.E [R6.64], R4",
        "EXIT",
    )
    assert needed(*code) == [0, 1]


def test_predicated_writes_do_not_end_what_was_there():
    code = ("MOV R4, 0x1", "ISETP.EQ.AND P0, PT, R7, RZ, PT", "@P0 MOV R4, 0x2", "STS [R4], R6", "EXIT")
    assert needed(*code) == [0, 1, 2]


def test_guards_of_arithmetic_count_only_if_known_anyway():
    code = ("FSETP.GT.AND P0, PT, R7, R8, PT", "@P0 FADD R9, R9, R9", "STG.E [R2.64], R9", "EXIT")
    made = toy(*code)
    mark_needed(made)
    assert not made.steps[0].needed
    assert not made.steps[1].guard_known
    made = toy(*code[:2], "@P0 EXIT", *code[2:])
    mark_needed(made)
    assert made.steps[0].needed
    assert made.steps[1].guard_known


def test_spilled_data_is_not_needed_a_spilled_address_is():
    code = (
        "IADD3 R1, R1, -0x10, RZ",
        "STL [R1], R5",
        "STL [R1+0x4], R6",
        "LDL R8, [R1+0x4]",
        "STS [R8], R5",
        "EXIT",
    )
    assert needed(*code) == [0, 2, 3]


def test_a_word_at_an_unknown_place_may_be_any():
    code = (
        "IADD3 R1, R1, -0x10, RZ",
        "STL [R1], R5",
        "STL [R1+0x4], R6",
        "LDL R8, [R9]",
        "STS [R8], R5",
        "EXIT",
    )
    assert needed(*code) == [0, 1, 2, 3]


def test_shared_memory_matters_if_addresses_are_loaded_from_it():
    code = ("STS [R3], R4", "LDS R5, [R6]", "FADD R5, R5, R5", "STG.E [R8.64], R5", "EXIT")
    assert needed(*code) == []
    code = ("STS [R3], R4", "LDS R5, [R6]", "STS [R5], R4", "EXIT")
    assert needed(*code) == [0, 1]


def test_global_stores_matter_only_on_request():
    code = ("STG.E [R2.64], R4", "LDG.E R5, [R2.64]", "STS [R5], R4", "EXIT")
    assert needed(*code) == [1]
    assert needed(*code, global_stores=True) == [0, 1]


def test_loops_are_followed_round():
    code = (
        "MOV R0, RZ",
        "STS [R4], R5",
        "IADD3 R4, R4, R0, RZ",
        "IADD3 R0, R0, 0x1, RZ",
        "ISETP.LT.AND P0, PT, R9, R8, PT",
        "@P0 BRA 0x10",
        "EXIT",
    )
    assert needed(*code) == [0, 2, 3, 4]


def test_a_branch_must_lead_somewhere():
    with pytest.raises(DseError, match=r"toy: instruction 0x0: branch: found 0x48, expected"):
        toy("BRA 0x48", "EXIT")


def test_what_only_threads_under_a_guard_want_is_not_wanted_before_they_get_it():
    code = (
        "FADD R2, R8, R8",  # the sum goes where the address comes later
        "S2R R0, SR_TID.X",
        "ISETP.EQ.AND P0, PT, R0, RZ, PT",
        "@P0 IMAD.WIDE R2, R0, 0x4, RZ",
        "@P0 STG.E [R2.64], R9",
        "HMMA.16816.F32 R12, R12, R16, R20",
        "EXIT",
    )
    assert needed(*code) == [1, 2, 3]
    under_another = (*code[:4], "@!P0 STG.E [R2.64], R9", *code[5:])
    assert needed(*under_another) == [0, 1, 2, 3]
    written_between = (*code[:4], "ISETP.EQ.AND P0, PT, R9, RZ, PT", *code[4:])
    assert needed(*written_between) == [0, 1, 2, 3, 4]


def test_a_warp_has_a_uniform_register_if_a_thread_wrote_it():
    code = (
        "UFADD UR4, UR8, UR8",
        "S2R R0, SR_TID.X",
        "ISETP.EQ.AND P0, PT, R0, RZ, PT",
        "VOTEU.ANY UP0, P0",
        "@P0 R2UR UR4, R0",
        "@UP0 STG.E [UR4.U32], R9",
        "HMMA.16816.F32 R12, R12, R16, R20",
        "EXIT",
    )
    assert needed(*code) == [1, 2, 3, 4]
    elsewhere = (*code[:3], "VOTEU.ANY UP0, P1", *code[4:])
    assert 0 in needed(*elsewhere)

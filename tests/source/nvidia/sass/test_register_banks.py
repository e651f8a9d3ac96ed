"""Reads of registers: the bubbles that Huerta et al. (Sec. 5.3) measure, and what the reuse cache saves."""

import pytest
from support.sass_code import program_of


@pytest.mark.parametrize(
    ("code", "cycles"),
    [
        ("FFMA R11, R10, R12, R14", [2]),
        ("FFMA R11, R10, R12, R15", [1]),
        ("FFMA R11, R10, R13, R15", [1]),
        ("FFMA R11, R10, R10, R12", [1]),  # one read of R10
        ("FFMA R11, R10, 2, R13", [0]),
        ("IMAD.WIDE R2, R4, R6, R8", [2]),  # and R9
        ("FFMA R0, R10.reuse, R12, R15; FFMA R1, R10, R13, R14", [1, 0]),
        ("FFMA R0, R10.reuse, R12, R15; FFMA R1, R12, R10, R14", [1, 2]),  # at another place
        ("FFMA R0, R10.reuse, R12, R15; MOV R3, 1; FFMA R1, R10, R13, R14", [1, 0, 0]),
    ],
)
def test_cycles_of_reading(code, cycles):
    assert [step.reading for step in program_of(code, "EXIT").steps[:-1]] == cycles

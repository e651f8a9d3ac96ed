"""Operands as nvdisasm prints them."""

import pytest

from dse.source.nvidia.sass.operands import UR, operand


def test_modifiers_of_a_register():
    found = operand("-|R7|.reuse")
    assert (found.kind, found.slot, found.negate, found.absolute) == ("register", 7, True, True)
    assert operand("~R3.reuse").invert
    assert operand("!UP2").negate
    assert operand("R2.H0_H0").part == "H0_H0"


@pytest.mark.parametrize("text", ["0x10", "-0x1", "1", "-1.5e-07", "+INF", "-QNAN", "2.3841857910e-07"])
def test_numbers_keep_their_sign(text):
    found = operand(text)
    assert (found.kind, found.text, found.negate) == ("number", text, False)


def test_addresses_are_sums():
    found = operand("desc[UR4][R2.64+UR8+-0x10]")
    assert found.kind == "address"
    assert found.offset == -16
    assert [base[0] for base in found.bases] == [2, UR + 8]
    assert operand("[R3.X4+0x420]").bases == ((3, 4, False),)
    assert operand("[R0.U32+UR4]").bases == ((0, 1, True), (UR + 4, 1, False))
    assert operand("[RZ]").bases == ()


def test_constants():
    found = operand("-c[0x3][0x10]")
    assert (found.kind, found.bank, found.offset, found.negate) == ("constant", 3, 16, True)
    assert operand("c[0x2][R0+0x18]").slot == 0
    assert operand("c[0x0][RZ]").offset == 0


def test_what_is_nothing_of_these_is_a_name():
    assert operand("SR_CTAID.X").kind == "name"
    assert operand("SB0").kind == "name"

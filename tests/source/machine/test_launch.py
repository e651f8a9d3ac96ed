"""Arguments as they lie in constant memory."""

import numpy as np
import pytest

from dse.errors import DseError
from dse.source.machine.launch import (
    PARAMETERS,
    LaunchArguments,
    TensorMap,
    UnknownArgument,
    address_of,
    constant_bank,
)


def test_arguments_are_aligned_to_their_size():
    launch = LaunchArguments(
        (2, 3, 4), (32, 8, 1), [7, None, np.float64(1.5), -1, np.uint8(3), np.int16(-2), 2.5]
    )
    bank = constant_bank("k", 80, launch)
    words = bank.words
    assert [words[4 * place] for place in range(6)] == [32, 8, 1, 2, 3, 4]
    assert words[0x160] == 7
    assert words[0x168] | words[0x16C] << 32 == address_of(1)
    assert np.uint64(words[0x170] | words[0x174] << 32).view(np.float64) == 1.5
    assert words[0x178] == 2**32 - 1
    assert words[0x17C] == 3 | 0xFFFE << 16
    assert np.uint32(words[0x180]).view(np.float32) == 2.5
    assert bank.owners[0x16C] == 1


@pytest.mark.parametrize(
    ("arch", "block", "grid", "parameters"),
    [(75, 0, 12, 0x160), (90, 0, 12, 0x210), (120, 0x360, 0x370, 0x380)],
)
def test_layout_of_each_architecture(arch, block, grid, parameters):
    words = constant_bank("k", arch, LaunchArguments((5, 1, 1), (64, 1, 1), [9])).words
    assert (words[block], words[grid], words[parameters]) == (64, 5, 9)


def test_offsets_may_be_given():
    launch = LaunchArguments(
        (1, 1, 1), (32, 1, 1), [1, b"\x02\x00\x00\x00\x03\x00\x00\x00"], offsets=[0x170, 0x160]
    )
    words = constant_bank("k", 80, launch).words
    assert (words[0x170], words[0x160], words[0x164]) == (1, 2, 3)


def test_unknown_arguments_have_an_owner():
    bank = constant_bank("k", 80, LaunchArguments((1, 1, 1), (32, 1, 1), [UnknownArgument(2), True, 4]))
    assert bank.owners == {0x160: 0, 0x161: 0, 0x162: 1, 0x164: 2, 0x165: 2, 0x166: 2, 0x167: 2}


def test_what_cannot_be_passed_is_an_error():
    with pytest.raises(DseError, match="k: argument 0: found 'text', expected"):
        constant_bank("k", 80, LaunchArguments((1, 1, 1), (32, 1, 1), ["text"]))
    with pytest.raises(DseError, match="found 4294967296"):
        constant_bank("k", 80, LaunchArguments((1, 1, 1), (32, 1, 1), [2**32]))
    with pytest.raises(DseError, match="k: architecture: found sm_60, expected sm_70 or newer"):
        constant_bank("k", 60, LaunchArguments((1, 1, 1), (32, 1, 1)))


def test_a_tensor_map_takes_128_bytes_and_its_address_is_known():
    tensor = TensorMap(2, (256, 64), (64, 1), (64, 64))
    bank = constant_bank("k", 90, LaunchArguments((1, 1, 1), (32, 1, 1), [tensor, 7, tensor]))
    assert [bank.owners.get(offset) for offset in (0x23C, 0x240, 0x2BC, 0x2C0, 0x300)] == [None, 0, 0, 1, 2]
    assert bank.words[0x198] | bank.words[0x19C] << 32 == PARAMETERS
    assert 0x198 not in constant_bank("k", 80, LaunchArguments((1, 1, 1), (32, 1, 1))).words

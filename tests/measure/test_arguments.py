"""What arrays hold, when they are made again, and how numbers are packed."""

from dataclasses import replace

import numpy as np

from dse.measure.arguments import Arguments, contents
from dse.measure.device import Device
from dse.measure.reference import REFERENCES
from dse.source.launches import Array


class Memory(Device):
    """An address is the number of an allocation."""

    def __init__(self) -> None:
        self.count, self.held = 0, dict[int, np.ndarray]()

    def allocate(self, size: int) -> int:
        self.count += 1
        self.held[self.count] = np.empty(size, np.uint8)
        return self.count

    def free(self, address: int) -> None:
        del self.held[address]

    def upload(self, address: int, values: np.ndarray) -> None:
        self.held[address][: values.nbytes] = values.view(np.uint8)


def counts(by: int, size: int = 4) -> Array:
    return Array(size, "int32", "index * by", (("by", by),))


def arguments(device: Memory) -> Arguments:
    return Arguments(device, ("triton_moe", (("N", 1),)))


def test_what_arrays_hold():
    checks = REFERENCES["dedispersion"]
    data = contents(Array(1000, "float32", "", ()), 0, checks)
    assert (data.dtype, len(data), len(np.unique(data)) > 200) == (np.uint8, 1000, True)
    assert not contents(Array(10, "float32", "", ()), 1, checks).any()
    stated = contents(Array(5, "float32", "2 * index + first", (("first", 3),)), 2, checks)
    assert stated.tolist() == [3, 5, 7, 9, 11]
    for kind in ("float16", "bfloat16", "float8_e4m3fn"):  # of both signs
        values = contents(Array(5000, kind, "", ()), 0, REFERENCES["triton_matmul"])
        numbers = values.astype(float)
        assert values.dtype.name == kind
        assert (abs(numbers.mean()) < 0.1, abs(numbers.std() - 1) < 0.1) == (True, True)


def test_what_an_expression_gives_is_made_anew_random_numbers_are_not():
    device = Memory()
    ours = arguments(device)
    address = ours.array(3, counts(2))
    assert device.held[address].view(np.int32).tolist() == [0, 2, 4, 6]
    assert ours.array(3, counts(3)) == address
    assert device.held[address].view(np.int32).tolist() == [0, 3, 6, 9]
    assert ours.before[3].tolist() == [0, 3, 6, 9]
    longer = ours.array(3, counts(1, 9))
    assert list(device.held) == [longer]
    assert ours.array(3, counts(1, 2)) == longer
    assert device.held[longer].view(np.int32).tolist() == [0, 1, *range(2, 9)]
    assert ours.before[3].tolist() == [0, 1]
    device = Memory()
    ours = arguments(device)
    random = Array(8, "float16", "", ())
    address = ours.array(0, random)
    before = ours.before[0]
    assert ours.array(0, replace(random, size=5)) == address
    assert ours.before[0] is before
    assert ours.array(1, random) != address
    ours.free()
    assert not device.held

"""Arguments of a kernel's launch: filled arrays on the GPU, numbers, tensor maps."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes  # noqa: F401  # registers bfloat16 and 8-bit floats with NumPy
import numpy as np

from dse.errors import DseError
from dse.measure.checking import Reference
from dse.measure.device import Argument, Device, LoadedCode
from dse.measure.reference import REFERENCES
from dse.source.contract import Failure, Passed
from dse.source.launches import Argument as Given
from dse.source.launches import Array, Configuration, Descriptor
from dse.source.nvidia.compile.contract import Compiled


@dataclass(frozen=True)
class TimingJob:
    """A configuration to time, with the compiler's outcome."""

    kernel: str
    parameters: Mapping[str, int | float]
    sizes: Mapping[str, int | float]
    configuration: Configuration
    outcome: Compiled | Failure

    @property
    def names(self) -> dict[str, int | float]:
        """Problem sizes and parameters, by name."""
        return {**self.sizes, **self.parameters}

    @property
    def case(self) -> tuple[str, tuple[Any, ...]]:
        """The kernel and its problem sizes, which determine its arrays."""
        return self.kernel, tuple(self.sizes.items())


_SCRATCH = -1  # index of the compiler's scratch memory, which is no argument
_NORMAL = 2**22 + 15  # random numbers that longer arrays repeat: odd, so that rows differ
# Triton's name: NumPy's.
_CALLED = {f"fp{bits}": f"float{bits}" for bits in (16, 32, 64)} | {"bf16": "bfloat16"}
_CALLED |= {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}


class Arguments:
    """The arguments of launches of one kernel with its problem sizes, `job.case`.

    Arrays stay on the GPU from one configuration to the next.
    """

    def __init__(self, device: Device, case: tuple[str, tuple[Any, ...]]) -> None:
        self.device, self.case = device, case
        self.checks = REFERENCES[case[0]]
        self.given: dict[int, Array] = {}  # by the argument's index
        self.before: dict[int, np.ndarray] = {}  # contents of arrays before a launch
        self.addresses: dict[int, tuple[int, int]] = {}  # addresses and sizes in bytes
        self.constants: dict[str, np.ndarray] = {}

    def free(self) -> None:
        """Free all arrays."""
        while self.addresses:
            self.device.free(self.addresses.popitem()[1][0])

    def of(self, job: TimingJob, outcome: Compiled, code: LoadedCode) -> list[Argument]:
        """Return the value of each parameter of the code, and fill `__constant__` variables.

        **Raises:** DseError if code and arguments do not fit.
        """
        for order, (name, elements) in enumerate(self.checks.constants.items()):
            if name not in self.constants:
                random = np.random.default_rng(1000 + order).random(elements(job.names), np.float32)
                self.constants[name] = random
            address, size = self.device.constant(code, name)
            values = self.constants[name]
            if size != values.nbytes:
                raise DseError(f"{job.kernel}: {name}: found {size} B, expected {values.nbytes} B")
            self.device.upload(address, values)
        arguments, launched = job.configuration.arguments, outcome.launched
        sizes = [parameter.size for parameter in outcome.binary.parameters]
        passed = launched.passed if launched else None
        if passed is None:
            passed = tuple(map(Passed, range(len(arguments))))
        if len(passed) != len(sizes):
            raise DseError(f"{job.kernel}: arguments: found {len(passed)}, expected {len(sizes)}")
        scratch = self.scratch((launched.scratch_bytes if launched else 0) * prod(job.configuration.grid))
        return [
            np.uint64(scratch)
            if passed_value.argument is None
            else self.argument(passed_value, passed_value.argument, arguments[passed_value.argument], size)
            for passed_value, size in zip(passed, sizes, strict=True)
        ]

    def argument(self, passed: Passed, index: int, value: Given, size: int) -> Argument:
        """Return an address, a number of `size` bytes, a tensor map, or a part of one."""
        if isinstance(value, Array):
            return self.array(index, value)
        if not isinstance(value, Descriptor):
            return number(value, size)
        kind = np.dtype(_CALLED.get(value.type, value.type))
        match passed.part:
            case "shape":
                return number(value.shape[passed.axis], size)
            case "stride":
                return number(value.strides[passed.axis], size)
            case "flag":
                return number(0, size)
        address = self.array(index, Array(prod(value.shape), kind.name, "", ()))
        if passed.part == "pointer":
            return address
        strides = [stride * kind.itemsize for stride in value.strides]
        return self.device.tensor_map(address, kind.name, value.shape, strides, passed.box, passed.swizzle)

    def array(self, index: int, described: Array) -> int:
        """Return the address of an array with its contents."""
        before = self.given.get(index)
        # Random numbers of a larger array serve a smaller one.
        enough = before is not None and not described.values and described.size <= before.size
        if before != described and not enough:
            values = contents(described, index, self.checks)
            self.device.upload(self.room(index, values.nbytes), values)
            self.given[index], self.before[index] = described, values
        return self.addresses[index][0]

    def scratch(self, size: int) -> int:
        """Return the address of the compiler's scratch memory; 0 if it needs none."""
        return self.room(_SCRATCH, size) if size else 0

    def room(self, index: int, size: int) -> int:
        """Return the address of `size` bytes or more, allocated if needed."""
        if index in self.addresses and self.addresses[index][1] < size:
            self.device.free(self.addresses.pop(index)[0])
        if index not in self.addresses:
            self.addresses[index] = (self.device.allocate(size), size)
        return self.addresses[index][0]


def number(value: Any, size: int) -> Argument:
    """Pack a number as a parameter of `size` bytes."""
    if isinstance(value, float):
        return np.array([value], f"f{size}")
    return np.frombuffer(int(value).to_bytes(size, "little", signed=int(value) < 0), np.uint8)


def contents(array: Array, index: int, checks: Reference) -> np.ndarray:
    """Make an array's contents before a launch: those of the kernel.toml, else random; an output is 0.

    Floats are uniform from 0 up to 1; those of 16 or 8 bits normal, of mean 0 and deviation 1.
    """
    random = np.random.default_rng(index)
    kind = np.dtype(checks.types.get(index, array.type))
    if index == checks.output and not checks.adds:
        return np.zeros(array.size, kind)
    if array.values:
        return array.contents(index, kind)
    if kind.kind not in "iub" and kind.itemsize < 4:  # operands of tensor cores: of both signs
        return np.resize(
            random.standard_normal(min(array.size, _NORMAL), np.float32).astype(kind), array.size
        )
    if kind.kind == "f":
        return random.random(array.size, np.float32).astype(kind, copy=False)
    return random.integers(0, min(np.iinfo(kind).max, 2**31 - 1), array.size, kind, endpoint=True)

"""Arguments of a kernel's launch: filled arrays on the GPU, numbers, tensor maps."""

from math import prod
from typing import Any

import ml_dtypes  # noqa: F401  # NumPy knows bfloat16 and the floats of 8 bits by it
import numpy as np

from dse.core.space.expression import parse
from dse.errors import DseError
from dse.measure.checking import Reference
from dse.measure.device import Argument, Device, LoadedCode
from dse.measure.job import TimingJob
from dse.measure.reference import REFERENCES
from dse.source.contract import Passed
from dse.source.launches import Argument as Given
from dse.source.launches import Array, Descriptor
from dse.source.nvidia.compile.contract import Compiled

_SCRATCH = -1  # in the place of an argument's
_AT_A_TIME = 2**20  # elements
_NORMAL = 2**22 + 15  # random numbers that longer arrays repeat: odd, so that rows differ
_CALLED = {f"fp{bits}": f"float{bits}" for bits in (16, 32, 64)} | {"bf16": "bfloat16"}  # by Triton: by NumPy
_CALLED |= {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}


class Arguments:
    """The arguments of launches of one kernel with its problem sizes, `job.case`.

    Arrays stay on the GPU from one configuration to the next.
    """

    def __init__(self, device: Device, case: tuple[str, tuple[Any, ...]]) -> None:
        self.device, self.case = device, case
        self.checks = REFERENCES[case[0]]
        self.given: dict[int, Array] = {}  # by the argument's place
        self.before: dict[int, np.ndarray] = {}  # what arrays held before a launch
        self.addresses: dict[int, tuple[int, int]] = {}  # and bytes
        self.constants: dict[str, np.ndarray] = {}

    def free(self) -> None:
        """Free all arrays."""
        while self.addresses:
            self.device.free(self.addresses.popitem()[1][0])

    def of(self, job: TimingJob, made: Compiled, code: LoadedCode) -> list[Argument]:
        """Return what each parameter of the code takes; `__constant__` variables are filled.

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
        arguments, sizes = (
            job.configuration.arguments,
            [parameter.size for parameter in made.binary.parameters],
        )
        launched = made.launched
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

    def argument(self, passed: Passed, place: int, value: Given, size: int) -> Argument:
        """Return an address, a number of this many bytes, a tensor map, or a part of one."""
        if isinstance(value, Array):
            return self.array(place, value)
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
        address = self.array(place, Array(prod(value.shape), kind.name, "", ()))
        if passed.part == "pointer":
            return address
        strides = [stride * kind.itemsize for stride in value.strides]
        return self.device.tensor_map(address, kind.name, value.shape, strides, passed.box, passed.swizzle)

    def array(self, place: int, described: Array) -> int:
        """Return the address of an array that holds what it should."""
        before = self.given.get(place)
        enough = (
            before is not None and not described.values and described.size <= before.size
        )  # random numbers
        if before != described and not enough:
            values = contents(described, place, self.checks)
            self.device.upload(self.room(place, values.nbytes), values)
            self.given[place], self.before[place] = described, values
        return self.addresses[place][0]

    def scratch(self, size: int) -> int:
        """Return the address of memory of the compiler's own; 0 where it asks for none."""
        return self.room(_SCRATCH, size) if size else 0

    def room(self, place: int, size: int) -> int:
        """Return an address with room for this many bytes."""
        if place in self.addresses and self.addresses[place][1] < size:
            self.device.free(self.addresses.pop(place)[0])
        if place not in self.addresses:
            self.addresses[place] = (self.device.allocate(size), size)
        return self.addresses[place][0]


def number(value: Any, size: int) -> Argument:
    """Pack a number as a parameter of this many bytes."""
    if isinstance(value, float):
        return np.array([value], f"f{size}")
    return np.frombuffer(int(value).to_bytes(size, "little", signed=int(value) < 0), np.uint8)


def contents(array: Array, place: int, checks: Reference) -> np.ndarray:
    """Make what an array holds before a launch: as its kernel.toml says, else random; an output 0.

    Floats are uniform from 0 up to 1; those of 16 or 8 bits normal, of mean 0 and deviation 1.
    """
    random = np.random.default_rng(place)
    kind = np.dtype(checks.types.get(place, array.type))
    if place == checks.output and not checks.adds:
        return np.zeros(array.size, kind)
    if array.values:
        expression, values = parse(array.values, "values"), np.empty(array.size, kind)
        for first in range(0, array.size, _AT_A_TIME):
            index = np.arange(first, min(first + _AT_A_TIME, array.size))
            names = {**dict(array.names), "index": index, "random": random.random(len(index))}
            values[first : first + len(index)] = expression(names, np)
        return values
    if kind.kind not in "iub" and kind.itemsize < 4:  # what tensor cores take: of both signs
        return np.resize(
            random.standard_normal(min(array.size, _NORMAL), np.float32).astype(kind), array.size
        )
    if kind.kind == "f":
        return random.random(array.size, np.float32).astype(kind, copy=False)
    return random.integers(0, min(np.iinfo(kind).max, 2**31 - 1), array.size, kind, endpoint=True)

"""One configuration of a kernel on a GPU: loaded, launched, checked, timed.

The caches are warm, as where a kernel is launched again and again: a launch that is checked and one more come
before those that are timed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

import numpy as np

from dse.cuda.compile.nvrtc import Compiled, Failure
from dse.cuda.source import Array, Configuration
from dse.errors import DseError
from dse.measure import reference
from dse.measure.bench import benchmarks
from dse.measure.device import Argument, Code, Device, DeviceError
from dse.measure.reference import REFERENCES, CheckedLaunch, Reference
from dse.measure.statistics import repeat, variation
from dse.space.expression import parse

Row = dict[str, Any]

_STATUS = {  # of a failure to compile
    "compile error": "compile",
    "too much shared memory": "resources",
    "too much local memory": "resources",
}
_SHORT_MS = 0.2  # shorter kernels are timed several at a time: the driver's clock has half a microsecond
_CLOCK_NS = 200_000
_WARP = 32
_AT_A_TIME = 2**20  # elements


@dataclass(frozen=True)
class TimingSettings:
    """How often, and how long at most, a configuration is timed."""

    repeats: int = 7
    tolerance: float = 0.01
    seconds: float = 0.5
    sweep: bool = False  # step by step fewer blocks on an SM


@dataclass(frozen=True)
class TimingJob:
    """A configuration that is to be timed, and what the compiler made of it."""

    kernel: str
    parameters: Mapping[str, int | float]
    sizes: Mapping[str, int | float]
    configuration: Configuration
    made: Compiled | Failure

    @property
    def names(self) -> dict[str, int | float]:
        """Problem sizes and parameters, by name."""
        return {**self.sizes, **self.parameters}


@dataclass
class Arrays:
    """The arrays that a kernel's arguments point to: on the GPU, and as they were before a launch."""

    kernel: str
    addresses: dict[int, tuple[int, int]] = field(default_factory=dict)  # place → address, bytes
    before: dict[int, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    expected: dict[tuple[Any, ...], np.ndarray] = field(default_factory=dict)


def refused(made: Failure) -> Row:
    """Make the row of a configuration that does not compile."""
    return {"status": _STATUS.get(made.reason, "compile"), "message": made.message}


class TimingBench:
    """A GPU on which configurations are timed, one after another."""

    def __init__(self, device: Device, settings: TimingSettings) -> None:
        self.device, self.settings = device, settings
        self.arrays: Arrays | None = None
        tick = benchmarks.compiled((benchmarks.TICK, device.arch))
        assert isinstance(tick, Compiled), tick
        self.tick = device.load(tick.cubin, tick.binary.kernel)
        self.times = device.allocate(4 * 8)
        self.warps = device.attribute("MAX_THREADS_PER_MULTIPROCESSOR") // _WARP

    def busy(self, nanoseconds: int) -> None:
        """Keep one SM busy for so long."""
        self.device.launch(self.tick, (1, 1, 1), (1, 1, 1), [self.times, np.int64(nanoseconds)])

    def clock(self) -> float:
        """Measure the MHz of an SM now."""
        self.busy(_CLOCK_NS)
        start, end, _, nanoseconds = self.device.download(self.times, np.empty(4, np.int64))
        return round(1e3 * float(end - start) / max(float(nanoseconds), 1.0), 1)

    def rows(self, job: TimingJob) -> Iterator[Row]:
        """Time a configuration; of a sweep, a row for each number of blocks on an SM, most first.

        **Raises:** DeviceError if the GPU can no longer be used by this process; what failed is to be told
        from it.
        """
        if isinstance(job.made, Failure):
            yield refused(job.made)
            return
        binary, threads = job.made.binary, prod(job.configuration.block)
        base = {
            "registers": binary.registers,
            "spill_bytes": job.made.spill_bytes,
            "local_bytes": binary.stack_bytes,
            "shared_bytes": binary.shared_bytes + (job.configuration.shared_bytes or 0),
            "threads": threads,
            "blocks": prod(job.configuration.grid),
        }
        code = None
        try:
            code = self.device.load(job.made.cubin, binary.kernel)
            arguments = self.prepared(job, job.made, code)
            for dynamic in self.steps(job, code):
                yield {**base, **self.timed(job, code, arguments, dynamic)}
        except DeviceError as error:
            if error.lost:
                raise
            status = "runtime" if error.code == "CUDA_ERROR_NOT_FOUND" else "resources"
            yield {**base, "status": status, "message": str(error)}
        finally:
            if code is not None:
                try:
                    self.device.unload(code)
                except DeviceError as error:
                    if not error.lost:
                        raise

    def steps(self, job: TimingJob, code: Code) -> list[int]:
        """List the dynamic shared memory of the launches: what is needed; of a sweep, also more."""
        device, threads = self.device, prod(job.configuration.block)
        needed = job.configuration.shared_bytes or 0
        most = device.resident_blocks(code, threads, needed)
        steps = [needed]
        if not self.settings.sweep:
            return steps
        whole = device.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")
        reserved = device.attribute("RESERVED_SHARED_MEMORY_PER_BLOCK")
        assert isinstance(job.made, Compiled)
        static = job.made.binary.shared_bytes
        limit = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - static
        for blocks in range(most - 1, 0, -1):
            size = min(limit, (whole // blocks - reserved - static) // 128 * 128)
            if size > needed:
                device.allow_dynamic_shared(code, size)
                if device.resident_blocks(code, threads, size) == blocks:
                    steps.append(size)
        return steps

    def timed(self, job: TimingJob, code: Code, arguments: list[Argument], dynamic: int) -> Row:
        """Check and time a configuration with so much dynamic shared memory."""
        device, configuration = self.device, job.configuration
        threads, settings = prod(configuration.block), self.settings
        resident = device.resident_blocks(code, threads, dynamic)
        row: Row = {
            "dynamic_shared_bytes": dynamic,
            "resident_blocks": resident,
            "occupancy": resident * -(-threads // _WARP) / self.warps,
        }
        if resident == 0:
            return {**row, "status": "resources", "message": "no block fits on an SM"}

        launch = device.launching(code, configuration.grid, configuration.block, arguments, dynamic)
        self.reset(job)
        launch()
        device.synchronize()
        problem = self.checked(job)
        if problem:
            return {**row, "status": "correctness", "message": problem}
        row["sm_clock_before_mhz"] = self.clock()

        def milliseconds(times: int) -> float:
            def several() -> None:
                for _ in range(times):
                    launch()

            return device.milliseconds(several, times, self.busy) / times

        together = min(100, max(1, ceil(_SHORT_MS / max(milliseconds(1), 1e-3))))
        repeats = repeat(
            lambda: milliseconds(together),
            tolerance=settings.tolerance,
            least=min(5, settings.repeats),
            most=settings.repeats,
            seconds=settings.seconds,
        )
        row["sm_clock_after_mhz"] = self.clock()
        return {
            **row,
            "status": "ok",
            "time_ms": repeats.middle,
            "min_ms": min(repeats.values),
            "cv": variation(repeats.values),
            "repeats": len(repeats.values),
            "settled": repeats.settled,
        }

    # Arguments

    def prepared(self, job: TimingJob, made: Compiled, code: Code) -> list[Argument]:
        """Prepare the arguments of a launch; arrays are made, or made larger, where there are none yet."""
        if self.arrays is None or self.arrays.kernel != job.kernel:
            for address, _ in self.arrays.addresses.values() if self.arrays else ():
                self.device.free(address)
            self.arrays = Arrays(job.kernel)
        checks = REFERENCES[job.kernel]
        for order, (name, elements) in enumerate(checks.constants.items()):
            if name not in self.arrays.constants:
                random = np.random.default_rng(1000 + order).random(elements(job.names), np.float32)
                self.arrays.constants[name] = random
            address, size = self.device.constant(code, name)
            values = self.arrays.constants[name]
            if size != values.nbytes:
                raise DseError(f"{job.kernel}: {name}: found {size} B, expected {values.nbytes} B")
            self.device.upload(address, values)
        given, sizes = job.configuration.arguments, [parameter.size for parameter in made.binary.parameters]
        if len(given) != len(sizes):
            raise DseError(f"{job.kernel}: arguments: found {len(given)}, expected {len(sizes)}")
        return [
            self.array(position, argument, job, checks)
            if isinstance(argument, Array)
            else number(argument, size)
            for position, (argument, size) in enumerate(zip(given, sizes, strict=True))
        ]

    def array(self, place: int, given: Array, job: TimingJob, checks: Reference) -> int:
        """Find the address of an array that holds what it should."""
        assert self.arrays is not None
        known = self.arrays.addresses.get(place)
        values = self.arrays.before.get(place)
        if values is None or len(values) < given.size:
            values = self.arrays.before[place] = contents(given, place, checks)
        if known is None or known[1] < values.nbytes:
            if known is not None:
                self.device.free(known[0])
            known = self.arrays.addresses[place] = (self.device.allocate(values.nbytes), values.nbytes)
            self.device.upload(known[0], values)
        return known[0]

    def reset(self, job: TimingJob) -> None:
        """Put the output back as it was before any launch."""
        assert self.arrays is not None
        checks = REFERENCES[job.kernel]
        address, size = self.arrays.addresses[checks.output]
        if checks.adds:
            self.device.upload(address, self.arrays.before[checks.output])
        else:
            self.device.zero(address, size)

    def checked(self, job: TimingJob) -> str:
        """Tell what is wrong with the output at the places that are looked at; "" if nothing is."""
        arrays, checks = self.arrays, REFERENCES[job.kernel]
        assert arrays is not None
        at = reference.places(checks.size(job.names))
        of = tuple(job.names[name] for name in checks.depends)
        if of not in arrays.expected:
            arrays.expected[of] = checks.expected(
                CheckedLaunch(job.names, arrays.before, arrays.constants, at)
            )
        expected = arrays.expected[of]
        address, _ = arrays.addresses[checks.output]
        values = arrays.before[checks.output]
        output = self.gathered(address, values.dtype, at)
        index = reference.wrong(output, expected, checks.tolerance)
        if index is None:
            return ""
        return f"element {at[index]}: found {output[index]:.6g}, expected {expected[index]:.6g}"

    def gathered(self, address: int, kind: np.dtype, at: np.ndarray) -> np.ndarray:
        """Read elements of an array on the GPU; neighbours come together."""
        pieces = np.split(at, np.flatnonzero(np.diff(at) != 1) + 1)
        parts = [
            self.device.download(address + int(piece[0]) * kind.itemsize, np.empty(len(piece), kind))
            for piece in pieces
        ]
        return np.concatenate(parts)


def number(value: Any, size: int) -> Argument:
    """Pack a number as a parameter of so many bytes."""
    if isinstance(value, float):
        return np.array([value], f"f{size}")
    return np.frombuffer(int(value).to_bytes(size, "little", signed=int(value) < 0), np.uint8)


def contents(given: Array, place: int, checks: Reference) -> np.ndarray:
    """Make what an array holds before a launch: as its kernel.toml says, else random; an output 0."""
    random = np.random.default_rng(place)
    kind = np.dtype(checks.types.get(place, given.type))
    if place == checks.output and not checks.adds:
        return np.zeros(given.size, kind)
    if given.values:
        expression, values = parse(given.values, "values"), np.empty(given.size, kind)
        for first in range(0, given.size, _AT_A_TIME):
            index = np.arange(first, min(first + _AT_A_TIME, given.size))
            names = {**dict(given.names), "index": index, "random": random.random(len(index))}
            values[first : first + len(index)] = expression(names, np)
        return values
    if kind.kind == "f":
        return random.random(given.size, np.float32).astype(kind, copy=False)
    return random.integers(0, min(np.iinfo(kind).max, 2**31 - 1), given.size, kind, endpoint=True)

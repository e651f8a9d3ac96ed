"""One configuration of a kernel on a GPU: loaded, launched, checked, timed.

The caches are warm, as for a kernel that is launched repeatedly: a checked launch and one more precede the
timed ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import numpy as np

from dse.measure import checking
from dse.measure.arguments import Arguments, TimingJob
from dse.measure.bench import benchmarks
from dse.measure.checking import CheckedLaunch
from dse.measure.device import Argument, Device, DeviceError, LoadedCode
from dse.measure.statistics import repeat, variation
from dse.source.contract import Failure
from dse.source.nvidia.arguments import as_launched
from dse.source.nvidia.compile.contract import Compiled

Row = dict[str, Any]

_STATUS = {  # of compilation failures
    "compile error": "compile",
    "too much shared memory": "resources",
    "too much local memory": "resources",
}
_SHORT_MS = 0.2  # shorter kernels are timed several at a time: the driver's clock resolves half a microsecond
_CLOCK_NS = 200_000
_WARP = 32


@dataclass(frozen=True)
class TimingSettings:
    """Repeats and time limit of timing a configuration."""

    repeats: int = 7
    tolerance: float = 0.01
    seconds: float = 0.5
    sweep: bool = False  # with fewer and fewer blocks on an SM


def refused(failure: Failure) -> Row:
    """Make the row of a configuration that does not compile."""
    return {"status": _STATUS.get(failure.reason, "compile"), "message": failure.message}


class TimingBench:
    """A GPU on which configurations are timed, one after another."""

    def __init__(self, device: Device, settings: TimingSettings) -> None:
        self.device, self.settings = device, settings
        self.arguments: Arguments | None = None
        self.expected: dict[tuple[Any, ...], np.ndarray] = {}
        tick = benchmarks.compiled((benchmarks.TICK, device.arch))
        assert isinstance(tick, Compiled), tick
        self.tick = device.load(tick.cubin, tick.binary.kernel)
        self.times = device.allocate(4 * 8)
        self.warps = device.attribute("MAX_THREADS_PER_MULTIPROCESSOR") // _WARP

    def busy(self, nanoseconds: int) -> None:
        """Keep one SM busy for this time."""
        self.device.launch(self.tick, (1, 1, 1), (1, 1, 1), [self.times, np.int64(nanoseconds)])

    def clock(self) -> float:
        """Measure the current MHz of an SM."""
        self.busy(_CLOCK_NS)
        start, end, _, nanoseconds = self.device.download(self.times, np.empty(4, np.int64))
        return round(1e3 * float(end - start) / max(float(nanoseconds), 1.0), 1)

    def rows(self, job: TimingJob) -> Iterator[Row]:
        """Time a configuration; in a sweep, yield a row for each number of blocks on an SM, most first.

        **Raises:** DeviceError if this process can no longer use the GPU.
        """
        outcome = job.outcome
        if isinstance(outcome, Failure):
            yield refused(outcome)
            return
        arguments = job.configuration.arguments  # of the kernel, not of its code
        job = replace(
            job, configuration=replace(as_launched(outcome, job.configuration), arguments=arguments)
        )
        binary, threads = outcome.binary, prod(job.configuration.block)
        base = {
            "registers": binary.registers,
            "spill_bytes": outcome.spill_bytes,
            "local_bytes": binary.stack_bytes,
            "shared_bytes": binary.shared_bytes + (job.configuration.shared_bytes or 0),
            "threads": threads,
            "blocks": prod(job.configuration.grid),
        }
        code = None
        try:
            code = self.device.load(outcome.cubin, binary.kernel)
            if job.configuration.shared_bytes:
                self.device.allow_dynamic_shared(code, job.configuration.shared_bytes)
            packed = self.arguments_of(job).of(job, outcome, code)
            for dynamic in self.steps(job, code):
                yield {**base, **self.timed(job, code, packed, dynamic)}
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

    def steps(self, job: TimingJob, code: LoadedCode) -> list[int]:
        """List the dynamic shared memory of the launches: as needed; in a sweep, also more."""
        device, threads = self.device, prod(job.configuration.block)
        needed = job.configuration.shared_bytes or 0
        most = device.resident_blocks(code, threads, needed)
        steps = [needed]
        if not self.settings.sweep:
            return steps
        of_sm = device.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")
        reserved = device.attribute("RESERVED_SHARED_MEMORY_PER_BLOCK")
        assert isinstance(job.outcome, Compiled)
        static = job.outcome.binary.shared_bytes
        limit = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - static
        for blocks in range(most - 1, 0, -1):
            size = min(limit, (of_sm // blocks - reserved - static) // 128 * 128)
            if size > needed:
                device.allow_dynamic_shared(code, size)
                if device.resident_blocks(code, threads, size) == blocks:
                    steps.append(size)
        return steps

    def timed(self, job: TimingJob, code: LoadedCode, arguments: list[Argument], dynamic: int) -> Row:
        """Check and time a configuration with `dynamic` bytes of dynamic shared memory."""
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

    # Results

    def arguments_of(self, job: TimingJob) -> Arguments:
        """Return the arguments of a kernel with its problem sizes, and free those of another."""
        if self.arguments is None or self.arguments.case != job.case:
            if self.arguments is not None:
                self.arguments.free()
            self.arguments, self.expected = Arguments(self.device, job.case), {}
        return self.arguments

    def reset(self, job: TimingJob) -> None:
        """Restore the output's contents before any launch."""
        arguments = self.arguments_of(job)
        output = arguments.checks.output
        address, size = arguments.addresses[output]
        if arguments.checks.adds:
            self.device.upload(address, arguments.before[output])
        else:
            self.device.zero(address, size)

    def checked(self, job: TimingJob) -> str:
        """Return the first error in the checked elements of the output; "" if there is none."""
        arguments = self.arguments_of(job)
        checks = arguments.checks
        at = checking.places(checks.size(job.names))
        values = tuple(job.names[name] for name in checks.depends)
        if values not in self.expected:
            launch = CheckedLaunch(job.names, arguments.before, arguments.constants, at)
            self.expected[values] = checks.expected(launch)
        expected = self.expected[values]
        address, _ = arguments.addresses[checks.output]
        output = self.gathered(address, arguments.before[checks.output].dtype, at)
        index = checking.wrong(output, expected, checks.tolerance)
        if index is None:
            return ""
        value = float(output[index])
        return f"element {at[index]}: found {value:.6g}, expected {expected[index]:.6g}"

    def gathered(self, address: int, kind: np.dtype, at: np.ndarray) -> np.ndarray:
        """Read elements of an array on the GPU, neighbours in one copy."""
        pieces = np.split(at, np.flatnonzero(np.diff(at) != 1) + 1)
        parts = [
            self.device.download(address + int(piece[0]) * kind.itemsize, np.empty(len(piece), kind))
            for piece in pieces
        ]
        return np.concatenate(parts)

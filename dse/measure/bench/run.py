"""Runs the microbenchmarks on a GPU and records their results, from which `derive` computes λ and Λ.

Times inside an SM are cycles of its own counter, independent of the clock. All SMs run the same, and the
median is recorded.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dse.measure.bench import benchmarks
from dse.measure.bench.benchmarks import Benchmark
from dse.measure.bench.gpu_file import LIMITS
from dse.measure.bench.records import BenchmarkRecord, BenchRecording, Parameter
from dse.measure.device import Argument, Device, DeviceError, LoadedCode, driver_takes
from dse.measure.statistics import Repeats, repeat
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compiler

WARPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
DEGREES = (0, 1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32)
STRIDES = (1, 2, 4, 8, 16, 32)
LINE = 128  # bytes from one pointer of a chase to the next
FACTOR = 1664525  # a multiple of four plus one, see chase.cu
TRIPS = 32
ATTRIBUTES = (
    *("MULTIPROCESSOR_COUNT", "CLOCK_RATE", "MEMORY_CLOCK_RATE", "GLOBAL_MEMORY_BUS_WIDTH", "L2_CACHE_SIZE"),
    *dict.fromkeys(name for name, _ in LIMITS.values()),
    "ECC_ENABLED",
)
_SMS = 4096  # upper bound of SM numbers, which need not be consecutive
_NUMBERS = 4  # recorded by each warp, see timing.cuh
_SHORTEST_NS = 100_000  # for a clock from both counters: the slower one may tick once in 1,000 ns
_WARP = 32

Advance = Callable[[int], None]


class LeftOut(Exception):
    """A microbenchmark with unexpected machine code."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is left out")


class Microbenchmarks:
    """A GPU with the compiled microbenchmarks."""

    def __init__(self, device: Device, binaries: Mapping[Benchmark, Compiled]) -> None:
        self.device, self.binaries = device, binaries
        self.codes: dict[Benchmark, LoadedCode] = {}
        self.limit = device.attribute("MAX_THREADS_PER_MULTIPROCESSOR") // _WARP  # warps of an SM
        self.block_limit = device.attribute("MAX_THREADS_PER_BLOCK") // _WARP
        blocks = device.sm_count * device.attribute("MAX_BLOCKS_PER_MULTIPROCESSOR")
        self.times = device.allocate(8 * _NUMBERS * max(blocks, device.sm_count * self.limit))
        self.arrived = device.allocate(4 * _SMS)
        self.never = device.allocate(4 * 1024)

    def code(self, build: Benchmark) -> LoadedCode:
        """Load a kernel, once.

        **Raises:** LeftOut if there is none.
        """
        if build not in self.binaries:
            raise LeftOut(build.name)
        if build not in self.codes:
            binary = self.binaries[build]
            self.codes[build] = self.device.load(binary.cubin, binary.binary.kernel)
        return self.codes[build]

    def blocks(self, warps: int) -> int:
        """Return the blocks of an SM with `warps` warps in total; 0 if that is impossible."""
        blocks = -(-warps // self.block_limit)
        return blocks if warps <= self.limit and warps % blocks == 0 else 0

    def fits(self, build: Benchmark, warps: int) -> bool:
        """Whether an SM holds `warps` warps of a kernel at a time."""
        blocks = self.blocks(warps)
        return blocks > 0 and (
            self.device.resident_blocks(self.code(build), warps // blocks * _WARP) >= blocks
        )

    def most_warps(self, build: Benchmark) -> int:
        """Find the most of WARPS that an SM holds of a kernel."""
        return next(warps for warps in reversed(WARPS) if self.fits(build, warps))

    def span(self, build: Benchmark, warps: int, arguments: Sequence[Argument]) -> tuple[float, float]:
        """Return the cycles of an SM with `warps` warps, and its clock in MHz (0 if too short)."""
        device, blocks = self.device, self.blocks(warps)
        grid = blocks * device.sm_count
        device.zero(self.arrived, 4 * _SMS)
        first = [self.times, self.arrived, np.uint32(blocks)]
        threads = warps // blocks * _WARP
        device.launch(self.code(build), (grid, 1, 1), (threads, 1, 1), [*first, *arguments])
        return self.read(grid * warps // blocks, warps)

    def busy(self, nanoseconds: int) -> None:
        """Keep one SM busy for this time."""
        self.device.launch(
            self.code(benchmarks.TICK), (1, 1, 1), (1, 1, 1), [self.times, np.int64(nanoseconds)]
        )

    def read(self, count: int, warps: int) -> tuple[float, float]:
        """Compute cycles and MHz from the records of `count` warps, `warps` on each SM."""
        times = self.device.download(self.times, np.empty((count, _NUMBERS), np.int64))
        return cycles_of(times, warps)


def cycles_of(times: np.ndarray, warps: int) -> tuple[float, float]:
    """Return the median of the SMs' cycles from first start to last end, and the clock in MHz.

    SMs with another number of warps are left out, unless all are.

    **Shapes:** times [warps of the grid, 4]: start, end, SM, nanoseconds.
    """
    order = np.argsort(times[:, 2], kind="stable")
    start, end, sm, nanoseconds = times[order].T
    firsts = np.flatnonzero(np.diff(sm, prepend=-1))
    counts = np.diff(np.append(firsts, len(sm)))
    spans = np.maximum.reduceat(end, firsts) - np.minimum.reduceat(start, firsts)
    right = counts == warps
    cycles = float(np.median(spans[right] if right.any() else spans))
    long = nanoseconds >= _SHORTEST_NS
    mhz = float(np.median(1e3 * (end - start)[long] / nanoseconds[long])) if long.any() else 0.0
    return cycles, mhz


def measure(
    device: Device,
    binaries: Mapping[Benchmark, Compiled],
    recording: BenchRecording,
    budget: float | None = None,
    advance: Advance = lambda records: None,
    families: Collection[str] | None = None,
) -> list[str]:
    """Run all families, or the named ones, for at most `budget` seconds, the most important first.

    Returns the problems. A family ends at a benchmark without a binary, or that the driver refuses. If the
    GPU can no longer be used, the records so far are kept.

    **Raises:** DseError if the driver is too old for the compiler.
    """
    driver_takes(device.driver_version, compiler())
    begun, problems = time.monotonic(), []
    try:
        bench = Microbenchmarks(device, binaries)
        for name in FAMILIES if families is None else families:
            try:
                for record in FAMILIES[name](bench):
                    recording.records.append(record)
                    advance(1)
                    if budget is not None and time.monotonic() - begun > budget:
                        return [*problems, f"time is up in {name}"]
            except (DeviceError, LeftOut) as error:
                problems.append(f"{name}: {error}")
                if isinstance(error, DeviceError) and error.lost:
                    break
    except DeviceError as error:
        problems.append(str(error))
    return problems


def described(device: Device) -> dict[str, Any]:
    """Describe a GPU by the driver's information, which is not measured."""
    return {
        "name": device.name,
        "capability": f"{device.capability[0]}.{device.capability[1]}",
        "driver": device.driver_version,
        "compiler": compiler(),
        "date": datetime.now(UTC).date().isoformat(),
        "attributes": {name: device.attribute(name) for name in ATTRIBUTES},
    }


def planned() -> dict[str, int]:
    """Count each family's records, at most, for a GPU with 64 warps an SM."""
    pipes = sum(len(benchmarks.chains_of(name)) for name in benchmarks.INSTRUCTIONS) * len(WARPS)
    return {
        "clock": 3,
        "pipes": pipes,
        "chase": 2 * len(_SIZES),
        "stream": len(benchmarks.STREAMS) + len(STRIDES) + 3,
        "banks": 2 * len(benchmarks.WIDTHS) * len(DEGREES),
        "local": 8,
        "launch": 2,
        "mix": len(list(benchmarks.pairs())) * len(benchmarks.BETAS),
    }


# Families. Each yields its records.


def _record(
    benchmark: str,
    parameters: Mapping[str, Parameter],
    once: Callable[[], tuple[float, float]],
    unit: str = "cycles",
) -> BenchmarkRecord:
    """Record repeated results of `once`; its second number is the clock."""
    clocks: list[float] = []

    def value() -> float:
        number, mhz = once()
        clocks.append(mhz)
        return number

    once()  # fills the caches of instructions and of addresses
    repeats = repeat(value)
    if long_enough := [mhz for mhz in clocks if mhz]:
        parameters = {**parameters, "mhz": round(float(np.median(long_enough)), 1)}
    return BenchmarkRecord(benchmark, parameters, unit, repeats)


def _pipes(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure one kind of instruction, dependent and independent, from one warp to all that fit."""
    own = bench.device.allocate(8 * _WARP * bench.limit * bench.device.sm_count)
    for name in benchmarks.INSTRUCTIONS:
        for chains in benchmarks.chains_of(name):
            build = benchmarks.pipe(name, chains)
            for warps in WARPS:
                if not bench.fits(build, warps) or (name == "barrier" and bench.blocks(warps) > 1):
                    continue
                parameters = {
                    "class": name,
                    "chains": chains,
                    "warps": warps,
                    "insts": benchmarks.BODY * TRIPS,
                }
                yield _record(
                    "pipes", parameters, lambda b=build, w=warps: bench.span(b, w, _pipe(bench, own))
                )
    bench.device.free(own)


def _pipe(bench: Microbenchmarks, own: int) -> list[Argument]:
    """List the arguments of pipes.cu: values that stay finite and no special case, whatever repeats."""
    numbers = [np.int32(TRIPS), np.float32(0.5), np.float32(0.25), np.uint32(3), np.uint32(1)]
    return [*numbers, own, bench.never]


def _mix(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure two kinds of instructions, all warps that fit: do they share a pipe?"""
    own = bench.device.allocate(8 * _WARP * bench.limit * bench.device.sm_count)
    for first, second in benchmarks.pairs():
        for beta in benchmarks.BETAS:
            build = benchmarks.mix(first, second, beta)
            warps, insts = bench.most_warps(build), benchmarks.BODY // (beta + 1) * TRIPS
            parameters = {"first": first, "second": second, "beta": beta, "warps": warps, "seconds": insts}
            yield _record("mix", parameters, lambda b=build, w=warps: bench.span(b, w, _pipe(bench, own)))
    bench.device.free(own)


def _banks(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure shared memory by conflict degree, width and direction, with 32 warps."""
    for store in (0, 1):
        for width in benchmarks.WIDTHS:
            build = benchmarks.banks(width, store)
            warps = min(bench.most_warps(build), bench.block_limit)
            for degree in DEGREES:
                # Time is proportional to passes: fewer instructions where each takes many.
                trips = max(2, TRIPS // max(1, degree * width))
                parameters = {
                    "store": store,
                    "words": width,
                    "degree": degree,
                    "warps": warps,
                    "insts": benchmarks.BODY * trips,
                }
                arguments = [np.int32(trips), np.int32(degree), np.float32(1.0)]
                yield _record("banks", parameters, lambda b=build, w=warps, a=arguments: bench.span(b, w, a))


_SIZES = tuple(2**power for power in range(10, 33))  # bytes: 1 KiB to 4 GiB


def _chase(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure the latency of a load by the size of the array."""
    device, l2 = bench.device, bench.device.attribute("L2_CACHE_SIZE")
    link, touch = bench.code(benchmarks.LINK), bench.code(benchmarks.TOUCH)
    sizes = [size for size in _SIZES if size <= device.memory() // 2]
    room = max(sizes)
    base, wide = device.allocate(room), ((8 * device.sm_count, 1, 1), (256, 1, 1))
    for size in sizes:
        lines = size // LINE
        arguments: list[Argument] = [base, np.uint64(lines), np.uint64(LINE)]
        device.launch(link, *wide, [*arguments, np.uint64(FACTOR)])
        # An array that fits into the L2 is loaded into it. A larger one is evicted by the memory after it:
        # otherwise a part of it as large as the L2 would hit.
        outside = size > l2 and size + 4 * l2 <= room
        if outside:
            arguments = [base + size, np.uint64(4 * l2 // LINE), np.uint64(LINE)]
        before = lines if lines <= 8192 else 1024
        for cache in ("ca", "cg"):
            code = bench.code(benchmarks.chase(cache))

            def once(
                code: LoadedCode = code, before: int = before, touched: list[Argument] = arguments
            ) -> tuple[float, float]:
                device.launch(touch, *wide, [*touched, bench.never])
                chased = [bench.times, base, np.int32(before), np.int32(TRIPS), bench.never]
                device.launch(code, (1, 1, 1), (1, 1, 1), chased)
                cycles, mhz = bench.read(1, 1)
                return cycles / (TRIPS * benchmarks.CHASED), mhz

            yield _record("chase", {"cache": cache, "bytes": size}, once, "cycles a load")
    device.free(base)


def _stream(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure the bandwidth of DRAM and of the L2 by the driver's clock, of the L1 by that of the SM."""
    device = bench.device
    l2 = device.attribute("L2_CACHE_SIZE")
    size = min(2**32, 2 ** (int(device.memory() // 4).bit_length() - 1))
    source, target = device.allocate(size), device.allocate(size)
    device.zero(source, size)
    device.zero(target, size)

    def shared_by_all(name: str, level: str, size: int, stride: int, rounds: int) -> BenchmarkRecord:
        build, width = benchmarks.stream(name), benchmarks.STREAMS[name][1]
        code, threads = bench.code(build), 512
        of_one = benchmarks.in_flight(width) * threads * device.sm_count  # accesses of one block on each SM
        blocks = min(device.resident_blocks(code, threads), max(1, size // (of_one * width * stride)))
        group = of_one * blocks
        count = max(1, size // (width * stride * group)) * group
        numbers = [np.int64(count), np.int64(0), np.int32(stride), np.int32(rounds)]
        arguments = [bench.times, bench.arrived, np.uint32(blocks), source, target, *numbers, bench.never]
        grid = blocks * device.sm_count

        launch = device.launching(code, (grid, 1, 1), (threads, 1, 1), arguments)

        def once() -> tuple[float, float]:
            device.zero(bench.arrived, 4 * _SMS)
            ms = device.milliseconds(launch, 1, bench.busy)
            return ms, bench.read(grid * threads // _WARP, blocks * threads // _WARP)[1]

        parameters = {
            "stream": name,
            "level": level,
            "stride": stride,
            "accesses": count * rounds,
            "width": width,
            "set_bytes": count * stride * width,
        }
        return _record("stream", parameters, once, "ms")

    for name in benchmarks.STREAMS:
        if not name.startswith("l1"):
            yield shared_by_all(name, "dram", size, 1, 1)
    for stride in STRIDES[1:]:
        yield shared_by_all("read_4", "dram", size, stride, 1)
    for name in ("read_4", "read_16", "write_16"):
        yield shared_by_all(name, "l2", l2 // 4, 1, max(1, 2**34 // max(l2 // 4, 1)))
    copied = {"stream": "driver_copy", "level": "dram", "stride": 1, "accesses": size, "width": 1}

    def copy() -> tuple[float, float]:
        return device.milliseconds(lambda: device.copy(target, source, size), 1, bench.busy), 0.0

    yield _record("stream", copied, copy, "ms")
    for name in ("l1_read_4", "l1_read_16"):
        yield _of_each(bench, name, source, target)
    device.free(source)
    device.free(target)


def _of_each(bench: Microbenchmarks, name: str, source: int, target: int) -> BenchmarkRecord:
    """Measure a stream from the L1: each SM reads its own array, which fits into its L1."""
    build, width = benchmarks.stream(name), benchmarks.STREAMS[name][1]
    warps, rounds = 16, 1000
    count = benchmarks.in_flight(width) * warps * _WARP
    numbers = [np.int64(count), np.int64(count), np.int32(1), np.int32(rounds)]
    parameters = {
        "stream": name,
        "level": "l1",
        "stride": 1,
        "accesses": count * rounds,
        "width": width,
        "set_bytes": count * width,
    }
    return _record(
        "stream", parameters, lambda: bench.span(build, warps, [source, target, *numbers, bench.never])
    )


def _local(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure stores to and loads from local memory: do stores go through the L1?"""
    for store in (1, 0):
        build = benchmarks.local(store)
        for warps in (4, 16, 32, 64):
            if bench.fits(build, warps):
                parameters = {"store": store, "warps": warps, "insts": benchmarks.LOCAL_BODY * TRIPS}
                arguments = [np.int32(TRIPS), bench.never]
                yield _record("local", parameters, lambda b=build, w=warps, a=arguments: bench.span(b, w, a))


def _launch(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure the cost of a launch: back to back, and with a wait for each."""
    device, many = bench.device, 500  # more do not fit in the driver's queue
    launch = device.launching(bench.code(benchmarks.EMPTY), (1, 1, 1), (32, 1, 1), [])

    def several() -> None:
        for _ in range(many):
            launch()

    def alone() -> tuple[float, float]:
        begun = time.perf_counter()
        launch()
        device.synchronize()
        return 1e6 * (time.perf_counter() - begun), 0.0

    def in_a_row() -> tuple[float, float]:
        return 1e3 * device.milliseconds(several, many, bench.busy) / many, 0.0

    yield _record("launch", {"launch": "one after another"}, in_a_row, "us")
    yield _record("launch", {"launch": "waited for"}, alone, "us")


def _clock(bench: Microbenchmarks) -> Iterator[BenchmarkRecord]:
    """Measure the MHz of the SMs: at rest, under a second's load slice by slice, and after it."""
    time.sleep(0.2)
    yield BenchmarkRecord("clock", {"load": "rest"}, "MHz", Repeats((clock(bench, benchmarks.TICK),), True))
    slices = tuple(clock(bench, benchmarks.BURN, 20_000_000) for _ in range(50))
    # The clock may change while the GPU warms up: the second half counts.
    half = len(slices) // 2
    settled = repeat(iter(slices[half:]).__next__, least=half, most=half)
    yield BenchmarkRecord("clock", {"load": "fp32"}, "MHz", settled)
    yield BenchmarkRecord("clock", {"load": "fp32, from the start"}, "MHz", Repeats(slices, settled.settled))


def clock(bench: Microbenchmarks, build: Benchmark = benchmarks.TICK, nanoseconds: int = 200_000) -> float:
    """Measure the median MHz of the SMs over this time."""
    device, burns = bench.device, build == benchmarks.BURN
    warps = bench.block_limit if burns else 1
    more = [np.float32(0.5), bench.never] if burns else []
    grid = device.sm_count
    device.launch(
        bench.code(build), (grid, 1, 1), (warps * _WARP, 1, 1), [bench.times, np.int64(nanoseconds), *more]
    )
    return bench.read(grid * warps, warps)[1]


FAMILIES = {
    "clock": _clock,
    "pipes": _pipes,
    "chase": _chase,
    "stream": _stream,
    "banks": _banks,
    "local": _local,
    "launch": _launch,
    "mix": _mix,
}

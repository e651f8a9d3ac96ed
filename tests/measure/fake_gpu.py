"""A GPU made of Python: it answers as one would whose λ, Λ and bandwidths are known."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dse.measure.bench import benchmarks
from dse.measure.bench import run as gpu
from dse.measure.bench.benchmarks import INSTRUCTIONS
from dse.measure.bench.records import BenchRecording
from dse.measure.device import Device, LoadedCode
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.sass.elf import Binary

# cycles of an SM for one warp instruction, and from one dependent instruction to the next
LAMBDA = {"fp32": 0.25, "fp32_add": 0.25, "fp64": 0.5, "int32": 0.5, "imul32": 0.5, "sfu": 2.0}
LAMBDA |= {"convert": 2.0, "shuffle": 1.0, "shared": 1.0, "l1": 2.0}
LATENCY = {"fp32": 4, "fp32_add": 4, "fp64": 8, "int32": 4, "imul32": 5, "sfu": 23, "convert": 20}
LATENCY |= {"shuffle": 24, "shared": 29, "l1": 38}
PIPES = {"sfu": "xu", "convert": "xu", "shared": "lsu", "l1": "lsu", "shuffle": "lsu"}  # others: of their own
BARRIER = (2.0, 20.0)  # a warp, and at none
INTERVAL = 1.0  # cycles from one instruction of a warp to its next
ISSUE = 4.0
CHASE = {2**18: 38.0, 2**24: 250.0, 2**40: 700.0}  # cycles of a load, up to so many bytes
BANDWIDTH = {"l2": 5.5e12, "dram": 2.0e12}  # B/s
LAUNCH_MS = 0.002
MHZ = 1500.0
SMS = 3
ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": SMS,
    "MEMORY_CLOCK_RATE": 1_000_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 8192,
    "L2_CACHE_SIZE": 2**24,
    "WARP_SIZE": 32,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 167936,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 166912,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
}
BUILDS = {build.name.encode(): build for build in benchmarks.builds()}  # by what stands for machine code


class FakeDevice(Device):
    """What `dse.measure.bench.run` asks of a Device. Launches last as long as the figures above say."""

    def __init__(self) -> None:
        self.name, self.driver_version = "NVIDIA Fictitious", "99.0"
        self.capability, self.arch, self.sm_count = (8, 0), 80, SMS
        self.noise, self.random = 0.001, np.random.default_rng(0)
        self.times = np.zeros((0, 4), np.int64)
        self.held: set[int] = set()
        self.ms, self.chased = 0.0, 0

    def attribute(self, name: str) -> int:
        return ATTRIBUTES.get(name, 0)

    def memory(self) -> int:
        return 2**32

    def allocate(self, size: int) -> int:
        self.held.add(address := 4096 * (1 + max(self.held, default=0)))
        return address

    def free(self, address: int) -> None:
        self.held.remove(address)

    def zero(self, address: int, size: int) -> None:
        assert address in self.held

    def copy(self, target: int, source: int, size: int) -> None:
        self.ms = 1e3 * 2 * size / BANDWIDTH["dram"]

    def load(self, cubin: bytes, kernel: str) -> LoadedCode:
        return LoadedCode(BUILDS[cubin], None, kernel)

    def resident_blocks(self, code: LoadedCode, threads: int, dynamic: int = 0) -> int:
        return 2048 // threads

    def synchronize(self) -> None: ...

    def download(self, address: int, values: np.ndarray) -> np.ndarray:
        assert len(values) <= len(self.times)
        values[:] = self.times[: len(values)]
        return values

    def milliseconds(self, work: Callable[[], None], launches: int, busy: Callable[[int], None]) -> float:
        busy(1000)
        self.ms = 0.0
        work()
        return self.ms * self.off()

    def off(self) -> float:
        return 1 + self.noise * self.random.standard_normal()

    def launching(self, code: LoadedCode, grid: Any, block: Any, arguments: Any, shared: int = 0) -> Any:
        return lambda: self.launched(code, grid, block, arguments)

    def launched(self, code: LoadedCode, grid: Any, block: Any, arguments: Any) -> None:
        warps = -(-block[0] // 32)
        blocks = max(1, grid[0] // SMS)
        behave = getattr(self, code.module.kernel)
        cycles = behave(dict(code.module.defines), warps * blocks, arguments) * self.off()
        count = grid[0] * warps
        self.times = np.zeros((count, 4), np.int64)
        self.times[:, 0] = self.random.integers(0, 3, count)
        self.times[:, 1] = max(4, round(cycles))
        self.times[:, 2] = np.arange(count) // warps % SMS
        self.times[:, 3] = 1e3 * cycles / MHZ

    def pipes(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        by_kind = {instruction.kind: name for name, instruction in INSTRUCTIONS.items()}
        first, second = by_kind[defines["FIRST"]], by_kind.get(defines.get("SECOND", ""))
        many = defines["REPEAT"] * arguments[3]
        if first == "barrier":
            return many * (BARRIER[1] + BARRIER[0] * warps)
        beta = defines.get("BETA", 1)
        alone = beta * max(INTERVAL, LATENCY[first] / defines["CHAINS"])
        busy = {PIPES.get(first, first): beta * LAMBDA[first] * warps}
        insts = beta
        if second:
            insts += 1
            pipe = PIPES.get(second, second)
            busy[pipe] = busy.get(pipe, 0) + LAMBDA[second] * warps
        return many * max(alone, insts * warps / ISSUE, *busy.values())

    def banks(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        trips, degree = arguments[3:5]
        return defines["REPEAT"] * trips * warps * max(1, degree) * defines["WIDTH"] * LAMBDA["shared"]

    def link(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        self.chased = int(arguments[1] * arguments[2])
        return 4

    def touch(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        return 4

    def chase(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        latency = next(latency for size, latency in CHASE.items() if self.chased <= size)
        if defines["CACHE"] == "cg":
            latency = max(latency, 250.0)
        return latency * defines["REPEAT"] * arguments[3]

    def stream(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        count, own, stride, rounds = map(int, arguments[5:9])
        width = defines["WIDTH"]
        if own:
            return count * width / 128 * LAMBDA["l1"] / 2 * rounds
        level = "l2" if rounds > 1 else "dram"
        sectors = count * min(1, stride * width / 32)
        self.ms = 1e3 * rounds * 32 * sectors * (2 if defines["MODE"] == 2 else 1) / BANDWIDTH[level]
        return self.ms * MHZ * 1e3

    def local(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        stores = 4 * 32 * SMS * MHZ * 1e6 / BANDWIDTH["l2"]
        return defines["REPEAT"] * arguments[3] * warps * (stores if defines["STORE"] else 1.0)

    def empty(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        self.ms += LAUNCH_MS
        return 4

    def tick(self, defines: dict[str, Any], warps: int, arguments: list[Any]) -> float:
        return float(arguments[1]) * MHZ / 1e3

    burn = tick


BINARY = Binary("k", 80, b"", False, 32, 0, 0)
MADE = {build: Compiled(BINARY, cubin, None, "", "NVRTC 13.0", 0) for cubin, build in BUILDS.items()}


@cache
def recorded() -> BenchRecording:
    """What the microbenchmarks record on such a GPU: made by arithmetic, not measured."""
    device = FakeDevice()
    actual = BenchRecording(gpu.described(device))
    assert gpu.measure(device, MADE, actual) == []
    return actual

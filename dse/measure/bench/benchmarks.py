"""The kernels of the microbenchmarks, and the instructions that the machine code of each must contain.

A kernel repeats one or two kinds of instructions in an unrolled loop. The loop is checked in the machine
code, since the compiler may fold or add instructions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dse.source.contract import Failure
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import CudaSource, compile_source, read_source
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.nvidia.sass.listing import Listing

FOLDER = Path(__file__).parent
BODY = 256  # instructions of an unrolled loop, roughly: many compared with its three for looping


@dataclass(frozen=True)
class BenchInstruction:
    """A kind of instruction that `pipes.cu` repeats."""

    name: str  # the class that it represents
    kind: str  # its name in pipes.cu
    opcode: str
    units: int = 1  # of dse.types.PerClass, for one warp instruction


INSTRUCTIONS = {
    instruction.name: instruction
    for instruction in (
        BenchInstruction("fp32", "Fp32", "FFMA"),
        BenchInstruction("fp32_add", "Fadd", "FADD"),
        BenchInstruction("fp64", "Fp64", "DFMA"),
        BenchInstruction("int32", "Int32", "LOP3"),
        BenchInstruction("imul32", "Imul32", "IMAD"),
        BenchInstruction("sfu", "Sfu", "MUFU"),
        BenchInstruction("convert", "Convert", "F2I"),
        BenchInstruction("shuffle", "Shuffle", "SHFL"),
        BenchInstruction("shared", "Shared", "LDS"),
        BenchInstruction("l1", "L1", "LDG", units=2),
        BenchInstruction("barrier", "Barrier", "BAR"),
    )
}
MIXED = ("fp32", "fp64", "int32", "imul32", "sfu", "convert", "shuffle", "shared", "l1")
BETAS = (1, 2, 4, 8, 16)
CHAINS = (1, 8)
_MORE = 2  # further instructions of an expected kind, for the loop itself
WIDTHS = (1, 2, 4)  # words of a thread
STREAMS = {  # name → mode, bytes of a thread, cache operator
    "read_4": (0, 4, "cg"),
    "read_8": (0, 8, "cg"),
    "read_16": (0, 16, "cg"),
    "write_4": (1, 4, "cg"),
    "write_16": (1, 16, "cg"),
    "copy_16": (2, 16, "cg"),
    "l1_read_4": (0, 4, "ca"),
    "l1_read_16": (0, 16, "ca"),
}


@dataclass(frozen=True)
class Benchmark:
    """A kernel of the microbenchmarks with its macros, and the opcodes that its loop must contain."""

    file: str
    kernel: str
    defines: tuple[tuple[str, int | str], ...] = ()
    expected: tuple[tuple[str, int], ...] = ()  # opcode with relevant modifiers, count in the loop

    @property
    def name(self) -> str:
        """Name the kernel with its macros, as errors and tables do."""
        return " ".join([self.kernel, *(f"{name}={value}" for name, value in self.defines)])


def pipe(name: str, chains: int) -> Benchmark:
    """Repeat one kind of instruction on `chains` values in turn."""
    instruction = INSTRUCTIONS[name]
    defines = {"FIRST": instruction.kind, "CHAINS": chains, "REPEAT": BODY}
    return Benchmark("pipes.cu", "pipes", tuple(defines.items()), ((instruction.opcode, BODY),))


def mix(first: str, second: str, beta: int) -> Benchmark:
    """Mix `beta` instructions of the first kind with one of the second."""
    left, other = INSTRUCTIONS[first], INSTRUCTIONS[second]
    repeat = BODY // (beta + 1)
    defines = {"FIRST": left.kind, "SECOND": other.kind, "BETA": beta, "SECONDS": 1, "CHAINS": 4}
    expected = ((left.opcode, beta * repeat), (other.opcode, repeat))
    return Benchmark("pipes.cu", "pipes", (*defines.items(), ("REPEAT", repeat)), expected)


def banks(width: int, store: int) -> Benchmark:
    """Access shared memory, `width` words a thread; the launch sets the conflicts."""
    return Benchmark(
        "banks.cu",
        "banks",
        (("WIDTH", width), ("STORE", store), ("REPEAT", BODY)),
        (("STS" if store else "LDS", BODY),),
    )


CHASED = 64  # loads of the loop


def chase(cache: str) -> Benchmark:
    """Chase pointers through memory: each load waits for the previous one."""
    return Benchmark("chase.cu", "chase", (("CACHE", cache), ("REPEAT", CHASED)), ((load(8, cache), CHASED),))


def load(width: int, cache: str) -> str:
    """Return the opcode of a global load of `width` bytes; one past the L1 (cg) is `.STRONG.GPU`."""
    size = f".{8 * width}" if width > 4 else ""
    return f"LDG{size}" + (".STRONG.GPU" if cache == "cg" else "")


LINK, TOUCH = Benchmark("chase.cu", "link"), Benchmark("chase.cu", "touch")


def stream(name: str) -> Benchmark:
    """Read, write or copy global memory by one of STREAMS."""
    mode, width, cache = STREAMS[name]
    read, write = load(width, cache), f"STG.{8 * width}" if width > 4 else "STG"
    expected = tuple((opcode, in_flight(width)) for opcode in ((read,), (write,), (read, write))[mode])
    return Benchmark("stream.cu", "stream", (("MODE", mode), ("WIDTH", width), ("CACHE", cache)), expected)


def in_flight(width: int) -> int:
    """Return the accesses of `width` bytes that a thread of stream.cu has in flight."""
    return 8 if width < 16 else 4


LOCAL_BODY = 128


def local(store: int) -> Benchmark:
    """Store to local memory, or load from it."""
    return Benchmark(
        "local.cu",
        "local",
        (("STORE", store), ("REPEAT", LOCAL_BODY)),
        (("STL" if store else "LDL", LOCAL_BODY),),
    )


EMPTY, TICK = Benchmark("clock.cu", "empty"), Benchmark("clock.cu", "tick")
BURN = Benchmark("clock.cu", "burn", expected=(("FFMA", 64),))


def pairs() -> Iterator[tuple[str, str]]:
    """Yield the pairs of instructions to mix."""
    for number, first in enumerate(MIXED):
        for second in MIXED[number + 1 :]:
            yield first, second


def chains_of(name: str) -> Sequence[int]:
    """List the numbers of independent chains to measure; a barrier has no values."""
    return (1,) if name == "barrier" else CHAINS


def builds() -> list[Benchmark]:
    """List all kernels of the microbenchmarks."""
    kernels = [pipe(name, chains) for name in INSTRUCTIONS for chains in chains_of(name)]
    kernels += [mix(first, second, beta) for first, second in pairs() for beta in BETAS]
    kernels += [banks(width, store) for width in WIDTHS for store in (0, 1)]
    kernels += [chase("ca"), chase("cg"), LINK, TOUCH]
    kernels += [stream(name) for name in STREAMS]
    kernels += [local(1), local(0), EMPTY, TICK, BURN]
    return kernels


@cache
def source(file: str, kernel: str) -> CudaSource:
    """Read the source of a kernel of the microbenchmarks."""
    return read_source(FOLDER / file, kernel)


def compiled(job: tuple[Benchmark, int]) -> Compiled | Failure:
    """Compile a kernel for an architecture; both are one argument, for `map`."""
    build, arch = job
    return compile_source(source(build.file, build.kernel), arch, dict(build.defines))


@dataclass(frozen=True)
class Checked:
    """The outcome of one build."""

    build: Benchmark
    registers: int
    counts: Mapping[str, int]  # of opcodes in the loop
    problem: str  # "" if there is none


def check(builds: Sequence[Benchmark], outcomes: Sequence[Compiled | Failure]) -> list[Checked]:
    """Check that each compiled, spills nothing, and has the expected loop."""
    good = [outcome for outcome in outcomes if isinstance(outcome, Compiled)]
    listings = iter(disassemble([outcome.binary for outcome in good]))
    results = []
    for build, outcome in zip(builds, outcomes, strict=True):
        if isinstance(outcome, Failure):
            results.append(Checked(build, 0, {}, f"{outcome.reason}: {outcome.message}"))
            continue
        counts = in_loop(next(listings), dict(build.expected))
        problem = ", ".join(
            f"found {counts[opcode]} {opcode}, expected {count}"
            for opcode, count in build.expected
            if not count <= counts[opcode] <= count + _MORE
        )
        if not problem and outcome.spill_bytes:
            problem = f"found {outcome.spill_bytes} B of spilled registers, expected none"
        results.append(Checked(build, outcome.binary.registers, counts, problem))
    return results


def in_loop(code: Listing, expected: Mapping[str, int]) -> dict[str, int]:
    """Count each opcode in the loop that is nearest to the expected one.

    A loop extends from the target of a branch to that branch.
    """
    parts = [frozenset(instruction.opcode.split(".")) for instruction in code.instructions]
    best = dict.fromkeys(expected, 0)
    for instruction in code.instructions:
        target = instruction.operands[-1] if instruction.operands else ""
        if not instruction.opcode.startswith("BRA") or not target.startswith("0x"):
            continue
        inside = [
            opcode
            for opcode, other in zip(parts, code.instructions, strict=True)
            if int(target, 16) <= other.address <= instruction.address
        ]
        counts = {name: sum(opcode.issuperset(name.split(".")) for opcode in inside) for name in expected}
        if _matches(counts, expected) > _matches(best, expected):
            best = counts
    return best


def _matches(counts: Mapping[str, int], expected: Mapping[str, int]) -> int:
    return sum(min(counts[opcode], count) for opcode, count in expected.items())

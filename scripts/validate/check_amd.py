"""Check that code for AMD GPUs is read and run: our kernels, random configurations, several targets.

Each configuration is compiled and a few blocks of it are run as for a prediction; of some, a small launch is
run whole, with values, and compared with NumPy. The registers that the compiler states are held against
those that the code names, and its occupancy against ours. Needs clang with the AMDGPU backend: the extra
`amd`.

    python scripts/validate/check_amd.py --configurations 60 --json
"""

import argparse
import collections
import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from dse import kernels
from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.occupancy import resident_blocks
from dse.kernels.description import Description
from dse.measure.arguments import contents
from dse.measure.checking import CheckedLaunch, places, wrong
from dse.measure.reference import REFERENCES
from dse.source.amd.compile.source import Built, compile_source, read_source
from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.slots import CONSTANTS, A, V
from dse.source.amd.profile.walk import registers
from dse.source.amd.text import Listing, parse
from dse.source.kernel import knows_blocks
from dse.source.launches import Array, Configuration, configurations
from dse.source.machine.blocks import representative
from dse.source.machine.launch import LaunchArguments, Pointer
from dse.source.nvidia.arguments import _contents
from dse.types import Resources

# Targets, and GPUs whose limits give the number of waves.
MOST_THREADS = 1024  # of a block for which code without a bound is compiled
TARGETS = {"gfx90a": "mi250x", "gfx942": "mi300x", "gfx1032": "w6600", "gfx1100": "w7800"}
# Sizes of launches that are run completely.
SMALL: Mapping[str, Mapping[str, int]] = {
    "convolution": {"image_width": 160, "image_height": 40},
    "dedispersion": {"samples": 500, "dms": 64, "channels": 24, "longest_delay": 50},
    "gemm": {"m": 128, "n": 128, "k": 64},
    "histogram": {"count": 20000},
    "matmul_naive": {"m": 80, "n": 300, "k": 36},
    "matmul_tiled": {"m": 128, "n": 128, "k": 64},
    "nbody": {"count": 2048},
    "prefix_sum": {"count": 20000},
    "reduction": {"count": 60000},
    "spmv_csr": {"rows": 700},
    "stencil2d": {"width": 300, "height": 70},
    "transpose": {"width": 192, "height": 128},
}
GPU = gpus.load("mi250x").gpu  # sizes that the descriptions of some launches depend on


@dataclass
class Checked:
    """Results for one kernel on one target."""

    kernel: str
    target: str
    configurations: int = 0
    values: int = 0
    unknown_data: int = 0  # configurations in which a branch or an address depends on unstated data
    compile_s: float = 0.0  # total CPU seconds of this process, without the compiler's
    run_s: float = 0.0
    slowest_s: float = 0.0
    instructions: int = 0
    failures: list[str] = field(default_factory=list)


def random_rows(
    kernel: Description, sizes: Mapping[str, Any], count: int, seed: int
) -> dict[str, np.ndarray]:
    """Draw configurations of a kernel's space."""
    valid = kernel.space.configurations(sizes)
    total = len(next(iter(valid.values())))
    rows = np.random.default_rng(seed).permutation(total)[:count]
    return {name: np.asarray(values)[rows] for name, values in valid.items()}


def compiled(source: Any, target: str, configuration: Configuration) -> Listing:
    """Compile and read one configuration."""
    made = compile_source(source, int(target[3:], 16), configuration.defines)
    if not isinstance(made, Built):
        raise DseError(f"{made}")
    return parse(made.text, None)


def arguments(listing: Listing, configuration: Configuration) -> list[Any]:
    """Return arguments with their sizes, and with stated contents of arrays."""
    own = [place for place in listing.arguments if not place.kind.startswith("hidden_")]
    stated = zip(configuration.arguments, own, strict=True)
    return [_argument(item, place.size, seed) for seed, (item, place) in enumerate(stated)]


def _argument(given: Any, size: int, seed: int) -> Any:
    if isinstance(given, Array):
        return _contents(given, seed)
    if isinstance(given, float):
        return np.float32(given) if size == 4 else np.float64(given)
    return (
        given
        if given is None
        else np.frombuffer(int(given).to_bytes(size, "little", signed=given < 0), f"i{size}")[0]
    )


def resources_differ(listing: Listing, target: str, threads: int) -> str | None:
    """Describe differences of registers or occupancy from the compiler's; None if they agree.

    As the compiler has it, a SIMD's waves follow from the registers of blocks of one wave, and from the LDS
    of blocks of the most `threads` for which the code is compiled.
    """
    slots = [
        slot
        for step in listing.instructions
        for part in (step, step.second)
        if part is not None
        for slot in sum(registers(part.opcode, part.operands), ())
    ]
    vectors = max((slot + 1 - V for slot in slots if V <= slot < A), default=0)
    accumulators = max((slot + 1 - A for slot in slots if A <= slot < CONSTANTS), default=0)
    touched = -(-vectors // 4) * 4 + accumulators if accumulators else vectors
    if touched != listing.vgprs:
        return f"vector registers: the code names {touched}, the compiler states {listing.vgprs}"
    if target not in TARGETS:
        return None
    limits = gpus.load(TARGETS[target]).gpu.limits
    asked: Any = {
        "threads": listing.wave_size,
        "blocks": 10**6,
        "registers": listing.vgprs,
        "shared_bytes": 0,
    }
    by_registers = int(resident_blocks(limits, Resources(**asked))[0])
    blocks = int(limits.shared_bytes_per_sm) // max(listing.lds_bytes, 1)
    by_lds = blocks * -(-threads // listing.wave_size)
    waves = min(by_registers, by_lds) / int(limits.sub_partitions)
    if waves != listing.occupancy:
        return f"occupancy: {waves:g} waves a SIMD, the compiler states {listing.occupancy}"
    return None


def values_differ(
    name: str, listing: Listing, configuration: Configuration, names: Mapping[str, Any]
) -> str | None:
    """Run a whole launch, and describe the difference of its output from NumPy's; None if there is none."""
    reference = REFERENCES[name]
    output = reference.output
    inputs: dict[int, Array] = {}
    for place, argument in enumerate(configuration.arguments):
        if isinstance(argument, Array):
            inputs[place] = argument
        elif argument is None:
            size = reference.size(names) if place == output else _size(name, place, names)
            inputs[place] = Array(size, reference.types.get(place, "float32"), "", ())
    arrays = {place: contents(array, place, reference) for place, array in inputs.items()}
    random = np.random.default_rng(99)
    constants = {
        symbol: random.random(size(names)).astype(np.float32) for symbol, size in reference.constants.items()
    }
    passed = [arrays.get(place, argument) for place, argument in enumerate(arguments(listing, configuration))]
    variables = {symbol: Pointer(values) for symbol, values in constants.items()}
    launch = LaunchArguments(configuration.grid, configuration.block, passed, variables=variables)
    x, y, z = configuration.grid
    blocks = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    machine, _ = execute(
        code_of(listing),
        launch,
        blocks,
        skip_loops=False,
    )
    region = machine.memory.regions[output + 1]
    assert region is not None
    if output + 1 in machine.poisoned:
        return "stores of values that are not known"
    at = places(reference.size(names))
    before = arrays[output]
    result = region[: before.nbytes].view(before.dtype)[at]
    expected = reference.expected(CheckedLaunch(names, arrays, constants, at))
    bad = wrong(result, expected, reference.tolerance)
    return None if bad is None else f"element {at[bad]}: found {result[bad]}, NumPy has {expected[bad]}"


def _size(name: str, index: int, names: Mapping[str, Any]) -> int:
    """Return the elements of an input without stated contents, by the [source] table."""
    build = kernels.load(name).build
    assert build is not None
    argument: Any = build.arguments[index]
    return int(argument.size(names, np))


def check(name: str, target: str, count: int, complete: int, seed: int) -> Checked:
    """Check one kernel on one target."""
    from dse.kernels.description import evaluated_names

    kernel, result = kernels.load(name), Checked(name, target)
    assert kernel.source is not None
    assert kernel.build is not None
    source = read_source(kernel.source, kernel.build.kernel)
    sizes = kernel.sizes()
    rows = random_rows(kernel, sizes, count, seed)
    for configuration in configurations(kernel, rows, sizes, GPU) if count else ():
        try:
            began = time.process_time()
            listing = compiled(source, target, configuration)
            read = time.process_time()
            code = code_of(listing)
            launch = LaunchArguments(
                configuration.grid, configuration.block, arguments(listing, configuration)
            )
            _, missing = execute(code, launch, representative(configuration.grid).blocks)
            ran = time.process_time()
            result.unknown_data += missing is not None
            threads = prod(configuration.block) if knows_blocks(source) else MOST_THREADS
            if differs := resources_differ(listing, target, threads):
                result.failures.append(f"{_named(configuration)}: {differs}")
            result.instructions += len(listing.instructions)
            result.compile_s += read - began
            result.run_s += ran - read
            result.slowest_s = max(result.slowest_s, ran - read)
        except DseError as problem:
            result.failures.append(f"{_named(configuration)}: {problem}")
        result.configurations += 1
    sizes = {**kernel.sizes(), **SMALL[name]}
    rows = random_rows(kernel, sizes, complete, seed + 1)
    for number, configuration in enumerate(configurations(kernel, rows, sizes, GPU) if complete else ()):
        row = {key: values[number : number + 1] for key, values in rows.items()}
        names = {key: _plain(value) for key, value in evaluated_names(kernel, row, sizes, GPU).items()}
        try:
            differs = values_differ(name, compiled(source, target, configuration), configuration, names)
        except DseError as problem:
            differs = str(problem)
        if differs:
            result.failures.append(f"values, {_named(configuration)}: {differs}")
        result.values += 1
    return result


def _plain(value: Any) -> Any:
    value = np.asarray(value)
    return value.reshape(-1)[0].item() if value.size == 1 else value


def _named(configuration: Configuration) -> str:
    return " ".join(f"{name}={value}" for name, value in configuration.defines)


def checks(options: argparse.Namespace) -> Iterator[Checked]:
    """Run the selected checks."""
    for name in options.kernel or SMALL:
        for target in options.target or TARGETS:
            yield check(name, target, options.configurations, options.values, options.seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernel", action="append", choices=SMALL)
    parser.add_argument("--target", action="append")
    parser.add_argument("--configurations", type=int, default=60)
    parser.add_argument("--values", type=int, default=5, help="small launches that are run completely")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    for result in checks(options):
        results.append(result)
        if not options.json:
            times = max(result.configurations, 1)
            print(
                f"{result.kernel:14} {result.target:8} {result.configurations:4} run,"
                f" {result.values:3} with values, {len(result.failures):3} failed,"
                f" {result.run_s / times:.3f} CPU s each, slowest {result.slowest_s:.2f}",
                flush=True,
            )
            for text, times in collections.Counter(result.failures).most_common(5):
                print(f"    {times}x {text[:300]}", flush=True)
    if options.json:
        print(json.dumps([vars(result) for result in results], indent=2))
    return int(any(result.failures for result in results))


if __name__ == "__main__":
    sys.exit(main())

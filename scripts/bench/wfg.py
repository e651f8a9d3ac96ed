"""Speed of evaluating a work flow graph, and accesses lane by lane: `bench/wfg.py [--points N] [--json]`.

The graph has a loop, a divergent branch, barriers and three loads; each point is another GPU and launch.
Accesses: one of a block of 256 threads, and one in each of 65,536 configurations. Compilation is excluded.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import front
import jax
import jax.numpy as jnp
import numpy as np

from dse.core.space.expression import parse
from dse.hardware.banks import passes
from dse.hardware.coalescing import sectors_and_lines
from dse.hardware.lanes import threads
from dse.kernels.symbolic.average import average_access
from dse.models.wfg.graph import Barrier, Compute, Memory, Scratchpad, WfgBranch, WfgLoop, WorkFlow
from dse.models.wfg.weights import Hardware, average_warp, effective

CONFIGURATIONS = 65_536
jax.config.update("jax_enable_x64", True)


def graph() -> WorkFlow:
    then = (Memory(bytes=512, name="b"), Compute(insts=8, ilp=2, uses=("b",)))
    otherwise = (Compute(insts=3), Scratchpad(cycles=32))
    body = (
        Memory(bytes=128, name="a"),
        Compute(insts=20, ilp=1.5),
        WfgBranch(taken=0.75, passed=0.5, then=then, otherwise=otherwise),
        Compute(insts=12, ilp=2, uses=("a",)),
        Barrier(),
    )
    return (Memory(bytes=128, name="c"), WfgLoop(trips=64, body=body), Compute(insts=5, uses=("c",)))


def seconds(run: Callable[[], Any], repeats: int = 5) -> float:
    """Return the fastest of several runs, after one that compiles."""
    jax.block_until_ready(run())
    return min(
        front.timed(lambda: jax.block_until_ready(run()), time.perf_counter)[0] for _ in range(repeats)
    )


def points(count: int) -> float:
    rng = np.random.default_rng(0)
    fields: dict[str, Any] = {
        "issue_cycles": rng.choice([1.0, 2.0, 4.0], count),
        "pipeline_latency": rng.uniform(4, 24, count),
        "bytes_per_cycle": rng.uniform(4, 64, count),
        "mem_latency": rng.uniform(200, 700, count),
    }
    hardware = Hardware(**fields)
    blocks = jnp.asarray(rng.integers(1, 9, count), float)
    warps = blocks * rng.integers(1, 9, count)

    def run(graph: WorkFlow, hardware: Hardware, warps: jax.Array, blocks: jax.Array) -> jax.Array:
        return average_warp(effective(graph, warps, blocks), hardware, warps, serial=True).warp_latency

    compiled = jax.jit(run)
    return seconds(lambda: compiled(graph(), hardware, warps, blocks))


def block_of_256() -> float:
    index = parse("ty * n + tx * 3", "index")

    def run() -> tuple[np.ndarray, np.ndarray]:
        names, mask = threads((16, 16, 1), np.arange(8))
        address = 4 * index(names | {"n": np.asarray(1000)}, np)
        return sectors_and_lines(address, mask)[0], passes(address, mask, 4)

    return seconds(run, 100)


def configurations(text: str, shared: bool) -> float:
    index, rng = parse(text, "index"), np.random.default_rng(0)
    shape = (1, CONFIGURATIONS)
    x, y = (2 ** rng.integers(low, 6, shape) for low in (2, 3))
    return seconds(lambda: average_access(index, (), {"n": 1000}, (x, y, 1), 32, 4, shared), 2)


def main() -> None:
    parser = front.parser(__doc__)
    parser.add_argument("--points", type=int, default=10**6)
    options = parser.parse_args()
    results = {
        "points": options.points,
        "points_per_second": options.points / points(options.points),
        "block_of_256_ms": 1e3 * block_of_256(),
        "global_accesses_per_second": CONFIGURATIONS / configurations("(by * nty + ty) * n + tx", False),
        "shared_accesses_per_second": CONFIGURATIONS / configurations("tx * 17 + ty", True),
        "machine": "{cpu}, {cores} cores".format(**front.machine()),
    }
    if options.json:
        print(json.dumps(results))
        return
    rate = results["points_per_second"]
    print(f"work flow graph: {rate:.3g} points a second, of {options.points} in one call")
    print(f"a block of 256 threads, lane by lane: {results['block_of_256_ms']:.3f} ms")
    for space in ("global", "shared"):
        rate = results[f"{space}_accesses_per_second"]
        print(f"an access to {space} memory, in {CONFIGURATIONS} configurations: {rate:.3g} a second")
    print(results["machine"])


if __name__ == "__main__":
    main()

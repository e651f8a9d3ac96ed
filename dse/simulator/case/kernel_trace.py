"""Write a trace of a kernel that is known by its counts, as `dse.simulator.case.trace_text` reads it.

It is that of an average warp, with the phases of the pipeline model's graph (`dse.simulator.case.idg`), but
with every instruction: as many chains as the kernel has parallel instructions, and as many loads in flight. A
phase's counts are rounded to integers, so that rare instructions are lost; a multiplication of 32 bits is
four of 16, and accesses have the mean pattern.
"""

from collections.abc import Iterator

import jax
import numpy as np

from dse.errors import DseError
from dse.simulator.case.idg import PARTS, plan, warp
from dse.types import TENSOR, Gpu, Kernel

MOST_CHAINS = 32
LOADED = 2 * MOST_CHAINS  # the first register for loads

_CHAINED = {  # instructions on a chain's register; a shared access also reads the chain's address
    "fp32": ("FMAD R{r}, R{r}, R{a}, R{r};",),
    "fp64": ("DFMA R{r}, R{r}, R{a}, R{r};",),
    "int32": ("IADD R{r}, R{r}, R{a};",),
    "imul32": ("IMAD.U16 R{r}, R{r}, R{a}, R{r};",) * 4,
    "sfu": ("RCP R{r}, R{a};",),
    "shared": ("MOV R{r}, g[A1+R{a}];",),
}


def listing(name: str, gpu: Gpu, kernel: Kernel, block: int) -> str:
    """Write the trace of a warp as text. Fields are scalars; `block` is the number of warps of a block.

    **Raises:** DseError for a kernel with products of matrices: TEG's GPU had no tensor cores.
    """
    for product in TENSOR:
        if float(getattr(kernel.work, product)) > 0:
            raise DseError(f"{name}: {product}: found products of matrices, expected none in a TEG trace")
    parts = jax.tree.map(lambda x: np.asarray(x, np.float64).reshape(1), warp(gpu, kernel))
    phase_plan = plan(parts)
    graph, phases = phase_plan.graphs[0], int(phase_plan.phases[0])
    counts = _counts(kernel)
    writer, taken = _Writer(kernel), dict.fromkeys(PARTS, 0.0)
    lines = [f"// An average warp of {name}.", f".kernel {name}", f".block {block}", "", f".repeat {phases}"]
    for part, share in zip(graph.part, graph.share, strict=True):
        of = PARTS[part]
        before, taken[of] = taken[of], taken[of] + counts.get(of, 0.0) / phases * share
        lines += writer.instructions(of, round(taken[of]) - round(before))
    return "\n".join([*lines, ".end"]) + "\n"


def _counts(kernel: Kernel) -> dict[str, float]:
    """Count the instructions of a warp by the parts of the graph."""
    work = {
        name: float(getattr(kernel.work, name))
        for name in ("fp32", "fp64", "int32", "imul32", "sfu", "barrier")
    }
    shared, loads = float(kernel.shared_insts), float(kernel.load_insts)
    tile = min(shared, loads) if work["barrier"] else 0.0
    return work | {
        "shared": shared - tile,
        "tile": tile,
        "load": loads,
        "store": float(kernel.store_insts),
    }


class _Writer:
    """Allocates registers, and tracks the next chain and the loads that were not read yet."""

    def __init__(self, kernel: Kernel) -> None:
        self.chains = min(max(round(float(kernel.ilp)), 1), MOST_CHAINS)
        self.in_flight = max(round(float(kernel.mlp)), 1)
        self.chain = self.load = 0
        self.loaded: list[int] = []
        shared, accesses = float(kernel.shared_insts), float(kernel.mem_insts)
        ways = round(float(kernel.work.shared) / shared) if shared else 1
        self.ways = f" // ways={ways}" if ways > 1 else ""
        bits = 32 * min((1, 2, 4), key=lambda words: abs(words - float(kernel.bytes_per_access) / 128))
        scattered = accesses and float(kernel.uncoal_insts) > accesses / 2
        self.size = f"U{bits}"
        self.pattern = f" // transactions={round(float(kernel.transactions_per_uncoal))}" if scattered else ""

    def instructions(self, part: str, count: int) -> Iterator[str]:
        """Yield `count` instructions of a part, with runs of the chains rolled."""
        if part in _CHAINED:
            while count and self.loaded:  # each waits for a load
                yield from self._chained(part, self.loaded.pop(0))
                count -= 1
            times, remainder = divmod(count, self.chains)
            if times > 1:
                yield f".repeat {times}"
                for _ in range(self.chains):
                    yield from self._chained(part)
                yield ".end"
            else:
                remainder = count
            for _ in range(remainder):
                yield from self._chained(part)
            return
        for _ in range(count):
            yield self._other(part)

    def _chained(self, part: str, loaded: int | None = None) -> Iterator[str]:
        register, self.chain = 2 * self.chain, (self.chain + 1) % self.chains
        for text in _CHAINED[part]:
            pattern = self.ways if part == "shared" else ""
            yield "    " + text.format(r=register, a=register if loaded is None else loaded) + pattern

    def _other(self, part: str) -> str:
        match part:
            case "load":
                register = LOADED + 4 * (self.load % self.in_flight)
                self.load += 1
                self.loaded.append(register)
                return f"    GLD.{self.size} R{register}, global14[R{register}];{self.pattern}"
            case "tile":
                source = self.loaded.pop(0) if self.loaded else 0
                return f"    R2G.U32.U32 g[A1+0x10], R{source};{self.ways}"
            case "store":
                source = self.loaded.pop(0) if self.loaded else 2 * self.chain
                return f"    GST.{self.size} global14[R{LOADED}], R{source};{self.pattern}"
            case _:
                return "    BAR.ARV.WAIT b0, 0xfff;"

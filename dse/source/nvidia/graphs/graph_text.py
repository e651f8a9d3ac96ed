"""Write the instruction dependence graph of a kernel's warp for `dse.simulator.case.graph_file`."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dse.core.files import replacing
from dse.errors import DseError
from dse.hardware.memory import served
from dse.hardware.pairs import PAIRS, fp32_units
from dse.simulator.case.graph_file import NamedCase
from dse.simulator.case.program import MOST_SUBSYSTEMS, Case, Program
from dse.source.nvidia.graphs.dependence import DependenceGraph, GraphInstruction
from dse.source.nvidia.profile.walk import timing
from dse.source.nvidia.sass.products import needs_descriptor
from dse.types import ABSENT, ARITHMETIC, Gpu, Kernel

ISSUE = 1.0  # cycles in which a warp issues one instruction
_BANKS_BYTES = 128  # per pass through the banks of shared memory
_PIPES = {name: name for name in (*ARITHMETIC, "shared", "barrier")} | {  # the subsystem of each pipe
    **dict.fromkeys(PAIRS, "fp32"),
    "global": "memory",
    "local": "memory",
    "tensor": "tensor",
}  # instructions that only take an issue slot: "issue"


@dataclass(frozen=True)
class Hits:
    """Shares of the requested sectors of global memory that L1 and L2 serve; DRAM serves the rest."""

    l1: float = 0.0
    l2: float = 0.0

    @staticmethod
    def of(kernel: Kernel) -> "Hits":
        """Return those of a kernel with scalar fields."""
        past_l1, past_l2 = map(float, served(kernel))
        return Hits(1.0 - past_l1, past_l1 - past_l2)

    def __post_init__(self) -> None:
        if not (self.l1 >= 0 and self.l2 >= 0 and self.l1 + self.l2 <= 1):
            raise DseError(
                f"hits: found {self.l1:g} of the L1 and {self.l2:g} of the L2, expected shares of 1"
            )


def of_source(graph: DependenceGraph, gpu: Gpu, hits: Hits, warps: int = 1, slots: int = 1) -> NamedCase:
    """Make a simulator case with λ and Λ of a GPU with scalar fields.

    A warp issues at most one instruction a cycle. The SM runs `slots` equal blocks of `warps` at a time.

    **Raises:** DseError as `terms`, or if it exceeds the limits of a simulator case.
    """
    cycles = [terms(instruction, gpu, hits, graph.kernel) for instruction in graph.instructions]
    return assembled(graph, cycles, float(gpu.issue_limit), warps, slots)


def terms(instruction: GraphInstruction, gpu: Gpu, hits: Hits, kernel: str = "graph") -> tuple[float, float]:
    """Compute λ and Λ of one instruction, cycles.

    λ is that of the whole SM. An access, also an asynchronous copy, occupies the slowest of the load/store
    units, the banks, the L1, and its share of the L2 or of DRAM. A product of matrices occupies the tensor
    pipe as in `dse.hardware.tensor`, or the banks for its operands if that is longer; its Λ is at least the
    time in its sub-partition's pipe. Without a result to wait for, Λ is λ. Λ is at least the cycle of issue.

    **Raises:** DseError for textures, and for products that are unknown or not supported by the GPU.
    """
    pipe, passes = instruction.pipe, instruction.passes
    if pipe == "tensor":
        return _product_terms(instruction, gpu, kernel)
    if pipe == "texture":
        raise DseError(f"{kernel}: found {pipe} instructions, expected those of pipes that models know")
    cpi, latency, lsu = gpu.cpi, gpu.latency, instruction.requests * float(gpu.lsu_cycles)
    from_dram = 1.0 - hits.l1 - hits.l2
    average = hits.l1 * latency.l1 + hits.l2 * latency.l2 + from_dram * latency.dram
    in_bulk = instruction.kind == "memory" and pipe == "other"  # bypasses the load/store units
    latency_cycles = timing(gpu, float(average)).latency["global" if in_bulk else pipe]
    if pipe in ARITHMETIC:
        throughput_cycles = float(getattr(cpi, pipe))
    elif pipe in PAIRS:
        throughput_cycles = float(cpi.fp32) * fp32_units(pipe, int(gpu.compute_capability))
    elif pipe == "barrier":
        throughput_cycles, latency_cycles = float(cpi.barrier), float(latency.barrier)
    elif pipe == "shared":
        throughput_cycles = max(lsu, passes * float(cpi.shared))
        latency_cycles += max(passes - 1.0, 0.0) * float(cpi.shared)
    elif pipe == "global" or in_bulk:
        throughput_cycles = max(
            lsu,
            passes * float(cpi.l1),
            instruction.shared_passes * float(cpi.shared),
            instruction.sectors * (1.0 - hits.l1) * float(cpi.l2),
            instruction.sectors * from_dram * float(cpi.dram),
        )
    elif pipe == "local":
        throughput_cycles = max(lsu, passes * float(cpi.l1))
    else:
        throughput_cycles = 0.0
    if not instruction.writes and instruction.kind != "barrier":
        latency_cycles = throughput_cycles
    return throughput_cycles, max(latency_cycles, ISSUE)


def _product_terms(instruction: GraphInstruction, gpu: Gpu, kernel: str) -> tuple[float, float]:
    """Compute λ and Λ of a product of matrices, cycles."""
    product, name = instruction.product, instruction.text.split()[0]
    if product is None:
        raise DseError(f"{kernel}: {name}: found a product of matrices, expected one whose shape is known")
    work = {product.kind: product.multiply_adds}  # by the class of dse.types.PerClass
    if product.from_registers:
        work["mma_warp"] = product.from_registers
    for kind in work:
        if float(getattr(gpu.cpi, kind)) >= ABSENT:
            raise DseError(f"{kernel}: {name}: found {kind}, expected products that the GPU has cycles of")
    tensor = max(units * float(getattr(gpu.cpi, kind)) for kind, units in work.items())
    throughput_cycles = max(tensor, product.shared_bytes / _BANKS_BYTES * float(gpu.cpi.shared))
    # all sub-partitions work on the product of a block
    parts = 1.0 if needs_descriptor(name) else float(gpu.limits.sub_partitions)
    return throughput_cycles, max(float(getattr(gpu.latency, product.kind)), parts * tensor, ISSUE)


def assembled(
    graph: DependenceGraph,
    cycles: Sequence[tuple[float, float]],
    issue_limit: float = math.inf,
    warps: int = 1,
    slots: int = 1,
) -> NamedCase:
    """Make a simulator case, given λ and Λ of each instruction.

    **Raises:** DseError if it exceeds the limits of a simulator case.
    """
    pipes = [
        "memory" if instruction.kind == "memory" else _PIPES.get(instruction.pipe, "issue")
        for instruction in graph.instructions
    ]
    for seldom in ("barrier", "fp64"):  # waited for
        if len(set(pipes)) > MOST_SUBSYSTEMS:
            pipes = ["issue" if name == seldom else name for name in pipes]
    order = (*dict.fromkeys(_PIPES.values()), "issue")
    subsystems = tuple(name for name in order if name in pipes)
    try:
        program = Program(
            subsystem=np.array([subsystems.index(name) for name in pipes]),
            throughput_cycles=np.array([throughput for throughput, _ in cycles]),
            latency_cycles=np.array([latency for _, latency in cycles]),
            preds=tuple(instruction.needs for instruction in graph.instructions),
            kind="".join(instruction.kind[0] for instruction in graph.instructions),
            same_warp=np.full(len(cycles), ISSUE),
            loops=graph.loops,
        )
        case = Case((program,), warps, slots, slots, issue_limit)
    except DseError as error:
        raise DseError(f"{graph.kernel}: {error}") from None
    return NamedCase(graph.kernel, case, subsystems, (_labels(graph),))


def _labels(graph: DependenceGraph) -> tuple[str, ...]:
    """Name the instructions: "LDG.E.64 1a0", or "LDG.E.64 1a0 #2" if repeated."""
    times: Counter[int] = Counter()
    labels = []
    for instruction in graph.instructions:
        times[instruction.address] += 1
        again = f" #{times[instruction.address]}" if times[instruction.address] > 1 else ""
        labels.append(f"{instruction.text.split()[0]} {instruction.address:x}{again}")
    return tuple(labels)


def write_graph(path: Path | str, graph: NamedCase, summary: str = "") -> None:
    """Write a graph to a file.

    **Raises:** DseError where the file cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_text(text(graph, summary), encoding="utf-8")


def text(graph: NamedCase, summary: str = "") -> str:
    """Write a graph as TOML for `dse.simulator.case.graph_file.load`.

    λ and Λ of an instruction are written where they differ from the most frequent ones of its subsystem.
    """
    case = graph.case
    core = [(name, getattr(case, name)) for name in ("warps", "slots", "groups", "order", "scheduler")]
    if case.issue_limit < math.inf:
        core.append(("issue_limit", case.issue_limit))
    if case.assignment != tuple(range(len(case.programs))):
        core.append(("assignment", list(case.assignment)))
    usual: dict[int, tuple[float, float]] = {}
    lines = [f"name = {_value(graph.name)}"]
    if summary:
        lines.append(f"summary = {_value(summary)}")
    lines += ["", "[core]", *(f"{name} = {_value(value)}" for name, value in core), "", "[subsystems]"]
    for s, name in enumerate(graph.subsystems):
        pairs = Counter(
            (float(p.throughput_cycles[i]), float(p.latency_cycles[i]))
            for p in case.programs
            for i in np.flatnonzero(p.subsystem == s)
        )
        usual[s] = pairs.most_common(1)[0][0] if pairs else (0.0, 0.0)
        cap = case.caps[s] if s < len(case.caps) else math.inf
        fields = [("lambda", usual[s][0]), ("Lambda", usual[s][1])]
        fields += [("cap", cap)] if cap < math.inf else []
        inside = ", ".join(f"{key} = {_value(value)}" for key, value in fields)
        lines.append(f"{_key(name)} = {{ {inside} }}")
    prefix = "program." if len(case.programs) > 1 else ""
    for program, labels in zip(case.programs, graph.labels, strict=True):
        lines += ["", "[[program]]"] if prefix else []
        lines += _program(program, labels, graph.subsystems, usual, prefix)
    return "\n".join(lines) + "\n"


def _program(
    program: Program,
    labels: Sequence[str],
    subsystems: Sequence[str],
    usual: dict[int, tuple[float, float]],
    prefix: str,
) -> Iterator[str]:
    """Yield the lines of one program's instructions and loops."""
    kinds = {"c": "compute", "m": "memory", "b": "barrier"}
    for i, label in enumerate(labels):
        s = int(program.subsystem[i])
        throughput_cycles = float(program.throughput_cycles[i])
        latency_cycles = float(program.latency_cycles[i])
        yield from ("", f"[[{prefix}instruction]]", f"name = {_value(label)}")
        yield f"subsystem = {_value(subsystems[s])}"
        if program.preds[i]:
            yield f"needs = {_value([labels[j] for j in program.preds[i]])}"
        if throughput_cycles != usual[s][0]:
            yield f"lambda = {_value(throughput_cycles)}"
        if latency_cycles != usual[s][1]:
            yield f"Lambda = {_value(latency_cycles)}"
        if program.same_warp[i]:
            yield f"same_warp = {_value(float(program.same_warp[i]))}"
        if program.kind[i] != "c":
            yield f"kind = {_value(kinds[program.kind[i]])}"
    for loop in program.loops:
        yield from ("", f"[[{prefix}loop]]", f"first = {_value(labels[loop.first])}")
        yield from (f"last = {_value(labels[loop.stop - 1])}", f"trips = {loop.trips}")


def _value(value: str | float | Sequence) -> str:
    """Format a string, a number or a list of them; JSON and TOML agree on these."""
    if isinstance(value, float) and value == int(value) and value < 2**53:
        value = int(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    """Format a key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)

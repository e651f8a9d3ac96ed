"""Graphs written and read again; what a kernel's source did, simulated."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.simulator import Case, Loop, Program, simulate
from dse.simulator.case.graph_file import NamedCase, load
from dse.source.machine.products import Mma
from dse.source.nvidia.graphs.dependence import DependenceGraph, GraphInstruction, dependence_graph
from dse.source.nvidia.graphs.graph_text import Hits, assembled, of_source, terms, text, write_graph
from dse.source.nvidia.profile.walk import walk
from dse.source.profile.single_warp import SOURCES, Timing, longest_warp
from dse.types import CLASSES, Kernel, PerClass

LATENCY = dict.fromkeys(SOURCES, 5.0) | {"global": 400.0, "shared": 23.0, "barrier": 1.0, "control": 1.0}
TIMES = Timing(LATENCY, {"fp32": 2.0, "global": 4.0, "shared": 2.0})


@pytest.fixture(scope="module")
def gpu():
    return gpus.load("a100-pcie-40gb").gpu


@pytest.fixture(scope="module")
def warps(machines) -> dict[str, tuple[DependenceGraph, float]]:
    """Of each kernel one warp's graph, and the cycles of its walk."""
    actual = {}
    for name in ("transpose_conflicts", "nbody", "walk", "divergent"):
        warp = longest_warp(machines[name], machines[name].program.blocks, 0)
        cycles = sum(phase.cycles for phase in walk(machines[name], 0, warp, TIMES).values())
        actual[name] = dependence_graph(machines[name], 0, warp), cycles
    return actual


def same(a: NamedCase, b: NamedCase) -> None:
    assert (a.name, a.subsystems, a.labels) == (b.name, b.subsystems, b.labels)
    for name in ("warps", "slots", "groups", "issue_limit", "order", "scheduler", "assignment"):
        assert getattr(a.case, name) == getattr(b.case, name)
    assert (*a.case.caps, *[np.inf] * len(a.subsystems))[: len(a.subsystems)] == b.case.caps
    for p, q in zip(a.case.programs, b.case.programs, strict=True):
        assert (p.preds, p.kind, p.loops) == (q.preds, q.kind, q.loops)
        for name in ("subsystem", "throughput_cycles", "latency_cycles", "same_warp"):
            np.testing.assert_array_equal(getattr(p, name), getattr(q, name))


def test_one_warp_takes_as_long_as_its_walk(warps, tmp_path):
    """But for the end: the walk goes on for a cycle behind the last instruction, the simulation until all
    results are there. The last store, two instructions before the end, is on its way for four cycles.
    """
    graphs, cycles = [], []
    for name, (graph, walked) in warps.items():
        of_each = []
        for item in graph.instructions:
            interval, waited = TIMES.interval.get(item.pipe, 1.0), item.writes or item.kind == "barrier"
            of_each.append((interval, LATENCY[item.pipe] if waited else max(interval, 1.0)))
        made = assembled(graph, of_each)
        write_graph(tmp_path / f"{name}.toml", made)
        graphs.append(load(tmp_path / f"{name}.toml"))
        same(made, graphs[-1])
        cycles.append(walked + 2)
    assert simulate([graph.case for graph in graphs]).makespan.tolist() == cycles


def test_any_graph_comes_back(tmp_path):
    terms = np.array([1, 0.1, 1, 3]), np.array([4, 1e-9, 4, 4])
    single = Program(
        np.array([0, 2, 0, 0]), *terms, ((2,), (0,), (0, 1), (2,)), "cmcb", loops=(Loop(0, 3, 7),)
    )
    other = Program(np.array([1, 0]), np.ones(2), np.array([1.5, 2]), ((), ()), "cb", np.array([1.0, 0]))
    case = Case((single, other), 2, 1, 3, 0.3, (4, np.inf), "dataflow", "gto", (0, 1, 1))
    graph = NamedCase('a "b"\\', case, ("x", "y z", "w"), (("p", "q\n", "r", "é"), ("p", "q")))
    write_graph(tmp_path / "x.toml", graph, summary="both")
    same(graph, load(tmp_path / "x.toml"))
    assert 'summary = "both"' in text(graph, "both")


def instruction(pipe: str, writes: bool = True, **asked: Any) -> GraphInstruction:
    kind = {"barrier": "barrier", "global": "memory", "local": "memory"}.get(pipe, "compute")
    return GraphInstruction(0, pipe.upper(), None, pipe, kind, (), writes, **asked)


def test_terms_of_a_gpu(gpu):
    cpi, latency, gpu = jax.tree.map(float, (gpu.cpi, gpu.latency, gpu))
    no_hits = Hits()

    def cycles(pipe: str, hits: Hits = no_hits, **fields):
        return terms(instruction(pipe, **fields), gpu, hits)

    assert cycles("fp32") == (cpi.fp32, latency.fp32)
    assert cycles("fp16") == (cpi.fp32 / 2, latency.fp32)  # of an A100
    assert cycles("uniform") == (0, latency.int32)
    assert cycles("control", writes=False) == (0, 1)
    assert cycles("barrier", writes=False) == (cpi.barrier, latency.barrier)
    passes = cycles("shared", requests=1, passes=32)
    assert passes == pytest.approx((32 * cpi.shared, latency.shared + 31 * cpi.shared))
    whole = cycles("global", requests=1, sectors=32, passes=32)
    assert whole == pytest.approx((32 * cpi.dram, latency.dram))
    assert cycles("global", requests=1, sectors=32, passes=32, writes=False) == (whole[0], whole[0])
    some = cycles("global", Hits(0.5, 0.25), requests=1, sectors=4, passes=1)
    assert some[1] == pytest.approx(latency.l1 / 2 + latency.l2 / 4 + latency.dram / 4)
    assert some[0] == pytest.approx(max(gpu.lsu_cycles, cpi.l1, 2 * cpi.l2, cpi.dram))
    assert cycles("global", Hits(1), requests=1, sectors=4, passes=1)[0] == max(gpu.lsu_cycles, cpi.l1)
    assert cycles("global", Hits(1), requests=0)[0] == 0  # nobody takes part


def matrices(kind: str, multiply_adds: float, from_registers: float, shared_bytes: float = 0.0):
    product = Mma(kind, multiply_adds, from_registers, shared_bytes)
    return replace(instruction("tensor"), text="HMMA.16816.F32", product=product)


def test_terms_of_products_of_matrices(gpu):
    """An A100 multiplies 1,024 pairs of halves a cycle; a tensor core takes 8 cycles for 16 x 8 x 16."""
    latency = float(gpu.latency.mma_fp16)
    assert terms(matrices("mma_fp16", 16 * 8 * 16, 1.0), gpu, Hits()) == pytest.approx((2, latency), rel=1e-5)
    from_registers = terms(matrices("mma_fp16", 16 * 8 * 16, 3.0), gpu, Hits())
    assert from_registers == pytest.approx((3 * float(gpu.cpi.mma_warp), latency))
    large = terms(matrices("mma_fp16", 16 * 256 * 16, 0.0, 2560.0), gpu, Hits())
    assert large == pytest.approx((64, 4 * 64), rel=1e-5)  # longer than what a small one takes
    narrow = terms(matrices("mma_fp16", 16 * 8 * 16, 0.0, 1024.0), gpu, Hits())
    assert narrow == pytest.approx((8 * float(gpu.cpi.shared), latency))


def test_products_that_a_gpu_has_no_cycles_of(gpu):
    for product in (matrices("mma_fp8", 4096.0, 0.0), matrices("mma_fp8", 4096.0, 1.0)):
        with pytest.raises(DseError, match=r"^k: HMMA\.16816\.F32: found mma_fp8, expected products that"):
            terms(product, gpu, Hits(), "k")
    with pytest.raises(DseError, match=r"^k: TENSOR: found a product of matrices, expected one whose shape"):
        terms(instruction("tensor"), gpu, Hits(), "k")


def test_terms_of_bulk_copies(gpu):
    """They pass by the load/store units; nobody waits for what is prefetched."""
    cpi, latency = jax.tree.map(float, (gpu.cpi, gpu.latency))
    copy = replace(instruction("other"), kind="memory", sectors=64.0, shared_passes=16.0)
    assert terms(copy, gpu, Hits()) == pytest.approx((64 * cpi.dram, latency.dram))
    assert terms(replace(copy, writes=False), gpu, Hits(1)) == pytest.approx((16 * cpi.shared,) * 2)


def test_hits_of_a_kernel():
    def kernel(**work: float) -> Kernel:
        others: dict[str, Any] = dict.fromkeys(set(Kernel.__dataclass_fields__) - {"work", "phases"}, 16.0)
        moved: dict[str, Any] = dict.fromkeys(CLASSES, 1.0) | work
        return Kernel(work=PerClass(**moved), **others)

    assert Hits.of(kernel(l2=16.0, dram=16.0)) == Hits()
    assert Hits.of(kernel(l2=8.0, dram=2.0)) == Hits(0.5, 0.375)
    with pytest.raises(DseError, match=r"hits: found 0\.7 of the L1 and 0\.4 of the L2"):
        Hits(0.7, 0.4)


def test_pipes_beyond_the_simulators(gpu):
    every = ("fp32", "fp64", "int32", "imul32", "sfu", "shared", "global", "barrier", "control")
    graph = DependenceGraph("all", 80, tuple(map(instruction, every)), ())
    actual = of_source(graph, gpu, Hits())
    assert actual.subsystems == ("fp32", "fp64", "int32", "imul32", "sfu", "shared", "memory", "issue")
    assert actual.labels[0] == (
        "FP32 0", "FP64 0 #2", "INT32 0 #3", "IMUL32 0 #4", "SFU 0 #5", "SHARED 0 #6", "GLOBAL 0 #7",
        "BARRIER 0 #8", "CONTROL 0 #9",
    )  # fmt: skip
    with_tensor = (*map(instruction, every), matrices("mma_fp16", 2048.0, 1.0))
    actual = of_source(replace(graph, instructions=with_tensor), gpu, Hits())
    assert actual.subsystems == ("fp32", "int32", "imul32", "sfu", "shared", "memory", "tensor", "issue")
    with pytest.raises(DseError, match=r"^all: found texture instructions, expected those of pipes"):
        of_source(replace(graph, instructions=(instruction("texture"),)), gpu, Hits())
    with pytest.raises(DseError, match=r"^all: case: found 1 groups of 2000 warps"):
        of_source(graph, gpu, Hits(), warps=2000)

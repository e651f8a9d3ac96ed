"""Graphs of a Triton matrix product with more and more stages of its software pipeline."""

import equinox as eqx
import jax.numpy as jnp
import pytest

from dse.hardware import gpus
from dse.simulator import simulate
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import run
from dse.source.nvidia.graphs.dependence import DependenceGraph, dependence_graph
from dse.source.nvidia.graphs.graph_text import Hits, of_source
from dse.source.nvidia.profile.characterise import prepare
from dse.source.nvidia.sass.disassemble import with_lines
from dse.types import Gpu

pytest.importorskip("triton")

import triton
import triton.language as tl

SIZE = 1024
STAGES = (1, 2, 3, 4, 5)
GPUS = {80: "a100-pcie-40gb", 90: "h100-sxm"}


@triton.jit
def product(a, b, c, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    along = tl.arange(0, K)
    a_at = a + rows[:, None] * size + along[None, :]
    b_at = b + along[:, None] * size + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, size, K):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += K
        b_at += K * size
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.float16))


def compiled(arch: int, stages: int):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = dict.fromkeys("abc", "*fp16") | {"size": "i32"} | dict.fromkeys("MNK", "constexpr")
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(4)}
    source = ASTSource(product, signature, {"M": 64, "N": 64, "K": 32}, aligned)
    options = {"num_warps": 4, "num_stages": stages, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


@pytest.fixture(scope="module", params=[pytest.param(80, marks=pytest.mark.slow), 90])
def graphs(request) -> tuple[Gpu, dict[int, DependenceGraph]]:
    """A GPU, and the graph of a warp by the number of stages."""
    launch = LaunchArguments((16, 16, 1), (128, 1, 1), [None, None, None, SIZE, None, None])
    found = {}
    for stages in STAGES:
        made = compiled(request.param, stages)
        listing = with_lines(made.asm["cubin"], "product", "product.cubin")
        found[stages] = dependence_graph(run(prepare(listing), launch, [(0, 0, 0)]), 0, 0)
    return gpus.load(GPUS[request.param]).gpu, found


def simulated(graphs: tuple[Gpu, dict[int, DependenceGraph]], latency: float) -> dict[int, float]:
    """Cycles of one block alone on an SM, by the number of stages, with a latency of memory."""
    gpu, found = graphs
    where = lambda g: (g.latency.l2, g.latency.dram)  # noqa: E731
    gpu = eqx.tree_at(where, gpu, (jnp.asarray(latency), jnp.asarray(latency)))
    cases = [of_source(graph, gpu, Hits(0, 0.9), warps=4).case for graph in found.values()]
    return dict(zip(found, simulate(cases).makespan.tolist(), strict=True))


def test_products_are_on_the_tensor_pipe(graphs):
    gpu, found = graphs
    for dependences in found.values():
        graph = of_source(dependences, gpu, warps=4)
        tensor = graph.subsystems.index("tensor")
        for each, at in zip(dependences.instructions, graph.case.programs[0].subsystem, strict=True):
            assert (at == tensor) == each.text.startswith(("HMMA", "HGMMA"))
        busy = graph.case.cycles_of_subsystems()[tensor]
        assert busy == pytest.approx(64 * 64 * SIZE * float(gpu.cpi.mma_fp16), rel=0.5)
        assert busy >= 64 * 64 * SIZE * float(gpu.cpi.mma_fp16) * (1 - 1e-6)


def test_more_stages_hide_more_of_the_latency(graphs):
    """With s stages from 2 on, copies begin s - 1 trips before they are waited for. The latency is so long
    that hardly anything else takes time.
    """
    times = simulated(graphs, 30_000.0)
    assert times[1] == pytest.approx(times[2], rel=0.05)
    for stages in STAGES[2:]:
        assert times[stages] == pytest.approx(times[2] / (stages - 1), rel=0.1)


def test_more_stages_gain_nothing_where_pipes_bind(graphs):
    times = simulated(graphs, 50.0)
    for stages in STAGES[3:]:
        assert times[stages] == pytest.approx(times[3], rel=0.05)

"""Counts as a graph: totals are kept, phases are what the counts say, and launches come out right."""

from typing import Any

import jax
import numpy as np
import pytest

from dse.hardware import gpus
from dse.models import roofline, volkov
from dse.simulator import Case, pipeline, simulate
from dse.simulator.case import idg
from dse.types import CLASSES, TENSOR, Kernel, Launch, PerClass

MOST = 200  # kernels at a time: all are padded to so many, so that one shape is compiled
WARP = jax.jit(idg.warp)
NAMES = ("a100", "mi250x")  # L1 with shared memory, and beside; issue limits 4 and 1


def kernels(count, seed=0, **changed):
    """Random counts [count]; `changed` are set in all of them."""
    rng = np.random.default_rng(seed)

    def some(low, high, missing=0.2):
        return np.where(rng.random(count) < missing, 0.0, rng.uniform(low, high, count))

    work = {name: some(0.3, 40) for name in CLASSES if name not in TENSOR}
    work |= {name: np.zeros(count) for name in TENSOR} | {"barrier": np.rint(some(1, 5, 0.5))}
    fields: dict[str, Any] = {"load_insts": some(0.3, 12), "store_insts": some(0.3, 5)}
    fields |= {"shared_insts": some(1, 30)}
    fields |= {"ilp": rng.uniform(1, 6, count), "mlp": rng.uniform(1, 4, count)}
    fields |= {"uncoal_insts": 0.0, "transactions_per_uncoal": 1.0, "bytes_per_access": 128.0}
    for name in changed:
        assert name in work or name in fields
    work |= {name: np.full(count, changed[name]) for name in work if name in changed}
    fields |= {name: np.full(count, changed[name]) for name in fields if name in changed}
    # What passes through memory or the banks is there because of some access.
    accesses = fields["load_insts"] + fields["store_insts"]
    work |= {name: np.where(accesses > 0, work[name], 0.0) for name in ("l1", "l2", "dram")}
    work["shared"] = np.where(fields["shared_insts"] > 0, work["shared"] + fields["shared_insts"], 0.0)
    fields["sectors"] = np.maximum(work["l2"], work["dram"]) + 1.0
    counts: dict[str, Any] = {name: np.broadcast_to(values, count) for name, values in fields.items()}
    return Kernel(work=PerClass(**work), **counts)


def launches(count, warps=4, slots=3, waves=1.0):
    shape = {"warps_per_block": warps, "resident_blocks": slots, "waves": waves}
    shape |= {"threads_per_block": 32 * warps, "blocks": 1.0, "active_sms": 1.0}
    return Launch(**{name: np.full(count, x, float) for name, x in shape.items()})


def predict(warp, launch, *rest, **options):
    return pipeline.predict(warp, jax.tree.map(np.asarray, launch), *rest, **options)


def warps_of(gpu, kernel):
    warp = WARP(gpu, jax.tree.map(lambda x: np.resize(x, MOST), kernel))
    return jax.tree.map(lambda x: np.broadcast_to(x, MOST)[: len(kernel.ilp)], warp)


@pytest.fixture(params=NAMES)
def gpu(request):
    return gpus.load(request.param, np.float64).gpu


def test_every_pipe_is_as_busy_as_the_counts_say(gpu):
    kernel = kernels(200)
    warp = warps_of(gpu, kernel)
    made = idg.plan(warp)
    busy = np.zeros((200, len(idg.PIPES)))
    for n in range(200):
        program = made.program(n, int(made.phases[n]))
        np.add.at(busy[n], program.subsystem, program.throughput_cycles * program.runs)
    actual = dict(zip(idg.PIPES, busy.T, strict=True))
    expected = jax.jit(roofline.busy_cycles)(gpu, kernel)
    expected = {name: np.broadcast_to(x, 200) for name, x in expected.items()}
    for name in ("fp32", "fp64", "int32", "imul32", "sfu", "barrier"):
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-12)
    if float(gpu.l1_with_shared):
        lsu, memory = ("lsu", "l1", "shared"), ("l2", "dram")
    else:
        lsu, memory = ("lsu", "shared"), ("l1", "l2", "dram")
    np.testing.assert_allclose(actual["lsu"], np.max([expected[x] for x in lsu], 0), rtol=1e-12)
    np.testing.assert_allclose(actual["memory"], np.max([expected[x] for x in memory], 0), rtol=1e-12)


def test_tensor_cores_are_a_pipe_of_the_simulator():
    gpu = gpus.load("a100", np.float64).gpu
    products: dict[str, Any] = {"mma_fp16": 2048 * 4000.0, "mma_warp": 4000.0}
    warp = jax.tree.map(np.asarray, warps_of(gpu, kernels(2, fp64=0.0, **products)))
    np.testing.assert_allclose(warp.busy["tensor"], 8000, rtol=1e-5)
    cycles, bottleneck = predict(warp, launches(2))
    assert [pipeline.TERMS[int(i)] for i in bottleneck] == ["tensor", "tensor"]
    assert (cycles >= 12 * 8000 * (1 - 1e-5)).all()
    # It takes the place of double precision, where a kernel has none.
    for pipe, counts in (
        ("tensor", {"fp64": 0.0} | products),
        ("fp64", {"fp64": 1.0}),
        ("fp64 and tensor", {"fp64": 1.0} | products),
    ):
        assert pipe in idg.pipes(jax.tree.map(lambda x: x[:1], warps_of(gpu, kernels(1, 0, **counts))))


def test_a_warp_alone_takes_volkovs_latency(gpu):
    kernel = kernels(100, seed=1)
    warp = warps_of(gpu, kernel)
    latency = jax.jit(volkov.latency_of_one_warp)(gpu, kernel)
    np.testing.assert_allclose(sum(warp.alone.values()), latency, rtol=1e-12)
    made = idg.plan(warp)
    cases = [Case((made.program(n, int(made.phases[n])),), warps=1) for n in range(100)]
    # A pipe may be busy for longer than a result takes: only then is a warp in its own way.
    np.testing.assert_array_less(sum(warp.alone.values()) * (1 - 1e-9), simulate(cases).makespan)
    slow = {part: warp.busy[part] > warp.alone[part] for part in idg.PARTS if not part.endswith("passes")}
    clear = ~np.any(list(slow.values()), 0)
    clear &= warp.busy["load passes"] + warp.busy["store passes"] <= warp.alone["load"]
    assert clear.sum() > 20
    expected = np.broadcast_to(latency, 100)
    np.testing.assert_allclose(simulate(cases).makespan[clear], expected[clear], rtol=1e-9)


def names(graph):
    return [idg.PARTS[part] for part in graph.part]


def graph_of(dataflow=False, barriers=0, **numbers):
    return idg.graph(tuple(numbers.get(x.replace(" ", "_"), 0) for x in idg.PARTS), barriers, dataflow)


def test_a_phase_loads_meets_computes_meets_and_stores():
    parts = {"fp32": 2, "shared": 1, "tile": 1, "load_passes": 1, "load": 1, "store": 1, "barrier": 1}
    actual = graph_of(False, 2, **parts)
    loads, computation = ["load passes", "load", "tile"], ["fp32", "shared", "fp32"]
    assert names(actual) == [*loads, "barrier", *computation, "barrier", "store"]
    assert actual.kind == "mmcbcccbm"
    assert actual.preds == tuple((i - 1,) for i in range(9))
    np.testing.assert_array_equal(actual.share, [1, 1, 1, 0.5, 0.5, 1, 0.5, 0.5, 1])
    four = graph_of(False, 4, **parts)
    assert "".join(four.kind) == "mmcb" + "cccb" * 3 + "m"
    np.testing.assert_allclose(np.bincount(four.part, four.share)[sorted(set(four.part))], 1)
    assert names(graph_of(barriers=2, fp32=1, barrier=1)) == ["barrier", "fp32"] * 2
    parts: dict[str, int] = {"fp32": 2, "load_passes": 1, "load": 1, "store": 1}
    actual = graph_of(dataflow=True, **parts)
    assert names(actual) == ["load passes", "load", "fp32", "fp32", "store"]
    assert actual.preds == ((), (0,), (1, -2), (2,), (3,))  # -2: the last fp32 of the phase before
    program = actual.program(np.ones(5), np.ones(5), 2)
    assert program.preds == ((), (0,), (1,), (2,), (3,), (), (5,), (3, 6), (7,), (8,))
    assert graph_of(dataflow=True, fp32=2).preds == ((-1,), (0,))


@pytest.mark.parametrize(
    ("waits", "barriers", "phases", "met"),
    [
        (0, 0, 1, 0),
        (5, 0, 5, 0),
        (0.4, 0, 1, 0),  # a wait that some warps have
        (128.3, 256, 128, 2),  # tiles: a barrier before their use and one behind
        (5, 1, 1, 1),  # all is loaded first
        (1, 9, 1, 8),  # more barriers than are told apart
        (0, 7, 7, 1),
        (2000, 256, 128, 2),
    ],
)
def test_phases(waits, barriers, phases, met):
    kernel = kernels(1, load_insts=float(waits), mlp=1.0, barrier=float(barriers), fp32=10.0)
    made = idg.plan(warps_of(gpus.load("a100", np.float64).gpu, kernel))
    assert made.phases[0] == phases
    assert made.graphs[0].kind.count("b") == met


def test_no_faster_than_the_roofline_and_the_bottleneck_is_its(gpu):
    kernel, launch = kernels(60, seed=6), launches(60, slots=6, waves=5.5)
    cycles, bottleneck = predict(warps_of(gpu, kernel), launch)
    bound = np.asarray(jax.jit(roofline.predict)(gpu, kernel, launch).cycles)
    expected = jax.jit(volkov.predict)(gpu, kernel, launch)
    assert (cycles >= bound * (1 - 1e-9)).all()
    assert (cycles < 4 * np.asarray(expected.cycles)).all()
    latency = np.asarray(expected.terms["latency"]) > 0
    assert (latency == (np.array(pipeline.TERMS)[bottleneck] == "latency")).all()


def test_others_beside_do_not_matter():
    gpu = gpus.load("a100", np.float64).gpu
    warp, launch = warps_of(gpu, kernels(9, seed=7)), launches(9, waves=3.0)
    whole, _ = predict(warp, launch)
    done = []
    again, _ = predict(
        *jax.tree.map(lambda x: np.concatenate([x[::-1], x]), (warp, launch)), advance=done.append
    )
    np.testing.assert_array_equal(again, np.concatenate([whole[::-1], whole]))
    assert sum(done) == 18
    alone = [predict(*jax.tree.map(lambda x, i=i: x[i : i + 1], (warp, launch)))[0][0] for i in (0, 5)]
    np.testing.assert_array_equal(alone, whole[[0, 5]])
    nothing = kernels(1, 0, **dict.fromkeys((*CLASSES, "load_insts", "store_insts", "shared_insts"), 0.0))
    cycles, _ = predict(warps_of(gpus.load("a100", np.float64).gpu, nothing), launches(1, waves=8.0))
    assert cycles[0] == 0

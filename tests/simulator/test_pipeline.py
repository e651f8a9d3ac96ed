"""Launches as the pipeline model sees them: kernels of which the cycles can be told by hand, and bounds."""

from contextlib import nullcontext

import equinox as eqx
import jax
import numpy as np
import pytest
from points import build, point

from dse import kernels
from dse.evaluate.chunks import evaluate
from dse.evaluate.curve import curve, place_launch
from dse.hardware import gpus, occupancy
from dse.kernels.description import describe
from dse.models.pipeline import Pipeline
from dse.simulator import pipeline, simulate
from dse.simulator.case import idg
from dse.simulator.pipeline import TERMS, Settings
from dse.types import CLASSES, Launch

GPU = gpus.load("a100", np.float64).gpu
LIMIT = float(GPU.issue_limit)


def kernel(**changed):
    """Counts of one warp, all 0 but those that are named; ILP and MLP 1."""
    fields = {f"work_{name}" if name in CLASSES else name: value for name, value in changed.items()}
    fields["sectors"] = 4.0 * (changed.get("load_insts", 0.0) + changed.get("store_insts", 0.0))
    return build(point(**fields))[1]


def loads(count, **more):
    """Coalesced loads that all go to DRAM."""
    return kernel(load_insts=count, l1=1.0 * count, l2=4.0 * count, dram=4.0 * count, **more)


def launch(warps=4.0, resident=1.0, blocks=1.0):
    shape = {"warps_per_block": warps, "threads_per_block": 32.0 * warps}
    return build(point(**shape, resident_blocks=resident, waves=blocks / resident))[2]


MIXED = loads(9.0, fp32=40.0, int32=11.0, store_insts=1.0)
TILED = loads(8.0, fp32=64.0, shared=20.0, shared_insts=20.0, barrier=16.0)
SHORT = loads(2.0, fp32=30.0, sfu=4.0, shared=9.0, shared_insts=3.0, barrier=2.0)
ROUNDS = (1, 2, 3, 5, 8, 13)
CASES = {
    "barriers": (kernel(barrier=5.0), launch(8)),
    "barriers of two": (kernel(barrier=2.0), launch(2, 2, 4)),
    "load": (loads(3.0), launch(1)),
    "loads": (loads(12.0), launch(8, 8, 80)),
    "fp32": (kernel(fp32=400.0, ilp=4.0), launch(16, 4, 8)),
    "sfu": (kernel(sfu=100.0, fp32=100.0, ilp=4.0), launch(16, 4, 8)),
    # Two pipes that take half of what can be issued each, and two more.
    "issue": (kernel(fp32=100.0, int32=100.0, sfu=10.0, imul32=10.0, ilp=4.0), launch(16, 4, 8)),
    "alone": (MIXED, launch(1, 1, 2)),
    "short": (SHORT, launch(4, 2, 4)),
    "short tail": (SHORT, launch(3, 4, 9)),
    "long": (TILED, launch(8, 4, 32)),
    "long again": (TILED, launch(8, 4, 32)),
    "more blocks": (TILED, launch(8, 4, 33)),
}
CASES |= {f"mixed {n}": (MIXED, launch(4, 6, 6 * n)) for n in ROUNDS}
CASES |= {f"tiled {n}": (TILED, launch(4, 3, 3 * n)) for n in ROUNDS}
FEW = ("barriers of two", "load", "short", "short tail", "alone")  # phases and rounds: all are simulated
MANY = ("long", "more blocks", "mixed 8")


def together(chosen) -> tuple[idg.Warp, Launch]:
    """Warps and launches [N]: all predicted at once, so that they share a compilation."""
    made = [(idg.warp(GPU, item), at) for item, at in chosen]
    return jax.tree.map(lambda *x: np.stack([np.asarray(item, np.float64) for item in x]), *made)


@pytest.fixture(scope="module")
def predicted():
    cycles, bottleneck = pipeline.predict(*together(CASES.values()))
    return dict(zip(CASES, zip(cycles.tolist(), [TERMS[n] for n in bottleneck], strict=True), strict=True))


@pytest.fixture(scope="module")
def alone():
    """The same launches as cases of their own, all of their blocks: makespans."""
    cases = [pipeline.one(idg.warp(GPU, CASES[x][0]), CASES[x][1], Settings())[0] for x in (*FEW, *MANY)]
    return dict(zip((*FEW, *MANY), simulate(cases).makespan.tolist(), strict=True))


def test_kernels_of_which_the_cycles_can_be_told_by_hand(predicted):
    """Each waits until the last warp has come, one λ (or issue slot) after another."""
    between, latency_cycles = max(float(GPU.cpi.barrier), 1 / LIMIT), float(GPU.latency.barrier)
    assert predicted["barriers"][0] == pytest.approx(5 * (7 * between + latency_cycles), rel=1e-5)
    # A warp waits for each; many keep the memory busy, and lose the first latency only.
    throughput_cycles = max(4 * float(GPU.cpi.dram), 4 * float(GPU.cpi.l2))
    assert predicted["load"][0] > 3 * float(GPU.latency.dram) - 1
    assert predicted["load"][0] < 3 * (float(GPU.latency.dram) + 8 * throughput_cycles)
    assert predicted["load"][1] == "latency"
    cycles, bottleneck = predicted["loads"]
    assert bottleneck == "memory"
    assert 1 <= cycles / (12 * 8 * 80 * throughput_cycles) < 1.2
    for name, throughput_cycles, count in (("fp32", GPU.cpi.fp32, 400), ("sfu", GPU.cpi.sfu, 100)):
        cycles, bottleneck = predicted[name]
        assert bottleneck == name
        assert 1 <= cycles / (16 * 8 * count * float(throughput_cycles)) < 1.15
    cycles, bottleneck = predicted["issue"]
    assert bottleneck == "issue"
    assert 1 <= cycles / (16 * 8 * 220 / LIMIT) < 1.3


def test_each_round_adds_the_same_once_there_are_more_than_are_simulated(predicted):
    assert predicted["long"] == predicted["long again"] != predicted["more blocks"]
    for kind in ("mixed", "tiled"):
        cycles = np.array([predicted[f"{kind} {n}"][0] for n in ROUNDS])
        assert (np.diff(cycles) > 0).all()
        steps = np.diff(cycles[2:]) / np.diff(ROUNDS[2:])
        np.testing.assert_allclose(steps, steps[0], rtol=1e-9)


def test_one_is_what_predict_simulates(predicted, alone):
    """Where there are few phases and rounds; what is taken on along a line comes close to it."""
    for name in FEW:
        np.testing.assert_allclose(predicted[name][0], alone[name], rtol=2e-3, err_msg=name)
    for name in MANY:
        np.testing.assert_allclose(predicted[name][0], alone[name], rtol=0.15, err_msg=name)
    single, at = CASES["long"]
    case, labels = pipeline.one(idg.warp(GPU, single), at, Settings("gto"))
    [program] = case.programs
    assert (case.warps, case.slots, case.groups, case.scheduler, case.order) == (8, 4, 32, "gto", "program")
    busy = np.bincount(program.subsystem, program.throughput_cycles * program.runs, len(idg.PIPES))
    assert busy[idg.PIPES.index("fp32")] == pytest.approx(64 * float(GPU.cpi.fp32))
    for label, subsystem in zip(labels, program.subsystem, strict=True):
        assert idg.SUBSYSTEM_OF[label] == idg.PIPES[subsystem]
    # The valve is closed for as long as the instructions that the entries stand for take.
    assert program.entries / case.issue_limit == pytest.approx(float(single.insts) / LIMIT)
    some, _ = pipeline.one(idg.warp(GPU, single), at, Settings(groups=3))
    assert (some.slots, some.groups) == (3, 3)
    many, _ = pipeline.one(idg.warp(GPU, single), launch(8, 4, 10**7), Settings())
    assert many.entries <= pipeline.ENTRIES < many.entries + 8 * program.entries


def test_settings_change_results(predicted):
    """The scheduler, how many blocks are simulated, and an order in which later loads overlap."""
    gto, _ = pipeline.predict(*together(CASES.values()), Settings("gto"))
    rr = np.array([cycles for cycles, _ in predicted.values()])
    assert (gto != rr).sum() > len(CASES) / 3
    np.testing.assert_allclose(gto, rr, rtol=0.6)
    names = list(CASES)
    assert gto[names.index("alone")] == rr[names.index("alone")]  # one warp at a time
    whole, _ = pipeline.predict(*together([CASES["mixed 8"], CASES["short"]]), Settings("gto", groups=10**6))
    assert whole[0] != gto[names.index("mixed 8")]
    assert whole[1] == gto[names.index("short")]
    some = [CASES["load"], CASES["alone"]]
    dataflow, _ = pipeline.predict(*together(some), Settings(order="dataflow"))
    assert dataflow[0] < 0.5 * predicted["load"][0]
    assert dataflow[1] < predicted["alone"][0]


def test_slopes_are_what_cycles_are_made_of(predicted):
    """Cycles are a sum of λ, Λ and 1/IL, so each times its derivative adds up to them."""
    warps, launches = together(CASES.values())
    cycles, slopes = pipeline.with_slopes(warps, launches)
    np.testing.assert_allclose(cycles, [predicted[name][0] for name in CASES], rtol=1e-12)
    products = jax.tree.map(lambda part, slope: part * slope, warps, slopes)
    total = sum(products.busy.values()) + sum(products.alone.values()) + products.issue
    np.testing.assert_allclose(total, cycles, rtol=1e-4)  # terms are rounded to ticks


def test_evaluated_it_is_the_same_for_all_gpus_and_launches(toy_kernel):
    description, model = kernels.load(toy_kernel), Pipeline("gto", groups=1)
    files = [gpus.load(name, np.float64).gpu for name in ("gtx-280", "mi250x")]
    costly = eqx.tree_at(lambda gpu: gpu.launch_overhead, files[1], np.asarray(5e-6))
    parameters, steps = {"block": np.array([1024, 128, 64]), "items": np.array([1, 2, 1])}, []

    def advance(text, total):
        return nullcontext(lambda done: steps.append(done / total))

    stacked = gpus.stack([files[0], costly])
    actual = evaluate(description, (model,), stacked, parameters, None, advance).forecasts["pipeline"]
    assert sum(steps) == 1
    impossible = 0
    for g, i in np.ndindex(2, 3):
        single = {name: np.asarray(values[i]) for name, values in parameters.items()}
        counts, resources = describe(description, single, description.sizes(), files[g])
        at, limiter = occupancy.launch(files[g], resources)
        if not occupancy.possible(limiter):
            impossible += 1
            assert (actual.seconds[g, i], actual.bottleneck[g, i]) == (np.inf, -1)
            continue
        parts = (idg.warp(files[g], counts), at)
        warp, launches = jax.tree.map(lambda x: np.atleast_1d(np.asarray(x, float)), parts)
        [cycles], [bottleneck] = pipeline.predict(warp, launches, model.settings)
        np.testing.assert_allclose(actual.cycles[g, i], cycles, rtol=1e-12)
        overhead = 5e-6 if g else float(files[0].launch_overhead)
        np.testing.assert_allclose(actual.seconds[g, i], cycles / files[g].clock + overhead, rtol=1e-12)
        assert actual.bottleneck_names()[g, i] == TERMS[bottleneck]
    assert impossible == 1  # 1,024 threads are too many for the GTX 280
    first = {name: values[:1] for name, values in parameters.items()}
    none = evaluate(description, (model,), gpus.stack(files[:1]), first).forecasts["pipeline"]
    assert np.isinf(none.seconds).all()


def test_a_curve_simulated_at_every_occupancy(toy_kernel):
    counts, at = place_launch(kernels.load(toy_kernel), GPU, {"block": 32, "items": 4}, {"n": 1 << 20})
    rows = curve(counts, GPU, at, ("roofline", "volkov", "pipeline"))
    roof, bound, actual = (
        np.array([row["throughput"] for row in rows if row["model"] == model])
        for model in ("roofline", "volkov", "pipeline")
    )
    assert actual[0] == pytest.approx(bound[0], rel=0.02)  # a warp alone
    assert (actual <= roof * (1 + 1e-5)).all()
    assert (actual > 0.5 * bound).all()
    assert actual[-1] > 3 * actual[0]

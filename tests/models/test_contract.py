"""What every closed form has to keep to."""

import json
from functools import cache
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from check_models import ALLOWED, compare
from check_models import MODELS as WITH_VECTORS
from points import LAUNCH, NAMES, as_rows, at, build, odd, plain

from dse import models
from dse.errors import DseError
from dse.models.about import ASPECTS, About
from dse.models.protocol import Model
from dse.reproduce.papers import table
from dse.types import ABSENT, CLASSES, TENSOR, Prediction

MODELS = pytest.mark.parametrize("name", models.CLOSED_FORMS)
SINGLE = pytest.mark.quick("mwp-cwp-corrected", "phase")  # precision: compiled anew
TIMES = (
    *(f"{what}_{name}" for what in ("cpi", "latency") for name in CLASSES),
    "issue_cycles",
    "lsu_cycles",
    "departure_delay_coal_cycles",
    "departure_delay_uncoal_cycles",
)
RATES = ("issue_limit", "dram_bandwidth")


@cache
def gradient_of(name):
    def cycles(values):
        return models.get(name).predict(*build(values)).cycles.sum()

    return jax.jit(jax.grad(cycles), compiler_options={"xla_backend_optimization_level": 0})


def slopes(name, values):
    """The gradient of the cycles by the GPU's and the kernel's floats."""
    count = values.shape[1]
    assert count <= 64
    padded = np.pad(values, ((0, 0), (0, 64 - count)), mode="edge")
    return np.stack(gradient_of(name)(tuple(padded)))[: -len(LAUNCH), :count]


ARITHMETIC = ("work_fp32", "work_fp64", "work_int32", "work_imul32", "work_sfu")
PRODUCTS = tuple(f"work_{name}" for name in TENSOR)
SHARED = ("work_shared", "shared_insts")
COMPUTATION = (*ARITHMETIC, *PRODUCTS, *SHARED)
MEMORY = ("work_l1", "work_l2", "work_dram", "load_insts", "store_insts", "sectors", "uncoal_insts")
DEFAULT_RULES = {
    "nothing": (),
    "products of matrices": PRODUCTS,
    "products out of registers": ("work_mma_warp",),
    "all but products out of shared memory": (*ARITHMETIC, "work_mma_warp", *SHARED, *MEMORY),
    "memory": MEMORY,
    "computation": COMPUTATION,
    "loads": ("load_insts",),
    "stores": ("store_insts",),
    "barriers": ("work_barrier",),
    "misses": ("work_l2", "work_dram"),
    "uncoalesced accesses": ("uncoal_insts",),
    "any arithmetic": (*ARITHMETIC, *PRODUCTS),
    "all but fp32": (*COMPUTATION[1:], *MEMORY, "work_barrier"),
    "all but loads": (*COMPUTATION, "store_insts", "work_barrier"),
    "all but stores": (*COMPUTATION, "load_insts", "work_barrier"),
}  # fmt: skip


@cache
def edges():
    """Kernels that leave something out, two GPUs each, as rows and columns."""
    columns = []
    for left_out in DEFAULT_RULES.values():
        p = plain(1, 2)
        vars(p).update({name: np.zeros(2) for name in left_out})
        columns.append(as_rows(p))
        p.warps_per_block = p.resident_blocks = p.ilp = p.mlp = np.ones(2)
        columns.append(as_rows(p))
    return np.concatenate(columns, 1)


def test_the_registry():
    for name, model in models.MODELS.items():
        assert isinstance(model, Model)
        assert (model.name, models.get(name), models.get(model)) == (name, model, model)
    with pytest.raises(DseError, match=r"^model: found 'volkow', expected one of .*did you mean volkov\?$"):
        models.module("volkow")


READ_FOR = {"ILP": ("ilp",), "Λ_comp": ("latency_fp32", "latency_shared"), "Λ_mem": ("latency_dram",)}


@MODELS
def test_reads_what_it_says_it_takes_into_account(name):
    moved = np.repeat(as_rows(plain(9, 256))[:, None], 1 + len(READ_FOR), 1)
    for index, leaves in enumerate(READ_FOR.values()):
        for leaf in leaves:
            moved[NAMES.index(leaf), 1 + index] *= 1.5
    cycles = at(models.get(name).predict, moved).cycles
    changed = (cycles[1:] != cycles[0]).any(1)
    read = {aspect for aspect, differs in zip(READ_FOR, changed, strict=True) if differs}
    assert read == models.module(name).ABOUT.aspects & set(READ_FOR)


@MODELS
def test_prediction_is_whole_at_plain_points_and_at_edges(name):
    values = np.concatenate([as_rows(plain(2, 256)), edges()], 1)
    prediction = at(models.get(name).predict, values)
    assert isinstance(prediction, Prediction)
    cycles, terms = np.asarray(prediction.cycles), [np.asarray(x) for x in prediction.terms.values()]
    assert np.isfinite(cycles).all()
    assert (cycles > 0).all()
    assert all((term >= 0).all() for term in terms)
    np.testing.assert_allclose(sum(terms), cycles, rtol=1e-12)
    np.testing.assert_allclose(prediction.seconds, cycles / values[NAMES.index("clock")], rtol=1e-15)
    np.testing.assert_array_equal(prediction.bottleneck, np.argmax(terms, 0))
    assert all(np.isfinite(x[:256]).all() for x in prediction.details.values())
    assert not any(np.isnan(x).any() for x in prediction.details.values())


@MODELS
def test_axes_broadcast(name):
    gpu, kernel, launch = build(as_rows(plain(3, 4)))
    grid = jax.eval_shape(
        models.get(name).predict,
        jax.tree.map(lambda x: x[:2, None, None] if x.ndim else x, gpu),
        jax.tree.map(lambda x: x[None, :3, None] if x.ndim else x, kernel),
        jax.tree.map(lambda x: x[None, None, :], launch),
    )
    assert {x.shape for x in (grid.cycles, grid.seconds, *grid.terms.values())} == {(2, 3, 4)}
    leaves = jax.tree.leaves(grid)
    assert all(np.broadcast_shapes(x.shape, (2, 3, 4)) == (2, 3, 4) for x in leaves)


@pytest.mark.quick("transit")
@MODELS
def test_gradient_is_the_slope(name):
    assert np.isfinite(slopes(name, edges())).all()
    predict, number, step = models.get(name).predict, 64, 1e-6
    values = as_rows(plain(4, number))
    gradient = slopes(name, values)
    assert np.isfinite(gradient).all()
    leaves = len(NAMES) - len(LAUNCH)  # of the GPU and the kernel
    moved = np.repeat(values[:, None, None, :], 2, 1).repeat(leaves, 2)  # name, direction, leaf, point
    for leaf in range(leaves):
        moved[leaf, :, leaf] *= np.array([1 + step, 1 - step])[:, None]
    up, down = at(predict, moved).cycles
    middle = at(predict, values).cycles
    # d ln(cycles) / d ln(leaf), from either side
    right, left = (up - middle) / step / middle, (middle - down) / step / middle
    smooth = np.abs(right - left) < 1e-4
    assert smooth.mean() > 0.98
    assert (smooth.mean(1) > 0.8).all()  # of each leaf
    slope = gradient * values[:leaves] / middle
    np.testing.assert_allclose(slope[smooth], ((right + left) / 2)[smooth], rtol=1e-5, atol=1e-7)
    assert (np.abs(slope).max(1) > 1e-3).sum() > 5  # most models read most leaves; none reads only a few


@SINGLE
@MODELS
def test_single_precision_is_close(name):
    predict, values = models.get(name).predict, as_rows(plain(5, 512)).astype(np.float32)
    single, double = at(predict, values), at(predict, values.astype(float))
    leaves = jax.tree.leaves(eqx.filter(single, eqx.is_inexact_array))
    assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float32)}
    same = np.ones(values.shape[1], bool)
    if "case" in double.details:  # the published cases do not meet at their boundaries
        same = np.asarray(single.details["case"] == double.details["case"])
        assert same.mean() > 0.99
    np.testing.assert_allclose(single.cycles[same], double.cycles[same], rtol=1e-5)


@MODELS
def test_time_has_a_unit(name):
    # All that is counted in cycles times c, all rates through c: everything takes c times as long.
    predict, values, c = models.get(name).predict, as_rows(plain(6, 256)), 4.0
    scaled = values.copy()
    for leaf in TIMES:
        scaled[NAMES.index(leaf)] *= c
    for leaf in RATES:
        scaled[NAMES.index(leaf)] /= c
    np.testing.assert_allclose(at(predict, scaled).cycles, c * at(predict, values).cycles, rtol=1e-12)


def test_monotone_where_it_says_so():
    # No slower where a λ or Λ falls, or a rate grows.
    monotone = [name for name in models.CLOSED_FORMS if models.get(name).about.monotone]
    assert {"roofline", "volkov", "transit"} <= set(monotone)
    values = as_rows(plain(7, 256))
    moved = np.repeat(values[:, None], 3 * len(TIMES + RATES), 1)
    for index, (leaf, factor) in enumerate((x, f) for x in TIMES + RATES for f in (0.9, 0.5, 0.0625)):
        moved[NAMES.index(leaf), index] *= factor if leaf in TIMES else 1 / factor
    for name in monotone:
        before, after = (at(models.get(name).predict, x).cycles for x in (values, moved))
        assert (after <= before * (1 + 1e-12)).all(), name
        assert (after < before * 0.9).any(), name


@SINGLE
@MODELS
def test_products_that_a_gpu_lacks_never_make_nonsense(name):
    values = as_rows(plain(10, 64)).astype(np.float32)  # whose range is the smaller one
    for leaf in ("cpi_mma_fp8", "latency_mma_fp8"):
        values[NAMES.index(leaf)] = ABSENT
    assert not np.isnan(at(models.get(name).predict, values).cycles).any()
    values[NAMES.index("work_mma_fp8")] = 0
    none = at(models.get(name).predict, values).cycles
    assert (none < 1e12).all()


def test_no_launch_is_faster_than_its_roofline_where_a_model_says_so():
    """The others are as published: their sources name pipes that they do not know."""
    below = set()
    for points in (plain(7, 1000), odd(7, 1000)):
        blocks = np.maximum(1, np.round(points.waves * points.resident_blocks))  # a wave has whole blocks
        points.waves = np.maximum(1, blocks / points.resident_blocks)
        points.active_sms = points.sm_count  # equally: others would leave them more of L2 and DRAM
        points.blocks = points.waves * points.resident_blocks * points.sm_count
        bound = at(models.get("roofline").predict, points).cycles
        for name in models.CLOSED_FORMS:
            if (at(models.get(name).predict, points).cycles < bound * (1 - 1e-9)).any():
                below.add(name)
    assert below == {name for name in models.CLOSED_FORMS if not models.get(name).about.bounded}


@pytest.mark.parametrize("name", models.MODELS)
def test_what_a_model_says_of_itself_is_complete(name):
    about = models.module(name).ABOUT
    assert about.source
    assert about.use_when.endswith(".")
    assert about.equations
    assert about.inputs
    assert about.ignores
    assert about.use_when.startswith("By default") == (name == models.DEFAULT)


def test_aspects_are_those_of_table_7_of_lemeire_et_al():
    symbols = {"Lambda_comp": "Λ_comp", "Lambda_mem": "Λ_mem"}
    printed = [row["aspect"] for row in table("lemeire_table_7")]
    assert tuple(symbols.get(name, name.replace("_", " ")) for name in printed) == ASPECTS
    with pytest.raises(ValueError, match=r"^aspects: found \['speed'\], expected some of ILP, "):
        About("", {}, (), (), "", frozenset({"speed"}))


VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())["models"]


@pytest.mark.quick("wfg_graph", "mwp_cwp_corrected")
@pytest.mark.parametrize("model", VECTORS)
def test_equals_the_other_implementation(model):
    assert set(VECTORS) == set(WITH_VECTORS)
    row = compare(model, VECTORS[model])
    assert row["cases"] >= 20
    assert row["worst"] <= ALLOWED, row["at"]

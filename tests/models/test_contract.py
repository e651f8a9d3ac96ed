"""What every registered model has to keep to."""

import inspect
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse import models
from dse.errors import DseError
from dse.types import CLASSES, Prediction

MODELS = pytest.mark.parametrize("name", models.MODELS)
TIMES = (
    *(f"{what}_{name}" for what in ("cpi", "latency") for name in CLASSES),
    "issue_cycles",
    "departure_delay_coal_cycles",
    "departure_delay_uncoal_cycles",
)
RATES = ("issue_limit", "dram_bandwidth")
LAUNCH = 6  # the last so many names of a point


@cache
def cycles_alone(name):
    """A function of a module, so that its compiled form is found again."""
    predict = models.predictor(name)
    return lambda gpu, kernel, launch: predict(gpu, kernel, launch).cycles


@pytest.fixture
def edges(plain, as_rows, names):
    """Kernels that leave something out, two GPUs each, as rows and columns."""
    none = dict.fromkeys(names, 0.0)
    arithmetic = [f"work_{name}" for name in ("fp32", "fp64", "int32", "imul32", "sfu", "shared")]
    memory = ("work_l1", "work_l2", "work_dram", "load_insts", "store_insts", "sectors", "uncoal_insts")
    without = {
        "nothing": (),
        "memory": memory,
        "computation": (*arithmetic, "shared_insts"),
        "loads": ("load_insts",),
        "stores": ("store_insts",),
        "barriers": ("work_barrier",),
        "misses": ("work_l2", "work_dram"),
        "uncoalesced accesses": ("uncoal_insts",),
        "any arithmetic": arithmetic[:-1],
        "all but fp32": (*arithmetic[1:], "shared_insts", *memory, "work_barrier"),
        "all but loads": (*arithmetic, "shared_insts", "store_insts", "work_barrier"),
        "all but stores": (*arithmetic, "shared_insts", "load_insts", "work_barrier"),
    }
    columns = []
    for left_out in without.values():
        p = plain(1, 2)
        vars(p).update({name: 0.0 * vars(p)[name] for name in left_out if name in none})
        columns.append(as_rows(p))
        p.warps_per_block = p.resident_blocks = p.ilp = p.mlp = np.ones(2)
        columns.append(as_rows(p))
    return np.concatenate(columns, 1)


def test_the_registry():
    assert len(set(models.MODELS)) == len(models.MODELS)
    with pytest.raises(DseError, match=r"^model: found 'volkow', expected one of .*did you mean volkov\?$"):
        models.module("volkow")
    with pytest.raises(DseError, match=r"^model: found 'xyz', expected one of [^?]*$"):
        models.predictor("xyz")


def test_naming_the_models_imports_no_jax(run_python):
    ran = run_python("import sys, dse.models; print(len(dse.models.MODELS), 'jax' in sys.modules)")
    assert (ran.code, ran.out) == (0, f"{len(models.MODELS)} False\n"), ran.err


@MODELS
def test_says_what_it_leaves_out_and_where_it_is_from(name):
    module = models.module(name)
    assert isinstance(module.MONOTONE, bool)
    assert "Leaves out" in module.__doc__
    assert "Source: " in module.__doc__
    assert list(inspect.signature(module.predict).parameters)[:3] == ["gpu", "kernel", "launch"]


@MODELS
def test_prediction_is_whole(name, plain, at):
    p = plain(2, 256)
    prediction = at(models.predictor(name), p)
    assert isinstance(prediction, Prediction)
    cycles, terms = np.asarray(prediction.cycles), [np.asarray(x) for x in prediction.terms.values()]
    assert np.isfinite(cycles).all()
    assert (cycles > 0).all()
    assert all((term >= 0).all() for term in terms)
    np.testing.assert_allclose(sum(terms), cycles, rtol=1e-12)
    np.testing.assert_allclose(prediction.seconds, cycles / p.clock, rtol=1e-15)
    np.testing.assert_array_equal(prediction.bottleneck, np.argmax(terms, 0))
    assert all(np.isfinite(x).all() for x in prediction.details.values())


@MODELS
def test_broadcasting_equals_looping(name, plain, build, as_rows, at, names):
    predict = models.predictor(name)
    gpus, kernels, launches = 2, 3, 4
    values = as_rows(plain(3, 12))
    parts = build(values)
    grid = jax.jit(predict)(
        jax.tree.map(lambda x: x[:gpus, None, None] if x.ndim else x, parts[0]),
        jax.tree.map(lambda x: x[None, :kernels, None], parts[1]),
        jax.tree.map(lambda x: x[None, None, :launches], parts[2]),
    )
    shape = (gpus, kernels, launches)
    assert {x.shape for x in (grid.cycles, grid.seconds, *grid.terms.values())} == {shape}
    starts = [0, names.index("work_fp32"), len(names) - LAUNCH, len(names)]
    for index in np.ndindex(shape):
        one = [values[starts[i] : starts[i + 1], index[i]] for i in range(3)]
        alone = at(predict, np.concatenate(one))
        np.testing.assert_allclose(grid.cycles[index], alone.cycles, rtol=1e-14)
        np.testing.assert_allclose(grid.seconds[index], alone.seconds, rtol=1e-14)
        for term, value in alone.terms.items():
            np.testing.assert_allclose(grid.terms[term][index], value, rtol=1e-14)
        for detail, value in alone.details.items():
            found = np.broadcast_to(grid.details[detail], shape)[index]
            np.testing.assert_allclose(found, value, rtol=1e-14)


@MODELS
def test_traces_once(name, plain, build):
    predict = jax.jit(eqx.debug.assert_max_traces(models.predictor(name), max_traces=1))
    for seed in (1, 2):
        predict(*build(jax.tree.map(jnp.asarray, plain(seed, 5))))


@MODELS
def test_gradient_is_the_slope(name, plain, build, as_rows, at, names):
    cycles, number, step = cycles_alone(name), 60, 1e-6
    values = as_rows(plain(4, number))
    gradient = np.asarray(jax.jit(jax.grad(lambda x: cycles(*build(x)).sum()))(values))
    assert np.isfinite(gradient).all()
    leaves = len(names) - LAUNCH  # of the GPU and the kernel
    moved = np.repeat(values[:, None, None, :], 2, 1).repeat(leaves, 2)  # name, direction, leaf, point
    for leaf in range(leaves):
        moved[leaf, :, leaf] *= np.array([1 + step, 1 - step])[:, None]
    up, down = np.asarray(at(cycles, moved))
    middle = np.asarray(at(cycles, values))
    # d ln(cycles) / d ln(leaf), from either side
    right, left = (up - middle) / step / middle, (middle - down) / step / middle
    smooth = np.abs(right - left) < 1e-4
    assert smooth.mean() > 0.98
    assert (smooth.mean(1) > 0.8).all()  # of each leaf
    slope = gradient[:leaves] * values[:leaves] / middle
    np.testing.assert_allclose(slope[smooth], ((right + left) / 2)[smooth], rtol=1e-5, atol=1e-7)
    assert (np.abs(slope).max(1) > 1e-3).sum() > 5  # most models read most leaves; none reads only a few


@MODELS
def test_edges_are_finite_and_so_are_their_gradients(name, edges, build, at):
    prediction = at(models.predictor(name), edges)
    for found in (prediction.cycles, prediction.seconds, *prediction.terms.values()):
        assert np.isfinite(found).all()
    assert (np.asarray(prediction.cycles) > 0).all()
    assert all((np.asarray(term) >= 0).all() for term in prediction.terms.values())
    np.testing.assert_allclose(sum(prediction.terms.values()), prediction.cycles, rtol=1e-12)
    assert not any(np.isnan(x).any() for x in prediction.details.values())
    cycles = cycles_alone(name)
    gradient = jax.jit(jax.grad(lambda x: cycles(*build(x)).sum()))(edges)
    assert np.isfinite(gradient).all()


@MODELS
def test_single_precision_is_close(name, plain, build, as_rows, at):
    predict, values = models.predictor(name), as_rows(plain(5, 512)).astype(np.float32)
    single, double = at(predict, values), at(predict, values.astype(float))
    leaves = jax.tree.leaves(eqx.filter(single, eqx.is_inexact_array))
    assert {leaf.dtype for leaf in leaves} == {np.dtype(np.float32)}
    same = np.ones(values.shape[1], bool)
    if "case" in double.details:  # the published cases do not meet at their boundaries
        same = np.asarray(single.details["case"] == double.details["case"])
        assert same.mean() > 0.99
    np.testing.assert_allclose(single.cycles[same], double.cycles[same], rtol=1e-5)


@MODELS
def test_time_has_a_unit(name, plain, as_rows, at, names):
    # All that is counted in cycles times c, all rates through c: everything takes c times as long.
    cycles, values, c = cycles_alone(name), as_rows(plain(6, 256)), 4.0
    scaled = values.copy()
    for leaf in TIMES:
        scaled[names.index(leaf)] *= c
    for leaf in RATES:
        scaled[names.index(leaf)] /= c
    np.testing.assert_allclose(at(cycles, scaled), c * at(cycles, values), rtol=1e-12)


@MODELS
def test_monotone_where_it_says_so(name, plain, as_rows, at, names):
    # No slower where a λ or Λ falls, or a rate grows.
    cycles, values = cycles_alone(name), as_rows(plain(7, 256))
    before, slower = np.asarray(at(cycles, values)), False
    moved = np.repeat(values[:, None], 3 * len(TIMES + RATES), 1)
    for index, (leaf, factor) in enumerate((x, f) for x in TIMES + RATES for f in (0.9, 0.5, 0.0625)):
        moved[names.index(leaf), index] *= factor if leaf in TIMES else 1 / factor
    slower = (np.asarray(at(cycles, moved)) > before * (1 + 1e-12)).any()
    # A model that says it is not monotone has to be caught at it, or it should say that it is.
    assert slower == (not models.module(name).MONOTONE)


@pytest.mark.parametrize("name", ["volkov", "transit", "mwp-cwp-corrected", "wfg-pipeline", "wfg-corrected"])
def test_no_faster_than_the_roofline_of_its_pipes(name, plain, at):
    p = plain(8, 256)
    pipes = CLASSES if name == "volkov" else CLASSES[:-1]  # the others have no pipe for barriers
    p.work_barrier = p.work_barrier if name == "volkov" else 0.0 * p.work_barrier
    bound = np.max([vars(p)[f"work_{pipe}"] * vars(p)[f"cpi_{pipe}"] for pipe in pipes], 0)
    bound *= p.warps_per_block * p.resident_blocks * p.waves
    found = np.asarray(at(cycles_alone(name), p))
    assert (found >= bound * (1 - 1e-12)).all()
    assert (found > bound * 1.001).any()

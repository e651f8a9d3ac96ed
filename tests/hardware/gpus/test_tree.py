"""GPUs with other numbers: by `replace`, by JAX, and by what follows from them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dse
from dse.core.precision import in_64_bits
from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.gpus.tree import of

LAUNCH = {"tile": 32, "rows": 8, "shared": 1, "padding": 1}
NAMES = ("a100-pcie-40gb", "mi300x", "gtx-280")


def seconds(gpu, model="phase"):
    return dse.predict(gpu, "transpose", LAUNCH, model).seconds


@pytest.mark.parametrize("name", NAMES)
def test_what_follows_follows(name):
    gpu = gpus.load(name, np.float64)
    changed = gpu.replace(dram_bandwidth=2 * gpu.gpu.dram_bandwidth, clock=3 * gpu.gpu.clock)
    assert changed.gpu.cpi.dram == pytest.approx(1.5 * float(gpu.gpu.cpi.dram))
    assert changed.gpu.latency.dram == gpu.gpu.latency.dram  # cycles were measured, and follow nothing
    facts = {fact.field: fact for fact in changed.fields}
    assert (facts["clock"].value, facts["clock"].source) == (3 * float(gpu.gpu.clock), "replaced")
    assert str(round(3 * float(gpu.gpu.clock) / 1e6)) in str(facts["cpi.dram"].rule)
    same = changed.replace(dram_bandwidth=gpu.gpu.dram_bandwidth, clock=gpu.gpu.clock)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(a == b), same.gpu, gpu.gpu))


def test_a_rule_is_replaced_by_a_value_or_by_its_number():
    gpu = dse.gpu("a100-pcie-40gb")
    less = gpu.replace({"cpi.dram.bandwidth_share": 0.8 * gpu.numbers["cpi.dram.bandwidth_share"]})
    assert less.gpu.cpi.dram == pytest.approx(float(gpu.gpu.cpi.dram) / 0.8)
    stated = gpu.replace({"cpi.dram": 4}).replace(sm_count=100)
    assert stated.gpu.cpi.dram == 4
    assert gpu.replace({"limits.warps_per_sm": 32}).gpu.limits.warps_per_sm == 32
    assert gpu.replace(memory_cache_bytes=2**28).gpu.memory_cache_bytes == 2**28


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"dram_bandwith": 1e12}, "dram_bandwith: unknown field, .*did you mean dram_bandwidth"),
        ({"dram_bandwidth": -1}, "dram_bandwidth: found -1, expected B/s above 0"),
        ({"limits.warps_per_sm": 1.5}, "limits.warps_per_sm: found 1.5, expected a whole number of warps"),
        ({"cpi.dram.bandwidth_share": 2}, "cpi.dram.bandwidth_share: found 2.0, expected a share, at most 1"),
        ({"clock": np.inf}, "clock: found inf, expected Hz above 0"),
        ({"clock": [1e9, 2e9]}, r"clock: found an array \(2,\), expected one number"),
    ],
)
def test_mistakes_are_one_line(changes, line):
    with pytest.raises(DseError, match=line) as error:
        dse.gpu("a100-pcie-40gb").replace(changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_the_tree_is_the_gpu(name):
    """The numbers give the GPU that they were taken from, and keep their names."""
    gpu = gpus.load(name, np.float64)
    again = jax.tree.map(jnp.asarray, gpu)
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-12), again.gpu, gpu.gpu))
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(gpu)]
    assert paths == sorted(f".numbers['{name}']" for name in gpu.numbers)
    faster = eqx.tree_at(lambda gpu: gpu.numbers["clock"], gpu, 2 * gpu.gpu.clock)
    assert faster.gpu.cpi.dram == pytest.approx(2 * float(gpu.gpu.cpi.dram))
    assert faster.replace(clock=gpu.gpu.clock).gpu.cpi.dram == pytest.approx(float(gpu.gpu.cpi.dram))


def test_a_file_that_is_read_twice_has_one_structure():
    """So that what is compiled for one reading serves the other."""
    first, again, other = (jax.tree.structure(dse.gpu(name)) for name in (*NAMES[:1], *NAMES[:2]))
    assert (first, hash(first)) == (again, hash(again))
    assert first != other


def test_derivatives_by_one_number():
    gpu = dse.gpu("a100-pcie-40gb")
    bandwidth = float(gpu.gpu.dram_bandwidth)
    slope = jax.grad(lambda x: seconds(gpu.replace(dram_bandwidth=x), "roofline"))(bandwidth)
    of_tree = jax.grad(seconds)(gpu, "roofline").numbers["dram_bandwidth"]
    assert float(slope) == pytest.approx(float(of_tree), rel=1e-6)
    assert float(slope) < 0
    with pytest.raises(DseError, match=r"limits.warps_per_sm: found a number that JAX traces"):
        jax.grad(lambda x: seconds(gpu.replace({"limits.warps_per_sm": x})))(32.0)


@pytest.mark.parametrize("model", ["phase", "volkov", "mwp-cwp-corrected"])
def test_derivatives_are_those_of_differences(model):
    """By every number of the file, where the model is smooth. Slopes of all models are in their contract."""
    with in_64_bits():
        gpu = gpus.load("a100-pcie-40gb", np.float64)
        leaves, tree = jax.tree.flatten(gpu)
        names, x = sorted(gpu.numbers), jnp.stack(leaves)

        def at(numbers):
            return seconds(jax.tree.unflatten(tree, list(numbers)), model)

        steps = jnp.diag(1e-6 * x)
        up, down = jax.lax.map(jax.vmap(at), jnp.stack([x[None] + steps, x[None] - steps]))
        middle, slope = jax.jit(jax.value_and_grad(at))(x)
        right, left = (up - middle) / (1e-6 * middle), (middle - down) / (1e-6 * middle)
        smooth = np.isclose(right, left, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose((slope * x / middle)[smooth], ((right + left) / 2)[smooth], 1e-4, 1e-6)
    assert smooth.sum() > 0.9 * len(names)
    assert abs(float(slope[names.index("clock")])) > 0


def test_every_field_has_a_place():
    """A number of each field that follows nothing, or of its rule, unless another field has it."""
    gpu = dse.gpu("a100-pcie-40gb")
    for fact in gpu.fields:
        if fact.free and not fact.field.startswith("limits."):
            name = fact.free
            assert gpu.numbers[name] == (fact.follows.number if fact.follows else of(gpu.gpu, fact.field))

"""Numbers of a GPU that follow from others: in edited files, by `replace`, and as a tree of JAX."""

import re
from pathlib import Path
from typing import Any

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
from dse.types import Gpu

SOME = gpus.names()[::12]
NAMES = ("a100-pcie-40gb", "mi300x", "gtx-280")
A100 = "a100-pcie-40gb"


# Edited files


def doubled(name: str, field: str, folder: Path) -> Path:
    """A GPU file with one value doubled, as a user would edit it."""
    head, table, rest = gpus.find(name).read_text().partition(f"\n[{field}]\n")
    rest = re.sub(r"(?m)^value = (.+)$", lambda old: f"value = {2 * float(old[1])!r}", rest, count=1)
    path = folder / f"{field}_{name}.toml"
    path.write_text(head + table + rest)
    return path


def loaded(files: list[Any]) -> Gpu:
    return gpus.stack([gpus.load(file, np.float64).gpu for file in files])


FIELDS = ("dram_bandwidth", "clock", "sm_count")


@pytest.fixture(scope="module")
def edited(tmp_path_factory) -> Gpu:
    """Every twelfth GPU of the catalogue, as it is and with one of FIELDS doubled: [edits, GPUs]."""
    folder = tmp_path_factory.mktemp("edited")
    files = [list(SOME), *([doubled(name, field, folder) for name in SOME] for field in FIELDS)]
    return jax.tree.map(lambda *x: np.stack(x), *map(loaded, files))


@pytest.mark.parametrize("field", FIELDS)
def test_each_pipe_follows_what_is_edited(edited, field):
    """The seconds of the whole GPU for a fixed amount of work of a pipe."""
    pipes = ("fp32", "shared", "l1", "l2", "dram")
    busy = np.stack([getattr(edited.cpi, pipe) / edited.clock / edited.sm_count for pipe in pipes])
    uncached = edited.l2_bytes[0] == 0  # no cache for loads
    of_dram = np.array([uncached * (pipe in ("l1", "l2")) | (pipe == "dram") for pipe in pipes])
    faster = np.where(of_dram == (field == "dram_bandwidth"), 2.0, 1.0)
    np.testing.assert_allclose(busy[:, 0] / busy[:, 1 + FIELDS.index(field)], faster, rtol=1e-6)


# Other numbers by `replace` and by JAX


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
    gpu = dse.gpu(A100)
    less = gpu.replace({"cpi.dram.bandwidth_share": 0.8 * gpu.numbers["cpi.dram.bandwidth_share"]})
    assert less.gpu.cpi.dram == pytest.approx(float(gpu.gpu.cpi.dram) / 0.8)
    assert gpu.replace({"cpi.dram": 4}).replace(sm_count=100).gpu.cpi.dram == 4
    assert gpu.replace({"limits.warps_per_sm": 32}).gpu.limits.warps_per_sm == 32
    assert gpu.replace(memory_cache_bytes=2**28).gpu.memory_cache_bytes == 2**28
    # A number of each field that follows nothing, or of its rule, unless another field has it.
    gpu = dse.gpu(A100)
    for fact in gpu.fields:
        if fact.free and not fact.field.startswith("limits."):
            number = fact.follows.number if fact.follows else of(gpu.gpu, fact.field)
            assert gpu.numbers[fact.free] == number
    gpu = gpus.load(A100, np.float64)
    bandwidth, cycles = float(gpu.gpu.dram_bandwidth), float(gpu.gpu.cpi.dram)
    slope = jax.grad(lambda x: gpu.replace(dram_bandwidth=x).gpu.cpi.dram)(bandwidth)
    assert float(slope) == pytest.approx(-cycles / bandwidth)
    with pytest.raises(DseError, match=r"limits.warps_per_sm: found a number that JAX traces"):
        jax.grad(lambda x: gpu.replace({"limits.warps_per_sm": x}).gpu.clock)(32.0)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"dram_bandwith": 1e12}, "dram_bandwith: unknown field, .*did you mean dram_bandwidth"),
        ({"dram_bandwidth": -1}, "dram_bandwidth: found -1, expected B/s above 0"),
        ({"limits.warps_per_sm": 1.5}, "limits.warps_per_sm: found 1.5, expected a whole number of warps"),
        ({"cpi.dram.bandwidth_share": 2}, "cpi.dram.bandwidth_share: found 2.0, expected a share, at most 1"),
        ({"clock": [1e9, 2e9]}, r"clock: found an array \(2,\), expected one number"),
    ],
)
def test_mistakes_are_one_line(changes, line):
    with pytest.raises(DseError, match=line):
        dse.gpu(A100).replace(changes)


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
    share = "cpi.dram.bandwidth_share"
    less = eqx.tree_at(lambda gpu: gpu.numbers[share], gpu, 0.5 * gpu.numbers[share])
    assert less.gpu.cpi.dram == pytest.approx(2 * float(gpu.gpu.cpi.dram))
    twice, other = (jax.tree.structure(gpus.load(item)) for item in (name, "h200"))
    assert (twice, hash(twice)) == (jax.tree.structure(gpus.load(name)), hash(jax.tree.structure(gpu)))
    assert twice != other  # what is compiled for one reading serves the next, of the same file


@pytest.mark.slow
def test_derivatives_are_those_of_differences(toy_kernel):
    """By every number of the file, where the model is smooth. Slopes of all models are in their contract."""
    with in_64_bits():
        gpu = gpus.load(A100, np.float64)
        leaves, tree = jax.tree.flatten(gpu)
        names, x = sorted(gpu.numbers), jnp.stack(leaves)

        def at(numbers):
            gpu = jax.tree.unflatten(tree, list(numbers))
            return dse.predict(gpu, toy_kernel, {"block": 32, "items": 2}, "transit").seconds

        steps = jnp.diag(1e-6 * x)
        up, down = jax.lax.map(jax.vmap(at), jnp.stack([x[None] + steps, x[None] - steps]))
        middle, slope = jax.jit(jax.value_and_grad(at))(x)
        right, left = (up - middle) / (1e-6 * middle), (middle - down) / (1e-6 * middle)
        smooth = np.isclose(right, left, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose((slope * x / middle)[smooth], ((right + left) / 2)[smooth], 1e-4, 1e-6)
    assert smooth.sum() > 0.9 * len(names)
    assert abs(float(slope[names.index("clock")])) > 0

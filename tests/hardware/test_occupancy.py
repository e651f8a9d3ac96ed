"""Occupancy against the toolkit's stored answers and against the rules in plain Python."""

import csv
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dse.hardware import gpus, occupancy
from dse.hardware.tensor import LACKS
from dse.types import CLASSES, Gpu, Limits, PerClass, Resources

DATA = Path(__file__).parent
LARGEST = 2**31 - 1
# How a sweep may compile: fast math turns divisions into multiplications by a reciprocal.
FAST = {"xla_cpu_enable_fast_math": True, "xla_cpu_prefer_vector_width": "512"}


@cache
def capabilities() -> dict[str, dict[str, int]]:
    with (DATA / "capability_limits.csv").open(newline="") as file:
        rows = {row.pop("capability"): row for row in csv.DictReader(file)}
    return {
        name: {key: int(value) for key, value in row.items() if key != "source" and value}
        for name, row in rows.items()
    }


CAPABILITIES = tuple(capabilities())
launch = jax.jit(occupancy.launch)
resident_blocks = jax.jit(occupancy.resident_blocks)


def limits_of(*names: str, **changes: int) -> Limits:
    """Limits [G, 1] of compute capabilities, or of one [] if there is one."""
    rows = [capabilities()[name] | changes for name in names]
    columns = {key: np.array([[row[key]] for row in rows]) for key in Limits.__dataclass_fields__}
    return Limits(**{key: column if len(names) > 1 else column[0, 0] for key, column in columns.items()})


def gpu_of(*names: str, sm_count: int = 16, dtype: type = np.float64) -> Gpu:
    """GPUs whose only true figures are their limits and SMs."""
    shape = (len(names), 1) if len(names) > 1 else ()
    numbers: dict[str, Any] = {
        key: np.ones(shape, dtype) for key in Gpu.__dataclass_fields__ if key not in ("cpi", "latency")
    }
    ones = PerClass(**{name: np.ones(shape, dtype) for name in CLASSES})
    numbers |= {"sm_count": np.full(shape, sm_count, dtype)}
    return Gpu(**numbers | {"cpi": ones, "latency": ones, "limits": limits_of(*names)})


def resources(threads: Any = 128, blocks: Any = LARGEST, registers: Any = 16, shared_bytes: Any = 0):
    return Resources(threads=threads, blocks=blocks, registers=registers, shared_bytes=shared_bytes)


def names_of(codes) -> np.ndarray:
    return np.array(occupancy.LIMITERS)[np.asarray(codes)]


# The rules, one resource at a time, in plain Python.


def up(x: int, unit: int) -> int:
    return -(-x // unit) * unit


def register_blocks(name: str, warps: int, registers: int, parts: int) -> float:
    """Blocks that the registers allow with `parts` sub-partitions; 0 if one block may not have so many."""
    row = capabilities()[name]
    per_warp = row["warp_size"] * registers
    if registers == 0:
        return float("inf")
    if row["registers_by_block"]:  # 1.x: the guide's G_W is 2 warps
        block = up(up(warps, 2) * per_warp, row["register_unit"])
        return row["registers_per_sm"] // block if block <= row["registers_per_block"] else 0
    per_warp = up(per_warp, row["register_unit"])
    checked = warps if name.startswith("gfx") else up(warps, parts)
    if per_warp * checked > row["registers_per_block"]:
        return 0
    return row["registers_per_sm"] // parts // per_warp * parts // warps


def plain(name: str, threads: int, blocks: int, registers: int, shared_bytes: int) -> tuple[int, str]:
    """Resident blocks and the limiter."""
    row = capabilities()[name]
    if threads < 1:
        return 0, "no threads"
    if blocks < 1:
        return 0, "no blocks"
    if min(registers, shared_bytes) < 0:
        return 0, "negative registers or shared memory"
    if threads > row["threads_per_block"]:
        return 0, "too many threads in a block"
    if registers > row["registers_per_thread"]:
        return 0, "too many registers a thread"
    warps = -(-threads // row["warp_size"])
    by_registers = register_blocks(name, warps, registers, row["sub_partitions"])
    if name == "6.0" and register_blocks(name, warps, registers, 4) == 0:
        by_registers = 0  # refused for the sake of 6.1, which could not run it
    if by_registers == 0:
        return 0, "too many registers in a block"
    if shared_bytes > row["shared_bytes_per_block"]:
        return 0, "too much shared memory"
    shared = up(shared_bytes + row["shared_bytes_reserved"], row["shared_unit_bytes"])
    fit = {
        "warps": min(row["warps_per_sm"] // warps, row["threads_per_sm"] // (row["warp_size"] * warps)),
        "blocks": row["one_warp_blocks_per_sm"] if warps == 1 else row["blocks_per_sm"],
        "registers": by_registers,
        "shared memory": row["shared_bytes_per_sm"] // shared if shared else float("inf"),
    }
    limiter = min(fit, key=lambda resource: fit[resource])
    return int(fit[limiter]), limiter


def plain_launch(name: str, sm_count: int, asked: tuple[int, int, int, int]) -> tuple[int, int, float, str]:
    """Resident blocks of the busiest SM, active SMs, waves, and the limiter."""
    fit, limiter = plain(name, *asked)
    blocks = max(asked[1], 1)
    busiest = -(-blocks // sm_count)
    if busiest < fit:
        limiter = "grid"
    resident = max(min(fit, busiest), 1)
    return resident, min(sm_count, blocks), busiest / resident, limiter


def asked_for(launches: Resources) -> list[tuple[int, int, int, int]]:
    fields = (launches.threads, launches.blocks, launches.registers, launches.shared_bytes)
    return list(zip(*(np.ravel(field).tolist() for field in fields), strict=True))


def assert_equals_plain_python(found, names, launches, sm_count) -> None:
    """`found` is what `occupancy.launch` gave for GPUs [G, 1] and launches [1, L]."""
    laid, code = found
    cells = [[plain_launch(name, sm_count, asked) for asked in asked_for(launches)] for name in names]
    got = (laid.resident_blocks, laid.active_sms, laid.waves, names_of(code))
    for k, field in enumerate(got):
        expected = np.array([[cell[k] for cell in row] for row in cells])
        # Under fast math the quotient that gives the waves may be off in its last digit.
        check = np.testing.assert_array_max_ulp if k == 2 else np.testing.assert_array_equal
        check(np.broadcast_to(field, expected.shape), expected)


def random_resources(launches: int) -> Resources:
    """Launches [1, L], many of them near the edges of what fits, some beyond."""
    rng = np.random.default_rng(7)

    def mixed(*choices: np.ndarray) -> np.ndarray:
        return np.choose(rng.integers(0, len(choices), launches), choices)[None]

    threads = mixed(
        rng.integers(-1, 70, launches), rng.integers(0, 1100, launches), 32 * rng.integers(1, 34, launches)
    )
    near = 65536 // np.maximum(threads[0], 1) + rng.integers(-9, 3, launches)
    registers = mixed(rng.integers(-1, 80, launches), np.clip(near, 0, 520))
    near = 102400 // rng.integers(1, 33, launches) + rng.integers(-1300, 300, launches)
    shared_bytes = mixed(np.zeros(launches, int), rng.integers(-1, 3000, launches), near)
    blocks = mixed(
        rng.integers(0, 200, launches), rng.integers(0, 20000, launches), rng.integers(0, LARGEST, launches)
    )
    return Resources(threads=threads, blocks=blocks, registers=registers, shared_bytes=shared_bytes)


def test_equals_the_toolkits_header():
    with (DATA / "occupancy_vectors.csv").open(newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(rows) == 2000
    vectors = {key: np.array([int(row[key]) for row in rows]) for key in rows[0] if key != "capability"}
    limits = [capabilities()[row["capability"]] for row in rows]
    columns = {key: np.array([row[key] for row in limits]) for key in Limits.__dataclass_fields__}
    # The header lets a thread have registers that 3.0 and 7.0 upwards cannot address.
    columns |= {"registers_per_thread": np.array([row["header_registers_per_thread"] for row in limits])}
    asked = resources(vectors["threads"], LARGEST, vectors["registers"], vectors["shared_bytes"])
    fit, code = resident_blocks(Limits(**columns), asked)
    np.testing.assert_array_equal(fit, vectors["blocks"])
    bits = {"warps": 1, "too many threads": 1, "registers": 2, "shared memory": 4, "blocks": 8}
    for limiter, factors in zip(names_of(code), vectors["factors"], strict=True):
        held = [bit for words, bit in bits.items() if words in limiter]
        assert held == [bit for bit in held if bit & factors], limiter
        assert held or limiter == "no threads"


@pytest.mark.quick("plain")
@pytest.mark.parametrize("options", [None, FAST], ids=["plain", "fast math"])
def test_equals_the_rules_in_plain_python(options):
    launches, sm_count = random_resources(1500), 108

    def both(gpu, launches):
        return occupancy.resident_blocks(gpu.limits, launches), occupancy.launch(gpu, launches)

    (fit, code), actual = jax.jit(both, compiler_options=options)(
        gpu_of(*CAPABILITIES, sm_count=sm_count), launches
    )
    cells = [[plain(name, *asked) for asked in asked_for(launches)] for name in CAPABILITIES]
    np.testing.assert_array_equal(fit, [[blocks for blocks, _ in row] for row in cells])
    np.testing.assert_array_equal(names_of(code), [[limiter for _, limiter in row] for row in cells])
    assert_equals_plain_python(actual, CAPABILITIES, launches, sm_count)
    reached = set(occupancy.LIMITERS) - {*LACKS.values(), "too much static shared memory"}
    assert set(names_of(actual[1]).ravel()) == reached, "a limiter that no launch reached"


COUNTS = st.one_of(st.integers(-2, 300), st.integers(0, 300_000), st.integers(LARGEST - 2000, LARGEST))
LAUNCHES = st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS), min_size=8, max_size=8)


@settings(max_examples=50)
@given(name=st.sampled_from(CAPABILITIES), sm_count=st.integers(1, 300), launches=LAUNCHES)
@example(name="9.0", sm_count=1, launches=[(1024, LARGEST, 64, 0), (LARGEST,) * 4] * 4)
def test_equals_the_rules_for_any_counts(name, sm_count, launches):
    launches = resources(*np.array(launches).T[:, None])
    actual = launch(gpu_of(name, sm_count=sm_count), launches)
    assert_equals_plain_python(actual, [name], launches, sm_count)


@pytest.mark.parametrize("name", ["1.3", "6.0", "7.5", "8.0", "gfx90a"])
def test_most_registers(name):
    """One more, and the block does not run; with shared memory that no SM has, it never does."""
    threads = np.array([32, 64, 96, 256, 480])
    limits = limits_of(name)
    most_registers = jax.jit(partial(occupancy.most_registers, limits))
    most = np.asarray(most_registers(resources(threads=threads)))
    for more in (0, 1):
        _, code = resident_blocks(limits, resources(threads=threads, registers=most + more))
        assert (occupancy.possible(code) == (more == 0)).all()
    assert (most_registers(resources(threads=threads, shared_bytes=2**20)) == 0).all()
    if name == "8.0":
        np.testing.assert_array_equal(most, [255, 255, 255, 255, 128])


def test_no_launch_divides_by_zero():
    launches = random_resources(1000)
    gpu = gpu_of(*CAPABILITIES)

    def total(gpu):
        laid, _ = occupancy.launch(gpu, launches)
        inverses = [jnp.sum(1 / leaf) for leaf in jax.tree.leaves(laid)]
        return sum(inverses, jnp.sum(laid.waves / laid.warps_per_sm))

    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(total))(gpu)
    assert jnp.isfinite(value)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_occupancy_is_the_share_of_warps():
    gpu = gpu_of("8.6")  # 48 warps
    laid, code = occupancy.launch(
        gpu, resources(threads=np.array([512, 512, 1]), blocks=np.array([10**6, 32, 16]))
    )
    np.testing.assert_allclose(occupancy.occupancy(gpu.limits, laid), [1.0, 2 / 3, 1 / 48])
    assert names_of(code).tolist() == ["warps", "grid", "grid"]
    np.testing.assert_allclose(laid.waves, [62500 / 3, 1, 1])


@pytest.mark.parametrize(("name", "most"), [("t4", 48), ("h100-sxm", 48), ("mi250x", 64)])
def test_a_kernel_declares_48_kib_of_shared_memory_and_all_of_amds_lds(name, most):
    total, static = np.array([[48, 49, 60, 60], [48, 49, 60, 12]]) * 1024
    asked = Resources(threads=64, blocks=10**6, registers=16, shared_bytes=total, static_shared_bytes=static)
    words = names_of(occupancy.launch(gpus.load(name).gpu, asked)[1])
    assert ((words == "too much static shared memory") == (static > most * 1024)).all()

"""The phase model, against the same in plain Python."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from points import at, plain

from dse.hardware.tensor import HEAT
from dse.models.phase import APART, ROW, SHARPNESS, arranged, predict
from dse.types import CLASSES, MEMORY, MMA, Gpu, Kernel, Launch, Limits, PerClass, Phase

ARITHMETIC = ("fp32", "fp64", "int32", "imul32", "sfu")


def power_mean(a, b):
    return (a**SHARPNESS + b**SHARPNESS) ** (1 / SHARPNESS)


def loads(gpu, phase, warps):
    """Cycles that a phase keeps each pipe busy."""
    work, cpi, in_partitions = phase["work"], gpu["cpi"], 4 * math.ceil(warps / 4)
    actual = {name: work[name] * cpi[name] * in_partitions for name in ARITHMETIC}
    actual["vector"] = sum(actual.values()) if gpu["gfx"] else 0.0  # AMD: one unit for all of them
    actual["issue"] = phase["insts"] / gpu["issue_limit"] * in_partitions
    products = sum(work[name] * cpi[name] for name in MMA)
    actual["tensor"] = max(products, work["mma_warp"] * cpi["mma_warp"]) * in_partitions
    actual["fma"] = (work["fp32"] + work["imul32"]) * cpi["fp32"] * in_partitions
    actual |= {name: work[name] * cpi[name] * warps for name in ("shared", "l2", "barrier")}
    banks = gpu["l1_with_shared"] * work["shared"] * cpi["shared"]
    actual["l1"] = (work["l1"] * cpi["l1"] + banks) * warps
    return actual | {"lsu": phase["memory_insts"] * gpu["lsu_cycles"] * warps}


def filled(gpu, busy):
    """Cycles that all pipes are busy: AMD issues one instruction of each kind a cycle."""
    if gpu["gfx"]:
        return max(busy.values())
    l1 = max(busy[name] for name in ("shared", "l1", "lsu", "barrier"))
    arithmetic = max(busy[name] for name in (*ARITHMETIC, "tensor", "fma", "vector", "issue"))
    return power_mean(power_mean(arithmetic, l1), busy["l2"])


def wave(gpu, phases, blocks, warps_per_block):
    """Cycles of a wave; each phase a dictionary."""
    ahead = any(phase["async_work"]["l2"] > 0 for phase in phases)
    once, own, copied, together, shared = 0.0, 0.0, 0.0, {}, {}
    for phase in phases:
        alone = phase["slots"] + sum(phase["waits"][name] * gpu["latency"][name] for name in CLASSES)
        copies = phase["async_slots"]
        copies += sum(phase["async_waits"][name] * gpu["latency"][name] for name in MEMORY)
        busy = loads(gpu, phase, blocks * warps_per_block)
        if phase["passes"] <= 1 and not ahead:  # in step
            once += phase["passes"] * power_mean(alone + copies, filled(gpu, busy))
            continue
        held = loads(gpu, phase, warps_per_block)
        for name, cycles in loads(gpu, copying(phase), warps_per_block).items():
            held[name] -= cycles if name in ("shared", "l1", "l2", "barrier") else 0
        by_itself = max(held.values())
        for name, cycles in held.items():
            shared[name] = shared.get(name, 0.0) + phase["passes"] * cycles
        own += phase["passes"] * power_mean(alone, by_itself)
        copied += phase["passes"] * (alone + copies)
        for name, cycles in busy.items():
            together[name] = together.get(name, 0.0) + phase["passes"] * cycles
    busiest = max(together.values(), default=0.0)
    both = max(own, copied) ** SHARPNESS + busiest**SHARPNESS - max(shared.values(), default=0.0) ** SHARPNESS
    return once + both ** (1 / SHARPNESS)


def copying(phase):
    """The same phase, only what its copies do."""
    return phase | {"work": phase["async_work"], "insts": 0.0, "memory_insts": 0.0}


FULL = {80: 16384, 89: 8192, 90: 32768}  # bits of operands an SM multiplies in a cycle


def launch_cycles(gpu, phases, dram, stores, runs, products, idle, blocks, resident, warps_per_block):
    """Of an SM that gets `blocks`; `idle` others get one fewer."""
    sms, idle = gpu["sm_count"], idle % gpu["sm_count"]
    mean = blocks - idle / sms
    active = (sms - idle) / sms if blocks == 1 else 1.0
    l2 = gpu["cpi"]["l2"]
    gpu = gpu | {"cpi": gpu["cpi"] | {"l2": max(l2 * active, min(l2, 0.5 * gpu["cpi"]["l1"]))}}
    full, left = divmod(blocks, resident)
    cycles = full * wave(gpu, phases, resident, warps_per_block)
    if left:
        cycles += wave(gpu, phases, left, warps_per_block)
    sectors = power_mean(dram, ROW * runs)
    warps = blocks * warps_per_block
    share = 16 / gpu["cpi"]["mma_fp16"] / FULL.get(gpu["compute_capability"], np.inf)
    hot = HEAT * min(max(2 * share - 1, 0), 1)
    heat = hot * products * gpu["cpi"]["mma_fp16"] * warps
    moved, left = dram * mean * warps_per_block, gpu["dirty_bytes"] / 32 / sms
    stored = stores * mean * warps_per_block
    evicted = (moved**-3 + left**-3) ** (-1 / 3) - (stored**-3 + left**-3) ** (-1 / 3) if left else 0.0
    return power_mean(cycles, (sectors * mean * warps_per_block + evicted) * gpu["cpi"]["dram"]) + heat


@pytest.fixture(scope="module")
def cases():
    """60 at random: (GPU, phases, sectors of DRAM, stored ones, runs, multiply-adds, SMs with one block
    fewer, blocks, resident, their warps)."""
    rng = np.random.default_rng(4)

    def table(low, high):
        return {name: float(10 ** rng.uniform(low, high)) for name in CLASSES}

    def copies():
        return {name: value * float(rng.uniform() < 0.3) for name, value in table(-1, 2).items()}

    def share(work, most):
        return {name: value * most * float(rng.uniform()) for name, value in work.items()}

    def phase(ahead):
        keys = {"passes": 3.0, "insts": 100.0, "memory_insts": 30.0, "slots": 500.0, "async_slots": 200.0}
        actual = {name: float(rng.uniform(0, most)) for name, most in keys.items()}
        work = table(0, 2)
        actual |= {"work": work, "async_work": share(work, ahead)}
        return actual | {"waits": table(-1, 1), "async_waits": copies()}

    def gpu():
        fields = {"issue_limit": 4.0, "lsu_cycles": 2.0, "l1_with_shared": float(rng.integers(2))}
        fields |= {"gfx": float(rng.choice([0, 0x90A])), "sm_count": float(rng.integers(1, 20))}
        fields |= {"dirty_bytes": float(rng.choice([0, 1e4, 1e6]))}
        cpi = table(-1, 1) | {"mma_fp16": 1 / rng.uniform(200, 1200)}
        return fields | {
            "compute_capability": int(rng.choice(list(FULL))),
            "cpi": cpi,
            "latency": table(0, 3),
        }

    def case(ahead):
        made, phases, sectors = gpu(), [phase(ahead), phase(ahead)], rng.uniform(0, 50)
        stored, more = rng.uniform(0, sectors), rng.uniform(0, (20, 1e6)).tolist()
        return made, phases, sectors, stored, *more, *map(int, rng.integers(1, 20, 4))

    return [case(ahead) for ahead in [0.0, 1.0] * 30]


def assembled(cases):
    def column(values):
        return np.array([float(value) for value in values])

    def columns(tables) -> Any:
        """Of numbers, or of tables of classes."""
        if not isinstance(tables[0], dict):
            return column(tables)
        return PerClass(**{name: column(table[name] for table in tables) for name in CLASSES})

    gpus, phases, dram, stores, runs, products, idle, blocks, resident, warps = zip(*cases, strict=True)

    def whole(kind, given):
        """All that is not given is 1."""
        return kind(**(dict.fromkeys(kind.__dataclass_fields__, 1.0) | given))

    limits = Limits(**(dict.fromkeys(Limits.__dataclass_fields__, 1) | {"sub_partitions": 4}))
    gpu = whole(Gpu, {name: columns([gpu[name] for gpu in gpus]) for name in gpus[0]} | {"limits": limits})
    work = dict.fromkeys(CLASSES, 0.0) | {"dram": column(dram), "mma_fp16": column(products)}
    counts: dict[str, Any] = {"dram_runs": column(runs), "dram_stores": column(stores)}
    counts["work"] = PerClass(**work)
    counts["phases"] = tuple(
        Phase(**{name: columns([phase[n][name] for phase in phases]) for name in phases[0][n]})
        for n in range(len(phases[0]))
    )
    arguments = {"warps_per_block": column(warps), "resident_blocks": column(resident)}
    arguments |= {"waves": column(blocks) / column(resident)}
    total = column(blocks) * gpu.sm_count - column(idle) % gpu.sm_count
    arguments |= {"blocks": total, "active_sms": np.minimum(total, gpu.sm_count)}
    return gpu, whole(Kernel, counts), whole(Launch, arguments)


@pytest.mark.quick("4")
@pytest.mark.parametrize("times", [1, APART])
def test_equals_plain_python(cases, times):
    """Few phases, each computed by itself, and many, all of them together."""
    cases = [(gpu, phases * times, *rest) for gpu, phases, *rest in cases]
    gpu, kernel, launch = assembled(cases)
    for taken in (kernel, arranged(kernel)):
        prediction = jax.jit(predict)(gpu, taken, launch)
        np.testing.assert_allclose(prediction.cycles, [launch_cycles(*case) for case in cases], rtol=1e-12)
    names = list(prediction.terms)
    causes = {names[place] for place in np.asarray(prediction.bottleneck)}
    assert causes >= {"latency", "copies", "tensor"}


@pytest.mark.slow
def test_a_prediction_does_not_depend_on_its_batch(cases):
    few = jax.tree.map(
        lambda x: jnp.asarray(x, x.dtype if x.dtype == np.int32 else np.float32), assembled(cases)
    )
    many = jax.tree.map(lambda x: jnp.resize(x, (1200 * len(cases),)) if x.ndim else x, few)
    seconds = jax.jit(lambda gpu, kernel, launch: predict(gpu, kernel, launch).seconds)
    np.testing.assert_array_equal(seconds(*many)[: len(cases)], seconds(*few))


def test_without_phases_it_is_volkovs_bound_made_smooth():
    from dse.models import volkov

    p = plain(3, 300)
    p.waves = np.ones_like(p.waves)  # a whole wave, on all SMs
    p.active_sms, p.blocks = p.sm_count, p.resident_blocks * p.sm_count
    ours, theirs = np.asarray(at(predict, p).cycles), np.asarray(at(volkov.predict, p).cycles)
    assert (ours >= theirs * (1 - 1e-12)).all()
    assert (ours <= theirs * (2 ** (2 / SHARPNESS) + HEAT) * (1 + 1e-12)).all()

"""A GPU, a kernel and a launch as one flat list of numbers, and what the tests of the models do with it."""

import math
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from dse.types import Gpu, Kernel, Launch, Limits, PerClass

ARITHMETIC = ("fp32", "fp64", "int32", "imul32", "sfu")
MMA = ("mma_fp16", "mma_fp16_fp16", "mma_tf32", "mma_fp32", "mma_fp8", "mma_fp8_fp16", "mma_fp4")
MMA += ("mma_int8", "mma_fp64")
TENSOR = (*MMA, "mma_warp")
OWN_PIPES = (*ARITHMETIC, "shared", "l1", "l2", "dram", "barrier")  # all but what shares the tensor pipe
PIPES = (*OWN_PIPES, *TENSOR)


class Point(SimpleNamespace):
    """Every float of a GPU, a kernel and a launch; `cpi_fp32` is λ of that pipe, and so on."""


LAUNCH = ("threads_per_block", "warps_per_block", "blocks", "resident_blocks", "active_sms", "waves")
ZEROS = (
    "l1_bytes", "l2_bytes", "lsu_cycles", "l1_with_shared", "sectors", "shared_insts", "load_insts",
    "store_insts", "uncoal_insts", "other_insts",
)  # fmt: skip
ONES = (
    "sm_count", "issue_cycles", "departure_delay_coal_cycles", "departure_delay_uncoal_cycles",
    "transactions_per_uncoal", "ilp", "mlp",
)  # fmt: skip
BLANK = Point(  # a GPU on which all is free and without limit, a kernel that does nothing, one warp
    clock=1e9, dram_bandwidth=math.inf, issue_limit=math.inf, bytes_per_access=128.0,
    **{f"{what}_{name}": 0.0 for what in ("cpi", "latency", "work") for name in PIPES},
    **dict.fromkeys(ZEROS, 0.0),
    **dict.fromkeys((*ONES, *LAUNCH), 1.0) | {"threads_per_block": 32.0},
)  # fmt: skip
NAMES = tuple(vars(BLANK))


def point(**given: Any) -> Point:
    assert set(given) <= set(NAMES), set(given) - set(NAMES)
    return Point(**(vars(BLANK) | given))


def assemble(given: Point) -> tuple[Any, Any, Any]:
    values = vars(given)

    def fields(cls: Any, **others: Any) -> Any:
        names = set(cls.__dataclass_fields__) - set(others)
        return cls(**{name: values[name] for name in names if name in values}, **others)

    def per_class(what: str) -> Any:
        return PerClass(**{name: values[f"{what}_{name}"] for name in PIPES})

    limits = Limits(**dict.fromkeys(Limits.__dataclass_fields__, 1))  # models read sub_partitions only
    gpu = fields(Gpu, cpi=per_class("cpi"), latency=per_class("latency"), limits=limits)
    return gpu, fields(Kernel, work=per_class("work"), phases=()), fields(Launch)


def rows(values: Any) -> Point:
    """Row i of `values` holds what NAMES[i] is, of any shape."""
    return Point(**dict(zip(NAMES, values, strict=True)))


def as_rows(point: Point) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*(vars(point)[name] for name in NAMES))).astype(float)


class Uniform:
    """Random numbers, an array of `number` at a time."""

    def __init__(self, seed: int, number: int) -> None:
        self._random, self._number = np.random.default_rng(seed), number

    def within(self, low: float, high: float) -> np.ndarray:
        return self._random.uniform(low, high, self._number)

    def decades(self, low: float, high: float) -> np.ndarray:
        return 10.0 ** self.within(low, high)

    def whole(self, low: int, high: int) -> np.ndarray:
        return np.floor(self.within(low, high + 1))

    def some(self) -> np.ndarray:
        return self.whole(0, 1)

    def share(self) -> np.ndarray:
        """None, all, something between or more than all."""
        share = self.within(-1, 2)
        return np.select([share < -0.5, share < 0], [0.0, 1.0], share)


def odd(seed: int, number: int) -> Point:
    """Any GPU, however odd; kernels whose counts agree with one another, pipes or all memory left out;
    launches of some warps."""
    u, tensor = Uniform(seed, number), Uniform(seed + 2**32, number)
    many = np.array([0.0, 0.1, 1.0, 30.0])[u.whole(0, 3).astype(int)]  # computation against memory
    work = {f"work_{name}": many * u.some() * u.decades(0, 2) for name in (*ARITHMETIC, "shared")}
    loads, stores = u.some() * u.whole(1, 50), u.some() * u.whole(1, 20)
    few = u.within(0, 1) < 0.2  # as a mean over warps: less than one access
    loads, stores = (np.where(few, x * 0.01, x) for x in (loads, stores))
    sectors = (loads + stores) * u.decades(0, 1.5)
    warps, resident = np.maximum(1.0, u.whole(-8, 16)), np.maximum(1.0, u.whole(-8, 8))
    sms = u.whole(1, 128)
    active = np.ceil(sms * u.within(0.1, 1))  # SMs that get a block
    products = {f"work_{name}": tensor.some() * tensor.some() * tensor.decades(0, 3) for name in MMA}
    out_of_shared = tensor.some()  # and not out of registers
    warp = np.where(sum(products.values()) > 0, (1.0 - out_of_shared) * tensor.decades(-1, 1.5), 0.0)
    return point(
        sm_count=sms,
        clock=u.decades(8.5, 9.5),
        dram_bandwidth=u.decades(9, 12.5),
        issue_limit=u.decades(-1, 1),
        issue_cycles=u.decades(-1, 1),
        lsu_cycles=u.some() * u.decades(-1, 2),
        l1_with_shared=u.some(),
        departure_delay_coal_cycles=u.decades(0, 2),
        departure_delay_uncoal_cycles=u.decades(0, 2),
        **{f"cpi_{name}": u.decades(-2, 2) for name in OWN_PIPES},
        **{f"latency_{name}": u.decades(0, 3) for name in OWN_PIPES},
        **{f"cpi_{name}": tensor.decades(-3, 1) for name in TENSOR},
        **{f"latency_{name}": tensor.decades(0, 3) for name in TENSOR},
        **work,
        **products,
        work_mma_warp=warp,
        shared_insts=work["work_shared"] * np.minimum(1.0, u.decades(-1.5, 0.5)),
        load_insts=loads,
        store_insts=stores,
        uncoal_insts=(loads + stores) * np.minimum(1.0, u.share()),
        transactions_per_uncoal=u.whole(1, 32),
        sectors=sectors,
        work_l1=sectors * u.decades(-1.5, 0),
        work_l2=sectors * u.share(),
        work_dram=sectors * u.share(),
        work_barrier=u.some() * u.whole(1, 40),
        bytes_per_access=u.whole(1, 32) * 16.0,
        ilp=np.maximum(1.0, u.within(-4, 8)),
        mlp=np.maximum(1.0, u.within(-4, 8)),
        threads_per_block=32.0 * warps,
        warps_per_block=warps,
        resident_blocks=resident,
        active_sms=active,
        blocks=resident * active,
        waves=np.maximum(1.0, u.within(-20, 40)),
    )


def lumped(p: Point) -> SimpleNamespace:
    """α, λ, Λ of the Pipeline paper's Table 2, in plain Python.

    λ: a subsystem is as slow as the part of it that one warp keeps busy longest. Λ of memory: its mean over
    the levels, by the share of the sectors that each serves (Sec. 6.3).
    """
    q, work = SimpleNamespace(), {name: vars(p)[f"work_{name}"] for name in PIPES}
    cpi = {name: vars(p)[f"cpi_{name}"] for name in PIPES}
    latency = {name: vars(p)[f"latency_{name}"] for name in PIPES}
    q.a_comp = p.shared_insts
    q.wait_comp = 0.0
    for name in ARITHMETIC:
        q.a_comp += work[name]
        q.wait_comp += work[name] * latency[name]
    if p.shared_insts > 0:
        degree = max(work["shared"] / p.shared_insts, 1.0)
        q.wait_comp += p.shared_insts * (latency["shared"] + (degree - 1) * cpi["shared"])
    q.tensor = max(sum(work[name] * cpi[name] for name in MMA), work["mma_warp"] * cpi["mma_warp"])
    products = sum(work[name] for name in MMA)
    q.wait_products = 0.0
    if products:
        waited = sum(work[name] * latency[name] for name in MMA) / products
        q.wait_products = work["mma_warp"] * waited
    q.wait_comp += q.wait_products
    q.a_comp += work["mma_warp"]
    if products and not q.a_comp:
        q.a_comp = 1.0
    q.busy_comp = max(q.a_comp / p.issue_limit, p.shared_insts * p.lsu_cycles, q.tensor)
    q.pipes_comp = q.tensor  # if each pipe in turn were waited for
    for name in (*ARITHMETIC, "shared"):
        q.pipes_comp += work[name] * cpi[name]
        if work[name] * cpi[name] > q.busy_comp:
            q.busy_comp = work[name] * cpi[name]
    q.l_comp = q.busy_comp / q.a_comp if q.a_comp else 0.0
    q.L_comp = q.wait_comp / q.a_comp if q.a_comp else 0.0

    q.a_mem = p.load_insts + p.store_insts
    q.waits = p.load_insts / p.mlp
    q.busy_mem = max(work[name] * cpi[name] for name in ("l1", "l2", "dram"))
    q.busy_mem = max(q.busy_mem, q.a_mem * p.lsu_cycles)
    q.busy = {name: work[name] * cpi[name] for name in OWN_PIPES}  # of all pipes
    if p.l1_with_shared:  # one memory serves both
        q.busy["l1"] += q.busy["shared"]
    q.busy["lsu"] = (q.a_mem + p.shared_insts) * p.lsu_cycles
    q.busy["tensor"] = q.tensor
    q.l_mem = q.busy_mem / q.a_mem if q.a_mem else 0.0
    to_l2 = to_dram = 0.0
    if p.sectors:
        to_l2 = min(1.0, work["l2"] / p.sectors)
        to_dram = min(to_l2, work["dram"] / p.sectors)
    q.from_dram = to_dram
    q.L_mem = (1 - to_l2) * latency["l1"] + (to_l2 - to_dram) * latency["l2"] + to_dram * latency["dram"]
    q.ci = q.a_comp / max(q.a_mem, 1.0)  # a warp has one period at least
    q.omega = p.warps_per_block * p.resident_blocks
    return q


def plain(seed: int, number: int) -> Point:
    """GPUs on which one warp alone saturates nothing (Λ above λ, MWP above 1); kernels that use every pipe
    and whose counts are all above 0."""
    u, tensor = Uniform(seed, number), Uniform(seed + 2**32, number)
    sms, clock, warps, resident = u.whole(2, 128), u.decades(8.7, 9.3), u.whole(1, 16), u.whole(1, 8)
    active = np.ceil(sms * u.within(0.3, 1))
    loads, stores, computation = u.whole(1, 60), u.whole(1, 20), u.decades(-1, 1.3)
    accesses = loads + stores
    sectors, past_l1 = accesses * u.decades(0.3, 1.2), u.within(0.2, 0.9)
    cpi = {f"cpi_{name}": u.decades(-1, 1) for name in OWN_PIPES}
    latency = {f"latency_{name}": cpi[f"cpi_{name}"] + u.decades(0.5, 1.5) for name in OWN_PIPES}
    latency |= {f"latency_{name}": u.within(100, 800) for name in ("l1", "l2", "dram")}
    work = {f"work_{name}": computation * u.decades(-0.5, 1.3) for name in (*ARITHMETIC, "shared")}
    cpi |= {f"cpi_{name}": 0.1 * tensor.decades(-1, 1) for name in TENSOR}
    latency |= {f"latency_{name}": tensor.decades(1, 2) for name in TENSOR}
    work |= {f"work_{name}": computation * tensor.decades(-0.5, 1.3) for name in TENSOR}
    return point(
        sm_count=sms,
        clock=clock,
        dram_bandwidth=sms * clock * u.decades(0.6, 1.6),
        l1_bytes=u.whole(1, 8) * 2.0**14,
        l2_bytes=u.whole(1, 8) * 2.0**20,
        issue_limit=u.decades(-0.3, 0.6),
        issue_cycles=u.decades(0, 0.9),
        lsu_cycles=u.decades(-1, 1),
        l1_with_shared=u.some(),
        departure_delay_coal_cycles=u.decades(0, 1.6),
        departure_delay_uncoal_cycles=u.decades(0, 1.6),
        **cpi,
        **latency,
        **work,
        shared_insts=work["work_shared"] / u.within(1.05, 8),
        load_insts=loads,
        store_insts=stores,
        uncoal_insts=accesses * u.within(0.05, 0.95),
        transactions_per_uncoal=u.whole(2, 32),
        sectors=sectors,
        work_l1=sectors * 0.25,
        work_l2=sectors * past_l1,
        work_dram=sectors * past_l1 * u.within(0.1, 0.9),
        work_barrier=u.whole(1, 20),
        bytes_per_access=32.0 * u.whole(1, 8),
        ilp=u.within(1.05, 8),
        mlp=u.within(1.05, 8),
        threads_per_block=32.0 * warps,
        warps_per_block=warps,
        resident_blocks=resident,
        active_sms=active,
        blocks=active * resident,
        waves=u.decades(-0.3, 1.6),
    )


WIDTH = 4096  # points at a time: one compilation for all tests of a model
QUICK = {"xla_backend_optimization_level": 0}  # these tests compile more than they run


@cache
def compiled(predict: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(lambda *values: predict(*assemble(rows(values))), compiler_options=QUICK)


def predicted(predict: Callable[..., Any], values: np.ndarray) -> Any:
    """The prediction for each column of `values`, of any shape, as NumPy arrays."""
    flat = values.reshape(len(NAMES), -1)
    count, runs = flat.shape[1], []
    for start in range(0, count, WIDTH):
        chunk = flat[:, start : start + WIDTH]
        padded = np.pad(chunk, ((0, 0), (0, WIDTH - chunk.shape[1])), mode="edge")
        runs.append(jax.tree.map(np.asarray, compiled(predict)(*padded)))

    def whole(*chunks: np.ndarray) -> np.ndarray:
        wide = [np.broadcast_to(chunk, (WIDTH,)) for chunk in chunks]
        return np.concatenate(wide)[:count].reshape(values.shape[1:])

    return jax.tree.map(whole, *runs)


def build(given: Any) -> tuple[Gpu, Kernel, Launch]:
    """(Gpu, Kernel, Launch) of a point, or of the rows of an array."""
    return assemble(given if isinstance(given, Point) else rows(given))


def example(warps: float = 1.0, **others: float) -> Point:
    """The example kernel of Lemeire et al., Table 2, on its GPU; `warps` resident on the one SM."""
    arguments = {"work_fp32": 4.0, "cpi_fp32": 1.0, "latency_fp32": 4.0, "ilp": 4 / 3}
    arguments |= {"load_insts": 2.0, "sectors": 2.0, "work_l2": 2.0, "work_dram": 2.0}
    arguments |= {"cpi_dram": 2.0, "latency_dram": 6.0, "warps_per_block": warps}
    return point(**(arguments | others))


def at(predict: Callable[..., Any], given: Any) -> Any:
    """The prediction in NumPy of a point or of rows. A `predict` of a module is compiled once."""
    return predicted(predict, as_rows(given) if isinstance(given, Point) else given)


def apart(a: float, b: float) -> bool:
    """Whether rounding cannot turn a comparison of the two."""
    return abs(a - b) > 1e-9 * max(abs(a), abs(b)) if math.isfinite(a - b) else a != b


def named(found: Any) -> dict[str, Any]:
    """A prediction as names and arrays, its terms as `<name> term`."""
    if isinstance(found, dict):
        return found
    return {"cycles": found.cycles, **found.details} | {f"{name} term": x for name, x in found.terms.items()}


def equals_reference(predict: Any, reference: Any, cases: set[str], examples: int = 25) -> None:
    """Compare on random points.

    `reference(point)`, in plain Python, gives the case, None for a point that rounding could put in another,
    and what it knows of the prediction. Every case has to be reached.
    """
    number, reached, skipped = 32, set(), 0
    for seed in range(examples):
        values = as_rows(odd(seed, number))
        actual = named(predicted(predict, values))
        for index in range(number):
            single = rows(values[:, index].tolist())
            case, expected = reference(single)
            if case is None:
                skipped += 1
                continue
            reached.add(case)
            for name, value in expected.items():
                mine = float(actual[name][index])
                assert math.isclose(mine, value, rel_tol=1e-12), (name, case, single)
    assert reached == cases, cases - reached
    assert skipped < examples * number / 10

"""GPUMech's interval analysis, common to the variants for each scheduler.

A warp issues n_i instructions and then stalls for s_i cycles, interval after interval. Some instructions of
the other warps fit into its stalls; instructions that do not overlap add their issue time.

Source: Huang et al., MICRO 2014, second hand: from Lemeire et al., Sec. 2.5, with their corrections after
Volkov 2016. Numbers G are equations of the first paper, as far as the second cites them.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike

from dse.hardware.memory import access_latency, safe_divide
from dse.models.about import About
from dse.models.notation import waits
from dse.types import MEMORY, Gpu, Kernel, Launch, Phase, Prediction, Quantity, _Quantities, quantity

ABOUT = About(
    source="Huang et al., MICRO 2014 (GPUMech), second hand: Lemeire et al., Sec. 2.5, after Volkov 2016",
    equations={"G7": "IPC = W Σ n_i / (Σ (n_i / r + s_i) + Σ o_i / r)"},
    inputs=(
        "intervals of one warp: instructions and stall cycles each, from its counts, from its phases where "
        "they are known, or from a graph (dse.simulator.case.intervals)",
        "warps resident on an SM",
        "issue limit",
        "latency of memory, by the share that each level serves",
    ),
    ignores=(
        "throughput of every pipe but the issue slots",
        "latency of computation and instruction-level parallelism (unless the intervals hold them)",
        "barriers beyond their issue slot",
        "contention for MSHRs and DRAM: the paper's second part, whose equations were not available",
        "choice of the representative warp among warps that differ: ours is the average one",
    ),
    use_when="",  # of a variant
    aspects=frozenset({"Λ_mem", "scheduler"}),
    column="gpumech",
    differs={"divergent warps": "the paper picks a representative warp of many; ours is the average warp"},
)


class Intervals(_Quantities):
    """The intervals of one warp. **Shapes:** [..., n], with the intervals on the last axis."""

    insts: Quantity = quantity("1")  # n_i; the warp stalls on the last one
    stalls: Quantity = quantity("cycles")  # s_i
    repeats: Quantity = quantity("1")  # executions of each interval; 0 in padding

    @staticmethod
    def once(insts: ArrayLike, stalls: ArrayLike) -> "Intervals":
        """Make intervals that repeat once; where both numbers are 0, an interval is padding."""
        n, s = jnp.asarray(insts, float), jnp.asarray(stalls, float)
        return Intervals(insts=n, stalls=s, repeats=jnp.where((n > 0) | (s > 0), 1.0, 0.0))

    def total(self, values: Array) -> Array:
        """Sum one value per interval over all intervals and their repeats."""
        return jnp.sum(self.repeats * values, -1)


# o_i from intervals, W, p and r, the last three with an axis for the intervals
NonOverlapped = Callable[[Intervals, Array, Array, Array], Array]


def issue_probability(intervals: Intervals, rate: Array) -> Array:
    """Return p, the instructions per cycle of a single warp (Eq. G9)."""
    alone = intervals.total(intervals.insts / rate + intervals.stalls)
    return safe_divide(intervals.total(intervals.insts), alone)


def run(
    intervals: Intervals, warps: Array, rate: Array, nonoverlapped: NonOverlapped
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the parts of CPR, cycles for a run of `warps`, and the intermediates named in the paper.

    **Shapes:** `warps` and `rate` are scalars or have the rank of the intervals without their axis. `rate` is
    r, instructions per cycle; the paper's schedulers have 1.
    **Source:** Eq. G7, which computes the IPC (its text says CPI): cycles are W Σ n_i / IPC.
    """
    rows = intervals.insts.ndim > 1
    warps, rate = (jnp.asarray(x, intervals.insts.dtype) for x in (warps, rate))
    w, r = (x[..., None] if rows and x.ndim else x for x in (warps, rate))
    p = issue_probability(intervals, r)
    others = intervals.total(nonoverlapped(intervals, w, p[..., None] if rows else p, r))
    parts = {
        "issue": intervals.total(intervals.insts / r),
        "stall": intervals.total(intervals.stalls),
        "nonoverlapped": others / rate,
    }
    cycles = sum(parts.values())
    ipc = safe_divide(warps * intervals.total(intervals.insts), jnp.asarray(cycles))
    return parts, {"issue_probability": p, "nonoverlapped_insts": others, "ipc": ipc}


def intervals(gpu: Gpu, kernel: Kernel) -> list[tuple[Array, Array, Array]]:
    """Return n_i, s_i in cycles, and repeats of the intervals of a kernel's average warp.

    From counts: equal intervals, one per wait for memory. From phases: equal intervals within each phase.
    The load that ends an interval is one of its instructions. Its latency counts from its issue, so the stall
    is shorter by one issue slot. (Both readings fit the paper.)
    """
    if kernel.phases:
        return [_of_phase(gpu, phase) for phase in kernel.phases]
    return [_equal(gpu, kernel.insts, waits(kernel), access_latency(gpu, kernel))]


def _of_phase(gpu: Gpu, phase: Phase) -> tuple[Array, Array, Array]:
    times = sum((getattr(phase.waits, level) for level in MEMORY), 0.0 * phase.insts)
    alone = sum(
        (getattr(phase.waits, level) * getattr(gpu.latency, level) for level in MEMORY), 0.0 * phase.insts
    )
    insts, stall, repeats = _equal(gpu, phase.insts, times, safe_divide(alone, times))
    return insts, stall, phase.passes * repeats


def _equal(gpu: Gpu, insts: Array, times: Array, latency: Array) -> tuple[Array, Array, Array]:
    """Divide `insts` into `times` equal intervals, or one without a stall if `times` is 0."""
    repeats = jnp.where(times > 0, times, 1.0)
    stall = jnp.where(times > 0, jnp.maximum(latency - 1.0 / gpu.issue_limit, 0.0), 0.0)
    return insts / repeats, stall, repeats


def predict(gpu: Gpu, kernel: Kernel, launch: Launch, nonoverlapped: NonOverlapped) -> Prediction:
    """Predict the cycles of a launch, with `ipc`, `issue_probability` and `nonoverlapped_insts` of an SM.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`; the IPC is one of issue slots.
    **Gap:** the paper's SM issues one instruction per cycle. For other issue limits, time is counted in issue
    slots, so that the equations hold unchanged.
    """
    warps = launch.warps_per_sm
    columns = [
        (insts + 0.0 * warps, stall * gpu.issue_limit + 0.0 * warps, repeats + 0.0 * warps)
        for insts, stall, repeats in intervals(gpu, kernel)
    ]
    insts, stalls, repeats = (
        jnp.stack(jnp.broadcast_arrays(*column), -1) for column in zip(*columns, strict=True)
    )
    of_warp = Intervals(insts=insts, stalls=stalls, repeats=repeats)
    slots, details = run(of_warp, warps, jnp.ones_like(warps), nonoverlapped)
    times = launch.waves / gpu.issue_limit
    return Prediction.of(gpu.clock, details, **{name: part * times for name, part in slots.items()})

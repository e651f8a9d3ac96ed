"""One warp of an NVIDIA GPU alone: the latencies, pipes and slots of its instructions.

Instructions come in lines of 128 B from the SM's cache, ahead of a warp that does not jump. Lines that it has
no room for come from the L2, one after the other; replacement is assumed to be random.
Source: 128 KiB after Jia et al., arXiv:1804.06826; without a wait for lines in it, products without tensor
cores, whose loops have 70 KB of code, take their measured times.
"""

from collections.abc import Sequence
from functools import cache
from typing import get_args

import numpy as np

from dse.hardware.coalescing import L2_PORT, SECTOR
from dse.hardware.pairs import PAIRS, fp32_units
from dse.source.caches.cache_model import kept_at_random
from dse.source.machine.recorded import PIPES, counts_of_request, total_counts
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.profile.async_groups import COMMIT, Queue, role
from dse.source.nvidia.sass.listing import SCOREBOARDS
from dse.source.nvidia.sass.operands import SLOTS
from dse.source.nvidia.sass.products import needs_descriptor
from dse.source.nvidia.sass.program import Step
from dse.source.profile import single_warp
from dse.source.profile.single_warp import PLACE_OF, Timing, Walk, WalkedCode, WalkedStep
from dse.types import MMA, TENSOR, Gpu

_CODE_CACHE, _CODE_LINE = 128 * 1024, 128  # bytes
_QUEUES = {name: number for number, name in enumerate(get_args(Queue))}
_STEADY = 4  # times that a block is walked in a row before its time is taken as settled


def timing(gpu: Gpu, global_latency: float | None = None) -> Timing:
    """Return the cycles of a GPU (scalars). `global_latency` is an average load's; None: DRAM's."""
    names = ("fp32", "fp64", "int32", "imul32", "sfu")
    latency = {name: float(getattr(gpu.latency, name)) for name in (*names, *MMA, "shared")}
    parts = float(gpu.limits.sub_partitions)  # each has its own pipes, and a warp keeps to one
    interval = {name: parts * float(getattr(gpu.cpi, name)) for name in names}
    capability = int(gpu.compute_capability)
    interval |= {pipe: interval["fp32"] * fp32_units(pipe, capability) for pipe in PAIRS}
    interval |= {"shared": float(gpu.cpi.shared)} | dict.fromkeys(("global", "local"), float(gpu.lsu_cycles))
    latency |= {
        **dict.fromkeys(PAIRS, latency["fp32"]),
        "tensor": 0.0,  # each kind has its own
        "uniform": latency["int32"],
        "constant": latency["shared"],
        **dict.fromkeys(
            ("global", "local", "texture", "copy"),
            float(gpu.latency.dram) if global_latency is None else global_latency,
        ),
        "other": latency["shared"],  # reading a special register takes about as long
        "barrier": 0.0,
        "control": 0.0,
    }
    products = {name: parts * float(getattr(gpu.cpi, name)) for name in TENSOR}
    return Timing(latency, interval, products, parts, float(gpu.latency.barrier), float(gpu.latency.l2))


def walk(
    machine: Machine, block: int, warp: int, times: Timing, in_step: int = 1
) -> dict[tuple[int, int], Walk]:
    """Walk one warp, see `single_warp.walk`; with others `in_step`, each pipe serves all of them in turn."""
    from dse.source.profile.issue import Ways  # imports Numba

    program = machine.program
    parts = list(single_warp.segments(machine, block, warp))
    path = [index for blocks, _ in parts for index in blocks]
    executed = set(path)
    cached = _CodeCache([len(block.steps) * program.spacing for block in program.blocks], path)
    # Cycles of an instruction whose line has to be fetched: its share of the fetch.
    fetch = times.code_line * program.spacing / _CODE_LINE
    counts = total_counts(machine).sum(axis=1) if in_step > 1 else None

    def walked(step: Step) -> WalkedStep:
        alone = _walked(step, times)
        return (
            alone if counts is None else _among(alone, step, times, in_step, _passes(machine, step, counts))
        )

    lasts = [block.steps[-1] for block in program.blocks]
    code = WalkedCode(
        blocks=[
            [walked(step) for step in block.steps] if block.index in executed else []
            for block in program.blocks
        ],
        barriers=[last.address if last.opcode == "BAR" else -1 for last in lasts],
        latency=times.latency,
        ways=Ways(copies=_QUEUES["copies"], steady=_STEADY, settles=True, scoreboards=SLOTS),
        slots=SLOTS + SCOREBOARDS,
        pipes=len(PIPES),
        queues=len(_QUEUES),
        fetched=lambda index: cached.missed(index) * fetch,
    )
    return single_warp.walk(code, parts)


class _CodeCache:
    """The code of basic blocks in the cache of an SM."""

    def __init__(self, sizes: Sequence[int], path: Sequence[int]) -> None:
        self.sizes = sizes
        # Those executed latest are last; another warp went the same path before.
        self.recent = list(dict.fromkeys(reversed(path)))[::-1]
        self.fits = sum(sizes[index] for index in self.recent) <= _CODE_CACHE

    def missed(self, index: int) -> float:
        """Execute a basic block; return the share of it that has to be fetched."""
        if self.fits:
            return 0.0
        position = self.recent.index(index)
        since = sum(self.sizes[number] for number in self.recent[position:])
        self.recent.append(self.recent.pop(position))
        return _missed(since)


@cache
def _missed(size: int) -> float:
    return 1.0 - kept_at_random(size / _CODE_CACHE)


def _walked(step: Step, times: Timing) -> WalkedStep:
    from dse.source.profile.issue import ANY_LEFT, GroupChange

    guard = (step.guard,) if step.guard >= 0 else ()
    needs, writes = (*step.reads, *guard, *step.writes), step.writes  # a write must not overtake another
    source, interval, held = str(step.pipe), times.interval.get(step.pipe, 1.0), 0.0
    if step.product is not None:
        source, product = step.product.kind, step.product
        interval = product.multiply_adds * times.products[source]  # in the pipe of a sub-partition
        interval = max(interval, product.from_registers * times.products["mma_warp"])
        interval /= times.partitions if needs_descriptor(step.opcode) else 1.0  # a block's take all pipes
    group, waits = None, ()
    if (asynchronous := role(step)) is not None:
        if asynchronous.starts:
            if asynchronous.queue == "products":  # sums stay in the pipe from one product to the next
                needs = tuple(slot for slot in needs if slot not in writes)
            else:
                source = "copy" if step.product is None else source
            writes, held = (), interval if step.pipe == "tensor" else 0.0  # no register is watched for it
        queue = _QUEUES[asynchronous.queue]
        into = -1 if asynchronous.into is None else _QUEUES[asynchronous.into]
        of_none = asynchronous == COMMIT
        group = GroupChange(queue, asynchronous.starts, asynchronous.closes, of_none, into)
        if asynchronous.waits:
            waits = ((queue, ANY_LEFT if asynchronous.left is None else asynchronous.left),)
    chains, control = bool(writes), step.instruction.control
    if control is not None:
        needs = (*needs, *[SLOTS + scoreboard for scoreboard in control.waits])
        in_group = asynchronous is not None and (asynchronous.starts or asynchronous.closes)
        if control.signals < SCOREBOARDS and not in_group:
            writes = (*writes, SLOTS + control.signals)
    return WalkedStep(
        needs=needs,
        writes=writes,
        source=PLACE_OF[source],
        latency=held + times.latency[source],
        pipe=_PIPES[step.pipe],
        interval=interval,
        cycles=1.0 if control is None else max(1.0, control.stall),
        load=step.pipe == "global" and (bool(step.targets) or step.kind == "copy"),
        chains=chains,
        group=group,
        waits=waits,
    )


def goes_in_step(machine: Machine) -> bool:
    """Return whether warps of the code wait for one another: it copies ahead, or multiplies matrices."""
    return any(step.kind == "copy" or step.product is not None for step in machine.program.steps)


def _among(alone: WalkedStep, step: Step, times: Timing, warps: int, passes: float) -> WalkedStep:
    """Return the step if all warps of a block execute it at a time: each pipe serves them in turn."""
    share = -(-warps // times.partitions)  # per sub-partition
    cycles = max(alone.cycles, share)
    if step.opcode == "BAR":
        return alone._replace(cycles=cycles + times.barrier)
    if step.memory:  # warps continue while their accesses are queued
        busy = max(times.interval.get(step.pipe, 1.0), passes) * warps
        return alone._replace(cycles=cycles, interval=busy, queued=True)
    if needs_descriptor(step.opcode):  # one warp issues it
        return alone._replace(cycles=cycles)
    others = alone.interval * (share - 1.0)
    return alone._replace(cycles=cycles, interval=alone.interval * share, latency=alone.latency + others)


def _passes(machine: Machine, step: Step, counts: np.ndarray) -> float:
    """Return the passes of a request through the banks; of a copy, those of the port to the L2, if more."""
    _, sectors, passes, _ = counts_of_request(machine, step.index, counts)
    return sectors * SECTOR / L2_PORT if step.kind == "copy" else passes


_PIPES: dict[str, int] = {name: number for number, name in enumerate(PIPES)}

"""Times one warp alone: it issues its instructions in order, each waiting for the registers that it needs.

Asynchronous copies and products fill no register that is watched: the warp waits for groups of them, see
`dse.source.nvidia.profile.async_groups`.

Instructions come in lines from a small cache of the sub-partition. What is not there comes from the SM's
cache, about as late as a word from shared memory. What has to make room is taken to be chosen at random.
Source: Jia et al., arXiv:1903.07486 (16 KiB, of Turing). Lines of 128 B, what is waited for one, and that
other instructions do not hide it, are taken so after measured times of long code with few resident warps.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.caches.cache_model import kept_at_random
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.profile.async_groups import AsyncResult, Groups, Role, role
from dse.source.nvidia.sass.opcodes import PIPES
from dse.source.nvidia.sass.operands import SLOTS
from dse.source.nvidia.sass.products import Mma
from dse.source.nvidia.sass.program import BasicBlock, SassProgram, Step
from dse.types import MMA, TENSOR, Gpu

if TYPE_CHECKING:
    from dse.source.nvidia.profile.issue import IssueCode

# Where a result comes from that is waited for: a pipe, of products their kind, of asynchronous copies "copy".
SOURCES = (*PIPES, *MMA, "copy")
_CODE_CACHE, _CODE_LINE = 16 * 1024, 128  # bytes
_AWAITED, _STARTED = SLOTS, SLOTS + 1  # slots of the group that is waited for, of what is started
_STEADY = 4  # times that a block is walked in a row before its time is taken as settled


@dataclass(frozen=True)
class Timing:
    """The cycles that instructions take, by pipe."""

    latency: Mapping[str, float]  # until the result can be used, by SOURCES
    interval: Mapping[str, float]  # until the warp's next instruction can enter the same pipe
    # Until a sub-partition is done with one unit of work, by TENSOR.
    products: Mapping[str, float] = field(default_factory=dict)


def timing(gpu: Gpu, global_latency: float | None = None) -> Timing:
    """Return the cycles of a GPU (scalars). `global_latency` is an average load's; None: DRAM's."""
    latency = {
        name: float(getattr(gpu.latency, name))
        for name in ("fp32", "fp64", "int32", "imul32", "sfu", "shared")
    }
    parts = float(gpu.limits.sub_partitions)  # each has its own pipes, and a warp keeps to one
    interval = {
        name: parts * float(getattr(gpu.cpi, name)) for name in ("fp32", "fp64", "int32", "imul32", "sfu")
    }
    latency |= {
        "fp16": latency["fp32"],
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
    latency |= {name: float(getattr(gpu.latency, name)) for name in MMA}
    interval |= {
        "shared": float(gpu.cpi.shared),
        "global": float(gpu.lsu_cycles),
        "local": float(gpu.lsu_cycles),
    }
    return Timing(latency, interval, {name: parts * float(getattr(gpu.cpi, name)) for name in TENSOR})


@dataclass
class Walk:
    """The walk of one warp between two barriers, one pass through it or the sum of several."""

    passes: float = 0.0
    cycles: float = 0.0
    insts: float = 0.0
    loads: float = 0.0  # from global memory
    waits: float = 0.0  # times that it waits for loads; those in flight then arrive together
    chain: float = 0.0  # instructions that each need the one before
    # What `cycles` consists of: results waited for one after the other, by SOURCES (each takes its
    # `Timing.latency`), and the rest, in which instructions are fetched, issued or wait for a pipe.
    latencies: np.ndarray = field(default_factory=lambda: np.zeros(len(SOURCES)), compare=False)
    slots: float = 0.0

    def __add__(self, other: "Walk") -> "Walk":
        return Walk(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def __sub__(self, other: "Walk") -> "Walk":
        return Walk(*(a - b for a, b in zip(_values(self), _values(other), strict=True)))

    def __mul__(self, factor: float) -> "Walk":
        return Walk(*(factor * a for a in _values(self)))


def _values(walk: Walk) -> Iterable[Any]:
    return (getattr(walk, field.name) for field in fields(walk))


@dataclass(frozen=True)
class _Timed:
    """An instruction as the walk takes it."""

    needs: tuple[int, ...]  # slots that it waits for
    writes: tuple[int, ...]
    pipe: int  # its place in PIPES
    latency: float
    interval: float
    source: int  # where its result comes from: a place in SOURCES
    loads: int  # 1: from global memory
    role: Role | None  # among asynchronous groups


def walk(machine: Machine, block: int, warp: int, times: Timing) -> dict[tuple[int, int], Walk]:
    """Walk one warp; its phases by the addresses of the barriers around them, -1: start, end."""
    program = machine.program
    parts = list(segments(machine, block, warp))
    walker = _Walker(program, times, [index for blocks, _ in parts for index in blocks])
    for blocks, more in parts:
        walker.trip(blocks)
        if more:
            walker.more_trips(blocks, more)
    walker.close(-1)
    return walker.phases


def longest_warp(machine: Machine, block: int) -> int:
    """Return the warp of a block that executes most instructions."""
    warps = machine.shape[1] // 32
    lengths = np.array([len(block_of_code.steps) for block_of_code in machine.program.blocks])
    total = np.zeros(warps)
    for blocks, more, lanes in entries(machine):
        there = np.asarray(lanes.by_warp.any(-1))
        total += lengths[blocks] * (1 + more) * there[block if len(there) > 1 else 0]
    return int(total.argmax())


def entries(machine: Machine) -> Iterable[tuple[int, int, Lanes]]:
    """Yield (basic block, times that it was skipped, lanes) in order."""
    skipped = np.zeros(len(machine.trace) + 1, int)
    for start, end, more in machine.repeats:
        skipped[start:end] += more
    for (index, lanes), more in zip(machine.trace, skipped.tolist(), strict=False):
        yield index, more, lanes


def segments(machine: Machine, block: int, warp: int) -> Iterable[tuple[list[int], int]]:
    """Yield (basic blocks of the warp in order, how often they follow again)."""
    bounds = sorted(
        {0, len(machine.trace), *(position for start, end, _ in machine.repeats for position in (start, end))}
    )
    more = {(start, end): times for start, end, times in machine.repeats}
    there: dict[int, bool] = {}
    for start, end in pairwise(bounds):
        indices = []
        for index, lanes in machine.trace[start:end]:
            here = there.get(id(lanes))
            if here is None:
                rows = lanes.by_warp
                here = there[id(lanes)] = bool(rows[block if len(rows) > 1 else 0, warp].any())
            if here:
                indices.append(index)
        yield indices, more.get((start, end), 0)


class _Walker:
    """Walks one warp through basic blocks."""

    def __init__(self, program: SassProgram, times: Timing, path: Sequence[int]) -> None:
        from dse.source.nvidia.profile.issue import Standing, issue  # imports Numba

        executed = set(path)
        timed = [
            [_timed(step, times) for step in block.steps] if block.index in executed else []
            for block in program.blocks
        ]
        ends = np.cumsum([len(steps) for steps in timed]).tolist()
        self.blocks = list(pairwise([0, *ends]))  # the place of the first step of each, and behind the last
        self.steps = [step for steps in timed for step in steps]
        self.code, self.issue = _code(self.steps), issue
        self.with_role = [place for place, step in enumerate(self.steps) if step.role is not None]
        self.barriers = [_barrier(block) for block in program.blocks]
        self.cached = _Code([len(block.steps) * program.spacing for block in program.blocks], path)
        # Cycles that an instruction waits if its line has to be fetched: its part of that.
        self.fetch = times.latency["constant"] * program.spacing / _CODE_LINE
        self.latency = np.array([times.latency[source] for source in SOURCES])
        self.standing = Standing.at_start(_STARTED + 1, len(PIPES), len(SOURCES))
        self.groups = Groups()
        self.done = Walk()  # since the start
        self.opened, self.since = -1, Walk()
        self.phases: dict[tuple[int, int], Walk] = {}
        self.last, self.in_a_row, self.settled = -1, 0, Walk()

    def block(self, index: int) -> None:
        self.in_a_row = self.in_a_row + 1 if index == self.last else 0
        self.last = index
        if self.in_a_row > _STEADY and not self.groups.most_in_flight:  # continues as it did
            self._advance(self.settled)
        else:
            before = self.done
            self._issue(*self.blocks[index], self.cached.missed(index) * self.fetch)
            self.settled = self.done - before
        if self.barriers[index] >= 0:
            self.close(self.barriers[index])

    def _issue(self, first: int, last: int, fetch: float) -> None:
        """Issue the steps from one place up to another."""
        done, standing = self.done, self.standing
        standing.now[:] = done.cycles, done.chain, done.waits, done.loads
        standing.waited[:] = done.latencies
        at = first
        for place in self.with_role[bisect_left(self.with_role, first) : bisect_left(self.with_role, last)]:
            self.issue(self.code, at, place, fetch, standing)
            self._issue_with_role(place, fetch)
            at = place + 1
        self.issue(self.code, at, last, fetch, standing)
        time, chain, waits, loads = standing.now.tolist()
        waited = standing.waited.copy()
        slots = time - float(waited @ self.latency)
        self.done = Walk(done.passes, time, done.insts + last - first, loads, waits, chain, waited, slots)

    def _issue_with_role(self, place: int, fetch: float) -> None:
        """Issue a step that starts, closes or waits for groups: these have slots of their own."""
        role, standing = self.steps[place].role, self.standing
        assert role is not None
        if role.waits:
            awaited, in_flight = self.groups.wait(role)
            standing.ready[_AWAITED] = -inf if awaited is None else awaited.time
            standing.path[_AWAITED] = 0.0 if awaited is None else awaited.path
            if awaited is not None and role.queue == "copies":
                standing.now[2] += 1 / in_flight
        longest = standing.now[1]
        self.issue(self.code, place, place + 1, fetch, standing)
        if role.starts:  # no register has it, so no chain continues from it
            standing.now[1] = longest
            self.groups.start(
                role, AsyncResult(float(standing.ready[_STARTED]), standing.path[_STARTED].copy())
            )
        if role.closes:
            self.groups.close(role)

    def _advance(self, more: Walk) -> None:
        """Do as much as in `more`; all that the warp waits for comes as much later."""
        self.done = self.done + more
        self.standing.postpone(more.cycles, more.latencies, more.chain)
        self.groups.postpone(more.cycles, more.latencies)

    def trip(self, blocks: Iterable[int]) -> None:
        for index in blocks:
            self.block(index)

    def more_trips(self, blocks: Sequence[int], trips: int) -> None:
        """Walk some trips more of a loop, and let the others be as they were, on average.

        Where groups are in flight, a trip is as the one this many trips before.
        """
        in_flight = self.groups.most_in_flight
        warm, period = (2 * in_flight, in_flight + 1) if in_flight else (0, 1)
        if trips <= warm + period:
            self.trip(list(blocks) * trips)
            return
        self.trip(list(blocks) * warm)
        done, since, phases = self.done, self.since, dict(self.phases)
        self.trip(list(blocks) * period)
        again = (trips - warm) / period - 1
        if self.since is not since:  # barriers inside: phases that ended are gone through again
            for key, walked in self.phases.items():
                self.phases[key] = walked + (walked - phases.get(key, Walk())) * again
            self.since = self.since + (self.done - done) * again
        self._advance((self.done - done) * again)

    def close(self, barrier: int) -> None:
        """End the phase at a barrier."""
        key = self.opened, barrier
        self.phases[key] = self.phases.get(key, Walk()) + (self.done - self.since) + Walk(passes=1)
        self.opened, self.since = barrier, self.done


class _Code:
    """The code of basic blocks as it comes and goes in the cache of a sub-partition."""

    def __init__(self, sizes: Sequence[int], path: Sequence[int]) -> None:
        self.sizes = sizes
        # Those executed latest are last; another warp went the same path before.
        self.recent = list(dict.fromkeys(reversed(path)))[::-1]
        self.fits = sum(sizes[index] for index in self.recent) <= _CODE_CACHE

    def missed(self, index: int) -> float:
        """Return the share of a basic block that has to be fetched, now that it is executed again."""
        if self.fits:
            return 0.0
        position = self.recent.index(index)
        since = sum(self.sizes[number] for number in self.recent[position:])
        self.recent.append(self.recent.pop(position))
        return _missed(since)


@cache
def _missed(size: int) -> float:
    return 1.0 - kept_at_random(size / _CODE_CACHE)


def _barrier(block: BasicBlock) -> int:
    """Return the address of the barrier at its end; -1 if there is none."""
    last = block.steps[-1]
    return last.address if last.opcode == "BAR" else -1


def _timed(step: Step, times: Timing) -> _Timed:
    guard = (step.guard,) if step.guard >= 0 else ()
    asynchronous = role(step)
    needs, writes = (*step.reads, *guard, *step.writes), step.writes  # a write must not overtake another
    source, interval, held = str(step.pipe), times.interval.get(step.pipe, 1.0), 0.0
    if step.product is not None:
        source, interval = step.product.kind, _interval(step.product, times)
    if asynchronous is not None and asynchronous.starts:
        if asynchronous.queue == "products":  # sums stay in the pipe from one product to the next
            needs = tuple(slot for slot in needs if slot not in writes)
        else:
            source = "copy" if step.product is None else source
        writes, held = (_STARTED,), interval if step.pipe == "tensor" else 0.0
    if asynchronous is not None and asynchronous.waits:
        needs = (*needs, _AWAITED)
    return _Timed(
        needs=needs,
        writes=writes,
        pipe=_PIPES[step.pipe],
        latency=held + times.latency[source],
        interval=interval,
        source=_SOURCES[source],
        loads=int(step.pipe == "global" and (bool(step.targets) or step.kind == "copy")),
        role=asynchronous,
    )


def _code(steps: Sequence[_Timed]) -> "IssueCode":
    """Put instructions side by side."""
    from dse.source.nvidia.profile.issue import IssueCode

    def flat(lists: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
        starts = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(items) for items in lists], out=starts[1:])
        return np.array([slot for items in lists for slot in items], np.int64), starts

    return IssueCode(
        *flat([step.needs for step in steps]),
        *flat([step.writes for step in steps]),
        pipe=np.array([step.pipe for step in steps], np.int64),
        latency=np.array([step.latency for step in steps], float),
        interval=np.array([step.interval for step in steps], float),
        source=np.array([step.source for step in steps], np.int64),
        loads=np.array([step.loads for step in steps], np.int64),
    )


def _interval(product: Mma, times: Timing) -> float:
    """Return the cycles for which a matrix instruction keeps the tensor pipe of a sub-partition busy."""
    products = product.multiply_adds * times.products[product.kind]
    return max(products, product.from_registers * times.products["mma_warp"])


_PIPES: dict[str, int] = {name: number for number, name in enumerate(PIPES)}
_SOURCES: dict[str, int] = {name: number for number, name in enumerate(SOURCES)}

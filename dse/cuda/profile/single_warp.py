"""Times one warp alone: it issues its instructions in order, each waiting for the registers that it needs.

Asynchronous copies and products fill no register that is watched: the warp waits for groups of them, see
`dse.cuda.profile.async_groups`.

Instructions come in lines from a small cache of the sub-partition. What is not there comes from the SM's
cache, about as late as a word from shared memory. What has to make room is taken to be chosen at random.
Source: Jia et al., arXiv:1903.07486 (16 KiB, of Turing). Lines of 128 B, what is waited for one, and that
other instructions do not hide it, are taken so after measured times of long code with few resident warps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from dse.cuda.caches.cache_model import kept_at_random
from dse.cuda.machine.state import Machine
from dse.cuda.machine.thread_set import Lanes
from dse.cuda.profile.async_groups import Groups, Result, Role, role
from dse.cuda.sass.opcodes import PIPES
from dse.cuda.sass.products import Product
from dse.cuda.sass.program import BasicBlock, SassProgram, Step
from dse.types import MMA, TENSOR, Gpu

# Where a result comes from that is waited for: a pipe, of products their kind, of asynchronous copies "copy".
SOURCES = (*PIPES, *MMA, "copy")
_CODE_CACHE, _CODE_LINE = 16 * 1024, 128  # bytes
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
        "local": float(gpu.latency.l1),
        **dict.fromkeys(
            ("global", "texture", "copy"),
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
    pipe: str
    latency: float
    interval: float
    loads: int  # 1: from global memory
    unit: np.ndarray  # 1 in the place of its source
    role: Role | None  # among asynchronous groups


@dataclass
class _State:
    """Where a warp stands. What it did since the start is in `done`, its time as `done.cycles`."""

    done: Walk = field(default_factory=Walk)
    ready: dict[int, float] = field(default_factory=dict)  # slot → when it can be read
    path: dict[int, np.ndarray] = field(default_factory=dict)  # slot → latencies waited for until then
    depth: dict[int, float] = field(default_factory=dict)  # slot → length of the chain that ends in it
    free: dict[str, tuple[float, np.ndarray]] = field(default_factory=dict)  # pipe → when it can be entered
    flying: set[int] = field(default_factory=set)  # slots that wait for global memory
    groups: Groups = field(default_factory=Groups)


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
        self.blocks = [_timed(block, times) for block in program.blocks]
        self.code = _Code([len(block.steps) * program.spacing for block in program.blocks], path)
        # Cycles that an instruction waits if its line has to be fetched: its part of that.
        self.fetch = times.latency["constant"] * program.spacing / _CODE_LINE
        self.latency = np.array([times.latency[source] for source in SOURCES])
        self.state = _State()
        self.opened, self.since = -1, Walk()
        self.phases: dict[tuple[int, int], Walk] = {}
        self.last, self.in_a_row, self.settled = -1, 0, Walk()

    def block(self, index: int) -> None:
        steps, barrier = self.blocks[index]
        self.in_a_row = self.in_a_row + 1 if index == self.last else 0
        self.last = index
        if self.in_a_row > _STEADY and not self.state.groups.most_in_flight:  # goes on as it did
            self._advance(self.settled)
        else:
            before = self.state.done
            self._issue(steps, self.code.missed(index) * self.fetch)
            self.settled = self.state.done - before
        if barrier >= 0:
            self.close(barrier)

    def _issue(self, steps: list[_Timed], fetch: float) -> None:
        state, done = self.state, self.state.done
        ready, path, depth, free, flying = state.ready, state.path, state.depth, state.free, state.flying
        time, waited, deepest, waits, loads = done.cycles, done.latencies, done.chain, done.waits, done.loads
        for step in steps:
            start, deep = time, 0.0
            if step.pipe in free and free[step.pipe][0] > start:
                start, waited = free[step.pipe]
            for slot in step.needs:
                if ready.get(slot, 0.0) > start:
                    start, waited = ready[slot], path[slot]
                deep = max(deep, depth.get(slot, 0.0))
            if flying and not flying.isdisjoint(step.needs):
                waits += 1
                flying.clear()
            if step.role is not None and step.role.waits:
                awaited, in_flight = state.groups.wait(step.role)
                if awaited is not None:
                    waits += 1 / in_flight if step.role.queue == "copies" else 0
                    if awaited.time > start:
                        start, waited = awaited.time, awaited.path
            if step.role is not None and step.role.starts:
                held = step.interval if step.pipe == "tensor" else 0.0
                there = Result(start + held + step.latency, waited + step.unit)
                state.groups.start(step.role, there)
            elif step.writes:
                arrived = waited + step.unit
                deepest = max(deepest, deep + 1)
                for slot in step.writes:
                    ready[slot], path[slot], depth[slot] = start + step.latency, arrived, deep + 1
            if step.loads:
                flying.update(step.writes)
            if step.role is not None and step.role.closes:
                state.groups.close(step.role)
            free[step.pipe] = start + step.interval, waited
            time = start + 1 + fetch
            loads += step.loads
        slots = time - float(waited @ self.latency)
        state.done = Walk(done.passes, time, done.insts + len(steps), loads, waits, deepest, waited, slots)

    def _advance(self, more: Walk) -> None:
        """Do as much as in `more`; all that the warp waits for comes as much later."""
        state = self.state
        state.done = state.done + more
        for slot in state.ready:
            state.ready[slot] += more.cycles
            state.path[slot] = state.path[slot] + more.latencies
            state.depth[slot] += more.chain
        state.free = {
            pipe: (time + more.cycles, path + more.latencies) for pipe, (time, path) in state.free.items()
        }
        state.groups.postpone(more.cycles, more.latencies)

    def trip(self, blocks: Iterable[int]) -> None:
        for index in blocks:
            self.block(index)

    def more_trips(self, blocks: Sequence[int], trips: int) -> None:
        """Walk some trips more of a loop, and let the others be as they were, on average.

        Where groups are in flight, a trip is as the one so many trips before.
        """
        in_flight = self.state.groups.most_in_flight
        warm, period = (2 * in_flight, in_flight + 1) if in_flight else (0, 1)
        if trips <= warm + period:
            self.trip(list(blocks) * trips)
            return
        self.trip(list(blocks) * warm)
        done, since, phases = self.state.done, self.since, dict(self.phases)
        self.trip(list(blocks) * period)
        again = (trips - warm) / period - 1
        if self.since is not since:  # barriers inside: phases that ended are gone through again
            for key, walked in self.phases.items():
                self.phases[key] = walked + (walked - phases.get(key, Walk())) * again
            self.since = self.since + (self.state.done - done) * again
        self._advance((self.state.done - done) * again)

    def close(self, barrier: int) -> None:
        """End the phase at a barrier."""
        key = self.opened, barrier
        self.phases[key] = self.phases.get(key, Walk()) + (self.state.done - self.since) + Walk(passes=1)
        self.opened, self.since = barrier, self.state.done


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


def _timed(block: BasicBlock, times: Timing) -> tuple[list[_Timed], int]:
    """Return (its instructions, address of the barrier at its end or -1)."""
    last = block.steps[-1]
    return [_timed_step(step, times) for step in block.steps], last.address if last.opcode == "BAR" else -1


def _timed_step(step: Step, times: Timing) -> _Timed:
    guard = (step.guard,) if step.guard >= 0 else ()
    asynchronous = role(step)
    needs = (*step.reads, *guard, *step.writes)  # a write must not overtake the one before it
    source, interval = str(step.pipe), times.interval.get(step.pipe, 1.0)
    if step.product is not None:
        source, interval = step.product.kind, _interval(step.product, times)
    if asynchronous is not None and asynchronous.starts:
        if asynchronous.queue == "products":  # sums stay in the pipe from one product to the next
            needs = tuple(slot for slot in needs if slot not in step.writes)
        else:
            source = "copy" if step.product is None else source
    return _Timed(
        needs=needs,
        writes=step.writes,
        pipe=step.pipe,
        latency=times.latency[source],
        interval=interval,
        loads=int(step.pipe == "global" and (bool(step.targets) or step.kind == "copy")),
        unit=_UNITS[source],
        role=asynchronous,
    )


def _interval(product: Product, times: Timing) -> float:
    """Return the cycles for which a matrix instruction keeps the tensor pipe of a sub-partition busy."""
    products = product.multiply_adds * times.products[product.kind]
    return max(products, product.from_registers * times.products["mma_warp"])


_UNITS: dict[str, np.ndarray] = dict(zip(SOURCES, np.eye(len(SOURCES)), strict=True))

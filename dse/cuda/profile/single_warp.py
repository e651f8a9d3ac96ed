"""Times one warp alone: it issues its instructions in order, each waiting for the registers that it needs.

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
from dse.cuda.sass.opcodes import PIPES
from dse.cuda.sass.program import BasicBlock, SassProgram, Step
from dse.types import Gpu

_CODE_CACHE, _CODE_LINE = 16 * 1024, 128  # bytes
_STEADY = 4  # times that a block is walked in a row before its time is taken as settled


@dataclass(frozen=True)
class Timing:
    """The cycles that instructions take, by pipe."""

    latency: Mapping[str, float]  # until the result can be used
    interval: Mapping[str, float]  # until the warp's next instruction can enter the same pipe


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
        "tensor": latency["fp64"],
        "uniform": latency["int32"],
        "constant": latency["shared"],
        "local": float(gpu.latency.l1),
        "global": float(gpu.latency.dram) if global_latency is None else global_latency,
        "texture": float(gpu.latency.dram) if global_latency is None else global_latency,
        "other": latency["shared"],  # reading a special register takes about as long
        "barrier": 0.0,
        "control": 0.0,
    }
    interval |= {
        "shared": float(gpu.cpi.shared),
        "global": float(gpu.lsu_cycles),
        "local": float(gpu.lsu_cycles),
    }
    return Timing(latency, interval)


@dataclass
class Walk:
    """The walk of one warp between two barriers, one pass through it or the sum of several."""

    passes: float = 0.0
    cycles: float = 0.0
    insts: float = 0.0
    loads: float = 0.0  # from global memory
    waits: float = 0.0  # times that it waits for loads; those in flight then arrive together
    chain: float = 0.0  # instructions that each need the one before
    # What `cycles` consists of: results waited for one after the other, by the pipe that they come from (each
    # takes its `Timing.latency`), and the rest, in which instructions are fetched, issued or wait for a pipe.
    latencies: np.ndarray = field(default_factory=lambda: np.zeros(len(PIPES)), compare=False)
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
    unit: np.ndarray  # 1 in the place of its pipe


@dataclass
class _State:
    """Where a warp stands. What it did since the start is in `done`, its time as `done.cycles`."""

    done: Walk = field(default_factory=Walk)
    ready: dict[int, float] = field(default_factory=dict)  # slot → when it can be read
    path: dict[int, np.ndarray] = field(default_factory=dict)  # slot → latencies waited for until then
    depth: dict[int, float] = field(default_factory=dict)  # slot → length of the chain that ends in it
    free: dict[str, tuple[float, np.ndarray]] = field(default_factory=dict)  # pipe → when it can be entered
    flying: set[int] = field(default_factory=set)  # slots that wait for global memory


def walk(machine: Machine, block: int, warp: int, times: Timing) -> dict[tuple[int, int], Walk]:
    """Walk one warp; its phases by the addresses of the barriers around them, -1: start, end."""
    program = machine.program
    parts = list(segments(machine, block, warp))
    walker = _Walker(program, times, [index for blocks, _ in parts for index in blocks])
    for blocks, more in parts:
        for index in blocks:
            walker.block(index)
        if more:
            before = walker.snapshot()
            for index in blocks:
                walker.block(index)
            walker.again(before, more - 1)
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
        self.latency = np.array([times.latency[pipe] for pipe in PIPES])
        self.state = _State()
        self.opened, self.since = -1, Walk()
        self.phases: dict[tuple[int, int], Walk] = {}
        self.last, self.in_a_row, self.settled = -1, 0, Walk()

    def block(self, index: int) -> None:
        steps, barrier = self.blocks[index]
        self.in_a_row = self.in_a_row + 1 if index == self.last else 0
        self.last = index
        if self.in_a_row > _STEADY:  # goes on as it did
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
            if step.writes:
                arrived = waited + step.unit
                deepest = max(deepest, deep + 1)
                for slot in step.writes:
                    ready[slot], path[slot], depth[slot] = start + step.latency, arrived, deep + 1
            if step.loads:
                flying.update(step.writes)
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

    def snapshot(self) -> Walk:
        return self.state.done

    def again(self, before: Walk, times: int) -> None:
        """Repeat so many times more what was done since `before`."""
        self._advance((self.state.done - before) * times)

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
    return _Timed(
        needs=(*step.reads, *guard, *step.writes),  # a write must not overtake the one before it
        writes=step.writes,
        pipe=step.pipe,
        latency=times.latency[step.pipe],
        interval=times.interval.get(step.pipe, 1.0),
        loads=int(step.pipe == "global" and bool(step.targets)),
        unit=_UNITS[step.pipe],
    )


_UNITS: dict[str, np.ndarray] = dict(zip(PIPES, np.eye(len(PIPES)), strict=True))

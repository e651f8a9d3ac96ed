"""How long one warp alone takes: its instructions issued in order, each waiting for the registers that it
needs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from dse.cuda.lanes import Lanes
from dse.cuda.machine import Machine
from dse.cuda.program import Block, Program, Step
from dse.types import Gpu

_STEADY = 4  # times that a block is walked in a row before its time is taken as settled


@dataclass(frozen=True)
class Timing:
    """Cycles that instructions take, by pipe."""

    latency: Mapping[str, float]  # until the result can be used
    interval: Mapping[str, float]  # until the warp's next instruction can enter the same pipe


def timing(gpu: Gpu, global_latency: float | None = None) -> Timing:
    """From a GPU whose fields are scalars. `global_latency` is that of an average load; of DRAM if not
    given.
    """
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
    """What one warp does between two barriers, one pass through it or the sum of several."""

    passes: int = 0
    cycles: float = 0.0
    insts: float = 0.0
    loads: float = 0.0  # from global memory
    waits: float = 0.0  # times that it waits for loads; those in flight then arrive together
    chain: float = 0.0  # instructions that each need the one before


@dataclass
class _State:
    """Where a warp stands."""

    time: float = 0.0
    ready: dict[int, float] = field(default_factory=dict)  # slot → when it can be read
    depth: dict[int, float] = field(default_factory=dict)  # slot → length of the chain that ends in it
    free: dict[str, float] = field(default_factory=dict)  # pipe → when it can be entered
    flying: set[int] = field(default_factory=set)  # slots that wait for global memory
    insts: float = 0.0
    loads: float = 0.0
    waits: float = 0.0
    deepest: float = 0.0


def walk(machine: Machine, block: int, warp: int, times: Timing) -> dict[tuple[int, int], Walk]:
    """Phases of one warp by the addresses of the barriers that open and close them; -1: start, end."""
    program = machine.program
    walker = _Walker(program, times)
    for blocks, more in _segments(machine, block, warp):
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
    """The warp of a block that executes most instructions."""
    warps = machine.shape[1] // 32
    lengths = np.array([len(found.steps) for found in machine.program.blocks])
    total = np.zeros(warps)
    for blocks, more, lanes in _entries(machine):
        there = np.asarray(lanes.by_warp.any(-1))
        total += lengths[blocks] * (1 + more) * there[block if len(there) > 1 else 0]
    return int(total.argmax())


def _entries(machine: Machine) -> Iterable[tuple[int, int, Lanes]]:
    """(basic block, times that it was skipped, lanes) in order."""
    skipped = np.zeros(len(machine.trace) + 1, int)
    for start, end, more in machine.repeats:
        skipped[start:end] += more
    for (index, lanes), more in zip(machine.trace, skipped.tolist(), strict=False):
        yield index, more, lanes


def _segments(machine: Machine, block: int, warp: int) -> Iterable[tuple[list[int], int]]:
    """(basic blocks of the warp in order, how often they follow again)."""
    bounds = sorted(
        {0, len(machine.trace), *(place for start, end, _ in machine.repeats for place in (start, end))}
    )
    more = {(start, end): times for start, end, times in machine.repeats}
    there: dict[int, bool] = {}
    for start, end in pairwise(bounds):
        found = []
        for index, lanes in machine.trace[start:end]:
            here = there.get(id(lanes))
            if here is None:
                rows = lanes.by_warp
                here = there[id(lanes)] = bool(rows[block if len(rows) > 1 else 0, warp].any())
            if here:
                found.append(index)
        yield found, more.get((start, end), 0)


class _Walker:
    """Walks one warp through basic blocks."""

    def __init__(self, program: Program, times: Timing) -> None:
        self.blocks = [_timed(block, times) for block in program.blocks]
        self.state = _State()
        self.opened, self.since = -1, _State()
        self.phases: dict[tuple[int, int], Walk] = {}
        self.last, self.in_a_row, self.settled = -1, 0, (0.0, 0.0, 0.0)

    def block(self, index: int) -> None:
        steps, barrier = self.blocks[index]
        state = self.state
        self.in_a_row = self.in_a_row + 1 if index == self.last else 0
        self.last = index
        if self.in_a_row > _STEADY:  # goes on as it did
            cycles, depth, waits = self.settled
            self._advance(cycles, float(len(steps)), sum(step[5] for step in steps), waits, depth)
        else:
            before = (state.time, state.deepest, state.waits)
            self._issue(steps)
            self.settled = (state.time - before[0], state.deepest - before[1], state.waits - before[2])
        if barrier >= 0:
            self.close(barrier)

    def _issue(self, steps: list[tuple]) -> None:
        state = self.state
        ready, depth, free, flying = state.ready, state.depth, state.free, state.flying
        time = state.time
        for needs, writes, latency, pipe, interval, loads in steps:
            start, deep = max(time, free.get(pipe, 0.0)), 0.0
            for slot in needs:
                start = max(start, ready.get(slot, 0.0))
                deep = max(deep, depth.get(slot, 0.0))
            if flying and not flying.isdisjoint(needs):
                state.waits += 1
                flying.clear()
            for slot in writes:
                ready[slot] = start + latency
                depth[slot] = deep + 1
            if writes:
                state.deepest = max(state.deepest, deep + 1)
            if loads:
                flying.update(writes)
            free[pipe] = start + interval
            time = start + 1
            state.loads += loads
        state.time = time
        state.insts += len(steps)

    def _advance(self, cycles: float, insts: float, loads: float, waits: float, depth: float) -> None:
        state = self.state
        state.time += cycles
        state.insts += insts
        state.loads += loads
        state.waits += waits
        state.deepest += depth
        for slot in state.ready:
            state.ready[slot] += cycles
        for pipe in state.free:
            state.free[pipe] += cycles
        for slot in state.depth:
            state.depth[slot] += depth

    def snapshot(self) -> tuple[float, float, float, float, float]:
        state = self.state
        return state.time, state.insts, state.loads, state.waits, state.deepest

    def again(self, before: tuple[float, float, float, float, float], times: int) -> None:
        """What was done since `before` is done so many times more."""
        cycles, insts, loads, waits, depth = (
            times * (now - then) for now, then in zip(self.snapshot(), before, strict=True)
        )
        self._advance(cycles, insts, loads, waits, depth)

    def close(self, barrier: int) -> None:
        """A barrier ends the phase."""
        state, since = self.state, self.since
        phase = self.phases.setdefault((self.opened, barrier), Walk())
        phase.passes += 1
        phase.cycles += state.time - since.time
        phase.insts += state.insts - since.insts
        phase.loads += state.loads - since.loads
        phase.waits += state.waits - since.waits
        phase.chain += state.deepest - since.deepest
        self.opened = barrier
        self.since = _State(
            state.time, insts=state.insts, loads=state.loads, waits=state.waits, deepest=state.deepest
        )


def _timed(block: Block, times: Timing) -> tuple[list[tuple], int]:
    """([(slots it waits for, slots it writes, latency, pipe, interval, global loads)], address of a barrier
    or -1).
    """
    last = block.steps[-1]
    return [_timed_step(step, times) for step in block.steps], last.address if last.opcode == "BAR" else -1


def _timed_step(step: Step, times: Timing) -> tuple:
    guard = (step.guard,) if step.guard >= 0 else ()
    loads = int(step.pipe == "global" and bool(step.targets))
    # a write must not overtake the one before it
    needs = (*step.reads, *guard, *step.writes)
    return needs, step.writes, times.latency[step.pipe], step.pipe, times.interval.get(step.pipe, 1.0), loads

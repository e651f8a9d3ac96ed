"""Times one wave alone: it issues in order, and waits where the code says so.

Accesses to memory are under way until a counter (vmcnt, lgkmcnt, vscnt; on gfx12 one for each kind) has come
down to what a wait names; those of one counter come back in order, except scalar loads, for all of which the
compiler waits at once. Results of vector instructions are there some cycles later, and the hardware holds
back what needs them.

Source: AMD's instruction set guides of CDNA2, RDNA2 and RDNA3, sections on data dependency resolution.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dse.source.amd.execute.code import BARRIERS, Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.profile.pipes import Turns
from dse.source.amd.profile.record import BlockRecord, CountedStep, repeats
from dse.source.amd.text import Instruction, Listing
from dse.source.machine.recorded import total_counts
from dse.source.nvidia.profile.single_warp import SOURCES, Walk
from dse.types import MMA, Gpu

_PLACE = {name: number for number, name in enumerate(SOURCES)}


_Phases = dict[tuple[int, int], np.ndarray]  # what a wave did in each, and in how many passes


class Cost(NamedTuple):
    """Cost of an instruction for a wave that is alone."""

    cycles: float  # until the next instruction can be issued
    latency: float  # until its result is there
    source: int  # where that comes from: a place in SOURCES
    counter: str  # that counts it while it is under way; "": registers are watched
    busy: float  # cycles that it keeps a pipe busy: a memory's, or the matrix core
    load: bool  # from global memory
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    waits: tuple[tuple[str, int], ...]  # counters, and to what they have to come down


@dataclass(frozen=True)
class WaveTiming:
    """The cycles of a GPU, for one wave."""

    latency: np.ndarray  # until a result can be used, by SOURCES
    interval: Mapping[str, float]  # until the wave's next instruction, by pipe
    passes: Mapping[str, float]  # of a pass through a memory's pipe, by pipe
    products: Mapping[str, float]  # of a unit of work on the matrix core of a SIMD, by kind
    turns: Turns


def timing(listing: Listing, gpu: Gpu, turns: Turns, global_latency: float) -> WaveTiming:
    """Return the cycles of a GPU (scalars). `global_latency` is an average load's, spills included."""
    turn, fp32 = turns.turn, float(gpu.cpi.fp32)
    names = ("fp32", "fp64", "int32", "imul32", "sfu")
    interval = {name: turn * max(1.0, float(getattr(gpu.cpi, name)) / fp32) for name in names}
    latency = dict.fromkeys(SOURCES, turn)
    latency |= {name: max(interval[name], float(getattr(gpu.latency, name))) for name in names}
    latency |= {
        "shared": float(gpu.latency.shared),
        "constant": float(gpu.latency.l1),
        **dict.fromkeys(("global", "local"), global_latency),
        "uniform": turn,
        "control": turns.mask,
        "other": turn,
    }
    passes = {"shared": float(gpu.cpi.shared), "global": float(gpu.cpi.l1), "local": float(gpu.cpi.l1)}
    products = {name: float(gpu.limits.sub_partitions) * float(getattr(gpu.cpi, name)) for name in MMA}
    latency |= {name: max(turn, float(getattr(gpu.latency, name))) for name in MMA}
    in_order = np.array([latency[name] for name in SOURCES])
    return WaveTiming(in_order, interval, passes, products, turns)


class _UnderWay(NamedTuple):
    ready: float
    path: np.ndarray  # results waited for until then, by SOURCES
    source: int
    load: bool


class _Walker:
    """Walks one wave through instructions."""

    def __init__(self, times: WaveTiming) -> None:
        self.times = times
        self.time = self.insts = self.loads = self.waits = self.depth = 0.0
        self.waited = np.zeros(len(SOURCES))
        self.counters: dict[str, deque[_UnderWay]] = {name: deque() for name in ("vm", "vs", "lgkm")}
        self.free = {"vm": 0.0, "vs": 0.0, "lgkm": 0.0, "matrix": 0.0}
        self.ready: dict[str, tuple[float, np.ndarray, int, float]] = {}  # of a register; depth of its chain
        self.units = np.eye(len(SOURCES))

    def issue(self, cost: Cost) -> None:
        """Issue one instruction."""
        start, deep = self.time, 0.0
        held: Any = None
        for register in cost.reads:
            known = self.ready.get(register)
            if known is not None:
                if known[0] > start:
                    start, held = known[0], known
                deep = max(deep, known[3])
        if held is not None:
            self.waited = held[1] + self.units[held[2]]
        if cost.waits:
            start = self._wait(start, cost.waits)
        if cost.busy and not cost.counter:
            start = max(start, self.free["matrix"])
            self.free["matrix"] = start + cost.busy
        self.insts += 1
        if cost.counter:
            entered = max(start, self.free[cost.counter])
            self.free[cost.counter] = entered + cost.busy
            under_way = self.counters[cost.counter]
            ready = entered + cost.busy + cost.latency
            if under_way and under_way[-1].ready > ready:
                ready = under_way[-1].ready
            under_way.append(_UnderWay(ready, self.waited, cost.source, cost.load))
            self.loads += cost.load
            for register in cost.writes:
                self.ready[register] = (start, self.waited, cost.source, deep + 1)
        elif cost.writes:
            late = start + cost.latency
            for register in cost.writes:
                self.ready[register] = (late, self.waited, cost.source, deep + 1)
        self.depth = max(self.depth, deep + 1)
        self.time = start + cost.cycles

    def _wait(self, start: float, limits: tuple[tuple[str, int], ...]) -> float:
        arrived = False
        for counter, most in limits:
            under_way = self.counters[counter]
            while len(under_way) > most:
                done = under_way.popleft()
                if done.ready > start:
                    start, self.waited = done.ready, done.path + self.units[done.source]
                arrived |= done.load
        self.waits += arrived
        return start

    def standing(self) -> np.ndarray:
        """Counts since the start."""
        return np.array([self.time, self.insts, self.loads, self.waits, self.depth, *self.waited])

    def advance(self, more: np.ndarray) -> None:
        """Do as much again; all that the wave waits for comes as much later."""
        cycles, insts, loads, waits, depth = more[:5]
        waited = more[5:]
        self.time += cycles
        self.insts, self.loads, self.waits, self.depth = (
            self.insts + insts, self.loads + loads, self.waits + waits, self.depth + depth,
        )  # fmt: skip
        self.waited = self.waited + waited
        for name, under_way in self.counters.items():
            self.counters[name] = deque(
                result._replace(ready=result.ready + cycles, path=result.path + waited)
                for result in under_way
            )
        self.free = {name: free + cycles for name, free in self.free.items()}
        self.ready = {
            register: (time + cycles, path + waited, source, deep + depth)
            for register, (time, path, source, deep) in self.ready.items()
        }


def walk(
    code: Code, machine: MemoryMachine, record: BlockRecord, block: int, times: WaveTiming
) -> dict[tuple[int, int], Walk]:
    """Walk the longest wave of a block; its phases by the barriers around them, -1: start, end."""
    wave = _longest(code, machine, block)
    costs = _costs(code, record, block, times)
    walker = _Walker(times)
    more_at = {end: (start, more) for start, end, more in getattr(machine, "repeats", ())}
    starts = {start for start, _ in more_at.values()}
    marks: dict[int, tuple[np.ndarray, _Phases]] = {}
    phases: _Phases = {}
    opened, since = -1, walker.standing()

    def repeat(place: int) -> None:
        """Add the trips represented by the part ending here to the phases that it closed, or the open one."""
        nonlocal since
        start, more = more_at[place]
        if start not in marks:
            return
        standing, before = marks[start]
        again = (walker.standing() - standing) * more
        walker.advance(again)
        closed = [key for key, numbers in phases.items() if numbers[-1] > before.get(key, numbers * 0)[-1]]
        for key in closed:
            phases[key] = phases[key] + (phases[key] - before.get(key, 0.0)) * more
        if closed:  # what was open at the start was closed, and as much is open now
            since = since + again

    for place, (index, waves, _) in enumerate(machine.trace):
        if place in more_at:
            repeat(place)
        if place in starts:
            marks[place] = walker.standing(), dict(phases)
        mask = waves.mask
        if not mask[block if len(mask) > 1 else 0, wave if mask.shape[1] > 1 else 0, 0]:
            continue
        stretch = code.stretches[index]
        for cost in costs[index]:
            walker.issue(cost)
        if stretch.end in BARRIERS:
            barrier = stretch.steps[-1].index
            _close(phases, (opened, barrier), walker.standing() - since)
            opened, since = barrier, walker.standing()
    if len(machine.trace) in more_at:
        repeat(len(machine.trace))
    _close(phases, (opened, -1), walker.standing() - since)
    return {key: _walk_of(numbers, times) for key, numbers in phases.items()}


def _close(phases: _Phases, key: tuple[int, int], numbers: np.ndarray) -> None:
    """Add a pass through a phase."""
    row = np.append(numbers, 1.0)
    phases[key] = phases[key] + row if key in phases else row


def _walk_of(numbers: np.ndarray, times: WaveTiming) -> Walk:
    cycles, insts, loads, waits, depth = numbers[:5].tolist()
    waited = numbers[5:-1]
    slots = cycles - float(waited @ times.latency)
    return Walk(float(numbers[-1]), cycles, insts, loads, waits, depth, waited, slots)


def _longest(code: Code, machine: MemoryMachine, block: int) -> int:
    """Return the wave of a block that executes most instructions."""
    lengths = [len(stretch.steps) for stretch in code.stretches]
    times = repeats(machine)
    total = np.zeros(machine.shape[1])
    for place, (index, waves, _) in enumerate(machine.trace):
        mask = waves.mask[block if len(waves.mask) > 1 else 0, :, 0]
        total = total + lengths[index] * times[place] * mask
    return int(total.argmax())


def _costs(code: Code, record: BlockRecord, block: int, times: WaveTiming) -> list[list[Cost]]:
    """Return what the instructions of each stretch cost."""
    total = total_counts(record)
    rows, steps = record.bound.memory_rows, record.program.steps
    stores_apart = not code.listing.target.startswith("gfx9") and len(code.listing.target) > 6

    def passes(step: CountedStep) -> float:
        """Passes of one request of the block."""
        if step.index not in rows:
            return 0.0
        requests, _, through, _ = total[rows[step.index] : rows[step.index] + 4, block]
        return float(through / requests) if requests else 0.0

    return [
        [
            _cost(inst, steps[inst.index], passes(steps[inst.index]), times, stores_apart)
            for inst in stretch.steps
        ]
        for stretch in code.stretches
    ]


def _cost(inst: Instruction, step: CountedStep, passes: float, times: WaveTiming, stores_apart: bool) -> Cost:
    turns, pipe = times.turns, step.pipe
    reads, writes = registers(inst.opcode, inst.operands)
    if inst.second is not None:
        more_reads, more_writes = registers(inst.second.opcode, inst.second.operands)
        reads, writes = reads + more_reads, writes + more_writes
    if not step.counts:
        return Cost(_pause(inst, turns), 0.0, 0, "", 0.0, False, (), (), _waits(inst))
    if pipe in ("shared", "constant", "global", "local"):
        loads = bool(step.writes) or pipe == "shared" or pipe == "constant"
        counter = "lgkm" if pipe in ("shared", "constant") else "vs" if stores_apart and not loads else "vm"
        busy = max(passes, 1.0) * times.passes.get(pipe, 0.0)
        source = _PLACE[pipe]
        load = pipe == "global" and loads
        written = writes if step.writes or pipe in ("shared", "constant") else ()
        return Cost(turns.turn, times.latency[source], source, counter, busy, load, reads, written, ())
    if pipe == "control":
        return Cost(turns.branch, 0.0, 0, "", 0.0, False, reads, (), ())
    if step.product is not None:
        kind = step.product.kind
        busy = step.product.multiply_adds * times.products[kind]
        source = _PLACE[kind]
        return Cost(turns.turn, times.latency[source], source, "", busy, False, reads, writes, ())
    masks = inst.opcode.startswith(("v_cmp", "v_readlane", "v_readfirstlane"))
    source = _PLACE["control" if masks else pipe if pipe in _PLACE else "other"]
    return Cost(
        times.interval.get(pipe, turns.turn), times.latency[source], source, "", 0.0, False, reads, writes, ()
    )


def _pause(inst: Instruction, turns: Turns) -> float:
    """Cycles of what only waits or hints."""
    if inst.opcode == "s_nop" and inst.operands:
        return turns.turn * (int(inst.operands[0], 0) + 1)
    return 0.0


_COUNTER = {
    "vmcnt": ("vm",), "lgkmcnt": ("lgkm",), "vscnt": ("vs",), "loadcnt": ("vm",), "storecnt": ("vs",),
    "dscnt": ("lgkm",), "kmcnt": ("lgkm",), "loadcnt_dscnt": ("vm", "lgkm"), "storecnt_dscnt": ("vs", "lgkm"),
}  # fmt: skip
_NAMED = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")


def _waits(inst: Instruction) -> tuple[tuple[str, int], ...]:
    """Return the counters that an instruction waits for, and to what they have to come down."""
    if not inst.opcode.startswith(("s_waitcnt", "s_wait_")) or not inst.operands:
        return ()
    text = ", ".join(inst.operands)
    if inst.opcode == "s_waitcnt":
        if named := _NAMED.findall(text):
            return tuple((_COUNTER[name][0], int(number)) for name, number in named)
        return (("vm", 0), ("lgkm", 0)) if text.strip() in ("0", "0x0") else ()
    name = inst.opcode.removeprefix("s_waitcnt_").removeprefix("s_wait_")
    counters = _COUNTER.get(name, ())
    if not counters:
        return ()
    number = int(text.split(",")[-1].strip(), 0)
    if len(counters) == 2:
        return ((counters[0], number >> 8), (counters[1], number & 63))
    return ((counters[0], number),)


_WRITES_NOTHING = (
    "global_store", "flat_store", "buffer_store", "scratch_store", "scratch_buffer_store", "ds_write",
    "ds_store", "s_cbranch", "s_cmp",
)  # fmt: skip
_ACCUMULATES = ("v_fmac", "v_mac", "v_pk_fmac", "v_dot", "v_writelane", "v_smfmac", "v_swmmac")


@lru_cache(maxsize=1 << 16)
def registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the vector registers, and the masks of lanes, that an instruction reads and writes."""
    if not operands:
        return (("vcc",), ()) if "vcc" in opcode else ((), ())
    stores = opcode.startswith(_WRITES_NOTHING) or "load_lds" in opcode
    scalar = opcode.startswith("s_")
    masks = opcode.startswith(("v_cmp", "v_readlane", "v_readfirstlane"))
    writes = () if stores or scalar else _names(operands[0], masks)
    first = 0 if stores or opcode.startswith(_ACCUMULATES) else 1
    reads = [name for operand in operands[first:] for name in _names(operand, scalar)]
    return tuple(reads), writes


@lru_cache(maxsize=1 << 16)
def _names(operand: str, masks: bool) -> tuple[str, ...]:
    operand = operand.replace("neg(", "").replace("abs(", "").strip("-|)")
    if operand[:3] == "vcc" or operand[:1] == "s":
        return (operand.replace("_lo", ""),) if masks else ()
    if operand[:1] not in ("v", "a"):
        return ()
    if operand[1:].isdigit():
        return (operand,)
    if operand[1:2] == "[" and ":" in operand:
        first, last = operand[2:].rstrip("]").split(":")
        return tuple(f"{operand[0]}{number}" for number in range(int(first), int(last) + 1))
    return ()

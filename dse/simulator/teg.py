"""TEG: the Pipeline simulator with the settings of a GT200, for an instruction trace.

A warp's instructions are issued in order, one of all warps every second cycle, as soon as their operands are
ready and their unit is free. TEG in the simulator's terms:

- λ is the issue latency towards other warps, Λ the execution latency, and the same-warp interval the issue
  latency towards the warp itself; the issue limit is one instruction in two cycles;
- the memory pipeline that three SMs share is a subsystem with a limit in flight: an SM has a third of C_mem;
- a serialised access (bank conflicts, no coalescing) is one entry with a larger λ and Λ. Until it is done its
  warp issues nothing: the paper states only that an access to global memory occupies its warp for some 60
  cycles, and this fits its measured times best.

All blocks and SMs are assumed to be alike, and all addresses to hit the TLB.

Source: Lai & Seznec, TEG, INRIA RR-7804, 2011. docs/teg.md separates the paper's rules from chosen ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from dse.errors import DseError
from dse.simulator.case.program import MOST_INSTRUCTIONS, Case, Program
from dse.simulator.case.trace import ARITHMETIC, Trace, TraceAccess, TraceInstruction
from dse.simulator.simulation import simulate

WARP, HALF_WARP = 32, 16  # lanes
WORD, UNIT = 4, 128  # bytes of a bank, and of a warp that loads a word a lane
SUBSYSTEMS = ("sp", "dpu", "sfu", "memory", "barrier")


@dataclass(frozen=True)
class InstructionTiming:
    """The cycles of one kind of instruction."""

    execution: float  # until its result is ready
    multi_warp: float  # until its unit accepts one of another warp
    same_warp: float  # until its warp issues the next one


def _timings() -> dict[str, InstructionTiming]:
    single, double = InstructionTiming(24, 4, 8), InstructionTiming(48, 32, 32)
    table = {name: double if name.startswith("double") else single for name in ARITHMETIC}
    table["float_mul"] = InstructionTiming(24, 2, 8)  # in SP and SFU
    # Table 1 lacks the following. Two SFUs take 16 cycles for a warp, 12 more than eight SPs.
    table["special"] = InstructionTiming(24 + 12, 16, 16)
    table["move"] = table["barrier"] = single
    # Secs. 3.2.2 and 3.2.4: 436 to 443, about 60
    table["load"] = table["store"] = InstructionTiming(440, 4, 60)
    return table


@dataclass(frozen=True)
class TegMachine:
    """A GPU as TEG models it; by default GT200."""

    clock: float = 1.296e9  # Hz
    bandwidth: float = 141.7e9  # B/s: 8 channels x 8 B x 2.214 GHz
    tpcs: int = 10
    sms: int = 3  # of a TPC, which share its memory pipeline
    warps: int = 32  # of an SM, at most
    issue_interval: float = 2.0  # cycles
    timings: Mapping[str, InstructionTiming] = field(default_factory=_timings)  # Table 1, by kind
    shared_latency: float = 38.0  # of a move from shared memory, Sec. 3.2.4
    operand_latency: float = 50.0  # added for an operand in shared memory: 74 - 24, Sec. 3.3.3
    conflict_latency: float = 192.0 / 15  # added for each further word of a bank: (266 - 74) / 15
    banks: int = 16
    bank_cycles: float = 4.0  # for a word of one bank to both half-warps: two each (CUDA programming guide)
    channels: int = 8
    channel_bytes: int = 256

    def transactions_in_flight(self, element_bytes: int) -> float:
        """Return C_mem: the most accesses of warps, to elements of this size, in flight in a TPC.

        **Source:** Sec. 3.2.4.
        """
        per_second = self.bandwidth / (self.tpcs * WARP * element_bytes)
        return per_second * self.timings["load"].execution / self.clock

    @property
    def in_flight(self) -> int:
        """Most coalesced word accesses in flight on one SM: a third of the TPC's, rounded down."""
        return max(math.floor(self.transactions_in_flight(WORD)) // self.sms, 1)


GT200 = TegMachine()


@dataclass(frozen=True)
class Effects:
    """The effects that cost time. Each can be switched off, as if its bottleneck were removed."""

    issue: bool = True  # one instruction every second cycle
    same_warp: bool = True  # a warp issues no faster than Table 1 says
    dependence: bool = True  # an instruction waits for its operands
    barriers: bool = True
    divergence: bool = True  # a masked instruction costs as much as a whole one
    conflicts: bool = True  # of shared memory's banks
    uncoalesced: bool = True  # global accesses move more than requested, in several transactions
    held: bool = True  # a warp issues nothing while one of its accesses is serialised
    in_flight: bool = True  # C_mem
    channels: bool = True  # of global memory are used unevenly

    @classmethod
    def without(cls, name: str) -> "Effects":
        """Return all effects but one."""
        return replace(cls(), **{name: False})


NAMES = tuple(effect.name for effect in fields(Effects))


def ways(access: TraceAccess, lanes: int = WARP, machine: TegMachine = GT200) -> int:
    """Return the most words of one bank that a half-warp needs; 1 without a conflict."""
    if access.count is not None:
        return access.count
    most = 1
    for half in _halves(lanes):
        first = half * access.stride
        words = np.unique((first[:, None] + np.arange(0, max(access.bytes, WORD), WORD)) // WORD)
        most = max(most, int(np.bincount(words % machine.banks).max()))
    return most


def transactions(access: TraceAccess, lanes: int = WARP) -> list[int]:
    """Return the bytes of each transaction of a warp's access to global memory.

    A half-warp needs the segments of 128 bytes (of 32 and 64 for elements of one and two) that its lanes
    touch, each reduced to its half or quarter if that suffices.
    **Source:** CUDA programming guide, compute capability 1.2 and 1.3.
    """
    if access.count is not None:
        return [32] * access.count
    segment, moved = {1: 32, 2: 64}.get(access.bytes, 128), []
    for half in _halves(lanes):
        first = half * access.stride
        touched = (first[:, None] + np.arange(access.bytes)).ravel()
        for start in np.unique(touched // segment) * segment:
            size, inside = segment, touched[(touched >= start) & (touched < start + segment)] - start
            while size > 32 and inside.min() // (size // 2) == inside.max() // (size // 2):
                size //= 2
            moved.append(size)
    return moved


def _halves(lanes: int) -> list[np.ndarray]:
    """Return the active lanes of each half-warp."""
    return [np.arange(first, min(first + HALF_WARP, lanes)) for first in range(0, lanes, HALF_WARP)]


def skew(access: TraceAccess, lanes: int = WARP, machine: TegMachine = GT200) -> float:
    """Return the busiest channel's load over the mean: 1 to the number of channels.

    All warps count, with addresses `pitch` apart.
    """
    pitch, stride = access.pitch, access.stride
    if access.count is not None:
        if pitch is None:
            return 1.0
        lanes, stride = 1, 0
    pitch = WARP * stride if pitch is None else pitch
    around = machine.channels * machine.channel_bytes
    warps = np.arange(around // math.gcd(pitch, around)) if pitch else np.zeros(1, int)
    addresses = warps[:, None] * pitch + np.arange(lanes) * stride
    busy = np.bincount((addresses // machine.channel_bytes % machine.channels).ravel())
    return machine.channels * busy.max() / busy.sum()


def terms(
    instruction: TraceInstruction, machine: TegMachine, effects: Effects
) -> tuple[str, float, float, float]:
    """Return the subsystem, λ, Λ and same-warp interval of one instruction."""
    timing = machine.timings[instruction.kind]
    throughput_cycles, latency_cycles, interval = timing.multi_warp, timing.execution, timing.same_warp
    share = 1.0
    if not effects.divergence:  # fewer, but full, warps with as many lanes
        share, instruction = instruction.lanes / WARP, replace(instruction, lanes=WARP)
    access = instruction.access
    if access is not None and access.space == "shared":
        latency_cycles = (
            machine.shared_latency if instruction.kind == "move" else latency_cycles + machine.operand_latency
        )
        degree = ways(access, instruction.lanes, machine) if effects.conflicts else 1
        if degree > 1:
            throughput_cycles = max(throughput_cycles, degree * machine.bank_cycles)
            latency_cycles += round((degree - 1) * machine.conflict_latency)
            interval = max(interval, latency_cycles) if effects.held else interval
    elif access is not None:
        throughput_cycles, serialised = _global(access, instruction.lanes, machine, effects)
        interval = max(interval, latency_cycles) if serialised and effects.held else interval
    pipe = {"special": "sfu", "load": "memory", "store": "memory", "barrier": "barrier"}.get(
        instruction.kind, "sp"
    )
    pipe = "dpu" if instruction.kind.startswith("double") else pipe
    return pipe, throughput_cycles * share, latency_cycles, interval * share if effects.same_warp else 0.0


def _global(access: TraceAccess, lanes: int, machine: TegMachine, effects: Effects) -> tuple[float, bool]:
    """Return λ of an access to global memory, and whether it is serialised.

    The limit in flight counts accesses of UNIT bytes. A larger one closes the pipe for as long as that limit
    passes as many bytes.
    """
    load = machine.timings["load"]
    if effects.uncoalesced:
        moved = transactions(access, lanes)
    else:
        moved = transactions(replace(access, stride=access.bytes, count=None), lanes)
    throughput_cycles, total = load.multi_warp, sum(moved)
    if effects.in_flight and total > UNIT:
        throughput_cycles = max(throughput_cycles, total / UNIT * load.execution / machine.in_flight)
    uneven = skew(access, lanes, machine) if effects.channels else 1.0
    if uneven > 1:
        share = machine.bandwidth / (machine.clock * machine.tpcs * machine.sms)  # B a cycle
        throughput_cycles = max(throughput_cycles, total * uneven / share)
    return throughput_cycles, len(moved) > 2 * len(_halves(lanes))


def program(trace: Trace, machine: TegMachine = GT200, effects: Effects | None = None) -> Program:
    """Make a program of a trace, with the terms of a machine. **Raises:** DseError if it is too long."""
    effects = effects or Effects()
    if len(trace.instructions) > MOST_INSTRUCTIONS:
        length = f"{len(trace.instructions):,} instructions"
        raise DseError(f"{trace.name}: found {length}, expected at most {MOST_INSTRUCTIONS:,}: roll loops")
    rows = [terms(instruction, machine, effects) for instruction in trace.instructions]
    names, throughput_cycles, latency_cycles, same_warp = zip(*rows, strict=True)
    kinds = {"load": "m", "store": "m"} | ({"barrier": "b"} if effects.barriers else {})
    return Program(
        subsystem=np.array([SUBSYSTEMS.index(name) for name in names]),
        throughput_cycles=np.array(throughput_cycles),
        latency_cycles=np.array(latency_cycles),
        preds=tuple(instruction.needs if effects.dependence else () for instruction in trace.instructions),
        kind="".join(kinds.get(instruction.kind, "c") for instruction in trace.instructions),
        same_warp=np.array(same_warp),
        loops=trace.loops,
    )


def case(
    trace: Trace,
    warps: int,
    machine: TegMachine = GT200,
    effects: Effects | None = None,
    scheduler: str = "rr",
    groups: int | None = None,
) -> Case:
    """Make a case of `warps` warps on one SM: one block, or several if a block has fewer.

    `groups` is the number of all blocks, by default those at a time; `scheduler` is the scoreboard's policy.
    """
    effects, block = effects or Effects(), min(trace.block or warps, warps)
    if not 1 <= warps <= machine.warps or warps % block:
        expected = f"up to {block}, or a multiple of it up to {machine.warps}"
        raise DseError(f"warps: found {warps}, expected {expected}")
    cap = machine.in_flight if effects.in_flight else math.inf
    return Case(
        programs=(program(trace, machine, effects),),
        warps=block,
        slots=min(warps // block, groups or warps),
        groups=groups or warps // block,
        issue_limit=1.0 / machine.issue_interval if effects.issue else math.inf,
        caps=tuple(cap if name == "memory" else math.inf for name in SUBSYSTEMS),
        scheduler=scheduler,
    )


def cycles(
    trace: Trace, warps: Sequence[int], machine: TegMachine = GT200, effects: Effects | None = None
) -> np.ndarray:
    """Simulate each number of warps, and return its cycles, [N]."""
    return simulate([case(trace, n, machine, effects) for n in warps]).makespan

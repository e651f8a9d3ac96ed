"""One wave of an AMD GPU alone: the latencies and slots of its instructions, and its waits.

Memory accesses are in flight until a counter (vmcnt, lgkmcnt, vscnt; on gfx12 one per kind) has fallen to the
number in a wait; those of one counter return in order, except scalar loads, for all of which the compiler
waits at once. Results of vector instructions are ready some cycles later, and the hardware stalls those that
need them.

Source: AMD's instruction set guides of CDNA2, RDNA2 and RDNA3, sections on data dependency resolution.
"""

import re
from collections import defaultdict
from functools import lru_cache

from dse.errors import DseError
from dse.source.amd.execute.code import BARRIERS, Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.memory_names import memory_access
from dse.source.amd.execute.slots import VCC, Register, V, operand
from dse.source.amd.profile.pipes import Turns
from dse.source.amd.profile.record import BlockRecord
from dse.source.amd.text import Instruction
from dse.source.machine.recorded import counts_of_request, total_counts
from dse.source.profile import single_warp
from dse.source.profile.single_warp import PLACE_OF, SOURCES, Timing, Walk, WalkedCode, WalkedStep
from dse.types import MMA, Gpu

_COUNTERS = {"vm": 0, "vs": 1, "lgkm": 2}  # of accesses in flight, each with a pipe of its own
_MATRIX, _NO_PIPE = 3, 4


def timing(gpu: Gpu, turns: Turns, global_latency: float) -> Timing:
    """Return the cycles of a GPU (scalars). `global_latency` is an average load's, spills included.

    Intervals are until the wave's next instruction, and of memories until their pipe's next pass.
    """
    turn, fp32 = turns.turn, float(gpu.cpi.fp32)
    names = ("fp32", "fp64", "int32", "imul32", "sfu")
    interval = {name: turn * max(1.0, float(getattr(gpu.cpi, name)) / fp32) for name in names}
    latency: dict[str, float] = dict.fromkeys(SOURCES, turn)
    latency |= {name: max(interval[name], float(getattr(gpu.latency, name))) for name in names}
    latency |= {
        "shared": float(gpu.latency.shared),
        "constant": float(gpu.latency.l1),
        **dict.fromkeys(("global", "local"), global_latency),
        "control": turns.mask,
    }
    interval |= {"shared": float(gpu.cpi.shared), "global": float(gpu.cpi.l1), "local": float(gpu.cpi.l1)}
    products = {name: float(gpu.limits.sub_partitions) * float(getattr(gpu.cpi, name)) for name in MMA}
    latency |= {name: max(turn, float(getattr(gpu.latency, name))) for name in MMA}
    return Timing(latency, interval, products)


def walk(
    code: Code, machine: MemoryMachine, record: BlockRecord, block: int, times: Timing, turns: Turns
) -> dict[tuple[int, int], Walk]:
    """Walk the longest wave of a block, see `single_warp.walk`."""
    from dse.source.profile.issue import Ways  # imports Numba

    wave = single_warp.longest_warp(machine, code.stretches, block)
    cost = _Cost(code, record, block, times, turns)
    blocks = [[cost.step(inst) for inst in stretch.steps] for stretch in code.stretches]
    walked = WalkedCode(
        blocks=blocks,
        barriers=[stretch.steps[-1].index if stretch.end in BARRIERS else -1 for stretch in code.stretches],
        latency=times.latency,
        ways=Ways(posts=True),
        slots=len(cost.slots),
        pipes=_NO_PIPE + 1,
        queues=len(_COUNTERS),
    )
    return single_warp.walk(walked, single_warp.segments(machine, block, wave))


class _Cost:
    """The cost of instructions for a wave of a block alone."""

    def __init__(self, code: Code, record: BlockRecord, block: int, times: Timing, turns: Turns) -> None:
        self.record, self.times, self.turns = record, times, turns
        self.counts = total_counts(record)[:, block]
        self.slots: dict[int, int] = defaultdict(lambda: len(self.slots))  # by those of the executor
        target = code.listing.target
        self.stores_apart = not target.startswith("gfx9") and len(target) > 6

    def step(self, inst: Instruction) -> WalkedStep:
        """Return the cost of an instruction."""
        from dse.source.profile.issue import GroupChange

        times, turn, step = self.times, self.turns.turn, self.record.program.steps[inst.index]
        pipe = step.pipe
        if not step.counts:
            waits = [(_COUNTERS[name], left) for name, left in _waits(inst)]
            pause = int(inst.operands[0], 0) + 1 if inst.opcode == "s_nop" and inst.operands else 0
            return WalkedStep((), (), 0, 0.0, _NO_PIPE, cycles=turn * pause, waits=waits)
        needs, writes = self._registers(inst)
        if pipe == "control":
            return WalkedStep(needs, (), 0, 0.0, _NO_PIPE, cycles=self.turns.branch)
        masks = inst.opcode.startswith(("v_cmp", "v_readlane", "v_readfirstlane", "v_s_"))
        source = "control" if masks else pipe if pipe in PLACE_OF else "other"
        if step.product is not None:
            source = step.product.kind
        latency = times.latency[source]
        if pipe in ("shared", "constant", "global", "local"):
            loads = bool(step.writes) or pipe == "shared" or pipe == "constant"
            of_memory = "vs" if self.stores_apart and not loads else "vm"
            counter = _COUNTERS["lgkm" if pipe in ("shared", "constant") else of_memory]
            passes = counts_of_request(self.record, inst.index, self.counts)[2]
            busy = max(passes, 1.0) * (0.0 if pipe == "constant" else times.interval[pipe])
            return WalkedStep(
                needs,
                writes if step.writes or pipe in ("shared", "constant") else (),
                PLACE_OF[pipe],
                latency,
                counter,
                busy,
                turn,
                load=pipe == "global" and loads,
                group=GroupChange(counter, starts=True, closes=True),
            )
        if step.product is not None:
            busy = step.product.multiply_adds * times.products[source]
            return WalkedStep(needs, writes, PLACE_OF[source], latency, _MATRIX, busy, turn)
        cycles = times.interval.get(pipe, turn)
        return WalkedStep(needs, writes, PLACE_OF[source], latency, _NO_PIPE, cycles=cycles)

    def _registers(self, inst: Instruction) -> tuple[list[int], list[int]]:
        """Return the slots that an instruction reads and writes."""
        reads, writes = registers(inst.opcode, inst.operands)
        if inst.second is not None:
            more_reads, more_writes = registers(inst.second.opcode, inst.second.operands)
            reads, writes = reads + more_reads, writes + more_writes
        return [self.slots[slot] for slot in reads], [self.slots[slot] for slot in writes]


_COUNTER = {
    "vmcnt": ("vm",), "lgkmcnt": ("lgkm",), "vscnt": ("vs",), "loadcnt": ("vm",), "storecnt": ("vs",),
    "dscnt": ("lgkm",), "kmcnt": ("lgkm",), "loadcnt_dscnt": ("vm", "lgkm"), "storecnt_dscnt": ("vs", "lgkm"),
}  # fmt: skip
_NAMED = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")


def _waits(inst: Instruction) -> tuple[tuple[str, int], ...]:
    """Return the counters that an instruction waits for, and the numbers to which they must fall."""
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
def registers(opcode: str, operands: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the slots of vector registers, and of masks of lanes, that an instruction reads and writes."""
    if not operands:
        return ((VCC,), ()) if "vcc" in opcode else ((), ())
    stores = _writes_nothing(opcode, len(operands))
    scalar = opcode.startswith("s_")
    masks = opcode.startswith(("v_cmp", "v_readlane", "v_readfirstlane", "v_s_"))
    writes = () if stores or scalar else _slots(operands[0], masks)
    first = 0 if stores or opcode.startswith(_ACCUMULATES) else 1
    reads = [slot for text in operands[first:] for slot in _slots(text, scalar)]
    return tuple(reads), writes


def _writes_nothing(opcode: str, operands: int) -> bool:
    """Return whether it is no result that comes first among so many operands."""
    accessed = memory_access(opcode)
    if accessed is not None and accessed.kind == "atomic":
        most = {"global": 3, "flat": 2, "ds": 0 if accessed.returns else 3}
        return operands <= most.get(opcode.split("_")[0], 0)
    of_mask = opcode.startswith("v_cmpx") and operands == 2
    return of_mask or opcode.startswith(_WRITES_NOTHING) or "load_lds" in opcode


@lru_cache(maxsize=1 << 16)
def _slots(text: str, masks: bool) -> tuple[int, ...]:
    """Return the slots of an operand's registers, of scalar ones only if they are `masks`."""
    try:
        place = operand(text).place
    except DseError:  # a label, or a counter
        return ()
    if not isinstance(place, Register) or not (masks or place.slot >= V):
        return ()
    return tuple(range(place.slot, place.slot + place.count))

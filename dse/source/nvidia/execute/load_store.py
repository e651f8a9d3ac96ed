"""Execute the loads and stores that an address or a branch depends on."""

from collections.abc import Callable
from functools import reduce
from operator import or_

import numpy as np

from dse.source.machine.launch import (
    MEETING,
    OF_ATOMICS,
    OF_BLOCKS,
    OF_CLUSTER,
    OUTSIDE,
    REGION_BITS,
    VARIABLE,
)
from dse.source.machine.memory import atomic, in_block, regions_of
from dse.source.machine.thread_set import WARP, Lanes
from dse.source.nvidia.execute.access_counts import MATRICES
from dse.source.nvidia.machine.state import Machine, Taint, union
from dse.source.nvidia.sass.operands import RZ, URZ
from dse.source.nvidia.sass.program import Step, wide_slots
from dse.source.nvidia.sass.semantics import extended, halves, joined
from dse.source.nvidia.sass.warp import REDUCE

_U32 = np.uint32


def _data(machine: Machine, step: Step) -> tuple[list[np.ndarray], list[Taint]]:
    """Return the data of a store or an atomic, by register, and their taints."""
    slots: list[int] = []
    for operand, words in zip(step.sources, step.source_words, strict=True):
        if operand.kind == "register":
            slots += (
                [operand.slot]
                if operand.slot in (RZ, URZ) and words == 1
                else range(operand.slot, operand.slot + words)
            )
    zero = machine.r[RZ]
    values = [zero if RZ <= slot <= RZ + 1 else machine.r[slot] for slot in slots]
    return values, [0 if RZ <= slot <= RZ + 1 else machine.taint[slot] for slot in slots]


def _put(machine: Machine, step: Step, lanes: Lanes, words: list[np.ndarray], taint: Taint) -> None:
    """Write loaded words, one value per thread of `lanes`, to the destination registers."""
    first = next((target for target in step.targets if target.kind == "register"), None)
    if step.has("ENL2"):
        slots = wide_slots(step.targets, step.sources)
    elif first is None or first.slot in (RZ, URZ):
        return
    else:
        slots = [(first.slot + number, number) for number in range(len(words))]
    for slot, number in slots:
        machine.write(slot, lanes.placed(extended(words[number], step.modifiers)), taint, lanes)


def _load_global(machine: Machine, address: np.ndarray, size: int) -> tuple[list[np.ndarray], int]:
    """Return (words of each access, their taint)."""
    words, unknown, outside = machine.memory.load(address, size)
    taint = 0
    for region in outside:
        of_argument = 0 < region <= len(machine.launch.arguments)
        name = f"{OUTSIDE} {region - 1}" if of_argument else "global memory outside the arguments"
        taint |= machine.source(OF_BLOCKS if region == MEETING >> REGION_BITS else name)
    for region in unknown:
        variable = region - 1 - len(machine.launch.arguments)
        name = f"contents of argument {region - 1}"
        taint |= machine.source(name if variable < 0 else VARIABLE + [*machine.launch.variables][variable])
    return words, taint


def _access_global(machine: Machine, step: Step, address: np.ndarray, lanes: Lanes, taint: Taint) -> None:
    """Load from or store to global memory, or copy from it to shared memory."""
    flat, memory = lanes.of(address), machine.memory
    stored, taints = _data(machine, step)
    data_taint = reduce(or_, taints, 0)
    if step.kind == "store":
        memory.store(flat, step.bytes, [*map(lanes.of, stored)], union(data_taint, lanes))
        return
    copied = lanes.of(_copied(machine, step, lanes)) if step.kind == "copy" else None
    words, unknown = _load_global(machine, flat if copied is None else flat[copied], step.bytes)
    for target in step.targets:
        if target.kind == "predicate":  # an atomic is not done at a generic address of shared memory
            machine.write(target.slot, lanes.placed(flat >> REGION_BITS > 0), taint, lanes)
    taint = taint | unknown
    if memory.written and not machine.bound.global_stores and memory.written.intersection(regions_of(flat)):
        machine.missed_stores = True
    if step.atomic:
        taint = taint | data_taint | machine.source(OF_ATOMICS)
        values = [*map(lanes.of, stored)]
        words, new = _atomic(step, flat, words, values, lanes.blocks, _stands_for(machine))
        memory.store(flat, 4 * len(new), new, union(data_taint, lanes))
    if copied is not None:
        to = in_block(machine.base(step, step.memory[0], False) + step.memory[0].offset)
        loaded, words = words, [np.zeros(len(flat), _U32) for _ in words]
        for word, known in zip(words, loaded, strict=True):
            word[copied] = known
        machine.shared.store(lanes.blocks, lanes.of(to), step.bytes, words, union(taint, lanes))
    elif step.targets:
        _put(machine, step, lanes, words, taint)


def _stands_for(machine: Machine) -> float:
    """Return how many blocks of the grid each executed one stands for."""
    return float(machine.launch.blocks * machine.launch.threads / np.prod(machine.shape))


def leaves_memory(machine: Machine, step: Step, lanes: Lanes) -> bool:
    """Return whether an atomic operation on global memory changes nothing: none does where it is unknown."""
    flat = lanes.of(machine.base(step, step.memory[-1], True) + step.memory[-1].offset)
    words, unknown, outside = machine.memory.load(flat, step.bytes)
    if {*regions_of(flat)} <= unknown | outside:
        return True
    values = [*map(lanes.of, _data(machine, step)[0])]
    _, new = _atomic(step, flat, words, values, lanes.blocks, _stands_for(machine))
    return all(map(np.array_equal, new, words))


def _copied(machine: Machine, step: Step, lanes: Lanes) -> np.ndarray:
    """Return whether each thread reads what it copies, or stores zeros: [blocks, threads]."""
    read = machine.where_all(step.sources, lanes)
    return np.broadcast_to(np.zeros((1, 1), bool) if read is None else read.mask, machine.shape)


def _access_shared(machine: Machine, step: Step, address: np.ndarray, lanes: Lanes, taint: Taint) -> None:
    """Load from or store to shared memory."""
    stored_words, taints = _data(machine, step)
    data_taint = reduce(or_, taints, 0)
    values = [*map(lanes.of, stored_words)]
    if step.opcode in MATRICES:
        _access_matrices(machine, step, in_block(address), lanes, values, taint | data_taint)
        return
    block, flat, memory = lanes.blocks, lanes.of(in_block(address)), machine.shared
    if step.opcode in ("REDAS", "STAS"):  # to another block, from which as much comes
        values, taint = [0 * value for value in values], machine.source(OF_CLUSTER)
    if step.opcode in ("REDAS", "STAS", "STS"):
        memory.store(block, flat, step.bytes, values, union(taint | data_taint, lanes))
        return
    words = memory.load(block, flat, step.bytes)
    stored = memory.taint(block, flat, step.bytes)
    if step.atomic and step.has("ARRIVE"):
        words[1] = words[1] ^ _PHASE  # waits succeed: the phase has ended
    elif step.has("CAST"):  # returns whether it stored: one thread of a warp does at each word
        warp = np.flatnonzero(np.broadcast_to(lanes.mask, lanes.shape)) // WARP
        first = np.unique(flat + (warp << 32), return_index=True)[1]
        new = [value[first] for value in values[len(values) // 2 :]]
        memory.store(block[first], flat[first], step.bytes, new, stored | union(data_taint, lanes))
        done = np.isin(np.arange(len(flat)), first)
        words, stored = [done.astype(_U32), np.zeros(len(flat), _U32)][: step.bytes // 4], 0
        for target in step.targets:
            if target.kind == "predicate":  # from compute capability 10.0 on
                machine.write(target.slot, lanes.placed(done), taint, lanes)
    elif step.atomic:
        words, new = _atomic(step, flat + (block << 32), words, values, block)
        memory.store(block, flat, 4 * len(new), new, stored | union(data_taint, lanes))
        taint = taint | (machine.source("the order of atomic operations") if step.writes else 0)
    if step.targets:
        _put(machine, step, lanes, words, taint | stored)


def _access_matrices(
    machine: Machine,
    step: Step,
    address: np.ndarray,
    lanes: Lanes,
    values: list[np.ndarray],
    taint: Taint,
) -> None:
    """Load or store matrices of 8 x 8 halves: eight lanes have the addresses of the rows of each.

    A word of a lane is two halves of a row, side by side, or of a column (MT88).
    """
    if not step.has("16") or not step.has("M88", "MT88"):
        raise machine.program.error(step, "found matrices of another form, expected 8 x 8 halves")
    block, memory, lane = lanes.blocks, machine.shared, np.arange(WARP)
    rows = np.broadcast_to(address, lanes.shape).reshape(lanes.shape[0], -1, WARP)
    in_rows = [(lane // 4, 4 * (lane % 4))]
    in_columns = [(2 * (lane % 4) + half, 2 * (lane // 4)) for half in range(2)]
    parts = in_rows if step.has("M88") else in_columns
    size, words, stored = 4 // len(parts), list[np.ndarray](), 0
    for matrix in range(step.bytes // 4):
        word = np.zeros(lanes.total, _U32)
        for number, (row, offset) in enumerate(parts):
            at, shift = (
                lanes.of((rows[:, :, 8 * matrix + row] + offset).reshape(lanes.shape)),
                _U32(16 * number),
            )
            if step.stores:
                memory.store(block, at, size, [values[matrix] >> shift], union(taint, lanes))
                continue
            word |= memory.load(block, at, size)[0] << shift
            stored |= memory.taint(block, at, size)
        words.append(word)
    if not step.stores:
        _put(machine, step, lanes, words, taint | stored)


def _access_local(machine: Machine, step: Step, address: np.ndarray, lanes: Lanes, taint: Taint) -> None:
    """Load from or store to the threads' own memory."""
    memory = machine.local
    if step.kind == "store":
        by_all = lanes.total == machine.live
        for number, (word, unknown) in enumerate(zip(*_data(machine, step), strict=True)):
            size, word_address = min(step.bytes, 4), address + 4 * number
            stored: Taint = taint | unknown
            memory.store(lanes.mask, word_address, size, [word], stored, by_all)
        return
    first = step.targets[0].slot
    for number, word in enumerate(memory.load(lanes.mask, address, step.bytes)):
        unknown = memory.taint(lanes.mask, address + 4 * number, min(step.bytes, 4))
        machine.write(first + number, extended(word, step.modifiers), taint | unknown, lanes)


_PHASE = _U32(1 << 31)  # of the upper word of a barrier before compute capability 9.0


def _atomic(
    step: Step,
    address: np.ndarray,
    old: list[np.ndarray],
    values: list[np.ndarray],
    block: np.ndarray,
    stands_for: float = 1.0,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return (the old words that each thread gets, those afterwards); threads go in order.

    Of several numbers at a time only the first changes.
    """
    if step.has("CAS"):
        expected, new = values[: len(old)], values[len(old) :]
        same = np.logical_and.reduce([*map(np.equal, old, expected)])
        return old, [np.where(same, after, before) for after, before in zip(new, old, strict=True)]
    if step.has("EXCH"):
        return old, values
    values = values or [np.ones(old[0].shape, _U32)]
    wide = step.has("64", "S64")
    number, value = (joined(*old), joined(*values)) if wide else (old[0], values[0])
    kind = np.int32 if step.has("S32") else np.int64 if step.has("S64") else number.dtype
    function = next((REDUCE[name][0] for name in step.modifiers if name in REDUCE), np.add)
    changed = atomic(
        function, address, number.view(kind), value.view(kind), bool(step.writes), block, stands_for
    )
    read, new = ([*halves(part)] if wide else [part.view(_U32), *old[1:]] for part in changed)
    return read, new


# (machine, step, addresses, active threads, taint of the addresses)
PERFORM: dict[str, Callable[[Machine, Step, np.ndarray, Lanes, Taint], None]] = {
    "global": _access_global,
    "shared": _access_shared,
    "local": _access_local,
}

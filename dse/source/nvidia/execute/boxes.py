"""Copies of a tensor's box or of a run of bytes between global and shared memory (TMA), each by one thread.

A map describes the tensor (`tensor_maps`); registers hold the box's coordinates.
Elements outside the tensor are not read or written; in shared memory the box is complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from dse.hardware.coalescing import SECTOR
from dse.source.machine.feeds import Touch
from dse.source.machine.launch import OF_CLUSTER, REGION_BITS, TensorMap
from dse.source.machine.liveness import Purpose
from dse.source.machine.memory import in_block
from dse.source.machine.recorded import MEMORY_COUNTS, Stream
from dse.source.machine.thread_set import WARP, Lanes
from dse.source.machine.trips import Irregular
from dse.source.nvidia.execute.register_changes import RegisterChanges, plus, times
from dse.source.nvidia.execute.tensor_maps import maps_of
from dse.source.nvidia.machine.state import Action, BoundProgram, Machine
from dse.source.nvidia.sass.program import Step

_PASS = 128  # bytes of shared memory
_UNIT = 16  # bytes; alignment of addresses and strides
_SIZE = 16  # bits of a run's size in units; those above are the blocks of the cluster that get it
_REDUCTIONS = {"ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"}
_PLAIN = {"1D", "2D", "3D", "4D", "5D", "MULTICAST", "2CTA"} | _REDUCTIONS


@dataclass(frozen=True)
class _Issue:
    """The boxes, or the runs of bytes, that one warp of each block copies."""

    blocks: np.ndarray  # [blocks] bool: whether its warp copies one
    threads: np.ndarray  # [blocks] the issuing thread
    start: np.ndarray  # [blocks] address of the tensor, or without one of the run
    bytes: np.ndarray  # [blocks] of a box
    receivers: np.ndarray  # [blocks] number of blocks to whose shared memory it goes
    tensor: TensorMap | None = None

    def of_thread(self, value: np.ndarray) -> np.ndarray:
        """Return the values of the issuing threads: [blocks]."""
        rows = np.arange(len(self.threads)) if value.shape[0] > 1 else 0
        return np.broadcast_to(
            value[rows, self.threads if value.shape[1] > 1 else 0], self.threads.shape
        ).astype(np.int64)


def box_action(bound: BoundProgram, step: Step) -> Action:
    """Count the requests of a box's copy, and record its addresses."""
    row = bound.memory_rows.get(step.index, -1)
    known: dict[tuple[int, int], tuple[Machine, np.ndarray, np.ndarray, Stream]] = {}

    def copy(machine: Machine, lanes: Lanes) -> None:
        if step.guard >= 0:
            machine.note_unknown(step, "guard", machine.taint[step.guard], lanes)
        guarded = machine.under_guard(step, lanes)
        if guarded is None:
            return
        for slot in step.bases:
            machine.note_unknown(step, "address", machine.taint[slot], guarded)
        for warp, issue in _issues(machine, step, guarded):
            if step.shared and bound.notes_touches:
                machine.touches.append(Touch(step.index, *_stored(machine, step, issue), 4, False, True))
            if step.pipe == "shared":  # to another block, from which as much comes
                if bound.purpose is Purpose.COUNTS:
                    machine.counts[row : row + 2 * len(MEMORY_COUNTS)] += np.tile(_of_shared(issue), (2, 1))
                if step.needed:
                    _arrive(machine, step, issue)
                continue
            if not machine.all_warps and issue.tensor is not None:  # it moves as a whole: a row is enough
                row_of_box = (*(1 for _ in issue.tensor.box[:-1]), issue.tensor.box[-1])
                issue = replace(issue, tensor=replace(issue.tensor, box=row_of_box))
            base, mask, size = _places(machine, step, issue)
            issuer = int(machine.threads[WARP * warp]) // WARP
            if bound.purpose is Purpose.COUNTS:
                counts = machine.counts
                counts[row : row + len(MEMORY_COUNTS)] += _of_global(base, mask, size, issue.blocks)
                counts[row + len(MEMORY_COUNTS) : row + 2 * len(MEMORY_COUNTS)] += _of_shared(issue)
            # Boxes of one shape elsewhere have the same addresses, moved.
            seen = known.get((warp, size))
            if seen is not None and seen[0] is machine and np.array_equal(seen[2], mask):
                apart = (base - seen[1])[mask]
                if (apart == apart[:1]).all():
                    moved = int(apart[:1].sum())
                    machine.streams.append(replace(seen[3], phase=machine.phase, offset=moved))
                    continue
            stream = Stream(step.index, machine.phase, Lanes(mask, mask.shape), base, 0, size, issuer=issuer)
            known[warp, size] = (machine, base, mask, stream)
            machine.streams.append(stream)
            if step.needed and step.kind == "box load":
                _arrive(machine, step, issue)

    return copy


def _issues(machine: Machine, step: Step, lanes: Lanes) -> Iterator[tuple[int, _Issue]]:
    """Yield the boxes copied by each warp, with its number in the block.

    **Raises:** DseError if their tensor is not known, or not in tiled mode.
    """
    in_bulk = step.opcode.startswith("UBLK")
    if not in_bulk and (not step.coordinates or not set(step.modifiers) <= _PLAIN):
        raise machine.program.error(step, "found a box that is no tile, expected 1D to 5D")
    mask = np.broadcast_to(lanes.by_warp, (machine.shape[0], machine.shape[1] // WARP, WARP))
    there = np.asarray(mask.any(-1))
    first = mask.argmax(-1) + WARP * np.arange(mask.shape[1])
    address = machine.base(step, step.memory[-1], step.pipe == "global") + step.memory[-1].offset
    for warp in np.flatnonzero(there.any(0)).tolist():
        blocks, none = there[:, warp], np.zeros(len(there), np.int64)
        issue = _Issue(blocks, first[:, warp], none, none, none + 1)
        issue = replace(issue, start=issue.of_thread(address))
        numbers = issue.of_thread(machine.r[step.bases[0]]) if in_bulk or step.has("MULTICAST") else none
        if step.has("MULTICAST"):
            issue = replace(issue, receivers=np.bitwise_count(numbers >> _SIZE))
        if in_bulk:
            yield warp, replace(issue, bytes=_UNIT * (numbers % (1 << _SIZE)))
            continue
        for members, start, tensor in maps_of(machine, step, issue.start, blocks):
            size = none + prod(tensor.box) * tensor.element_bytes
            yield warp, replace(issue, blocks=members, start=start, bytes=size, tensor=tensor)


def _places(machine: Machine, step: Step, issue: _Issue) -> tuple[np.ndarray, np.ndarray, int]:
    """Return (addresses [blocks, places], whether inside the tensor, bytes per place) of boxes.

    A place is a sector or half a sector of a row of the box; there are places for whole warps.
    """
    tensor = issue.tensor
    if tensor is None:
        whole = not ((issue.start | issue.bytes)[issue.blocks] % SECTOR).any()
        size = SECTOR if whole else _UNIT
        places = -(-int(issue.bytes[issue.blocks].max()) // (WARP * size)) * WARP
        offset = size * np.arange(places)
        return issue.start[:, None] + offset, issue.blocks[:, None] & (offset < issue.bytes[:, None]), size
    inner_bytes = tensor.box[-1] * tensor.element_bytes
    start = [issue.of_thread(machine.r[operand.slot]).astype(np.uint32).view(np.int32).astype(np.int64)
             for operand in reversed(step.coordinates)]  # fmt: skip
    origin = sum(
        (first * stride * tensor.element_bytes for first, stride in zip(start, tensor.strides, strict=True)),
        issue.start,
    )
    strides = [stride * tensor.element_bytes for stride in tensor.strides[:-1]]
    aligned = not (origin % SECTOR).any() and not any(stride % SECTOR for stride in strides)
    size = min(SECTOR if aligned else _UNIT, inner_bytes)
    steps = [*tensor.box[:-1], -(-inner_bytes // size)]
    units = [*(1 for _ in strides), size // tensor.element_bytes]
    offset = np.zeros(1, np.int64)
    inside = np.ones((len(issue.threads), 1), bool)
    along = zip(steps, units, [*strides, tensor.element_bytes], start, tensor.shape, strict=True)
    for count, unit, stride, first, extent in along:
        index = np.arange(count) * unit
        offset = (offset[:, None] + index * stride).reshape(-1)
        coordinate = first[:, None] + index
        within = (coordinate >= 0) & (coordinate < extent)
        inside = (inside[:, :, None] & within[:, None, :]).reshape(len(inside), -1)
    padding = -len(offset) % WARP
    offset = np.concatenate([offset, np.zeros(padding, np.int64)])
    mask = np.pad(inside & issue.blocks[:, None], ((0, 0), (0, padding)))
    return origin[:, None] + offset, mask, size


def _of_global(base: np.ndarray, mask: np.ndarray, size: int, blocks: np.ndarray) -> np.ndarray:
    """Return requests, sectors, passes through the L1 (none) and bytes: [4, blocks]."""
    sector = base // SECTOR
    again = np.zeros(mask.shape, bool)
    again[:, 1:] = mask[:, :-1] & (sector[:, 1:] == sector[:, :-1])
    sectors = (mask & ~again).sum(1)
    return np.array([blocks, sectors, 0 * sectors, size * mask.sum(1)], float)


def _of_shared(issue: _Issue) -> np.ndarray:
    """Return requests, sectors (none), passes through the banks and bytes: [4, blocks]."""
    ones = np.ones(len(issue.blocks))
    of_block = np.array([ones, 0.0 * ones, -(-issue.bytes // _PASS), issue.bytes])
    return of_block * issue.blocks * issue.receivers


def _stored(machine: Machine, step: Step, issue: _Issue) -> tuple[np.ndarray, np.ndarray]:
    """Return (addresses of words in shared memory, which of them each block's box has): [blocks, words]."""
    address = in_block(issue.of_thread(machine.base(step, step.memory[0], False) + step.memory[0].offset))
    words = np.arange(0, int(issue.bytes[issue.blocks].max()), 4)
    return address[:, None] + words, issue.blocks[:, None] & (words < issue.bytes[:, None])


def _arrive(machine: Machine, step: Step, issue: _Issue) -> None:
    """Mark the contents of shared memory as unknown."""
    words, there = _stored(machine, step, issue)
    argument = (int(issue.start[issue.blocks][0]) >> REGION_BITS) - 1
    name = f"contents of argument {argument}" if step.pipe == "global" else OF_CLUSTER
    zeros = np.zeros(int(there.sum()), np.uint32)
    machine.shared.store(np.nonzero(there)[0], words[there], 4, [zeros], machine.source(name))


def box_stride(registers: RegisterChanges, machine: Machine, step: Step, lanes: Lanes) -> int:
    """Return the stride in bytes of a box from trip to trip, while it is inside the tensor.

    **Raises:** Irregular if the warps' strides differ.
    """
    if why := registers.why_erratic(step.bases, lanes):
        raise Irregular(why)
    strides: set[int] = set()
    for _, issue in _issues(machine, step, lanes):
        tensor, total = issue.tensor, None
        assert tensor is not None
        for slot, _, _ in step.memory[-1].bases:
            for part in (slot, slot + 1):
                change = registers.by_slot.get(part)
                if change is not None and issue.of_thread(change)[issue.blocks].any():
                    raise Irregular("the tensor changes")
        dimensions = zip(reversed(step.coordinates), tensor.strides, tensor.shape, tensor.box, strict=True)
        for operand, stride, extent, box in dimensions:
            change = registers.by_slot.get(operand.slot)
            if change is None:
                continue
            moved = issue.of_thread(change)
            start = issue.of_thread(machine.r[operand.slot])
            registers.lanes = _rows(machine, issue)
            registers.limit(start[:, None], moved[:, None], range(extent - box + 1))
            total = plus(total, times(moved, stride * tensor.element_bytes))
        moves = np.zeros(1, np.int64) if total is None else total[issue.blocks]
        strides |= set(np.unique(moves).tolist())
    if len(strides) != 1:
        raise Irregular(f"0x{step.address:x} moves on by different distances")
    return strides.pop()


def _rows(machine: Machine, issue: _Issue) -> Lanes:
    """Return the issuing blocks as a set of threads."""
    return machine.sets.of(np.broadcast_to(issue.blocks[:, None], machine.shape))

"""Counts what memory instructions ask for."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dse.cuda.machine import accesses
from dse.cuda.machine.state import MEMORY_COUNTS, Machine, Stream
from dse.cuda.machine.thread_set import WARP, Lanes
from dse.cuda.sass.program import Step


def _by_warp(base: np.ndarray, lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
    """Addresses and mask as [1 or blocks, warps, 32]."""
    rows = max(base.shape[0], lanes.mask.shape[0])
    shape = (rows, lanes.shape[1] // WARP, WARP)
    addresses = np.broadcast_to(base, (rows, lanes.shape[1])).reshape(shape)
    return addresses, np.broadcast_to(lanes.by_warp, shape)


def _same_pattern(
    machine: Machine, where: str, step: Step, base: np.ndarray, lanes: Lanes, key: int, period: int
) -> tuple | None:
    """What was counted for the same lanes at addresses that lie a multiple of `period` bytes apart, if it
    was.
    """
    found = machine.patterns.get((id(lanes), step.bytes, where, step.atomic, key))
    if found is None or found[1] is not lanes:
        return None
    if found[0] is base:
        return found[2], 0
    if found[0].shape != base.shape:
        return None
    apart = base - found[0]
    low = int(apart.flat[0])
    if low % period or (apart != low).any():
        return None
    return found[2], low


def _remember(
    machine: Machine, where: str, step: Step, base: np.ndarray, lanes: Lanes, key: int, result: Any
) -> None:
    if len(machine.patterns) > 1000:
        machine.patterns.clear()
    machine.patterns[id(lanes), step.bytes, where, step.atomic, key] = (base, lanes, result)


def _count_global(
    machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes
) -> None:
    phase = offset % accesses.LINE
    same = _same_pattern(machine, "global", step, base, lanes, phase, accesses.LINE)
    if same is None:
        counts = np.empty((len(MEMORY_COUNTS), lanes.shape[0]))
        counts[0], counts[3] = lanes.warps, lanes.threads
        if base.shape[1] == 1:  # all threads ask for the same
            counts[1], counts[2] = lanes.warps, lanes.warps * max(1, step.bytes // 8)
        else:
            addresses, mask = _by_warp(base, lanes)
            values, first = accesses.sectors(addresses + phase, mask, step.bytes)
            counts[1] = np.count_nonzero(first, axis=(1, 2))
            passes = accesses.lines(values, first)
            if step.bytes > 4:  # the data of several registers may take longer than its lines
                passes = np.maximum(passes, accesses.wavefronts(addresses + phase, mask, step.bytes))
            counts[2] = passes.sum(-1)
        _remember(machine, "global", step, base, lanes, phase, counts)
    else:
        counts = same[0]
    machine.counts[row : row + len(MEMORY_COUNTS)] += counts
    machine.streams.append(Stream(step.index, machine.phase, lanes, base, offset))


def _count_shared(
    machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes
) -> None:
    same = _same_pattern(machine, "shared", step, base, lanes, 0, 4)
    if same is None or offset % 4:
        addresses, mask = _by_warp(base, lanes)
        if step.opcode == "LDSM":
            passes = np.where(mask.any(-1), step.bytes // 4, 0)
        elif step.atomic:
            passes = accesses.atomic_wavefronts(addresses + offset, mask)
        else:
            passes = accesses.wavefronts(addresses + offset % 4, mask, step.bytes)
        counts = np.empty((len(MEMORY_COUNTS), lanes.shape[0]))
        counts[0], counts[1], counts[2], counts[3] = lanes.warps, 0, passes.sum(-1), lanes.threads
        _remember(machine, "shared", step, base, lanes, 0, counts)
    else:
        counts = same[0]
    machine.counts[row : row + len(MEMORY_COUNTS)] += counts


def _count_local(machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes) -> None:
    """Local memory is laid out word by word for the 32 lanes of a warp: the same word of all is one line."""
    same = _same_pattern(machine, "local", step, base, lanes, 0, 4)
    if same is None or offset % 4:
        addresses, mask = _by_warp(base, lanes)
        lane = np.arange(WARP)
        words = max(step.bytes // 4, 1)
        places = np.concatenate(
            [((addresses + offset >> 2) + word) * 4 + lane // 8 for word in range(words)], axis=-1
        )
        values, first = accesses.distinct(places, np.concatenate([mask] * words, axis=-1))
        counts = np.empty((len(MEMORY_COUNTS), lanes.shape[0]))
        counts[0] = lanes.warps
        counts[1] = np.count_nonzero(first, axis=(1, 2))
        counts[2] = accesses.lines(values, first).sum(-1)
        counts[3] = lanes.threads
        _remember(machine, "local", step, base, lanes, 0, counts)
    else:
        counts = same[0]
    machine.counts[row : row + len(MEMORY_COUNTS)] += counts


# (machine, step, row of its counters, base and offset of the addresses, threads that take part)
COUNT: dict[str, Callable[[Machine, Step, int, np.ndarray, int, Lanes], None]] = {
    "global": _count_global,
    "shared": _count_shared,
    "local": _count_local,
}

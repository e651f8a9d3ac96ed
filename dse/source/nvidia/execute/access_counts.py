"""Counts what memory instructions ask for.

Each function adds the requests, sectors, passes and threads of one execution to the counters of a machine.
"""

from collections.abc import Callable

import numpy as np

from dse.hardware.banks import passes as bank_passes
from dse.hardware.banks import passes_of_atomics
from dse.hardware.coalescing import LINE, SECTOR, sectors_and_lines
from dse.source.machine.recorded import MEMORY_COUNTS, Stream
from dse.source.machine.thread_set import WARP, Lanes
from dse.source.nvidia.machine.state import LocalSpan, Machine
from dse.source.nvidia.sass.program import Step

_MATRICES = ("LDSM", "STSM")


def _by_warp(base: np.ndarray, lanes: Lanes) -> tuple[np.ndarray, np.ndarray]:
    """Addresses and mask as [1 or blocks, warps, 32]."""
    rows = max(base.shape[0], lanes.mask.shape[0])
    shape = (rows, lanes.shape[1] // WARP, WARP)
    addresses = np.broadcast_to(base, (rows, lanes.shape[1])).reshape(shape)
    return addresses, np.broadcast_to(lanes.by_warp, shape)


def _same_pattern(
    machine: Machine, space: str, step: Step, base: np.ndarray, lanes: Lanes, phase: int, period: int
) -> np.ndarray | None:
    """Recall what was counted for the same lanes at addresses that all lie as far apart, a multiple of
    `period`.
    """
    known = machine.patterns.get((id(lanes), step.bytes, space, step.atomic, phase))
    if known is None:
        return None
    known_base, known_lanes, counts = known
    if known_lanes is not lanes:
        return None
    if known_base is base:
        return counts
    if known_base.shape != base.shape:
        return None
    apart = base - known_base
    first = int(apart.flat[0])
    return None if first % period or (apart != first).any() else counts


def _remember(
    machine: Machine, space: str, step: Step, base: np.ndarray, lanes: Lanes, phase: int, counts: np.ndarray
) -> None:
    """Keep what was counted, for `_same_pattern`."""
    if len(machine.patterns) > 1000:
        machine.patterns.clear()
    machine.patterns[id(lanes), step.bytes, space, step.atomic, phase] = (base, lanes, counts)


def _count_global(
    machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes
) -> None:
    """Count the sectors and lines of global memory, and keep the addresses."""
    phase = offset % LINE
    counts = _same_pattern(machine, "global", step, base, lanes, phase, LINE)
    if counts is None:
        counts = np.empty((len(MEMORY_COUNTS), lanes.shape[0]))
        counts[0], counts[3] = lanes.warps, lanes.threads
        if base.shape[1] == 1:  # all threads ask for the same
            counts[1], counts[2] = lanes.warps, lanes.warps * max(1, step.bytes // 4)
        else:
            addresses, mask = _by_warp(base, lanes)
            addresses = addresses + phase
            sectors, passes = sectors_and_lines(addresses, mask, np)
            counts[1] = sectors.sum(-1)
            if step.bytes > 4:  # the data of several registers may take longer than its lines
                # The L1 returns each thread's bytes, 128 a pass, also where all threads load the same: on an
                # RTX 3090 3.5 to 4.5 cycles for 16 bytes, 2 for 8 (gemm without shared memory).
                returned = mask.reshape(*mask.shape[:-1], step.bytes // 4, -1).any(-1).sum(-1)
                banks = bank_passes(addresses, mask, step.bytes, np)
                passes = np.maximum(np.maximum(passes, banks), returned)
            counts[2] = passes.sum(-1)
        _remember(machine, "global", step, base, lanes, phase, counts)
    machine.counts[row : row + len(MEMORY_COUNTS)] += counts
    machine.streams.append(Stream(step.index, machine.phase, lanes, base, offset, step.bytes))


def _count_shared(
    machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes
) -> None:
    """Count the passes through the banks of shared memory."""
    matrices = step.opcode in _MATRICES
    space = "matrices" if matrices else "shared"
    counts = _same_pattern(machine, space, step, base, lanes, 0, 4)
    if counts is None or offset % 4:
        addresses, mask = _by_warp(base, lanes)
        if matrices:  # each of the first 8, 16 or 32 lanes tells where a row of 8 halves is
            rows = mask & (np.arange(WARP) < 2 * step.bytes)
            passes = bank_passes(addresses + offset % 4, rows, 16, np)
        elif step.atomic:
            passes = passes_of_atomics(addresses + offset, mask)
        else:
            passes = bank_passes(addresses + offset % 4, mask, step.bytes, np)
        counts = np.empty((len(MEMORY_COUNTS), lanes.shape[0]))
        counts[0], counts[1], counts[2], counts[3] = lanes.warps, 0, passes.sum(-1), lanes.threads
        _remember(machine, space, step, base, lanes, 0, counts)
    machine.counts[row : row + len(MEMORY_COUNTS)] += counts


def _count_local(machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes) -> None:
    """Count the sectors and lines of local memory: the same word of the 32 lanes of a warp is one line."""
    counts = _same_pattern(machine, "local", step, base, lanes, 0, 4)
    if counts is None or offset % 4:
        addresses, mask = _by_warp(base, lanes)
        lane = np.arange(WARP)
        words = max(step.bytes // 4, 1)
        sectors = np.concatenate(
            [((addresses + offset >> 2) + word) * 4 + lane // 8 for word in range(words)], axis=-1
        )
        mask = np.concatenate([mask] * words, axis=-1)
        sectors, passes = sectors_and_lines(SECTOR * sectors, mask, np)
        counts = np.empty((len(MEMORY_COUNTS), lanes.shape[0]))
        counts[0] = lanes.warps
        counts[1], counts[2] = sectors.sum(-1), passes.sum(-1)
        counts[3] = lanes.threads
        _remember(machine, "local", step, base, lanes, 0, counts)
    machine.counts[row : row + len(MEMORY_COUNTS)] += counts
    machine.local_spans[step.index] = _span(machine.local_spans.get(step.index), step, base, offset, lanes)


def _span(before: LocalSpan | None, step: Step, base: np.ndarray, offset: int, lanes: Lanes) -> LocalSpan:
    """Widen the span of an instruction by where it goes now."""
    there = base
    if base.size > 1:
        there = np.broadcast_to(base, lanes.shape)[np.broadcast_to(lanes.mask, lanes.shape)]
    now = LocalSpan(int(there.min()) + offset, int(there.max()) + offset + step.bytes)
    if before is None:
        return now
    moves = before.moves or now[:2] != before[:2]
    return LocalSpan(min(now.start, before.start), max(now.end, before.end), moves)


# (machine, step, row of its counters, base and offset of the addresses, threads that take part)
COUNT: dict[str, Callable[[Machine, Step, int, np.ndarray, int, Lanes], None]] = {
    "global": _count_global,
    "shared": _count_shared,
    "local": _count_local,
}

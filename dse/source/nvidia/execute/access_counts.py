"""Count the requests, sectors, passes and threads of memory instructions.

Each function adds those of one execution to the counters of a machine.
"""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from dse.hardware.banks import passes as bank_passes
from dse.hardware.banks import passes_of_atomics
from dse.hardware.coalescing import LINE, SECTOR, passes_of_lines, sectors_and_lines
from dse.source.machine.memory import in_block
from dse.source.machine.recorded import MEMORY_COUNTS, Stream
from dse.source.machine.thread_set import WARP, Lanes
from dse.source.nvidia.machine.state import LocalSpan, Machine, union
from dse.source.nvidia.sass.program import Step

MATRICES = ("LDSM", "STSM")


def _count(
    machine: Machine,
    kind: Hashable,
    row: int,
    base: np.ndarray,
    lanes: Lanes,
    period: int,
    ask: Callable[[np.ndarray, np.ndarray], tuple[Any, np.ndarray]],
) -> None:
    """Add to the counters from `row` on.

    `ask` returns (sectors, passes) of warps from their addresses and lanes, both [1 or blocks, warps, 32].
    They depend on `kind` too, and on the addresses modulo `period` bytes.
    """

    def by_warp() -> tuple[Any, np.ndarray]:
        rows = len(base) if lanes.whole else max(len(base), len(lanes.mask))
        shape = (rows, lanes.shape[1] // WARP, WARP)
        addresses = np.broadcast_to(base, (rows, lanes.shape[1])).reshape(shape)
        return ask(addresses, np.ones(shape, bool) if lanes.whole else np.broadcast_to(lanes.by_warp, shape))

    def counts(asked: tuple[Any, np.ndarray]) -> np.ndarray:
        summed = ((totals * lanes.warps_here).sum(-1) for totals in asked)
        return np.array([lanes.warps, *(np.broadcast_to(x, lanes.shape[:1]) for x in summed), lanes.threads])

    known = machine.patterns.of(kind, (lanes,), lanes.whole, base, period, by_warp, counts)
    machine.counts[row : row + len(MEMORY_COUNTS)] += known


def _count_global(
    machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes
) -> None:
    """Count the sectors and lines of global memory, and record the addresses."""
    phase, words = offset % LINE, max(1, step.bytes // 4)

    def ask(addresses: np.ndarray, mask: np.ndarray) -> tuple[Any, np.ndarray]:
        if base.shape[1] == 1:  # one address for all threads
            return 1, np.full((1, 1), words)
        addresses = addresses + phase
        sectors, lines = sectors_and_lines(addresses, mask)
        passes = np.maximum(bank_passes(addresses, mask, step.bytes), passes_of_lines(lines))
        if words > 1:
            # The L1 returns each thread's bytes, 128 a pass, even if all threads load the same: on an
            # RTX 3090 3.5 to 4.5 cycles for 16 bytes, 2 for 8 (gemm without shared memory).
            passes = np.maximum(passes, mask.reshape(*mask.shape[:-1], words, -1).any(-1).sum(-1))
        return sectors, passes

    _count(machine, ("global", step.bytes, phase), row, base, lanes, LINE, ask)
    machine.streams.append(moved_on(machine, step, lanes, base, offset))


def moved_on(machine: Machine, step: Step, lanes: Lanes, base: np.ndarray, offset: int) -> Stream:
    """Record addresses as those of the previous execution, moved, if all move by the same."""
    before = machine.followed.get(step.index)
    if before is not None and before[0] is lanes and before[1].shape == base.shape:
        apart = int(base.flat[0]) - int(before[1].flat[0])
        if before[1] is base or not (base - before[1] != apart).any():
            base, offset = before[1], offset + apart
    machine.followed[step.index] = lanes, base
    return Stream(step.index, machine.phase, lanes, base, offset, step.bytes)


def _count_shared(
    machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes
) -> None:
    """Count the passes through the banks of shared memory."""
    matrices, phase = step.opcode in MATRICES, offset % 4
    _extend_shared(machine, step, base + offset, 16 if matrices else step.bytes, lanes)

    def ask(addresses: np.ndarray, mask: np.ndarray) -> tuple[Any, np.ndarray]:
        if matrices:  # each of the first 8, 16 or 32 lanes has the address of a row of 8 halves
            return 0, bank_passes(addresses + phase, mask & (np.arange(WARP) < 2 * step.bytes), 16)
        if step.atomic:
            return 0, passes_of_atomics(addresses + phase, mask)
        return 0, bank_passes(addresses + phase, mask, step.bytes)

    _count(machine, ("shared", matrices, step.atomic, step.bytes, phase), row, base, lanes, 4, ask)


def _extend_shared(machine: Machine, step: Step, address: np.ndarray, size: int, lanes: Lanes) -> None:
    """Note the end of the shared memory that is accessed, at addresses that are known."""
    if int(address.max()) + size <= machine.shared_end:  # mostly, whichever threads are active
        return
    if not any(union(machine.taint[slot], lanes) for slot in step.bases):
        there = lanes.everywhere
        if step.opcode in MATRICES:
            there = there & (np.arange(lanes.shape[1]) % WARP < 2 * step.bytes)
        last = int(in_block(np.broadcast_to(address, lanes.shape)[there]).max(initial=0))
        machine.shared_end = max(machine.shared_end, last + size)


def _count_local(machine: Machine, step: Step, row: int, base: np.ndarray, offset: int, lanes: Lanes) -> None:
    """Count the sectors and lines of local memory: the same word of the 32 lanes of a warp is one line."""
    phase, words = offset % 4, max(1, step.bytes // 4)

    def ask(addresses: np.ndarray, mask: np.ndarray) -> tuple[Any, np.ndarray]:
        first = (addresses + phase >> 2) * 4 + np.arange(WARP) // 8
        sectors = np.concatenate([first + 4 * word for word in range(words)], axis=-1)
        return sectors_and_lines(SECTOR * sectors, np.concatenate([mask] * words, axis=-1))

    _count(machine, ("local", step.bytes, phase), row, base, lanes, 4, ask)
    machine.local_spans[step.index] = _span(machine.local_spans.get(step.index), step, base, offset, lanes)


def _span(before: LocalSpan | None, step: Step, base: np.ndarray, offset: int, lanes: Lanes) -> LocalSpan:
    """Extend the span of an instruction by its present addresses."""
    there = lanes.of(base) if base.size > 1 else base
    now = LocalSpan(int(there.min()) + offset, int(there.max()) + offset + step.bytes)
    if before is None:
        return now
    moves = before.moves or now[:2] != before[:2]
    return LocalSpan(min(now.start, before.start), max(now.end, before.end), moves)


# (machine, step, row of its counters, base and offset of the addresses, active threads)
COUNT: dict[str, Callable[[Machine, Step, int, np.ndarray, int, Lanes], None]] = {
    "global": _count_global,
    "shared": _count_shared,
    "local": _count_local,
}

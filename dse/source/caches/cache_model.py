"""Predict which requested sectors of a launch hit in the L1 of an SM, hit in the L2, or come from DRAM.

This is computed from the addresses of one block, which does what most others do, or more. Within it, a line
of the L1, 128 bytes filled sector by sector, is replaced with the same probability at any time, as in a cache
with random replacement. The probability follows from the lines that the resident blocks fill. Sectors that
the block touches for the first time may be there from other blocks: see `dse.source.caches.footprint`.

Stores are written through the L1 without changing it, and are collected in the L2, where the storing block
hits them. Atomics and loads with such a modifier bypass the L1; what atomics change is fetched. Local memory,
whose addresses are not recorded, hits as far as that of the resident blocks fits.

Source: sectors, lines and carve-outs after the CUDA programming guide; Jia et al., arXiv:1804.06826 and
1903.07486, found that the L1 of Volta and Turing does not replace what was used longest ago. Counters of an
RTX 2080 Ti decided between random and least-recently-used replacement, and that stores are written through.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dse.hardware.coalescing import LINE, SECTOR
from dse.source.caches.footprint import ROUNDS, Footprint, blocks_back
from dse.source.caches.places import Probe
from dse.source.caches.reuse import NOTHING_FOLLOWED, Reuse, follow
from dse.source.caches.sectors import IN_LINE, SectorAccesses, accesses, bypasses_l1
from dse.source.machine.blocks import Sample
from dse.source.machine.recorded import MEMORY_COUNTS, Recorded, Stream, once_each
from dse.types import Gpu

# Possible sizes of shared memory in KiB, by the maximum of an SM.
_CARVE_OUTS = {
    64: (32, 64),
    96: (0, 8, 16, 32, 64, 96),
    100: (0, 8, 16, 32, 64, 100),
    164: (0, 8, 16, 32, 64, 100, 132, 164),
    228: (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
}
# The last of a block's copies from DRAM takes this much longer than one alone: A100, few blocks, two stages.
SLOWEST = 1.35
# Distance between the reads of a sector by the blocks of a wave, as a share of what the wave reads, over the
# part of the L2 that keeps it: `drift` over `l2_share` of dse.models.matrix.constants, fitted to times.
DRIFT = 0.12
_MOSTLY = 0.9  # of what an average block touches


# Kinds of accesses. Loads include bypassing; atomics that return something are loads, and written.
_KINDS = "loads", "bypassing", "stores", "written", "local loads", "local stores"


@dataclass(frozen=True)
class Caches:
    """The caches available to a launch."""

    l1_bytes: float  # of an SM, without its shared memory
    l2_bytes: float  # or of the memory's own cache, if larger
    sm_count: int
    resident_blocks: int  # of an SM
    local_bytes: int = 0  # of local memory that a thread accesses
    near_bytes: float = np.inf  # of the L2, if the memory has a cache of its own behind it


def caches_of(gpu: Gpu, shared_bytes: int, resident_blocks: int, local_bytes: int | None = 0) -> Caches:
    """Return the caches of a GPU (scalars) available to a launch. `shared_bytes` are of a block.

    If L1 and shared memory share one memory, shared memory takes the smallest part that all resident blocks
    fit in.
    """
    l1_bytes = float(gpu.l1_bytes)
    if float(gpu.l1_with_shared):
        most = int(gpu.limits.shared_bytes_per_sm)
        needed = resident_blocks * (shared_bytes + int(gpu.limits.shared_bytes_reserved))
        parts = _CARVE_OUTS.get(most // 1024, (most / 1024,))
        l1_bytes -= next((part * 1024 for part in parts if part * 1024 >= needed), most)
    return Caches(
        max(l1_bytes, 0.0),
        max(float(gpu.l2_bytes), float(gpu.memory_cache_bytes)),
        int(gpu.sm_count),
        max(resident_blocks, 1),
        local_bytes or 0,
        float(gpu.l2_bytes) if float(gpu.memory_cache_bytes) else np.inf,
    )


@dataclass(frozen=True)
class Traffic:
    """Sectors that an average block moves in a phase, in all its passes; of global and local memory."""

    loads: float = 0.0  # requested, summed over requests
    loads_past_l1: float = 0.0
    loads_past_l2: float = 0.0
    stores: float = 0.0  # all reach the L2
    stores_past_l2: float = 0.0  # with those fetched for atomics without a result
    runs_past_l2: float = 0.0  # of loads: adjacent sectors that a block requests together
    filled: float = 0.0  # of loads: what the memory's own cache writes to the L2

    @property
    def l2_sectors(self) -> float:
        """Sectors that the L2 moves: for the L1, and from the cache behind it."""
        return self.loads_past_l1 + self.stores + self.filled

    @property
    def dram_sectors(self) -> float:
        """Sectors moved between L2 and DRAM."""
        return self.loads_past_l2 + self.stores_past_l2

    @property
    def served(self) -> tuple[float, float, float]:
        """Shares of loads served by L1, L2 and DRAM; all by the L1 if there are none."""
        if not self.loads:
            return 1.0, 0.0, 0.0
        past_l1, past_l2 = self.loads_past_l1 / self.loads, self.loads_past_l2 / self.loads
        return 1.0 - past_l1, past_l1 - past_l2, past_l2

    def slowest(self, sectors: float) -> tuple[float, float, float]:
        """Return the probabilities that the slowest of this many sectors comes from L1, L2 or DRAM."""
        in_l1, in_l2, _ = self.served
        hits = in_l1**sectors, (in_l1 + in_l2) ** sectors
        return hits[0], hits[1] - hits[0], 1.0 - hits[1]

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(*(getattr(self, name) + getattr(other, name) for name in Traffic.__dataclass_fields__))

    def __mul__(self, factor: float) -> "Traffic":
        return Traffic(*(factor * getattr(self, name) for name in Traffic.__dataclass_fields__))


def latency(traffic: Traffic, gpu: Gpu) -> float:
    """Return the cycles of an average load, by the sources of its sectors; GPU fields are scalars."""
    levels = gpu.latency.l1, gpu.latency.l2, gpu.latency.dram
    return sum(share * float(level) for share, level in zip(traffic.served, levels, strict=True))


def latency_of_slowest(traffic: Traffic, gpu: Gpu, sectors: float) -> float:
    """Return the cycles until the last of this many sectors, requested together, arrives."""
    levels = gpu.latency.l1, gpu.latency.l2, SLOWEST * gpu.latency.dram
    return sum(share * float(level) for share, level in zip(traffic.slowest(sectors), levels, strict=True))


def misses(
    machine: Recorded, sample: Sample, caches: Caches, probe: Probe | None = None, drift: float = DRIFT
) -> dict[tuple[int, int], Traffic]:
    """Return the traffic of an average block, by the addresses of the barriers around its phases.

    **Edges:** addresses that depend on unstated data are those that the machine assumed. Streams without a
    constant stride from block to block are followed in many blocks, which `probe` runs; without it they count
    as not shared between blocks. Without `drift` the blocks of a wave stay in step.
    """
    weights = np.array(sample.weights) / machine.launch.blocks
    asked = _asked(machine)
    # Some blocks leave early, or do more than others.
    asks = np.array([np.sum([per[kind] for per in asked.values()], axis=0) for kind in ("loads", "written")])
    sectors, block = asks.sum(axis=0), sample.largest
    if sectors[block] < _MOSTLY * (sectors @ weights):  # most leave without having touched what others do
        block = int(np.argmax((sectors - sectors @ weights) * weights))
    steps = machine.program.steps
    streams = [[s for s in machine.streams if select(steps[s.step])] for select in (_loads, _stores)]
    loads = accesses(machine, sample, block, streams[0], together=machine.together)
    stores = accesses(machine, sample, block, streams[1])
    wave = min(caches.resident_blocks * caches.sm_count, machine.launch.blocks)
    both = loads, stores
    by_array = [_relative(machine, *of_kind, block, weights) for of_kind in zip(streams, both, strict=True)]
    relative = [{array: float(own.sum()) for array, own in of_kind.items()} for of_kind in by_array]
    ran = asks[:, weights > 0.0]
    uneven = bool((ran.min(axis=1) < _MOSTLY * ran.max(axis=1)).any())  # by more than places that data say
    reuses = [NOTHING_FOLLOWED, NOTHING_FOLLOWED]
    if probe is not None:
        reuses = follow(cast(Any, machine), sample, block, both, relative, wave, probe, whole=uneven)
    loaded, stored = (
        Footprint(accessed, machine.launch.grid, followed, own)
        for accessed, followed, own in zip(both, reuses, relative, strict=True)
    )
    room = caches.l2_bytes / SECTOR
    back = blocks_back((loaded, stored), room, machine.launch.blocks)
    read = loaded.grown(wave)
    crowded = 1.0 - min(1.0, room / max(read + stored.grown(wave), 1.0))
    # Blocks of the first wave start together; later ones, when one before them ends.
    apart = drift * (1.01 - wave / machine.launch.blocks) * read
    gone = _replaced(caches.l2_bytes, apart)
    filling = loaded.grown(wave, far=False)
    again, far = _again(loads, caches, _loading(machine, loads, block), reuses[0].reuse, filling)
    l1_chance, nowhere = loaded.chance(caches.l1_bytes, caches.sm_count), np.zeros((2, len(stored.distance)))
    own = (1.0 - crowded) * np.isin(loaded.sector, _stored_first(machine, sample, block, both))
    of_l1, of_l2, runs = loaded.first(sample, by_array[0], l1_chance, back, wave, own, gone)
    _, written, _ = stored.first(sample, by_array[1], nowhere, back, wave)
    keys = {key: number for number, key in enumerate(asked)}
    of_key = [keys.get((phase.opened, phase.closed), 0) for phase in machine.phases]
    mean = {kind: np.array([per[kind] @ weights for per in asked.values()]) for kind in _KINDS}

    def summed(kind: str, first: np.ndarray, repeated: np.ndarray | float = 0.0) -> np.ndarray:
        """Sum phases by barriers. Those that the block lacks have a part of its sectors, as they request.

        First touches beyond what a phase requests are in others: some blocks do fewer passes than the block.
        """
        own = np.array([per[kind][block] for per in asked.values()])
        share = mean[kind][own > 0].sum() / max(mean[kind].sum(), 1e-300)
        if not share:  # only blocks that were not analysed access memory
            return mean[kind]
        first, repeated = (
            np.bincount(of_key, part + np.zeros(len(of_key)), len(keys)) for part in (first, repeated)
        )
        left = mean[kind] * (own > 0) - first * share
        moved = np.minimum(1.0, -left[left < 0].sum() / max(left[left > 0].sum(), 1e-300))
        past = first * share + np.where(left < 0, left, moved * left)
        past += repeated * mean[kind] / np.maximum(own, 1.0)
        return np.where(own > 0, past, mean[kind] * past.sum() / mean[kind][own > 0].sum())

    bypassing = mean["bypassing"]
    past_l1 = np.minimum(summed("loads", of_l1, again), mean["loads"] - bypassing) + bypassing
    # Where the L2 loses lines to the cache behind it, warps of a block wait, and each fetches its own.
    passes = 1.0 + again.sum() / max(of_l1.sum(), 1e-300)  # of a block over what it reads
    lost = _replaced(caches.near_bytes, min(1.0, drift * passes) * read)
    past_l1 = past_l1 + lost * (mean["loads"] - past_l1)
    past_l2 = np.minimum(summed("loads", of_l2, far * crowded), past_l1)
    past_stores = np.minimum(summed("written", written), mean["written"]) * (1.0 + _fetched(machine, *both))
    of_runs = np.minimum(summed("loads", runs), past_l2)
    columns = zip(
        mean["loads"], past_l1, past_l2, mean["stores"], past_stores, of_runs, lost * past_l1, strict=True
    )
    return {
        key: Traffic(*map(float, row)) + _local(float(loads), float(stores), machine, caches)
        for key, row, loads, stores in zip(
            asked, columns, mean["local loads"], mean["local stores"], strict=True
        )
    }


def _replaced(cache_bytes: float, apart: float) -> float:
    """Return the share of sectors lost between two reads: `apart` others, exponentially distributed."""
    return float(np.exp(-cache_bytes / SECTOR / max(apart, 1e-300)))


def _loads(step: Any) -> bool:
    return not step.stores and not (step.atomic and not step.writes)


def _stores(step: Any) -> bool:
    return step.stores or step.atomic


def _asked(machine: Recorded) -> dict[tuple[int, int], dict[str, np.ndarray]]:
    """Sum the sectors of all requests, by phase and kind: [blocks]; `loads` include `bypassing`.

    Of scalar loads (AMD) those touched first count: a cache of their own serves the others.
    """
    from dse.source.caches.first_touches import first_touches  # imports Numba

    rows: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    column = MEMORY_COUNTS.index("sectors")
    for step in machine.program.steps:
        if step.pipe not in ("global", "local") or not step.memory:
            continue
        row = machine.bound.memory_rows[step.index] + column
        kind = "loads" if _loads(step) else "stores"
        rows[kind if step.pipe == "global" else f"local {kind}"].append(row)
        if step.pipe == "global" and kind == "loads" and bypasses_l1(step):
            rows["bypassing"].append(row)
        if step.pipe == "global" and _stores(step):
            rows["written"].append(row)
    of_phase = once_each(lambda counts: np.stack([counts[rows[kind]].sum(axis=0) for kind in _KINDS]))
    asked: dict[tuple[int, int], np.ndarray] = {}
    for phase, counts in zip(machine.phases, machine.phase_counts, strict=True):
        if counts is not None:
            key = (phase.opened, phase.closed)
            asked[key] = asked.get(key, 0.0) + of_phase(counts)
    steps = machine.program.steps
    if scalar := [stream for stream in machine.streams if steps[stream.step].pipe == "constant"]:
        for phase, touched in zip(machine.phases, first_touches(machine, scalar), strict=True):
            if (phase.opened, phase.closed) in asked:
                asked[phase.opened, phase.closed][_KINDS.index("loads")] += touched
    return {key: dict(zip(_KINDS, kinds, strict=True)) for key, kinds in asked.items()}


def _relative(
    machine: Recorded, streams: Sequence[Stream], accessed: SectorAccesses, block: int, weights: np.ndarray
) -> dict[int, np.ndarray]:
    """Return the distinct sectors of blocks relative to those of one of them, weighted, by array: [blocks].

    Requested ones would not do: warps that begin inside of a sector request more, and touch no more. Arrays
    that the block does not access count as more of those that the others access less, or as more of all.
    """
    from dse.source.caches.first_touches import by_array, first_touches  # imports Numba

    arrays = {*accessed.families.array.tolist()}
    of_array: dict[int, list[Stream]] = {}
    for number, own in by_array(streams).items():
        of_array.setdefault(number if number in arrays else -1, []).extend(own)
    total = {number: first_touches(machine, own).sum(axis=0) for number, own in of_array.items()}
    other = total.pop(-1, np.zeros(len(weights)))
    less = {number: np.maximum(touched[block] - touched, 0) for number, touched in total.items()}
    missing = sum(less.values(), np.zeros(len(weights)))
    instead = np.minimum(other / np.maximum(missing, 1e-300), 1.0)
    left = (other - instead * missing) @ weights / max(sum(own @ weights for own in total.values()), 1e-300)
    return {
        number: (1.0 + left + instead * less[number] @ weights / max(touched @ weights, 1e-300))
        * (weights * touched / touched[block])
        for number, touched in total.items()
    }


# Within a block


def _loading(machine: Recorded, loads: SectorAccesses, block: int) -> float:
    """Return the share of a block's instructions that are in phases with loads."""
    lengths = np.array([len(block_of_code.steps) for block_of_code in machine.program.blocks])
    insts = np.array(
        [
            0.0 if counts is None else lengths @ counts[: 2 * len(lengths) : 2, block]
            for counts in machine.phase_counts
        ]
    )
    return float(insts[np.unique(loads.phase)].sum() / max(insts.sum(), 1.0))


def _stored_first(
    machine: Recorded, sample: Sample, block: int, both: tuple[SectorAccesses, SectorAccesses]
) -> np.ndarray:
    """List the sectors that the block stores before it loads them, which are in the L2."""
    loaded, stored = (accessed.sector for accessed in both)
    if not len(loaded) or not len(stored) or loaded.max() < stored.min() or stored.max() < loaded.min():
        return np.zeros(0, int)  # as of most arrays
    in_both = np.intersect1d(loaded, stored)
    if not len(in_both):
        return np.zeros(0, int)
    sectors, ticks = [], []
    for accessed in both:
        steps = accessed.families.steps(accessed.family[np.isin(accessed.sector, in_both)])
        asked = accesses(  # in the order of both
            machine, sample, block, machine.streams, steps=steps, known=accessed.families
        )
        order = np.lexsort((asked.tick, asked.sector))
        sector, first = np.unique(asked.sector[order], return_index=True)
        sectors.append(sector)
        ticks.append(asked.tick[order][first])
    shared, loaded, stored = np.intersect1d(*sectors, assume_unique=True, return_indices=True)
    return shared[ticks[1][stored] < ticks[0][loaded]]


def _fetched(machine: Recorded, loads: SectorAccesses, stores: SectorAccesses) -> float:
    """Return the share of stored sectors that come from DRAM first: of atomics without a result.

    Atomics with one are loads too, and what the block loads is counted there.
    """
    steps = machine.program.steps
    atomics = {number for number, step in enumerate(steps) if step.atomic and not step.writes}
    changed = np.setdiff1d(stores.sector[stores.of(atomics)], loads.sector) if atomics else ()
    return len(changed) / max(len(np.unique(stores.sector)), 1)


def _again(
    loads: SectorAccesses, caches: Caches, loading: float, reuse: Reuse | None, read: float
) -> tuple[np.ndarray, np.ndarray]:
    """Count the block's L1 misses on sectors that it had before: all, and those that the L2 may have lost,
    without what `reuse` follows, [phases] both.

    A share `loading` of the other resident blocks loads at the same time, and takes room. The L2 keeps a
    sector until what a wave loads, `read` sectors, and loads again has filled it.
    """
    through = loads.cached
    sector, tick, times = loads.sector[through], loads.tick[through], loads.times[through]
    line = sector // IN_LINE
    if caches.resident_blocks * len(np.unique(line)) * LINE <= caches.l1_bytes:  # all fit
        return np.zeros(loads.phases), np.zeros(loads.phases)
    room = caches.l1_bytes / LINE / (1.0 + (caches.resident_blocks - 1) * loading)
    rate = fill_rate(line, tick, times, loads.ticks, room)
    order, waits = _waits(sector, tick)
    lost = times[order] * -np.expm1(-rate * waits)
    phase = loads.phase[through][order]
    evenly = 1.0 if reuse is None else ~loads.of(reuse.steps)[through][order]
    passes = 1.0 + float(lost.sum()) / len(np.unique(sector))
    far = evenly * (waits / loads.ticks * passes * read > caches.l2_bytes / SECTOR)
    return (
        np.bincount(phase, lost, minlength=loads.phases),
        np.bincount(phase, lost * far, minlength=loads.phases),
    )


def _waits(place: np.ndarray, tick: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (accesses to a place touched before, ticks since then)."""
    order = np.lexsort((tick, place))
    same = np.flatnonzero(np.diff(place[order]) == 0) + 1
    return order[same], tick[order[same]] - tick[order[same - 1]]


def fill_rate(line: np.ndarray, tick: np.ndarray, times: np.ndarray, ticks: int, room: float) -> float:
    """Return the lines filled per tick over the `room` for lines: the rate at which a line is replaced.

    A line that waits for n ticks is still there with probability exp(-rate n), and is filled again if not.
    The rate is the smallest consistent with the fills that it causes.

    **Shapes:** line, tick, times [n]; ticks are in 0 .. ticks - 1, and lines touched in one do not wait.
    """
    again, waits = _waits(line, tick)
    filled = float(times.sum() - times[again].sum())
    if room <= 0.0:
        return float("inf")
    waits, which = np.unique(waits, return_inverse=True)
    weights = np.bincount(which, times[again], minlength=len(waits))
    rate = 0.0
    for _ in range(ROUNDS):
        rate = (filled - float(weights @ np.expm1(-rate * waits))) / (ticks * room)
    return rate


# Local memory


def _local(loads: float, stores: float, machine: Recorded, caches: Caches) -> Traffic:
    """Return the traffic of local memory: stores are written through, loads hit as far as the data fit."""
    threads = machine.shape[1]
    of_sm = caches.local_bytes * threads * caches.resident_blocks
    of_all = of_sm * min(caches.sm_count, machine.launch.blocks)
    in_l1 = kept_at_random(of_sm / max(caches.l1_bytes, 1.0))
    lost, far = (1.0 - min(1.0, size / max(of_all, 1.0)) for size in (caches.near_bytes, caches.l2_bytes))
    past_l1 = (1.0 - in_l1) * loads
    past_stores = min(1.0, of_all / caches.l2_bytes) * stores
    return Traffic(loads, past_l1, far * past_l1, stores, past_stores, filled=lost * past_l1)


def kept_at_random(needed: float) -> float:
    """Return the share of hits for cyclic accesses to data of `needed` times a cache's size.

    Replacement is random. Between two touches of a line (1 - hits) * needed * lines others are filled; it
    survives all with probability exp(-(1 - hits) * needed).
    """
    if needed <= 1.0:
        return 1.0
    low, high = 0.0, 1.0 / needed  # the solution below 1
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if np.exp(-(1.0 - middle) * needed) > middle else (low, middle)
    return low

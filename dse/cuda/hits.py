"""Which sectors that a launch asks for are in the L1 of an SM, which in the L2, and which come from DRAM.

Worked out from the addresses of one block, the one that stands for most others, in three steps.

Within the block: a line of the L1, 128 bytes filled sector by sector, has to make room for another one with
the same chance at any time, as where a cache replaces lines at random. What the block and those that are
resident beside it fill says how large that chance is.

Between blocks: addresses move on evenly with the block's place in the grid, so the footprints of other blocks
are that of this one, moved. For each of its sectors it is then known how many blocks ago it was touched last.
Blocks go to any SM with equal chance, which says how many of those before ran on the same SM. The L2 sees all
of them, as far back as their footprints together fit; blocks that run at the same time find what others
loaded. Addresses that do not move evenly are taken to lie anywhere in their array.

Stores are written through the L1, leave it as it is, and are gathered in the L2. Atomics and loads that ask
for it go past the L1. Local memory, which keeps no addresses, hits as far as what the resident blocks have of
it fits.

Source: sectors, lines and carve-outs after the CUDA programming guide; Jia et al., arXiv:1804.06826 and
1903.07486, found that the L1 of Volta and Turing does not replace what was used longest ago; how footprints
grow with the window that is looked at, after Xiang, Ding, Luo & Bao, HOTL, ASPLOS 2013. Counters of an RTX
2080 Ti decided between random and least-recently-used replacement, and that stores are written through.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from dse.cuda.accesses import LINE, SECTOR
from dse.cuda.blocks import Sample
from dse.cuda.launch import REGION_BITS, Dimensions
from dse.cuda.machine import MEMORY_COUNTS, Machine, Stream
from dse.cuda.opcodes import ATOMICS, STORES
from dse.cuda.program import Step
from dse.types import Gpu

# KiB that can be set apart as shared memory, by the most of it that an SM has.
_CARVE_OUTS = {
    64: (32, 64),
    96: (0, 8, 16, 32, 64, 96),
    100: (0, 8, 16, 32, 64, 100),
    164: (0, 8, 16, 32, 64, 100, 132, 164),
    228: (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
}
_BYPASS_L1 = ("STRONG", "BYPASS")  # modifiers: volatile and atomic loads, asynchronous copies of 16 bytes
_IN_LINE = LINE // SECTOR  # sectors
# What bounds the work: accesses of a block that are followed, blocks looked back at, and runs of their
# footprint that are tried first. Kernels that reach them lose sharing between blocks far apart.
_MOST_ACCESSES = 2**18
_MOST_BLOCKS = 2**13
_TRIED_RUNS = 16
_NEVER = 2**40  # blocks ago
_APART = (2**40, 1_779_033_703_913, 2_658_455_991_569)  # bytes: steps that lead to no other block's footprint
_FEWEST_TRIPS = 8
_ROUNDS = 50  # after which a rate that depends on itself is taken as settled


@dataclass(frozen=True)
class Caches:
    """What a launch has of the caches."""

    l1_bytes: float  # of an SM, beside its shared memory
    l2_bytes: float
    sm_count: int
    resident_blocks: int  # of an SM
    stack_bytes: int = 0  # local memory of a thread


def caches_of(gpu: Gpu, shared_bytes: int, resident_blocks: int, stack_bytes: int | None = 0) -> Caches:
    """What a launch has of the caches of a GPU whose fields are scalars. `shared_bytes` are of a block.

    Where one memory serves as L1 and as shared memory, the smallest part that all resident blocks fit in is
    set apart for them.
    """
    l1_bytes = float(gpu.l1_bytes)
    if float(gpu.l1_with_shared):
        most = int(gpu.limits.shared_bytes_per_sm)
        needed = resident_blocks * (shared_bytes + int(gpu.limits.shared_bytes_reserved))
        parts = _CARVE_OUTS.get(most // 1024, (most / 1024,))
        l1_bytes -= next((part * 1024 for part in parts if part * 1024 >= needed), most)
    return Caches(
        max(l1_bytes, 0.0), float(gpu.l2_bytes), int(gpu.sm_count), max(resident_blocks, 1), stack_bytes or 0
    )


@dataclass(frozen=True)
class Traffic:
    """Sectors that an average block moves in a phase, over all its passes; of global and local memory."""

    loads: float = 0.0  # asked for, each request by itself
    loads_past_l1: float = 0.0
    loads_past_l2: float = 0.0
    stores: float = 0.0  # all go past the L1
    stores_past_l2: float = 0.0

    @property
    def l2_sectors(self) -> float:
        """Moved between L1 and L2."""
        return self.loads_past_l1 + self.stores

    @property
    def dram_sectors(self) -> float:
        """Moved between L2 and DRAM."""
        return self.loads_past_l2 + self.stores_past_l2

    @property
    def served(self) -> tuple[float, float, float]:
        """Shares of what loads ask for that L1, L2 and DRAM give; all from the L1 if there are none."""
        if not self.loads:
            return 1.0, 0.0, 0.0
        past_l1, past_l2 = self.loads_past_l1 / self.loads, self.loads_past_l2 / self.loads
        return 1.0 - past_l1, past_l1 - past_l2, past_l2

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(*(getattr(self, name) + getattr(other, name) for name in Traffic.__dataclass_fields__))

    def __mul__(self, factor: float) -> "Traffic":
        return Traffic(*(factor * getattr(self, name) for name in Traffic.__dataclass_fields__))


def latency(traffic: Traffic, gpu: Gpu) -> float:
    """Cycles of an average load, by where its sectors come from; GPU fields are scalars."""
    levels = gpu.latency.l1, gpu.latency.l2, gpu.latency.dram
    return sum(share * float(level) for share, level in zip(traffic.served, levels, strict=True))


def with_neighbours(sample: Sample, grid: Dimensions) -> Sample:
    """A sample with the next block along each dimension too, without weight: for kernels whose edge blocks do
    not tell how addresses move, since they take other paths.
    """
    x, y, z = sample.blocks[int(np.argmax(sample.weights))]
    next_ones = ((x + 1, y, z), (x, y + 1, z), (x, y, z + 1))
    new = [
        block for block in next_ones if block not in sample.blocks and not np.greater_equal(block, grid).any()
    ]
    return replace(sample, blocks=(*sample.blocks, *new), weights=sample.weights + (0.0,) * len(new))


def misses(machine: Machine, sample: Sample, caches: Caches) -> dict[tuple[int, int], Traffic]:
    """What an average block moves, by the addresses of the barriers that open and close its phases.

    **Edges:** addresses that depend on data that is not stated are what the machine took them for. Streams
    whose addresses do not move evenly from block to block count as not shared between blocks.
    """
    weights = np.array(sample.weights) / machine.launch.blocks
    block = int(np.argmax(weights))  # the one that is looked into
    asked = _asked(machine)
    steps = machine.program.steps
    loads, stores = (
        _accesses(machine, sample, block, [each for each in machine.streams if chosen(steps[each.step])])
        for chosen in (_loads, _stores)
    )
    wave = min(caches.resident_blocks * caches.sm_count, machine.launch.blocks)
    loaded, stored = _Footprint(loads, machine.launch.grid), _Footprint(stores, machine.launch.grid)
    room = caches.l2_bytes / SECTOR
    back = _blocks_back((loaded, stored), room, min(machine.launch.blocks, _MOST_BLOCKS))
    crowded = 1.0 - min(1.0, room / max(loaded.grown(wave) + stored.grown(wave), 1.0))
    again = _again(loads, caches, _loading(machine, loads, block))
    l1_chance, nowhere = loaded.chance(caches), np.zeros(len(stored.distance))
    of_l1, of_l2 = loaded.first(sample, weights * _relative(asked, "loads", block), l1_chance, back, wave)
    _, written = stored.first(sample, weights * _relative(asked, "stores", block), nowhere, back, wave)
    found: dict[tuple[int, int], Traffic] = {}
    for key, per in asked.items():
        mean = {kind: float(counts @ weights) for kind, counts in per.items()}
        numbers = [n for n, phase in enumerate(machine.phases) if (phase.opened, phase.closed) == key]
        scale = mean["loads"] / float(per["loads"][block]) if per["loads"][block] else 0.0
        repeated = scale * float(again[numbers].sum())
        cached = mean["loads"] - mean["bypassing"]
        past_l1 = min(repeated + float(of_l1[numbers].sum()), cached) + mean["bypassing"]
        past_l2 = min(repeated * crowded + float(of_l2[numbers].sum()), past_l1)
        if not scale:  # only blocks that were not looked into load here
            past_l1 = past_l2 = mean["loads"]
        past_stores = min(float(written[numbers].sum()), mean["stores"] + mean["bypassing"])
        found[key] = Traffic(mean["loads"], past_l1, past_l2, mean["stores"], past_stores) + _local(
            mean["local loads"], mean["local stores"], machine, caches
        )
    return found


def _loads(step: Step) -> bool:
    return step.opcode not in STORES and not (step.opcode in ATOMICS and not step.writes)


def _stores(step: Step) -> bool:
    return step.opcode in STORES or step.opcode in ATOMICS


def _bypasses(step: Step) -> bool:
    return step.opcode in ATOMICS or step.has(*_BYPASS_L1)


def _asked(machine: Machine) -> dict[tuple[int, int], dict[str, np.ndarray]]:
    """Sectors of all requests, by phase and kind: [blocks]; those of `bypassing` are among `loads`."""
    rows: dict[str, list[int]] = {
        kind: [] for kind in ("loads", "bypassing", "stores", "local loads", "local stores")
    }
    place = MEMORY_COUNTS.index("sectors")
    for step in machine.program.steps:
        if step.pipe not in ("global", "local") or not step.memory:
            continue
        row = machine.compiled.memory_rows[step.index] + place
        kind = "loads" if _loads(step) else "stores"
        rows[kind if step.pipe == "global" else f"local {kind}"].append(row)
        if step.pipe == "global" and kind == "loads" and _bypasses(step):
            rows["bypassing"].append(row)
    asked: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    for phase, counts in zip(machine.phases, machine.phase_counts, strict=True):
        if counts is not None:
            before = asked.setdefault((phase.opened, phase.closed), {})
            for kind, chosen in rows.items():
                before[kind] = before.get(kind, 0.0) + counts[chosen].sum(axis=0)
    return asked


def _relative(asked: dict[tuple[int, int], dict[str, np.ndarray]], kind: str, block: int) -> np.ndarray:
    """What blocks ask for, over what one of them does: [blocks]"""
    total = np.sum([per[kind] for per in asked.values()], axis=0)
    return total / total[block] if total[block] else np.zeros_like(total)


# Within a block


@dataclass
class _Family:
    """Streams whose addresses differ by a constant: byte runs, and how far they move from block to block."""

    start: np.ndarray  # [n] bytes, sorted
    end: np.ndarray
    step: tuple[int, int, int]  # bytes for each dimension of the grid
    span: tuple[int, int]  # lowest and highest address of all blocks that were run
    size: int  # sectors of one execution, or some more
    offset: list[np.ndarray] = field(default_factory=list)  # of each execution
    tick: list[np.ndarray] = field(default_factory=list)
    phase: list[np.ndarray] = field(default_factory=list)
    cached: list[np.ndarray] = field(default_factory=list)
    times: list[np.ndarray] = field(default_factory=list)  # executions that each stands for


@dataclass
class _Accesses:
    """Sectors that one block touches, each once in an execution of an instruction: [n]."""

    families: list[_Family]
    sector: np.ndarray
    tick: np.ndarray  # executions before this one
    phase: np.ndarray
    cached: np.ndarray  # whether it goes through the L1
    times: np.ndarray
    family: np.ndarray
    ticks: int
    phases: int  # of the machine


def _executions(
    streams: Sequence[Stream], sizes: Sequence[int]
) -> Iterator[tuple[Stream, np.ndarray, np.ndarray, float]]:
    """(stream, its offsets, its ticks, executions that each stands for). Streams of one skipped loop take
    turns.
    """
    tick, left = 0, _MOST_ACCESSES
    for _, loop in groupby(zip(streams, sizes, strict=True), key=lambda each: each[0].repeats):
        members = list(loop)
        trips = members[0][0].repeats
        if trips == 1:
            for stream, _ in members:
                yield stream, np.array([stream.offset]), np.array([tick]), 1.0
                tick += 1
            continue
        taken = np.arange(min(trips, max(_FEWEST_TRIPS, left // max(1, sum(size for _, size in members)))))
        left = max(0, left - len(taken) * sum(size for _, size in members))
        for place, (stream, _) in enumerate(members):
            offsets, ticks = stream.offset + taken * stream.stride, tick + taken * len(members) + place
            yield stream, offsets, ticks, trips / len(taken)
        tick += trips * len(members)


def _accesses(machine: Machine, sample: Sample, block: int, streams: Sequence[Stream]) -> _Accesses:
    families: dict[tuple[int, int, int], _Family] = {}
    chosen: list[Stream] = []
    members: list[_Family] = []
    for stream in streams:
        step = machine.program.steps[stream.step]
        key = (id(stream.base), id(stream.lanes), step.bytes)
        if key not in families:
            families[key] = _family(machine, sample, block, stream, step.bytes)
        if families[key].size:
            chosen.append(stream)
            members.append(families[key])
    executions = _executions(chosen, [family.size for family in members])
    ticks = 0
    for family, (stream, offsets, at, times) in zip(members, executions, strict=True):
        count = len(offsets)
        family.offset.append(offsets)
        family.tick.append(at)
        family.phase.append(np.full(count, stream.phase[block]))
        family.cached.append(np.full(count, not _bypasses(machine.program.steps[stream.step])))
        family.times.append(np.full(count, times))
        ticks = max(ticks, int(at[-1]) + 1)
    used = [family for family in families.values() if family.size]
    parts = [_expanded(family, number) for number, family in enumerate(used)]
    empty = (
        np.zeros(0, int),
        np.zeros(0, int),
        np.zeros(0, int),
        np.zeros(0, bool),
        np.zeros(0),
        np.zeros(0, int),
    )
    sector, tick, phase, cached, times, family = map(np.concatenate, zip(empty, *parts, strict=True))
    return _Accesses(used, sector, tick, phase, cached, times, family, ticks, len(machine.phases))


def _family(machine: Machine, sample: Sample, block: int, stream: Stream, size: int) -> _Family:
    mask = np.broadcast_to(stream.lanes.mask, machine.shape)
    base = np.broadcast_to(stream.base, machine.shape)
    address, touched = np.unique(base[block][mask[block]]), base[mask]
    start, end = _merged(address, address + size)
    return _Family(
        start,
        end,
        step=_block_step(machine, sample, block, stream),
        span=(int(touched.min()), int(touched.max()) + size),
        size=int((end - start).sum()) // SECTOR + len(start),
    )


def _merged(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs of bytes that do not meet; `start` is sorted."""
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.append(True, start[1:] > reach[:-1])
    return start[first], reach[np.append(first[1:], True)]


def _expanded(family: _Family, number: int) -> tuple[np.ndarray, ...]:
    """The sectors of all executions: sector, tick, phase, cached, times, family."""
    offset = np.concatenate(family.offset)[:, None]
    low, high = family.start + offset >> 5, family.end + offset - 1 >> 5  # [executions, runs]
    low[:, 1:] = np.maximum(low[:, 1:], high[:, :-1] + 1)  # neighbours may end in one sector
    counts = high - low + 1
    sector = _ranges(low.ravel(), counts.ravel())
    columns = (family.tick, family.phase, family.cached, family.times)
    of_each = counts.sum(axis=1)
    return (
        sector,
        *(np.repeat(np.concatenate(column), of_each) for column in columns),
        np.full(len(sector), number),
    )


def _ranges(start: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """start[0], start[0] + 1, ... counts[0] of them, then those from start[1], ..."""
    before = np.cumsum(counts) - counts
    return np.repeat(start - before, counts) + np.arange(int(counts.sum()))


def _loading(machine: Machine, loads: _Accesses, block: int) -> float:
    """Share of a block's instructions that are in phases which load."""
    lengths = np.array([len(each.steps) for each in machine.program.blocks])
    insts = np.array(
        [
            0.0 if counts is None else lengths @ counts[: 2 * len(lengths) : 2, block]
            for counts in machine.phase_counts
        ]
    )
    return float(insts[np.unique(loads.phase)].sum() / max(insts.sum(), 1.0))


def _again(loads: _Accesses, caches: Caches, loading: float) -> np.ndarray:
    """Sectors that the block loads past the L1 although it had them before, by number of the phase.

    Of the other resident blocks a share `loading` loads meanwhile, and takes room.
    """
    through = loads.cached
    sector, tick, times = loads.sector[through], loads.tick[through], loads.times[through]
    line = sector // _IN_LINE
    if caches.resident_blocks * len(np.unique(line)) * LINE <= caches.l1_bytes:  # all have room
        return np.zeros(loads.phases)
    room = caches.l1_bytes / LINE / (1.0 + (caches.resident_blocks - 1) * loading)
    rate = fill_rate(line, tick, times, loads.ticks, room)
    order, waits = _waits(sector, tick)
    lost = times[order] * -np.expm1(-rate * waits)
    return np.bincount(loads.phase[through][order], lost, minlength=loads.phases)


def _waits(place: np.ndarray, tick: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(accesses to a place that was touched before, ticks since then)."""
    order = np.lexsort((tick, place))
    same = np.flatnonzero(np.diff(place[order]) == 0) + 1
    return order[same], tick[order[same]] - tick[order[same - 1]]


def fill_rate(line: np.ndarray, tick: np.ndarray, times: np.ndarray, ticks: int, room: float) -> float:
    """Lines filled in a tick, over the `room` for lines: the chance of each line to have to make room.

    A line that waits for n ticks is still there with chance exp(-rate n), and is filled again if not. The
    rate is the smallest that agrees with the fills that it causes.

    **Shapes:** line, tick, times [n]; ticks lie in 0 .. ticks - 1, and lines touched in one do not wait.
    """
    again, waits = _waits(line, tick)
    filled = float(times.sum() - times[again].sum())
    if room <= 0.0:
        return float("inf")
    waits, place = np.unique(waits, return_inverse=True)
    weights = np.bincount(place, times[again], minlength=len(waits))
    rate = 0.0
    for _ in range(_ROUNDS):
        rate = (filled - float(weights @ np.expm1(-rate * waits))) / (ticks * room)
    return rate


# Between blocks


def _block_step(machine: Machine, sample: Sample, block: int, stream: Stream) -> tuple[int, int, int]:
    """Bytes by which addresses move from block to block, along each dimension of the grid.

    Found from blocks of the sample that differ in one dimension only. `_APART` where not all threads move
    alike, or where the sample does not tell.
    """
    if len(stream.base) == 1:
        return 0, 0, 0
    masks = np.broadcast_to(stream.lanes.mask, machine.shape)
    moved = np.subtract(sample.blocks, sample.blocks[block])
    found = []
    for axis, size in enumerate(machine.launch.grid):
        others = np.flatnonzero((moved[:, axis] != 0) & (np.count_nonzero(moved, axis=1) == 1))
        steps: set[float] = set()
        for other in others.tolist():
            common = (masks[other] & masks[block])[: stream.base.shape[1]]
            if common.any():
                apart = (stream.base[other] - stream.base[block])[common]
                even = (apart == apart[0]).all()
                steps.add(float(apart[0]) / float(moved[other, axis]) if even else float("nan"))
        step = steps.pop() if len(steps) == 1 else float("nan")
        found.append(int(step) if step.is_integer() else _APART[axis] if size > 1 else 0)
    return found[0], found[1], found[2]


@dataclass
class _Cover:
    """What other blocks whose addresses moved by the same step touch of a footprint: pairs of a sector and a
    shift.
    """

    sector: np.ndarray  # [pairs] place in the footprint
    shift: np.ndarray  # [pairs]
    of_block: np.ndarray  # [blocks] shift of each other block; -1 if it touches nothing
    shifts: int

    def count(self, amounts: np.ndarray, sectors: int) -> np.ndarray:
        """`amounts` of blocks, summed over those that touch each sector: [sectors]"""
        there = self.of_block >= 0
        of_shift = np.bincount(self.of_block[there], amounts[there], minlength=self.shifts)
        return np.bincount(self.sector, of_shift[self.shift], minlength=sectors)

    def least(self, amounts: np.ndarray, found: np.ndarray) -> None:
        """Lower `found` to the least of `amounts` among the blocks that touch each sector."""
        of_shift = np.full(self.shifts, _NEVER)
        there = self.of_block >= 0
        np.minimum.at(of_shift, self.of_block[there], amounts[there])
        np.minimum.at(found, self.sector, of_shift[self.shift])


class _Footprint:
    """The sectors of a block, each once, and which other blocks touch them too.

    Blocks after it are looked at as well as those before: in a chain of blocks that share a sector one is the
    first, and one the last. Each by itself would depend on where in its sectors this block happens to lie.
    """

    def __init__(self, accesses: _Accesses, grid: Dimensions) -> None:
        order = np.lexsort((accesses.tick, accesses.sector))
        first = order[np.append(True, np.diff(accesses.sector[order]) != 0)[: len(order)]]
        self.grid, self.phases = grid, accesses.phases
        self.sector, self.phase, self.times = (
            column[first] for column in (accesses.sector, accesses.phase, accesses.times)
        )
        self.cached = np.zeros(len(first), bool)
        self.cached[np.searchsorted(self.sector, accesses.sector[accesses.cached])] = True
        before, distance = _before(grid)
        moves, distance = np.concatenate([before, -before]), np.concatenate([distance, distance])
        by_step: dict[tuple[int, int, int], list[_Family]] = {}
        for family in accesses.families:
            by_step.setdefault(family.step, []).append(family)
        covers = [_cover(self.sector, moves @ np.array(step), *_runs(each)) for step, each in by_step.items()]
        reached = np.zeros(len(moves), bool)
        for cover in covers:
            reached |= cover.of_block >= 0
        self.covers = [replace(cover, of_block=cover.of_block[reached]) for cover in covers]
        self.moves, self.distance = moves[reached], distance[reached]  # [blocks, 3], [blocks]
        self.later = (np.arange(len(moves)) >= len(before))[reached]
        self.scattered = _scattered(accesses.families, accesses.family[first], self.times)
        self.nearest = self._nearest(np.ones(len(self.moves), bool))

    def _nearest(self, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Blocks since each sector was touched, and until it is again, of those `there`: [sectors]"""
        found = []
        for later in (False, True):
            distance = np.where(there & (self.later == later), self.distance, _NEVER)
            nearest = np.full(len(self.sector), _NEVER)
            for cover in self.covers:
                cover.least(distance, nearest)
            found.append(nearest)
        return found[0], found[1]

    def _found(self, amounts: np.ndarray) -> np.ndarray:
        """The chance that none of the blocks that touch a sector left it, by each one's chance: [sectors]"""
        total = np.zeros(len(self.sector))
        for cover in self.covers:
            total += cover.count(amounts, len(total))
        return np.exp(-total / 2)  # those before and those after

    def chance(self, caches: Caches) -> np.ndarray:
        """That a block was on the same SM, and that what it touched is still in the L1 there: [blocks]"""
        if int(np.prod(self.grid)) <= caches.sm_count:  # each block has an SM of its own
            return np.zeros(len(self.distance))
        lines = len(np.unique(self.sector // _IN_LINE)) / max(caches.l1_bytes / LINE, 1e-9)
        new, chance = 1.0, np.zeros(len(self.distance))
        for _ in range(_ROUNDS if len(self.sector) else 0):  # what is found fills no line
            chance = np.exp(-self.distance * (new * lines / caches.sm_count)) / caches.sm_count
            new = float(self._found(chance).mean())
        return chance

    def first(
        self, sample: Sample, weights: np.ndarray, l1_chance: np.ndarray, back: int, wave: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sectors that blocks are the first to touch, in the L1 of their SM and in the L2: [phases] both.

        Each block of the sample touches this footprint, moved to its place in the grid, times its weight.
        """
        of_l1, of_l2 = np.zeros(self.phases), np.zeros(self.phases)
        for place, weight in zip(sample.blocks, weights.tolist(), strict=True):
            if not weight:
                continue
            at = self.moves + np.array(place)
            there = np.asarray(((at >= 0) & (at < np.array(self.grid))).all(axis=1))
            alone = self._found(np.where(there, l1_chance, 0.0)) * self.cached
            before, after = (self._new(nearest, back, wave) for nearest in self._nearest(there))
            of_l1 += weight * np.bincount(self.phase, self.times * alone, minlength=self.phases)
            of_l2 += weight * np.bincount(
                self.phase, self.times * (before + after) / 2, minlength=self.phases
            )
        return of_l1, of_l2

    def _new(self, nearest: np.ndarray, back: int, wave: int) -> np.ndarray:
        """The chance that no block has put a sector in the L2, or that it is gone since: [sectors]

        Blocks of one wave run together and find what the others loaded. If the L2 does not hold what a wave
        touches, nothing is left from the wave before.
        """
        if back < wave:
            return np.where(
                self.scattered > 0, _mean_new(self.scattered, wave), np.minimum(nearest, wave) / wave
            )
        blocks = int(np.prod(self.grid))
        seen = min(back, blocks)
        early = seen / blocks  # share of blocks that look back to the start of the grid
        anywhere = early * _mean_new(self.scattered, seen) + (1.0 - early) * np.exp(-self.scattered * seen)
        return np.where(self.scattered > 0, anywhere, nearest > back)

    def grown(self, blocks: int) -> float:
        """Sectors that so many blocks in a row touch together."""
        before, after = (np.minimum(nearest, blocks) for nearest in self.nearest)
        anywhere = blocks * _mean_new(self.scattered, blocks)
        return float((self.times * np.where(self.scattered > 0, anywhere, (before + after) / 2)).sum())


def _cover(sector: np.ndarray, shift: np.ndarray, start: np.ndarray, end: np.ndarray) -> _Cover:
    """What runs of bytes [start, end) cover of a footprint, moved by the shift of each block."""
    shifts, of_block = np.unique(shift, return_inverse=True)

    def reached(runs: np.ndarray, by: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(first sector, how many): [shifts, runs]"""
        low, high = start[runs] + by[:, None] >> 5, end[runs] + by[:, None] - 1 >> 5
        low = np.searchsorted(sector, low)
        return low, np.maximum(np.searchsorted(sector, high, side="right") - low, 0)

    near = np.flatnonzero(np.abs(shifts) < end[-1] - start[0] + SECTOR)
    # Shifts by which none of the runs that are tried reaches a sector are taken to have none that does.
    tried = np.linspace(0, len(start) - 1, min(len(start), _TRIED_RUNS)).astype(int)
    near = near[reached(tried, shifts[near])[1].any(axis=1)]
    closest = np.argsort(np.abs(shifts[near]), kind="stable")
    near = near[closest[: max(1, _MOST_ACCESSES // len(start))]]
    low, counts = reached(np.arange(len(start)), shifts[near])
    number = np.full(len(shifts), -1)
    number[near] = np.arange(len(near))
    return _Cover(
        sector=_ranges(low.ravel(), counts.ravel()),
        shift=np.repeat(np.arange(len(near)), counts.sum(axis=1)),
        of_block=number[of_block],
        shifts=len(near),
    )


def _scattered(families: Sequence[_Family], family: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The chance that any other block touches a sector, where blocks' addresses are unrelated, else 0.

    They are taken to lie anywhere in the part of an array that the blocks which were run use.

    **Shapes:** family, times [sectors], and so is the result.
    """
    chance = np.zeros(len(family))
    regions: dict[int, list[int]] = {}
    for number, each in enumerate(families):
        if any(each.step) and all(step in (*_APART, 0) for step in each.step):
            regions.setdefault(each.span[0] >> REGION_BITS, []).append(number)
    for members in regions.values():
        low = min(families[each].span[0] + int(np.min(families[each].offset[0])) for each in members)
        high = max(families[each].span[1] + int(np.max(families[each].offset[-1])) for each in members)
        chosen = np.isin(family, members)
        chance[chosen] = min(1.0, float(times[chosen].sum()) * SECTOR / max(high - low, SECTOR))
    return chance


def _mean_new(chance: np.ndarray, blocks: float) -> np.ndarray:
    """The chance that no block before touched a sector, mean over the first so many blocks."""
    touches = np.maximum(chance * blocks, 1e-12)
    return -np.expm1(-touches) / touches


def _runs(families: Sequence[_Family]) -> tuple[np.ndarray, np.ndarray]:
    start = np.concatenate([(each.start + np.concatenate(each.offset)[:, None]).ravel() for each in families])
    end = np.concatenate([(each.end + np.concatenate(each.offset)[:, None]).ravel() for each in families])
    order = np.argsort(start, kind="stable")
    return _merged(start[order], end[order])


def _before(grid: Dimensions) -> tuple[np.ndarray, np.ndarray]:
    """Where the blocks before a block can lie, seen from it: ([n, 3], how many blocks before [n])."""
    x, y, _ = grid
    back = np.arange(1, min(int(np.prod(grid)), _MOST_BLOCKS + 1))
    moves, distances = [], []
    for over_x in range(2 if x > 1 and back.size else 1):
        for over_y in range(2 if y > 1 and back.size else 1):
            along_x = over_x * x - back % x
            rest = back // x + over_x
            along_y = over_y * y - rest % y
            along_z = -(rest // y + over_y)
            possible = (along_x < x) & (along_y < y) & (-along_z < grid[2])
            moves.append(np.stack([along_x, along_y, along_z], axis=1)[possible])
            distances.append(back[possible])
    return np.concatenate(moves), np.concatenate(distances)


def _blocks_back(footprints: Sequence[_Footprint], room: float, most: int) -> int:
    """Blocks in a row whose footprints together fit."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(each.grown(middle) for each in footprints) <= room
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


# Local memory


def _local(loads: float, stores: float, machine: Machine, caches: Caches) -> Traffic:
    """Local memory: stores are written through, loads hit as far as there is room for what blocks have of
    it.
    """
    threads = machine.shape[1]
    of_sm = caches.stack_bytes * threads * caches.resident_blocks
    of_all = of_sm * min(caches.sm_count, machine.launch.blocks)
    in_l1 = kept_at_random(of_sm / max(caches.l1_bytes, 1.0))
    in_l2 = min(1.0, caches.l2_bytes / max(of_all, 1.0))
    past_l1 = (1.0 - in_l1) * loads
    return Traffic(
        loads, past_l1, (1.0 - in_l2) * past_l1, stores, min(1.0, of_all / caches.l2_bytes) * stores
    )


def kept_at_random(needed: float) -> float:
    """Share of hits where data of `needed` times a cache's size are gone through again and again, and what
    has to make room is chosen at random.

    Between two touches of a line (1 - hits) * needed * lines others come in; it outlives all with chance
    exp(-(1 - hits) * needed).
    """
    if needed <= 1.0:
        return 1.0
    low, high = 0.0, 1.0 / needed  # the solution below 1
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if np.exp(-(1.0 - middle) * needed) > middle else (low, middle)
    return low

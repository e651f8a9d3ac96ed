"""Counters by phase and addresses of a few blocks, in the layout of NVIDIA's.

So caches and explanations work on both. The threads of a block are the lanes of its waves, in order.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from dse.hardware.banks import passes as bank_passes
from dse.hardware.banks import passes_of_atomics
from dse.hardware.coalescing import SECTOR
from dse.source.amd.execute.access import returns
from dse.source.amd.execute.code import BARRIERS, Code
from dse.source.amd.execute.contents import MemoryMachine, PerformedAccess
from dse.source.amd.profile.pipes import Turns, kind_of
from dse.source.amd.profile.products import product
from dse.source.amd.text import Instruction
from dse.source.machine.launch import REGION_BITS, LaunchArguments
from dse.source.machine.patterns import Patterns
from dse.source.machine.products import Mma
from dse.source.machine.recorded import MEMORY_COUNTS, PhaseSpan, Stream
from dse.source.machine.thread_set import Lanes
from dse.source.profile.single_warp import times_of

_SPACES: dict[str, str] = {"lds": "shared", "scratch": "local", "vmem": "global"}  # of flat accesses
_HALF = 32  # lanes that the banks of the LDS serve at a time
_PASS = 128  # bytes
_CACHE_BYTES = 64  # a cycle, of the vector cache of GCN and CDNA
LOADS = 1.25  # more time of bytes there: times of dedispersion on the MI250X are 34 % off without it


@dataclass(frozen=True)
class CountedStep:
    """An instruction for counters and explanations."""

    index: int
    opcode: str
    line: int | None
    pipe: str
    counts: bool
    bytes: int
    memory: tuple[str, ...]
    stores: bool
    atomic: bool
    writes: tuple[int, ...]
    fp32_ops: int
    instruction: Instruction
    product: Mma | None = None  # of matrices
    joined: bool = False  # adjacent loads, which compilers before LLVM 15 merge into one wide load
    of_box = False
    reading = 0
    kind = ""
    guard_known = True

    @property
    def address(self) -> int:
        """Return the instruction's number, which serves as its address."""
        return self.index

    @property
    def text(self) -> str:
        """The instruction's text."""
        return str(self.instruction)

    def has(self, *modifiers: str) -> bool:
        """False: it has none of NVIDIA's modifiers."""
        return False


@dataclass
class BlockRecord:
    """The counters and addresses of executed blocks. Names as in `dse.source.nvidia.machine`."""

    launch: LaunchArguments
    program: Any  # its blocks are stretches of code, with steps
    bound: Any
    shape: tuple[int, int]  # blocks, threads
    wave_size: int
    threads: np.ndarray  # their numbers in a block
    estimated: bool  # whether some trips of loops are
    phases: list[PhaseSpan] = field(default_factory=list)
    phase_counts: list[np.ndarray | None] = field(default_factory=list)  # the last row: passes
    streams: list[Stream] = field(default_factory=list)
    together: int = 1  # sectors of a line of the vector cache, which loads fetch as a whole
    lds_end: int = 0  # behind all accesses


def record(
    code: Code,
    machine: MemoryMachine,
    turns: Turns,
    wide_rate: bool,
    joins: bool,
    only_addresses: bool = False,
) -> BlockRecord:
    """Count the executed instructions, phase by phase, or note `only_addresses` in global memory.

    With `joins`, adjacent loads from the LDS are one wide load.
    """
    return _Recorder(code, machine, turns, wide_rate, joins, only_addresses).record


def executions(machine: MemoryMachine, stretches: int) -> np.ndarray:
    """Count the waves and the lanes that execute each stretch of code: [2 * stretches, blocks]"""
    counts = np.zeros((2 * stretches, machine.shape[0]))
    times = times_of(machine)
    for (index, *_), entering, executed in zip(machine.trace, _entering(machine), times, strict=True):
        counts[2 * index : 2 * index + 2] += entering * executed
    return counts


def _entering(machine: MemoryMachine) -> list[np.ndarray]:
    """Count waves and lanes of each block in each executed stretch: [2, 1 or blocks]"""
    known: dict[tuple[int, int], np.ndarray] = {}  # by identity: loops repeat the same ones
    for _, waves, lanes in machine.trace:
        if (id(waves), id(lanes)) not in known:
            masks = waves.mask, lanes & waves.mask
            known[id(waves), id(lanes)] = np.array([mask.sum(axis=(1, 2)) for mask in masks], float)
    return [known[id(waves), id(lanes)] for _, waves, lanes in machine.trace]


def _neighbours(step: Instruction) -> bool:
    """Return whether an instruction loads two adjacent words of the LDS."""
    if step.opcode not in ("ds_read2_b32", "ds_load_2addr_b32"):
        return False
    first, second = (int(step.modifiers.get(name, "0"), 0) for name in ("offset0", "offset1"))
    return second == first + 1


@dataclass(eq=False)
class _Recorder:
    code: Code
    machine: MemoryMachine
    turns: Turns
    wide_rate: bool
    joins: bool
    only_addresses: bool

    def __post_init__(self) -> None:
        code, machine = self.code, self.machine
        spaces: dict[int, set[str]] = {}
        for access in machine.accesses:
            spaces.setdefault(access.index, set()).add(_SPACES.get(access.space, ""))
        steps = [self._step(step, spaces.get(step.index, ())) for step in code.listing.instructions]
        blocks = [
            SimpleNamespace(
                index=stretch.index,
                steps=[steps[step.index] for step in stretch.steps if steps[step.index].counts],
            )
            for stretch in code.stretches
        ]
        rows: dict[int, int] = {}
        at = 2 * len(blocks)
        for step in steps:
            if step.memory:
                rows[step.index] = at
                at += len(MEMORY_COUNTS)
        self.rows, self.height = rows, at
        count, waves, lanes = machine.shape
        self.record = BlockRecord(
            launch=machine.launch,
            program=SimpleNamespace(
                blocks=blocks, steps=steps, kernel=code.listing.name, arch=int(code.listing.target[3:], 16)
            ),
            bound=SimpleNamespace(memory_rows=rows, guard_rows={}, product_rows={}),
            shape=(count, waves * lanes),
            wave_size=lanes,
            together=self.turns.line // SECTOR,
            threads=machine.threads,
            estimated=bool(machine.estimated),
        )
        self.lanes: dict[int, tuple[np.ndarray, Lanes]] = {}
        self.bases: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.patterns = Patterns()
        self.waves: dict[int, tuple[np.ndarray, bool, np.ndarray]] = {}  # see `_by_wave`
        self._run()

    def _step(self, step: Instruction, spaces: Collection[str]) -> CountedStep:
        """Return an instruction for counters; `spaces` are those of its accesses, "" that of its name."""
        kind, alone = kind_of(step, self.wide_rate), next(iter(spaces)) if len(spaces) == 1 else ""
        access, pipe = kind.access, alone or kind.pipe  # of flat accesses, that of another memory alone
        atomic = access is not None and access.kind == "atomic"
        loads = access is not None and (access.kind == "load" or (atomic and returns(step, access)))
        return CountedStep(
            index=step.index,
            opcode=step.opcode,
            line=step.line,
            pipe=pipe,
            counts=kind.counts,
            bytes=0 if access is None else access.bytes,
            memory=("memory",) if access is not None and pipe in ("global", "shared", "local") else (),
            stores=access is not None and access.kind == "store",
            atomic=atomic,
            writes=(0,) if loads else (),
            fp32_ops=kind.fp32_ops,
            instruction=step,
            product=product(step, self.code.listing.wave_size) if kind.pipe == "tensor" else None,
            joined=self.joins and _neighbours(step),
        )

    def _run(self) -> None:
        machine, record = self.machine, self.record
        times, entering = times_of(machine), _entering(machine)
        accesses = iter(machine.accesses)
        access = next(accesses, None)
        opened = np.full(machine.shape[0], -1)
        for first, last, spans in self._spans():
            phase = self._phase_numbers(opened, spans)
            counted = () if self.only_addresses else set(phase.tolist())
            counters = {number: np.zeros((self.height + 1, machine.shape[0])) for number in counted}
            for number, rows in counters.items():
                rows[-1] += times[first] * (phase == number)
            for place in range(first, last):
                index = machine.trace[place][0]
                for number, rows in counters.items():
                    rows[2 * index : 2 * index + 2] += entering[place] * times[place] * (phase == number)
                while access is not None and access.at <= place + 1:
                    self._count(access, times[place], phase, counters)
                    access = next(accesses, None)
            for number, rows in counters.items():
                before = record.phase_counts[number]
                record.phase_counts[number] = rows if before is None else before + rows
            opened = np.where(spans >= 0, spans, opened)

    def _spans(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Cut the trace where waves leave a barrier: (start, end, the next barrier of blocks)."""
        machine, stretches = self.machine, self.code.stretches
        barriers = {
            stretch.index: stretch.steps[-1].index for stretch in stretches if stretch.end in BARRIERS
        }
        held = np.zeros((machine.shape[0], machine.shape[1], 1), bool)
        reached = np.full(machine.shape[0], -1)
        first = 0
        for place, (index, waves, _) in enumerate(machine.trace if barriers else ()):
            if (held & waves.mask).any():
                yield first, place, reached
                first, held, reached = place, np.zeros_like(held), np.full(machine.shape[0], -1)
            if index in barriers:
                held |= waves.mask
                reached[waves.mask.any(axis=(1, 2))] = barriers[index]
        yield first, len(machine.trace), reached

    def _phase_numbers(self, opened: np.ndarray, closed: np.ndarray) -> np.ndarray:
        """Return the numbers of the blocks' phases: [blocks]."""
        known = {(span.opened, span.closed): number for number, span in enumerate(self.record.phases)}
        numbers = []
        for key in zip(opened.tolist(), closed.tolist(), strict=True):
            if key not in known:
                known[key] = len(self.record.phases)
                self.record.phases.append(PhaseSpan(*key))
                self.record.phase_counts.append(None)
            numbers.append(known[key])
        return np.array(numbers)

    # Accesses

    def _count(
        self, access: PerformedAccess, times: float, phase: np.ndarray, counters: dict[int, np.ndarray]
    ) -> None:
        step = self.record.program.steps[access.index]
        row = self.rows.get(access.index)
        own = self.machine.kernarg_region  # and the next one: what comes with the launch
        if step.pipe == "constant" and int(access.base.flat[0]) >> REGION_BITS not in (own, own + 1):
            for at in range(0, step.bytes, SECTOR):
                self._note(access, phase, min(step.bytes, SECTOR), at)
        if row is None or not step.memory:
            return
        pipe: str = _SPACES.get(access.space) or step.pipe
        if pipe == "global" and access.lanes.any():  # none if all are out of their buffer's bounds
            self._note(access, phase, step.bytes)
        if self.only_addresses:
            return
        size = 2 * step.bytes if step.joined and not access.part else step.bytes
        counts = self._pattern(access, size, pipe) * times
        if access.part:  # the second address of one instruction
            counts = counts * np.array([[0.0], [1.0], [0.0 if step.joined else 1.0], [1.0]])
        for number, rows in counters.items():
            rows[row : row + len(MEMORY_COUNTS)] += counts * (phase == number)
        if pipe == "shared" and int(access.base.max()) + access.offset + size > self.record.lds_end:
            base = np.broadcast_to(access.base, np.broadcast_shapes(access.base.shape, access.lanes.shape))
            last = (base + access.offset & 0xFFFFFFFF).max(where=access.lanes, initial=-size)
            self.record.lds_end = max(self.record.lds_end, int(last) + size)

    def _note(self, access: PerformedAccess, phase: np.ndarray, size: int, at: int = 0) -> None:
        """Note the addresses of an access for the caches, from some bytes of it on."""
        lanes, base, offset = self._lanes(access.lanes), self._base(access.base), access.offset + at
        self.record.streams.append(
            Stream(access.index, phase, lanes, base, offset, size, trips=access.trips, stride=access.stride)
        )

    def _pattern(self, access: PerformedAccess, size_of_lane: int, pipe: str) -> np.ndarray:
        """Return requests, sectors, passes and lanes of one execution: [4, blocks]."""
        step, shift = self.record.program.steps[access.index], access.offset % _PASS
        atomic, fetches = step.atomic, not (step.stores or step.atomic)
        whole, threads = self._by_wave(access.lanes)

        def by_wave() -> tuple[Any, Any]:
            mask = np.ones((1, 1, self.machine.shape[2]), bool) if whole else access.lanes
            shape = (*np.broadcast_shapes(mask.shape, access.base.shape)[:1], *self.machine.shape[1:])
            mask = np.broadcast_to(mask, shape)
            address = np.broadcast_to(access.base + shift, shape)
            if pipe == "local":
                words = self._swizzled(address, -(-size_of_lane // 4))
                mask = np.concatenate([mask] * (words.shape[-1] // shape[-1]), -1)
                return self._lines(words, mask, 4, fetches)
            if pipe == "shared":
                return self._banks(address, mask, size_of_lane, atomic)
            return self._lines(address, mask, size_of_lane, fetches)

        def counts(asked: tuple[Any, Any]) -> np.ndarray:
            here = threads * access.waves.warps_here
            summed = np.empty((len(MEMORY_COUNTS), self.machine.shape[0]))
            for row, of_wave in enumerate((1, *asked, here)):
                summed[row] = (of_wave * (here > 0)).sum(-1)
            return summed

        kind, lanes = (shift, size_of_lane, pipe, atomic, fetches), (access.lanes, access.waves)
        return self.patterns.of(kind, lanes, whole, access.base, _PASS, by_wave, counts)

    def _by_wave(self, lanes: np.ndarray) -> tuple[bool, np.ndarray]:
        """Return (whether each wave has all or no lanes active, lanes of each wave)."""
        known = self.waves.get(id(lanes))
        if known is None:
            size = self.machine.shape[2]
            threads = np.broadcast_to(lanes, (*lanes.shape[:2], size)).sum(-1)
            whole = bool(np.isin(threads, (0, size)).all())
            known = self.waves[id(lanes)] = lanes, whole, threads
        return known[1:]

    def _banks(
        self, address: np.ndarray, mask: np.ndarray, size: int, atomic: bool
    ) -> tuple[Any, np.ndarray]:
        """Return no sectors, and the passes: by banks, of at most 128 bytes each.

        Unaligned wide accesses are served a few lanes at a time. Atomics on one word wait for each other:
        ROCm Compute Profiler counts them as address conflicts.
        """
        halves = (*address.shape[:2], address.shape[2] // _HALF, _HALF)
        address, mask = address.reshape(halves), mask.reshape(halves)
        passes = passes_of_atomics(address, mask) if atomic else bank_passes(address, mask, max(size, 4))
        if size > 4:
            unaligned = (mask & (address % (8 if size == 8 else 16) != 0)).any(-1)
            lanes = mask.sum(-1)
            passes = np.maximum(passes, -(-lanes * size // _PASS))
            passes = np.where(unaligned, np.maximum(passes, -(-lanes // self.turns.unaligned)), passes)
        return 0.0, passes.sum(-1)

    def _swizzled(self, address: np.ndarray, words: int) -> np.ndarray:
        """Return where the words of lanes are in scratch: [..., words * lanes].

        Words of the same number are adjacent, lane by lane, so lanes at other offsets touch other lines.

        **Source:** LLVM, "User Guide for AMDGPU Backend", on the private address space.
        """
        row = (address & 0xFFFFFFFF) >> 2
        lanes = address.shape[-1]
        return np.concatenate([4 * (lanes * (row + word) + np.arange(lanes)) for word in range(words)], -1)

    def _lines(self, address: np.ndarray, mask: np.ndarray, size: int, fetches: bool) -> tuple[Any, Any]:
        """Return sectors, whole lines of what it `fetches`, and the passes of the vector cache."""
        from dse.source.amd.profile import touched  # imports Numba

        words, per_line, lanes = max(size // 4, 1), self.record.together, mask.shape[-1]
        at, active = (np.ascontiguousarray(of_lanes).reshape(-1, lanes) for of_lanes in (address, mask))
        kept, waves = np.empty(lanes * words, np.int64), len(at)
        (lines, sectors), cycles = np.empty((2, waves), np.int64), np.empty(waves)
        touched.count_touches(at, active, size, per_line, kept, lines, sectors)
        if self.turns.quads:
            touched.cycles_of_quads(at, active, size, cycles)
            if size < 4:  # not measured: what they touch, and the words returned to registers
                least = np.maximum(lines * self.turns.line, 4 * active.sum(-1)) / _CACHE_BYTES
                cycles = np.maximum(cycles, least)
                cycles *= LOADS if fetches else 1.0
            passes = cycles * (_CACHE_BYTES / _PASS)
        else:
            busy = np.empty(touched.BUSY, np.int64)
            touched.cycles_of_banks(at, active, size, self.turns.line, kept, busy, cycles)
            passes = cycles
        lines, sectors, passes = (row.reshape(mask.shape[:-1]) for row in (lines, sectors, passes))
        return (per_line * lines, passes) if fetches else (sectors, passes)

    def _lanes(self, mask: np.ndarray) -> Lanes:
        known = self.lanes.get(id(mask))
        if known is None:
            shape = (mask.shape[0], *self.machine.shape[1:])
            flat = np.ascontiguousarray(np.broadcast_to(mask, shape)).reshape(mask.shape[0], -1)
            known = self.lanes[id(mask)] = (mask, Lanes(flat, self.record.shape))
        return known[1]

    def _base(self, base: np.ndarray) -> np.ndarray:
        known = self.bases.get(id(base))
        if known is None:
            rows = base.shape[0]
            flat = (
                base.reshape(rows, 1)
                if base.shape[1:] == (1, 1)
                else np.ascontiguousarray(np.broadcast_to(base, (rows, *self.machine.shape[1:]))).reshape(
                    rows, -1
                )
            )
            known = self.bases[id(base)] = (base, flat)
        return known[1]

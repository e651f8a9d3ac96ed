"""The state of executed blocks: registers, memory, live threads, counts."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dse.errors import DseError
from dse.source.machine.feeds import Feeds, Touch, written_by
from dse.source.machine.launch import (
    OF_VARIABLES,
    PARAMETERS,
    VARIABLE,
    ConstantBank,
    Dimensions,
    LaunchArguments,
    UnknownArgument,
    constant_bank,
)
from dse.source.machine.liveness import Purpose
from dse.source.machine.memory import GlobalMemory, LocalMemory, SharedMemory
from dse.source.machine.patterns import Patterns
from dse.source.machine.recorded import Estimated, PhaseSpan, Stream
from dse.source.machine.thread_set import WARP, Lanes, LaneSets
from dse.source.nvidia.sass.operands import PT, SLOTS, UPT, Operand, P
from dse.source.nvidia.sass.program import SassProgram, Step

_U32 = np.uint32

# The unknown data that a value depends on, one bit each: for all threads, or [1 or blocks, 1 or threads].
Taint = Any  # int or int64 array

MOST_PHASE_BYTES = 1 << 28  # of the counters of all phases: enough for thousands


class LocalSpan(NamedTuple):
    """Range of local memory that an instruction accessed."""

    start: int  # byte
    end: int
    moves: bool = False  # whether its executions had different addresses


def union(taint: Taint, lanes: Lanes) -> int:
    """Join the taints of `lanes`."""
    if isinstance(taint, int):
        return taint
    return int(np.bitwise_or.reduce(np.where(lanes.mask, taint, 0), axis=None))


_FRACTIONS = re.compile("U?V?[FH](?!LO|2I)")  # opcodes with results, or of operands, that are fractions


class ExtraSlots(dict[tuple[str, Any], int]):
    """The slots of constants, numbers and special registers, after those of registers."""

    size = SLOTS  # of all slots

    def of(self, kind: str, key: Any) -> int:
        """Return the slot of a constant, a number or a special register; pairs take two."""
        slot = self.get((kind, key))
        if slot is None:
            slot = self[kind, key] = self.size
            self.size += 2 if kind == "pair" or (kind == "number" and key[1] == 2) else 1
        return slot


class BoundProgram:
    """A program with a function for each instruction, for all of its launches.

    `dse.source.nvidia.execute.interpret.bind_program` makes it.
    """

    def __init__(
        self,
        program: SassProgram,
        live: list[int],
        global_stores: bool,
        purpose: Purpose = Purpose.COUNTS,
        like: "BoundProgram | None" = None,
        feeds: Feeds | None = None,
        only: frozenset[int] | None = None,
    ) -> None:
        """`like` is the same program bound for another purpose."""
        self.program, self.purpose, self.only = program, purpose, only
        self.live = live  # slots live at the start of each basic block, as bits
        self.global_stores, self.feeds = global_stores, feeds
        # whether it is noted what loads read from shared memory
        self.notes_touches = feeds is not None and purpose in (Purpose.COUNTS, Purpose.FEEDS)
        self.slots = ExtraSlots() if like is None else like.slots
        # rows of the counters: two per basic block, then those of steps
        self.rows = 2 * len(program.blocks)
        self.guard_rows: dict[int, int] = {}
        self.product_rows: dict[int, int] = {}  # of warps in products of matrices under a guard
        self.memory_rows: dict[int, int] = {}
        self.loads_global = any(
            step.needed and step.pipe == "global" and step.targets for step in program.steps
        )
        # (evaluate, slots written, slots read) of computed steps, for this purpose or that of `like`
        self.functions: dict[int, tuple[Callable[..., list[np.ndarray]], list[int], tuple[int, ...]]] = (
            {} if like is None else like.functions
        )
        self.actions: list[list[tuple[Step, Action]]] = []  # of each basic block
        # bound for other purposes, and only some instructions, on demand
        self.less: dict[tuple[Purpose, frozenset[int] | None], BoundProgram] = {}
        self.long_loops: set[int] = set()  # first blocks of loops that are examined from the start


class Machine:
    """The state of executed blocks, with all or only the given `warps` of each."""

    def __init__(
        self,
        bound: BoundProgram,
        launch: LaunchArguments,
        blocks: Sequence[Dimensions],
        warps: Sequence[int] | None = None,
    ) -> None:
        self.bound, self.launch, self.program, self.blocks = bound, launch, bound.program, blocks
        self.all_warps = warps is None
        numbers = np.arange(-(-launch.threads // WARP)) if warps is None else np.array(warps)
        self.threads = (numbers[:, None] * WARP + np.arange(WARP)).ravel()  # their numbers in the block
        self.shape, self.together = (len(blocks), len(self.threads)), 1  # the L1 fetches single sectors
        self.sets = LaneSets(self.shape)
        self.sources: list[str] = []  # of unknown data; bit n of a taint is sources[n]
        self.source_bits: dict[str, int] = {}
        self.r: list[np.ndarray] = [np.zeros((1, 1), _U32)] * bound.slots.size
        for slot in range(P, SLOTS):
            self.r[slot] = np.zeros((1, 1), bool)
        for slot in (PT, UPT):
            self.r[slot] = np.ones((1, 1), bool)
        self.taint: list[Taint] = [0] * bound.slots.size
        self._set_constants(blocks)
        for slot in range(UPT + 1, SLOTS):
            self.r[slot] = np.zeros((1, 1), _U32)
        self.live_mask = self.threads[None, :] < launch.threads
        self.live = int(self.live_mask.sum()) * len(blocks)
        self.counts = np.zeros((bound.rows, len(blocks)))
        self.phases = [PhaseSpan(-1)]
        self.phase = np.zeros(len(blocks), int)
        self.phase_counts: list[np.ndarray | None] = [None]  # counts of finished phases
        self.kept_bytes = 0  # by them
        # of some blocks' last phase between two barriers
        self.last_counts: dict[tuple[int, int, bytes], np.ndarray] = {}
        self.shared, self.local, self.memory = (
            SharedMemory(len(blocks)),
            LocalMemory(),
            GlobalMemory(replace(launch, arguments=[*launch.arguments, *launch.variables.values()])),
        )
        self.streams: list[Stream] = []
        self.touches: list[Touch] = []  # of shared memory, if they are noted
        self.moved: set[int] = set()  # steps that touch other places of it in skipped trips
        self.shared_end = 0  # of the bytes that are accessed
        self.local_spans: dict[int, LocalSpan] = {}  # by step
        self.trace: list[tuple[int, Lanes]] = []  # basic blocks in the order of execution
        self.repeats: list[tuple[int, int, int]] = []  # of the trace: (start, end, more times)
        self.estimated: dict[int, Estimated] = {}  # by the first basic block of a loop
        self.irregular: dict[int, str] = {}  # first block of a loop that cannot be skipped → reason
        self.unknown: dict[tuple[int, str], int] = {}  # (step, what of it) → taint
        self._unsupported: dict[int, tuple[Step, str]] = {}  # by taint
        self.missed_stores = False
        self.patterns = Patterns()
        self.bases: dict[tuple, tuple] = {}
        self.followed: dict[int, tuple[Lanes, np.ndarray]] = {}  # last addresses of each step
        self.guards: dict[tuple, tuple] = {}

    def _set_constants(self, blocks: Sequence[Dimensions]) -> None:
        """Set the slots of numbers, constants and special registers."""
        launch = self.launch
        bank = constant_bank(self.program.kernel, self.program.arch, launch)
        self.owners, self.parameters = bank.owners, bank.parameters
        thread = self.threads.astype(_U32)[None, :]
        x, y, _ = launch.block
        special = {
            "SR_TID.X": thread % _U32(x),
            "SR_TID.Y": thread // _U32(x) % _U32(y),
            "SR_TID.Z": thread // _U32(x * y),
            "SR_LANEID": thread % _U32(WARP),
            "SR_CgaCtaId": np.zeros((1, 1), _U32),  # the block's number in its cluster
            "SR_CgaSize": np.full((1, 1), np.prod(launch.cluster), _U32),
            "SR_LTMASK": (_U32(1) << thread % _U32(WARP)) - _U32(1),
            "SR_EQMASK": _U32(1) << thread % _U32(WARP),
            "SR_GTMASK": ~((_U32(2) << thread % _U32(WARP)) - _U32(1)),
            "SR_LEMASK": (_U32(2) << thread % _U32(WARP)) - _U32(1),
            "SR_GEMASK": ~((_U32(1) << thread % _U32(WARP)) - _U32(1)),
        }
        if launch.cluster != (1, 1, 1):
            inside = (np.array(blocks) % launch.cluster) @ np.cumprod((1, *launch.cluster[:2]))
            special["SR_CgaCtaId"] = inside[:, None].astype(_U32)
        for axis, name in enumerate("XYZ"):
            special[f"SR_CTAID.{name}"] = np.array([[block[axis]] for block in blocks], _U32)
            special[f"SR_NCTAID.{name}"] = np.full((1, 1), launch.grid[axis], _U32)
        for (kind, key), slot in self.bound.slots.items():
            if kind == "number":
                bits, words = key
                for word in range(words):
                    self.r[slot + word] = np.full((1, 1), bits >> 32 * word & 0xFFFFFFFF, _U32)
            elif kind == "special" and key in special:
                self.r[slot] = special[key]
            elif kind == "bank":
                self.r[slot], self.taint[slot] = self._bank(bank, key)
            elif kind == "special":
                self.taint[slot] = self.source(
                    "a generic address of shared memory" if "SWIN" in str(key) else f"special register {key}"
                )
            else:
                number, offset, size = (*key, 4)[:3]
                for word in range(2 if kind == "pair" else 1):
                    self.r[slot + word], self.taint[slot + word] = self._constant(
                        bank, number, offset + 4 * word, size
                    )

    def _constant(self, bank: ConstantBank, number: int, offset: int, size: int) -> tuple[np.ndarray, int]:
        """Return (value, taint) of up to a word at an address in constant memory."""
        if number == 0:
            word, shift, taint = offset & ~3, 8 * (offset & 3), 0
            for owner in {bank.owners.get(place, -1) for place in range(offset, offset + size)}:
                if owner >= 0 and isinstance(self.launch.arguments[owner], UnknownArgument):
                    taint |= self.source(f"argument {owner}")
            if offset >= bank.parameters and word not in bank.words:
                taint = self.source(f"parameter at 0x{offset:x}")
            value = bank.words.get(word, 0) >> shift & (1 << 8 * size) - 1
            return np.full((1, 1), value, _U32), taint
        content = self.launch.banks.get(number)
        if content is None or offset + size > len(content):
            return np.zeros((1, 1), _U32), self.source(f"constant bank {number}")
        word = np.full((1, 1), int.from_bytes(content[offset : offset + size], "little"), _U32)
        names = [name for name, place in self.launch.unset.items() if offset in place]
        return word, self.source(VARIABLE + names[0]) if number == OF_VARIABLES and names else 0

    def _bank(self, bank: ConstantBank, number: int) -> tuple[np.ndarray, int]:
        """Return (words [1, n], taint) of a bank of constant memory."""
        if number == 0:
            words = np.zeros((1, max(bank.words) // 4 + 1), _U32)
            for offset, word in bank.words.items():
                words[0, offset // 4] = word
            unknown = any(isinstance(argument, UnknownArgument) for argument in self.launch.arguments)
            return words, self.source("arguments") if unknown else 0
        content = self.launch.banks.get(number)
        if not content:
            return np.zeros((1, 1), _U32), self.source(f"constant bank {number}")
        taint = 0
        if number == OF_VARIABLES and not any(content):
            for name, place in self.launch.unset.items():
                taint |= self.source(VARIABLE + name) if len(place) > 8 else 0  # numbers have no index
        return np.frombuffer(content + bytes(-len(content) % 4), _U32)[None, :], taint

    def argument_at(self, address: int) -> int:
        """Return the argument at an address of the parameters; -1 if there is none."""
        return self.owners.get(address - PARAMETERS + self.parameters, -1)

    def source(self, name: str) -> int:
        """Return the taint of a source of unknown data."""
        if name not in self.source_bits:
            self.source_bits[name] = 1 << len(self.sources)
            self.sources.append(name)
        return self.source_bits[name]

    def unsupported(self, step: Step, reason: str) -> int:
        """Return the taint of the result of an unsupported instruction."""
        bit = self.source(f"results of {step.opcode}")
        self._unsupported.setdefault(bit, (step, reason))
        return bit

    # Registers

    def write(self, slot: int, value: np.ndarray, taint: Taint, lanes: Lanes) -> None:
        """Write a slot in some threads; the others keep their values."""
        if lanes.total == self.live:
            self.r[slot] = value
            self.taint[slot] = taint
        else:
            self.r[slot] = np.where(lanes.mask, value, self.r[slot])
            old = self.taint[slot]
            if old is not taint and not (isinstance(old, int) and isinstance(taint, int) and old == taint):
                self.taint[slot] = np.where(lanes.mask, np.int64(taint), np.int64(old))

    def under_guard(self, step: Step, lanes: Lanes) -> Lanes | None:
        """Return those of `lanes` whose guard holds; None if empty."""
        if step.guard < 0:
            return lanes
        return self.where(step.guard, step.guard_negated, lanes)

    def where(self, slot: int, negated: bool, lanes: Lanes) -> Lanes | None:
        """Return those of `lanes` where a predicate holds; None if empty."""
        predicate = self.r[slot]
        if predicate.size == 1:
            return lanes if bool(predicate.flat[0]) != negated else None
        key = (slot, negated, id(lanes))
        known = self.guards.get(key)
        if known is None or known[0] is not predicate or known[1] is not lanes:
            mask = lanes.mask & (~predicate if negated else predicate)
            holding = self.sets.of(mask)
            holding = lanes if holding.total == lanes.total else holding if holding.total else None
            if len(self.guards) > 500:
                self.guards.clear()
            known = self.guards[key] = (predicate, lanes, holding)
        return known[2]

    def where_all(self, operands: Sequence[Operand], lanes: Lanes | None) -> Lanes | None:
        """Return those of `lanes` where all predicates among some operands hold; None if empty."""
        for operand in operands:
            if operand.kind == "predicate" and lanes is not None:
                lanes = self.where(operand.slot, operand.negate, lanes)
        return lanes

    def rest(self, lanes: Lanes, taken: Lanes | None) -> Lanes | None:
        """Return those of `lanes` that are not in `taken`; None if empty."""
        if taken is None:
            return lanes
        if taken.total == lanes.total:
            return None
        return self.sets.of(lanes.mask & ~taken.mask)

    def note_unknown(self, step: Step, what: str, taint: Taint, lanes: Lanes) -> None:
        """Record that a step depends on unknown data.

        **Raises:** DseError if an address or a branch depends on an unsupported result. Fractions, such as
        results of tensor cores and in half precision, count as unknown data of a branch instead.
        """
        if isinstance(taint, np.ndarray):
            taint = union(taint, lanes)
        if taint:
            for bit, (unsupported, reason) in self._unsupported.items():
                fractions = unsupported.pipe == "tensor" or _FRACTIONS.match(unsupported.opcode)
                data = what == "branch" and fractions
                if taint & bit and what != "guard" and not data:  # a guard affects only one access
                    raise self.program.error(
                        unsupported, f"found {reason}, expected what an address or a branch may depend on"
                    )
            self.unknown[step.index, what] = self.unknown.get((step.index, what), 0) | taint

    # Addresses

    def base(self, step: Step, address: Operand, wide: bool) -> np.ndarray:
        """Add up the registers of an address: int64, [1 or blocks, 1 or threads]."""
        key = (address.bases, wide)
        values = [self.r[slot] for slot, _, _ in address.bases]
        if wide:
            values += [self.r[slot + 1] for slot, _, narrow in address.bases if not narrow]
        known = self.bases.get(key)
        if known is not None and all(a is b for a, b in zip(known[0], values, strict=True)):
            return known[1]
        total: Any = None
        for slot, factor, narrow in address.bases:
            if wide and not narrow:
                term = self.r[slot + 1].astype(np.int64)
                term <<= 32
                term = term | self.r[slot]
            else:
                term = self.r[slot].astype(np.int64)
            term = term if factor == 1 else term * factor
            total = term if total is None else total + term
        if total is None:
            total = np.zeros((1, 1), np.int64)
        if not wide:
            total = total & 0xFFFFFFFF
        self.bases[key] = (values, total)
        return total

    # Control

    def exit(self, lanes: Lanes) -> None:
        """End these threads."""
        self.live_mask = self.live_mask & ~lanes.mask
        self.live -= lanes.total

    def live_threads(self) -> np.ndarray:
        """Count the threads that have not ended: [blocks]"""
        return np.broadcast_to(np.count_nonzero(self.live_mask, axis=1), self.shape[:1])

    def close_phase(self, blocks: np.ndarray, address: int) -> None:
        """End the phase of these blocks at a barrier, which starts the next; -1: at the kernel's end."""
        if self.bound.purpose is Purpose.CONTROL and address >= 0:
            return  # many blocks are counted without phases
        for number in np.unique(self.phase[blocks]).tolist():
            members = blocks & (self.phase == number)
            phase = self.phases[number]
            if members.sum() < (self.phase == number).sum():  # other blocks are still in it
                self.phases.append(PhaseSpan(phase.opened))
                self.phase_counts.append(None)
                for stream in reversed(self.streams):  # what these blocks accessed in it moves, too
                    there = members & (stream.phase == number)
                    if not there.any():
                        break
                    stream.phase[there] = len(self.phases) - 1
                moved = self.phase.copy()
                moved[members] = number = len(self.phases) - 1
                self.phase, phase = moved, self.phases[number]
            phase.closed = address
            if self.bound.purpose is not Purpose.ADDRESSES:  # for those, nobody takes the counts
                self.phase_counts[number] = self._counted(members, (phase.opened, address))
            if address >= 0:
                self.phases.append(PhaseSpan(address))
                self.phase_counts.append(None)
                moved = self.phase.copy()
                moved[members] = len(self.phases) - 1
                self.phase = moved

    def _counted(self, members: np.ndarray, span: tuple[int, int]) -> np.ndarray:
        """Take the counters of these blocks, which begin again at 0."""
        counted = np.where(members, self.counts, 0.0)
        self.counts = np.where(members, 0.0, self.counts)
        key = *span, members.tobytes()  # other blocks may come through it in between
        if np.array_equal(counted, last := self.last_counts.get(key, np.empty(0))):
            return last  # equal phases, as of a loop's trips, share one array
        self.kept_bytes += counted.nbytes
        self.last_counts[key] = counted
        if self.kept_bytes > MOST_PHASE_BYTES:
            raise DseError(
                f"{self.program.kernel}: found {len(self.phases):,} barriers passed, expected fewer"
            )
        return counted

    def fed(self) -> Feeds:
        """Return which stores wrote last what each load from shared memory reads."""
        unit = min(
            (step.bytes for step in self.program.steps if step.stores_shared and not step.of_box), default=4
        )
        return written_by(self.touches, self.shape[0], min(unit, 4), self.moved)

    def sources_of(self, taint: int) -> tuple[str, ...]:
        """Return the names of the unknown data in a taint."""
        return tuple(name for bit, name in enumerate(self.sources) if taint >> bit & 1)


Action = Callable[[Machine, Lanes], None]  # executes one step of a basic block

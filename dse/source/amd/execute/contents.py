"""Loads and stores of the machine, with the known contents of memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.atomics import changed, compared_and_swapped
from dse.source.amd.execute.memory_names import MemoryAccess
from dse.source.amd.execute.slots import CONSTANTS, M0
from dse.source.amd.execute.state import U32, MaskedWords, WaveMachine, Waves, joined, written
from dse.source.machine.launch import REGION_BITS
from dse.source.machine.memory import SharedMemory, distinct_addresses, narrow, regions_of
from dse.source.machine.recorded import Estimated

Words = list[Any] | None  # of each access; None: unknown


class PerformedAccess(NamedTuple):
    """One execution of an instruction that accesses memory."""

    index: int  # of the instruction  # pyright: ignore[reportIncompatibleMethodOverride]
    space: str  # "": that of its name
    base: np.ndarray  # bytes, broadcasts to [blocks, waves, lanes]
    offset: int
    lanes: np.ndarray  # active ones
    waves: Waves
    at: int  # index in the trace
    part: int  # of an instruction with two addresses
    # A skipped loop has trips before and after the executed one, number 0; addresses advance by `stride`
    # bytes from trip to trip.
    trips: range = range(1)
    stride: float = 0


class MemoryMachine(WaveMachine):
    """A machine with memory."""

    exact = False  # whether no trips of loops may be estimated

    def __init__(self, *launch: Any, assume_zeros: bool = False, atomics: bool = True) -> None:
        super().__init__(*launch)
        self.assume_zeros = assume_zeros  # in memory of unknown contents
        self.atomics = atomics  # whether what those on global memory return is known
        self.accesses: list[PerformedAccess] = []
        self.trace: list[tuple[int, Waves, np.ndarray]] = []  # stretches in the order of execution
        self.repeats: list[tuple[int, int, int]] = []  # of the trace: (start, end, more times)
        self.estimated: dict[int, Estimated] = {}  # by the first stretch of a loop
        self.irregular: dict[int, str] = {}  # first stretch of a loop that cannot be skipped → reason
        self.lds = SharedMemory(self.shape[0])  # unknown words have a taint of 1
        self.zeros: set[int] = set()  # regions of arguments of unknown contents that are loaded as zeros
        self.outside: set[int] = set()  # regions of which more is loaded than there is
        self.scratch: dict[int, Any] = {}  # words by address, in the form of registers
        self._bases: dict[tuple[int, ...], tuple[list[Any], np.ndarray]] = {}
        self._rows = np.arange(self.shape[0]).reshape(-1, 1, 1)

    @cached_property
    def products(self) -> np.ndarray | None:
        """Words of a product of matrices, which is not computed: fractions where others count as zeros."""
        fractions = np.random.default_rng(0).random((1, *self.shape[1:]), np.float32)
        return (2 * fractions - 1).view(U32) if self.assume_zeros else None

    # Addresses

    def base(self, slots: Sequence[int], pairs: Sequence[bool]) -> np.ndarray | None:
        """Add up registers (pairs have 64 bits) to an address; None if unknown."""
        key = tuple(slots)
        values = [self.r[slot] for slot in slots if slot >= 0]
        values += [self.r[slot + 1] for slot, pair in zip(slots, pairs, strict=True) if pair and slot >= 0]
        known = self._bases.get(key)
        if known is not None and len(known[0]) == len(values) and all(map(is_, known[0], values)):
            return known[1]
        total: np.ndarray | None = None
        certain = True
        for slot, pair in zip(slots, pairs, strict=True):
            if slot < 0:
                continue
            low = self.words(slot)
            high = self.words(slot + 1) if pair else None
            if low is None or (pair and high is None):
                return None
            certain &= self.r[slot].__class__ is np.ndarray and (
                not pair or self.r[slot + 1].__class__ is np.ndarray
            )
            part = low.astype(np.int64) if high is None else joined(low, high).view(np.int64)
            total = part if total is None else total + part
        total = np.zeros((1, 1, 1), np.int64) if total is None else total
        if certain:
            self._bases[key] = (values, total)
        return total

    @contextmanager
    def only(self, lanes: np.ndarray) -> Iterator[None]:
        """Execute with only these lanes in this block."""
        before, self.active = self.active, lanes
        try:
            yield
        finally:
            self.active = before

    def note(
        self,
        index: int,
        base: np.ndarray,
        offset: int,
        lanes: np.ndarray | None = None,
        space: str = "",
        part: int = 0,
    ) -> None:
        """Record an access."""
        taking_part = self.lanes() if lanes is None else lanes
        self.accesses.append(
            PerformedAccess(index, space, base, offset, taking_part, self.running, len(self.trace), part)
        )

    # Registers, of which the words of scratch are more: ("scratch", address)

    def held(self) -> dict[Any, Any]:
        """Return the contents of all registers."""
        return dict(enumerate(self.r[:CONSTANTS])) | {("scratch", at): x for at, x in self.scratch.items()}

    def register(self, slot: Any) -> Any:
        """Return the contents of a register."""
        return self.scratch.get(slot[1]) if isinstance(slot, tuple) else self.r[slot]

    def hold(self, slot: Any, value: Any) -> None:
        """Set the contents of a register."""
        if isinstance(slot, tuple):
            self.scratch[slot[1]] = value
        else:
            self.r[slot] = value

    def data(self, slot: int, accessed: MemoryAccess) -> Words:
        """Return the words to store; None if any is unknown: zeros of comparisons, if zeros are assumed."""
        words = []
        for word in range(accessed.words * (1 + accessed.compares)):
            value = self.words(slot + word)
            if value is None and self.assume_zeros and accessed.compares:
                value = np.zeros((1, 1, 1), U32)
            if value is None:
                return None
            words.append(value >> U32(16) if accessed.half == "hi" else value)
        return words

    def is_unknown(self, slot: Any) -> bool:
        """Return whether a register is unknown in all active lanes."""
        value = self.register(slot)
        if value is None or value.__class__ is not MaskedWords:
            return value is None
        return not (self.lanes() & ~value.unknown).any()

    def write_loaded(self, slot: int, words: Words, accessed: MemoryAccess) -> None:
        """Write loaded words to registers."""
        if words is None:
            for word in range(accessed.words):
                self.write_vector(slot + word, None)
            return
        if accessed.bytes < 4 and accessed.signed:
            up = np.int32(32 - 8 * accessed.bytes)
            words = [((words[0].view(np.int32) << up) >> up).view(U32)]
        if accessed.half:
            old = self.words(slot)
            old = np.zeros((1, 1, 1), U32) if old is None else old
            low = U32(0xFFFF)
            words = [
                old & low | words[0] << U32(16) if accessed.half == "hi" else old & ~low | words[0] & low
            ]
        for word, value in enumerate(words):
            self.write_vector(slot + word, value)

    # Global memory

    def _unstated(self, base: np.ndarray, offset: int, lanes: np.ndarray) -> bool:
        """Return whether all accessed contents are unknown; fast if no contents are stated."""
        if self.stated:
            return False
        return not self.assume_zeros and int(base.flat[0] + offset) >> REGION_BITS not in (
            self.kernarg_region,
            self.kernarg_region + 1,
        )

    def load_global(self, base: np.ndarray, offset: int, accessed: MemoryAccess, spaces: Any = None) -> Words:
        """Load words."""
        lanes = self.lanes()
        if spaces is not None:
            return self._load_flat(base, offset, accessed, spaces)
        if accessed.transposed or self._unstated(base, offset, lanes):
            return None
        address = base + offset
        if address.shape == (1, 1, 1):
            return self._words_at(address, accessed.bytes)
        shape = np.broadcast_shapes(address.shape, lanes.shape)
        active, address = np.broadcast_to(lanes, shape), np.broadcast_to(address, shape)
        everywhere = bool(lanes.all())
        words = self._words_at(address.ravel() if everywhere else address[active], accessed.bytes)
        if words is None:
            return None
        return [word.reshape(shape) if everywhere else _placed(word, active) for word in words]

    def _load_flat(self, base: np.ndarray, offset: int, accessed: MemoryAccess, spaces: Any) -> Words:
        result = [np.zeros((1, 1, 1), U32)] * accessed.words
        for space, lanes in spaces:
            with self.only(lanes):
                if space == "lds":
                    words = self.load_lds(base & 0xFFFFFFFF, offset, accessed)
                elif space == "scratch":
                    words = self.load_scratch(base & 0xFFFFFFFF, offset, accessed)
                else:
                    words = self.load_global(np.where(lanes, base, _first(base, lanes)), offset, accessed)
            if words is None:
                return None
            result = [np.where(lanes, new, old) for new, old in zip(words, result, strict=True)]
        return result

    def _words_at(self, address: np.ndarray, size: int) -> Words:
        for region in regions_of(address):
            contents = self.memory.regions.get(region)
            if contents is None or region in self.poisoned:
                if not self.assume_zeros:
                    return None
                self.zeros |= {region} if region <= len(self.launch.arguments) else set()
        words, _, outside = self.memory.load(address, size)
        outside = {region for region in outside if region <= len(self.launch.arguments)}
        self.outside |= outside - {0}  # where a pointer without contents leads
        return None if outside and not self.assume_zeros else words

    def load_scalar(self, address: np.ndarray, accessed: MemoryAccess) -> Words:
        """Load words of a wave."""
        if address.size == 1 and int(address.flat[0]) >> REGION_BITS == self.kernarg_region:
            offset = int(address.flat[0]) - self.kernarg
            for start, end in self.unknown_arguments if not self.assume_zeros else ():
                if offset < end and offset + accessed.bytes > start:
                    return self._arguments_around(address, accessed)
        if address.size > 1:  # ended waves, too, hold anything
            address = np.where(self.running.mask, address, _first(address, self.running.mask))
        flat = self._words_at(address.reshape(-1), accessed.bytes)
        return None if flat is None else [word.reshape(address.shape) for word in flat]

    def _arguments_around(self, address: np.ndarray, accessed: MemoryAccess) -> Words:
        """Load words of which some belong to unstated arguments."""
        flat = self.memory.load(address.reshape(-1), accessed.bytes)[0]
        words: list[Any] = []
        for word, value in enumerate(flat):
            offset = int(address.flat[0]) - self.kernarg + 4 * word
            missing = any(offset < end and offset + 4 > start for start, end in self.unknown_arguments)
            words.append(None if missing else value.reshape(address.shape))
        return words

    def store_global(
        self, base: np.ndarray, offset: int, accessed: MemoryAccess, words: Words, spaces: Any = None
    ) -> None:
        """Store words, if contents are followed."""
        lanes = self.lanes()
        for space, mask in spaces or ():
            with self.only(mask):
                if space == "lds":
                    self.store_lds(base & 0xFFFFFFFF, offset, accessed, words)
                elif space == "scratch":
                    self.store_scratch(base & 0xFFFFFFFF, offset, accessed, words)
                else:
                    self.store_global(np.where(mask, base, _first(base, mask)), offset, accessed, words)
        if spaces is not None or not self.stated:
            return
        shape = np.broadcast_shapes(base.shape, lanes.shape, *(word.shape for word in words or ()))
        active = np.broadcast_to(lanes, shape)
        address = np.broadcast_to(base + offset, shape)[active]
        if words is None:
            self.poisoned.update(
                region for region in regions_of(address) if self.memory.regions.get(region) is not None
            )
            return
        self.memory.store(address, accessed.bytes, [np.broadcast_to(word, shape)[active] for word in words])

    def atomic_global(self, base: np.ndarray, offset: int, accessed: MemoryAccess, words: Words) -> Words:
        """Change words lane by lane; return their old values.

        Comparisons see only their own wave. In unstated memory, one lane finds what it wants in each word.
        """
        zeros = [np.zeros((1, 1, 1), U32)] * accessed.words if self.assume_zeros else None
        followed = self.stated and (self.atomics or self.assume_zeros)
        if not followed and (zeros is None or not accessed.compares):
            return zeros
        active = np.broadcast_to(self.lanes(), self.shape)  # for each block, even if they are equal
        address = np.broadcast_to(base + offset, self.shape)[active]
        regions = regions_of(address)
        stated = [region for region in regions if self.memory.regions.get(region) is not None]
        known = len(stated) == len(regions) and self.memory.repeats.isdisjoint(regions)
        values = [np.broadcast_to(word, self.shape)[active] for word in words or ()]
        if accessed.compares and words is not None:
            known &= self.poisoned.isdisjoint(regions)
            if not known and zeros is None and len(stated) < len(regions):
                return None
            old = self.memory.load(address, accessed.bytes)[0] if known else None
            read, new, stores = compared_and_swapped(active, address, old, values)
            self.memory.store(address[stores], accessed.bytes, new)
            return [_placed(word, active) for word in read]
        if words is None or not known:
            self.poisoned.update(stated)
            return zeros
        old = self.memory.load(address, accessed.bytes)[0]
        block, stands_for = np.nonzero(active)[0], self.launch.blocks / self.shape[0]
        read, new = changed(accessed, address, old, values, block, stands_for)
        self.memory.store(address, accessed.bytes, new)
        return [_placed(word, active) for word in read]

    # LDS

    def _lds_places(self, base: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (active lanes, their rows, their addresses, which wrap at 32 bits)."""
        lanes = self.lanes()
        shape = np.broadcast_shapes(base.shape, lanes.shape, (self.shape[0], 1, 1))
        active = np.broadcast_to(lanes, shape)
        address = np.broadcast_to(base + offset & 0xFFFFFFFF, shape)[active]
        return active, np.broadcast_to(self._rows, shape)[active], address

    def load_lds(self, base: np.ndarray, offset: int, accessed: MemoryAccess) -> Words:
        """Load words, which are known if words in LDS are followed."""
        if accessed.transposed:
            return None
        active, row, address = self._lds_places(base, offset)
        if self.lds.taint(row, address, accessed.bytes):
            return None
        return [_placed(word, active) for word in self.lds.load(row, address, accessed.bytes)]

    def store_lds(self, base: np.ndarray, offset: int, accessed: MemoryAccess, words: Words) -> None:
        """Store words, if words in LDS are followed."""
        active, row, address = self._lds_places(base, offset)
        stored = words or [np.zeros((1, 1, 1), U32)] * accessed.words
        values = [np.broadcast_to(value, active.shape)[active] for value in stored]
        self.lds.store(row, address, accessed.bytes, values, taint=int(words is None))

    def store_behind_m0(self, accessed: MemoryAccess, words: Words, offset: int) -> None:
        """Store the words loaded by adjacent lanes in the LDS, from the address in M0 on."""
        start = self.words(M0)
        if start is None:
            raise DseError("found a place in the LDS that is not computed, expected one in M0")
        address = (start & U32(0xFFFF)).astype(np.int64) + accessed.bytes * np.arange(self.shape[2])
        self.store_lds(address, offset, accessed, words)

    def atomic_lds(
        self, base: np.ndarray, offset: int, accessed: MemoryAccess, operands: list[Words]
    ) -> Words:
        """Change words lane by lane; return their old values."""
        active, row, address = self._lds_places(base, offset)
        values = [np.broadcast_to(word, active.shape)[active] for words in operands for word in words or ()]
        one = len(operands) == 1
        if None in operands or not (one or accessed.operation.startswith("cmpst")):
            self.store_lds(base, offset, accessed, None)
            return None
        if self.lds.taint(row, address, accessed.bytes):
            return None
        if not one:
            place, old = address + (row << 32), self.lds.load(row, address, accessed.bytes)
            if accessed.operation.startswith("cmpst "):  # before RDNA 3 what is compared comes first
                values = values[len(old) :] + values[: len(old)]
            read, new, stores = compared_and_swapped(active, place, old, values)
            self.lds.store(row[stores], address[stores], accessed.bytes, new)
            return [_placed(word, active) for word in read]
        read, new = changed(
            accessed, address + (row << 32), self.lds.load(row, address, accessed.bytes), values, row
        )
        self.lds.store(row, address, accessed.bytes, new)
        return [_placed(word, active) for word in read]

    # Scratch

    def load_scratch(self, base: np.ndarray, offset: int, accessed: MemoryAccess) -> Words:
        """Load words that the same lanes stored."""
        address = base + offset
        words = []
        for word in range(accessed.words):
            value: Any = np.zeros((1, 1, 1), U32)
            lanes = self.lanes()
            for at, here in distinct_addresses(address, lanes):
                stored = self.scratch.get(at + 4 * word & ~3)
                stored = self.known(0, stored) if stored is not None else None
                if stored is None:
                    return None
                value = stored if here is None else np.where(here, stored, value)
            words.append(narrow(value, address, accessed.bytes) if accessed.bytes < 4 else value)
        return words

    def store_scratch(self, base: np.ndarray, offset: int, accessed: MemoryAccess, words: Words) -> None:
        """Store words that the same lanes may load."""
        address = base + offset
        for at, here in distinct_addresses(address, self.lanes()):
            for word in range(accessed.words):
                word_address = at + 4 * word & ~3
                value = None if words is None else words[word]
                if accessed.bytes < 4 and value is not None:
                    old = self.scratch.get(word_address)
                    old = np.zeros((1, 1, 1), U32) if old is None or old.__class__ is not np.ndarray else old
                    shift = U32(8 * (at & 3))
                    bits = U32((1 << 8 * accessed.bytes) - 1) << shift
                    value = old & ~bits | value << shift & bits
                lanes = self.active if here is None else here & self.lanes()
                if lanes is not None:
                    value = written(self.scratch.get(word_address), value, lanes)
                self.scratch[word_address] = value


def _first(values: np.ndarray, where: np.ndarray) -> Any:
    """Return one of the selected values."""
    shape = np.broadcast_shapes(values.shape, where.shape)
    return np.broadcast_to(values, shape)[np.broadcast_to(where, shape)][0]


def _placed(values: np.ndarray, active: np.ndarray) -> np.ndarray:
    """Scatter values to the active lanes."""
    full = np.zeros(active.shape, U32)
    full[active] = values
    return full

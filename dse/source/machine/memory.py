"""The contents of shared, local and stated global memory that addresses and branches need."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from dse.source.machine.launch import MIDDLE, REGION_BITS, LaunchArguments, Pointer, pointers
from dse.source.machine.trips import TripLimits

_U32 = np.uint32
_FEW = 64  # words
_RESERVED_ADDRESS_BITS = 0xFFFFFF  # of shared memory; those above name a block of the cluster


class _Words:
    """What is kept of words: mostly the same in all blocks; where blocks differ, a row with one for each."""

    def __init__(self, blocks: int, kind: Any, *shape: int) -> None:
        self.blocks = blocks
        self.apart = np.zeros(1024, bool)  # of each word: whether blocks differ
        self.row = np.full(1024, -1)  # of each word; -1 if they never did
        self.rows = 0
        self.same = np.zeros((1024, *shape), kind)  # 0 where blocks differ
        self.own = np.zeros((0, blocks, *shape), kind)  # 0 where they do not; with room for more rows

    def reach(self, length: int) -> None:
        """Make room for so many words."""
        self.row = np.append(self.row, np.full(length - len(self.row), -1))
        self.apart, self.same = _longer(self.apart, length), _longer(self.same, length)

    @property
    def each(self) -> np.ndarray:
        """What is kept by `place`."""
        return self.own.reshape(-1, *self.same.shape[1:])

    def read(self, block: np.ndarray, word: np.ndarray) -> np.ndarray:
        """Return what is kept of words of blocks: [n, ...]."""
        apart = self.apart[word]
        if not apart.any():
            return self.same[word]
        own = self.each[self.row[word] * self.blocks + block]
        if not apart.all():
            own[~apart] = self.same[word[~apart]]
        return own

    def write(self, word: np.ndarray, value: Any, part: Any = ...) -> None:
        """Write words, or a part of each, in all blocks."""
        apart = self.apart[word]
        if part is not ...:
            self.own[self.row[word[apart]], :, part[apart]] = value
            self.same[word[~apart], part[~apart]] = value
            return
        self.own[self.row[word[apart]]] = 0
        self.same[word], self.apart[word] = value, False

    def place(self, block: np.ndarray, word: np.ndarray) -> np.ndarray:
        """Return the index in `each` of words, in which blocks may differ from now on."""
        new = np.unique(word[~self.apart[word]])
        if len(new):
            first = new[self.row[new] < 0]
            self.row[first] = range(self.rows, self.rows + len(first))
            self.rows += len(first)
            if self.rows > len(self.own):
                self.own = _longer(self.own, 2 * self.rows)
            self.own[self.row[new]] = self.same[new, None]
            self.same[new], self.apart[new] = 0, True
        return self.row[word] * self.blocks + block


class SharedMemory:
    """Shared memory: 32-bit words, up to the highest one used, with the unknown sources they depend on."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.words, self.sources = _Words(blocks, _U32), _Words(blocks, np.int64, 4)  # sources by byte
        self.tainted = False  # whether any word depends on an unknown source

    def any(self) -> bool:
        """Return whether any word is not 0."""
        return bool(self.words.same.any() or self.words.own.any())

    def copied(self) -> list[np.ndarray]:
        """Return a copy of the words."""
        kept = self.words
        return [np.where(kept.apart, kept.row, -1), kept.same.copy(), kept.own[: kept.rows].copy()]

    def taint(self, block: np.ndarray, address: np.ndarray, size: int) -> int:
        """Return the unknown sources that the words of accesses depend on."""
        if not self.tainted or not len(address):
            return 0
        words, count = self._reached(address, size), self._of_each(block, address)
        if count >= 0 and not any(self.sources.apart[word[:count]].any() for word in words):
            block, address, words = block[:count], address[:count], [word[:count] for word in words]
        sources = [self.sources.read(block, word) for word in words]
        if size < 4:
            sources[0] = sources[0][(np.arange(4) - address[:, None] & 3) < size]
        return int(np.bitwise_or.reduce([np.bitwise_or.reduce(part, axis=None) for part in sources]))

    def load(self, block: np.ndarray, address: np.ndarray, size: int) -> list[np.ndarray]:
        """Load the words of each access; those of fewer than 4 bytes are not sign extended."""
        words = self._reached(address, size)
        loaded = [self.words.read(block, word) for word in words]
        return [narrow(loaded[0], address, size)] if size < 4 else loaded

    def store(
        self, block: np.ndarray, address: np.ndarray, size: int, values: list[np.ndarray], taint: int = 0
    ) -> None:
        """Store the words of each access, in the order of blocks, with their unknown sources."""
        words, count = self._reached(address, size), self._of_each(block, address)
        self.tainted |= taint != 0
        if self.tainted:
            parts = [...] if size >= 4 else [address + byte & 3 for byte in range(size)]
            for word, part in product(words, parts):
                self._taint(block, word, part, taint, count)
        alike = count >= 0 and all((of.reshape(self.blocks, count) == of[:count]).all() for of in values)
        alike &= size >= 4 or not self.words.apart[words[0]].any()
        if alike:
            block, address = block[:count], address[:count]
            words, values = ([of[:count] for of in some] for some in (words, values))
        if size >= 4:
            for word, value in zip(words, values, strict=True):
                if alike:
                    self.words.write(word, value)
                else:
                    place = self.words.place(block, word)
                    self.words.each[place] = value
            return
        place = words[0] if alike else self.words.place(block, words[0])
        as_bytes = (self.words.same if alike else self.words.own).reshape(-1).view(np.uint8)
        for byte in range(size):
            as_bytes[4 * place + (address & 3) + byte] = (values[0] >> _U32(8 * byte)).astype(np.uint8)

    def _taint(self, block: np.ndarray, word: np.ndarray, part: Any, taint: int, count: int) -> None:
        """Set the sources of bytes of words: all (...), or one of each. `count` as `_of_each`."""
        if count >= 0:
            self.sources.write(word[:count], taint, part if part is ... else part[:count])
            return
        place = self.sources.place(block, word)
        self.sources.each[place if part is ... else (place, part)] = taint

    def _reached(self, address: np.ndarray, size: int) -> list[np.ndarray]:
        """Return the numbers of the words of each access, and make room for them."""
        highest = int(address.max(initial=0)) // 4 + size // 4
        if highest >= len(self.words.row):
            length = max(2 * len(self.words.row), highest + 1)
            self.words.reach(length)
            self.sources.reach(length)
        return [(address >> 2) + number for number in range(max(size // 4, 1))]

    def _of_each(self, block: np.ndarray, address: np.ndarray) -> int:
        """Return the accesses of a block if all blocks access the same; else -1."""
        count, rest = divmod(len(address), self.blocks)
        shape = (self.blocks, count)
        if rest or (block.reshape(shape) != np.arange(self.blocks)[:, None]).any():
            return -1
        return count if (address.reshape(shape) == address[:count]).all() else -1


def _longer(values: np.ndarray, length: int) -> np.ndarray:
    """Return values with zeros behind them."""
    longer = np.zeros((length, *values.shape[1:]), values.dtype)
    longer[: len(values)] = values
    return longer


class LocalMemory:
    """Each thread's own memory. Threads mostly access the same word: words have the form of registers."""

    def __init__(self) -> None:
        self.words: dict[int, np.ndarray] = {}  # [1 or blocks, 1 or threads] by address
        # Unknown sources that each word depends on, if any: for all threads, or by thread like words.
        self.taints: dict[int, int | np.ndarray] = {}

    def taint(self, mask: np.ndarray, address: np.ndarray, size: int) -> int | np.ndarray:
        """Return the unknown sources that words depend on."""
        taint: int | np.ndarray = 0
        for word in range(max(size // 4, 1)) if self.taints else ():
            for at, _ in distinct_addresses((address & ~3) + 4 * word, mask):
                taint = taint | self.taints.get(at, 0)
        return taint

    def load(self, mask: np.ndarray, address: np.ndarray, size: int) -> list[np.ndarray]:
        """Load words. `mask`, `address` and the words broadcast to [blocks, threads]."""
        words = []
        for word in range(max(size // 4, 1)):
            value = np.zeros((1, 1), _U32)
            for at, there in distinct_addresses((address & ~3) + 4 * word, mask):
                stored = self.words.get(at, np.zeros((1, 1), _U32))
                value = stored if there is None else np.where(there, stored, value)
            words.append(narrow(value, address, size) if size < 4 else value)
        return words

    def store(
        self,
        mask: np.ndarray,
        address: np.ndarray,
        size: int,
        values: list[np.ndarray],
        taint: int | np.ndarray = 0,
        by_all: bool = False,
    ) -> None:
        """Store words of the same shapes, with their unknown sources. `by_all`: in all live threads."""
        for word, value in enumerate(values):
            for at, there in distinct_addresses((address & ~3) + 4 * word, mask):
                before = self.taints.get(at, 0)
                if isinstance(taint, int) and isinstance(before, int) and not taint and not before:
                    pass
                elif there is not None or size < 4:
                    self.taints[at] = taint | before
                else:
                    self.taints[at] = taint if by_all else np.where(mask, taint, before)
                old = self.words.get(at, np.zeros((1, 1), _U32))
                if size < 4:
                    shift = (8 * (address & 3)).astype(_U32)
                    bits = _U32((1 << 8 * size) - 1) << shift
                    value = (old & ~bits) | ((value << shift) & bits)
                self.words[at] = np.where(mask if there is None else mask & there, value, old)


def distinct_addresses(address: np.ndarray, mask: np.ndarray) -> Iterator[tuple[int, np.ndarray | None]]:
    """Yield the distinct addresses with their threads: None if there is only one."""
    if address.size == 1:
        yield int(address.flat[0]), None
        return
    shape = np.broadcast_shapes(address.shape, mask.shape)
    addresses = np.unique(np.broadcast_to(address, shape)[np.broadcast_to(mask, shape)]).tolist()
    for at in addresses:
        yield at, None if len(addresses) == 1 else address == at


class GlobalMemory:
    """The stated contents of pointer arguments."""

    def __init__(self, launch: LaunchArguments) -> None:
        self.regions: dict[int, np.ndarray | None] = {}
        for index, contents in pointers(launch).items():
            raw = None
            if contents is not None:
                raw = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)
                if len(raw) % 4:  # it is read in whole words
                    raw = np.concatenate([raw, np.zeros(-len(raw) % 4, np.uint8)])
            self.regions[index + 1] = raw
        self.sizes = {
            index + 1: contents.nbytes for index, contents in pointers(launch).items() if contents is not None
        }
        self.repeats = {
            index + 1
            for index, argument in enumerate(launch.arguments)
            if isinstance(argument, Pointer) and argument.repeats
        }
        self.written: set[int] = set()  # regions that the kernel stored to
        self.taints: dict[int, int] = {}  # the unknown data that what it stored to each depends on, if any
        self._apart: dict[tuple[int, int], np.ndarray | None] = {}
        self._copied: set[int] = set()  # whose contents are copies of those of the arguments

    def load(self, address: np.ndarray, size: int) -> tuple[list[np.ndarray], set[int], set[int]]:
        """Return (words of each access, regions of unknown contents, those with accesses outside)."""
        words = [np.zeros(address.shape, _U32) for _ in range(max(size // 4, 1))]
        unknown: set[int] = set()
        outside: set[int] = set()
        regions = regions_of(address)
        for number in regions:
            contents = self.regions.get(number)
            if contents is None:
                (unknown if number in self.regions else outside).add(number)
                continue
            here = address >> REGION_BITS == number if len(regions) > 1 else ...
            offset = address[here] - (number << REGION_BITS) - MIDDLE
            repeated = self.sizes[number] // 4 if number in self.repeats else 0
            inside = (offset >= 0) & (offset + size <= self.sizes[number]) | (repeated > 0)
            if not (all_inside := bool(inside.all())):
                outside.add(number)
                offset = np.where(inside, offset, 0)
            for number_of_word, word in enumerate(words):
                at = (offset >> 2) + number_of_word
                loaded = contents.view(_U32)[at % repeated if repeated else at]
                loaded = narrow(loaded, offset, size) if size < 4 else loaded
                word[here] = loaded if all_inside else np.where(inside, loaded, 0)
        return words, unknown, outside

    def apart(self, number: int, step: int) -> np.ndarray | None:
        """Return by how much words differ from those `step` further: [step]; None if that is not constant."""
        contents = self.regions.get(number)
        if contents is None or number in self._copied:
            return None
        if (number, step) not in self._apart:
            words = contents[: self.sizes[number] // 4 * 4].view(_U32)
            for part in (words[:_FEW], words):  # mostly the first are enough
                apart = part[step:] - part[:-step]
                places = range(step) if len(apart) >= step else ()
                even = bool(places) and all((apart[at::step] == apart[at]).all() for at in places)
                self._apart[number, step] = apart[:step].view(np.int32).astype(np.int64) if even else None
                if not even:
                    break
        return self._apart[number, step]

    def change(
        self, address: np.ndarray, regions: list[int], stride: int, limits: TripLimits, size: int = 4
    ) -> list[np.ndarray] | None:
        """Return the changes of words loaded from an argument with evenly spaced numbers; else None.

        They have 32 or 64 bits. `address` moves by `stride` bytes, and stays in the argument.
        """
        steps = [step for step in (1, 2) if len(regions) == 1 and not stride % (4 * step)]
        step = next((step for step in steps if self.apart(regions[0], step) is not None), 0)
        apart, alike = self.apart(regions[0], step) if step else None, (1,) * address.ndim
        if apart is None:
            return None
        offset = address - (regions[0] << REGION_BITS) - MIDDLE
        limits.limit(offset, np.full(alike, stride), range(self.sizes[regions[0]] - size + 1))
        places = (offset >> 2) % step
        places = places if np.ptp(places) else np.full(alike, places.flat[0])
        return [apart[(places + word) % step] * (stride // (4 * step)) for word in range(size // 4)]

    def store(self, address: np.ndarray, size: int, values: list[np.ndarray], taint: int = 0) -> None:
        """Store words, except in regions of unknown or assumed contents."""
        region = address >> REGION_BITS
        for number in regions_of(address):
            if taint:
                self.taints[number] = self.taints.get(number, 0) | taint
            contents = self.regions.get(number)
            if contents is None or number in self.repeats:
                continue
            offset = address - (number << REGION_BITS) - MIDDLE
            here = (region == number) & (offset >= 0) & (offset + size <= self.sizes[number])
            if number not in self._copied:
                self._copied.add(number)
                contents = self.regions[number] = contents.copy()
            for byte in range(min(size, 4)):
                for word, value in enumerate(values):
                    stored = (value[here] >> _U32(8 * byte)).astype(np.uint8)
                    contents[offset[here] + 4 * word + byte] = stored


def changes(values: np.ndarray) -> np.ndarray:
    """Return which values differ from the one before, of which the first has none: [n]."""
    first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first


def atomic(
    function: Callable[..., np.ndarray],
    address: np.ndarray,
    old: np.ndarray,
    values: np.ndarray,
    used: bool,
    block: np.ndarray,
    stands_for: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Change the words at these addresses, which hold `old`, one thread after another.

    Return (what each thread reads, what its word holds after all). Unless the former is `used`, a function
    whose order does not matter is applied to all threads at once. Whole numbers of a `block` are added as
    many times as it `stands_for` blocks, which add as much after it.
    """
    _, index, place = np.unique(address, return_index=True, return_inverse=True)
    words = old[index]
    read = words[place]
    if used and function is np.add and words.dtype.kind != "f":
        order = np.argsort(place, kind="stable")
        added = np.asarray(values[order], np.int64)
        total = np.cumsum(added)
        first = changes(place[order])
        start, of_others = (
            (total - added)[firsts][np.cumsum(firsts) - 1]
            for firsts in (first, first | changes(block[order]))
        )
        unit = max(int(np.gcd.reduce(added)), 1)  # what others add is a multiple of it, too

        def by_others(sums: np.ndarray) -> np.ndarray:
            return unit * np.floor(max(stands_for - 1.0, 0.0) * sums / unit).astype(np.int64)

        read[order] += (total - added - start + by_others(of_others - start)).astype(words.dtype)
        last = np.roll(first, -1)
        sums = (total - start)[last]
        words[place[order][last]] += (sums + by_others(sums)).astype(words.dtype)
        return read, words[place]
    if isinstance(function, np.ufunc) and not used:
        function.at(words, place, values)
        return read, words[place]
    order = np.argsort(place, kind="stable")
    turn = np.empty(len(place), int)  # of each thread among those at its place
    turn[order] = np.arange(len(place)) - np.searchsorted(place[order], place[order])
    for threads in np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1]):
        read[threads] = words[place[threads]]
        words[place[threads]] = function(read[threads], values[threads])
    return read, words[place]


def regions_of(address: np.ndarray) -> list[int]:
    """List the regions of global memory that contain addresses: mostly one."""
    if not address.size:
        return []
    lowest, highest = int(address.min()) >> REGION_BITS, int(address.max()) >> REGION_BITS
    return [lowest] if lowest == highest else np.unique(address >> REGION_BITS).tolist()


def in_block(address: np.ndarray) -> np.ndarray:
    """Take the number of the block in its cluster out of shared addresses."""
    return address & _RESERVED_ADDRESS_BITS


def narrow(word: np.ndarray, address: np.ndarray, size: int) -> np.ndarray:
    """Take the bytes of an access out of the word that holds them."""
    shift = (8 * (address & 3)).astype(_U32)
    return (word >> shift) & _U32((1 << 8 * size) - 1)

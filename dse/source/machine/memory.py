"""The contents of shared, local and stated global memory that addresses and branches need."""

from collections.abc import Callable, Iterator

import numpy as np

from dse.source.machine.launch import MIDDLE, REGION_BITS, LaunchArguments, Pointer, pointers
from dse.source.machine.trips import Change, TripLimits

_U32 = np.uint32
_FEW = 64  # words
_RESERVED_ADDRESS_BITS = 0xFFFFFF  # of shared memory; those above name a block of the cluster


class SharedMemory:
    """Shared memory: 32-bit words, one row per block, up to the highest one used."""

    def __init__(self, rows: int) -> None:
        self.words = np.zeros((rows, 1024), _U32)
        self.taints: np.ndarray | None = None  # unknown sources that each word depends on, if any

    def taint(self, row: np.ndarray, address: np.ndarray, size: int) -> int:
        """Return the unknown sources that the words of accesses depend on."""
        if self.taints is None or not len(address):
            return 0
        self._reach(int(address.max()) // 4 + size // 4)
        taint = 0
        place = self._place(row, address)
        for word in range(max(size // 4, 1)):
            taint |= int(np.bitwise_or.reduce(self.taints.reshape(-1)[place + word]))
        return taint

    def _place(self, row: np.ndarray, address: np.ndarray) -> np.ndarray:
        """Return the index of each access's word among all rows: numpy is slower with two indices."""
        return row * self.words.shape[1] + (address >> 2)

    def _reach(self, highest: int) -> None:
        """Extend the memory to this many words."""
        rows, size = self.words.shape
        if highest >= size:
            grown = np.zeros((rows, max(2 * size, highest + 1)), _U32)
            grown[:, :size] = self.words
            self.words = grown
            if self.taints is not None:
                self.taints = np.pad(self.taints, ((0, 0), (0, grown.shape[1] - size)))

    def load(self, row: np.ndarray, address: np.ndarray, size: int) -> list[np.ndarray]:
        """Load the words of each access; those of fewer than 4 bytes are not sign extended."""
        self._reach(int(address.max(initial=0)) // 4 + size // 4)
        if size < 4:
            return [_narrow(self.words[row, address >> 2], address, size)]
        place, words = self._place(row, address), self.words.reshape(-1)
        return [words[place + word] for word in range(size // 4)]

    def store(
        self, row: np.ndarray, address: np.ndarray, size: int, values: list[np.ndarray], taint: int = 0
    ) -> None:
        """Store the words of each access, with its row and their unknown sources."""
        self._reach(int(address.max(initial=0)) // 4 + size // 4)
        if taint and self.taints is None:
            self.taints = np.zeros(self.words.shape, np.int64)
        if self.taints is not None:
            taints, place = self.taints.reshape(-1), self._place(row, address)
            for word in range(max(size // 4, 1)):
                taints[place + word] = taint | (taints[place + word] if size < 4 else 0)
        if size < 4:
            as_bytes = self.words.view(np.uint8)
            for byte in range(size):
                as_bytes[row, address + byte] = (values[0] >> _U32(8 * byte)).astype(np.uint8)
            return
        words, place = self.words.reshape(-1), self._place(row, address)
        for word, value in enumerate(values):
            words[place + word] = value


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
            words.append(_narrow(value, address, size) if size < 4 else value)
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
        self._apart: dict[int, int | None] = {}
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
            offset = offset % self.sizes[number] if number in self.repeats else offset
            inside = (offset >= 0) & (offset + size <= self.sizes[number])
            if not (all_inside := bool(inside.all())):
                outside.add(number)
                offset = np.where(inside, offset, 0)
            for number_of_word, word in enumerate(words):
                loaded = contents.view(_U32)[(offset >> 2) + number_of_word]
                loaded = _narrow(loaded, offset, size) if size < 4 else loaded
                word[here] = loaded if all_inside else np.where(inside, loaded, 0)
        return words, unknown, outside

    def apart(self, number: int) -> int | None:
        """Return the difference between successive words of a region; None if it is not constant."""
        contents = self.regions.get(number)
        if contents is None or number in self._copied:
            return None
        if number not in self._apart:
            words = contents[: self.sizes[number] // 4 * 4].view(_U32)
            for part in (words[:_FEW], words):  # mostly the first are enough
                apart = part[1:] - part[:-1]
                even = len(apart) > 0 and bool((apart == apart[0]).all())
                self._apart[number] = int(apart[0]) if even else None
                if not even:
                    break
        return self._apart[number]

    def change(
        self, address: np.ndarray, regions: list[int], stride: int, limits: TripLimits, size: int = 4
    ) -> Change:
        """Return the change of words loaded from an argument with evenly spaced contents; else None.

        `address` moves by `stride` bytes, and stays in the argument.
        """
        apart = self.apart(regions[0]) if len(regions) == 1 and not stride % 4 else None
        if apart is None:
            return None
        alike = (1,) * address.ndim
        offset = address - (regions[0] << REGION_BITS) - MIDDLE
        limits.limit(offset, np.full(alike, stride), range(self.sizes[regions[0]] - size + 1))
        return np.full(alike, apart * (stride // 4))

    def store(self, address: np.ndarray, size: int, values: list[np.ndarray]) -> None:
        """Store words, except in regions of unknown or assumed contents."""
        region = address >> REGION_BITS
        for number in regions_of(address):
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
    words: np.ndarray,
    place: np.ndarray,
    values: np.ndarray,
    used: bool,
    block: np.ndarray,
    stands_for: float = 1.0,
) -> np.ndarray:
    """Change the words at these places, one thread after another; return what each thread reads.

    Unless that is `used`, a function whose order does not matter is applied to all threads at once. Whole
    numbers of a `block` are added as many times as it `stands_for` blocks, which add as much after it.
    """
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
        return read
    if isinstance(function, np.ufunc) and not used:
        function.at(words, place, values)
        return read
    order = np.argsort(place, kind="stable")
    turn = np.empty(len(place), int)  # of each thread among those at its place
    turn[order] = np.arange(len(place)) - np.searchsorted(place[order], place[order])
    for threads in np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1]):
        read[threads] = words[place[threads]]
        words[place[threads]] = function(read[threads], values[threads])
    return read


def regions_of(address: np.ndarray) -> list[int]:
    """List the regions of global memory that contain addresses: mostly one."""
    if not address.size:
        return []
    lowest, highest = int(address.min()) >> REGION_BITS, int(address.max()) >> REGION_BITS
    return [lowest] if lowest == highest else np.unique(address >> REGION_BITS).tolist()


def in_block(address: np.ndarray) -> np.ndarray:
    """Take the number of the block in its cluster out of shared addresses."""
    return address & _RESERVED_ADDRESS_BITS


def _narrow(word: np.ndarray, address: np.ndarray, size: int) -> np.ndarray:
    """Take the bytes of an access out of the word that holds them."""
    shift = (8 * (address & 3)).astype(_U32)
    return (word >> shift) & _U32((1 << 8 * size) - 1)

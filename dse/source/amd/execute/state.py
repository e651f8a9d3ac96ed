"""The state of executed waves: registers, memory, active lanes.

A register is an array of words that broadcasts to [blocks, waves, lanes]; scalar registers have one lane, and
values equal everywhere have one of all. A pair of scalar registers that holds a mask of lanes is one array of
bool, in both slots. None marks unknown words.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.slots import CONSTANTS, EXEC, SCC, TTMP, VCC, V
from dse.source.amd.text import Instruction, Listing
from dse.source.machine.launch import (
    Dimensions,
    LaunchArguments,
    Pointer,
    UnknownArgument,
    address_of,
    argument_bytes,
)
from dse.source.machine.memory import GlobalMemory

U32 = np.uint32
_BOOL = np.dtype(bool)
MOST_PRELOADED = 16  # words of arguments
_LANES = np.arange(32, dtype=U32)
_PACKED_IDS = ("gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")  # thread indices in one register, 10 bits each

Value = Any  # np.ndarray | Partial | None


class NeedsData(Exception):
    """An address, a branch or a mask of lanes depends on unknown words."""

    def __init__(self, step: Instruction, what: str) -> None:
        super().__init__(f"{what} of {step}")
        self.step, self.what = step, what


class MaskedWords:
    """Words that are unknown in some lanes."""

    __slots__ = ("unknown", "value")

    def __init__(self, value: np.ndarray, unknown: np.ndarray) -> None:
        self.value, self.unknown = value, unknown


class Waves:
    """A set of waves. Equal sets are one object."""

    __slots__ = ("count", "mask", "warps_here")

    def __init__(self, mask: np.ndarray) -> None:
        self.mask = mask  # [blocks, waves, 1]
        self.warps_here = mask[..., 0]
        self.count = int(mask.sum())


class WaveMachine:
    """The state of executed blocks."""

    def __init__(
        self,
        listing: Listing,
        launch: LaunchArguments,
        blocks: Sequence[Dimensions],
        waves: Sequence[int] | None = None,
    ) -> None:
        """`waves` are those of a block; None: all."""
        self.listing, self.launch = listing, launch
        lanes = listing.wave_size
        numbers = np.arange(-(-launch.threads // lanes), dtype=U32) if waves is None else np.array(waves, U32)
        self.shape = (len(blocks), len(numbers), lanes)
        self.r: list[Value] = [np.zeros((1, 1, 1), U32)] * CONSTANTS
        thread = (numbers[:, None] * U32(lanes) + np.arange(lanes, dtype=U32))[None]
        self.threads = thread.ravel()  # their numbers in the block
        self.exists = (
            thread < launch.threads
        )  # lanes of waves that have not ended: [1 or blocks, waves, lanes]
        self.r[EXEC] = self.r[EXEC + 1] = self.exists
        self.r[SCC] = np.zeros((1, 1, 1), bool)
        self._sets: dict[bytes, Waves] = {}
        self.alive = self.set_of(np.ones((*self.shape[:2], 1), bool))
        self.steered_by_block = False  # whether a branch may depend on the block's number
        self.running = self.alive
        self.waves: np.ndarray | None = None  # active waves; None: all live ones
        self.active: np.ndarray | None = self.exists  # active lanes; None: all that exist
        self._active: dict[tuple[int, int], tuple[np.ndarray, np.ndarray | None]] = {}
        self._any: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._masks: dict[tuple[tuple[int, ...], bytes], np.ndarray] = {}
        self._last: np.ndarray | None = None
        self._set_arguments()
        self._set_registers(blocks, thread)

    # Start

    def _set_arguments(self) -> None:
        """Lay out memory: arrays of arguments, the arguments themselves, the packet, variables."""
        listing, launch = self.listing, self.launch
        extra = [*listing.symbols]
        count = len(launch.arguments)
        self.unknown_arguments = [
            (place.offset, place.offset + place.size)
            for place, argument in zip(listing.arguments, launch.arguments, strict=False)
            if isinstance(argument, UnknownArgument)
        ]
        contents = [launch.variables.get(name, Pointer()) for name in extra]
        segments = [self._kernarg(), self._packet()]
        self.memory = GlobalMemory(
            LaunchArguments(launch.grid, launch.block, [*launch.arguments, *segments, *contents])
        )
        self.kernarg, self.packet = address_of(count), address_of(count + 1)
        self.kernarg_region = count + 1
        self.symbols = {name: address_of(count + 2 + place) for place, name in enumerate(extra)}
        self.stated = any(
            contents is not None
            for region, contents in self.memory.regions.items()
            if region not in (count + 1, count + 2)
        )
        self.poisoned: set[int] = set()  # regions with unknown words stored

    def _kernarg(self) -> np.ndarray:
        """Return the bytes of the arguments' segment."""
        listing, launch = self.listing, self.launch
        own = [entry for entry in listing.arguments if not entry.kind.startswith("hidden_")]
        if len(own) != len(launch.arguments):
            raise DseError(f"{listing.name}: arguments: found {len(launch.arguments)}, expected {len(own)}")
        size = max(
            [listing.kernarg_bytes, *(entry.offset + entry.size for entry in listing.arguments)], default=0
        )
        segment = np.zeros(-(-size // 4) * 4 + 64, np.uint8)
        for index, (entry, argument) in enumerate(zip(own, launch.arguments, strict=True)):
            raw = argument_bytes(listing.name, index, argument, entry.size)
            segment[entry.offset : entry.offset + entry.size] = np.frombuffer(raw, np.uint8)
        for entry in listing.arguments:
            if entry.kind.startswith("hidden_"):
                raw = _hidden(entry.kind, launch).to_bytes(8, "little")[: entry.size]
                segment[entry.offset : entry.offset + len(raw)] = np.frombuffer(raw, np.uint8)
        return segment

    def _packet(self) -> np.ndarray:
        """Return the packet that launched the kernel: HSA's `hsa_kernel_dispatch_packet_t`."""
        words = np.zeros(16, U32)
        x, y, z = self.launch.block
        words[1], words[2] = x | y << 16, z
        words[3:6] = [size * count for size, count in zip(self.launch.block, self.launch.grid, strict=True)]
        return words

    def _set_registers(self, blocks: Sequence[Dimensions], thread: np.ndarray) -> None:
        """Set the registers that the hardware sets before a wave starts.

        Source: LLVM, "User Guide for AMDGPU Backend", "Initial Kernel Execution State".
        """
        stated, listing = self.listing.directives, self.listing
        at = 0
        for name, words, value in (
            ("private_segment_buffer", 4, 0),
            ("dispatch_ptr", 2, self.packet),
            ("queue_ptr", 2, 0),
            ("kernarg_segment_ptr", 2, self.kernarg),
            ("dispatch_id", 2, 0),
            ("flat_scratch_init", 2, 0),
            ("private_segment_size", 1, listing.scratch_bytes),
        ):
            if stated.get(f"user_sgpr_{name}"):
                for word in range(words):
                    self.r[at + word] = _word(value >> 32 * word if word < 2 else 0)
                at += words
        preloaded = stated.get("user_sgpr_kernarg_preload_length", 0)
        if preloaded > MOST_PRELOADED:
            raise DseError(
                f"{listing.name}: .amdhsa_user_sgpr_kernarg_preload_length: found {preloaded},"
                f" expected at most {MOST_PRELOADED}"
            )
        for word in range(preloaded):
            offset = 4 * (stated.get("user_sgpr_kernarg_preload_offset", 0) + word)
            segment = self.memory.regions[self.kernarg_region]
            assert segment is not None
            self.r[at + word] = _word(int(segment[offset : offset + 4].view(U32)[0]))
        at = stated.get("user_sgpr_count", at)
        if not 0 <= at < VCC - 3:
            raise DseError(f"{listing.name}: .amdhsa_user_sgpr_count: found {at}, expected at most {VCC - 4}")
        coordinates = np.array(blocks, U32).reshape(len(blocks), 3)
        indices = [coordinates[:, axis].reshape(-1, 1, 1) for axis in range(3)]
        # By dimension of the grid, the change from block to block of the registers with the block's number.
        self.numbered = [{TTMP + 9: 1}, {TTMP + 7: 1}, {TTMP + 7: 1 << 16}]
        for axis, name in enumerate("xyz"):
            if stated.get(f"system_sgpr_workgroup_id_{name}"):
                self.r[at], self.numbered[axis][at] = indices[axis], 1
                at += 1
        self.r[TTMP : TTMP + 16] = [None] * 16  # but these of GFX12
        self.r[TTMP + 8] = thread[..., :1] // U32(self.shape[2]) << U32(25)  # the wave of the block
        self.r[TTMP + 9] = indices[0]
        self.r[TTMP + 7] = indices[1] | indices[2] << U32(16)
        x, y, _ = self.launch.block
        local = [thread % U32(x), thread // U32(x) % U32(y), thread // U32(x * y)]
        if self.listing.target.startswith(_PACKED_IDS):
            self.r[V] = local[0] | local[1] << U32(10) | local[2] << U32(20)
        else:
            self.r[V : V + 3] = local

    # Waves

    def set_of(self, mask: np.ndarray) -> Waves:
        """Return waves as a set, from a mask [blocks, waves, 1]."""
        key = mask.tobytes()
        if key not in self._sets:
            self._sets[key] = Waves(mask)
        return self._sets[key]

    def execute_in(self, waves: Waves) -> None:
        """Make these waves active, with their active lanes."""
        self.running = waves
        self.waves = None if waves is self.alive else waves.mask
        mask = self.mask(EXEC)
        if mask is None:
            raise AssertionError
        mask = self._one_object(mask)
        key = (id(mask), id(waves))
        known = self._active.get(key)
        if known is None or known[0] is not mask:
            active = mask & self.exists if self.waves is None else mask & self.exists & self.waves
            off = self.exists & ~active
            if len(self._active) > 5000:
                self._active.clear()
            known = self._active[key] = (mask, active if off.any() else None)
        self.active = known[1]

    def _one_object(self, mask: np.ndarray) -> np.ndarray:
        """Share one object among equal masks of lanes, so that their properties are computed once."""
        if self._last is mask:
            return mask
        key = (mask.shape, mask.tobytes())
        kept = self._masks.setdefault(key, mask)
        if kept is not mask:
            self.r[EXEC] = kept
            if self.shape[2] == 64:
                self.r[EXEC + 1] = kept
        self._last = kept
        return kept

    def lanes(self) -> np.ndarray:
        """Return the active lanes."""
        return self.exists if self.active is None else self.active

    def end(self, waves: Waves) -> None:
        """End these waves."""
        self.alive = self.set_of(self.alive.mask & ~waves.mask)
        self.exists = self.exists & self.alive.mask
        self._active.clear()

    # Reading

    def known(self, slot: int, value: Value) -> np.ndarray | None:
        """Return the words of a partly known register; None if any is unknown in active lanes."""
        if value is None:
            return None
        if value.__class__ is MaskedWords:
            lanes = self.lanes()
            if value.unknown.shape[-1] == 1:
                lanes = lanes.any(-1, keepdims=True)
            return None if (value.unknown & lanes).any() else value.value
        return value

    def words(self, slot: int) -> np.ndarray | None:
        """Return the words of any register."""
        value = self.r[slot]
        if value is None or value.__class__ is MaskedWords:
            value = self.known(slot, value)
        if value is not None and value.dtype is _BOOL:
            return value.astype(U32) if slot == SCC else self._packed(value, slot)
        return value

    def _packed(self, mask: np.ndarray, slot: int) -> np.ndarray:
        lanes = self.shape[2]
        full = np.ascontiguousarray(np.broadcast_to(mask, (*mask.shape[:2], lanes)))
        words = np.packbits(full, axis=-1, bitorder="little").view(U32)
        place = slot & 1 if lanes == 64 else 0
        return words[:, :, place : place + 1]

    def mask(self, slot: int, second: int = -1) -> np.ndarray | None:
        """Return the mask of lanes in a register, or in a pair, or in the slots of a constant."""
        value = self.r[slot]
        wide = self.shape[2] == 64
        if value.__class__ is np.ndarray and value.dtype is _BOOL and (not wide or self.r[slot + 1] is value):
            return value
        low = self.words(slot)
        if low is None:
            return None
        if not wide:
            return _bits(low)
        high = self.words(slot + 1 if slot < CONSTANTS else second)
        if high is None:
            return None
        if (
            low.size == 1
            and high.size == 1
            and low.flat[0] == high.flat[0]
            and low.flat[0] in (0, 0xFFFFFFFF)
        ):
            return low != 0
        low, high = np.broadcast_arrays(low, high)
        return np.concatenate([_bits(low, full=True), _bits(high, full=True)], axis=-1)

    def any_lane(self, mask: np.ndarray) -> np.ndarray:
        """Return whether a mask has any lane in each wave: [1 or blocks, 1 or waves, 1]."""
        known = self._any.get(id(mask))
        if known is None or known[0] is not mask:
            if len(self._any) > 500:
                self._any.clear()
            known = self._any[id(mask)] = (mask, np.asarray(mask.any(-1, keepdims=True)))
        return known[1]

    def condition(self) -> np.ndarray | None:
        """Return the scalar condition code."""
        value = self.r[SCC]
        if value.__class__ is tuple:  # whether a mask has any lane
            value = self.r[SCC] = self.any_lane(value[0])
        return self.known(SCC, value)

    # Writing

    def write_vector(self, slot: int, value: np.ndarray | None) -> None:
        """Write a vector register in active lanes."""
        active = self.active
        if active is None:
            self.r[slot] = value
        else:
            self.r[slot] = written(self.r[slot], value, active)

    def write_scalar(self, slot: int, value: np.ndarray | None) -> None:
        """Write a scalar register, words or a condition, in active waves."""
        waves = self.waves
        if waves is None:
            self.r[slot] = value
            return
        old: Any = self.condition() if slot == SCC else self.r[slot]
        if slot != SCC and old.__class__ is np.ndarray and old.dtype is _BOOL:
            old = self._packed(old, slot)
        self.r[slot] = written(old, value, waves)

    def write_mask(self, slot: int, mask: np.ndarray | None) -> None:
        """Write a mask of lanes, to a register or a pair, in active waves."""
        pair = [slot, slot + 1] if self.shape[2] == 64 else [slot]
        if self.waves is not None:
            old = self.r[slot]
            is_mask = old.__class__ is np.ndarray and old.dtype is _BOOL and self.r[pair[-1]] is old
            if mask is None or (not is_mask and old is not None):  # other waves keep their values
                for half in pair:
                    self.write_scalar(half, None if mask is None else self._packed(mask, half))
                return
            mask = np.where(self.waves, mask, False if old is None else np.asarray(old))
        for half in pair:
            self.r[half] = mask

    def set_condition_to_any(self, mask: np.ndarray | None) -> None:
        """Set the condition to whether a mask has any lane."""
        if mask is None:
            self.write_scalar(SCC, None)
        elif self.waves is None:
            self.r[SCC] = (mask,)
        else:
            self.write_scalar(SCC, self.any_lane(mask))


def written(old: Value, value: np.ndarray | None, where: np.ndarray) -> Value:
    """Return the value of a register after writing some lanes."""
    if value is None:
        if old is None:
            return None
        if old.__class__ is MaskedWords:
            return old if old.unknown is where else MaskedWords(old.value, old.unknown | where)
        return MaskedWords(old, where)
    if old is None:
        return MaskedWords(value, ~where)
    if old.__class__ is MaskedWords:
        unknown = old.unknown & ~where
        merged = np.where(where, value, old.value)
        return MaskedWords(merged, unknown) if unknown.any() else merged
    return np.where(where, value, old)


def joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Join words to numbers of 64 bits: with half the passes of shifting them."""
    words = np.empty((*np.broadcast_shapes(low.shape, high.shape), 2), U32)
    words[..., 0], words[..., 1] = low, high
    return words.view(np.uint64)[..., 0]


def _word(value: int) -> np.ndarray:
    return np.full((1, 1, 1), value & 0xFFFFFFFF, U32)


def _bits(words: np.ndarray, full: bool = False) -> np.ndarray:
    if not full and words.size == 1 and words.flat[0] in (0, 0xFFFFFFFF):
        return words != 0
    return (words >> _LANES & U32(1)).astype(bool)


def _hidden(kind: str, launch: LaunchArguments) -> int:
    """Return a number that the runtime adds to the arguments."""
    name, _, axis = kind.removeprefix("hidden_").rpartition("_")
    if axis in ("x", "y", "z"):
        number = "xyz".index(axis)
        if name == "block_count":
            return launch.grid[number]
        if name == "group_size":
            return launch.block[number]
    if kind == "hidden_grid_dims":
        return max([1, *(axis + 1 for axis in range(3) if launch.grid[axis] * launch.block[axis] > 1)])
    return 0

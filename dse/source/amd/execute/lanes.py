"""Instructions that move words between the lanes of a wave, or between lanes and scalar registers.

Source: AMD, "RDNA3" and "CDNA3 Instruction Set Architecture", the sections on DPP, SDWA and lane access.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.state import U32, NeedsData
from dse.source.amd.text import Instruction

Reader = Callable[[MemoryMachine], Any]
Action = Callable[[MemoryMachine], None]


def moved(step: Instruction, word: Reader, size: int) -> Reader:
    """Read a word from other lanes by DPP; 0 if there is none."""
    source, there = dpp_source(step, size)

    def read(machine: MemoryMachine) -> Any:
        value = word(machine)
        if value is None or value.shape[-1] == 1:
            return value
        value = value[:, :, source]
        return value if there.all() else np.where(there, value, U32(0))

    return read


def without_source(step: Instruction, size: int) -> np.ndarray | None:
    """Return the lanes that an instruction with DPP does not write; None if there are none."""
    if "bound_ctrl" in step.modifiers:
        return None
    there = dpp_source(step, size)[1]
    return None if there.all() else ~there


def dpp_source(step: Instruction, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (the lane that each lane reads, whether it exists) of an instruction with DPP."""
    lane, there = np.arange(size), np.ones(size, bool)
    row, in_row = lane // 16 * 16, lane % 16
    for name, text in step.modifiers.items():
        if name in ("quad_perm", "dpp8"):
            order = np.array([int(number) for number in text.strip("[]").split(",")])
            source = lane // len(order) * len(order) + order[lane % len(order)]
        elif name in ("row_mirror", "row_half_mirror"):
            half = 16 if name == "row_mirror" else 8
            source = lane // half * half + half - 1 - lane % half
        elif name == "row_bcast":
            source = lane // 16 * 16 - 1 if text == "15" else lane // 32 * 32 - 1
            there &= source >= 0
        elif name.startswith(("row_", "wave_")) and name not in ("row_mask",):
            number = int(text or "0", 0)
            moves = {
                "row_shl": (lane + number, in_row + number < 16),
                "row_shr": (lane - number, in_row >= number),
                "row_ror": (row + (in_row - number) % 16, there),
                **dict.fromkeys(("row_share", "row_newbcast"), (row + number, there)),
                "row_xmask": (row + (in_row ^ number), there),
                "wave_shr": (lane - 1, lane > 0),
                "wave_shl": (lane + 1, lane < size - 1),
                "wave_ror": ((lane - 1) % size, there),
                "wave_rol": ((lane + 1) % size, there),
            }
            if name not in moves:
                raise DseError(f"found {name}:{text}, expected a move between lanes that is known")
            source, there = moves[name]
        else:
            continue
        rows = int(step.modifiers.get("row_mask", "0xf"), 0)
        banks = int(step.modifiers.get("bank_mask", "0xf"), 0)
        on = (rows >> (lane // 16 % 4) & 1).astype(bool) & (banks >> (lane // 4 % 4) & 1).astype(bool)
        return np.where(there, source, lane).clip(0, size - 1), there & on
    raise DseError("found no move between lanes, expected one")


_PARTS = {
    "DWORD": (0, 32), "WORD_0": (0, 16), "WORD_1": (16, 16), "BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2":
    (16, 8), "BYTE_3": (24, 8),
}  # fmt: skip


def selected(step: Instruction, word: Reader, number: int, signed: bool = False) -> Reader:
    """Read the part of a word that SDWA selects for an operand, extended by its sign if `signed`."""
    name = step.modifiers.get(f"src{number}_sel")
    if name is None or name == "DWORD":
        return word
    shift, bits = _PARTS[name]
    up, kind = U32(32 - shift - bits), np.int32 if signed else U32

    def read(machine: MemoryMachine) -> Any:
        value = word(machine)
        return None if value is None else ((value << up).view(kind) >> kind(32 - bits)).view(U32)

    return read


# Lanes and scalars


def _of_known(target: int, readers: Sequence[Reader], result: Callable[..., Any]) -> Action:
    """Write the result of a machine and words to a vector register: unknown if a word is."""

    def write(machine: MemoryMachine) -> None:
        words = [read(machine) for read in readers]
        known = all(word is not None for word in words)
        machine.write_vector(target, result(machine, *words) if known else None)

    return write


def _picked(machine: MemoryMachine, words: np.ndarray, lane: np.ndarray) -> np.ndarray:
    """Return the word of the lane that each lane names: [blocks, waves, lanes]."""
    full, source = (np.broadcast_to(array, machine.shape) for array in (words, lane))
    return np.take_along_axis(full, source, axis=-1)


def _mbcnt(upper: bool) -> Callable[[Any, Instruction], Action]:
    def bind(binder: Any, step: Instruction) -> Action:
        """Count the ones of a mask below each lane, within one half of it."""
        target = binder.registers(step.operands[0]).slot
        mask, added = binder.words(step.operands[1]), binder.words(step.operands[2])
        lane = np.arange(binder.listing.wave_size)
        below = np.clip(lane - 32 if upper else lane, 0, 32).astype(np.uint64)
        bits = ((np.uint64(1) << below) - np.uint64(1)).astype(U32)
        return _of_known(
            target, (mask, added), lambda _, words, more: np.bitwise_count(words & bits).astype(U32) + more
        )

    return bind


def _readfirstlane(binder: Any, step: Instruction) -> Action:
    """Read the first active lane."""
    target, slot = (binder.registers(operand).slot for operand in step.operands[:2])

    def first(machine: MemoryMachine) -> np.ndarray:
        return np.broadcast_to(machine.lanes(), machine.shape).argmax(-1)[..., None]

    def read(machine: MemoryMachine) -> None:
        machine.write_scalar(target, _of_lane(machine, slot, first))

    return read


def _readlane(binder: Any, step: Instruction) -> Action:
    """Read one lane."""
    target, slot = (binder.registers(operand).slot for operand in step.operands[:2])
    number = binder.words(step.operands[2])
    size = U32(binder.listing.wave_size)

    def read(machine: MemoryMachine) -> None:
        lane = number(machine)
        if lane is None:
            raise NeedsData(step, "lane")
        machine.write_scalar(target, _of_lane(machine, slot, lambda _: (lane % size).astype(int)))

    return read


def _of_lane(
    machine: MemoryMachine, slot: int, lane: Callable[[MemoryMachine], np.ndarray]
) -> np.ndarray | None:
    """Return a register's word in a lane of each wave; None if it is unknown in one that executes."""
    value, unknown = machine.r[slot], None
    if value is not None and value.__class__ is not np.ndarray:
        value, unknown = value.value, value.unknown
    if value is None or (value.shape[-1] == 1 and (unknown is None or unknown.shape[-1] == 1)):
        return value if unknown is None or not (unknown & machine.running.mask).any() else None
    index = lane(machine)

    def picked(words: np.ndarray) -> np.ndarray:
        if words.shape[-1] == 1 or index.size == 1:
            first = int(index.flat[0])
            return words if words.shape[-1] == 1 else words[:, :, first : first + 1]
        of_wave = np.broadcast_to(index, (*machine.shape[:2], 1))
        return np.take_along_axis(np.broadcast_to(words, machine.shape), of_wave, axis=-1)

    if unknown is not None and (picked(unknown) & machine.running.mask).any():
        return None
    return picked(value)


def _writelane(binder: Any, step: Instruction) -> Action:
    """Write one lane, active or not."""
    target = binder.registers(step.operands[0]).slot
    source, number = binder.words(step.operands[1]), binder.words(step.operands[2])
    lanes = np.arange(binder.listing.wave_size, dtype=U32)

    def write(machine: MemoryMachine) -> None:
        value, lane = source(machine), number(machine)
        if lane is None:
            raise NeedsData(step, "lane")
        here = lanes == lane
        with machine.only(here if machine.waves is None else machine.waves & here):
            machine.write_vector(target, value)

    return write


def _from_index(binder: Any, step: Instruction) -> Action:
    """Read the register at an index: unknown if one of those that are read is."""
    target, array = (binder.registers(operand) for operand in step.operands[:2])
    index = binder.words(step.operands[2])

    def read(machine: MemoryMachine) -> None:
        at, value = index(machine), None
        for number in _numbers(machine, at):
            words = machine.words(array.slot + number) if number < array.count else None
            value = words if value is None or words is None else np.where(at == number, words, value)
            if words is None:
                break
        machine.write_vector(target.slot, value)

    return read


def _to_index(binder: Any, step: Instruction) -> Action:
    """Write the register at an index; if that is not known, the whole array is lost."""
    array, source, index = binder.registers(step.operands[0]), *map(binder.words, step.operands[1:])

    def write(machine: MemoryMachine) -> None:
        value, at = source(machine), index(machine)
        if at is None:
            for slot in range(array.slot, array.slot + array.count):
                machine.write_vector(slot, None)
        for number in _numbers(machine, at):
            if number < array.count:
                with machine.only(machine.lanes() & (at == number)):
                    machine.write_vector(array.slot + number, value)

    return write


def _numbers(machine: MemoryMachine, at: np.ndarray | None) -> list[int]:
    """Return the indices of the waves that run."""
    if at is None:
        return []
    of_waves = np.broadcast_to(at, (*machine.shape[:2], 1))[..., 0]
    running = np.broadcast_to(machine.running.mask, (*machine.shape[:2], 1))[..., 0]
    return np.unique(of_waves[running]).tolist()


def _permlane(binder: Any, step: Instruction) -> Action:
    """Read any lane of the same row, or of the other row of a pair."""
    target = binder.registers(step.operands[0]).slot
    readers = [binder.words(text) for text in step.operands[1:4]]
    lane = np.arange(binder.listing.wave_size)
    other = 16 if "x16" in step.opcode else 0

    def permuted(machine: MemoryMachine, words: Any, first: Any, second: Any) -> np.ndarray:
        lane_number = (first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)) >> (
            4 * (lane % 16)
        ).astype(np.uint64)
        source = (lane // 16 * 16 ^ other) + (lane_number & np.uint64(15)).astype(int)
        return _picked(machine, words, source)

    return _of_known(target, readers, permuted)


def _permlane64(binder: Any, step: Instruction) -> Action:
    """Exchange the halves of a wave."""
    target, value = binder.registers(step.operands[0]).slot, binder.words(step.operands[1])
    size = binder.listing.wave_size
    source = np.arange(size) ^ 32 if size == 64 else np.arange(size)
    return _of_known(target, [value], lambda _, words: words if words.shape[-1] == 1 else words[:, :, source])


def _row_swap(binder: Any, step: Instruction) -> Action:
    """Exchange the odd rows, of 16 or 32 lanes, of one register with the even rows of another."""
    upper, other = (binder.registers(text).slot for text in step.operands[:2])
    rows = int(step.opcode[len("v_permlane") :][:2])

    def swap(machine: MemoryMachine) -> None:
        a, b = machine.words(upper), machine.words(other)
        if a is None or b is None:
            machine.write_vector(upper, None)
            machine.write_vector(other, None)
            return
        shape = (*machine.shape[:2], -1, 2, rows)
        first, second = (np.broadcast_to(words, machine.shape).reshape(shape) for words in (a, b))
        for slot, row in ((upper, 0), (other, 1)):
            both = np.stack([first[..., row, :], second[..., row, :]], axis=-2)
            machine.write_vector(slot, both.reshape(machine.shape))

    return swap


def _swap(binder: Any, step: Instruction) -> Action:
    """Exchange two registers."""
    first, second = (binder.registers(text).slot for text in step.operands)
    upper, other = (binder.words(text) for text in step.operands)

    def swap(machine: MemoryMachine) -> None:
        a, b = upper(machine), other(machine)
        machine.write_vector(first, b)
        machine.write_vector(second, a)

    return swap


SPECIAL: dict[str, Callable[[Any, Instruction], Action]] = {
    "mbcnt_lo": _mbcnt(upper=False),
    "mbcnt_hi": _mbcnt(upper=True),
    "readfirstlane": _readfirstlane,
    "readlane": _readlane,
    "writelane": _writelane,
    "movrels": _from_index,
    "movreld": _to_index,
    "permlane": _permlane,
    "permlane64": _permlane64,
    "swap": _swap,
    "row_swap": _row_swap,
}


# Through the LDS's crossbar


def _bpermute(binder: Any, step: Instruction) -> Action:
    """Read the lane that each lane names, in bytes; inactive lanes give 0."""
    offset = int(step.modifiers.get("offset", "0"), 0)

    def permuted(machine: MemoryMachine, where: Any, words: Any) -> np.ndarray:
        lane = ((where + U32(offset)) >> U32(2)).astype(int) % machine.shape[-1]
        return _picked(machine, np.where(machine.lanes(), words, U32(0)), lane)

    return _by_crossbar(binder, step, permuted)


def _permute(binder: Any, step: Instruction) -> Action:
    """Write to the lane that each lane names, in bytes."""

    def permuted(machine: MemoryMachine, where: Any, words: Any) -> np.ndarray:
        shape, result = machine.shape, np.zeros(machine.shape, U32)
        index = np.broadcast_to((where >> U32(2)).astype(int) % shape[-1], shape)
        full, lanes = np.broadcast_to(words, shape), np.broadcast_to(machine.lanes(), shape)
        for lane in range(shape[-1]):
            block, wave = np.nonzero(lanes[:, :, lane])
            result[block, wave, index[block, wave, lane]] = full[block, wave, lane]
        return result

    return _by_crossbar(binder, step, permuted)


def _by_crossbar(binder: Any, step: Instruction, permuted: Callable[..., np.ndarray]) -> Action:
    """Move words between lanes, by addresses, which come first, or by a pattern."""
    target = binder.registers(step.operands[0]).slot
    move = _of_known(target, [binder.words(text) for text in step.operands[1:3]], permuted)

    def permute(machine: MemoryMachine) -> None:
        machine.note(step.index, _NOWHERE, 0)
        move(machine)

    return permute


def _swizzle(binder: Any, step: Instruction) -> Action:
    """Read another lane, by a pattern in the instruction."""
    source = swizzle_source(step.modifiers.get("offset", "0"), binder.listing.wave_size)

    def swizzled(machine: MemoryMachine, words: Any) -> np.ndarray:
        return np.broadcast_to(np.where(machine.lanes(), words, U32(0)), machine.shape)[:, :, source]

    return _by_crossbar(binder, step, swizzled)


def swizzle_source(text: str, size: int) -> np.ndarray:
    """Return the lane that each lane reads, by the pattern of ds_swizzle_b32."""
    lane = np.arange(size)
    if text.startswith("swizzle("):
        kind, *numbers = text[8:-1].split(",")
        if kind == "QUAD_PERM":
            return lane // 4 * 4 + np.array([int(number) for number in numbers])[lane % 4]
        if kind == "SWAP":
            return lane ^ int(numbers[0])
        if kind == "REVERSE":
            return lane ^ (int(numbers[0]) - 1)
        if kind == "BROADCAST":
            return lane // int(numbers[0]) * int(numbers[0]) + int(numbers[1])
        raise DseError(f"found {text}, expected a pattern that is known")
    pattern = int(text, 0)
    if pattern & 0x8000:
        return lane // 4 * 4 + (pattern >> 2 * (lane % 4) & 3)
    within = lane % 32
    return lane // 32 * 32 + (((within & pattern & 31) | pattern >> 5 & 31) ^ pattern >> 10 & 31)


_NOWHERE = np.zeros((1, 1, 1), np.int64)  # the address of a move through the LDS
LANE_MOVES: dict[str, Callable[[Any, Instruction], Action]] = {
    "ds_bpermute_b32": _bpermute,
    "ds_permute_b32": _permute,
    "ds_swizzle_b32": _swizzle,
}

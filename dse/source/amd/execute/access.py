"""Memory accesses: their addresses, and the words loaded or stored if known."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.memory_names import MemoryAccess
from dse.source.amd.execute.slots import PRIVATE_BASE, SHARED_BASE, operand
from dse.source.amd.execute.state import NeedsData
from dse.source.amd.text import Instruction

Action = Callable[[MemoryMachine], None]
Reader = Callable[[MemoryMachine], Any]


def returns(step: Instruction, accessed: MemoryAccess) -> bool:
    """Return whether an atomic operation returns the old value, by its name or modifiers."""
    named = accessed.returns or "glc" in step.modifiers or "sc0" in step.modifiers
    return named or "RETURN" in step.modifiers.get("th", "")


def bind(binder: Any, step: Instruction, accessed: MemoryAccess) -> Action:
    """Return the action of an instruction that accesses memory."""
    by_descriptor = step.opcode.startswith("buffer")
    return (_buffer if by_descriptor else _BINDERS[accessed.space])(binder, step, accessed)


def operands_of(step: Instruction, accessed: MemoryAccess) -> tuple[list[str], list[str], list[str]]:
    """Return the operands (loaded into, stored or computed with, added up to the address).

    Of a buffer in scratch the offset of the wave is left out.
    """
    own, loads = list(step.operands), accessed.kind == "load" and not accessed.to_lds
    target = own[:1] if loads or (accessed.kind == "atomic" and returns(step, accessed)) else []
    if "buffer" in step.opcode:
        moving, place, descriptor, moved = ["off"] * accessed.to_lds + own
        where = [place] if "offen" in step.modifiers else []
        if accessed.space != "scratch":
            first = int(descriptor[2:].partition(":")[0])  # the base: s[4:5] of s[4:7]
            where = [f"s[{first}:{first + 1}]", moved, *where]
        return target, [moving] if accessed.kind != "load" else [], where
    where, data = own[len(target) :], []
    if accessed.space == "lds":
        where, data = where[:1], [text for text in where[1:] if text != "gds"]
    elif accessed.kind != "load":
        where, data = [where[0], *where[2:]], where[1:2]
    return target, data, [text for text in where if text != "off"]


def stores_unread(binder: Any, step: Instruction, accessed: MemoryAccess) -> bool:
    """Return whether an instruction changes memory, and no needed one reads its results."""
    return step.index in binder.unread and (accessed.kind != "load" or accessed.to_lds)


def _imm(step: Instruction) -> int:
    return int(step.modifiers.get("offset", "0"), 0)


# Global memory


def _global(binder: Any, step: Instruction, accessed: MemoryAccess) -> Action:
    target_text, data_text, where = operands_of(step, accessed)
    target = binder.registers(target_text[0]).slot if target_text else None
    data_slot = binder.registers(data_text[0]).slot if data_text else None
    keys = [binder.registers(text).slot for text in where]
    offset = _imm(step)
    index, flat, store = step.index, accessed.space == "flat", accessed.kind == "store"
    pairs = [binder.registers(text).count == 2 for text in where]
    unread = stores_unread(binder, step, accessed)

    def perform(machine: MemoryMachine) -> None:
        base = machine.base(keys, pairs)
        if base is None:
            raise NeedsData(step, "address")
        spaces = _flat_spaces(machine, base) if flat else None
        if spaces is not None:
            for space, lanes in spaces:
                machine.note(index, base, offset, lanes, space)
        else:
            machine.note(index, base, offset)
        if unread:
            return
        if accessed.kind == "load":
            words = machine.load_global(base, offset, accessed, spaces)
            if target is None:
                machine.store_behind_m0(accessed, words, offset)
            else:
                machine.write_loaded(target, words, accessed)
            return
        assert data_slot is not None
        words = machine.data(data_slot, accessed)
        if store:
            machine.store_global(base, offset, accessed, words, spaces)
            return
        old = machine.atomic_global(base, offset, accessed, words)
        if target is not None:
            machine.write_loaded(target, old, accessed)

    return perform


def _buffer(binder: Any, step: Instruction, accessed: MemoryAccess) -> Action:
    """Access global memory by a buffer's descriptor: its base and size in bytes.

    Lanes out of bounds load zeros and store nothing; compilers use this for masks. Descriptors with strides
    or swizzles are not supported. Triton's have a size of their own, which arrays are assumed not to exceed.
    """
    data_text, place_text, descriptor, moved_text = ["off"] * accessed.to_lds + list(step.operands)
    if "idxen" in step.modifiers:
        raise binder.error(step, "unknown form, expected a buffer access by bytes")
    first = binder.registers(descriptor).slot
    place = binder.registers(place_text).slot if "offen" in step.modifiers else -1
    moved = binder.words(moved_text)
    data_slot = -1 if accessed.to_lds else binder.registers(data_text).slot
    imm, index, zeros = _imm(step), step.index, [np.zeros((1, 1, 1), np.uint32)] * accessed.words
    unread, masked_to = stores_unread(binder, step, accessed), _masked_to(binder, step, place_text)

    def perform(machine: MemoryMachine) -> None:
        low, high, most = (machine.words(first + word) for word in range(3))
        within, of_wave = machine.base([place], [False]), moved(machine)
        if low is None or high is None or most is None or within is None or of_wave is None:
            beyond = None if within is not None or masked_to is None else masked_to(machine)
            masks = beyond is not None and most is not None and bool((beyond >= most).all())
            raise NeedsData(step, "guard" if masks else "address")
        origin = low.astype(np.int64) + ((high & U16).astype(np.int64) << 32) + of_wave.astype(np.int64)
        base, lanes = origin + within, machine.lanes() & (within + imm < most)
        if ((within > _FARTHEST_MASKED) & (most == _OF_TRITON) & machine.lanes()).any():
            raise binder.error(step, "found an access past 2 GiB of an array, expected smaller arrays")
        machine.note(index, base, imm, lanes)
        if unread:
            return
        with machine.only(lanes):
            if accessed.kind == "load":
                words = machine.load_global(base, imm, accessed) if lanes.any() else zeros
            elif accessed.kind == "store":
                machine.store_global(base, imm, accessed, machine.data(data_slot, accessed))
                return
            else:
                words = machine.atomic_global(base, imm, accessed, machine.data(data_slot, accessed))
        if accessed.to_lds:
            machine.store_behind_m0(accessed, words, imm)
        elif accessed.kind == "load" or returns(step, accessed):
            if words is not None and accessed.kind == "load":
                words = [np.where(lanes, word, np.uint32(0)) for word in words]
            machine.write_loaded(data_slot, words, accessed)

    return perform


def _masked_to(binder: Any, step: Instruction, place: str) -> Reader | None:
    """Return the offset of masked lanes, if the code before chooses it or another by an unknown mask."""
    written = set[str]()
    for earlier in reversed(binder.listing.instructions[: step.index]):
        for made in filter(None, (earlier, earlier.second)):
            if made.operands[:1] != (place,):
                written |= {*made.operands[:1]}
                continue
            if "cndmask_b32" not in made.opcode:
                return None
            of_masked, mask = binder.words(made.operands[1]), made.operands[3:]
            if not mask or mask[0] in written:  # it cannot be seen any more
                return of_masked
            slot = binder.registers(mask[0]).slot
            return lambda machine: of_masked(machine) if machine.words(slot) is None else None
    return None


_OF_TRITON, _FARTHEST_MASKED = 2**31 - 2, 2**31 + 2**24  # bytes: it moves masked lanes to 2^31
U16 = np.uint32(0xFFFF)  # of the second word of a descriptor: the base's upper bits


def _flat_spaces(machine: MemoryMachine, base: np.ndarray) -> list[tuple[str, np.ndarray]] | None:
    """Return lanes by the memory that they access; None if all access global memory."""
    high = base >> 32
    shared, private = high == SHARED_BASE, high == PRIVATE_BASE
    if not (shared.any() or private.any()):
        return None
    lanes = machine.lanes()
    spaces = [("lds", shared & lanes), ("scratch", private & lanes), ("vmem", ~shared & ~private & lanes)]
    return [(space, mask) for space, mask in spaces if mask.any()]


# LDS


def _lds(binder: Any, step: Instruction, accessed: MemoryAccess) -> Action:
    target_text, data, where = operands_of(step, accessed)
    target = binder.registers(target_text[0]).slot if target_text else None
    sources = [binder.registers(text).slot for text in data]
    slot = binder.registers(where[0]).slot
    scale = accessed.bytes * accessed.stride
    if accessed.elements == 2:
        offsets = [scale * int(step.modifiers.get(name, "0"), 0) for name in ("offset0", "offset1")]
    else:
        offsets = [_imm(step)]
    index = step.index
    words_apiece, unread = accessed.words, index in binder.unread

    def perform(machine: MemoryMachine) -> None:
        base = machine.base([slot], [False])
        if base is None:
            raise NeedsData(step, "address")
        for part, offset in enumerate(offsets):
            machine.note(index, base, offset, part=part)
            if unread:
                continue
            if accessed.kind == "load":
                assert target is not None
                words = machine.load_lds(base, offset, accessed)
                machine.write_loaded(target + part * words_apiece, words, accessed)
            elif accessed.kind == "store":
                machine.store_lds(base, offset, accessed, machine.data(sources[part], accessed))
            else:
                old = machine.atomic_lds(base, offset, accessed, [machine.data(s, accessed) for s in sources])
                if target is not None:
                    machine.write_loaded(target, old, accessed)

    return perform


# Scratch


def _scratch(binder: Any, step: Instruction, accessed: MemoryAccess) -> Action:
    target, data, where = operands_of(step, accessed)
    of_wave_text = step.operands[3] if "buffer" in step.opcode else "0"
    moved = None if of_wave_text == "0" else binder.words(of_wave_text)
    size = binder.listing.wave_size
    slot = binder.registers((target or data)[0]).slot
    keys = [binder.registers(text).slot for text in where]
    offset, index, load = _imm(step), step.index, accessed.kind == "load"
    unread = stores_unread(binder, step, accessed)
    word = replace(accessed, bytes=min(4, accessed.bytes))

    def perform(machine: MemoryMachine) -> None:
        base = machine.base(keys, [False] * len(keys))
        of_wave = None if moved is None else moved(machine)
        if base is None or (moved is not None and of_wave is None):
            raise NeedsData(step, "address")
        if of_wave is not None:  # in bytes for all lanes
            if of_wave.size > 1:  # mostly the same in all waves that are active
                waves = machine.running.mask
                active = np.broadcast_to(of_wave, waves.shape)[waves]
                of_wave = active[:1].reshape(1, 1, 1) if (active == active[0]).all() else of_wave
            base = base + (of_wave.astype(np.int64) // size)
        machine.note(index, base, offset)
        if unread:
            return
        for number in range(accessed.words):  # apart: the others may be unknown
            at = offset + 4 * number
            if load:
                machine.write_loaded(slot + number, machine.load_scratch(base, at, word), word)
            else:
                machine.store_scratch(base, at, word, machine.data(slot + number, word))

    return perform


# Scalar


def _scalar(binder: Any, step: Instruction, accessed: MemoryAccess) -> Action:
    if accessed.kind != "load" or step.opcode.startswith("s_buffer"):
        raise binder.error(step, "unknown form, expected a scalar load from an address")
    target = binder.registers(step.operands[0]).slot
    base = binder.reader(operand(step.operands[1]), "U")
    moved = None if step.operands[2] == "null" else binder.words(step.operands[2])
    extra, index = _imm(step), step.index

    def load(machine: MemoryMachine) -> None:
        address, offset = base(machine), None if moved is None else moved(machine)
        if address is None or (moved is not None and offset is None):
            raise NeedsData(step, "address")
        where = address.astype(np.int64) + extra
        if offset is not None:
            signed = offset.size == 1 and step.operands[2].startswith(("0x", "-"))
            where = where + (offset.view(np.int32) if signed else offset).astype(np.int64)
        machine.note(index, where, 0, machine.running.mask)  # regardless of active lanes
        words = machine.load_scalar(where, accessed)
        for word in range(accessed.words):
            machine.write_scalar(target + word, None if words is None else words[word])

    return load


_BINDERS: dict[str, Callable[[Any, Instruction, MemoryAccess], Action]] = {
    "vmem": _global,
    "flat": _global,
    "lds": _lds,
    "scratch": _scratch,
    "smem": _scalar,
}

"""Scalar instructions that move and combine masks of lanes, and others that select the active lanes."""

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.opcodes import OpcodeRow
from dse.source.amd.execute.operands import OperandReaders, by_kind
from dse.source.amd.execute.results import Action
from dse.source.amd.execute.slots import EXEC, SCC, Register, Symbol, operand
from dse.source.amd.execute.state import NeedsData
from dse.source.amd.text import Instruction

_MASK_LOGIC: dict[str, Callable[..., Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    **dict.fromkeys(("andn2", "and_not1"), lambda a, b: a & ~b),
    **dict.fromkeys(("orn2", "or_not1"), lambda a, b: a | ~b),
    **dict.fromkeys(("andn1", "and_not0"), lambda a, b: ~a & b),
    **dict.fromkeys(("orn1", "or_not0"), lambda a, b: ~a | b),
    "not": np.invert,
    **dict.fromkeys(("mov", "wqm"), lambda a: a),
}


def _select(binder: OperandReaders, step: Instruction) -> Action:
    target = binder.registers(step.operands[0]).slot
    two = step.opcode.endswith("64")
    sources = [binder.slots(operand(text), "U" if two else "u") for text in step.operands[1:]]

    def select(machine: MemoryMachine) -> None:
        condition = machine.condition()
        if target == EXEC:
            if condition is None:
                raise NeedsData(step, "mask of lanes")
            first, second = (machine.mask(low, high) for low, high in sources)
            if first is None or second is None:
                raise NeedsData(step, "mask of lanes")
            machine.write_mask(target, np.where(condition, first, second))
            return
        for word in range(2 if two else 1):
            a, b = (machine.words(slots[word]) for slots in sources)
            selected = None
            if condition is not None and a is not None and b is not None:
                selected = np.where(condition, a, b)
            machine.write_scalar(target + word, selected)

    return select


def _logic(binder: OperandReaders, step: Instruction) -> Action:
    """Bitwise logic of scalars, which may be masks of lanes, or a move, which keeps the condition."""
    function, moves = _MASK_LOGIC[step.opcode[2:].rpartition("_b")[0]], step.opcode.startswith("s_mov")
    target = binder.registers(step.operands[0]).slot
    operands = [operand(text) for text in step.operands[1:]]
    if isinstance(symbol := operands[0].place, Symbol):
        read = binder.symbol(symbol, step)
        return lambda machine: machine.write_scalar(target, read(machine))
    words = 2 if step.opcode.endswith("64") else 1
    sources = [binder.slots(source, "U" if words == 2 else "u") for source in operands]
    of_mask = step.opcode.endswith("64" if binder.wide else "32")  # by the size of operands

    def compute(machine: MemoryMachine) -> None:
        values = [machine.r[low] for low, _ in sources if low != SCC]
        if target == EXEC or (of_mask and any(v.__class__ is np.ndarray and v.dtype == bool for v in values)):
            masks = [machine.mask(low, high) for low, high in sources]
            known = all(mask is not None for mask in masks)
            if not known and target == EXEC:
                raise NeedsData(step, "mask of lanes")
            mask = function(*masks) if known else None
            machine.write_mask(target, mask)
            if not moves:
                machine.set_condition_to_any(mask)
            return
        results = []
        for word in range(words):
            read_words = [machine.words(slots[word]) for slots in sources]
            results.append(None if any(value is None for value in read_words) else function(*read_words))
        for word, result in enumerate(results):
            machine.write_scalar(target + word, result)
        if not moves:
            known = all(result is not None for result in results)
            machine.write_scalar(SCC, reduce(or_, (result != 0 for result in results)) if known else None)

    return compute


def _saveexec(binder: OperandReaders, step: Instruction) -> Action:
    """Change the mask of active lanes, and save its old value; with `wrexec` its new value."""
    keeps_new = "_wrexec" in step.opcode
    function = _MASK_LOGIC[step.opcode[2:].partition("_wrexec" if keeps_new else "_saveexec")[0]]
    target = binder.registers(step.operands[0]).slot
    low, high = binder.slots(operand(step.operands[1]), "U" if binder.wide else "u")

    def change(machine: MemoryMachine) -> None:
        before, other = machine.mask(EXEC), machine.mask(low, high)
        if other is None or before is None:
            raise NeedsData(step, "mask of lanes")
        after = function(other, before)
        machine.write_mask(target, after if keeps_new else before)
        machine.write_mask(EXEC, after)
        machine.set_condition_to_any(after)

    return change


def compare_into_exec(binder: OperandReaders, step: Instruction, row: OpcodeRow) -> Action:
    """Compare, and deactivate the lanes for which the comparison fails."""
    targets, sources = by_kind(step.operands, row)
    readers = [binder.reader(source, kind, step) for kind, source in sources]
    function = row.function
    assert function is not None

    def compare(machine: MemoryMachine) -> None:
        values = [read(machine) for read in readers]
        if any(value is None for value in values):
            raise NeedsData(step, "mask of lanes")
        mask = function(*values) & machine.lanes()
        for _, target in targets:
            assert isinstance(target.place, Register)
            machine.write_mask(target.place.slot, mask)
        machine.write_mask(EXEC, mask)

    return compare


SPECIAL: dict[str, Callable[[OperandReaders, Instruction], Action]] = {
    "move": _logic,
    "select": _select,
    "logic": _logic,
    "saveexec": _saveexec,
    "wrexec": _saveexec,
}

"""Actions: functions of the machine for instructions that compute or access memory."""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute import access, lanes, masks, semantics
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.memory_names import memory_access
from dse.source.amd.execute.opcodes import OpcodeRow, opcode
from dse.source.amd.execute.operands import (
    LOW_FROM_LOW,
    OperandReaders,
    Reader,
    between_lanes,
    by_kind,
    listed,
    word_of,
)
from dse.source.amd.execute.results import (
    Action,
    finisher,
    one_result,
    or_low_word,
    or_ordinary,
    results_of,
    then,
    without_lanes,
)
from dse.source.amd.execute.slots import SCC, AmdOperand, V, beyond, operand
from dse.source.amd.text import Instruction

_REFUSED = {  # patterns of opcodes
    "s_(swappc|setpc|call)": " (of a call that is not inlined, as of a function that calls itself)",
    r"\w+\.": " (of PTX, which asm in the source has)",
}
_OF_NAN = re.compile("v_cmp_([ou])_f")
_CLAMPED: dict[Any, Callable[..., Any]] = {np.add: semantics.clamped_add, np.subtract: semantics.clamped_sub}


class Binder(OperandReaders):
    """Makes the actions of a listing's instructions."""

    def check(self, step: Instruction) -> None:
        """Check opcode and registers.

        **Raises:** DseError if the opcode is unknown, or for registers that no GPU has.
        """
        for half in (step, step.second):
            if half is not None and not _is_known(half.opcode):
                what = next((what for start, what in _REFUSED.items() if re.match(start, half.opcode)), "")
                raise self.error(
                    step, f"unknown opcode{what}, expected one of dse/source/amd/execute/opcodes.py"
                )
            for text in half.operands if half is not None else ():
                if beyond(text):
                    raise self.error(step, f"found {text!r}, expected registers that there are")

    def actions(self, step: Instruction) -> list[Action]:
        """Return the actions of an instruction, mostly one; copies of a binder share them.

        **Raises:** DseError if the instruction, or this form of it, is unknown.
        """
        key = (step.index, step.index in self.unread)
        if key in self._actions:
            return self._actions[key]
        try:
            self._actions[key] = self._bound(step)
            return self._actions[key]
        except DseError as problem:
            if str(problem).startswith(f"{self.listing.name} ("):
                raise
            raise self.error(step, str(problem)) from None
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as problem:
            raise self.error(step, f"unknown form ({problem})") from None

    def _bound(self, step: Instruction) -> list[Action]:
        return self._of_one(step) if step.second is None else self._together(step, step.second)

    def _together(self, first: Instruction, second: Instruction) -> list[Action]:
        """Return the actions of two instructions issued together: both read before either writes."""
        actions, other_actions = self._of_one(first), self._of_one(second)
        slot = self.registers(first.operands[0]).slot

        def both(machine: MemoryMachine) -> None:
            before = machine.r[slot]
            for action in actions:
                action(machine)
            after = machine.r[slot]
            machine.r[slot] = before
            for action in other_actions:
                action(machine)
            machine.r[slot] = after

        return [both]

    def _of_one(self, step: Instruction) -> list[Action]:
        row = opcode(step.opcode)
        if row is None:
            accessed = memory_access(step.opcode)
            if accessed is not None:
                return [access.bind(self, step, accessed)]
            return [lanes.LANE_MOVES[step.opcode](self, step)]
        if row.special:
            return [self._special(step, row)]
        if not row.form:
            return []
        return [self._compute(step, row)]

    def _compute(self, step: Instruction, row: OpcodeRow) -> Action:
        """Return the action that reads operands, computes and writes."""
        results = row.form.partition("=")[0]
        targets, sources = by_kind(step.operands, row)
        readers = [self._source(source, kind, step, number) for number, (kind, source) in enumerate(sources)]
        writers = [self.writer(target, kind, step) for kind, target in targets]
        writers += [lambda machine, value: machine.write_scalar(SCC, value)] * results.count("c")
        function = None if "clamp" in step.modifiers and results[0] in "HWS" else row.function
        finish = finisher(step, results[0])
        if function is None:

            def forget(machine: MemoryMachine) -> None:
                for write in writers:
                    write(machine, None)

            return forget
        if function is semantics.looked_up:
            function = partial(function, int(step.modifiers.get("bitop3", "0"), 0))
        if "clamp" in step.modifiers and results[0] in "uU":
            function = _CLAMPED.get(function)
            if function is None:
                raise self.error(step, "unknown form, expected no clamp but of a sum or a difference")
        elif finish is not None:
            function = then(function, finish, len(writers) > 1)
        action = (
            one_result(function, readers, writers[0])
            if len(writers) == 1
            else results_of(function, readers, writers)
        )
        if step.opcode in LOW_FROM_LOW:
            lows = [
                self.reader(source, "u", step) if kind in "UI" else read
                for (kind, source), read in zip(sources, readers, strict=True)
            ]
            action = or_low_word(action, function, readers, lows, writers, targets[0][1].place)
        if of_nan := _OF_NAN.match(step.opcode):
            action = or_ordinary(action, readers, writers[0], of_nan[1] == "o")
        if not step.modifiers:
            return action
        kept = lanes.without_source(step, self.listing.wave_size) if between_lanes(step) else None
        return action if kept is None else without_lanes(action, kept)

    def _source(self, source: AmdOperand, kind: str, step: Instruction, number: int) -> Reader:
        if kind in "PHWS":
            return self.packed(source, kind, number, step)
        return self.mixed(source, number, step) if kind == "x" else self.reader(source, kind, step, number)

    def _special(self, step: Instruction, row: OpcodeRow) -> Action:
        if row.special in ("matrix", "unknown", "getreg"):  # of a hardware register
            target = self.registers(step.operands[0])
            write = MemoryMachine.write_vector if target.slot >= V else MemoryMachine.write_scalar
            product = row.special == "matrix"

            def forget(machine: MemoryMachine) -> None:
                for slot in range(target.slot, target.slot + target.count):
                    write(machine, slot, machine.products if product else None)

            return forget
        if row.special == "trap":

            def stop(machine: MemoryMachine) -> None:
                raise self.error(step, "found waves that come to a trap, expected none")

            return stop
        if row.special == "cmpx":
            return masks.compare_into_exec(self, step, row)
        if row.special == "pk_mov":
            return self._packed_move(step)
        if row.special in masks.SPECIAL:
            return masks.SPECIAL[row.special](self, step)
        return lanes.SPECIAL[row.special](self, step)

    def _packed_move(self, step: Instruction) -> Action:
        target = self.registers(step.operands[0]).slot
        slots = [self.slots(operand(text), "P") for text in step.operands[1:]]
        low = word_of(slots[0][listed(step, "op_sel", 0, 0)])
        high = word_of(slots[1][listed(step, "op_sel", 1, 0)])

        def move(machine: MemoryMachine) -> None:
            first, second = low(machine), high(machine)
            machine.write_vector(target, first)
            machine.write_vector(target + 1, second)

        return move


@cache
def _is_known(name: str) -> bool:
    return opcode(name) is not None or memory_access(name) is not None or name in lanes.LANE_MOVES

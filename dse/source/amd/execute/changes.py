"""Changes of registers from one trip of a loop to the next, propagated through the instructions of a trip.

A register that is `moving` changes by the same in every trip. It is proven for each instruction whether its
result is moving too, whether a test has the same result for a number of trips, or else it is `NON_LINEAR`.
"""

from typing import Any

import numpy as np

from dse.source.amd.execute.access import operands_of
from dse.source.amd.execute.even import I64, NON_LINEAR, LinearRules, number
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.amd.execute.opcodes import OpcodeRow, opcode
from dse.source.amd.execute.operands import by_kind
from dse.source.amd.execute.slots import EXEC, SCC, Register, operand, registers_of, slots_of
from dse.source.amd.text import Instruction
from dse.source.machine.trips import UINT32, Irregular, signed, uniform


class ChangeRules(LinearRules):
    """The changes of one trip, followed through its instructions."""

    def follow(self, step: Instruction) -> list[tuple[Any, Any]]:
        """Return the changes of the results of an instruction about to be executed, by slot."""
        if step.second is None:
            return self._of_one(step)
        return self._of_one(step) + self._of_one(step.second)

    def _of_one(self, step: Instruction) -> list[tuple[Any, Any]]:
        row = opcode(step.opcode)
        if row is None:
            if memory_access(step.opcode) is None:
                return self._plain(step)
            return []  # see `access`
        if row.special:
            return self._special(step, row)
        if not row.form:
            return []
        return self._computed(step, row)

    def _plain(self, step: Instruction) -> list[tuple[Any, Any]]:
        """Return changes of results: none if no source changes, else unknown."""
        written, read = slots_of(step.operands[:1]), slots_of(step.operands[1:])
        changes = [self.read(slot) for slot in read]
        moves = any(change is not None for change in changes)
        return [(slot, NON_LINEAR if moves else None) for slot in written]

    def _special(self, step: Instruction, row: OpcodeRow) -> list[tuple[Any, Any]]:
        written, read = slots_of(step.operands[:1]), slots_of(step.operands[1:])
        if row.special == "cmpx":
            return self._computed(step, row)
        if row.special in ("saveexec", "wrexec", "logic"):
            read = [*read, EXEC] if row.special != "logic" else read
            changes = [self.read(slot) for slot in read]
            if row.special != "logic" and any(change is not None for change in changes):
                raise Irregular("the mask of its lanes changes")
            result = NON_LINEAR if any(change is not None for change in changes) else None
            if result is NON_LINEAR and len(written) == 1:
                result = self._bits(step)
            if result is NON_LINEAR and EXEC in written:
                raise Irregular("the mask of its lanes changes")
            return [*((slot, result) for slot in written), (SCC, NON_LINEAR if result is not None else None)]
        if row.special == "move":
            source = operand(step.operands[1]).place
            if not isinstance(source, Register):
                return [(slot, None) for slot in written]
            changes = [self.read(source.slot + word) for word in range(len(written))]
            if EXEC in written and any(change is not None for change in changes):
                raise Irregular("the mask of its lanes changes")
            return list(zip(written, changes, strict=True))
        if row.special == "select":
            return self._selected(step, written)
        if row.special == "readfirstlane":
            change = self.read(read[0])
            if change is not None and change is not NON_LINEAR:
                lane_change = uniform(change, self.machine.lanes())
                change = NON_LINEAR if lane_change is None else np.full((1, 1, 1), lane_change, I64)
            return [(written[0], change)]
        if row.special == "swap":
            return [(read[0], self.read(written[0])), (written[0], self.read(read[0]))]
        if row.special in ("writelane", "row_swap"):
            moves = any(self.read(slot) is not None for slot in (*read, *written))
            changed = [*written, *read] if row.special == "row_swap" else written
            return [(slot, NON_LINEAR if moves else None) for slot in changed]
        return self._plain(step)

    def _selected(self, step: Instruction, written: list[int]) -> list[tuple[Any, Any]]:
        condition = self.machine.condition()
        if self.read(SCC) is not None:
            return [(slot, NON_LINEAR) for slot in written]
        results: list[tuple[Any, Any]] = []
        for word, slot in enumerate(written):
            pair = []
            for text in step.operands[1:]:
                place = operand(text).place
                pair.append(self.read(place.slot + word) if isinstance(place, Register) else None)
            lost = NON_LINEAR in [change for change in pair if isinstance(change, str)]
            if pair[0] is None and pair[1] is None:
                results.append((slot, None))
            elif lost or condition is None:
                results.append((slot, NON_LINEAR))
            else:
                results.append((slot, np.where(condition, number(pair[0]), number(pair[1]))))
        return results

    def _computed(self, step: Instruction, row: OpcodeRow) -> list[tuple[Any, Any]]:
        results = row.form.partition("=")[0]
        targets, sources = by_kind(step, row)
        written: list[tuple[int, str]] = []
        for kind, target in targets:
            place = target.place
            assert isinstance(place, Register)
            written.append((place.slot, kind))
            if place.half or kind in "wsh":
                self.read(place.slot)  # the other half is kept
        if row.special == "cmpx":
            written.append((EXEC, "M"))
        changes = [self._change(kind, source.place) for kind, source in sources]
        outputs: list[tuple[Any, Any]] = []
        if all(change is None for change in changes):
            for slot, kind in written:
                outputs += [(slot + word, None) for word in range(self._words(kind))]
            return outputs + [(SCC, None)] * results.count("c")
        lost = any(isinstance(change, str) for change in changes)
        outcome = [NON_LINEAR] * len(results)
        if not lost and not step.modifiers:
            outcome = self._evenly(step, row, results, sources, changes)
        for (slot, kind), change in zip(written, outcome, strict=False):
            if slot == EXEC and change is not None:
                raise Irregular("the mask of its lanes changes")
            outputs += self._spread(slot, kind, change)
        if "c" in results:
            outputs.append((SCC, outcome[-1]))
        return outputs

    def _spread(self, slot: int, kind: str, change: Any) -> list[tuple[Any, Any]]:
        if kind not in "UIDP" or not isinstance(change, tuple):
            return [(slot + word, change) for word in range(self._words(kind))]
        return [(slot, change[0]), (slot + 1, change[1])]

    # Memory

    def access(
        self, step: Instruction, accessed: MemoryAccess, performed: range, known: bool
    ) -> list[tuple[Any, Any]]:
        """Record the stride of a performed access, and return the changes of its results.

        `performed` are the numbers of its records; `known` says whether it loaded known words.
        """
        machine = self.machine
        targets, data, where = operands_of(step, accessed)
        total: Any = None
        for place in registers_of(where):
            change = self._change("U" if place.count == 2 else "u", place)
            if isinstance(change, str):
                total = NON_LINEAR
                break
            if change is None:
                continue
            low = machine.words(place.slot)
            if low is not None:
                self.limit(low.astype(I64), signed(change), UINT32)
            total = change if total is None else total + change
        if step.opcode.startswith("buffer") and "offen" in step.modifiers:
            self._stay_in_buffer(step)
        for record in performed:
            lanes = machine.accesses[record].lanes
            stride = 0 if total is None else None if isinstance(total, str) else uniform(total, lanes)
            self.strides.append(stride)
        moves = total is not None
        if accessed.space == "scratch":
            return self._scratch(slots_of([*targets, *data]), accessed.kind == "load", moves)
        for slot in slots_of(data):
            self.read(slot)
        if accessed.kind != "load" or accessed.to_lds:
            follows = machine.follow > 0 and (accessed.space == "lds" or accessed.to_lds)
            if follows or (machine.stated and accessed.space in ("vmem", "flat") and known):
                raise Irregular("it changes memory whose contents matter")
        lost = known and (moves or accessed.space == "lds" or accessed.kind != "load")
        return [(slot, NON_LINEAR if lost else None) for slot in slots_of(targets)]

    def _stay_in_buffer(self, step: Instruction) -> None:
        """Limit the trips to those in which lanes stay within a buffer's bounds, or out of them."""
        place, descriptor = (operand(text).place for text in step.operands[-3:-1])
        assert isinstance(place, Register)
        assert isinstance(descriptor, Register)
        slots = (place.slot, descriptor.slot + 2)
        within, most = (self.machine.words(slot) for slot in slots)
        changes = [self._change("u", Register(slot, 1)) for slot in slots]
        if within is None or most is None or NON_LINEAR in [x for x in changes if isinstance(x, str)]:
            return  # trips of such an access are estimated
        values = [within.astype(I64) + int(step.modifiers.get("offset", "0"), 0), most.astype(I64)]
        self._compared("u", values, changes)

    def _scratch(self, slots: list[int], load: bool, moves: bool) -> list[tuple[Any, Any]]:
        """Follow words of scratch like registers, by address."""
        address = self.machine.accesses[-1].base + self.machine.accesses[-1].offset
        if address.size != 1 or moves:
            if load:
                known = any(self.machine.r[slot] is not None for slot in slots)
                return [(slot, NON_LINEAR if known else None) for slot in slots]
            for slot in slots:
                self.read(slot)
            raise Irregular("it stores to places in scratch that differ")
        at = int(address.flat[0])
        if load:
            return [(slot, self.read(("scratch", at + 4 * word & ~3))) for word, slot in enumerate(slots)]
        return [(("scratch", at + 4 * word & ~3), self.read(slot)) for word, slot in enumerate(slots)]

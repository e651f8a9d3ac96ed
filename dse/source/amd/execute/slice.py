"""Find the instructions that must be executed: those that branches, masks of lanes and addresses depend on.

This is a backward slice, from a fixed point of liveness over pieces of straight code. Sets of slots are bits
of a Python integer; LDS and global memory are one slot each, and so is scratch but for words whose place the
code states, as of spilled registers. What scalar loads read no store of the kernel has changed. Of a vector
register in which only scalars are spilled, each lane is a slot. The others, and words of scratch, are written
in active lanes only. So liveness in active lanes, which a write ends, is kept apart from liveness in any
lane: the former becomes the latter before an instruction that may activate lanes; if it restores a mask that
a scalar register holds, it becomes liveness in the lanes of that mask, and in active ones again where it was
saved.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import NamedTuple

from dse.source.amd.execute.access import operands_of
from dse.source.amd.execute.memory_names import MemoryAccess, memory_access
from dse.source.amd.execute.opcodes import opcode
from dse.source.amd.execute.operands import LOW_FROM_LOW, between_lanes, by_kind
from dse.source.amd.execute.slots import (
    CONSTANTS,
    EXEC,
    M0,
    NULL,
    SCC,
    VCC,
    ConstantOperand,
    Register,
    V,
    operand,
    slots_of,
)
from dse.source.amd.text import Instruction
from dse.source.machine.feeds import Feeds
from dse.source.machine.liveness import Purpose, bits_of, predecessors_of, settle

_SPACES = {"lds": 1 << CONSTANTS, "scratch": 1 << (CONSTANTS + 1), "vmem": 1 << (CONSTANTS + 2)}
_SPACES |= {"flat": sum(_SPACES.values()), "smem": 1 << (CONSTANTS + 3)}
_MEMORIES = {"lds": "shared", "scratch": "local"}
_WORDS = CONSTANTS + len(_SPACES)  # from here on those of scratch
_MOST_WORDS = 2**14
_ALL_WORDS = (1 << _MOST_WORDS) - 1 << _WORDS
_LANES = _WORDS + _MOST_WORDS  # from here on those of registers that keep a scalar in each lane
_STORES = _LANES + 64 * (CONSTANTS - V)  # from here on what each store to the LDS has written
_SCALARS = (1 << V) - 1 | -1 << _LANES
_EXEC = 0b11 << EXEC
_CONDITIONS = {"scc": 1 << SCC, "vcc": 0b11 << VCC, "exe": _EXEC}  # of branches
_BOTH_WRITTEN = ("swap", "row_swap")
_UNKNOWN = ("matrix", "unknown", "getreg")  # their results are
_FROM_OTHER_LANES = re.compile(r"v_(read(first)?lane|permlane)|ds_(b?permute|swizzle)")
_AND_WITH_MASK = re.compile(r"s_(and|andn1|and_not0)_saveexec|s_(andn1|and_not0)_wrexec")
_OTHERS = re.compile(r"s_(andn2|and_not1)_saveexec")  # lanes of a mask that are not active
_AND = re.compile(r"s_and(n2|_not1)?_b\d\d$")
_COMBINES = re.compile(r"s_(mov|or|xor)_b")


class Effect(NamedTuple):
    """What an instruction does to slots, as bits."""

    number: int  # of the instruction
    always: int = 0  # that it reads even if nothing depends on its results
    wanted_by: int = 0  # that make it needed if they are live
    kills: int = 0  # that it overwrites, in active lanes
    reads: int = 0  # in active lanes
    reads_any: int = 0  # in any lane
    address: int = 0  # that an access reads if it is counted
    memories: frozenset[str] = frozenset()  # that it accesses
    stays: bool = False  # it is executed even if nothing depends on its results
    widens: bool = False  # the mask of lanes: others may be active before it
    saves: int = 0  # a mask of lanes, in these scalar registers
    within: int = 0  # the lanes of that are among active ones (EXEC) and those of a mask in these
    restores: int = 0  # the mask in these, mostly beside the lanes that are active
    copies: int = 0  # before it, these hold the mask of active lanes


class Flow:
    """Pieces of straight code, and those that may follow each; `wave` is the number of lanes."""

    def __init__(
        self, blocks: Sequence[Sequence[Instruction]], successors: Sequence[Sequence[int]], wave: int
    ) -> None:
        self.successors, self.predecessors = successors, predecessors_of(successors)
        self.effects = _effects(blocks, self.predecessors, wave)
        # Pieces that end with a jump where no lane is active: to the first of those that may follow.
        self.jump_without_lanes = {
            index for index, block in enumerate(blocks) if block[-1].opcode == "s_cbranch_execz"
        }

    def needed_steps(
        self,
        purpose: Purpose,
        *,
        only: Collection[int] | None = None,
        feeds: Feeds | None = None,
    ) -> tuple[set[int], set[int]]:
        """Return the instructions to execute, and those of them whose results nothing depends on.

        `only` some instructions' addresses are needed for themselves; None: of all that the purpose has.
        `feeds` are the stores that loads from the LDS read; any store for others.
        """
        effects = self.effects
        if feeds is not None:
            effects = [[_fed(effect, feeds.get(effect.number)) for effect in block] for block in effects]
        # at the start: in active lanes, in any lane, in lanes of saved masks
        live: list[tuple[int, int, dict[int, int]]] = [(0, 0, {})] * len(effects)
        needed: list[list[int]] = [[]] * len(effects)  # as seen last, with what is live at the end
        wanted = needed[:]

        def before(index: int) -> tuple[int, int, dict[int, int]]:
            needed[index], wanted[index] = [], []
            active, anywhere, saved = 0, 0, dict[int, int]()
            for place, successor in enumerate(self.successors[index]):
                none = place == 0 and index in self.jump_without_lanes
                active |= live[successor][0] & (_SCALARS if none else -1)
                anywhere |= live[successor][1]
                for mask, bits in live[successor][2].items():
                    saved[mask] = saved.get(mask, 0) | bits
            for effect in reversed(effects[index]):
                asked = reduce(or_, saved.values(), active | anywhere) & effect.wanted_by
                if effect.restores:
                    saved[effect.restores] = saved.get(effect.restores, 0) | (active & ~_SCALARS)
                    anywhere |= active & _SCALARS
                    active &= ~_SCALARS
                elif effect.widens:
                    active, anywhere = 0, active | anywhere
                if saved:
                    for mask in [mask for mask in saved if mask & effect.wanted_by]:
                        bits, within = saved.pop(mask), effect.within if mask == effect.saves else 0
                        anywhere |= 0 if within else bits
                        active |= bits if within & _EXEC else 0
                        if other := within & ~_EXEC:
                            saved[other] = saved.get(other, 0) | bits
                    for mask in [mask for mask in saved if not mask & ~effect.copies]:
                        active |= saved.pop(mask)
                if asked:
                    active &= ~effect.kills
                    anywhere = (anywhere & ~(effect.kills & _SCALARS)) | effect.reads_any
                    active |= effect.reads
                own = only is None or effect.number in only
                counted = own and not effect.memories.isdisjoint(purpose.value)
                active = (active | effect.always | (effect.address if counted else 0)) & ~anywhere
                if saved:
                    saved = {mask: left for mask, bits in saved.items() if (left := bits & ~anywhere)}
                if asked:
                    wanted[index].append(effect.number)
                if asked or effect.stays or counted:
                    needed[index].append(effect.number)
            return active, anywhere, saved

        settle(live, self.predecessors, before)
        executed = {*chain(*needed)}
        return executed, executed.difference(*wanted)


def _effects(
    blocks: Sequence[Sequence[Instruction]],
    predecessors: Sequence[Sequence[int]],
    wave: int,
) -> list[list[Effect]]:
    """Return what instructions do, with the registers that state places in scratch or the active lanes."""
    numbers, copies, effects = dict[int, int](), 0, list[list[Effect]]()
    for index, block in enumerate(blocks):
        if predecessors[index] != [index - 1]:
            numbers, copies = {}, 0
        effects.append([])
        for step in block:
            effect, accessed = effect_of(step, wave), memory_access(step.opcode)
            if (
                accessed
                and accessed.space == "scratch"
                and (words := _words_at(step, accessed, wave, numbers))
            ):
                if accessed.kind == "load":
                    effect = effect._replace(reads=effect.reads & ~_SPACES["scratch"] | words)
                else:
                    killed = words if accessed.bytes >= 4 else 0
                    effect = effect._replace(wanted_by=words | _SPACES["scratch"], kills=killed)
            for part in _parts(step, effect, wave):
                effects[-1].append(part._replace(copies=copies) if copies else part)
            copies = 0 if effect.wanted_by & _EXEC else copies & ~effect.wanted_by
            if step.opcode.startswith("s_mov_b") and effect.within == _EXEC:
                copies |= effect.saves
            lost = effect.wanted_by | (~_SCALARS if effect.widens else 0)  # other lanes hold other numbers
            for slot in [slot for slot in numbers if lost >> slot & 1]:
                del numbers[slot]
            if step.opcode in ("s_mov_b32", "s_movk_i32", "v_mov_b32") and not step.modifiers:
                source = operand(step.operands[1]).place
                if isinstance(source, ConstantOperand):
                    numbers[slots_of(step.operands[:1])[0]] = source.bits
    return _by_lane(blocks, effects)


def _parts(step: Instruction, effect: Effect, wave: int) -> Sequence[Effect]:
    """Return what each part of an instruction does, which is needed for its own result.

    Both read before they write.
    """
    if step.second is not None:
        first, second = (_of_one(half, wave)._replace(number=step.index) for half in (step, step.second))
    elif step.opcode in LOW_FROM_LOW and (row := opcode(step.opcode)) is not None:
        (_, target), *_ = (operands := by_kind(step.operands, row))[0]
        sources = [(kind, source.place) for kind, source in operands[1]]
        low = bits_of(list(_slots(target.place, "u", wave))[:1])
        second = effect._replace(
            wanted_by=low,
            kills=low,
            reads=bits_of(
                slot
                for kind, place in sources
                for slot in list(_slots(place, kind, wave))[: 1 if kind in "UI" else None]
            ),
        )
        first = effect._replace(wanted_by=effect.wanted_by & ~low, kills=effect.kills & ~low)
    else:
        return (effect,)
    return first._replace(kills=first.kills & ~second.reads), second


def _by_lane(
    blocks: Sequence[Sequence[Instruction]], effects: Sequence[Sequence[Effect]]
) -> list[list[Effect]]:
    """Tell apart the lanes of vector registers in which scalars are spilled, and nothing else is kept."""
    steps = {step.index: step for block in blocks for step in block}
    lanes = {number: lane for number, step in steps.items() if (lane := _lane(step)) is not None}
    others = [effect for block in effects for effect in block if effect.number not in lanes]
    elsewhere = reduce(or_, (x.wanted_by | x.reads | x.reads_any | x.address | x.always for x in others), 0)

    def narrowed(effect: Effect) -> Effect:
        register, lane = lanes.get(effect.number, (0, 0))
        if not register or elsewhere >> register & 1:
            return effect
        whole, part = 1 << register, 1 << _LANES + 64 * (register - V) + lane
        if effect.wanted_by & whole:
            return effect._replace(wanted_by=part, kills=part, reads=effect.reads & ~whole)
        return effect._replace(reads_any=effect.reads_any & ~whole | part)

    return [[narrowed(effect) for effect in block] for block in effects]


def _fed(effect: Effect, stores: Iterable[int] | None) -> Effect:
    """Tell apart what stores to the LDS write, of which a load reads that of these."""
    lds = _SPACES["lds"]
    if effect.wanted_by & lds:
        effect = effect._replace(wanted_by=effect.wanted_by | 1 << _STORES + effect.number)
    if effect.reads & lds and stores is not None:
        effect = effect._replace(
            wanted_by=effect.wanted_by & ~lds,
            reads=effect.reads & ~lds | bits_of(_STORES + number for number in stores),
        )
    return effect


def _lane(step: Instruction) -> tuple[int, int] | None:
    """Return the vector register and the lane of a scalar that an instruction spills or restores."""
    if step.opcode not in ("v_writelane_b32", "v_readlane_b32") or step.second is not None:
        return None
    lane = operand(step.operands[2]).place
    register = slots_of(step.operands[:1] if step.opcode == "v_writelane_b32" else step.operands[1:2])
    return (register[0], lane.bits & 63) if isinstance(lane, ConstantOperand) else None


def effect_of(step: Instruction, wave: int) -> Effect:
    """Return what an instruction does, together with the one that is issued with it."""
    own = _of_one(step, wave)
    if step.second is None:
        return own
    other = _of_one(step.second, wave)
    return own._replace(**{name: getattr(own, name) | getattr(other, name) for name in Effect._fields[1:]})


def _of_one(step: Instruction, wave: int) -> Effect:
    if step.opcode.startswith("s_cbranch_"):
        return Effect(step.index, always=_CONDITIONS[step.opcode.removeprefix("s_cbranch_")[:3]])
    accessed, row = memory_access(step.opcode), opcode(step.opcode)
    if accessed is not None:
        return _access(step, accessed)
    special = "" if row is None else row.special
    if row is not None and not row.form and (not special or special == "trap"):
        return Effect(step.index, stays=bool(special))
    partial = special in ("writelane", "movreld", *_BOTH_WRITTEN) or between_lanes(step)
    if row is not None and row.form:
        targets, sources = by_kind(step.operands, row)
        written = [slot for kind, target in targets for slot in _slots(target.place, kind, wave)]
        read = [slot for kind, source in sources for slot in _slots(source.place, kind, wave)]
        written += [SCC] * row.form.partition("=")[0].count("c")
        partial |= any(kind in "wsh" for kind, _ in targets)
    else:
        written = slots_of(step.operands[:1])
        read = [] if special in _UNKNOWN else slots_of(step.operands[1:])
    if special in ("saveexec", "wrexec", "cmpx"):
        written = [*written, EXEC, EXEC + 1]
    if special in ("saveexec", "wrexec", "logic"):
        written = [*written, SCC]
    if special in ("saveexec", "wrexec", "select"):
        read = [*read, EXEC, EXEC + 1, SCC]
    if special in _BOTH_WRITTEN:
        written = read = [*written, *read]
    writes, reads = bits_of(written) & ~(1 << NULL), bits_of(read)  # which reads as 0 whatever is written
    crossing = between_lanes(step) or _FROM_OTHER_LANES.match(step.opcode) is not None
    of_mask = bool(writes & _EXEC)
    within = _EXEC if special == "saveexec" else _lanes_within(step)
    return Effect(
        step.index,
        always=reads if of_mask else 0,
        wanted_by=writes,
        kills=0 if partial else writes,
        reads=0 if crossing else reads,
        reads_any=reads if crossing else 0,
        memories=frozenset({"shared"} if row is None else ()),  # such moves count as accesses
        stays=of_mask,
        widens=of_mask and not _narrows(step),
        saves=bits_of(slots_of(step.operands[:1])) if within else 0,
        within=within,
        restores=_restored(step) if of_mask else 0,
    )


def _lanes_within(step: Instruction) -> int:
    """Return the masks, as bits, that have all lanes of a mask that an instruction computes; 0: unknown."""
    first = _AND.match(step.opcode)
    if not (first or _COMBINES.match(step.opcode)):
        return 0
    masks = [bits_of(slots_of([text])) for text in step.operands[1:]]
    masks = [_EXEC if mask & _EXEC else mask for mask in masks]
    if first:  # of two, mostly the first one holds the lanes active before
        return _EXEC if _EXEC in masks and not first[1] else masks[0]
    return reduce(or_, masks) if len(masks) == 1 or (_EXEC in masks and 0 not in masks) else 0


def _restored(step: Instruction) -> int:
    """Return the scalar registers, as bits, whose mask of lanes an instruction makes active."""
    masks = [text for text in step.operands[1:] if not text.startswith("exec")]
    others = _OTHERS.match(step.opcode) and step.operands[0] != step.operands[1]
    if not (others or step.opcode.startswith(("s_or_b", "s_mov_b"))) or len(masks) != 1:
        return 0
    return bits_of(slots_of(masks)) & _SCALARS & ~_EXEC


def _narrows(step: Instruction) -> bool:
    """Return whether an instruction that writes the mask of lanes only deactivates some."""
    name = step.opcode
    if name.startswith("v_cmpx") or _AND_WITH_MASK.match(name):
        return True
    first = _AND.match(name)
    within = step.operands[1:] if first and not first[1] else step.operands[1:2] if first else ()
    return any(text.startswith("exec") for text in within)


def _words_at(step: Instruction, accessed: MemoryAccess, wave: int, numbers: Mapping[int, int]) -> int:
    """Return the words of scratch that an instruction accesses, as bits; none if their place is not known."""
    at, parts = int(step.modifiers.get("offset", "0"), 0), [(x, 1) for x in operands_of(step, accessed)[2]]
    if "buffer" in step.opcode:
        parts.append((step.operands[3], wave))  # in bytes for all lanes
    for text, lanes in parts:
        place = operand(text).place
        number = numbers.get(place.slot) if isinstance(place, Register) else getattr(place, "bits", None)
        if number is None:
            return 0
        at += number // lanes
    words = range(at // 4, (at + accessed.bytes - 1) // 4 + 1)
    return bits_of(_WORDS + word for word in words) if at >= 0 and words.stop <= _MOST_WORDS else 0


def _access(step: Instruction, accessed: MemoryAccess) -> Effect:
    """Return what an access of memory does, of scratch at an unknown place."""
    if accessed.space == "smem":
        targets, data, where = step.operands[:1], (), step.operands[1:]
    else:
        targets, data, where = operands_of(step, accessed)
    if step.opcode.startswith(("buffer", "scratch_buffer")):  # by a descriptor and an offset of the wave
        where = [*where, *step.operands[-2:]]
    address, written, space = bits_of(slots_of(where)), bits_of(slots_of(targets)), _SPACES[accessed.space]
    reads = address | bits_of(slots_of(data)) | (space if accessed.kind != "store" else 0)
    space |= _ALL_WORDS if space & _SPACES["scratch"] else 0
    if accessed.to_lds:
        space, reads = _SPACES["lds"], reads | 1 << M0
    return Effect(
        step.index,
        wanted_by=written | (space if accessed.kind != "load" or accessed.to_lds else 0),
        kills=0 if accessed.half else written,
        reads=reads,
        address=address,
        memories=frozenset({_MEMORIES.get(accessed.space, "global")}),
    )


def _slots(place: object, kind: str, wave: int) -> Iterable[int]:
    """Return the slots of an operand's words."""
    if not isinstance(place, Register):
        return ()
    words = 2 if kind in "UIDP" or (kind in "mM" and wave == 64) else 1
    return range(place.slot, place.slot + max(words, place.count))

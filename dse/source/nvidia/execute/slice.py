"""Find the instructions that must be evaluated: those that addresses, predicates and branches depend on.

This is a backward slice, from a fixed point of liveness over the basic blocks. Sets of slots are bits of a
Python integer. Global memory is one slot, shared memory one for each store; local memory has one for each
word addressed from the stack pointer alone, so that a spilled accumulator adds nothing to the slice.
Registers that keep predicates have one for each bit, so that a sum that was there before adds nothing either.
"""

from collections.abc import Collection, Iterable
from functools import reduce
from operator import or_

from dse.source.machine.feeds import Feeds
from dse.source.machine.liveness import Purpose, bits_of, predecessors_of, settle
from dse.source.nvidia.sass.operands import PT, RZ, SLOTS, UPT, UR, URZ, P
from dse.source.nvidia.sass.program import SassProgram, Step, descriptor_slot

STACK = 1  # register of the stack pointer
_GLOBAL = 1 << SLOTS
_ANYWHERE = 1 << (SLOTS + 1)  # local memory at addresses computed at run time
_BITS = SLOTS + 2  # first bit of registers that keep predicates, before the words of local memory
_WORD = 0xFFFFFFFF
_MASKS = {"0xc0": "and", "0xfc": "or"}  # truth tables of a & b and a | b
_STEERING = ("control", "barrier")  # pipes of control flow
_VARYING = ~(1 << PT | 1 << UPT)
_UNIFORM = ((1 << URZ) - 1) & ~((1 << UR) - 1)
_OF_OTHER_LANES = ("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX")

# Live slots, as bits, under each guard (predicate, negated): in threads where it holds. None: always.
Wanted = dict[tuple[int, bool] | None, int]
# Bits always needed, that make a step needed, that it kills, that it then needs, that it may write.
Fact = tuple[int, int, int, int, int, Step]
# By R2UR's index: uniform predicates for whether a guard holds in any thread of the warp.
Votes = dict[int, dict[int, tuple[int, bool]]]


def mark_needed(
    program: SassProgram,
    global_stores: bool = False,
    purpose: Purpose = Purpose.COUNTS,
    feeds: Feeds | None = None,
    only: Collection[int] | None = None,
) -> list[int]:
    """Set `needed` of each step, and return the slots live at the start of each block, as bits.

    With `global_stores`, loads return what the kernel itself stored in global memory. `purpose` has the
    memories whose addresses are needed even if nothing depends on the contents, `only` of these instructions.
    `feeds` are the stores that loads from shared memory read; any store for others.
    """
    packed = _Packed(program)
    for step in program.steps:
        places = {step.pipe, "shared" if step.shared else step.pipe}
        own = not places.isdisjoint(purpose.value) and (only is None or step.index in only)
        step.addressed = bool(step.memory) and (step.of_box or own)
    memory = _Memory(program, global_stores, purpose, feeds, packed.end)
    predecessors = predecessors_of([block.successors for block in program.blocks])
    votes = _votes(program, predecessors)
    facts = [[_facts(step, memory, packed) for step in block.steps] for block in program.blocks]
    # Warps in different code exchange words of shared memory, if they synchronise by barriers there; what
    # feeds a load does so wherever it is.
    parted = any(step.opcode == "SYNCS" for step in program.steps)
    exchanges, exchanged = 0 if feeds is None and not parted else memory.every, 0
    live: list[Wanted] = [{} for _ in program.blocks]

    def before(index: int, mark: bool = False) -> Wanted:
        """Return the live slots at the start of a basic block."""
        wanted: Wanted = {None: exchanged}
        for successor in program.blocks[index].successors:
            for guard, bits in live[successor].items():
                wanted[guard] = wanted.get(guard, 0) | bits
        for fact in reversed(facts[index]):
            if mark:
                _mark_uses(fact, wanted, packed)
            needed = _step_back(wanted, fact, votes)
            if mark:
                fact[-1].needed = needed
        return wanted

    settle(live, predecessors, before)
    while more := reduce(or_, (x for wanted in live for x in wanted.values()), 0) & exchanges & ~exchanged:
        exchanged |= more
        settle(live, predecessors, before)
    for index in range(len(live)):
        before(index, mark=True)
    _mark_known_guards(program, predecessors)
    return [packed.whole(reduce(or_, wanted.values(), 0)) for wanted in live]


def _mark_uses(fact: Fact, wanted: Wanted, packed: "_Packed") -> None:
    """Set what is known of the uses of a step's results: `alone` and `guard_shows`."""
    *_, written, step = fact
    own = step.guard, step.guard_negated
    step.alone = packed.alone(step, wanted)
    step.guard_shows = any(bits & written for guard, bits in wanted.items() if guard != own)


def _step_back(wanted: Wanted, fact: Fact, votes: Votes) -> bool:
    """Update the live slots from after a step to before it; return whether the step is needed."""
    always, wanted_by, kills, reads, written, step = fact
    guard = (step.guard, step.guard_negated) if step.guard >= 0 else None
    if len(wanted) == 1 and guard is None:  # the usual case: nothing is under a guard
        bits = wanted[None]
        wanted[None] = (bits & ~kills | reads if bits & wanted_by else bits) | always
        return bool(bits & wanted_by)
    _guards_are_written(wanted, step, votes)
    askers = [guard for guard, bits in wanted.items() if bits & wanted_by]
    reader = guard
    if askers:
        if guard is None:
            for asker in askers:
                wanted[asker] &= ~kills
            reader = askers[0] if len(askers) == 1 else None
        elif step.pipe not in ("tensor", "texture") and not step.stores:
            wanted[guard] = wanted.get(guard, 0) & ~written
            if step.opcode == "R2UR":  # writes the warp's register if any thread executes it
                for vote, of in votes.get(step.index, {}).items():
                    if of == guard and (vote, False) in wanted:
                        wanted[vote, False] &= ~written
        if step.opcode in _OF_OTHER_LANES or (step.opcode == "R2UR" and guard is None):
            reader = None
        wanted[reader] = wanted.get(reader, 0) | reads
    if guard is None:
        wanted[None] |= always
    else:  # the guard itself is needed in every thread
        of_guard = (reads | always) & 1 << step.guard if askers or always else 0
        wanted[None] |= of_guard
        wanted[guard] = wanted.get(guard, 0) | (always & ~of_guard)
    if len(wanted) > 1:
        for condition in [other for other in wanted if other is not None]:
            wanted[condition] &= ~wanted[None]
            if not wanted[condition]:
                del wanted[condition]
    return bool(askers)


def _guards_are_written(wanted: Wanted, step: Step, votes: Votes) -> None:
    """Where a guard is written, slots live under it become live without condition.

    A vote on whether a guard holds in any thread passes on the live slots of the whole warp.
    """
    for guard in [condition for condition in wanted if condition is not None and condition[0] in step.writes]:
        bits = wanted.pop(guard)
        of = _voted(step)
        if of is not None and guard == (step.targets[0].slot, False):
            wanted[of] = wanted.get(of, 0) | (bits & _UNIFORM)
            bits &= ~_UNIFORM
        wanted[None] |= bits


def _voted(step: Step) -> tuple[int, bool] | None:
    """Return the guard of a vote on whether it holds in any thread; None if it is no such vote."""
    if step.opcode != "VOTEU" or not step.has("ANY") or step.guard >= 0 or len(step.targets) != 1:
        return None
    (source,) = step.sources
    return (source.slot, source.negate)


def _votes(program: SassProgram, predecessors: list[list[int]]) -> Votes:
    """Find the votes that still hold at each R2UR, through barriers too."""
    votes: Votes = {}
    ends: dict[int, dict[int, tuple[int, bool]]] = {}
    for block in program.blocks:
        entered = predecessors[block.index]
        straight = entered == [block.index - 1] and not program.blocks[block.index - 1].steps[-1].branches
        known = dict(ends[block.index - 1]) if straight else {}
        for step in block.steps:
            if step.opcode == "R2UR":
                votes[step.index] = dict(known)
            known = {
                vote: of for vote, of in known.items() if vote not in step.writes and of[0] not in step.writes
            }
            if (of := _voted(step)) is not None:
                known[step.targets[0].slot] = of
        ends[block.index] = known
    return votes


def _mark_known_guards(program: SassProgram, predecessors: list[list[int]]) -> None:
    """Set `guard_known`: false where the predicate may have been written by a step that is not evaluated."""
    stale = [0] * len(program.blocks)  # at the end of each block

    def after(index: int, mark: bool = False) -> int:
        """Return the stale predicates at the end of a basic block."""
        now = reduce(or_, (stale[predecessor] for predecessor in predecessors[index]), 0)
        for step in program.blocks[index].steps:
            if mark:
                step.guard_known = step.guard < 0 or not now >> step.guard & 1
            for slot in step.writes:
                if slot >= P and not step.needed:
                    now |= 1 << slot
                elif slot >= P and not step.partial:
                    now &= ~(1 << slot)
        return now

    settle(stale, [block.successors for block in program.blocks], after, forward=True)
    for index in range(len(stale)):
        after(index, mark=True)


class _Memory:
    """The bits of memory that an access may read or write."""

    def __init__(
        self, program: SassProgram, global_stores: bool, purpose: Purpose, feeds: Feeds | None, first: int
    ) -> None:
        """From bit `first` on are what each store to shared memory writes, then words of local memory."""
        self.global_stores, self.purpose, self.feeds = global_stores, purpose, feeds or {}
        self.first, self.first_word = first, first + len(program.steps)
        self.every = bits_of(first + step.index for step in program.steps if step.stores_shared)
        moved = [step for block in program.blocks[1:] for step in block.steps if STACK in step.writes]
        self.steady_stack = not moved
        self.local = _ANYWHERE
        for step in program.steps:
            if step.pipe == "local":
                self.local |= self.words(step)

    def shared(self, step: Step) -> tuple[int, int]:
        """Return the bits of shared memory that a step (writes, reads)."""
        fed = step.index in self.feeds
        reads = bits_of(self.first + number for number in self.feeds[step.index]) if fed else self.every
        return 1 << self.first + step.index & self.every, reads if step.loads_shared else 0

    def words(self, step: Step) -> int:
        """Return the words of an access at the stack pointer plus a constant; else 0."""
        (address,) = step.memory
        if not self.steady_stack or [base[0] for base in address.bases] != [STACK] or address.offset < 0:
            return 0
        first = self.first_word
        return bits_of(range(first + address.offset // 4, first + (address.offset + max(step.bytes, 4)) // 4))


class _Packed:
    """The bits of registers that keep predicates: bits are set there under guards (`@P0 LOP3 R, R, 4, |`)."""

    def __init__(self, program: SassProgram) -> None:
        kept = {step.writes[0] for step in program.steps if step.guard >= 0 and _masked(step)[0] == "or"}
        self.first = {slot: _BITS + 32 * number for number, slot in enumerate(sorted(kept))}
        self.end = _BITS + 32 * len(kept)

    def bits(self, slots: Iterable[int]) -> int:
        """Return slots as a set of bits: of such registers all of theirs."""
        if not self.first:
            return bits_of(slots)
        return reduce(or_, (_WORD << self.first[s] if s in self.first else 1 << s for s in slots), 0)

    def masked(self, step: Step) -> tuple[str, int, int]:
        """Return `_masked` of such a register, the bits that are changed or tested, and the others."""
        kind, mask = _masked(step) if self.first else ("", 0)
        if not kind or (slot := step.sources[0].slot) not in self.first:
            return "", 0, 0
        mask = mask ^ _WORD if kind == "and" else mask
        return kind, mask << self.first[slot], (mask ^ _WORD) << self.first[slot]

    def alone(self, step: Step, wanted: Wanted) -> bool:
        """Return whether a step changes some bits of its register, and no other is live after it."""
        kind, _, others = self.masked(step)
        return kind in _MASKS.values() and not any(bits & others for bits in wanted.values())

    def whole(self, bits: int) -> int:
        """Return live bits with each register that has some."""
        return bits | bits_of(slot for slot, first in self.first.items() if bits >> first & _WORD)


def _masked(step: Step) -> tuple[str, int]:
    """Return how a constant masks a register, and the mask: "and", "or" in place, "test" elsewhere; or ""."""
    if step.opcode not in ("LOP3", "ULOP3") or step.has("64") or len(step.sources) < 4:
        return "", 0
    register, mask, third, table = step.sources[:4]
    plain = register.kind == third.kind == "register" and not (register.invert or register.part)
    if not plain or third.slot not in (RZ, URZ) or not mask.text.startswith(("0x", "-0x")):
        return "", 0
    kind, in_place = _MASKS.get(table.text, ""), step.writes == (register.slot,)
    return kind if in_place else "test" if kind == "and" else "", int(mask.text, 0) & _WORD


def decides(purpose: Purpose, step: Step) -> bool:
    """Return whether the guard of a step is evaluated like a branch around it."""
    return purpose is Purpose.CONTROL and (bool(step.memory) or step.pipe == "tensor")


def _facts(step: Step, memory: _Memory, packed: _Packed) -> Fact:
    """Return a step's bits."""
    wanted_by = packed.bits(step.writes)
    reads = 0 if step.given else packed.bits(step.reads)
    masked, bits, others = packed.masked(step)
    if masked == "test":
        reads &= ~others
    elif masked:
        wanted_by, reads = bits, reads & ~(bits | others)
    kills = written = wanted_by
    always = 0
    if step.pipe in _STEERING:
        always |= reads
    if step.addressed:
        elsewhere = step.kind == "copy" and "shared" not in memory.purpose.value  # that it stores to
        always |= packed.bits(step.bases[len(step.memory[0].bases) if elsewhere else 0 :])
        if step.of_box and step.shared and memory.feeds and "shared" in memory.purpose.value:
            always |= packed.bits([slot for slot, *_ in step.shared.bases])
        if step.coordinates and memory.global_stores:
            always |= _GLOBAL  # its tensor map
    if step.kind == "copy":  # a predicate decides whether global memory is read
        always |= (
            bits_of([operand.slot for operand in step.sources if operand.kind == "predicate"]) & _VARYING
        )
    if (slot := descriptor_slot(step)) >= 0:
        always |= packed.bits([slot])
    if step.guard >= 0:
        reads |= 1 << step.guard
        if step.addressed or step.pipe in _STEERING or decides(memory.purpose, step):
            always |= 1 << step.guard
    if step.partial:
        kills = 0
    if step.pipe == "local":
        words = memory.words(step)
        if step.kind == "store":
            wanted_by, kills = (
                words | (0 if words else memory.local) | _ANYWHERE,
                words if step.guard < 0 else 0,
            )
        else:
            reads |= words or memory.local
    elif step.memory:
        if step.pipe == "global" and memory.global_stores:
            wanted_by |= _GLOBAL if step.stores or step.atomic else 0
            reads |= _GLOBAL if step.kind in ("load", "copy", "atomic") else 0
        writes, loads = memory.shared(step)
        wanted_by, reads = wanted_by | writes, reads | loads
    return always, wanted_by, kills, reads, written, step

"""Finds the instructions that must be evaluated: those that addresses, predicates and branches depend on.

A backward slice, by a fixed point of liveness over the basic blocks. Sets of slots are the bits of a Python
integer. Memory is a slot too, one for shared, one for global; a thread's own (local) memory has one for each
word that is addressed from the stack pointer alone, so that a spilled accumulator pulls nothing in.
"""

from collections.abc import Collection, Iterable

from dse.cuda.sass.operands import PT, SLOTS, UPT, P
from dse.cuda.sass.program import SassProgram, Step, descriptor_slot

STACK = 1  # register of the stack pointer
_SHARED = 1 << SLOTS
_GLOBAL = 1 << (SLOTS + 1)
_ANYWHERE = 1 << (SLOTS + 2)  # local memory at addresses worked out at run time
_WORDS = SLOTS + 3  # first word of local memory
_STEERING = ("control", "barrier")  # pipes of what decides where threads go
_VARYING = ~(1 << PT | 1 << UPT)
_SPACES = {"shared": _SHARED, "global": _GLOBAL}


def mark_needed(
    program: SassProgram, global_stores: bool = False, spaces: Collection[str] = ("global", "shared", "local")
) -> list[int]:
    """Set `needed` of each step, and return the slots that are live where each block begins, as bits.

    With `global_stores`, loads from global memory see what the kernel itself stored there. `spaces` are those
    of which addresses are wanted even where nothing depends on what lies there.
    """
    memory = _Memory(program, global_stores, spaces)
    facts = [[_facts(step, memory) for step in block.steps] for block in program.blocks]
    live = [0] * (len(program.blocks) + 1)
    waiting = list(range(len(program.blocks)))
    predecessors: list[list[int]] = [[] for _ in program.blocks]
    for block in program.blocks:
        for successor in block.successors:
            predecessors[successor].append(block.index)
    # Warps in different code exchange words of shared memory, if they wait for each other by barriers there.
    parted = any(step.opcode == "SYNCS" for step in program.steps)
    exchanged = 0
    while waiting:
        index = waiting.pop()
        block = program.blocks[index]
        after = exchanged
        for successor in block.successors:
            after |= live[successor]
        for always, wanted_by, kills, reads, _ in reversed(facts[index]):
            if after & wanted_by:
                after = (after & ~kills) | reads
            after |= always
        if after != live[index]:
            live[index] = after
            waiting += predecessors[index]
        if parted and not exchanged and after & _SHARED:
            exchanged, waiting = _SHARED, list(range(len(program.blocks)))
    for block in program.blocks:
        after = exchanged
        for successor in block.successors:
            after |= live[successor]
        for always, wanted_by, kills, reads, step in reversed(facts[block.index]):
            step.needed = bool(after & wanted_by)
            if step.needed:
                after = (after & ~kills) | reads
            after |= always
    _mark_known_guards(program, predecessors)
    return live[:-1]


def _mark_known_guards(program: SassProgram, predecessors: list[list[int]]) -> None:
    """Set `guard_known`: false where the predicate may have been written by a step that is not evaluated."""
    stale = [0] * len(program.blocks)  # where each block ends
    waiting = list(range(len(program.blocks)))[::-1]
    effects = []
    for block in program.blocks:
        gains = loses = 0
        for step in block.steps:
            predicates = _bits([slot for slot in step.writes if slot >= P])
            if predicates and not step.needed:
                gains, loses = gains | predicates, loses & ~predicates
            elif predicates and not step.partial:
                gains, loses = gains & ~predicates, loses | predicates
        effects.append((gains, loses))

    def entering(index: int) -> int:
        bits = 0
        for predecessor in predecessors[index]:
            bits |= stale[predecessor]
        return bits

    while waiting:
        index = waiting.pop()
        gains, loses = effects[index]
        after = (entering(index) & ~loses) | gains
        if after != stale[index]:
            stale[index] = after
            waiting += program.blocks[index].successors
    for block in program.blocks:
        now = entering(block.index)
        for step in block.steps:
            step.guard_known = step.guard < 0 or not now >> step.guard & 1
            for slot in step.writes:
                if slot >= P and not step.needed:
                    now |= 1 << slot
                elif slot >= P and not step.partial:
                    now &= ~(1 << slot)


class _Memory:
    """The bits that stand for what an access may read or write."""

    def __init__(self, program: SassProgram, global_stores: bool, spaces: Collection[str]) -> None:
        self.global_stores, self.spaces = global_stores, spaces
        moved = [step for block in program.blocks[1:] for step in block.steps if STACK in step.writes]
        self.steady_stack = not moved
        self.local = _ANYWHERE
        for step in program.steps:
            if step.pipe == "local":
                self.local |= self.words(step)

    def words(self, step: Step) -> int:
        """Of an access at the stack pointer plus a constant, its words; 0 otherwise."""
        (address,) = step.memory
        if not self.steady_stack or [base[0] for base in address.bases] != [STACK] or address.offset < 0:
            return 0
        return _bits(range(_WORDS + address.offset // 4, _WORDS + (address.offset + max(step.bytes, 4)) // 4))


def _facts(step: Step, memory: _Memory) -> tuple[int, int, int, int, Step]:
    """(bits it always needs, bits that make it needed, bits it kills, bits it then needs, the step)."""
    wanted_by = kills = _bits(step.writes)
    reads = 0 if step.given else _bits(step.reads)
    always = 0
    if step.pipe in _STEERING:
        always |= reads
    addressed = bool(step.memory) and step.pipe in memory.spaces
    if addressed:
        always |= _bits(step.bases)
    if step.kind == "copy":  # a predicate tells whether global memory is read
        always |= _bits([operand.slot for operand in step.sources if operand.kind == "predicate"]) & _VARYING
    if (slot := descriptor_slot(step)) >= 0:
        always |= 1 << slot
    if step.guard >= 0:
        reads |= 1 << step.guard
        if addressed or step.pipe in _STEERING:
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
    elif step.memory and step.pipe in _SPACES:
        space = _SPACES[step.pipe]
        if step.pipe == "global" and not memory.global_stores:
            space = 0
        if step.stores or step.atomic:
            wanted_by |= space
        if step.kind in ("load", "copy", "atomic"):
            reads |= space
        if step.kind in ("copy", "box load"):
            wanted_by = _SHARED
    return always, wanted_by, kills, reads, step


def _bits(slots: Iterable[int]) -> int:
    """Make a set of slots."""
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits

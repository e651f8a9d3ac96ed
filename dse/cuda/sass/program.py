"""A listing made ready to run: operands read, registers numbered, branches resolved, cut into basic blocks.

A basic block ends where threads may part or must meet: at branches, barriers and points of convergence.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache

from dse.cuda.sass.listing import Instruction, Listing
from dse.cuda.sass.opcodes import ATOMICS, BRANCHES, LOADS, PIPE, STORES, data_bytes, destinations, widths
from dse.cuda.sass.operands import PT, RZ, UPT, URZ, B, Operand, P, operand
from dse.errors import DseError

MEETINGS = frozenset(["BAR", "BSYNC", "WARPSYNC"])  # where threads wait for each other
_CONSTANTS = frozenset((RZ, RZ + 1, URZ, URZ + 1, PT, UPT))
_PREDICATES = range(7)


@dataclass(eq=False, slots=True)
class Step:
    """One instruction, its operands read."""

    index: int
    address: int
    instruction: Instruction
    opcode: str  # without modifiers
    modifiers: tuple[str, ...]
    pipe: str
    line: int | None
    guard: int  # slot of the predicate under which it executes; -1 if always
    guard_negated: bool
    targets: tuple[Operand, ...]  # destinations
    sources: tuple[Operand, ...]
    source_words: tuple[int, ...]  # registers of each source
    writes: tuple[int, ...]  # slots
    reads: tuple[int, ...]  # slots; the guard's is not among them
    memory: tuple[Operand, ...]  # addresses; LDGSTS has two
    bases: tuple[int, ...]  # slots that addresses are made of
    bytes: int  # that one thread loads or stores
    partial: bool  # may leave some of `writes` as they were
    jump: int = -1  # index of the basic block that it goes to, if it names one
    needed: bool = False  # whether addresses or branches depend on it
    guard_known: bool = True  # whether the guard is evaluated

    @property
    def text(self) -> str:
        return f"{self.instruction.opcode} {', '.join(self.instruction.operands)}".strip()

    def has(self, *modifiers: str) -> bool:
        """Whether it is modified by any of these."""
        return any(modifier in self.modifiers for modifier in modifiers)

    @property
    def conditional(self) -> bool:
        return self.guard >= 0


@dataclass(eq=False, slots=True)
class Block:
    """Instructions that are executed together, and the blocks that may follow."""

    index: int
    steps: list[Step]
    successors: tuple[int, ...] = ()


@dataclass(eq=False)
class Program:
    """A kernel ready to be sliced and run."""

    kernel: str
    arch: int
    steps: list[Step]
    blocks: list[Block]
    block_at: dict[int, int] = field(repr=False)  # address → the block that begins there

    @property
    def spacing(self) -> int:
        """Bytes of an instruction."""
        return self.steps[1].address - self.steps[0].address if len(self.steps) > 1 else 16

    def error(self, step: Step, problem: str) -> DseError:
        """A one-line error that names the kernel and the instruction."""
        return DseError(f"{self.kernel}: instruction 0x{step.address:x} ({step.text}): {problem}")


def program(listing: Listing) -> Program:
    """**Raises:** DseError that names the first opcode that is not known, or a branch that leads nowhere."""
    steps = [_step(listing, index, instruction) for index, instruction in enumerate(listing.instructions)]
    addresses = [step.address for step in steps]
    at = {address: index for index, address in enumerate(addresses)}
    jumps = {step.index: _jump(listing, step) for step in steps if step.opcode in BRANCHES}
    leaders = {0}
    for step in steps:
        if step.opcode in BRANCHES or step.opcode in MEETINGS:
            leaders.add(step.index + 1)
    for index, target in jumps.items():
        if target is None:
            continue
        if target not in at:
            raise DseError(
                f"{listing.kernel}: instruction 0x{addresses[index]:x}: branch: found 0x{target:x},"
                " expected the address of an instruction"
            )
        leaders.add(at[target])
    if any(step.opcode in ("BRX", "BRXU", "JMX", "JMXU") for step in steps):
        leaders |= {at[address] for address in listing.labels.values() if address in at}
    starts = sorted(leader for leader in leaders if leader < len(steps))
    blocks = [
        Block(number, steps[start:end])
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(steps)], strict=True))
    ]
    for index, target in jumps.items():
        if target is not None:
            steps[index].jump = bisect_right(starts, at[target]) - 1
    made = Program(
        listing.kernel, listing.arch, steps, blocks, {addresses[start]: n for n, start in enumerate(starts)}
    )
    _connect(made)
    return made


def _step(listing: Listing, index: int, instruction: Instruction) -> Step:
    opcode, modifiers, pipe, size = _form(instruction.opcode)
    if not pipe:
        raise DseError(
            f"{listing.kernel}: instruction 0x{instruction.address:x}: opcode: found {instruction.opcode},"
            " expected one that is known (dse/cuda/sass/opcodes.py)"
        )
    operands = tuple(map(operand, instruction.operands))
    count = destinations(opcode, operands)
    targets, sources = operands[:count], operands[count:]
    width, source_words = widths(opcode, modifiers, len(sources))
    source_words = (source_words + [1] * len(sources))[: len(sources)]
    memory = tuple([source for source in sources if source.kind == "address"])
    in_global = pipe in ("global", "texture", "other")

    writes: list[int] = []
    for target in targets:
        if target.kind == "register":
            writes += range(target.slot, target.slot + width)
        elif target.slot >= 0:
            writes.append(target.slot)
    reads: list[int] = []
    bases: list[int] = []
    for source, words in zip(sources, source_words, strict=True):
        if source.kind == "address":
            for slot, _, narrow in source.bases:
                bases += (slot, slot + 1) if in_global and not narrow and source is memory[-1] else (slot,)
        elif source.kind == "register":
            reads += range(source.slot, source.slot + words)
        elif source.slot >= 0:
            reads.append(source.slot)
    reads += bases
    if opcode == "P2R":
        reads += [P + bit for bit in _PREDICATES if int(sources[-1].text, 0) >> bit & 1]
    elif opcode == "R2P":
        writes += [P + bit for bit in _PREDICATES if int(sources[-1].text, 0) >> bit & 1]
    elif opcode == "BMOV" and "CLEAR" in modifiers:
        writes += [slot for slot in reads if slot >= B]
    elif opcode in ("BSSY", "BREAK"):
        writes += [source.slot for source in sources if source.kind == "barrier"]

    guard, negated = -1, False
    if instruction.predicate:
        condition = operand(instruction.predicate[1:])
        guard, negated = condition.slot, condition.negate
        if guard in (PT, UPT) and not negated:
            guard = -1
    return Step(
        index=index,
        address=instruction.address,
        instruction=instruction,
        opcode=opcode,
        modifiers=modifiers,
        pipe=pipe,
        line=instruction.line,
        guard=guard,
        guard_negated=negated,
        targets=targets,
        sources=sources,
        source_words=tuple(source_words),
        writes=tuple([slot for slot in writes if slot not in _CONSTANTS]),
        reads=tuple([slot for slot in reads if slot not in _CONSTANTS]),
        memory=memory
        if opcode in LOADS or opcode in STORES or opcode in ATOMICS or opcode == "LDGSTS"
        else (),
        bases=tuple(slot for slot in bases if slot not in _CONSTANTS),
        bytes=size,
        partial=guard >= 0 or pipe in ("tensor", "texture"),
    )


@cache
def _form(text: str) -> tuple[str, tuple[str, ...], str, int]:
    """(opcode, modifiers, pipe or "", bytes that it loads or stores)."""
    opcode, *rest = text.split(".")
    modifiers = tuple(rest)
    return opcode, modifiers, PIPE.get(opcode, ""), data_bytes(opcode, modifiers)


def _jump(listing: Listing, step: Step) -> int | None:
    """The address that a branch names; None if it names none."""
    if step.opcode in ("EXIT", "RET", "BRX", "BRXU", "JMX", "JMXU"):
        return None
    target = step.sources[-1] if step.sources else None
    if target is None or target.kind != "number":
        raise DseError(
            f"{listing.kernel}: instruction 0x{step.address:x} ({step.text}): found a call that leaves the"
            " kernel, expected all functions in it (compile without relocatable device code)"
        )
    return int(target.text, 0)


def _connect(made: Program) -> None:
    """Fill in which blocks may follow each."""
    blocks = made.blocks
    returns = tuple(block.index + 1 for block in blocks if block.steps[-1].opcode == "CALL")
    entered = {step.jump for step in made.steps if step.jump >= 0}
    # An indirect branch may go wherever a block begins that no other way leads into, or that has a label.
    loose = tuple(
        block.index
        for block in blocks[1:]
        if block.index in entered or blocks[block.index - 1].steps[-1].opcode in BRANCHES
    )
    for block in blocks:
        last, following = block.steps[-1], {block.index + 1}
        has_condition = last.conditional or any(
            source.kind in ("predicate", "register") for source in last.sources
        )
        if last.opcode == "EXIT":
            following = following if last.conditional else set()
        elif last.opcode == "RET":
            following = set(returns) | (following if last.conditional else set())
        elif last.opcode in ("BRX", "BRXU", "JMX", "JMXU"):
            following |= set(loose)
        elif last.opcode == "CALL":
            following = {last.jump} | (following if last.conditional else set())
        elif last.opcode in ("BRA", "JMP"):
            following = {last.jump} | (following if has_condition else set())
        block.successors = tuple(sorted(index for index in following if index < len(blocks)))

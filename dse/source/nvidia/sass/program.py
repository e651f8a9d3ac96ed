"""Executable programs from listings: parsed operands, numbered registers, resolved branches, basic blocks.

A basic block ends where threads may diverge or must wait: at branches, barriers and points of convergence.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter

from dse.errors import DseError
from dse.source.machine.products import Mma
from dse.source.machine.recorded import Pipe
from dse.source.nvidia.sass.listing import Listing, SassInstruction
from dse.source.nvidia.sass.opcodes import OPCODES, Kind, Opcode, opcode
from dse.source.nvidia.sass.operands import OF_BARRIER, PT, RZ, UP, UPT, URZ, B, Operand, P, operand
from dse.source.nvidia.sass.products import UnknownProductError, needs_descriptor, product, product_words
from dse.source.nvidia.sass.register_banks import mark_reading

_CONSTANTS = frozenset((RZ, RZ + 1, URZ, URZ + 1, PT, UPT))
_PREDICATES = range(7)
_WHOLE_FP64 = (60, 70, 72, 80, 90, 100)  # architectures with 16 float64 operations a cycle or more
_ADDING = ("UMOV", "MOV", "R2UR", "UIADD3", "IADD3", "VIADD", "ULEA", "LEA")
_WHOLE = re.compile(r"-?(0x[0-9a-f]+|\d+)")
_ALLOCATES = "UTCATOMSWS"  # tensor memory
_OF_MBARRIERS = ("SYNCS", "UTCBAR", "ARRIVES")  # their addresses are in shared memory


@dataclass(eq=False, slots=True)
class Step:
    """One instruction with parsed operands."""

    index: int
    address: int
    instruction: SassInstruction
    row: Opcode
    opcode: str  # without modifiers
    modifiers: tuple[str, ...]
    pipe: Pipe
    kind: Kind  # of access, or of branch
    line: int | None
    guard: int  # slot of the predicate; -1 if it always executes
    guard_negated: bool
    targets: tuple[Operand, ...]  # destinations
    sources: tuple[Operand, ...]
    source_words: tuple[int, ...]  # registers of each source
    writes: tuple[int, ...]  # slots
    reads: tuple[int, ...]  # slots, without that of the guard
    memory: tuple[Operand, ...]  # addresses; LDGSTS has two
    bases: tuple[int, ...]  # slots of registers in addresses
    bytes: int  # that one thread loads or stores
    partial: bool  # may leave some of `writes` unchanged
    product: Mma | None  # of matrices; with a descriptor, known only after execution
    jump: int = -1  # index of the target basic block; -1 if it has none
    needed: bool = False  # whether addresses or branches depend on it
    addressed: bool = False  # whether its address is wanted even if nothing depends on the contents
    guard_known: bool = True  # whether the guard is evaluated
    guard_shows: bool = True  # whether threads where it does not hold use what the step left as it was
    alone: bool = False  # whether it changes bits of a register of which others are not used
    of_products: bool = False  # whether it waits at an mbarrier for a block's products of matrices
    reading: int = 0  # further cycles in which it reads registers, and no other is issued

    def copied(self) -> "Step":
        """Return a copy, so that `needed` may differ; several times faster than `copy`."""
        return Step(*_FIELDS(self))

    @property
    def text(self) -> str:
        """The instruction as printed, without its guard."""
        return f"{self.instruction.opcode} {', '.join(self.instruction.operands)}".strip()

    def has(self, *modifiers: str) -> bool:
        """Return whether it has any of these modifiers."""
        return not {*modifiers}.isdisjoint(self.modifiers)

    @property
    def stores(self) -> bool:
        """Whether it writes memory and has no result."""
        return self.kind in ("store", "reduction", "box store")

    @property
    def fp32_ops(self) -> int:
        """Single-precision operations of a thread."""
        return OPCODES[self.opcode].fp32

    @property
    def given(self) -> bool:
        """Whether its result depends on no operand: waits and requests, which succeed."""
        return self.opcode in ("SYNCS", "USETMAXREG", "UTCATOMSWS")

    @property
    def of_box(self) -> bool:
        """Whether it moves a box of a tensor between global and shared memory."""
        return self.kind in ("box load", "box store")

    @property
    def coordinates(self) -> tuple[Operand, ...]:
        """The registers with a box's coordinates in the tensor, innermost dimension first."""
        return box_coordinates(self.opcode, self.modifiers, self.memory)

    @property
    def atomic(self) -> bool:
        """Whether it changes memory atomically, with or without result."""
        return self.kind in ("atomic", "reduction")

    @property
    def branches(self) -> bool:
        """Whether it may jump or end the thread."""
        return self.kind in ("branch", "indirect branch", "end")

    @property
    def shared(self) -> Operand | None:
        """The address in shared memory that it loads from, or stores to; None if there is none."""
        copies = self.kind in ("copy", "box load")
        return self.memory[0] if self.memory and (copies or self.pipe == "shared") else None

    @property
    def loads_shared(self) -> bool:
        """Whether it reads from shared memory to registers."""
        return self.pipe == "shared" and bool(self.memory) and not self.stores

    @property
    def stores_shared(self) -> bool:
        """Whether it writes shared memory."""
        return self.shared is not None and (not self.loads_shared or self.atomic)

    @property
    def conditional(self) -> bool:
        """Whether only some of the threads may execute it."""
        return self.guard >= 0


_FIELDS = attrgetter(*Step.__dataclass_fields__)


@dataclass(eq=False, slots=True)
class BasicBlock:
    """Instructions that are executed together, and the blocks that may follow them."""

    index: int
    steps: list[Step]
    successors: tuple[int, ...] = ()


@dataclass(eq=False)
class SassProgram:
    """An executable kernel."""

    kernel: str
    arch: int
    steps: list[Step]
    blocks: list[BasicBlock]
    block_at: dict[int, int] = field(repr=False)  # first address → block

    @property
    def spacing(self) -> int:
        """Bytes of an instruction."""
        return self.steps[1].address - self.steps[0].address if len(self.steps) > 1 else 16

    def error(self, step: Step, problem: str) -> DseError:
        """Return a one-line error that names the kernel, the line of its source and the instruction."""
        line = f"line {step.line}: " if step.line else ""
        return DseError(f"{self.kernel}: {line}instruction 0x{step.address:x} ({step.text}): {problem}")


def program(listing: Listing) -> SassProgram:
    """Make an executable program from a listing.

    **Raises:** DseError that names the first unknown opcode, or a branch without valid target.
    """
    steps = [_read(listing, index, instruction) for index, instruction in enumerate(listing.instructions)]
    _mark_waits(steps)
    mark_reading(steps)
    opcodes, addresses = {step.opcode for step in steps}, [step.address for step in steps]
    index_at = {address: index for index, address in enumerate(addresses)}
    jumps = {step.index: _jump(listing, step) for step in steps if step.branches}
    # No compiled kernel comes to the traps for misuse of tensor memory, functions that are called.
    traps = {step.address for step in steps if step.opcode == "BPT" and _ALLOCATES in opcodes}
    for index, target in jumps.items():  # to a move of where to return, and the call
        called = index_at[target] + 1 if target in index_at else -1
        if steps[index].conditional and jumps.get(called) in traps:
            steps[index].guard, steps[index].guard_negated = PT, True
    leaders = {0} | {step.index + 1 for step in steps if step.branches or step.kind == "meeting"}
    for index, target in jumps.items():
        if target is None:
            continue
        if target not in index_at:
            raise DseError(
                f"{listing.kernel}: instruction 0x{addresses[index]:x}: branch: found 0x{target:x},"
                " expected the address of an instruction"
            )
        leaders.add(index_at[target])
    if any(step.kind == "indirect branch" for step in steps):
        leaders |= {index_at[address] for address in listing.labels.values() if address in index_at}
    starts = sorted(leader for leader in leaders if leader < len(steps))
    blocks = [
        BasicBlock(number, steps[start:end])
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(steps)], strict=True))
    ]
    for index, target in jumps.items():
        if target is not None:
            steps[index].jump = bisect_right(starts, index_at[target]) - 1
    _connect(steps, blocks)
    block_at = {addresses[start]: number for number, start in enumerate(starts)}
    return SassProgram(listing.kernel, listing.arch, steps, blocks, block_at)


def _mark_waits(steps: list[Step]) -> None:
    """Mark the waits at mbarriers that UTCBAR signals: those whose address adds up the same numbers.

    What is not added, as the index of a stage, counts as 0. Code is read in the order of its addresses.
    """
    if not any(step.opcode == "UTCBAR" for step in steps):
        return
    known, signalled, waits = dict[int, int](), set[int](), list[tuple[int, Step]]()
    for step in steps:
        at_mbarrier = step.opcode == "UTCBAR" or (step.opcode == "SYNCS" and step.has("PHASECHK"))
        for address in [read for read in step.sources if read.kind == "address"][:at_mbarrier]:
            place = address.offset + sum(known.get(slot, 0) for slot, *_ in address.bases)
            if step.opcode == "UTCBAR":
                signalled.add(place)
            else:
                waits.append((place, step))
        written = dict.fromkeys(step.writes, 0)
        if step.opcode in _ADDING or (step.opcode == "IMAD" and step.has("MOV")):
            terms = step.sources[1:2] if step.opcode.endswith("LEA") else step.sources
            numbers = [int(read.text, 0) for read in terms if _WHOLE.fullmatch(read.text)]
            total = sum([*numbers, *(known.get(read.slot, 0) for read in terms)])
            written |= {target.slot: total for target in step.targets[:1]}
        known |= written
    for place, step in waits:
        step.of_products = place in signalled


def _read(listing: Listing, index: int, instruction: SassInstruction) -> Step:
    """Parse the operands of an instruction. **Raises:** DseError if they do not fit its opcode."""
    try:
        return _step(listing, index, instruction)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        where = f"{listing.kernel}: instruction 0x{instruction.address:x}"
        actual = f"{instruction.opcode} {', '.join(instruction.operands)}"
        raise DseError(
            f"{where}: operands: found {actual!r} ({error}), expected those of {instruction.opcode}"
        ) from None


def _step(listing: Listing, index: int, instruction: SassInstruction) -> Step:
    row, modifiers = opcode(instruction.opcode), tuple(instruction.opcode.split(".")[1:])
    if row is None:
        raise DseError(
            f"{listing.kernel}: instruction 0x{instruction.address:x}: opcode: found {instruction.opcode},"
            " expected one that is known (dse/source/nvidia/sass/opcodes.py)"
        )
    operands = tuple(map(operand, instruction.operands))
    count = row.destinations(operands)
    targets, sources = operands[:count], operands[count:]
    if row.name == "B2R" and "RESULT" in row.modifiers:
        sources = (Operand("register", "", OF_BARRIER),)
    try:
        of_matrices = product(row.name, modifiers, operands)
    except UnknownProductError as problem:
        raise DseError(
            f"{listing.kernel}: instruction 0x{instruction.address:x} ({instruction.opcode}): product of"
            f" matrices: found {problem}, expected those of classes of work (sass/products.py)"
        ) from None
    if of_matrices is None or not of_matrices.multiply_adds:
        target_words, source_words = row.widths(modifiers, len(sources))
        of_sources = zip(sources, source_words, strict=True)
        source_words = [1 if read.part == "F32" else words for read, words in of_sources]
    else:
        target_words, *source_words = product_words(row.name, modifiers, operands)
    addresses, kind = tuple([read for read in sources if read.kind == "address"]), row.kind
    if row.of_box and row.name in _BULK and modifiers[:1] == ("G",):
        addresses, kind = addresses[::-1], "box store"
    in_global = row.pipe in ("global", "texture", "other") and row.name not in _OF_MBARRIERS
    bases = _bases(addresses, in_global)
    if row.of_box:
        bounds = [read for read in sources if read.kind == "register"][:1]  # size or receivers
        bounds += box_coordinates(row.name, modifiers, addresses)
        bases = [bound.slot for bound in bounds] + bases[len(addresses[0].bases) :]
    writes = _slots(targets, [target_words] * len(targets))
    if "ENL2" in modifiers:  # in two registers of 128 bits
        source_words = [min(4, words) for words in source_words]
        writes = [slot for slot, _ in wide_slots(targets, sources)]
    reads = [*_slots(sources, source_words), *bases]
    _add_implied(row.name, modifiers, sources, writes, reads)
    guard, guard_negated = _guard(instruction.predicate)
    never = guard in (PT, UPT)  # as the loads of !PT that pad asynchronous copies: no pipe takes them
    return Step(
        index=index,
        address=instruction.address,
        instruction=instruction,
        row=row,
        opcode=row.name,
        modifiers=modifiers,
        pipe="other" if never else _pipe(row, modifiers, listing.arch),
        kind=kind,
        line=instruction.line,
        guard=guard,
        guard_negated=guard_negated,
        targets=targets,
        sources=sources,
        source_words=tuple(source_words),
        writes=_variable(writes),
        reads=_variable(reads),
        memory=addresses if row.accesses_memory and not never else (),
        bases=_variable(bases),
        bytes=row.data(modifiers),
        partial=guard >= 0 or row.pipe in ("tensor", "texture"),
        product=of_matrices,
    )


_BULK = ("UBLKCP", "UBLKRED")  # of bytes that follow one another, in units of 16


def _pipe(row: Opcode, modifiers: tuple[str, ...], arch: int) -> Pipe:
    """Return the pipe that executes an instruction; of conversions with 64 bits the slower of two.

    Their rate is 16 a cycle, that of the special function units, on GPUs with fast float64, else that of
    float64, 2 or 4 (CUDA C++ Programming Guide, arithmetic throughput, conversions of 64-bit types). Pairs of
    bfloat16 have the rate of floats on compute capability 8.0, where those of fp16 have twice that.
    """
    if row.pipe == "fp16" and arch == 80 and any(name.startswith("BF16") for name in modifiers):
        return "fp32"
    wide = row.pipe == "sfu" and max(row.widths(modifiers, 1)[0], *row.widths(modifiers, 1)[1]) > 1
    return "fp64" if wide and arch not in _WHOLE_FP64 else row.pipe


def wide_slots(targets: tuple[Operand, ...], sources: tuple[Operand, ...]) -> list[tuple[int, int]]:
    """Return the slots that a load of 256 bits writes, and the word of each.

    The lower half is named last. A mask may leave words out, and those after them take their places.
    """
    mask = next((int(read.text, 0) for read in sources if read.kind == "number"), 0xFF)
    halves = [[word for word in half if mask >> word & 1] for half in (range(4), range(4, 8))]
    named = zip(targets[::-1], halves, strict=False)
    return [
        (target.slot + place, word)
        for target, half in named
        if target.slot != RZ
        for place, word in enumerate(half)
    ]


def _slots(operands: tuple[Operand, ...], words: list[int]) -> list[int]:
    """Return the slots of all operands except addresses, which have these numbers of words."""
    slots: list[int] = []
    for of, count in zip(operands, words, strict=True):
        if of.slot in (RZ, URZ):
            continue
        if of.kind in ("register", "descriptor"):
            slots += range(of.slot, of.slot + count)
        elif of.slot >= 0:
            slots.append(of.slot)
    return slots


def descriptor_slot(step: Step) -> int:
    """Return the slot of the instruction descriptor of a product of matrices; -1 if it has none."""
    if not needs_descriptor(step.opcode):
        return -1
    return next(operand.slot for operand in step.sources if operand.text.startswith("idesc"))


def box_coordinates(
    opcode: str, modifiers: tuple[str, ...], addresses: tuple[Operand, ...]
) -> tuple[Operand, ...]:
    """Return the registers of a box's coordinates, which follow that of its address in shared memory.

    A load has the address of its mbarrier in between. Empty if the box is not in tiled mode.
    """
    dimensions = next((int(name[0]) for name in modifiers if name in ("1D", "2D", "3D", "4D", "5D")), 0)
    if not addresses or not addresses[0].bases:
        return ()
    first = addresses[0].bases[0][0] + (2 if opcode == "UTMALDG" else 1)
    return tuple(Operand("register", "", first + number) for number in range(dimensions))


def _bases(addresses: tuple[Operand, ...], in_global: bool) -> list[int]:
    """Return the slots of registers in addresses. The last address of a copy is in global memory."""
    slots: list[int] = []
    for address in addresses:
        for slot, _, narrow in address.bases:
            is_pair = in_global and not narrow and address is addresses[-1]
            slots += (slot, slot + 1) if is_pair else (slot,)
    return slots


def _add_implied(
    opcode: str, modifiers: tuple[str, ...], sources: tuple[Operand, ...], writes: list[int], reads: list[int]
) -> None:
    """Add the slots that an instruction writes and reads implicitly."""
    if opcode in ("P2R", "R2P", "UP2UR", "UR2UP"):
        mask, first = int(sources[-1].text, 0), UP if opcode[0] == "U" else P
        predicates = [first + bit for bit in _PREDICATES if mask >> bit & 1]
        (reads if opcode in ("P2R", "UP2UR") else writes).extend(predicates)
    elif opcode in _BULK:
        reads += [slot + word for read in sources for slot, *_ in read.bases for word in range(2)]
    elif OPCODES[opcode].of_box:
        addresses = tuple(read for read in sources if read.kind == "address")
        first = addresses[0].bases[0][0]
        count = len(box_coordinates(opcode, modifiers, addresses)) + (2 if opcode == "UTMALDG" else 1)
        reads += range(first, first + count)
    elif opcode == "BMOV" and "CLEAR" in modifiers:
        writes += [slot for slot in reads if slot >= B]
    elif opcode == "BAR" and "RED" in modifiers:
        writes.append(OF_BARRIER)
    elif opcode in ("BSSY", "BREAK"):
        writes += [read.slot for read in sources if read.kind == "barrier"]


def _guard(predicate: str) -> tuple[int, bool]:
    """Return the slot of a guard predicate, -1 if always true, and whether it is negated."""
    if not predicate:
        return -1, False
    condition = operand(predicate[1:])
    always = condition.slot in (PT, UPT) and not condition.negate
    return -1 if always else condition.slot, condition.negate


def _variable(slots: list[int]) -> tuple[int, ...]:
    """Leave out slots of constant value."""
    return tuple([slot for slot in slots if slot not in _CONSTANTS])


def _jump(listing: Listing, step: Step) -> int | None:
    """Return the target address of a branch; None if it has none, as a call that leaves the kernel.

    One in a register is that of a function by a pointer, which the loader places.
    """
    if step.kind != "branch":
        return None
    target = step.sources[-1] if step.sources else None
    by_pointer = step.opcode == "CALL" and step.sources[0].kind == "register"
    if target is not None and target.kind == "number" and not by_pointer:
        return int(target.text, 0)
    if step.opcode == "CALL":
        return None
    raise DseError(
        f"{listing.kernel}: instruction 0x{step.address:x} ({step.text}): branch: found no address,"
        " expected that of an instruction"
    )


def _connect(steps: list[Step], blocks: list[BasicBlock]) -> None:
    """Set the successors of the blocks."""
    after_calls = tuple(block.index + 1 for block in blocks if block.steps[-1].opcode == "CALL")
    entered = {step.jump for step in steps if step.jump >= 0}
    # An indirect branch may go to any block that is a jump target or is not reached from the previous block.
    loose = tuple(
        block.index
        for block in blocks[1:]
        if block.index in entered or blocks[block.index - 1].steps[-1].branches
    )
    for block in blocks:
        last, following = block.steps[-1], {block.index + 1}
        has_condition = last.conditional or any(
            read.kind in ("predicate", "register") for read in last.sources
        )
        if last.opcode == "EXIT":
            following = following if last.conditional else set()
        elif last.opcode == "RET":
            following = set(after_calls) | (following if last.conditional else set())
        elif last.kind == "indirect branch":
            following |= set(loose)
        elif last.opcode == "CALL" and last.jump >= 0:
            following = {last.jump} | (following if last.conditional else set())
        elif last.opcode == "CALL":
            pass
        elif last.kind == "branch":
            following = {last.jump} | (following if has_condition else set())
        block.successors = tuple(sorted(index for index in following if index < len(blocks)))

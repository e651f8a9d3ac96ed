"""What one warp of a launch executed, as a graph: its instructions, with loops rolled (IDG).

It is found in three steps. What the warp executed is a word of basic blocks; a stretch that follows itself
becomes a loop, again and again, so that loops nest. The blocks are then written out, each loop's body once.
An instruction needs those that last wrote the registers which it reads, its guard among them, and those which
it writes, as in `dse.cuda.profile.single_warp`. Where the first trip of a loop takes a value from before the
loop and later ones from the trip before, it needs both: the later of the two waits for the earlier, so that
this asks for nothing more.

Source: Lemeire, Cornelis & Konstantinidis, Sec. 3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.cuda.machine.state import MEMORY_COUNTS, Machine
from dse.cuda.profile.single_warp import segments
from dse.cuda.sass.program import Step
from dse.errors import DseError

MOST_INSTRUCTIONS = 4_095  # of a dependence graph, loops rolled: as many as the simulator takes
MOST_NESTED = 4  # loops, one in another: likewise
_LONGEST = 128  # basic blocks and inner loops in the body of a loop; loops with more are not seen

WAITED_FOR = ("global", "local", "texture")  # pipes with a latency that warps wait for


@dataclass(frozen=True)
class GraphInstruction:
    """One instruction of a warp; what it asks memory for is of one issue, the mean over the block's warps."""

    address: int
    text: str
    line: int | None
    pipe: str  # one of dse.cuda.sass.opcodes.PIPES
    kind: str  # "compute", "memory" or "barrier"
    needs: tuple[int, ...]  # those waited for; of later ones, or itself: the run before, in a loop with it
    writes: bool  # whether it has a result that others could wait for
    requests: float = 0.0  # share of the issues in which a thread or more takes part
    sectors: float = 0.0  # of 32 bytes; global and local memory
    passes: float = 0.0  # lines of 128 bytes; shared: through the banks, shuffles take one
    shared_passes: float = 0.0  # of a copy from global to shared memory, beside its lines


@dataclass(frozen=True)
class RolledLoop:
    """Instructions first..last run `trips` times, one time after another."""

    first: int
    last: int
    trips: int


@dataclass(frozen=True)
class DependenceGraph:
    """What one warp executes, in the order of issue."""

    kernel: str
    arch: int
    instructions: tuple[GraphInstruction, ...]
    loops: tuple[RolledLoop, ...]  # outer ones before those inside

    def order(self, most_trips: int | None = None) -> list[int]:
        """Numbers of the instructions as they run, each loop `most_trips` times at most."""
        return _order(0, len(self.instructions), self.loops, most_trips)

    @cached_property
    def runs(self) -> list[int]:
        """How often each instruction is issued."""
        runs = [1] * len(self.instructions)
        for loop in self.loops:
            for i in range(loop.first, loop.last + 1):
                runs[i] *= loop.trips
        return runs

    @property
    def insts(self) -> Mapping[str, int]:
        """Instructions issued, by pipe."""
        total: dict[str, int] = {}
        for each, runs in zip(self.instructions, self.runs, strict=True):
            total[each.pipe] = total.get(each.pipe, 0) + runs
        return total


def dependence_graph(
    machine: Machine,
    block: int,
    warp: int,
    most: int = MOST_INSTRUCTIONS,
    nested: int = MOST_NESTED,
) -> DependenceGraph:
    """One warp of one of the blocks that were run, by their numbers.

    Where loops lie in one another deeper than `nested`, the outer ones are unrolled.

    **Raises:** DseError if there are more than `most` instructions, or none.
    """
    rolled = _Rolled(machine, block, warp, nested)
    size = sum(map(rolled.size, rolled.word))
    if not 1 <= size <= most:
        raise DseError(
            f"{machine.program.kernel}: graph: found {size:,} instructions with loops rolled, expected 1 to"
            f" {most:,}"
        )
    steps: list[Step] = []
    loops: list[RolledLoop] = []
    for token in rolled.word:
        rolled.write(token, steps, loops)
    loops.sort(key=lambda loop: (loop.first, -loop.last))
    needs = _needs(steps, loops)
    asked = MemoryDemand(machine, np.eye(machine.shape[0])[block])
    instructions = tuple(
        GraphInstruction(
            address=step.address,
            text=step.text,
            line=step.line,
            pipe=step.pipe,
            kind=kind_of(step),
            needs=tuple(sorted(js)),
            writes=bool(step.writes),
            **asked.of(step),
        )
        for step, js in zip(steps, needs, strict=True)
    )
    return DependenceGraph(machine.program.kernel, machine.program.arch, instructions, tuple(loops))


def kind_of(step: Step) -> str:
    if step.pipe in WAITED_FOR:
        return "memory"
    return "barrier" if _waits_for_block(step) else "compute"


def _waits_for_block(step: Step) -> bool:
    return step.opcode == "BAR" and not step.has("ARV")


class _Rolled:
    """The basic blocks of a warp as a word with loops.

    A token of the word is a basic block's number, or beyond those a loop's: equal loops have equal numbers.
    """

    def __init__(self, machine: Machine, block: int, warp: int, nested: int) -> None:
        self.blocks = machine.program.blocks
        self.nested = nested
        self.loops: dict[int, tuple[tuple[int, ...], int]] = {}  # token → body, trips
        self.tokens: dict[tuple[tuple[int, ...], int], int] = {}
        self.word: list[int] = []
        for found, more in segments(machine, block, warp):
            if more and found:
                body: list[int] = []
                for index in found:
                    self.add(body, index)
                self.add(self.word, self.loop(tuple(body), more + 1))
            else:
                for index in found:
                    self.add(self.word, index)

    def loop(self, body: tuple[int, ...], trips: int) -> int:
        """The token of a loop."""
        if len(body) == 1 and body[0] in self.loops:  # of a loop alone: that loop for longer
            body, inner = self.loops[body[0]]
            trips *= inner
        token = self.tokens.setdefault((body, trips), len(self.blocks) + len(self.tokens))
        self.loops[token] = body, trips
        return token

    def add(self, word: list[int], token: int) -> None:
        word.append(token)
        while self._fold(word):
            pass

    def _fold(self, word: list[int]) -> bool:
        """Let the end of the word become a loop, or go into the one before it."""
        last = word[-1]
        if last in self.loops:
            body, trips = self.loops[last]
            before = self.loops.get(word[-2]) if len(word) > 1 else None
            if before is not None and before[0] == body:
                word[-2:] = [self.loop(body, before[1] + trips)]
                return True
            if tuple(word[-1 - len(body) : -1]) == body:
                word[-1 - len(body) :] = [self.loop(body, trips + 1)]
                return True
        for length in range(1, min(len(word) - 1, _LONGEST) + 1):
            before = word[-1 - length]
            if before in self.loops:
                body, trips = self.loops[before]
                if len(body) == length and tuple(word[-length:]) == body:
                    word[-1 - length :] = [self.loop(body, trips + 1)]
                    return True
            # One trip follows another by a jump back: else the body would begin somewhere in its middle.
            if before == last and self._entry(word[-length]) <= self._exit(last):
                body = tuple(word[-length:])
                if tuple(word[-2 * length : -length]) == body:
                    word[-2 * length :] = [self.loop(body, 2)]
                    return True
        return False

    def _entry(self, token: int) -> int:
        while token in self.loops:
            token = self.loops[token][0][0]
        return token

    def _exit(self, token: int) -> int:
        while token in self.loops:
            token = self.loops[token][0][-1]
        return token

    def depth(self, token: int) -> int:
        if token not in self.loops:
            return 0
        return 1 + max(map(self.depth, self.loops[token][0]))

    def size(self, token: int) -> int:
        """Instructions once it is written out."""
        if token not in self.loops:
            return len(self.blocks[token].steps)
        body, trips = self.loops[token]
        once = sum(map(self.size, body))
        return once if self.depth(token) <= self.nested else trips * once

    def write(self, token: int, steps: list[Step], loops: list[RolledLoop]) -> None:
        """Append its instructions and loops."""
        if token not in self.loops:
            steps += self.blocks[token].steps
            return
        body, trips = self.loops[token]
        stays = self.depth(token) <= self.nested
        first = len(steps)
        for _ in range(1 if stays else trips):
            for inner in body:
                self.write(inner, steps, loops)
        if stays:
            loops.append(RolledLoop(first, len(steps) - 1, trips))


def _order(first: int, stop: int, loops: Sequence[RolledLoop], most_trips: int | None) -> list[int]:
    order: list[int] = []
    i, rest = first, list(loops)
    while i < stop:
        if rest and rest[0].first == i:
            loop = rest.pop(0)
            inner = [x for x in rest if x.last <= loop.last]
            rest = rest[len(inner) :]
            trips = loop.trips if most_trips is None else min(loop.trips, most_trips)
            order += _order(i, loop.last + 1, inner, most_trips) * trips
            i = loop.last + 1
        else:
            order.append(i)
            i += 1
    return order


def _needs(steps: Sequence[Step], loops: Sequence[RolledLoop]) -> list[set[int]]:
    """Which instructions each waits for. From its second trip on, a loop finds what the last trip left."""
    needs: list[set[int]] = [set() for _ in steps]
    written: dict[int, int] = {}
    for i in _order(0, len(steps), loops, 2):
        step = steps[i]
        for slot in (*step.reads, step.guard, *step.writes):
            if slot in written:
                needs[i].add(written[slot])
        for slot in step.writes:
            written[slot] = i
    return needs


class MemoryDemand:
    """What instructions ask memory for, by the counts of all phases."""

    def __init__(self, machine: Machine, weights: np.ndarray) -> None:
        found = [counts for counts in machine.phase_counts if counts is not None]
        self.counts = np.sum(found, axis=0) @ weights  # rows as Machine.counts
        self.rows = machine.bound.memory_rows
        self.block_of = {step.index: block.index for block in machine.program.blocks for step in block.steps}

    def of(self, step: Step) -> dict[str, float]:
        """Of one issue. An instruction that moves data between the lanes of a warp takes a pass."""
        row = self.rows.get(step.index)
        if row is None:
            shuffles = step.pipe == "shared"
            return {"requests": 1.0, "passes": 1.0} if shuffles else {}
        issues = max(float(self.counts[2 * self.block_of[step.index]]), 1e-300)
        requests, sectors, passes, _ = (self.counts[row : row + len(MEMORY_COUNTS)] / issues).tolist()
        found = {"requests": requests, "sectors": sectors, "passes": passes}
        if len(step.memory) > 1:
            found["shared_passes"] = float(self.counts[row + len(MEMORY_COUNTS) + 2]) / issues
        return found

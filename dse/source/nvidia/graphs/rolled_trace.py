"""The basic blocks that a warp executed, with loops rolled.

They form a word; repeated adjacent parts are folded into loops until none are left, so that loops nest.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dse.simulator.case.program import Loop
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.sass.program import Step
from dse.source.profile.single_warp import segments

_LONGEST = 128  # basic blocks and inner loops in the body of a loop; longer ones are not detected


class RolledTrace:
    """The basic blocks of a warp as a word with loops.

    A token is the number of a basic block or, above those, of a loop; equal loops have equal numbers.
    """

    def __init__(self, machine: Machine, block: int, warp: int, nested: int) -> None:
        """Loops nested deeper than `nested` are unrolled when the word is written out."""
        self._blocks = machine.program.blocks
        self._nested = nested
        self._loops: dict[int, tuple[tuple[int, ...], int]] = {}  # token → body, trips
        self._tokens: dict[tuple[tuple[int, ...], int], int] = {}
        self._word: list[int] = []
        for segment, more in segments(machine, block, warp):
            if more and segment:
                body: list[int] = []
                for index in segment:
                    self._add(body, index)
                self._add(self._word, self._loop(tuple(body), more + 1))
            else:
                for index in segment:
                    self._add(self._word, index)

    @property
    def size(self) -> int:
        """Number of instructions of the unrolled trace."""
        return sum(map(self._size, self._word))

    def written_out(self) -> tuple[list[Step], list[Loop]]:
        """Return the instructions, those of a loop once, and the loops, outer ones first."""
        steps: list[Step] = []
        loops: list[Loop] = []
        for token in self._word:
            self._write(token, steps, loops)
        return steps, sorted(loops, key=lambda loop: (loop.first, -loop.stop))

    def _loop(self, body: tuple[int, ...], trips: int) -> int:
        """Return the token of a loop."""
        if len(body) == 1 and body[0] in self._loops:  # a loop of a loop alone: merge them
            body, inner = self._loops[body[0]]
            trips *= inner
        token = self._tokens.setdefault((body, trips), len(self._blocks) + len(self._tokens))
        self._loops[token] = body, trips
        return token

    def _add(self, word: list[int], token: int) -> None:
        """Append a token to a word, and fold its end."""
        word.append(token)
        while self._fold(word):
            pass

    def _fold(self, word: list[int]) -> bool:
        """Fold the end of the word into a new loop, or into the loop before it."""
        last = word[-1]
        if last in self._loops:
            body, trips = self._loops[last]
            before = self._loops.get(word[-2]) if len(word) > 1 else None
            if before is not None and before[0] == body:
                word[-2:] = [self._loop(body, before[1] + trips)]
                return True
            if tuple(word[-1 - len(body) : -1]) == body:
                word[-1 - len(body) :] = [self._loop(body, trips + 1)]
                return True
        for length in range(1, min(len(word) - 1, _LONGEST) + 1):
            before = word[-1 - length]
            if before in self._loops:
                body, trips = self._loops[before]
                if len(body) == length and tuple(word[-length:]) == body:
                    word[-1 - length :] = [self._loop(body, trips + 1)]
                    return True
            # Trips are connected by a jump back: otherwise the body would begin in the middle of a loop.
            if before == last and self._edge(word[-length], 0) <= self._edge(last, -1):
                body = tuple(word[-length:])
                if tuple(word[-2 * length : -length]) == body:
                    word[-2 * length :] = [self._loop(body, 2)]
                    return True
        return False

    def _edge(self, token: int, end: int) -> int:
        """Return the first (`end` 0) or the last (-1) basic block of a token."""
        while token in self._loops:
            token = self._loops[token][0][end]
        return token

    def _depth(self, token: int) -> int:
        """Return the depth of nested loops."""
        if token not in self._loops:
            return 0
        return 1 + max(map(self._depth, self._loops[token][0]))

    def _size(self, token: int) -> int:
        """Return the number of instructions of a token, written out."""
        if token not in self._loops:
            return len(self._blocks[token].steps)
        body, trips = self._loops[token]
        once = sum(map(self._size, body))
        return once if self._depth(token) <= self._nested else trips * once

    def _write(self, token: int, steps: list[Step], loops: list[Loop]) -> None:
        """Append the instructions and loops of a token."""
        if token not in self._loops:
            steps += self._blocks[token].steps
            return
        body, trips = self._loops[token]
        stays = self._depth(token) <= self._nested
        first = len(steps)
        for _ in range(1 if stays else trips):
            for inner in body:
                self._write(inner, steps, loops)
        if stays:
            loops.append(Loop(first, len(steps), trips))


_Item = TypeVar("_Item")


def bodies_repeated(
    steps: Sequence[_Item], loops: Sequence[Loop], times: Mapping[Loop, int]
) -> tuple[list[_Item], list[Loop]]:
    """Repeat the bodies of some loops, with fewer trips; remaining trips follow each loop."""
    written: list[_Item] = []
    written_loops: list[Loop] = []

    def write(first: int, stop: int, within: Sequence[Loop]) -> None:
        i, rest = first, list(within)
        while i < stop:
            if not rest or rest[0].first > i:
                written.append(steps[i])
                i += 1
                continue
            loop = rest.pop(0)
            inner = [other for other in rest if other.stop <= loop.stop]
            rest = rest[len(inner) :]
            copies = times.get(loop, 1)
            trips, left = divmod(loop.trips, copies)
            begin = len(written)
            for _ in range(copies if trips else 0):
                write(i, loop.stop, inner)
            if trips > 1:
                written_loops.append(Loop(begin, len(written), trips))
            for _ in range(left):
                write(i, loop.stop, inner)
            i = loop.stop

    write(0, len(steps), loops)
    return written, sorted(written_loops, key=lambda loop: (loop.first, -loop.stop))

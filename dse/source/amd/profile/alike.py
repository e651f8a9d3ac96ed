"""Cut a grid into boxes of blocks that execute the same on an AMD GPU, from the operands of comparisons.

Blocks differ where a comparison, or a minimum or maximum, has another result. Their operands are watched in
some blocks of each box: its first, its last and random ones. If an operand is linear in the block's number
along each dimension, the block where the comparison changes follows. If it is not, or depends on data loaded
by the block's number, nothing is known of the other blocks. A comparison with a minimum or maximum that
nothing else reads is one with each of its operands.
"""

import re
from collections.abc import Sequence
from functools import cache, partial, reduce
from itertools import chain, product
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.source.amd.execute.code import Code
from dse.source.amd.execute.contents import MemoryMachine
from dse.source.amd.execute.interpret import execute
from dse.source.amd.execute.slice import effect_of
from dse.source.amd.profile.record import executions
from dse.source.amd.text import Instruction, Listing
from dse.source.machine.alike import Apart, Boxes, Followed, boxes_of
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.machine.trips import FOR_EVER, trips_of_result

_MEMBERS = 3  # blocks drawn in each box
_SEED = 3  # of the draw: the same blocks every time
_NAME = re.compile(r"[vs]_(?:cmpx?|cmpk|min|max)_(?P<how>lt|le|gt|ge|eq|ne|lg)?")
_EQUAL = ("eq", "ne", "lg")
_CHOSEN = re.compile(r"v_(?:min|max)3?_[iu]")  # one of its operands
_TESTED = re.compile(r"v_(?:cmpx?|(?:min|max)3?)_[a-z_]*[iu]")
_WATCHED = re.compile(r"[vs]_(cmpx?|cmpk|bitcmp[01]|min|max|min3|max3|med3|minmax|maxmin)_")


def watched(opcode: str) -> bool:
    """Return whether blocks may differ by an instruction's operands."""
    return _WATCHED.match(opcode) is not None


class Watch:
    """The operands of comparisons in executed blocks: the first of each box, and others of the boxes."""

    def __init__(self, listing: Listing, blocks: np.ndarray, starts: int, sizes: np.ndarray) -> None:
        """`blocks` [blocks, 3], the first of `starts` boxes of `sizes` [starts, 3] before others."""
        self.only_tested = cache(partial(only_tested, listing))
        self.blocks, self.starts, self.sizes = blocks, starts, sizes
        self.more = np.full((3, starts), FOR_EVER)  # blocks like the first after it along each dimension
        self.mixed = False  # whether a comparison depends on the block's numbers along two dimensions
        # By instruction and pair of operands: index in the trace, sides.
        self._taken: dict[tuple[int, int], tuple[int, np.ndarray]] = {}
        self._chosen: dict[str, tuple[Any, list[Any]]] = {}  # by register: a minimum or maximum, and of what
        self._turning: list[tuple[int, int]] = []  # indices in the trace between which sides change

    def compare(self, machine: MemoryMachine, step: Instruction, values: Sequence[Any]) -> None:
        """Follow a comparison from block to block. **Raises:** Apart if its operands are not linear."""
        if any(value is None for value in values) or all(value.shape[0] == 1 for value in values):
            return
        name = _NAME.match(step.opcode)
        parts = [
            self._parts(text, value)
            for text, value in zip(step.operands[-len(values) :], values, strict=True)
        ]
        if _CHOSEN.match(step.opcode) and self.only_tested(step):
            result = np.minimum if "_min" in step.opcode else np.maximum
            self._chosen[step.operands[0]] = reduce(result, values), [*chain(*parts)]
            return
        if len(values) != 2 or name is None or any(value.dtype.kind not in "iu" for value in values):
            raise Apart(f"{step.opcode} of what differs from block to block")
        how = name["how"] or "lt"
        pairs = product(*parts) if how not in _EQUAL else [values]
        for pair, (left, right) in enumerate(pairs):
            self._compared(machine, (step.index, pair), how, left, right)

    def _parts(self, register: str, value: Any) -> list[Any]:
        """Return the operands of the minimum or maximum that a register holds; else its value.

        A comparison with each of them takes the place of one with what is not linear.
        """
        result, parts = self._chosen.get(register, (None, [value]))
        same = result is not None and result.dtype == value.dtype and np.array_equal(result, value)
        return parts if same else [value]

    def _compared(
        self, machine: MemoryMachine, pair: tuple[int, int], how: str, left: Any, right: Any
    ) -> None:
        apart = left.astype(np.int64) - right.astype(np.int64)
        lanes = machine.lanes() & machine.running.mask
        joined = tuple(axis for axis in (1, 2) if apart.shape[axis] == 1)
        lanes = np.asarray(lanes.any(axis=joined, keepdims=True))
        shape = np.broadcast_shapes(apart.shape, lanes.shape, (len(self.blocks), 1, 1))
        apart, lanes = (np.broadcast_to(x, shape).reshape(shape[0], -1) for x in (apart, lanes))
        if not lanes.any():
            return
        slopes = self._slopes(apart, lanes)
        if not slopes.any():
            return
        here: Any = apart[: self.starts]
        taking_part = lanes[: self.starts]
        if how in ("gt", "ge"):
            here, slopes = -here, -slopes
        here = here - int(how in ("le", "ge"))
        to_end = slopes * (self.sizes - 1)
        least = here + np.minimum(to_end, 0).sum(1, keepdims=True)
        most = here + np.maximum(to_end, 0).sum(1, keepdims=True)
        equal = how in _EQUAL
        self._note(pair, len(machine.trace), np.sign(here) if equal else here < 0)
        turns = taking_part & (least <= 0) & (most >= 0) if equal else taking_part & (least < 0) & (most >= 0)
        self.mixed |= bool((turns.any(1) & (np.count_nonzero(slopes, axis=1) > 1)).any())
        for axis in range(3):
            ahead = trips_of_result("EQ" if equal else "LT", here, slopes[:, axis, None])
            self.more[axis] = np.minimum(self.more[axis], np.where(turns, ahead, FOR_EVER).min(1))

    def bits(self, words: Sequence[np.ndarray]) -> None:
        """Reject logic of words that differ from block to block, except masks. **Raises:** Apart"""
        differing = (word for word in words if (word != word[:1]).any())
        if any(not np.isin(word, (0, 0xFFFFFFFF)).all() for word in differing):
            raise Apart("branches may go by bits that differ from block to block")

    def _slopes(self, apart: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Return the change of an operand from block to block along each dimension: [starts, 3].

        If the changes of boxes differ, each box is fitted separately. Nothing is known of the blocks after a
        first one if its box is not linear, or too few of its blocks are active.
        """
        everywhere = self._fitted(apart, lanes, np.arange(len(apart)))
        if everywhere is not None:
            return np.tile(everywhere, (self.starts, 1))
        slopes = np.zeros((self.starts, 3), np.int64)
        for start in range(self.starts):
            fitted = self._fitted(apart, lanes, np.arange(start, len(apart), self.starts))
            if fitted is None:
                self.more[:, start] = 0
            else:
                slopes[start] = fitted
        return slopes

    def _fitted(self, apart: np.ndarray, lanes: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """Return the change from block to block in some of the blocks, [3]; None if not linear."""
        rows = rows[lanes[rows].any(1)]
        if not len(rows):
            return np.zeros(3, np.int64)
        common, away = lanes[rows] & lanes[rows[0]], self.blocks[rows] - self.blocks[rows[0]]
        moved = apart[rows] - apart[rows[0]]
        moves = moved[np.arange(len(rows)), common.argmax(1)]
        fitted, _, rank, _ = np.linalg.lstsq(away.astype(float), moves.astype(float), rcond=None)
        slopes = np.rint(fitted).astype(np.int64)
        if not np.where(common, moved == (away @ slopes)[:, None], True).all() or not common.any(1).all():
            return None
        varied = np.ptp(away, axis=0) > 0
        seen = varied if rank == np.count_nonzero(varied) else np.zeros(3, bool)
        self.more[np.ix_(~seen, rows[rows < self.starts])] = 0
        return slopes

    def _note(self, pair: tuple[int, int], place: int, sides: np.ndarray) -> None:
        """Record the stretches of the trace in which a comparison changes from one execution to the next.

        If it does not change for the first and the last block, it does not in linear trips between, either.
        """
        before = self._taken.get(pair)
        if before is not None and not np.array_equal(before[1], sides):
            self._turning.append((before[0], place))
        self._taken[pair] = place, sides

    def check_loops(self, machine: MemoryMachine) -> None:
        """Reject skipped trips in which a comparison may change for other blocks.

        **Raises:** Apart
        """
        for start, end, _ in machine.repeats:
            if any(first <= end and start <= last for first, last in self._turning):
                raise Apart("a comparison takes what differs from block to block and from trip to trip")


def only_tested(listing: Listing, step: Instruction) -> bool:
    """Return whether nothing but integer comparisons reads the result before it is overwritten."""
    result = effect_of(step, listing.wave_size).wanted_by
    ahead, seen = [step.index + 1], set[int]()
    while ahead:
        at = ahead.pop()
        if at in seen or at == len(listing.instructions):
            continue
        seen.add(at)
        other = listing.instructions[at]
        effect = effect_of(other, listing.wave_size)
        halves = filter(None, (other, other.second))
        if (effect.reads | effect.reads_any) & result and not all(_TESTED.match(x.opcode) for x in halves):
            return False
        if other.opcode.startswith(("s_cbranch", "s_branch")):
            ahead.append(listing.labels[other.operands[0]])
        if not effect.kills & result and other.opcode not in ("s_branch", "s_endpgm"):
            ahead.append(at + 1)
    return True


def alike_in_control(code: Code, launch: LaunchArguments, most: int) -> Boxes | str:
    """Cut a grid into at most `most` boxes whose blocks execute the same; else return the reason.

    `code` is for control, with `watched` opcodes.
    """
    random = np.random.default_rng(_SEED)

    def follow(starts: Sequence[Dimensions], sizes: np.ndarray) -> Followed:
        first = np.array(starts)
        others = [first + sizes - 1, *(first + random.integers(0, sizes) for _ in range(_MEMBERS))]
        blocks = np.concatenate([first, *others])
        watch = Watch(code.listing, blocks, len(starts), sizes)
        machine, missing = execute(code, launch, [(x, y, z) for x, y, z in blocks.tolist()], watch=watch)
        if missing is not None:
            raise Apart("data decide what blocks do")
        watch.check_loops(machine)
        counts = executions(machine, len(code.stretches))
        own, theirs = counts[:, : len(starts)], counts.reshape(len(counts), -1, len(starts))
        whole = (watch.more.T[:, axes] >= sizes[:, axes] - 1).all(1) & (not watch.mixed)
        if (theirs != own[:, None])[:, :, whole].any():
            raise Apart("blocks differ by more than comparisons")
        return Followed(watch.more[axes], watch.mixed, own, exact=True)

    axes = [axis for axis in range(3) if launch.grid[axis] > 1]
    try:
        return boxes_of(launch.grid, axes, follow, most)
    except (Apart, DseError) as reason:
        return str(reason)

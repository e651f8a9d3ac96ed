"""Liveness: which slots, of registers and memory, later instructions read. Sets of slots are bits."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TypeVar

Live = TypeVar("Live")


class Purpose(Enum):
    """What is evaluated besides control flow: the memories whose addresses are needed."""

    COUNTS = frozenset({"global", "shared", "local"})  # all counts
    ADDRESSES = frozenset({"global"})
    CONTROL = frozenset[str]()  # an empty tuple is no value in Python 3.11.2
    FEEDS = frozenset({"shared"})  # which stores loads from there read


def bits_of(slots: Iterable[int]) -> int:
    """Return slots as a set of bits."""
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits


def slots_in(bits: int) -> Iterator[int]:
    """Yield the slots of a set of bits."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def settle(
    live: list[Live], others: Sequence[Sequence[int]], computed: Callable[[int], Live], forward: bool = False
) -> None:
    """Compute what is live at the start of each block, until that is a fixed point.

    `computed` computes it for one block, on which `others` depend: its predecessors. Sweeps go against the
    flow: a block that returns to hundreds of calls is looked at once a sweep. With `forward` they go with
    it, for what holds at the end of each block.
    """
    waiting, order = set(range(len(live))), range(len(live))
    while waiting:
        for index in order if forward else reversed(order):
            if index not in waiting:
                continue
            waiting.remove(index)
            now = computed(index)
            if now != live[index]:
                live[index] = now
                waiting.update(others[index])


def predecessors_of(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the blocks from which each block is entered."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for index, following in enumerate(successors):
        for successor in following:
            predecessors[successor].append(index)
    return predecessors


def reached(start: int, following: Callable[[int], Iterable[int]]) -> set[int]:
    """Return the blocks reachable from one, itself included."""
    seen, left = {start}, [start]
    while left:
        new = {*following(left.pop())} - seen
        seen |= new
        left += new
    return seen

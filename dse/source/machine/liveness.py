"""Liveness: which slots, of registers and memory, later instructions read. Sets of slots are bits."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Live = TypeVar("Live")


def bits_of(slots: Iterable[int]) -> int:
    """Return slots as a set of bits."""
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits


def settle(live: list[Live], predecessors: Sequence[Sequence[int]], before: Callable[[int], Live]) -> None:
    """Compute what is live at the start of each block, until that is a fixed point.

    `before` computes it for one block from its successors'. Sweeps go against the flow: a block that returns
    to hundreds of calls is looked at once a sweep.
    """
    waiting = set(range(len(live)))
    while waiting:
        for index in reversed(range(len(live))):
            if index not in waiting:
                continue
            waiting.remove(index)
            now = before(index)
            if now != live[index]:
                live[index] = now
                waiting.update(predecessors[index])


def predecessors_of(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the blocks from which each block is entered."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for index, following in enumerate(successors):
        for successor in following:
            predecessors[successor].append(index)
    return predecessors

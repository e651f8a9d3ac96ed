"""What atomic operations read, and leave in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dse.source.amd.execute.memory_names import MemoryAccess
from dse.source.amd.execute.state import U32, joined
from dse.source.machine.memory import atomic

_CHANGES: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    **dict.fromkeys(("swap", "wrxchg", "storexchg"), lambda old, value: value),
    "inc": lambda old, value: np.where(old >= value, U32(0), old + U32(1)),
    "dec": lambda old, value: np.where((old == 0) | (old > value), value, old - U32(1)),
}


def changed(
    accessed: MemoryAccess,
    address: np.ndarray,
    old: Sequence[np.ndarray],
    values: Sequence[np.ndarray],
    block: np.ndarray,
    stands_for: float = 1.0,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return (the words that each lane reads, what they hold after all), in the order of lanes."""
    name, kind = accessed.operation.split()
    number, value = _joined(old), _joined(values)
    view = f"{'f' if kind == 'f' else 'i' if accessed.signed else 'u'}{number.itemsize}"
    function = _CHANGES.get(name, np.minimum if "min" in name else np.maximum)
    used = accessed.returns or accessed.space != "lds" or kind == "f"  # sums of floats depend on their order
    read, new = atomic(function, address, number.view(view), value.view(view), used, block, stands_for)
    return _parts(read, len(old)), _parts(new, len(old))


def compared_and_swapped(
    active: np.ndarray, address: np.ndarray, old: Sequence[np.ndarray] | None, values: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Return (words that active lanes read, words that are stored, by which lanes), a wave's in turn.

    `values` are new words, then those that must be there in place of which they are stored. The first lane
    that finds these stores, and those behind it at the same address read what it stored. Without `old`
    contents the first one does.

    **Shapes:** active [blocks, waves, lanes]; others [active lanes].
    """
    new, wanted = (_joined(words) for words in (values[: len(values) // 2], values[len(values) // 2 :]))
    held = wanted if old is None else _joined(old)
    after = np.where(new == wanted, ~new, new) if old is None else new  # another's number is another one
    wave = np.ravel_multi_index(np.nonzero(active)[:2], active.shape[:2])
    _, place = np.unique(address, return_inverse=True)
    _, place = np.unique(place * active.size + wave, return_inverse=True)
    finds, turn = np.flatnonzero(held == wanted), np.arange(len(place))
    first = np.full(1 + place.max(initial=-1), len(place))
    np.minimum.at(first, place[finds], finds)
    first = first[place]
    read = np.where(turn > first, np.append(after, after[:1])[first], held)
    stores = turn == first
    return _parts(read, len(values) // 2), [word[stores] for word in values[: len(values) // 2]], stores


def _joined(words: Sequence[np.ndarray]) -> np.ndarray:
    return words[0] if len(words) == 1 else joined(*words)


def _parts(numbers: np.ndarray, words: int) -> list[np.ndarray]:
    return [*np.ascontiguousarray(numbers.view(U32).reshape(-1, words).T)]

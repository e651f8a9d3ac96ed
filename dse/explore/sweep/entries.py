"""Kept predictions as columns: the fastest of each group, or its Pareto front."""

from collections.abc import Mapping, Sequence

import numpy as np

Entries = Mapping[str, np.ndarray]  # columns [N]

# The position of a prediction in the product, most significant first.
PLACE = ("kernel", "size", "gpu", "index")


def joined(parts: Sequence[Entries]) -> Entries:
    """Concatenate entries."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def taken(entries: Entries, index: np.ndarray) -> Entries:
    """Select entries by index."""
    return {name: values[index] for name, values in entries.items()}


def fastest(entries: Entries, k: int) -> Entries:
    """Keep the k fastest of each group, ties by position; sorted in this order."""
    position = [entries[name] for name in reversed(PLACE)]
    ordered = taken(entries, np.lexsort((*position, entries["time_s"], entries["group"])))
    group = ordered["group"]
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    return taken(ordered, np.flatnonzero(rank < k))


def front(entries: Entries, objectives: Sequence[str]) -> Entries:
    """Keep the Pareto front of each group, with objectives minimized.

    Of equals, the first in position stays. Sorted by the objectives.
    """
    position = [entries[name] for name in reversed(PLACE)]
    first, *others = objectives
    keys = [*position, entries[first], *(entries[name] for name in reversed(others)), entries["group"]]
    ordered = taken(entries, np.lexsort(keys))
    # Of entries that agree in all objectives but the first, only the best can stay.
    other = np.stack([ordered[name] for name in ("group", *others)])
    new = np.ones(other.shape[1], bool)
    new[1:] = (other[:, 1:] != other[:, :-1]).any(axis=0)
    ordered = taken(ordered, np.flatnonzero(new))
    kept = []
    for group in np.unique(ordered["group"]):
        members = np.flatnonzero(ordered["group"] == group)
        values = np.stack([ordered[name][members] for name in objectives], axis=1).astype(float)
        dominated = [((values <= row).all(axis=1) & (values < row).any(axis=1)).any() for row in values]
        members = members[~np.array(dominated)]
        kept.append(members[np.lexsort([ordered[name][members] for name in reversed(objectives)])])
    return taken(ordered, np.concatenate([np.empty(0, int), *kept]))

"""Predictions that were kept, as columns: the fastest of each group, or the ones that no other dominates."""

from collections.abc import Mapping, Sequence

import numpy as np

Entries = Mapping[str, np.ndarray]  # columns [N]

# The number of a prediction in the product, from the digit that counts most to the one that counts least.
PLACE = ("kernel", "size", "gpu", "index")
COLUMNS = ("group", "time_s", "model", *PLACE)


def joined(several: Sequence[Entries]) -> Entries:
    """Put entries behind one another."""
    return {name: np.concatenate([part[name] for part in several]) for name in several[0]}


def taken(entries: Entries, index: np.ndarray) -> Entries:
    """Take some of them."""
    return {name: values[index] for name, values in entries.items()}


def fastest(entries: Entries, k: int) -> Entries:
    """Keep the k fastest of each group; of equally fast ones those with the lowest number. Sorted so."""
    places = [entries[name] for name in reversed(PLACE)]
    ordered = taken(entries, np.lexsort((*places, entries["time_s"], entries["group"])))
    group = ordered["group"]
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    return taken(ordered, np.flatnonzero(rank < k))


def front(entries: Entries, objectives: Sequence[str]) -> Entries:
    """Keep those of each group that no other one dominates: is as good in all objectives, and better in one.

    Less is better. Of equals the one with the lowest number stays. Sorted by the objectives.
    """
    places = [entries[name] for name in reversed(PLACE)]
    first, *others = objectives
    keys = [*places, entries[first], *(entries[name] for name in reversed(others)), entries["group"]]
    ordered = taken(entries, np.lexsort(keys))
    # Of those that agree in all objectives but the first one, only the best can stay.
    other = np.stack([ordered[name] for name in ("group", *others)])
    new = np.ones(other.shape[1], bool)
    new[1:] = (other[:, 1:] != other[:, :-1]).any(axis=0)
    ordered = taken(ordered, np.flatnonzero(new))
    kept = []
    for group in np.unique(ordered["group"]):
        mine = np.flatnonzero(ordered["group"] == group)
        values = np.stack([ordered[name][mine] for name in objectives], axis=1).astype(float)
        stays = [not _dominated(row, values) for row in values]
        mine = mine[stays]
        kept.append(mine[np.lexsort([ordered[name][mine] for name in reversed(objectives)])])
    return taken(ordered, np.concatenate([np.empty(0, int), *kept]))


def _dominated(row: np.ndarray, values: np.ndarray) -> bool:
    return bool(((values <= row).all(axis=1) & (values < row).any(axis=1)).any())

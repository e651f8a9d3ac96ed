"""Partition configurations into code variants, for example with and without shared memory.

Variants say little about each other, so each is sampled and estimated separately. They are identified from
the compiled ones, by flags: names of two values that decide on phases and kinds of access.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dse.source.contract import Failure
from dse.source.estimate.features import KnownFacts
from dse.source.profiles import KernelProfile

FEWEST = 8  # configurations to compile; fewer do not suffice for estimates


@dataclass(frozen=True)
class CodeVariant:
    """Configurations whose code has the same structure."""

    indices: np.ndarray  # [l] among all
    known: KnownFacts  # [l]
    results: dict[int, KernelProfile | Failure]  # by their positions in `indices`


def variants(known: KnownFacts, results: Mapping[int, KernelProfile | Failure]) -> list[CodeVariant]:
    """Partition the configurations into variants, each with enough compiled ones."""
    labels = _labels(known, results)
    parts = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
    if len(parts) == 1:
        return [CodeVariant(parts[0], known, dict(results))]
    parted = []
    for indices in parts:
        here = {index: own for own, index in enumerate(indices.tolist())}
        own_results = {here[index]: result for index, result in results.items() if index in here}
        parted.append(CodeVariant(indices, known.rows(indices), own_results))
    return parted


def _labels(known: KnownFacts, results: Mapping[int, KernelProfile | Failure]) -> np.ndarray:
    """Return labels, from 0 on, by the values of the names that distinguish structures: [L]."""
    structures = {
        index: _structure(result) for index, result in results.items() if isinstance(result, KernelProfile)
    }
    compiled, kinds = np.array(list(structures), int), list(dict.fromkeys(structures.values()))
    structure = np.array([kinds.index(kind) for kind in structures.values()])
    labels, flags = np.zeros(len(known.threads), int), known.flags
    while len(kinds) > 1:
        finer = [np.unique(2 * labels + flag, return_inverse=True)[1] for flag in flags]
        finer = [of for of in finer if np.bincount(of[compiled], minlength=of.max() + 1).min() >= FEWEST]
        mixed = [_mixed(parting[compiled], structure) for parting in finer]
        if not finer or min(mixed) >= _mixed(labels[compiled], structure) - 1e-9:
            break
        labels = finer[int(np.argmin(mixed))]
    return labels


def _structure(profile: KernelProfile) -> tuple[frozenset[str], ...]:
    """Return the kinds of access of each phase, without spills."""
    return tuple(
        frozenset(kind for kind in phase.accesses if "local" not in kind) for phase in profile.counts.phases
    )


def _mixed(labels: np.ndarray, structure: np.ndarray) -> float:
    """Sum the entropy of the structures within each label: 0 if labels determine them."""
    table = np.zeros((labels.max() + 1, structure.max() + 1))
    np.add.at(table, (labels, structure), 1.0)
    share = table / table.sum(1, keepdims=True).clip(1.0)
    return float(-(table * np.log(np.where(share > 0, share, 1.0))).sum())

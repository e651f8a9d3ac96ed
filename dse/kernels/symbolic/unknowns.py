"""The cost of an access where sizes and loop indices are not known: its cost over their residues.

Where an address is a sum of products, which bank, sector or segment it falls in depends on each unknown
modulo the elements of one only. Which lanes share a word does not: two rows `n` apart meet if n is taken as
0. So an unknown takes, for each residue, a value far beyond the block, and another such base than the other
unknowns.

Leaves out: divisions of an unknown by another number than a power of two below the modulus, whose residues
have a longer period: raise `modulus`, or give the value.
Source: Baghsorkhi et al., PPoPP 2010, Sec. 3.3 (with residues alone).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.core.space.expression import Expression
from dse.errors import DseError

_BASE = 2**20
_MOST = 2**16  # combinations of residues


@dataclass(frozen=True)
class Parametric:
    """A cost as a function of residues: `cost[r0, r1, ...]` for the unknowns in order."""

    unknowns: tuple[str, ...]
    modulus: int
    cost: np.ndarray

    @property
    def mean(self) -> float:
        """The mean over all residues."""
        return float(self.cost.mean())

    @property
    def worst(self) -> float:
        """The largest over all residues."""
        return float(self.cost.max())

    @property
    def best(self) -> float:
        """The smallest over all residues."""
        return float(self.cost.min())

    def at(self, **values: int) -> float:
        """The cost for values of the unknowns."""
        return float(self.cost[tuple(values[name] % self.modulus for name in self.unknowns)])


def over_residues(
    index: Expression,
    cost: Callable[[np.ndarray], np.ndarray],
    values: Mapping[str, Any],
    unknowns: Sequence[str],
    modulus: int = 32,
) -> Parametric:
    """Evaluate `cost` of the index for all residues of `unknowns`.

    `cost` takes an index [residues, ...] and gives [residues, ...], whose mean over all but the first axis
    counts.
    **Shapes:** `values` [...] as the lanes have them.
    **Raises:** DseError where there would be too many combinations.
    """
    if modulus ** len(unknowns) > _MOST:
        most = int(np.log(_MOST) / np.log(modulus))
        raise DseError(f"{index.text}: unknowns: found {len(unknowns)}, expected at most {most}")
    rank = max((np.ndim(value) for value in values.values()), default=0)
    grid = np.meshgrid(*[np.arange(modulus)] * len(unknowns), indexing="ij")
    taken = {
        name: (_BASE * (number + 1) * modulus + residues).reshape((-1,) + (1,) * rank)
        for number, (name, residues) in enumerate(zip(unknowns, grid, strict=True))
    }
    known = {name: np.asarray(value)[(None,) * (1 + rank - np.ndim(value))] for name, value in values.items()}
    costs = np.asarray(cost(np.asarray(index(known | taken, np))), float)
    shape = (modulus,) * len(unknowns)
    return Parametric(tuple(unknowns), modulus, costs.reshape(int(np.prod(shape)), -1).mean(1).reshape(shape))

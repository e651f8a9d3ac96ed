"""A constraint that lists the combinations that count, where they are no product: it goes where others do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Listed:
    """Combinations of values of some parameters, of which a configuration must have one."""

    parameters: tuple[str, ...]
    rows: tuple[tuple[int | float | str, ...], ...]

    @property
    def names(self) -> frozenset[str]:
        """The parameters, as an expression has them."""
        return frozenset(self.parameters)

    @property
    def text(self) -> str:
        """What it says, in words."""
        return f"one of {len(self.rows)} listed combinations of {', '.join(self.parameters)}"

    def holds(self, values: Mapping[str, Any], xp: Any) -> Any:
        """Return whether the values are one of them. **Shapes:** parameters broadcast."""
        # Numbers encode the first values of a row, one more of them in each pass.
        known, code, codes = xp.asarray(True), xp.asarray(0), np.zeros(len(self.rows), np.int64)
        for name, listed in zip(self.parameters, np.array(self.rows).T, strict=True):
            allowed, digits = np.unique(listed, return_inverse=True)
            place, same = _find(allowed, xp.asarray(values[name]), xp)
            distinct, codes = np.unique(codes * len(allowed) + digits, return_inverse=True)
            code, begun = _find(distinct, code * len(allowed) + place, xp)
            known = known & same & begun
        return known


def _find(allowed: np.ndarray, wanted: Any, xp: Any) -> tuple[Any, Any]:
    """Find the places of values in an ascending list, and whether they are there at all."""
    ours = xp.asarray(allowed)
    place = xp.minimum(xp.searchsorted(ours, wanted), len(allowed) - 1)
    return place, ours[place] == wanted

"""A constraint that lists the allowed combinations of parameter values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class AllowedRows:
    """Allowed combinations of values of some parameters; usable like a constraint expression."""

    parameters: tuple[str, ...]
    rows: tuple[tuple[int | float | str, ...], ...]

    @property
    def names(self) -> frozenset[str]:
        """The parameters, as in an expression."""
        return frozenset(self.parameters)

    @property
    def text(self) -> str:
        """The constraint in words."""
        return f"one of {len(self.rows)} listed combinations of {', '.join(self.parameters)}"

    def holds(self, values: Mapping[str, Any], xp: Any) -> Any:
        """Return whether the values are an allowed combination. **Shapes:** parameters broadcast."""
        # One integer encodes the first values of a row, one more value in each pass.
        allowed, code, codes = xp.asarray(True), xp.asarray(0), np.zeros(len(self.rows), np.int64)
        for name, column in zip(self.parameters, np.array(self.rows).T, strict=True):
            distinct, digits = np.unique(column, return_inverse=True)
            digit, is_value = _find(distinct, xp.asarray(values[name]), xp)
            prefixes, codes = np.unique(codes * len(distinct) + digits, return_inverse=True)
            code, is_prefix = _find(prefixes, code * len(distinct) + digit, xp)
            allowed = allowed & is_value & is_prefix
        return allowed


def _find(ascending: np.ndarray, values: Any, xp: Any) -> tuple[Any, Any]:
    """Return the indices of values in an ascending array, and whether it has them."""
    array = xp.asarray(ascending)
    index = xp.minimum(xp.searchsorted(array, values), len(ascending) - 1)
    return index, array[index] == values

"""A constraint that lists the combinations that count, where they are no product: it goes where others do."""

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Listed:
    """Combinations of values of some parameters, of which a configuration must have one."""

    parameters: tuple[str, ...]
    rows: tuple[tuple[int | float, ...], ...]

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
        columns = [xp.asarray(values[name]) for name in self.parameters]
        same = (
            functools.reduce(operator.and_, [x == y for x, y in zip(columns, row, strict=True)])
            for row in self.rows
        )
        return functools.reduce(operator.or_, same)

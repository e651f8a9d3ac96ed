"""Collect the facts known of a kernel's configurations before any is compiled.

The launch, the constants of the source and, from these, its shared memory are exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.source.contract import Source
from dse.source.launches import Configuration


@dataclass(frozen=True)
class KnownFacts:
    """The facts known of L configurations before they are compiled."""

    threads: np.ndarray  # [L] of a block
    blocks: np.ndarray  # [L] of the grid
    block: np.ndarray  # [L, 3] threads along x, y, z
    shared_bytes: np.ndarray | None  # [L] of a block: static, from the source's text, and dynamic
    too_large: np.ndarray  # [L] whether, by the text, static shared memory is above the compiler's limit
    names: dict[str, np.ndarray]  # [L] parameters, and whole numbers that the source computes
    code: np.ndarray  # [L, c] parameters that vary and the work of a thread, standardised

    @property
    def flags(self) -> list[np.ndarray]:
        """For each of `names` with two values, which configurations have the larger one: [L]."""
        return [
            values == values.max()
            for values in self.names.values()
            if (values != values[0]).any() and np.isin(values, (values.min(), values.max())).all()
        ]

    @property
    def features(self) -> np.ndarray:
        """The columns of `code` and of the flags, which often affect the generated code: [L, f]."""
        return _apart([*self.code.T, *(flag.astype(float) for flag in self.flags)])

    def rows(self, places: np.ndarray) -> "KnownFacts":
        """Return the facts of some of the configurations."""
        return KnownFacts(
            self.threads[places],
            self.blocks[places],
            self.block[places],
            None if self.shared_bytes is None else self.shared_bytes[places],
            self.too_large[places],
            {name: values[places] for name, values in self.names.items()},
            _apart(list(self.code[places].T)),
        )


def known(
    source: Source,
    parameters: Mapping[str, Any],
    wanted: Sequence[Configuration],
    names: Mapping[str, Any] | None = None,
) -> KnownFacts:
    """Collect the facts from launches and the source's text, with `names`: a description's sizes.

    **Shapes:** parameters and names [L] or scalars, L configurations.
    """
    count = len(wanted)
    block = np.array([configuration.block for configuration in wanted])
    threads, blocks = block.prod(1), np.array([int(np.prod(configuration.grid)) for configuration in wanted])
    macros = [dict(configuration.defines) for configuration in wanted]
    columns = {name: np.array([defines[name] for defines in macros]) for name in macros[0]}
    read = source.constants(columns, count)
    others = {name: np.broadcast_to(np.asarray(size), (count,)) for name, size in (names or {}).items()}
    others |= read.values
    values = {name: np.broadcast_to(np.asarray(value), (count,)) for name, value in parameters.items()}
    launch = {"threads": threads, "blocks": blocks, "warps": -(-threads // 32)}
    code = _standard([*values.values(), threads * blocks])
    declared, shared_bytes, too_large = read.shared_bytes, None, np.zeros(count, bool)
    if declared is not None:
        shared_bytes = declared + np.array([configuration.shared_bytes or 0 for configuration in wanted])
        too_large = declared > source.most_declared
    return KnownFacts(threads, blocks, block, shared_bytes, too_large, values | others | launch, code)


def _standard(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Standardise columns to mean 0 and deviation 1, in logs where none is negative."""
    return _apart(
        [
            np.log2(column if column.min() > 0 else column + 1.0) if column.min() >= 0 else column
            for column in columns
        ]
    )


def _apart(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Keep the distinct columns that vary, with mean 0 and deviation 1: [L, c]."""
    kept: list[np.ndarray] = []
    for values in columns:
        if np.ptp(values) > 1e-9:
            values = (values - values.mean()) / values.std()
            if not any(abs(np.mean(values * other)) > 1 - 1e-6 for other in kept):
                kept.append(values)
    return np.array(kept).T if kept else np.zeros((len(columns[0]), 1))

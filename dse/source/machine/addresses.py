"""Global addresses of many blocks, derived from the blocks that were run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Addresses:
    """Global addresses of blocks: a machine that ran some, and the one that each block is like."""

    machine: Any
    row: np.ndarray  # [blocks] that of the block in the machine
    ahead: np.ndarray  # [blocks] how many blocks further along the row
    strides: Mapping[int, int | None] = field(default_factory=dict)  # bytes a block, by memory instruction

    @staticmethod
    def of(machine: Any) -> "Addresses":
        """Take a machine that ran all of its blocks."""
        count = machine.shape[0]
        return Addresses(machine, np.arange(count), np.zeros(count, int))

    def moved(self, step: int) -> np.ndarray:
        """Tell how far the addresses of an instruction are from those in the machine: [blocks] bytes."""
        return self.ahead * (self.strides.get(step) or 0)

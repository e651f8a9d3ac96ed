"""Global addresses of many blocks, derived from executed blocks."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dse.source.machine.recorded import Stream


@dataclass(frozen=True)
class Addresses:
    """Global addresses of blocks, each moved from those of a block in a machine."""

    machine: Any
    row: np.ndarray  # [blocks] row of the machine
    ahead: np.ndarray  # [blocks] distance in blocks from that one
    strides: Mapping[int, int | None] = field(default_factory=dict)  # bytes per block, by memory instruction

    @staticmethod
    def of(machine: Any) -> "Addresses":
        """Return the addresses of a machine's own blocks."""
        count = machine.shape[0]
        return Addresses(machine, np.arange(count), np.zeros(count, int))

    @cached_property
    def streams(self) -> Mapping[int, list[Stream]]:
        """The machine's streams, by memory instruction."""
        streams = defaultdict[int, list[Stream]](list)
        for stream in self.machine.streams:
            streams[stream.step].append(stream)
        return streams

    def moved(self, step: int) -> np.ndarray:
        """Return the distance of an instruction's addresses from those in the machine: [blocks] bytes."""
        return self.ahead * (self.strides.get(step) or 0)

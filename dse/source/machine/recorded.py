"""Protocol of recorded blocks, whichever machine ran them, for caches and explanations."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dse.source.machine.launch import LaunchArguments


@runtime_checkable
class Recorded(Protocol):
    """Counters and addresses of the blocks of a launch; see `dse.source.nvidia.machine.state.Machine`."""

    launch: LaunchArguments
    program: Any  # steps, and basic blocks of them
    bound: Any  # the rows of the counters
    shape: tuple[int, int]  # blocks, threads

    @property
    def phases(self) -> Sequence[Any]:
        """The stretches between two barriers."""
        ...

    @property
    def phase_counts(self) -> Sequence[np.ndarray | None]:
        """The counters of each."""
        ...

    @property
    def streams(self) -> Sequence[Any]:
        """The addresses of each execution of an instruction that accesses global memory."""
        ...

"""A configuration to time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dse.source.contract import Failure
from dse.source.launches import Configuration
from dse.source.nvidia.compile.contract import Compiled


@dataclass(frozen=True)
class TimingJob:
    """A configuration to time, with the compiler's outcome."""

    kernel: str
    parameters: Mapping[str, int | float]
    sizes: Mapping[str, int | float]
    configuration: Configuration
    outcome: Compiled | Failure

    @property
    def names(self) -> dict[str, int | float]:
        """Problem sizes and parameters, by name."""
        return {**self.sizes, **self.parameters}

    @property
    def case(self) -> tuple[str, tuple[Any, ...]]:
        """The kernel and its problem sizes, which determine its arrays."""
        return self.kernel, tuple(self.sizes.items())

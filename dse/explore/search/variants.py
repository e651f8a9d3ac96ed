"""Kernels of the same work, to choose from."""

from collections.abc import Mapping
from dataclasses import dataclass

from dse.kernels.counts import Counts, Number

VARIANT = "variant"  # the parameter of a trial that names the kernel


@dataclass(frozen=True)
class Variant:
    """One of several kernels of the same work, with its problem sizes."""

    kernel: Counts
    problem: Mapping[str, Number]

    @property
    def free(self) -> dict[str, tuple[Number, ...]]:
        """Parameters with more than one value."""
        return {name: values for name, values in self.kernel.space.values.items() if len(values) > 1}

"""Kernels that do the same work, to choose among."""

from collections.abc import Mapping
from dataclasses import dataclass

from dse.kernels.counts import Counts, Number

VARIANT = "variant"  # the parameter of a trial that names the kernel


@dataclass(frozen=True)
class Variant:
    """One of several kernels that do the same work, with its problem sizes."""

    kernel: Counts
    problem: Mapping[str, Number]

    @property
    def free(self) -> dict[str, tuple[Number, ...]]:
        """Parameters that have a choice."""
        return {name: values for name, values in self.kernel.space.values.items() if len(values) > 1}

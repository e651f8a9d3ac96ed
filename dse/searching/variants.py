"""Kernels that do the same work, to choose among."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dse.counts import Counts, Number
from dse.errors import DseError

VARIANT = "variant"  # the parameter of a trial that names the kernel


@dataclass(frozen=True)
class Variant:
    """One kernel of those that do the same work, with its problem sizes."""

    kernel: Counts
    problem: Mapping[str, Number]

    @property
    def free(self) -> dict[str, tuple[Number, ...]]:
        """Parameters that have a choice."""
        return {name: values for name, values in self.kernel.space.values.items() if len(values) > 1}


def variants(kernels: Iterable[tuple[Counts, Mapping[str, Number]]]) -> dict[str, Variant]:
    """Name the kernels to choose among. DseError where they do not do the same work."""
    named = {kernel.name: Variant(kernel, problem) for kernel, problem in kernels}
    works = sorted({variant.kernel.variant_of for variant in named.values()})
    if len(works) > 1:
        raise DseError(
            f"KERNEL: found kernels of different work ({', '.join(works)}), expected variants of one"
        )
    return named

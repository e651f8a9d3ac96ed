"""A kernel's configurations and their counts: the one question that everything else asks of a kernel.

A kernel that is described by expressions and one that is read from its source answer it each in its own way
(`dse.kernels.description.Description`, `dse.source.kernel.SourceKernel`); so may a class of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.core.space.space import Space
from dse.errors import DseError, one_of
from dse.hardware.gpus import column
from dse.types import Gpu, Kernel, Resources

Number = int | float


@dataclass(frozen=True)
class Alias:
    """The names under which measured tables have a kernel's parameters."""

    name: str
    rename: tuple[tuple[str, str], ...] = ()  # column → parameter or problem size
    set: tuple[tuple[str, Number], ...] = ()  # parameter or problem size → its value in all rows


@runtime_checkable
class Batch(Protocol):
    """L configurations that can be counted, a part at a time."""

    def take(self, index: np.ndarray) -> KnownBatch:
        """Count some of them, by their numbers."""
        ...


class KnownBatch(eqx.Module):
    """Configurations whose counts are numbers: fields [G, L] or [1, L], in NumPy."""

    kernel: Kernel
    resources: Resources

    @staticmethod
    def of(kernel: Kernel, resources: Resources, count: int) -> KnownBatch:
        """Lay out counts of which every field is a scalar, [L] or [G, L], with L = `count`."""

        def rows(x: Any) -> np.ndarray:
            x = np.asarray(x)
            return np.broadcast_to(x, (*x.shape[:-1], count)).reshape(-1, count)

        return KnownBatch(*jax.tree.map(rows, (kernel, resources)))

    def take(self, index: np.ndarray) -> KnownBatch:
        """Take some of them, by their numbers."""
        return jax.tree.map(lambda x: x[:, index], self)

    def on(self, gpus: Gpu) -> KnownBatch:
        """Give the counts on GPUs of fields [G, 1]: all [G, L], floats in the precision of the GPUs."""
        shape = (len(gpus.clock), self.resources.threads.shape[1])
        kernel = jax.tree.map(lambda x: x.astype(gpus.clock.dtype), self.kernel)
        return KnownBatch(*jax.tree.map(lambda x: np.broadcast_to(x, shape), (kernel, self.resources)))


@dataclass(frozen=True)
class Estimates:
    """Quality of estimated counts: known ones, estimated from one another."""

    batch: Batch
    index: np.ndarray  # their numbers among all configurations


@dataclass(frozen=True)
class Counted:
    """Counts of L configurations on G GPUs, and why some could not be counted."""

    batch: Batch
    failures: Mapping[int, str] = field(default_factory=dict)  # why a configuration was not counted
    compiled: int | None = None  # how many were compiled; None where nothing is
    estimates: Estimates | None = None  # where some were estimated from those compiled
    runs: np.ndarray | None = None  # [L] the chance that each compiles and launches, where that is estimated

    @staticmethod
    def known(kernel: Kernel, resources: Resources, count: int, **more: Any) -> Counted:
        """Wrap counts that are numbers: every field is a scalar, [L] or [G, L], with L = `count`."""
        return Counted(KnownBatch.of(kernel, resources, count), **more)


@runtime_checkable
class Counts(Protocol):
    """A kernel with a space of configurations that can be counted.

    Any object that has these is one; `OwnKernel` makes one of a function.
    """

    @property
    def name(self) -> str:
        """The kernel's name."""
        ...

    @property
    def path(self) -> Path:
        """The file that describes the kernel, which messages name."""
        ...

    @property
    def space(self) -> Space:
        """The parameters with their values and constraints."""
        ...

    @property
    def problem(self) -> tuple[tuple[str, Number], ...]:
        """The problem sizes and their defaults."""
        ...

    @property
    def spaces(self) -> tuple[Alias, ...]:
        """The names under which measured tables have its parameters."""
        ...

    @property
    def variant_of(self) -> str:
        """The work that it does: kernels that share it are variants of one another."""
        ...

    def count(
        self,
        parameters: Mapping[str, np.ndarray],
        gpus: Gpu,
        problem: Mapping[str, Number] | None = None,
        progress: Progress = silent,
    ) -> Counted:
        """Count configurations on each GPU.

        **Shapes:** parameters [L], GPU fields [G]. `problem` may leave out sizes, which take their defaults.
        """
        ...


def sizes_of(kernel: Counts, changed: Mapping[str, Number] | None = None) -> dict[str, Number]:
    """Return a kernel's problem sizes, some of them changed. **Raises:** DseError for an unknown size."""
    sizes = dict(kernel.problem)
    for name in changed or ():
        if name not in sizes:
            raise DseError(f"{kernel.name}: problem: found {name!r}, {one_of(name, sizes)}")
    return sizes | dict(changed or {})


@dataclass(frozen=True)
class OwnKernel:
    """A kernel that a function of yours counts.

    `counted` gets parameters [L], GPU fields [G, 1] and the problem sizes; the fields of what it returns
    broadcast against [G, L].
    """

    name: str
    space: Space
    counted: Callable[[Mapping[str, np.ndarray], Gpu, Mapping[str, Number]], tuple[Kernel, Resources]]
    problem: tuple[tuple[str, Number], ...] = ()
    spaces: tuple[Alias, ...] = ()

    @property
    def path(self) -> Path:
        """Its name: there is no file."""
        return Path(self.name)

    @property
    def variant_of(self) -> str:
        """Its name: it represents itself."""
        return self.name

    def count(
        self,
        parameters: Mapping[str, np.ndarray],
        gpus: Gpu,
        problem: Mapping[str, Number] | None = None,
        progress: Progress = silent,
    ) -> Counted:
        """Count configurations on each GPU with the function."""
        length = len(next(iter(parameters.values())))
        with in_64_bits():
            return Counted.known(*self.counted(parameters, column(gpus), sizes_of(self, problem)), length)

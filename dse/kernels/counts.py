"""The interface of kernels to everything else: a space of configurations, and their counts.

Implemented by kernels described with expressions (`dse.kernels.description.Description`) and kernels counted
from source (`dse.source.kernel.SourceKernel`); a class of your own may too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.core.space.space import Space
from dse.errors import DseError, check_names
from dse.hardware.gpus import column
from dse.types import Gpu, Kernel, Resources

Number = int | float


@dataclass(frozen=True)
class Alias:
    """The names of a kernel's parameters in measured tables."""

    name: str
    rename: tuple[tuple[str, str], ...] = ()  # column → parameter or problem size
    set: tuple[tuple[str, Number], ...] = ()  # parameter or problem size → its value in all rows


@runtime_checkable
class Batch(Protocol):
    """L configurations that can be counted in parts."""

    def take(self, index: np.ndarray) -> KnownBatch:
        """Count the configurations at `index`."""
        ...


class KnownBatch(eqx.Module):
    """Evaluated counts of configurations: fields [G, L] or [1, L], in NumPy."""

    kernel: Kernel
    resources: Resources

    @staticmethod
    def of(kernel: Kernel, resources: Resources, count: int) -> KnownBatch:
        """Broadcast counts whose fields are scalars, [L] or [G, L], with L = `count`."""

        def rows(x: Any) -> np.ndarray:
            x = np.asarray(x)
            return np.broadcast_to(x, (*x.shape[:-1], count)).reshape(-1, count)

        return KnownBatch(*jax.tree.map(rows, (kernel, resources)))

    def take(self, index: np.ndarray) -> KnownBatch:
        """Select configurations by index."""
        return jax.tree.map(lambda x: x[:, index], self)

    def on(self, gpus: Gpu) -> KnownBatch:
        """Broadcast the counts to GPUs with fields [G, 1]: all [G, L], floats in the GPUs' precision."""
        shape = (len(gpus.clock), self.resources.threads.shape[1])
        kernel = jax.tree.map(lambda x: x.astype(gpus.clock.dtype), self.kernel)
        return KnownBatch(*jax.tree.map(lambda x: np.broadcast_to(x, shape), (kernel, self.resources)))


@dataclass(frozen=True)
class Estimates:
    """Leave-one-out estimates of known counts, to assess the quality of estimates."""

    batch: Batch
    index: np.ndarray  # of the known configurations among all


@dataclass(frozen=True)
class Counted:
    """Counts of L configurations on G GPUs, and the reasons for failures."""

    batch: Batch
    failures: Mapping[int, str] = field(default_factory=dict)  # reasons, by configuration
    compiled: int | None = None  # number of compiled configurations; None if nothing is compiled
    estimates: Estimates | None = None  # if some were estimated from compiled ones
    runs: np.ndarray | None = None  # [L] probability to compile and launch, if estimated

    @staticmethod
    def known(kernel: Kernel, resources: Resources, count: int, **more: Any) -> Counted:
        """Wrap evaluated counts whose fields are scalars, [L] or [G, L], with L = `count`."""
        return Counted(KnownBatch.of(kernel, resources, count), **more)


@runtime_checkable
class Counts(Protocol):
    """A kernel with a space of configurations that can be counted.

    Any object with these attributes is one; `OwnKernel` wraps a function.
    """

    @property
    def name(self) -> str:
        """The kernel's name."""
        ...

    @property
    def path(self) -> Path:
        """The file that describes the kernel, for messages."""
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
        """The names of its parameters in measured tables."""
        ...

    @property
    def variant_of(self) -> str:
        """The name of its work: kernels with the same work are variants."""
        ...

    def count(
        self,
        parameters: Mapping[str, np.ndarray],
        gpus: Gpu,
        problem: Mapping[str, Number] | None = None,
        progress: Progress = silent,
    ) -> Counted:
        """Count configurations on each GPU.

        **Shapes:** parameters [L], GPU fields [G]. Sizes missing in `problem` take their defaults.
        """
        ...


def sizes_of(kernel: Counts, changed: Mapping[str, Number] | None = None) -> dict[str, Number]:
    """Return a kernel's problem sizes with changes. **Raises:** DseError for an unknown size or no number."""
    sizes = dict(kernel.problem)
    for name, value in (changed or {}).items():
        check_names(f"{kernel.name}: problem", sizes, name)
        if not (isinstance(value, Real) and isfinite(value)):
            raise DseError(f"{kernel.name}: problem: {name}: found {value!r}, expected a number")
    return sizes | dict(changed or {})


@dataclass(frozen=True)
class OwnKernel:
    """A kernel counted by a function of yours.

    `counted` takes parameters [L], GPU fields [G, 1] and the problem sizes; the fields of its result
    broadcast against [G, L].
    """

    name: str
    space: Space
    counted: Callable[[Mapping[str, np.ndarray], Gpu, Mapping[str, Number]], tuple[Kernel, Resources]]
    problem: tuple[tuple[str, Number], ...] = ()
    spaces: tuple[Alias, ...] = ()

    @property
    def path(self) -> Path:
        """Its name, since there is no file."""
        return Path(self.name)

    @property
    def variant_of(self) -> str:
        """Its name: it has no variants."""
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

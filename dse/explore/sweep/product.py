"""The product of a sweep: kernels × problem sizes × GPUs × configurations × models."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from dse.core.space import Space
from dse.core.version import __version__
from dse.errors import DseError
from dse.explore.sweep.entries import Entries
from dse.hardware.gpus import GpuFile, stack
from dse.kernels.counts import Counts, Number
from dse.models.protocol import Model
from dse.types import Gpu

GROUPS = ("kernel", "size", "gpu", "model")  # axes for separate results
COUNTED = 1 << 18  # largest space whose valid configurations are counted in advance


@dataclass(frozen=True)
class SweepProduct:
    """The axes of a sweep. Kernels, sizes, GPUs and models are numbered by their index here."""

    kernels: tuple[Counts, ...]
    sizes: tuple[Space, ...]  # of each kernel: its problem sizes, a point for each combination
    gpus: tuple[GpuFile, ...]
    models: tuple[Model, ...]

    @staticmethod
    def of(
        kernels: Sequence[tuple[Counts, Mapping[str, Number | Sequence[Number]]]],
        gpus: Sequence[GpuFile],
        models: Sequence[Model],
    ) -> "SweepProduct":
        """Build the product of kernels with their problem sizes, each a number or several.

        **Raises:** DseError for a duplicate or non-numeric value.
        """
        for name, axis in (("kernels", kernels), ("gpus", gpus), ("models", models)):
            if not axis:
                raise DseError(f"sweep: {name}: found none, expected at least one")
        sizes = tuple(Space(dict(values)) for _, values in kernels)
        return SweepProduct(tuple(kernel for kernel, _ in kernels), sizes, tuple(gpus), tuple(models))

    @cached_property
    def stacked(self) -> Gpu:
        """All GPUs: fields [G], NumPy arrays."""
        return jax.tree.map(np.asarray, stack([file.gpu for file in self.gpus]))

    @property
    def raw(self) -> int:
        """The number of predictions: configurations, valid or not, on all GPUs by all models."""
        pairs = zip(self.kernels, self.sizes, strict=True)
        by_kernel = sum(kernel.space.size * points.size for kernel, points in pairs)
        return by_kernel * len(self.gpus) * len(self.models)

    def point(self, kernel: int, size: int) -> dict[str, Number]:
        """Return the problem sizes of one point."""
        return {name: value.item() for name, value in self.sizes[kernel].decode(np.asarray(size), np).items()}

    def parameters(self, kernel: int, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parameters of configurations; a kernel without any has one configuration, number 1."""
        space = self.kernels[kernel].space
        return space.decode(index, np) if space.names else {"configuration": np.ones(len(index), int)}

    @cached_property
    def _alike(self) -> tuple[int, ...]:
        """For each kernel, the first one with the same sizes."""
        return tuple(self.sizes.index(points) for points in self.sizes)

    @cached_property
    def _strides(self) -> tuple[int, int, int]:
        most = max(points.size for points in self.sizes)
        kernels = len(self.kernels) * most * len(self.gpus)
        if kernels * len(self.models) >= 2**63:
            raise DseError(f"sweep: sizes: found {most:.1e} of a kernel, expected fewer")
        return kernels, most * len(self.gpus), len(self.gpus)

    def group(self, per: frozenset[str], kernel: int, size: Any, gpu: Any, model: Any) -> np.ndarray:
        """Return the group number of predictions, for groups by `per`.

        Kernels in one group share the groups of equal sizes.
        """
        models, kernels, points = self._strides
        size = np.asarray(size) * ("size" in per)
        gpu = np.asarray(gpu) * ("gpu" in per)
        kernel = kernel if "kernel" in per else self._alike[kernel] if "size" in per else 0
        return (np.asarray(model) * ("model" in per)) * models + kernel * kernels + size * points + gpu

    def entries(
        self, per: frozenset[str], kernel: int, size: Any, gpu: np.ndarray, model: int, **columns: np.ndarray
    ) -> Entries:
        """Return predictions of a kernel by a model as entries, with their groups by `per`."""
        same = {"model": model, "kernel": kernel, "size": size}
        numbers = {name: np.broadcast_to(number, len(gpu)) for name, number in same.items()}
        group = self.group(per, kernel, numbers["size"], gpu, numbers["model"])
        return {**numbers, "gpu": gpu, **columns, "group": group}

    def named(self, per: frozenset[str], group: int) -> dict[str, object]:
        """Return the columns that identify a group."""
        models, kernels, points = self._strides
        model, rest = divmod(int(group), models)
        kernel, rest = divmod(rest, kernels)
        size, gpu = divmod(rest, points)
        columns: dict[str, object] = {}
        if "kernel" in per:
            columns["kernel"] = self.kernels[kernel].name
        if "gpu" in per:
            columns["gpu"] = self.gpus[gpu].name
        if "model" in per:
            columns["model"] = self.models[model].name
        return columns | (self.point(kernel, size) if "size" in per else {})

    @property
    def key(self) -> str:
        """A hash of everything that a result depends on."""
        parts = [__version__]
        parts += [repr(tuple(points.values.items())) for points in self.sizes]
        parts += [repr(part) for part in (*self.models, *self.kernels)]
        parts += [f"{gpu.name} {gpu.fields}" for gpu in self.gpus]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def groups(per: Sequence[str] | None, default: Sequence[str] = ("model",)) -> frozenset[str]:
    """Return the axes of groups, always with models, whose times are not comparable.

    **Raises:** DseError for a word not in GROUPS.
    """
    axes = frozenset(default if per is None else per)
    for word in sorted(axes):
        if word not in GROUPS:
            raise DseError(f"per: found {word!r}, expected some of {', '.join(GROUPS)}")
    return axes | {"model"}


def density(space: Space, constants: Mapping[str, Number]) -> float:
    """Return the valid share of a space: exact up to COUNTED, else of a sample. Never 0."""
    if not space.constraints:
        return 1.0
    if space.size <= COUNTED:
        count = sum(len(piece) for piece in space.pieces(0, space.size, constants))
        return max(count, 1) / space.size
    index = np.random.default_rng(0).integers(0, space.size, COUNTED // 4)
    valid = np.broadcast_to(space.valid(space.decode(index, np), constants, np), index.shape)
    return max(int(valid.sum()), 1) / len(index)


def evenly(size: int, most: int) -> int:
    """Return the size of a part if `size` is cut into the fewest equal parts of at most `most`."""
    return math.ceil(size / math.ceil(size / max(most, 1)))

"""GPU files as JAX trees: `jax.grad` of a function of a GPU is a GPU whose numbers are the derivatives.

Importing this module tells JAX so. Quantities are the leaves; limits, which are integers, stay as they are.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from dse.hardware.gpus.read import GpuFile
from dse.types import Gpu


@dataclass(frozen=True)
class Changed(GpuFile):
    """A GPU file whose numbers JAX has changed, or is about to; `origin` is the file as it was read."""

    origin: GpuFile


class _Origin:
    """What JAX does not differentiate: the file. Equal if it says the same."""

    def __init__(self, file: GpuFile) -> None:
        self.file = file

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Origin) and (self.file is other.file or self._said == other._said)

    def __hash__(self) -> int:
        return hash(self.file.path)

    @property
    def _said(self) -> tuple[Any, ...]:
        numbers = tuple(np.asarray(x).tobytes() for x in jax.tree.leaves(self.file.gpu))
        return self.file.path, self.file.header, self.file.fields, numbers


def origin(file: GpuFile) -> GpuFile:
    """Return a GPU as it was read from its file, whose numbers are known while JAX traces."""
    return file.origin if isinstance(file, Changed) else file


def traced(file: GpuFile) -> bool:
    """Whether JAX is about to differentiate, compile or vectorise what this GPU goes into."""
    return any(isinstance(x, Tracer) for x in jax.tree.leaves(file.gpu))


def _flatten(file: GpuFile) -> tuple[tuple[Gpu], _Origin]:
    return (eqx.filter(file.gpu, eqx.is_inexact_array),), _Origin(origin(file))


def _unflatten(kept: _Origin, children: tuple[Any]) -> Changed:
    file, [gpu] = kept.file, children
    if isinstance(gpu, Gpu):
        gpu = eqx.combine(gpu, eqx.filter(file.gpu, eqx.is_inexact_array, inverse=True))
    return Changed(file.path, file.header, gpu, file.fields, file)


for kind in (GpuFile, Changed):
    jax.tree_util.register_pytree_node(kind, _flatten, _unflatten)

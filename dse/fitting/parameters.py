"""The numbers of a GPU that are fitted, and how far each may lie from the value that the catalogue has.

A fit moves logs: a parameter of 0.1 makes its field 10 % larger. Before any measurement each is normal about
0, with a standard deviation that says how well the catalogue knows the field.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.errors import DseError
from dse.gpus.read import GpuFile
from dse.types import CLASSES, Gpu

NAMES = (
    "clock",
    "issue_limit",
    "lsu_cycles",
    *(f"cpi.{name}" for name in CLASSES),
    *(f"latency.{name}" for name in CLASSES),
)
# By provenance.
WIDTHS = {"stated": 0.1, "measured": 0.1, "measured here": 0.1, "derived": 0.3, "fitted": 0.3}
CLOCK_WIDTH = 0.3  # whatever is stated of it: what a GPU runs at depends on power and temperature


def check(names: Sequence[str], field: str = "free") -> None:
    """Refuse a name that is not in `NAMES`, or is there twice. **Raises:** DseError."""
    for name in names:
        if name not in NAMES:
            raise DseError(f"{field}: found {name!r}, expected one of {', '.join(NAMES)}")
        if names.count(name) > 1:
            raise DseError(f"{field}: found {name!r} twice, expected each name once")


def widths(file: GpuFile, names: Sequence[str] = NAMES) -> np.ndarray:
    """Return the standard deviation of each parameter before any measurement, by its field's provenance."""
    provenance = {record.field: record.provenance for record in file.fields}
    return np.array([CLOCK_WIDTH if name == "clock" else WIDTHS[provenance[name]] for name in names])


def values(gpu: Gpu, names: Sequence[str] = NAMES) -> list[Any]:
    """Return the fields of those names."""
    return [_field(gpu, name) for name in names]


def moved(gpu: Gpu, names: Sequence[str], logs: Float[Array, " parameters"]) -> Gpu:
    """Multiply each field of the GPU by the exponential of its parameter; fields of 0 stay 0."""
    new = [
        value * jnp.exp(log.astype(value.dtype)) for value, log in zip(values(gpu, names), logs, strict=True)
    ]
    return eqx.tree_at(lambda tree: values(tree, names), gpu, new)


def _field(gpu: Gpu, name: str) -> Any:
    group, dot, last = name.partition(".")
    return getattr(getattr(gpu, group), last) if dot else getattr(gpu, name)

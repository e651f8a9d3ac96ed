"""The average warps of launches as rows of numbers: a column for each leaf of a `Kernel`, phases last.

Rows are cached, joined and estimated; a `Kernel` whose leaves are NumPy arrays is a view of them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from dse.types import Kernel, PerClass, Phase


def _blank(kind: type[Any], **fields: Any) -> Any:
    """Make an instance without converting its fields, which would start JAX's threads on import."""
    made = object.__new__(kind)
    vars(made).update(dict.fromkeys(kind.__dataclass_fields__, 0.0) | fields)
    return made


@cache
def _template(phases: int) -> Kernel:
    work = _blank(PerClass)
    phase = _blank(Phase, work=work, async_work=work, waits=work, async_waits=work)
    return _blank(Kernel, work=work, phases=(phase,) * phases)


@cache
def column_names(phases: int) -> list[str]:
    """Return the names of columns for a number of phases, such as `phases.0.work.fp32`."""
    leaves = jax.tree_util.tree_flatten_with_path(_template(phases))[0]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]


_WHOLE = len(column_names(0))
_PHASE = len(column_names(1)) - _WHOLE


def row(numbers: Mapping[str, float], phases: int) -> np.ndarray:
    """Return the row of one launch from numbers by `column_names`."""
    return np.array([numbers[name] for name in column_names(phases)])


def phases_of(rows: np.ndarray) -> int:
    """Count the phases in rows [..., numbers]."""
    return (rows.shape[-1] - _WHOLE) // _PHASE


def to_kernel(rows: np.ndarray) -> Kernel:
    """View rows [..., numbers] as one kernel: NumPy fields of shape [...]."""
    structure = jax.tree.structure(_template(phases_of(rows)))
    return jax.tree.unflatten(structure, np.moveaxis(rows, -1, 0))


# The average warp of launches that could not be counted.
NOTHING = row(dict.fromkeys(column_names(0), 0.0) | {"ilp": 1.0, "mlp": 1.0}, 0)


def stacked(launches: Sequence[np.ndarray]) -> np.ndarray:
    """Join launches, of one or several rows each, to [L, numbers], padded with empty phases."""
    parts = [np.atleast_2d(launch) for launch in launches]
    most = max((part.shape[1] for part in parts), default=_WHOLE)
    padded = [np.pad(part, ((0, 0), (0, most - part.shape[1]))) for part in parts]
    return np.concatenate([np.zeros((0, most)), *padded])

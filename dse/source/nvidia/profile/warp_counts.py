"""Records of what the average warp does, as NumPy arrays: of one launch, or of many at once.

Any leading shape stands for launches: none for one, [L] for L of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dse.types import CLASSES

Number = Any  # np.ndarray | float: one launch has plain numbers

# Fields with a number for each of CLASSES; all others are one number.
_PER_CLASS = ("work", "async_work", "waits", "async_waits")


@dataclass(frozen=True, eq=False)
class WarpPhases:
    """The phases of a launch, from a barrier to the next, each in one pass of the average warp.

    **Shapes:** [..., phases], those per class [..., phases, classes].
    """

    passes: np.ndarray  # how often a warp goes through it
    issues: np.ndarray  # issue slots: warp instructions of any kind
    memory_insts: np.ndarray  # instructions that take the load/store units
    slots: np.ndarray  # cycles in which a warp alone issues or finds a pipe of its own busy
    work: np.ndarray  # units of work for each class
    async_work: np.ndarray  # of these, those of asynchronous copies
    waits: np.ndarray  # results waited for one after the other, by the class that they come from
    async_waits: np.ndarray  # those of asynchronous copies


@dataclass(frozen=True, eq=False)
class WarpCounts:
    """The average warp from start to end; fields have the units of those of `dse.types.Kernel`.

    Launches with fewer phases than others beside them have empty ones at their end.

    **Shapes:** [...], those per class [..., classes].
    """

    shared_insts: Number
    load_insts: Number
    store_insts: Number
    sectors: Number
    work: np.ndarray
    other_insts: Number
    uncoal_insts: Number
    transactions_per_uncoal: Number
    bytes_per_access: Number
    ilp: Number
    mlp: Number
    phases: WarpPhases

    def to_matrix(self) -> np.ndarray:
        """Put all numbers side by side, [..., numbers]: those from start to end, then phase after phase."""
        whole, phases = _side_by_side(self, _WHOLE), _side_by_side(self.phases, _PHASE)
        return np.concatenate([whole, phases.reshape(*whole.shape[:-1], -1)], axis=-1)

    @staticmethod
    def from_matrix(matrix: np.ndarray) -> "WarpCounts":
        """Make the record of which `to_matrix` gives `matrix` [..., numbers]."""
        whole, phases = np.split(matrix, [_width(_WHOLE)], axis=-1)
        width = _width(_PHASE)
        phases = phases.reshape(*phases.shape[:-1], phases.shape[-1] // width, width)
        return WarpCounts(**_apart(whole, _WHOLE), phases=WarpPhases(**_apart(phases, _PHASE)))

    def __getitem__(self, index: Any) -> "WarpCounts":
        """Take some of several launches, as `index` does on their leading shape."""
        return WarpCounts.from_matrix(self.to_matrix()[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WarpCounts) and np.array_equal(self.to_matrix(), other.to_matrix())

    __hash__ = None  # type: ignore[assignment]


_WHOLE = tuple(field.name for field in fields(WarpCounts) if field.name != "phases")
_PHASE = tuple(field.name for field in fields(WarpPhases))


def _width(names: Sequence[str]) -> int:
    return sum(len(CLASSES) if name in _PER_CLASS else 1 for name in names)


def _side_by_side(record: WarpCounts | WarpPhases, names: Sequence[str]) -> np.ndarray:
    values = [np.asarray(getattr(record, name), float) for name in names]
    columns = [x if name in _PER_CLASS else x[..., None] for name, x in zip(names, values, strict=True)]
    return np.concatenate(columns, axis=-1)


def _apart(matrix: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a record by name."""
    ends = np.cumsum([_width([name]) for name in names])
    columns = np.split(matrix, ends[:-1], axis=-1)
    return {name: x if name in _PER_CLASS else x[..., 0] for name, x in zip(names, columns, strict=True)}


# The average warp of a launch of which nothing is known.
NOTHING = replace(WarpCounts.from_matrix(np.zeros(_width(_WHOLE))), ilp=1.0, mlp=1.0)


def stacked(launches: Sequence[WarpCounts]) -> WarpCounts:
    """Put launches one after the other, [L]; each item is one, or several [l]."""
    parts = [np.atleast_2d(launch.to_matrix()) for launch in launches]
    widths = [part.shape[1] for part in parts]
    matrix = np.zeros((sum(map(len, parts)), max(widths, default=_width(_WHOLE))))
    row = 0
    for part, width in zip(parts, widths, strict=True):
        matrix[row : row + len(part), :width] = part  # phases stand last: what is missing is an empty phase
        row += len(part)
    return WarpCounts.from_matrix(matrix)


def column_names(phases: int) -> list[str]:
    """Name each column of `WarpCounts.to_matrix` with so many phases, for tables and reports."""
    whole, phase = _labels(_WHOLE), _labels(_PHASE)
    return whole + [f"phases.{number}.{label}" for number in range(phases) for label in phase]


def _labels(names: Sequence[str]) -> list[str]:
    return [
        label
        for name in names
        for label in ([f"{name}.{kind}" for kind in CLASSES] if name in _PER_CLASS else [name])
    ]

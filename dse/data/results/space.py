"""The configurations of one kernel on one GPU with their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# The columns of result files, by what they describe.
NO_GPU = "GPU not stated"
MEASURED, PREDICTED, REFITTED = "measured", "predicted", "refitted"  # forecasts without a model's name
OF_A_MODEL = ("time_s", "low_s", "high_s", "bottleneck")
FACTS = (  # of a configuration, whatever the model
    *("threads", "blocks", "registers", "shared_bytes", "warps_per_sm", "occupancy", "limited_by"),
    *("possible", "measured_s", "number", "fastest_s", "optimum_s", "above_optimum_percent"),
    *("thread_instructions", "dram_bytes", "chance_fastest", "chance_near", "status", "kept"),
)
WORDS = ("bottleneck", "limited_by", "status", "kept")  # columns of words
SCORES = ("spearman", "mape")  # columns that identify a file of scores
UNREAD = ("rank", "cycles")  # implied by the time
REFIT = "refitted_s"  # becomes a forecast of its own
MOST_SIZES = 24  # problem sizes that a space is split by


@dataclass(frozen=True)
class ResultSpace:
    """The configurations of one kernel on one GPU, [L], with their results.

    Times are in seconds, NaN if missing; words are arrays of `object`, None if missing.
    """

    kernel: str
    gpu: str
    source: str  # file names
    parameters: Mapping[str, np.ndarray]  # varying parameters and problem sizes
    fixed: Mapping[str, Any]  # constant ones
    facts: Mapping[str, np.ndarray]  # of FACTS
    forecasts: Mapping[str, Mapping[str, np.ndarray]]  # by model: of OF_A_MODEL, `time_s` at least
    size: str = ""  # the problem size in words, if files have several

    @property
    def count(self) -> int:
        """The number of configurations."""
        columns = (*self.parameters.values(), *self.facts.values())
        return len(next(iter(columns))) if columns else 1

    def rows(self, index: np.ndarray) -> "ResultSpace":
        """Select configurations by index."""

        def take(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: values[index] for name, values in columns.items()}

        forecasts = {model: take(columns) for model, columns in self.forecasts.items()}
        return replace(self, parameters=take(self.parameters), facts=take(self.facts), forecasts=forecasts)

    def by_size(self, names: Sequence[str]) -> list["ResultSpace"]:
        """Split by the varying problem sizes among `names`: only times of one size are comparable.

        More than `MOST_SIZES` sizes stay together.
        """
        varying = [name for name in names if name in self.parameters]
        if not varying:
            return [self]
        columns = np.stack([codes(self.parameters[name])[0] for name in varying], axis=1)
        _, first, index = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        if len(first) > MOST_SIZES:
            return [self]
        spaces = []
        for i, row in enumerate(first):
            sizes = {name: plain(self.parameters[name][row]) for name in varying}
            part = self.rows(np.flatnonzero(index.ravel() == i))
            rest = {name: values for name, values in part.parameters.items() if name not in sizes}
            words = ", ".join(
                f"{name} {value:,}" if isinstance(value, int | float) else f"{name} {value}"
                for name, value in sizes.items()
            )
            spaces.append(replace(part, parameters=rest, fixed={**self.fixed, **sizes}, size=words))
        return spaces

    def parameter(self, name: str) -> np.ndarray | None:
        """The values of a parameter, varying or not; None if unknown."""
        if name in self.parameters:
            return self.parameters[name]
        return self.constant(self.fixed[name]) if name in self.fixed else None

    def constant(self, value: Any) -> np.ndarray:
        """The same value for each configuration."""
        return np.full(self.count, value)


@dataclass(frozen=True)
class Results:
    """The content of result files."""

    spaces: tuple[ResultSpace, ...]
    scores: tuple[Mapping[str, Any], ...] = ()  # rows of `dse compare`
    notes: tuple[str, ...] = ()  # remarks on how files were read


def codes(values: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Encode a column, [L], by its distinct values, ascending; words in order of first occurrence."""
    if values.dtype == object:
        names = {name: i for i, name in enumerate(dict.fromkeys(values.tolist()))}
        return np.fromiter((names[value] for value in values), np.int64, len(values)), list(names)
    distinct, index = np.unique(values, return_inverse=True)
    return index, distinct.tolist()


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python one."""
    return value.item() if isinstance(value, np.generic) else value

"""The configurations of one kernel on one GPU, with all that result files say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

MOST_SIZES = 24  # of the problem, that a space is cut by


@dataclass(frozen=True)
class ResultSpace:
    """The configurations of one kernel on one GPU, [L], with all that files say of them.

    Times are in seconds, NaN where there is none; words are arrays of `object`, None where there is none.
    """

    kernel: str
    gpu: str
    source: str  # the files it is from
    parameters: Mapping[str, np.ndarray]  # that vary, sizes of the problem among them
    fixed: Mapping[str, Any]  # that do not vary
    facts: Mapping[str, np.ndarray]  # of FACTS
    forecasts: Mapping[str, Mapping[str, np.ndarray]]  # by model: of OF_A_MODEL, `time_s` at least
    size: str = ""  # of the problem, in words, where files have several

    @property
    def count(self) -> int:
        """How many configurations there are."""
        columns = (*self.parameters.values(), *self.facts.values())
        return len(next(iter(columns))) if columns else 1

    def rows(self, index: np.ndarray) -> "ResultSpace":
        """Take some of its configurations, by their numbers."""

        def take(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: values[index] for name, values in columns.items()}

        forecasts = {model: take(columns) for model, columns in self.forecasts.items()}
        return replace(self, parameters=take(self.parameters), facts=take(self.facts), forecasts=forecasts)

    def by_size(self, names: Sequence[str]) -> list["ResultSpace"]:
        """Cut it by the sizes of the problem that vary, of `names`: only times of one size compare.

        More than `MOST_SIZES` of them stay together.
        """
        varying = [name for name in names if name in self.parameters]
        if not varying:
            return [self]
        columns = np.stack([codes(self.parameters[name])[0] for name in varying], axis=1)
        _, first, index = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        if len(first) > MOST_SIZES:
            return [self]
        cut = []
        for i, place in enumerate(first):
            sizes = {name: plain(self.parameters[name][place]) for name in varying}
            part = self.rows(np.flatnonzero(index.ravel() == i))
            rest = {name: values for name, values in part.parameters.items() if name not in sizes}
            words = ", ".join(
                f"{name} {value:,}" if _counts(value) else f"{name} {value}" for name, value in sizes.items()
            )
            cut.append(replace(part, parameters=rest, fixed={**self.fixed, **sizes}, size=words))
        return cut

    def parameter(self, name: str) -> np.ndarray | None:
        """The values of a parameter, whether it varies or not; None where files do not say it."""
        if name in self.parameters:
            return self.parameters[name]
        return self.constant(self.fixed[name]) if name in self.fixed else None

    def constant(self, value: Any) -> np.ndarray:
        """The same value for each configuration."""
        return np.full(self.count, value)


def codes(values: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Number the distinct values of a column, [L], in order; words keep the order in which they come."""
    if values.dtype == object:
        names = {name: i for i, name in enumerate(dict.fromkeys(values.tolist()))}
        return np.fromiter((names[value] for value in values), np.int64, len(values)), list(names)
    distinct, index = np.unique(values, return_inverse=True)
    return index, distinct.tolist()


def _counts(value: Any) -> bool:
    return isinstance(value, int | float)


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value

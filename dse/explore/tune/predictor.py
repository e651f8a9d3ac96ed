"""Predictions for a tuner, which has its own names for a kernel's parameters: a kernel on a GPU.

A tuner's names are those of the kernel's parameters and problem sizes, or of one of its `[spaces.…]`, or are
said by `rename`. What the tuner does not vary has its only value, or is said by `fixed`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from dse.errors import DseError, one_of
from dse.explore.fit.surrogate import positions
from dse.explore.tune.candidates import Candidates, bare, of_kernel
from dse.hardware import gpus
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Alias, Counts, Number
from dse.models import get
from dse.models.protocol import Model
from dse.source import readers

Columns = Mapping[str, Sequence[Any] | np.ndarray]  # of N configurations: N values of each parameter


@dataclass(frozen=True)
class Predictor:
    """A kernel, a GPU and a model; without a kernel nothing is predicted.

    **Raises:** DseError for a name that there is not, when it is first needed.
    """

    kernel: str | Path | Counts | None
    gpu: str | Path | GpuFile | None = None
    model: str | Model = "phase"
    fixed: Mapping[str, Number] = field(default_factory=dict)  # parameters and sizes that are not tuned
    rename: Mapping[str, str | None] = field(default_factory=dict)  # theirs → ours; None: the kernel has none
    source: bool = False  # of a kernel given by name: count what its source does

    @cached_property
    def counts(self) -> Counts:
        """The kernel, loaded where it is given by its name or file."""
        assert self.kernel is not None
        if isinstance(self.kernel, str | Path):
            return readers.kernel(self.kernel, source=self.source)
        return self.kernel

    @cached_property
    def file(self) -> GpuFile:
        """The GPU, loaded where it is given by its name. **Raises:** DseError if there is none."""
        if self.gpu is None:
            raise DseError("gpu: found none, expected one that `dse gpus` lists")
        return self.gpu if isinstance(self.gpu, GpuFile) else gpus.load(self.gpu)

    def candidates(
        self,
        columns: Columns,
        where: str,
        sizes: Mapping[str, Any] | None = None,
        optional: Collection[str] = (),
    ) -> Candidates:
        """Predict N configurations, by the tuner's names.

        Those of `sizes` that the kernel has are its problem sizes. A parameter that the kernel does not know
        changes no prediction: it must be `optional`, or renamed to None, or have one value only. Where times
        are told it counts all the same.

        **Raises:** DseError, which begins with `where`, if names do not match or a value is no number.
        """
        if not columns or not len(next(iter(columns.values()))):
            raise DseError(f"{where}: found no configuration, expected one at least")
        seen = {name: _ordered(values) for name, values in columns.items()}
        if self.kernel is None:
            return bare(seen)
        model = get(self.model)
        ours, problem = self.named(columns, where, sizes, optional)
        candidates = of_kernel(self.counts, self.file, model, ours, problem)
        return replace(candidates, position=positions(seen))

    def named(
        self,
        columns: Columns,
        where: str,
        sizes: Mapping[str, Any] | None = None,
        optional: Collection[str] = (),
    ) -> tuple[dict[str, np.ndarray], dict[str, Number]]:
        """Name the same configurations as the kernel does: its parameters, in its order, and its sizes."""
        values, problem = self.counts.space.values, dict(self.counts.problem)
        for name in self.fixed:
            if name not in values and name not in problem:
                raise DseError(f"{where}: fixed: found {name!r}, {one_of(name, [*values, *problem])}")
        aliases = [Alias(self.counts.name), *self.counts.spaces]
        matches = [self._matched(alias, columns, optional) for alias in aliases]
        theirs, constants, wrong = min(matches, key=lambda match: len(match[2]))
        if wrong:
            raise DseError(
                f"{where}: found {', '.join(wrong)}, expected the parameters of {self.counts.name}: "
                f"{', '.join(values)}; `rename` maps their names, `fixed` sets parameters that are not tuned"
            )
        numbers = {name: _numbers(columns[name], f"{where}: {name}") for name in theirs.values()}
        count = len(next(iter(columns.values())))
        parameters: dict[str, np.ndarray] = {
            name: numbers[theirs[name]] if name in theirs else np.full(count, constants.get(name, known[0]))
            for name, known in values.items()
        }
        names: dict[str | None, Any] = {
            self.rename.get(name, name): value
            for name, value in (sizes or {}).items()
            if isinstance(value, Real)
        }
        names |= {name: numbers[column][0].item() for name, column in theirs.items()} | constants
        return parameters, {name: names.get(name, size) for name, size in problem.items()}

    def values(self, name: str) -> tuple[Number, ...] | None:
        """Return the values that the kernel's own space has of a tuner's parameter.

        None if it has no such parameter; (), no value, of one that is renamed to None.
        """
        space = self.counts.space.values
        if name in self.rename:
            ours = self.rename[name]
            return () if ours is None else space.get(ours)
        renamed = [dict(alias.rename).get(name, name) for alias in self.counts.spaces]
        return next((space[ours] for ours in (name, *renamed) if ours in space), None)

    def valid(self, columns: Columns, where: str) -> np.ndarray:
        """Mark the configurations that keep the kernel's own constraints. DseError as `candidates`."""
        return self.counts.space.valid(*self.named(columns, where), np)

    def _matched(
        self, alias: Alias, columns: Columns, optional: Collection[str]
    ) -> tuple[dict[str, str], dict[str, Number], list[str]]:
        """Match under one of the kernel's aliases: our names → theirs; constants; what does not match."""
        values, problem = self.counts.space.values, dict(self.counts.problem)
        theirs: dict[str, str] = {}
        wrong = []
        for name, column in columns.items():
            ours = self.rename.get(name, dict(alias.rename).get(name, name))
            varies = len(np.unique(_ordered(column))) > 1
            if ours is None:
                continue
            if ours in problem and varies:
                wrong.append(f"several values of the size {name!r}")
            elif ours in values or ours in problem:
                theirs[ours] = name
            elif varies and name not in optional:
                wrong.append(f"{name!r}")
        wrong += [f"{name!r} both tuned and fixed" for name in self.fixed if name in theirs]
        constants = {name: value for name, value in alias.set if name not in theirs} | dict(self.fixed)
        known = theirs.keys() | constants.keys()
        wrong += [f"no {name!r}" for name, some in values.items() if len(some) > 1 and name not in known]
        return theirs, constants, wrong


def _numbers(values: Sequence[Any] | np.ndarray, where: str) -> np.ndarray:
    """Read whole numbers as integers, else floats. DseError where a value is no number."""
    numbers = _as_numbers(values)
    if numbers is None:
        culprit = next((value for value in values if not isinstance(value, Real)), values[0])
        raise DseError(f"{where}: found {culprit!r}, expected a number")
    return numbers.astype(np.int64) if np.all(numbers == np.floor(numbers)) else numbers


def _ordered(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return numbers as they are; of other values each one's rank among them, as they first came."""
    numbers = _as_numbers(values)
    if numbers is not None:
        return numbers
    words = [str(value) for value in values]
    ranks = {word: rank for rank, word in enumerate(dict.fromkeys(words))}
    return np.array([ranks[word] for word in words], float)


def _as_numbers(values: Sequence[Any] | np.ndarray) -> np.ndarray | None:
    """Return floats, or None where not all are numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # sequences of different lengths
        return None
    return array.astype(float) if array.ndim == 1 and array.dtype.kind in "biuf" else None

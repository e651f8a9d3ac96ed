"""Predictions of a kernel on a GPU for a tuner with its own names for the kernel's parameters.

A tuner's names are those of the kernel's parameters and problem sizes, or of one of its `[spaces.…]`, or are
mapped by `rename`. Parameters that the tuner does not vary have a single value, or are set by `fixed`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from dse.errors import DseError, check_names
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
    """A kernel, a GPU and a model; without a kernel there are no predictions.

    **Raises:** DseError for an unknown name, on first use.
    """

    kernel: str | Path | Counts | None
    gpu: str | Path | GpuFile | None = None
    model: str | Model = "phase"
    fixed: Mapping[str, Number] = field(default_factory=dict)  # parameters and sizes without tuning
    rename: Mapping[str, str | None] = field(default_factory=dict)  # tuner's → kernel's; None: it has none
    source: bool = False  # count the work of a named kernel from its source

    @cached_property
    def counts(self) -> Counts:
        """The kernel, loaded if given by name or file. **Raises:** DseError if there is none."""
        if self.kernel is None:
            raise DseError("kernel: found none, expected one that `dse kernels` lists, or a file")
        if isinstance(self.kernel, str | Path):
            return readers.kernel(self.kernel, source=self.source)
        return self.kernel

    @cached_property
    def file(self) -> GpuFile:
        """The GPU, loaded if given by name. **Raises:** DseError if there is none."""
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
        """Predict N configurations, given by the tuner's names.

        The kernel takes its problem sizes from `sizes`. A parameter that the kernel lacks does not affect
        predictions: it must be `optional`, or renamed to None, or have a single value. It still counts when
        the tuner learns from measurements.

        **Raises:** DseError that begins with `where`, if names do not match or a value is no number.
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
        """Convert the configurations to the kernel's names: its parameters, in its order, and its sizes."""
        values, problem = self.counts.space.values, dict(self.counts.problem)
        check_names(f"{where}: fixed", [*values, *problem], *self.fixed)
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
        """Return the values of a tuner's parameter in the kernel's own space.

        None if the kernel lacks the parameter; () if it is renamed to None.
        """
        space = self.counts.space.values
        if name in self.rename:
            ours = self.rename[name]
            return () if ours is None else space.get(ours)
        renamed = [dict(alias.rename).get(name, name) for alias in self.counts.spaces]
        return next((space[ours] for ours in (name, *renamed) if ours in space), None)

    def valid(self, columns: Columns, where: str) -> np.ndarray:
        """Mark the configurations that satisfy the kernel's own constraints. DseError as `candidates`."""
        return self.counts.space.valid(*self.named(columns, where), np)

    def _matched(
        self, alias: Alias, columns: Columns, optional: Collection[str]
    ) -> tuple[dict[str, str], dict[str, Number], list[str]]:
        """Match names by one of the kernel's aliases: kernel's → tuner's names; constants; mismatches."""
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
    """Convert to integers if all are whole, else floats. DseError if a value is no number."""
    numbers = _as_numbers(values)
    if numbers is None:
        culprit = next((value for value in values if not isinstance(value, Real)), values[0])
        raise DseError(f"{where}: found {culprit!r}, expected a number")
    return numbers.astype(np.int64) if np.all(numbers == np.floor(numbers)) else numbers


def _ordered(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return numbers unchanged; for other values the rank of each, by first occurrence."""
    numbers = _as_numbers(values)
    if numbers is not None:
        return numbers
    words = [str(value) for value in values]
    ranks = {word: rank for rank, word in enumerate(dict.fromkeys(words))}
    return np.array([ranks[word] for word in words], float)


def _as_numbers(values: Sequence[Any] | np.ndarray) -> np.ndarray | None:
    """Return floats, or None if not all are numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # sequences of different lengths
        return None
    return array.astype(float) if array.ndim == 1 and array.dtype.kind in "biuf" else None

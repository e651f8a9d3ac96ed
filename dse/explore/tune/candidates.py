"""The configurations that a tuner chooses from, with predictions before any measurement."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from dse.core.gaussian_process import Points
from dse.core.precision import in_64_bits
from dse.core.progress import Progress, silent
from dse.data.scores import ranks
from dse.errors import InputWarning
from dse.explore.fit import launches as fixed
from dse.explore.fit.launches import Launches, linearised
from dse.explore.fit.parameters import names_for, widths
from dse.explore.fit.surrogate import positions
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Counts, Number
from dse.models import get
from dse.models.protocol import Model
from dse.types import Launch

CONTRAST = 1.0  # prior standard deviation of the slope of actual over expected times, minus 1
HABITS = 0.2, 0.1, 0.1  # log of the time added by each of the `habits`
HABIT = 0.3  # prior standard deviation of these
AXES = "xyz", "mnk"  # letters in which the names of sizes of one object differ
TRUST = 0.5  # ... of the weight of each table of other GPUs
LEVEL, NO_LEVEL = 0.5, 1.0  # ... of the common log error of a model; without a model, of the median
SHARED = 0.5  # share of a model's errors on a GPU that it repeats on one of the same vendor and warp size

Elsewhere = Callable[[GpuFile, Mapping[str, Number]], "Candidates"]  # of a GPU and problem sizes


@dataclass(frozen=True)
class Candidates:
    """N configurations; arrays [N]."""

    parameters: dict[str, np.ndarray]
    position: np.ndarray  # [N, D], `dse.explore.fit.surrogate.positions`
    log_s: np.ndarray  # of the predicted time; without a model the cost of `habits`
    slopes: np.ndarray  # [N, P], by the GPU's parameters, in their prior standard deviations
    possible: np.ndarray  # according to the model
    modelled: bool
    others: np.ndarray | None = None  # [N, tables]: log errors on tables of other GPUs
    alike: tuple[int, ...] = ()  # the tables of GPUs on which the model errs alike
    launch: np.ndarray | None = None  # [N, 2]: threads of a block and resident warps, scaled as positions
    runs: np.ndarray | float = 1.0  # the probability that a launch predicted to be possible is so
    file: GpuFile | None = None  # the predictions' GPU
    elsewhere: Elsewhere | None = None  # the same configurations predicted on another GPU

    def __len__(self) -> int:
        return len(self.log_s)

    @property
    def informed(self) -> bool:
        """Whether there are predictions before any measurement."""
        return self.modelled or self.others is not None

    @property
    def expected(self) -> np.ndarray:
        """Log of the expected time: as predicted, and part of the model's errors on GPUs alike.

        Without a model, as on other GPUs.
        """
        if self.others is None or (self.modelled and not self.alike):
            return self.log_s
        repeated = SHARED * self.others[:, self.alike] if self.modelled else self.others
        return self.log_s + repeated.mean(axis=1)

    @cached_property
    def points(self) -> Points:
        """The surrogate's features: parameters, the expected order and launch, and possible errors."""
        known = [ranks(self.expected) / len(self)] if self.informed else []
        known += [] if self.launch is None else [self.launch]
        slopes = [self.slopes, np.full(len(self), LEVEL if self.modelled else NO_LEVEL)]
        if self.informed:
            slopes.append(CONTRAST * (self.expected - self.expected[self.possible].mean()))
        if self.others is not None:
            slopes.append(TRUST * self.others)
        position = np.round(np.column_stack([self.position, *known]), 3)  # few values are faster to compare
        return Points(position, np.column_stack(slopes))

    @property
    def varying(self) -> dict[str, np.ndarray]:
        """The parameters with several values."""
        return {name: values for name, values in self.parameters.items() if np.any(values != values[0])}

    def rows(self, index: np.ndarray) -> "Candidates":
        """Select some of them; each parameter's values keep their order."""
        columns = {name: values[index] for name, values in self.parameters.items()}
        arrays = {name: getattr(self, name)[index] for name in ("position", "log_s", "slopes", "possible")}
        others, launch = (None if x is None else x[index] for x in (self.others, self.launch))
        runs = np.broadcast_to(self.runs, len(self))[index]
        return replace(
            self, parameters=columns, others=others, launch=launch, runs=runs, elsewhere=None, **arrays
        )

    @cached_property
    def kinds(self) -> np.ndarray:
        """A number for each candidate, [N]; equal if two have the same features."""
        known = np.column_stack([self.position, self.expected])
        return np.unique(known, axis=0, return_inverse=True)[1].ravel()

    @cached_property
    def places(self) -> dict[tuple[Any, ...], int]:
        """The index of each candidate by its values in the order of the parameters."""
        columns = (values.tolist() for values in self.parameters.values())
        return {values: index for index, values in enumerate(zip(*columns, strict=True))}

    def places_of(self, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the indices of the configurations of columns, -1 for those that are no candidates."""
        rows = zip(*(parameters[name].tolist() for name in self.parameters), strict=True)
        return np.array([self.places.get(row, -1) for row in rows], int)

    def place(self, configuration: Mapping[str, Any]) -> int:
        """Return the index of a configuration. KeyError if it is no candidate, or lacks a parameter."""
        return self.places[tuple(configuration[name] for name in self.parameters)]

    def most(self, count: int, seed: int = 0) -> "Candidates":
        """Select `count`: half the fastest by prediction, half at random. All if there are fewer."""
        if len(self) <= count:
            return self
        order = np.argsort(np.where(self.possible, self.expected, np.inf), kind="stable")
        others = np.random.default_rng(seed).permutation(order[count // 2 :])[: count - count // 2]
        return self.rows(np.sort(np.concatenate([order[: count // 2], others])))


def habits(parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """Count the values that tuned kernels mostly avoid, since hardware favours powers of two: [N, 3].

    They are sizes that are no power of two, the least and greatest of three sizes or more, and products over
    axes within a factor of two of the least or greatest: blocks of few or of many threads, for example.
    """
    counts = np.zeros((len(next(iter(parameters.values()))), len(HABITS)))
    sizes = {name: np.asarray(values) for name, values in parameters.items() if _is_size(np.asarray(values))}
    for values in sizes.values():
        known = np.unique(values)
        counts[:, 0] += np.frexp(values)[0] != 0.5
        counts[:, 1] += (len(known) > 2) & ((values == known[0]) | (values == known[-1]))
    for product in _products(sizes):
        counts[:, 2] += (product < 2 * product.min()) | (2 * product > product.max())
    return counts


def _is_size(values: np.ndarray) -> bool:
    return bool(np.issubdtype(values.dtype, np.number) and values.min() > 0 and np.any(values != values[0]))


def _products(sizes: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the products of sizes whose names differ in the axis alone, such as `block_size_x` and `_y`."""
    groups = defaultdict[tuple[str, str, str], list[np.ndarray]](list)
    for name, values in sizes.items():
        for place, letter in enumerate(name.lower()):
            for axes in AXES:
                if letter in axes:
                    groups[axes, name[:place], name[place + 1 :]].append(values)
    for group in groups.values():
        if len(group) > 1:
            yield np.prod(np.array(group, float), axis=0)


def bare(parameters: Mapping[str, np.ndarray]) -> Candidates:
    """Make candidates of a kernel known only by its tuning parameters."""
    columns = {name: np.asarray(values) for name, values in parameters.items()}
    counts = habits(columns)
    possible = np.ones(len(counts), bool)
    return Candidates(columns, positions(columns), counts @ HABITS, HABIT * counts, possible, False)


def of_launches(
    parameters: Mapping[str, np.ndarray], launches: Launches, file: GpuFile, model: Model
) -> Candidates:
    """Make candidates of launches that a closed form can predict."""
    count = len(launches)
    size = count and 1 << max(8, (count - 1).bit_length())  # few sizes, so that spaces share compiled code
    padded = launches.rows(np.minimum(np.arange(size), count - 1))
    with in_64_bits():
        names = names_for([launches.kernel])
        log_s, slopes = linearised(padded, model, names, jax.device_put(np.zeros(len(names))))
    log_s, slopes = (np.asarray(x, float)[:count] for x in (log_s, slopes))
    possible = np.asarray(launches.possible)
    known = possible & np.isfinite(log_s)
    slopes = _numbers(np.where(known[:, None], slopes, 0.0), names) * widths(file, names)
    log_s = np.where(known, log_s, log_s[known].max(initial=-np.inf) if known.any() else 0.0)
    slopes = slopes - slopes.mean(axis=0)  # the surrogate's mean has the common part
    columns = {name: np.asarray(values) for name, values in parameters.items()}
    runs = np.asarray(launches.runs, float)
    launch = _launch(launches.launch, known) if known.any() else None
    position, modelled = positions(columns), launch is not None
    return Candidates(columns, position, log_s, slopes, known, modelled, launch=launch, runs=runs)


def _launch(launch: Launch, known: np.ndarray) -> np.ndarray:
    """Return threads of a block and resident warps, scaled as positions: a model's errors depend on them."""
    launch = jax.tree.map(np.asarray, launch)
    shape = {"threads": launch.threads_per_block, "warps": launch.resident_blocks * launch.warps_per_block}
    return positions({name: np.where(known, x, np.min(x[known])) for name, x in shape.items()})


def _numbers(slopes: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return the slopes with 0 for NaN and infinity, with a warning that names the parameters."""
    wrong = ~np.isfinite(slopes)
    if wrong.any():
        by = ", ".join(np.array(names)[wrong.any(axis=0)])
        some = f"{wrong.any(axis=1).sum()} of {len(slopes)} configurations"
        text = f"slopes of the time: found no number for {some}, expected one; there is no refit of {by}"
        warnings.warn(text, InputWarning, stacklevel=2)
    return np.where(wrong, 0.0, slopes)


def of_kernel(
    kernel: Counts,
    file: GpuFile,
    model: str | Model,
    parameters: Mapping[str, np.ndarray],
    problem: Mapping[str, Number] | None = None,
    progress: Progress = silent,
) -> Candidates:
    """Make candidates of a kernel's configurations on a GPU, predicted by a closed form."""

    def on(file: GpuFile, problem: Mapping[str, Number] | None) -> Candidates:
        launches = fixed.of_kernel(kernel, file.gpu, parameters, problem, progress)
        return of_launches(parameters, launches, file, get(model))

    def elsewhere(file: GpuFile, sizes: Mapping[str, Number]) -> Candidates:
        return on(file, {**(problem or {}), **sizes})

    return replace(on(file, problem), file=file, elsewhere=elsewhere)

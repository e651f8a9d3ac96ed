"""What is made of predictions while they stream by: the fastest, Pareto fronts, histograms, counts.

Each result of a part is a table of columns; parts are merged in any order, with the same result to the bit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from dse.errors import DseError
from dse.explore.sweep import entries
from dse.explore.sweep.chunk import Chunk
from dse.explore.sweep.entries import Entries
from dse.explore.sweep.product import SweepProduct
from dse.hardware import occupancy

OBJECTIVES = ("time_s", "threads", "registers", "shared_bytes")  # of which less is better
BINS = 20  # of a histogram, for each power of ten
EDGES = np.power(10.0, np.arange(-10 * BINS, 4 * BINS + 1) / BINS)  # s


@runtime_checkable
class Reduction(Protocol):
    """A way to make little of many predictions."""

    @property
    def per(self) -> frozenset[str]:
        """The groups that have a result of their own."""
        ...

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk."""
        ...

    def merged(self, several: Sequence[Entries]) -> Entries:
        """Make one result of several."""
        ...


@dataclass(frozen=True)
class Top:
    """The k fastest predictions of each group that can run."""

    k: int
    per: frozenset[str]

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk: at most k of each GPU, model and group."""
        some = {}
        for model, forecast in chunk.evaluation.forecasts.items():
            seconds = np.where(chunk.wanted[model] & chunk.evaluation.possible, forecast.seconds, np.inf)
            if self.k < seconds.shape[1]:
                last = np.partition(seconds, self.k - 1, axis=1)[:, self.k - 1 : self.k]
                some[model] = (seconds <= last) & (seconds < np.inf)
            else:
                some[model] = seconds < np.inf
        return self.merged([chunk.entries(self.per, (), some)])

    def merged(self, several: Sequence[Entries]) -> Entries:
        """Make one result of several."""
        return entries.fastest(entries.joined(several), self.k)


@dataclass(frozen=True)
class Pareto:
    """The predictions of each group that no other one is better than in one objective, and as good in all."""

    objectives: tuple[str, ...]
    per: frozenset[str]

    def __post_init__(self) -> None:
        for name in self.objectives:
            if name not in OBJECTIVES:
                raise DseError(f"pareto: found {name!r}, expected some of {', '.join(OBJECTIVES)}")
        if len(set(self.objectives)) < len(self.objectives) or not self.objectives:
            found = ",".join(self.objectives) or "none"
            raise DseError(f"pareto: found {found}, expected each objective once")

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk."""
        possible = chunk.evaluation.possible
        forecasts = chunk.evaluation.forecasts
        some = {m: chunk.wanted[m] & possible & np.isfinite(forecasts[m].seconds) for m in forecasts}
        columns = [name for name in self.objectives if name != "time_s"]
        return self.merged([chunk.entries(self.per, columns, some)])

    def merged(self, several: Sequence[Entries]) -> Entries:
        """Make one result of several."""
        return entries.front(entries.joined(several), self.objectives)


@dataclass(frozen=True)
class Histogram:
    """How many predictions of each group are between two times; the bins are the same for all."""

    per: frozenset[str]

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk."""
        evaluation, gpus = chunk.evaluation, np.arange(len(chunk.evaluation.limiter))
        parts = []
        for m, (model, forecast) in enumerate(evaluation.forecasts.items()):
            some = chunk.wanted[model] & evaluation.possible & ~np.isnan(forecast.seconds)
            place = np.searchsorted(EDGES, forecast.seconds, side="right")
            bins = len(EDGES) + 1
            counts = np.stack([np.bincount(place[g][some[g]], minlength=bins) for g in gpus])
            group = chunk.product.group(self.per, chunk.kernel, chunk.size, gpus, np.asarray(m))
            parts.append({"group": group, "counts": counts})
        return self.merged(parts)

    def merged(self, several: Sequence[Entries]) -> Entries:
        """Make one result of several."""
        return tallied(several)


@dataclass(frozen=True)
class LimiterCounts:
    """How many configurations of each group are valid, and what limits how many; models do not matter."""

    per: frozenset[str]

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk."""
        limiter = chunk.evaluation.limiter
        some = np.logical_or.reduce(list(chunk.wanted.values()))
        counts = np.stack([
            np.bincount(codes[holds], minlength=len(occupancy.LIMITERS))
            for codes, holds in zip(limiter, some, strict=True)
        ])  # fmt: skip
        return self.counted(chunk.product, chunk.kernel, np.asarray(chunk.size), counts)

    def counted(self, product: SweepProduct, kernel: int, size: np.ndarray, counts: np.ndarray) -> Entries:
        """Make a result of numbers of limiters [G, limiters], or [G, sizes, limiters] with sizes [sizes]."""
        gpus = np.arange(len(counts)).reshape(-1, *[1] * (counts.ndim - 2))
        group = product.group(self.per - {"model"}, kernel, size, gpus, np.asarray(0))
        group = np.broadcast_to(group, counts.shape[:-1]).ravel()
        return self.merged([{"group": group, "counts": counts.reshape(-1, counts.shape[-1])}])

    def merged(self, several: Sequence[Entries]) -> Entries:
        """Make one result of several."""
        return tallied(several)


def tallied(several: Sequence[Entries]) -> Entries:
    """Add up the numbers of each group."""
    whole = entries.joined(several)
    group, place = np.unique(whole["group"], return_inverse=True)
    counts = np.zeros((len(group), whole["counts"].shape[1]), np.int64)
    np.add.at(counts, place, whole["counts"])
    return {"group": group, "counts": counts}


@dataclass
class Buckets:
    """The result so far: parts that share no group are kept apart, as merging a large one takes long."""

    reduction: Reduction
    found: dict[str, Entries] = field(default_factory=dict)

    def add(self, new: Mapping[str, Entries]) -> None:
        """Add results, by the groups that they are of."""
        for name, some in new.items():
            known = self.found.get(name)
            self.found[name] = some if known is None else self.reduction.merged([known, some])

    def whole(self) -> Entries | None:
        """Return all that was found; None if nothing was looked at."""
        return (
            self.reduction.merged([self.found[name] for name in sorted(self.found)]) if self.found else None
        )

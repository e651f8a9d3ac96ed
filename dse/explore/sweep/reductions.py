"""Streaming reductions of predictions: the fastest, Pareto fronts, histograms, counts.

The result of a part is a table of columns; merging parts in any order gives bit-identical results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dse.errors import DseError
from dse.explore.sweep import entries
from dse.explore.sweep.chunk import Chunk
from dse.explore.sweep.entries import Entries
from dse.explore.sweep.product import SweepProduct
from dse.hardware import occupancy

OBJECTIVES = ("time_s", "threads", "registers", "shared_bytes")  # to be minimized
BINS = 20  # of a histogram, per power of ten
EDGES = np.power(10.0, np.arange(-10 * BINS, 4 * BINS + 1) / BINS)  # s


@dataclass(frozen=True)
class Top:
    """The k fastest launchable predictions of each group."""

    k: int
    per: frozenset[str]

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk: at most k of each GPU, model and group."""
        masks = {}
        for model, forecast in chunk.evaluation.forecasts.items():
            seconds = np.where(chunk.wanted[model] & chunk.evaluation.possible, forecast.seconds, np.inf)
            if self.k < seconds.shape[1]:
                last = np.partition(seconds, self.k - 1, axis=1)[:, self.k - 1 : self.k]
                masks[model] = (seconds <= last) & (seconds < np.inf)
            else:
                masks[model] = seconds < np.inf
        return self.merged([chunk.entries(self.per, (), masks)])

    def merged(self, parts: Sequence[Entries]) -> Entries:
        """Merge the results of parts."""
        return entries.fastest(entries.joined(parts), self.k)


@dataclass(frozen=True)
class Pareto:
    """The Pareto front of each group."""

    objectives: tuple[str, ...]
    per: frozenset[str]

    def __post_init__(self) -> None:
        for name in self.objectives:
            if name not in OBJECTIVES:
                raise DseError(f"pareto: found {name!r}, expected some of {', '.join(OBJECTIVES)}")
        if len(set(self.objectives)) < len(self.objectives) or not self.objectives:
            actual = ",".join(self.objectives) or "none"
            raise DseError(f"pareto: found {actual}, expected each objective once")

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk."""
        possible = chunk.evaluation.possible
        forecasts = chunk.evaluation.forecasts
        masks = {m: chunk.wanted[m] & possible & np.isfinite(forecasts[m].seconds) for m in forecasts}
        columns = [name for name in self.objectives if name != "time_s"]
        return self.merged([chunk.entries(self.per, columns, masks)])

    def merged(self, parts: Sequence[Entries]) -> Entries:
        """Merge the results of parts."""
        return entries.front(entries.joined(parts), self.objectives)


@dataclass(frozen=True)
class Tally:
    """Numbers of predictions, counted by group."""

    per: frozenset[str]

    def merged(self, parts: Sequence[Entries]) -> Entries:
        """Add up the counts of each group."""
        whole = entries.joined(parts)
        group, index = np.unique(whole["group"], return_inverse=True)
        counts = np.zeros((len(group), whole["counts"].shape[1]), np.int64)
        np.add.at(counts, index, whole["counts"])
        return {"group": group, "counts": counts}


class Histogram(Tally):
    """The number of predictions of each group by bins of time, the same for all."""

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk."""
        evaluation, gpus = chunk.evaluation, np.arange(len(chunk.evaluation.limiter))
        parts = []
        for m, (model, forecast) in enumerate(evaluation.forecasts.items()):
            mask = chunk.wanted[model] & evaluation.possible & ~np.isnan(forecast.seconds)
            bin_of = np.searchsorted(EDGES, forecast.seconds, side="right")
            counts = np.stack([np.bincount(bin_of[g][mask[g]], minlength=len(EDGES) + 1) for g in gpus])
            group = chunk.product.group(self.per, chunk.kernel, chunk.size, gpus, np.asarray(m))
            parts.append({"group": group, "counts": counts})
        return self.merged(parts)


class LimiterCounts(Tally):
    """The number of valid configurations of each group by limiter; models do not matter."""

    def of(self, chunk: Chunk) -> Entries:
        """Reduce one chunk."""
        limiter = chunk.evaluation.limiter
        wanted = np.logical_or.reduce(list(chunk.wanted.values()))
        counts = np.stack([
            np.bincount(codes[mask], minlength=len(occupancy.LIMITERS))
            for codes, mask in zip(limiter, wanted, strict=True)
        ])  # fmt: skip
        return self.counted(chunk.product, chunk.kernel, np.asarray(chunk.size), counts)

    def counted(self, product: SweepProduct, kernel: int, size: np.ndarray, counts: np.ndarray) -> Entries:
        """Build a result from counts of limiters: [G, limiters], or [G, sizes, limiters] and size [sizes]."""
        gpus = np.arange(len(counts)).reshape(-1, *[1] * (counts.ndim - 2))
        group = product.group(self.per - {"model"}, kernel, size, gpus, np.asarray(0))
        group = np.broadcast_to(group, counts.shape[:-1]).ravel()
        return self.merged([{"group": group, "counts": counts.reshape(-1, counts.shape[-1])}])


Reduction = Top | Pareto | Histogram | LimiterCounts  # of many predictions to a small result


@dataclass
class Buckets:
    """The result so far, in buckets that share no groups, since merging a large result is slow."""

    reduction: Reduction
    results: dict[str, Entries] = field(default_factory=dict)

    def add(self, new: Mapping[str, Entries]) -> None:
        """Add results by bucket."""
        for name, part in new.items():
            known = self.results.get(name)
            self.results[name] = part if known is None else self.reduction.merged([known, part])

    def whole(self) -> Entries | None:
        """Return the merged result; None without any."""
        results = [self.results[name] for name in sorted(self.results)]
        return self.reduction.merged(results) if results else None

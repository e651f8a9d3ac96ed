"""A lazy sweep: its methods evaluate what they return."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dse.core.cluster import executor
from dse.core.optional import needs
from dse.core.progress import Progress, silent
from dse.data.columns import SHORT
from dse.data.tables import Rows
from dse.errors import DseError
from dse.explore.sweep import rows, run
from dse.explore.sweep.chunk import Filter
from dse.explore.sweep.entries import Entries
from dse.explore.sweep.plan import Plan
from dse.explore.sweep.product import SweepProduct, groups
from dse.explore.sweep.reductions import EDGES, Histogram, LimiterCounts, Pareto, Reduction, Top
from dse.hardware import occupancy

if TYPE_CHECKING:
    import pandas
    import xarray

Per = Sequence[str] | None


@dataclass(frozen=True, repr=False)
class Sweep:
    """Kernels × problem sizes × GPUs × models, evaluated when a method is called.

    Runs on `workers` local processes, on the Dask cluster at the address `cluster`, or else in threads on all
    cores; results are bit-identical.
    """

    product: SweepProduct
    where: Filter | None = None
    workers: int | None = None
    cluster: str | None = None
    progress: Progress = silent

    def __repr__(self) -> str:
        product = self.product
        counts = f"{len(product.kernels)} kernels, {len(product.gpus)} GPUs, {len(product.models)} models"
        return f"<Sweep of {counts}>"

    def filtered(self, where: str) -> "Sweep":
        """Return a sweep of the rows for which an expression holds. **Raises:** DseError."""
        return replace(self, where=Filter.of(where, self.product))

    def top(self, k: int = 10, per: Per = None, checkpoint: Path | None = None) -> Rows:
        """Return the k fastest of each model, and of each kernel, size and GPU in `per`.

        Ties are resolved by position in the product. Rows are in the order of the groups, fastest first.
        Exact up to times that differ in their last digits.

        **Raises:** DseError for a `k` below 1, or an unknown word in `per`.
        """
        if k < 1:
            raise DseError(f"top: found {k}, expected 1 or more")
        return self._kept(Top(k, groups(per)), checkpoint)

    def pareto(
        self,
        *objectives: str,
        per: Per = None,
        checkpoint: Path | None = None,
    ) -> Rows:
        """Return the Pareto front of the objectives, by default time_s and registers.

        **Raises:** DseError for an objective not in `dse.explore.sweep.reductions.OBJECTIVES`.
        """
        names = tuple(SHORT.get(name, name) for name in objectives or ("time_s", "registers"))
        return self._kept(Pareto(names, groups(per)), checkpoint)

    def histogram(self, per: Per = None, checkpoint: Path | None = None) -> Rows:
        """Count predictions by time: rows with `from_s`, `to_s` and `count`, without empty bins."""
        per_groups = groups(per)
        buckets = self._reduced(Histogram(per_groups), checkpoint)
        edges = [0.0, *EDGES.tolist(), float("inf")]
        table = Rows()
        for group, counts in _tally(buckets):
            named = self.product.named(per_groups, group)
            table += [
                named | {"from_s": edges[i], "to_s": edges[i + 1], "count": int(counts[i])}
                for i in np.flatnonzero(counts).tolist()
            ]
        return table

    def counts(self, per: Per = None, checkpoint: Path | None = None) -> Rows:
        """Count configurations by limiter: `limited_by`, `possible`, `count`; `valid` is of the group.

        Groups are by default kernels and GPUs; models do not matter.
        """
        per_groups = groups(per, ("kernel", "gpu")) - {"model"}
        plan = Plan(replace(self.product, models=self.product.models[:1]), None, self.where)
        buckets = self._reduced(LimiterCounts(per_groups), checkpoint, plan)
        table = Rows()
        for group, counts in _tally(buckets):
            named = self.product.named(per_groups, group) | {"valid": int(counts.sum())}
            for code in np.flatnonzero(counts).tolist():
                reason = occupancy.LIMITERS[code]
                possible = reason in occupancy.BINDING
                table.append(named | {"limited_by": reason, "possible": possible, "count": int(counts[code])})
        return table

    def to_parquet(self, path: str | Path, columns: Iterable[str] | None = None) -> int:
        """Write all rows, or only some columns; return the number of rows.

        After an interruption, the same call resumes. **Raises:** DseError.
        """
        names = None if columns is None else list(columns)
        with executor(self.workers, self.cluster) as execute:
            plan = Plan(self.product, None, self.where)
            return run.written(plan, Path(path), execute, names, self.progress)

    def to_arrow(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return all rows, or only some columns, as a table in memory."""
        names = None if columns is None else list(columns)
        with executor(self.workers, self.cluster) as execute:
            plan = Plan(self.product, None, self.where)
            return pa.concat_tables(run.tables(plan, execute, names)).unify_dictionaries()

    def to_pandas(self, columns: Iterable[str] | None = None) -> "pandas.DataFrame":
        """Return all rows, or only some columns, as a data frame."""
        with needs("pandas", "pip install pandas"):
            import_module("pandas")  # used by pyarrow
        return self.to_arrow(columns).to_pandas()

    def to_xarray(self) -> "xarray.Dataset":
        """Return the predictions of one kernel along GPUs, models, sizes and parameters; NaN if invalid.

        Sizes and parameters with one value are attributes. **Raises:** DseError for several kernels.
        """
        with needs("xarray", "pip install xarray"):
            import_module("xarray")  # used by pandas
        if len(self.product.kernels) > 1:
            raise DseError(f"sweep: found {len(self.product.kernels)} kernels, expected one for xarray")
        frame = self.to_pandas()
        kernel, sizes = next(zip(self.product.kernels, self.product.sizes, strict=True))
        known = {**dict(sizes.values), **dict(kernel.space.values)}
        axes: list[str] = ["gpu", "model", *(name for name, values in known.items() if len(values) > 1)]
        fixed = {name: values[0] for name, values in known.items() if len(values) == 1}
        frame = frame.drop(columns=["kernel", *fixed])
        for name in ("gpu", "model", "limited_by", "bottleneck"):
            frame[name] = frame[name].astype(object)
        dataset = frame.set_index(axes).to_xarray()
        return dataset.assign_attrs(kernel=kernel.name, **fixed)

    def _kept(self, reduction: Reduction, checkpoint: Path | None) -> Rows:
        buckets = self._reduced(reduction, checkpoint)
        return Rows() if buckets is None else Rows(rows.of_entries(self.product, buckets))

    def _reduced(
        self, reduction: Reduction, checkpoint: Path | None, plan: Plan | None = None
    ) -> Entries | None:
        plan = replace(plan or Plan(self.product, None, self.where), reduction=reduction)
        with executor(self.workers, self.cluster) as execute:
            return run.reduced(plan, execute, checkpoint, self.progress)


def _tally(entries: Entries | None) -> list[tuple[int, np.ndarray]]:
    return [] if entries is None else list(zip(entries["group"].tolist(), entries["counts"], strict=True))

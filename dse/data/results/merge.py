"""Merge forecasts and measurements of the same configurations from several files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dse.data.results.space import MEASURED, NO_GPU, ResultSpace


def merge_forecasts(spaces: list[ResultSpace], new: ResultSpace, notes: list[str]) -> None:
    """Add a space, or merge its forecasts into a space of the same configurations from another file.

    Forecasts by other models must cover all of the old configurations. A forecast by the same model is a
    second run: it becomes a forecast of its own, and a note describes the differences.
    """
    for i, old in enumerate(spaces):
        again = sorted(set(old.forecasts) & set(new.forecasts))
        if (old.kernel, old.gpu, dict(old.fixed)) != (new.kernel, new.gpu, dict(new.fixed)):
            continue
        if set(old.parameters) != set(new.parameters):
            continue
        index = _match(new.parameters, old.parameters)
        if index is None or 2 * (index >= 0).sum() < new.count:
            continue
        if not again and (old.count != new.count or (index < 0).any()):
            continue
        aligned = new.rows(index)
        forecasts = dict(old.forecasts)
        for model, columns in aligned.forecasts.items():
            name = f"{model} ({new.source})" if again else model
            forecasts[name] = {
                key: np.where(index >= 0, values, np.array(None if values.dtype == object else np.nan))
                for key, values in columns.items()
            }
        if len(forecasts) < len(old.forecasts) + len(new.forecasts):  # a third file of the same name
            continue
        notes += [
            _difference(model, old, new, aligned.forecasts[model]["time_s"], index >= 0) for model in again
        ]
        facts = old.facts if again else {**aligned.facts, **old.facts}
        spaces[i] = replace(old, source=f"{old.source}, {new.source}", facts=facts, forecasts=forecasts)
        return
    spaces.append(new)


def _difference(model: str, old: ResultSpace, new: ResultSpace, times: np.ndarray, both: np.ndarray) -> str:
    """Describe how the times of a second run, [L], differ from the first in the configurations of `both`."""
    before = old.forecasts[model]["time_s"][both]
    known = np.isfinite(before) & np.isfinite(times[both]) & (before > 0)
    ratios = times[both][known] / before[known]
    counts = f"{both.sum():,} configurations are in both"
    if len(alone := [f"{n:,} in {x.source} alone" for x in (old, new) if (n := x.count - both.sum())]):
        counts += f" ({', '.join(alone)})"
    if not len(ratios):
        return f"{model}, {new.source} beside {old.source}: {counts}, none with a time in both."
    other = np.abs(np.log(np.maximum(ratios, 1e-300))) > 1e-6  # beyond rounding of text or float32
    if not other.any():
        return f"{model}, {new.source} beside {old.source}: {counts}; all times are the same."
    times, before = times[both][known], before[known]
    fastest = "the same" if before.argmin() == times.argmin() else "another"
    return (
        f"{model}, {new.source} beside {old.source}: {counts}; {other.sum():,} times differ, by "
        f"{np.median(ratios[other]) - 1:+.1%} in the median; the fastest configuration is {fastest}, "
        f"{times.min() / before.min() - 1:+.1%}."
    )


def _match(table: Mapping[str, np.ndarray], queries: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the row of each query in a table, -1 if missing, compared by the table's columns.

    None if `queries` lacks a column, or the table has a row twice.
    """
    if not table or any(name not in queries for name in table):
        return None
    rows = list(zip(*(values.tolist() for values in table.values()), strict=True))
    index = {row: i for i, row in enumerate(rows)}
    if len(index) < len(rows):
        return None
    return np.array(
        [index.get(row, -1) for row in zip(*(queries[name].tolist() for name in table), strict=True)],
        np.int64,
    )


def attach_measurements(spaces: Sequence[ResultSpace], notes: list[str]) -> list[ResultSpace]:
    """Attach measured times or kept configurations of one file to the only predictions that fit."""
    kept = list(spaces)
    for other in spaces:
        measured = set(other.forecasts) == {MEASURED}
        if other.forecasts and not measured:
            continue
        matches = [(space, *match) for space in kept if (match := _align(other, space)) is not None]
        best = max((shared for *_, shared in matches), default=0)
        matches = [(space, index) for space, index, shared in matches if shared == best]
        if len(matches) != 1:
            continue
        [(space, index)] = matches
        present, forecasts = index >= 0, dict(space.forecasts)
        if measured:
            times = np.where(present, other.forecasts[MEASURED]["time_s"][index], np.nan)
            facts, forecasts[MEASURED] = {"measured_s": times}, {"time_s": times}
            content = "Measured times"
        else:
            facts = {"kept": np.array(["no", "yes"], object)[present.astype(int)]}
            content = "Configurations"
            kept.remove(other)
        kept[kept.index(space)] = replace(space, facts={**space.facts, **facts}, forecasts=forecasts)
        notes.append(
            f"{content} of {other.source} were added to the predictions of {space.kernel} on {space.gpu}."
        )
    return kept


def _align(other: ResultSpace, space: ResultSpace) -> tuple[np.ndarray, int] | None:
    """Return the row in `other` of each configuration of a predicted space, -1 if missing.

    Also returns the number of shared parameters. None if `other` is of another GPU, lacks parameters of the
    space, or has none of its configurations.
    """
    fact = "measured_s" if other.forecasts else "kept"
    if not set(space.forecasts) - {MEASURED} or fact in space.facts:
        return None
    names = {*other.parameters, *other.fixed}
    if other.gpu not in (space.gpu, NO_GPU) or not set(space.parameters) <= names:
        return None
    both = {name: values for name in names if (values := space.parameter(name)) is not None}
    if not set(other.parameters) <= set(both):
        return None
    index = _match({name: values for name in both if (values := other.parameter(name)) is not None}, both)
    return (index, len(both)) if index is not None and (index >= 0).any() else None

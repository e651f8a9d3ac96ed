"""What several files say of the same configurations, put together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dse.data.results.space import ResultSpace
from dse.data.results.vocabulary import MEASURED, NO_GPU


def put(spaces: list[ResultSpace], new: ResultSpace, notes: list[str]) -> None:
    """Add a space, or put its forecasts beside another file's of the same configurations.

    By other models these are all of the old one's. By a model that the old one has it is a second run: its
    times of the old one's configurations become a forecast of their own, and a note says how they differ.
    """
    for i, old in enumerate(spaces):
        again = sorted(set(old.forecasts) & set(new.forecasts))
        if (old.kernel, old.gpu, dict(old.fixed)) != (new.kernel, new.gpu, dict(new.fixed)):
            continue
        if set(old.parameters) != set(new.parameters):
            continue
        place = _match(new.parameters, old.parameters)
        if place is None or 2 * (place >= 0).sum() < new.count:
            continue
        if not again and (old.count != new.count or (place < 0).any()):
            continue
        moved = new.rows(place)
        forecasts = dict(old.forecasts)
        for model, columns in moved.forecasts.items():
            name = f"{model} ({new.source})" if again else model
            forecasts[name] = {
                key: np.where(place >= 0, values, np.array(None if values.dtype == object else np.nan))
                for key, values in columns.items()
            }
        if len(forecasts) < len(old.forecasts) + len(new.forecasts):  # a third file of the same name
            continue
        notes += [
            _difference(model, old, new, moved.forecasts[model]["time_s"], place >= 0) for model in again
        ]
        facts = old.facts if again else {**moved.facts, **old.facts}
        spaces[i] = replace(old, source=f"{old.source}, {new.source}", facts=facts, forecasts=forecasts)
        return
    spaces.append(new)


def _difference(model: str, old: ResultSpace, new: ResultSpace, times: np.ndarray, both: np.ndarray) -> str:
    """Say how the times of a second run, [L], where it has them, differ from those of the first."""
    before = old.forecasts[model]["time_s"][both]
    known = np.isfinite(before) & np.isfinite(times[both]) & (before > 0)
    ratios = times[both][known] / before[known]
    counts = f"{both.sum():,} configurations are in both"
    if len(alone := [f"{n:,} in {x.source} alone" for x in (old, new) if (n := x.count - both.sum())]):
        counts += f" ({', '.join(alone)})"
    if not len(ratios):
        return f"{model}, {new.source} beside {old.source}: {counts}, none with a time in both."
    other = np.abs(np.log(np.maximum(ratios, 1e-300))) > 1e-6  # beyond what text or float32 rounds away
    if not other.any():
        return f"{model}, {new.source} beside {old.source}: {counts}; all times are the same."
    times, before = times[both][known], before[known]
    fastest = "the same" if before.argmin() == times.argmin() else "another"
    return (
        f"{model}, {new.source} beside {old.source}: {counts}; {other.sum():,} times differ, by "
        f"{np.median(ratios[other]) - 1:+.1%} in the median; the fastest configuration is {fastest}, "
        f"{times.min() / before.min() - 1:+.1%}."
    )


def _match(known: Mapping[str, np.ndarray], asked: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Find where each configuration asked for is among those known, -1 where it is not; by `known`'s names.

    None where `asked` lacks one of these, or a configuration is known twice.
    """
    if not known or any(name not in asked for name in known):
        return None
    lines = list(zip(*(values.tolist() for values in known.values()), strict=True))
    at = {line: i for i, line in enumerate(lines)}
    if len(at) < len(lines):
        return None
    wanted = zip(*(asked[name].tolist() for name in known), strict=True)
    return np.array([at.get(line, -1) for line in wanted], np.int64)


def stand_beside(spaces: Sequence[ResultSpace], notes: list[str]) -> list[ResultSpace]:
    """Put what one file measured or kept beside what another predicted, where only one fits."""
    kept = list(spaces)
    for other in spaces:
        measured = set(other.forecasts) == {MEASURED}
        if other.forecasts and not measured:
            continue
        fitting = [(space, *placed) for space in kept if (placed := _place(other, space)) is not None]
        best = max((shared for *_, shared in fitting), default=0)
        fitting = [(space, place) for space, place, shared in fitting if shared == best]
        if len(fitting) != 1:
            continue
        [(space, place)] = fitting
        here, forecasts = place >= 0, dict(space.forecasts)
        if measured:
            times = np.where(here, other.forecasts[MEASURED]["time_s"][place], np.nan)
            facts, forecasts[MEASURED] = {"measured_s": times}, {"time_s": times}
            what = "Measured times"
        else:
            facts, what = {"kept": np.array(["no", "yes"], object)[here.astype(int)]}, "Configurations"
            kept.remove(other)
        kept[kept.index(space)] = replace(space, facts={**space.facts, **facts}, forecasts=forecasts)
        notes.append(
            f"{what} of {other.source} stand beside the predictions of {space.kernel} on {space.gpu}."
        )
    return kept


def _place(other: ResultSpace, space: ResultSpace) -> tuple[np.ndarray, int] | None:
    """Find where each configuration of a predicted space is in another, -1 where it does not.

    Also tells how many parameters both have. None where the other is of another GPU, leaves parameters of the
    space open, or has no configuration of it.
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
    known = {name: values for name in both if (values := other.parameter(name)) is not None}
    place = _match(known, both)
    return (place, len(both)) if place is not None and (place >= 0).any() else None

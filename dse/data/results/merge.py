"""What several files say of the same configurations, put together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dse.data.results.space import ResultSpace
from dse.data.results.vocabulary import MEASURED, NO_GPU


def put(spaces: list[ResultSpace], new: ResultSpace) -> None:
    """Add a space, or put its forecasts beside another file's of the same configurations."""
    for i, old in enumerate(spaces):
        if (old.kernel, old.gpu, old.count, dict(old.fixed)) != (
            new.kernel,
            new.gpu,
            new.count,
            dict(new.fixed),
        ):
            continue
        if set(old.forecasts) & set(new.forecasts) or set(old.parameters) != set(new.parameters):
            continue
        place = _match(new.parameters, old.parameters)
        if place is None or (place < 0).any():
            continue
        moved = new.rows(place)
        spaces[i] = replace(
            old,
            source=f"{old.source}, {new.source}",
            facts={**moved.facts, **old.facts},
            forecasts={**old.forecasts, **moved.forecasts},
        )
        return
    spaces.append(new)


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

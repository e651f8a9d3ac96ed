"""Scores of models on all of our own measurements: spaces, and curves over occupancy."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dse.accuracy import curves, fitted
from dse.accuracy.curves import CurveScores
from dse.accuracy.fitted import FittedScores
from dse.accuracy.spaces import Note, ignore
from dse.accuracy.stored import scored, stored
from dse.core.progress import Progress, silent
from dse.errors import DseError
from dse.models import MODELS
from dse.models.protocol import Model


@dataclass(frozen=True)
class OwnScores:
    """Scores of models on our own measurements."""

    spaces: list[FittedScores]
    curves: dict[str, list[CurveScores]]  # by GPU

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def score(
    models: Sequence[str | Model] = tuple(MODELS), note: Note = ignore, progress: Progress = silent
) -> OwnScores:
    """Score models on all measurements that lie beside kernels; what holds nothing to score is left out.

    **Raises:** DseError if nothing is left.
    """
    spaces = scored(
        stored(), lambda stored_space: fitted.space(stored_space, models, progress=progress), note
    )
    swept = scored(
        stored(swept=True), lambda stored_space: curves.curves(stored_space, models, progress), note
    )
    scores = OwnScores(list(spaces), curves.by_gpu(swept))
    if not scores.spaces and not scores.curves:
        raise DseError("kernels/*/measured: found no table, expected what `dse measure store` puts there")
    return scores


def markdown(scores: OwnScores) -> str:
    """Write a section a space, then one a GPU on which occupancy was swept."""
    over_occupancy = (curves.markdown(gpu, swept) for gpu, swept in scores.curves.items())
    return "\n\n".join([*map(fitted.markdown, scores.spaces), *over_occupancy])

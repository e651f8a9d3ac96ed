"""Scores of predictions against the measured times of the same configurations.

Times (MAPE) and order are scored separately. Scores of the order are the rank correlation, and how close to
the optimum measuring only the k fastest predictions gets. A search needs only the order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dse.errors import DseError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Scores:
    """The accuracy of one model on one measured space. None: undefined for these data."""

    configurations: int
    failed: int  # configurations whose measurement failed
    unpredicted: int  # configurations predicted infinite (impossible to launch) or NaN
    spearman: float | None
    mape_percent: float | None
    mape_shape_percent: float | None
    top_1: float  # fraction of the optimum that the best of the k first predictions reaches
    top_10: float
    top_1_percent: float
    top_5_percent: float
    top_10_percent: float


def budgets(configurations: int) -> dict[str, int]:
    """The k of each `top_` field of `Scores`; a percentage is rounded up."""
    k = {"top_1": 1, "top_10": 10}
    k |= {f"top_{percent}_percent": -(-configurations * percent // 100) for percent in (1, 5, 10)}
    return {name: min(value, configurations) for name, value in k.items()}


def score(
    predicted_s: ArrayLike,
    measured_s: ArrayLike,
    ok: ArrayLike | None = None,
    occupancy: ArrayLike | None = None,
) -> Scores:
    """Score one list of predictions.

    **Shapes:** four lists of the same length. `ok` marks configurations that ran (default: finite measured
    times). Times of the others are ignored.
    **Edges:** an infinite or NaN prediction ranks last and is excluded from both MAPEs; a row with a NaN
    occupancy from the second.
    Percentages are of time; for performance, use `mape(1 / predicted, 1 / measured)`.
    **Raises:** DseError if no configuration ran; ValueError if lengths differ.
    """
    predicted, measured, ran = _same_length(predicted_s, measured_s, ok)
    finite = ran & np.isfinite(predicted)
    occupied = None if occupancy is None else np.asarray(occupancy, float)
    shaped = finite if occupied is None else finite & np.isfinite(occupied)
    k = budgets(predicted.size)
    return Scores(
        configurations=predicted.size,
        failed=int(np.sum(~ran)),
        unpredicted=int(np.sum(~np.isfinite(predicted))),
        spearman=spearman(predicted[ran], measured[ran]),
        mape_percent=mape(predicted[finite], measured[finite]),
        mape_shape_percent=None
        if occupied is None
        else mape_shape(predicted[shaped], measured[shaped], occupied[shaped]),
        **{name: fraction_of_optimum(predicted, measured, ran, budget) for name, budget in k.items()},
    )


def spearman(predicted: ArrayLike, measured: ArrayLike) -> float | None:
    """Spearman's rank correlation ρ, ties with their mean rank; None if either is constant.

    An infinite or NaN prediction ranks last.
    """
    x, y = (ranks(a) for a in (_last_if_unknown(np.asarray(predicted, float)), measured))
    x, y = x - x.mean() if x.size else x, y - y.mean() if y.size else y
    norm = np.sqrt(np.sum(x * x) * np.sum(y * y))
    return float(np.sum(x * y) / norm) if norm > 0 else None


def ranks(values: ArrayLike) -> Floats:
    """Ranks from 1 on, ties with their mean rank, as `scipy.stats`, which takes half a second to import."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def mape(predicted: ArrayLike, measured: ArrayLike) -> float | None:
    """The mean absolute percentage error, in percent of the measured value; None without values.

    **Source:** Lemeire et al., section on the metrics. They apply it to warps per cycle.
    """
    m, r = np.asarray(predicted, float), np.asarray(measured, float)
    return float(100 * np.mean(np.abs(m - r) / r)) if r.size else None


def mape_shape(predicted: ArrayLike, measured: ArrayLike, occupancy: ArrayLike) -> float | None:
    """The MAPE after subtracting a straight line over occupancy from the error.

    An offset that is constant or linear in occupancy costs nothing: only the shape of the curve counts.
    Meant for configurations that differ in occupancy only. None if occupancy is constant.

    **Source:** Lemeire et al., MAPE^shape: |m - r - l| / r with l the least-squares line of m - r.
    """
    m, r, x = (np.asarray(a, float) for a in (predicted, measured, occupancy))
    if not r.size or np.ptp(x) == 0:
        return None
    error, centred = m - r, x - x.mean()
    line = error.mean() + centred * (np.sum(centred * error) / np.sum(centred * centred))
    return float(100 * np.mean(np.abs(error - line) / r))


def fraction_of_optimum(predicted_s: ArrayLike, measured_s: ArrayLike, ok: ArrayLike | None, k: int) -> float:
    """The best measured time of all, over the best among the k fastest predictions.

    1 is the optimum. A failed configuration among the k is a wasted evaluation; if all k failed, the
    fraction is 0. Ties at rank k are resolved by the exact mean over all their orders, so a model with a
    constant prediction scores exactly as random choice.
    """
    predicted, measured, ran = _same_length(predicted_s, measured_s, ok)
    predicted, fraction = _last_if_unknown(predicted), _fractions(measured, ran)
    k = _at_most(k, predicted.size)
    last = np.partition(predicted, k - 1)[k - 1]
    sure = fraction[predicted < last]
    return _expected_best(fraction[predicted == last], k - sure.size, sure.max(initial=0.0))


def random_expectation(measured_s: ArrayLike, ok: ArrayLike | None, k: int) -> float:
    """The mean of `fraction_of_optimum` over all choices of k configurations, exactly."""
    _, measured, ran = _same_length(measured_s, measured_s, ok)
    return _expected_best(_fractions(measured, ran), _at_most(k, measured.size), 0.0)


def _expected_best(values: Floats, draws: int, floor: float) -> float:
    """Mean of max(floor, largest of `draws` values drawn without replacement).

    The i-th largest is the largest drawn if the i - 1 larger ones are missed (each with probability
    1 - draws / values left) and it is hit (draws / values left). A running product of probabilities avoids
    binomials, and underflows to 0 where that is correct.
    """
    values = np.maximum(np.sort(values)[::-1], floor)
    left = values.size - np.arange(values.size)
    missed = np.cumprod((left - draws) / left)  # 0 once fewer values than draws are left
    best = np.concatenate([[1.0], missed[:-1]]) * (draws / left)
    return float(np.sum(best * values))


def _fractions(measured: Floats, ran: Mask) -> Floats:
    """Optimum over time of each configuration, 0 where it failed."""
    if not ran.any():
        raise DseError("measured times: found no configuration that ran, expected at least one")
    fastest = measured[ran].min()
    return np.where(ran, fastest / np.where(ran, measured, fastest), 0.0)


def _last_if_unknown(predicted: Floats) -> Floats:
    return np.where(np.isnan(predicted), np.inf, predicted)


def _at_most(k: int, size: int) -> int:
    if k < 1:
        raise ValueError(f"k: found {k}, expected at least 1")
    return min(k, size)


def _same_length(
    predicted: ArrayLike, measured: ArrayLike, ok: ArrayLike | None
) -> tuple[Floats, Floats, Mask]:
    p, m = np.asarray(predicted, float), np.asarray(measured, float)
    ran = np.isfinite(m) if ok is None else np.asarray(ok, bool)
    if not p.shape == m.shape == ran.shape or p.ndim != 1:
        raise ValueError(f"lists differ in length: {p.shape} predicted, {m.shape} measured, {ran.shape} ok")
    return p, m, ran

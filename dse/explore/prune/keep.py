"""The smallest set of configurations that holds a near-optimal one with a stated risk.

Two criteria select a configuration:

- **It is predicted near-optimal**, within a margin calibrated on the measured spaces of calibration.toml: the
  number of spreads of the model's errors that their fastest configurations needed. The spread is an upper
  bound from the measurements of this space, or else the share of the predictions' spread that it is in
  measured spaces.
- **It could still win.** With measurements, the surrogate gives a mean and a deviation; the lower bound must
  beat the best measured time by more than `within`. The bound is as many deviations below the mean as the
  fastest configurations of measured spaces needed, or as measurements here are below their leave-one-out
  means (the conformal quantile), whichever is more.

If the model explains the measurements, both criteria must hold, each at half the risk. Otherwise either
suffices, since neither is reliable enough to exclude configurations that the other selects.

Source: Vovk, Gammerman, Shafer 2005 (conformal prediction); Rasmussen & Williams 2006, Eqs. 5.10-5.12
(leave-one-out).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from dse.data.scores import spearman
from dse.errors import DseError
from dse.explore.prune.calibration import KnownSpaces, load
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.tuner import Tuner

FEWEST = 10  # least measurements that are used
EXPLAINS = 0.5  # least share of the variance of measurements with which a model explains a space
MUCH = 0.4  # share of the space above which a reason is given


@dataclass(frozen=True)
class PrunedSpace:
    """The configurations worth measuring."""

    index: np.ndarray  # into the candidates, the most promising first
    share: float
    margin: float | None  # log of the slowdown over the fastest prediction; None without a model
    spreads: float | None  # deviations of the lower bound below the mean; None without measurements
    reason: str = ""  # why many are kept, if so


def keep(
    candidates: Candidates,
    risk: float = 0.05,
    within: float = 0.05,
    measured: Mapping[int, float] | None = None,
    calibration: KnownSpaces | None = None,
) -> PrunedSpace:
    """Keep the configurations that may be the fastest: at least one, and ties all or none.

    `measured` maps candidates to seconds, infinite for failures; required without a model. Excluded are
    failures, configurations that the model deems impossible unless they ran, and those with a probability to
    run below the risk. `calibration` defaults to the package's.

    **Raises:** DseError for a risk or tolerance outside 0 to 1, or with neither a model nor FEWEST successful
    measurements.
    """
    check(risk, within)
    measured = dict(measured or {})
    ran = [index for index, seconds in measured.items() if np.isfinite(seconds)]
    refit = len(ran) >= FEWEST
    runs = np.broadcast_to(candidates.runs, len(candidates))
    out = ~candidates.possible | (runs < risk)
    for index in measured:  # overrides the model
        out[index] = not np.isfinite(measured[index])
    if out.all():
        raise DseError("configurations: found none that is possible, expected at least one")
    if not (candidates.informed or refit):
        raise DseError(f"measurements: found {len(ran)} that ran and no model, expected {FEWEST} or more")
    known = calibration or load()
    log_s, kept = candidates.expected, np.ones(len(candidates), bool)
    order, margin, spreads, explained = np.where(out, np.inf, log_s), None, None, None
    predicted = [index for index in ran if candidates.possible[index]]
    if candidates.informed and len(predicted) >= FEWEST:
        explained = Explained.of(log_s[predicted], np.log([measured[index] for index in predicted]))
        margin = known.margin_in_spreads(risk / 2) * explained.spread_at_most(risk)
    elif candidates.informed:
        margin = known.margin(risk, float(np.std(log_s[candidates.possible])))
    if margin is not None:  # from the fastest that is likely to run, if any
        likely = order[(runs >= 0.5) & ~out]
        kept = order <= likely.min(initial=order.max(where=~out, initial=-np.inf)) + margin
    if refit:
        tuner = Tuner(candidates, times=measured)
        mean, deviation = tuner.predict()
        spreads = max(known.spreads(risk / 2), conformal(-tuner.surrogate.left_out(), risk / 2))
        order = np.where(out, np.inf, mean - spreads * deviation)
        fastest = min(measured[index] for index in ran)
        winning = order <= max(np.log(fastest / (1 + within)), order.min())
        both = margin is None or (explained is not None and explained.share >= EXPLAINS)
        kept = kept & winning if both else kept | winning
    if ran:
        kept[min(ran, key=lambda index: measured[index])] = True
    kept &= ~out
    index = np.flatnonzero(kept)
    index = index[np.argsort(order[index], kind="stable")]
    share = len(index) / len(candidates)
    reason = _reason(candidates, share, margin, explained, len(ran))
    return PrunedSpace(index, share, margin, spreads, reason)


@dataclass(frozen=True)
class Explained:
    """How well a model explains measured times."""

    count: int
    share: float  # of the variance of log times; negative if the model is worse than none
    spread: float  # standard deviation of log errors
    rank: float  # rank correlation

    @classmethod
    def of(cls, log_s: np.ndarray, measured: np.ndarray) -> "Explained":
        """Compare predictions and measurements, logs of n times each."""
        unexplained, total = np.var(measured - log_s), np.var(measured)
        share = float(1 - unexplained / total) if total > 0 else 0.0
        count = len(measured)
        spread = float(np.sqrt(unexplained * count / max(count - 1, 1)))
        return cls(count, share, spread, spearman(log_s, measured) or 0.0)

    def spread_at_most(self, risk: float) -> float:
        """Upper confidence bound of the spread, for normal errors."""
        freedom = max(self.count - 1, 1)
        chi_square = 2 * gammaincinv(freedom / 2, risk)
        return self.spread * float(np.sqrt(freedom / chi_square))


def check(risk: float, within: float) -> None:
    """Check both shares. **Raises:** DseError for one that is not between 0 and 1."""
    for name, value in (("risk", risk), ("within", within)):
        if not 0 < value < 1:
            raise DseError(f"{name}: found {value}, expected a share between 0 and 1")


def conformal(values: np.ndarray, risk: float) -> float:
    """The conformal quantile: another value exceeds it with at most this risk; the largest if too few."""
    rank = int(np.ceil((1 - risk) * (len(values) + 1)))
    return float(np.sort(values)[min(rank, len(values)) - 1])


def _reason(
    candidates: Candidates, share: float, margin: float | None, explained: Explained | None, measured: int
) -> str:
    """Explain why many configurations are kept."""
    if explained is not None and explained.share < EXPLAINS:
        evidence = f"{max(explained.share, 0):.0%} of the variance of {explained.count} measurements"
        evidence = f"{evidence}, rank correlation {explained.rank:.2f}"
        return f"model does not explain this space ({evidence}): keeping {share:.0%}"
    if share < MUCH:
        return ""
    if margin is None:
        return f"{measured} measurements and no model leave much possible: keeping {share:.0%}"
    times = candidates.expected[candidates.possible]
    slower = np.expm1(np.median(times) - times.min())
    return f"half are predicted within {slower:.0%} of the fastest: keeping {share:.0%}"

"""The smallest set of configurations that holds a nearly fastest one, but for a stated risk.

Two things speak for a configuration:

- **It is predicted to be nearly the fastest**, within a margin. How wide that is comes from measured spaces,
  which calibration.toml names: as many spreads of what the model misses as their fastest ones needed. That
  spread is one of the measurements, if there are, as wide as so few leave it possible; without, it is as
  large a share of the spread of the predictions as it is in measured spaces.
- **It could still win.** With measurements, the surrogate gives each a mean and a deviation, and what counts
  is whether its lower end lies below what would beat the best measured one by more than `within`. The lower
  end is as many deviations down as the fastest ones of measured spaces needed, or as measurements here lie
  below what the others say of them (the conformal quantile), whichever is more.

Where the model explains the measurements, both must speak for it, each at half the risk. Where it does not,
one will do: neither can then be relied on to leave out what the other would keep.

Source: Vovk, Gammerman, Shafer 2005 (conformal prediction); Rasmussen & Williams 2006, Eqs. 5.10-5.12
(leaving one out).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from dse.data.scores import spearman
from dse.errors import DseError
from dse.explore.prune.calibration import KnownSpaces, load
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.tuner import Tuner

FEWEST = 10  # measurements from which on they are used
EXPLAINS = 0.5  # of the variance of measurements, from which on a model explains a space
MUCH = 0.4  # a share of the space that asks for a reason


@dataclass(frozen=True)
class Kept:
    """The configurations that are worth measuring."""

    places: np.ndarray  # among the candidates, the most promising first
    share: float
    margin: float | None  # a log: of slower than the fastest prediction, for what is kept; None: no model
    spreads: float | None  # that the lower end is down; None without measurements
    reason: str = ""  # why many are kept, or no fewer can be; "" where there is nothing to say


def keep(
    candidates: Candidates,
    risk: float = 0.05,
    within: float = 0.05,
    told: Mapping[int, float] | None = None,
    calibration: KnownSpaces | None = None,
) -> Kept:
    """Keep the configurations that may be the fastest; never none, equals are kept or left out together.

    `told` are measured seconds by place, infinite where it failed. Without a model they are needed. What the
    model holds for impossible is left out unless it ran, what failed too, and what is estimated to run with a
    chance below the risk. `calibration` is of measured spaces, by default those of the package.

    **Raises:** DseError for a risk or a tolerance that is not between 0 and 1, or if there is neither a model
    nor FEWEST measurements that ran.
    """
    check(risk, within)
    told = dict(told or {})
    ran = [index for index, seconds in told.items() if np.isfinite(seconds)]
    refit = len(ran) >= FEWEST
    if not (candidates.informed or refit):
        raise DseError(f"measurements: found {len(ran)} that ran and no model, expected {FEWEST} or more")
    runs = np.broadcast_to(candidates.runs, len(candidates))
    out = ~candidates.possible | (runs < risk)
    for index in told:  # what ran is possible, whatever the model says
        out[index] = not np.isfinite(told[index])
    if out.all():
        raise DseError("configurations: found none that is possible, expected at least one")
    known = calibration or load()
    log_s, kept = candidates.expected, np.ones(len(candidates), bool)
    order, margin, spreads, explained = np.where(out, np.inf, log_s), None, None, None
    held = [index for index in ran if candidates.possible[index]]
    if candidates.informed and len(held) >= FEWEST:
        explained = Explained.of(log_s[held], np.log([told[index] for index in held]))
        margin = known.margin_in_spreads(risk / 2) * explained.spread_at_most(risk)
    elif candidates.informed:
        margin = known.margin(risk, float(np.std(log_s[candidates.possible])))
    if margin is not None:  # from the fastest that is likely to run, if there is one
        likely = order[(runs >= 0.5) & ~out]
        kept = order <= likely.min(initial=order.max(where=~out, initial=-np.inf)) + margin
    if refit:
        tuner = Tuner(candidates, told=told)
        mean, deviation = tuner.predict()
        spreads = max(known.spreads(risk / 2), conformal(-tuner.surrogate.left_out(), risk / 2))
        order = np.where(out, np.inf, mean - spreads * deviation)
        best = min(ran, key=lambda index: told[index])
        winning = order <= max(np.log(told[best] / (1 + within)), order.min())
        both = margin is None or (explained is not None and explained.share >= EXPLAINS)
        kept = kept & winning if both else kept | winning
        kept[best] = True
    kept &= ~out
    places = np.flatnonzero(kept)
    places = places[np.argsort(order[places], kind="stable")]
    share = len(places) / len(candidates)
    return Kept(places, share, margin, spreads, _reason(candidates, share, margin, explained, len(ran)))


@dataclass(frozen=True)
class Explained:
    """How far a model explains measured times."""

    count: int
    share: float  # of the variance of their logs; below 0 where the model is worse than none
    spread: float  # standard deviation of what it misses
    rank: float  # rank correlation

    @classmethod
    def of(cls, log_s: np.ndarray, measured: np.ndarray) -> "Explained":
        """Compare predictions and measurements, logs of n times each."""
        missed, total = np.var(measured - log_s), np.var(measured)
        share = float(1 - missed / total) if total > 0 else 0.0
        count = len(measured)
        spread = float(np.sqrt(missed * count / max(count - 1, 1)))
        return cls(count, share, spread, spearman(log_s, measured) or 0.0)

    def spread_at_most(self, risk: float) -> float:
        """What the spread exceeds with that risk, of normal times: few measurements tell it badly."""
        freedom = max(self.count - 1, 1)
        return self.spread * float(np.sqrt(freedom / chi2.ppf(risk, freedom)))


def check(risk: float, within: float) -> None:
    """Check both shares. **Raises:** DseError for one that is not between 0 and 1."""
    for name, value in (("risk", risk), ("within", within)):
        if not 0 < value < 1:
            raise DseError(f"{name}: found {value}, expected a share between 0 and 1")


def conformal(values: np.ndarray, risk: float) -> float:
    """The value that another one exceeds with that risk at most; the largest where these are too few."""
    rank = int(np.ceil((1 - risk) * (len(values) + 1)))
    return float(np.sort(values)[min(rank, len(values)) - 1])


def _reason(
    candidates: Candidates, share: float, margin: float | None, explained: Explained | None, measured: int
) -> str:
    """Word why so many are kept."""
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

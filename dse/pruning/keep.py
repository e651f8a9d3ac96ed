"""The smallest set of configurations that holds a nearly fastest one, but for a stated risk.

Three ways a configuration is kept:

- **It could still win.** With measurements, the surrogate gives each a mean and a spread. It is kept if its
  lower end lies below what would beat the best measured one by more than `within`. How many spreads the lower
  end is down is the conformal quantile, at 1 - risk, of how far each measurement lies below what the others
  say of it: a configuration taken at random falls below its lower end with that risk at most. The fastest one
  is not taken at random, hence
- **it is among the first** by the lower end, and
- **among the first by the model alone**: what few measurements bend, the model still has.

How deep "the first" reaches comes from measured spaces, which calibration.toml names: in each, how far down
the order the first nearly fastest configuration stands. The depth is the quantile at 1 - risk of another
space's, by a normal distribution of their logs, or by their order (conformal) if that is deeper: of few
spaces, the deepest.

Source: Vovk, Gammerman, Shafer 2005 (conformal prediction); Rasmussen & Williams 2006, Eqs. 5.10-5.12
(leaving one out); Geisser 1993 (predictive quantile: Student's t).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, t

from dse.errors import DseError
from dse.precision import in_64_bits
from dse.pruning.calibration import KnownSpaces, load
from dse.tuning.candidates import Candidates
from dse.tuning.tuner import Tuner

FEWEST = 10  # measurements from which on they are used
SPREADS = 1.5  # at least, that the lower end is down


@dataclass(frozen=True)
class Kept:
    """The configurations that are worth measuring."""

    places: np.ndarray  # among the candidates, the most promising first
    share: float
    depth: float  # of "the first"
    spreads: float | None  # that the lower end is down; None without measurements


def keep(
    candidates: Candidates,
    risk: float = 0.05,
    within: float = 0.05,
    told: Mapping[int, float] | None = None,
    calibration: KnownSpaces | None = None,
) -> Kept:
    """Keep the configurations that may be the fastest; never none, equals are kept or left out together.

    `told` are measured seconds by place, infinite where it failed. Without a model they are needed. What the
    model holds for impossible is left out unless it ran, what failed too; what may fail is kept.
    `calibration` is of measured spaces, by default those of the package.

    **Raises:** DseError for a risk or a tolerance that is not between 0 and 1, or if there is neither a model
    nor FEWEST measurements that ran.
    """
    check(risk, within)
    told = dict(told or {})
    ran = {index: seconds for index, seconds in told.items() if np.isfinite(seconds)}
    refit = len(ran) >= FEWEST
    if not (candidates.modelled or refit):
        raise DseError(f"measurements: found {len(ran)} that ran and no model, expected {FEWEST} or more")
    out = ~candidates.possible
    for index in told:  # what ran is possible, whatever the model says
        out[index] = index not in ran
    if out.all():
        raise DseError("configurations: found none that is possible, expected at least one")
    known = calibration or load()
    depth = reach(known.refitted if refit else known.by_model, risk)
    kept = np.zeros(len(candidates), bool)
    order, spreads = np.where(out, np.inf, candidates.log_s), None
    if candidates.modelled:
        kept |= first(order, depth)
    if refit:
        tuner = Tuner(candidates, told=told)
        mean, deviation = tuner.predict()
        with in_64_bits():
            spreads = lower_end(tuner.fit().left_out(), risk)
        order = np.where(out, np.inf, mean - spreads * deviation)
        best = min(ran, key=lambda index: ran[index])
        kept |= first(order, depth) | (order <= np.log(ran[best] / (1 + within)))
        kept[best] = True
    kept &= ~out
    places = np.flatnonzero(kept)
    places = places[np.argsort(order[places], kind="stable")]
    return Kept(places, len(places) / len(candidates), depth, spreads)


def check(risk: float, within: float) -> None:
    """Check both shares. **Raises:** DseError for one that is not between 0 and 1."""
    for name, value in (("risk", risk), ("within", within)):
        if not 0 < value < 1:
            raise DseError(f"{name}: found {value}, expected a share between 0 and 1")


def reach(depths: tuple[float, ...], risk: float) -> float:
    """The depth of another space: the predictive quantile, or the conformal one if that is deeper."""
    count, logs = len(depths), np.log(depths)
    far = logs.mean() + t.ppf(1 - risk, count - 1) * logs.std(ddof=1) * np.sqrt(1 + 1 / count)
    return min(1.0, max(float(np.exp(far)), conformal(np.array(depths), risk)))


def conformal(values: np.ndarray, risk: float) -> float:
    """The value that another one exceeds with that risk at most; the largest where these are too few."""
    rank = int(np.ceil((1 - risk) * (len(values) + 1)))
    return float(np.sort(values)[min(rank, len(values)) - 1])


def lower_end(left_out: np.ndarray, risk: float) -> float:
    """The number of spreads below its mean that all but `risk` of configurations lie at most."""
    return max(SPREADS, conformal(-left_out, risk))


def first(order: np.ndarray, depth: float) -> np.ndarray:
    """Mark those that are among the first, equals of the last of them too."""
    rank = rankdata(order, "min")
    return rank <= max(1.0, np.ceil(depth * len(order)))

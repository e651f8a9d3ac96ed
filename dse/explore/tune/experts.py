"""What a tuner may believe of times: the model, other GPUs' times too, or measurements alone; and how far.

Each expert is a surrogate about its own expectation. An expert's weight is its weight before times how likely
it holds each measurement, given all others: one whose expectation is wrong is surprised, and soon ignored.
A model expects seconds: that all times are ten times as long surprises it too. The
last expert expects nothing, but knows the order of the predictions as one more coordinate: configurations
that are predicted alike may be alike, whichever end of the order is the fast one. It also knows how widely
they vary: one whose first measurements are all slow then looks far from them.

Source: Rasmussen & Williams 2006, Eqs. 5.10-5.12 (leaving one out); Geisser & Eddy 1979 (models weighted by
the product of such predictive densities).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata, t

from dse.core.precision import in_64_bits
from dse.explore.fit.surrogate import Points, Scales, Surrogate, conditioned, fitted, prior
from dse.explore.tune.candidates import CONTRAST, Candidates

MISSED = 0.3  # how far times lie from what is expected, as a log; by measurements alone, at least
WRONG = 0.2  # weight of measurements alone beside an expectation, before any measurement
TAIL = 4  # degrees of freedom of an expert's surprise: no single measurement rules one out
LEVEL, NO_LEVEL = 0.5, 3.0  # how far all times together lie from a model's, and from those of none, as logs


@dataclass(frozen=True)
class Expert:
    """An expectation of N configurations' times; arrays [N], [N, D] and [N, P]."""

    name: str
    log_s: np.ndarray
    points: Points
    weight: float
    absolute: bool = False  # whether it expects seconds, not only an order
    missed: float = MISSED  # how far times are to lie from what it expects, as a log


@dataclass(frozen=True)
class Opinion:
    """What an expert makes of measurements: arrays [N]."""

    expert: Expert
    surrogate: Surrogate
    likelihood: float  # log of the density of each measurement given the others, summed
    mean: np.ndarray  # of the log of time
    deviation: np.ndarray  # of its smooth part

    @property
    def roughness(self) -> float:
        """Standard deviation of what is not smooth: the surrogate's noise.

        Times of one configuration differ far less; neighbours' do by that, and one may be faster by it.
        """
        return float(np.exp(self.surrogate.scales.noise))


def experts(candidates: Candidates) -> tuple[Expert, ...]:
    """Return those that there are: of N candidates without any prediction, measurements alone."""
    c, found = candidates, list[Expert]()
    expected = (1.0 - WRONG) / (c.modelled + (c.prior is not None)) if c.informed else 0.0
    if c.modelled:
        found.append(Expert("model", c.log_s, Points(c.position, c.slopes), expected, True))
    if c.prior is not None:
        slopes = np.column_stack([c.slopes, CONTRAST * (c.prior - c.prior.mean())])
        found.insert(0, Expert("other GPUs", c.expected, Points(c.position, slopes), expected, c.modelled))
    order = [rankdata(one.log_s) / len(c) for one in found[:1]]
    alone = Points(np.column_stack([c.position, *order]), np.zeros((len(c), 1)))
    vary = max(MISSED, float(np.std(c.expected[c.possible]))) if found and c.possible.any() else MISSED
    return *found, Expert("measurements", np.zeros(len(c)), alone, 1.0 - expected * len(found), missed=vary)


def opinion(expert: Expert, places: Sequence[int], log_s: np.ndarray, start: Scales | None) -> Opinion:
    """Fit an expert to the logs of times measured at `places`, its scales sought from `start`."""
    seen, off = Points(*(x[list(places)] for x in expert.points)), log_s - expert.log_s[list(places)]
    with in_64_bits():
        before = prior(seen.position.shape[1], expert.missed)
        surrogate = fitted(before, start or before.mean, seen, off)
        above, deviation = surrogate.left_out_errors(off)
    likelihood = float(np.sum(t.logpdf(above / deviation, TAIL) - np.log(deviation)))
    if expert.absolute:
        likelihood += surprise(float(np.median(off)))
    return Opinion(expert, surrogate, likelihood, *_predicted(expert, surrogate))


def surprise(off: float) -> float:
    """Log of how likely times lie so far off a model that expects seconds, over that of any other level."""
    return float(t.logpdf(off, TAIL, scale=LEVEL) - t.logpdf(off, TAIL, scale=NO_LEVEL))


def supposing(opinion: Opinion, places: Sequence[int], log_s: np.ndarray) -> Opinion:
    """Return what an expert would make of these measurements, with the scales that it has."""
    expert = opinion.expert
    seen = Points(*(x[list(places)] for x in expert.points))
    with in_64_bits():
        surrogate = conditioned(opinion.surrogate.scales, seen, log_s - expert.log_s[list(places)])
    return Opinion(expert, surrogate, opinion.likelihood, *_predicted(expert, surrogate))


def weights(opinions: Sequence[Opinion]) -> np.ndarray:
    """Weigh the opinions: they sum to 1. Of a single measurement it is the level that tells."""
    likelihoods = np.array([one.likelihood for one in opinions])
    shares = np.array([one.expert.weight for one in opinions]) * np.exp(likelihoods - likelihoods.max())
    return shares / shares.sum()


def mixed(opinions: Sequence[Opinion], weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the log of time, [N] each, over all opinions."""
    means = np.array([one.mean for one in opinions])
    mean = weights @ means
    variance = weights @ (np.array([one.deviation for one in opinions]) ** 2 + (means - mean) ** 2)
    return mean, np.sqrt(variance)


def _predicted(expert: Expert, surrogate: Surrogate) -> tuple[np.ndarray, np.ndarray]:
    with in_64_bits():
        mean, deviation = surrogate(expert.points)
    return expert.log_s + np.asarray(mean), np.asarray(deviation)

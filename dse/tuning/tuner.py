"""A tuner that measures next the configuration expected to improve most on the best so far.

The model ranks; each measurement refits what it misses and the GPU's parameters (`dse.fitting.surrogate`);
failures lower the chance that their neighbours run. What counts is the expected improvement in the log of
time, times that chance.

Source: Jones, Schonlau, Welch 1998, Eq. 15 (expected improvement).
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from dse.fitting.surrogate import Points, Scales, Surrogate, conditioned, fitted, prior
from dse.precision import in_64_bits
from dse.tuning.candidates import Candidates

MISSED = 0.3  # how far times lie from the model, as a log; without one, from their mean
FIRST = 4  # measured at random where there is no model
MOST_SEEN = 512  # measurements that the surrogate takes: its cost grows with their cube
REACH = 0.3  # of a failure, in the positions of the candidates
RUNS = {True: 0.97, False: 0.05}  # the chance that a launch works, by whether the model has it possible


@dataclass
class Tuner:
    """Told measured times, it says what to measure next."""

    candidates: Candidates
    seed: int = 0
    told: dict[int, float] = field(default_factory=dict)  # seconds by place; infinite where it failed
    surrogate: Surrogate | None = None
    _scales: Scales | None = None

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    @property
    def best(self) -> int | None:
        """The fastest that was measured."""
        return min(_ran(self.told), key=lambda index: self.told[index], default=None)

    def tell(self, place: int, seconds: float | None) -> None:
        """Take in a measured time, or None where the configuration failed."""
        self.told[place] = np.inf if seconds is None else seconds
        self.surrogate = None

    def ask(self, count: int = 1) -> list[int]:
        """Return up to so many configurations to measure next, best first; none if all were.

        Behind the first, each is chosen as if those before it had come out as predicted. Among equals chance
        decides.
        """
        chosen: list[int] = []
        believed = dict(self.told)
        for _ in range(min(count, len(self.candidates) - len(self.told))):
            gain = self._gain(believed)
            gain[[*self.told, *chosen]] = -np.inf
            chosen.append(int(self.random.choice(np.flatnonzero(gain == gain.max()))))
            if len(chosen) < count and _ran(believed):
                believed[chosen[-1]] = float(np.exp(self._predict(self._after(believed))[0][chosen[-1]]))
        return chosen

    def predict(self) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and standard deviation of the log of each candidate's time. One was told at least."""
        return self._predict(self.fit())

    def fit(self) -> Surrogate:
        """Fit the surrogate to what was told."""
        if self.surrogate is None:
            seen, off = self._off(self.told)
            with in_64_bits():
                before = prior(self.candidates.position.shape[1], MISSED)
                self.surrogate = fitted(before, self._scales or before.mean, seen, off)
            self._scales = self.surrogate.scales
        return self.surrogate

    def expected_gain(self) -> float:
        """Return the largest expected improvement, a share of the best time; 1 while too little is known."""
        if self.best is None or self._blind(self.told):
            return 1.0
        gain = self._gain(self.told)
        gain[list(self.told)] = 0.0
        return float(gain.max())

    def works(self) -> np.ndarray:
        """Return the chance that each candidate runs."""
        c = self.candidates
        before = np.where(c.possible, RUNS[True], RUNS[False])
        failed = np.array([not np.isfinite(seconds) for seconds in self.told.values()])
        if not failed.any():
            return before
        return chance(before, c.position, c.position[list(self.told)], ~failed)

    def _blind(self, told: dict[int, float]) -> bool:
        """Whether chance alone says what to measure next."""
        return not self.candidates.modelled and len(told) < FIRST

    def _gain(self, told: dict[int, float]) -> np.ndarray:
        """Return what measuring each is expected to bring; any scale will do."""
        c, ran = self.candidates, _ran(told)
        if self._blind(told):
            return self.random.uniform(size=len(c)) * self.works()
        if not ran:
            return np.log(self.works()) - c.log_s - np.where(c.possible, 0.0, 1e9)
        mean, deviation = self._predict(self._after(told))
        better = np.log(min(told[index] for index in ran)) - mean
        return expected_improvement(better, deviation) * self.works()

    def _after(self, told: dict[int, float]) -> Surrogate:
        """Condition on what was told and what is believed, with the scales of what was told."""
        if len(told) == len(self.told):
            return self.fit()
        with in_64_bits():
            return conditioned(self.fit().scales, *self._off(told))

    def _off(self, told: dict[int, float]) -> tuple[Points, np.ndarray]:
        """Return what ran, and the logs of how far it is off the model."""
        c, ran = self.candidates, _ran(told)
        if len(ran) > MOST_SEEN:  # the fastest, and others at random
            ran = sorted(ran, key=lambda index: told[index])
            others = np.random.default_rng(self.seed).permutation(ran[MOST_SEEN // 2 :])
            ran = [*ran[: MOST_SEEN // 2], *others[: MOST_SEEN // 2].tolist()]
        return Points(c.position[ran], c.slopes[ran]), np.log([told[index] for index in ran]) - c.log_s[ran]

    def _predict(self, surrogate: Surrogate) -> tuple[np.ndarray, np.ndarray]:
        c = self.candidates
        with in_64_bits():
            mean, deviation = surrogate(Points(c.position, c.slopes))
        return c.log_s + np.asarray(mean), np.asarray(deviation)


def expected_improvement(better: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return how much is expected of what is better by so much, give or take a deviation (Eq. 15)."""
    z = better / deviation
    return better * norm.cdf(z) + deviation * norm.pdf(z)


def chance(before: np.ndarray | float, position: np.ndarray, told: np.ndarray, ran: np.ndarray) -> np.ndarray:
    """Return the chance that each of n launches runs, after some others did or did not.

    **Shapes:** before [n] or scalar, position [n, d], told [k, d], ran [k].
    """
    weight = np.exp(-0.5 * np.sum(((position[:, None, :] - told[None]) / REACH) ** 2, axis=-1))
    return (before + weight @ ran) / (1.0 + weight.sum(axis=1))


def _ran(told: dict[int, float]) -> list[int]:
    return [index for index, seconds in told.items() if np.isfinite(seconds)]

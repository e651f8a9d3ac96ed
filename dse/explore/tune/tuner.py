"""A tuner that next measures the configuration with the largest expected improvement.

The model ranks; measurements correct its errors (`dse.explore.fit.surrogate`). Failures reduce the
probability to run of configurations with the values that failed ones share and those that ran lack. The score
is the expected improvement in the log of time, including the rough part, times a power of that probability.
After more than STUCK measurements in a row without improvement, every other one is chosen with wider
deviations, by a random amount that grows with each further failure to improve: so combinations that the mean
never puts first get a chance, and the tuner leaves a wrong model. Configurations with the features of a
measured one are last.

Source: Jones, Schonlau, Welch 1998, Eq. 15 (expected improvement).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from dse.core.gaussian_process import Posterior, Smooth, exponential
from dse.explore.fit.surrogate import Surrogate, learnt
from dse.explore.tune.candidates import Candidates

FIRST = 4  # measurements by `habits` without a model
REFIT = 1.15  # ratio of measurements to those of the last fit of the scales that triggers a new fit
STUCK = 3  # measurements in a row without improvement
WIDER = 2.0  # greatest relative growth of the deviations with each further one
WARY = 3  # power of the probability to run: failures give no times
REACH = 0.3  # of a failure, in the positions of the candidates
ALONE = 0.8  # share of a launch's outcome that single parameters decide
CHANCE = 0.1  # variance of an outcome that no parameter explains, relative to that of those they do
NEVER = 0.01  # least probability to run
RUNS = {True: 0.97, False: 0.05}  # probability that a launch runs, by the model's `possible`


@dataclass
class Tuner:
    """Chooses the next configurations to measure from measured times."""

    candidates: Candidates
    seed: int = 0
    times: dict[int, float] = field(default_factory=dict)  # seconds by index; infinite if it failed
    most_seen: int = 512  # most measurements of the surrogate: cost is cubic
    _learnt: Surrogate | None = None
    _current: bool = False  # whether it includes all measurements
    _fitted: int = 0  # measurements at the last fit of its scales
    _works: np.ndarray | None = None

    @property
    def best(self) -> int | None:
        """The fastest measured candidate."""
        return min(_ran(self.times), key=lambda index: self.times[index], default=None)

    def tell(self, place: int, seconds: float | None) -> None:
        """Add a measured time, or None if the configuration failed."""
        self.times[place] = np.inf if seconds is None else seconds
        self._current, self._works = False, None

    @threadpool_limits.wrap(limits=1)  # threads are slower on matrices of this size
    def ask(self, count: int = 1) -> list[int]:
        """Return up to `count` configurations to measure next, best first; none if all were.

        After the first, each is chosen as if the previous ones had their predicted times. Ties are broken at
        random.
        """
        batch: list[int] = []
        believed = dict(self.times)
        for _ in range(min(count, len(self.candidates) - len(self.times))):
            measured = len(self.times) + len(batch)
            gain = self._gain(believed, measured)
            gain[[*self.times, *batch]] = -np.inf
            batch.append(int(self._random(measured).choice(np.flatnonzero(gain == gain.max()))))
            if len(batch) < count and _ran(believed):
                mean, _ = self._predicted(self._after(believed))
                believed[batch[-1]] = float(np.exp(mean[batch[-1]]))
        return batch

    def predict(self) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and deviation of each candidate's log time, given at least one measurement."""
        return self._predicted(self.surrogate)

    @property
    def surrogate(self) -> Surrogate:
        """The surrogate fitted to the measurements."""
        ran, logs = self._seen(self.times)
        before = self._learnt
        if before is None or not self._current:
            fit = before is None or len(ran) >= REFIT * self._fitted
            self._fitted = len(ran) if fit else self._fitted
            before = self._learnt = self._from(ran, logs, before, fit)
            self._current = True
        return before

    def expected_gain(self) -> float:
        """Return the largest expected improvement, a share of the best time; 1 while too little is known."""
        if self.best is None or self._blind(self.times):
            return 1.0
        gain = self._improvement(self.times, self.surrogate)
        gain[list(self.times)] = 0.0
        return -math.expm1(-gain.max())

    def works(self) -> np.ndarray:
        """Return the probability that each candidate runs."""
        if self._works is None:
            c, ran = self.candidates, np.isfinite(list(self.times.values()))
            before = np.where(c.possible, np.maximum(RUNS[True] * c.runs, RUNS[False]), RUNS[False])
            self._works = before if ran.all() else chance(before, c.position, list(self.times), ran)
        return self._works

    def _blind(self, times: dict[int, float]) -> bool:
        """Return whether `habits` and chance decide the next measurement."""
        return not self.candidates.informed and len(times) < FIRST

    def _random(self, measured: int) -> np.random.Generator:
        """Return the random generator of the next choice: the same after an interruption."""
        return np.random.default_rng((self.seed, measured))

    def _gain(self, times: dict[int, float], measured: int) -> np.ndarray:
        """Return the expected gain of each measurement, on an arbitrary scale."""
        c, ran = self.candidates, _ran(times)
        if self._blind(times) or not ran:
            wary = WARY if times and c.informed else 1
            return wary * np.log(self.works()) - c.expected - np.where(c.possible, 0.0, 1e9)
        since_fastest = len(times) - 1 - int(np.argmin(list(times.values())))
        waited, wider = since_fastest - STUCK, 1.0
        if waited > 0 and waited % 2 == 0:
            wider += WIDER * waited * self._random(measured).random()
        return self._improvement(times, self._after(times), wider)

    def _improvement(self, times: dict[int, float], surrogate: Surrogate, wider: float = 1.0) -> np.ndarray:
        """Return the expected improvement by each candidate that is likely to run, its deviation scaled."""
        mean, deviation = self._predicted(surrogate)
        best = np.log(min(times.values()))
        gain = expected_improvement(best - mean, wider * np.hypot(deviation, surrogate.rough))
        return np.where(self._known(times), 0.0, gain * self.works() ** WARY)

    def _known(self, times: dict[int, float]) -> np.ndarray:
        """Mark candidates with the features of one that ran."""
        kinds = self.candidates.kinds
        return np.isin(kinds, kinds[_ran(times)])

    def _after(self, times: dict[int, float]) -> Surrogate:
        """Condition on measured and assumed times, with the scales of the measured ones."""
        if len(times) == len(self.times):
            return self.surrogate
        return self._from(*self._seen(times), self.surrogate, False)

    def _from(self, ran: list[int], logs: np.ndarray, before: Surrogate | None, fit: bool) -> Surrogate:
        c = self.candidates
        scales = None if before is None else before.process.settings
        doubted = 0 if c.others is None or not c.modelled else c.others.shape[1]
        return learnt(c.points.rows(ran), logs - c.expected[ran], c.modelled, scales, fit, doubted)

    def _predicted(self, surrogate: Surrogate) -> tuple[np.ndarray, np.ndarray]:
        mean, deviation = surrogate(self.candidates.points)
        return self.candidates.expected + mean, deviation

    def _seen(self, times: dict[int, float]) -> tuple[list[int], np.ndarray]:
        """Return the candidates that ran, and the logs of their times."""
        ran = _ran(times)
        if len(ran) > self.most_seen:  # the fastest, and others at random
            half = self.most_seen // 2
            ran = sorted(ran, key=lambda index: times[index])
            others = np.random.default_rng(self.seed).permutation(ran[half:])
            ran = [*ran[:half], *others[:half].tolist()]
        return ran, np.log([times[index] for index in ran])


def expected_improvement(better: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return the expected improvement for mean gains and deviations (Eq. 15)."""
    sure = deviation <= 0
    z = better / np.where(sure, 1.0, deviation)
    return np.where(
        sure, np.maximum(better, 0.0), better * ndtr(z) + deviation * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    )


def chance(
    before: np.ndarray | float, position: np.ndarray, times: Sequence[int] | np.ndarray, ran: np.ndarray
) -> np.ndarray:
    """Return the probability that each of n launches runs, given outcomes of those with indices `times`.

    A Gaussian process around `before`. Its additive part blames the values that failures share and launches
    that ran do not have, in whatever else they differ.

    **Shapes:** before [n] or scalar, position [n, d], times [k], ran [k].
    """
    before, known = np.broadcast_to(before, len(position)), position[times]
    alike = Smooth(1 - ALONE, ALONE, np.full(position.shape[1], REACH**-2), exponential).covariance
    outcomes = Posterior.of(alike(known, known) + CHANCE * np.eye(len(known)), ran - before[times])
    return np.clip(before + alike(known, position, outcomes.weights), NEVER, 1.0)


def _ran(times: dict[int, float]) -> list[int]:
    return [index for index, seconds in times.items() if np.isfinite(seconds)]

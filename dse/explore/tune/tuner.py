"""A tuner that measures next the configuration expected to improve most on the best so far.

The model ranks; each measurement says more of what it misses (`dse.explore.fit.surrogate`), and failures
lower the chance that their neighbours run. What counts is the expected improvement in the log of time, the
rough part included, times a power of that chance; as long as the surrogate tells measurements that it is
not shown no better than the model does, it is the model's next best. Where nothing was gained STUCK times in
a row, every other measurement is the fastest of a draw of times together (Thompson's rule) whose deviations
are the wider the longer that lasts: combinations that no mean puts first have their turn, a wrong model is
left.
What nothing tells apart from a measured configuration is measured last.

Source: Jones, Schonlau, Welch 1998, Eq. 15 (expected improvement); Thompson 1933; Russo et al. 2018, Sec. 3.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from dse.explore.fit.surrogate import Surrogate, learnt
from dse.explore.tune.candidates import Candidates

FIRST = 4  # measured by habit, where there is no model
REFIT = 1.15  # measurements over those of the last fit of the scales, from which they are fitted again
STUCK = 3  # measurements in a row that gained nothing
WIDER = 0.5  # by which deviations of a draw grow with each further one, as a share
DRAWN = 256  # of the best expected ones, and of others at random, that a draw is of
WARY = 3  # power of the chance to run: what fails tells nothing of times
LIKELY = 0.7  # of the likeliest one's chance to run, that one of a draw, or the model's next, has at least
REACH = 0.3  # of a failure, in the positions of the candidates
BELIEF = 0.3  # the prior counts as this many launches
RUNS = {True: 0.97, False: 0.05}  # the chance that a launch works, by whether the model has it possible


@dataclass
class Tuner:
    """Told measured times, it says what to measure next."""

    candidates: Candidates
    seed: int = 0
    told: dict[int, float] = field(default_factory=dict)  # seconds by place; infinite where it failed
    most_seen: int = 512  # measurements that the surrogate takes: its cost grows with their cube
    _learnt: Surrogate | None = None
    _current: bool = False  # whether that is of all that was told
    _fitted: int = 0  # measurements that its scales were fitted to

    @property
    def best(self) -> int | None:
        """The fastest that was measured."""
        return min(_ran(self.told), key=lambda index: self.told[index], default=None)

    def tell(self, place: int, seconds: float | None) -> None:
        """Take in a measured time, or None where the configuration failed."""
        self.told[place] = np.inf if seconds is None else seconds
        self._current = False

    @threadpool_limits.wrap(limits=1)  # on matrices of this size threads cost more than they save
    def ask(self, count: int = 1) -> list[int]:
        """Return up to `count` configurations to measure next, best first; none if all were.

        Behind the first, each is chosen as if those before it had come out as predicted. Among equals chance
        decides.
        """
        batch: list[int] = []
        believed = dict(self.told)
        for _ in range(min(count, len(self.candidates) - len(self.told))):
            measured = len(self.told) + len(batch)
            gain = self._gain(believed, measured)
            gain[[*self.told, *batch]] = -np.inf
            batch.append(int(self._random(measured).choice(np.flatnonzero(gain == gain.max()))))
            if len(batch) < count and _ran(believed):
                mean, _ = self._predicted(self._after(believed))
                believed[batch[-1]] = float(np.exp(mean[batch[-1]]))
        return batch

    def predict(self) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and standard deviation of the log of each candidate's time. One was told at least."""
        return self._predicted(self.surrogate)

    @property
    def surrogate(self) -> Surrogate:
        """What was told, learnt."""
        ran, logs = self._seen(self.told)
        before = self._learnt
        if before is None or not self._current:
            fit = before is None or len(ran) >= REFIT * self._fitted
            self._fitted = len(ran) if fit else self._fitted
            before = self._learnt = self._from(ran, logs, before, fit)
            self._current = True
        return before

    def expected_gain(self) -> float:
        """Return the largest expected improvement, a share of the best time; 1 while too little is known."""
        if self.best is None or self._blind(self.told):
            return 1.0
        gain = self._improvement(self.told, self.surrogate)
        gain[list(self.told)] = 0.0
        return -math.expm1(-gain.max())

    def works(self) -> np.ndarray:
        """Return the chance that each candidate runs."""
        c = self.candidates
        before = np.where(c.possible, np.maximum(RUNS[True] * c.runs, RUNS[False]), RUNS[False])
        failed = np.array([not np.isfinite(seconds) for seconds in self.told.values()])
        if not failed.any():
            return before
        return chance(before, c.position, c.position[list(self.told)], ~failed)

    def _blind(self, told: dict[int, float]) -> bool:
        """Whether habit and chance say what to measure next."""
        return not self.candidates.informed and len(told) < FIRST

    def _random(self, measured: int) -> np.random.Generator:
        """Return the chance by which the next is chosen: the same whether a run was interrupted or not."""
        return np.random.default_rng((self.seed, measured))

    def _gain(self, told: dict[int, float], measured: int) -> np.ndarray:
        """Return what measuring each is expected to bring; any scale will do."""
        c, ran = self.candidates, _ran(told)
        if self._blind(told) or not ran:
            return np.log(self.works()) - c.expected - np.where(c.possible, 0.0, 1e9)
        waited = _waited(told)
        if waited >= STUCK and (waited - STUCK) % 2 == 0:
            wider = 1.0 + WIDER * (waited - STUCK)
            return self._drawn(told, self._after(told), wider, self._random(measured))
        if len(ran) > 1 and waited < STUCK and c.informed and not self.surrogate.tells_more:
            return np.where(self._free(told), c.expected.max() - c.expected + 1e-9, 0.0)
        return self._improvement(told, self._after(told))

    def _improvement(self, told: dict[int, float], surrogate: Surrogate) -> np.ndarray:
        """Return the expected improvement by each, if it is likely to run."""
        mean, deviation = self._predicted(surrogate)
        best = np.log(min(told.values()))
        gain = expected_improvement(best - mean, np.hypot(deviation, surrogate.rough))
        return np.where(self._known(told), 0.0, gain * self.works() ** WARY)

    def _drawn(
        self, told: dict[int, float], surrogate: Surrogate, wider: float, random: np.random.Generator
    ) -> np.ndarray:
        """Return how much faster than the slowest each is in one draw of the times of some; 0 for others."""
        c = self.candidates
        mean, _ = self._predicted(surrogate)
        free = np.flatnonzero(self._free(told))
        free = free[np.argsort(mean[free], kind="stable")]
        some = np.concatenate([free[:DRAWN], random.permutation(free[DRAWN:])[:DRAWN]])
        gain = np.zeros(len(c))
        if len(some):
            draw = mean[some] + wider * surrogate.drawn(c.points.rows(some), 1, random)[0]
            gain[some] = draw.max() - draw + 1e-9
        return gain

    def _free(self, told: dict[int, float]) -> np.ndarray:
        """Mark what is not known, and likely to run."""
        works = self.works()
        return ~self._known(told) & self.candidates.possible & (works >= LIKELY * works.max())

    def _known(self, told: dict[int, float]) -> np.ndarray:
        """Mark what nothing tells apart from a configuration that ran."""
        kinds = self.candidates.kinds
        return np.isin(kinds, kinds[_ran(told)])

    def _after(self, told: dict[int, float]) -> Surrogate:
        """Learn from measured and believed times, with the scales of the measured ones."""
        if len(told) == len(self.told):
            return self.surrogate
        return self._from(*self._seen(told), self.surrogate, False)

    def _from(self, ran: list[int], logs: np.ndarray, before: Surrogate | None, fit: bool) -> Surrogate:
        c = self.candidates
        scales = None if before is None else before.process.settings
        doubted = 0 if c.others is None or not c.modelled else c.others.shape[1]
        return learnt(c.points.rows(ran), logs - c.expected[ran], c.modelled, scales, fit, doubted)

    def _predicted(self, surrogate: Surrogate) -> tuple[np.ndarray, np.ndarray]:
        mean, deviation = surrogate(self.candidates.points)
        return self.candidates.expected + mean, deviation

    def _seen(self, told: dict[int, float]) -> tuple[list[int], np.ndarray]:
        """Return what ran, and the logs of its times."""
        ran = _ran(told)
        if len(ran) > self.most_seen:  # the fastest, and others at random
            half = self.most_seen // 2
            ran = sorted(ran, key=lambda index: told[index])
            others = np.random.default_rng(self.seed).permutation(ran[half:])
            ran = [*ran[:half], *others[:half].tolist()]
        return ran, np.log([told[index] for index in ran])


def expected_improvement(better: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return the expected improvement, from the mean gain and its deviation (Eq. 15)."""
    sure = deviation <= 0
    z = better / np.where(sure, 1.0, deviation)
    return np.where(sure, np.maximum(better, 0.0), better * norm.cdf(z) + deviation * norm.pdf(z))


def chance(before: np.ndarray | float, position: np.ndarray, told: np.ndarray, ran: np.ndarray) -> np.ndarray:
    """Return the chance that each of n launches runs, after some others did or did not.

    **Shapes:** before [n] or scalar, position [n, d], told [k, d], ran [k].
    """
    weight = np.exp(-0.5 * np.sum(((position[:, None, :] - told[None]) / REACH) ** 2, axis=-1))
    return (BELIEF * before + weight @ ran) / (BELIEF + weight.sum(axis=1))


def _ran(told: dict[int, float]) -> list[int]:
    return [index for index, seconds in told.items() if np.isfinite(seconds)]


def _waited(told: dict[int, float]) -> int:
    """Count the measurements since the fastest."""
    return len(told) - 1 - int(np.argmin(list(told.values())))

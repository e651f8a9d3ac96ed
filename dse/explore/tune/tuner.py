"""A tuner that measures next the configuration expected to improve most on the best so far.

The model ranks; each measurement refits what it misses and the GPU's parameters
(`dse.explore.fit.surrogate`), and says how far the model is to be believed (`dse.explore.tune.experts`);
failures lower the chance that their neighbours run. What counts is the expected improvement in the log of
time, times that chance: of what the surrogate holds for possible, the part included that is not smooth. What
nothing tells apart from a measured one is measured last.

Source: Jones, Schonlau, Welch 1998, Eq. 15 (expected improvement).
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from dse.explore.fit.surrogate import Scales
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.experts import Opinion, experts, mixed, opinion, supposing, weights

FIRST = 4  # measured at random where there is no model
MOST_SEEN = 512  # measurements that the surrogate takes: its cost grows with their cube
REACH = 0.3  # of a failure, in the positions of the candidates
BELIEF = 0.3  # launches that are worth as much as what is held of one before
RUNS = {True: 0.97, False: 0.05}  # the chance that a launch works, by whether the model has it possible


@dataclass
class Tuner:
    """Told measured times, it says what to measure next."""

    candidates: Candidates
    seed: int = 0
    told: dict[int, float] = field(default_factory=dict)  # seconds by place; infinite where it failed
    _opinions: list[Opinion] | None = None
    _scales: dict[str, Scales] = field(default_factory=dict)

    @property
    def best(self) -> int | None:
        """The fastest that was measured."""
        return min(_ran(self.told), key=lambda index: self.told[index], default=None)

    def tell(self, place: int, seconds: float | None) -> None:
        """Take in a measured time, or None where the configuration failed."""
        self.told[place] = np.inf if seconds is None else seconds
        self._opinions = None

    def ask(self, count: int = 1) -> list[int]:
        """Return up to so many configurations to measure next, best first; none if all were.

        Behind the first, each is chosen as if those before it had come out as predicted. Among equals chance
        decides.
        """
        chosen: list[int] = []
        believed = dict(self.told)
        for _ in range(min(count, len(self.candidates) - len(self.told))):
            measured = len(self.told) + len(chosen)
            gain = self._gain(believed, measured)
            gain[[*self.told, *chosen]] = -np.inf
            chosen.append(int(self._random(measured).choice(np.flatnonzero(gain == gain.max()))))
            if len(chosen) < count and _ran(believed):
                mean, _ = mixed(self._after(believed), self.weights())
                believed[chosen[-1]] = float(np.exp(mean[chosen[-1]]))
        return chosen

    def predict(self) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and standard deviation of the log of each candidate's time. One was told at least."""
        return mixed(self.opinions(), self.weights())

    def opinions(self) -> list[Opinion]:
        """Fit each expert to what was told."""
        if self._opinions is None:
            told = self._seen(self.told)
            self._opinions = [
                opinion(one, *told, self._scales.get(one.name)) for one in experts(self.candidates)
            ]
            self._scales = {one.expert.name: one.surrogate.scales for one in self._opinions}
        return self._opinions

    def weights(self) -> np.ndarray:
        """Return the weight of each opinion; they sum to 1."""
        return weights(self.opinions())

    def expected_gain(self) -> float:
        """Return the largest expected improvement, a share of the best time; 1 while too little is known."""
        if self.best is None or self._blind(self.told):
            return 1.0
        gain = self._gain(self.told, len(self.told))
        gain[list(self.told)] = 0.0
        return float(gain.max())

    def works(self) -> np.ndarray:
        """Return the chance that each candidate runs."""
        c = self.candidates
        before = np.where(c.possible, np.maximum(RUNS[True] * c.runs, RUNS[False]), RUNS[False])
        failed = np.array([not np.isfinite(seconds) for seconds in self.told.values()])
        if not failed.any():
            return before
        return chance(before, c.position, c.position[list(self.told)], ~failed)

    def _blind(self, told: dict[int, float]) -> bool:
        """Whether chance alone says what to measure next."""
        return not self.candidates.informed and len(told) < FIRST

    def _random(self, measured: int) -> np.random.Generator:
        """Return the chance by which the next is chosen: the same whether a run was interrupted or not."""
        return np.random.default_rng((self.seed, measured))

    def _by_chance(self, measured: int) -> np.ndarray:
        return self._random(measured).uniform(size=len(self.candidates)) * self.works()

    def _gain(self, told: dict[int, float], measured: int) -> np.ndarray:
        """Return what measuring each is expected to bring; any scale will do."""
        c, ran = self.candidates, _ran(told)
        if self._blind(told):
            return self._by_chance(measured)
        if not ran:
            first = experts(c)[0]
            return np.log(self.works()) - first.log_s - np.where(c.possible, 0.0, 1e9)
        best = np.log(min(told[index] for index in ran))
        opinions = self._after(told)
        gains = [
            expected_improvement(best - one.mean, np.hypot(one.deviation, one.roughness)) for one in opinions
        ]
        known = np.isin(c.kinds, c.kinds[ran])
        return np.where(known, 0.0, self.weights() @ np.array(gains) * self.works())

    def _after(self, told: dict[int, float]) -> list[Opinion]:
        """Condition on what was told and what is believed, with the scales of what was told."""
        if len(told) == len(self.told):
            return self.opinions()
        return [supposing(one, *self._seen(told)) for one in self.opinions()]

    def _seen(self, told: dict[int, float]) -> tuple[list[int], np.ndarray]:
        """Return what ran, and the logs of its times."""
        ran = _ran(told)
        if len(ran) > MOST_SEEN:  # the fastest, and others at random
            ran = sorted(ran, key=lambda index: told[index])
            others = np.random.default_rng(self.seed).permutation(ran[MOST_SEEN // 2 :])
            ran = [*ran[: MOST_SEEN // 2], *others[: MOST_SEEN // 2].tolist()]
        return ran, np.log([told[index] for index in ran])


def expected_improvement(better: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return how much is expected of what is better by so much, give or take a deviation (Eq. 15)."""
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

"""Correct the closed form of a kernel by a few measured times: a Gaussian process.

    log t(M, x) = log f(M, x) + a + b(M) + g(M, x) + ε

f is the closed form of M tokens and configuration x; a is common to all times, b to those of one M, g is
smooth in the logs of the parameters. The covariance of b and g decays with the distance in log M. The
deviation of g is the most probable of a few, other scales are fixed: there are few times.

Source: `dse.core.gaussian_process`. Times are in seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dse.core.gaussian_process import Posterior, Smooth, matern, negative_log_likelihood

COMMON, OF_TOKENS, NOISE = 1.0, 0.3, 0.02  # standard deviations of a, b and ε, as logs
MISSED = (0.05, 0.1, 0.2, 0.4)  # of g, one of these ...
EXPECTED, WIDTH = 0.2, 0.7  # ... with a log-normal prior: median, deviation
NEAR = 2.5  # doublings of M over which b and g decay ...
ALWAYS = 0.3  # ... to this share of their covariance
LIKE = (1.0, 1.0, 1.0, 6.0, 1.0, 1.0, 2.0, 2.0, 2.0)  # length scales of g, in doublings of each parameter
SLOWEST = 1.0  # log: times are clipped at this above the median
MOST = 1024  # most times used: cost is cubic
CLEARLY = 2.0  # standard deviations by which an unmeasured one must be faster than the fastest measured

Predicted = Callable[[int], Float[np.ndarray, " configurations"]]  # log times of M; infinite if impossible


@dataclass(frozen=True)
class Timed:
    """Measured times of configurations, as indices into a table; infinite for failures."""

    tokens: Int[np.ndarray, " n"]
    places: Int[np.ndarray, " n"]
    seconds: Float[np.ndarray, " n"]

    @staticmethod
    def none() -> "Timed":
        """Return an empty table."""
        return Timed(np.zeros(0, int), np.zeros(0, int), np.zeros(0))

    def and_(self, other: "Timed") -> "Timed":
        """Return the concatenation of both."""
        pairs = zip(
            (self.tokens, self.places, self.seconds),
            (other.tokens, other.places, other.seconds),
            strict=True,
        )
        return Timed(*map(np.concatenate, pairs))

    def of(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices measured for `tokens` tokens, and their seconds, fastest first."""
        places = np.flatnonzero(self.tokens == tokens)
        places = places[np.argsort(self.seconds[places], kind="stable")]
        return self.places[places], self.seconds[places]

    @property
    def failed(self) -> np.ndarray:
        """Indices of configurations that failed for some number of tokens, and never ran."""
        ran = np.isfinite(self.seconds)
        return np.setdiff1d(self.places[~ran], self.places[ran])


class Correction:
    """A closed form corrected by measured times, for a table of configurations."""

    def __init__(
        self, predicted: Predicted, configurations: Int[np.ndarray, "configurations parameters"], timed: Timed
    ) -> None:
        self.predicted = predicted
        self._table = np.log2(np.maximum(configurations, 1))
        rows = _learnt_from(timed)
        log_s = {number: predicted(number) for number in np.unique(timed.tokens[rows]).tolist()}
        pairs = zip(timed.tokens[rows].tolist(), timed.places[rows].tolist(), strict=True)
        before = np.array([log_s[tokens][place] for tokens, place in pairs], float)
        rows, before = rows[np.isfinite(before)], before[np.isfinite(before)]
        self._points = self._table[timed.places[rows]]
        self._log_tokens = np.log2(timed.tokens[rows])
        self._missed, self._middle, self._posterior = EXPECTED, 0.0, None
        if len(rows):
            off = np.log(timed.seconds[rows]) - before
            self._middle = float(np.median(off))
            self._fit(np.minimum(off - self._middle, SLOWEST))

    def __call__(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the log of the time of each configuration, and its standard deviation."""
        log_s = self.predicted(tokens)
        variance = COMMON**2 + OF_TOKENS**2 + self._missed**2
        if self._posterior is None:
            return log_s, np.full(len(log_s), np.sqrt(variance))
        like = self._like(self._table)
        across = self._covariance(like, np.full(len(log_s), np.log2(tokens)), self._missed)
        mean, explained = self._posterior.explained(across)
        left = np.maximum(variance - (explained**2).sum(0), 1e-12)
        return log_s + self._middle + mean, np.sqrt(left)

    def _fit(self, off: np.ndarray) -> None:
        least, like = np.inf, self._like(self._points)
        for missed in MISSED:
            covariance = self._covariance(like, self._log_tokens, missed) + NOISE**2 * np.eye(len(off))
            posterior = Posterior.of(covariance, off)
            unlikely = negative_log_likelihood(posterior.whitened @ posterior.whitened, posterior.cholesky)
            unlikely += 0.5 * (np.log(missed / EXPECTED) / WIDTH) ** 2
            if unlikely < least:
                least, self._missed, self._posterior = unlikely, missed, posterior

    def _like(self, points: np.ndarray) -> np.ndarray:
        return Smooth(0.5, 0.5, np.array(LIKE[: points.shape[1]]) ** -2).covariance(self._points, points)

    def _covariance(self, like: np.ndarray, log_tokens: np.ndarray, missed: float) -> np.ndarray:
        apart = (self._log_tokens[:, None] - log_tokens[None]) / NEAR
        near = ALWAYS + (1.0 - ALWAYS) * matern.of(apart**2)
        return COMMON**2 + near * (OF_TOKENS**2 + missed**2 * like)


def choose(
    log_s: Float[np.ndarray, " configurations"],
    deviation: Float[np.ndarray, " configurations"],
    taken: Float[np.ndarray, " configurations"],
    timed: Timed,
    tokens: int,
) -> tuple[int, float, bool]:
    """Choose by corrected log times. Return a configuration's index, seconds, and whether they are measured.

    The fastest measured one is chosen unless another is faster by `CLEARLY` standard deviations. `taken` is
    added to corrected times for comparison.
    """
    places, seconds = timed.of(tokens)
    allowed = np.isfinite(log_s)
    allowed[timed.failed] = False
    if len(places) and np.isfinite(seconds[0]):
        allowed &= log_s + CLEARLY * deviation < np.log(seconds[0])
        allowed[places] = False
        if not allowed.any():
            return int(places[0]), float(seconds[0]), True
    place = int(np.argmin(np.where(allowed, log_s + np.where(allowed, taken, 0.0), np.inf)))
    return place, float(np.exp(log_s[place])) if allowed[place] else np.inf, False


def _learnt_from(timed: Timed) -> np.ndarray:
    """Return at most MOST rows that ran, equally many per M: half the fastest, half spread over the rest."""
    ran = np.flatnonzero(np.isfinite(timed.seconds))
    if len(ran) <= MOST:
        return ran
    places, numbers = [], np.unique(timed.tokens[ran])
    share = max(MOST // len(numbers), 1)
    for number in numbers:
        rows = ran[timed.tokens[ran] == number]
        rows = rows[np.argsort(timed.seconds[rows], kind="stable")]
        fast, others = rows[: -(-share // 2)], rows[-(-share // 2) :]
        spread = np.linspace(0, len(others) - 1, min(share // 2, len(others))).astype(int)
        places += [fast, others[spread]]
    return np.concatenate(places)[:MOST]

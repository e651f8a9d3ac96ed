"""Calibration of pruning's risk: the margins that measured spaces needed to keep a near-optimum.

calibration.toml holds these spaces; `scripts/studies/calibrate_pruning.py DIR --calibration FILE` writes it.

Each space is represented by many random slices. For the first near-optimal configuration of a slice, two
distances are recorded: `margins`, its predicted slowdown over the fastest prediction, over the spread of the
model's errors; and `spreads`, the depth of its time below the refitted surrogate's mean, over the surrogate's
deviation. Spaces differ most in the variation of their times; the spread of the model's errors is a similar
share of the variation it predicts. Since known spaces are few, one more is assumed that needs UNSEEN
spreads, or UNSEEN_DEVIATIONS of the surrogate: with fewer than 1 / risk spaces, that much is always kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from dse.core.files import read_toml

FILE = Path(__file__).with_name("calibration.toml")
LEVELS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 1.0)
UNSEEN = 2.2  # spreads needed by the assumed space; known ones need at most 2.1 in 98 % of their slices
UNSEEN_DEVIATIONS = 8.0  # of a refitted surrogate, overconfident since its scales are fitted too
SCATTER = 0.3  # prior standard deviation of the log share of errors, as over known spaces
QUANTILES = 200  # of the spread in a space without measurements


@dataclass(frozen=True)
class KnownSpace:
    """A measured space, with quantiles over its slices at LEVELS."""

    space: str
    kernel: str  # whose description predicted it
    gpu: str
    configurations: int
    spearman: float  # of the model
    predicted: float  # standard deviation of the predicted log times
    spread: float  # standard deviation of the model's log errors
    margins: tuple[float, ...]
    spreads: tuple[float, ...]


@dataclass(frozen=True)
class KnownSpaces:
    """Measured spaces from which margins in another one are derived."""

    model: str
    within: float  # tolerance of a near-optimum
    slices: int  # of each space
    spaces: tuple[KnownSpace, ...]

    def margin(self, risk: float, predicted: float) -> float:
        """Predicted-time margin (log) that keeps a near-optimum with this risk, without measurements.

        `predicted` is the standard deviation of its predicted log times. The model's errors are a share of
        that, lognormal with the mean and scatter of known spaces (normal, not Student's t, which is unbounded
        for two). SCATTER is a prior observation of the scatter. Predictions that vary less than in any known
        space are treated as varying as much as in the least.
        """
        logs, count = np.log([space.spread / space.predicted for space in self.spaces]), len(self.spaces)
        scatter = np.sqrt((SCATTER**2 + np.sum((logs - logs.mean()) ** 2)) / count)
        quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
        shares = np.exp(logs.mean() + ndtri(quantiles) * scatter * np.sqrt(1 + 1 / count))
        varying = max(predicted, min(space.predicted for space in self.spaces))
        return _exceeded(self._margins(), risk, 1.0 / shares) * varying

    def margin_in_spreads(self, risk: float) -> float:
        """Margin in another space, over the spread of the model's errors there."""
        return _exceeded(self._margins(), risk, np.ones(1))

    def spreads(self, risk: float) -> float:
        """Deviations that a near-optimal time may be below the refitted mean."""
        known = [space.spreads for space in self.spaces]
        return _exceeded([*known, (UNSEEN_DEVIATIONS,) * len(LEVELS)], risk, np.ones(1))

    def _margins(self) -> list[tuple[float, ...]]:
        return [*(space.margins for space in self.spaces), (UNSEEN,) * len(LEVELS)]


@cache
def load(path: Path = FILE) -> KnownSpaces:
    """Read spaces from a file, by default the package's."""
    content = read_toml(path)
    spaces = tuple(
        KnownSpace(**space | {name: tuple(space[name]) for name in ("margins", "spreads")})
        for space in content.pop("spaces")
    )
    return KnownSpaces(**content, spaces=spaces)


def _exceeded(quantiles: Sequence[Sequence[float]], risk: float, units: np.ndarray) -> float:
    """Return the value exceeded with this risk, with equally likely spaces and `units` [U]."""

    def share(value: float) -> float:
        below = [np.interp(value * units, known, LEVELS, left=0.0, right=1.0) for known in quantiles]
        return 1.0 - float(np.mean(below))

    low, high = 0.0, 1.0
    while share(high) > risk and high < 1e3:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) > risk else (low, middle)
    return high

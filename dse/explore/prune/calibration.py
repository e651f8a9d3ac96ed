"""Measured spaces, and how far from the first one had to reach in them: pruning's risk rests on that.

calibration.toml has these spaces; `scripts/studies/calibrate_pruning.py DIR --calibration FILE` writes it.

Each space counts with many slices of itself. Of each slice the distance of its first nearly fastest
configuration is kept in two units: `margins`, how much slower than the fastest prediction it was predicted,
over the spread of the model's errors; and `spreads`, how far its time was below the refitted surrogate's
mean, over the surrogate's deviation. Spaces differ most by how much their
times vary, and what the model misses, its `spread`, is a like share of how much it predicts them to vary.
The known spaces are few. So one more is counted among them that needs UNSEEN spreads, or UNSEEN_DEVIATIONS of
the surrogate: below 1 / risk spaces in all, that much is always kept.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import norm

from dse.core.files import read_toml

FILE = Path(__file__).with_name("calibration.toml")
LEVELS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 1.0)
UNSEEN = 2.2  # spreads that one more space may need; 98 % of the slices of each known one need 2.1 at most
UNSEEN_DEVIATIONS = 8.0  # of a refitted surrogate, which knows less than it says: its scales are fitted too
SCATTER = 0.3  # of the logs of those shares, as it is over known ones
QUANTILES = 200  # of the spread of a space that nothing was measured of


@dataclass(frozen=True)
class KnownSpace:
    """A measured space, and what was found in its slices: quantiles at LEVELS."""

    space: str
    kernel: str  # whose description predicted it
    gpu: str
    configurations: int
    spearman: float  # of the model
    predicted: float  # standard deviation of the predictions, as a log
    spread: float  # ... of what the model misses
    margins: tuple[float, ...]
    spreads: tuple[float, ...]


@dataclass(frozen=True)
class KnownSpaces:
    """Measured spaces that tell how far to reach in another one."""

    model: str
    within: float  # of the optimum: what counts as nearly fastest
    slices: int  # of each space
    spaces: tuple[KnownSpace, ...]

    def margin(self, risk: float, predicted: float) -> float:
        """How far to reach in another space whose predictions vary by so much, as a log of predicted time.

        What the model misses there is a share of that, lognormal by the mean and the scatter of those known
        (normal, not Student's t, which has no bound where two are known). Few tell the scatter badly, so
        SCATTER counts among it once. Where predictions vary less than in any known space, that they do not is
        not believed.
        """
        logs, count = np.log([space.spread / space.predicted for space in self.spaces]), len(self.spaces)
        scatter = np.sqrt((SCATTER**2 + np.sum((logs - logs.mean()) ** 2)) / count)
        quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
        shares = np.exp(logs.mean() + norm.ppf(quantiles) * scatter * np.sqrt(1 + 1 / count))
        varying = max(predicted, min(space.predicted for space in self.spaces))
        return _exceeded(self._margins(), risk, 1.0 / shares) * varying

    def margin_in_spreads(self, risk: float) -> float:
        """How far to reach in another space, over the spread of what the model misses there."""
        return _exceeded(self._margins(), risk, np.ones(1))

    def spreads(self, risk: float) -> float:
        """How many deviations below a refitted mean a time may be."""
        known = [space.spreads for space in self.spaces]
        return _exceeded([*known, (UNSEEN_DEVIATIONS,) * len(LEVELS)], risk, np.ones(1))

    def _margins(self) -> list[tuple[float, ...]]:
        return [*(space.margins for space in self.spaces), (UNSEEN,) * len(LEVELS)]

    def apart_from(self, kernel: str, gpu: str) -> "KnownSpaces":
        """Keep the spaces of other kernels on other GPUs."""
        others = tuple(space for space in self.spaces if space.kernel != kernel and space.gpu != gpu)
        return KnownSpaces(self.model, self.within, self.slices, others)

    def text(self) -> str:
        """Write them as a TOML file has them."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# Written by scripts/studies/calibrate_pruning.py --calibration; see docs/accuracy.md."
        yield f"# n = {len(self.spaces)} spaces, {self.slices} slices of each. `margins` and `spreads` are"
        yield f"# quantiles over the slices, at {', '.join(f'{level:g}' for level in LEVELS)}."
        for name in ("model", "within", "slices"):
            yield f"{name} = {json.dumps(getattr(self, name))}"
        for space in self.spaces:
            yield "\n[[spaces]]"
            for name, value in asdict(space).items():
                yield f"{name} = {_value(value)}"


@cache
def load(path: Path = FILE) -> KnownSpaces:
    """Read them from a file, by default the one that comes with the package."""
    content = read_toml(path)
    spaces = tuple(
        KnownSpace(**space | {name: tuple(space[name]) for name in ("margins", "spreads")})
        for space in content.pop("spaces")
    )
    return KnownSpaces(**content, spaces=spaces)


def _exceeded(quantiles: Sequence[Sequence[float]], risk: float, units: np.ndarray) -> float:
    """Return what another space exceeds with that risk, spaces and `units` [U] being equally likely."""

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


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:.3g}" if isinstance(value, float) else json.dumps(value)

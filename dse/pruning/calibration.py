"""Measured spaces, and how far from the first one had to reach in them: pruning's risk rests on that.

calibration.toml has these spaces; `scripts/calibrate_pruning.py DIR --calibration FILE` writes it.

Each space counts with many slices of itself (`dse.pruning.slices`), for each of which it is asked how far its
first nearly fastest configuration lay, in two units: `margins`, how much slower than the fastest prediction
it was predicted, over the spread of what the model missed, that of FEW measurements; and `spreads`, how far
its time lay below what the refitted surrogate said, over the surrogate's deviation. Over spaces, what the
model misses differs most by its `spread`; margins in units of it are much alike, even where the model is bad.
The known spaces are few. So one more is counted among them that needs UNSEEN spreads: below 1 / risk spaces
in all, that much is always kept.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import norm

from dse.files import read_toml

FILE = Path(__file__).with_name("calibration.toml")
LEVELS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 1.0)
FEW = 20  # measurements of which the spread is, that margins are over
UNSEEN = 2.5  # spreads that one more space may need, as none of the known ones did
QUANTILES = 200  # of the spread of a space that nothing was measured of


@dataclass(frozen=True)
class KnownSpace:
    """A measured space, and what was found in its slices: quantiles at LEVELS."""

    space: str
    kernel: str  # whose description predicted it
    gpu: str
    configurations: int
    spearman: float  # of the model
    spread: float  # standard deviation of what the model misses, as a log
    margins: tuple[float, ...]
    spreads: tuple[float, ...]


@dataclass(frozen=True)
class KnownSpaces:
    """Measured spaces that tell how far to reach in another one."""

    model: str
    within: float  # of the optimum: what counts as nearly fastest
    slices: int  # of each space
    spaces: tuple[KnownSpace, ...]

    def margin(self, risk: float) -> float:
        """How far to reach in another space, as a log of predicted time, by the spreads of those known.

        Another's spread is lognormal, by the mean and the scatter of those known (normal, not Student's t,
        which has no bound where two are known).
        """
        logs, count = np.log([space.spread for space in self.spaces]), len(self.spaces)
        shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
        scale = logs.std(ddof=1) * np.sqrt(1 + 1 / count)
        spread = np.exp(logs.mean() + norm.ppf(shares) * scale)
        return _exceeded(self._margins(), risk, 1.0 / spread)

    def margin_in_spreads(self, risk: float) -> float:
        """How far to reach in another space, over the spread of what the model misses there."""
        return _exceeded(self._margins(), risk, np.ones(1))

    def spreads(self, risk: float) -> float:
        """How many deviations below a refitted mean a time may lie."""
        return _exceeded([space.spreads for space in self.spaces], risk, np.ones(1))

    def _margins(self) -> list[tuple[float, ...]]:
        return [*(space.margins for space in self.spaces), (UNSEEN,) * len(LEVELS)]

    def apart_from(self, kernel: str, gpu: str) -> "KnownSpaces":
        """Keep the spaces of other kernels on other GPUs."""
        others = tuple(one for one in self.spaces if one.kernel != kernel and one.gpu != gpu)
        return KnownSpaces(self.model, self.within, self.slices, others)

    def text(self) -> str:
        """Write them as a TOML file has them."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# Written by scripts/calibrate_pruning.py --calibration; docs/accuracy.md shows its worth."
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

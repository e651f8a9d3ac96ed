"""Measured spaces, and how deep their first nearly fastest configuration stood: pruning's risk rests on them.

calibration.toml has these spaces; `scripts/calibrate_pruning.py DIR --calibration FILE` writes it.
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("calibration.toml")


@dataclass(frozen=True)
class KnownSpace:
    """A measured space, and the depths found in it: shares of the space, two significant digits."""

    space: str
    kernel: str  # whose description predicted it
    gpu: str
    configurations: int
    by_model: float  # depth in the model's order
    refitted: float  # in the better of that and the order refitted to measurements, of the worst draw


@dataclass(frozen=True)
class KnownSpaces:
    """Measured spaces that tell how deep to reach in another one."""

    model: str
    within: float  # of the optimum: what counts as nearly fastest
    refitted_to: int  # measurements taken at random
    draws: int  # of these, the worst counts
    spaces: tuple[KnownSpace, ...]

    @property
    def by_model(self) -> tuple[float, ...]:
        """The depths in the model's order."""
        return tuple(space.by_model for space in self.spaces)

    @property
    def refitted(self) -> tuple[float, ...]:
        """The depths in the better of that and the refitted order."""
        return tuple(space.refitted for space in self.spaces)

    def text(self) -> str:
        """Write them as a TOML file has them."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# Written by scripts/calibrate_pruning.py --calibration; docs/accuracy.md shows its worth."
        yield f"# n = {len(self.spaces)} spaces. Depths: where the first configuration `within` the optimum"
        yield "# stands, as a share of the space; `refitted`: worst of `draws` of `refitted_to` measurements."
        for name in ("model", "within", "refitted_to", "draws"):
            yield f"{name} = {json.dumps(getattr(self, name))}"
        for space in self.spaces:
            yield "\n[[spaces]]"
            for name, value in asdict(space).items():
                yield f"{name} = {format(value, '.2g') if isinstance(value, float) else json.dumps(value)}"


@cache
def load(path: Path = FILE) -> KnownSpaces:
    """Read them from a file, by default the one that comes with the package."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    spaces = tuple(KnownSpace(**space) for space in content.pop("spaces"))
    return KnownSpaces(**content, spaces=spaces)

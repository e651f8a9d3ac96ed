"""Which configurations of a kernel to compile, so that they tell most of the others.

What needs no compiler is worked out exactly: the launch, the constants of the source and with them its shared
memory. Of these the first configurations are far apart. The others are those whose registers are least sure,
so that the border between those with few and with far more is found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.cuda.compile import Failure, Source
from dse.cuda.constants import constants
from dse.cuda.kinds import Kinds, fails, registers_of, spills
from dse.cuda.regression import Process
from dse.cuda.source import Configuration, Found

FEWEST = 8  # configurations to compile; fewer tell nothing of the others

_ROUNDS = 4  # in which the second half of them is chosen


@dataclass(frozen=True)
class Known:
    """What is known of L configurations before they are compiled."""

    threads: np.ndarray  # [L] of a block
    blocks: np.ndarray  # [L] of the grid
    block: np.ndarray  # [L, 3] threads along x, y, z
    shared_bytes: np.ndarray | None  # [L] of a block, by the source's text
    names: dict[str, np.ndarray]  # [L] parameters, and whole numbers that the source works out
    code: np.ndarray  # [L, c] parameters that vary and how much a thread has to do, standardised


def known(
    source: Source,
    parameters: Mapping[str, Any],
    wanted: Sequence[Configuration],
    names: Mapping[str, Any] | None = None,
) -> Known:
    """What the launches and the text of the source tell, and `names`: what a description says of sizes.

    **Shapes:** parameters and names [L] or scalars, L configurations.
    """
    count = len(wanted)
    block = np.array([each.block for each in wanted])
    threads, blocks = block.prod(1), np.array([int(np.prod(each.grid)) for each in wanted])
    macros = [dict(each.defines) for each in wanted]
    columns = {name: np.array([each[name] for each in macros]) for name in macros[0]}
    found = constants(source.text, columns, count)
    others = {name: np.broadcast_to(np.asarray(each), (count,)) for name, each in (names or {}).items()}
    others |= found.values
    given = {name: np.broadcast_to(np.asarray(value), (count,)) for name, value in parameters.items()}
    launch = {"threads": threads, "blocks": blocks, "warps": -(-threads // 32)}
    code = _standard([*given.values(), threads * blocks])
    return Known(threads, blocks, block, found.shared_bytes, given | others | launch, code)


def _standard(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Those that vary, each once, in logs where none is negative: mean 0, deviation 1."""
    found: list[np.ndarray] = []
    for values in columns:
        if values.min() >= 0:
            values = np.log2(values if values.min() > 0 else values + 1.0)
        if np.ptp(values) > 1e-9:
            values = (values - values.mean()) / values.std()
            if not any(abs(np.mean(values * other)) > 1 - 1e-6 for other in found):
                found.append(values)
    return np.array(found).T if found else np.zeros((len(columns[0]), 1))


def choose(known: Known, count: int, found: Mapping[int, Found | Failure]) -> list[int]:
    """Which configurations to compile next, until `count` of them are found; then none.

    The first half lie far apart. The others are those whose registers are least sure, or whether they compile
    at all, in several rounds.
    """
    total = len(known.threads)
    count = min(count, total)
    if not found:
        return _far_apart(known.code, -(-count // 2))
    here, chosen = list(found), []
    doubts = _doubts(known, found)
    while len(chosen) < min(count - len(found), -(-count // (2 * _ROUNDS))):
        variance = np.sum([doubt.variance for doubt in doubts], axis=0)
        variance[here + chosen] = -1.0
        chosen.append(int(variance.argmax()))
        for doubt in doubts:
            doubt.told(chosen[-1])
    return chosen


class _Doubt:
    """How unsure a number is, before and after configurations are compiled that are yet to be."""

    def __init__(self, process: Process, points: np.ndarray, variance: np.ndarray | None = None) -> None:
        self.process, self.points = process, points
        self.left = np.maximum(process.variance(points), 1e-9)
        self.variance = self.left if variance is None else variance
        self.columns: list[np.ndarray] = []

    def told(self, place: int) -> None:
        """What that one will tell of the others, by the process: a step of a Cholesky decomposition."""
        column = self.process.covariance(self.points, self.points[[place]])[:, 0]
        column = column - sum(each * each[place] for each in self.columns)
        self.columns.append(column / np.sqrt(max(column[place], 1e-9)))
        told = np.minimum(self.columns[-1] ** 2, self.left)
        self.variance = self.variance * (1.0 - told / self.left)
        self.left = np.maximum(self.left - told, 1e-9)


def _doubts(known: Known, found: Mapping[int, Found | Failure]) -> list[_Doubt]:
    points, registers = known.code, registers_of(known.code, found)
    process = registers.process if registers.kinds is None else registers.kinds.process
    doubts = [_Doubt(process, points, registers.variance(points))]
    if any(isinstance(each, Failure) for each in found.values()):
        kinds = fails(points, found)
        doubts.append(_Doubt(kinds.process, points, kinds.doubt(points)))
    good = [place for place, each in found.items() if isinstance(each, Found)]
    spilling = np.array([spills(each) for each in found.values() if isinstance(each, Found)])
    if spilling.any() and not spilling.all():
        kinds = Kinds.of(points[good], spilling)
        doubts.append(_Doubt(kinds.process, points, kinds.doubt(points)))
    return doubts


def _far_apart(places: np.ndarray, count: int) -> list[int]:
    """Each as far as can be from those before it; the first is the one in the middle."""
    chosen = [int((places**2).sum(1).argmin())]
    distance = np.full(len(places), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, ((places - places[chosen[-1]]) ** 2).sum(1))
        chosen.append(int(distance.argmax()))
    return chosen

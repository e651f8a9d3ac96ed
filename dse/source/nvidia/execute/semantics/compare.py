"""Comparisons of all types."""

from typing import Any

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.semantics.binding import Binder, Evaluate, Reader, Registers, Values

COMPARE: dict[str, Any] = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}
_COMBINE = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}


def combined(binder: Binder, test: Reader, other: Reader) -> Evaluate:
    """The two predicates of a compare: the test, and its opposite, each combined with a predicate."""
    combine = next((_COMBINE[name] for name in binder.step.modifiers if name in _COMBINE), np.logical_and)
    opposite = binder.step.targets[1].text[-1] != "T"

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        holds, with_ = test(r), other(r)
        return combine(holds, with_), combine(~holds, with_) if opposite else holds

    return evaluate

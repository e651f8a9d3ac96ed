"""Branches on thread, block and loop indices: the share of a block's warps that take one, lane by lane, and
the paper's closed form for `A t + B <= α i + β`.

Known errors of the closed form: I counts steps 0..I, so I + 1 of them; for I below I_0 the weight is still
that of all steps up to I_0, though the first ones have fewer warps (for `t <= i` and 256 threads, the weight
of 16 steps is 0.56 instead of 1/8); and I_0 is not an integer in general.
Source: Baghsorkhi et al., PPoPP 2010, Sec. 3.1, Eqs. 9 to 12.
"""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dse.core.space.expression import Expression, parse
from dse.hardware.lanes import threads
from dse.kernels.symbolic.average import SHAPE, distinct_rows

STEPS = 256  # evaluated in all loops of a branch together, evenly spaced if there are more
_AT_A_TIME = 2**23  # lanes times steps


@dataclass(frozen=True)
class Condition:
    """A branch of the source, taken by lanes where the condition holds."""

    name: str  # in expressions: the share of warps that take it
    when: Expression  # may use indices of threads, of the block `bx`, of `loops`
    loops: tuple[tuple[str, Expression], ...] = ()  # loop indices, from 0, and their trip counts


def share(condition: Condition, names: Mapping[str, Any], block: tuple[Any, Any, Any]) -> np.ndarray:
    """Return ρ_T, the share of a block's warps with a lane where the condition holds, averaged over steps.

    `names` holds the names in the expressions, and `warp_size`; `bx`, one of `blocks`, is treated as a loop.
    **Shapes:** `names` and sizes of the block broadcast, to the shape of the result.
    **Edges:** at most `STEPS` steps are evaluated; without a step the share is 0.
    """
    loops = dict(condition.loops)
    trips = {name: np.floor(expression(names, np)) for name, expression in loops.items()}
    if "bx" in condition.when.names:
        trips["bx"] = np.asarray(names["blocks"])
    used = {name: names[name] for name in sorted(condition.when.names & names.keys())} | trips
    used |= dict(zip(SHAPE, (*block, names["warp_size"]), strict=True))
    distinct, inverse = distinct_rows(used)
    x, y, z, warp_size = (distinct[name] for name in SHAPE)
    size = int(warp_size.max())
    warps = -(-x * y * z // size).max()
    rows = max(1, _AT_A_TIME // int(STEPS * warps * size))
    parts = [
        _shares(condition.when, trips, {name: column[i : i + rows] for name, column in distinct.items()})
        for i in range(0, len(x), rows)
    ]
    return np.asarray(np.concatenate(parts)[inverse])


def _shares(when: Expression, trips: Mapping[str, Any], names: Mapping[str, np.ndarray]) -> np.ndarray:
    """Evaluate all lanes of all warps in each step: names and result are rows [n].

    Internally, axes are [n, steps of each loop, warps, lanes].
    """
    x, y, z, size = (names[name] for name in SHAPE)
    count, loops = -(-x * y * z // size), [1] * len(trips)
    warp = np.arange(count.max())
    block = (x[:, None], y[:, None], z[:, None])
    lanes, mask = threads(block, warp, int(size.max()), size[:, None])

    def inside(lane: np.ndarray) -> np.ndarray:
        return lane.reshape(len(lane), *loops, *lane.shape[1:])

    values = {name: row.reshape(-1, *loops, 1, 1) for name, row in names.items()}
    values |= {name: inside(lane) for name, lane in lanes.items()}
    weight = inside((warp < count[:, None]) / count[:, None])
    most = int(STEPS ** (1 / max(len(trips), 1)))
    for axis, name in enumerate(trips, 1):
        steps = np.minimum(names[name], most).astype(int)[:, None]
        step = np.arange(steps.max(initial=0))
        index = (2 * step + 1) * names[name].astype(int)[:, None] // np.maximum(2 * steps, 1)
        shape = [1] * (len(trips) + 2)
        shape[0], shape[axis] = index.shape
        values[name] = index.reshape(*shape, 1)
        weight = weight * ((step < steps) / np.maximum(steps, 1)).reshape(shape)
    takes = (when.holds(values, np) & inside(mask)).any(-1)
    return np.asarray((takes * weight).sum(tuple(range(1, weight.ndim))))


def published(condition: Condition, names: Mapping[str, Any], block: tuple[Any, Any, Any]) -> float | None:
    """Return the paper's weight of a branch `A t + B <= α i + β` in a loop of i, else None.

    From step I_0 = (A (T - 1) + B - β) / α on, all T threads take it; before, all lanes are evaluated.
    **Shapes:** `names` and sizes of the block are scalars. **Source:** Eq. 12, with steps 0 to I.
    """
    tree = condition.when.tree
    if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and len(condition.loops) == 1):
        return None
    [(index, trips)], operator = condition.loops, type(tree.ops[0])
    known = condition.when.names <= {*names, "tx", index}
    if not known or operator not in (ast.Lt, ast.LtE, ast.Gt, ast.GtE):
        return None
    probe = dict(names) | {"tx": np.arange(3)[:, None], index: np.arange(3)}
    sides = (replace(condition.when, tree=side)(probe, np) for side in (tree.left, *tree.comparators))
    left, right = (np.broadcast_to(side, (3, 3)) for side in sides)
    slack = left - right if operator in (ast.Gt, ast.GtE) else right - left  # α i + β - (A t + B)
    slack = slack - (operator in (ast.Lt, ast.Gt))  # in integers, < is <= with one less
    a, alpha = slack[0, 0] - slack[1, 0], slack[0, 1] - slack[0, 0]
    steps = np.arange(3)
    if a <= 0 or alpha <= 0 or (slack != slack[0, 0] - a * steps[:, None] + alpha * steps).any():
        return None
    uniform = (a * (np.prod(block) - 1) - slack[0, 0]) / alpha  # I_0
    last = np.floor(trips(names, np)) - 1  # I
    steps_before = parse(max(math.ceil(uniform), 0), condition.name)
    before = share(replace(condition, loops=((index, steps_before),)), names, block)
    uniform = max(uniform, 0.0)
    return float((np.maximum(last - uniform, 0.0) + before * uniform) / max(uniform, last, 1.0))

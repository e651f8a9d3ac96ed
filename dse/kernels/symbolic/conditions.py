"""Branches on thread, block and loop indices: the share of a block's warps that takes one, lane by lane, and
the paper's closed form for `A t + B <= α i + β` beside it.

Known errors of the closed form: I counts steps 0..I, so I + 1 of them; with I below I_0 the weight is still
that of all steps up to I_0, though the first ones have fewer warps (for `t <= i` and 256 threads, the weight
of 16 steps is taken as 0.56 where it is 1/8); and I_0 is no whole number in general.
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

STEPS = 256  # of all loops of a branch together, spread evenly where there are more
_AT_A_TIME = 2**23  # lanes of warps in steps


@dataclass(frozen=True)
class Condition:
    """A branch of the source: lanes where the condition holds take it."""

    name: str  # of the share of warps that take it, in expressions
    when: Expression  # of indices too: of threads, of the block `bx`, of `loops`
    loops: tuple[tuple[str, Expression], ...] = ()  # indices that run from 0, and their trips


def share(condition: Condition, names: Mapping[str, Any], block: tuple[Any, Any, Any]) -> np.ndarray:
    """Return ρ_T, the share of a block's warps with a lane where the condition holds, on average over steps.

    `names` has what the expressions use, and `warp_size`; `bx`, one of `blocks`, runs like a loop.
    **Shapes:** `names` and sizes of the block broadcast, and the result has that shape.
    **Edges:** of more than `STEPS` steps, this many are looked at; without a step the share is 0.
    """
    loops = dict(condition.loops)
    trips = {name: np.floor(expression(names, np)) for name, expression in loops.items()}
    if "bx" in condition.when.names:
        trips["bx"] = np.asarray(names["blocks"])
    used = {name: names[name] for name in sorted(condition.when.names & names.keys())} | trips
    used |= dict(zip("xyz", block, strict=True)) | {"warp size": names["warp_size"]}
    columns = dict(zip(used, np.broadcast_arrays(*used.values()), strict=True))
    shape = next(iter(columns.values())).shape
    flat = {name: np.ravel(column) for name, column in columns.items()}
    _, first, inverse = np.unique(np.stack([*flat.values()]), axis=1, return_index=True, return_inverse=True)
    distinct = {name: column[first] for name, column in flat.items()}
    size = int(distinct["warp size"].max())
    warps = -(-distinct["x"] * distinct["y"] * distinct["z"] // size).max()
    rows = max(1, _AT_A_TIME // int(STEPS * warps * size))
    parts = [
        _looked_at(condition.when, trips, {name: column[at : at + rows] for name, column in distinct.items()})
        for at in range(0, len(first), rows)
    ]
    return np.concatenate(parts)[np.ravel(inverse)].reshape(shape)


def _looked_at(when: Expression, trips: Mapping[str, Any], names: Mapping[str, np.ndarray]) -> np.ndarray:
    """Look at each lane of all warps in each step: names are rows [n], so is the result.

    Inside, axes are [n, steps of each loop, warps, lanes].
    """
    x, y, z, size = (names[name] for name in ("x", "y", "z", "warp size"))
    count, loops = -(-x * y * z // size), [1] * len(trips)
    warp = np.arange(count.max())
    block = (x[:, None], y[:, None], z[:, None])
    lanes, mask = threads(block, warp, np, int(size.max()), size[:, None])

    def inside(lane: np.ndarray) -> np.ndarray:
        return lane.reshape(len(lane), *loops, *lane.shape[1:])

    values = {name: row.reshape(-1, *loops, 1, 1) for name, row in names.items()}
    values |= {name: inside(lane) for name, lane in lanes.items()}
    weight = inside((warp < count[:, None]) / count[:, None])
    most = int(STEPS ** (1 / max(len(trips), 1)))
    for place, name in enumerate(trips, 1):
        steps = np.minimum(names[name], most).astype(int)[:, None]
        step = np.arange(steps.max(initial=0))
        at = (2 * step + 1) * names[name].astype(int)[:, None] // np.maximum(2 * steps, 1)
        along = [1] * (len(trips) + 2)
        along[0], along[place] = at.shape
        values[name] = at.reshape(*along, 1)
        weight = weight * ((step < steps) / np.maximum(steps, 1)).reshape(along)
    takes = (when.holds(values, np) & inside(mask)).any(-1)
    return np.asarray((takes * weight).sum(tuple(range(1, weight.ndim))))


def published(condition: Condition, names: Mapping[str, Any], block: tuple[Any, Any, Any]) -> float | None:
    """Return the paper's weight of a branch `A t + B <= α i + β` in a loop of i, else None.

    From step I_0 = (A (T - 1) + B - β) / α on, all T threads take it; before, all lanes are looked at.
    **Shapes:** `names` and sizes of the block are scalars. **Source:** Eq. 12, with steps 0 to I.
    """
    tree = condition.when.tree
    if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and len(condition.loops) == 1):
        return None
    [(index, trips)], operator = condition.loops, type(tree.ops[0])
    known = condition.when.names <= {*names, "tx", index}
    if not known or operator not in (ast.Lt, ast.LtE, ast.Gt, ast.GtE):
        return None
    at = dict(names) | {"tx": np.arange(3)[:, None], index: np.arange(3)}
    sides = (replace(condition.when, tree=side)(at, np) for side in (tree.left, *tree.comparators))
    left, right = (np.broadcast_to(side, (3, 3)) for side in sides)
    slack = left - right if operator in (ast.Gt, ast.GtE) else right - left  # α i + β - (A t + B)
    slack = slack - (operator in (ast.Lt, ast.Gt))  # of whole numbers
    a, alpha = slack[0, 0] - slack[1, 0], slack[0, 1] - slack[0, 0]
    steps = np.arange(3)
    if a <= 0 or alpha <= 0 or (slack != slack[0, 0] - a * steps[:, None] + alpha * steps).any():
        return None
    alike = (a * (np.prod(block) - 1) - slack[0, 0]) / alpha
    last = np.floor(trips(names, np)) - 1
    steps_before = parse(max(math.ceil(alike), 0), condition.name)
    searched = replace(condition, loops=((index, steps_before),))
    before = share(searched, names, block)
    alike = max(alike, 0.0)
    return float((np.maximum(last - alike, 0.0) + before * alike) / max(alike, last, 1.0))

"""The average cost of an access over the warps of a block, for whole spaces of configurations at once.

A few warps are evaluated lane by lane, each in another block and loop iteration, so that rows begin at every
offset in a sector.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dse.core.space.expression import Expression
from dse.errors import DseError
from dse.hardware.banks import passes
from dse.hardware.coalescing import LINE, sectors_and_lines
from dse.hardware.lanes import WARP, threads
from dse.kernels.symbolic.subscript import BLOCK_NAMES

SHAPE = ("block x", "block y", "block z", "warp size")  # columns that no parameter can be named like


def distinct_rows(columns: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the distinct rows of columns that broadcast, [n], and the row of each element, [...]."""
    arrays = np.broadcast_arrays(*columns.values())
    codes = np.zeros(arrays[0].size, int)
    for array in (np.ravel(array) for array in arrays):
        if (array != array[:1]).any():
            values, places = np.unique(array, return_inverse=True)
            codes = np.unique(len(values) * codes + places, return_inverse=True)[1]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    distinct = {name: np.ravel(array)[first] for name, array in zip(columns, arrays, strict=True)}
    return distinct, np.reshape(inverse, arrays[0].shape)


SAMPLES = 8  # warps: as many as there are 4-byte elements in a sector
_AT_A_TIME = 2**16  # rows
_STEPS = (1, 3, 5, 7)  # odd: each visits all residues, in a different order


def average_access(
    index: Expression,
    loops: tuple[str, ...],
    names: Mapping[str, Any],
    block: tuple[Any, Any, Any],
    warp_size: Any,
    size: Any,
    shared: bool,
) -> dict[str, np.ndarray]:
    """Count `passes` through the banks of shared memory, or `sectors` and `passes` of global memory, of one
    warp access. The L1 looks up 128-byte lines, and delivers 128 bytes a pass to threads.

    `loops` are the loop indices among the names of `index`; `size` is in bytes, a power of two.
    **Shapes:** `names`, sizes of the block and of a warp [...] broadcast or are scalars; so does the result.
    **Edges:** only the first `SAMPLES` warps of a block count. A warp of 64 accesses shared memory in two
    halves.
    """
    used = {name: value for name, value in names.items() if name in index.names}
    used |= dict(zip(SHAPE, (*block, warp_size), strict=True)) | {"its size": size}
    distinct, inverse = distinct_rows(used)
    parts = [
        _averages(
            index, loops, {name: row[first : first + _AT_A_TIME] for name, row in distinct.items()}, shared
        )
        for first in range(0, max(len(distinct["its size"]), 1), _AT_A_TIME)
    ]
    return {name: np.asarray(np.concatenate([part[name] for part in parts])[inverse]) for name in parts[0]}


def _averages(
    index: Expression, loops: tuple[str, ...], rows: dict[str, np.ndarray], shared: bool
) -> dict[str, np.ndarray]:
    x, y, z, warp_size, size = (rows.pop(name) for name in (*SHAPE, "its size"))
    lanes = 2 * WARP if (warp_size > WARP).any() else WARP
    count = -(-(x * y * z) // warp_size)
    whole = np.where(count < SAMPLES, count * (SAMPLES // np.clip(count, 1, SAMPLES)), SAMPLES)
    totals: dict[str, Any] = {}
    for number in range(SAMPLES):
        thread_indices, mask = threads((x, y, z), number % np.maximum(count, 1), lanes, warp_size)
        loop_indices = {
            name: np.asarray(_STEPS[i % len(_STEPS)] * (number + i // len(_STEPS)) % SAMPLES)
            for i, name in enumerate((*BLOCK_NAMES, *loops))
        }
        columns = {name: row[:, None] for name, row in rows.items()}
        element = np.asarray(index(columns | thread_indices | loop_indices, np))
        if element.dtype.kind == "f":
            raise DseError(f"access: found '{index.text}', a fraction, expected whole numbers, as of //")
        address = np.broadcast_to(element * size[:, None], mask.shape)
        for name, cost in _costs(address, mask, size, shared).items():
            totals[name] = totals.get(name, 0) + np.where(number < whole, cost, 0)
    return {name: total / whole for name, total in totals.items()}


def _costs(address: np.ndarray, mask: np.ndarray, size: np.ndarray, shared: bool) -> dict[str, np.ndarray]:
    if not shared:
        sectors, lines = sectors_and_lines(address, mask)
        return {"sectors": sectors, "passes": np.maximum(lines, -(-mask.sum(-1) * size // LINE))}
    halves, alike = (len(size), -1, WARP), (size == size[0]).all()
    sizes = int(size[0]) if alike else size[:, None]
    return {"passes": passes(address.reshape(halves), mask.reshape(halves), sizes).sum(-1)}

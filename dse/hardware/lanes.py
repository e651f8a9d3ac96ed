"""The threads of a block in the lanes of its warps: x runs fastest, then y, then z."""

from typing import Any

import numpy as np

WARP = 32
_INACTIVE = np.int64(2**62)  # sorts after every address


def threads(
    block: tuple[Any, Any, Any], warp: Any, lanes: int = WARP, size: Any = WARP
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return `tx ty tz ntx nty ntz` in the lanes of a warp, and the mask of lanes with a thread.

    `lanes` is the length of the result; a warp has `size` of them.
    **Shapes:** sizes of the block, the warp's number and `size` [...] broadcast or are scalars; results [...,
    lanes].
    """
    x, y, z = (_column(number) for number in block)
    warp, size = _column(warp), _column(size)
    rank = max(1, *(number.ndim for number in (x, y, z, warp, size)))
    lane = np.arange(lanes).reshape((1,) * (rank - 1) + (lanes,))
    thread = size * warp + lane
    row = _quotient(thread, x)
    layer = _quotient(row, y)
    names = {"tx": thread - row * x, "ty": row - layer * y, "tz": layer}
    return names | {"ntx": x, "nty": y, "ntz": z}, (lane < size) & (thread < x * y * z)


def _quotient(number: np.ndarray, by: np.ndarray) -> np.ndarray:
    """number // by, exact for numbers below 2^20, and several times faster than integer division."""
    inverse = np.float32(1.0) / by.astype(np.float32)
    return ((number.astype(np.float32) + np.float32(0.5)) * inverse).astype(int)


def _column(value: Any) -> np.ndarray:
    """Add an axis for the lanes, except to a scalar."""
    value = np.asarray(value, int)
    return value[..., None] if value.ndim else value


def warps(block: tuple[Any, Any, Any]) -> Any:
    """Return the number of 32-thread warps of a block."""
    x, y, z = block
    return -(-(x * y * z) // WARP)


def sorted_places(places: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the places of each warp, such as sectors, and mark the first of each.

    Inactive lanes are sorted to the end and never marked. **Shapes:** all [..., lanes].
    """
    values = places if mask.all() else np.where(mask, places, _INACTIVE)
    steps = np.diff(values, axis=-1)
    if (steps < 0).any():
        values = np.sort(values, axis=-1)
        steps = np.diff(values, axis=-1)
    firsts = np.empty(values.shape, bool)
    firsts[..., 0] = values[..., 0] < _INACTIVE
    np.logical_and(steps > 0, values[..., 1:] < _INACTIVE, out=firsts[..., 1:])
    return values, firsts

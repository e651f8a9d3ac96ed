"""The threads of a block in the lanes of its warps: x runs fastest, then y, then z."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

WARP = 32
_INACTIVE = np.int64(2**62)  # sorts after every address


def threads(
    block: tuple[Any, Any, Any], warp: Any, xp: Any = jnp, lanes: int = WARP, size: Any = WARP
) -> tuple[dict[str, Any], Any]:
    """Return `tx ty tz ntx nty ntz` in the lanes of a warp, and the mask of lanes with a thread.

    `lanes` is the length of the result; a warp has `size` of them.
    **Shapes:** sizes of the block, the warp's number and `size` [...] broadcast or are scalars; results [...,
    lanes].
    """
    x, y, z = (_column(number, xp) for number in block)
    warp, size = _column(warp, xp), _column(size, xp)
    rank = max(1, *(number.ndim for number in (x, y, z, warp, size)))
    lane = xp.arange(lanes).reshape((1,) * (rank - 1) + (lanes,))
    thread = size * warp + lane
    row = _quotient(thread, x, xp)
    layer = _quotient(row, y, xp)
    names = {"tx": thread - row * x, "ty": row - layer * y, "tz": layer}
    return names | {"ntx": x, "nty": y, "ntz": z}, (lane < size) & (thread < x * y * z)


def _quotient(number: Any, by: Any, xp: Any) -> Any:
    """number // by, exact for numbers below 2^20, and several times faster than integer division."""
    inverse = xp.asarray(1.0, xp.float32) / xp.asarray(by, xp.float32)
    return xp.asarray((xp.asarray(number, xp.float32) + xp.asarray(0.5, xp.float32)) * inverse, int)


def _column(value: Any, xp: Any) -> Any:
    """Add an axis for the lanes, except to a scalar."""
    value = xp.asarray(value, int)
    return value[..., None] if value.ndim else value


def warps(block: tuple[Any, Any, Any]) -> Any:
    """Return the number of 32-thread warps of a block."""
    x, y, z = block
    return -(-(x * y * z) // WARP)


def first(places: Any, mask: Any, xp: Any = jnp) -> Any:
    """Mark the first active lane with each place, such as a sector.

    **Shapes:** places, mask and result [..., n].
    """
    lanes = places.shape[-1]
    before = xp.tri(lanes, k=-1, dtype=bool).reshape((1,) * (places.ndim - 1) + (lanes, lanes))
    same = (places[..., :, None] == places[..., None, :]) & before & mask[..., None, :]
    return mask & ~same.any(-1)


def sorted_places(places: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the places of each warp, and mark the first of each: `first` in NumPy.

    Inactive lanes are sorted to the end and never marked. **Shapes:** as `first`.
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


def distinct(places: Any, mask: Any, xp: Any = jnp) -> Any:
    """Count the distinct places of the active lanes: [...]."""
    return first(places, mask, xp).sum(-1)


def once_computed(value: Any, xp: Any = jnp) -> Any:
    """Return the value behind a barrier: XLA would recompute it for each pair of lanes it compares."""
    return jax.lax.optimization_barrier(value) if xp is jnp else value

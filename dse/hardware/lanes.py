"""Tells which threads of a block lie in which lanes: x runs fastest, then y, then z, 32 threads at a time."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

WARP = 32
_NOWHERE = np.int64(2**62)  # sorts behind every place


def threads(
    block: tuple[Any, Any, Any], warp: Any, xp: Any = jnp, lanes: int = WARP, size: Any = WARP
) -> tuple[dict[str, Any], Any]:
    """Return `tx ty tz ntx nty ntz` in the lanes of a warp, and which lanes have a thread.

    `lanes` are looked at, of which a warp has `size`.
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
    """number // by, of numbers below 2^20, several times faster than whole division: a half keeps it off
    rounding."""
    inverse = xp.asarray(1.0, xp.float32) / xp.asarray(by, xp.float32)
    return xp.asarray((xp.asarray(number, xp.float32) + xp.asarray(0.5, xp.float32)) * inverse, int)


def _column(value: Any, xp: Any) -> Any:
    """With an axis for the lanes; a scalar as it is."""
    value = xp.asarray(value, int)
    return value[..., None] if value.ndim else value


def warps(block: tuple[Any, Any, Any]) -> Any:
    """Return the warps of 32 threads that a block has."""
    x, y, z = block
    return -(-(x * y * z) // WARP)


def first(places: Any, mask: Any, xp: Any = jnp) -> Any:
    """Tell which lanes are the first with their place.

    **Shapes:** places and mask [..., n], and so is the result.
    """
    lanes = places.shape[-1]
    before = xp.tri(lanes, k=-1, dtype=bool).reshape((1,) * (places.ndim - 1) + (lanes, lanes))
    same = (places[..., :, None] == places[..., None, :]) & before & mask[..., None, :]
    return mask & ~same.any(-1)


def sorted_places(places: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the places of each warp, and tell which are there for the first time: NumPy's way to `first`.

    Lanes that do not take part are sorted to the end and are never first. **Shapes:** as `first`.
    """
    values = places if mask.all() else np.where(mask, places, _NOWHERE)
    steps = np.diff(values, axis=-1)
    if (steps < 0).any():
        values = np.sort(values, axis=-1)
        steps = np.diff(values, axis=-1)
    new = np.empty(values.shape, bool)
    new[..., 0] = values[..., 0] < _NOWHERE
    np.logical_and(steps > 0, values[..., 1:] < _NOWHERE, out=new[..., 1:])
    return values, new


def distinct(places: Any, mask: Any, xp: Any = jnp) -> Any:
    """Count the different places of the lanes: [...]."""
    return first(places, mask, xp).sum(-1)


def once_computed(value: Any, xp: Any = jnp) -> Any:
    """Return the value itself, which XLA else computes again for each pair of lanes that it compares."""
    return jax.lax.optimization_barrier(value) if xp is jnp else value

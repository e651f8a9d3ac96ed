"""How often an access to shared memory passes the banks: 16 for half a warp on compute capability 1.x, 32 for
a warp since. Lanes that ask for the same word share a pass.

Elements are aligned to their size. Those of 8 (16) bytes are served half (a quarter of) a warp at a time, or
twice as many where each lane asks for the same as its neighbour, or as the one after that. On 1.x each of
their words is an access of its own. There, only one word a pass is broadcast: where lanes share several, the
count is a lower bound.

Source: NVIDIA, CUDA C Programming Guide 5.0, Secs. F.3.3, F.4.3; for wide accesses an NVIDIA engineer in
NVIDIA's developer forum.
"""

from typing import Any

import jax.numpy as jnp

from dse.hardware.lanes import WARP, first, once_computed

BANKS = 32
WORD = 4  # bytes of a bank


def passes(index: Any, mask: Any, size: Any, xp: Any = jnp) -> Any:
    """Of elements of `size` bytes, since compute capability 2.0; 0 where no lane takes part.

    **Shapes:** index and mask [..., 32], size [...] or a number; result [...].
    """
    if isinstance(size, int) and size <= WORD:
        return _busiest(index * size // WORD, mask, None, BANKS, 1, xp)
    size = xp.asarray(size, int)
    size = size[..., None] if size.ndim else size
    unit = xp.maximum(size, WORD)  # a bank as wide as an element: all its words are free or taken together
    element = index * size // unit
    at_a_time = xp.minimum(BANKS * WORD // unit, BANKS)
    lane = xp.arange(WARP).reshape((1,) * (index.ndim - 1) + (WARP,))
    paired = xp.zeros(mask.shape[:-1], bool)
    for apart in (1, 2):
        other = [number ^ apart for number in range(WARP)]
        same = (element == element[..., xp.asarray(other)]) | ~mask | ~mask[..., xp.asarray(other)]
        paired = paired | same.all(-1)
    served = at_a_time * xp.where(paired, 2, 1)[..., None]
    return _busiest(element, mask, lane // served + xp.zeros_like(index), at_a_time, 8, xp)


def passes_of_half_warps(index: Any, mask: Any, size: int, xp: Any = jnp) -> Any:
    """On compute capability 1.x, both halves together: [...]."""
    total = xp.asarray(0, int)
    for part in range(max(1, size // WORD)):
        word = (index * size + part * WORD) // WORD
        half = xp.arange(WARP).reshape((1,) * (index.ndim - 1) + (WARP,)) // 16 + xp.zeros_like(index)
        total = total + _busiest(word, mask, half, 16, 2, xp)
    return total


def _busiest(element: Any, mask: Any, part: Any, banks: Any, parts: int, xp: Any) -> Any:
    """Different elements of the bank that is asked for most, in each part of the warp (None: it has one); all
    parts together."""
    bank = once_computed(xp.asarray(element % banks, xp.int8), xp)  # in bytes: several times faster
    if part is None:
        chosen = once_computed(first(element, mask, xp), xp)
        same = (bank[..., :, None] == bank[..., None, :]) & chosen[..., None, :]
        return xp.where(mask, same.sum(-1, dtype=xp.int8), 0).max(-1).astype(int)
    chosen = once_computed(first(element * parts + part, mask, xp), xp)  # parts meet in no element
    same = (bank[..., :, None] == bank[..., None, :]) & (part[..., :, None] == part[..., None, :])
    counts = once_computed(xp.where(mask, (same & chosen[..., None, :]).sum(-1, dtype=xp.int8), 0), xp)
    return sum(xp.where(part == number, counts, 0).max(-1).astype(int) for number in range(parts))

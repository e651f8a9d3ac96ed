"""Functions of the table of opcodes across a warp's threads: votes, shuffles, reductions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dse.source.machine.thread_set import Lanes, ballot

U32, I32, I64 = np.uint32, np.int32, np.int64
Array = Any
Modifiers = tuple[str, ...]
_LANE = np.arange(32, dtype=U32)


def _warps(value: Array, lanes: Lanes) -> np.ndarray:
    """Reshape values of threads to [blocks, warps, 32]."""
    blocks, threads = lanes.shape
    return np.broadcast_to(value, lanes.shape).reshape(blocks, threads // 32, 32)


def _threads(value: Array, lanes: Lanes) -> np.ndarray:
    """Reshape [blocks, warps, 32 or 1] to values of threads."""
    blocks, threads = lanes.shape
    return np.broadcast_to(value, (blocks, threads // 32, 32)).reshape(lanes.shape)


def vote(modifiers: Modifiers) -> Callable[..., Any]:
    """VOTE: (active lanes in which a predicate holds; whether it holds in any, in all, or in all or none)."""

    def voted(lanes: Lanes, condition: Array) -> tuple[Array, Array]:
        active, holds = _warps(lanes.mask, lanes), _warps(condition, lanes)
        any_ = np.asarray((active & holds).any(-1, keepdims=True))
        all_ = np.asarray((~active | holds).all(-1, keepdims=True))
        result = any_ if "ANY" in modifiers else all_ if "ALL" in modifiers else all_ | ~any_
        return lambda: _threads(ballot(active & holds)[..., None], lanes), _threads(result, lanes)

    return voted


def elect(lanes: Lanes) -> tuple[Array, Array]:
    """ELECT: (the lowest active lane, whether a lane is the lowest)."""
    lowest = _warps(lanes.mask, lanes).argmax(-1)[..., None].astype(U32)
    return _threads(lowest, lanes), _threads(lowest == _LANE, lanes)


def to_uniform(lanes: Lanes, values: Array) -> tuple[Array, Array]:
    """R2UR: (the value of the lowest active lane, for the whole warp; whether a lane's own differs)."""
    if values.shape[1] == 1:
        return values, np.zeros((1, 1), bool)
    lowest = _warps(lanes.mask, lanes).argmax(-1)[..., None]
    first = _threads(np.take_along_axis(_warps(values, lanes), lowest, axis=-1), lanes)
    return first, lambda: first != values


def shuffle(modifiers: Modifiers) -> Callable[..., Any]:
    """SHFL: (the value of another lane, true); outside the segment the own value, and false."""
    mode = modifiers[0]

    def shuffled(lanes: Lanes, value: Array, distance: Array, clamp: Array) -> tuple[Array, Array]:
        lane = np.arange(32)
        by = _warps(distance & U32(31), lanes).astype(I64)
        limit = _warps(clamp, lanes).astype(I64)
        segment, last = (limit >> 8) & 31, limit & 31
        lowest = lane & segment
        highest = lowest | (last & ~segment)
        if mode == "UP":
            source = lane - by
            inside = source >= highest
        else:
            source = {"DOWN": lane + by, "BFLY": lane ^ by, "IDX": lowest | (by & ~segment)}[mode]
            inside = source <= highest
        source = np.where(inside, source, lane)
        result = np.take_along_axis(_warps(value, lanes), source, axis=-1)
        return _threads(result, lanes), _threads(inside, lanes)

    return shuffled


def match(modifiers: Modifiers) -> Callable[..., Any]:
    """MATCH: the lanes with the same value; .ALL: all lanes if all agree, and whether they do."""

    def matched(lanes: Lanes, value: Array) -> Any:
        values, active = _warps(value, lanes), _warps(lanes.mask, lanes)
        mask = ballot((values[..., :, None] == values[..., None, :]) & active[..., None, :])
        if "ALL" not in modifiers:
            return (_threads(mask, lanes),)
        agree = mask == ballot(active)[..., None]
        return _threads(np.where(agree, mask, U32(0)), lanes), _threads(agree, lanes)

    return matched


REDUCE: dict[str, tuple[Any, int, int]] = {  # function, unsigned and signed neutral element
    "SUM": (np.add, 0, 0),
    "MAX": (np.maximum, 0, -(2**31)),
    "MIN": (np.minimum, 2**32 - 1, 2**31 - 1),
    "AND": (np.bitwise_and, 2**32 - 1, -1),
    "OR": (np.bitwise_or, 0, 0),
    "XOR": (np.bitwise_xor, 0, 0),
}


def reduce(modifiers: Modifiers) -> Callable[..., Array]:
    """REDUX: one value of all active lanes."""
    name = next((name for name in modifiers if name in REDUCE), "OR")
    function, *neutral = REDUCE[name]
    signed = "S32" in modifiers
    kind = I32 if signed else U32

    def reduced(lanes: Lanes, value: Array) -> Array:
        values = np.where(_warps(lanes.mask, lanes), _warps(value, lanes).view(kind), kind(neutral[signed]))
        return _threads(function.reduce(values, axis=-1, keepdims=True, dtype=kind), lanes)

    return reduced

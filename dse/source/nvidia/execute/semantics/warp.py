"""Operations of a warp's threads together: votes, shuffles, reductions."""

from typing import Any

import numpy as np

from dse.source.machine.thread_set import Lanes
from dse.source.nvidia.execute.semantics.binding import (
    I32,
    I64,
    U32,
    Binder,
    Evaluate,
    Registers,
    Unsupported,
    Values,
    rule,
)


def _warps(value: np.ndarray, lanes: Lanes) -> np.ndarray:
    """Values of threads as [blocks, warps, 32]."""
    blocks, threads = lanes.shape
    return np.broadcast_to(value, lanes.shape).reshape(blocks, threads // 32, 32)


def _threads(value: np.ndarray, lanes: Lanes) -> np.ndarray:
    """Back from [blocks, warps, 32 or 1]."""
    blocks, threads = lanes.shape
    return np.broadcast_to(value, (blocks, threads // 32, 32)).reshape(lanes.shape)


_BITS = U32(1) << np.arange(32, dtype=U32)


def _ballot(value: np.ndarray) -> np.ndarray:
    """[..., 32] bool → [..., 1] uint32."""
    return np.bitwise_or.reduce(np.where(value, _BITS, U32(0)), axis=-1, keepdims=True)


@rule
def vote(binder: Binder) -> Evaluate:
    """VOTE: whether a predicate holds in any, all, or all or none of the active lanes; and in which."""
    condition, step = binder.truth(0), binder.step
    with_mask = step.targets[0].kind == "register"

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        active, holds = _warps(lanes.mask, lanes), _warps(condition(r), lanes)
        any_ = np.asarray((active & holds).any(-1, keepdims=True))
        all_ = np.asarray((~active | holds).all(-1, keepdims=True))
        result = any_ if step.has("ANY") else all_ if step.has("ALL") else np.asarray(all_ | ~any_)
        mask = (_threads(_ballot(active & holds), lanes),) if with_mask else ()
        return (*mask, _threads(result, lanes))

    return evaluate


@rule
def elect(binder: Binder) -> Evaluate:
    """ELECT: whether a lane is the lowest of the active ones; and which that is."""
    lane = np.arange(32, dtype=U32)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        lowest = _warps(lanes.mask, lanes).argmax(-1)[..., None].astype(U32)
        return _threads(lane == lowest, lanes), _threads(lowest, lanes)

    return evaluate


@rule
def to_uniform(binder: Binder) -> Evaluate:
    """R2UR: the value of the lowest active lane, for the whole warp."""
    value = binder.word(0)
    if len(binder.step.targets) > 1:
        raise Unsupported("a test of R2UR")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        values = value(r)
        if values.shape[1] == 1:
            return (values,)
        lowest = _warps(lanes.mask, lanes).argmax(-1)[..., None]
        return (_threads(np.take_along_axis(_warps(values, lanes), lowest, axis=-1), lanes),)

    return evaluate


@rule
def shuffle(binder: Binder) -> Evaluate:
    """SHFL: the value of another lane; false and one's own value where that is outside the segment."""
    value, distance, clamp = binder.words(3)
    mode = binder.step.modifiers[0]

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        lane = np.arange(32)
        by = _warps(distance(r) & U32(31), lanes).astype(I64)
        limit = _warps(clamp(r), lanes).astype(I64)
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
        shuffled = np.take_along_axis(_warps(value(r), lanes), source, axis=-1)
        return _threads(inside, lanes), _threads(shuffled, lanes)

    return evaluate


@rule
def match(binder: Binder) -> Evaluate:
    """MATCH: the lanes that hold the same value; .ALL: all if they all do."""
    if binder.step.has("U64"):
        raise Unsupported("64 bits")
    value, everyone = binder.word(0), binder.step.has("ALL")

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        values, active = _warps(value(r), lanes), _warps(lanes.mask, lanes)
        equal = (values[..., :, None] == values[..., None, :]) & active[..., None, :]
        mask = _ballot(equal)[..., 0]
        if not everyone:
            return (_threads(mask, lanes),)
        agree = mask == _ballot(active)
        return _threads(agree, lanes), _threads(np.where(agree, mask, U32(0)), lanes)

    return evaluate


_REDUCE: dict[str, tuple[Any, int, int]] = {  # function, neutral element if unsigned, if signed
    "SUM": (np.add, 0, 0),
    "MAX": (np.maximum, 0, -(2**31)),
    "MIN": (np.minimum, 2**32 - 1, 2**31 - 1),
    "AND": (np.bitwise_and, 2**32 - 1, -1),
    "OR": (np.bitwise_or, 0, 0),
    "XOR": (np.bitwise_xor, 0, 0),
}


@rule
def reduce(binder: Binder) -> Evaluate:
    """REDUX: one value of all active lanes."""
    name = next((name for name in binder.step.modifiers if name in _REDUCE), "OR")
    function, *neutral = _REDUCE[name]
    signed = binder.step.has("S32")
    kind = I32 if signed else U32
    value = binder.word(0)

    def evaluate(r: Registers, lanes: Lanes) -> Values:
        values = np.where(
            _warps(lanes.mask, lanes), _warps(value(r), lanes).view(kind), kind(neutral[signed])
        )
        result = function.reduce(values, axis=-1, keepdims=True, dtype=kind)
        return (_threads(result.view(U32), lanes),)

    return evaluate

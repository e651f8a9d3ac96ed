"""Attention in half precision: a program holds some queries and goes once over all keys and values.

The softmax is kept up as it goes: a new maximum scales down what was summed before.
"""

import triton
import triton.language as tl


@triton.jit
def attention(
    queries, keys, values, result, length, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64) * length * HEAD
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_N)
    lane = tl.arange(0, HEAD)
    inside = (row < length)[:, None]
    query = tl.load(queries + head + row[:, None] * HEAD + lane[None, :], mask=inside, other=0.0)
    highest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    weight = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    end = tl.minimum(length, (tl.program_id(0) + 1) * BLOCK_M) if CAUSAL else length
    for first in range(0, end, BLOCK_N):
        there = first + column < length
        key = tl.load(
            keys + head + (first + column)[None, :] * HEAD + lane[:, None], mask=there[None, :], other=0.0
        )
        score = tl.dot(query, key) * (scale * 1.4426950408889634)  # powers of 2 in the place of e
        seen = there[None, :] & ((first + column)[None, :] <= row[:, None]) if CAUSAL else there[None, :]
        score = tl.where(seen, score, -float("inf"))
        higher = tl.maximum(highest, tl.max(score, axis=1))
        power = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(highest - higher)
        weight = weight * shrink + tl.sum(power, axis=1)
        value = tl.load(
            values + head + (first + column)[:, None] * HEAD + lane[None, :], mask=there[:, None], other=0.0
        )
        total = tl.dot(power.to(tl.float16), value, total * shrink[:, None])
        highest = higher
    out = result + head + row[:, None] * HEAD + lane[None, :]
    tl.store(out, (total / weight[:, None]).to(tl.float16), mask=inside)

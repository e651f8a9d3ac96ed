"""Rows of a matrix moved and scaled to mean 0 and variance 1, then by a weight and a bias for each column."""

import triton
import triton.language as tl


@triton.jit
def layer_norm(result, matrix, weight, bias, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    column = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        inside = first + column < columns
        values = tl.load(matrix + row + first + column, mask=inside, other=0.0).to(tl.float32)
        sums += values
        squares += values * values
    mean = tl.sum(sums) / columns
    scale = tl.rsqrt(tl.sum(squares) / columns - mean * mean + epsilon)
    for first in range(0, columns, BLOCK):
        inside = first + column < columns
        values = tl.load(matrix + row + first + column, mask=inside, other=0.0).to(tl.float32)
        by = tl.load(weight + first + column, mask=inside)
        plus = tl.load(bias + first + column, mask=inside)
        tl.store(result + row + first + column, (values - mean) * scale * by + plus, mask=inside)

"""Softmax of the rows of a matrix: a program takes some whole rows, which stay in registers."""

import triton
import triton.language as tl


@triton.jit
def softmax(result, matrix, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    at = row[:, None] * columns + column[None, :]
    values = tl.load(matrix + at, mask=inside, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=1)[:, None])
    tl.store(result + at, powers / tl.sum(powers, axis=1)[:, None], mask=inside)

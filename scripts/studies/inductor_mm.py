"""A product of matrices after PyTorch Inductor's template of mid-2024, with what it fills in as constants.

It has the order of blocks, hints, masks, conversion and loop of torch/_inductor/kernel/mm.py: held against
published versions of that file from before and after PyTorch 2.4.
"""

import triton
import triton.language as tl


@triton.jit
def product(
    A, B, C,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    a_row: tl.constexpr, a_column: tl.constexpr, b_row: tl.constexpr, b_column: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    tiles_m = (M + BLOCK_M - 1) // BLOCK_M
    tiles_n = (N + BLOCK_N - 1) // BLOCK_N
    width = GROUP_M * tiles_n
    group = program // width
    height = min(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + program % height
    tile_n = (program % width) // height

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    # What Inductor says where operands have no gaps.
    if (a_row == 1 and a_column == M) or (a_row == K and a_column == 1):
        a_rows = tl.max_contiguous(tl.multiple_of(rows % M, BLOCK_M), BLOCK_M)
    else:
        a_rows = rows % M
    if (b_row == 1 and b_column == K) or (b_row == N and b_column == 1):
        b_columns = tl.max_contiguous(tl.multiple_of(columns % N, BLOCK_N), BLOCK_N)
    else:
        b_columns = columns % N
    depth = tl.arange(0, BLOCK_K)
    a_at = A + (a_rows[:, None] * a_row + depth[None, :] * a_column)
    b_at = B + (depth[:, None] * b_row + b_columns[None, :] * b_column)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for left in range(K, 0, -BLOCK_K):
        if K % BLOCK_K == 0:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            a = tl.load(a_at, mask=depth[None, :] < left, other=0.0)
            b = tl.load(b_at, mask=depth[:, None] < left, other=0.0)
        total += tl.dot(a, b.to(a.dtype), input_precision=PRECISION)
        a_at += BLOCK_K * a_column
        b_at += BLOCK_K * b_row
    row = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    column = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    tl.store(C + (column + N * row), total.to(C.dtype.element_ty), mask=(row < M) & (column < N))

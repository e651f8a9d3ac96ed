"""C = A @ B in half precision, sums in single: a program makes a tile of C."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, M, N, K, a_row, b_row, c_row,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    # Programs that follow one another share GROUP_M rows of tiles, so that the L2 keeps what they read.
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    first_m = program // (GROUP_M * tiles_n) * GROUP_M
    height = min(GROUP_M, tiles_m - first_m)
    within = program % (GROUP_M * tiles_n)
    tile_m, tile_n = first_m + within % height, within // height

    row = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    # Rows and columns beyond the edge are read from its other side: their sums are not stored.
    a_at = a + (row % M)[:, None] * a_row + depth[None, :]
    b_at = b + depth[:, None] * b_row + (column % N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a_tile = tl.load(a_at, mask=depth[None, :] < left, other=0.0)
        b_tile = tl.load(b_at, mask=depth[:, None] < left, other=0.0)
        total = tl.dot(a_tile, b_tile, total)
        a_at += BLOCK_K
        b_at += BLOCK_K * b_row
    inside = (row < M)[:, None] & (column < N)[None, :]
    tl.store(c + row[:, None] * c_row + column[None, :], total.to(tl.float16), mask=inside)

"""The products of a mixture of experts in half precision: each token's row by the matrices of its experts.

Tokens are sorted by expert and padded, so that all rows of a tile go to one. `tokens` has, in that order,
which row of the result each makes, token times `top_k` and which of its experts; a pad has a number beyond.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["pairs", "top_k", "tiles_m"])  # one code, however many tokens there are
def moe(
    inputs, experts, result, tokens, expert_of_tile, padded, N, K, pairs, top_k, tiles_m,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    first_m = program // (GROUP_M * tiles_n) * GROUP_M
    height = min(GROUP_M, tiles_m - first_m)
    within = program % (GROUP_M * tiles_n)
    tile_m, tile_n = first_m + within % height, within // height
    if tile_m * BLOCK_M >= tl.load(padded):
        return

    pair = tl.load(tokens + tile_m * BLOCK_M + tl.arange(0, BLOCK_M))
    real = pair < pairs
    matrix = experts + tl.load(expert_of_tile + tile_m).to(tl.int64) * N * K
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = inputs + (pair // top_k)[:, None] * K + depth[None, :]
    b_at = matrix + (column % N)[None, :] * K + depth[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a_tile = tl.load(a_at, mask=real[:, None] & (depth[None, :] < left), other=0.0)
        b_tile = tl.load(b_at, mask=depth[:, None] < left, other=0.0)
        total = tl.dot(a_tile, b_tile, total)
        a_at += BLOCK_K
        b_at += BLOCK_K
    inside = real[:, None] & (column < N)[None, :]
    tl.store(result + pair[:, None] * N + column[None, :], total.to(tl.float16), mask=inside)

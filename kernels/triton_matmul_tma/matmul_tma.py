"""C = A @ B in half precision, sums in single: tiles are brought and taken by descriptors."""

import triton
import triton.language as tl


@triton.jit
def matmul_tma(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    program = tl.program_id(0)
    first_m = program // (GROUP_M * tiles_n) * GROUP_M
    height = min(GROUP_M, tiles_m - first_m)
    within = program % (GROUP_M * tiles_n)
    row, column = (first_m + within % height) * BLOCK_M, within // height * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for depth in range(0, K, BLOCK_K):
        total = tl.dot(a.load([row, depth]), b.load([depth, column]), total)
    c.store([row, column], total.to(tl.float16))

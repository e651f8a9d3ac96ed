"""Kernels for `test_triton_kernels`: C = A B, row by row in memory; sizes are multiples of the blocks'."""

import triton
import triton.language as tl


@triton.jit
def by_pointers(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    block = tl.program_id(0)
    across = tl.cdiv(n, BN)
    rows = block // across * BM + tl.arange(0, BM)
    columns = block % across * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a += rows[:, None] * k + inner[None, :]
    b += inner[:, None] * n + columns[None, :]
    sums = tl.zeros((BM, BN), c.dtype.element_ty)
    for done in range(0, k, BK):
        x = tl.load(a, mask=inner[None, :] < k - done, other=0.0)
        y = tl.load(b, mask=inner[:, None] < k - done, other=0.0)
        sums = tl.dot(x, y, sums, out_dtype=c.dtype.element_ty)
        a += BK
        b += BK * n
    tl.store(
        c + rows[:, None] * n + columns[None, :], sums, mask=(rows[:, None] < m) & (columns[None, :] < n)
    )


@triton.jit
def by_boxes(a, b, c, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, OWN_WARPS: tl.constexpr):
    block = tl.program_id(0)
    across = tl.cdiv(n, BN)
    row, column = block // across * BM, block % across * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for done in tl.range(0, k, BK, warp_specialize=OWN_WARPS):  # pyright: ignore
        sums = tl.dot(a.load([row, done]), b.load([done, column]), sums)
    c.store([row, column], sums.to(tl.float16))

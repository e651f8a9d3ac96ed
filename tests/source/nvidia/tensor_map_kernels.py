"""One product of matrices in Triton: by descriptors made in the kernel, by arguments, and by pointers."""

import triton
import triton.language as tl


@triton.jit
def described(start, rows, columns, step, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.make_tensor_descriptor(start, [rows, columns], [columns, step], [ROWS, COLUMNS])


@triton.jit
def made(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = described(a_ptr, M, K, 1, BM, BK)
    b = described(b_ptr, K, N, 1, BK, BN)
    c = described(c_ptr, M, N, 1, BM, BN)
    by_boxes(a, b, c, K, BM, BN, BK)


@triton.jit
def by_boxes(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM
    j = tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a.load([i, k]), b.load([k, j]), sums)
    c.store([i, j], sums.to(tl.float16))


@triton.jit
def by_pointers(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    j = (tl.program_id(1) * BN + tl.arange(0, BN))[None, :]
    k = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        a = tl.load(a_ptr + i * K + (first + k)[None, :], mask=i < M, other=0.0)
        b = tl.load(b_ptr + (first + k)[:, None] * N + j, mask=j < N, other=0.0)
        sums = tl.dot(a, b, sums)
    tl.store(c_ptr + i * N + j, sums.to(tl.float16), mask=(i < M) & (j < N))


@triton.jit
def grouped(pointers, rows, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    for group in range(groups):
        M = tl.load(rows + group)
        a_ptr = tl.load(pointers + 3 * group).to(tl.pointer_type(tl.float16))
        b_ptr = tl.load(pointers + 3 * group + 1).to(tl.pointer_type(tl.float16))
        c_ptr = tl.load(pointers + 3 * group + 2).to(tl.pointer_type(tl.float16))
        made(a_ptr, b_ptr, c_ptr, M, N, K, BM, BN, BK)

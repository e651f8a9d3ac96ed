// C = A * B, single precision, row by row: A is m x k, B is k x n. Each thread makes one element of C.
// Tuning parameters: BLOCK_X, BLOCK_Y (threads along n and m).

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
matmul_naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k)
{
    const int column = blockIdx.x * BLOCK_X + threadIdx.x;
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y;
    if (row >= m || column >= n) {
        return;
    }
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        sum += a[row * k + i] * b[i * n + column];
    }
    c[row * n + column] = sum;
}

// y = A * x for a sparse matrix, single precision. Row r of A has its elements, and their columns, from starts[r] up
// to starts[r + 1]. LANES threads share a row: they take its elements in turn and add up what they have by shuffles.
// How long a warp works depends on its longest row, and which parts of x it reads on the columns.
// Tuning parameters: BLOCK (threads, a multiple of 32), LANES (a power of two up to 32).

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef LANES
#define LANES 8
#endif

static_assert(BLOCK % 32 == 0, "whole warps");
static_assert(LANES >= 1 && LANES <= 32 && (LANES & (LANES - 1)) == 0, "LANES is a power of two up to 32");

extern "C" __global__ void __launch_bounds__(BLOCK)
spmv_csr(const float* __restrict__ values, const int* __restrict__ columns, const int* __restrict__ starts,
         const float* __restrict__ x, float* __restrict__ y, int rows)
{
    const int lane = threadIdx.x % LANES;
    const int row = (blockIdx.x * BLOCK + threadIdx.x) / LANES;
    const bool inside = row < rows; // threads beyond the last row stay for the shuffles
    float sum = 0.0f;
    if (inside) {
        const int end = starts[row + 1];
        for (int i = starts[row] + lane; i < end; i += LANES) {
            sum += values[i] * x[columns[i]];
        }
    }
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, distance, LANES);
    }
    if (inside && lane == 0) {
        y[row] = sum;
    }
}

// Star-shaped stencil in two dimensions, single precision: each output is a weighted sum of an input and of its
// neighbours up to RADIUS away along x and y. The input has a rim of RADIUS around it; `pitch` is its row length.
// A thread makes ROWS outputs below one another, BLOCK_Y apart.
// Tuning parameters: BLOCK_X, BLOCK_Y, ROWS, SHARED (1: the block's tile of the input goes through shared memory).

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef SHARED
#define SHARED 0
#endif
#ifndef RADIUS
#define RADIUS 1
#endif

__constant__ float weights[RADIUS + 1];

// The weighted sum around *center, in an array of rows `pitch` long.
__device__ __forceinline__ float weighted_sum(const float* center, int pitch)
{
    float sum = weights[0] * center[0];
#pragma unroll
    for (int d = 1; d <= RADIUS; ++d) {
        sum += weights[d] * ((center[-d] + center[d]) + (center[-d * pitch] + center[d * pitch]));
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
stencil2d(const float* __restrict__ input, float* __restrict__ output, int width, int height, int pitch)
{
    const int x = blockIdx.x * BLOCK_X + threadIdx.x;
    const int top = blockIdx.y * BLOCK_Y * ROWS;

#if SHARED
    constexpr int tile_x = BLOCK_X + 2 * RADIUS;
    constexpr int tile_y = BLOCK_Y * ROWS + 2 * RADIUS;
    __shared__ float tile[tile_y][tile_x];
    for (int i = threadIdx.y; i < tile_y; i += BLOCK_Y) {
        for (int j = threadIdx.x; j < tile_x; j += BLOCK_X) {
            const int from_x = blockIdx.x * BLOCK_X + j;
            if (from_x < width + 2 * RADIUS && top + i < height + 2 * RADIUS) {
                tile[i][j] = input[(top + i) * pitch + from_x];
            }
        }
    }
    __syncthreads();
#endif

#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        const int y = top + threadIdx.y + r * BLOCK_Y;
        if (x < width && y < height) {
#if SHARED
            const float* center = &tile[threadIdx.y + r * BLOCK_Y + RADIUS][threadIdx.x + RADIUS];
            output[y * width + x] = weighted_sum(center, tile_x);
#else
            output[y * width + x] = weighted_sum(&input[(y + RADIUS) * pitch + x + RADIUS], pitch);
#endif
        }
    }
}

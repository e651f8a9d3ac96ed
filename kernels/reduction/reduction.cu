// Sums an array of floats: each block its part, into one partial sum. Launched again on the partial sums, it ends
// with one. A thread first adds up ITEMS elements, BLOCK apart, then the block adds up its threads' sums: through
// shared memory alone, half as many threads at each step, or within warps by shuffles and once through shared
// memory between them.
// Tuning parameters: BLOCK (threads, a power of two), ITEMS, SHUFFLE.

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef ITEMS
#define ITEMS 4
#endif
#ifndef SHUFFLE
#define SHUFFLE 1
#endif

constexpr int warp = 32;

__device__ __forceinline__ float sum_of_warp(float sum)
{
#pragma unroll
    for (int distance = warp / 2; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    }
    return sum;
}

// The block's sum, in its thread 0.
__device__ __forceinline__ float sum_of_block(float sum)
{
    const int thread = threadIdx.x;
#if SHUFFLE
    constexpr int warps = BLOCK / warp;
    __shared__ float sums[warp];
    sum = sum_of_warp(sum);
    if (thread % warp == 0) {
        sums[thread / warp] = sum;
    }
    __syncthreads();
    if (thread < warp) {
        sum = sum_of_warp(thread < warps ? sums[thread] : 0.0f);
    }
    return sum;
#else
    __shared__ float sums[BLOCK];
    sums[thread] = sum;
    __syncthreads();
#pragma unroll
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
        __syncthreads();
    }
    return sums[0];
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK)
reduction(const float* __restrict__ input, float* __restrict__ sums, int count)
{
    const int first = blockIdx.x * BLOCK * ITEMS + threadIdx.x;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = first + i * BLOCK;
        sum += at < count ? input[at] : 0.0f;
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}

// Histogram of 32-bit values that are below BINS. A block counts into COPIES histograms in shared memory, its warps
// in turn into one and the next, then adds these to the one in global memory.
// Tuning parameters: BLOCK (threads), ITEMS (values of a thread), COPIES.

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef ITEMS
#define ITEMS 8
#endif
#ifndef COPIES
#define COPIES 1
#endif
#ifndef BINS
#define BINS 256
#endif

constexpr int warp = 32;

extern "C" __global__ void __launch_bounds__(BLOCK)
histogram(const unsigned* __restrict__ values, unsigned* __restrict__ counts, int count)
{
    __shared__ unsigned copies[COPIES][BINS];
    unsigned* all = &copies[0][0];
    for (int i = threadIdx.x; i < COPIES * BINS; i += BLOCK) {
        all[i] = 0;
    }
    __syncthreads();

    unsigned* mine = copies[threadIdx.x / warp % COPIES];
    const int first = blockIdx.x * BLOCK * ITEMS + threadIdx.x;
    unsigned value[ITEMS]; // loaded together, so that their latencies overlap
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = first + i * BLOCK;
        value[i] = at < count ? values[at] : 0;
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        if (first + i * BLOCK < count) {
            atomicAdd(&mine[value[i]], 1u);
        }
    }
    __syncthreads();

    for (int bin = threadIdx.x; bin < BINS; bin += BLOCK) {
        unsigned sum = 0;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy) {
            sum += copies[copy][bin];
        }
        atomicAdd(&counts[bin], sum);
    }
}

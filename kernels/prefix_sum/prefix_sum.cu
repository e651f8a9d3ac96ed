// Prefix sums of an array of floats, each including its own element: a block those of its part, beginning at 0, and
// the part's total. Launched on the totals in turn, and on the parts once more with `offsets`, the prefix sums of the
// totals, it gives those of the whole array. A thread takes ITEMS neighbours. The sums of the block's threads are
// combined by shuffles within warps and once between them, or up and down a tree in shared memory, where at each
// level fewer threads have work.
// Tuning parameters: BLOCK (threads, a power of two, at least 32), ITEMS, SHUFFLE.

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
constexpr unsigned everyone = 0xffffffffu;
static_assert(BLOCK >= warp && (BLOCK & (BLOCK - 1)) == 0, "BLOCK is a power of two, at least 32");

// The sum of `value` over the warp's threads up to this one.
__device__ __forceinline__ float up_to_lane(float value)
{
    const int lane = threadIdx.x % warp;
#pragma unroll
    for (int distance = 1; distance < warp; distance *= 2) {
        const float before = __shfl_up_sync(everyone, value, distance);
        value += lane >= distance ? before : 0.0f;
    }
    return value;
}

// The sum of `value` over the block's threads before this one.
__device__ __forceinline__ float before_thread(float value)
{
    const int thread = threadIdx.x;
#if SHUFFLE
    constexpr int warps = BLOCK / warp;
    __shared__ float totals[warps];
    const float upto = up_to_lane(value);
    if (thread % warp == warp - 1) {
        totals[thread / warp] = upto;
    }
    __syncthreads();
    if (thread < warp) {
        const float sum = up_to_lane(thread < warps ? totals[thread] : 0.0f);
        if (thread < warps) {
            totals[thread] = sum;
        }
    }
    __syncthreads();
    return (thread >= warp ? totals[thread / warp - 1] : 0.0f) + upto - value;
#else
    __shared__ float sums[BLOCK];
    sums[thread] = value;
    for (int distance = 1; distance < BLOCK; distance *= 2) { // up: each node the sum of its two halves
        __syncthreads();
        const int right = 2 * distance * (thread + 1) - 1;
        if (right < BLOCK) {
            sums[right] += sums[right - distance];
        }
    }
    __syncthreads();
    if (thread == 0) {
        sums[BLOCK - 1] = 0.0f;
    }
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) { // down: each node what is before it
        __syncthreads();
        const int right = 2 * distance * (thread + 1) - 1;
        if (right < BLOCK) {
            const float left_sum = sums[right - distance];
            sums[right - distance] = sums[right];
            sums[right] += left_sum;
        }
    }
    __syncthreads();
    return sums[thread];
#endif
}

// `totals` and `offsets` may be null.
extern "C" __global__ void __launch_bounds__(BLOCK)
prefix_sum(const float* __restrict__ input, float* __restrict__ output, float* __restrict__ totals,
           const float* __restrict__ offsets, int count)
{
    const int first = (blockIdx.x * BLOCK + threadIdx.x) * ITEMS;
    float sums[ITEMS];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        sum += first + i < count ? input[first + i] : 0.0f;
        sums[i] = sum;
    }
    float before = before_thread(sum);
    if (threadIdx.x == BLOCK - 1 && totals != nullptr) {
        totals[blockIdx.x] = before + sum;
    }
    if (blockIdx.x > 0 && offsets != nullptr) {
        before += offsets[blockIdx.x - 1];
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        if (first + i < count) {
            output[first + i] = before + sums[i];
        }
    }
}

// Shared by the microbenchmarks: the clocks of an SM, and the record of a warp's start and end.

constexpr int warp = 32;
constexpr int numbers = 4; // recorded by a warp: cycles at start and end, its SM, nanoseconds between
constexpr long long patience = 20000; // cycles to wait for the other blocks of the SM

__device__ __forceinline__ long long cycles()
{
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

__device__ __forceinline__ long long nanoseconds()
{
    long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

__device__ __forceinline__ unsigned this_sm()
{
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

// Blocks start at different times: those of an SM wait here for each other, for a limited time.
__device__ __forceinline__ void together(unsigned* arrived, unsigned blocks)
{
    if (threadIdx.x == 0) {
        unsigned* const here = arrived + this_sm();
        atomicAdd(here, 1u);
        const long long begun = cycles();
        while (*(volatile unsigned*)here < blocks && cycles() - begun < patience) {
        }
    }
    __syncthreads();
}

struct Stopwatch {
    long long from_ns;
    long long from;

    __device__ __forceinline__ Stopwatch() : from_ns(nanoseconds()), from(cycles()) {}

    __device__ __forceinline__ void stop(long long* times) const
    {
        const long long to = cycles();
        const long long to_ns = nanoseconds();
        if (threadIdx.x % warp == 0) {
            const int place = (blockIdx.x * ((blockDim.x + warp - 1) / warp) + threadIdx.x / warp) * numbers;
            times[place] = from;
            times[place + 1] = to;
            times[place + 2] = this_sm();
            times[place + 3] = to_ns - from_ns;
        }
    }
};

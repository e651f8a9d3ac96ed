// The cost of a launch, and the clock of the SMs.

#include "timing.cuh"

extern "C" __global__ void empty() {}

// Waits for some nanoseconds and counts the cycles, which give the clock.
extern "C" __global__ void tick(long long* times, long long wait)
{
    const Stopwatch watch;
    while (nanoseconds() - watch.from_ns < wait) {
    }
    watch.stop(times);
}

// The same, while all lanes multiply and add.
extern "C" __global__ void __launch_bounds__(1024) burn(long long* times, long long wait, float f, float* never)
{
    float x[8] = {};
    const Stopwatch watch;
    while (nanoseconds() - watch.from_ns < wait) {
#pragma unroll 1
        for (int trip = 0; trip < 64; ++trip) {
#pragma unroll
            for (int i = 0; i < 64; ++i) {
                x[i % 8] = x[i % 8] * f + f;
            }
        }
    }
    watch.stop(times);
    if (wait < 0) {
        *never = x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
    }
}

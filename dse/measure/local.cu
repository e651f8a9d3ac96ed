// Local memory: each thread stores to, or loads from, words of its own that are no registers.
// Macros: STORE, WORDS, REPEAT.

#include "timing.cuh"

#ifndef STORE
#define STORE 1
#endif
#ifndef WORDS
#define WORDS 8
#endif
#ifndef REPEAT
#define REPEAT 128
#endif

extern "C" __global__ void __launch_bounds__(1024)
local(long long* times, unsigned* arrived, unsigned blocks_per_sm, int trips, float value, float* never)
{
    volatile float words[WORDS];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        words[i] = value;
    }
    together(arrived, blocks_per_sm);
    const Stopwatch watch;
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) {
#pragma unroll
        for (int repeat = 0; repeat < REPEAT; ++repeat) {
            if (STORE) {
                words[repeat % WORDS] = value;
            } else {
                sum += words[repeat % WORDS];
            }
        }
    }
    if (sum + words[0] == 12345.0f && trips < 0) {
        *never = sum;
    }
    watch.stop(times);
}

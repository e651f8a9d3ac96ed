// Local memory: each thread stores to, or loads from, its own words outside of registers.
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
local(long long* times, unsigned* arrived, unsigned blocks_per_sm, int trips, unsigned* never)
{
    unsigned words[WORDS], next[WORDS];
    // Zeros unknown to the compiler, which would otherwise keep the words in registers, volatile or not.
    const unsigned first = (unsigned)__cvta_generic_to_local(words) + ((unsigned)trips >> 31);
#pragma unroll
    for (int i = 0; i < WORDS; ++i) { // a word holds its own address
        next[i] = first + 4 * i + (blocks_per_sm >> 31);
        asm volatile("st.local.u32 [%0], %1;" ::"r"(first + 4 * i), "r"(next[i]) : "memory");
    }
    together(arrived, blocks_per_sm);
    const Stopwatch watch;
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) {
#pragma unroll
        for (int repeat = 0; repeat < REPEAT; ++repeat) {
            unsigned& word = next[repeat % WORDS];
            if (STORE) {
                asm volatile("st.local.u32 [%0], %1;" ::"r"(first + 4 * (repeat % WORDS)), "r"(word) : "memory");
            } else {
                asm volatile("ld.local.u32 %0, [%0];" : "+r"(word)::"memory");
            }
        }
    }
    unsigned sum;
    asm volatile("ld.local.u32 %0, [%1];" : "=r"(sum) : "r"(first) : "memory");
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        sum ^= next[i];
    }
    if (sum == 12345u && trips < 0) {
        *never = sum;
    }
    watch.stop(times);
}

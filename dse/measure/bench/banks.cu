// Shared memory: independent loads or stores of WIDTH words. `degree` threads of a warp access one bank, each
// another word; 0: all threads access the same word.
// Macros: WIDTH (1, 2, 4), STORE, REPEAT.

#include "timing.cuh"

#ifndef WIDTH
#define WIDTH 1
#endif
#ifndef STORE
#define STORE 0
#endif
#ifndef REPEAT
#define REPEAT 256
#endif

template <int width> struct Words;
template <> struct Words<1> {
    static __device__ __forceinline__ void load(unsigned at)
    {
        float a;
        asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(a) : "r"(at));
    }
    static __device__ __forceinline__ void store(unsigned at, float a)
    {
        asm volatile("st.volatile.shared.f32 [%0], %1;" ::"r"(at), "f"(a));
    }
};
template <> struct Words<2> {
    static __device__ __forceinline__ void load(unsigned at)
    {
        float a, b;
        asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b) : "r"(at));
    }
    static __device__ __forceinline__ void store(unsigned at, float a)
    {
        asm volatile("st.volatile.shared.v2.f32 [%0], {%1, %1};" ::"r"(at), "f"(a));
    }
};
template <> struct Words<4> {
    static __device__ __forceinline__ void load(unsigned at)
    {
        float a, b, c, d;
        asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
                     : "r"(at));
    }
    static __device__ __forceinline__ void store(unsigned at, float a)
    {
        asm volatile("st.volatile.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(at), "f"(a));
    }
};

extern "C" __global__ void __launch_bounds__(1024)
banks(long long* times, unsigned* arrived, unsigned blocks_per_sm, int trips, int degree, float value)
{
    alignas(16) __shared__ float words[32 * 32 * WIDTH];
    const int lane = threadIdx.x % warp;
    const int element = degree == 0 ? 0 : lane < degree ? warp * lane : lane;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&words[element * WIDTH]);
    together(arrived, blocks_per_sm);
    const Stopwatch watch;
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) {
#pragma unroll
        for (int repeat = 0; repeat < REPEAT; ++repeat) {
            if (STORE) {
                Words<WIDTH>::store(at, value);
            } else {
                Words<WIDTH>::load(at);
            }
        }
    }
    // The last loads are still in flight, and a barrier does not wait for them; a dependent load does.
    float last;
    asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(last) : "r"(at));
    if (last == 12345.0f && value != 0.0f) {
        times[0] = 0;
    }
    watch.stop(times);
}

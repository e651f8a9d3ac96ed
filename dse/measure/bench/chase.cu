// Latency of memory: one thread chases pointers through lines in random order; each load waits for the previous one.
// Macros: CACHE (ca: through the L1, cg: past it), REPEAT.

#include "timing.cuh"

#ifndef CACHE
#define CACHE ca
#endif
#ifndef REPEAT
#define REPEAT 64
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

// Line i points to line (factor * i + 1) % lines. With lines a power of two and factor - 1 a multiple of four, this is
// one ring through all of them (Hull and Dobell, 1962).
extern "C" __global__ void link(char* base, unsigned long long lines, unsigned long long stride,
                                unsigned long long factor)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += step) {
        *(char**)(base + i * stride) = base + ((factor * i + 1) & (lines - 1)) * stride;
    }
}

// Loads the lines into the L2, as far as they fit.
extern "C" __global__ void touch(const char* base, unsigned long long lines, unsigned long long stride, char** never)
{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += step) {
        char* next;
        asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(base + i * stride));
        if (next == nullptr) {
            *never = next;
        }
    }
}

__device__ __forceinline__ char* follow(char* at)
{
    asm volatile("ld.global." TEXT(CACHE) ".u64 %0, [%0];" : "+l"(at));
    return at;
}

// `before`: untimed loads that fill the L1.
extern "C" __global__ void chase(long long* times, char* base, int before, int trips, char** never)
{
    char* at = base;
#pragma unroll 1
    for (int i = 0; i < before; ++i) {
        at = follow(at);
    }
    if (at == nullptr) { // never true, but waits for the last load
        *never = at;
    }
    const Stopwatch watch;
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) {
#pragma unroll
        for (int repeat = 0; repeat < REPEAT; ++repeat) {
            at = follow(at);
        }
    }
    if (at == nullptr) {
        *never = at;
    }
    watch.stop(times);
}

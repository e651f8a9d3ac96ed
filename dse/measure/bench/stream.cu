// Bandwidth: threads go through an array in rounds, several accesses of WIDTH bytes in flight each. Neighbouring threads
// are `stride` accesses apart. Either all blocks share the array, or each has `own` accesses for itself.
// Macros: MODE (0: read, 1: write, 2: copy), WIDTH (4, 8, 16), CACHE (ca, cg).

#include "timing.cuh"

#ifndef MODE
#define MODE 0
#endif
#ifndef WIDTH
#define WIDTH 16
#endif
#ifndef CACHE
#define CACHE cg
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

constexpr int in_flight = WIDTH < 16 ? 8 : 4; // more would not fit into the registers of a full SM
constexpr bool reads = MODE != 1;
constexpr bool writes = MODE != 0;

template <int bytes> struct Piece;
template <> struct Piece<4> {
    unsigned a;
    __device__ void load(const char* at) { asm volatile("ld.global." TEXT(CACHE) ".u32 %0, [%1];" : "=r"(a) : "l"(at)); }
    __device__ void store(char* at) const { asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(a) : "memory"); }
    __device__ unsigned sum() const { return a; }
};
template <> struct Piece<8> {
    unsigned a, b;
    __device__ void load(const char* at)
    {
        asm volatile("ld.global." TEXT(CACHE) ".v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(at));
    }
    __device__ void store(char* at) const
    {
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(a), "r"(b) : "memory");
    }
    __device__ unsigned sum() const { return a ^ b; }
};
template <> struct Piece<16> {
    unsigned a, b, c, d;
    __device__ void load(const char* at)
    {
        asm volatile("ld.global." TEXT(CACHE) ".v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "l"(at));
    }
    __device__ void store(char* at) const
    {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
    }
    __device__ unsigned sum() const { return a ^ b ^ c ^ d; }
};

// `count`: accesses of all threads in a round, or of a block's; a multiple of `in_flight` times the threads that share it.
extern "C" __global__ void __launch_bounds__(1024)
stream(long long* times, unsigned* arrived, unsigned blocks_per_sm, const char* from, char* to, long long count,
       long long own, int stride, int rounds, unsigned* never)
{
    const long long thread = own ? threadIdx.x : (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long threads = own ? blockDim.x : (long long)gridDim.x * blockDim.x;
    const long long begin = own * blockIdx.x;
    const long long apart = threads * stride * WIDTH; // bytes
    Piece<WIDTH> piece[in_flight] = {};
    unsigned sum = 0;
    together(arrived, blocks_per_sm);
    const Stopwatch watch;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 1
        for (long long i = thread; i < count; i += in_flight * threads) {
            const long long at = (begin + i) * stride * WIDTH;
#pragma unroll
            for (int k = 0; k < in_flight; ++k) {
                if (reads) {
                    piece[k].load(from + at + k * apart);
                }
            }
#pragma unroll
            for (int k = 0; k < in_flight; ++k) {
                if (writes) {
                    piece[k].store(to + at + k * apart);
                } else {
                    sum ^= piece[k].sum();
                }
            }
        }
    }
    if (sum == 0x12345678u && rounds < 0) { // never true, but waits for the last loads
        *never = sum;
    }
    watch.stop(times);
}

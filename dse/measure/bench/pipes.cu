// A loop of one or two kinds of instructions: REPEAT times BETA of the first kind, then SECONDS of the second.
// Each kind works on CHAINS values in turn: an instruction depends on the one CHAINS before it.
// Macros: FIRST, SECOND (kinds, below), BETA, SECONDS (0: the first kind only), CHAINS, REPEAT.

#include "timing.cuh"

#ifndef FIRST
#define FIRST Fp32
#endif
#ifndef SECOND
#define SECOND Sfu
#endif
#ifndef BETA
#define BETA 1
#endif
#ifndef SECONDS
#define SECONDS 0
#endif
#ifndef CHAINS
#define CHAINS 4
#endif
#ifndef REPEAT
#define REPEAT 256
#endif

struct Operands {
    float f, g;
    double d, e;
    unsigned i, j;
    void* own; // a pointer to itself, in global memory, for each thread of the block
};

struct Fp32 { // FFMA
    float x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x * given.f; }
    __device__ void step(const Operands& given)
    {
        asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(given.f), "f"(given.g));
    }
    __device__ float end() const { return x; }
};

struct Fadd { // FADD
    float x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x * given.f; }
    __device__ void step(const Operands& given) { asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x) : "f"(given.f)); }
    __device__ float end() const { return x; }
};

struct Fp64 { // DFMA
    double x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x * given.d; }
    __device__ void step(const Operands& given)
    {
        asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(given.d), "d"(given.e));
    }
    __device__ float end() const { return x; }
};

struct Int32 { // LOP3
    unsigned x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x + given.i; }
    __device__ void step(const Operands& given)
    {
        asm volatile("lop3.b32 %0, %0, %1, %2, 0x6a;" : "+r"(x) : "r"(given.i), "r"(given.j));
    }
    __device__ float end() const { return x; }
};

struct Imul32 { // IMAD
    unsigned x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x + given.i; }
    __device__ void step(const Operands& given)
    {
        asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(given.i), "r"(given.j));
    }
    __device__ float end() const { return x; }
};

struct Sfu { // MUFU
    float x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x * given.f; }
    __device__ void step(const Operands&) { asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x)); }
    __device__ float end() const { return x; }
};

struct Convert { // F2I
    unsigned x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x + given.i; }
    __device__ void step(const Operands&) { asm volatile("cvt.rni.s32.f32 %0, %1;" : "=r"(x) : "f"(__uint_as_float(x))); }
    __device__ float end() const { return x; }
};

struct Shuffle { // SHFL
    unsigned x;
    __device__ void begin(const Operands& given, unsigned) { x = threadIdx.x + given.i; }
    __device__ void step(const Operands& given)
    {
        asm volatile("shfl.sync.bfly.b32 %0, %0, %1, 31, 0xffffffff;" : "+r"(x) : "r"(given.j));
    }
    __device__ float end() const { return x; }
};

struct Shared { // LDS of 4 bytes, no bank conflict: a word that holds its own address
    unsigned x;
    __device__ void begin(const Operands&, unsigned word) { x = word; }
    __device__ void step(const Operands&) { asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(x)); }
    __device__ float end() const { return x; }
};

struct L1 { // LDG of 8 bytes from the L1: a pointer to itself
    void* x;
    __device__ void begin(const Operands& given, unsigned) { x = given.own; }
    __device__ void step(const Operands&) { asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(x)); }
    __device__ float end() const { return (unsigned long long)x; }
};

struct Barrier { // BAR
    unsigned x;
    __device__ void begin(const Operands& given, unsigned) { x = given.i; }
    __device__ void step(const Operands&) { asm volatile("bar.sync 0;" ::: "memory"); }
    __device__ float end() const { return x; }
};

extern "C" __global__ void __launch_bounds__(1024)
pipes(long long* times, unsigned* arrived, unsigned blocks_per_sm, int trips, float f, float g, unsigned i, unsigned j,
      void** own, float* never)
{
    __shared__ unsigned words[1024];
    words[threadIdx.x] = (unsigned)__cvta_generic_to_shared(&words[threadIdx.x]);
    void** const mine = own + blockIdx.x * blockDim.x + threadIdx.x;
    *mine = mine;
    const Operands given{f, g, f, g, i, j, mine};
    FIRST x[CHAINS];
    SECOND y[CHAINS];
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) {
        x[chain].begin(given, words[threadIdx.x]);
        y[chain].begin(given, words[threadIdx.x]);
    }
    together(arrived, blocks_per_sm);
    const Stopwatch watch;
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) {
#pragma unroll
        for (int repeat = 0; repeat < REPEAT; ++repeat) {
#pragma unroll
            for (int first = 0; first < BETA; ++first) {
                x[(repeat * BETA + first) % CHAINS].step(given);
            }
#pragma unroll
            for (int second = 0; second < SECONDS; ++second) {
                y[(repeat * SECONDS + second) % CHAINS].step(given);
            }
        }
    }
    watch.stop(times);
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) {
        sum += x[chain].end() + (SECONDS ? y[chain].end() : 0.0f);
    }
    if (trips < 0) { // never true, but unknown to the compiler
        never[threadIdx.x] = sum;
    }
}

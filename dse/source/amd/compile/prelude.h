// CUDA's and HIP's names for device code, in terms of clang's builtins: what takes the place of hip_runtime.h where
// there is no ROCm. Device functions only; a name that is missing here is an error of the compiler that names it.
// DSE_WIDTH is the width that shuffles take by default: 32 of CUDA files, the wave's of HIP files.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
// As HIP's: clang's own launch_bounds does nothing for AMD's GPUs. The second one is of waves on a SIMD.
#define __launch_bounds__(...) DSE_BOUNDS(__VA_ARGS__, DSE_THREADS_WAVES, DSE_THREADS_WAVES, DSE_THREADS, )(__VA_ARGS__)
#define DSE_BOUNDS(a, b, c, bounds, ...) bounds
#define DSE_THREADS(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define DSE_THREADS_WAVES(threads, waves, ...) DSE_THREADS(threads) __attribute__((amdgpu_waves_per_eu(waves)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ // called functions are not executed
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define DSE_DEVICE static __device__ __forceinline__
#define DSE_METHOD __host__ __device__ __forceinline__

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
#define NULL 0
#define __HIP_PLATFORM_AMD__ 1
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2U + 1U)
#define M_PI 3.14159265358979323846
#define CUDART_INF_F __builtin_inff()
#define CUDART_PI_F 3.141592654f
#define CUDART_INF __builtin_inf()
#define CUDART_NAN_F NAN
#define CUDART_PI M_PI
#define memcpy __builtin_memcpy
#define memset __builtin_memset

#if !__has_builtin(__builtin_amdgcn_exp2f) // before clang 17
#define __builtin_amdgcn_exp2f __builtin_exp2f
#define __builtin_amdgcn_logf __builtin_log2f
#endif

// Vectors

template <class V> struct dse_vector {};
#define DSE_PARTS(name, type) template <> struct dse_vector<name> { typedef type part; };
#define DSE_VECTORS(type, name)                                                                                        \
    struct __attribute__((aligned(sizeof(type)))) name##1 { type x; };                                                 \
    struct __attribute__((aligned(2 * sizeof(type)))) name##2 { type x, y; };                                          \
    struct name##3 { type x, y, z; };                                                                                  \
    struct __attribute__((aligned(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16))) name##4 { type x, y, z, w; };       \
    DSE_PARTS(name##1, type) DSE_PARTS(name##2, type) DSE_PARTS(name##3, type) DSE_PARTS(name##4, type)                \
    static __host__ __device__ __forceinline__ name##1 make_##name##1(type x) { return {x}; }                          \
    static __host__ __device__ __forceinline__ name##2 make_##name##2(type x, type y) { return {x, y}; }               \
    static __host__ __device__ __forceinline__ name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }    \
    static __host__ __device__ __forceinline__ name##4 make_##name##4(type x, type y, type z, type w)                  \
    {                                                                                                                  \
        return {x, y, z, w};                                                                                           \
    }
DSE_VECTORS(signed char, char) DSE_VECTORS(unsigned char, uchar) DSE_VECTORS(short, short)
DSE_VECTORS(unsigned short, ushort) DSE_VECTORS(int, int) DSE_VECTORS(unsigned int, uint) DSE_VECTORS(long, long)
DSE_VECTORS(unsigned long, ulong) DSE_VECTORS(long long, longlong) DSE_VECTORS(unsigned long long, ulonglong)
DSE_VECTORS(float, float) DSE_VECTORS(double, double)
#ifndef DSE_WIDTH // HIP's vectors have operators; files of CUDA bring their own
template <class V> DSE_DEVICE V dse_all(typename dse_vector<V>::part x)
{
    V v;
    for (unsigned i = 0; i < sizeof(V) / sizeof(x); ++i) (&v.x)[i] = x;
    return v;
}
#define DSE_OPERATOR(op)                                                                                               \
    template <class V, class T = typename dse_vector<V>::part> DSE_DEVICE V& operator op##=(V& a, V b)                 \
    {                                                                                                                  \
        for (unsigned i = 0; i < sizeof(V) / sizeof(T); ++i) (&a.x)[i] op##= (&b.x)[i];                                \
        return a;                                                                                                      \
    }                                                                                                                  \
    template <class V> DSE_DEVICE V& operator op##=(V& a, typename dse_vector<V>::part b) { return a = a op b; }       \
    template <class V, class T = typename dse_vector<V>::part> DSE_DEVICE V operator op(V a, V b) { return a op##= b; }\
    template <class V> DSE_DEVICE V operator op(V a, typename dse_vector<V>::part b) { return a op dse_all<V>(b); }    \
    template <class V> DSE_DEVICE V operator op(typename dse_vector<V>::part a, V b) { return dse_all<V>(a) op b; }
DSE_OPERATOR(+) DSE_OPERATOR(-) DSE_OPERATOR(*) DSE_OPERATOR(/)
#endif

struct dim3 {
    unsigned x, y, z;
    constexpr __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr __host__ __device__ dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

// Where a thread is. The number of blocks and their shape lie behind the kernel's arguments (code object version 5).

#define DSE_HIDDEN(type, byte)                                                                                         \
    (*(const __attribute__((address_space(4))) type*)(                                                                 \
        (const __attribute__((address_space(4))) char*)__builtin_amdgcn_implicitarg_ptr() + byte))
#define DSE_PLACE(name, in_x, in_y, in_z)                                                                              \
    struct dse_##name {                                                                                                \
        __declspec(property(get = get_x)) unsigned x;                                                                  \
        __declspec(property(get = get_y)) unsigned y;                                                                  \
        __declspec(property(get = get_z)) unsigned z;                                                                  \
        static __device__ __forceinline__ unsigned get_x() { return in_x; }                                            \
        static __device__ __forceinline__ unsigned get_y() { return in_y; }                                            \
        static __device__ __forceinline__ unsigned get_z() { return in_z; }                                            \
        __device__ __forceinline__ operator uint3() const { return {get_x(), get_y(), get_z()}; }                      \
        __device__ __forceinline__ operator dim3() const { return {get_x(), get_y(), get_z()}; }                       \
    };                                                                                                                 \
    extern const __device__ __attribute__((weak)) dse_##name name;
DSE_PLACE(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
          __builtin_amdgcn_workitem_id_z())
DSE_PLACE(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
          __builtin_amdgcn_workgroup_id_z())
#if __clang_major__ < 14 // code object version 4: in the packet that launches the kernel
#define DSE_BLOCKS(axis) (__builtin_amdgcn_grid_size_##axis() / __builtin_amdgcn_workgroup_size_##axis())
DSE_PLACE(gridDim, DSE_BLOCKS(x), DSE_BLOCKS(y), DSE_BLOCKS(z))
DSE_PLACE(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
          __builtin_amdgcn_workgroup_size_z())
#else
DSE_PLACE(gridDim, DSE_HIDDEN(unsigned, 0), DSE_HIDDEN(unsigned, 4), DSE_HIDDEN(unsigned, 8))
DSE_PLACE(blockDim, DSE_HIDDEN(unsigned short, 12), DSE_HIDDEN(unsigned short, 14), DSE_HIDDEN(unsigned short, 16))
#endif

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define DSE_WAVE 32
#else
#define DSE_WAVE 64
#endif
#ifndef DSE_WIDTH
#define DSE_WIDTH DSE_WAVE
#endif
static constexpr __device__ int warpSize = DSE_WAVE;

// Barriers and fences

DSE_DEVICE void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DSE_DEVICE void __syncwarp(unsigned long = ~0ul)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
DSE_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
DSE_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
DSE_DEVICE void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }

// Loads and stores with hints, which say nothing here

#define DSE_LOAD(name) template <class T> DSE_DEVICE T name(const T* p) { return *p; }
#define DSE_STORE(name) template <class T> DSE_DEVICE void name(T* p, T v) { *p = v; }
DSE_LOAD(__ldg) DSE_LOAD(__ldca) DSE_LOAD(__ldcg) DSE_LOAD(__ldcs) DSE_LOAD(__ldlu) DSE_LOAD(__ldcv)
DSE_STORE(__stcg) DSE_STORE(__stcs) DSE_STORE(__stwb) DSE_STORE(__stwt)

// Waves: shuffles go through the LDS's crossbar, votes through a mask of lanes. What a lane shuffles may be undefined if
// no other reads it; without the attribute, clang takes a branch that defines it in one lane as taken by all.

#if __has_attribute(maybe_undef)
#define DSE_ANY __attribute__((maybe_undef))
#else
#define DSE_ANY
#endif

DSE_DEVICE unsigned __lane_id()
{
    const unsigned low = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
    return DSE_WAVE == 32 ? low : __builtin_amdgcn_mbcnt_hi(~0u, low);
}
template <class T> DSE_DEVICE T dse_from_lane(DSE_ANY T value, int lane)
{
    static_assert(sizeof(T) % 4 == 0 || sizeof(T) < 4, "shuffles move words");
    constexpr int words = (sizeof(T) + 3) / 4;
    int parts[words] = {};
    __builtin_memcpy(parts, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < words; ++i) {
        parts[i] = __builtin_amdgcn_ds_bpermute(lane << 2, parts[i]);
    }
    __builtin_memcpy(&value, parts, sizeof(T));
    return value;
}
template <class T> DSE_DEVICE T __shfl(DSE_ANY T value, int lane, int width = DSE_WIDTH)
{
    const int self = __lane_id();
    return dse_from_lane(value, (lane & (width - 1)) + (self & ~(width - 1)));
}
template <class T> DSE_DEVICE T __shfl_up(DSE_ANY T value, unsigned distance, int width = DSE_WIDTH)
{
    const int self = __lane_id(), lane = self - (int)distance;
    return dse_from_lane(value, lane < (self & ~(width - 1)) ? self : lane);
}
template <class T> DSE_DEVICE T __shfl_down(DSE_ANY T value, unsigned distance, int width = DSE_WIDTH)
{
    const int self = __lane_id(), lane = self + (int)distance;
    return dse_from_lane(value, (self & (width - 1)) + (int)distance >= width ? self : lane);
}
template <class T> DSE_DEVICE T __shfl_xor(DSE_ANY T value, int mask, int width = DSE_WIDTH)
{
    const int self = __lane_id(), lane = self ^ mask;
    return dse_from_lane(value, lane >= ((self + width) & ~(width - 1)) ? self : lane);
}
#define DSE_SHUFFLE(name, type)                                                                                        \
    template <class M, class T> DSE_DEVICE T name##_sync(M, DSE_ANY T value, type by, int width = DSE_WIDTH)           \
    {                                                                                                                  \
        return name(value, by, width);                                                                                 \
    }
DSE_SHUFFLE(__shfl, int) DSE_SHUFFLE(__shfl_up, unsigned) DSE_SHUFFLE(__shfl_down, unsigned)
DSE_SHUFFLE(__shfl_xor, int)
DSE_DEVICE unsigned long __ballot(int predicate)
{
#if !__has_builtin(__builtin_amdgcn_ballot_w64) // before clang 16
    return __builtin_amdgcn_uicmp(predicate, 0, 33);
#elif DSE_WAVE == 32
    return __builtin_amdgcn_ballot_w32(predicate);
#else
    return __builtin_amdgcn_ballot_w64(predicate);
#endif
}
DSE_DEVICE unsigned long __activemask() { return __ballot(1); }
DSE_DEVICE int __any(int predicate) { return __ballot(predicate) != 0; }
DSE_DEVICE int __all(int predicate) { return __ballot(!predicate) == 0; }
template <class M> DSE_DEVICE unsigned long __ballot_sync(M mask, int predicate) { return __ballot(predicate) & mask; }
template <class M> DSE_DEVICE int __any_sync(M mask, int predicate) { return (__ballot(predicate) & mask) != 0; }
template <class M> DSE_DEVICE int __all_sync(M mask, int predicate) { return (__ballot(!predicate) & mask) == 0; }
template <class M, class T> DSE_DEVICE unsigned long __match_any_sync(M, T value)
{
    const unsigned self = __lane_id();
    unsigned long same = 0;
    for (unsigned long left = __ballot(1); left;) { // the values of the lanes, one after another
        const unsigned long equal = __ballot(value == __shfl(value, __builtin_ctzl(left), DSE_WAVE)) & left;
        same |= equal >> self & 1 ? equal : 0;
        left &= ~equal;
    }
    return same >> (self & ~(DSE_WIDTH - 1)) & ~0ul >> (64 - DSE_WIDTH);
}
#define DSE_REDUCE(name, value)                                                                                        \
    template <class M, class T> DSE_DEVICE T __reduce_##name##_sync(M, T a)                                            \
    {                                                                                                                  \
        for (int by = DSE_WIDTH / 2; by > 0; by /= 2) {                                                                \
            const T b = __shfl_xor(a, by);                                                                             \
            a = value;                                                                                                 \
        }                                                                                                              \
        return a;                                                                                                      \
    }
DSE_REDUCE(add, a + b) DSE_REDUCE(min, b < a ? b : a) DSE_REDUCE(max, a < b ? b : a)
DSE_REDUCE(and, a & b) DSE_REDUCE(or, a | b) DSE_REDUCE(xor, a ^ b)

// Atomics, of the scope of the GPU, or of a block with _block

#if __clang_major__ < 14
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __hip_atomic_fetch_add(p, v, order, scope) __atomic_fetch_add(p, v, order)
#define __hip_atomic_fetch_min(p, v, order, scope) __atomic_fetch_min(p, v, order)
#define __hip_atomic_fetch_max(p, v, order, scope) __atomic_fetch_max(p, v, order)
#define __hip_atomic_fetch_and(p, v, order, scope) __atomic_fetch_and(p, v, order)
#define __hip_atomic_fetch_or(p, v, order, scope) __atomic_fetch_or(p, v, order)
#define __hip_atomic_fetch_xor(p, v, order, scope) __atomic_fetch_xor(p, v, order)
#define __hip_atomic_exchange(p, v, order, scope) __atomic_exchange_n(p, v, order)
#define __hip_atomic_compare_exchange_strong(p, e, v, order, other, scope)                                             \
    __atomic_compare_exchange_n(p, e, v, false, order, other)
#endif
#define DSE_ATOMIC(name, builtin)                                                                                      \
    template <class T, class V> DSE_DEVICE T name(T* p, V value)                                                       \
    {                                                                                                                  \
        return builtin(p, (T)value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                                       \
    }                                                                                                                  \
    template <class T, class V> DSE_DEVICE T name##_block(T* p, V value)                                               \
    {                                                                                                                  \
        return builtin(p, (T)value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);                                   \
    }
DSE_ATOMIC(atomicAdd, __hip_atomic_fetch_add) DSE_ATOMIC(atomicMin, __hip_atomic_fetch_min)
DSE_ATOMIC(atomicMax, __hip_atomic_fetch_max) DSE_ATOMIC(atomicAnd, __hip_atomic_fetch_and)
DSE_ATOMIC(atomicOr, __hip_atomic_fetch_or) DSE_ATOMIC(atomicXor, __hip_atomic_fetch_xor)
DSE_ATOMIC(atomicExch, __hip_atomic_exchange)
template <class T, class V> DSE_DEVICE T atomicSub(T* p, V value) { return atomicAdd(p, -(T)value); }
template <class T, class V> DSE_DEVICE T unsafeAtomicAdd(T* p, V value)
{
#if __has_extension(clang_atomic_attributes) // an instruction, not a loop
    [[clang::atomic(no_remote_memory, no_fine_grained_memory, ignore_denormal_mode)]]
#endif
    {
        return __hip_atomic_fetch_add(p, (T)value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}
template <class T, class V, class W> DSE_DEVICE T atomicCAS(T* p, V compare, W value)
{
    T expected = (T)compare;
    __hip_atomic_compare_exchange_strong(p, &expected, (T)value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}
#if __clang_major__ > 18
DSE_DEVICE uint atomicInc(uint* p, uint n) { return __builtin_amdgcn_atomic_inc32(p, n, __ATOMIC_RELAXED, "agent"); }
DSE_DEVICE uint atomicDec(uint* p, uint n) { return __builtin_amdgcn_atomic_dec32(p, n, __ATOMIC_RELAXED, "agent"); }
#endif

// Whole numbers

DSE_DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
DSE_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
DSE_DEVICE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
DSE_DEVICE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
DSE_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
DSE_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
DSE_DEVICE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
DSE_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
DSE_DEVICE uint __funnelshift_l(uint a, uint b, uint n) { return ((ulong)b << 32 | a) << (n & 31) >> 32; }
DSE_DEVICE uint __funnelshift_lc(uint a, uint b, uint n) { return ((ulong)b << 32 | a) << (n < 32 ? n : 32) >> 32; }
DSE_DEVICE uint __funnelshift_rc(uint a, uint b, uint n) { return ((ulong)b << 32 | a) >> (n < 32 ? n : 32); }
DSE_DEVICE uint __funnelshift_r(uint a, uint b, uint n) { return __builtin_amdgcn_alignbit(b, a, n); }
DSE_DEVICE ulong __umul64hi(ulong a, ulong b) { return (unsigned __int128)a * b >> 64; }
DSE_DEVICE unsigned __umulhi(unsigned a, unsigned b) { return ((unsigned long long)a * b) >> 32; }
DSE_DEVICE int __mulhi(int a, int b) { return ((long long)a * b) >> 32; }
DSE_DEVICE int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
DSE_DEVICE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
DSE_DEVICE int __dp4a(int a, int b, int c)
{
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || defined(__GFX10_3__)
    return __builtin_amdgcn_sdot4(a, b, c, false);
#elif defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#endif
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        c += (int)(signed char)(a >> i) * (int)(signed char)(b >> i);
    }
    return c;
}
DSE_DEVICE unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || defined(__GFX10_3__)
    return __builtin_amdgcn_udot4(a, b, c, false);
#elif defined(__GFX11__) || defined(__GFX12__)
    return __builtin_amdgcn_sudot4(false, a, false, b, c, false);
#endif
#pragma unroll
    for (int i = 0; i < 32; i += 8) {
        c += (a >> i & 255) * (b >> i & 255);
    }
    return c;
}
// CUDA selects bytes by nibbles, of which three bits count; the hardware by bytes.
DSE_DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned s)
{
    return __builtin_amdgcn_perm(b, a, (s & 7) | (s & 0x70) << 4 | (s & 0x700) << 8 | (s & 0x7000) << 12);
}
#define DSE_CHOICE(type)                                                                                               \
    static __host__ __device__ __forceinline__ type min(type a, type b) { return b < a ? b : a; }                      \
    static __host__ __device__ __forceinline__ type max(type a, type b) { return a < b ? b : a; }
DSE_CHOICE(int) DSE_CHOICE(unsigned) DSE_CHOICE(long) DSE_CHOICE(unsigned long) DSE_CHOICE(long long)
DSE_CHOICE(unsigned long long)
DSE_DEVICE unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
DSE_DEVICE unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
DSE_DEVICE unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
DSE_DEVICE unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
DSE_DEVICE float min(float a, float b) { return __builtin_fminf(a, b); }
DSE_DEVICE float max(float a, float b) { return __builtin_fmaxf(a, b); }
DSE_DEVICE double min(double a, double b) { return __builtin_fmin(a, b); }
DSE_DEVICE double max(double a, double b) { return __builtin_fmax(a, b); }
DSE_DEVICE int abs(int x) { return x < 0 ? -x : x; }
DSE_DEVICE long abs(long x) { return x < 0 ? -x : x; }
DSE_DEVICE long long abs(long long x) { return x < 0 ? -x : x; }
DSE_DEVICE long labs(long x) { return abs(x); }
DSE_DEVICE long long llabs(long long x) { return abs(x); }
DSE_DEVICE float abs(float x) { return __builtin_fabsf(x); }
DSE_DEVICE double abs(double x) { return __builtin_fabs(x); }
DSE_DEVICE void __trap() { __builtin_trap(); }
DSE_DEVICE void abort() { __builtin_trap(); }
template <class... T> DSE_DEVICE int printf(const char*, T...) { return __builtin_trap(), 0; }
#define assert(condition) ((void)0)

// Numbers with fractions

#define DSE_ONE(name)                                                                                                  \
    DSE_DEVICE float name##f(float x) { return __builtin_##name##f(x); }                                               \
    DSE_DEVICE float name(float x) { return __builtin_##name##f(x); }                                                  \
    DSE_DEVICE double name(double x) { return __builtin_##name(x); }
#define DSE_TWO(name)                                                                                                  \
    DSE_DEVICE float name##f(float x, float y) { return __builtin_##name##f(x, y); }                                   \
    DSE_DEVICE float name(float x, float y) { return __builtin_##name##f(x, y); }                                      \
    DSE_DEVICE double name(double x, double y) { return __builtin_##name(x, y); }
DSE_ONE(sqrt) DSE_ONE(fabs) DSE_ONE(floor) DSE_ONE(ceil) DSE_ONE(trunc) DSE_ONE(rint) DSE_ONE(nearbyint) DSE_ONE(round)
DSE_TWO(fmin) DSE_TWO(fmax) DSE_TWO(copysign)
DSE_DEVICE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DSE_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DSE_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
DSE_DEVICE float expf(float x) { return __builtin_expf(x); }
DSE_DEVICE float exp2f(float x) { return __builtin_exp2f(x); }
DSE_DEVICE float logf(float x) { return __builtin_logf(x); }
DSE_DEVICE float log2f(float x) { return __builtin_log2f(x); }
DSE_DEVICE float log10f(float x) { return __builtin_log10f(x); }
DSE_DEVICE float rsqrtf(float x) { return __builtin_amdgcn_rsqf(x); }
DSE_DEVICE float fmodf(float x, float y) { return x - y * __builtin_truncf(x / y); }
DSE_DEVICE float fmod(float x, float y) { return fmodf(x, y); }
DSE_DEVICE double fmod(double x, double y) { return x - y * __builtin_trunc(x / y); }
DSE_DEVICE float rnorm3df(float x, float y, float z) { return rsqrtf(x * x + y * y + z * z); }
DSE_DEVICE float ldexpf(float x, int by) { return __builtin_amdgcn_ldexpf(x, by); }
DSE_DEVICE float frexpf(float x, int* exponent)
{
    *exponent = __builtin_amdgcn_frexp_expf(x);
    return __builtin_amdgcn_frexp_mantf(x);
}
DSE_DEVICE long lroundf(float x) { return (long)__builtin_roundf(x); }
DSE_DEVICE float powf(float x, float y) { return __builtin_exp2f(y * __builtin_log2f(x)); }
DSE_DEVICE float pow(float x, int y) { return powf(x, (float)y); }
// The hardware's sine takes turns. Large arguments lose digits here, and cost less than an exact reduction.
DSE_DEVICE float sinf(float x) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0.15915494309189535f)); }
DSE_DEVICE float cosf(float x) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0.15915494309189535f)); }
DSE_DEVICE float sinpif(float x) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0.5f)); }
DSE_DEVICE float cospif(float x) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0.5f)); }
#define DSE_SINCOS(name, sine, cosine)                                                                                 \
    DSE_DEVICE void name(float x, float* s, float* c) { *s = sine(x), *c = cosine(x); }
DSE_SINCOS(sincosf, sinf, cosf) DSE_SINCOS(sincospif, sinpif, cospif)
DSE_DEVICE float atanf(float x)
{ // Abramowitz and Stegun, 4.4.49
    const float a = fabsf(x), r = a > 1.0f ? 1.0f / a : a;
    const float factors[] = {-0.0161657367f, 0.0429096138f,  -0.0752896400f, 0.1065626393f,
                             -0.1420889944f, 0.1999355085f, -0.3333314528f, 1.0f};
    float p = 0.0028662257f;
    for (float factor : factors) p = p * (r * r) + factor;
    return copysignf(a > 1.0f ? 1.570796327f - r * p : r * p, x);
}
// In double precision, series as long as ROCm's.
DSE_DEVICE double dse_exp(double x)
{
    const double y = __builtin_fmin(__builtin_fmax(x, -746.0), 710.0), n = __builtin_rint(y * 1.4426950408889634);
    const double r = fma(n, -1.9082149292705877e-10, fma(n, -0.6931471803691238, y));
    double sum = 0.0, factor = 1.0 / 479001600;
#pragma unroll
    for (int k = 12; k >= 0; --k, factor *= k + 1) sum = fma(sum, r, factor);
    return __builtin_amdgcn_ldexp(sum, (int)n);
}
DSE_DEVICE double dse_log(double x)
{
    const double half = __builtin_amdgcn_frexp_mant(x);
    const bool small = half < 2.0 / 3;
    const double m = small ? 2.0 * half : half, s = (m - 1.0) / (m + 1.0);
    double sum = 0.0;
#pragma unroll
    for (int k = 21; k > 0; k -= 2) sum = fma(sum, s * s, 2.0 / k);
    return fma(__builtin_amdgcn_frexp_exp(x) - small, 0.6931471805599453, s * sum);
}
DSE_DEVICE double dse_sine(double x, int quarters)
{
    const double n = __builtin_rint(x * 0.6366197723675814);
    const double r = fma(n, -6.077100506506192e-11, fma(n, -1.5707963267341256, x)), t = -r * r;
    double odd = 0.0, even = 0.0, factor = 1.0 / 355687428096000;
#pragma unroll
    for (int k = 16; k >= 0; k -= 2) {
        odd = fma(odd, t, factor);
        even = fma(even, t, factor *= k + 1);
        factor *= k;
    }
    const int quarter = (int)n + quarters;
    const double value = quarter & 1 ? even : r * odd;
    return quarter & 2 ? -value : value;
}
DSE_DEVICE double dse_sin(double x) { return dse_sine(x, 0); }
DSE_DEVICE double dse_cos(double x) { return dse_sine(x, 1); }
DSE_DEVICE double dse_atan(double x)
{
    const double a = __builtin_fabs(x);
    const bool large = a > 1.0, middle = a > 0.41421356237309503 && a < 2.414213562373095;
    const double up = middle ? a - 1.0 : large ? -1.0 : a, down = middle ? a + 1.0 : large ? a : 1.0, r = up / down;
    double sum = 0.0;
#pragma unroll
    for (int k = 37; k > 0; k -= 2) sum = fma(sum, -r * r, 1.0 / k);
    return __builtin_copysign(fma(r, sum, middle ? 0.7853981633974483 : large ? 1.5707963267948966 : 0.0), x);
}
#define DSE_DOUBLE(name)                                                                                               \
    DSE_DEVICE float name(float x) { return name##f(x); }                                                              \
    DSE_DEVICE double name(double x) { return dse_##name(x); }
DSE_DOUBLE(exp) DSE_DOUBLE(log) DSE_DOUBLE(sin) DSE_DOUBLE(cos) DSE_DOUBLE(atan)
DSE_DEVICE double dse_exp2(double x) { return dse_exp(x * 0.6931471805599453); }
DSE_DEVICE double dse_log2(double x) { return dse_log(x) * 1.4426950408889634; }
DSE_DEVICE double dse_log10(double x) { return dse_log(x) * 0.4342944819032518; }
DSE_DOUBLE(exp2) DSE_DOUBLE(log2) DSE_DOUBLE(log10)
DSE_DEVICE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
DSE_DEVICE float rsqrt(float x) { return rsqrtf(x); }
DSE_DEVICE float pow(float x, float y) { return powf(x, y); }
DSE_DEVICE double pow(double x, double y)
{
    const bool power = __builtin_constant_p(y) && y == (int)y;
    return power ? __builtin_powi(x, (int)y) : __builtin_copysign(exp(y * log(fabs(x))), x);
}
DSE_DEVICE double pow(double x, int y) { return pow(x, (double)y); }
#define DSE_FUNCTION(name, value) /* of both precisions, T */                                                          \
    template <class T> DSE_DEVICE T dse_##name(T x) { return value; }                                                  \
    DSE_DEVICE float name##f(float x) { return dse_##name(x); }                                                        \
    DSE_DEVICE float name(float x) { return dse_##name(x); }                                                           \
    DSE_DEVICE double name(double x) { return dse_##name(x); }
DSE_FUNCTION(exp10, exp2(x * T(3.321928094887362)))
DSE_FUNCTION(expm1, fabs(x) < T(1e-3) ? x + x * x / 2 : exp(x) - 1)
DSE_FUNCTION(log1p, fabs(x) < T(1e-3) ? x - x * x / 2 : log(x + 1))
DSE_FUNCTION(cbrt, copysign(exp2(log2(fabs(x)) / 3), x))
DSE_FUNCTION(tan, sin(x) / cos(x))
DSE_FUNCTION(sinh, (exp(x) - exp(-x)) / 2) DSE_FUNCTION(cosh, (exp(x) + exp(-x)) / 2)
DSE_FUNCTION(tanh, copysign(1 - 2 / (exp(2 * fabs(x)) + 1), x))
DSE_FUNCTION(asin, atan(x * rsqrt((1 - x) * (1 + x)))) DSE_FUNCTION(acos, T(1.5707963267948966) - asin(x))
DSE_FUNCTION(asinh, copysign(log(fabs(x) + sqrt(x * x + 1)), x)) DSE_FUNCTION(acosh, log(x + sqrt(x * x - 1)))
DSE_FUNCTION(atanh, log1p(2 * x / (1 - x)) / 2)
template <class T> DSE_DEVICE T dse_erf(T x)
{ // Abramowitz and Stegun, 7.1.26
    const T a = fabs(x), t = 1 / (1 + T(0.3275911) * a);
    const T p = t * (T(0.254829592) + t * (T(-0.284496736) + t * (T(1.421413741) + t * (T(-1.453152027) + t * T(1.061405429)))));
    return copysign(1 - p * exp(-a * a), x);
}
DSE_DEVICE float erff(float x) { return dse_erf(x); }
DSE_DOUBLE(erf)
DSE_FUNCTION(erfc, 1 - erf(x)) DSE_FUNCTION(normcdf, erfc(x * T(-0.7071067811865476)) / 2)
template <class T> DSE_DEVICE T dse_atan2(T y, T x)
{
    return atan(y / x) + (x > 0 ? T(0) : copysign(T(3.141592653589793), y));
}
DSE_DEVICE float atan2f(float y, float x) { return dse_atan2(y, x); }
DSE_DEVICE float atan2(float y, float x) { return dse_atan2(y, x); }
DSE_DEVICE double atan2(double y, double x) { return dse_atan2(y, x); }
DSE_DEVICE float hypotf(float x, float y) { return __builtin_sqrtf(x * x + y * y); }
DSE_DEVICE float hypot(float x, float y) { return hypotf(x, y); }
DSE_DEVICE double hypot(double x, double y) { return __builtin_sqrt(x * x + y * y); }
DSE_DEVICE void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
template <class T> DSE_DEVICE bool isnan(T x) { return __builtin_isnan(x); }
DSE_DEVICE bool __isnanf(float x) { return __builtin_isnan(x); }
DSE_DEVICE bool __isinff(float x) { return __builtin_isinf(x); }
DSE_DEVICE bool __finitef(float x) { return __builtin_isfinite(x); }
template <class T> DSE_DEVICE bool isinf(T x) { return __builtin_isinf(x); }
template <class T> DSE_DEVICE bool isfinite(T x) { return __builtin_isfinite(x); }
template <class T> DSE_DEVICE bool signbit(T x) { return __builtin_signbit(x); }
DSE_DEVICE float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.4426950408889634f); }
DSE_DEVICE float __exp10f(float x) { return __builtin_amdgcn_exp2f(x * 3.321928094887362f); }
DSE_DEVICE float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.6931471805599453f; }
DSE_DEVICE float __log2f(float x) { return __builtin_amdgcn_logf(x); }
DSE_DEVICE float __log10f(float x) { return __builtin_amdgcn_logf(x) * 0.30102999566398120f; }
DSE_DEVICE float __powf(float x, float y) { return __builtin_amdgcn_exp2f(y * __builtin_amdgcn_logf(x)); }
DSE_DEVICE float __sinf(float x) { return __builtin_amdgcn_sinf(x * 0.15915494309189535f); }
DSE_DEVICE float __cosf(float x) { return __builtin_amdgcn_cosf(x * 0.15915494309189535f); }
DSE_SINCOS(__sincosf, __sinf, __cosf)
DSE_DEVICE float __fdividef(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
#define DSE_ROUNDED(mode, round) /* towards the nearest in arithmetic */                                               \
    DSE_DEVICE float __fadd_##mode(float x, float y) { return x + y; }                                                 \
    DSE_DEVICE float __fsub_##mode(float x, float y) { return x - y; }                                                 \
    DSE_DEVICE float __fmul_##mode(float x, float y) { return x * y; }                                                 \
    DSE_DEVICE float __fdiv_##mode(float x, float y) { return x / y; }                                                 \
    DSE_DEVICE float __frcp_##mode(float x) { return 1.0f / x; }                                                       \
    DSE_DEVICE float __fsqrt_##mode(float x) { return __builtin_sqrtf(x); }                                            \
    DSE_DEVICE float __fmaf_##mode(float x, float y, float z) { return __builtin_fmaf(x, y, z); }                      \
    DSE_DEVICE double __dadd_##mode(double x, double y) { return x + y; }                                              \
    DSE_DEVICE double __dsub_##mode(double x, double y) { return x - y; }                                              \
    DSE_DEVICE double __dmul_##mode(double x, double y) { return x * y; }                                              \
    DSE_DEVICE double __ddiv_##mode(double x, double y) { return x / y; }                                              \
    DSE_DEVICE double __drcp_##mode(double x) { return 1.0 / x; }                                                      \
    DSE_DEVICE double __dsqrt_##mode(double x) { return __builtin_sqrt(x); }                                           \
    DSE_DEVICE double __fma_##mode(double x, double y, double z) { return __builtin_fma(x, y, z); }                    \
    DSE_DEVICE float __double2float_##mode(double x) { return (float)x; }                                              \
    DSE_CONVERTED(mode, round, int, int) DSE_CONVERTED(mode, round, uint, unsigned)                                    \
    DSE_CONVERTED(mode, round, ll, long long) DSE_CONVERTED(mode, round, ull, unsigned long long)
#define DSE_CONVERTED(mode, round, name, type)                                                                         \
    DSE_DEVICE type __float2##name##_##mode(float x) { return (type)round(x); }                                        \
    DSE_DEVICE type __double2##name##_##mode(double x) { return (type)round(x); }                                      \
    DSE_DEVICE float __##name##2float_##mode(type x) { return (float)x; }                                              \
    DSE_DEVICE double __##name##2double_##mode(type x) { return (double)x; }
DSE_ROUNDED(rn, rint) DSE_ROUNDED(rz, ) DSE_ROUNDED(rd, floor) DSE_ROUNDED(ru, ceil)
DSE_DEVICE float __frsqrt_rn(float x) { return rsqrtf(x); }
DSE_DEVICE float __saturatef(float x) { return __builtin_amdgcn_fmed3f(x, 0.0f, 1.0f); }
DSE_DEVICE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
DSE_DEVICE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
DSE_DEVICE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
DSE_DEVICE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
DSE_DEVICE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
DSE_DEVICE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

// Textures and surfaces are calls, by which the reader names them.
typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t, hipTextureObject_t, hipSurfaceObject_t;
template <class T, class... A> __attribute__((device)) T dse_texture(A...);
#define DSE_TEXTURE(name)                                                                                              \
    template <class T, class... A> DSE_DEVICE T name(cudaTextureObject_t from, A... at)                                \
    {                                                                                                                  \
        return dse_texture<T>(from, at...);                                                                            \
    }                                                                                                                  \
    template <class T, class... A> DSE_DEVICE void name(T* to, cudaTextureObject_t from, A... at)                      \
    {                                                                                                                  \
        *to = dse_texture<T>(from, at...);                                                                             \
    }
#define DSE_SURFACE(name)                                                                                              \
    DSE_TEXTURE(surf##name##read)                                                                                      \
    template <class T, class... A> DSE_DEVICE void surf##name##write(T value, cudaSurfaceObject_t to, A... at)         \
    {                                                                                                                  \
        dse_texture<int>(to, value, at...);                                                                            \
    }
DSE_TEXTURE(tex1Dfetch) DSE_TEXTURE(tex1D) DSE_TEXTURE(tex2D) DSE_TEXTURE(tex3D)
DSE_TEXTURE(tex1DLod) DSE_TEXTURE(tex2DLod) DSE_TEXTURE(tex3DLod) DSE_TEXTURE(tex2Dgather)
DSE_TEXTURE(tex1DLayered) DSE_TEXTURE(tex2DLayered) DSE_TEXTURE(texCubemap)
DSE_SURFACE(1D) DSE_SURFACE(2D) DSE_SURFACE(3D)

// Halves, and as narrow numbers with the exponent of a float

typedef _Float16 __half;
typedef _Float16 half;
#define DSE_PAIR_OPERATOR(type, op)                                                                                    \
    friend DSE_METHOD type##2 operator op(type##2 a, type##2 b) { return a.lanes() op b.lanes(); }                       \
    DSE_METHOD type##2& operator op##=(type##2 b) { return *this = *this op b; }
#define DSE_PAIR(type)                                                                                                 \
    typedef type dse_##type##2 __attribute__((ext_vector_type(2)));                                                    \
    struct __attribute__((aligned(4))) type##2 {                                                                       \
        type x, y;                                                                                                     \
        type##2() = default;                                                                                           \
        constexpr DSE_METHOD type##2(type x, type y) : x(x), y(y) {}                                                     \
        DSE_METHOD type##2(dse_##type##2 lanes) : x(lanes.x), y(lanes.y) {}                                              \
        DSE_METHOD dse_##type##2 lanes() const { return dse_##type##2{x, y}; }                                           \
        DSE_PAIR_OPERATOR(type, +) DSE_PAIR_OPERATOR(type, -) DSE_PAIR_OPERATOR(type, *) DSE_PAIR_OPERATOR(type, /)    \
    };
DSE_PAIR(half)
typedef half2 __half2;
#define DSE_COMPARE(type, name, op)                                                                                    \
    DSE_DEVICE bool __h##name(type a, type b) { return a op b; }                                                       \
    DSE_DEVICE type##2 __h##name##2(type##2 a, type##2 b) { return type##2{(type)(a.x op b.x), (type)(a.y op b.y)}; }
#define DSE_NARROW_TWO(type, name, name2, value)                                                                       \
    DSE_DEVICE type name(type a, type b) { return value; }                                                             \
    DSE_DEVICE type##2 name2(type##2 x, type##2 y)                                                                     \
    {                                                                                                                  \
        auto a = x.lanes(), b = y.lanes();                                                                             \
        return type##2(value);                                                                                         \
    }
#define DSE_NARROW_ONE(type, name, value)                                                                              \
    DSE_DEVICE type name(type a) { return value; }                                                                     \
    DSE_DEVICE type##2 name##2(type##2 a) { return type##2{name(a.x), name(a.y)}; }
#define DSE_NARROW(type, to, pair)                                                                                     \
    DSE_COMPARE(type, gt, >) DSE_COMPARE(type, ge, >=) DSE_COMPARE(type, eq, ==)                                       \
    DSE_COMPARE(type, lt, <) DSE_COMPARE(type, le, <=) DSE_COMPARE(type, ne, !=)                                       \
    DSE_NARROW_TWO(type, __hadd, __hadd2, a + b) DSE_NARROW_TWO(type, __hsub, __hsub2, a - b)                          \
    DSE_NARROW_TWO(type, __hmul, __hmul2, a * b) DSE_NARROW_TWO(type, __hdiv, __h2div, a / b)                          \
    DSE_NARROW_TWO(type, __hmax, __hmax2, a < b ? b : a) DSE_NARROW_TWO(type, __hmin, __hmin2, b < a ? b : a)          \
    DSE_NARROW_ONE(type, __hneg, -a) DSE_NARROW_ONE(type, __habs, a < (type)0 ? -a : a)                                \
    DSE_DEVICE bool __hisnan(type a) { return a != a; }                                                                \
    DSE_DEVICE type##2 __hfma2(type##2 a, type##2 b, type##2 c)                                                        \
    {                                                                                                                  \
        return type##2{__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                                  \
    }                                                                                                                  \
    DSE_DEVICE type __float2##to(float x) { return (type)x; }                                                          \
    DSE_DEVICE type __float2##to##_rn(float x) { return (type)x; }                                                     \
    DSE_DEVICE type __int2##to##_rn(int x) { return (type)(float)x; }                                                  \
    DSE_DEVICE float __##to##2float(type x) { return (float)x; }                                                       \
    DSE_DEVICE int __##to##2int_rn(type x) { return __float2int_rn((float)x); }                                        \
    DSE_DEVICE int __##to##2int_rz(type x) { return (int)(float)x; }                                                   \
    DSE_DEVICE unsigned short __##to##_as_ushort(type x) { return __builtin_bit_cast(unsigned short, x); }             \
    DSE_DEVICE type __ushort_as_##to(unsigned short x) { return __builtin_bit_cast(type, x); }                         \
    DSE_DEVICE type##2 __floats2##pair##_rn(float a, float b) { return type##2{(type)a, (type)b}; }                    \
    DSE_DEVICE type##2 __float22##pair##_rn(float2 a) { return type##2{(type)a.x, (type)a.y}; }                        \
    DSE_DEVICE type##2 __float2##pair##_rn(float a) { return type##2{(type)a, (type)a}; }                              \
    DSE_DEVICE type##2 __##to##2##pair(type a) { return type##2{a, a}; }                                               \
    DSE_DEVICE type##2 __halves2##pair(type a, type b) { return type##2{a, b}; }                                       \
    DSE_DEVICE type##2 make_##pair(type a, type b) { return type##2{a, b}; }                                           \
    DSE_DEVICE float2 __##pair##2float2(type##2 a) { return make_float2((float)a.x, (float)a.y); }                     \
    DSE_DEVICE float __low2float(type##2 a) { return (float)a.x; }                                                     \
    DSE_DEVICE float __high2float(type##2 a) { return (float)a.y; }                                                    \
    DSE_DEVICE type##2 __lows2##pair(type##2 a, type##2 b) { return type##2{a.x, b.x}; }                               \
    DSE_DEVICE type##2 __highs2##pair(type##2 a, type##2 b) { return type##2{a.y, b.y}; }                              \
    DSE_DEVICE type##2 __low2##pair(type##2 a) { return type##2{a.x, a.x}; }                                           \
    DSE_DEVICE type##2 __high2##pair(type##2 a) { return type##2{a.y, a.y}; }                                          \
    DSE_DEVICE type __low2##to(type##2 a) { return a.x; }                                                              \
    DSE_DEVICE type __high2##to(type##2 a) { return a.y; }
DSE_DEVICE half __hfma(half a, half b, half c) { return __builtin_fmaf16(a, b, c); }
DSE_NARROW(half, half, half2)
template <class T> DSE_DEVICE unsigned dse_add_by_swapping(unsigned* p, unsigned value)
{
    unsigned old = *p, seen;
    do {
        seen = old;
        T sum = __builtin_bit_cast(T, seen) + __builtin_bit_cast(T, value);
        old = atomicCAS(p, seen, __builtin_bit_cast(unsigned, sum));
    } while (old != seen);
    return old;
}
#define DSE_ADD_PAIR(type, lanes, add)                                                                                 \
    template <class V> DSE_DEVICE type atomicAdd(type* p, V value)                                                     \
    {                                                                                                                  \
        return __builtin_bit_cast(type, add((lanes*)p, __builtin_bit_cast(lanes, (type)value)));                       \
    }                                                                                                                  \
    template <class V> DSE_DEVICE type unsafeAtomicAdd(type* p, V value) { return atomicAdd(p, value); }
#if __has_builtin(__builtin_amdgcn_flat_atomic_fadd_v2f16)
DSE_ADD_PAIR(half2, dse_half2, __builtin_amdgcn_flat_atomic_fadd_v2f16)
#else
DSE_ADD_PAIR(half2, unsigned, dse_add_by_swapping<half2>)
#endif
#define DSE_OF_HALF(name, value)                                                                                       \
    DSE_DEVICE half h##name(half x) { return (half)(value); }                                                          \
    DSE_DEVICE half2 h2##name(half2 a) { return half2{h##name(a.x), h##name(a.y)}; }
DSE_OF_HALF(exp, __expf((float)x)) DSE_OF_HALF(exp2, __builtin_amdgcn_exp2f((float)x))
DSE_OF_HALF(log, __logf((float)x)) DSE_OF_HALF(log2, __log2f((float)x)) DSE_OF_HALF(sqrt, __builtin_amdgcn_sqrth(x))
DSE_OF_HALF(rsqrt, __builtin_amdgcn_rsqh(x)) DSE_OF_HALF(rcp, __builtin_amdgcn_rcph(x))
#if __clang_major__ > 17
typedef __bf16 __nv_bfloat16, nv_bfloat16, __hip_bfloat16, hip_bfloat16;
DSE_PAIR(__nv_bfloat16)
typedef __nv_bfloat162 nv_bfloat162, __hip_bfloat162;
DSE_DEVICE __bf16 __hfma(__bf16 a, __bf16 b, __bf16 c) { return (__bf16)__builtin_fmaf((float)a, (float)b, (float)c); }
DSE_NARROW(__nv_bfloat16, bfloat16, bfloat162)
#if __has_builtin(__builtin_amdgcn_flat_atomic_fadd_v2bf16)
typedef short dse_short2 __attribute__((ext_vector_type(2)));
DSE_ADD_PAIR(nv_bfloat162, dse_short2, __builtin_amdgcn_flat_atomic_fadd_v2bf16)
#else
DSE_ADD_PAIR(nv_bfloat162, unsigned, dse_add_by_swapping<nv_bfloat162>)
#endif
#endif

// What device code takes from PyTorch's headers.
#ifndef __HIP__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}
namespace at {
using c10::BFloat16;
using c10::Half;
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool is_cuda> using acc_type = opmath_type<T>;
template <class T> __device__ inline bool _isnan(T x) { return x != x; }
template <class T> __host__ __device__ constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }
namespace cuda { namespace detail {
constexpr int CUDA_NUM_THREADS = 1024;
} }
#ifdef DSE_BOTH // with std.h
template <class T> struct numeric_limits : std::numeric_limits<T> {
    using All = std::numeric_limits<T>;
    DSE_BOTH T lower_bound() { if constexpr (All::is_integer) return All::lowest(); else return -All::infinity(); }
    DSE_BOTH T upper_bound() { if constexpr (All::is_integer) return All::max(); else return All::infinity(); }
};
#define DSE_NARROW_LIMITS(T, most)                                                                                     \
    template <> struct numeric_limits<T> {                                                                             \
        static __device__ T lowest() { return T(-most); }                                                              \
        static __device__ T max() { return T(most); }                                                                  \
        static __device__ T lower_bound() { return T(-std::numeric_limits<float>::infinity()); }                       \
        static __device__ T upper_bound() { return T(std::numeric_limits<float>::infinity()); }                        \
    };
DSE_NARROW_LIMITS(Half, 65504.0f) DSE_NARROW_LIMITS(BFloat16, 3.38953139e38f)
#endif

template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };
template <class T, int N, template <class> class Traits, class I> struct TensorAccessor {
    typename Traits<T>::PtrType data_;
    const I *sizes_, *strides_;
    __device__ I size(I i) const { return sizes_[i]; }
    __device__ I stride(I i) const { return strides_[i]; }
    __device__ auto data() const { return data_; }
    __device__ decltype(auto) operator[](I i) const
    {
        if constexpr (N == 1) return (data_[strides_[0] * i]);
        else return TensorAccessor<T, N - 1, Traits, I>{data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
    }
};
template <class T, int N, template <class> class Traits, class I> struct GenericPackedTensorAccessor {
    typename Traits<T>::PtrType data_;
    I sizes_[N], strides_[N];
    __device__ I size(I i) const { return sizes_[i]; }
    __device__ I stride(I i) const { return strides_[i]; }
    __device__ auto data() const { return data_; }
    __device__ decltype(auto) operator[](I i) const
    {
        return TensorAccessor<T, N, Traits, I>{data_, sizes_, strides_}[i];
    }
};
template <class T, int N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int>;
template <class T, int N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, long>;
template <class T, int N, template <class> class Traits = DefaultPtrTraits, class I = long>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, I>;
}
namespace torch {
using namespace at;
}
template <class T> __device__ inline T gpuAtomicAdd(T* to, T value) { return atomicAdd(to, value); }
template <class T> __device__ inline void gpuAtomicAddNoReturn(T* to, T value) { atomicAdd(to, value); }
#ifndef CUDA_KERNEL_LOOP
#define CUDA_KERNEL_LOOP_TYPE(i, n, type)                                                                              \
    long dse_##i = blockIdx.x * blockDim.x + threadIdx.x;                                                              \
    for (type i = dse_##i; dse_##i < (n); dse_##i += blockDim.x * gridDim.x, i = dse_##i)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#endif
#ifndef C10_LAUNCH_BOUNDS_1
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, (threads) * (blocks) <= 2048 ? (blocks) : 1)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_WARP_SIZE 32
#endif

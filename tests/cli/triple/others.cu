extern "C" __global__ void sized(float* a)
{
    extern __shared__ float s[];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void endless(volatile int* a)
{
    for (;;) a[1] = a[2];
}
__device__ __noinline__ int deeper(int n, int* a)
{
    return n < 0 ? a[n] : deeper(n + 1, a) * deeper(n + 2, a);
}
extern "C" __global__ void recursive(int* a, int n)
{
    a[threadIdx.x] = deeper(n, a);
}

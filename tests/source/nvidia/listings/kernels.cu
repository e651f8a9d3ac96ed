// Small kernels whose counts can be worked out by hand. sm_NN.sass holds their machine code:
// nvcc -cubin -arch=sm_80 kernels.cu (CUDA 13.0), nvdisasm -c, blanks and padding (NOP) taken out.

#define KERNEL extern "C" __global__ void

__device__ int index_x() { return blockIdx.x * blockDim.x + threadIdx.x; }

KERNEL vector_add(const float* a, const float* b, float* c, int n)
{
    int i = index_x();
    if (i < n) c[i] = a[i] + b[i];
}

KERNEL strided_copy(const float* a, float* c, int n, int stride)
{
    int i = index_x();
    if (i < n) c[i] = a[(long)i * stride];
}

template <int padding> __device__ void transpose(const float* a, float* b, int n)
{
    __shared__ float tile[32][32 + padding];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) b[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

KERNEL transpose_conflicts(const float* a, float* b, int n) { transpose<0>(a, b, n); }
KERNEL transpose_padded(const float* a, float* b, int n) { transpose<1>(a, b, n); }

KERNEL grid_stride(const float* a, float* c, int n)
{
    for (int i = index_x(); i < n; i += gridDim.x * blockDim.x) c[i] = 2 * a[i];
}

// Lanes divisible by 3 go one way, the others another.
KERNEL divergent(const float* a, float* c, int n)
{
    int i = index_x();
    float v = a[i];
    if (threadIdx.x % 3 == 0) {
#pragma unroll 1
        for (int k = 0; k < n; ++k) v = v * v + 1.0f;
    } else {
        v = v * 0.5f;
        c[i + 4096] = v;
    }
    c[i] = v;
}

KERNEL divide(const float* a, float* c, int d, unsigned e, long f)
{
    int i = index_x() - 300;
    int q = i / d, r = i % d;
    unsigned s = (unsigned)i / e;
    long t = (i * 1000003l) / f;
    c[(long)q * 3 + r * 5 + (s & 0xffff) + i / 7 + i % 13 + (t & 0xffff)] = a[0];
}

// How often a thread goes round depends on data.
KERNEL collatz(const int* a, int* c)
{
    int i = index_x();
    unsigned v = a[i];
    int k = 0;
#pragma unroll 1
    while (v != 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        k++;
    }
    c[k] = 1;
}

KERNEL spmv(const int* rows, const int* columns, const float* values, const float* x, float* y, int n)
{
    int i = index_x();
    if (i < n) {
        float sum = 0;
        for (int j = rows[i]; j < rows[i + 1]; ++j) sum += values[j] * x[columns[j]];
        y[i] = sum;
    }
}

KERNEL bits(unsigned* o)
{
    int i = index_x();
    unsigned x = i * 2654435761u;
    int p = __popc(x) + __clz(x) + __ffs(x);
    unsigned r = __brev(x) >> 20;
    unsigned long long y = (unsigned long long)x * x;
    int z = __clzll(y) + __popcll(y);
    unsigned b = __byte_perm(x, i, 0x3410);
    o[(p * 7 + r + z + (b & 63)) & 0xffff] = 1;
    o[min(max(i - 5, 0), 700) + abs(i - 100) + 100000] = 1;
}

KERNEL warp_wide(int* o)
{
    int i = index_x();
    unsigned m = __ballot_sync(~0u, i % 5 == 0);
    int r = __popc(m & ((1u << (i & 31)) - 1));
    if (__any_sync(~0u, i % 37 == 3)) r += 100;
    if (__all_sync(~0u, i > 32)) r += 7;
    int s = __shfl_sync(~0u, i * 3, i ^ 5) + __shfl_down_sync(~0u, i, 3) + __shfl_up_sync(~0u, i, 2, 8);
    unsigned q = __match_any_sync(~0u, i % 3);
    o[r + s + q % 64] = 1;
}

// Hillis and Steele: log2(threads) steps with two barriers each.
KERNEL scan(const int* a, int* o)
{
    extern __shared__ int s[];
    int t = threadIdx.x;
    s[t] = a[index_x()];
    __syncthreads();
    for (int k = 1; k < blockDim.x; k *= 2) {
        int v = 0;
        if (t >= k) v = s[t - k];
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    o[index_x()] = s[t];
}

// The up-sweep of Blelloch's scan: fewer threads each time, further apart.
KERNEL up_sweep(int* o, int n)
{
    extern __shared__ int s[];
    int t = threadIdx.x, apart = 1;
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) s[apart * (2 * t + 2) - 1] += s[apart * (2 * t + 1) - 1];
        apart *= 2;
    }
    o[t] = s[t];
}

KERNEL histogram(const unsigned char* a, int* o, int n)
{
    __shared__ int h[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) h[i] = 0;
    __syncthreads();
    for (int i = index_x(); i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[a[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&o[i], h[i]);
}

KERNEL nbody(const float4* p, float4* o, int n)
{
    __shared__ float4 s[256];
    int i = index_x();
    float4 q = p[i];
    float f = 0;
    for (int t = 0; t < n; t += 256) {
        s[threadIdx.x] = p[t + threadIdx.x];
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < 256; ++j) {
            float4 b = s[j];
            float x = b.x - q.x, y = b.y - q.y, z = b.z - q.z;
            f += b.w * (x * x + y * y + z * z);
        }
        __syncthreads();
    }
    o[i] = make_float4(f, f, f, f);
}

// One thread after the other of a list: a broadcast load that walks through memory.
KERNEL walk(const float* a, float* o, int n)
{
    float f = 0;
    for (int k = 0; k < n; ++k) f += a[k] * a[k + 4096 * threadIdx.y];
    o[index_x()] = f;
}

// Which word of its own memory a thread asks for is known at run time only.
KERNEL local_array(const int* a, int* o, int n)
{
    int l[40];
    int i = index_x();
    for (int k = 0; k < 40; ++k) l[k] = k;
#pragma unroll 1
    for (int k = 0; k < n; ++k) l[(k * 7 + i) % 40] += k;
    o[l[i % 40]] = 1;
}

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

KERNEL recursive(int* o) { o[fibonacci(threadIdx.x % 8)] = 1; }

__device__ __noinline__ int far_away(int n)
{
    int s = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) s += s * i + 1;
    return s;
}

KERNEL calls(int* o, int n)
{
    int i = index_x();
    int v = i & 1 ? far_away(i % 4) : far_away(n);
    o[v & 1023] = 1;
}

KERNEL take_turns(const int* a, int* o)
{
    int k = atomicAdd(o, 1);
    o[k + 100] = a[k];
}

KERNEL spin(volatile int* flag)
{
    while (*flag == 0) { }
}

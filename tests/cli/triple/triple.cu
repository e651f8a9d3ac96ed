extern "C" __global__ void triple(const float* x, float* y, int n)
{
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = (blockIdx.x * ITEMS + i) * BLOCK + threadIdx.x;
        if (at < n) y[at] = 3.0f * x[at];
    }
}

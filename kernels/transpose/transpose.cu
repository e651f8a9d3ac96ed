// Transposes a matrix of floats with `height` rows of `width`. A block moves a square tile, a thread ROWS elements
// of it, TILE / ROWS rows apart. Directly, writes are scattered; through shared memory both sides are in order, and
// a padding column keeps a column of the tile out of a single bank. width and height must be multiples of TILE.
// Tuning parameters: TILE, ROWS, SHARED, PADDING (only with SHARED).

#ifndef TILE
#define TILE 32
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef SHARED
#define SHARED 1
#endif
#ifndef PADDING
#define PADDING 1
#endif

constexpr int stride = TILE / ROWS; // threads along y

extern "C" __global__ void __launch_bounds__(TILE * stride)
transpose(const float* __restrict__ input, float* __restrict__ output, int width, int height)
{
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int left = blockIdx.x * TILE;
    const int top = blockIdx.y * TILE;
#if SHARED
    __shared__ float tile[TILE][TILE + PADDING];
#pragma unroll
    for (int r = 0; r < TILE; r += stride) {
        tile[y + r][x] = input[(top + y + r) * width + left + x];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < TILE; r += stride) {
        output[(left + y + r) * height + top + x] = tile[x][y + r];
    }
#else
#pragma unroll
    for (int r = 0; r < TILE; r += stride) {
        output[(left + x) * height + top + y + r] = input[(top + y + r) * width + left + x];
    }
#endif
}

// C = A * B, single precision, row by row: A is m x k, B is k x n. A block makes a tile of C, walking along k in steps
// of TILE_K and keeping that step's parts of A and B in shared memory. A thread makes ROWS elements of one column,
// BLOCK_Y apart. m, n and k must be multiples of the tile's sides, and the threads must share its copy evenly.
// Tuning parameters: BLOCK_X, BLOCK_Y (threads along n and m), ROWS, TILE_K.

#ifndef BLOCK_X
#define BLOCK_X 32
#endif
#ifndef BLOCK_Y
#define BLOCK_Y 8
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef TILE_K
#define TILE_K 32
#endif

constexpr int threads = BLOCK_X * BLOCK_Y;
constexpr int height = BLOCK_Y * ROWS; // of the tile of C
constexpr int elements_a = height * TILE_K;
constexpr int elements_b = TILE_K * BLOCK_X;
static_assert(elements_a % threads == 0 && elements_b % threads == 0, "threads share the copies evenly");

extern "C" __global__ void __launch_bounds__(threads)
matmul_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k)
{
    __shared__ float tile_a[height][TILE_K];
    __shared__ float tile_b[TILE_K][BLOCK_X];

    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int thread = y * BLOCK_X + x;
    const int left = blockIdx.x * BLOCK_X;
    const int top = blockIdx.y * height;

    float sum[ROWS] = {};
    for (int start = 0; start < k; start += TILE_K) {
#pragma unroll
        for (int first = 0; first < elements_a; first += threads) {
            const int row = (first + thread) / TILE_K;
            const int column = (first + thread) % TILE_K;
            tile_a[row][column] = a[(top + row) * k + start + column];
        }
#pragma unroll
        for (int first = 0; first < elements_b; first += threads) {
            const int row = (first + thread) / BLOCK_X;
            const int column = (first + thread) % BLOCK_X;
            tile_b[row][column] = b[(start + row) * n + left + column];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE_K; ++i) {
            const float element = tile_b[i][x];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                sum[r] += tile_a[y + r * BLOCK_Y][i] * element;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        c[(top + y + r * BLOCK_Y) * n + left + x] = sum[r];
    }
}

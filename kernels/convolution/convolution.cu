// Convolves an image with a small filter, single precision. The input has a rim of filter - 1 pixels, half of it on
// each side, so that its rows are IMAGE_WIDTH + FILTER_WIDTH - 1 long. A thread makes TILE_SIZE_X * TILE_SIZE_Y
// outputs, BLOCK_SIZE_X and BLOCK_SIZE_Y apart. The filter is in constant memory.
// Tuning parameters: BLOCK_SIZE_X, BLOCK_SIZE_Y, TILE_SIZE_X, TILE_SIZE_Y, READ_ONLY (1: loads through the read-only
// path), USE_SHMEM (1: the block's tile of the input goes through shared memory), USE_PADDING (1: longer rows there).

#ifndef BLOCK_SIZE_X
#define BLOCK_SIZE_X 32
#endif
#ifndef BLOCK_SIZE_Y
#define BLOCK_SIZE_Y 8
#endif
#ifndef TILE_SIZE_X
#define TILE_SIZE_X 2
#endif
#ifndef TILE_SIZE_Y
#define TILE_SIZE_Y 2
#endif
#ifndef READ_ONLY
#define READ_ONLY 0
#endif
#ifndef USE_PADDING
#define USE_PADDING 0
#endif
#ifndef USE_SHMEM
#define USE_SHMEM 1
#endif
#ifndef USE_CMEM
#define USE_CMEM 1
#endif
#ifndef FILTER_WIDTH
#define FILTER_WIDTH 15
#endif
#ifndef FILTER_HEIGHT
#define FILTER_HEIGHT 15
#endif
#ifndef IMAGE_WIDTH
#define IMAGE_WIDTH 4096
#endif
#ifndef IMAGE_HEIGHT
#define IMAGE_HEIGHT 4096
#endif

static_assert(USE_CMEM, "there is no other place for the filter");

constexpr int input_width = IMAGE_WIDTH + FILTER_WIDTH - 1;
constexpr int outputs_x = BLOCK_SIZE_X * TILE_SIZE_X; // of a block
constexpr int outputs_y = BLOCK_SIZE_Y * TILE_SIZE_Y;
// If so, no block leaves the image.
constexpr bool divides = IMAGE_WIDTH % outputs_x == 0 && IMAGE_HEIGHT % outputs_y == 0;

// Rows of the filter unrolled at a time. LLVM unrolls a loop as a whole only if it estimates fewer than 16,384
// instructions, else as many trips as fit and divide all. Its versions differ in the estimate; ROCm's, with which this
// kernel was measured, stop at some 2,400 multiply-adds: compile times fall by half there.
#ifdef __HIP__
constexpr int multiply_adds = FILTER_HEIGHT * FILTER_WIDTH * TILE_SIZE_X * TILE_SIZE_Y;
constexpr int unrolled_rows = multiply_adds > 2400 && FILTER_HEIGHT % 5 == 0 ? 5 : FILTER_HEIGHT;
#else
constexpr int unrolled_rows = FILTER_HEIGHT;
#endif

__constant__ float filter[FILTER_HEIGHT * FILTER_WIDTH];

// In either form the compiler makes other code of the address.
__device__ __forceinline__ float load(const float* input, int y, int x)
{
#if READ_ONLY
    return __ldg(input + y * input_width + x);
#else
    return input[y * input_width + x];
#endif
}

extern "C" __global__ void convolution(float* output, const float* input)
{
    const int thread_x = threadIdx.x;
    const int thread_y = threadIdx.y;
    const int left = blockIdx.x * outputs_x;
    const int top = blockIdx.y * outputs_y;
    float sum[TILE_SIZE_Y][TILE_SIZE_X] = {};

#if USE_SHMEM
    constexpr int columns = outputs_x + FILTER_WIDTH - 1;
    constexpr int rows = outputs_y + FILTER_HEIGHT - 1;
    constexpr int input_height = IMAGE_HEIGHT + FILTER_HEIGHT - 1;
    // Padding makes a row of the block begin in the bank where the one before it ended.
    constexpr int padding = USE_PADDING ? (32 - (columns - BLOCK_SIZE_X) % 32) % 32 : 0;
    __shared__ float tile[rows][columns + padding];
    for (int i = thread_y; i < rows; i += BLOCK_SIZE_Y) {
#pragma unroll
        for (int j = thread_x; j < columns; j += BLOCK_SIZE_X) {
            const int y = top + i;
            const int x = left + j;
            float pixel = 0;
            if (divides || (y < input_height && x < input_width)) {
                pixel = load(input, y, x);
            }
            tile[i][j] = pixel;
        }
    }
    __syncthreads();

#pragma unroll unrolled_rows
    for (int i = 0; i < FILTER_HEIGHT; ++i) {
#pragma unroll
        for (int j = 0; j < FILTER_WIDTH; ++j) {
#pragma unroll
            for (int r = 0; r < TILE_SIZE_Y; ++r) {
#pragma unroll
                for (int c = 0; c < TILE_SIZE_X; ++c) {
                    const float pixel = tile[thread_y + r * BLOCK_SIZE_Y + i][thread_x + c * BLOCK_SIZE_X + j];
                    sum[r][c] += pixel * filter[i * FILTER_WIDTH + j];
                }
            }
        }
    }
#else
#pragma unroll unrolled_rows
    for (int i = 0; i < FILTER_HEIGHT; ++i) {
#pragma unroll
        for (int j = 0; j < FILTER_WIDTH; ++j) {
#pragma unroll
            for (int r = 0; r < TILE_SIZE_Y; ++r) {
#pragma unroll
                for (int c = 0; c < TILE_SIZE_X; ++c) {
                    const int y = top + thread_y + r * BLOCK_SIZE_Y;
                    const int x = left + thread_x + c * BLOCK_SIZE_X;
                    float pixel = 0;
                    if (divides || (y < IMAGE_HEIGHT && x < IMAGE_WIDTH)) {
                        pixel = load(input, y + i, x + j);
                    }
                    sum[r][c] += pixel * filter[i * FILTER_WIDTH + j];
                }
            }
        }
    }
#endif

#pragma unroll
    for (int r = 0; r < TILE_SIZE_Y; ++r) {
#pragma unroll
        for (int c = 0; c < TILE_SIZE_X; ++c) {
            const int y = top + thread_y + r * BLOCK_SIZE_Y;
            const int x = left + thread_x + c * BLOCK_SIZE_X;
            if (divides || (y < IMAGE_HEIGHT && x < IMAGE_WIDTH)) {
                output[y * IMAGE_WIDTH + x] = sum[r][c];
            }
        }
    }
}

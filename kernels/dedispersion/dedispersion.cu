// Sums the channels of a radio telescope, each delayed by what a dispersion measure asks for. Input: CHANNELS rows of
// SAMPLES + LONGEST_DELAY bytes; output: DMS rows of SAMPLES floats, row y for a dispersion measure of 0.02 * y. A
// channel's delay is the dispersion measure times the channel's shift, in whole samples, LONGEST_DELAY at most. A
// thread makes TILE_SIZE_X * TILE_SIZE_Y outputs one after another.
// Tuning parameters: BLOCK_SIZE_X, BLOCK_SIZE_Y, BLOCK_SIZE_Z (threads; z has no work to share: 1), TILE_SIZE_X,
// TILE_SIZE_Y, TILE_STRIDE_X, TILE_STRIDE_Y (0: a thread's outputs are adjacent, 1: a block apart),
// LOOP_UNROLL_FACTOR_CHANNEL (0: left to the compiler).

#ifndef BLOCK_SIZE_X
#define BLOCK_SIZE_X 32
#endif
#ifndef BLOCK_SIZE_Y
#define BLOCK_SIZE_Y 8
#endif
#ifndef BLOCK_SIZE_Z
#define BLOCK_SIZE_Z 1
#endif
#ifndef TILE_SIZE_X
#define TILE_SIZE_X 2
#endif
#ifndef TILE_SIZE_Y
#define TILE_SIZE_Y 2
#endif
#ifndef TILE_STRIDE_X
#define TILE_STRIDE_X 1
#endif
#ifndef TILE_STRIDE_Y
#define TILE_STRIDE_Y 1
#endif
#ifndef LOOP_UNROLL_FACTOR_CHANNEL
#define LOOP_UNROLL_FACTOR_CHANNEL 0
#endif
#ifndef SAMPLES
#define SAMPLES 25000
#endif
#ifndef DMS
#define DMS 2048
#endif
#ifndef CHANNELS
#define CHANNELS 1536
#endif
#ifndef LONGEST_DELAY
#define LONGEST_DELAY 650
#endif

static_assert(BLOCK_SIZE_Z == 1, "threads along z would do the same work");
static_assert(1LL * CHANNELS * (SAMPLES + LONGEST_DELAY) < 1LL << 31, "places in the input are 32-bit integers");
static_assert(1LL * DMS * SAMPLES < 1LL << 31, "and in the output");

// The sum for one output: sample x at dispersion measure 0.02 * y.
__device__ __forceinline__ float sum_at(const unsigned char* input, const float* shifts, int x, int y)
{
    const float measure = 0.02f * y;
    float sum = 0.0f;
#if LOOP_UNROLL_FACTOR_CHANNEL
    constexpr int unroll = LOOP_UNROLL_FACTOR_CHANNEL; // a pragma takes a name, not a macro
#pragma unroll unroll
#endif
    for (int channel = 0; channel < CHANNELS; ++channel) {
        const int delay = measure * shifts[channel];
        sum += input[channel * (SAMPLES + LONGEST_DELAY) + x + delay];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK_SIZE_X * BLOCK_SIZE_Y * BLOCK_SIZE_Z)
dedispersion(const unsigned char* input, float* output, const float* shifts)
{
    const int first_x = blockIdx.x * BLOCK_SIZE_X * TILE_SIZE_X + threadIdx.x * (TILE_STRIDE_X ? 1 : TILE_SIZE_X);
    const int first_y = blockIdx.y * BLOCK_SIZE_Y * TILE_SIZE_Y + threadIdx.y * (TILE_STRIDE_Y ? 1 : TILE_SIZE_Y);
#pragma unroll 1
    for (int i = 0; i < TILE_SIZE_Y; ++i) {
        const int y = first_y + i * (TILE_STRIDE_Y ? BLOCK_SIZE_Y : 1);
#pragma unroll 1
        for (int j = 0; j < TILE_SIZE_X; ++j) {
            const int x = first_x + j * (TILE_STRIDE_X ? BLOCK_SIZE_X : 1);
            if (x < SAMPLES && y < DMS) {
                output[y * SAMPLES + x] = sum_at(input, shifts, x, y);
            }
        }
    }
}

// Gravity between all pairs of bodies, single precision: the acceleration of each. A body is its place and, as fourth
// number, its mass. A thread takes ITEMS bodies, BLOCK apart, and walks over all bodies, UNROLL at a time.
// `softening` is the square of a length; it keeps close pairs, and a body and itself, finite.
// Tuning parameters: BLOCK (threads), ITEMS, UNROLL (divides BLOCK), SHARED (1: the block fetches BLOCK bodies at a
// time into shared memory, 0: every thread reads them where they lie).

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef ITEMS
#define ITEMS 1
#endif
#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef SHARED
#define SHARED 1
#endif

constexpr int step = UNROLL; // a pragma takes a name, not a macro
static_assert(BLOCK % step == 0, "UNROLL divides BLOCK");

// Adds to `acceleration` what `other` does to a body at `place`.
__device__ __forceinline__ void attract(float3& acceleration, float4 place, float4 other, float softening)
{
    const float x = other.x - place.x;
    const float y = other.y - place.y;
    const float z = other.z - place.z;
    const float inverse = rsqrtf(x * x + y * y + z * z + softening);
    const float pull = other.w * inverse * inverse * inverse;
    acceleration.x += pull * x;
    acceleration.y += pull * y;
    acceleration.z += pull * z;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
nbody(const float4* __restrict__ bodies, float4* __restrict__ accelerations, int count, float softening)
{
    const int first = blockIdx.x * BLOCK * ITEMS + threadIdx.x;
    const float4 nothing = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 place[ITEMS];
    float3 acceleration[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = first + i * BLOCK;
        place[i] = at < count ? bodies[at] : nothing;
        acceleration[i] = make_float3(0.0f, 0.0f, 0.0f);
    }

#if SHARED
    __shared__ float4 tile[BLOCK];
    for (int start = 0; start < count; start += BLOCK) {
        const int at = start + threadIdx.x;
        tile[threadIdx.x] = at < count ? bodies[at] : nothing; // a body without mass pulls nobody
        __syncthreads();
#pragma unroll step
        for (int j = 0; j < BLOCK; ++j) {
#pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                attract(acceleration[i], place[i], tile[j], softening);
            }
        }
        __syncthreads();
    }
#else
#pragma unroll step
    for (int j = 0; j < count; ++j) {
        const float4 other = bodies[j];
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            attract(acceleration[i], place[i], other, softening);
        }
    }
#endif

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        const int at = first + i * BLOCK;
        if (at < count) {
            accelerations[at] = make_float4(acceleration[i].x, acceleration[i].y, acceleration[i].z, 0.0f);
        }
    }
}

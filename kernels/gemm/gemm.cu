// C = alpha * A * B^T + beta * C, single precision. A has k rows of m floats, B k rows of n, C n rows of m. A block
// makes a tile of MWG x NWG (along m, along n), a thread a part of it in registers, walking along k in steps of KWG.
// m, n and k must be multiples of MWG, NWG and KWG.
// Tuning parameters: MWG, NWG, KWG; MDIMC, NDIMC (threads along m and n); KWI (steps along k that are unrolled); SA, SB
// (1: the block first copies a step's part of A, of B, to shared memory); MDIMA, NDIMB (threads along a row while it
// copies; the others take other rows); VWM, VWN (floats that a thread takes together, of A and C, and of B); STRM, STRN
// (0: a thread's vectors are adjacent, 1: those of neighbouring threads are); PRECISION (bits of a number).

#ifndef MWG
#define MWG 64
#endif
#ifndef NWG
#define NWG 64
#endif
#ifndef KWG
#define KWG 32
#endif
#ifndef MDIMC
#define MDIMC 16
#endif
#ifndef NDIMC
#define NDIMC 16
#endif
#ifndef MDIMA
#define MDIMA 16
#endif
#ifndef NDIMB
#define NDIMB 16
#endif
#ifndef KWI
#define KWI 2
#endif
#ifndef VWM
#define VWM 2
#endif
#ifndef VWN
#define VWN 2
#endif
#ifndef STRM
#define STRM 0
#endif
#ifndef STRN
#define STRN 0
#endif
#ifndef SA
#define SA 1
#endif
#ifndef SB
#define SB 1
#endif
#ifndef PRECISION
#define PRECISION 32
#endif

constexpr int threads = MDIMC * NDIMC;
constexpr int vectors_m = MWG / MDIMC / VWM; // of a thread
constexpr int vectors_n = NWG / NDIMC / VWN;
static_assert(PRECISION == 32, "single precision only");
static_assert(KWG % KWI == 0, "whole rounds of the unrolled loop");
static_assert(MWG % (MDIMC * VWM) == 0 && NWG % (NDIMC * VWN) == 0, "threads share the tile evenly");
static_assert(MWG % (MDIMA * VWM) == 0 && NWG % (NDIMB * VWN) == 0, "threads share a copied row evenly");
static_assert(threads % MDIMA == 0 && KWG % (threads / MDIMA) == 0, "threads share the copied rows of A evenly");
static_assert(threads % NDIMB == 0 && KWG % (threads / NDIMB) == 0, "threads share the copied rows of B evenly");

// An instruction moves 16 bytes at most, so wider vectors need no more alignment.
template <int width> struct alignas(width < 4 ? 4 * width : 16) Vector {
    float at[width];
};
using VectorM = Vector<VWM>;
using VectorN = Vector<VWN>;

// Which of the vectors in a row that `sharing` threads share, `each` apiece, is the i-th of a thread.
template <int sharing, int each, bool strided> __device__ __forceinline__ int place(int thread, int i)
{
    return strided ? i * sharing + thread : thread * each + i;
}

// KWG rows of a matrix, from `from` on, to a tile. Rows of the matrix are `pitch` vectors long, those of the tile
// `columns`. A row is shared by `sharing` threads, and a thread has adjacent rows.
template <int sharing, bool strided, int columns, typename V>
__device__ __forceinline__ void copy(V* tile, const V* from, int pitch)
{
    constexpr int rows = KWG * sharing / threads;
    constexpr int each = columns / sharing;
    const int thread = threadIdx.y * MDIMC + threadIdx.x;
    const int first = thread / sharing * rows;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const int column = place<sharing, each, strided>(thread % sharing, i);
            tile[(first + row) * columns + column] = from[(first + row) * pitch + column];
        }
    }
}

extern "C" __global__ void __launch_bounds__(threads)
gemm(const VectorM* __restrict__ a, const VectorN* __restrict__ b, VectorM* __restrict__ c, int m, int n, int k,
     float alpha, float beta)
{
    const int pitch_m = m / VWM; // vectors
    const int pitch_n = n / VWN;
    const int left = blockIdx.x * (MWG / VWM);
    const int top = blockIdx.y * NWG; // rows of C
    // A thread's vectors are adjacent, and the compiler would move them together, whatever VWM and VWN say, where it
    // knows them to be aligned for that. So where tiles begin hangs on threadIdx.z, which is 0, but it does not know.
    // Scalars of B are left to it: behind a tile of A they are aligned as the vectors of that are.
#if SA || SB
    alignas(16) __shared__ float tiles[KWG * (SA * MWG + SB * NWG)];
#endif
#if SA
    VectorM* const tile_a = reinterpret_cast<VectorM*>(tiles + threadIdx.z * VWM);
#endif
#if SB
    constexpr int alignment = SA && VWN == 1 ? VWM : VWN;
    VectorN* const tile_b = reinterpret_cast<VectorN*>(tiles + SA * KWG * MWG + threadIdx.z * alignment);
#endif

    float sum[vectors_n * VWN][vectors_m * VWM] = {};
    for (int start = 0; start < k; start += KWG) {
        const VectorM* const rows_a = a + start * pitch_m + left;
        const VectorN* const rows_b = b + start * pitch_n + top / VWN;
#if SA
        copy<MDIMA, STRM, MWG / VWM>(tile_a, rows_a, pitch_m);
#endif
#if SB
        copy<NDIMB, STRN, NWG / VWN>(tile_b, rows_b, pitch_n);
#endif
#if SA || SB
        __syncthreads();
#endif
#pragma unroll 1
        for (int first = 0; first < KWG; first += KWI) {
#pragma unroll
            for (int step = first; step < first + KWI; ++step) {
                VectorM of_a[vectors_m];
                VectorN of_b[vectors_n];
#pragma unroll
                for (int i = 0; i < vectors_m; ++i) {
                    const int column = place<MDIMC, vectors_m, STRM>(threadIdx.x, i);
#if SA
                    of_a[i] = tile_a[step * (MWG / VWM) + column];
#else
                    of_a[i] = rows_a[step * pitch_m + column];
#endif
                }
#pragma unroll
                for (int j = 0; j < vectors_n; ++j) {
                    const int column = place<NDIMC, vectors_n, STRN>(threadIdx.y, j);
#if SB
                    of_b[j] = tile_b[step * (NWG / VWN) + column];
#else
                    of_b[j] = rows_b[step * pitch_n + column];
#endif
                }
#pragma unroll
                for (int j = 0; j < vectors_n * VWN; ++j) {
#pragma unroll
                    for (int i = 0; i < vectors_m * VWM; ++i) {
                        sum[j][i] += of_a[i / VWM].at[i % VWM] * of_b[j / VWN].at[j % VWN];
                    }
                }
            }
        }
#if SA || SB
        __syncthreads();
#endif
    }

#pragma unroll
    for (int j = 0; j < vectors_n * VWN; ++j) {
        const int row = top + place<NDIMC, vectors_n, STRN>(threadIdx.y, j / VWN) * VWN + j % VWN;
#pragma unroll
        for (int i = 0; i < vectors_m; ++i) {
            const int at = row * pitch_m + left + place<MDIMC, vectors_m, STRM>(threadIdx.x, i);
            VectorM result = c[at];
#pragma unroll
            for (int v = 0; v < VWM; ++v) {
                result.at[v] = alpha * sum[j][i * VWM + v] + beta * result.at[v];
            }
            c[at] = result;
        }
    }
}

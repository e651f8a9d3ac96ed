// Products of matrices of 16-bit numbers, tile by tile, in several orders of the tiles. What is computed of
// the numbers does not matter here: addresses do.

#define TILE 32

#define KERNEL extern "C" __global__ void

__device__ void product(
    const unsigned short* a, const unsigned short* b, unsigned* c, int n, int k, int from, int to, int m_tile, int n_tile)
{
    __shared__ uint4 x[TILE][TILE / 8], y[TILE][TILE / 8];
    int row = threadIdx.x / 4, part = threadIdx.x % 4;
    unsigned sum = 0;
    const uint4* of_a = (const uint4*)(a + (m_tile * TILE + row) * k + 8 * part);
    const uint4* of_b = (const uint4*)(b + row * n + n_tile * TILE + 8 * part);
#ifdef AHEAD
    uint4 next_x = of_a[from / 8], next_y = of_b[from * n / 8];
#endif
    for (int first = from; first < to; first += TILE) {
#ifdef AHEAD
        x[row][part] = next_x;
        y[row][part] = next_y;
        __syncthreads();
        if (first + TILE < to) {
            next_x = of_a[(first + TILE) / 8];
            next_y = of_b[(first + TILE) * n / 8];
        }
#else
        x[row][part] = of_a[first / 8];
        y[row][part] = of_b[first * n / 8];
        __syncthreads();
#endif
        for (int i = 0; i < TILE; i++) sum += x[row][i / 8].x * y[i][part].y;
        __syncthreads();
    }
    unsigned* to_c = c + (m_tile * TILE + row) * n + n_tile * TILE + part;
    for (int i = 0; i < TILE; i += 4)
#ifdef ADD
        atomicAdd(to_c + i, sum);
#else
        to_c[i] = sum;
#endif
}

__device__ int2 grouped_tile(int id, int m, int n, int group)
{
    int m_tiles = m / TILE, n_tiles = n / TILE, whole = group * n_tiles;
    int first = id / whole * group, rows = min(m_tiles - first, group);
    return make_int2(first + id % whole % rows, id % whole / rows);
}

// Rows of tiles in groups, down the columns of each.
KERNEL grouped(const unsigned short* a, const unsigned short* b, unsigned* c, int m, int n, int k, int group)
{
    int2 tile = grouped_tile(blockIdx.x, m, n, group);
    product(a, b, c, n, k, 0, k, tile.x, tile.y);
}

// The same tiles, row by row, by the grid's own dimensions.
KERNEL plain(const unsigned short* a, const unsigned short* b, unsigned* c, int n, int k)
{
    product(a, b, c, n, k, 0, k, blockIdx.y, blockIdx.x);
}

// A few blocks that each do every so-manieth tile.
KERNEL persistent(const unsigned short* a, const unsigned short* b, unsigned* c, int m, int n, int k, int group)
{
    for (int id = blockIdx.x; id < (m / TILE) * (n / TILE); id += gridDim.x) {
        int2 tile = grouped_tile(id, m, n, group);
        product(a, b, c, n, k, 0, k, tile.x, tile.y);
    }
}

// Parts of the sum go to different blocks, neighbours in the grid.
KERNEL split(const unsigned short* a, const unsigned short* b, unsigned* c, int m, int n, int k, int group, int parts)
{
    int part = blockIdx.x % parts, length = k / parts;
    int2 tile = grouped_tile(blockIdx.x / parts, m, n, group);
    product(a, b, c, n, k, part * length, (part + 1) * length, tile.x, tile.y);
}

// Each row of tiles has a matrix of its own, by a number that lies in memory.
KERNEL experts(
    const unsigned short* a, const unsigned short* b, unsigned* c, const int* expert, int m, int n, int k, int group)
{
    int2 tile = grouped_tile(blockIdx.x, m, n, group);
    product(a, b + expert[tile.x] * n * k, c, n, k, 0, k, tile.x, tile.y);
}

// Half of the warps load, the others wait for them.
KERNEL specialised(const unsigned short* a, unsigned* c, int m, int n, int k, int group)
{
    __shared__ unsigned short x[128];
    int2 tile = grouped_tile(blockIdx.x, m, n, group);
    unsigned sum = 0;
    for (int first = 0; first < k; first += TILE) {
        if (threadIdx.x >= 64) x[threadIdx.x] = a[(tile.x * TILE + threadIdx.x / 4 - 16) * k + first + threadIdx.x % 4];
        __syncthreads();
        sum += x[64 + threadIdx.x % 64];
        __syncthreads();
    }
    c[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Rows that begin inside of a sector.
KERNEL rows(const int* x, int* y, int n)
{
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 128) sum += x[blockIdx.x * n + i];
    y[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Windows that overlap, and end at the array's ends.
KERNEL windows(const int* x, int* y, int n)
{
    int at = blockIdx.x * 128 + threadIdx.x;
    y[at] = x[max(at - 64, 0)] + x[min(at + 64, n - 1)];
}

// Half of the blocks leave early; they would store where the others do.
KERNEL planes(const int* x, int* y, int blocks)
{
    if (blockIdx.x >= blocks) return;
    int loaded = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 4; k++) y[(k * blocks + blockIdx.x) * 128 + threadIdx.x] = loaded + k;
}

// Each thread has a row: half a sector a trip, of more rows than the L1 has lines.
KERNEL own_rows(const uint4* x, int* y, int n)
{
    int sum = 0, at = blockIdx.x * 128 + threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < n; i++) sum += x[at * n + i].x;
    y[at] = sum;
}

// Tiles before the block's own: fewer for the first blocks.
KERNEL causal(const int* x, int* y, int tiles)
{
    int sum = 0;
    for (int tile = max((int)blockIdx.x - tiles, 0); tile <= blockIdx.x; tile++) {
        sum += x[tile * 128 + threadIdx.x];
        __syncthreads();
    }
    y[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Rows of several lengths, whose last trips are other code.
KERNEL lengths(const int* x, int* y, int n)
{
    int sum = 0, length = n + 137 * (blockIdx.x % 5);
    for (int i = threadIdx.x; i < length; i += 128) sum += x[blockIdx.x * 2048 + i];
    y[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Atomics that return something, of half a sector each.
KERNEL tickets(const int* x, int* y, int n)
{
    int at = blockIdx.x * 128 + threadIdx.x;
    if (atomicCAS(y + 4 * at, 0, x[at]) == n) y[4 * at + 1] = 1;
}

// Several filters of the same planes, which are read again after as many blocks as are in a filter.
KERNEL planes_of_filters(const int* x, int* y, int planes)
{
    int plane = blockIdx.x % planes, sum = 0;
    for (int i = -1; i <= 1; i++)
        if (plane + i >= 0 && plane + i < planes) sum += x[(plane + i) * 64 + threadIdx.x % 64];
    y[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Sectors in any order, each once.
KERNEL shuffled(const int* x, int* y, int n)
{
    unsigned at = (blockIdx.x * 128 + threadIdx.x) * 40503u % n;
    y[8 * at] = x[8 * at];
}

// Any words of two tables that are far apart.
KERNEL tables(const int* x, int* y, int n)
{
    unsigned thread = blockIdx.x * 128 + threadIdx.x, any = (thread ^ thread >> 16) * 0x85ebca6bu;
    any = (any ^ any >> 13) * 0xc2b2ae35u;
    y[thread] += x[(any ^ any >> 16) % n + thread % 2 * (1 << 24)];
}

// Heads of a group read the same keys.
KERNEL heads(const int* keys, int* y, int length)
{
    int sum = 0;
#pragma unroll 1
    for (int at = threadIdx.x; at < length; at += 128) sum += keys[blockIdx.x * length + at];
    y[(blockIdx.y * gridDim.x + blockIdx.x) * 128 + threadIdx.x] = sum;
}

// Some blocks read one array, others another one.
KERNEL either(const int* x, int* y, int n, const int* other)
{
    const int* from = blockIdx.y == 1 ? x : other;
    y[(blockIdx.y * n + blockIdx.x) * 128 + threadIdx.x] = from[blockIdx.x * 128 + threadIdx.x];
}

// Heads of one array and, behind these, of another one, turned by a table that all heads of a token read.
KERNEL turned(const int* x, int* y, const int* keys, const int* table, int heads)
{
    int head = blockIdx.x, at = blockIdx.y * 128 + threadIdx.x, all = gridDim.y * 128, angle = table[at];
    y[head * all + at] = head < heads ? x[head * all + at] * angle : keys[(head - heads) * all + at] + angle;
}

// A stencil of 3 x 3, in tiles of 4 x 32.
KERNEL image(const int* x, int* y, int n)
{
    int rows = gridDim.y * 4, sum = 0;
    int row = blockIdx.y * 4 + threadIdx.x / 32, column = blockIdx.x * 32 + threadIdx.x % 32;
    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++)
            if (row + i >= 0 && row + i < rows && column + j >= 0 && column + j < n) sum += x[(row + i) * n + column + j];
    if (column < n) y[row * n + column] = sum;
}

// Causal attention, reduced to what it loads: a block's queries, and the keys of its head up to them.
KERNEL attention(const int* queries, const int* keys, int* y, int length)
{
    int head = blockIdx.y * length, row = blockIdx.x * 128 + threadIdx.x;
    int sum = row < length ? queries[head + row] : 0;
#pragma unroll 1
    for (int at = threadIdx.x; at < min(length, (int)(blockIdx.x + 1) * 128); at += 128) sum += keys[head + at];
    if (row < length) y[head + row] = sum;
}

// Blocks that read more queries read fewer tiles of keys, from some tile on: all of these in the end.
KERNEL backward(const int* queries, const int* keys, int* y, int length)
{
    int head = blockIdx.y * length, sum = 0;
#pragma unroll 1
    for (int at = blockIdx.x * 128 + threadIdx.x; at < length; at += 128) sum += queries[head + at] / (sum | 1) % 7;
#pragma unroll 1
    for (int i = 0; i <= blockIdx.x; i++)
        sum += keys[head + (blockIdx.x * 5 + i) % gridDim.x * 128 + threadIdx.x];
    y[head + blockIdx.x * 128 + threadIdx.x] = sum;
}

// Rows of 32 words, each once, in an order that lies in memory: few of a warp at a time.
KERNEL pages(const int* x, int* y, const int* page, int trips)
{
    int sum = 0, warp = 4 * blockIdx.x + threadIdx.x / 32;
#pragma unroll 1
    for (int i = 0; i < trips; i++) sum += x[page[warp * trips + i] * 32 + threadIdx.x % 32];
    y[blockIdx.x * 128 + threadIdx.x] = sum;
}

// Parts of rows whose order lies in memory: several heads in a row need the same part.
KERNEL shared_pages(const int* x, int* y, const int* page, int heads)
{
    int at = page[(blockIdx.x * gridDim.z + blockIdx.z) * 16 + threadIdx.x / 8], part = blockIdx.y / heads * 8;
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    y[block * 128 + threadIdx.x] = x[at * 64 + part + threadIdx.x % 8];
}

// Some blocks do a trip more than others.
KERNEL grid_stride(const int* x, int* y, int n)
{
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) y[i] = x[i];
}

// The first heads read tiles of another array, too.
KERNEL some_more(const int* x, int* y, const int* more, int heads, int tiles)
{
    int at = (blockIdx.y * gridDim.x + blockIdx.x) * 128 + threadIdx.x, sum = x[at];
    if (blockIdx.y < heads)
#pragma unroll 1
        for (int i = 0; i < tiles; i++) sum += more[(at - threadIdx.x) * tiles + i * 128 + threadIdx.x] / (sum | 1);
    y[at] = sum;
}

// All read the same twice, and store much more.
KERNEL twice(const int* x, int* y, int n)
{
    int sum = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * n; i += 128) sum += x[i % n];
    for (int k = 0; k < 8; ++k) y[(8 * blockIdx.x + k) * 128 + threadIdx.x] = sum;
}

// Places in each of several rows that are the same for all rows of an image.
KERNEL groups(const int* x, int* y, const int* place, int size)
{
    const int i = blockIdx.x * 128 + threadIdx.x, row = blockIdx.z * gridDim.y + blockIdx.y;
    y[row * gridDim.x * 128 + i] = x[row * size + place[blockIdx.z * gridDim.x * 128 + i]];
}

// Rows and the three before them, for which the first block of a sequence has others, and its last ones.
KERNEL history(const int* x, int* y, const int* initial, int chunks)
{
    int sum = 0, first = 8 * (blockIdx.x * chunks + blockIdx.y);
    if (blockIdx.y == 0)
        for (int j = 1; j < 4; j++)
            sum += initial[(3 * blockIdx.x + j - 1) * 128 + threadIdx.x] + x[(first + 8 * chunks - j) * 128 + threadIdx.x];
    else
        for (int j = 1; j < 4; j++) sum += x[(first - j) * 128 + threadIdx.x];
    for (int j = 0; j < 8; j++) y[(first + j) * 128 + threadIdx.x] = sum += x[(first + j) * 128 + threadIdx.x];
}

// Places near the thread's own.
KERNEL jittered(const int* x, int* y, const int* apart)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    y[i] = x[i + apart[i]];
}

// The same in each of several rows.
KERNEL channels(const int* x, int* y, const int* apart, int rows)
{
    const int i = blockIdx.x * 128 + threadIdx.x, at = max(i + apart[i], 0);
    int sum = 0;
#pragma unroll 1
    for (int row = 0; row < rows; row++) sum += x[row * gridDim.x * 128 + at];
    y[i] = sum;
}

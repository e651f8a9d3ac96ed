// Groups of a block, of tiles of a warp, and of the grid, which cannot wait. Those of a cluster are missing.
#pragma once

namespace cooperative_groups {
struct thread_block {
    DSE_DEVICE dim3 group_index() { return blockIdx; }
    DSE_DEVICE dim3 thread_index() { return threadIdx; }
    DSE_DEVICE dim3 dim_threads() { return blockDim; }
    DSE_DEVICE unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    DSE_DEVICE unsigned num_threads() { return size(); }
    DSE_DEVICE unsigned thread_rank()
    {
        return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    }
    DSE_DEVICE void sync() { __syncthreads(); }
};
struct grid_group {
    DSE_DEVICE unsigned long block_rank()
    {
        return (blockIdx.z * (unsigned long)gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    DSE_DEVICE unsigned long num_blocks() { return (unsigned long)gridDim.x * gridDim.y * gridDim.z; }
    DSE_DEVICE unsigned long thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    DSE_DEVICE unsigned long num_threads() { return num_blocks() * thread_block::size(); }
    DSE_DEVICE unsigned long size() { return num_threads(); }
    DSE_DEVICE bool is_valid() { return true; }
    DSE_DEVICE void sync() { __syncthreads(); } // of this block: what others do until then is not counted
};
template <unsigned N, class Parent = thread_block> struct thread_block_tile {
    static_assert(N <= DSE_WAVE, "a tile is a part of a wave");
    DSE_DEVICE unsigned size() { return N; }
    DSE_DEVICE unsigned num_threads() { return N; }
    DSE_DEVICE unsigned thread_rank() { return thread_block::thread_rank() % N; }
    DSE_DEVICE unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
    DSE_DEVICE unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
    DSE_DEVICE void sync() { __syncwarp(); }
    template <class T> DSE_DEVICE T shfl(DSE_ANY T value, int lane) { return __shfl(value, lane, N); }
    template <class T> DSE_DEVICE T shfl_up(DSE_ANY T value, unsigned by) { return __shfl_up(value, by, N); }
    template <class T> DSE_DEVICE T shfl_down(DSE_ANY T value, unsigned by) { return __shfl_down(value, by, N); }
    template <class T> DSE_DEVICE T shfl_xor(DSE_ANY T value, unsigned by) { return __shfl_xor(value, by, N); }
    DSE_DEVICE unsigned long ballot(int predicate)
    {
        const unsigned first = __lane_id() & ~(N - 1);
        return __ballot(predicate) >> first & ~0ul >> (64 - N);
    }
    DSE_DEVICE int any(int predicate) { return ballot(predicate) != 0; }
    DSE_DEVICE int all(int predicate) { return ballot(!predicate) == 0; }
};
DSE_DEVICE thread_block this_thread_block() { return {}; }
DSE_DEVICE grid_group this_grid() { return {}; }
template <unsigned N, class Parent> DSE_DEVICE thread_block_tile<N, Parent> tiled_partition(const Parent&) { return {}; }
template <class Group> DSE_DEVICE void sync(Group group) { group.sync(); }
} // namespace cooperative_groups

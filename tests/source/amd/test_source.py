"""Configurations of a kernel's source counted for AMD GPUs, as models take them."""

from contextlib import nullcontext
from dataclasses import replace
from math import prod
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError, InputWarning
from dse.hardware import gpus, occupancy
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import KnownBatch
from dse.source.amd.compile.source import Built, compile_source, read_source
from dse.source.amd.source import AMD, architecture, listing_of, source_of
from dse.source.cache import Cache
from dse.source.kernel import SourceKernel, warn_of_counts
from dse.source.launches import Configuration, configurations, plainly
from dse.source.nvidia.compile.kernel_names import names
from dse.source.nvidia.source import CUDA
from dse.source.profiles import ASSUMED_STEPS, KernelProfile, with_assumed
from dse.source.readers import cuda_file
from dse.source.readers.given import Given
from dse.source.readers.kernel import counts_of
from dse.source.toolchain import toolchain
from dse.types import Resources

MI250X, W6600, A100 = (gpus.load(name) for name in ("mi250x", "w6600", "a100-pcie-40gb"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for the sources of all tests: for each folder NVIDIA's compiler would be started anew."""
    return tmp_path_factory.mktemp("sources")


def profile(name: str, gpu: GpuFile, cache: Path, **chosen: int) -> KernelProfile:
    kernel = kernels.load(name)
    values = {key: (value,) for key, value in chosen.items()}
    kernel = replace(kernel, space=kernel.space.with_values(values))
    parameters = {key: column[:1] for key, column in kernel.space.configurations({}).items()}
    wanted = configurations(kernel, parameters, dict(kernel.problem), gpu.gpu)
    source = source_of(kernel)
    [made] = AMD.characterise_all(source, architecture(gpu.gpu), wanted, gpu.gpu, Cache(cache / "cache"), 1)
    assert isinstance(made, KernelProfile), made
    return made


def test_the_gpu_chooses_the_compiler():
    assert [toolchain(file.gpu) for file in (MI250X, W6600, A100)] == [AMD, AMD, CUDA]
    assert [architecture(file.gpu) for file in (MI250X, W6600)] == [0x90A, 0x1032]
    with pytest.raises(DseError, match=r"gfx_name: found gfx0, expected one that clang .* compiles for"):
        architecture(A100.gpu)


def test_a_transpose_moves_each_word_once(folder: Path):
    for gpu, lanes in ((MI250X, 64), (W6600, 32)):
        actual = profile("transpose", gpu, folder, tile=32, rows=4, padding=1, shared=1)
        counts = actual.counts
        assert counts.warp_size == lanes
        assert counts.warps == prod(counts.block) // lanes
        size = 4 * prod(dict(kernels.load("transpose").problem).values())
        for kind in ("global load", "global store"):
            assert counts.total(kind, "bytes") * counts.blocks == pytest.approx(size)
            assert counts.total(kind, "sectors") * counts.blocks == pytest.approx(size / 32)
        assert len(counts.phases) == 2
        assert actual.shared_bytes == 32 * 33 * 4
        walk = counts.phases[0].walk
        assert walk is not None
        assert walk.loads == 4
        assert walk.cycles > float(gpu.gpu.latency.l2)  # it waits for loads before the barrier


@pytest.mark.slow
def test_the_occupancy_is_that_of_the_compiler(folder: Path):
    source = source_of(kernels.load("convolution"))
    for gpu in (MI250X, gpus.load("w7800")):
        for tile in (1, 2):
            defines = {"BLOCK_SIZE_X": 64, "BLOCK_SIZE_Y": 1, "TILE_SIZE_Y": tile, "USE_SHMEM": 0}
            made = source.compile(architecture(gpu.gpu), tuple(defines.items()))
            assert isinstance(made, Built)
            listing = listing_of(made, "convolution")
            asked = Resources(
                threads=int(gpu.gpu.limits.warp_size), blocks=10**6, registers=listing.vgprs, shared_bytes=0
            )
            waves = occupancy.resident_blocks(gpu.gpu.limits, asked)[0]
            assert int(waves) == listing.occupancy * int(gpu.gpu.limits.sub_partitions), (gpu.name, tile)


def test_a_sweep_over_gpus_of_both_vendors(folder: Path):
    transpose = kernels.load("transpose")
    transpose = replace(
        transpose, space=transpose.space.with_values({"tile": (16,), "padding": (0,), "rows": (1, 4)})
    )
    kernel = counts_of(transpose, source=True)
    assert isinstance(kernel, SourceKernel)
    kernel = replace(kernel, cache=Cache(folder / "cache"), workers=1)
    counted = kernel.count(transpose.space.configurations({}), gpus.stack([MI250X.gpu, A100.gpu]))
    assert isinstance(counted.batch, KnownBatch)
    assert not counted.failures
    threads = np.asarray(counted.batch.resources.threads)
    np.testing.assert_array_equal(threads[0], threads[1])
    insts = np.asarray(counted.batch.kernel.load_insts)
    np.testing.assert_allclose(2 * insts[0], 2 * insts[1])  # a thread's loads, whatever the warp


def read(path: Path, text: str, gpu: GpuFile, block: int, grid: int, *contents: str, shared_bytes=None):
    path.write_text(text)
    arguments = Given(block=(block,), grid=(grid,), arguments=contents, shared_bytes=shared_bytes)
    kernel = cuda_file.load(path, arguments)
    [wanted] = configurations(kernel, {}, {}, gpu.gpu)
    tools, cache = toolchain(gpu.gpu), Cache(path.parent / "cache")
    source = tools.source_of(kernel)
    [made] = tools.characterise_all(source, tools.architecture(gpu.gpu, source), [wanted], gpu.gpu, cache, 1)
    assert isinstance(made, KernelProfile), made
    return made


BOTH = pytest.mark.parametrize("gpu", [W6600, A100], ids=lambda gpu: gpu.name)


@pytest.mark.parametrize("name", ["mi250x", "mi300x", "w7800"])
def test_what_other_lanes_shuffle_may_be_undefined(name: str, folder: Path):
    """The leader's sum alone is returned, and lanes store side by side behind it."""
    text = """__global__ void push(int* to, int* count) {
        int lane = threadIdx.x % warpSize, first;
        if (lane == 0) first = atomicAdd(count, warpSize);
        to[__shfl(first, 0) + lane] = lane;
    }"""
    counts = read(folder / "push.hip", text, gpus.load(name), 64, 4, "count=1:int:0").counts
    assert counts.total("global load", "requests") == counts.warps
    assert counts.total("global load", "sectors") == counts.warps
    assert counts.total("global store", "sectors") * 32 == 64 * 4


def test_products_may_decide_on_work(folder: Path):
    """As the branch of a `tanh` of them does: they are fractions around 0."""
    text = """typedef float F __attribute__((ext_vector_type(4)));
    typedef _Float16 H __attribute__((ext_vector_type(4)));
    __global__ void f(float* out, const H* a) {
        F sum = {};
        for (int i = 0; i < 8; ++i) {
            H row = a[64 * i + threadIdx.x];
            sum = __builtin_amdgcn_mfma_f32_16x16x16f16(row, row, sum, 0, 0, 0);
        }
        if (sum[0] > 0) out[blockIdx.x * 64 + threadIdx.x] = sum[1];
    }"""
    counts = read(folder / "f.hip", text, gpus.load("mi250x"), 64, 32).counts
    assert counts.total("global store", "bytes") == pytest.approx(64 * 4 / 2, rel=0.3)
    assert counts.total("global load", "bytes") == 8 * 64 * 8


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("contents", [("a=8192:float:random", "b=8192:float:random"), ()])
def test_random_arrays_are_not_alike(gpu: GpuFile, contents: tuple[str, ...], folder: Path):
    text = """__global__ void f(float* out, const float* a, const float* b, const float* c, const int* d) {
        const int i = blockIdx.x * 256 + threadIdx.x;
        if (a[i] < b[i]) out[i] = c[i] + d[i];
    }"""
    counts = read(folder / "f.cu", text, gpu, 256, 32, *contents).counts
    assert [name for name, *_ in counts.zeros] == ([] if contents else ["a", "b"])
    # of a few blocks, four standard deviations of one
    assert counts.total("global store", "bytes") == pytest.approx(256 * 4 / 2, rel=0.25)


@BOTH
def test_rows_of_random_arrays_are_not_alike(gpu: GpuFile, folder: Path):
    """A maximum of 8 rows is new as often as the first of k + 1 numbers is the largest: once in k + 1."""
    text = """__global__ void f(float* out, const float* a, int pitch) {
        float most = -9;
        const int i = blockIdx.x * 256 + threadIdx.x;
        for (int k = 0; k < 8; ++k) {
            const float next = a[k * pitch + i];
            if (next > most) out[k * pitch + i] = most = next;
        }
    }"""
    counts = read(folder / "f.cu", text, gpu, 256, 16, "pitch=4096").counts
    expected = sum(1 / (k + 1) for k in range(8))
    assert counts.total("global store", "bytes") == pytest.approx(256 * 4 * expected, rel=0.1)


@BOTH
@pytest.mark.parametrize(
    ("work", "warns"),
    [
        ("int i = atomicAdd(next, 1); if (i < n) out[i] = 1.0f;", True),
        ("int i = blockIdx.x * 64 + threadIdx.x; if (i < n) atomicAdd(next, 1);", False),
        ("for (;;) { int i = atomicAdd(next, 1); if (i >= n) return; out[i] = 1.0f; }", True),
        ("if (!threadIdx.x) { while (atomicCAS(next, 0, 1)); out[0] = 1; atomicExch(next, 0); }", True),
    ],
)
def test_work_by_what_atomics_return_is_said(gpu: GpuFile, work: str, warns: bool, folder: Path):
    text = f"__global__ void deal(float* out, int* next, int n) {{ {work} }}"
    made = read(folder / "deal.cu", text, gpu, 64, 100, "n=2000", "next=1:int:0")
    with pytest.warns(InputWarning, match="what atomic operations return") if warns else nullcontext():
        warn_of_counts("deal", [made])


@BOTH
@pytest.mark.parametrize(
    "work",
    [
        "int i = blockIdx.x * 64 + threadIdx.x; out[atomicAdd(next, 1)] = x[i] + 1;",
        "int i = blockIdx.x * 64 + threadIdx.x; out[atomicAdd((unsigned long long*)next, 1ull)] = x[i] + 1;",
        "for (int i; (i = atomicAdd(next, 1)) < n;) out[i] = x[i] + 1;",
    ],
)
def test_blocks_take_turns_at_a_counter(gpu: GpuFile, work: str, folder: Path):
    """Also those that are not executed: together they do the work once, each at places of its own."""
    text = f"__global__ void deal(const float* x, float* out, int* next, int n) {{ {work} }}"
    count = 64 * 2500 * (20 if "for" in work else 1)
    counts = read(folder / "deal.cu", text, gpu, 64, 2500, f"n={count}", "next=2:int:0").counts
    assert counts.total("global store", "bytes") == pytest.approx(4 * count / 2500, rel=0.02)
    stored = 2500 * sum(phase.traffic.stores_past_l2 for phase in counts.phases if phase.traffic)
    assert stored == pytest.approx(count / 8, rel=0.4)  # where it is not followed, as at random places


@pytest.mark.parametrize("gpu", [A100, gpus.load("rtx_5090")], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize(("kind", "apart", "turns"), [("float", 1, 1), ("float", 0, 32), ("double", 8, 8)])
def test_threads_take_turns_to_add_fractions_in_shared_memory(
    gpu: GpuFile, kind: str, apart: int, turns: int, folder: Path
):
    """There is no such instruction, but a loop that ends when a comparing atomic has stored."""
    place = f"&s[threadIdx.x {'/' if apart > 1 else '*'} {apart}]"
    text = f"""__global__ void f(const {kind}* x, {kind}* y) {{
        __shared__ {kind} s[64];
        s[threadIdx.x] = 0;
        __syncthreads();
        atomicAdd({place}, x[threadIdx.x]);
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x];
    }}"""
    counts = read(folder / "f.cu", text, gpu, 64, 1).counts
    assert sum(counts.total(f"shared {way}", "requests") for way in ("store", "load")) == 4 * turns + 4
    assert not counts.unknown


@pytest.mark.parametrize("name", ["mi250x", "w6600", "w7800"])
def test_lanes_of_a_wave_take_turns_to_compare_and_swap(name: str, folder: Path):
    """Eight add to a word, in the LDS and in global memory. Contents of a counter are not asked for."""
    text = """__device__ void add(double* to, double value) {
        unsigned long long seen = *(unsigned long long*)to, old;
        do {
            double sum = value + __longlong_as_double(old = seen);
            seen = atomicCAS((unsigned long long*)to, old, __double_as_longlong(sum));
        } while (seen != old);
    }
    __global__ void f(const double* x, double* y, int* counter) {
        __shared__ double s[64];
        s[threadIdx.x] = 0;
        __syncthreads();
        add(&s[threadIdx.x / 8], x[threadIdx.x]);
        add(&y[threadIdx.x / 8], x[threadIdx.x]);
        atomicAdd(counter, 1);
    }"""
    counts = read(folder / "f.cu", text, gpus.load(name), 64, 4).counts
    assert counts.total("shared load", "requests") == counts.warps * (1 + 8)
    assert counts.total("global load", "requests") == counts.warps * (1 + 1 + 8)
    assert {array for array, *_ in counts.zeros} == {"x", "y"}


MOVED = {  # GPUs, block, grid, what is stated, sectors of all blocks with the deviation; text
    # Also where they are not followed, and are as many as blocks, or each is that of several.
    "tiles in any order make up the array": (
        (W6600, A100), 128, 61 * 53, ["rows=61", "columns=53"],
        {"stores_past_l2": 16 * 61 * 53, "loads_past_l2": 16 * 61 * (53 + 1)}, 0.03,
        """__global__ void f(const float* x, const float* w, float* y, int rows, int columns) {
            int group = blockIdx.x / (8 * columns), rest = blockIdx.x % (8 * columns);
            int size = min(rows - group * 8, 8);
            int row = group * 8 + rest % size, at = (row * columns + rest / size) * 128 + threadIdx.x;
            y[at] = x[at] * w[row * 128 + threadIdx.x];
        }""",
    ),
    "what all blocks share goes to each L1 once": (
        (W6600, A100), 64, 8000, [], {"loads_past_l1": 64 * 8, "loads_past_l2": 64 * 8}, 0.01,
        """__global__ void f(const float* x, float* y) {
            float sum = 0;
            for (int k = 0; k < 64; ++k) sum += x[k * 64 + threadIdx.x];
            y[blockIdx.x * 64 + threadIdx.x] = sum;
        }""",
    ),
    "segments that most blocks are behind are moved": (
        (A100,), 64, 128 * 32, ["ends=33:int:index*index*16"],
        {"stores_past_l2": 32 * 32 * 2, "loads_past_l2": 32 * 32 * 2}, 0.02,
        """__global__ void f(const int* ends, const float* x, float* y) {
            int first = ends[blockIdx.x / 128] + blockIdx.x % 128 * 64, i = first + threadIdx.x;
            if (first >= ends[blockIdx.x / 128 + 1]) return;
            if (i < ends[blockIdx.x / 128 + 1]) y[i] = x[i];
        }""",
    ),
    "pointers in memory lead to arrays of their own": (
        (W6600, A100), 64, 100, [], {"loads_past_l2": 100 * (64 * 4 + 8) / 32}, 0.01,
        """__global__ void f(const float* const* x, float* y) {
            y[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x][threadIdx.x];
        }""",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "gpu"), [(name, gpu) for name, row in MOVED.items() for gpu in row[0]],
    ids=lambda item: item if isinstance(item, str) else item.name,
)  # fmt: skip
def test_sectors_that_all_blocks_move(name: str, gpu: GpuFile, folder: Path):
    _, block, grid, stated, sectors, close, text = MOVED[name]
    counts = read(folder / "f.cu", text, gpu, block, grid, *stated).counts
    [traffic] = [phase.traffic for phase in counts.phases]
    for kind, expected in sectors.items():
        l1s = int(gpu.gpu.sm_count) if kind == "loads_past_l1" else 1
        assert grid * getattr(traffic, kind) == pytest.approx(l1s * expected, rel=close), kind
    pointers = (("x", "float*", "as pointers to arrays of their own"),)
    assert counts.zeros == (pointers if "pointers" in name else ())


@pytest.mark.slow
def test_a_loop_that_random_numbers_do_not_end_is_counted_as_if_all_were_0(folder: Path):
    first = read(folder / "f.cu", "__global__ void f(float* y) { y[threadIdx.x] = 1; }", A100, 64, 1)
    launch = Configuration((), (1, 1, 1), (64, 1, 1), (None,))

    def counted(configuration: Configuration) -> tuple[KernelProfile, dict[int | str, tuple[str, str]], bool]:
        if configuration is not launch:
            assert configuration.most_steps == ASSUMED_STEPS  # a small share of what an engine allows
            raise DseError("still running after 300000 stretches")
        return first, {0: ("x", "float")}, True

    made, launched = with_assumed(launch, counted)
    assert launched is launch
    assert made.counts == replace(first.counts, zeros=(("x", "float", "as if all were 0"),))


@pytest.mark.slow
@BOTH
def test_blocks_that_may_do_far_more_are_said_in_grids_of_thousands(gpu: GpuFile, folder: Path):
    text = """__global__ void rows(const int* length, const float* x, float* y) {
        const int i = blockIdx.x * 64 + threadIdx.x;
        float sum = 0;
        for (int k = 0; k < length[blockIdx.x]; ++k) sum += x[k * 1024000 + i] * sum;
        y[i] = sum;
    }"""
    lengths = "length=16000:int:100 + index * 7919 % 64 + 50000 * (index == 2001)"
    assert read(folder / "rows.cu", text, gpu, 64, 16000, lengths).counts.doubtful


COUNTED = {  # GPU, block, grid, what is stated, total; text
    "a loop that all blocks end after skipped trips is proven": (
        MI250X, 512, 4096, [f"n={64 * 512 * 4096}"], ("global load", "bytes", 64 * 4 * 512),
        """__global__ void f(float* y, const float* x, unsigned n) {
            float sum = 0;
            for (unsigned i = blockIdx.x * 512 + threadIdx.x; i < n; i += 512 * 4096) sum += x[i];
            y[threadIdx.x] = sum;
        }""",
    ),
    "bits of a wave that are those of all blocks are proven": (
        MI250X, 256, 20_000, [], ("global store", "bytes", 64 * 4),
        """__global__ void f(float* y) {
            int wave = __builtin_amdgcn_readfirstlane(threadIdx.x) & 192;
            if (wave == 64) y[blockIdx.x * 256 + threadIdx.x] = 1;
        }""",
    ),
    "threads that copy zeros read nothing": (
        A100, 64, 1, ["a=40:int:index", "n=40"], ("global store", "sectors", 3),  # of threads 21 to 39
        """__global__ void f(int* out, const int* a, int n) {
            __shared__ int s[64];
            unsigned to = __cvta_generic_to_shared(s + threadIdx.x), bytes = threadIdx.x < n ? 4 : 0;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2; cp.async.wait_all;"
                :: "r"(to), "l"(a + threadIdx.x), "r"(bytes));
            if (s[threadIdx.x] > 20) out[threadIdx.x] = 1;
        }""",
    ),
    "flags of a byte beside one another steer": (
        A100, 64, 1, ["off=0", "on=1", "n=40"], ("global store", "bytes", 4 * 40),
        """__global__ void f(float* y, bool off, bool on, short n) {
            if (on && !off && threadIdx.x < n) y[threadIdx.x] = 1;
        }""",
    ),
    "what the threads of a block find out at a barrier steers": (
        A100, 96, 1, ["n=40"], ("global store", "bytes", 4 * 96 * (1 + 3)),  # 40, and no thread less than 0
        """__global__ void f(float* y, int n) {
            int i = threadIdx.x, left = n;
            if (__syncthreads_count(i < n) == n && !__syncthreads_or(i > 95)) y[i] = 1;
            while (!__syncthreads_and(i >= left)) y[i + 96] = left -= 16;
        }""",
    ),
    "words of 64 bits change as a whole": (
        A100, 256, 4, ["a=2000:uint64_t:(index > 0) * (index - 1) * 2**32", "b=1024:int64_t:index - 100"],
        ("global store", "bytes", (64 + 1024 + 923 + 1024) / 4),
        """__global__ void f(char* y, unsigned long long* a, long long* b) {
            const int i = blockIdx.x * 256 + threadIdx.x;
            if (atomicAdd(a, 1ull << 33) >> 33 < 64) y[i] = 1;
            if (atomicExch(a + 1 + i, 7ull << 32) >> 32 == i) y[i + 1024] = 1;
            if (atomicMin(b + i, -5ll) > 0) y[i + 2048] = 1;
            if (atomicCAS(a + 1 + i, 7ull << 32, 0) == 7ull << 32) y[i + 3072] = 1;
        }""",
    ),
    "words of 64 bits change as a whole on AMD, too": (
        MI250X, 256, 4, ["a=1025:uint64_t:(index > 0) * 2**(32 + index % 2)", "b=1024:int64_t:index - 100"],
        ("global store", "bytes", (64 + 512 + 923 + 512) / 4),
        """__global__ void f(char* y, unsigned long long* a, long long* b) {
            const int i = blockIdx.x * 256 + threadIdx.x;
            __shared__ unsigned long long mine[256];
            mine[threadIdx.x] = 0;
            if (atomicAdd(a, 1ull << 33) >> 33 < 64) y[i] = 1;
            if (atomicOr(a + 1 + i, 0) >> 32 == 2) y[i + 1024] = 1;
            if (atomicMin(b + i, -5ll) > 0) y[i + 2048] = 1;
            atomicXor(&mine[threadIdx.x], 1ull << 32 + i % 2);
            if (mine[threadIdx.x] >> 32 == 2) y[i + 3072] = 1;
        }""",
    ),
    "threads go on that wait for other blocks": (
        A100, 64, 256, ["lock=256:int:0", "flag=256:int:0", "total=1:int:0"],
        ("global store", "bytes", 64 * 4),
        """__global__ void f(float* y, int* lock, volatile int* flag, int* total) {
            if (threadIdx.x == 0) {
                while (flag[blockIdx.x] == 0) __nanosleep(20);
                while (atomicCAS(lock + blockIdx.x, 1, 1) != 1) {}
                while (atomicAdd(total, 0) < gridDim.x) {}
            }
            __syncthreads();
            y[blockIdx.x * 64 + threadIdx.x] = 1;
        }""",
    ),
    "a barrier of the whole grid": (
        A100, 64, 256, ["n=40000"], ("global store", "bytes", 2 * 40_000 * 4 / 256),
        """#include <cooperative_groups.h>
        __global__ void f(float* x, float* y, int n) {
            auto grid = cooperative_groups::this_grid();
            for (int i = grid.thread_rank(); i < n; i += grid.size()) x[i] = i;
            grid.sync();
            for (int i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[n - 1 - i];
        }""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_counts_of_all_blocks_are_exact(name: str, folder: Path):
    gpu, block, grid, stated, (kind, what, expected), text = COUNTED[name]
    counts = read(folder / "f.cu", text, gpu, block, grid, *stated).counts
    assert (counts.unseen, counts.total(kind, what)) == (0, expected)


POINTERS_IN_STRUCTURES = """struct Base { const float* x; bool whole; };
    struct Taken : public Base { int n; const int* at; double scale; float* y; };
    __global__ void f(int before, const Taken p) {
        const int i = p.at[threadIdx.x];
        if (i < p.n && p.scale > 1) p.y[i] = p.x[i];
    }"""
BEFORE, N, SCALE, AT = "before=1", "p.n=256", "p.scale=2.0", "p.at=64:int:8*index"
ARRAY = "__global__ void f(int* out, const int* a) { if (a[threadIdx.x] > 1) out[threadIdx.x] = 1; }"
ROWS = """__global__ void f(int* out, const float* x, const int* starts) {
        int i = threadIdx.x; float sum = 0;
        for (int k = starts[i]; k < starts[i + 1]; ++k) sum += x[k];
        out[i] = sum;
    }"""
FRACTIONS = """__global__ void f(float* y, float a, float b, int m, int n) {
        if (threadIdx.x <= m) y[threadIdx.x * n] = a / b;
    }"""
LIST = """__global__ void f(int* length, const int* first, const int* next) {
        int passed = 0;
        for (int at = first[threadIdx.x]; at != -1; at = next[at]) ++passed;
        length[threadIdx.x] = passed;
    }"""
FLAGS = "__global__ void f(int* out, bool a, bool b) { if (a && b) out[threadIdx.x] = 1; }"
PARTS = "__global__ void f(int* out, uint3 n, int m) { if (threadIdx.x / n.x < m) out[threadIdx.x] = 1; }"
COUNTER = "__global__ void f(int* next, int* number) { next[atomicAdd(number, 1)] = threadIdx.x; }"
PLACES = """__global__ void f(float* y, const float* x, const float2* at) {
        y[threadIdx.x] = x[(int)at[threadIdx.x].x];
    }"""
HALVES = """#include <cuda_fp16.h>
    __global__ void f(int* y, const half2* x, const half* w, float b) {
        half2 v = __hfma2(x[threadIdx.x], x[threadIdx.x + 1], x[threadIdx.x + 2]);
        if (__low2float(v) * __half2float(w[threadIdx.x]) + b > 0) y[threadIdx.x] = 1;
    }"""
ASKED = {  # a kernel, what is stated, and what is asked for
    "an array that is large enough": (ARRAY, ("a=64:int:index",), ""),
    "one that is too small": (ARRAY, ("a=63:int:index",), "a: found accesses outside of the array"),
    "a counter that says where": (COUNTER, (), "number: found no contents of the array, which says where"),
    "fractions that lead to others": (PLACES, (), "at: found no contents of the array, which says where"),
    "halves": (HALVES, ("b=0.0",), ""),
    "halves that are stated": (HALVES, ("x=66:__half2:random", "w=64:half:1", "b=0.0"), ""),
    "one that is stated": (COUNTER, ("number=1:int:0",), ""),
    "whole numbers that end loops": (ROWS, (), "starts: found no contents of the array, which ends or skips"),
    "stated ones": (ROWS, ("starts=65:int:index * 3",), ""),  # what is stored, or has fractions, is not
    "a number of a structure": (POINTERS_IN_STRUCTURES, (BEFORE, SCALE, AT), "expected p.n=VALUE"),
    "an array of one": (POINTERS_IN_STRUCTURES, (BEFORE, N, SCALE), "p.at: found no contents of the"),
    "a flag beside one that is stated": (FLAGS, ("a=1",), "b: found no value"),
    "a flag before one that is stated": (FLAGS, ("b=1",), "a: found no value"),
    "a vector": (PARTS, ("m=1",), "n: found no value"),
    "fractions, which may divide": (FRACTIONS, ("m=64", "n=1"), ""),
    "other numbers": (FRACTIONS, (), "expected m=VALUE and n=VALUE|expected n=VALUE and m=VALUE"),
    "a list that never ends": (LIST, (), "still running .* contents of first, contents of next"),
}


@pytest.mark.quick("A100", "array", "stated", "number", "fractions", "one")  # an endless list: seconds
@BOTH
@pytest.mark.parametrize("name", ASKED)
def test_what_is_not_stated_is_asked_for(gpu: GpuFile, name: str, folder: Path):
    text, stated, message = ASKED[name]
    with pytest.raises(AssertionError, match=message) if message else nullcontext():
        read(folder / "f.cu", text, gpu, 64, 1, *stated)


@BOTH
def test_pointers_in_structures_lead_to_arrays_of_their_own(gpu: GpuFile, folder: Path):
    counts = read(folder / "f.cu", POINTERS_IN_STRUCTURES, gpu, 64, 1, BEFORE, N, SCALE, AT).counts
    assert [counts.total(f"global {way}", "bytes") for way in ("load", "store")] == [4 * (64 + 32), 4 * 32]
    assert counts.total("global store", "sectors") == 32


@pytest.mark.parametrize("gpu", [W6600, A100, gpus.load("h100-sxm")], ids=lambda gpu: gpu.name)
def test_shared_memory_that_only_the_launch_sizes(gpu: GpuFile, folder: Path):
    text = """__global__ void f(float* out, const float* a) {
        extern __shared__ float s[];
        s[threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = s[63 - threadIdx.x];
    }"""
    for stated in (None, 252):
        with pytest.raises(AssertionError, match=r"shared memory: found .*, expected its size"):
            read(folder / "f.cu", text, gpu, 64, 1, shared_bytes=stated)
    assert read(folder / "f.cu", text, gpu, 64, 1, shared_bytes=256).shared_bytes == 256


@BOTH
def test_textures_are_named(gpu: GpuFile, folder: Path):
    text = "__global__ void f(float* y, cudaTextureObject_t x) { *y = tex2D<float>(x, 0.5f, 1.5f); }"
    with pytest.raises(AssertionError, match="f: found texture"):
        read(folder / "f.cu", text, gpu, 64, 1)


def test_mangled_names_are_found():
    assert names("_Z5scaleILi4EEvPf", "scale<4>")
    assert names("_ZN3own5scaleEPf", "own::scale")
    assert not names("_Z5scalePf", "cale")
    assert plainly("_Z5scalePf7Complex: x; _ZN2ns1fIfEEvPT_, _ZL1gPf: y") == "scale: x; f, g: y"


@pytest.mark.parametrize(
    ("kernel", "mangled"), [("f<float,4>", "_Z1fIfLi4EEvPT_"), ("f<half, 4>", "_Z1fIDF16_Li4E")]
)
def test_a_specialised_template_is_told_by_its_arguments(tmp_path: Path, kernel: str, mangled: str) -> None:
    path = tmp_path / "f.cu"
    path.write_text("""
        template <class T, int N> __global__ void f(T* x) { *x += N; }
        template <> __global__ void f<half, 4>(half* x) { *x *= half(5); }
        template __global__ void f<float, 8>(float*);
    """)
    made = compile_source(read_source(path, kernel), 0x90A, ())
    assert isinstance(made, Built), made
    assert listing_of(made, kernel).name.startswith(mangled)


@pytest.mark.slow
def test_guarded_loads_are_spilled_to_where_there_is_room(folder: Path):
    """All loads of an unrolled filter go before the sums; where a tile divides the image, few are alive."""
    fixed = {"block_size_y": 4, "tile_size_x": 1, "tile_size_y": 1}
    fixed |= dict.fromkeys(("read_only", "use_padding", "use_shmem"), 0)
    even, guarded = (profile("convolution", MI250X, folder, block_size_x=x, **fixed) for x in (64, 48))
    assert even.spill_bytes == 0
    assert (guarded.spill_bytes or 0) > 4 * 64
    stored, loaded = (guarded.counts.total(f"local {kind}", "requests") for kind in ("store", "load"))
    assert stored == pytest.approx(2 * loaded, rel=0.02)  # its 0, and what was loaded
    dram = [
        sum(phase.traffic.dram_sectors for phase in made.counts.phases if phase.traffic)
        for made in (even, guarded)
    ]
    assert dram[1] > 20 * dram[0]
    without = replace(W6600, gpu=eqx.tree_at(lambda gpu: gpu.memory_cache_bytes, W6600.gpu, np.float32(0)))
    held, lost = (
        profile("convolution", gpu, folder, block_size_x=48, **fixed).warp.work.dram
        for gpu in (W6600, without)
    )
    assert lost > 5 * held

"""CUDA files with code for the host beside their kernels."""

import pytest

from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.declared import kernels_in, parameters_of
from dse.source.nvidia.compile.host_code import without_host
from dse.source.nvidia.compile.nvrtc import compile_source, read_source

AS_IT_SHIPS = """
#include <algorithm>
#include <cassert>
#include <cstdio>
#include <iostream>
#include <vector>
#include <cublas_v2.h>
#include <helper_cuda.h>
#include <torch/extension.h>
#define CEIL_DIV(m, n) (((m) + (n) - 1) / (n))
#define CHECK(call) do { if ((call) != cudaSuccess) { printf("{"); exit(1); } } while (0)
#define DEVICE __device__ __forceinline__
using namespace std;

enum Mode { PLAIN, FAST };
const int WARP = 32;
static std::vector<float> results;
template <typename T> using Pairs = vector<T>;
cublasHandle_t handle;
typedef float Aligned __attribute__((aligned(16)));
void launch(cudaStream_t stream);
struct Timer { std::vector<double> times; void stop() { times.push_back(0.0); } };
void stop(Timer timer);
template <typename T> struct Pool { T *held = nullptr; void give(int n) { held = take(n, CLOCK_REALTIME); } };
__align__(8) struct Pair { int first, second; };
typedef Timer Clock;
Clock wall{};
struct Tile { int rows; __host__ __device__ int size() const { return rows * WARP; }
private:
  __host__ int on_host() { return wall.times.size(); }
public:
  __device__ int tiles() { return 1; } };
constexpr int twice(int x) { return 2 * x; }
inline void require(cudaError_t code, const char *file, bool stop = true) { if (code && stop) exit(code); }
bool operator==(const Tile &a, const Tile &b) { return a.rows == b.rows; }

namespace inner { namespace {
template <typename T> DEVICE T clamp(T x, T most) { return std::min(x, most); }
std::string name() { return "{ not a bracket"; }
} }

template <const int BM, const int TM, typename T = float>
__global__ void __launch_bounds__((BM * 8) / (TM * (2 + 2)), 1) scale(uint n, T *x, Tile tile) {
  const uint at = blockIdx.x * blockDim.x + threadIdx.x;
  assert(n > 0);
  Pair pair{int(n), 1};
  for (uint i = at; i < pair.first; i += tile.size()) x[i] = inner::clamp(x[i], T(Aligned(twice(BM))));
}

void launch(cudaStream_t stream) {
#ifdef VERBOSE
  std::cout << "launching {" << std::endl;
#endif
  scale<64, 4><<<CEIL_DIV(1024, 64), 64, 0, stream>>>(1024, nullptr, Tile{2});
  CHECK(cudaGetLastError());
}

PYBIND11_MODULE(extension, m) { m.def("launch", &launch); }

int main(int argc, char **argv) {
  for (auto &each : results) { launch(0); }
}
"""


def made(tmp_path, text, kernel="scale<64, 4>", name="k.cu"):
    (tmp_path / name).write_text(text)
    return compile_source(read_source(tmp_path / name, kernel), 80, {})


def test_a_file_is_compiled_as_it_ships(tmp_path):
    actual = made(tmp_path, AS_IT_SHIPS)
    assert isinstance(actual, Compiled), actual
    assert [parameter.size for parameter in actual.binary.parameters] == [4, 8, 4]


@pytest.mark.parametrize("folders", [["headers"], []])
def test_a_header_is_read_as_the_file_whatever_its_name(tmp_path, folders):
    folder = tmp_path / "headers"
    folder.mkdir()
    (folder / "kernels.cuh").write_text('#pragma once\n#include "beside.cuh"\n' + AS_IT_SHIPS)
    (folder / "beside.cuh").write_text("#pragma once\n")
    path = tmp_path / "main.cu"
    names = "".join(
        f'#include "{name}"\n' for name in ("headers/kernels.cuh", *("kernels.cuh" for _ in folders))
    )
    path.write_text(names + "#include <fstream>\nvoid print(std::ofstream &file);\n")
    source = read_source(path, "scale<64, 4>", [tmp_path / name for name in folders])
    assert isinstance(compile_source(source, 80, {}), Compiled)
    assert [item.name for item in parameters_of(source) or ()] == ["n", "x", "tile"]
    assert kernels_in(source) == ["scale"]


def test_lines_keep_their_numbers_and_directives_stay():
    [blanked] = without_host(AS_IT_SHIPS)
    lines, after = AS_IT_SHIPS.splitlines(), blanked.splitlines()
    assert [len(line) for line in lines] == [len(line) for line in after]
    assert all(b in (a, " " * len(a)) for a, b in zip(lines, after, strict=True))
    kept = (
        "__device__ int tiles",
        "#ifdef VERBOSE",
        "#endif",
        "__global__",
        "DEVICE T clamp",
        "constexpr int twice",
        "struct Tile",
    )
    gone = (
        "int main",
        "launch(",
        "vector<",
        "cublasHandle_t",
        "PYBIND11_MODULE",
        "std::string name",
        "operator==",
        "wall",
        "Pool",
        "on_host",
    )
    assert [text in blanked for text in (*kept, *gone)] == [True] * len(kept) + [False] * len(gone)


AS_NVCC_SEES_IT = """
#include <cmath>
#include <thrust/device_vector.h>
using std::sqrt;
template <class T> constexpr T most_of() { return std::numeric_limits<T>::max(); }
__constant__ float least = -INFINITY;
template <class T> __device__ std::enable_if_t<std::is_integral_v<T>, T> most() { return most_of<T>(); }
template <class T, std::size_t N, std::size_t... I>
__device__ auto total(const std::array<T, N>& a, std::index_sequence<I...>) { return (a[I] + ...); }
__device__ std::pair<int, float> both(std::array<float, 3>&& a) {
  return {a.size(), total(std::forward<std::array<float, 3>>(a), std::make_index_sequence<3>{})};
}
__global__ void f(uint8_t *x, int64_t n, float *y) {
  static_assert(most_of<uint8_t>() == UCHAR_MAX && most_of<int64_t>() == INT64_MAX);
  static_assert(std::numeric_limits<int>::lowest() == INT_MIN && most_of<short>() == SHRT_MAX);
  static_assert(std::is_same<std::decay_t<const int&>, int>::value && most_of<float>() == FLT_MAX);
  static_assert(sizeof(std::make_unsigned_t<char>) == 1 && std::make_signed_t<uint64_t>(-1) < 0);
  std::array<float, 3> three{y[3], y[4]};
  y[5] = std::fabsf(both(std::move(three)).second);
  if (threadIdx.x < n) x[threadIdx.x] = most<int>() + std::max({y[1], y[3], (float)M_PI}) + least;
}
int main() { thrust::device_vector<float> all(3); }
"""
HALVES = """
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <mma.h>
#include <cub/cub.cuh>
__global__ void f(half2 *x) {
  auto rank = cooperative_groups::this_thread_block().thread_rank();
  __shared__ cub::BlockReduce<float, 32>::TempStorage parts;
  x[rank] = __hmul2(x[rank], __float2half2_rn(cub::BlockReduce<float, 32>(parts).Sum(2.0f)));
}
"""
OF_THE_DEVICES_LIBRARY = """
#include <cuda/std/complex>
using C = cuda::std::complex<float>;
__global__ void f(C* x) { *x = C(1.0f, 2.0f); }
int main() { f<<<1, 1>>>(nullptr); }
"""
TENSOR_MAP = "#include <cuda.h>\n__global__ void f(const __grid_constant__ CUtensorMap m, int *x) { *x = 1; }"


@pytest.mark.slow
def test_names_that_nvcc_has_without_asking_and_its_headers(tmp_path):
    for code in (AS_NVCC_SEES_IT, HALVES, OF_THE_DEVICES_LIBRARY, TENSOR_MAP):
        actual = made(tmp_path, code, "f")
        assert isinstance(actual, Compiled), actual
    own = (
        "#define INFINITY 1\ntypedef int int64_t;\n__global__ void f(int64_t n, int *x) { x[n] = INFINITY; }"
    )
    actual = made(tmp_path, own + " int main() { return 0; }", "f")
    assert isinstance(actual, Compiled), actual
    assert [parameter.size for parameter in actual.binary.parameters] == [4, 8]


def test_text_with_brackets_that_do_not_match_stays_or_is_blanked_whole():
    define = "#define A {\n__global__ void k() {}"
    for text in ("int f( {", "}}}", "namespace {", 'char *x = "', "template <", define):
        assert len(without_host(text)[0]) == len(text)

"""CUDA and HIP files compiled for AMD GPUs by clang, without ROCm."""

import math
import re

import numpy as np
import pytest

from dse.errors import DseError
from dse.source.amd.compile.clang import clang, knows
from dse.source.amd.compile.options import check, for_clang
from dse.source.amd.compile.source import Built, HipSource, compile_source, read_source
from dse.source.amd.execute.code import code_of
from dse.source.amd.execute.interpret import execute
from dse.source.amd.text import parse
from dse.source.contract import Failure
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.compile.options import check as check_for_nvrtc

GFX90A = 0x90A


def built(source: HipSource, target: int = GFX90A, **defines: object) -> Built:
    made = compile_source(source, target, tuple(defines.items()))
    assert isinstance(made, Built), made
    return made


def test_the_compiler_tells_its_version_and_targets():
    assert clang().version.startswith("clang ")
    assert all(map(knows, (0x802, 0x906, 0x90A, 0x942, 0x1032, 0x1100)))
    assert not knows(0x123)


@pytest.mark.parametrize("bounds", ["128", "N * 4, 1", "N * 4, 1, 1"])
def test_the_stated_size_of_a_block_leaves_its_threads_more_registers(write, bounds):
    sums = "float s[200]; for (auto& t : s) t = *x++; while (n--) for (auto& t : s) t *= t + x[n];"
    text = "template <int N> __global__ void {} f(float* x, int n) {{ {} for (auto& t : s) *x++ = t; }}"
    held, free = (
        parse(built(read_source(write(text.format(stated, sums)), "f<32>"), 0x942).text, None)
        for stated in (f"__launch_bounds__({bounds})", "")
    )
    assert held.vgprs > 200
    assert free.vgprs == 128


@pytest.mark.slow
def test_names_of_cuda_are_there(write):
    text = """
    #include <cuda_runtime.h>
    #include <cstdint>
    #include <cooperative_groups.h>
    extern __shared__ float4 tile[];
    template <class T> __device__ T twice(T x) { return x + x; }
    __global__ void __launch_bounds__(128, 2) all(float* out, const int4* in, unsigned* counts, half* h)
    {
        const dim3 block = blockDim;
        const uint32_t at = blockIdx.x * block.x + threadIdx.x;
        tile[threadIdx.x] = make_float4(1.0f, 2.0f, 3.0f, __int_as_float(in[at].w));
        __syncthreads();
        float sum = twice(tile[at % 128].w) + rsqrtf(at) + __expf(at) + powf(at, 0.3f) + sinf(at) + erff(at);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1) + __shfl_down_sync(0xffffffffu, sum, 16, 16);
        sum = fmaf(fminf(sum, 3.0f), fabsf(sum), max(sum, 0.0f)) + __popc(at) + __ldg(out) + gridDim.y;
        sum += __ldcs(&in[at]).y;
        atomicAdd(&counts[at % 7], __ballot_sync(0xffffffffu, sum > 0.0f) != 0);
        atomicMax(&counts[8], at);
        auto block_ = cooperative_groups::this_thread_block();
        auto half_warp = cooperative_groups::tiled_partition<16>(block_);
        block_.sync();
        sum += half_warp.shfl_down(sum, half_warp.size() / 2) + half_warp.any(half_warp.thread_rank() == 3);
        counts[9] = __match_any_sync(0xffffffffu, at % 3) + __dp4a((int)at, 1, 2) + __dp4a(at, 1u, 2u);
        __sincosf(sum, &out[at], &sum);
        h[at] = __hfma(h[at], __float2half(sum), h[at + 1]);
        if (at < min(1000u, 5u * at)) out[at] = sum;
    }
    """
    for target in (GFX90A, 0x1032):
        assert "s_barrier" in built(read_source(write(text)), target).text


def test_pairs_are_added_by_one_instruction_where_there_is_one_else_by_swapping(write):
    add = "atomicAdd(x, x[1]); unsafeAtomicAdd(y, y[1]); half* part = &x[2].y; *part = x[1].x;"
    text = f"__global__ void f(half2* x, nv_bfloat162* y) {{ {add} }}"
    source = read_source(write(text))
    assert {"pk_add_f16", "pk_add_bf16"} <= {*re.findall("pk_add_b?f16", built(source, 0x942).text)}
    assert built(source).text.count("atomic_cmpswap") == 2


def _erf(x):
    return np.vectorize(math.erf)(x)


def _of_8_lanes(x):
    return np.repeat(x.reshape(-1, 8).sum(1), 8)


def _of_32_lanes(x):
    return np.repeat(np.trunc(x).reshape(-1, 32).sum(1), 32) + 3


NUMBERS = {  # single precision, by expressions of C and of NumPy
    "atanf(x)": np.arctan,
    "atan2f(x, -2.0f)": lambda x: np.arctan2(x, -2.0),
    "asinf(x / 9)": lambda x: np.arcsin(x / 9),
    "acosf(x / 9)": lambda x: np.arccos(x / 9),
    "cbrtf(x)": np.cbrt,
    "expm1f(x)": np.expm1,
    "(float)abs((long long)x)": lambda x: abs(np.trunc(x)),
    "log1pf(fabsf(x))": lambda x: np.log1p(abs(x)),
    "sinhf(x)": np.sinh,
    "hypotf(x, 3.0f)": lambda x: np.hypot(x, 3),
    "(float)pow((double)x, -3)": lambda x: x**-3,
    "(float)fmod((double)x, 0.75)": lambda x: np.fmod(x, 0.75),
    "__hmax((half)x, (half)2.0f)": lambda x: np.maximum(x, 2),
    "__habs(__hneg((half)x))": abs,
    "__hgt((half)x, (half)1.0f) + 2 * __hge((half)x, (half)3.0f)": lambda x: (x > 1) + 2 * (x >= 3),
    "(float)__heq2(make_half2(x, 2), make_half2(2, 2)).x": lambda x: x == 2,
    "__high2float(__float22bfloat162_rn(make_float2(1, x)))": lambda x: x,
    "(float)__low2half2(__highs2half2(half2(1, x), half2(2, x))).y": lambda x: x,
    "__funnelshift_lc(8u, 5u, 32) + __funnelshift_rc(8u, 5u, 40)": lambda x: 0 * x + 13,
    "__funnelshift_l(1u << 31, (unsigned)(int)fabsf(x), 1)": lambda x: 2 * np.trunc(abs(x)) + 1,
    "__funnelshift_r(8u, 5u, 3)": lambda x: 0 * x + 5 * 2.0**29 + 1,
    "__umul64hi(3ull << 62, 4)": lambda x: 0 * x + 3,
    "(float)fmin(log2((double)4.0), (double)x)": lambda x: np.minimum(2, x),
    "max((int)x, 2u)": lambda x: np.where(np.trunc(x) < 0, 2.0**32 + np.trunc(x), np.maximum(np.trunc(x), 2)),
    "__fmaf_rd(x, 2, 1) + __float2int_ru(x) + __double2ull_rn(8)": lambda x: 2 * x + 9 + np.ceil(x),
    "tanhf(x) + atanhf(x / 9) + normcdff(x)": lambda x: (
        np.tanh(x) + np.arctanh(x / 9) + (1 + _erf(x / 2**0.5)) / 2
    ),
    "(float)__reduce_add_sync(~0u, (int)x) + __reduce_max_sync(~0u, 3u)": _of_32_lanes,
    "cooperative_groups::reduce(tile, x, cooperative_groups::plus<float>())": _of_8_lanes,
    "cooperative_groups::inclusive_scan(tile, x)": lambda x: x.reshape(-1, 8).cumsum(1).ravel(),
    "cooperative_groups::exclusive_scan(tile, x)": lambda x: x.reshape(-1, 8).cumsum(1).ravel() - x,
}
DOUBLES = {
    "exp(x) + exp(-800.0)": np.exp,
    "log(fabs(x)) + log2(4 * fabs(x)) + log10(3 * x * x)": lambda x: (
        np.log(abs(x)) + np.log2(4 * abs(x)) + np.log10(3 * x * x)
    ),
    "sin(x)": np.sin,
    "cos(50 * x)": lambda x: np.cos(50 * x),
    "tan(x)": np.tan,
    "atan(x)": np.arctan,
    "atan2(x, -0.5)": lambda x: np.arctan2(x, -0.5),
    "asin(x / 9) + acosh(fabs(x) + 2)": lambda x: np.arcsin(x / 9) + np.arccosh(abs(x) + 2),
    "tanh(x) * sinh(x) / cosh(x)": lambda x: np.tanh(x) ** 2,
    "pow(fabs(x), 1.7)": lambda x: abs(x) ** 1.7,
    "cbrt(x)": np.cbrt,
}


@pytest.mark.parametrize(
    ("kind", "codes", "rtol"),
    [(np.float32, NUMBERS, 1e-5), (np.float64, DOUBLES, 1e-13)],
    ids=["single", "double"],
)
def test_numbers_are_those_of_numpy(write, kind, codes, rtol):
    x = np.array([-8.5, -2, -1, -0.25, 0.125, 0.5, 1, 1.5, 2, 3, 7.75, 8] * 3 + [4] * 28, kind)
    assigned = "".join(f"out[{row} * 64 + i] = {code};\n" for row, code in enumerate(codes))
    name = "float" if kind == np.float32 else "double"
    text = f"""#include <cooperative_groups/reduce.h>
    #include <cooperative_groups/scan.h>
    __global__ void all({name}* out, const {name}* in) {{ int i = threadIdx.x; {name} x = in[i];
    auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
    """
    made = built(
        read_source(write(f"#include <vector_functions.h>\n#include <cuda_bf16.h>\n{text}{assigned}}}"))
    )
    launch = LaunchArguments((1, 1, 1), (64, 1, 1), [np.zeros(len(codes) * 64, kind), x])
    machine, _ = execute(code_of(parse(made.text, None)), launch, [(0, 0, 0)], skip_loops=False)
    stored = machine.memory.regions[1]
    assert stored is not None
    rows = stored[: len(codes) * 64 * x.itemsize].view(kind).reshape(-1, 64)
    for result, (code, expected) in zip(rows, codes.items(), strict=True):
        np.testing.assert_allclose(result, expected(x.astype(float)), rtol=rtol, atol=rtol / 10, err_msg=code)


def test_vectors_of_hip_have_operators_and_those_of_cuda_do_not(write):
    text = "__global__ void f(float4* x, int2* y) { x[0] = 2.0f * x[1] - x[2] / 3; y[0] += y[1] * 2; }"
    assert isinstance(compile_source(read_source(write(text, "f.hip")), GFX90A, ()), Built)
    own = "__device__ float4 operator*(float a, float4 b) { return {a * b.x, b.y, b.z, b.w}; }"
    kernel = "__global__ void f(float4* x) { x[0] = 2.0f * x[1]; }"
    assert isinstance(compile_source(read_source(write(own + kernel)), GFX90A, ()), Built)
    assert isinstance(compile_source(read_source(write(kernel)), GFX90A, ()), Failure)


def test_a_hip_file_shuffles_over_the_whole_wave(write):
    text = "__global__ void turn(float* x) { x[threadIdx.x] = __shfl_xor(x[threadIdx.x], 32); }"
    whole, half = (built(read_source(write(text, name))).text for name in ("a.hip", "a.cu"))
    assert "v_xor" in whole.replace("v_xor_b32_e32", "v_xor")
    assert whole != half  # of 32 lanes, none is 32 apart


def test_a_file_is_compiled_as_it_ships(write):
    text = """
    #include <cassert>
    #include <chrono>
    #include <vector>
    #include <hip/hip_runtime.h>
    #include <rocblas/rocblas.h>
    #include "own.h"
    struct Pair { int first; int sum() const { return first + most(); } };
    template <class T> __global__ void f(T* x, Pair pair) {
        assert(pair.first > 0);
        x[hipThreadIdx_x] = std::numeric_limits<T>::max() + std::max({pair.sum(), 3, 2}) + std::fabs(M_PI);
    }
    int main() {
        std::vector<float> all(3);
        hipMalloc(nullptr, 3);
        f<float><<<1, 64>>>(all.data(), Pair{1});
    }
    """
    header = (
        "#include <iostream>\nvoid say() { std::cout << 1; }\n__device__ int most() { return INT_MAX; }\n"
    )
    write(header, "own.h")
    made = built(read_source(write(text, "own.hip"), "f<float>"))
    assert "_Z1fIfEvPT_4Pair" in made.text
    wrong_source = read_source(write(text.replace("pair.sum", "pair.all"), "own.hip"), "f<float>")
    wrong = compile_source(wrong_source, GFX90A, ())
    assert isinstance(wrong, Failure)
    assert wrong.message.startswith("own.hip:11:")


MISSING = "1: include: found no {} beside the file or in the folders given (given.folders)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__global__ void f(int* x) { *x = TILE; }", "1:34: error: use of undeclared identifier 'TILE'"),
        ('#include "none.h"\n', MISSING.format("none.h")),
        ("#include <mma.h>\n", MISSING.format("mma.h")),  # CUDA's, if installed
    ],
)
def test_what_the_compiler_says_is_one_line(write, text, expected):
    failure = compile_source(read_source(write(text)), GFX90A, ())
    assert failure == Failure("compile error", f"k.cu:{expected}")


def test_kernels_may_be_declared_twice_or_specialised_beside_code_for_the_host(write):
    text = """
    #include <vector>
    #include <cmath>
    #include <cooperative_groups.h>
    using namespace std;
    constexpr float twice(float x) { return x + x; }  // a __global__ name {
    template <class T> __global__ void f(T* x, int n);
    template <> __global__ void f<double>(double* x, int n) { x[n] = 1; }
    struct Next { float operator()(float x) const { return twice(x); } };
    template <class T> __global__ void f(T* x, int n) {
        int remainder = n % 7;
        memset(x, 0, remainder), std::memcpy(x, x + 8, sizeof(T));
        x[cooperative_groups::this_grid().thread_rank()] = Next()(std::fabs(x[n]));
    }
    vector<float> launch(float* x) { f<<<1, 64>>>(x, 1); return vector<float>(1); }
    """
    assert "f32" in built(read_source(write(text), "f<float>")).text


@pytest.mark.slow
@pytest.mark.parametrize("stores", [1, 600])
def test_functions_that_would_be_called_are_inlined(write, stores: int):
    """As asked for, or because they have many blocks."""
    body = " ".join(f"if (x[{i}] > {i}) x[{i + 1}] = s *= x[{i}];" for i in range(stores))
    asked = "__noinline__" if stores == 1 else ""
    called = f"__device__ {asked} float g(float* x) {{ float s = 1; {body} return s; }}\n"
    text = called + "__global__ void f(float* x, int n) { x[n] = g(x) + g(x + n); }"
    assert "s_swappc" not in built(read_source(write(text))).text


def test_too_much_lds_is_a_failure_by_name(write):
    text = "__global__ void f(int* x) { __shared__ int s[20000]; s[*x] = *x; __syncthreads(); *x = s[0]; }"
    failure = compile_source(read_source(write(text)), GFX90A, ())
    assert isinstance(failure, Failure)
    assert failure.reason == "too much shared memory"
    assert "found 80000 B, expected at most 65536 B" in failure.message


def test_other_files_targets_and_templates_without_arguments_are_refused(write):
    with pytest.raises(DseError, match=r"own.ptx: suffix: found '.ptx', expected .cu, .cuh, .hip for"):
        read_source(write("", "own.ptx"))
    with pytest.raises(DseError, match=r"gfx123: architecture: clang .* compiles for none such"):
        compile_source(read_source(write("")), 0x123, ())
    template = write("template <int N> __global__ void scale(float* x) { x[threadIdx.x] *= N; }", "f.hip")
    with pytest.raises(DseError, match=r"found scale without template arguments, expected scale<...>"):
        compile_source(read_source(template, "scale"), GFX90A, ())
    two = write("template <class T, class S> __global__ void f(T* x, S n) { x[n] *= n; }", "f.hip")
    with pytest.raises(DseError, match=r"found f<float>, expected every template argument of f, also those"):
        compile_source(read_source(two, "f<float>"), GFX90A, ())


def test_a_kernel_is_found_in_its_namespaces(write):
    text = "C10_LAUNCH_BOUNDS_2(512, 8) __global__ void f(T* x) { x->x = at::numeric_limits<int>::max(); }"
    inside = f"namespace at {{ namespace {{ template <class T> {text} }} struct Two {{ int x; }}; }}"
    other = "template <class T> __global__ void other(T* x) { *x = absent(1); }"
    inside = f"#include <ATen/cuda/NumericLimits.cuh>\n{inside}{other}"
    assert "Two" in built(read_source(write(inside), "f<Two>")).text


def test_options_are_in_the_digest_and_on_a_list(write):
    path = write("__global__ void f(float* x) { *x = 1.0f / *x; }")
    plain, fast = read_source(path), read_source(path, given=("--use_fast_math",))
    assert plain.digest != fast.digest
    assert fast.options == ("-ffast-math",)
    assert len(built(fast).text) < len(built(plain).text)
    with pytest.raises(DseError, match=r"k.cu: compiler options: found '-fplugin=x.so', expected one of"):
        read_source(path, given=("-fplugin=x.so",))


def test_macros_leave_the_names_of_our_prelude_alone(write):
    path = write("__global__ void f(float4* x) { x[V].y = T + N; }")
    kept = read_source(path, given=("-DT=2", "--define-macro=N=3"))
    assert "0x40a00000" in built(kept, V=1).text  # 5.0


def test_a_compiler_that_meets_its_limit_is_ended(write, monkeypatch):
    clang()
    knows(GFX90A)
    path = write("""template <int N, int M> struct F {
      static __device__ float f(float x) { return F<N - 1, 2 * M>::f(x) + F<N - 1, 2 * M + 1>::f(x); } };
    template <int M> struct F<0, M> { static __device__ float f(float x) { return x + M; } };
    __global__ void k(float* a) { a[threadIdx.x] = F<30, 1>::f(a[0]); }""")
    monkeypatch.setenv("DSE_COMPILE_SECONDS", "0.3")
    stopped = compile_source(read_source(path), GFX90A, ())
    message = "k.cu: the compiler ended after 0.3 s (DSE_COMPILE_SECONDS)"
    assert stopped == Failure("compiler stopped", message)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (
            "--use_fast_math -DN=3 --define-macro=M=4 --std=c++17 --maxrregcount=64 -lineinfo",
            "-ffast-math -DN=3 -DM=4 -std=c++17",
        ),
        ("-O2 -mcumode --gpu-max-threads-per-block=256",) * 2,
    ],
)
def test_options_of_cuda_are_translated_and_those_of_clang_stay(given: str, taken: str):
    check(given.split(), "kernel")
    assert for_clang(given.split()) == taken.split()


PATHS = ["--time=a.csv", "-fdevice-time-trace=a.json", "--create-pch=a", "k.cu", "-", "--use-pch=x"]
ELSEWHERE = ["-fplugin=x.so", "-o", "@file", "-Xclang", "--save-temps", "-include=/etc/passwd"]


@pytest.mark.parametrize("option", [*ELSEWHERE, *PATHS, ""])
def test_others_are_refused_for_gpus_of_both_vendors(option: str):
    with pytest.raises(DseError, match="kernel: found"):
        check([option], "kernel")
    with pytest.raises(DseError, match=r"^here: found '.*', expected one of --define-macro, -D"):
        check_for_nvrtc(["-DN=3", option], "here")

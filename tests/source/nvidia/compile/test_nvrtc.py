import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dse.errors import DseError
from dse.source.nvidia.compile import nvrtc as subject
from dse.source.nvidia.compile.declared import parameters_of
from dse.source.nvidia.compile.kernel_names import opened
from dse.source.nvidia.compile.nvrtc import Compiled, Failure, compile_source, read_source
from dse.source.nvidia.sass import elf
from dse.source.nvidia.sass.disassemble import _nvdisasm, disassemble

ADD = """
extern "C" __global__ void add(float* a) { a[threadIdx.x] += AMOUNT; }
"""
SEVERAL = """
template <int N> __global__ void scale(float* a) { a[threadIdx.x] *= N; }
__global__ void negate(float* a) { a[threadIdx.x] = -a[threadIdx.x]; }
extern "C" __global__ void clear(float* a) { a[threadIdx.x] = 0; }
"""


def compiled(path: Path, kernel: str = "", arch: int = 80, **defines: object) -> Compiled:
    result = compile_source(read_source(path, kernel), arch, defines)
    assert isinstance(result, Compiled), result
    return result


def failed(path: Path, **defines: object) -> Failure:
    result = compile_source(read_source(path), 80, defines)
    assert isinstance(result, Failure)
    return result


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("", ("AMOUNT",)),
        ("// LAUNCH_ONLY", ("AMOUNT", "LAUNCH_ONLY")),
        ('#include "k.h"', ("AMOUNT", "LAUNCH_ONLY")),
        ("#define JOINED(a, b) a##b", ("AMOUNT", "LAUNCH_ONLY")),
        ("int LAUNCH_\\\nONLY;", ("AMOUNT", "LAUNCH_ONLY")),
    ],
)
def test_macros_that_the_text_cannot_name_make_no_other_code(write, more: str, named: tuple[str, ...]):
    write("", "k.h")
    source = read_source(write(f"{more}\n{ADD}"))
    settings = source.settings((("AMOUNT", 1), ("LAUNCH_ONLY", 2)), ())
    assert tuple(name for name, _ in settings) == named


@pytest.mark.slow
def test_spills_and_warnings_are_reported(write):
    text = """
    extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* a, int n)
    {
        int unused;
        float x[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) x[i] = a[i * 1024 + threadIdx.x];
        for (int k = 0; k < n; ++k) {
            const float first = x[0];
            #pragma unroll
            for (int i = 0; i < 63; ++i) x[i] = x[i + 1] * x[i] + first;
            x[63] = first;
        }
        #pragma unroll
        for (int i = 0; i < 64; ++i) a[i * 1024 + threadIdx.x] = x[i];
    }"""
    result = compiled(write(text))
    assert result.binary.registers <= 32  # what 2048 threads leave for each
    assert result.binary.stack_bytes
    assert result.spill_bytes
    assert result.spill_bytes >= 2 * result.binary.stack_bytes  # each byte at least written and read once
    assert result.log.startswith("k.cu(4): warning")
    assert "ptxas" not in result.log


IN_NAMESPACES = """
template <class T> __global__ void g(T x);
namespace a {
namespace b { namespace {
struct Two {};
template <class T> __global__ void f(T x) { if (x) { x = 1; } }
template <class T> __global__ void g(T x);
} }
template <class T> __global__ void f(T x, int n);
__global__ void h() {}
}
"""


@pytest.mark.parametrize(
    ("kernel", "scopes"),
    [
        ("f<Two>", "a,a::b"),
        ("g<Two>", ""),  # it is outside of them too
        ("a::b::f<a::b::Two>", ""),
        ("h", "a"),
    ],
)
def test_namespaces_of_a_kernel_need_not_be_named(kernel: str, scopes: str):
    assert opened(IN_NAMESPACES, kernel) == "".join(
        f"using namespace {scope};\n" for scope in scopes.split(",") if scope
    )


IN_PYTORCH = """
#include <ATen/cuda/Atomic.cuh>
#include <c10/macros/Macros.h>
namespace at::native { namespace {
using at::cuda::detail::CUDA_NUM_THREADS;
template <class T, int N, template <class U> class Traits = DefaultPtrTraits>
PackedTensorAccessor32<T, N, Traits> none() { return {nullptr, nullptr}; }
struct Two { static __device__ float of(float x) { return x + x; } };
template <class T, class F> __global__ void
#if !defined(USE_ROCM)
C10_LAUNCH_BOUNDS_1(CUDA_NUM_THREADS)
#endif
f(T* x, int n) {
  CUDA_KERNEL_LOOP(i, at::ceil_div(n, 2)) {
    static_assert(sizeof(i) == 4);
    if (at::_isnan(x[i])) x[i] = at::numeric_limits<T>::lower_bound();
    else if (x[i] > float(at::numeric_limits<Half>::max())) break;
    x[i] = F::of(x[i]);
  }
}
void launch(const Tensor& x) { f<float, Two><<<1, 64>>>(x.data_ptr<float>(), 1); }
} }
"""


def test_a_kernel_is_found_in_its_namespaces(write):
    source = read_source(write(IN_PYTORCH), "f<float, Two>")
    assert isinstance(compile_source(source, 90, {}), Compiled)
    assert [parameter.name for parameter in parameters_of(source) or ()] == ["x", "n"]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("", "kernel: found several, expected one of clear, _Z6negatePf"),
        ("other", "kernel: found no other, expected one of scale, negate, clear"),
        ("scale", "kernel: found scale without template arguments, expected scale<...>"),
        (
            "scale<float>",
            "kernel: found scale<float>, expected every template argument of scale, "
            "also those that a call leaves out",
        ),
    ],
)
def test_says_which_kernels_there_are(write, kernel: str, message: str):
    path = write(SEVERAL)
    with pytest.raises(DseError) as error:
        compile_source(read_source(path, kernel), 80, {})
    assert str(error.value) == f"{path}: {message}"


def test_a_kernel_may_have_the_name_of_a_function_of_cuda(write):
    path = write("__global__ void all(float* a) { a[0] = 1; } __global__ void other(float* a) { a[0] = 2; }")
    made = compile_source(read_source(path, "all"), 80, {})
    assert isinstance(made, Compiled)
    assert made.binary.kernel == "_Z3allPf"


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    [
        ("\nint x = ;", "compile error", "k.cu(2): error: expected an expression"),
        ('asm volatile("nonsense;");', "compile error", "k.cu: ptxas application ptx input"),
        (
            "__shared__ float s[20000]; s[threadIdx.x] = a[0]; __syncthreads(); a[1] = s[threadIdx.y];",
            "too much shared memory",
            "k.cu: k: shared memory: found 80000 B, expected at most 49152 B",
        ),
    ],
)
def test_what_does_not_compile_is_a_result(write, body: str, reason: str, message: str):
    failure = failed(write(f'extern "C" __global__ void k(float* a) {{ {body} }}'))
    assert failure.reason == reason
    assert failure.message.startswith(message)
    assert "\n" not in failure.message


def test_includes_are_found_and_count(write):
    write('#include "depth.h"\n', "inner/values.h")
    depth = write("#define AMOUNT 3\n", "inner/depth.h")
    path = write('#include "inner/values.h"\n' + ADD)
    before = read_source(path)
    assert compiled(path).binary.code == compiled(write(ADD, "other.cu"), AMOUNT=3).binary.code
    assert read_source(path) == before
    depth.write_text("#define AMOUNT 4\n")
    assert read_source(path).digest != before.digest


def test_the_digest_covers_what_is_compiled(write):
    path = write(SEVERAL)
    sources = [
        read_source(path),
        read_source(path, "clear"),
        read_source(path, options=["--use_fast_math"]),
        read_source(path, options=["--use_fast_math", "--fmad=false"]),
        read_source(write(SEVERAL + " ", "changed.cu")),
    ]
    assert len({source.digest for source in sources}) == len(sources)


def test_a_missing_header_is_explained_where_it_is_needed(write):
    failure = failed(write('#include <cub/dse.cuh>\n#include "amounts.h"\n' + ADD), AMOUNT=1)
    expected = "k.cu(2): include: found no amounts.h beside the file or in the folders given (given.folders)"
    assert failure.message == expected
    uses = "#include <cub/dse.cuh>\nnamespace wide = cub;\n" + ADD
    assert isinstance(compiled(write(uses), AMOUNT=1), Compiled)
    failure = failed(write(uses), AMOUNT="wide::amount")
    assert 'no member "amount"' in failure.message
    assert "; k.cu: include: found no cub/dse.cuh beside the file" in failure.message
    failure = failed(write("#include <thrust/complex.h>\n" + ADD), AMOUNT="thrust::amount")
    assert failure.message.endswith("; left out, as host code: thrust/complex.h")


def test_mistakes_about_all_configurations_raise(write, tmp_path: Path):
    source = read_source(write(ADD))
    with pytest.raises(DseError, match=r"^sm_35: architecture: NVRTC .* compiles for 75, 80"):
        compile_source(source, 35, {})
    with pytest.raises(DseError, match=r"compiler options: .*invalid value for --std"):
        compile_source(read_source(write(ADD), options=["--std=c++99"]), 80, {})
    with pytest.raises(DseError, match="cannot read: No such file"):
        read_source(tmp_path / "none.cu")
    (tmp_path / "latin.cu").write_bytes(b"// \xe9")
    with pytest.raises(DseError, match="found byte 3 that is no UTF-8"):
        read_source(tmp_path / "latin.cu")


def test_a_cubin_is_taken_as_it_is(write, tmp_path: Path):
    made = compiled(write(ADD), AMOUNT=1)
    path = tmp_path / "k.cubin"
    path.write_bytes(made.cubin)
    loaded = compiled(path)
    assert loaded.binary == made.binary
    assert loaded.compiler == "ptxas " + made.compiler.removeprefix("NVRTC ")
    with pytest.raises(DseError, match="architecture: found sm_80, expected sm_90"):
        compiled(path, arch=90)
    with pytest.raises(DseError, match="kernel: found no sub, expected one of add"):
        compiled(path, "sub")


# Of version 7.0, which any assembler reads.
PTX = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 a) { ret; }\n"
ASSEMBLERS = [
    "nvjitlink",
    pytest.param("ptxas", marks=pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")),
]


def test_code_of_one_architecture_alone_compiles(write):
    body = 'asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");'
    kernel = f"__global__ void __launch_bounds__(128) k(float* x) {{ {body} *x = 0; }}"
    cuda = compile_source(read_source(write(kernel)), 90, {}, ptx=True)
    assert isinstance(cuda, Compiled), cuda
    assert cuda.binary.arch == 90
    compiled(write(cuda.ptx or "", "k.ptx"), arch=90)


@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_ptx_is_assembled(write, assembler: str, monkeypatch: pytest.MonkeyPatch):
    if assembler == "ptxas":
        monkeypatch.setitem(sys.modules, "cuda.bindings.nvjitlink", None)
    loaded = compiled(write(PTX, "k.ptx"), arch=80)
    assert (loaded.binary.kernel, loaded.binary.arch, len(loaded.binary.parameters)) == ("k", 80, 1)
    assert loaded.spill_bytes == 0
    failure = failed(write(PTX.replace("ret", "nonsense"), "k.ptx"))
    assert "nonsense" in failure.message
    assert "\n" not in failure.message


def test_ptx_takes_an_assembler(write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvjitlink", None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DseError, match="PTX: found no nvidia-nvjitlink and no ptxas, expected the extra"):
        compiled(write(PTX, "k.ptx"))


def test_a_listing_is_taken_as_it_is(write):
    made = compiled(write(ADD), AMOUNT=1)
    text = _nvdisasm((), made.cubin, "k")
    loaded = compiled(write(text, "k.sass"), arch=86)
    assert loaded.listing is not None
    assert [instruction.opcode for instruction in loaded.listing.instructions] == [
        instruction.opcode for instruction in disassemble([made.binary])[0].instructions
    ]
    assert (loaded.binary.kernel, loaded.binary.registers) == ("add", made.binary.registers)
    with pytest.raises(DseError, match="architecture: found sm_80, expected sm_90"):
        compiled(write(text, "k.sass"), arch=90)


def test_shared_memory_that_the_launch_sizes(write):
    body = "s[threadIdx.x] = a[0]; __syncthreads(); a[1] = s[threadIdx.y];"
    for declared, adds in (("extern __shared__ float s[]", True), ("__shared__ float s[8]", False)):
        made = compiled(write(f'extern "C" __global__ void k(float* a) {{ {declared}; {body} }}'))
        assert made.adds_shared == adds
        path = write("", "k.cubin")
        path.write_bytes(made.cubin)
        loaded = compiled(path)
        assert loaded.adds_shared == adds
    of_two = f"extern __shared__ float shared[]; __global__ void k(float* s, float* a) {{ {body} }}"
    other = "__global__ void other(float* a) { shared[threadIdx.x] = a[0]; a[1] = shared[threadIdx.y]; }"
    both = write(f'{of_two} {other} __global__ void prints() {{ printf("declared as a function before"); }}')
    assert [compiled(both, kernel).adds_shared for kernel in ("k", "other")] == [False, True]


@pytest.fixture
def forgotten() -> Iterator[None]:
    """NVRTC as if it had not been looked for; and so again afterwards."""
    subject._nvrtc.cache_clear()
    yield
    subject._nvrtc.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_without_the_extra_it_says_what_to_install(write, monkeypatch: pytest.MonkeyPatch):
    made = compiled(write(ADD), AMOUNT=1)
    subject._nvrtc.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    install = r'found none, expected the extra "cuda": pip install "gpu-dse\[cuda\]"'
    with pytest.raises(DseError, match="^cuda-bindings: " + install):
        compile_source(read_source(write(ADD)), 80, {})
    monkeypatch.setitem(sys.modules, "elftools.elf.elffile", None)
    with pytest.raises(DseError, match="^pyelftools: " + install):
        elf.read(made.cubin, "k.cubin")


def test_macros_may_have_names_that_the_compilers_own_header_uses(write):
    names = ("pad", "T", "x", "size", "value", "warpSize")
    path = write(f"__global__ void f(float* q) {{ q[0] = {' + '.join(names)}; }}")
    made = compile_source(read_source(path), 80, dict.fromkeys(names, 3))
    assert isinstance(made, Compiled), made


def test_macros_move_no_line(write):
    path = write("__global__ void f(float* q) {\n  q[0] = N;\n  missing();\n}")
    failure = compile_source(read_source(path), 80, {"N": 1, "M": 2})
    assert isinstance(failure, Failure)
    assert failure.message.startswith(f"{path.name}(3): error")

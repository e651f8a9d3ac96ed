"""Kernels in files that do not say how they are launched."""

from pathlib import Path

import numpy as np
import pytest

from dse.core.space.expression import Expression
from dse.errors import DseError
from dse.hardware import gpus
from dse.kernels.description import ArrayArgument, Members
from dse.source.cache import Cache
from dse.source.launches import Array, Descriptor, configurations
from dse.source.nvidia.arguments import arguments_of
from dse.source.profiles import KernelProfile
from dse.source.readers import Given, load
from dse.source.toolchain import toolchain

CODE = 'extern "C" __global__ void k(const float* x, int n, double a, int* at) {}'
LAUNCH = Given(block=(32, 4), grid=(100,))


def arguments(path: Path, *given: str) -> list:
    path.write_text(CODE)
    kernel = load(path, Given(block=(32,), grid=(1,), arguments=given))
    assert kernel.build is not None
    names = {"index": np.arange(3), "random": np.zeros(3), **dict(kernel.problem)}
    seen = []
    for argument in kernel.build.arguments:
        if isinstance(argument, ArrayArgument):
            values = None if argument.values is None else argument.values(names, np).tolist()
            seen.append((int(argument.size({}, np)), argument.type, values))
        else:
            assert argument is None or isinstance(argument, Expression)
            seen.append(None if argument is None else argument(names, np).item())
    return seen


def test_headers_are_read_from_given_folders(tmp_path: Path):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "pair.h").write_text("struct Pair { int first, second; };\n")
    (tmp_path / "k.cu").write_text('#include "pair.h"\n__global__ void k(Pair pair) {}\n')
    given = Given(block=(32,), grid=(1,), arguments=("1,2",), folders=(f"{tmp_path}/headers",))
    build = load(tmp_path / "k.cu", given).build
    assert build is not None
    assert build.arguments[0] == Members(size=8, places=((0, 4), (4, 4)))
    assert build.options == (f"-I{tmp_path}/headers",)


UNKNOWN = (0, "uint8", None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), [UNKNOWN, None, None, UNKNOWN]),
        (("100", "7", "2"), [(100, "uint8", None), 7, 2.0, UNKNOWN]),
        (("n = -7",), [UNKNOWN, -7, None, UNKNOWN]),
        (("n=1e6",), [UNKNOWN, 1_000_000, None, UNKNOWN]),
        (("at=9:int:2 * index", "?", "0x10"), [UNKNOWN, 16, None, (9, "int32", [0, 2, 4])]),
        (("nullptr", "?", "?", "0"), [0, None, None, 0]),
        (("4*4:float2",), [(32, "float32", None), None, None, UNKNOWN]),
    ],
)
def test_arguments_by_place_and_name(tmp_path: Path, given: tuple[str, ...], expected: list):
    assert arguments(tmp_path / "k.cu", *given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("m=3",), "given.arguments: found 'm', expected one of x, n, a, at"),
        (("1", "2", "3", "4", "5"), "given.arguments: found 5 arguments, expected at most 4 (x, n, a, at)"),
        (("n=many",), "given.arguments: n: found 'many', expected a number"),
        (("n=3:int",), "given.arguments: n: found the array '3:int', expected a number"),
        (("n=1.5",), "given.arguments: n: found '1.5', expected a whole number"),
        (("n=3", "n=4"), "given.arguments: n: found two values, expected one"),
        (("x=3:str",), "given.arguments: x: type: found 'str', expected one of bool, char"),
        (("x=3:int",), "given.arguments: x: type: found 'int', expected float, as the source has it"),
        (("x=1.5",), "given.arguments: x: size: found 1.5, expected a number of elements"),
        (("x=3:float:2 * n",), "given.arguments: x: values: unknown name 'n' in '2 * n', expected one"),
    ],
)
def test_arguments_that_are_refused(tmp_path: Path, given: tuple[str, ...], message: str):
    with pytest.raises(DseError) as error:
        arguments(tmp_path / "k.cu", *given)
    assert str(error.value).startswith(message)


TWO = CODE + CODE.replace("k(", "l(")


@pytest.mark.parametrize(
    ("name", "code", "given", "message"),
    [
        ("k.cu", CODE, Given(), r"^given.block: found none for .*k\.cu, expected the threads of a"),
        ("k.cu", CODE, Given(block=(32,)), r"^given.grid: found none .*; or give .*T1\.json in its place$"),
        ("k.cu", TWO, LAUNCH, r"^given.function: found none for .*k\.cu, expected one of k, l$"),
        ("k.cpp", CODE, LAUNCH, r"k\.cpp: suffix: found '\.cpp', expected one of \.cu, \.cuh, \.hip"),
    ],
)
def test_what_a_file_does_not_say_has_to_be_said(tmp_path: Path, name, code, given, message):
    (tmp_path / name).write_text(code)
    (tmp_path / "T1.json").write_text("{}")
    with pytest.raises(DseError, match=message):
        load(tmp_path / name, given)


def test_the_launch_sees_arguments_that_are_numbers(tmp_path: Path):
    path = tmp_path / "k.cu"
    path.write_text(CODE)
    tuned = (("B", (32, 64)),)
    values = Given("", ("B",), ("ceil(n / B)",), ("n=1000", "a=2"), shared_bytes="4 * B", tuned=tuned)
    kernel = load(path, values)
    assert kernel.problem == (("n", 1000), ("a", 2.0))
    assert kernel.build is not None
    assert kernel.build.grid[0]({"n": 1000, "B": 64}, np) == 16
    assert kernel.build.shared_bytes is not None
    assert kernel.build.shared_bytes({"B": 64}, np) == 256
    with pytest.raises(DseError, match=r"given\.grid: unknown name 'm' in 'm', expected one of B, a, n"):
        load(path, Given(block=(32,), grid=("m",), arguments=values.arguments, tuned=values.tuned))


def test_vectors_and_structures_are_given_by_their_parts(tmp_path):
    path = tmp_path / "fill.cu"
    path.write_text(
        "struct Shape { int rows, columns; float scale; };\n"
        "__global__ void fill(uint2 size, Shape shape, const unsigned char* mask, float* out) {\n"
        "  const uint x = blockIdx.x * 256 + threadIdx.x;\n"
        "  if (x < size.x && x < shape.rows * shape.columns && mask[x]) out[x] = shape.scale * size.y;\n}\n"
    )
    parts = ("size=1024,3", "shape=32,32,2.0", "mask=1024:unsigned char:1")
    description = load(path, Given(block=(256,), grid=(4,), arguments=parts))
    [actual] = configurations(description, {}, {}, gpus.load("a100-pcie-40gb").gpu)
    shape = Members(12, ((0, 4), (4, 4), (8, 4)))
    assert actual.arguments[:2] == ((1024, 3), shape)
    assert actual.arguments[4:] == (32, 32, 2.0)
    size, members = arguments_of("fill", [8, 12], actual.arguments[:2])
    assert size == np.array([1024, 3], "<u4").tobytes()
    assert members == bytes(12)
    with pytest.raises(DseError, match="found a structure of 12 B by its members in the source, expected"):
        arguments_of("fill", [16], [shape])
    with pytest.raises(DseError, match=r"argument 1: found \(1, 2, 3\), expected what takes 8 B"):
        arguments_of("fill", [8, 12], [(1, 2, 3), (1, 2, 3)])
    [said] = load(path, Given(block=(256,), grid=(4,))).assumptions
    assert said == "size, shape.rows, shape.columns, shape.scale: 0, since no value is stated"


PARAMETERS = """
typedef long long index_t;
struct Inputs {
    using index_t = int64_t;
    const void *__restrict__ x;  // half, really
    index_t stride = 1;
    int rows, columns{4};
    Inputs() : rows(1) { for (int i = 0; i < 2; ++i) rows += i; }
};
struct Shape { bool wide; int n; __device__ int size() const { return 2 * n; } };
struct Parameters : public Inputs {
    float scale; Shape shape; int *first, limits[2]; __half* lists[2]; double2 at;
};
__global__ void k(const Parameters p, int m) {}
"""


def test_members_of_a_structure_are_arguments_of_their_own(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(PARAMETERS)
    texts = ("p.shape.n=8", "p.first=8:int:4*index", "p.limits[1]=5", "p.at=2,3", "m=1")
    description = load(path, Given(block=(32,), grid=(4,), arguments=texts))
    [actual] = configurations(description, {}, {}, gpus.load("a100-pcie-40gb").gpu)
    places = (0, 8), (8, 8), (16, 4), (20, 4), (24, 4), (28, 1), (32, 4), (40, 8), (48, 4), (52, 4), (56, 8)
    assert actual.arguments[0] == Members(96, (*places, (64, 8), (80, 16)))
    stated = [value for value in actual.arguments[1:] if isinstance(value, int | tuple)]
    assert stated == [1, 8, 5, (2.0, 3.0)]
    assert actual.arguments[9] == Array(8, "int32", "4*index", ())
    for wrong, expected in (
        (("p=1,2",), r"p: found 2 parts, expected 14 \(p\.x, p\.stride"),
        (("p.n=1",), r"found 'p\.n', expected one of"),
        (("p=?", "1", "2"), r"found 3 arguments, expected at most 2 \(p, m, p\.x"),
        (("p.x=1", "p=?,1,1,1,1,1,1,?,1,1,?,?,1,1"), r"p\.x: found two values"),
    ):
        with pytest.raises(DseError, match=expected):
            load(path, Given(block=(32,), grid=(4,), arguments=wrong))


EXTENSION = """
#include <torch/extension.h>
using at::Half;
#define HALVES torch::PackedTensorAccessor32<Half, 2, torch::RestrictPtrTraits>
typedef at::PackedTensorAccessor64<float, 2> Rows;
template <typename T> __global__ void scale(const HALVES x, at::opmath_type<T> by, Rows y) {
  CUDA_KERNEL_LOOP(i, x.size(1)) y[blockIdx.y][i] = by * static_cast<float>(x[blockIdx.y][i]);
}
void launch(torch::Tensor x, torch::Tensor y) {
  scale<Half><<<1, 64>>>(x.packed_accessor32<Half, 2>(), 2, y.packed_accessor64<float, 2>());
}
"""


@pytest.mark.parametrize("name", ["a100-pcie-40gb", "mi210"])
def test_tensors_of_an_extension_of_pytorch_have_sizes_and_strides(tmp_path: Path, name: str) -> None:
    path, gpu = tmp_path / "k.cu", gpus.load(name).gpu
    path.write_text(EXTENSION)
    stated = Given("scale<Half>", (64,), (1, 8), ("x=?,8,640,640,1", "by=2", "y=?,8,640,1280,2"))
    kernel, tools = load(path, stated), toolchain(gpu)
    source = tools.source_of(kernel)
    [read] = tools.characterise_all(
        source,
        tools.architecture(gpu, source),
        configurations(kernel, {}, {}, gpu),
        gpu,
        Cache(tmp_path / "kernels.sqlite"),
        1,
    )
    assert isinstance(read, KernelProfile), read
    sizes = [read.counts.total(f"global {way}", "bytes") for way in ("load", "store")]
    sectors = read.counts.total("global store", "sectors")
    assert (*sizes, sectors) == (640 * 2, 640 * 4, 640 * 8 / 32)


@pytest.mark.parametrize(
    ("suffix", "code"),
    [
        (".cu", "__global__ void k(const __grid_constant__ CUtensorMap a) {}"),
        (".ptx", ".visible .entry k(.param .align 64 .b8 a[128]) { ret; }"),
    ],
)
def test_a_tensor_map_has_a_shape_and_a_box(tmp_path, suffix, code):
    path = tmp_path / f"k{suffix}"
    path.write_text(f"{code}\n")
    values = Given(block=(32,), grid=(1,), arguments=("64,40+8,30+2:half:1,8,16",))
    [configuration] = configurations(load(path, values), {}, {}, gpus.load("h100-sxm").gpu)
    assert configuration.arguments == (Descriptor("float16", (64, 48, 32), (48 * 32, 32, 1), (1, 8, 16)),)


@pytest.mark.parametrize(
    ("code", "parts", "expected"),
    [
        ("__global__ void k(float4 a)", "1,2,3,-4.5", (1.0, 2.0, 3.0, -4.5)),
        ("struct P { float3 at; int n; P(); }; __global__ void k(const P a)", "1,2,3,4", ((1, 2, 3), 4)),
        ("typedef struct { int n; float x, y; } P; __global__ void k(P a)", "1e3,2,3", (1000, 2.0, 3.0)),
        ("using C = cuda::std::complex<float>; __global__ void k(C a)", "-2,1.5", (-2.0, 1.5)),
        ("struct P { __half x; __nv_bfloat16 y; }; __global__ void k(P a)", "1,1.5", (0x3C00, 0x3FC0)),
        ("struct P { float x; double y; }; __global__ void k(P a)", "1,2", (1.0, 2.0)),
        ("struct P { T x; float y; }; template <class T> __global__ void k(P<T> a)", "1,2", (1, 2)),
        ("__global__ void k(Unknown a)", "1,2", (1, 2)),
        ("__global__ void k(Unknown a)", "1,2.5", "expected a point in all of them or in none"),
        ("__global__ void k(int2 a)", "1,2.5", "found '2.5', expected a whole number"),
        ("__global__ void k(const __grid_constant__ CUtensorMap a)", "64,32:half:8", "expected a tensor map"),
        ("struct P { int n, m; }; __global__ void k(P a)", "1,2,3", r"expected 2 \(a\.n, a\.m\)"),
    ],
)
def test_a_part_has_the_type_of_its_member(tmp_path, code, parts, expected):
    path = tmp_path / "k.cu"
    path.write_text(f"{code} {{}}\n")
    inputs = Given(block=(32,), grid=(1,), arguments=(f"a={parts}",))
    if isinstance(expected, str):
        with pytest.raises(DseError, match=expected):
            load(path, inputs)
        return
    [configuration] = configurations(load(path, inputs), {}, {}, gpus.load("a100-pcie-40gb").gpu)
    values, *members = configuration.arguments
    values = members or values
    assert isinstance(values, tuple | list)
    assert [(value, type(value)) for value in values] == [(value, type(value)) for value in expected]

"""Held against what ptxas says while it makes the cubin."""

import re
import struct
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from dse.errors import DseError
from dse.source.nvidia.sass import elf
from dse.source.nvidia.sass.elf import Constant, Parameter

nvrtc: Any = import_module("cuda.bindings.nvrtc")

TEXT = """
struct Three { int a; double b; char c[20]; };
__constant__ int whole[8] = {5, 6};
__constant__ float parts[3];
__device__ float table[100];

extern "C" __global__ void __launch_bounds__(128) arguments(float* a, int n, Three s, short h)
{
    a[threadIdx.x] = n + s.b + h + s.c[n];
}
extern "C" __global__ void
#if __CUDA_ARCH__ >= 900
__cluster_dims__(2, 1, 3)
#endif
shared(float* a, int n)
{
    __shared__ float tile[7][33];
    tile[n][threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = tile[threadIdx.x % 7][n] + whole[n] + parts[1] + table[n];
}
extern "C" __global__ void local(float* a, int n)
{
    float mine[16];
    for (int i = 0; i < 16; ++i) mine[i] = a[i];
    for (int i = 0; i < n; ++i) mine[(int)a[i] & 15] += a[i];
    a[0] = mine[n & 15];
}
__device__ __noinline__ int again(int n) { return n < 2 ? n : again(n - 1) + again(n - 2); }
extern "C" __global__ void recursive(int* a) { a[0] = again(a[1]); }
"""


@cache
def built(arch: int) -> tuple[bytes, str]:
    """The cubin, and what ptxas reports."""
    _, program = nvrtc.nvrtcCreateProgram(TEXT.encode(), b"k.cu", 0, [], [])
    options = [f"--gpu-architecture=sm_{arch}".encode(), b"--ptxas-options=-v"]
    assert nvrtc.nvrtcCompileProgram(program, len(options), options)[0].value == 0
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    cubin = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(cubin), log.decode()


def reported(log: str, kernel: str) -> dict[str, int]:
    about = re.search(f"Compiling entry function '{kernel}'.*?(Used .*?)\n", log, re.DOTALL)
    assert about
    patterns = {
        "registers": r"Used (\d+) registers",
        "stack_bytes": r"(\d+) bytes cumulative stack size",
        "shared_bytes": r"(\d+) bytes smem",
    }
    actual = {name: re.search(pattern, about[1]) for name, pattern in patterns.items()}
    return {name: int(match[1]) if match else 0 for name, match in actual.items()}


@pytest.mark.parametrize("arch", [75, 80, 90, 120])
def test_resources_are_those_that_ptxas_reports(arch: int):
    cubin, log = built(arch)
    binaries = elf.read(cubin, "k.cubin")
    assert set(binaries) == {"arguments", "shared", "local", "recursive"}
    for kernel, binary in binaries.items():
        report = reported(log, kernel)
        if kernel == "recursive":
            assert not binary.stack_bytes  # not known; NVRTC 13.0 says 0
            del report["stack_bytes"]
        assert {name: getattr(binary, name) for name in report} == report
        assert (binary.kernel, binary.arch, len(binary.code) % 16) == (kernel, arch, 0)
        assert not binary.relocated
    assert binaries["shared"].shared_bytes == 4 * 7 * 33
    assert binaries["shared"].cluster == ((2, 1, 3) if arch >= 90 else (1, 1, 1))
    assert binaries["local"].cluster == (1, 1, 1)
    assert binaries["local"].stack_bytes == 4 * 16


@pytest.mark.parametrize("arch", [80, 120])
def test_parameters_lie_as_the_language_lays_them_out(arch: int):
    binary = elf.read(built(arch)[0], "k.cubin")["arguments"]
    base = {80: 0x160, 120: 0x380}[arch]  # as SASS of such kernels reads the first argument
    sizes = {0: 8, 8: 4, 16: 40, 56: 2}  # of a pointer, an int, the struct, a short
    assert binary.parameters == tuple(Parameter(base + offset, size) for offset, size in sizes.items())


def test_constants_and_globals_are_found():
    binary = elf.read(built(80)[0], "k.cubin")["shared"]
    assert sorted(binary.constants, key=lambda constant: constant.offset) == [
        Constant("whole", 3, 0, 32),
        Constant("parts", 3, 32, 12),
    ]
    assert binary.banks[3] == struct.pack("<2i", 5, 6) + bytes(36)
    assert [name for name, _ in binary.variables.values()] == ["table"]


def test_a_cluster_of_nothing_is_refused():
    cubin = built(90)[0].replace(struct.pack("<3I", 2, 1, 3), struct.pack("<3I", 2, 0, 3))
    with pytest.raises(DseError, match=r"found no cubin .*clusters of \(2, 0, 3\)"):
        elf.read(cubin, "k.cubin")


@pytest.mark.parametrize("cut", [0, 3, 64, 700])
def test_what_is_no_cubin_is_named(cut: int):
    with pytest.raises(DseError, match=r"^k\.cubin: found no cubin that can be read .*, expected"):
        elf.read(built(80)[0][:cut], "k.cubin")

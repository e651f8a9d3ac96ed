"""Raw code, cut from one piece, must read as nvdisasm reads whole cubins."""

import importlib.metadata
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dse.errors import DseError
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source, read_source
from dse.source.nvidia.sass import disassemble as subject
from dse.source.nvidia.sass import elf
from dse.source.nvidia.sass.disassemble import disassemble, with_lines

# Calls, with return addresses in registers; a slow path of divisions, jumps through a table, and loops.
TEXT = """
__device__ __noinline__ float slow(float x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; ++i) sum = sum / x + 1;
    return sum;
}
extern "C" __global__ void first(float* a, int n)
{
    a[0] = slow(a[0], n) + slow(a[1], n + 1);
}
extern "C" __global__ void third(float* a, int n)
{
    for (int i = threadIdx.x; i < n; i += 7) {
        if (a[i] > 0) {
            for (int j = i; j < a[i]; ++j) a[j] += 1;
        }
    }
    if (n == 5) printf("%d", n);
    __syncthreads();
    a[n] = a[n + threadIdx.x];
}
extern "C" __global__ void second(float* a, int n)
{
    switch (n) {
    case 0: a[0] = 1; break;
    case 1: a[1] = sqrtf(n); break;
    case 2: a[2] = a[9] * 4; break;
    case 3: a[5] = a[7] / n; break;
    case 4: a[3] = 8; break;
    case 5: a[9] = 3; break;
    }
}
"""


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    path = tmp_path_factory.mktemp("source") / "k.cu"
    path.write_text(TEXT)
    made = {}
    for arch in (75, 90):
        result = compile_source(read_source(path, "first"), arch, {})
        assert isinstance(result, Compiled)
        made[arch] = result.cubin
    return made


@pytest.mark.slow
def test_batches_read_as_whole_files_do(cubins: dict[int, bytes]):
    files = [elf.read(cubins[arch], "k.cubin") for arch in (90, 75)]
    selected = [(0, "second"), (1, "first"), (1, "second"), (0, "third"), (0, "first"), (1, "third")]
    binaries = [files[index][kernel] for index, kernel in selected]
    opcodes = set()
    for binary, actual in zip(binaries, disassemble(binaries), strict=True):
        whole = with_lines(cubins[binary.arch], binary.kernel, "k.cubin")
        assert (actual.kernel, actual.arch) == (whole.kernel, whole.arch) == (binary.kernel, binary.arch)
        assert actual.instructions == tuple(replace(item, line=None) for item in whole.instructions)
        assert len(actual.instructions) * 16 == len(binary.code)
        opcodes |= {instruction.opcode.split(".")[0] for instruction in actual.instructions}
    assert {"BRA", "BRX", "CALL", "RET", "BSSY", "EXIT"} <= opcodes


def test_source_lines_are_those_of_the_file(cubins: dict[int, bytes]):
    actual = with_lines(cubins[75], "second", "k.cubin").instructions
    switch = [n for n, line in enumerate(TEXT.splitlines(), 1) if "switch" in line or "case" in line]
    assert {item.line for item in actual} >= set(switch)
    begin = TEXT.splitlines().index('extern "C" __global__ void second(float* a, int n)') + 1
    assert actual[0].line == begin


def test_mistakes_are_named(cubins: dict[int, bytes]):
    with pytest.raises(DseError, match=r"^k\.cubin: kernel: found no fourth, expected one of "):
        with_lines(cubins[75], "fourth", "k.cubin")
    binary = elf.read(cubins[75], "k.cubin")["first"]
    with pytest.raises(DseError, match=r"first: code: found addresses left open for loading"):
        disassemble([replace(binary, relocated=True)])
    with pytest.raises(DseError, match=r"^first: nvdisasm failed: "):
        disassemble([replace(binary, arch=1)])


def test_without_the_extra_the_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    find = subject._tool.__wrapped__
    with pytest.raises(DseError, match=r'^nvdisasm: found none, expected the extra "cuda": pip install'):
        find()
    (tmp_path / "nvdisasm").write_text("")
    os.chmod(tmp_path / "nvdisasm", 0o755)
    assert find() == str(tmp_path / "nvdisasm")

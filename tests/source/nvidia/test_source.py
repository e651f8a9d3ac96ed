"""From a kernel.toml and its CUDA source to counts: what is compiled, launched, kept, and what goes wrong."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse import kernels
from dse.core.cluster import active_executor, executing_on
from dse.errors import DseError
from dse.hardware import gpus
from dse.kernels.description import Description
from dse.source import readers
from dse.source.cache import Cache
from dse.source.contract import Failure
from dse.source.kept import pack
from dse.source.kernel import SourceKernel
from dse.source.launches import configurations
from dse.source.nvidia import profiled as subject
from dse.source.nvidia.compile import nvrtc
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source
from dse.source.nvidia.source import CUDA, source_of
from dse.source.profiles import KernelProfile
from dse.source.readers import cuda_file
from dse.source.readers.given import Given

GPU = gpus.load("a100-pcie-40gb").gpu

TABLE = """
name = "rows"
summary = "sums of a sparse matrix's rows"
[problem]
rows = 1000
[parameters]
block = [32, 64, 128]
mode = [0, 1, 2, 3, 4, 5]
[let]
groups = "ceil(rows / block)"
[launch]
threads = "block"
blocks = "groups"
registers = 16
[source]
file = "rows.cu"
defines = { TWICE = "2 * mode" }
block = ["block"]
grid = ["groups"]
arguments = [
    { size = "rows + 1", type = "int32", values = "index * (index - 1) // 2 % 7 + 3 * index" },
    { size = "3 * rows" },
    { size = "rows" },
    "rows",
    0.5,
    "rows * 2 ** 32",
]
"""
CODE = """
extern "C" __global__ void rows(
    const int* starts, const float* values, float* sums, int rows, float scale, long long many)
{
#if MODE == 1
    sum = 0;
#elif MODE == 2
    __shared__ float much[1 << 20];
    much[threadIdx.x] = scale;
    sums[0] = much[many];
#elif MODE == 3
    while (sums[0] >= 0.0f) { __syncthreads(); sums[0] = rows; }
#elif MODE == 4
    sums[__dp4a((int)threadIdx.x, rows, 0)] = 1;
#elif MODE == 5
    printf("%d", TWICE);
#elif MODE == 7
    for (float v = values[0]; v < scale; v = v * v + 1) sums[threadIdx.x] = v;
#elif MODE == 6
    if (threadIdx.x > many >> 32) printf("%d", TWICE);
    sums[threadIdx.x] = 1;
#else
    const int row = blockIdx.x * BLOCK + threadIdx.x;
    if (row < rows && many == 1000ll << 32 && scale == 0.5f) {
        float sum = 0;
#pragma unroll 1
        for (int i = starts[row]; i < starts[row + 1]; ++i) sum += values[i];
        sums[row] = sum;
    }
#endif
}
"""


@pytest.fixture
def read(tmp_path: Path):
    """`read(old, new)`: the kernel, with a piece of its kernel.toml replaced."""

    def read(old: str = "", new: str = "") -> Description:
        assert not old or TABLE.count(old) == 1
        (tmp_path / "rows.cu").write_text(CODE)
        (tmp_path / "kernel.toml").write_text(TABLE.replace(old, new) if old else TABLE)
        return kernels.load(tmp_path)

    return read


def run(kernel: Description, cache: Path, workers: int = 1, progress=lambda steps: None, **parameters):
    count = np.broadcast_shapes(*(np.shape(value) for value in parameters.values()))
    columns = {name: np.broadcast_to(value, count) for name, value in parameters.items()}
    wanted = configurations(kernel, columns, kernel.sizes(), GPU)
    return CUDA.characterise_all(source_of(kernel), 80, wanted, None, Cache(cache), workers, progress)


def test_counts_are_those_of_the_contents(read, tmp_path: Path):
    """With the rows' lengths stated, loop trips are exact: a warp goes on as long as its longest row."""
    [actual] = run(read(), tmp_path / "cache", block=64, mode=0)
    assert isinstance(actual, KernelProfile)
    index = np.arange(1001)
    lengths = np.diff(index * (index - 1) // 2 % 7 + 3 * index)
    counts = actual.counts
    grid, warps = 16, np.concatenate([lengths, np.zeros(24, int)]).reshape(-1, 32)
    assert counts.blocks == grid
    assert counts.sampled < grid
    assert not counts.unknown
    assert (actual.shared_bytes, actual.stack_bytes, actual.spill_bytes) == (0, 0, 0)
    assert 8 <= actual.registers <= 32
    assert counts.executed == {}
    adds = sum(phase.passes * phase.insts["fp32"] for phase in counts.phases) / counts.warps
    assert adds == pytest.approx(warps.max(axis=1).mean(), rel=1e-6)


QUEENS = """
__device__ void place(float* board, unsigned columns, unsigned left, unsigned right)
{
    if (columns == 63) board[8 * threadIdx.x] = 1;
    for (unsigned open = 63 & ~(columns | left | right); open; open &= open - 1) {
        const unsigned queen = open & -open;
        place(board, columns | queen, (left | queen) << 1, (right | queen) >> 1);
    }
}
__global__ void queens(float* board)
{
    const unsigned queen = 1 << threadIdx.x;
    if (threadIdx.x < 6) place(board, queen, queen << 1, queen >> 1);
}
"""


def test_threads_in_calls_of_other_depths_do_not_wait_for_one_another(tmp_path: Path):
    (tmp_path / "queens.cu").write_text(QUEENS)
    kernel = cuda_file.load(tmp_path / "queens.cu", Given(block=(32,), grid=(1,)))
    [actual] = run(kernel, tmp_path / "cache")
    assert isinstance(actual, KernelProfile), actual
    assert actual.counts.total("global store", "sectors") == 4  # solutions, each of a thread's own sector


SEARCH = """__global__ void search(int* table) {
    for (int at = threadIdx.x; atomicCAS(table + at, -1, at) != -1; ++at) {}
}"""


def test_a_loop_whose_end_only_unstated_data_decide_is_left_soon(tmp_path: Path):
    (tmp_path / "search.cu").write_text(SEARCH)
    kernel = cuda_file.load(tmp_path / "search.cu", Given(block=(32,), grid=(1,)))
    [actual] = run(kernel, tmp_path / "cache")
    assert isinstance(actual, Failure)
    assert re.search("still running after 4096 .* depends on contents of table", actual.message)


def test_without_the_numbers_that_end_a_loop_it_says_so(read, tmp_path: Path):
    [actual] = run(read(), tmp_path / "cache", block=64, mode=7)
    assert isinstance(actual, KernelProfile)
    assert actual.counts.zeros == (("values", "float", "with 2 * random - 1"),)


@pytest.mark.slow
def test_a_call_out_of_the_kernel_that_nothing_comes_to(read, tmp_path: Path):
    [actual] = run(read(), tmp_path / "cache", block=64, mode=6)
    assert isinstance(actual, KernelProfile)
    assert actual.counts.blocks == 16


def test_what_goes_wrong_is_a_result(read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "run_sample", partial(subject.run_sample, step_limit=1000))
    seen: list[int] = []
    outcome = run(read(), tmp_path / "cache", progress=seen.append, block=32, mode=np.arange(6))
    assert sum(seen) == 6
    assert isinstance(outcome[0], KernelProfile)
    failures = [item for item in outcome if isinstance(item, Failure)]
    assert [failure.reason for failure in failures] == [
        "compile error",
        "too much shared memory",
        *["not executed"] * 3,
    ]
    messages = [failure.message for failure in failures]
    assert 'identifier "sum" is undefined' in messages[0]
    assert "expected at most" in messages[1]
    assert "still running" in messages[2]
    assert "IDP" in messages[3]
    assert "a call that leaves the kernel" in messages[4]
    assert not any("\n" in message for message in messages)


def test_code_that_waits_for_loading_is_a_result(read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def relocated(*arguments: Any) -> Compiled | Failure:
        made = compile_source(*arguments)
        return (
            replace(made, binary=replace(made.binary, relocated=True)) if isinstance(made, Compiled) else made
        )

    monkeypatch.setattr(nvrtc, "compile_source", relocated)
    [actual] = run(read(), tmp_path / "cache", block=32, mode=0)
    assert actual == Failure(
        "not executed", "rows: code: found addresses left open for loading, expected none"
    )


def test_the_second_time_nothing_is_compiled(read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kernel, cache = read(), tmp_path / "cache"
    first = run(kernel, cache, block=[32, 64, 32], mode=[0, 0, 1])

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("compiled or executed")

    monkeypatch.setattr(nvrtc, "compile_source", refuse)
    monkeypatch.setattr(subject, "disassemble_each", refuse)
    messages: list[int] = []
    again = run(kernel, cache, progress=messages.append, block=[64, 32, 32, 32], mode=[0, 0, 0, 1])
    assert [*map(pack, again)] == [*map(pack, (first[1], first[0], first[0], first[2]))]
    assert messages == [4]
    for old, new in (("rows = 1000", "rows = 999"), ('"2 * mode"', '"mode"'), ("3 * index", "4 * index")):
        with pytest.raises(AssertionError, match="compiled"):
            run(read(old, new), cache, block=32, mode=1)


@pytest.mark.slow
def test_in_several_processes_it_is_the_same(read, tmp_path: Path):
    parameters: dict[str, Any] = {"block": [32, 64, 128], "mode": [0, 0, 1]}
    messages: list[int] = []
    together = run(read(), tmp_path / "two", 2, messages.append, **parameters)
    assert [*map(pack, together)] == [*map(pack, run(read(), tmp_path / "one", **parameters))]
    assert sum(messages) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('    "rows",\n', "", "rows: arguments: found 5, expected 6 of 8, 8, 8, 4, 4, 8 B; add 1"),
        ("    0.5,\n", '    { size = "rows" },\n', "rows: argument 5: found an array, expected what takes"),
        ('    "rows",\n', '    "rows * 2 ** 32",\n', "rows: argument 4: found 4294967296000, expected what"),
    ],
)
def test_arguments_that_do_not_fit(read, tmp_path: Path, old: str, new: str, message: str):
    [actual] = run(read(old, new), tmp_path / "cache", block=32, mode=0)
    assert isinstance(actual, Failure)
    assert actual.message.startswith(message)


def test_kernels_without_a_table():
    with pytest.raises(DseError, match="svm: source: found a kernel that is known by its description only"):
        source_of(kernels.load("svm"))


def test_a_grid_of_nothing(read):
    with pytest.raises(DseError, match=r"source\.grid: found 0, expected 1 or more"):
        configurations(read(), {"block": 32, "mode": 0}, {"rows": 0}, GPU)


pytest.importorskip("distributed")


@pytest.mark.slow
def test_a_ranking_is_the_same_and_is_kept_here(tmp_path, monkeypatch):
    description = readers.load("transpose")
    gpu = gpus.load("a100").gpu
    parameters = {name: x[::150] for name, x in description.space.configurations(description.sizes()).items()}
    here = SourceKernel(description, cache=Cache(tmp_path / "here")).read(parameters, gpu)
    with executing_on(workers=2):
        assert active_executor() is not None
        there = SourceKernel(description, cache=Cache(tmp_path / "there")).read(parameters, gpu)
    assert active_executor() is None
    assert [*map(pack, there)] == [*map(pack, here)]
    messages: list[int] = []
    monkeypatch.setattr("dse.source.nvidia.profiled.compiled", messages.append)
    again = SourceKernel(description, cache=Cache(tmp_path / "there")).read(parameters, gpu)
    assert [*map(pack, again)] == [*map(pack, here)]
    assert not messages
    assert len(here) == len(np.asarray(next(iter(parameters.values()))))

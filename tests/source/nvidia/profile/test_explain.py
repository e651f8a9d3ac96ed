"""Where a launch spends what, against counts computed by hand."""

import pytest
from support.sass_code import compiled

from dse.source.machine.blocks import Sample, representative
from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.execute.interpret import run
from dse.source.nvidia.execute.loop_skipping import LoopPolicy
from dse.source.nvidia.graphs.branches import branches
from dse.source.nvidia.machine.state import Machine
from dse.source.nvidia.profile.characterise import prepare, summary
from dse.source.nvidia.sass.disassemble import with_lines
from dse.source.profile import explain

CODE = """extern "C" __global__ void k(const float* x, float* y, int trips)
{
    __shared__ float tile[32 * 32];
    tile[threadIdx.x * 32 + threadIdx.y] = x[threadIdx.x * 4 + threadIdx.y * 128];
    __syncthreads();
    float sum = 0;
    if (threadIdx.x < 8 * blockIdx.x)
#pragma unroll 1
        for (int i = 0; i < trips; ++i)
            sum += __sinf(tile[threadIdx.y * 32 + threadIdx.x] + i * sum);
    if (threadIdx.y == 1) return;
#pragma unroll 1
    for (int i = 0; i < trips; ++i) sum += x[i * 32 + threadIdx.x];
    y[threadIdx.x] = sum;
}
"""
BLOCKS, TRIPS = 4, 200


@pytest.fixture(scope="module")
def machine() -> Machine:
    launch = LaunchArguments((BLOCKS, 1, 1), (32, 2, 1), [None, None, TRIPS])
    return run(prepare(with_lines(compiled(CODE).cubin, "k", "k.cu")), launch, _sample().blocks)


def _sample() -> Sample:
    return representative((BLOCKS, 1, 1), inside=2)


def test_memory_instructions(machine: Machine):
    actual = {(a.line, a.space, a.op): a for a in explain.accesses(machine, _sample())}
    load, store = actual[4, "global", "load"], actual[4, "shared", "store"]
    assert (load.requests, load.threads, load.pieces, load.ideal) == (2, 32, 16, 4)
    assert load.degree == 4
    assert (store.pieces, store.ideal, store.degree) == (32, 1, 32)  # 32 lanes in one bank
    last = actual[14, "global", "store"]
    assert (last.requests, last.pieces, last.degree) == (1, 4, 1)  # one of two warps is left


def test_branches_where_lanes_part(machine: Machine):
    actual = branches(machine, _sample().weights)
    [parting] = [item for item in actual if item.line == 7]
    # Of blocks 0 to 3, those of 1 to 3 part; 0, 8, 16 and 24 of 32 lanes go on to the loop.
    assert (parting.visits, parting.active, parting.diverged) == (1, 1, 0.75)
    assert min(parting.jumping, 1 - parting.jumping) == pytest.approx((0 + 8 + 16 + 24) / 128)
    [ending] = [item for item in actual if item.line == 11]
    assert (ending.line, ending.jumping, ending.diverged) == (11, 0.5, 0)


def test_lines_add_up_to_the_whole(machine: Machine):
    lines, whole = explain.lines(machine, _sample()), summary(machine, _sample())
    assert sum(line.insts for line in lines) == pytest.approx(whole.insts())
    for pipe in ("sfu", "barrier", "global"):
        assert sum(line.pipes.get(pipe, 0) for line in lines) == pytest.approx(whole.insts(pipe))
    by_line = {line.line: line for line in lines}
    assert lines[0].line in (9, 10)
    assert (by_line[4].sectors, by_line[4].passes, by_line[13].sectors) == (32, 64, TRIPS * 4)
    assert by_line[10].active == pytest.approx((8 + 16 + 24) / (3 * 32), abs=0.02)
    assert by_line[10].pipes["sfu"] == 2 * TRIPS * 2 * 3 / 4  # a conversion and a sine


def test_counts_do_not_depend_on_skipped_trips(machine: Machine):
    assert machine.repeats
    full = run(machine.bound, machine.launch, _sample().blocks, loops=LoopPolicy.RUN)
    assert explain.lines(full, _sample()) == explain.lines(machine, _sample())
    assert explain.accesses(full, _sample()) == explain.accesses(machine, _sample())

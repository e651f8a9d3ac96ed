"""Blocks of grids too large to look at each: what all of them do is known, or it is said that it is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse.hardware import gpus
from dse.source.amd import source as amd
from dse.source.amd.compile.source import Built
from dse.source.amd.compile.source import read_source as read_hip
from dse.source.launches import Configuration
from dse.source.machine.blocks import TOLERANCE
from dse.source.machine.launch import Dimensions, LaunchArguments
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import read_source
from dse.source.nvidia.profile.characterise import characterise
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.profile.characterise import Characterisation

CODE = """extern "C" __global__ void k(const int* x, int* y)
{{
    int b = blockIdx.x, c = blockIdx.y, t = threadIdx.x;
    int i = b * blockDim.x + t, trips = {trips};
    int sum = 0;
#pragma unroll 1
    for (int trip = 0; trip < trips; ++trip) sum += x[i + trip * 1024];
    y[i] = sum;
}}
"""
THREADS = 64
ROW, WIDE, SQUARE = (20_000, 1, 1), (1_000_000, 1, 1), (1_000, 900, 1)
# Trips of a thread t of block (b, c) in C, and the same in Python over arrays.
PROVEN = {
    "alike": ("20", lambda b, c, t: 20),
    "one heavy": ("b == 4711 ? 1000000 : 10", lambda b, c, t: np.where(b == 4711, 1_000_000, 10)),
    "two heavy": (
        "b == 17 || b == 4711 ? 1000000 : 10",
        lambda b, c, t: np.where((b == 17) | (b == 4711), 1_000_000, 10),
    ),
    "heavy corner": (
        "b == 47 && c == 11 ? 1000000 : 10",
        lambda b, c, t: np.where((b == 47) & (c == 11), 1_000_000, 10),
    ),
    "heavy by its number": (
        "c * 1000 + b == 47110 ? 1000000 : 10",
        lambda b, c, t: np.where(c * 1000 + b == 47_110, 1_000_000, 10),
    ),
    "limit": ("b >= 12345 ? 0 : 20", lambda b, c, t: np.where(b >= 12_345, 0, 20)),
    "tile": (
        "b * 16 + t % 16 < 1501 && c * 4 + t / 16 < 1503 ? 20 : 0",
        lambda b, c, t: 20 * ((b * 16 + t % 16 < 1501) & (c * 4 + t // 16 < 1503)),
    ),
    "groups": ("b / 4096 == 2 ? 300 : 10", lambda b, c, t: np.where(b // 4096 == 2, 300, 10)),
}
UNKNOWN = {
    "every 1000th": "b % 1000 == 7 ? 10000 : 10",
    "one by a hash": "(b * 2654435761u) % 1000003 == 77777 ? 1000000 : 10",
    "of contents": "x[b]",
    "one by contents": "x[b] == 99 ? 1000000 : 10",
}
X = np.random.default_rng(1).integers(5, 40, 2**20).astype(np.int32)
X[4711] = 99


@pytest.fixture
def counted(tmp_path: Path):
    def count(trips: str, grid: Dimensions, x: np.ndarray | None = None) -> Characterisation:
        path = tmp_path / "k.cu"
        path.write_text(CODE.format(trips=trips))
        cuda = read_source(path, "k")
        made = cuda.compile(80, cuda.settings((), (x, None)))
        assert isinstance(made, Compiled)
        return characterise(disassemble([made.binary])[0], LaunchArguments(grid, (THREADS, 1, 1), (x, None)))

    return count


@pytest.fixture
def counted_on_amd(tmp_path: Path):
    def count(trips: str, grid: Dimensions, name: str) -> Characterisation:
        path, gpu = tmp_path / "k.cu", gpus.load(name).gpu
        path.write_text(CODE.format(trips=trips))
        hip = read_hip(path, "k")
        built = hip.compile(amd.architecture(gpu, hip), ())
        assert isinstance(built, Built)
        wanted = Configuration((), grid, (THREADS, 1, 1), (None, None))
        return amd.executed(built, wanted, gpu, hip).counts

    return count


def mean_trips(work: Callable[..., Any], grid: Dimensions) -> float:
    return float(np.mean(work(*np.ogrid[: grid[0], : grid[1], :THREADS])))


@pytest.mark.parametrize("grid", [ROW, WIDE, SQUARE])
@pytest.mark.parametrize("name", PROVEN)
def test_what_is_proven_of_all_blocks_is_exact(counted, name, grid):
    trips, work = PROVEN[name]
    counts = counted(trips, grid)
    loaded = counts.total("global load", "bytes") / 4 / THREADS
    assert loaded == pytest.approx(mean_trips(work, grid), rel=1e-9)
    assert (counts.unseen, counts.spread) == (0, 0.0)


def test_every_64th_of_some_thousands_is_exact(counted):
    counts = counted("b % 64 == 0 ? 1000 : 10", ROW)
    assert counts.unseen == 0
    loaded = counts.total("global load", "bytes") / 4 / THREADS
    assert loaded == pytest.approx(mean_trips(lambda b, c, t: np.where(b % 64, 10, 1000), ROW), rel=1e-9)


@pytest.mark.parametrize("grid", [ROW, WIDE])
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_proven_is_said(counted, name, grid):
    counts = counted(UNKNOWN[name], grid, X)
    assert 0.7 * counts.blocks < counts.unseen < counts.blocks
    assert counts.doubtful or counts.spread > TOLERANCE


def test_contents_that_are_evenly_apart_are_known_for_all_blocks(counted):
    counts = counted("x[i + 1] - x[i]", ROW, 7 * np.arange(2**21, dtype=np.int32))
    assert counts.unseen == 0
    assert counts.total("global load", "bytes") / 4 / THREADS == pytest.approx(9, rel=1e-9)  # 7 trips


@pytest.mark.parametrize("gpu", ["mi250x", "radeon_pro_w6600"])
@pytest.mark.parametrize("grid", [ROW, SQUARE])
@pytest.mark.parametrize("name", ["alike", "one heavy", "heavy corner", "heavy by its number", "tile"])
def test_comparisons_tell_the_blocks_of_amd_apart(counted_on_amd, name, grid, gpu):
    trips, work = PROVEN[name]
    counts = counted_on_amd(trips, grid, gpu)
    loaded = counts.total("global load", "bytes") / 4 / THREADS
    assert loaded == pytest.approx(mean_trips(work, grid), rel=1e-9)
    assert counts.unseen == 0


@pytest.mark.parametrize("trips", [PROVEN["groups"][0], UNKNOWN["every 1000th"], UNKNOWN["one by a hash"]])
def test_what_comparisons_of_amd_do_not_tell_is_said(counted_on_amd, trips):
    counts = counted_on_amd(trips, ROW, "mi250x")
    assert 0.7 * counts.blocks < counts.unseen < counts.blocks
    assert counts.doubtful

"""The run of the microbenchmarks: what it does where the driver refuses, the GPU breaks, or time is up."""

from typing import Any

import numpy as np
import pytest
from fake_gpu import MADE, FakeDevice, recorded

from dse.errors import DseError
from dse.measure.bench import benchmarks
from dse.measure.bench import run as gpu
from dse.measure.bench.benchmarks import Benchmark
from dse.measure.bench.records import BenchRecording
from dse.measure.bench.run import cycles_of, planned
from dse.measure.device import DeviceError
from dse.source.nvidia.compile.contract import Compiled

SMALL = ("clock", "local", "launch")


def run(
    device: Any, made: dict[Benchmark, Compiled], families: tuple[str, ...] = SMALL, **options: Any
) -> tuple[list[str], list[str]]:
    """Benchmarks that were recorded, and what went wrong."""
    recording = BenchRecording(gpu.described(device))
    problems = gpu.measure(device, made, recording, families=families, **options)
    return list(dict.fromkeys(record.benchmark for record in recording.records)), problems


@pytest.mark.parametrize(("code", "left"), [("NOT_SUPPORTED", [*SMALL[::2]]), ("ILLEGAL_ADDRESS", ["clock"])])
def test_what_fails_costs_only_itself(code: str, left: list[str]):
    def fails(*arguments: Any) -> float:
        raise DeviceError("cuLaunchKernel", f"CUDA_ERROR_{code}")

    device = FakeDevice()
    device.local = fails  # type: ignore[method-assign]
    assert run(device, MADE) == (left, [f"local: cuLaunchKernel: CUDA_ERROR_{code}"])


def test_what_is_not_made_costs_only_its_family():
    gone = benchmarks.local(1)
    some = {build: item for build, item in MADE.items() if build != gone}
    assert run(FakeDevice(), some) == (["clock", "launch"], [f"local: {gone.name} is left out"])
    assert run(FakeDevice(), MADE, budget=0.0) == (["clock"], ["time is up in clock"])
    device = FakeDevice()
    device.driver_version = "11.8"
    with pytest.raises(DseError, match=r"^driver: found one for CUDA 11\.8"):
        run(device, MADE)


def test_memory_is_given_back_and_no_more_is_run_than_was_planned():
    device = FakeDevice()
    run(device, MADE, families=("stream",))
    assert len(device.held) == 3  # what all benchmarks share
    assert 0.9 * sum(planned().values()) < len(recorded().records) <= sum(planned().values())


def test_cycles_of_an_sm():
    # SM 7 runs two warps from 100 to 350, SM 9 from 1000 to 1260; SM 8 has one warp only
    times = np.array(
        [[100, 340, 7, 0], [5, 9, 8, 0], [1010, 1260, 9, 0], [110, 350, 7, 0], [1000, 1250, 9, 0]], np.int64
    )
    assert cycles_of(times, 2) == (255.0, 0.0)
    assert cycles_of(times, 3) == (250.0, 0.0)  # no SM has three: all count
    times[:, 3] = 240 * 1000
    times[:, 1] = times[:, 0] + 360_000
    assert cycles_of(times, 2)[1] == pytest.approx(1500)

"""One configuration from loading to a row, on a GPU made of NumPy that transposes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dse.measure.arguments import TimingJob
from dse.measure.device import Device, DeviceError, LoadedCode, packed
from dse.measure.timing import Row, TimingBench, TimingSettings
from dse.source.contract import Failure, Launched, Passed
from dse.source.launches import Array, Configuration, Descriptor
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.sass.elf import Binary, Parameter

WIDTH, HEIGHT = 64, 96
COUNT = WIDTH * HEIGHT
LIMITS = {
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 102400,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 101376,
}


class Transposes(Device):
    """Memory is an array; a launch takes 2 ms."""

    def __init__(self) -> None:
        self.arch = 80
        self.memory_bytes = np.full(10**6, 0xCD, np.uint8)
        self.used, self.launches, self.loaded = 64, 0, 0
        self.spoil: Callable[[np.ndarray], Any] = lambda output: None
        self.refuse: DeviceError | None = None

    def attribute(self, name: str) -> int:
        return LIMITS[name]

    def allocate(self, size: int) -> int:
        self.used += size + 64
        return self.used - size

    def synchronize(self, *given: Any, **options: Any) -> None: ...

    free = allow_dynamic_shared = synchronize

    def upload(self, address: int, values: np.ndarray) -> None:
        self.memory_bytes[address : address + values.nbytes] = np.ravel(values).view(np.uint8)

    def download(self, address: int, values: np.ndarray) -> np.ndarray:
        values.view(np.uint8)[:] = self.memory_bytes[address : address + values.nbytes]
        return values

    def zero(self, address: int, size: int) -> None:
        self.memory_bytes[address : address + size] = 0

    def load(self, cubin: bytes, kernel: str) -> LoadedCode:
        self.loaded += 1
        return LoadedCode(None, None, kernel)

    def unload(self, code: LoadedCode) -> None:
        self.loaded -= 1

    def resident_blocks(self, code: LoadedCode, threads: int, dynamic: int = 0) -> int:
        return min(2048 // threads, 102400 // (dynamic + 4224 + 1024))

    def milliseconds(self, work: Callable[[], None], launches: int, busy: Callable[[int], None]) -> float:
        busy(1000)
        before = self.launches
        work()
        assert self.launches - before == launches
        return 2.0 * launches

    def launching(self, code: LoadedCode, grid: Any, block: Any, arguments: Any, shared: int = 0) -> Any:
        return lambda: self.launched(code, grid, block, arguments)

    def launched(self, code: LoadedCode, grid: Any, block: Any, arguments: Any) -> None:
        if code.name == "tick":
            self.upload(int(arguments[0]), np.array([1000, 301000, 0, 200000]))
            return
        if self.refuse:
            raise self.refuse
        self.launches += 1
        assert (grid, block) == ((2, 3, 1), (32, 8, 1))
        source, target, width, height = (int.from_bytes(packed(x).tobytes(), "little") for x in arguments)
        matrix = self.download(source, np.empty(COUNT, np.float32)).reshape(height, width)
        output = matrix.T.copy()
        self.spoil(output)
        self.upload(target, output)


@pytest.fixture
def device() -> Transposes:
    return Transposes()


@pytest.fixture
def rows(device: Transposes) -> Callable[..., list[Row]]:
    parameters = (Parameter(0, 8), Parameter(8, 8), Parameter(16, 4), Parameter(20, 4))
    binary = Binary("transpose", 80, b"", False, 24, 4224, 0, parameters)
    made = Compiled(binary, b"", None, "", "NVRTC 13.0", 0)
    arrays = tuple(Array(COUNT, "float32", "", ()) for _ in range(2))
    configuration = Configuration((), (2, 3, 1), (32, 8, 1), (*arrays, WIDTH, HEIGHT))
    sizes = {"width": WIDTH, "height": HEIGHT}

    def rows(made: Compiled | Failure = made, **settings: Any) -> list[Row]:
        job = TimingJob("transpose", {"tile": 32}, sizes, configuration, made)
        return list(TimingBench(device, TimingSettings(**settings)).rows(job))

    return rows


def test_a_good_one_and_with_fewer_and_fewer_blocks(device: Transposes, rows: Callable[..., list[Row]]):
    [row] = rows()
    assert row["status"] == "ok"
    assert (row["time_ms"], row["min_ms"], row["cv"], row["repeats"]) == (2.0, 2.0, 0.0, 5)
    assert (row["registers"], row["shared_bytes"], row["threads"], row["blocks"]) == (24, 4224, 256, 6)
    assert (row["resident_blocks"], row["occupancy"], row["dynamic_shared_bytes"]) == (8, 1.0, 0)
    assert row["sm_clock_before_mhz"] == row["sm_clock_after_mhz"] == 1500
    assert device.loaded == 1  # the clock
    actual = rows(sweep=True)
    assert [(row["resident_blocks"], row["occupancy"]) for row in actual] == [
        (n, n / 8) for n in range(8, 0, -1)
    ]
    dynamic = [row["dynamic_shared_bytes"] for row in actual]
    assert (dynamic, dynamic[0]) == (sorted(dynamic), 0)


def test_what_does_not_count_is_refused_or_breaks(device: Transposes, rows: Callable[..., list[Row]]):
    device.spoil = lambda output: output.__setitem__((0, 5), 7.0)
    [row] = rows()
    assert row["status"] == "correctness"
    assert row["message"].startswith("element 5: found 7, expected 0.")
    assert "time_ms" not in row
    device.spoil = lambda output: None
    [row] = rows()
    assert row["status"] == "ok"
    device.upload = lambda address, values: None  # launches write nothing now
    [row] = rows()
    assert row["status"] == "correctness"
    assert rows(Failure("too much shared memory", "much")) == [{"status": "resources", "message": "much"}]
    device.refuse = DeviceError("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    [row] = rows()
    assert (row["status"], row["message"][-16:]) == ("resources", "OUT_OF_RESOURCES")
    device.refuse = DeviceError("cuCtxSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(DeviceError):
        rows()


# A kernel of Triton's: how it is launched is its compiler's to say

SIDE = 8  # of the matrices
MADE = Binary("matmul", 90, b"", False, 40, 0, 0)


class Multiplies(Transposes):
    """Multiplies matrices of half precision, given by addresses or by what stands for tensor maps."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []
        self.places: list[int] = []  # of the matrices among the arguments

    def allow_dynamic_shared(self, code: LoadedCode, size: int) -> None:
        self.asked.append(size)

    def tensor_map(self, address: int, kind: str, shape: Any, strides: Any, box: Any, swizzle: int) -> Any:
        self.asked.append((kind, shape, strides, box, swizzle))
        return np.array([address, *[0] * 15], np.uint64)

    def resident_blocks(self, code: LoadedCode, threads: int, dynamic: int = 0) -> int:
        return 1

    def launched(self, code: LoadedCode, grid: Any, block: Any, arguments: Any) -> None:
        if code.name == "tick":
            super().launched(code, grid, block, arguments)
            return
        self.launches += 1
        assert (grid, block) == ((4, 1, 1), (128, 1, 1))
        self.arguments = [packed(argument).tobytes() for argument in arguments]
        a, b, c = (int.from_bytes(self.arguments[place][:8], "little") for place in self.places)
        shape = np.empty((SIDE, SIDE), np.float16)
        left, right = self.download(a, shape.copy().ravel()), self.download(b, shape.copy().ravel())
        product = left.reshape(SIDE, SIDE).astype(np.float32) @ right.reshape(SIDE, SIDE).astype(np.float32)
        self.upload(c, product.astype(np.float16))


def half_precision(name: str, given: Any, passed: Any, sizes: Any) -> Any:
    """Time one configuration; the GPU and the row."""
    device = Multiplies()
    device.places = [place for place, item in enumerate(passed) if item.part in ("map", "all")][:3]
    parameters = tuple(Parameter(0, size) for size in sizes)
    launched = Launched(128, 65536, scratch_bytes=32, passed=passed)
    made = Compiled(replace(MADE, parameters=parameters), b"", None, "", "Triton 3", None, launched=launched)
    configuration = Configuration((), (4, 1, 1), (32, 1, 1), given)
    job = TimingJob(name, {"BLOCK_M": 16}, dict.fromkeys("MNK", SIDE), configuration, made)
    return device, list(TimingBench(device, TimingSettings()).rows(job))


def test_arguments_that_code_still_takes():
    array = Array(SIDE * SIDE, "float16", "", ())
    passed = (Passed(0), Passed(1), Passed(2), Passed(4), Passed())  # a number that is 1 is in the code
    device, [row] = half_precision("triton_matmul", (array, array, array, 1, -7), passed, (8, 8, 8, 4, 8))
    assert row["status"] == "ok"
    assert (row["threads"], row["blocks"], row["shared_bytes"]) == (128, 4, 65536)
    assert device.asked == [65536]
    assert device.arguments[3] == (-7).to_bytes(4, "little", signed=True)
    assert int.from_bytes(device.arguments[4], "little") > 0  # 4 blocks of 32 B


def test_tensor_maps():
    arguments = Descriptor("fp16", (SIDE, SIDE), (SIDE, 1), (4, 4))
    parts: list[Any] = [("map", 0), ("shape", 1), ("stride", 0), ("flag", 0)]
    passed = tuple(
        Passed(place, part, axis, (4, 2) if part == "map" else (), swizzle=2 * (part == "map"))
        for place in range(3)
        for part, axis in parts
    )
    device, [row] = half_precision("triton_matmul_tma", (*[arguments] * 3,), passed, (128, 4, 8, 1) * 3)
    assert row["status"] == "ok"
    assert device.asked[1:] == [("float16", (SIDE, SIDE), [2 * SIDE, 2], (4, 2), 2)] * 3
    assert [len(argument) for argument in device.arguments] == [128, 4, 8, 1] * 3
    assert [int.from_bytes(argument, "little") for argument in device.arguments[1:4]] == [SIDE, SIDE, 0]

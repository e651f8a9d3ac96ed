"""Calls of the driver: each is checked, and what an error means."""

import enum
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from dse.errors import DseError
from dse.measure import device as subject
from dse.measure.device import Device, DeviceError, packed


class Result(enum.Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Driver:
    """The driver's calls, of which some fail; arguments of launches are read back from where they lie."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="count",
    )
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    values: ClassVar[dict[str, Any]] = {
        "cuDeviceGetCount": 1,
        "cuDeviceGet": 0,
        "cuDevicePrimaryCtxRetain": 5,
        "cuDeviceGetName": b"NVIDIA Something\0\0\0",
        "cuDriverGetVersion": 12040,
        "cuEventCreate": 1,
        "cuMemAlloc": 4096,
        "cuDeviceGetAttribute": 9,
        "cuModuleLoadData": "module",
        "cuModuleGetFunction": "function",
        "cuMemGetInfo": (10, 20),
    }

    def __init__(self, **errors: Result) -> None:
        self.errors, self.calls, self.answers = errors, [], dict(self.values)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            values = self.answers.get(name, ())
            values = values if isinstance(values, tuple) else (values,)
            return (self.errors.get(name, Result.CUDA_SUCCESS), *values)

        return call


def test_what_it_tells_of_itself_and_that_it_frees_what_was_allocated():
    driver = Driver()
    with Device(driver=driver) as device:
        device.allocate(100)
        assert (device.name, device.driver_version, device.arch) == ("NVIDIA Something", "12.4", 99)
        assert device.attribute("OF_A_LATER_DRIVER") == 0
        assert device.memory() == 10
    assert ("cuMemFree", (4096,)) in driver.calls
    assert ("cuMemAlloc", (100,)) in driver.calls


@pytest.mark.parametrize(
    ("error", "lost"), [(Result.CUDA_ERROR_INVALID_VALUE, False), (Result.CUDA_ERROR_ILLEGAL_ADDRESS, True)]
)
def test_an_error_names_the_call(error: Result, lost: bool):
    with Device(driver=Driver(cuLaunchKernel=error)) as device:
        code = device.load(b"", "k")
        with pytest.raises(DeviceError, match=f"^cuLaunchKernel: {error.name}$") as raised:
            device.launch(code, (1, 1, 1), (32, 1, 1), [])
    assert raised.value.lost == lost


def test_no_gpu():
    for driver in (Driver(cuInit=Result.CUDA_ERROR_NO_DEVICE), Driver()):
        driver.answers["cuDeviceGetCount"] = 0
        with (
            pytest.raises(DseError, match=r"^GPU: found .*, expected one with NVIDIA's driver"),
            Device(driver=driver),
        ):
            pass


def test_arguments_lie_where_the_launch_reads_them():
    import ctypes

    actual: list[bytes] = []

    class Reads(Driver):
        def cuLaunchKernel(self, *arguments: Any) -> tuple[Result]:
            assert arguments[:9] == ("function", 1, 2, 3, 32, 4, 1, 99, 0)
            places = (ctypes.c_uint64 * 3).from_address(int(arguments[9]))
            actual.extend(
                ctypes.string_at(place, size) for place, size in zip(places, (8, 4, 3), strict=True)
            )
            return (Result.CUDA_SUCCESS,)

    with Device(driver=Reads()) as device:
        code = device.load(b"", "k")
        three = np.arange(3, dtype=np.uint8)
        device.launch(code, (1, 2, 3), (32, 4, 1), [2**40, np.float32(1.5), three], shared=99)
    assert actual == [(2**40).to_bytes(8, "little"), np.float32(1.5).tobytes(), b"\0\1\2"]
    assert packed(7).dtype == np.uint64


def test_a_tensor_map_as_triton_encodes_it():
    real, driver = import_module("cuda.bindings.driver"), Driver(cuCtxCreate=Result.CUDA_SUCCESS)
    names = ("CUtensorMapDataType", "CUtensorMapInterleave", "CUtensorMapSwizzle", "CUtensorMapL2promotion")
    for name in (*names, "CUtensorMapFloatOOBfill"):
        setattr(driver, name, getattr(real, name))
    driver.cuuint64_t = driver.cuuint32_t = int  # type: ignore[attr-defined]
    driver.answers["cuTensorMapEncodeTiled"] = SimpleNamespace(opaque=range(16))
    with Device(driver=driver) as device:
        actual = device.tensor_map(4096, "bfloat16", (3, 100, 64), (12800, 128, 2), (1, 32, 64), 3)
    assert actual.tobytes() == np.arange(16, dtype=np.uint64).tobytes()
    [(_, arguments)] = [call for call in driver.calls if call[0] == "cuTensorMapEncodeTiled"]
    assert arguments[0] == real.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    assert arguments[1:7] == (3, 4096, [64, 100, 3], [128, 12800], [64, 32, 1], [1, 1, 1])
    assert arguments[8] == real.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B
    for kind in ("float8_e5m2", "float16", "float32", "int8", "int32"):
        device.tensor_map(4096, kind, (8, 8), (8, 1), (8, 8), 0)


def test_the_clock_starts_after_what_goes_before():
    """What keeps the GPU busy, for longer where more is launched."""
    events: list[Any] = []

    class Records(Driver):
        values: ClassVar[dict[str, Any]] = {**Driver.values, "cuEventElapsedTime": 1.5}

        def cuEventRecord(self, *arguments: Any) -> tuple[Result]:
            events.append("record")
            return (Result.CUDA_SUCCESS,)

    with Device(driver=Records()) as device:
        for launches in (1, 3):
            assert device.milliseconds(lambda: events.append("work"), launches, events.append) == 1.5
    assert events == [120_000, "record", "work", "record", 160_000, "record", "work", "record"]


def test_the_driver_has_all_that_is_called():
    driver = import_module("cuda.bindings.driver")
    text = Path(subject.__file__).read_text()
    called = set(re.findall(r"\bcu[A-Z]\w+", text))
    assert len(called) > 20
    assert [name for name in called if not hasattr(driver, name)] == []
    codes = {error.name for error in driver.CUresult}
    assert codes >= subject._REFUSED
    from dse.measure.bench.run import ATTRIBUTES

    for name in ATTRIBUTES:
        assert hasattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")

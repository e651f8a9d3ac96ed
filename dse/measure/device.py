"""One GPU through the CUDA driver: memory, code, launches, times.

Every call of the driver is checked, and an error names the call. After some errors (an illegal address, say)
no further call of this process works: `DeviceError.lost` is set, and a new process has to continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any

import numpy as np

from dse.core.optional import install, needs
from dse.errors import DseError

Dimensions = tuple[int, int, int]
Argument = np.generic | np.ndarray | int  # an int is the address of a buffer

# Upper bounds of the processor's time before the first launch, and for each launch.
_AHEAD_NS, _LAUNCH_NS = 100_000, 20_000
# Types with the same bits.
_MAPPED = {"int8": "UINT8", "float8_e4m3fn": "UINT8", "float8_e5m2": "UINT8", "int16": "UINT16"}
_REFUSED = frozenset(  # errors of one call, after which others work; any other error ends the context
    f"CUDA_ERROR_{name}"
    for name in (
        "INVALID_VALUE",
        "INVALID_IMAGE",
        "INVALID_SOURCE",
        "LAUNCH_OUT_OF_RESOURCES",
        "NOT_FOUND",
        "NOT_SUPPORTED",
        "NO_BINARY_FOR_GPU",
        "OUT_OF_MEMORY",
        "UNSUPPORTED_PTX_VERSION",
    )
)


class DeviceError(Exception):
    """A call of the driver that failed."""

    def __init__(self, call: str, code: str) -> None:
        super().__init__(f"{call}: {code}")
        self.call, self.code = call, code
        self.lost = code not in _REFUSED  # further calls of this process will fail


@dataclass(frozen=True)
class LoadedCode:
    """A loaded kernel."""

    module: Any
    function: Any
    name: str


class Device:
    """The GPU `ordinal`, as a context manager that frees its memory and code at the end.

    **Raises:** DseError at its start if there is no GPU or no driver, or cuda-bindings is missing;
    DeviceError from every call that the driver refuses.
    """

    def __init__(self, ordinal: int = 0, driver: Any = None) -> None:
        self.ordinal = ordinal
        self.driver = driver
        self.buffers: list[int] = []

    def __enter__(self) -> Device:
        if self.driver is None:
            with needs("cuda-bindings", install("cuda")):
                self.driver = import_module("cuda.bindings.driver")
        driver = self.driver
        try:
            self._call("cuInit", 0)
            count = self._call("cuDeviceGetCount")
        except RuntimeError:  # the binding is installed, the driver is not
            raise no_gpu("no NVIDIA driver") from None
        except DeviceError as error:
            raise no_gpu(error.code) from None
        if self.ordinal >= count:
            raise no_gpu(f"{count} of them" if count else "none")
        self.handle = self._call("cuDeviceGet", self.ordinal)
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", self.handle))
        self.name = self._call("cuDeviceGetName", 256, self.handle).split(b"\0")[0].decode()
        number = self._call("cuDriverGetVersion")
        self.driver_version = f"{number // 1000}.{number % 1000 // 10}"
        self.capability = (
            self.attribute("COMPUTE_CAPABILITY_MAJOR"),
            self.attribute("COMPUTE_CAPABILITY_MINOR"),
        )
        self.arch = 10 * self.capability[0] + self.capability[1]
        self.sm_count = self.attribute("MULTIPROCESSOR_COUNT")
        self._events = [self._call("cuEventCreate", 0) for _ in range(2)]
        self._dynamic = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for address in list(self.buffers):
            self.driver.cuMemFree(address)  # an error here would hide the original one
        for event in self._events:
            self.driver.cuEventDestroy(event)
        self.driver.cuDevicePrimaryCtxRelease(self.handle)

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call the driver and return its results without the status."""
        status, *values = getattr(self.driver, name)(*arguments)
        if status.value:
            raise DeviceError(name, status.name)
        return values[0] if len(values) == 1 else tuple(values)

    def attribute(self, name: str) -> int:
        """Return an attribute by the driver's name, e.g. "MULTIPROCESSOR_COUNT"; 0 if unknown."""
        key = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
        if key is None:
            return 0
        try:
            return int(self._call("cuDeviceGetAttribute", key, self.handle))
        except DeviceError as error:
            if error.lost:
                raise
            return 0

    def memory(self) -> int:
        """Return the bytes of the GPU's memory that are free."""
        return int(self._call("cuMemGetInfo")[0])

    # Memory

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes and return their address."""
        address = int(self._call("cuMemAlloc", max(size, 16)))
        self.buffers.append(address)
        return address

    def free(self, address: int) -> None:
        """Free memory from `allocate`."""
        self.buffers.remove(address)
        self._call("cuMemFree", address)

    def upload(self, address: int, values: np.ndarray) -> None:
        """Copy an array to an address of the GPU."""
        values = np.ascontiguousarray(values)
        self._call("cuMemcpyHtoD", address, values.ctypes.data, values.nbytes)

    def download(self, address: int, values: np.ndarray) -> np.ndarray:
        """Fill `values`, which must be contiguous, from an address of the GPU, and return them."""
        self._call("cuMemcpyDtoH", values.ctypes.data, address, values.nbytes)
        return values

    def zero(self, address: int, size: int) -> None:
        """Set `size` bytes to 0."""
        self._call("cuMemsetD8", address, 0, size)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes within the GPU, after earlier launches."""
        self._call("cuMemcpyDtoDAsync", target, source, size, 0)

    # Code

    def load(self, cubin: bytes, kernel: str) -> LoadedCode:
        """Load a kernel of a cubin, by its mangled name."""
        module = self._call("cuModuleLoadData", cubin)
        return LoadedCode(module, self._call("cuModuleGetFunction", module, kernel.encode()), kernel)

    def unload(self, code: LoadedCode) -> None:
        """Unload a kernel."""
        self._call("cuModuleUnload", code.module)

    def constant(self, code: LoadedCode, name: str) -> tuple[int, int]:
        """Find the address and the bytes of a `__constant__` variable."""
        address, size = self._call("cuModuleGetGlobal", code.module, name.encode())
        return int(address), int(size)

    def allow_dynamic_shared(self, code: LoadedCode, size: int) -> None:
        """Allow launches to add `size` bytes of shared memory, as is necessary beyond 48 KiB."""
        self._call("cuFuncSetAttribute", code.function, self._dynamic, size)

    def resident_blocks(self, code: LoadedCode, threads: int, dynamic: int = 0) -> int:
        """Return the blocks that one SM holds at a time, by the driver's calculation."""
        return int(self._call("cuOccupancyMaxActiveBlocksPerMultiprocessor", code.function, threads, dynamic))

    def tensor_map(
        self,
        address: int,
        kind: str,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        swizzle: int,
    ) -> np.ndarray:
        """Encode a tensor map of an array, as Triton does, for a launch to take as its argument.

        `kind` is NumPy's type of an element; `shape` and `box` are in elements, `strides` in bytes, the
        contiguous axis last; `swizzle` is the driver's number.
        """
        driver = self.driver
        encoded = self._call(
            "cuTensorMapEncodeTiled",
            getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAPPED.get(kind, kind.upper())}"),
            len(shape),
            address,
            [driver.cuuint64_t(size) for size in shape[::-1]],
            [driver.cuuint64_t(stride) for stride in strides[-2::-1]],
            [driver.cuuint32_t(size) for size in box[::-1]],
            [driver.cuuint32_t(1)] * len(shape),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle(swizzle),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return np.array([int(word) for word in encoded.opaque], np.uint64)

    # Launches

    def launching(
        self,
        code: LoadedCode,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[Argument],
        shared: int = 0,
    ) -> Callable[[], None]:
        """Return a function that launches each time it is called, without waiting."""
        values = [packed(argument) for argument in arguments]
        pointers = np.array([value.ctypes.data for value in values], np.uint64)

        def launch(values: object = values) -> None:  # keeps them alive: the driver has only addresses
            self._call("cuLaunchKernel", code.function, *grid, *block, shared, 0, pointers.ctypes.data, 0)

        return launch

    def launch(
        self,
        code: LoadedCode,
        grid: Dimensions,
        block: Dimensions,
        arguments: Sequence[Argument],
        shared: int = 0,
    ) -> None:
        """Launch a kernel, without waiting for its end."""
        self.launching(code, grid, block, arguments, shared)()

    def synchronize(self) -> None:
        """Wait until all launches have ended."""
        self._call("cuCtxSynchronize")

    def milliseconds(self, work: Callable[[], None], launches: int, busy: Callable[[int], None]) -> float:
        """Time the launches of `work` by the GPU's own clock.

        `busy` keeps the GPU busy for this many nanoseconds, until all launches are queued: an idle GPU would
        start its clock before the first launch arrives.
        """
        start, stop = self._events
        busy(_AHEAD_NS + launches * _LAUNCH_NS)
        self._call("cuEventRecord", start, 0)
        work()
        self._call("cuEventRecord", stop, 0)
        self._call("cuEventSynchronize", stop)
        return float(self._call("cuEventElapsedTime", start, stop))


def packed(argument: Argument) -> np.ndarray:
    """Pack a kernel's argument into bytes: an address, a number, or a structure given as bytes."""
    if isinstance(argument, int) and not isinstance(argument, bool):
        return np.array([argument], np.uint64)
    if isinstance(argument, np.ndarray):
        return np.ascontiguousarray(argument)
    return np.array([argument])


def no_gpu(found: str) -> DseError:
    """Return the error of a machine without a GPU."""
    return DseError(f"GPU: found {found}, expected one with NVIDIA's driver, or a dry run")


def driver_takes(driver: str, compiler: str) -> None:
    """Raise DseError if a driver is too old for a compiler's code, e.g. "12.4" for "NVRTC 13.0.48"."""
    version, needed = int(driver.split(".")[0]), int(compiler.split()[-1].split(".")[0])
    if version < needed:
        raise DseError(f"driver: found one for CUDA {driver}, expected {needed}.0 or newer, for {compiler}")

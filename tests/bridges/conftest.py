"""An H100 that PyTorch takes to be there, as far as compiling goes: nothing runs on it.

PyTorch for processors has types and compilers for CUDA, but no driver; what asks for one is answered here.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

NAME = "NVIDIA H100 80GB HBM3"
PROPERTIES = SimpleNamespace(
    name=NAME,
    gcnArchName=NAME,
    major=9,
    minor=0,
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_block=1024,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block_optin=232448,
    total_memory=80 << 30,
    L2_cache_size=50 << 20,
)


class Device:
    """What is entered for the time of some work on a device."""

    def __init__(self, *device: Any) -> None: ...

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *error: Any) -> None: ...


class Driver:
    """Triton's driver."""

    def get_current_target(self) -> Any:
        return import_module("triton.backends.compiler").GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, *device: Any) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        return import_module("torch").device("cuda", 0)


@contextmanager
def _faked_gpu() -> Iterator[None]:
    """Have the GPU there, and tensors that have no elements."""
    torch = import_module("torch")
    interface = import_module("torch._dynamo.device_interface").CudaInterface
    tensors = import_module("torch._subclasses").FakeTensorMode
    state = torch.zeros(16, dtype=torch.uint8)
    of_module = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *device: NAME,
        "get_device_capability": lambda *device: (9, 0),
        "get_device_properties": lambda *device: PROPERTIES,
        "get_rng_state": lambda *device: state,
        "set_rng_state": lambda *device: None,
        "device": Device,
        "_DeviceGuard": Device,
    }
    of_interface = {
        "is_available": staticmethod(lambda: True),
        "current_device": staticmethod(lambda: 0),
        "get_compute_capability": staticmethod(lambda *device: 90),
        "get_device_properties": staticmethod(lambda *device: PROPERTIES),
        "device": Device,
    }
    of_worker = {"get_device_properties": staticmethod(lambda *device: PROPERTIES)}
    of_driver = {"_cuda_getCurrentRawStream": lambda *device: 0}
    drivers = type(import_module("triton.runtime").driver)
    faked = (
        (torch.cuda, of_module),
        (interface, of_interface),
        (interface.Worker, of_worker),
        (torch._C, of_driver),
        (drivers, {"active": property(lambda drivers: Driver())}),
    )
    with ExitStack() as stack:
        for where, names in faked:
            for name, value in names.items():
                stack.enter_context(mock.patch.object(where, name, value, create=True))
        stack.enter_context(tensors())
        yield


@pytest.fixture
def faked_gpu():
    """What to enter to have the GPU there."""
    return _faked_gpu

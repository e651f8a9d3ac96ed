"""The interface of a model: it predicts the time of (gpu, kernel, launch) and has a description.

Models are closed forms or simulations; `differentiable` is the only distinction. Any object with these
attributes is a model; functions that accept models also accept names of the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dse.errors import DseError

if TYPE_CHECKING:
    from jaxtyping import Array

    from dse.models.about import About
    from dse.types import Gpu, Kernel, Launch, Prediction

CHUNK = 65_536  # configurations at a time: larger ones exceed the cache


@runtime_checkable
class Model(Protocol):
    """A performance model. It must be hashable: compiled functions are cached by model."""

    @property
    def name(self) -> str:
        """The name shown in results."""
        ...

    @property
    def about(self) -> About:
        """The description: aspects taken into account, source, and when to use it."""
        ...

    @property
    def differentiable(self) -> bool:
        """Whether `predict` is pure JAX: vectorised, traced by `jit`, differentiated by `grad`.

        Otherwise it runs on the host, for one GPU and [N] possible launches, and has an additional argument
        `advance`, a callback for the number of launches done.
        """
        ...

    @property
    def batch(self) -> int:
        """Configurations per batch of long work."""
        ...

    @property
    def predict(self) -> Callable[..., Prediction]:
        """The function `predict(gpu, kernel, launch)`, whose fields broadcast; see `differentiable`."""
        ...


def predict(model: Model, gpu: Gpu, kernel: Kernel, launch: Launch, *advance: Callable) -> Prediction:
    """Predict with a model and add the GPU's `launch_overhead` to the seconds; cycles are without it."""
    own = model.predict(gpu, kernel, launch, *advance)
    return replace(own, seconds=own.seconds + gpu.launch_overhead)


def arranged(model: Model, kernel: Kernel) -> Kernel:
    """Return a kernel, of NumPy arrays of one shape, as a model traces it fastest."""
    own = getattr(model.module, "arranged", None) if isinstance(model, ClosedForm) else None
    return kernel if own is None else own(kernel)


def seconds(model: Model, gpu: Gpu, kernel: Kernel, launch: Launch) -> Array:
    """Predict seconds of [N] launches as `predict`, within `jit`, differentiable by the GPU's fields.

    **Raises:** DseError for a model that is not differentiable and has no method `seconds`.
    """
    if model.differentiable:
        return predict(model, gpu, kernel, launch).seconds
    own = getattr(model, "seconds", None)
    if own is None:
        raise DseError(f"model: found {model.name}, expected one that JAX differentiates, or with `seconds`")
    return own(gpu, kernel, launch) + gpu.launch_overhead


@dataclass(frozen=True)
class ClosedForm:
    """A closed form of this package: a module with `predict`, imported on first use."""

    name: str
    path: str = ""  # of the module; "" for the module of that name

    differentiable = True
    batch = CHUNK

    @property
    def module(self) -> ModuleType:
        """The module with its equations."""
        return import_module(self.path or f"dse.models.{self.name.replace('-', '_')}")

    @property
    def about(self) -> About:
        """The module's description."""
        return self.module.ABOUT

    @property
    def predict(self) -> Callable[..., Prediction]:
        """The module's `predict(gpu, kernel, launch)`."""
        return self.module.predict

"""The interface of a model: it turns (gpu, kernel, launch) into a prediction, and describes itself.

Closed forms and what is simulated are the two kinds, told apart by `differentiable` alone. Any object that
has these attributes is a model; functions that take models take names of the registry as well.
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

CHUNK = 65_536  # configurations at a time: larger ones leave the cache


@runtime_checkable
class Model(Protocol):
    """A performance model. It has to be hashable: compiled functions are kept by it."""

    @property
    def name(self) -> str:
        """The name under which results show it."""
        ...

    @property
    def about(self) -> About:
        """The description: the aspects it takes into account, its source, and when to use it."""
        ...

    @property
    def differentiable(self) -> bool:
        """Whether `predict` is JAX throughout: vectorised, traced by `jit`, differentiated by `grad`.

        Else it runs on the host, on one GPU and [N] launches that can run, and takes `advance` besides, which
        it tells how many launches are done.
        """
        ...

    @property
    def batch(self) -> int:
        """Configurations in one part of long work."""
        ...

    @property
    def predict(self) -> Callable[..., Prediction]:
        """The function `predict(gpu, kernel, launch)`, whose fields broadcast; see `differentiable`."""
        ...


def predict(model: Model, gpu: Gpu, kernel: Kernel, launch: Launch, *advance: Callable) -> Prediction:
    """Predict by a model, with the GPU's `launch_overhead` in the seconds: cycles are those of blocks."""
    own = model.predict(gpu, kernel, launch, *advance)
    return replace(own, seconds=own.seconds + gpu.launch_overhead)


def seconds(model: Model, gpu: Gpu, kernel: Kernel, launch: Launch) -> Array:
    """Predict seconds of [N] launches inside `jit`, with derivatives by the GPU's numbers, as `predict`.

    **Raises:** DseError for a model that is not differentiable and has no `seconds` of its own.
    """
    if model.differentiable:
        return predict(model, gpu, kernel, launch).seconds
    own = getattr(model, "seconds", None)
    if own is None:
        raise DseError(f"model: found {model.name}, expected one that JAX differentiates, or with `seconds`")
    return own(gpu, kernel, launch) + gpu.launch_overhead


@dataclass(frozen=True)
class ClosedForm:
    """A closed form of this package: a module with `predict`, imported when it is first needed."""

    name: str
    path: str = ""  # of the module; "" for the one of that name

    differentiable = True
    batch = CHUNK

    @property
    def module(self) -> ModuleType:
        """The module that has its equations."""
        return import_module(self.path or f"dse.models.{self.name.replace('-', '_')}")

    @property
    def about(self) -> About:
        """The description that the module declares."""
        return self.module.ABOUT

    @property
    def predict(self) -> Callable[..., Prediction]:
        """The module's `predict(gpu, kernel, launch)`."""
        return self.module.predict

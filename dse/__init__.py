"""Explore the launch configurations of GPU kernels: models predict which are fast, without a GPU.

A configuration becomes a kernel and a launch on a GPU, and a model predicts its cycles. Rank, sweep, search,
tune, prune and fit work on millions of such predictions. Importing `dse` is cheap: the names below are loaded
on first use.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers know the name; importing `typing` would double the import time
if TYPE_CHECKING:
    from dse import models
    from dse.api import (
        characterise,
        compare,
        fit,
        gpu,
        kernel,
        predict,
        prune,
        rank,
        search,
        simulate,
        sweep,
        tune,
    )
    from dse.core.jax_cache import cache
    from dse.core.version import __version__

__all__ = [
    "__version__",
    "cache",
    "characterise",
    "compare",
    "fit",
    "gpu",
    "kernel",
    "models",
    "predict",
    "prune",
    "rank",
    "search",
    "simulate",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> object:
    if name == "models":
        return import_module("dse.models")
    if name == "__version__":
        return import_module("dse.core.version").__version__
    if name == "cache":
        return import_module("dse.core.jax_cache").cache
    if name in __all__:
        return getattr(import_module("dse.api"), name)
    raise AttributeError(f"module 'dse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

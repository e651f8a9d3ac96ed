"""Explore the launch configurations of GPU kernels: which are fast, by model, without a GPU.

A configuration becomes a kernel and a launch on a GPU, a model turns that into cycles, and the rest (rank,
sweep, search, tune, prune, fit) is what one does with millions of those. Importing `dse` itself loads nothing
heavy: the names below are loaded when they are first used.
"""

from importlib import import_module

TYPE_CHECKING = False  # as checkers know it: `typing` would be half of what the import takes
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

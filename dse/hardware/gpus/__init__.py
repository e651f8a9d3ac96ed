"""GPU files: one TOML a GPU, each value with its unit and source; reading, validation and writing.

Listing and finding GPUs imports no JAX; the other names do, on first use, since a GPU is a pytree.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dse.hardware.gpus.table import find, known, names

if TYPE_CHECKING:
    from dse.hardware.gpus.read import in_name, load
    from dse.hardware.gpus.tree import GpuFile, column, stack

__all__ = ["GpuFile", "column", "find", "in_name", "known", "load", "names", "stack"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'read' if name in ('in_name', 'load') else 'tree'}"), name)

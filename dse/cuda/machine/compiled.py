"""Compiles loops, and keeps what that gives on disk if it can be written there."""

import inspect
from typing import Any

from numba import njit


def compiled(function: Any) -> Any:
    """Compile a function of numbers and arrays when it is first called."""
    function = inspect.unwrap(function)  # without checks of types that tests wrap around it
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # no folder to keep it in
        return njit(function)

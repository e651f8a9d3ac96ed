"""Functions that Numba compiles: what they promise it, and where their machine code is kept.

Numba keeps machine code beside the function that was compiled, and takes it anew when that function's file has
changed, though not when another has whose functions are part of it. So the folder here is named after all
sources of the engine. Where no folder can be written, each process compiles for itself.
"""

import functools
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.extending import intrinsic

from dse.files import cache_folder

F = TypeVar("F", bound=Callable[..., Any])

# Indices are in range, and no divisor is zero: neither is looked at.
PROMISES = {"boundscheck": False, "error_model": "numpy", "_nrt": False}


def inlined(function: F) -> F:
    """Make a function part of those that call it, so that arguments which are constants there leave no trace."""
    return cast(
        F,
        numba.njit(
            inspect.unwrap(function),
            forceinline=True,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
            **PROMISES,
        ),
    )


def compiled(function: F) -> F:
    """Compile a function for the types it is called with, once for all processes; it holds no interpreter lock."""
    function = inspect.unwrap(function)  # without the checks of argument types that tests put around it
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_folder())
    try:
        return cast(F, numba.njit(function, cache=True, nogil=True, **PROMISES))
    except RuntimeError:  # no folder to write to
        return cast(F, numba.njit(function, nogil=True, **PROMISES))
    finally:
        numba.config.CACHE_DIR = before


def in_llvm(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one that writes its LLVM instructions: `numba.extending.intrinsic`, with a type."""
    return cast(Callable[..., Any], intrinsic(inspect.unwrap(function)))


@functools.cache
def _folder() -> Path:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    text = b"".join(path.read_bytes() for path in sources)
    return cache_folder() / "simulator" / hashlib.sha256(text).hexdigest()[:16]

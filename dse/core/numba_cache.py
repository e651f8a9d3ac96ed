"""Functions that Numba compiles: what they promise it, and where their machine code is kept.

Numba keeps machine code beside the function that was compiled, and compiles again when that function's file
has changed, but not when another has whose functions are part of it. So the folder here is named after all
sources of the function's room. Where no folder can be written to, each process compiles for itself.
"""

import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.config
from numba.extending import intrinsic

from dse.core.files import cache_folder, own_folder
from dse.errors import DseError

_njit, _config = cast(Any, numba.njit), cast(Any, numba.core.config)  # which have few types
F = TypeVar("F", bound=Callable[..., Any])

# Indices are in range, and no divisor is zero: neither is looked at. Nor are references to arrays counted,
# which took nine tenths of the simulator's time: so its functions are given all arrays, and make none.
PROMISES: dict[str, Any] = {"boundscheck": False, "error_model": "numpy", "_nrt": False}


def inlined(function: F) -> F:
    """Make a function part of its callers: arguments that are constants there leave no trace."""
    options = PROMISES | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, _njit(inspect.unwrap(function), **options))


def compiled(function: F, *, makes_arrays: bool = False) -> F:
    """Compile a function for the types it is called with, once for all processes; it runs beside others."""
    function = inspect.unwrap(function)  # without the checks of argument types that tests put around it
    options = PROMISES | {"_nrt": makes_arrays, "nogil": True}
    folder = _folder(Path(inspect.getfile(function)).parent)
    if folder is None:
        return cast(F, _njit(function, **options))
    before, _config.CACHE_DIR = _config.CACHE_DIR, str(folder)
    try:
        made = _njit(function, cache=True, **options)
    finally:
        _config.CACHE_DIR = before
    if files := getattr(made, "_cache", None):  # NUMBA_DISABLE_JIT leaves the function as it is
        files._guard_against_spurious_io_errors = functools.partial(_spared, files)
    return cast(F, made)


@contextmanager
def _spared(files: Any) -> Iterator[None]:
    """Compile for this process alone where the cache is damaged or cannot be written: Numba would raise."""
    try:
        yield
    except Exception:  # pickles raise what they like
        with suppress(Exception):
            files.flush()


def in_llvm(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one that writes its LLVM instructions: `numba.extending.intrinsic`, with a type."""
    return cast(Callable[..., Any], intrinsic(inspect.unwrap(function)))


@functools.cache
def _folder(room: Path) -> Path | None:
    """Return the folder of a room's machine code, None if there can be none that is ours alone."""
    sources = [*sorted(room.glob("*.py")), Path(__file__)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    folder = cache_folder() / "loops" / digest[:16]
    try:
        own_folder(cache_folder())
        own_folder(folder)  # its contents are executed
    except (OSError, DseError):
        return None
    return folder if os.access(folder, os.W_OK) else None

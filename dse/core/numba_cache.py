"""Numba compilation: common options, and a persistent cache of machine code.

Numba recompiles a function when its own file changes, but not when the file of an inlined function does. So
the cache folder here is named after a hash of all sources of the function's package. Without a writable
folder, each process compiles for itself.
"""

import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numba.core.config
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

from dse.core.files import cache_folder, locked, open_own, own_folder
from dse.errors import DseError

_njit, _config = cast(Any, numba.njit), cast(Any, numba.core.config)  # barely typed
F = TypeVar("F", bound=Callable[..., Any])

# No checks of indices or zero divisors. No reference counts either, which took 90 % of the simulator's time:
# so functions take all arrays as arguments and allocate none.
OPTIONS: dict[str, Any] = {"boundscheck": False, "error_model": "numpy", "_nrt": False}


def inlined(function: F) -> F:
    """Inline a function into its callers, where constant arguments are folded."""
    options = OPTIONS | {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, _njit(inspect.unwrap(function), **options))


def compiled(function: F, *, makes_arrays: bool = False) -> F:
    """Compile a function without the GIL for the types it is called with, cached for all processes."""
    function = inspect.unwrap(function)  # without the type checks that tests add
    options = OPTIONS | {"_nrt": makes_arrays, "nogil": True, "no_cfunc_wrapper": True}
    folder = _folder(Path(inspect.getfile(function)).parent)
    if folder is None:
        return cast(F, _njit(function, **options))
    before, _config.CACHE_DIR = _config.CACHE_DIR, str(folder)
    try:
        dispatcher = _njit(function, cache=True, **options)
    finally:
        _config.CACHE_DIR = before
    if files := getattr(dispatcher, "_cache", None):  # NUMBA_DISABLE_JIT returns the plain function
        files._guard_against_spurious_io_errors = functools.partial(_ignore_errors, files)
        lock = folder / f"{function.__module__}.{function.__name__}.lock"
        dispatcher.compile = functools.partial(_compile_once, dispatcher.compile, lock)
    return cast(F, dispatcher)


def _compile_once(compile: Callable[[Any], Any], lock: Path, signature: Any) -> Any:
    """Compile, or wait for another process that does and take its code: the loops take tens of seconds."""
    with ExitStack() as until_kept:
        until_kept.enter_context(global_compiler_lock)  # always first: threads take both in one order
        with suppress(DseError):
            locked(until_kept.enter_context(open_own(lock)), wait=True)
        return compile(signature)


@contextmanager
def _ignore_errors(files: Any) -> Iterator[None]:
    """Compile without the cache if it is damaged or not writable, where Numba would raise."""
    try:
        yield
    except Exception:  # unpickling can raise anything
        with suppress(Exception):
            files.flush()


def in_llvm(function: Callable[..., Any]) -> Callable[..., Any]:
    """A typed `numba.extending.intrinsic`: the function emits its own LLVM instructions."""
    return cast(Callable[..., Any], intrinsic(inspect.unwrap(function)))


@functools.cache
def _folder(package: Path) -> Path | None:
    """Return the cache folder of a package, or None if no private one can be created."""
    sources = [*sorted(package.glob("*.py")), Path(__file__)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    folder = cache_folder() / "loops" / digest[:16]
    try:
        own_folder(cache_folder())
        own_folder(folder)  # its contents are executed
    except (OSError, DseError):
        return None
    return folder if os.access(folder, os.W_OK) else None

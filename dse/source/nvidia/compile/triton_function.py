"""Finds a Triton kernel in a Python file, and what its decorators say.

A file is imported once in a process, under the name that it has for Python, its folder being searched for
what it imports. Nothing is launched, so no GPU is asked for.
"""

import importlib.util
import inspect
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from dse.core.optional import install, needs
from dse.errors import DseError


@dataclass(frozen=True)
class Function:
    """A kernel, and what its decorators say of it."""

    jit: Any  # triton.JITFunction
    configs: tuple[Any, ...] = ()  # of `triton.autotune`
    prune: Callable[..., Sequence[Any]] | None = None  # its early_config_prune
    heuristics: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.jit.__name__

    @property
    def path(self) -> Path:
        """The file that it stands in."""
        return Path(inspect.getsourcefile(self.jit.fn) or self.jit.fn.__code__.co_filename)

    @property
    def constexprs(self) -> dict[str, Any]:
        """The parameters that are constants, and their defaults; `inspect.Parameter.empty` without one."""
        return {parameter.name: parameter.default for parameter in self.jit.params if parameter.is_constexpr}

    @property
    def arguments(self) -> list[Any]:
        """The other parameters, as Triton has them."""
        return [parameter for parameter in self.jit.params if not parameter.is_constexpr]


def triton() -> ModuleType:
    """Import Triton. **Raises:** DseError that says what to install if it is missing."""
    with needs("triton", install("triton")):
        return import_module("triton")


def functions(path: Path) -> dict[str, Function]:
    """List the kernels that a file defines, by name.

    **Raises:** DseError if it cannot be imported, or Triton is missing.
    """
    jit = triton().runtime.jit.JITFunction
    found = {name: unwrapped(value) for name, value in vars(_module(path)).items() if _is_kernel(value, jit)}
    here = path.resolve()
    return {name: one for name, one in found.items() if one.path.resolve() == here}


def function(path: Path, name: str = "") -> Function:
    """Find a kernel of a file by its name; the only one if there is none.

    **Raises:** DseError as `functions`, if there is no such kernel, or several and none is named.
    """
    if (given := _given.get((str(path.resolve()), name))) is not None:
        return given
    found = functions(path)
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        stated = f"no {name}" if name else "several" if found else "none"
        expected = f"one of {', '.join(found)}" if found else "a function with @triton.jit"
        raise DseError(f"{path}: kernel: found {stated}, expected {expected}")
    return found[name]


def unwrapped(kernel: Any) -> Function:
    """Take the decorators off a kernel. **Raises:** DseError if it is none."""
    jit = triton().runtime.jit.JITFunction
    configs: Sequence[Any] = ()
    prune, heuristics = None, {}
    while not isinstance(kernel, jit):
        configs = getattr(kernel, "configs", configs)
        prune = getattr(kernel, "early_config_prune", prune)
        heuristics |= getattr(kernel, "values", {})
        if not hasattr(kernel, "fn"):
            raise DseError(f"kernel: found {kernel!r}, expected a function with @triton.jit")
        kernel = kernel.fn
    return Function(kernel, tuple(configs), prune, heuristics)


def remember(given: Function) -> None:
    """Let `function` find a kernel that this process has already, so that its file is not imported anew."""
    _given[str(given.path.resolve()), given.name] = given


_given: dict[tuple[str, str], Function] = {}


def _is_kernel(value: Any, jit: type) -> bool:
    while not isinstance(value, jit) and hasattr(value, "fn") and hasattr(value, "arg_names"):
        value = value.fn
    return isinstance(value, jit)


@cache
def _module(path: Path) -> ModuleType:
    path = path.resolve()
    for name in ("__mp_main__", "__main__"):  # a process that was started has the user's script already
        loaded = sys.modules.get(name)
        file = getattr(loaded, "__file__", None)
        if loaded is not None and file and Path(file).resolve() == path and _finished(name):
            return loaded
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        root, parts = root.parent, [root.name, *parts]
    sys.path.insert(0, str(root))
    try:
        if len(parts) > 1:
            return import_module(".".join(parts))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise DseError(f"{path}: import: found no Python file, expected one")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except DseError:
        raise
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split()) or "no reason given"
        raise DseError(f"{path}: import: {type(error).__name__}: {reason}") from None
    finally:
        sys.path.remove(str(root))
    return module


def _finished(name: str) -> bool:
    return name == "__main__" or multiprocessing.parent_process() is not None

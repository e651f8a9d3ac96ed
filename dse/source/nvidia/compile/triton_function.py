"""Find a Triton kernel in a Python file, with its decorators.

Of the file, and of other modules of its package, only what the kernel needs is evaluated (`module_slice`).
Nothing is launched, so no GPU is needed.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from dse.core.optional import install, needs
from dse.errors import DseError
from dse.source.nvidia.compile.absent import Absent, Platform, asked_of, no_driver, noted
from dse.source.nvidia.compile.module_slice import Module, dotted, jit_of, stamp
from dse.source.nvidia.compile.statements import calls, says_jit

NVIDIA = Platform()


@dataclass(frozen=True)
class Function:
    """A kernel, with the contents of its decorators."""

    jit: Any  # triton.JITFunction
    configs: tuple[Any, ...] = ()  # of `triton.autotune`
    prune: Callable[..., Sequence[Any]] | None = None  # its early_config_prune
    heuristics: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)
    signature: tuple[str, ...] = ()  # types and numbers as NAME=TYPE, where a decorator states them
    notes: tuple[str, ...] = ()  # parts of its module that could not be evaluated

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.jit.__name__

    @property
    def path(self) -> Path:
        """The function's file."""
        return Path(inspect.getsourcefile(self.jit.fn) or self.jit.fn.__code__.co_filename)

    @property
    def constexprs(self) -> dict[str, Any]:
        """The constant parameters with their defaults; `inspect.Parameter.empty` without one."""
        return {parameter.name: parameter.default for parameter in self.jit.params if parameter.is_constexpr}

    @property
    def arguments(self) -> list[Any]:
        """The other parameters, as Triton's objects."""
        return [parameter for parameter in self.jit.params if not parameter.is_constexpr]


def triton() -> ModuleType:
    """Import Triton. **Raises:** DseError that says what to install if it is missing or too old."""
    with needs("triton", install("triton")):
        module = import_module("triton")
    if int(module.__version__.partition(".")[0]) < 3:
        raise DseError(f"triton: found version {module.__version__}, expected 3.0 or newer")
    return module


def names_in(path: Path) -> list[str]:
    """List the kernels that a file's text defines: Triton's functions that no other calls, or all of them."""
    read = module(path)
    jit = [leaf for leaf in read.leaves if says_jit(leaf.node)]
    names = dict.fromkeys(name for leaf in jit for name in sorted(leaf.binds))
    called = {name for leaf in jit for name in calls(leaf.node) - leaf.binds}
    return [*(name for name in names if name not in called), *read.inside] or list(names)


def function(path: Path, name: str = "", platform: Platform = NVIDIA) -> Function:
    """Find a kernel of a file by its name, as it is on a platform; the only one if there is no name.

    **Raises:** DseError if the file cannot be read, if there is no such kernel, or several and none is named;
    or if Triton is missing.
    """
    if (remembered := _given.get((str(path.resolve()), name))) is not None:
        return remembered
    with no_driver(triton().runtime), asked_of(platform):
        there = names_in(path)
        if not name and len(there) == 1:
            [name] = there
        read = module(path, platform)
        noted.clear()
        try:
            jitted = read.get(name)
        except AttributeError:
            jitted = None
        read.notes |= noted
    if jit_of(jitted) is None:
        stated = f"no {name}" if name else "several" if there else "none"
        if jitted is not None:
            stated = repr(jitted) if isinstance(jitted, Absent) else f"{name}, which is not Triton's"
        expected = f"one of {', '.join(there)}" if there else "a function with @triton.jit"
        raise DseError(f"{path}: kernel: found {stated}, expected {expected}")
    return replace(unwrapped(jitted), notes=tuple(read.notes))


def unwrapped(kernel: Any) -> Function:
    """Remove the decorators of a kernel. **Raises:** DseError if it is none, or its `configs` are none."""
    if isinstance(kernel, Function):
        return kernel
    jit = jit_of(kernel)
    if jit is None:
        raise DseError(f"kernel: found {kernel!r}, expected a function with @triton.jit")
    configs: Sequence[Any] = ()
    prune, heuristics, signature = None, {}, {}
    while kernel is not jit:
        configs = getattr(kernel, "configs", configs)
        prune = getattr(kernel, "early_config_prune", prune)
        heuristics |= getattr(kernel, "values", {})
        signature |= getattr(kernel, "parameter_types", {})
        kernel = kernel.fn
    listed = configs if isinstance(configs, list | tuple) else [configs]
    for config in listed:
        if not isinstance(getattr(config, "kwargs", None), dict):
            raise DseError(f"triton.autotune: configs: found {config!r}, expected a list of triton.Config")
    names = [parameter.name for parameter in jit.params]
    for at in signature:
        if isinstance(at, int) and not 0 <= at < len(names):
            problem = f"found a type of parameter {at}, expected 0 to {len(names) - 1}"
            raise DseError(f"triton_heuristics: signature: {problem}")
    kinds = {names[name] if isinstance(name, int) else name: kind for name, kind in signature.items()}
    stated = tuple(f"{name}={kind}" for name, kind in kinds.items() if kind != "constexpr")
    return Function(kernel, tuple(listed), prune, heuristics, stated)


def remember(kernel: Function) -> None:
    """Let `function` return a kernel that this process has already, without importing its file again."""
    _given[str(kernel.path.resolve()), kernel.name] = kernel


_given: dict[tuple[str, str], Function] = {}


def module(path: Path, platform: Platform = NVIDIA) -> Module:
    """Read a module for a platform, or return the one read before if none of its files has changed."""
    path = path.resolve()
    read = _read.get((path, platform))
    if read is None or any(stamp(file) != imported.stamp for file, imported in read.modules.items()):
        read = _read[path, platform] = Module(path, dotted(path), {})
    return read


_read: dict[tuple[Path, Platform], Module] = {}

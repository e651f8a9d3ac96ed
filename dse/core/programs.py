"""Jitted functions whose compiled programs are kept on disk, for processes that then trace nothing.

JAX's own cache finds a program by its lowered text, and to get there takes longer than most commands compute.
Here it is found by what that text depends on: the sources of this package, JAX's version and settings, and
the arguments except the values of arrays. Programs are kept in the commands' folder of JAX's cache, and
only in processes that use it, on the CPU.
"""

import hashlib
import os
import pickle
import sys
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import jaxlib.version
import numpy as np
from jax.core import Tracer

from dse.core.files import replacing
from dse.core.jax_cache import commands_folder

_config = cast(Any, jax.config)  # barely typed
F = TypeVar("F", bound=Callable[..., Any])


class _Program(NamedTuple):
    run: Callable[..., Sequence[Any]]
    results: Any  # a pytree of the places of arrays among what `run` returns

    def __call__(self, arrays: Sequence[Any]) -> Any:
        made = self.run(*arrays)
        return jax.tree.map(lambda place: made[place], self.results)


def kept(function: F) -> F:
    """Jit a function whose arguments and results are pytrees, as `equinox.filter_jit`; results are arrays."""
    jitted, programs = eqx.filter_jit(function), dict[Any, _Program | None]()

    @wraps(function)
    def call(*arguments: Any) -> Any:
        folder, leaves = _folder(), jax.tree.leaves(arguments)
        arrays = [leaf for leaf in leaves if eqx.is_array(leaf)]
        if folder is None or any(isinstance(array, Tracer) for array in arrays):
            return jitted(*arguments)
        kinds = tuple(map(_kind, leaves))
        key = jax.tree.structure(arguments), kinds, _config.jax_enable_x64, folder
        if key not in programs:
            programs[key] = _program(function, arguments, folder, repr(key))
        program = programs[key]
        return jitted(*arguments) if program is None else program(arrays)

    return cast(F, call)


def _kind(leaf: Any) -> tuple[Any, ...]:
    """Return what a program depends on: not the values of an array, but 1 is neither True nor 1.0."""
    if eqx.is_array(leaf):
        return leaf.shape, str(leaf.dtype), getattr(leaf, "weak_type", False)
    return type(leaf).__name__, leaf


def _program(function: Callable[..., Any], arguments: Any, folder: Path, text: str) -> _Program | None:
    """Load or compile a program, and keep it; None if no text says all that it depends on."""
    if not all(map(_plain, jax.tree.leaves(arguments))) or " at 0x" in text or "array(" in text:
        return None
    whole = f"{function.__module__} {function.__qualname__} {text} {_settings()} {_sources()}"
    name = f"{function.__name__.lstrip('_')}-{hashlib.sha256(whole.encode()).hexdigest()}"
    with suppress(Exception):  # missing or damaged; unpickling can raise anything
        return _loaded((folder / name).read_bytes())
    lowered, results = _lowered(function, arguments, name)
    if "custom_call" in lowered.as_text():  # to a library that only lowering loads
        return None
    executable = lowered.compile()
    with suppress(Exception):  # no space left, or a program that JAX cannot serialize
        from jax.experimental.serialize_executable import serialize

        content = zlib.compress(pickle.dumps((serialize(executable), results)), 1)
        # One that comes from JAX's cache, where no file has been found here, has no code any more.
        jax.block_until_ready(_loaded(content)(list(filter(eqx.is_array, jax.tree.leaves(arguments)))))
        folder.mkdir(exist_ok=True)
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content)
    return _Program(executable, results)


def _loaded(content: bytes) -> _Program:
    from jax.experimental.serialize_executable import deserialize_and_load

    executable, results = pickle.loads(zlib.decompress(content))
    return _Program(deserialize_and_load(*executable), results)


def _plain(leaf: Any) -> bool:
    """Whether an argument is an array, or its text and the sources say all about it."""
    if is_dataclass(leaf) and type(leaf).__module__.startswith("dse."):
        return all(_plain(getattr(leaf, field.name)) for field in fields(leaf))
    return eqx.is_array(leaf) or isinstance(leaf, (bool, int, float, str))


def _lowered(function: Callable[..., Any], arguments: Any, name: str) -> tuple[Any, Any]:
    """Lower a function to one of flat arrays; return the places of its results too."""
    arrays, static = eqx.partition(arguments, eqx.is_array)
    leaves, tree = jax.tree.flatten(arrays)
    results = []

    def of_arrays(*leaves: Any) -> list[Any]:
        made = function(*eqx.combine(jax.tree.unflatten(tree, leaves), static))
        values, structure = jax.tree.flatten(made)
        results.append(jax.tree.unflatten(structure, range(len(values))))
        return values

    of_arrays.__name__ = name
    return jax.jit(of_arrays).lower(*leaves), results[0]


@cache
def _sources() -> str:
    """Return a digest of this package, and what else decides on programs in all of a process."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    versions = sys.version, jax.__version__, jaxlib.version.__version__, eqx.__version__, np.__version__
    return f"{digest.hexdigest()} {versions} {os.environ.get('XLA_FLAGS')}"


def _settings() -> str:
    values = sorted(_config.values.items())
    return repr([(name, getattr(_config, name, value)) for name, value in values])


def _folder() -> Path | None:
    """Return the folder of programs, or None if none are kept."""
    used = _config.jax_compilation_cache_dir
    keeps = used and _config.jax_enable_compilation_cache and not _config.jax_disable_jit
    return _within(used) if keeps else None


@cache
def _within(used: str) -> Path | None:
    ours = used == str(commands_folder()) and jax.default_backend() == "cpu"
    return Path(used) / "programs" if ours else None

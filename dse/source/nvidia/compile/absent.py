"""Placeholders for missing packages and GPUs: conditions on them are false, and are recorded.

Of PyTorch, what the kernels of Inductor need is known: the functions that they call, and their decorators.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import RLock
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import ml_dtypes
from packaging.version import Version


class Platform(NamedTuple):
    """The machine that a kernel asks about, as PyTorch and Triton name it."""

    backend: str = "cuda"  # or "hip"
    warp_size: int = 32

    @property
    def answers(self) -> dict[str, Any]:
        """What its queries answer."""
        amd = {"torch.version.hip": "7.0.0", "torch.version.cuda": None}
        target = {f"driver.get_current_target().{name}": value for name, value in self._asdict().items()}
        return _KNOWN | target | (amd if self.backend == "hip" else {"torch.version.hip": None})


# Properties of every machine that a kernel is read for; all others are absent.
_KNOWN = {
    "torch.version.xpu": None,
    "torch.__version__": "2.9.0",  # which came with Triton 3.5
    "torch.cuda.is_available()": True,
    "torch.cuda.device_count()": 1,
    "driver.get_current_device()": 0,
}
_ANSWERS = ContextVar("answers", default=Platform().answers)
_LIMITS = {"torch.finfo": (ml_dtypes.finfo, float), "torch.iinfo": (ml_dtypes.iinfo, int)}
_TYPES = {"half": "float16", "float": "float32", "double": "float64"}
_TYPES |= {"short": "int16", "int": "int32", "long": "int64"}
_HELPERS = tuple(
    f"torch._inductor.{name}"
    for name in ("runtime.triton_helpers", "runtime.triton_compat", "triton_helpers")  # the last until 2024
)
_OPTIONS = ("num_warps", "num_stages", "num_ctas")
_VERSIONS = ("Version", "LooseVersion", "parse_version")  # of a text: packages have them from one another
_DRIVER = RLock()  # Triton has one for all threads
noted: dict[str, None] = {}  # conditions that were false by absence, in order


class Absent:
    """A missing object, or a part of it, by its name in the module.

    Operations on it return another one. In conditions it is false, equal to nothing and without elements,
    which is recorded. Functions that it decorates are unchanged.
    """

    __triton_builtin__ = True  # so that kernels may name it

    def __init__(self, name: str, reason: str = "") -> None:
        self._name, self._reason = name, reason

    def __repr__(self) -> str:
        return f"{self._name}, which is not there{self._reason and f' ({self._reason})'}"

    @property
    def cache_key(self) -> str:
        """What Triton keeps code by, of a constant."""
        return repr(self)

    def _part(self, part: str) -> Any:
        name = self._name + part
        if name in _HELPERS:
            return _helpers()
        known = _ANSWERS.get()
        return known[name] if name in known else Absent(name, self._reason)

    def _no(self) -> bool:
        noted[f"{self!r}, counts as false"] = None
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(f"{self!r}: {name}")
        return self._part(f".{name}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 1 and not named and _decorated(arguments[0]):
            return arguments[0]
        if ".triton_heuristics." in self._name and not arguments:
            return Heuristic(named)
        if self._name.rpartition(".")[2] in _VERSIONS and [*map(type, arguments)] == [str]:
            return Version(arguments[0])
        if self._name in _LIMITS and len(arguments) == 1 and isinstance(arguments[0], Absent):
            return _limits(self._name, arguments[0]._name) or self._part("()")
        return self._part("()")

    def __getitem__(self, key: Any) -> Any:
        return self._part("[...]")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, value: Any) -> bool:
        return self._name.endswith("Tensor") and hasattr(value, "dtype")

    def __bool__(self) -> bool:
        return self._no()

    def __contains__(self, value: Any) -> bool:
        return self._no()

    def __iter__(self) -> Iterator[Any]:
        self._no()
        return iter(())

    def __len__(self) -> int:
        return int(self._no())

    __index__ = __len__

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, bool | int | float | str | tuple) and self._no())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(self)

    def _compared(self, other: Any) -> bool:
        return self._no()

    def _computed(self, *others: Any) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Absent:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _computed
    __or__ = __ror__ = __and__ = __rand__ = __invert__ = _computed
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _computed


def _limits(of: str, dtype: str) -> SimpleNamespace | None:
    """Return the limits of a type of PyTorch by its name, as plain numbers; None if there is no such type."""
    limits, number = _LIMITS[of]
    name = dtype.removeprefix("torch.")
    try:
        info = limits(_TYPES.get(name, name))
    except (TypeError, ValueError):
        return None
    named = {key: number(getattr(info, key)) for key in ("min", "max", "eps", "tiny") if hasattr(info, key)}
    return SimpleNamespace(bits=int(info.bits), **named)


class Heuristic:
    """A decorator of Inductor's kernels: types and numbers of parameters, and configurations, if stated."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        meta = named.get("triton_meta", named.get("meta"))  # its name until 2023
        numbers = {name: _number(value) for name, value in meta.get("constants", {}).items()} if meta else {}
        self.parameter_types = {**meta.get("signature", {}), **numbers} if meta else {}
        options = {name: named[name] for name in _OPTIONS if name in named}
        self.configs = [_config(listed) for listed in named.get("configs", [options] if options else [])]

    def __call__(self, kernel: Any) -> Heuristic:
        self.fn = kernel
        return self


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def _config(listed: Mapping[str, Any]) -> Any:
    """A configuration of a list, as Triton's."""
    options = {name: value for name, value in listed.items() if name in _OPTIONS}
    constants = {name: value for name, value in listed.items() if name not in _OPTIONS}
    return import_module("triton").Config(constants, **options)


def _decorated(value: Any) -> bool:
    """Whether a value is what decorators take: a function, also a kernel, or a class."""
    of = (value, getattr(value, "fn", None))
    return isinstance(value, type) or any(hasattr(function, "__code__") for function in of)


@cache
def _helpers() -> ModuleType:
    """Return the functions that Inductor's kernels call; Triton reads the file, past hooks of imports."""
    loader = SourceFileLoader("triton_helpers", str(Path(__file__).with_name("inductor_helpers.py")))
    module = ModuleType(loader.name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def stand_in(name: str) -> ModuleType:
    """Return a placeholder for a missing module."""
    if name in _HELPERS:
        return _helpers()
    module = ModuleType(name)
    vars(module)["__getattr__"] = Absent(name).__getattr__
    return module


@contextmanager
def asked_of(platform: Platform) -> Iterator[None]:
    """Answer queries about the machine in this block as on a platform."""
    before = _ANSWERS.set(platform.answers)
    try:
        yield
    finally:
        _ANSWERS.reset(before)


@contextmanager
def no_driver(runtime: Any) -> Iterator[None]:
    """Replace Triton's driver in this block by what is known of the platform; for one thread at a time."""
    attribute = "_active" if hasattr(runtime.driver, "_active") else "active"  # until Triton 3.3
    with _DRIVER:
        kept = getattr(runtime.driver, attribute)
        runtime.driver.set_active(Absent("driver"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            setattr(runtime.driver, attribute, kept)

"""The interface of kernel sources for all compilers, and the results of compilation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

STOPPED: Literal["compiler stopped"] = "compiler stopped"  # a reason: it met a limit, or crashed
Settings = tuple[tuple[str, Any], ...]  # by name; equal settings give the same code


class Source(Protocol):
    """A kernel that can be compiled, one configuration at a time. Picklable, for other processes."""

    @property
    def path(self) -> str:
        """The file, for messages."""
        ...

    @property
    def text(self) -> str:
        """The text of the file, if it is one."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments; () if their contents are never requested."""
        ...

    @property
    def digest(self) -> str:
        """A digest of everything that the code depends on except settings, architecture and compiler."""
        ...

    @property
    def compiler(self) -> str:
        """The compiler and its version."""
        ...

    @property
    def most_declared(self) -> float:
        """The limit of static shared memory in its code, in bytes."""
        ...

    def architectures(self) -> tuple[int, ...]:
        """List the architectures it can be compiled for: 80 for sm_80."""
        ...

    def settings(self, defines: Settings, arguments: Sequence[Any]) -> Settings:
        """Return the settings that the code of a configuration depends on."""
        ...

    def compile(self, arch: int, settings: Settings) -> "Any | Failure":
        """Compile one configuration. **Raises:** DseError for errors of all configurations."""
        ...

    def constants(self, defines: Mapping[str, Any], count: int) -> Any:
        """Compute the source's constants for `count` configurations without compiling them."""
        ...


if not TYPE_CHECKING:
    Source = Any  # a check at run time would need the compiler, which may be missing


@dataclass(frozen=True)
class Passed:
    """The argument of a parameter of the code."""

    argument: int | None = None  # index of the kernel's argument; None: an array of the compiler's own
    part: Literal["all", "map", "pointer", "shape", "stride", "flag"] = "all"  # of a tensor descriptor
    axis: int = 0  # of a shape or a stride
    box: tuple[int, ...] = ()  # elements of one copy by a map
    fractions: bool = False  # whether it is an array of floats, which rarely affect the work
    swizzle: int = 0  # of a map: layout of the bytes in shared memory, by the driver's number; 0: linear


@dataclass(frozen=True)
class Launched:
    """How code is launched, if its compiler decides that."""

    threads: int  # of a block
    shared_bytes: int  # of a block, added by the launch
    cluster: int = 1  # hardware blocks per block of the grid
    scratch_bytes: int = 0  # of device memory, for each block of the grid, in the compiler's own arrays
    passed: tuple[Passed, ...] | None = None  # by parameter; None: the arguments, in order


@dataclass(frozen=True)
class Failure:
    """The reason why a configuration does not compile, or cannot be executed here."""

    reason: Literal[
        "compile error", "compiler stopped", "too much shared memory", "too much local memory", "not executed"
    ]
    message: str  # the first error


def lasting(result: Any) -> bool:
    """Return whether a result is reproducible and may be cached: not if the compiler met a limit."""
    return not (isinstance(result, Failure) and result.reason == STOPPED)

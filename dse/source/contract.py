"""What a kernel's source is to those who read it, whichever compiler it has, and what compiling it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

STOPPED: Literal["compiler stopped"] = "compiler stopped"  # a reason: it met a limit, or crashed
Settings = tuple[tuple[str, Any], ...]  # by name; equal ones give the same code


class Source(Protocol):
    """A kernel that can be compiled, one configuration at a time. Picklable: other processes do it."""

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
        """The names of the arguments; () where nobody asks for what they hold."""
        ...

    @property
    def digest(self) -> str:
        """A digest of all that the code depends on besides settings, architecture and compiler."""
        ...

    @property
    def compiler(self) -> str:
        """The compiler and its version."""
        ...

    @property
    def most_declared(self) -> float:
        """The most bytes of shared memory that its code may declare; what a launch adds is apart."""
        ...

    def architectures(self) -> tuple[int, ...]:
        """List what it can be compiled for: 80 for sm_80."""
        ...

    def settings(self, defines: Settings, arguments: Sequence[Any]) -> Settings:
        """Return what the code of a configuration depends on."""
        ...

    def compile(self, arch: int, settings: Settings) -> "Any | Failure":
        """Compile one configuration. **Raises:** DseError for what is wrong with all."""
        ...

    def constants(self, defines: Mapping[str, Any], count: int) -> Any:
        """Compute what the source says of `count` configurations before they are compiled."""
        ...


if not TYPE_CHECKING:
    Source = Any  # to check at run time is to ask for the compiler, which may be missing


@dataclass(frozen=True)
class Passed:
    """What a parameter of the code takes."""

    argument: int | None = None  # the place of the kernel's argument; None: an array of the compiler's own
    part: Literal["all", "map", "pointer", "shape", "stride", "flag"] = "all"  # of a tensor descriptor
    axis: int = 0  # of a shape or a stride
    box: tuple[int, ...] = ()  # elements that one copy by a map takes
    fractions: bool = False  # whether it is an array of numbers with fractions, on which seldom work hangs
    swizzle: int = 0  # of a map: how the bytes are in shared memory, by the driver's number; 0: as in a row


@dataclass(frozen=True)
class Launched:
    """How code is launched, where its compiler decides that."""

    threads: int  # of a block
    shared_bytes: int  # of a block, that the launch adds
    cluster: int = 1  # blocks of the hardware for one of the grid's
    scratch_bytes: int = 0  # of device memory, for each block of the grid, in the compiler's own arrays
    passed: tuple[Passed, ...] | None = None  # what each parameter takes; None: the arguments, in order


@dataclass(frozen=True)
class Failure:
    """The reason why a configuration does not compile, or cannot be executed here."""

    reason: Literal[
        "compile error", "compiler stopped", "too much shared memory", "too much local memory", "not executed"
    ]
    message: str  # the first error


def lasting(result: Any) -> bool:
    """Return whether a result is the same each time, and may be kept: not where the compiler met a limit."""
    return not (isinstance(result, Failure) and result.reason == STOPPED)

"""Facts of a kernel given by the caller, as its file lacks them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dse.core.space.expression import parse
from dse.errors import DseError
from dse.kernels.description import Build, Description


@dataclass(frozen=True)
class Given:
    """Facts of a kernel's compilation and launch that its file lacks."""

    function: str = ""
    block: tuple[int | str, ...] = ()  # threads along x, y, z: numbers, or expressions of parameters
    grid: tuple[int | str, ...] = ()  # blocks
    arguments: tuple[str, ...] = ()  # a number, or SIZE[:TYPE[:VALUES]], optionally after NAME=
    defines: tuple[tuple[str, str], ...] = ()  # macros; constants of Triton that are no numbers
    folders: tuple[str, ...] = ()  # searched for included files, after the file's own
    shared_bytes: int | str | None = None  # of a block, added by the launch: a number, or an expression
    tuned: tuple[tuple[str, tuple[int | float, ...]], ...] = ()  # macros, and their values
    signature: tuple[str, ...] = ()  # of Triton: types of the arguments, in order or as NAME=TYPE
    sizes: tuple[tuple[str, int | float], ...] = ()  # numbers by name, which a file may use as sizes


def refuse(given: Given, fields: Iterable[str], why: str) -> None:
    """Check that facts are not given. **Raises:** DseError with the reason, for the first given one."""
    for field in fields:
        if getattr(given, field) not in ((), None):
            raise DseError(f"given.{field}: found it with {why}")


def with_given(description: Description, given: Given, name: str) -> Description:
    """Change the kernel of a file that states its launch by the other given facts.

    **Raises:** DseError for a launch, which the file states, or a macro that a parameter defines; or if the
    file states no launch after all. `name` is the file's in messages.
    """
    says = f"{name}, expected none: the file says how it is launched"
    refuse(given, ("block", "grid", "arguments", "tuned", "signature"), says)
    if replace(given, sizes=()) == Given():
        return description
    if description.build is None:
        raise DseError(f"{description.path}: source: found no block and grid, expected a table with them")
    clash = [macro for macro, _ in given.defines if macro in dict(description.build.defines)]
    if clash:
        raise DseError(f"given.defines: found {clash[0]}, expected none that a parameter defines")
    names = {*description.space.names, *dict(description.problem)}
    return replace(description, build=build_with(description.build, given, names))


def build_with(build: Build, given: Given, names: Collection[str]) -> Build:
    """Set the given function, macros, folders and shared memory of a build, an expression of `names`.

    **Raises:** DseError if there is no such folder.
    """
    shared = given.shared_bytes
    if missing := [folder for folder in given.folders if not Path(folder).is_dir()]:
        raise DseError(f"given.folders: found no folder {missing[0]}")
    options = [f"-I{Path(folder).resolve()}" for folder in given.folders]
    options += [f"--define-macro={name}={value}" for name, value in given.defines]
    return replace(
        build,
        kernel=given.function or build.kernel,
        options=(*build.options, *options),
        shared_bytes=build.shared_bytes if shared is None else parse(shared, "given.shared_bytes", names),
    )

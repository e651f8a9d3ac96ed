"""The kernels of the package, and the path of each kernel.toml."""

from collections.abc import Iterable
from pathlib import Path

from dse.core import catalogue
from dse.core.files import given_path, is_file, is_folder, read_toml
from dse.errors import DseError, one_of

FILE = "kernel.toml"


def names() -> list[str]:
    """The names of the kernels that come with the package."""
    return sorted(path.parent.name for path in catalogue.folder("kernels").glob(f"*/{FILE}"))


def known(name: str) -> bool:
    """Tell whether a kernel of the package has that name, however it is spelled."""
    return _key(name) in map(_key, names())


def summaries() -> dict[str, str]:
    """Read the one-line summary of each of them, by name."""
    return {name: str(read_toml(find(name)).get("summary", "")) for name in names()}


def find(name: str | Path) -> Path:
    """Find the kernel.toml of a kernel: by its name (case, spaces, - and _ do not matter), or a path.

    A path may be that of the file or of its folder. A name of the package's kernels comes first.

    **Raises:** DseError if there is no such kernel.
    """
    by_key = {_key(name): name for name in names()}
    if _key(str(name)) in by_key:
        return catalogue.folder("kernels") / by_key[_key(str(name))] / FILE
    path = given_path(name)
    path = path / FILE if is_folder(path) else path
    if is_file(path):
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise DseError(f"{path}: found no file, expected a {FILE}, its folder, or one of {_listed(names())}")
    raise DseError(f"kernel: found {str(name)!r}, {one_of(str(name), names(), 'a path or one of')}")


def variants(work: str) -> list[str]:
    """Find the kernels that do the same work (their `variant_of`), or the same as the kernel named.

    **Raises:** DseError if no kernel does it.
    """
    works = {name: str(read_toml(find(name)).get("variant_of", name)) for name in names()}
    same = {_key(work): work for work in works.values()}
    same = {_key(name): work for name, work in works.items()} | same
    if _key(work) not in same:
        raise DseError(f"work: found {work!r}, {one_of(work, sorted(set(works.values())))}")
    return [name for name, other in works.items() if other == same[_key(work)]]


def _key(name: str) -> str:
    return "".join(c for c in name.lower() if c not in " -_")


def _listed(allowed: Iterable[str]) -> str:
    return ", ".join(allowed) or "none"

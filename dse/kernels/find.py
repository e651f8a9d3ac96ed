"""The kernels of the package: the path of each kernel.toml, and its content."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dse.core import catalogue
from dse.core.files import given_path, is_file, is_folder, read_toml
from dse.core.validate import checked
from dse.errors import DseError, one_of
from dse.kernels import schema

if TYPE_CHECKING:
    from dse.kernels.description import Description

FILE = "kernel.toml"


def names() -> list[str]:
    """The names of the package's kernels."""
    return sorted(path.parent.name for path in catalogue.folder("kernels").glob(f"*/{FILE}"))


def known(name: str) -> bool:
    """Whether the package has a kernel of that name, in any spelling."""
    return _key(name) in map(_key, names())


def find(name: str | Path) -> Path:
    """Find the kernel.toml of a kernel by name (case, spaces, - and _ are ignored), or by path.

    A path may name the file or its folder. Names of the package's kernels take precedence.

    **Raises:** DseError for an unknown kernel.
    """
    by_key = {_key(name): name for name in names()}
    if _key(str(name)) in by_key:
        return catalogue.folder("kernels") / by_key[_key(str(name))] / FILE
    path = given_path(name)
    path = path / FILE if is_folder(path) else path
    if is_file(path):
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        kernels = ", ".join(names()) or "none"
        raise DseError(f"{path}: found no file, expected a {FILE}, its folder, or one of {kernels}")
    raise DseError(f"kernel: found {str(name)!r}, {one_of(str(name), names(), 'a path or one of')}")


def load(name: str | Path) -> "Description":
    """Read a kernel, and check everything that needs no evaluation.

    **Raises:** DseError, one line with the file, the field, what was found and what is allowed.
    """
    path = find(name)
    raw = read_toml(path)
    for table in ("problem", "parameters", "let", "launch", "warp"):
        for name in ("constraints", "variant_of", "summary"):
            if isinstance(raw.get(table), dict) and name in raw[table]:  # TOML's classic trap
                raise DseError(f"{path}: {name}: found in [{table}], expected before the first table")
    if isinstance(raw.get("source"), str):
        raw["source"] = {"file": raw["source"]}
    file = checked(schema.KernelFile, raw, f"{path}", partial(schema.place_in, raw))
    from dse.kernels.parse import description  # imports JAX

    return description(path, file)


def variants(work: str) -> list[str]:
    """List the kernels with the same work (`variant_of`), given its name or that of a kernel.

    **Raises:** DseError if no kernel has it.
    """
    works = {name: str(read_toml(find(name)).get("variant_of", name)) for name in names()}
    by_key = {_key(name): work for name, work in works.items()}
    by_key |= {_key(work): work for work in works.values()}
    if _key(work) not in by_key:
        raise DseError(f"work: found {work!r}, {one_of(work, sorted(set(works.values())))}")
    return [name for name, other in works.items() if other == by_key[_key(work)]]


def _key(name: str) -> str:
    return "".join(c for c in name.lower() if c not in " -_")

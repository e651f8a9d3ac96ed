"""Read a kernel from any file that tells of it: each kind of file is a row of KINDS."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dse import kernels
from dse.errors import DseError
from dse.kernels.description import Description
from dse.sources import cuda_file, t1_kernel, triton_file, triton_folder
from dse.sources.given import Given, with_given


class Kind(NamedTuple):
    """A kind of file: its suffixes, how one is read, and what the suffixes do not tell of it."""

    suffixes: tuple[str, ...]
    load: Callable[[Path, Given], Description]
    note: str = ""


def _described(path: Path, given: Given) -> Description:
    return with_given(kernels.load(path), given, str(path))


KINDS = (
    Kind((".cu", ".ptx", ".cubin", ".sass"), cuda_file.load),
    Kind((".py",), triton_file.load, " (Triton)"),
    Kind((".json",), t1_kernel.load, " (T1)"),
    Kind((".toml",), _described),
)


def load(name: str | Path, given: Given | None = None) -> Description:
    """Read a kernel from a file by its suffix, or by its name as `dse.kernels.read.load`.

    `FILE:FUNCTION` names one of several kernels of a file. A folder without kernel.toml is of Triton's cache.

    **Raises:** DseError, one line with the file, the field, what was found and what is allowed.
    """
    given = given or Given()
    path = Path(name).expanduser()
    named = re.fullmatch(r"(.+):([\w<>, :]+)", str(name))
    if named is not None and not path.exists() and (Path(named[1]).suffix or Path(named[1]).is_dir()):
        name, path = named[1], Path(named[1]).expanduser()
        given = replace(given, function=given.function or named[2])
    for kind in KINDS:
        if path.suffix.lower() in kind.suffixes:
            return kind.load(path, given)
    if path.is_dir() and not (path / kernels.FILE).is_file():
        return triton_folder.load(path, given)
    if path.is_file():
        expected = ", ".join(suffix + kind.note for kind in KINDS for suffix in kind.suffixes)
        raise DseError(f"{name}: suffix: found {path.suffix!r}, expected one of {expected}")
    return with_given(kernels.load(name), given, str(name))

"""Read a kernel from any file that describes it: each kind of file is a row of KINDS."""

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from dse import kernels
from dse.core.files import given_path, is_file, is_folder, read_json
from dse.errors import DseError
from dse.kernels.description import Description
from dse.source.readers.given import Given, with_given


class Kind(NamedTuple):
    """A kind of file: its suffixes, its reader, and a note for messages."""

    suffixes: tuple[str, ...]
    load: Callable[[Path, Given], Description]
    note: str = ""


def _by(module: str) -> Callable[[Path, Given], Description]:
    """Return the `load` of a module of this room, imported for the first such file."""
    return lambda path, given: import_module(f"dse.source.readers.{module}").load(path, given)


def _json(path: Path, given: Given) -> Description:
    content = read_json(path)
    recorded = isinstance(content, dict) and "launches" in content
    return _by("recorded" if recorded else "t1_kernel")(path, given)


KINDS = (
    Kind((".cu", ".cuh", ".hip", ".ptx", ".cubin", ".sass"), _by("cuda_file")),
    Kind((".py",), _by("triton_file"), " (Triton)"),
    Kind((".json",), _json, " (T1, or recorded launches)"),
    Kind((".toml",), lambda path, given: with_given(kernels.load(path), given, str(path))),
)


def load(name: str | Path, given: Given | None = None) -> Description:
    """Read a kernel by its name as `dse.kernels.load`, else from a file by its suffix.

    `FILE:FUNCTION` names one of several kernels in a file. A folder without kernel.toml is Triton's cache.

    **Raises:** DseError, one line with the file, the field, the value found and the allowed ones.
    """
    given = given or Given()
    if isinstance(name, str) and kernels.known(name):  # even if the current folder has such a file
        return with_given(kernels.load(name), given, name)
    path = given_path(name)
    named = re.fullmatch(r"(.+?):(\w[\w:]*(?:<.*>)?)", str(name))
    there = is_file(path) or is_folder(path)
    if named is not None and not there and (Path(named[1]).suffix or is_folder(Path(named[1]))):
        name, path = named[1], given_path(named[1])
        given = replace(given, function=given.function or named[2])
    for kind in KINDS:
        if path.suffix.lower() in kind.suffixes:
            return kind.load(path, given)
    if is_folder(path) and not is_file(path / kernels.FILE):
        return _by("triton_folder")(path, given)
    if is_file(path):
        expected = ", ".join(suffix + kind.note for kind in KINDS for suffix in kind.suffixes)
        raise DseError(f"{name}: suffix: found {path.suffix!r}, expected one of {expected}")
    return with_given(kernels.load(name), given, str(name))

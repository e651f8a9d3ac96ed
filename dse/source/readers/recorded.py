"""Launches of Triton kernels recorded by `dse.triton.record`: shapes and types of real calls."""

import base64
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from dse.core.files import is_file, read_json
from dse.core.validate import checked
from dse.errors import DseError
from dse.kernels.description import Description
from dse.source.nvidia.compile.triton import constant
from dse.source.nvidia.compile.triton_function import function
from dse.source.readers.given import Given, refuse
from dse.source.readers.triton_call import of_call
from dse.source.readers.triton_kernel import is_number

MOST_CONTENTS_BYTES = 2**26  # of an array recorded with its contents


class RecordedContents(BaseModel):
    """An array of whole numbers, with its contents."""

    type: Annotated[str, Field(pattern=r"u?int(8|16|32|64)|bool")]
    zlib: str  # its bytes, compressed, in base 64

    @classmethod
    def of(cls, array: np.ndarray) -> "RecordedContents":
        """Compress an array."""
        return cls(type=array.dtype.name, zlib=base64.b64encode(zlib.compress(array.tobytes())).decode())

    def array(self, where: str) -> np.ndarray:
        """Decompress it. **Raises:** DseError if it is damaged or too large."""
        unpacker = zlib.decompressobj()
        try:
            content = unpacker.decompress(base64.b64decode(self.zlib), MOST_CONTENTS_BYTES)
            if unpacker.eof:
                return np.frombuffer(content, self.type)
        except (ValueError, zlib.error):
            pass
        raise DseError(f"{where}.zlib: found no packed array of at most {MOST_CONTENTS_BYTES:,} bytes")


class Tile(BaseModel):
    """A tensor descriptor."""

    type: str  # of an element
    shape: list[int]
    strides: list[int]
    block: list[int]


class RecordedRow(BaseModel):
    """A possible configuration of the launch, and its grid."""

    constants: dict[str, str]  # in Python's notation, with options
    grid: Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(min_length=1, max_length=3)]


class RecordedLaunch(BaseModel):
    """A launch. An argument is a number, the type of an unknown one, an array or a descriptor."""

    kernel: str  # the function
    file: str
    module: str = ""  # the file, relative to the folder of its package
    arguments: dict[str, bool | int | float | str | RecordedContents | Tile]
    rows: Annotated[list[RecordedRow], Field(min_length=1)]
    times: int = 1  # number of launches


class RecordedFile(BaseModel):
    """The distinct launches of a run."""

    launches: list[RecordedLaunch]


def load(path: Path, given: Given) -> Description:
    """Read a launch of such a file, by the kernel's name or its number from 1; else the only one.

    **Raises:** DseError for a file of another form, for none or several such launches, or if the kernel's
    file cannot be read.
    """
    says = f"{path}: the recorded launch says it"
    unwanted = ("block", "grid", "arguments", "folders", "shared_bytes", "signature", "tuned", "defines")
    refuse(given, unwanted, says)
    launches = checked(RecordedFile, read_json(path), f"{path}").launches
    places = {str(number): launch for number, launch in enumerate(launches, 1)}
    wanted = given.function
    matching = [
        recorded for number, recorded in places.items() if not wanted or wanted in (number, recorded.kernel)
    ]
    if len(matching) != 1:
        stated = "several" if matching else f"no {wanted}" if wanted else "none"
        listed = ", ".join(f"{number} {recorded.kernel}" for number, recorded in places.items())
        raise DseError(
            f"{path}: launch: found {stated}, expected the number of one: {listed or 'none there'}"
        )
    [launch] = matching
    kernel = function(_file(launch, path), launch.kernel)
    where = f"{path}: launches.arguments"
    arguments = {name: _argument(value, f"{where}.{name}") for name, value in launch.arguments.items()}
    rows = [{name: constant(text) for name, text in row.constants.items()} for row in launch.rows]
    numbers = [name for name, value in rows[0].items() if is_number(value)]
    grids = {_key(row, numbers): recorded.grid for row, recorded in zip(rows, launch.rows, strict=True)}

    def grid(meta: Mapping[str, Any]) -> Sequence[int]:
        if (blocks := grids.get(_key(meta, numbers))) is None:
            own = [f"{name}={meta[name]}" for name in numbers if {row[name] for row in rows} != {meta[name]}]
            raise DseError(
                f"{path}: grid: found none for {', '.join(own)}, expected a recorded configuration"
            )
        return blocks

    return replace(of_call(kernel, arguments, grid, rows), path=path)


def _key(values: Mapping[str, Any], names: Sequence[str]) -> tuple[float, ...]:
    return tuple(float(values[name]) for name in names)


def _argument(value: Any, where: str) -> Any:
    if isinstance(value, RecordedContents):
        return value.array(where)
    if isinstance(value, Tile):
        base = SimpleNamespace(dtype=value.type)
        return SimpleNamespace(base=base, shape=value.shape, strides=value.strides, block_shape=value.block)
    return value


def _file(launch: RecordedLaunch, path: Path) -> Path:
    """Find the kernel's file: at its old path, in the record's folder or on Python's path."""
    places = [Path(launch.file), *(Path(folder, launch.module) for folder in (path.parent, *sys.path))]
    existing = next((candidate for candidate in places if is_file(candidate)), None)
    if existing is None:
        raise DseError(f"{path}: file: found no {launch.file}, nor {launch.module} below {path.parent}")
    return existing

"""Launches of Triton kernels as `dse.triton.record` writes them: shapes and types of real calls."""

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

MOST_CONTENTS_BYTES = 2**26  # of an array that is recorded with what it holds


class Contents(BaseModel):
    """An array of whole numbers, and what it holds."""

    type: Annotated[str, Field(pattern=r"u?int(8|16|32|64)|bool")]
    zlib: str  # its bytes, packed, in base 64

    @classmethod
    def of(cls, array: np.ndarray) -> "Contents":
        """Pack an array."""
        return cls(type=array.dtype.name, zlib=base64.b64encode(zlib.compress(array.tobytes())).decode())

    def array(self, where: str) -> np.ndarray:
        """Unpack it. **Raises:** DseError if it is damaged or too large."""
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


class Row(BaseModel):
    """A configuration that the launch could have, and the blocks that it would have."""

    constants: dict[str, str]  # written as Python writes them; options too
    grid: Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(min_length=1, max_length=3)]


class Launch(BaseModel):
    """A launch. An argument is a number, the type of an unknown one, or what an array or descriptor holds."""

    kernel: str  # the function
    file: str
    module: str = ""  # the file below the folder of its package
    arguments: dict[str, bool | int | float | str | Contents | Tile]
    rows: Annotated[list[Row], Field(min_length=1)]
    times: int = 1  # that it was launched


class Recorded(BaseModel):
    """The launches of a run, each of them once."""

    launches: list[Launch]


def load(path: Path, given: Given) -> Description:
    """Read a launch of such a file, by the kernel's name or its number from 1; the only one without either.

    **Raises:** DseError for a file of another form, for none or several such launches, or if the kernel's
    file cannot be read.
    """
    says = f"{path}: the recorded launch says it"
    refuse(given, ("block", "grid", "arguments", "shared_bytes", "signature", "tuned", "defines"), says)
    launches = checked(Recorded, read_json(path), f"{path}").launches
    places = {str(place): launch for place, launch in enumerate(launches, 1)}
    wanted = given.function
    matching = [
        recorded for place, recorded in places.items() if not wanted or wanted in (place, recorded.kernel)
    ]
    if len(matching) != 1:
        stated = "several" if matching else f"no {wanted}" if wanted else "none"
        listed = ", ".join(f"{place} {recorded.kernel}" for place, recorded in places.items())
        raise DseError(
            f"{path}: launch: found {stated}, expected the number of one: {listed or 'none there'}"
        )
    [launch] = matching
    kernel = function(_file(launch, path), launch.kernel)
    where = f"{path}: launches.arguments"
    arguments = {name: _argument(value, f"{where}.{name}") for name, value in launch.arguments.items()}
    rows = [{name: constant(text) for name, text in row.constants.items()} for row in launch.rows]
    numbers = [name for name, value in rows[0].items() if isinstance(value, int | float)]
    grids = {_key(row, numbers): recorded.grid for row, recorded in zip(rows, launch.rows, strict=True)}
    described = of_call(kernel, arguments, lambda meta: grids[_key(meta, numbers)], rows)
    return replace(described, path=path)


def _key(values: Mapping[str, Any], names: Sequence[str]) -> tuple[float, ...]:
    return tuple(float(values[name]) for name in names)


def _argument(value: Any, where: str) -> Any:
    if isinstance(value, Contents):
        return value.array(where)
    if isinstance(value, Tile):
        base = SimpleNamespace(dtype=value.type)
        return SimpleNamespace(base=base, shape=value.shape, strides=value.strides, block_shape=value.block)
    return value


def _file(launch: Launch, path: Path) -> Path:
    """Find the kernel's file: where it was, else below the record's folder or where Python finds packages."""
    places = [Path(launch.file), *(Path(folder, launch.module) for folder in (path.parent, *sys.path))]
    existing = next((place for place in places if is_file(place)), None)
    if existing is None:
        raise DseError(f"{path}: file: found no {launch.file}, nor {launch.module} below {path.parent}")
    return existing

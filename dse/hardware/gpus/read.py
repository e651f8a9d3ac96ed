"""Read and check GPU files: gpus/<name>.toml.

Listing and finding them imports no JAX; loading one does.
"""

import difflib
import itertools
import re
import tomllib
from collections.abc import Container, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dse.core import catalogue
from dse.core.files import given_path, is_file, read_toml
from dse.errors import DseError, one_of
from dse.hardware.gpus.facts import Entry, Fact, Quantities
from dse.hardware.gpus.rules import LEFT_OUT

if TYPE_CHECKING:
    from dse.types import Gpu

_GROUPS = ("limits", "cpi", "latency")
_OF_HEADER = ("compute_capability", "gfx")  # fields of a Gpu that the header of its file has


class Header(BaseModel):
    """The head of a GPU file: all before its first table."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(min_length=1, description="the full name of the GPU")
    aliases: list[str] = Field([], description="a list of names")
    vendor: str = Field(min_length=1, description='a name such as "NVIDIA"')
    architecture: str = Field(min_length=1, description='a name such as "Ampere"')
    compute_capability: str | None = Field(None, pattern=r"^\d+\.\d+$", description='a text such as "8.0"')
    gfx_name: str | None = Field(None, pattern=r"^gfx[0-9a-f]{3,6}$", description='a text such as "gfx90a"')

    @property
    def capability(self) -> int:
        """The compute capability as one number: 80 for 8.0, and 0 where there is none."""
        return int((self.compute_capability or "0").replace(".", ""))

    @property
    def gfx(self) -> int:
        """The target of AMD's compiler as one number: 0x90a for gfx90a, and 0 where there is none."""
        return int((self.gfx_name or "gfx0").removeprefix("gfx"), 16)


@dataclass(frozen=True)
class GpuFile:
    """A GPU, and where its numbers are from."""

    path: Path
    header: Header
    gpu: "Gpu"
    fields: tuple[Fact, ...]

    def __repr__(self) -> str:
        return f"<GpuFile {self.header.name}>"

    @property
    def name(self) -> str:
        """The full name of the GPU."""
        return self.header.name


def names() -> list[str]:
    """The names of the GPUs that come with the package."""
    return sorted(path.stem for path in catalogue.folder("gpus").glob("*.toml"))


def headers() -> dict[str, Header]:
    """Read the header of each of them, by name."""
    # Up to the first table: to read that takes no time.
    head = {name: _path(name).read_bytes().split(b"\n[", 1)[0] for name in names()}
    return {name: _checked(Header, tomllib.loads(text.decode()), _path(name)) for name, text in head.items()}


def find(name: str | Path) -> Path:
    """Find the file of a GPU: by its name, by a part of it that only one has, or by the path of a .toml file.

    Case, spaces, - and _ do not matter; a number counts as a whole, so `a40` does not find the A4000.

    **Raises:** DseError if no GPU or several have such a name.
    """
    path = given_path(name)
    if path.suffix == ".toml":
        if is_file(path):
            return path
        raise DseError(f"{path}: found no file, expected a GPU file")
    known = {slug: [slug, header.name, *header.aliases] for slug, header in headers().items()}
    wanted = "".join(_words(str(name)))
    for accepts in (_equals, _starts_with, _contains):
        slugs = [slug for slug, texts in known.items() if any(accepts(text, wanted) for text in texts)]
        if len(slugs) == 1:
            return _path(slugs[0])
        if slugs:
            raise DseError(f"gpu: found {str(name)!r}, expected one of {', '.join(slugs)}")
    by_text = {"".join(_words(text)): slug for slug, texts in known.items() for text in texts}
    near = dict.fromkeys(by_text[text] for text in difflib.get_close_matches(wanted, by_text))
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise DseError(f"gpu: found {str(name)!r}, expected a .toml file or a name that `dse gpus` lists{hint}")


def load(name: str | Path, dtype: Any = np.float32) -> GpuFile:
    """Read one GPU, in SI units: quantities as arrays of `dtype`, limits as 32-bit integers, all of shape [].

    **Raises:** DseError, one line with the file, the field, what was found and what is allowed.
    """
    from dse.core.precision import in_64_bits
    from dse.types import ABSENT, Gpu, Limits, PerClass

    path = find(name)
    tables = read_toml(path)
    head = {key: tables.pop(key) for key in Header.model_fields if key in tables}
    for group in _GROUPS:
        inside = tables.pop(group, {})
        if not isinstance(inside, dict):
            raise DseError(f"{path}: {group}: found {inside!r}, expected a table for each of its fields")
        tables |= {f"{group}.{key}": value for key, value in inside.items()}

    units, optional = _units(), _optional()
    for field in tables:
        if field not in units:
            group = field.rpartition(".")[0]
            known = [] if group else [*Header.model_fields, *_GROUPS]
            known += [other for other in units if other.rpartition(".")[0] == group]
            raise DseError(f"{path}: {field}: unknown field, {one_of(field, known)}")
    absent = _absent(tables)
    for field in units:
        if field not in tables and field not in (*absent, *LEFT_OUT, *optional):
            raise DseError(f"{path}: {field}: missing, expected a table [{field}]")
    header = _checked(Header, head, path)
    entries = {field: _checked(Entry, tables[field], path, field) for field in units if field in tables}
    known = Quantities(entries, units, path)
    given = [field for field in units if field not in absent and field in (*tables, *LEFT_OUT)]

    arrays: dict[str, dict[str, Any]] = {group: {} for group in ("", *_GROUPS)}
    with in_64_bits():  # else float64 would be cut to float32
        for field in absent:
            group, _, last = field.rpartition(".")
            arrays[group][last] = np.asarray(ABSENT, dtype)
        arrays[""] |= {field: np.asarray(value, dtype) for field, value in optional.items()}
        for field in given:
            group, _, last = field.rpartition(".")
            arrays[group][last] = np.asarray(known.number(field), np.int32 if group == "limits" else dtype)
        gpu = Gpu(
            **arrays[""],
            cpi=PerClass(**arrays["cpi"]),
            latency=PerClass(**arrays["latency"]),
            limits=Limits(**arrays["limits"]),
            compute_capability=header.capability,
            gfx=header.gfx,
        )
    known.warn()
    return GpuFile(path, header, gpu, tuple(map(known.fact, given)))


def stack(gpus: Sequence["Gpu"]) -> "Gpu":
    """Make several GPUs one, on a new leading axis."""
    import jax

    from dse.core.precision import in_64_bits

    with in_64_bits():
        # By NumPy: JAX would compile a function for each number of GPUs.
        return jax.tree.map(lambda *leaves: jax.device_put(np.stack(leaves)), *gpus)


def column(gpus: "Gpu") -> "Gpu":
    """Make GPUs of fields [G] ones of fields [G, 1], in NumPy: configurations have the second axis."""
    import jax

    return jax.tree.map(lambda x: np.asarray(x)[:, None], gpus)


def _path(name: str) -> Path:
    return catalogue.folder("gpus") / f"{name}.toml"


def _words(text: str) -> list[str]:
    return re.findall(r"[^\s_-]+", text.lower())


def _equals(text: str, wanted: str) -> bool:
    return "".join(_words(text)) == wanted


def _starts_with(text: str, wanted: str) -> bool:
    return 0 in _places(text, wanted)


def _contains(text: str, wanted: str) -> bool:
    return bool(_places(text, wanted))


def _places(text: str, wanted: str) -> list[int]:
    """The places where `wanted` begins in the words of `text` and cuts no number off a word."""
    words = _words(text)
    joined, edges = "".join(words), {0, *itertools.accumulate(map(len, words))}
    return [
        start
        for start in range(len(joined))
        if wanted
        and joined.startswith(wanted, start)
        and (start in edges or not wanted[0].isdigit())
        and (start + len(wanted) in edges or not wanted[-1].isdigit())
    ]


def _absent(given: Container[str]) -> list[str]:
    """List λ and Λ of the matrix products that a GPU cannot do: its file has neither."""
    from dse.types import TENSOR

    pairs = ([f"cpi.{name}", f"latency.{name}"] for name in TENSOR)
    return [field for pair in pairs if not any(field in given for field in pair) for field in pair]


def _optional() -> dict[str, float]:
    """The fields that a file need not have, with the value that they then have."""
    from dse.types import Gpu

    defaults = {field.name: field.default for field in fields(Gpu) if field.name not in _OF_HEADER}
    return {name: value for name, value in defaults.items() if value is not MISSING}


def _units() -> dict[str, str]:
    """The unit in `dse.types` of each field that a file may have."""
    from dse.types import Gpu, Limits, PerClass

    units: dict[str, str] = {}
    for field in fields(Gpu):
        if field.name == "limits":
            units |= {f"limits.{limit.name}": limit.metadata["unit"] for limit in fields(Limits)}
        elif field.name in _GROUPS:
            units |= {f"{field.name}.{one.name}": field.metadata["unit"] for one in fields(PerClass)}
        elif field.name not in _OF_HEADER:
            units[field.name] = field.metadata["unit"]
    return units


_Model = TypeVar("_Model", bound=BaseModel)


def _checked(model: type[_Model], given: Any, path: Path, field: str = "") -> _Model:
    """Check what was given against a model; its first mistake is told in one line."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        mistake = error.errors()[0]
    keys = list(model.model_fields)
    if not mistake["loc"]:
        raise DseError(f"{path}: {field}: found {given!r}, expected a table of {', '.join(keys)}")
    key = str(mistake["loc"][0])
    where = f"{path}: {field}.{key}" if field else f"{path}: {key}"
    if key not in keys:
        raise DseError(f"{where}: unknown field, {one_of(key, keys)}")
    found = "missing" if mistake["type"] == "missing" else f"found {given[key]!r}"
    raise DseError(f"{where}: {found}, expected {model.model_fields[key].description}")

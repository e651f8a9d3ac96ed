"""Read and validate a kernel's description, kernels/<name>/kernel.toml."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dse.core.files import read_toml
from dse.core.validate import checked
from dse.errors import DseError
from dse.kernels import schema
from dse.kernels.find import find

if TYPE_CHECKING:
    from dse.kernels.description import Description


def load(name: str | Path) -> Description:
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

"""The fields of a GPU file with their units and defaults. Imports no JAX."""

from collections.abc import Container
from dataclasses import MISSING, fields
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

GROUPS = ("limits", "cpi", "latency")
_OF_HEADER = ("compute_capability", "gfx")  # fields of a Gpu from the header of its file


class Header(BaseModel):
    """The header of a GPU file: everything before its first table."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(min_length=1, description="the full name of the GPU")
    aliases: list[str] = Field([], description="a list of names")
    device: str | None = Field(None, min_length=1, description="the name that the driver reports")
    vendor: str = Field(min_length=1, description='a name such as "NVIDIA"')
    architecture: str = Field(min_length=1, description='a name such as "Ampere"')
    compute_capability: str | None = Field(None, pattern=r"^\d+\.\d+$", description='a text such as "8.0"')
    gfx_name: str | None = Field(None, pattern=r"^gfx[0-9a-f]{3,6}$", description='a text such as "gfx90a"')

    @property
    def capability(self) -> int:
        """The compute capability as one number: 80 for 8.0, 0 without one."""
        return int((self.compute_capability or "0").replace(".", ""))

    @property
    def gfx(self) -> int:
        """The target of AMD's compiler as one number: 0x90a for gfx90a, 0 without one."""
        return int((self.gfx_name or "gfx0").removeprefix("gfx"), 16)


def absent(stated: Container[str]) -> list[str]:
    """List λ and Λ of the matrix products that a GPU lacks: its file has neither."""
    from dse.types import TENSOR

    pairs = ([f"cpi.{name}", f"latency.{name}"] for name in TENSOR)
    return [field for pair in pairs if not any(field in stated for field in pair) for field in pair]


@cache
def optional() -> dict[str, float]:
    """The optional fields of a file with their defaults."""
    from dse.types import Gpu

    defaults = {field.name: field.default for field in fields(Gpu) if field.name not in _OF_HEADER}
    return {name: value for name, value in defaults.items() if value is not MISSING}


@cache
def units() -> dict[str, str]:
    """The unit in `dse.types` of each field of a file."""
    from dse.types import Gpu, Limits, PerClass

    by_field: dict[str, str] = {}
    for field in fields(Gpu):
        if field.name == "limits":
            by_field |= {f"limits.{limit.name}": limit.metadata["unit"] for limit in fields(Limits)}
        elif field.name in GROUPS:
            by_field |= {f"{field.name}.{pipe.name}": field.metadata["unit"] for pipe in fields(PerClass)}
        elif field.name not in _OF_HEADER:
            by_field[field.name] = field.metadata["unit"]
    return by_field

"""The schema of a kernel.toml, and names of locations in one.

Expressions are still text here. Validators raise ValueError with the rest of the message.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    StrictStr,
    Tag,
)

from dse.core.validate import in_toml, shortened


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> str | int | float | bool:
    if isinstance(value, str | bool) or _is_number(value):
        return value
    raise ValueError(f"found {shortened(value)}, expected an expression or a number")


def _number(value: Any) -> int | float:
    if _is_number(value):
        return value
    raise ValueError(f"found {shortened(value)}, expected a number")


_Text = Annotated[Any, PlainValidator(_text)]
_Number = Annotated[Any, PlainValidator(_number)]


class _TomlTable(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LaunchTable(_TomlTable):
    threads: _Text
    blocks: _Text
    registers: _Text
    shared_bytes: _Text = 0
    dynamic_shared_bytes: _Text = None
    threads_x: _Text = None
    threads_y: _Text = None
    threads_z: _Text = None


class WarpTable(_TomlTable):
    fp32: _Text = None
    fp64: _Text = None
    int32: _Text = None
    imul32: _Text = None
    sfu: _Text = None
    mma_fp16: _Text = None
    mma_fp16_fp16: _Text = None
    mma_tf32: _Text = None
    mma_fp32: _Text = None
    mma_fp8: _Text = None
    mma_fp8_fp16: _Text = None
    mma_fp4: _Text = None
    mma_int8: _Text = None
    mma_fp64: _Text = None
    mma_warp: _Text = None
    barrier: _Text = None
    ilp: _Text = None
    mlp: _Text = None


class AccessTable(_TomlTable):
    name: StrictStr
    space: Literal["global", "shared"]
    op: Literal["load", "store"]
    count: _Text
    access: StrictStr | None = None
    loops: list[StrictStr] = []
    bytes: _Text = None
    sectors: _Text = None
    passes: _Text = None
    l2_sectors: _Text = None
    dram_sectors: _Text = None
    uncoalesced: _Text = None
    phase: StrictStr = ""


class PhaseTable(WarpTable):
    name: StrictStr
    passes: _Text = None


class BranchTable(_TomlTable):
    name: StrictStr
    when: StrictStr
    loops: dict[str, _Text] = {}


_Type = Literal[
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "int64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


class ArrayTable(_TomlTable):
    size: _Text
    type: _Type = "float32"
    values: _Text = None


class DescriptorTable(_TomlTable):
    shape: list[_Text]
    block: list[_Text]
    type: _Type = "float32"


def _form(argument: Any) -> str:
    if isinstance(argument, dict):
        return "descriptor" if "shape" in argument or "block" in argument else "array"
    return "number"


_Argument = Annotated[
    Annotated[ArrayTable, Tag("array")]
    | Annotated[DescriptorTable, Tag("descriptor")]
    | Annotated[_Text, Tag("number")],
    Discriminator(_form),
]
_Dimensions = Annotated[list[_Text], Field(max_length=3)]


class SourceTable(_TomlTable):
    file: StrictStr
    kernel: StrictStr = ""
    defines: dict[str, _Text] = {}
    block: _Dimensions = []
    grid: _Dimensions = []
    shared_bytes: _Text = None
    arguments: list[_Argument] = []


class AliasTable(_TomlTable):
    rename: dict[str, StrictStr] = {}
    set: dict[str, _Number] = {}


class KernelFile(_TomlTable):
    name: StrictStr
    summary: StrictStr
    source: SourceTable | None = None
    variant_of: StrictStr | None = None
    constraints: list[_Text] = []
    problem: dict[str, _Number] = {}
    parameters: Annotated[dict[str, Any], Field(min_length=1)]
    let: dict[str, _Text] = {}
    launch: LaunchTable | None = None
    warp: WarpTable = WarpTable()
    branch: list[BranchTable] = []
    phase: list[PhaseTable] = []
    access: list[AccessTable] = []
    spaces: dict[str, AliasTable] = {}


def place_in(raw: Mapping[str, Any], place: tuple[int | str, ...]) -> str:
    """Format a location in the file, with names of accesses, branches and phases: access.image.count."""
    if place[:2] == ("source", "arguments"):
        place = (*place[:3], *place[4:])  # without the tag of the union
    parts = [in_toml((part,)) for part in place]
    if len(place) > 1 and place[0] in ("access", "branch", "phase") and isinstance(place[1], int):
        table = raw[place[0]][place[1]]
        parts[1] = str(table.get("name", parts[1])) if isinstance(table, dict) else parts[1]
    return ".".join(parts)

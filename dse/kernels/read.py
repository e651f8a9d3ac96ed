"""Read and check kernel descriptions: kernels/<name>/kernel.toml.

Listing and finding them imports no JAX; loading one does.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    StrictStr,
    Tag,
    ValidationError,
)

from dse import catalogue
from dse.errors import DseError, one_of
from dse.files import given_path, read_toml

if TYPE_CHECKING:
    from dse.kernels.description import Alias, ArrayArgument, Build, Description
    from dse.kernels.symbolic.subscript import Subscript

FILE = "kernel.toml"
TRITON = ".py"  # suffix of sources that need no description of their launch: Triton decides on it


def names() -> list[str]:
    """The names of the kernels that come with the package."""
    return sorted(path.parent.name for path in catalogue.folder("kernels").glob(f"*/{FILE}"))


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
    path = path / FILE if path.is_dir() else path
    if path.is_file():
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


def load(name: str | Path) -> Description:
    """Read one kernel, and check everything that can be checked without evaluating it.

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
    try:
        file = _File.model_validate(raw)
    except ValidationError as error:
        raise DseError(f"{path}: {_first(error, raw)}") from None
    return _description(path, file)


def _key(name: str) -> str:
    return "".join(c for c in name.lower() if c not in " -_")


def _listed(allowed: Iterable[str]) -> str:
    return ", ".join(allowed) or "none"


# What the file may hold. Validators raise ValueError with the wording of the rest of the line.


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> str | int | float | bool:
    if isinstance(value, str | bool) or _is_number(value):
        return value
    raise ValueError(f"found {_short(value)}, expected an expression or a number")


def _number(value: Any) -> int | float:
    if _is_number(value):
        return value
    raise ValueError(f"found {_short(value)}, expected a number")


_Text = Annotated[Any, PlainValidator(_text)]
_Number = Annotated[Any, PlainValidator(_number)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Launch(_Table):
    threads: _Text
    blocks: _Text
    registers: _Text
    shared_bytes: _Text = 0
    threads_x: _Text = None
    threads_y: _Text = None
    threads_z: _Text = None


class _Warp(_Table):
    fp32: _Text = None
    fp64: _Text = None
    int32: _Text = None
    imul32: _Text = None
    sfu: _Text = None
    mma_fp16: _Text = None
    mma_fp16_fp16: _Text = None
    mma_tf32: _Text = None
    mma_fp8: _Text = None
    mma_int8: _Text = None
    mma_fp64: _Text = None
    mma_warp: _Text = None
    barrier: _Text = None
    ilp: _Text = None
    mlp: _Text = None


class _Access(_Table):
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


class _Phase(_Warp):
    name: StrictStr


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


class _Array(_Table):
    size: _Text
    type: _Type = "float32"
    values: _Text = None


class _Descriptor(_Table):
    shape: list[_Text]
    block: list[_Text]
    type: _Type = "float32"


def _form(argument: Any) -> str:
    if isinstance(argument, dict):
        return "descriptor" if "shape" in argument or "block" in argument else "array"
    return "number"


_Argument = Annotated[
    Annotated[_Array, Tag("array")]
    | Annotated[_Descriptor, Tag("descriptor")]
    | Annotated[_Text, Tag("number")],
    Discriminator(_form),
]
_Dimensions = Annotated[list[_Text], Field(max_length=3)]


class _Source(_Table):
    file: StrictStr
    kernel: StrictStr = ""
    defines: dict[str, _Text] = {}
    block: _Dimensions = []
    grid: _Dimensions = []
    arguments: list[_Argument] = []


class _Alias(_Table):
    rename: dict[str, StrictStr] = {}
    set: dict[str, _Number] = {}


class _File(_Table):
    name: StrictStr
    summary: StrictStr
    source: _Source | None = None
    variant_of: StrictStr | None = None
    constraints: list[_Text] = []
    problem: dict[str, _Number] = {}
    parameters: Annotated[dict[str, Any], Field(min_length=1)]
    let: dict[str, _Text] = {}
    launch: _Launch | None = None
    warp: _Warp = _Warp()
    phase: list[_Phase] = []
    access: list[_Access] = []
    spaces: dict[str, _Alias] = {}


_TABLES = {
    "launch": _Launch,
    "warp": _Warp,
    "phase": _Phase,
    "access": _Access,
    "spaces": _Alias,
    "source": _Source,
}
_ONLY_GLOBAL = ("sectors", "l2_sectors", "dram_sectors", "uncoalesced")
_KINDS = {
    "string_type": "text",
    "dict_type": "a table",
    "model_type": "a table",
    "list_type": "a list",
    "too_short": "at least one",
    "too_long": "at most three",
}


def _first(error: ValidationError, raw: Mapping[str, Any]) -> str:
    """Tell the first mistake as `field: found X, expected Y`."""
    mistake = dict[str, Any](error.errors()[0])
    place: tuple[int | str, ...] = mistake["loc"]
    field = _field(place, raw)
    match mistake["type"]:
        case "missing":
            return f"{field}: found nothing, expected a value"
        case "extra_forbidden":
            table: type[BaseModel] = _TABLES.get(str(place[0]), _File)
            if "arguments" in place:
                table = _Descriptor if "descriptor" in place else _Array
            allowed = table.model_fields
            return f"{field}: found an unknown field, {one_of(str(place[-1]), allowed)}"
        case "value_error":
            return f"{field}: {mistake['ctx']['error']}"
        case kind:
            expected = mistake.get("ctx", {}).get("expected") or _KINDS.get(kind, mistake["msg"])
            return f"{field}: found {_short(mistake['input'])}, expected {expected}"


def _field(place: tuple[int | str, ...], raw: Mapping[str, Any]) -> str:
    """Name a place in the file, an access by its name: access.image.count."""
    if place[:2] == ("source", "arguments"):
        place = (*place[:3], *place[4:])  # without the form that was tried
    parts = [str(part + 1) if isinstance(part, int) else part for part in place]
    if len(place) > 1 and place[0] in ("access", "phase") and isinstance(place[1], int):
        access = raw[place[0]][place[1]]
        parts[1] = str(access.get("name", parts[1])) if isinstance(access, dict) else parts[1]
    return ".".join(parts)


def _description(path: Path, file: _File) -> Description:
    """Parse the expressions, each with the names that it may use."""
    from dse.kernels.description import (
        GPU_NAMES,
        LAUNCH_NAMES,
        SHAPE_FIELDS,
        Access,
        Description,
        PhaseCounts,
    )
    from dse.space.expression import FUNCTIONS, Expression, parse
    from dse.space.space import Space, values_of

    ours = set(file.parameters) | set(file.problem)

    def expressions(table: str, texts: Mapping[str, Any], allowed: Collection[str]) -> tuple:
        return tuple(
            (field, parse(text, f"{path}: {table}.{field}", allowed))
            for field, text in texts.items()
            if text is not None
        )

    reserved = (*GPU_NAMES, *LAUNCH_NAMES, *FUNCTIONS)
    taken: dict[str, str] = dict.fromkeys(reserved, "the language of expressions")
    for table, new in (("parameters", file.parameters), ("problem", file.problem), ("let", file.let)):
        for name in new:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise DseError(f"{path}: {table}: found the name {name!r}, expected letters, digits and _")
            if name in taken:
                raise DseError(f"{path}: {table}.{name}: found a name of {taken[name]}, expected another one")
            taken[name] = table

    let: list[tuple[str, Expression]] = []
    known = ours | set(GPU_NAMES)
    for name, text in file.let.items():
        let += expressions("let", {name: text}, known)
        known = known | {name}

    in_warp = known | set(LAUNCH_NAMES)
    accesses = []
    for access in file.access:
        where = f"access.{access.name}"
        fields = access.model_dump(exclude={"name", "space", "op", "access", "loops", "phase"})
        for field in _ONLY_GLOBAL:
            if access.space == "shared" and fields[field] is not None:
                raise DseError(f"{path}: {where}.{field}: found in a shared access, expected in global ones")
        parsed = expressions(where, fields, in_warp)
        subscript = _subscript(path, access, in_warp)
        phases = [phase.name for phase in file.phase]
        if access.phase and access.phase not in phases:
            raise DseError(f"{path}: {where}.phase: found {access.phase!r}, {one_of(access.phase, phases)}")
        loops = tuple(access.loops)
        accesses += [Access(access.name, access.space, access.op, parsed, subscript, loops, access.phase)]

    constraints = dict(enumerate(file.constraints, start=1))
    source = None
    if file.source is not None:
        source = path.parent / file.source.file
        if not source.resolve().is_relative_to(path.parent.resolve()):
            raise DseError(f"{path}: source: found {file.source.file!r}, expected a file beside it or below")
        if not source.is_file():
            raise DseError(f"{path}: source: found no file {file.source.file}, expected one beside it")
    if file.launch is None and (source is None or source.suffix != TRITON):
        raise DseError(f"{path}: launch: found nothing, expected a value")
    launch = {} if file.launch is None else file.launch.model_dump()
    shape = {name: launch.pop(name, None) for name in SHAPE_FIELDS}
    return Description(
        name=file.name,
        summary=file.summary,
        path=path,
        source=source,
        variant_of=file.variant_of or file.name,
        space=Space(
            {name: values_of(spec, f"{path}: parameters.{name}") for name, spec in file.parameters.items()},
            tuple(parse(text, f"{path}: constraints.{i}", ours) for i, text in constraints.items()),
        ),
        problem=tuple(file.problem.items()),
        let=tuple(let),
        launch=expressions("launch", launch, known),
        warp=expressions("warp", file.warp.model_dump(), in_warp) if launch else (),
        accesses=tuple(accesses),
        phases=tuple(
            PhaseCounts(
                phase.name, expressions(f"phase.{phase.name}", phase.model_dump(exclude={"name"}), in_warp)
            )
            for phase in file.phase
        ),
        spaces=tuple(_alias(path, name, alias, ours) for name, alias in file.spaces.items()),
        build=_build(path, file, in_warp),
        shape=expressions("launch", shape, known),
    )


def _subscript(path: Path, access: _Access, allowed: Collection[str]) -> Subscript | None:
    """Read the element that a thread asks for, from which sectors and passes follow."""
    from dse.kernels.symbolic.subscript import INDEX_NAMES, parse_subscript

    where = f"{path}: access.{access.name}"
    if access.access is None:
        if access.loops:
            raise DseError(f"{where}.loops: found without access, expected them to run in its subscript")
        return None
    counted = "sectors" if access.space == "global" else "passes"
    if getattr(access, counted) is not None:
        raise DseError(f"{where}.{counted}: found beside access, expected one of the two")
    for name in access.loops:
        if name in allowed or not name.isidentifier():
            raise DseError(f"{where}.loops: found {name!r}, expected a name that nothing else has")
    for name in INDEX_NAMES:
        if name in allowed:
            raise DseError(
                f"{where}.access: found a parameter, size or let {name!r}, which it has for threads"
            )
    return parse_subscript(access.access, f"{where}.access", {*allowed, *access.loops})


def _build(path: Path, file: _File, allowed: Collection[str]) -> Build | None:
    """Read how the source is compiled and launched, if the file says so."""
    from dse.kernels.description import ArrayArgument, Build, DescriptorArgument
    from dse.space.expression import Expression, parse

    source = file.source
    if not (source and (source.block or source.grid)):
        return None
    of_triton = Path(source.file).suffix == TRITON
    if of_triton and source.block:
        raise DseError(
            f"{path}: source.block: found it with a Triton kernel, expected num_warps in parameters"
        )
    warps = "32 * num_warps" if "num_warps" in {*file.parameters, *file.problem} else "32 * 4"
    block = [warps] if of_triton else source.block
    for name, given in (("block", block), ("grid", source.grid)):
        if not given:
            raise DseError(f"{path}: source.{name}: found nothing, expected one to three sizes")

    def parsed(field: str, text: Any, *more: str) -> Expression:
        return parse(text, f"{path}: source.{field}", {*allowed, *more})

    def argument(place: int, given: Any) -> Expression | ArrayArgument | DescriptorArgument:
        field = f"arguments.{place}"
        if isinstance(given, _Descriptor):
            if len(given.shape) != len(given.block):
                raise DseError(
                    f"{path}: source.{field}: found {len(given.block)} sizes in block,"
                    f" expected {len(given.shape)}, as in shape"
                )
            shape = [parsed(f"{field}.shape", size) for size in given.shape]
            inner = [
                " * ".join(f"({size.text})" for size in shape[axis + 1 :]) or 1 for axis in range(len(shape))
            ]
            return DescriptorArgument(
                type=given.type,
                shape=tuple(shape),
                strides=tuple(parsed(f"{field}.shape", text) for text in inner),
                block=tuple(parsed(f"{field}.block", size) for size in given.block),
            )
        if not isinstance(given, _Array):
            return parsed(field, given)
        values = given.values
        return ArrayArgument(
            size=parsed(f"{field}.size", given.size),
            type=given.type,
            values=None if values is None else parsed(f"{field}.values", values, "index", "random"),
        )

    names = {name if of_triton else name.upper(): name for name in file.parameters}
    defines = names | source.defines
    return Build(
        kernel=source.kernel,
        defines=tuple((name, parsed(f"defines.{name}", text)) for name, text in defines.items()),
        block=tuple(parsed("block", text) for text in block),
        grid=tuple(parsed("grid", text) for text in source.grid),
        arguments=tuple(argument(place, given) for place, given in enumerate(source.arguments, 1)),
        types=tuple(f"*{given.type}" if isinstance(given, _Array) else "" for given in source.arguments),
    )


def _alias(path: Path, name: str, alias: _Alias, ours: Collection[str]) -> Alias:
    from dse.errors import one_of
    from dse.kernels.description import Alias

    where = f"{path}: spaces.{name}"
    filled: dict[str, str] = {}
    targets = [(f"rename.{column}", target) for column, target in alias.rename.items()]
    for field, target in [*targets, *((f"set.{target}", target) for target in alias.set)]:
        if target not in ours:
            raise DseError(f"{where}.{field}: found {target!r}, {one_of(target, ours)}")
        if target in filled:
            raise DseError(f"{where}.{field}: found {target!r} again, expected it once; see {filled[target]}")
        filled[target] = field
    return Alias(name, tuple(alias.rename.items()), tuple(alias.set.items()))

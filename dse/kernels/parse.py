"""Parse the expressions of a kernel.toml, with the names each may use, into a `Description`."""

import keyword
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dse.core.files import file_below
from dse.core.space.expression import FUNCTIONS, Expression, parse
from dse.core.space.space import Space, values_of
from dse.errors import DseError, check_names, one_of
from dse.kernels import schema
from dse.kernels.build import read_build
from dse.kernels.counts import Alias
from dse.kernels.description import (
    GPU_NAMES,
    LAUNCH_NAMES,
    SHAPE_FIELDS,
    Access,
    Description,
    Expressions,
    PhaseExpressions,
)
from dse.kernels.symbolic.conditions import Condition
from dse.kernels.symbolic.subscript import INDEX_NAMES, SIZE_NAMES, THREAD_NAMES, Subscript, parse_subscript

_ONLY_GLOBAL = ("sectors", "l2_sectors", "dram_sectors", "uncoalesced")


def description(path: Path, file: schema.KernelFile) -> Description:
    """Parse a file, and check everything that does not depend on values.

    **Raises:** DseError, one line with the file, the field, what was found and what is allowed.
    """
    _check_names(path, file)
    ours = set(file.parameters) | set(file.problem)
    let: list[tuple[str, Expression]] = []
    known = ours | set(GPU_NAMES)
    for name, text in file.let.items():
        let += _expressions(path, "let", {name: text}, known)
        known = known | {name}
    in_launch = known | set(LAUNCH_NAMES)
    branches = tuple(_branch(path, branch, in_launch) for branch in file.branch)
    in_warp = in_launch | {branch.name for branch in branches}
    launch = {} if file.launch is None else file.launch.model_dump()
    shape = {name: launch.pop(name, None) for name in SHAPE_FIELDS}
    return Description(
        name=file.name,
        summary=file.summary,
        path=path,
        source=_source(path, file),
        variant_of=file.variant_of or file.name,
        space=_space(path, file, ours),
        problem=tuple(file.problem.items()),
        let=tuple(let),
        launch=_expressions(path, "launch", launch, known),
        warp=_expressions(path, "warp", file.warp.model_dump(), in_warp) if launch else (),
        accesses=tuple(_access(path, file, access, in_warp) for access in file.access),
        branches=branches,
        phases=tuple(_phase(path, phase, in_warp) for phase in file.phase),
        spaces=tuple(_alias(path, name, alias, ours) for name, alias in file.spaces.items()),
        build=read_build(path, file, in_launch),
        shape=_expressions(path, "launch", shape, known),
    )


def _expressions(path: Path, table: str, texts: Mapping[str, Any], allowed: Collection[str]) -> Expressions:
    return tuple(
        (field, parse(text, f"{path}: {table}.{field}", allowed))
        for field, text in texts.items()
        if text is not None
    )


def _check_names(path: Path, file: schema.KernelFile) -> None:
    """Check that the names of parameters, sizes, lets and branches are unique."""
    reserved = (*GPU_NAMES, *LAUNCH_NAMES, *FUNCTIONS)
    taken: dict[str, str] = dict.fromkeys(reserved, "the language of expressions")
    branches = [branch.name for branch in file.branch]
    tables = {"parameters": file.parameters, "problem": file.problem, "let": file.let, "branch": branches}
    for table, new in tables.items():
        for name in new:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise DseError(f"{path}: {table}: found the name {name!r}, expected letters, digits and _")
            if name in taken:
                raise DseError(f"{path}: {table}.{name}: found a name of {taken[name]}, expected another one")
            taken[name] = table


def _space(path: Path, file: schema.KernelFile, ours: Collection[str]) -> Space:
    constraints = enumerate(file.constraints, start=1)
    return Space(
        {name: values_of(spec, f"{path}: parameters.{name}") for name, spec in file.parameters.items()},
        tuple(parse(text, f"{path}: constraints.{i}", ours) for i, text in constraints),
    )


def _source(path: Path, file: schema.KernelFile) -> Path | None:
    """Find the source, in the folder of the description or below."""
    source = None
    if file.source is not None:
        source = file_below(path.parent, file.source.file, f"{path}: source")
    if file.launch is None and not (file.source and file.source.grid):
        raise DseError(f"{path}: launch: found nothing, expected it, or block and grid in source")
    return source


def _branch(path: Path, branch: schema.BranchTable, allowed: Collection[str]) -> Condition:
    where = f"branch.{branch.name}"
    _check_indices(f"{path}: {where}.when", f"{path}: {where}.loops", branch.loops, allowed)
    indices = {*THREAD_NAMES, *SIZE_NAMES, "bx", *branch.loops}
    when = parse(branch.when, f"{path}: {where}.when", {*allowed, *indices})
    return Condition(branch.name, when, _expressions(path, f"{where}.loops", branch.loops, allowed))


def _phase(path: Path, phase: schema.PhaseTable, allowed: Collection[str]) -> PhaseExpressions:
    texts = phase.model_dump(exclude={"name"})
    fields = dict(_expressions(path, f"phase.{phase.name}", texts, allowed))
    passes = fields.pop("passes", None)
    return PhaseExpressions(phase.name, tuple(fields.items()), passes)


def _access(
    path: Path, file: schema.KernelFile, access: schema.AccessTable, allowed: Collection[str]
) -> Access:
    where = f"access.{access.name}"
    fields = access.model_dump(exclude={"name", "space", "op", "access", "loops", "phase"})
    for field in _ONLY_GLOBAL:
        if access.space == "shared" and fields[field] is not None:
            raise DseError(f"{path}: {where}.{field}: found in a shared access, expected in global ones")
    parsed = _expressions(path, where, fields, allowed)
    subscript = _subscript(path, access, allowed)
    phases = [phase.name for phase in file.phase]
    if access.phase and access.phase not in phases:
        raise DseError(f"{path}: {where}.phase: found {access.phase!r}, {one_of(access.phase, phases)}")
    loops = tuple(access.loops)
    return Access(access.name, access.space, access.op, parsed, subscript, loops, access.phase)


def _subscript(path: Path, access: schema.AccessTable, allowed: Collection[str]) -> Subscript | None:
    """Read the element that a thread accesses, which determines sectors and passes."""
    where = f"{path}: access.{access.name}"
    if access.access is None:
        if access.loops:
            raise DseError(f"{where}.loops: found without access, expected them to run in its subscript")
        return None
    counted = "sectors" if access.space == "global" else "passes"
    if getattr(access, counted) is not None:
        raise DseError(f"{where}.{counted}: found beside access, expected one of the two")
    _check_indices(f"{where}.access", f"{where}.loops", access.loops, allowed)
    return parse_subscript(access.access, f"{where}.access", {*allowed, *access.loops})


def _check_indices(where: str, where_loops: str, loops: Collection[str], allowed: Collection[str]) -> None:
    """Check that the names of indices of threads, blocks and loops are unique."""
    for name in loops:
        if name in allowed or name in INDEX_NAMES or not name.isidentifier():
            raise DseError(f"{where_loops}: found {name!r}, expected a name that nothing else has")
    for name in INDEX_NAMES:
        if name in allowed:
            raise DseError(f"{where}: found a parameter, size or let {name!r}, a name reserved for indices")


def _alias(path: Path, name: str, alias: schema.AliasTable, ours: Collection[str]) -> Alias:
    where = f"{path}: spaces.{name}"
    filled: dict[str, str] = {}
    targets = [(f"rename.{column}", target) for column, target in alias.rename.items()]
    for field, target in [*targets, *((f"set.{target}", target) for target in alias.set)]:
        check_names(f"{where}.{field}", ours, target)
        if target in filled:
            raise DseError(f"{where}.{field}: found {target!r} again, expected it once; see {filled[target]}")
        filled[target] = field
    return Alias(name, tuple(alias.rename.items()), tuple(alias.set.items()))

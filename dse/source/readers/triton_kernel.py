"""A Triton kernel as a description: its space, arguments and launch."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dse.core.space.expression import Expression, parse
from dse.core.space.listed import AllowedRows
from dse.core.space.space import Space, holds
from dse.errors import DseError, check_names, one_line
from dse.kernels.counts import Number
from dse.kernels.description import (
    GPU_NAMES,
    UNKNOWN_ARRAY,
    ArrayArgument,
    Build,
    Contents,
    Description,
    DescriptorArgument,
)
from dse.source.nvidia.compile.triton import NONE, OPTIONS, TRUTH, by_rule, canonical, constant, seen
from dse.source.nvidia.compile.triton_function import Function

Argument = Expression | ArrayArgument | Contents | DescriptorArgument | None


@dataclass(frozen=True)
class Stated:
    """Facts of a kernel besides its function."""

    types: Mapping[str, str] = field(default_factory=dict)  # of arguments, in Triton's or NumPy's notation
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    sizes: Mapping[str, Number] = field(default_factory=dict)  # numbers that expressions may name
    values: Mapping[str, Sequence[Number]] = field(default_factory=dict)  # of parameters
    rows: Sequence[Mapping[str, Number]] = ()  # configurations, combined with all of `values`
    constants: Mapping[str, str] = field(default_factory=dict)  # other than numbers, as text
    grid: Sequence[Expression | Callable[..., Any]] = ()
    assumptions: tuple[str, ...] = ()


def describe(jitted: Function, stated: Stated) -> Description:
    """Describe a kernel by its function and the stated facts.

    **Raises:** DseError if a constant or a type is missing, or is not the kernel's.
    """
    constexprs, names = jitted.constexprs, [argument.name for argument in jitted.arguments]
    where = f"{jitted.path}: {jitted.name}"
    check_names("given.signature", [*names, *constexprs], *stated.types)
    check_names("given.arguments", names, *stated.arguments)
    tried = [*stated.rows, *({name: value} for name, values in stated.values.items() for value in values)]
    truths = {name for row in tried for name, value in row.items() if isinstance(value, bool)}
    rows = [{name: _number(value) for name, value in row.items()} for row in stated.rows]
    for row in rows:
        if row.keys() != rows[0].keys():
            raise DseError(f"{where}: configs: found {', '.join(row)}, expected {', '.join(rows[0])} in all")
        for name, first in rows[0].items():
            if isinstance(row[name], int | float) != isinstance(first, int | float):
                mixed = f"found {first!r} and {row[name]!r}"
                raise DseError(f"{where}: configs: {name}: {mixed}, expected numbers in all, or in none")
    tuned: dict[str, Sequence[Number]] = {
        name: sorted({row[name] for row in rows})
        for name in (rows[0] if rows else ())
        if name not in stated.values and name not in stated.constants
    }
    several = tuple(name for name, values in tuned.items() if len(values) > 1)
    listed = [
        AllowedRows(several, tuple(dict.fromkeys(tuple(row[name] for name in several) for row in rows)))
    ]
    tuned |= {name: [_number(value) for value in values] for name, values in stated.values.items()}
    check_names("given.constexprs", [*constexprs, *OPTIONS], *tuned, *stated.constants)
    space: dict[str, Any] = {}
    for name, default in constexprs.items():
        if name in tuned:
            space[name] = tuned[name]
        elif name not in stated.constants and name not in jitted.heuristics:
            if default is inspect.Parameter.empty:
                noted = f"; {stated.assumptions[0]}" if stated.assumptions and not jitted.configs else ""
                raise DseError(
                    f"given.constexprs: {where}: found no value of {name}, expected {name}=V1,V2,...{noted}"
                )
            if is_number(default) and not isinstance(default, bool):
                space[name] = [default]
    absent = {argument.name for argument in jitted.arguments if argument.default is None} - {
        *stated.arguments
    }
    types = tuple(canonical(stated.types.get(name) or (NONE if name in absent else "")) for name in names)
    if all(len(values) == 1 for values in space.values()):
        decided = _of_heuristics(jitted, stated, dict(zip(names, types, strict=True)), space)
        truths |= {name for name, value in decided.items() if isinstance(value, bool)}
        space |= {name: [_number(value)] for name, value in decided.items()}
    for name, default in OPTIONS.items():
        if name not in space and name not in stated.constants and (name in tuned or default is not None):
            space[name] = tuned.get(name, [default])
    allowed = {*space, *stated.sizes, *GPU_NAMES}
    arguments = tuple(
        stated.arguments.get(name, UNKNOWN_ARRAY if kind.startswith("*") else None)
        for name, kind in zip(names, types, strict=True)
    )
    for name, kind, argument in zip(names, types, arguments, strict=True):
        if argument is None and not kind:
            raise DseError(
                f"given.signature: {where}: found no type of {name}, expected one such as *fp16 or i32"
            )
    return Description(
        name=jitted.name,
        path=jitted.path,
        source=jitted.path,
        variant_of=jitted.name,
        space=Space(space, tuple(listed) if several else ()),
        problem=tuple((name, value) for name, value in stated.sizes.items() if name not in space),
        build=Build(
            kernel=jitted.name,
            defines=tuple((name, parse(name, "given.constexprs", allowed)) for name in space),
            block=(parse("32 * num_warps", "given.constexprs", {*allowed, "num_warps"}),),
            grid=tuple(stated.grid),
            arguments=arguments,
            options=(
                *(f"{name}={text}" for name, text in stated.constants.items()),
                *(f"{name}{TRUTH}" for name in sorted(truths & {*space})),
            ),
            types=types,
        ),
        assumptions=stated.assumptions,
    )


def _of_heuristics(
    jitted: Function, stated: Stated, types: Mapping[str, str], space: Mapping[str, Sequence[Number]]
) -> dict[str, Number]:
    """Return the numbers from `triton.heuristics` for the only configuration, which a grid may name."""
    values = {name: seen(name, kind, stated.sizes.get(name)) for name, kind in types.items()}
    values |= {name: constant(text) for name, text in stated.constants.items()}
    values |= {name: allowed[0] for name, allowed in space.items()}
    numbers: dict[str, Number] = {}
    for name, rule in jitted.heuristics.items():
        if name not in values:
            try:
                values[name] = by_rule(rule, values, name)
            except DseError:  # it is evaluated again with all arguments, and then reported
                continue
            if is_number(values[name]):
                numbers[name] = values[name]
    return numbers


def with_configs(jitted: Function, stated: Stated, configs: Sequence[Mapping[str, Any]]) -> Stated:
    """Add the configurations; constants other than numbers must be the same in all."""
    if not configs:
        raise DseError(f"{jitted.path}: {jitted.name}: configs: found none, expected one at least")
    words = {name: value for name, value in configs[0].items() if not is_number(value)}
    for name, value in words.items():
        if any(config.get(name) != value for config in configs):
            raise DseError(
                f"{jitted.path}: {jitted.name}: {name}: found {value!r} among others, expected numbers"
            )
    numbers = [{name: value for name, value in row.items() if name not in words} for row in configs]
    constants = {name: as_text(value) for name, value in words.items()} | dict(stated.constants)
    return replace(stated, rows=numbers, constants=constants)


def of_decorators(jitted: Function, stated: Stated, arguments: Mapping[str, Any]) -> Stated:
    """Add the configurations of `triton.autotune`, if any, pruned by its hook.

    `arguments` are values by name; those of arrays are tensors or replacements. A hook that fails is skipped,
    with a note. Given values replace those of the configurations; if they cover all its constants, the
    configurations too.
    """
    assumptions = (*stated.assumptions, *jitted.notes)
    constants = {name for config in jitted.configs for name in config.kwargs}
    if not jitted.configs or (constants and constants <= {*stated.values, *stated.constants}):
        return replace(stated, assumptions=assumptions)
    try:
        configs = pruned(jitted, arguments)
    except Exception as error:  # of any type: the user's function
        configs, reason = jitted.configs, one_line(f"{type(error).__name__}: {error}")
        assumptions += (f"early_config_prune of {jitted.name} is not asked, since it fails: {reason}",)
    return with_configs(
        jitted, replace(stated, assumptions=assumptions), [settings(config) for config in configs]
    )


def pruned(jitted: Function, arguments: Mapping[str, Any]) -> Sequence[Any]:
    """Return the autotuner's configurations that its hook keeps. **Raises:** what the hook raises."""
    return (
        jitted.configs if jitted.prune is None else list(jitted.prune(list(jitted.configs), dict(arguments)))
    )


def settings(config: Any) -> dict[str, Any]:
    """Return the settings of a `triton.Config`; 0 for no limit of registers."""
    options = {name: getattr(config, name, None) or 0 for name in OPTIONS}
    for name, value in options.items():
        if not isinstance(value, int):
            raise DseError(f"triton.Config: {name}: found {value!r}, expected a whole number")
    return options | config.kwargs


def is_number(value: Any) -> bool:
    """Return whether a constant can be a parameter; others, such as -inf, are passed on as text."""
    return isinstance(value, int | float) and holds(value)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


def as_text(value: Any) -> str:
    """Return a constant other than a number as text for `dse.source.nvidia.compile.triton.read_source`."""
    value = getattr(value, "value", value)  # of a constexpr
    kind = getattr(value, "name", None)  # of a Triton type
    return f"tl.{kind}" if kind and not isinstance(value, str) else repr(value)

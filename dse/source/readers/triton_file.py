"""Triton kernels in a Python file; the caller states the space and the launch."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dse.core.space.expression import parse
from dse.errors import DseError, check_names
from dse.kernels.counts import Number
from dse.kernels.description import GPU_NAMES, Description
from dse.source.nvidia.compile.triton import NONE, OPTIONS, TYPES, canonical, constant, seen
from dse.source.nvidia.compile.triton_function import Function, function
from dse.source.readers.given import Given, refuse
from dse.source.readers.triton_arguments import number_of, placed, sized, stated
from dse.source.readers.triton_kernel import Argument, Stated, describe, of_decorators


def load(path: Path, given: Given) -> Description:
    """Read a kernel of such a file.

    Arrays that are not given have unknown contents. Numbers have the values given for their names, or are
    unstated.

    **Raises:** DseError if the file cannot be imported, has no such kernel, or something is missing.
    """
    refuse(given, ("block", "folders", "shared_bytes"), f"{path}: Triton decides on it")
    jitted = function(path, given.function)
    if not given.grid:
        raise DseError(f"given.grid: found none for {path}, expected X[,Y[,Z]] such as cdiv(M, BLOCK_M)")
    types, fixed = _signature(given.signature, jitted)
    names = [argument.name for argument in jitted.arguments]
    texts = placed(given.arguments, names)
    values: dict[str, Sequence[Number]] = dict(given.tuned)
    values |= {name: (number,) for name, number in fixed.items() if name not in (*values, *names)}
    others = {*values, *OPTIONS, *jitted.constexprs}
    sizes = sized(types, texts, [(name, size) for name, size in given.sizes if name not in others])
    sizes |= {name: number for name, number in fixed.items() if types.get(name) == "constexpr"}
    allowed = {*jitted.constexprs, *OPTIONS, *sizes, *GPU_NAMES}
    arguments: dict[str, Argument] = {}
    for name in names:
        if types.get(name) == "constexpr":
            arguments[name] = parse(fixed[name], "given.signature")
        else:
            types[name], arguments[name] = stated(name, types.get(name, ""), texts, sizes, allowed)
    known = Stated(
        types=types,
        arguments={name: argument for name, argument in arguments.items() if argument is not None},
        sizes=sizes,
        values=values,
        constants=dict(given.defines),
        grid=tuple(parse(size, "given.grid", allowed) for size in given.grid),
    )
    seen_by_hook: dict[str, Any] = {name: constant(text) for name, text in given.defines}
    seen_by_hook |= {name: only for name, (only, *others) in values.items() if not others}
    seen_by_hook |= {name: seen(name, types[name], sizes.get(name)) for name in names}
    return describe(jitted, of_decorators(jitted, known, seen_by_hook))


def _signature(entries: Sequence[str], jitted: Function) -> tuple[dict[str, str], dict[str, Number]]:
    """Place types by name or in order, of all parameters or all except the constants.

    Types in order replace those that a decorator states, types by name some of them.
    Returns types, and numbers that replace types.
    """
    everything = [parameter.name for parameter in jitted.jit.params]
    names = [parameter.name for parameter in jitted.arguments]
    plain = [entry for entry in entries if "=" not in entry]
    named = (
        entry.partition("=") for entry in (*(() if plain else jitted.signature), *entries) if "=" in entry
    )
    placed = {name.strip(): kind for name, _, kind in named}
    left = [name for name in names if name not in placed]
    order = everything if len(plain) == len(everything) else left
    if plain and len(plain) != len(order):
        raise DseError(f"given.signature: found {len(plain)} types, expected {len(left)}: {', '.join(left)}")
    placed |= dict(zip(order, plain, strict=True) if plain else ())
    types, numbers = {}, {}
    for name, text in placed.items():
        check_names("given.signature", everything, name)
        number = number_of(text)
        if number is not None:
            numbers[name] = number
            types |= {name: "constexpr"} if name in names else {}
        elif name in names:
            types[name] = _checked(text.strip(), name)
        elif text.strip() != "constexpr":
            raise DseError(f"given.signature: {name}: found {text.strip()!r}, expected a number")
    return types, numbers


def _checked(text: str, name: str) -> str:
    kind = canonical(text)
    scalar = kind.removeprefix("*").removeprefix("k").partition(":")[0]
    known = {NONE, *TYPES.values(), "u1", "fp8e4b15", "fp8e4b8", "fp8e5b16"}
    if kind.startswith("tensordesc") and re.fullmatch(r"tensordesc<\w+\[[^\]]+\]>", kind.replace(" ", "")):
        return kind.replace(" ", "")
    if scalar not in known:
        raise DseError(
            f"given.signature: {name}: found {text!r}, expected *TYPE, TYPE, tensordesc<TYPE[...]> or a"
            f" number; TYPE is one of {', '.join(sorted(known))}"
        )
    return kind

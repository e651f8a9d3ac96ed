"""Triton kernels in a Python file: the caller says what is tried, and how it is launched."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dse.counts import Number
from dse.cuda.compile.triton import OPTIONS, TYPES, canonical
from dse.cuda.compile.triton_function import Function, function
from dse.errors import DseError
from dse.kernels.description import GPU_NAMES, ArrayArgument, Description, DescriptorArgument
from dse.sources.argument_types import type_of
from dse.sources.given import Given, refuse
from dse.sources.triton_kernel import Argument, Stated, describe, nothing_known_of, of_decorators
from dse.space.expression import Expression, parse


def load(path: Path, given: Given) -> Description:
    """Read a kernel of such a file.

    Arrays that are not given are ones of which nothing is known. Numbers have the values that are given for
    their names, or those are not stated.

    **Raises:** DseError if the file cannot be imported, has no such kernel, or something is missing.
    """
    refuse(given, ("block", "shared_bytes"), f"{path}: Triton decides on it")
    found = function(path, given.function)
    if not given.grid:
        raise DseError(f"given.grid: found none for {path}, expected X[,Y[,Z]] such as cdiv(M, BLOCK_M)")
    types, fixed = _signature(given.signature, found)
    texts = _by_name(given.arguments, found)
    values = {name: values for name, values in given.tuned}
    values |= {name: (number,) for name, number in fixed.items() if name not in values}
    words = dict(given.defines)
    names = [argument.name for argument in found.arguments]
    numbers = {name: _number(text) for name, text in texts.items() if _number(text) is not None}
    plain = {name for name in numbers if not types.get(name, "").startswith(("*", "tensordesc"))}
    sizes: dict[str, Number] = {name: numbers[name] for name in plain}  # type: ignore[misc]
    sizes |= {name: size for name, size in given.sizes if name not in {*values, *OPTIONS, *found.constexprs}}
    allowed = {*found.constexprs, *OPTIONS, *sizes, *GPU_NAMES}
    arguments: dict[str, Argument] = {}
    for name in names:
        where, kind = f"given.arguments: {name}", types.get(name, "")
        if kind == "constexpr":
            arguments[name] = parse(fixed.pop(name), where)
        elif name in sizes:
            arguments[name] = parse(name, where, sizes)
        elif kind.startswith("tensordesc"):
            types[name], arguments[name] = "", _descriptor(kind, texts.get(name), where, allowed)
        elif name in texts or kind.startswith("*"):
            types[name], arguments[name] = _argument(kind, texts.get(name, "?"), where, allowed)
    values = {name: numbers for name, numbers in values.items() if name not in names}
    stated = Stated(
        types=types,
        arguments=arguments,
        sizes=sizes,
        values=values,
        constants=words,
        grid=tuple(parse(size, "given.grid", allowed) for size in given.grid),
    )
    told = {name: sizes.get(name, SimpleNamespace(dtype=types.get(name, ""))) for name in names}
    return describe(found, stated if given.tuned else of_decorators(found, stated, told))


def _signature(entries: Sequence[str], found: Function) -> tuple[dict[str, str], dict[str, Number]]:
    """Place types by name or in order, of all parameters or of all but the constants.

    Returns types, and numbers that stand in the place of types.
    """
    everything = [parameter.name for parameter in found.jit.params]
    names = [parameter.name for parameter in found.arguments]
    plain = [entry for entry in entries if not re.match(r"\s*\w+\s*=", entry)]
    order = everything if len(plain) == len(everything) else names
    if plain and len(plain) != len(order):
        raise DseError(
            f"given.signature: found {len(plain)} types, expected {len(names)}: {', '.join(names)}"
        )
    placed = dict(zip(order, plain, strict=False))
    placed |= {name.strip(): kind for name, _, kind in (entry.partition("=") for entry in entries) if kind}
    types, numbers = {}, {}
    for name, text in placed.items():
        if name not in everything:
            raise DseError(f"given.signature: found {name!r}, expected one of {', '.join(everything)}")
        number = _number(text)
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
    known = {*TYPES.values(), "u1", "fp8e4b15", "fp8e4b8", "fp8e5b16"}
    if kind.startswith("tensordesc") and re.fullmatch(r"tensordesc<\w+\[[^\]]+\]>", kind.replace(" ", "")):
        return kind.replace(" ", "")
    if scalar not in known:
        raise DseError(
            f"given.signature: {name}: found {text!r}, expected *TYPE, TYPE, tensordesc<TYPE[...]> or a number;"
            f" TYPE is one of {', '.join(sorted(known))}"
        )
    return kind


def _by_name(texts: Sequence[str], found: Function) -> dict[str, str]:
    """Place arguments by name or in order."""
    names = [argument.name for argument in found.arguments]
    placed: dict[str, str] = {}
    for text in texts:
        named = re.match(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", text, re.DOTALL)
        left = [name for name in names if name not in placed]
        if named is None and not left:
            raise DseError(f"given.arguments: found {len(texts)} arguments, expected at most {len(names)}")
        name, value = (named[1], named[2]) if named else (left[0], text)
        if name not in names:
            raise DseError(f"given.arguments: found {name!r}, expected one of {', '.join(names)}")
        placed[name] = value.strip()
    return placed


def _number(text: str) -> Number | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _argument(kind: str, text: str, where: str, allowed: Collection[str]) -> tuple[str, Argument]:
    """Read an array, `SIZE[:TYPE[:VALUES]]`, or an expression for a number; `?` is not known."""
    size, *more = (part.strip() for part in text.split(":", 2))
    if text == "?":
        return kind, nothing_known_of(kind) if kind.startswith("*") else None
    if not kind.startswith("*") and not more:
        return kind, parse(text, where, allowed)
    known = type_of(more[0]) if more else None
    name = known[0] if known else TYPES_BACK.get(canonical(more[0])) if more else None
    if more and name is None:
        raise DseError(f"{where}: type: found {more[0]!r}, expected one of {', '.join(TYPES)}")
    values = parse(more[1], f"{where}: values", {*allowed, "index", "random"}) if len(more) > 1 else None
    elements = parse(size, f"{where}: size", allowed)
    return kind or canonical(f"*{more[0]}"), ArrayArgument(elements, name or "uint8", values)


TYPES_BACK = {theirs: ours for ours, theirs in TYPES.items()}


def _descriptor(kind: str, text: str | None, where: str, allowed: Collection[str]) -> DescriptorArgument:
    """Read the shape of a tensor descriptor, `ROWS,COLUMNS`: its rows lie one after the other."""
    element, block = re.fullmatch(r"tensordesc<(\w+)\[(.+)\]>", kind).groups()  # type: ignore[union-attr]
    blocks = [parse(size, "given.signature", allowed) for size in _split(block)]
    shape = [parse(size, where, allowed) for size in _split(text)] if text else []
    if len(shape) != len(blocks):
        raise DseError(f"{where}: found {text or 'none'!r}, expected the {len(blocks)} sizes of its array: M,K")
    return descriptor(element, shape, blocks, where)


def descriptor(
    element: str, shape: Sequence[Expression], block: Sequence[Expression], where: str
) -> DescriptorArgument:
    """Return a descriptor of an array whose rows lie one after the other."""
    strides = [
        parse(" * ".join(f"({size.text})" for size in shape[axis + 1 :]) or 1, where)
        for axis in range(len(shape))
    ]
    return DescriptorArgument(canonical(element), tuple(shape), tuple(strides), tuple(block))


def _split(text: str) -> list[str]:
    """Split at commas that stand in no parentheses."""
    return [part.strip() for part in re.split(r",(?![^(]*\))", text)]

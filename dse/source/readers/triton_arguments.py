"""Arguments of a Triton kernel from a command line."""

import re
from collections.abc import Collection, Mapping, Sequence

from dse.core.commas import split
from dse.core.space.expression import parse
from dse.errors import DseError, check_names
from dse.kernels.counts import Number
from dse.kernels.description import UNKNOWN_ARRAY, ArrayArgument, DescriptorArgument, row_major
from dse.source.nvidia.compile.argument_types import type_of
from dse.source.nvidia.compile.triton import TYPES, canonical, numpy_type
from dse.source.readers.triton_kernel import Argument


def placed(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Place arguments by name or in order. **Raises:** DseError for too many, or an unknown name."""
    by_name: dict[str, str] = {}
    for text in texts:
        named = re.match(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", text, re.DOTALL)
        left = [name for name in names if name not in by_name]
        if named is None and not left:
            raise DseError(f"given.arguments: found {len(texts)} arguments, expected at most {len(names)}")
        name, value = (named[1], named[2]) if named else (left[0], text)
        check_names("given.arguments", names, name)
        by_name[name] = value.strip()
    return by_name


def sized(
    types: Mapping[str, str], texts: Mapping[str, str], sizes: Sequence[tuple[str, Number]]
) -> dict[str, Number]:
    """Return numbers by name: arguments that are no arrays, and further given ones."""
    numbers = {name: number_of(text) for name, text in texts.items()}
    plain = {
        name: number
        for name, number in numbers.items()
        if number is not None and not types.get(name, "").startswith(("*", "tensordesc"))
    }
    return plain | dict(sizes)


def stated(
    name: str, kind: str, texts: Mapping[str, str], sizes: Mapping[str, Number], allowed: Collection[str]
) -> tuple[str, Argument]:
    """Return an argument's type, "" if its value determines it, and its statement."""
    where = f"given.arguments: {name}"
    if name in sizes:
        return kind, parse(name, where, sizes)
    if kind.startswith("tensordesc"):
        return "", _descriptor(kind, texts.get(name), where, allowed)
    if name in texts or kind.startswith("*"):
        return _array(kind, texts.get(name, "?"), where, allowed)
    return kind, None


def number_of(text: str) -> Number | None:
    """Parse a number, or return None."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _array(kind: str, text: str, where: str, allowed: Collection[str]) -> tuple[str, Argument]:
    """Parse `SIZE[:TYPE[:VALUES]]`, or an expression for a number; `?` is unknown."""
    size, *more = (part.strip() for part in text.split(":", 2))
    if text == "?":
        return kind, UNKNOWN_ARRAY if kind.startswith("*") else None
    if not kind.startswith("*") and not more:
        return kind, parse(text, where, allowed)
    name = "uint8"
    if more:
        known = type_of(more[0])
        name = known[0] if known else _NUMPY.get(canonical(more[0]), "")
        if not name:
            raise DseError(f"{where}: type: found {more[0]!r}, expected one of {', '.join(TYPES)}")
    wanted = numpy_type(kind) if kind else name
    if more and "int" in wanted and wanted.removeprefix("u") != name.removeprefix("u"):
        raise DseError(f"{where}: type: found {more[0]!r}, expected {wanted}, as the signature has it")
    values = parse(more[1], f"{where}: values", {*allowed, "index", "random"}) if len(more) > 1 else None
    return kind or canonical(f"*{name}"), ArrayArgument(parse(size, f"{where}: size", allowed), name, values)


def _descriptor(kind: str, text: str | None, where: str, allowed: Collection[str]) -> DescriptorArgument:
    """Parse the shape of a tensor descriptor, `ROWS,COLUMNS`, in row-major order."""
    match = re.fullmatch(r"tensordesc<(\w+)\[(.+)\]>", kind)
    if match is None:
        raise DseError(f"given.signature: found {kind!r}, expected one such as tensordesc<fp16[64, 64]>")
    element, block = match.groups()
    blocks = [parse(size, "given.signature", allowed) for size in split(block, "()[]")]
    shape = [parse(size, where, allowed) for size in split(text, "()[]")] if text else []
    if len(shape) != len(blocks):
        raise DseError(f"{where}: found {text or 'none'}, expected the {len(blocks)} sizes of its array: M,K")
    return DescriptorArgument(canonical(element), tuple(shape), row_major(shape, where), tuple(blocks))


_NUMPY = {theirs: ours for ours, theirs in TYPES.items()}

"""The kernels that a file declares, and their parameters, without compiling it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dse.source.nvidia.compile.kernel_names import KERNEL, chosen, declared_in, names, plain
from dse.source.nvidia.compile.nvrtc import CudaSource
from dse.source.nvidia.sass import elf, listing


@dataclass(frozen=True)
class Declared:
    """A parameter of a kernel, as its source has it."""

    name: str  # "" if the source has none
    pointer: bool  # to an array; else a number or a structure
    floating: bool = False  # a number with a fraction
    whole: bool = False  # a whole number, by the name of its type
    kind: str = ""  # the type of a number, or of an array's elements, as in the source
    sets: bool = False  # whether it is a variable with an initial value
    members: tuple["Declared", ...] = ()  # of a structure, as far as the source has it


def kernels_in(source: CudaSource) -> list[str]:
    """List the kernels of a file; of a CUDA file all that its text declares, regardless of macros."""
    if cubin := source.cubin:
        return list(elf.read(cubin, source.path))
    if Path(source.path).suffix == ".sass":
        return [code.kernel for code in listing.parse(source.text, source.path)]
    if Path(source.path).suffix == ".ptx":
        return _ENTRY.findall(source.text)
    return declared_in(*source.texts)


def parameters_of(source: CudaSource) -> tuple[Declared, ...] | None:
    """Return the parameters of the source's kernel, or of its only one; None if they are not found.

    Declarations by macros are not seen. Parameters of PTX and cubins with 8 bytes count as pointers.

    **Raises:** DseError if a cubin lacks the kernel, or has several and none is named.
    """
    if cubin := source.cubin:
        binary = chosen(elf.read(cubin, source.path), source.path, source.kernel)
        return tuple(Declared("", parameter.size == 8) for parameter in binary.parameters)
    if Path(source.path).suffix == ".sass":
        return None
    built = Path(source.path).suffix == ".ptx"
    pattern = _ENTRY if built else KERNEL
    places = ((text, match) for text in map(plain, source.texts) for match in pattern.finditer(text))
    for text, match in places:
        if not source.kernel or names(source.kernel, match[1]):
            declarations = _in_brackets(text, text.find("(", match.end(1)) + 1)
            break
    else:
        return None
    if built:
        return tuple(
            Declared(
                declaration.split()[-1], bool(re.search(r"\.[bsu]64\b", declaration)), ".f" in declaration
            )
            for declaration in declarations
        )
    parameters = [_declared(declaration) for declaration in declarations if declaration != "void"]
    return tuple(
        parameter if parameter.pointer else replace(parameter, members=_members(parameter.kind, source.texts))
        for parameter in parameters
        if parameter is not None
    )


def _declared(declaration: str) -> Declared | None:
    words = re.findall(r"\w+", declaration.split("=")[0].split("[")[0])
    if not words:
        return None
    kind = [word for word in words[:-1] if word not in _QUALIFIERS]
    floating, whole = (any(map(pattern.fullmatch, kind)) for pattern in (_FLOATING, _WHOLE))
    pointer = "*" in declaration or "[" in declaration
    return Declared(words[-1], pointer, floating, whole, " ".join(kind))


def _members(kind: str, texts: Sequence[str]) -> tuple[Declared, ...]:
    """Return the members of a structure in the texts, up to its first function; of an alias, its type."""
    for text, word in product(map(plain, texts), kind.split()):
        alias = rf"\busing\s+{word}\s*=([^;]+);|\btypedef\s([^;{{}}]+)\b{word}\s*;"
        body = rf"\bstruct\s+{word}\s*{{([^(){{}}]*)|\btypedef\s+struct\s*\w*\s*{{([^(){{}}]*)}}\s*{word}\s*;"
        if match := re.search(alias, text):
            of = _declared(f"{match[1] or match[2]} {word}")
            return () if of is None else _members(of.kind, texts) or (of,)
        if match := re.search(body, text):
            lines = (line.split(",") for line in (match[1] or match[2] or "").split(";")[:-1])
            firsts = [(_declared(first), others) for first, *others in lines]
            return tuple(
                replace(member, name=name.strip())
                for member, others in firsts
                if member is not None
                for name in (member.name, *others)
            )
    return ()


def variables_of(source: Any) -> dict[str, Declared]:
    """Return the `__constant__` and `__device__` variables of CUDA's sources, by name."""
    texts = map(plain, getattr(source, "texts", ()))
    variables = (match for text in texts for match in _VARIABLE.finditer(text))
    return {
        name: Declared(
            name, False, whole=any(map(_WHOLE.fullmatch, kind.split())), kind=kind, sets=bool(sets)
        )
        for kind, name, sets in (match.groups() for match in variables)
    }


def zeros_of(source: Any) -> tuple[tuple[str, str], ...]:
    """Return the variables with an initial value, which is 0 if the code states no other: (name, "")."""
    return tuple((name, "") for name, variable in variables_of(source).items() if variable.sets)


def _in_brackets(text: str, start: int) -> list[str]:
    """Split at commas, up to the bracket that closes the one before `start`."""
    parts, depth, begun = [], 0, start
    for position in range(start, len(text)):
        letter = text[position]
        if letter in "([{<":
            depth += 1
        elif letter in ")]}>" and depth:
            depth -= 1
        elif letter == ")" or (letter == "," and not depth):
            parts.append(text[begun:position])
            begun = position + 1
            if letter == ")":
                break
    return [part.strip() for part in parts if part.strip()]


_FLOATING = re.compile(r"(float|double)[1-4]?")
_WHOLE = re.compile(r"(u?int|u?char|u?short|u?long|u?longlong)[1-4]?|unsigned|size_t|u?int\d+_t|bool")
_VARIABLE = re.compile(
    r"__(?:constant|device)__\s+(?:(?:static|const|volatile)\s+)*((?:\w+\s+)*?\w+)\s+(\w+)\s*(?:\[[^\]]*\]\s*)*(?:([={])|;)"
)
_QUALIFIERS = {
    "const",
    "volatile",
    "struct",
    "typename",
    "restrict",
    "__restrict",
    "__restrict__",
    "__grid_constant__",
}
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")

"""The kernels that a file declares, and their parameters, without compiling it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dse.core.commas import split
from dse.source.nvidia.compile.argument_types import kind_of
from dse.source.nvidia.compile.host_code import closed
from dse.source.nvidia.compile.kernel_names import KERNEL, chosen, declarations, declared_in, names, plain
from dse.source.nvidia.compile.nvrtc import CudaSource
from dse.source.nvidia.compile.preprocess import preprocessed
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
    members: tuple["Declared", ...] = ()  # of a structure, where the sizes of all are known


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

    Kernels declared by macros with arguments are not seen. Parameters of PTX and cubins with 8 bytes count as
    pointers. Of several declarations the preprocessor tells which one holds, with the source's options.

    **Raises:** DseError if a cubin lacks the kernel, or has several and none is named.
    """
    if cubin := source.cubin:
        binary = chosen(elf.read(cubin, source.path), source.path, source.kernel)
        return tuple(Declared("", parameter.size == 8) for parameter in binary.parameters)
    if Path(source.path).suffix == ".sass":
        return None
    built = Path(source.path).suffix == ".ptx"
    stated = _stated(source, source.texts, _ENTRY if built else KERNEL)
    if not built and (len({tuple(map(_last_word, list_)) for list_ in stated}) > 1 or _of_macro(stated)):
        stated = _stated(source, [preprocessed(source)], KERNEL) or stated
    if not stated:
        return None
    if built:
        return tuple(
            Declared(
                declaration.split()[-1], bool(re.search(r"\.[bsu]64\b", declaration)), ".f" in declaration
            )
            for declaration in stated[0]
        )
    parameters = [_declared(declaration) for declaration in stated[0] if declaration != "void"]
    texts = [*map(plain, source.texts)]
    return tuple(_completed(parameter, texts) for parameter in parameters if parameter is not None)


def _stated(source: CudaSource, texts: Sequence[str], pattern: re.Pattern[str]) -> list[list[str]]:
    """Return the list of parameters of each declaration of the source's kernel, or of the first kernel."""
    lists, kernel = [], source.kernel
    for text in declarations(*texts):
        for match in pattern.finditer(text):
            kernel = kernel or match[1]
            if names(kernel, match[1]):
                start = text.find("(", match.end(1)) + 1
                parts = split(text[start : closed(text, start, len(text), ")")], "()[]{}<>")
                lists.append(list(filter(None, map(str.strip, parts))))
    return lists


def _last_word(declaration: str) -> str:
    return "".join(re.findall(r"\w+", declaration.split("=")[0].split("[")[0])[-1:])


def _of_macro(lists: Sequence[Sequence[str]]) -> bool:
    """Return whether a parameter is one word that is no type: the name of a macro."""
    words = {declaration for list_ in lists for declaration in list_ if declaration.isidentifier()}
    return any(word != "void" and kind_of(word) is None for word in words)


def with_members(parameters: Sequence[Declared]) -> tuple[Declared, ...]:
    """Return parameters, and after them the members of structures as arguments of their own, `shape.rows`."""
    return (*parameters, *(part for parameter in parameters for part, _, _ in parts_of(parameter)[0]))


def parts_of(parameter: Declared) -> tuple[list[tuple[Declared, int, int]], int, int]:
    """Return the members of a structure, each with offset and bytes; its bytes, and its alignment.

    Of another type there are no members, and no bytes if it is not known.
    """
    if not parameter.members:
        kind, count = (np.uint64, 1) if parameter.pointer else kind_of(parameter.kind) or (np.uint8, 0)
        size = np.dtype(kind).itemsize
        return [], size * count, size if count % 2 else min(size * count, 16) or 1
    parts, end, alignment = list[tuple[Declared, int, int]](), 0, 1
    for member in parameter.members:
        inner, size, own = parts_of(member)
        end += -end % own
        for part, at, bytes_ in inner or [(member, 0, size)]:
            name = ".".join(filter(None, (parameter.name, part.name)))  # a base has none
            parts.append((replace(part, name=name), end + at, bytes_))
        end, alignment = end + size, max(alignment, own)
    return parts, end + -end % alignment, alignment


def _declared(declaration: str) -> Declared | None:
    words = re.findall(r"\w+", declaration.split("=")[0].split("[")[0])
    if not words:
        return None
    kind = [word for word in words[:-1] if word not in _QUALIFIERS]
    floating, whole = (any(map(pattern.fullmatch, kind)) for pattern in (_FLOATING, _WHOLE))
    depth = declaration.count("*") + ("[" in declaration and "(" not in declaration)  # one of rows is flat
    stars = "*" * (depth - 1)  # elements are pointers themselves
    return Declared(
        words[-1], depth > 0, floating and not stars, whole or bool(stars), " ".join(kind) + stars
    )


def _completed(parameter: Declared, texts: Sequence[str], depth: int = 8) -> Declared:
    """Return a parameter with the type that an alias stands for, or with the members of a structure."""
    if tensor := _ACCESSOR.search(parameter.kind):
        return replace(parameter, members=(*_of_tensor(*tensor.groups()),))
    for text, word in product(texts, parameter.kind.split() if depth and not parameter.pointer else ()):
        alias = rf"\busing\s+{word}\s*=([^;]+);|\btypedef\s([^;{{}}]+)\b{word}\s*;|#\s*define\s+{word}\b(.+)"
        bases = r"(?:final\s*)?(?::\s*(?:public\s)?([\w\s]+))?"
        plain_c = rf"\btypedef\s+struct\s*\w*\s*{{(?=[^{{}}]*}}\s*{word}\s*;)"
        body = rf"\bstruct\s+{word}\s*{bases}{{|{plain_c}"
        if match := re.search(alias, text):
            of = _declared(f"{match[1] or match[2] or match[3]} {parameter.name}")
            return parameter if of is None else _completed(of, texts, depth - 1)
        if match := re.search(body, text):
            declared = [Declared("", False, kind=match[1])] if match[1] else []
            declared += _in_body(text[match.end() :])
            members = [_completed(member, texts, depth - 1) for member in declared]
            known = all(parts_of(member)[1] for member in members)
            return replace(parameter, members=tuple(members) if known else ())
    return parameter


def _of_tensor(bits: str | None, kind: str, dimensions: str) -> Iterator[Declared]:
    """Yield the members of PyTorch's accessors of tensors."""
    yield from filter(None, [_declared(f"{kind} *data_")])
    for name, dimension in product(("sizes_", "strides_"), range(int(dimensions))):
        yield Declared(f"{name}[{dimension}]", False, whole=True, kind="int" if bits == "32" else "long")


def _in_body(text: str) -> Iterator[Declared]:
    """Yield the variables of a structure whose body begins the text, each element of an array.

    What is not understood has no type.
    """
    for pattern, left in ((r"\{[^{}]*\}", ";"), (r"\((?!\s*\*)[^()]*\)", " (")):
        while pattern != (text := re.sub(pattern, left, text)) and re.search(pattern, text):
            pass
    for line in re.sub(r"\b(public|private|protected)\s*:", "", text.split("}")[0]).split(";"):
        first, *others = (part.split("=")[0] for part in line.split(","))
        if not first.strip() or _NO_VARIABLE.match(line):
            continue
        of = re.match(r"([^(]*?)[\s*]*\b\w+\s*(\[.*)?$", first, re.DOTALL)
        if "(" in first and not re.match(r"\s*(alignas|__align__|[^(]*\(\s*\*)", first):
            continue  # a function
        for declaration in (first, *(f"{of[1] if of else ''} {other}" for other in others)):
            variable, sizes = _declared(declaration.split("[")[0]), re.findall(r"\[([^\]]*)", declaration)
            if of is None or variable is None or not all(size.strip().isdigit() for size in sizes):
                yield Declared("", False)
                continue
            for index in np.ndindex(*map(int, sizes)):
                yield replace(variable, name=variable.name + "".join(f"[{number}]" for number in index))


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


_NO_VARIABLE = re.compile(r"\s*(using|typedef|static|struct\s+\w+\s*$|enum|friend|template)\b")
_ACCESSOR = re.compile(r"\bPackedTensorAccessor(32|64)? (.+?) (\d+)\b")
_FLOATING = re.compile(r"(float|double)[1-4]?")
_WHOLE = re.compile(r"(u?int|u?char|u?short|u?long|u?longlong)[1-4]?|unsigned|size_t|u?int\d+_t|bool")
_VARIABLE = re.compile(
    r"__(?:constant|device)__\s+(?:(?:static|const|volatile)\s+)*((?:\w+\s+)*?\w+)\s+(\w+)\s*(?:\[[^\]]*\]\s*)*(?:([={])|;)"
)
_QUALIFIERS = {
    *("const", "volatile", "struct", "typename"),
    *("restrict", "__restrict", "__restrict__", "__grid_constant__"),
}
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")

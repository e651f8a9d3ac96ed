"""The kernels that a file declares, and the choice of one by name."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from dse.errors import DseError

Kernel = TypeVar("Kernel")


def chosen(kernels: Mapping[str, Kernel], where: str, kernel: str) -> Kernel:
    """Choose the kernel by its name, mangled or not; the only one if there is no name."""
    if not kernel and len(kernels) == 1:
        return next(iter(kernels.values()))
    named = [name for name in kernels if name == kernel] or [
        name for name in kernels if kernel and names(name, kernel)
    ]
    if len(named) == 1:
        return kernels[named[0]]
    raise no_kernel(where, kernel, list(kernels))


def no_kernel(where: str, kernel: str, found: Sequence[str]) -> DseError:
    """Return the error for a file that lacks a kernel, or has several of which none was chosen."""
    if kernel in found:
        return DseError(f"{where}: kernel: found {kernel} without template arguments, expected {kernel}<...>")
    if "<" in kernel and (plain_name := _plain(kernel)) in found:
        every = f"every template argument of {plain_name}, also those that a call leaves out"
        return DseError(f"{where}: kernel: found {kernel}, expected {every}")
    stated = f"no {kernel}" if kernel else "several" if found else "none"
    expected = f"one of {', '.join(found)}" if found else "a __global__ function (of a template: f<4>)"
    return DseError(f"{where}: kernel: found {stated}, expected {expected}")


def names(wanted: str, kernel: str) -> bool:
    """Return whether a name, an expression or a mangled name refers to a kernel of such a name."""
    declared = _plain(kernel)
    return _plain(wanted) == declared or (wanted.startswith("_Z") and f"{len(declared)}{declared}" in wanted)


def _plain(name: str) -> str:
    """Remove namespaces and template arguments."""
    return re.sub(r"<.*", "", name, flags=re.DOTALL).split("::")[-1].strip()


def opened(code: str, kernel: str) -> str:
    """Return directives that open the namespaces of a kernel, unless it is in none or they are stated.

    `code` is without comments and lines of the preprocessor.
    """
    inside, scopes = [], set()
    for match in _BLOCK.finditer(code):
        if match[0] == "}":
            inside = inside[:-1]
        elif match[0] != "__global__":
            inside = [*inside, match[1] or ""]
        elif (declared := KERNEL.match(code, match.start())) and declared[1] == _plain(kernel):
            scopes.add("::".join(filter(None, inside)))
    stated = "::" in kernel.partition("<")[0] or "" in scopes
    return "" if stated else "".join(f"using namespace {scope};\n" for scope in sorted(scopes))


def declared_in(text: str, *headers: str) -> list[str]:
    """List the kernels that CUDA code declares or, if there are none, its headers."""
    own, *others = (list(dict.fromkeys(KERNEL.findall(code))) for code in declarations(text, *headers))
    return own or [kernel for kernels in others for kernel in kernels]


def declarations(*texts: str) -> list[str]:
    """Remove what `plain` does and the preprocessor's lines; macros that say `__global__` become it."""
    stated = "|".join(name for text in texts for name in _SAYS_KERNEL.findall(text))
    codes = (_DIRECTIVE.sub("", plain(text)) for text in texts)
    return [re.sub(rf"\b(?:{stated})\b", "__global__", code) if stated else code for code in codes]


def plain(text: str) -> str:
    """Remove comments, and annotations of functions with brackets."""
    return _ANNOTATION.sub(" ", COMMENT.sub(" ", text))


_BLOCK = re.compile(r"\bnamespace\s+([\w:]*)\s*\{|[{}]|\b__global__\b")
COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)  # one without an end, to the end of the text
_ANNOTATION = re.compile(
    r"\b(?:__(?:launch_bounds|cluster_dims|maxnreg|block_size|attribute|align)__|C10_LAUNCH_BOUNDS_\d)\s*"
    r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_SAYS_KERNEL = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t][^\n]*\b__global__\b", re.MULTILINE)
KERNEL = re.compile(r"__global__(?:(?!__global__)[^;{])*?\b(\w+)\s*\((?![^()]*\)\s*\w+\s*\()")

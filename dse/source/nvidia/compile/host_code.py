"""CUDA files as they ship, with code for the host beside the kernels: NVRTC compiles for the device alone.

Functions without `__device__` or `__global__`, and declarations that need the host's libraries, are blanked
out, line by line; headers of the host have stand-ins, of what device code takes from them.
"""

import re
from bisect import bisect
from collections.abc import Iterator

_INTEGERS = "".join(
    f"typedef {sign}{name} {prefix}int{bits}_t;"
    for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign, prefix in (("signed ", ""), ("unsigned ", "u"))
)
_LIMITS = """
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
"""
_FLOATS = """
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-7f
#define DBL_MAX 1.7976931348623157e+308
"""
_CHOICES = """
#define DSE_BOTH template <class T> __host__ __device__ constexpr
namespace std {
DSE_BOTH const T& min(const T& a, const T& b) { return b < a ? b : a; }
DSE_BOTH const T& max(const T& a, const T& b) { return a < b ? b : a; }
DSE_BOTH void swap(T& a, T& b) { T c = a; a = b; b = c; }
}
"""
_TEXTS = {  # of headers that device code takes something from, by their names in C++; the others are empty
    "cassert": "#undef assert\n#define assert(condition) ((condition) ? (void)0 : __trap())\n",
    "cstdint": _INTEGERS,
    "climits": _LIMITS,
    "cfloat": _FLOATS,
    "algorithm": _CHOICES,
}
_OF_C = (
    *("assert", "ctype", "errno", "float", "inttypes", "limits", "locale", "math", "setjmp", "signal"),
    *("stddef", "stdint", "stdio", "stdlib", "string", "time"),
)
_OF_CPP = (
    *("algorithm", "any", "array", "atomic", "bitset", "chrono", "complex", "condition_variable", "deque"),
    *("exception", "execution", "filesystem", "forward_list", "fstream", "functional", "future", "iomanip"),
    *("initializer_list", "ios", "iosfwd", "iostream", "istream", "iterator", "limits", "list", "map"),
    *("memory", "mutex", "new", "numeric", "optional", "ostream", "queue", "random", "ratio", "regex", "set"),
    *("sstream", "stack", "stdexcept", "string", "string_view", "system_error", "thread", "tuple"),
    *(
        "type_traits",
        "typeinfo",
        "unordered_map",
        "unordered_set",
        "utility",
        "valarray",
        "variant",
        "vector",
    ),
)
_LIBRARIES = re.compile(  # of the host: its system's, CUDA's, PyTorch's
    r"(unistd|omp|mpi|getopt|helper_\w+|cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|driver_types"
    r"|cuda_profiler_api|cublas\w*|cudnn\w*|cusparse\w*|cusolver\w*|cufft\w*|curand|nvToolsExt)\.h"
    r"|(sys|torch|ATen|c10|pybind11|boost|gtest|benchmark|nvtx3)/.*"
)


def stand_in(header: str) -> str | None:
    """Return what device code takes from a header of the host; None if it is none of those known."""
    plain = (
        f"c{header.removesuffix('.h')}" if header.removesuffix(".h") in _OF_C and "." in header else header
    )
    known = plain in _OF_CPP or plain.removeprefix("c") in _OF_C or _LIBRARIES.fullmatch(header)
    return f"#pragma once\nnamespace std {{}}\n{_TEXTS.get(plain, '')}" if known else None


def without_host(*texts: str) -> list[str]:
    """Blank out what only the host compiles, of a file and its headers.

    Lines keep their numbers, and the preprocessor's stay.
    """
    macros = [macro for text in texts for macro in _device_macros(text)]
    device = re.compile(rf"\b({'|'.join((*_OF_DEVICE, *macros))})\b")
    return [_without_host(text, device) for text in texts]


def _without_host(text: str, device: re.Pattern[str]) -> str:
    code = _MASKED.sub(lambda match: _blank(match[0]), text)
    kept = [(match.start(), match.end()) for match in _DIRECTIVE.finditer(text)]
    pieces, begun = [], 0
    for start, end in _host_spans(code, 0, len(code), device):
        pieces.append(text[begun:start])
        at = start
        for first, last in kept[bisect(kept, (start, 0)) :]:
            if last > end:
                break
            pieces += [_blank(text[at:first]), text[first:last]]
            at = last
        pieces.append(_blank(text[at:end]))
        begun = end
    return "".join([*pieces, text[begun:]])


def _host_spans(code: str, start: int, end: int, device: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield where declarations of a namespace stand that are of the host."""
    while start < end:
        stop = _closed(code, start, end, ";{")
        head = code[start:stop]
        if stop < end and code[stop] == "{":
            close = _closed(code, stop + 1, end, "}")
            if _SCOPE.search(head):
                yield from _host_spans(code, stop + 1, close, device)
                start = close + 1
                continue
            function = "(" in head and not _TYPE.match(head) and "=" not in _TEMPLATE.sub("", head)
            stop = close if function else _closed(code, close + 1, end, ";")
        whole = code[start : stop + 1]
        called = "(" in head and "=" not in head and not _TYPE.match(head)
        if not device.search(whole if _TYPE.match(head) else head) and (called or _HOST_ONLY.search(whole)):
            yield start + len(head) - len(head.lstrip()), min(stop + 1, end)
        start = stop + 1


def _closed(code: str, start: int, end: int, wanted: str) -> int:
    """Return the place of the first of some characters outside of brackets; the end if there is none."""
    depth = 0
    for bracket in _BRACKET.finditer(code, start, end):
        letter = bracket[0]
        if not depth and letter in wanted:
            return bracket.start()
        depth += (letter in "({[") - (letter in ")}]")
    return end


def _device_macros(text: str) -> list[str]:
    return [macro[1] for macro in _MACRO.finditer(text) if re.search(r"__(device|global)__", macro[2])]


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


_OF_DEVICE = ("__device__", "__global__", "__constant__", "__shared__", "constexpr")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_MASKED = re.compile(  # comments, strings, characters and directives
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)+\''
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.DOTALL | re.MULTILINE,
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE | re.DOTALL)
_BRACKET = re.compile(r"[(){}\[\];]")
_SCOPE = re.compile(r"(^|\s)(namespace\b[^()=;]*|extern\s*)$")
_TEMPLATE = re.compile(r"\btemplate\s*<[^{}]*?>(?=\s*[\w_])")
_TYPE = re.compile(r"\s*(?:template\s*<[^{}]*?>\s*)*(?:typedef\s+)?(?:struct|class|union|enum)\b")
_HOST_ONLY = re.compile(
    r"\bstd::|\bcu(?:da|blas|rand|sparse|dnn|solver|fft)[A-Z]\w*|\bFILE\b|\b(?:at|torch|c10)::"
)

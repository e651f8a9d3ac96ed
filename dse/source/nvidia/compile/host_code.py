"""Remove code for the host from CUDA files, since NVRTC compiles for the device only.

Functions without `__device__` or `__global__`, and declarations that need the host's libraries, are blanked
out, line by line; headers of the host are replaced by the parts that device code needs.
"""

import math
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_STD, _TORCH = (Path(__file__).with_name(f"{name}.h") for name in ("std", "torch"))
_INTEGERS = {
    f"{prefix}int{bits}_t": f"{sign}{name}"
    for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign, prefix in (("signed ", ""), ("unsigned ", "u"))
}
_STATED = {  # what headers that are installed need of those of the host
    "cassert": "#undef assert\n#ifdef __HIP__  // where __trap may be a macro\n"
    "#define assert(condition) ((condition) ? (void)0 : __builtin_trap())\n#else\n"
    "#define assert(condition) ((condition) ? (void)0 : __trap())\n#endif\n",
    "cstdint": "".join(f"typedef {kind} {name};\n" for name, kind in _INTEGERS.items()),
}
_TYPES = _INTEGERS | {
    "intptr_t": "long long",
    "uintptr_t": "unsigned long long",
    "ssize_t": "long",
    "ulong": "unsigned long",
}
_VALUES = {  # macros of limits.h, float.h, stdint.h and math.h
    **{f"INT{bits}_MAX": str(2 ** (bits - 1) - 1) for bits in (8, 16, 32)},
    **{f"INT{bits}_MIN": f"(-{2 ** (bits - 1) - 1} - 1)" for bits in (8, 16, 32)},
    **{f"UINT{bits}_MAX": f"{2**bits - 1}" for bits in (8, 16)},
    **dict.fromkeys(("UINT32_MAX", "UINT_MAX"), "4294967295u"),
    **dict.fromkeys(("INT64_MAX", "LLONG_MAX"), "9223372036854775807ll"),
    **dict.fromkeys(("INT64_MIN", "LLONG_MIN"), "(-9223372036854775807ll - 1)"),
    **dict.fromkeys(("UINT64_MAX", "ULLONG_MAX"), "18446744073709551615ull"),
    **dict.fromkeys(("SIZE_MAX", "ULONG_MAX"), "18446744073709551615ul"),
    "LONG_MAX": "9223372036854775807l",
    "LONG_MIN": "(-9223372036854775807l - 1)",
    "INT_MAX": "2147483647",
    "INT_MIN": "(-2147483647 - 1)",
    "CHAR_BIT": "8",
    "CHAR_MAX": "127",
    "SCHAR_MAX": "127",
    "UCHAR_MAX": "255",
    "SHRT_MAX": "32767",
    "USHRT_MAX": "65535",
    "FLT_MAX": "3.402823466e+38f",
    "FLT_MIN": "1.175494351e-38f",
    "FLT_EPSILON": "1.192092896e-7f",
    "DBL_MAX": "1.7976931348623157e+308",
    "DBL_MIN": "2.2250738585072014e-308",
    "DBL_EPSILON": "2.2204460492503131e-16",
    **dict.fromkeys(("INFINITY", "HUGE_VALF"), "__builtin_bit_cast(float, 0x7f800000)"),
    "HUGE_VAL": "__builtin_bit_cast(double, 0x7ff0000000000000)",
    "NAN": "__builtin_bit_cast(float, 0x7fc00000)",
    "RAND_MAX": "2147483647",
    "EXIT_SUCCESS": "0",
    "EXIT_FAILURE": "1",
    **{
        f"M_{name}": repr(value)
        for name, value in (
            *(("E", math.e), ("LOG2E", 1 / math.log(2)), ("LOG10E", 1 / math.log(10)), ("LN2", math.log(2))),
            *(("LN10", math.log(10)), ("PI", math.pi), ("PI_2", math.pi / 2), ("PI_4", math.pi / 4)),
            *(("1_PI", 1 / math.pi), ("2_PI", 2 / math.pi), ("2_SQRTPI", 2 / math.sqrt(math.pi))),
            *(("SQRT2", math.sqrt(2)), ("SQRT1_2", math.sqrt(0.5))),
        )
    },
}
_MATH = re.compile(  # functions of cmath and cstring, which the namespace std has too
    r"(a?(sin|cos|tan)h?|atan2|(exp|log)2?|exp2|expm1|log1[0p]|logb|pow|sqrt|cbrt|hypot|fabs|fmod|fm(a|in|ax)|fdim"
    r"|erfc?|[lt]gamma|(l?l?r|near)int|l?l?round|rint|floor|ceil|trunc|remainder|modf|frexp|ldexp|ilogb"
    r"|copysign)f?|abs|is(nan|inf|finite)|signbit|mem(cpy|set)"
)
_OF_C = (
    *("assert", "ctype", "errno", "float", "inttypes", "limits", "locale", "math", "setjmp", "signal"),
    *("stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "time"),
)
_OF_CPP = (
    *("algorithm", "any", "array", "atomic", "bit", "bitset", "chrono", "complex", "condition_variable"),
    *("deque", "exception", "execution", "filesystem", "forward_list", "fstream", "functional", "future"),
    *("iomanip", "initializer_list", "ios", "iosfwd", "iostream", "istream", "iterator", "limits", "list"),
    *("map", "memory", "mutex", "new", "numeric", "optional", "ostream", "queue", "random", "ratio"),
    *("regex", "set", "sstream", "stack", "stdexcept", "string", "string_view", "system_error", "thread"),
    *("tuple", "type_traits", "typeinfo", "unordered_map", "unordered_set", "utility", "valarray"),
    *("variant", "vector"),
)
_LIBRARIES = re.compile(  # headers for the host: of the system, CUDA and PyTorch
    r"(unistd|omp|mpi|getopt|helper_\w+|cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|driver_types"
    r"|cuda_profiler_api|cublas\w*|cudnn\w*|cusparse\w*|cusolver\w*|cufft\w*|curand|nvToolsExt)\.h"
    r"|(hip|roc)(blas|sparse|solver|fft|dnn|rand)\w*(/.*)?\.h"
    r"|(sys|thrust|pybind11|boost|gtest|benchmark|nvtx3)/.*"
)
_OF_PYTORCH = re.compile(r"(torch|ATen|THC|c10)/.*")
_OF_CUDA = re.compile(
    r"(cooperative_groups|mma|math_constants|vector_types|cuComplex|curand_\w+|cuda_(?!runtime|profiler)\w+)\.h"
    r"|(cooperative_groups|cub|cuda|hip|hipcub|rocprim)/.*"
)
_IN_KERNELS = (
    *("block/block_" + name for name in (
        "adjacent_difference", "discontinuity", "exchange", "histogram", "load", "merge_sort", "radix_rank",
        "radix_sort", "reduce", "scan", "store")),
    *("warp/warp_" + name for name in ("exchange", "load", "merge_sort", "reduce", "scan", "store")),
)  # fmt: skip
_SCOPES = (
    "namespace cooperative_groups {} namespace cub {} namespace cuda { namespace std {} }\n"
    "namespace nvcuda { namespace wmma {} }\n"
)


def for_host(header: str) -> bool:
    """Return whether a header that may be installed is for the host, which NVRTC cannot compile."""
    return header.startswith(("thrust/", "cub/device/", "cub/util_allocator.")) or header == "cub/cub.cuh"


def stand_in(header: str) -> str | None:
    """Return the replacement of a header of the host or of CUDA that is missing or `for_host`; else None.

    That of all of CUB includes what runs in a kernel.
    """
    plain = (
        f"c{header.removesuffix('.h')}" if header.removesuffix(".h") in _OF_C and "." in header else header
    )
    known = plain in _OF_CPP or plain.removeprefix("c") in _OF_C or _LIBRARIES.fullmatch(header)
    of_pytorch = "namespace at {} namespace c10 {} namespace torch {}\n" if _OF_PYTORCH.match(header) else ""
    text = _STATED.get(plain, _SCOPES if of_cuda(header) else of_pytorch)
    if header == "cub/cub.cuh":
        text += "".join(f"#include <cub/{name}.cuh>\n" for name in _IN_KERNELS)
    return f"#pragma once\nnamespace std {{}}\n{text}" if known or text else None


def of_cuda(header: str) -> bool:
    """Return whether a header is one of CUDA's for the device; many files include some without need."""
    return _OF_CUDA.fullmatch(header) is not None


def implied(*texts: str, known: str = "") -> str:
    """Return nvcc's definitions of names that these texts use, unless they or `known` define them."""
    words = {word for text in texts for word in _WORD.findall(text)}
    named = {name for text in texts for name in _OF_STD.findall(text)}
    if any("using namespace std" in text for text in texts):
        named |= words
    made = [
        f"#define {name} {value}"
        for name, value in _VALUES.items()
        if name in words and not _has((*texts, known), name)
    ]
    made += [
        f"typedef {kind} {name}; namespace std {{ using ::{name}; }}"
        for name, kind in _TYPES.items()
        if name in words and not _has((*texts, known), name)
    ]
    of_math = (name for name in sorted(named) if _MATH.fullmatch(name))
    made += [
        f"namespace std {{ using ::{name}; }}"
        for name in of_math
        if not known or re.search(rf"\b{name}\b", known)
    ]
    std = _STD.read_text(encoding="utf-8")
    of_pytorch = any(_OF_PYTORCH.fullmatch(header) for text in texts for header in _INCLUDED.findall(text))
    if named & set(_IN_STD.findall(std)) or (of_pytorch and "numeric_limits" in words):
        made.append(std)
    if of_pytorch:
        made.append(_TORCH.read_text(encoding="utf-8"))
    return "".join(f"{line}\n" for line in made)


def _has(texts: Sequence[str], name: str) -> bool:
    """Return whether one of the texts defines a macro or a type."""
    defines = re.compile(rf"#\s*define\s+{name}\b|\btypedef\b[^;{{}}]*\b{name}\s*;|\busing\s+{name}\s*=")
    return any(map(defines.search, texts))


@dataclass(frozen=True)
class _Sides:
    """What decides whether a declaration is for the host."""

    device: re.Pattern[str]  # words of code for the device
    lacking: re.Pattern[str]  # names that the device lacks
    uses: Mapping[str, int]  # of names in what is left; empty before that is known

    def of_host(self, head: str, whole: str, assigned: bool) -> bool:
        """Whether it is: also a type with methods that nothing which is left names."""
        of_type = _TYPE.match(head)
        if self.device.search(whole if of_type else head):
            return False
        if self.lacking.search(whole) or ("(" in head and not assigned and not of_type):
            return True
        names = _names(whole) if self.uses and "(" in whole else []
        return any(self.uses[name] == _WORD.findall(whole).count(name) for name in names)


def without_host(*texts: str) -> list[str]:
    """Blank out the code for the host in a file and its headers, and declarations that need it.

    Line numbers do not change, and the preprocessor's lines stay.
    """
    macros = [macro for text in texts for macro in _device_macros(text)]
    device = re.compile(rf"\b({'|'.join((*_OF_DEVICE, *macros))})\b")
    unqualified = any("using namespace std" in text for text in texts)
    host = f"{_HOST_ONLY}|{_OF_HOST_STD}" if unqualified else _HOST_ONLY
    codes = [*map(masked, texts)]
    directives = [line for text in texts for line in _DIRECTIVE.findall(text)]
    names: set[str] = set()  # of types that are left out
    uses: Counter[str] = Counter()
    spans: list[list[tuple[int, int]]] = []
    while True:
        lacking = re.compile("|".join([host, *(rf"\b{name}\b" for name in sorted(names))]))
        sides, before = _Sides(device, lacking, uses), spans
        spans = [list(_host_spans(code, 0, len(code), sides)) for code in codes]
        if spans == before:
            return [_without(text, of_text) for text, of_text in zip(texts, spans, strict=True)]
        pairs = list(zip(codes, spans, strict=True))
        names |= {name for code, own in pairs for start, end in own for name in _names(code[start:end])}
        left = (_without(code, own) for code, own in pairs)
        uses = Counter(word for text in (*left, *directives) for word in _WORD.findall(text))


def masked(text: str) -> str:
    """Blank out comments, strings, characters and the preprocessor's lines."""
    return _MASKED.sub(lambda match: _blank(match[0]), text)


def _names(declaration: str) -> list[str]:
    """Return the name that the declaration of a type gives it."""
    match = _TYPE_NAME.match(declaration.lstrip())
    return [name for name in match.groups() if name] if match else []


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    kept = [(match.start(), match.end()) for match in _DIRECTIVE.finditer(text)]
    pieces, begun = [], 0
    for start, end in spans:
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


def _host_spans(code: str, start: int, end: int, sides: _Sides) -> Iterator[tuple[int, int]]:
    """Yield the spans of a namespace's declarations for the host, and of methods marked so."""
    for first, brace, last, assigned in _declarations(code, start, end):
        head, body = code[first:brace], code[brace : brace + 1] == "{"
        if _SCOPE.search(head) and body:
            yield from _host_spans(code, brace + 1, last - 1, sides)
        elif sides.of_host(head, code[first:last], assigned):
            yield first + len(head) - len(head.lstrip()), last
        elif _TYPE.match(head) and body:
            for begin, opens, ends, _ in _declarations(code, brace + 1, last - 1):
                if "__host__" in code[begin:opens] and not sides.device.search(code[begin:opens]):
                    yield begin + len(_ACCESS.findall(code[begin:opens])[0]), ends


def _declarations(code: str, start: int, end: int) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the start of each declaration, its `{` or `;`, its end, and whether it assigns a value."""
    while start < end:
        stop = closed(code, start, end, ";{")
        head = code[start:stop]
        plain = _NO_VALUE.sub("", head)
        assigned = closed(plain, 0, len(plain), "=") < len(plain)
        last = stop
        if stop < end and code[stop] == "{":
            last = closed(code, stop + 1, end, "}")
            function = "(" in head and not _TYPE.match(head) and not assigned
            if not function and not _SCOPE.search(head):
                last = closed(code, last + 1, end, ";")
        yield start, stop, min(last + 1, end), assigned
        start = last + 1


def closed(code: str, start: int, end: int, wanted: str) -> int:
    """Return the index of the first `wanted` character outside of brackets; `end` if there is none."""
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


_WORD = re.compile(r"\b[A-Za-z_]\w*")
_INCLUDED = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)', re.MULTILINE)
_OF_STD = re.compile(r"\bstd::(\w+)")
_IN_STD = re.compile(r"(?:struct|using|constexpr bool|T&&?|&&|void) (\w+)\b")
_OF_DEVICE = ("__device__", "__global__", "__constant__", "__shared__", "constexpr")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_MASKED = re.compile(  # comments, strings, characters and directives
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)+\''
    r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*",
    re.DOTALL | re.MULTILINE,
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE | re.DOTALL)
_BRACKET = re.compile(r"[(){}\[\];=]")
_SCOPE = re.compile(r"(^|\s)(namespace\b[^()=;]*|extern\s*)$")
_ROUND = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_ANGLES = rf"<(?:[^<>{{}}()]|{_ROUND}|<(?:[^<>{{}}()]|{_ROUND}|<(?:[^<>{{}}()]|{_ROUND})*+>)*+>)*+>"
_TEMPLATE = rf"\btemplate\s*{_ANGLES}"
_NO_VALUE = re.compile(rf"{_TEMPLATE}|\boperator\s*[^\s\w(]+")  # where = assigns nothing
_ACCESS = re.compile(r"^\s*(?:(?:public|private|protected)\s*:\s*)*")  # in front of a member
_TYPE_NAME = re.compile(  # of a declaration
    rf"(?:{_TEMPLATE}\s*)*(?:(?:struct|class|union|enum)\s+(\w+)\s*[:{{]|using\s+(\w+)\s*="
    r"|typedef\b.*\b(\w+)\s*;\Z)",
    re.DOTALL,
)
_TYPE = re.compile(
    rf"\s*(?:(?:{_TEMPLATE}|(?:__align__|alignas)\s*\([^()]*\))\s*)*"
    r"(?:typedef|struct|class|union|enum)\b"
)
_HOST_ONLY = (
    r"(?<!cuda::)\bstd::|\bhip[A-Z]\w*|\bcu(?:da|blas|rand|sparse|dnn|solver|fft)[A-Z]\w*|\bFILE\b"
    r"|\b(?:at|torch|c10)::(?!Half\b|BFloat16\b|(?:acc|opmath)_type\b|\w*TensorAccessor|\w+PtrTraits\b"
    r"|numeric_limits\b|_isnan\b|ceil_div\b|cuda::detail::CUDA_NUM_THREADS\b)"
)
_OF_HOST_STD = (  # under `using namespace std`
    r"\b(?:vector|deque|list|(?:unordered_)?(?:map|set)|(?:priority_)?queue|stack|function|(?:shared|unique)_ptr)\s*<"
    r"|\b(?:string|[io]?(?:string|f)?stream|thread|mutex|mt19937)\b"
)

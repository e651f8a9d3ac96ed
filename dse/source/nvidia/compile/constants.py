"""The whole numbers that a CUDA source computes at compile time, for many configurations at once.

Macros, `const` and `constexpr` variables and the extents of arrays in shared memory are evaluated from top to
bottom, through `#if`. Functions, templates and other files are not understood and left out, so callers
compare the results with compiled configurations. Whole numbers have 64 bits here, whatever their type.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.core.commas import split
from dse.source.nvidia.compile.kernel_names import COMMENT


@dataclass(frozen=True)
class Constants:
    """The constants of a source for L configurations: arrays [L]."""

    values: dict[str, np.ndarray]  # by name; an array's extents as "tile[0]"; 0 if not defined
    shared_bytes: np.ndarray | None  # of all arrays in shared memory; None if some are not understood


def constants(text: str, defines: Mapping[str, Any], count: int) -> Constants:
    """Compute the constants of a source. `defines` are macros given to the compiler, numbers or [count]."""
    reader = _Reader(count)
    for name, value in defines.items():
        reader.define(name, np.broadcast_to(np.asarray(value), (count,)), reader.active())
    for line in _lines(text):
        match = _DIRECTIVE.match(line)
        if match:
            reader.finish()
            reader.directive(match[1], match[2].strip())
        else:
            reader.pending += line + "\n"
    reader.finish()
    values = {name: value for name, (value, there) in reader.known.items() if there.any()}
    return Constants(values, None if reader.lost else reader.shared_bytes)


class _NotUnderstood(Exception):
    pass


class _Reader:
    """State of the preprocessor. A mask [L] has the configurations that contain a line."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.known: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # name → (value, mask)
        self.types = dict(_TYPES)
        self.conditions: list[tuple[np.ndarray, np.ndarray]] = []  # of each #if: (mask, no branch taken yet)
        self.pending = ""  # text under the present conditions
        self.shared_bytes, self.lost = np.zeros(count, np.int64), False

    def active(self) -> np.ndarray:
        mask = np.ones(self.count, bool)
        for condition, _ in self.conditions:
            mask = mask & condition
        return mask

    def define(self, name: str, value: np.ndarray, where: np.ndarray) -> None:
        if not np.issubdtype(value.dtype, np.integer) and value.dtype != bool:
            return
        old, there = self.known.get(name, (np.zeros(self.count, np.int64), np.zeros(self.count, bool)))
        self.known[name] = np.where(where, value.astype(np.int64), old), there | where

    def forget(self, name: str, where: np.ndarray) -> None:
        if name in self.known:
            value, there = self.known[name]
            self.known[name] = np.where(where, 0, value), there & ~where

    def evaluate(self, expression: str, where: np.ndarray, absent: bool = False) -> np.ndarray:
        """Evaluate an expression: [L]; with `absent`, unknown names are 0, as in an #if.

        **Raises:** _NotUnderstood.
        """

        def value(name: str) -> np.ndarray:
            if name in self.known:
                values, there = self.known[name]
                if absent or there[where].all():
                    return values
            if absent:
                return np.zeros(self.count, np.int64)
            raise _NotUnderstood

        def defined(name: str) -> np.ndarray:
            return self.known[name][1].astype(np.int64) if name in self.known else np.zeros(self.count, int)

        try:
            with np.errstate(all="ignore"):
                return np.broadcast_to(_Parser(expression, value, defined).whole(), (self.count,))
        except (RecursionError, OverflowError, ValueError):  # nested too deep, or of over 64 bits
            raise _NotUnderstood from None

    def directive(self, word: str, rest: str) -> None:
        where = self.active()
        if word in ("if", "ifdef", "ifndef"):
            holds = self.holds(word, rest, where)
            self.conditions.append((holds, ~holds))
        elif word in ("elif", "else") and self.conditions:
            _, left = self.conditions.pop()
            holds = left & self.holds("if", rest if word == "elif" else "1", self.active() & left)
            self.conditions.append((holds, left & ~holds))
        elif word == "endif" and self.conditions:
            self.conditions.pop()
        elif word == "undef":
            self.forget(rest, where)
        elif word == "define" and (match := re.match(r"(\w+)(?:\s+(.*))?$", rest)):  # no arguments
            name, body = match[1], (match[2] or "").strip()
            if body in self.types:
                self.types[name] = self.types[body]
            try:
                self.define(name, self.evaluate(body or "1", where), where)
            except _NotUnderstood:
                self.forget(name, where)

    def holds(self, word: str, condition: str, where: np.ndarray) -> np.ndarray:
        if word != "if":
            condition = ("" if word == "ifdef" else "!") + f"defined({condition})"
        try:
            return self.evaluate(condition, where, absent=True) != 0
        except _NotUnderstood:
            return np.zeros(self.count, bool)

    def finish(self) -> None:
        """Process the declarations of the pending text."""
        where, text, self.pending = self.active(), self.pending, ""
        if not where.any():
            return
        for match in _DECLARED.finditer(text):
            if match["shared"]:
                self.array(match, where)
                continue
            for declared in split(match["what"], "()[]{}"):
                name, _, expression = declared.partition("=")
                try:
                    self.define(name.strip(), self.evaluate(expression, where), where)
                except _NotUnderstood:
                    self.forget(name.strip(), where)

    def array(self, match: re.Match[str], where: np.ndarray) -> None:
        if match["outside"]:  # its size is the launch's
            return
        size = self.types.get(" ".join(match["type"].split()))
        for declared in split(match["what"], "()[]{}"):
            name, *extents = re.split(r"\s*\[", declared)
            total = np.full(self.count, size or 0, np.int64)
            try:
                for dimension, extent in enumerate(extents):
                    value = self.evaluate(extent.rstrip().removesuffix("]"), where)
                    self.define(f"{name.strip()}[{dimension}]", value, where)
                    total = total * value
            except _NotUnderstood:
                self.lost = True
            if size is None:
                self.lost = True
            else:
                begin = -(-self.shared_bytes // size) * size
                self.shared_bytes = np.where(where, begin + total, self.shared_bytes)


class _Parser:
    """Evaluates a constant expression of C, by precedence."""

    def __init__(self, text: str, value: Any, defined: Any) -> None:
        self.tokens, self.place = _TOKEN.findall(text), 0
        if "".join(self.tokens) != "".join(text.split()):
            raise _NotUnderstood
        self.value, self.defined = value, defined

    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.next()
        if not token or (expected and token != expected):
            raise _NotUnderstood
        self.place += 1
        return token

    def whole(self) -> Any:
        result = self.choice()
        if self.next():
            raise _NotUnderstood
        return result

    def choice(self) -> Any:
        condition = self.binary(0)
        if self.next() != "?":
            return condition
        self.take()
        yes = self.choice()
        self.take(":")
        return np.where(condition != 0, yes, self.choice())

    def binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.next() in _LEVELS[level]:
            operation = _LEVELS[level][self.take()]
            left = operation(left, self.binary(level + 1))
        return left

    def unary(self) -> Any:
        token = self.take()
        if token in "+-!~":
            return _UNARY[token](self.unary())
        if token == "(":
            if self.next() in _WORDS:  # a cast
                while self.next() in _WORDS:
                    self.take()
                self.take(")")
                return self.unary()
            result = self.choice()
            self.take(")")
            return result
        if token[0].isdigit():
            number = re.sub(r"[uUlLzZ]+$", "", token)
            try:
                return np.int64(int(number, 8 if re.fullmatch(r"0[0-7]+", number) else 0))
            except ValueError:
                raise _NotUnderstood from None
        return self.named(token)

    def named(self, name: str) -> Any:
        if name == "true" or name == "false":
            return np.int64(name == "true")
        if name == "defined":
            brackets = self.next() == "("
            if brackets:
                self.take()
            result = self.defined(self.take())
            if brackets:
                self.take(")")
            return result
        if name == "sizeof" and self.next() == "(":
            self.take()
            words = []
            while self.next() != ")":
                words.append(self.take())
            self.take()
            if (size := _TYPES.get(" ".join(words))) is None:
                raise _NotUnderstood
            return np.int64(size)
        name = name.removeprefix("std::")
        if self.next() == "(" and name in ("min", "max"):
            self.take()
            left = self.choice()
            self.take(",")
            right = self.choice()
            self.take(")")
            return np.minimum(left, right) if name == "min" else np.maximum(left, right)
        return self.value(name)


def _quotient(a: Any, b: Any) -> Any:
    """Divide, rounding towards 0; x / 0 is 0."""
    return np.where(b == 0, 0, np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1)))


def _flag(condition: Any) -> Any:
    return np.asarray(condition).astype(np.int64)


_UNARY: dict[str, Any] = {
    "+": lambda a: a,
    "-": lambda a: -a,
    "!": lambda a: _flag(a == 0),
    "~": lambda a: ~a,
}
_LEVELS: tuple[dict[str, Any], ...] = (
    {"||": lambda a, b: _flag((a != 0) | (b != 0))},
    {"&&": lambda a, b: _flag((a != 0) & (b != 0))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: _flag(a == b), "!=": lambda a, b: _flag(a != b)},
    {
        "<": lambda a, b: _flag(a < b),
        ">": lambda a, b: _flag(a > b),
        "<=": lambda a, b: _flag(a <= b),
        ">=": lambda a, b: _flag(a >= b),
    },
    {"<<": lambda a, b: a << b, ">>": lambda a, b: a >> b},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b)},
)

_SIZES = {
    1: ("char", "signed char", "unsigned char", "bool", "int8_t", "uint8_t"),
    2: ("short", "unsigned short", "half", "__half", "__nv_bfloat16", "int16_t", "uint16_t"),
    4: ("int", "unsigned int", "unsigned", "float", "half2", "__half2", "int32_t", "uint32_t"),
    8: ("double", "long long", "unsigned long long", "size_t", "int64_t", "uint64_t", "float2", "int2"),
    12: ("float3", "int3"),
    16: ("float4", "int4", "uint4", "double2"),
}
_TYPES = {name: size for size, names in _SIZES.items() for name in names}
_WORDS = {word for name in _TYPES for word in name.split()} | {"long", "auto"}

_TOKEN = re.compile(r"\d\w*|(?:\w+::)*\w+|<<|>>|<=|>=|==|!=|&&|\|\||\S")
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)(.*)", re.DOTALL)
_DECLARED = re.compile(
    r"\b(?:(?P<outside>extern\s+)?(?P<shared>__shared__)(?:\s+__align__\s*\(\s*\d+\s*\)|\s+volatile|\s+alignas\s*\(\s*\d+\s*\))*"
    r"|(?:static\s+|__device__\s+|inline\s+)*(?:constexpr|const)(?:\s+static|\s+const)*+)"
    r"\s+(?P<type>(?:unsigned\s+|signed\s+|long\s+)*\w+)\s+(?P<what>\w[^;{}]{0,5000});"
)


def _lines(text: str) -> Sequence[str]:
    """Split a text into lines without comments; continued lines are joined."""
    bare = COMMENT.sub(lambda match: " " + "\n" * match[0].count("\n"), text)
    return re.sub(r"\\\s*\n", " ", bare).splitlines()

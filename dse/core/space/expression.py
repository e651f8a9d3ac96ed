"""The expression language of kernel files and tuning spaces: a small subset of Python, over arrays.

Numbers and names; `+ - * / // % **`; comparisons, also chained, and `in (1, 2)`; `and or not`;
`a if c else b`; `abs ceil floor log2 max min sqrt`; as in Triton, `cdiv(a, b)`, the quotient rounded up,
and `next_power_of_2(n)`, the first not below n; `True` and `False`. The text is parsed with `ast` and
interpreted, never executed.

Semantics are Python's, except that arrays have one type and no exceptions:

- Integers have 64 bits and wrap (32 outside of `jax.enable_x64`); combined with floats they are
  exact up to 2**53. `floor` and `ceil` give integers, and are exact on a quotient of integers.
- `and`, `or`, `not` give booleans, never an operand. All branches are evaluated, so a guard such as
  `n != 0 and m % n == 0` decides the result but prevents no evaluation. It need not:
- `x // 0` is 0 and `x % 0` is x, for integers and floats, so that x = n * (x // n) + x % n and only 0
  is a multiple of 0; `x / 0` is inf or nan. `sqrt` and `log2` out of range are nan or -inf. `floor`
  and `ceil` of values beyond the integers are 0.
- An integer to a variable integer power is an integer: a negative power is truncated towards 0. A
  constant negative power (`2 ** -1`) is a float, as in Python.
"""

import ast
import functools
import math
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from dse.errors import DseError, one_of

FUNCTIONS = ("abs", "cdiv", "ceil", "floor", "log2", "max", "min", "next_power_of_2", "sqrt")

_ARGUMENTS: dict[str, tuple[int, ...]] = {"min": (), "max": (), "cdiv": (2,)}  # (): any number; default: 1
_WRITTEN_OUT = {"cdiv": "-(-a // b)", "next_power_of_2": "2 ** ceil(log2(a))"}

_MOST_CHARACTERS = 4000
_MOST_LEVELS = 100  # of nesting: each takes a few Python stack frames
_LARGEST_POWER = 64  # of a constant exponent

_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LOGICAL: dict[type, Callable[[Any, Any], Any]] = {ast.And: operator.and_, ast.Or: operator.or_}


@dataclass(frozen=True)
class Expression:
    """A parsed expression, compared by its text."""

    text: str
    names: frozenset[str] = field(compare=False, repr=False)
    tree: ast.expr = field(compare=False, repr=False)

    def __call__(self, values: Mapping[str, Any], xp: Any = jnp) -> Any:
        """Evaluate the expression with a value for each name.

        **Shapes:** names broadcast; under `jax_numpy_rank_promotion="raise"` all but scalars need the same
        rank. An expression without names is a scalar.
        **Types:** booleans, and the default integer and float of `xp`, which is numpy or jax.numpy.
        **Errors:** DseError if a name has no value, or a value of 2^31 or more makes integers wrap.
        """
        with np.errstate(all="ignore"):  # branches not taken may divide by zero
            result = _evaluate(self.tree, values, xp)
            if xp is np and result.dtype.kind == "i" and any(map(_is_large, values.values())):
                floats = {name: np.asarray(values[name], float) for name in self.names}
                if not np.allclose(result, _evaluate(self.tree, floats, np), rtol=1e-9, atol=1.0):
                    sizes = [f"{name}={value:.6g}" for name, value in floats.items() if not value.ndim]
                    stated = f"found {', '.join(sorted(sizes))}" if sizes else "found numbers too large"
                    raise DseError(f"'{self.text}': {stated}, expected a result that 64 bits hold")
            return result

    def holds(self, values: Mapping[str, Any], xp: Any = jnp) -> Any:
        """Return whether the value is true, that is, not 0."""
        return _truth(self(values, xp))


def parse(text: Any, where: str, allowed: Collection[str] | None = None) -> Expression:
    """Parse an expression; `where` (file: field) begins every message.

    **Errors:** DseError for anything outside of the language, for a name not in `allowed` (None: any
    name), and for constants that divide by zero or exceed 64 bits.
    """
    if not isinstance(text, str | int | float):
        raise DseError(f"{where}: found {text!r}, expected a number or an expression")
    text = " ".join(str(text).split())
    if len(text) > _MOST_CHARACTERS:
        raise DseError(f"{where}: found {len(text)} characters, expected at most {_MOST_CHARACTERS}")
    reader = _Checker()
    try:
        tree = reader.visit(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise DseError(f"{where}: cannot read '{text}': {error.msg}") from None
    except ValueError as error:
        raise DseError(f"{where}: cannot read '{text}': {error}") from None
    except ZeroDivisionError:
        raise DseError(f"{where}: cannot read '{text}': a constant is divided by zero") from None
    except OverflowError:
        raise DseError(f"{where}: cannot read '{text}': a constant is too large") from None
    except (RecursionError, MemoryError):
        raise DseError(f"{where}: cannot read '{text}': nested too deeply") from None
    for name in sorted(reader.names):
        if allowed is not None and name not in allowed:
            raise DseError(f"{where}: unknown name '{name}' in '{text}', {one_of(name, sorted(allowed))}")
    return Expression(text, frozenset(reader.names), tree)


class _Checker(ast.NodeTransformer):
    """Rejects anything outside of the language, folds constants, and collects names.

    Folding makes `10 ** 40` a clear message and `2 ** -1` Python's 0.5.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.level = 0

    def visit(self, node: ast.AST) -> Any:
        self.level += 1
        if self.level > _MOST_LEVELS:
            raise RecursionError
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is None:
            raise ValueError(f"{type(node).__name__} is not part of the expression language")
        node = method(node)
        self.level -= 1
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return _constant(node.value)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        self.names.add(node.id)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        node.operand = self.visit(node.operand)
        apply = _UNARY.get(type(node.op))
        if isinstance(node.operand, ast.Constant) and apply:
            return _constant(apply(node.operand.value))
        if not apply and not isinstance(node.op, ast.Not):
            raise ValueError(f"{type(node.op).__name__} is not part of the expression language")
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        node.left, node.right = self.visit(node.left), self.visit(node.right)
        apply = _BINARY.get(type(node.op))
        if apply is None:
            raise ValueError(f"{type(node.op).__name__} is not part of the expression language")
        y = node.right.value if isinstance(node.right, ast.Constant) else None
        if isinstance(y, int | float):
            if isinstance(node.op, ast.Pow) and abs(y) > _LARGEST_POWER:
                raise ValueError(f"the power {y} is above {_LARGEST_POWER}")
            if isinstance(node.left, ast.Constant):
                return _constant(apply(node.left.value, y))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        node.values = [self.visit(value) for value in node.values]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        node.left = self.visit(node.left)
        for i, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if isinstance(op, ast.In | ast.NotIn):
                # Only last in a chain: otherwise the list itself would be compared.
                if not isinstance(right, ast.Tuple | ast.List | ast.Set) or i + 1 < len(node.ops):
                    raise ValueError("'in' needs a list of numbers after it, as in 'x in (1, 2)'")
                right.elts = [self.visit(element) for element in right.elts]
            elif type(op) in _COMPARISONS:
                node.comparators[i] = self.visit(right)
            else:
                raise ValueError(f"{type(op).__name__} is not part of the expression language")
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test, node.body, node.orelse = map(self.visit, (node.test, node.body, node.orelse))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            raise ValueError(f"the only calls are {', '.join(FUNCTIONS)}, without keywords")
        counts = _ARGUMENTS.get(node.func.id, (1,))
        if not node.args or (counts and len(node.args) not in counts):
            raise ValueError(f"{node.func.id} of {len(node.args)} values")
        if node.func.id in _WRITTEN_OUT:
            names = dict(zip("ab", node.args, strict=False))
            return self.visit(_Filled(names).visit(ast.parse(_WRITTEN_OUT[node.func.id], mode="eval").body))
        node.args = [self.visit(argument) for argument in node.args]
        return node


class _Filled(ast.NodeTransformer):
    """Substitutes arguments for the names in a function's definition."""

    def __init__(self, arguments: Mapping[str, ast.expr]) -> None:
        self.arguments = arguments

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.arguments.get(node.id, node)


def _constant(value: Any) -> ast.Constant:
    if not isinstance(value, int | float):  # text, None, complex
        raise ValueError(f"found {value!r}, expected numbers only")
    if not (math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63):
        raise ValueError("a constant is too large")
    return ast.Constant(value)


def _evaluate(node: ast.AST, values: Mapping[str, Any], xp: Any) -> Any:
    """Evaluate a node that `_Checker` let through, as an array: booleans, integers or floats."""

    value_of = functools.partial(_evaluate, values=values, xp=xp)
    match node:
        case ast.Constant(value=number):
            return xp.asarray(number, type(number))
        case ast.Name(id=name):
            if name not in values:
                raise DseError(f"{name}: found no value, {one_of(name, values)}")
            array = xp.asarray(values[name])
            try:
                return xp.asarray(array, {"b": bool, "i": int, "u": int}.get(array.dtype.kind, float))
            except (TypeError, ValueError):  # words, as in third-party files
                raise DseError(f"{name}: found {str(array.ravel()[:1])[:40]}, expected numbers") from None
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_truth(value_of(operand))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](*_numbers(xp, value_of(operand)))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
            (base,) = _numbers(xp, value_of(left))
            return (base if power >= 0 else xp.asarray(base, float)) ** int(power)
        case ast.BinOp(left=left, op=op, right=right):
            x, y = _numbers(xp, value_of(left), value_of(right))
            return _ARITHMETIC.get(type(op), _plain(op))(xp, x, y)
        case ast.BoolOp(op=op, values=operands):
            return functools.reduce(_LOGICAL[type(op)], [_truth(value_of(x)) for x in operands])
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            results, x = [], value_of(left)
            for op, right in zip(ops, comparators, strict=True):
                if isinstance(right, ast.Tuple | ast.List | ast.Set):
                    among = _among(xp, x, [value_of(element) for element in right.elts])
                    results.append(among if isinstance(op, ast.In) else ~among)
                else:
                    y = value_of(right)
                    results.append(_COMPARISONS[type(op)](*_numbers(xp, x, y)))
                    x = y
            return functools.reduce(operator.and_, results)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            x, y = value_of(body), value_of(orelse)
            if not x.dtype == y.dtype == bool:
                x, y = _numbers(xp, x, y)
            return xp.where(_truth(value_of(test)), x, y)
        case ast.Call(func=ast.Name(id="ceil" | "floor" as name), args=[ast.BinOp(op=ast.Div()) as ratio]):
            x, y = _numbers(xp, value_of(ratio.left), value_of(ratio.right))
            if _is_float(x):
                return _to_integer(xp, name, _divide(xp, x, y))
            return -_floor_divide(xp, -x, y) if name == "ceil" else _floor_divide(xp, x, y)
        case ast.Call(func=ast.Name(id="ceil" | "floor" as name), args=[operand]):
            return _to_integer(xp, name, *_numbers(xp, value_of(operand)))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args):
            pick = xp.minimum if name == "min" else xp.maximum
            return functools.reduce(pick, _numbers(xp, *map(value_of, args)))
        case ast.Call(func=ast.Name(id=name), args=[operand]):
            (x,) = _numbers(xp, value_of(operand))
            if name == "abs":
                return xp.abs(x)
            x = xp.asarray(x, float)
            return xp.sqrt(x) if name == "sqrt" else _log2(xp, x)
    raise AssertionError(f"{type(node).__name__} was let through")


def _is_large(value: Any) -> bool:
    return isinstance(value, int | np.integer) and bool(abs(value) >= 2**31)


def _is_float(x: Any) -> bool:
    return x.dtype.kind == "f"


def _numbers(xp: Any, *arrays: Any) -> list[Any]:
    """Convert all to floats if one is, else to integers: strict promotion does not."""
    common = float if any(_is_float(array) for array in arrays) else int
    return [xp.asarray(array, common) for array in arrays]


def _truth(x: Any) -> Any:
    return x if x.dtype == bool else x != 0


def _among(xp: Any, x: Any, elements: list[Any]) -> Any:
    same = [operator.eq(*_numbers(xp, x, element)) for element in elements]
    return functools.reduce(operator.or_, same, xp.zeros(x.shape, bool))


def _plain(op: ast.operator) -> Callable[[Any, Any, Any], Any]:
    return lambda xp, x, y: _BINARY[type(op)](x, y)


def _divide(xp: Any, x: Any, y: Any) -> Any:
    x, y = xp.asarray(x, float), xp.asarray(y, float)
    # XLA turns division by a broadcast scalar into multiplication by its reciprocal: 5 / 49 and many
    # others are off by one bit, enough to break `x % (y / 49) == 0`. This divisor has the same value
    # (a nan in x gives nan either way), but is no broadcast.
    return x / xp.where(x == x, y, x)


def _floor_divide(xp: Any, x: Any, y: Any) -> Any:
    zero = y == 0
    return xp.where(zero, xp.zeros_like(x), x // xp.where(zero, xp.ones_like(y), y))


def _modulo(xp: Any, x: Any, y: Any) -> Any:
    zero = y == 0
    return xp.where(zero, x, x % xp.where(zero, xp.ones_like(y), y))


def _power(xp: Any, x: Any, y: Any) -> Any:
    if _is_float(x):
        return x**y
    magnitude = x ** xp.maximum(y, xp.zeros_like(y))
    # 1 and -1 keep their magnitude under a negative power, whose parity gives the sign.
    unit = xp.where(y % 2 == 0, xp.ones_like(x), x)
    return xp.where(y >= 0, magnitude, xp.where(xp.abs(x) == 1, unit, xp.zeros_like(x)))


_ARITHMETIC: dict[type, Callable[[Any, Any, Any], Any]] = {
    ast.Div: _divide,
    ast.FloorDiv: _floor_divide,
    ast.Mod: _modulo,
    ast.Pow: _power,
}


def _to_integer(xp: Any, name: str, x: Any) -> Any:
    if not _is_float(x):
        return x
    x = xp.ceil(x) if name == "ceil" else xp.floor(x)
    limit = 2.0 ** (xp.iinfo(xp.asarray(0, int).dtype).bits - 1)
    return xp.asarray(xp.where(xp.abs(x) < limit, x, xp.zeros_like(x)), int)  # nan fails the test too


def _log2(xp: Any, x: Any) -> Any:
    """Log2, exact at powers of two, where jax.numpy's log(x) / log(2) is often off by one bit."""
    fraction, exponent = xp.frexp(x)  # fraction in [1/2, 1)
    exponent = exponent - xp.asarray(fraction < math.sqrt(0.5), exponent.dtype)
    return xp.log2(xp.ldexp(x, -exponent)) + xp.asarray(exponent, float)

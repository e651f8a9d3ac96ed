"""Vectors of sixteen neighbours of an array in LLVM: which are early, and the least of some.

LLVM, the compiler behind Numba, lowers them to what the processor has: one instruction for sixteen numbers,
or a few narrower ones. Its own vectoriser misses parts of these loops.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from dse.core.numba_cache import in_llvm

WIDTH = 16


def _early(_: Any, values: Any, at: Any, limit: Any) -> Any:
    """Return a number with bit k set if values[at + k] <= limit."""

    def write(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        vector = _neighbours(context, builder, signature, arguments)
        mask = compare(builder, "<=", vector, splat(builder, arguments[2]))
        return builder.zext(builder.bitcast(mask, ir.IntType(WIDTH)), ir.IntType(64))

    return types.uint64(values, types.uint64, values.dtype), write


def _least(_: Any, values: Any, at: Any, never: Any, mask: Any) -> Any:
    """Return the least of values[at + k] over the set bits k of the mask, `never` without any."""

    def write(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        vector = _neighbours(context, builder, signature, arguments)
        bits = builder.trunc(arguments[3], ir.IntType(WIDTH))
        mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), WIDTH))
        return least_element(builder, builder.select(mask, vector, splat(builder, arguments[2])))

    return values.dtype(values, types.uint64, values.dtype, types.uint64), write


def _lowest_bit(_: Any, mask: Any) -> Any:
    """Return the position of the lowest set bit, 64 without any."""

    def write(_: Any, builder: Any, __: Any, arguments: Sequence[Any]) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), write


def _neighbours(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
    """Load the vector at an index, the second of the arguments, of an array, the first."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    kind = ir.VectorType(context.get_value_type(signature.args[0].dtype), WIDTH)
    return load(builder, array.data, arguments[1], kind)


def load(builder: Any, data: Any, index: Any, vector: Any) -> Any:
    """Load a vector that begins at an index; it need not be aligned as a whole."""
    loaded = builder.load(builder.bitcast(builder.gep(data, [index]), vector.as_pointer()))
    loaded.align = 4
    return loaded


def compare(builder: Any, how: str, a: Any, b: Any) -> Any:
    """Compare numbers or vectors, unsigned or of floats."""
    integers = isinstance(getattr(a.type, "element", a.type), ir.IntType)
    return (builder.icmp_unsigned if integers else builder.fcmp_ordered)(how, a, b)


def smaller(builder: Any, a: Any, b: Any) -> Any:
    """Return the smaller of two numbers or vectors, elementwise."""
    return builder.select(compare(builder, "<", b, a), b, a)


def least_element(builder: Any, values: Any) -> Any:
    """Return the least element of a vector, by halving it four times."""
    width = WIDTH
    while width > 1:
        width //= 2
        none = ir.Constant(values.type, ir.Undefined)
        halves = (
            builder.shuffle_vector(
                values, none, ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(k, k + width)))
            )
            for k in (0, width)
        )
        values = smaller(builder, *halves)
    return builder.extract_element(values, ir.IntType(32)(0))


def splat(builder: Any, x: Any) -> Any:
    """Return a vector with all elements equal to x."""
    vector = ir.VectorType(x.type, WIDTH)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


early: Callable[..., Any] = in_llvm(_early)
least: Callable[..., Any] = in_llvm(_least)
lowest_bit: Callable[..., Any] = in_llvm(_lowest_bit)

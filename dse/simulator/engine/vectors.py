"""Sixteen neighbours of an array at a time, as a vector of LLVM: which are early, and the least of some.

LLVM, the compiler behind Numba, makes of it what the processor has: one instruction where that has vectors of
sixteen numbers, else a few.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from dse.core.numba_cache import in_llvm

WIDTH = 16


def _early(_: Any, values: Any, at: Any, limit: Any) -> Any:
    """Return a number with bit k set where values[at + k] <= limit."""

    def write(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        vector = _loaded(context, builder, signature, arguments)
        limits = _splat(builder, arguments[2])
        if isinstance(signature.args[0].dtype, types.Integer):
            mask = builder.icmp_unsigned("<=", vector, limits)
        else:
            mask = builder.fcmp_ordered("<=", vector, limits)
        return builder.zext(builder.bitcast(mask, ir.IntType(WIDTH)), ir.IntType(64))

    return types.uint64(values, types.uint64, values.dtype), write


def _least(_: Any, values: Any, at: Any, never: Any, mask: Any) -> Any:
    """Return the least of values[at + k] over the bits k that are set in the mask, never where none is."""

    def write(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        vector = _loaded(context, builder, signature, arguments)
        bits = builder.trunc(arguments[3], ir.IntType(WIDTH))
        mask = builder.bitcast(bits, ir.VectorType(ir.IntType(1), WIDTH))
        vector = builder.select(mask, vector, _splat(builder, arguments[2]))
        integers = isinstance(signature.args[0].dtype, types.Integer)
        less = builder.icmp_unsigned if integers else builder.fcmp_ordered
        width = WIDTH
        while width > 1:
            width //= 2
            none = ir.Constant(vector.type, ir.Undefined)
            a, b = (
                builder.shuffle_vector(
                    vector, none, ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(k, k + width)))
                )
                for k in (0, width)
            )
            vector = builder.select(less("<", b, a), b, a)
        return builder.extract_element(vector, ir.IntType(32)(0))

    return values.dtype(values, types.uint64, values.dtype, types.uint64), write


def _lowest_bit(_: Any, mask: Any) -> Any:
    """Return the position of the lowest bit that is set, 64 where none is."""

    def write(_: Any, builder: Any, __: Any, arguments: Sequence[Any]) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), write


def _loaded(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
    """Load the neighbours."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    kind = ir.VectorType(context.get_value_type(signature.args[0].dtype), WIDTH)
    place = builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())
    loaded = builder.load(place)
    loaded.align = 4
    return loaded


def _splat(builder: Any, x: Any) -> Any:
    """Return a vector of which all elements are x."""
    vector = ir.VectorType(x.type, WIDTH)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)


early: Callable[..., Any] = in_llvm(_early)
least: Callable[..., Any] = in_llvm(_least)
lowest_bit: Callable[..., Any] = in_llvm(_lowest_bit)

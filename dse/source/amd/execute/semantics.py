"""Functions of the table of opcodes, over arrays of NumPy.

Source: AMD, "RDNA3" and "CDNA3 Instruction Set Architecture", the chapters on instructions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

U32, I32, U64, I64, F32, F64 = np.uint32, np.int32, np.uint64, np.int64, np.float32, np.float64
Array = Any


def wide(a: Array) -> Array:
    """Convert words to 64 bits, unsigned."""
    return a.astype(U64)


def add_carry(a: Array, b: Array) -> tuple[Array, Array]:
    """(sum, carry) of two words."""
    total = a + b
    return total, total < a


def add_carry_in(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """(sum, carry) of two words and a carry."""
    first = a + b
    total = first + carry.astype(U32)
    return total, (first < a) | (total < first)


def sub_borrow(a: Array, b: Array) -> tuple[Array, Array]:
    """(difference, borrow) of two words."""
    return a - b, a < b


def sub_borrow_in(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    """(difference, borrow) of two words and a borrow."""
    return a - b - borrow.astype(U32), (a < b) | ((a == b) & borrow)


def add_overflow(a: Array, b: Array) -> tuple[Array, Array]:
    """(sum, overflow) of signed words."""
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def sub_overflow(a: Array, b: Array) -> tuple[Array, Array]:
    """(difference, overflow) of signed words."""
    total = a - b
    return total, ((a ^ b) & (a ^ total)) < 0


def swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its first two operands exchanged."""
    return lambda a, b, *more: function(b, a, *more)


def tested(function: Callable[..., Array]) -> Callable[..., Any]:
    """Return the function with a second result: whether the first is not zero."""

    def both(*values: Array) -> tuple[Array, Array]:
        result = function(*values)
        return result, result != 0

    return both


def clamped_sub(a: Array, b: Array) -> Array:
    """The difference of unsigned words, at least 0."""
    return np.where(a < b, U32(0), a - b)


def clamped_add(a: Array, b: Array) -> Array:
    """The sum of unsigned words, at most the largest."""
    total = a + b
    return np.where(total < a, U32(0xFFFFFFFF), total)


def mul_hi(a: Array, b: Array) -> Array:
    """The high word of a product, of unsigned or of signed words."""
    if a.dtype == I32:
        return (a.astype(I64) * b.astype(I64) >> I64(32)).astype(I32)
    return (wide(a) * wide(b) >> U64(32)).astype(U32)


def low24(a: Array) -> Array:
    """The lower 24 bits, extended by their sign where words are signed."""
    return (a << I32(8)) >> I32(8) if a.dtype == I32 else a & U32(0xFFFFFF)


def mul24(a: Array, b: Array) -> Array:
    """The low word of the product of 24 bits."""
    return low24(a) * low24(b)


def mad64(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """(a * b + c, carry): of words, with a sum of 64 bits."""
    signed = a.dtype == I32
    product = (a.astype(I64) * b.astype(I64)).view(U64) if signed else wide(a) * wide(b)
    total = product + c
    return total, total < c


def shift_left(a: Array, b: Array) -> Array:
    """Shift left, by the low bits of the second operand."""
    return a << (b & b.dtype.type(a.dtype.itemsize * 8 - 1)).astype(a.dtype)


def shift_right(a: Array, b: Array) -> Array:
    """Shift right, by the low bits of the second operand; a signed number keeps its sign."""
    return a >> (b & b.dtype.type(a.dtype.itemsize * 8 - 1)).astype(a.dtype)


def bit_field(a: Array, at: Array, width: Array) -> Array:
    """A bit field of words, sign extended if they are signed."""
    at, width = at & at.dtype.type(31), width & width.dtype.type(31)
    if a.dtype == I32:
        up = I32(32) - width.astype(I32)
        moved = a.astype(I64) >> at.astype(I64) << (up.astype(I64) + 32)
        return np.where(width == 0, 0, moved >> (up.astype(I64) + 32)).astype(I32)
    return a >> at.astype(U32) & ((U32(1) << width.astype(U32)) - U32(1))


def packed_bit_field(a: Array, b: Array) -> Array:
    """`bit_field` of 32 or 64 bits, with position and width in one word; signed if `a` is."""
    size = a.dtype.itemsize * 8
    at, width = (b & U32(size - 1)).astype(a.dtype), np.minimum(b >> U32(16) & U32(0x7F), U32(size))
    above = (size - width).astype(a.dtype)  # shifting left and back extends the sign of signed fields
    return np.where(width == 0, a.dtype.type(0), (a >> at) << above >> above)


def align_bits(a: Array, b: Array, c: Array) -> Array:
    """A word from a pair, shifted by bits."""
    return ((wide(a) << U64(32) | wide(b)) >> wide(c & U32(31))).astype(U32)


def permute_bytes(a: Array, b: Array, select: Array) -> Array:
    """Four bytes, each selected from the eight of two words (those of `a` are the upper ones)."""
    both = wide(a) << U64(32) | wide(b)
    result = np.zeros(np.broadcast_shapes(both.shape, select.shape), U32)
    for byte in range(4):
        which = select >> U32(8 * byte) & U32(0xFF)
        value = (both >> (wide(which & U32(7)) << U64(3)) & U64(0xFF)).astype(U32)
        signs = [both >> U64(bit) & U64(1) for bit in (15, 31, 47, 63)]
        sign = np.select([which == 8 + at for at in range(4)], signs, U64(0)).astype(U32) * U32(0xFF)
        value = np.where(
            which < 8, value, np.where(which < 12, sign, np.where(which == 12, U32(0), U32(0xFF)))
        )
        result |= value << U32(8 * byte)
    return result


def count_ones(a: Array) -> Array:
    """The number of ones."""
    return np.bitwise_count(a).astype(U32)


def first_one(a: Array) -> Array:
    """The position of the lowest one; all ones if there is none."""
    lowest = np.bitwise_count((a & (~a + a.dtype.type(1))) - a.dtype.type(1)).astype(U32)
    return np.where(a == 0, U32(0xFFFFFFFF), lowest)


def leading_zeros(a: Array) -> Array:
    """The number of zeros above the highest one; all ones if there is none."""
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < a.dtype.itemsize * 8:
            a = a | a >> a.dtype.type(shift)
    return np.where(a == 0, U32(0xFFFFFFFF), U32(a.dtype.itemsize * 8) - np.bitwise_count(a).astype(U32))


def leading_signs(a: Array) -> Array:
    """The position, from the top, of the first bit that differs from the sign; all ones if there is none."""
    return leading_zeros((a ^ (a >> a.dtype.type(31))).view(U32))


def reversed_bits(a: Array) -> Array:
    """The bits in reverse order."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        a = (a >> U32(shift) & U32(mask)) | (a & U32(mask)) << U32(shift)
    return a >> U32(16) | a << U32(16)


def median(a: Array, b: Array, c: Array) -> Array:
    """The median of three."""
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def largest(a: Array, b: Array, c: Array) -> Array:
    """The largest of three."""
    return np.maximum(np.maximum(a, b), c)


def smallest(a: Array, b: Array, c: Array) -> Array:
    """The smallest of three."""
    return np.minimum(np.minimum(a, b), c)


def bit(number: Array, word: Array) -> Array:
    """The bit of this number, modulo the bits of `word`, as such a word."""
    kind = word.dtype.type
    return kind(1) << (number.astype(kind) & kind(8 * word.itemsize - 1))


def least_of_largest(a: Array, b: Array, c: Array) -> Array:
    """The larger of two, but at most the third."""
    return np.minimum(np.maximum(a, b), c)


def largest_of_least(a: Array, b: Array, c: Array) -> Array:
    """The smaller of two, but at least the third."""
    return np.maximum(np.minimum(a, b), c)


# Floating point


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Multiply and add, rounded once (except for ties in double precision)."""
    if a.dtype == F64:
        return a * b + c  # rounded twice
    return (a.astype(F64) * b + c).astype(a.dtype)


def half_sum(a: Array, b: Array, c: Array) -> Array:
    """`multiply_add` of single precision, as halves."""
    return multiply_add(a, b, c).astype(np.float16)


def dot_of_halves(a: Array, b: Array, c: Array) -> Array:
    """The sum of products of two pairs of halves, and a number."""
    low, high = (half_of(a, at).astype(np.float32) * half_of(b, at).astype(np.float32) for at in (0, 16))
    return low + high + c


def half_of(a: Array, at: int) -> Array:
    """The half-precision number from a bit of words on."""
    return (a >> U32(at)).astype(np.uint16).view(np.float16)


def pair_of(low: Array, high: Array) -> Array:
    """The lower 16 bits of two arrays, in one word."""
    low, high = np.broadcast_arrays(
        *(x.view(np.uint16).astype(U32) if x.itemsize == 2 else x.view(U32) for x in (low, high))
    )
    return low & U32(0xFFFF) | high << U32(16)


def float_to(kind: type, low: float, high: float) -> Callable[[Array], Array]:
    """Conversion to an integer, towards zero, within its range; NaN becomes 0."""

    def convert(a: Array) -> Array:
        if a.size and a.min() >= low and a.max() < high:  # false for NaN
            return a.astype(I64).astype(kind)
        value = np.clip(np.nan_to_num(np.trunc(a.astype(F64)), nan=0.0, posinf=high, neginf=low), low, high)
        return value.astype(I64).astype(kind)

    return convert


to_int = float_to(I32, -(2.0**31), 2.0**31 - 1)
to_uint = float_to(U32, 0.0, 2.0**32 - 1)


def class_of(a: Array, wanted: Array) -> Array:
    """Whether floating-point numbers are of one of the given classes, one bit each."""
    tiny = np.finfo(a.dtype).tiny
    zero, negative = a == 0, np.signbit(a)
    small, finite = (np.abs(a) < tiny) & ~zero, np.isfinite(a)
    normal = finite & ~zero & ~small
    bits = [
        np.zeros(a.shape, bool), np.isnan(a), np.isinf(a) & negative, normal & negative, small & negative,
        zero & negative, zero & ~negative, small & ~negative, normal & ~negative, np.isinf(a) & ~negative,
    ]  # fmt: skip
    class_bits = sum(bit.astype(U32) << U32(position) for position, bit in enumerate(bits))
    return class_bits & wanted != 0


def divided(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The last step of a division, which corrects special values: here the exact quotient."""
    return numerator / denominator + quotient * quotient.dtype.type(0)


def unscaled(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """The first step of a division: no operand is scaled here."""
    return a + (b + c) * a.dtype.type(0), np.zeros(a.shape, bool)


def packed_halves(a: Array, b: Array) -> Array:
    """Two numbers as halves in one word."""
    return pair_of(a.astype(np.float16), b.astype(np.float16))


def packed_bfloats(a: Array, b: Array) -> Array:
    """Two single-precision numbers, rounded to bfloat16, in one word."""

    def rounded(value: Array) -> Array:
        bits = value.view(U32)
        return (bits + U32(0x7FFF) + (bits >> U32(16) & U32(1))) >> U32(16)

    return rounded(a) | rounded(b) << U32(16)


def byte(number: int) -> Callable[[Array], Array]:
    """Conversion of one byte of a word to a number."""
    return lambda a: (a >> U32(8 * number) & U32(0xFF)).astype(F32)


def sign_extended(bits: int) -> Callable[[Array], Array]:
    """The lower bits of a word as a signed number."""
    return lambda a: (a << I32(32 - bits)) >> I32(32 - bits)


def looked_up(table: int, a: Array, b: Array, c: Array | None = None) -> Array:
    """Look up each bit of three words, or of two and 0, in a truth table."""
    a, b, c = np.broadcast_arrays(a, b, U32(0) if c is None else c)
    bits = np.zeros(a.shape, U32)
    for number in range(8):
        if table >> number & 1:
            bits |= (a if number & 4 else ~a) & (b if number & 2 else ~b) & (c if number & 1 else ~c)
    return bits


def choose(a: Array, b: Array, condition: Array) -> Array:
    """The second where the condition holds, else the first."""
    return np.where(condition, b, a)

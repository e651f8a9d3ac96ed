"""Picking the warp that issues next, of a case on its own: one minimum over its warps.

A warp may issue from its own earliest time on, its subsystem's and the valve's. The next entry is at the least
of these; where several warps may enter by then, the scheduler's key tells which one does. In ticks time and
key are one word, with the key in the low bits, so that one minimum finds both. In float64 a second one goes
over the warps that are ready.

Sixteen warps at a time are a vector of LLVM, the compiler behind Numba, as its own search for vectors misses
some of this loop. LLVM makes of it what the processor has: two instructions of four or eight numbers, say,
where there are none of sixteen.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from dse.simulator.engine.compile import in_llvm

WIDTH = 16  # warps of a vector


def picker(subsystems: int, kind: type["Warps"]) -> Callable[..., Any]:
    """Make `pick` for cases of at most so many subsystems."""

    def pick(_: Any, times: Any, counts: Any, *__: Any) -> Any:
        time, count, place = times.dtype, types.uint32, types.uint64
        signature = types.Tuple([time, count])(
            times, counts, place, place, place, place, place, count, time, count
        )
        return signature, _ticks if isinstance(time, types.Integer) else _float64

    def with_names(
        context: Any, times: Any, counts: Any, own: Any, gate: Any, subsystem: Any, key: Any, vectors: Any,
        shift: Any, valve: Any, mask: Any,
    ) -> Any:  # fmt: skip
        return pick(context, times, counts, own, gate, subsystem, key, vectors, shift, valve, mask)

    def _ticks(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        warps = kind(context, builder, signature, arguments, subsystems)
        never = ir.Constant(warps.counts, [2**32 - 1] * WIDTH)
        least = cgutils.alloca_once_value(builder, never)

        def word(nth):
            return builder.or_(warps.earliest(nth), warps.keys(nth))

        i64 = ir.IntType(64)
        one = builder.icmp_unsigned("==", warps.vectors, i64(1))
        with builder.if_else(one) as (then, other):
            with then:
                builder.store(word(i64(0)), least)
            with other:
                two = warps.least(word(i64(0)), word(i64(1)))
                builder.store(two, least)
                more = builder.icmp_unsigned("!=", warps.vectors, i64(2))
                with builder.if_then(more):
                    with cgutils.for_range_slice(builder, i64(2), warps.vectors, i64(1), intp=i64) as (
                        index,
                        _,
                    ):
                        builder.store(warps.least(builder.load(least), word(index)), least)
        word = warps.reduced(builder.load(least))
        t = builder.and_(word, builder.not_(warps.mask))
        return context.make_tuple(builder, signature.return_type, [t, word])

    def _float64(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        warps = kind(context, builder, signature, arguments, subsystems)
        never = ir.Constant(warps.times, [float("inf")] * WIDTH)
        nobody = ir.Constant(warps.counts, [2**32 - 1] * WIDTH)
        least, first = (cgutils.alloca_once_value(builder, x) for x in (never, nobody))
        with cgutils.for_range(builder, warps.vectors, intp=ir.IntType(64)) as loop:
            builder.store(warps.least(builder.load(least), warps.earliest(loop.index)), least)
        t = warps.reduced(builder.load(least))
        latest = warps.splat(t)
        with cgutils.for_range(builder, warps.vectors, intp=ir.IntType(64)) as loop:
            ready = builder.fcmp_ordered("<=", warps.earliest(loop.index), latest)
            key = builder.select(ready, warps.keys(loop.index), nobody)
            builder.store(warps.least(builder.load(first), key), first)
        key = builder.and_(warps.reduced(builder.load(first)), warps.mask)
        return context.make_tuple(builder, signature.return_type, [t, key])

    return in_llvm(with_names)


class Warps:
    """The warps of a case while instructions that look at them are written."""

    def __init__(
        self, context: Any, builder: Any, signature: Any, arguments: Sequence[Any], subsystems: int
    ) -> None:
        self.builder = builder
        times, counts, self.own, gate, self.subsystem, self.key, self.vectors, shift, valve, self.mask = (
            arguments
        )
        self.time = context.get_value_type(signature.args[0].dtype)
        self.times, self.counts = (ir.VectorType(x, WIDTH) for x in (self.time, ir.IntType(32)))
        arrays = [
            context.make_array(kind)(context, builder, x)
            for kind, x in zip(signature.args, (times, counts), strict=False)
        ]
        self.time_data, self.count_data = (array.data for array in arrays)
        self.gates = [
            self.splat(builder.load(builder.gep(self.time_data, [builder.add(gate, gate.type(s))])))
            for s in range(subsystems)
        ]
        self.valve, self.shift, self.masks = (self.splat(x) for x in (valve, shift, self.mask))

    def splat(self, x: Any) -> Any:
        """Return a vector of which all elements are x."""
        b, vector = self.builder, ir.VectorType(x.type, WIDTH)
        first = b.insert_element(ir.Constant(vector, ir.Undefined), x, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return b.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)

    def load(self, data: Any, at: Any, nth: Any, vector: Any) -> Any:
        """Load the n-th vector of those that begin at an index."""
        b = self.builder
        place = b.gep(data, [b.add(at, b.mul(nth, nth.type(WIDTH)))])
        loaded = b.load(b.bitcast(place, vector.as_pointer()))
        loaded.align = 4
        return loaded

    def compare(self, how: str, a: Any, b: Any) -> Any:
        """Compare numbers or vectors of either type."""
        scalar = getattr(a.type, "element", a.type)
        integers = isinstance(scalar, ir.IntType)
        return (self.builder.icmp_unsigned if integers else self.builder.fcmp_ordered)(how, a, b)

    def least(self, a: Any, b: Any) -> Any:
        """Return the smaller of two, elementwise."""
        return self.builder.select(self.compare("<", b, a), b, a)

    def later(self, a: Any, b: Any) -> Any:
        """Return the larger of two, elementwise."""
        return self.builder.select(self.compare(">", b, a), b, a)

    def earliest(self, nth: Any) -> Any:
        """Return from when on each warp of the n-th vector may issue."""
        b = self.builder
        number = self.load(self.count_data, self.subsystem, nth, self.counts)
        gate = self.gates[0]
        for s, of_subsystem in enumerate(self.gates[1:], 1):
            here = b.icmp_unsigned("==", number, ir.Constant(self.counts, [s] * WIDTH))
            gate = b.select(here, of_subsystem, gate)
        own = self.load(self.time_data, self.own, nth, self.times)
        return self.later(self.later(own, gate), self.valve)

    def keys(self, nth: Any) -> Any:
        """Return the scheduler's key of each warp of the n-th vector."""
        b = self.builder
        key = self.load(self.count_data, self.key, nth, self.counts)
        return b.and_(b.sub(key, self.shift), self.masks)

    def reduced(self, values: Any) -> Any:
        """Return the least element of a vector, halving it four times."""
        b, width = self.builder, WIDTH
        while width > 1:
            width //= 2
            none = ir.Constant(values.type, ir.Undefined)
            halves = (
                b.shuffle_vector(
                    values, none, ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(k, k + width)))
                )
                for k in (0, width)
            )
            values = self.least(*halves)
        return b.extract_element(values, ir.IntType(32)(0))


# Each subsystem more is two instructions more for every vector.
pick_of_2, pick_of_4, pick_of_8 = (picker(subsystems, Warps) for subsystems in (2, 4, 8))

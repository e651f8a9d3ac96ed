"""Picking the warp that issues next, of a case on its own: one minimum over its warps.

A warp may issue from its own earliest time on, its subsystem's and the valve's. The next entry is at the
least of these; where several warps may enter by then, the scheduler's key tells which one does. In ticks time
and key are one word, with the key in the low bits, so that one minimum finds both. In float64 a second one
goes over the warps that are ready.

Sixteen warps at a time are a vector of LLVM, the compiler behind Numba, as its own search for vectors misses
some of this loop. LLVM makes of it what the processor has: two instructions of four or eight numbers, say,
where there are none of sixteen.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from dse.core.numba_cache import in_llvm

WIDTH = 16  # warps of a vector


def picker(subsystems: int, kind: type["Warps"]) -> Callable[..., Any]:
    """Make a function that picks among the warps of a case with at most this many subsystems.

    It returns when the next instruction enters, and a word of which the low bits are the key of its warp.
    """

    def pick(
        _: Any, times: Any, counts: Any, own: Any, gate: Any, subsystem: Any, key: Any, vectors: Any,
        shift: Any, valve: Any, mask: Any,
    ) -> Any:  # fmt: skip
        """Pick; `own`, `gate`, `subsystem` and `key` are where these begin in `times` and `counts`."""
        time, count, index = times.dtype, types.uint32, types.uint64
        arguments = (times, counts, index, index, index, index, index, count, time, count)
        signature = types.Tuple([time, count])(*arguments)
        in_ticks = isinstance(time, types.Integer)

        def write(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            warps = kind(context, builder, signature, arguments, subsystems)
            place = _in_ticks(builder, warps) if in_ticks else _in_float64(builder, warps)
            return context.make_tuple(builder, signature.return_type, place)

        return signature, write

    return in_llvm(pick)


def _in_ticks(builder: Any, warps: "Warps") -> tuple[Any, Any]:
    """Find the least word of time and key."""
    word = warps.least_of_all(lambda nth: builder.or_(warps.earliest(nth), warps.keys(nth)), warps.counts)
    return builder.and_(word, builder.not_(warps.mask)), word


def _in_float64(builder: Any, warps: "Warps") -> tuple[Any, Any]:
    """Find the least time, then the least key of the warps that are ready by then."""
    now = warps.least_of_all(warps.earliest, warps.times)
    latest, nobody = warps.splat(now), ir.Constant(warps.counts, [2**32 - 1] * WIDTH)

    def keys(nth: Any) -> Any:
        ready = builder.fcmp_ordered("<=", warps.earliest(nth), latest)
        return builder.select(ready, warps.keys(nth), nobody)

    return now, warps.least_of_all(keys, warps.counts)


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
        """Load the n-th vector from an index on."""
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

    def least_of_all(self, values: Callable[[Any], Any], vector: Any) -> Any:
        """Return the least element of all vectors, most often one or two, where a loop would cost more."""
        b, index = self.builder, ir.IntType(64)
        least = cgutils.alloca_once(b, vector)
        with b.if_else(b.icmp_unsigned("==", self.vectors, index(1))) as (single, several):
            with single:
                b.store(values(index(0)), least)
            with several:
                b.store(self.least(values(index(0)), values(index(1))), least)
                with b.if_then(b.icmp_unsigned("!=", self.vectors, index(2))):
                    rest = cgutils.for_range_slice(b, index(2), self.vectors, index(1), intp=index)
                    with rest as (nth, _):
                        b.store(self.least(b.load(least), values(nth)), least)
        return self.reduced(b.load(least))

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

"""Selection of the warp that issues next: one minimum over the warps of a case.

A warp may issue from the latest of its own time, its subsystem's and the valve's. The next entry is at the
earliest of these over the warps; among the warps ready by then the scheduler's key decides. In ticks a word
holds time and key, with the key in the low bits, so that one minimum finds both. In float64 a second minimum
goes over the keys of the ready warps. Sixteen warps form a vector.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from dse.core.numba_cache import in_llvm
from dse.simulator.engine.vectors import WIDTH, compare, least_element, load, smaller, splat


def picker(subsystems: int, kind: type["Warps"]) -> Callable[..., Any]:
    """Make a function that picks among the warps of a case with at most `subsystems` subsystems.

    It returns the time of the next entry, and a word with the key of its warp in the low bits.
    """

    def pick(
        _: Any, times: Any, counts: Any, own: Any, gate: Any, subsystem: Any, key: Any, vectors: Any,
        shift: Any, valve: Any, mask: Any,
    ) -> Any:  # fmt: skip
        """Pick; `own`, `gate`, `subsystem` and `key` are the offsets of these in `times` and `counts`."""
        time, count, index = times.dtype, types.uint32, types.uint64
        arguments = (times, counts, index, index, index, index, index, count, time, count)
        signature = types.Tuple([time, count])(*arguments)
        in_ticks = isinstance(time, types.Integer)

        def write(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            warps = kind(context, builder, signature, arguments, subsystems)
            entry = _in_ticks(builder, warps) if in_ticks else _in_float64(builder, warps)
            return context.make_tuple(builder, signature.return_type, entry)

        return signature, write

    return in_llvm(pick)


def _in_ticks(builder: Any, warps: "Warps") -> tuple[Any, Any]:
    """Find the least word of time and key."""
    word = warps.least_of_all(lambda nth: builder.or_(warps.earliest(nth), warps.keys(nth)), warps.counts)
    return builder.and_(word, builder.not_(warps.mask)), word


def _in_float64(builder: Any, warps: "Warps") -> tuple[Any, Any]:
    """Find the least time, then the least key of the warps that are ready by then."""
    now = warps.least_of_all(warps.earliest, warps.times)
    latest, nobody = splat(builder, now), ir.Constant(warps.counts, [2**32 - 1] * WIDTH)

    def keys(nth: Any) -> Any:
        ready = builder.fcmp_ordered("<=", warps.earliest(nth), latest)
        return builder.select(ready, warps.keys(nth), nobody)

    return now, warps.least_of_all(keys, warps.counts)


class Warps:
    """The warps of a case, as values of the LLVM code that is being written."""

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
            splat(builder, builder.load(builder.gep(self.time_data, [builder.add(gate, gate.type(s))])))
            for s in range(subsystems)
        ]
        self.valve, self.shift, self.masks = (splat(builder, x) for x in (valve, shift, self.mask))

    def load(self, data: Any, first: Any, nth: Any, vector: Any) -> Any:
        """Load the n-th vector after the index `first`."""
        b = self.builder
        return load(b, data, b.add(first, b.mul(nth, nth.type(WIDTH))), vector)

    def least(self, a: Any, b: Any) -> Any:
        """Return the smaller of two, elementwise."""
        return smaller(self.builder, a, b)

    def later(self, a: Any, b: Any) -> Any:
        """Return the larger of two, elementwise."""
        return self.builder.select(compare(self.builder, ">", b, a), b, a)

    def earliest(self, nth: Any) -> Any:
        """Return the time from which each warp of the n-th vector may issue."""
        b = self.builder
        number = self.load(self.count_data, self.subsystem, nth, self.counts)
        gate = self.gates[0]
        for s, of_subsystem in enumerate(self.gates[1:], 1):
            same = b.icmp_unsigned("==", number, ir.Constant(self.counts, [s] * WIDTH))
            gate = b.select(same, of_subsystem, gate)
        own = self.load(self.time_data, self.own, nth, self.times)
        return self.later(self.later(own, gate), self.valve)

    def keys(self, nth: Any) -> Any:
        """Return the scheduler's key of each warp of the n-th vector."""
        b = self.builder
        key = self.load(self.count_data, self.key, nth, self.counts)
        return b.and_(b.sub(key, self.shift), self.masks)

    def least_of_all(self, values: Callable[[Any], Any], vector: Any) -> Any:
        """Return the least element of all vectors; one or two are common, and cheaper without a loop."""
        b, index = self.builder, ir.IntType(64)
        least = cgutils.alloca_once(b, vector)
        with b.if_else(b.icmp_unsigned("==", self.vectors, index(1))) as (single, several):
            with single:
                b.store(values(index(0)), least)
            with several:
                b.store(self.least(values(index(0)), values(index(1))), least)
                with b.if_then(b.icmp_unsigned("!=", self.vectors, index(2))):
                    others = cgutils.for_range_slice(b, index(2), self.vectors, index(1), intp=index)
                    with others as (nth, _):
                        b.store(self.least(b.load(least), values(nth)), least)
        return least_element(b, b.load(least))

"""Makespans as a differentiable function of λ, Λ, the same-warp intervals and 1/IL.

A makespan is a sum of terms along the critical path, so the counts of that path are its exact derivatives,
where it is differentiable. At a tie it may have a kink, or jump, and they are one-sided.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float

from dse.core.precision import in_64_bits
from dse.simulator.case.program import Case
from dse.simulator.engine.layout import OF_LATENCY, OF_SAME_WARP, OF_THROUGHPUT, OF_VALVE


class Terms(NamedTuple):
    """The terms whose sums are makespans, in cycles; instructions in the order of cases and programs."""

    throughput_cycles: Float[Array, " instructions"]
    latency_cycles: Float[Array, " instructions"]
    same_warp: Float[Array, " instructions"]
    valve: Float[Array, " cases"]  # 1/IL; ignored for a case without an issue limit

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "Terms":
        """Return the terms of the cases, float64."""
        programs = [program for case in cases for program in case.programs]
        with in_64_bits():
            return cls(
                *(
                    jnp.asarray(np.concatenate([getattr(p, name) for p in programs]))
                    for name in ("throughput_cycles", "latency_cycles", "same_warp")
                ),
                valve=jnp.asarray([case.valve_cycles for case in cases]),
            )


def makespans(cases: Sequence[Case]) -> Callable[[Terms], Float[Array, " cases"]]:
    """Make a function from terms to makespans in cycles, to be jitted, or differentiated in reverse mode.

    The cases define the structure: programs, warps, options, and which have an issue limit. Simulates on the
    host, always in float64, so use it under `dse.core.precision.in_64_bits()`.
    **Errors:** TypeError if the terms are not float64.
    """
    structure = _GraphStructure(cases)

    @jax.custom_vjp
    def of_terms(terms: Terms) -> Array:
        return _on_host(structure.makespans, (len(cases),), terms)

    def forward(terms: Terms) -> tuple[Array, Array]:
        size = len(cases) + sum(len(x) for x in terms)
        results = _on_host(structure.makespans_and_counts, (size,), terms)
        return results[: len(cases)], results[len(cases) :]

    def backward(counts: Array, of_ends: Array) -> tuple[Terms]:
        lengths = [len(case) for case in structure.case_of]
        parts = jnp.split(counts, np.cumsum(lengths)[:-1])
        return (Terms(*(x * of_ends[case] for x, case in zip(parts, structure.case_of, strict=True))),)

    of_terms.defvjp(forward, backward)

    def checked(terms: Terms) -> Array:
        for name, values in terms._asdict().items():
            if values.dtype != np.float64:
                raise TypeError(f"makespans: {name}: found {values.dtype}, expected float64 (jax.enable_x64)")
        return of_terms(terms)

    return checked


class _GraphStructure:
    """Cases without their terms."""

    def __init__(self, cases: Sequence[Case]) -> None:
        from dse.simulator.engine.columns import CaseColumns  # Numba takes a third of a second

        self.columns = CaseColumns.of(cases)
        programs = [program for case in cases for program in case.programs]
        case = np.repeat(np.arange(len(cases)), [sum(map(len, case.programs)) for case in cases])
        self.case_of = (case, case, case, np.arange(len(cases)))  # of each term
        unrolled = np.repeat(self.columns.dataflow, self.columns.program_counts)
        first = np.cumsum([0, *map(len, programs)])
        self.instruction = np.concatenate(  # of each row of the columns, where loops may be unrolled
            [
                start + (program.order if loops else np.arange(len(program)))
                for start, program, loops in zip(first[:-1], programs, unrolled, strict=True)
            ]
        )

    def simulated(self, terms: Sequence[np.ndarray], critical: bool) -> Any:
        from dse.simulator.engine.batches import simulate_columns

        throughput_cycles, latency_cycles, same_warp, valve = terms
        columns = replace(
            self.columns,
            throughput_cycles=throughput_cycles[self.instruction],
            latency_cycles=latency_cycles[self.instruction],
            same_warp=same_warp[self.instruction],
            valve=np.where(self.columns.valve > 0, valve, 0.0),
        )
        return simulate_columns(columns, critical, steady=False, ticks=False)

    def makespans(self, *terms: np.ndarray) -> np.ndarray:
        return self.simulated(terms, critical=False).makespan

    def makespans_and_counts(self, *terms: np.ndarray) -> np.ndarray:
        """Return the makespans, and each term's count on the critical path of its case."""
        result = self.simulated(terms, critical=True)
        counts = [
            np.bincount(self.instruction, result.counts[kind], len(terms[0]))
            for kind in (OF_THROUGHPUT, OF_LATENCY, OF_SAME_WARP)
        ]
        case = self.columns.case.repeat(self.columns.length)
        counts.append(np.bincount(case, result.counts[OF_VALVE], len(result.makespan)))
        return np.concatenate([result.makespan, *counts])


def _on_host(function: Callable[..., np.ndarray], shape: tuple[int, ...], terms: Terms) -> Array:
    """Call a function of NumPy arrays of float64.

    A callback runs in another thread, where JAX has no float64: a number is passed as two of uint32.
    """

    def call(*bits: Any) -> np.ndarray:
        values = (np.ascontiguousarray(x).view(np.float64)[:, 0] for x in bits)
        return function(*values).reshape(*shape, 1).view(np.uint32)

    bits = [lax.bitcast_convert_type(x, jnp.uint32) for x in terms]
    result = jax.ShapeDtypeStruct((*shape, 2), jnp.uint32)
    called = jax.pure_callback(call, result, *bits, vmap_method="sequential")
    return lax.bitcast_convert_type(called, jnp.float64)

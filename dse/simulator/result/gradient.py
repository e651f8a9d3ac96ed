"""Makespans as a differentiable function of λ, Λ, the same-warp intervals and 1/IL.

A makespan is a sum of terms along the critical path, so the counts of that path are its derivatives: exact,
wherever it has them. At a tie it may have a kink, or jump, and they are one choice.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.precision import in_64_bits
from dse.simulator.case.program import Case
from dse.simulator.engine.batch import CaseBatch
from dse.simulator.engine.loop import simulated
from dse.simulator.engine.step import OF_LATENCY, OF_SAME_WARP, OF_THROUGHPUT, OF_VALVE
from dse.simulator.result.critical_path import count_terms
from dse.simulator.simulation import batches


class Terms(NamedTuple):
    """The terms of which makespans are sums, in cycles, instructions in the order of cases and programs."""

    throughput_cycles: Float[Array, " instructions"]
    latency_cycles: Float[Array, " instructions"]
    same_warp: Float[Array, " instructions"]
    valve: Float[Array, " cases"]  # 1/IL; what is given for a case without an issue limit changes nothing

    @classmethod
    def of(cls, cases: Sequence[Case]) -> "Terms":
        """Take the terms of the cases, float64."""
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

    The cases give the structure: programs, warps, options, and which of them have an issue limit. Simulates
    in float64 whatever the terms, so use it under `dse.precision.in_64_bits()`.
    **Errors:** TypeError where the terms are not float64.
    """
    numbers = np.arange(len(cases))
    entries = np.array([case.entries for case in cases], np.int64)
    parts = [_Part(cases, x) for x in batches(cases, numbers, entries, ticks=False, record=True)]
    order = np.concatenate([part.batch.cases for part in parts])

    @jax.custom_vjp
    def of_terms(terms: Terms) -> Array:
        ends = [part.simulated(terms, record=False)[0] for part in parts]
        return jnp.concatenate(ends)[np.argsort(order)]

    def forward(terms: Terms) -> tuple[Array, list[Array]]:
        ends, counts = zip(*(part.with_counts(terms) for part in parts), strict=True)
        return jnp.concatenate(ends)[np.argsort(order)], list(counts)

    def backward(counts: list[Array], of_ends: Array) -> tuple[Terms]:
        instructions = sum(len(program) for case in cases for program in case.programs)
        gradient = Terms(*(jnp.zeros(instructions) for _ in range(3)), valve=jnp.zeros(len(cases)))
        for part, of_part in zip(parts, counts, strict=True):
            gradient = part.add_to(gradient, of_part, of_ends)
        return (gradient,)

    of_terms.defvjp(forward, backward)

    def checked(terms: Terms) -> Array:
        for name, values in terms._asdict().items():
            if values.dtype != np.float64:
                raise TypeError(f"makespans: {name}: found {values.dtype}, expected float64 (jax.enable_x64)")
        return of_terms(terms)

    return checked


class _Part:
    """A batch of cases whose terms are given later."""

    def __init__(self, cases: Sequence[Case], batch: CaseBatch) -> None:
        self.batch = batch
        self.features = replace(batch.features, same_warp=True)
        counts = [[len(program) for program in case.programs] for case in cases]
        firsts = np.cumsum([0, *(sum(lengths) for lengths in counts)])
        index = []
        for n in batch.cases:
            first = firsts[n]
            for program in cases[n].programs:
                unrolled = batch.features.dataflow and program.loops
                index.append(first + (program.order if unrolled else np.arange(len(program))))
                first += len(program)
        self.instruction = np.concatenate(index)  # of all cases, for each of the batch
        self.case = np.repeat(batch.cases[batch.columns.case], batch.columns.length)  # of each instruction

    def simulated(self, terms: Terms, record: bool) -> tuple[Array, ...]:
        """Simulate with these terms: the ends of the cases, and the record."""
        tables = {name: jnp.asarray(x) for name, x in self.batch.tables.items()}
        for name in ("throughput_cycles", "latency_cycles", "same_warp"):
            cycles = getattr(terms, name)[self.instruction]
            tables[name] = jnp.zeros(len(tables["word"])).at[: len(cycles)].set(cycles)
        closes = self.batch.columns.valve > 0
        valve = jnp.where(closes, terms.valve[self.batch.cases], jnp.zeros(len(closes)))
        tables["case_interval"] = jnp.zeros(len(tables["case_interval"])).at[: len(valve)].set(valve)
        ends, _, *rest = simulated(tables, replace(self.features, record=record), self.batch)
        return ends[: len(self.batch.cases)], *rest

    def with_counts(self, terms: Terms) -> tuple[Array, Array]:
        """Return the ends, and how often each term is on the critical paths."""
        ends, last, *record = self.simulated(terms, record=True)
        walks = np.arange(len(last)) < len(ends)
        size = len(self.batch.tables["word"])
        counts = count_terms(self.batch.tables["case_base"], walks, last, *record, instructions=size)
        return ends, counts.reshape(-1, size)[:, : len(self.instruction)]

    def add_to(self, gradient: Terms, counts: Array, of_ends: Array) -> Terms:
        """Add to the gradient the share of this batch's makespans."""
        share = counts.astype(of_ends.dtype) * of_ends[self.case][None]
        return Terms(
            throughput_cycles=gradient.throughput_cycles.at[self.instruction].add(share[OF_THROUGHPUT]),
            latency_cycles=gradient.latency_cycles.at[self.instruction].add(share[OF_LATENCY]),
            same_warp=gradient.same_warp.at[self.instruction].add(share[OF_SAME_WARP]),
            valve=gradient.valve.at[self.case].add(share[OF_VALVE]),
        )

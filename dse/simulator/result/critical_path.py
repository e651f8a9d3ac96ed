"""The critical path: from the last completion back through the entries that each one waited for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dse.simulator.engine.batch import CaseBatch
from dse.simulator.engine.step import OF_LATENCY, OF_SAME_WARP, OF_THROUGHPUT

TERMS = {"throughput_cycles": OF_THROUGHPUT, "latency_cycles": OF_LATENCY, "same_warp": OF_SAME_WARP}
KINDS = 4


@functools.partial(jax.jit, static_argnames="instructions")
def count_terms(
    base: Array, walks: Array, last: Array, waited_for: Array, words: Array, instructions: int
) -> Array:
    """Count how often each instruction's terms lie on the path of its case.

    **Shapes:** `base`, `walks` (whether the case has a path) and `last` [cases]; `waited_for`, `words`
    [entries], a case's from its `base` on; counts [4 · instructions], in the order of the terms' codes.
    The valve's are counted at the entry that closed it.
    """

    def walk(state: tuple[Array, ...]) -> tuple[Array, ...]:
        at, term, going, counts = state
        word, before = words[base + at], waited_for[base + at]
        counts = counts.at[term * instructions + (word >> 2)].add(going.astype(jnp.int32))
        going &= before >= 0
        return jnp.where(going, before, at), word & 3, going, counts

    start = (last, jnp.full_like(last, OF_LATENCY), walks, jnp.zeros(KINDS * instructions, jnp.int32))
    return lax.while_loop(lambda state: jnp.any(state[2]), walk, start)[3]


def path_counts(batch: CaseBatch, ends: np.ndarray, record: tuple[np.ndarray, ...]) -> np.ndarray:
    """Count terms [4, instructions of the batch] along the paths of all cases that came to an end."""
    last, waited_for, words = record
    walks = np.zeros(len(last), bool)
    walks[: len(ends)] = ~np.isnan(ends)
    size = len(batch.tables["word"])
    counts = count_terms(
        batch.tables["case_base"], walks, np.where(walks, last, 0), waited_for, words, instructions=size
    )
    return np.asarray(counts).reshape(KINDS, size)[:, : len(batch.columns.subsystem)]

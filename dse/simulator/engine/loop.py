"""The loop over a batch: steps of all lanes, and every few steps a service for those that are done."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from dse.precision import in_64_bits
from dse.simulator.engine import steady
from dse.simulator.engine.batch import CaseBatch
from dse.simulator.engine.old_columns import ceil_power
from dse.simulator.engine.dataflow import begin_rows, dataflow_order
from dse.simulator.engine.features import Features
from dse.simulator.engine.lanes import Lane, Tables, at_row, clock, columns, empty, fill, put
from dse.simulator.engine.step import program_order, slot_number

STEPS = 16  # between services


def simulate_batch(tables: Tables, f: Features, entries: int) -> tuple[Array, ...]:
    """Simulate a batch: when the cases end; with `record`, also what the walk along the critical path needs.

    **Shapes:** tables as of `make_batch`; ends [cases]; `entries` is the static size of the record.
    **Returns:** ends (`never` where a time grew too large for its word) and entries that were skipped; with
    `record` also the last entry to complete of each case [cases], and per entry the one it waited for and its
    instruction with the term; with `profile` besides, per entry, its time, warp and group.
    """
    size = tables["case_warps"].shape[0]
    never = clock(f).never
    count = tables["count"]
    step = dataflow_order if f.dataflow else program_order
    nobody = size - 1

    lane = empty(f)
    lane["case"] = jnp.full(f.lanes, nobody, jnp.int32)
    if f.steady:
        lane["snapshot"] = steady.remembered(lane)
    ends = (jnp.full(size, never), jnp.zeros(size, jnp.int32))
    record: tuple[Array, ...] = ()
    if f.record:
        free = jnp.zeros(entries + f.lanes, jnp.int32)
        record = (jnp.zeros(size, jnp.int32), free, free)
        if f.profile:
            record += (jnp.zeros(entries + f.lanes, clock(f).dtype), free, free)

    def serve(state: tuple[Any, ...]) -> tuple[Any, ...]:
        lane, head, ends, last = state
        busy = lane["case"] < nobody
        waits = lane["ended"] >= 0 if f.sequence else jnp.zeros_like(busy)
        over = busy & ((lane["left"] <= 0) | ~(lane["active"] | waits))
        at = jnp.where(over, lane["case"], size)
        end = jnp.where(lane["left"] <= 0, lane["end"], never)
        skipped = lane["skipped"] if f.steady else jnp.int32(0)
        ends = (ends[0].at[at].set(end, mode="drop"), ends[1].at[at].set(skipped, mode="drop"))
        if f.record:
            last = last.at[at].set(lane["end_id"], mode="drop")
        wants = over | ~busy
        queue = head + jnp.cumsum(wants, dtype=jnp.int32) - 1
        new = jnp.where(wants & (queue < count), queue, nobody)
        head = jnp.minimum(head + jnp.sum(wants, dtype=jnp.int32), count)
        if f.steady:
            snapshot = lane.pop("snapshot")
            lane = fill(lane, tables, f, wants, new)
            lane = steady.begin(lane | {"snapshot": snapshot}, wants)
        else:
            lane = fill(lane, tables, f, wants, new)
        return lane, head, ends, last

    def served(lane: Lane, head: Array) -> Array:
        busy = lane["case"] < nobody
        needs = busy & ((lane["left"] <= 0) | ~lane["active"])
        return jnp.any(needs) | (jnp.any(~busy) & (head < count))

    def block(state: tuple[Any, ...]) -> tuple[Any, ...]:
        lane, head, ends, record = state
        rows = ("own", "minima", "least") if f.dataflow else ()
        # What no service touches stays outside of the branch, which might copy it.
        results = () if f.loops else ("results", "results_id")
        kept = {name: lane.pop(name) for name in (*results, *rows, "done_id") if name in lane}
        last = record[0] if f.record else ()
        if f.dataflow:
            lane["starts"] = jnp.zeros_like(lane["starts"])
        lane, head, ends, last = lax.cond(
            served(lane, head), serve, lambda state: state, (lane, head, ends, last)
        )
        lane |= kept
        if f.dataflow:
            lane = begin_rows(lane, tables, f)
        if f.steady:
            found = jnp.any(steady.returned(lane, f))
            lane = lax.cond(found, lambda lane: steady.skip(lane, tables, f), lambda lane: lane, lane)
            due = jnp.any(lane["blocks"] >= lane["until"])
            lane = lax.cond(due, lambda lane: steady.keep(lane, f), lambda lane: lane, lane)
            lane["blocks"] += 1
        record = (last, *record[1:]) if f.record else ()

        def one(_: Any, carry: tuple[Lane, tuple[Array, ...]]) -> tuple[Lane, tuple[Array, ...]]:
            lane, record = carry
            lane, e = step(lane, tables, f)
            if f.record:
                parent, term, entry, j = (lane.pop(x) for x in ("parent", "term", "entry", "instruction"))
                at = jnp.where(e.active, lane["base"] + entry, entries + columns(f))
                kept = [parent, j << 2 | term]
                if f.profile:
                    slot = slot_number(lane, f, e.warp)
                    group = at_row(lane["group"], slot, f) if f.sequence else slot
                    kept += [e.t, e.warp, group]
                record = (record[0], *(put(old, at, x) for old, x in zip(record[1:], kept, strict=True)))
            return lane, record

        lane, record = lax.fori_loop(0, STEPS, one, (lane, record))
        return lane, head, ends, record

    def going(state: tuple[Any, ...]) -> Array:
        lane, head, _, _ = state
        return jnp.any(lane["case"] < nobody) | (head < count)

    _, _, ends, record = lax.while_loop(going, block, (lane, jnp.int32(0), ends, record))
    return (*ends, *record)


@functools.cache
def _compiled() -> Any:
    options = {"xla_cpu_prefer_vector_width": 512} if jax.default_backend() == "cpu" else None
    return jax.jit(simulate_batch, static_argnames=("f", "entries"), compiler_options=options)


def simulated(tables: Tables, f: Features, batch: CaseBatch) -> tuple[Array, ...]:
    """Run `simulate_batch`, compiled with options that only an outermost `jit` may have."""
    entries = ceil_power(int(batch.entries.sum())) if f.record else 0
    if any(isinstance(x, Tracer) for x in tables.values()):
        return simulate_batch(tables, f, entries)
    return _compiled()(tables, f=f, entries=entries)


def run(batch: CaseBatch) -> tuple[np.ndarray, ...]:
    """Simulate a batch: ends in cycles, NaN where ticks did not suffice, entries skipped, and the record."""
    f = batch.features
    with in_64_bits(not f.ticks):
        tables = {name: jnp.asarray(x) for name, x in batch.tables.items()}
        ends, skipped, *record = (np.asarray(x) for x in simulated(tables, f, batch))
    ends, skipped = ends[: len(batch.entries)], skipped[: len(batch.entries)]
    if not f.ticks:
        return np.where(np.isinf(ends), np.nan, ends), skipped, *record
    time = (ends >> np.uint32(f.key_bits)).astype(np.float64) * batch.tick
    return np.where(ends == clock(f).never, np.nan, time), skipped, *record

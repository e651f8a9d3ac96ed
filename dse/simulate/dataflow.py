"""The step of dataflow order: any instruction whose operands are ready may enter, up to the next barrier.

Each warp has a row of the times from which its instructions may enter, but for their subsystems. `least`
holds each row's minimum per subsystem, so that choosing a warp reads no row, and an entry reads only its own.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dse.simulate.features import BARRIER, LAST, NO_BARRIER, Features
from dse.simulate.lanes import Lane, Tables, at_row, choose, clock, columns, get, put, warp_of, with_row
from dse.simulate.step import Entry, cause, count_group, enter, gates, meet, needs, occupy, pick, set_free


def _rows(values: Array, at: Array) -> Array:
    """Whole rows: [lanes, length]."""
    return values.at[at].get(mode="promise_in_bounds")


def _allowed(number: Array, entered: Array, end: Array) -> Array:
    """Which instructions no barrier keeps: those before the next one, and it once they all have entered."""
    before = number < (end & (NO_BARRIER - 1))[:, None]
    return before | ((number == end[:, None]) & (entered == end)[:, None])


def begin_rows(lane: Lane, tables: Tables, f: Features) -> Lane:
    """Fill the rows of warps that start, one lane after another: a lane's rows lie together."""
    starts = lane["starts"]  # [width, lanes]
    touched = jnp.any(starts, 0)
    order = jnp.argsort(~touched, stable=True).astype(jnp.int32)
    cut = jax.vmap(lambda first: lax.dynamic_slice(tables["initial"], (first,), (f.length,)))

    def one(n: Array, rows: tuple[Array, Array]) -> tuple[Array, Array]:
        own, done = rows
        at = order[n] * f.width
        new = lax.dynamic_slice_in_dim(starts, order[n], 1, 1)
        first = lax.dynamic_slice_in_dim(lane["program"], order[n], 1, 1)[:, 0]
        old = lax.dynamic_slice_in_dim(own, at, f.width)
        own = lax.dynamic_update_slice_in_dim(own, jnp.where(new, cut(first), old), at, 0)
        size = f.width * f.length
        old = lax.dynamic_slice_in_dim(done, at * f.length, size)
        cleared = jnp.where(new, clock(f).never, old.reshape(f.width, f.length)).reshape(-1)
        return own, lax.dynamic_update_slice_in_dim(done, cleared, at * f.length, 0)

    count = jnp.sum(touched, dtype=jnp.int32)
    own, done = lax.fori_loop(jnp.int32(0), count, one, (lane["own"], lane["done"]))
    return lane | {"own": own, "done": done}


def dataflow_order(lane: Lane, tables: Tables, f: Features) -> tuple[Lane, Entry]:
    """Enter the candidate of the scheduler's warp."""
    _, never, mask = clock(f)
    gate = gates(lane, f)
    earliest = jnp.maximum(lane["least"][0], gate[0][None])
    for s in range(1, f.subsystems):
        earliest = jnp.minimum(earliest, jnp.maximum(lane["least"][s], gate[s][None]))
    t, key = pick(jnp.maximum(lane["wake"], earliest), lane, f)
    active = t < lane["limit"]
    if f.sequence:
        active &= lane["ended"] < 0
    # A lane with nothing to enter points at the warp of its last entry, which has ended.
    warp = jnp.where(active, warp_of(key, lane, f), jnp.maximum(lane["last"], 0))
    at = warp * f.lanes + columns(f)
    row = columns(f) * f.width + warp

    # The lowest number among the instructions with the smallest earliest time of this warp.
    threshold = jnp.minimum(get(lane["least"][0].reshape(-1), at), never)
    threshold = jnp.maximum(threshold, gate[0])
    for s in range(1, f.subsystems):
        least = get(lane["least"][s].reshape(-1), at)
        threshold = jnp.minimum(threshold, jnp.maximum(least, gate[s]))
    threshold = jnp.maximum(threshold, at_row(lane["wake"], warp, f))
    entered, end = at_row(lane["entered"], warp, f), at_row(lane["segment_end"], warp, f)
    number = lax.broadcasted_iota(jnp.int32, (1, f.length), 1)
    allowed = _allowed(number, entered, end)
    own_row = _rows(lane["own"], row)
    program = at_row(lane["program"], warp, f)
    if f.ticks:
        subsystem_row = (own_row & mask).astype(jnp.int32)
        ready = (own_row & ~mask) <= threshold[:, None]
    else:
        cut = jax.vmap(lambda first: lax.dynamic_slice(tables["subsystem"], (first,), (f.length,)))
        subsystem_row = cut(program)
        ready = own_row <= threshold[:, None]
    open_gate = choose(subsystem_row, [(g <= threshold)[:, None] for g in gate])
    i = jnp.min(jnp.where(ready & open_gate & allowed, number, np.int32(f.length - 1)), 1)
    e = enter(lane, tables, f, t, warp, active, program + i)

    base = row * f.length
    done = put(lane["done"], base + i, e.done)
    own = put(lane["own"].reshape(-1), base + i, jnp.full_like(t, never))
    for n in range(f.succs):
        ahead = get(tables[f"feeds{n}"], e.instruction)
        feeds = active & (ahead > 0)
        ready_at = jnp.zeros_like(t)
        for distance in needs(tables, f, e.instruction + ahead):
            result = get(done, base + i + ahead - distance)
            ready_at = jnp.where(distance > 0, jnp.maximum(ready_at, result), ready_at)
        if f.ticks:
            ready_at |= get(tables["word"], e.instruction + ahead) & np.uint32(7)
        value = jnp.where(feeds, ready_at, never)
        own = put(own, base + i + jnp.where(feeds, ahead, 0), value)
    own = own.reshape(lane["own"].shape)

    barrier = active & ((e.word & np.uint32(BARRIER)) != 0)
    entered += active.astype(jnp.int32)
    if f.barriers:
        end = jnp.where(barrier, get(tables["segment_after"], e.instruction), end)
    allowed = _allowed(number, entered, end)
    own_row = _rows(own, row)
    if f.ticks:
        subsystem_row = (own_row & mask).astype(jnp.int32)
        own_row = own_row & ~mask
    # Above every time even without its low bits, which `pick` replaces.
    own_row = jnp.where(allowed, own_row, never)
    least = [
        put(old.reshape(-1), at, jnp.min(jnp.where(subsystem_row == s, own_row, never), 1)).reshape(old.shape)
        for s, old in enumerate(lane["least"])
    ]
    wake = e.wake
    if f.barriers:
        wake = jnp.where(barrier, never, wake)
    new: Lane = {
        "own": own,
        "done": done,
        "least": least,
        "wake": with_row(lane["wake"], warp, wake, f),
        "entered": with_row(lane["entered"], warp, entered, f),
        "segment_end": with_row(lane["segment_end"], warp, end, f),
    }
    if f.record:
        needed, needed_id = jnp.zeros_like(t), jnp.full_like(at, -1)
        for distance in needs(tables, f, e.instruction):  # the last of equals has the lowest number
            result = get(lane["done"], base + i - distance)
            result_id = get(lane["done_id"], base + i - distance)
            this = (distance > 0) & ((result > needed) | (needed_id < 0))
            needed, needed_id = jnp.where(this, result, needed), jnp.where(this, result_id, needed_id)
        new["done_id"] = put(lane["done_id"], base + i, lane["count"])
        new["previous_id"] = with_row(lane["previous_id"], warp, jnp.where(active, lane["count"], -1), f)
        new["woken"] = with_row(lane["woken"], warp, e.wake, f)
        parent, term = cause(lane, f, e, (needed, needed_id), at_row(lane["woken"], warp, f))
        new |= {"parent": parent, "term": term, "entry": lane["count"], "instruction": e.instruction}
    lane = occupy(lane, f, e) | new
    if f.barriers:
        over = (e.word & np.uint32(LAST)) != 0
        held = jnp.where(over, never, e.wake)
        lane, full, first, release = meet(lane, f, e)
        lane["held"] = with_row(lane["held"], warp, held, f)
        lane["wake"] = lax.cond(
            jnp.any(full),
            functools.partial(set_free, f=f),
            lambda wake, *_: wake,
            *(lane["wake"], lane["held"], full, first, lane["warps"], release),
        )
    if f.sequence:
        lane = count_group(lane, f, e)
    return lane, e

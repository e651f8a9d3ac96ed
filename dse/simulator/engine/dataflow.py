"""The step of dataflow order: any instruction whose operands are ready may enter, up to the next barrier.

Each warp has a row `own` of the times from which its instructions may enter, but for their subsystems; of one
that has entered, it holds when its result is ready. A step that read whole rows would be slow, so there are
minima per subsystem of each block of a row (`minima`) and of the whole row (`least`). Choosing a warp reads
`least` alone, and an entry reads the warp's minima, and changes those of the blocks that it touches.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dse.simulator.engine.features import BARRIER, BLOCK, EDGE_BITS, LAST, NO_BARRIER, TOP, Features
from dse.simulator.engine.lanes import (
    Lane,
    Tables,
    at_row,
    choose,
    clock,
    columns,
    get,
    put,
    warp_of,
    with_row,
)
from dse.simulator.engine.step import (
    Entry,
    cause,
    count_group,
    enter,
    gates,
    meet,
    needs,
    occupy,
    pick,
    set_free,
)


def gone(done: Array, f: Features) -> Array:
    """Encode an instruction that has entered, and is ready at `done`, as a row holds it."""
    return done | np.uint32(TOP) if f.ticks else -done  # -0.0 at time 0: the sign alone tells


def result(own: Array, f: Features) -> Array:
    """Return the time when an instruction is ready, never if it has not entered."""
    never = clock(f).never
    if not f.ticks:
        return jnp.where(jnp.signbit(own), -own, never)
    # What may enter lies below TOP and wraps around to above it; what may not becomes TOP - 1.
    time = own - np.uint32(TOP)
    return jnp.where(time < np.uint32(TOP - 1), time, never)


def may_enter(own: Array, f: Features) -> Array:
    """Return the time from which an instruction may enter, no sooner than TOP if it has."""
    return own if f.ticks else jnp.where(jnp.signbit(own), clock(f).never, own)


def pieces(values: Array, at: Array, size: int) -> Array:
    """Gather elements [lanes, size] of rows that are multiples of `size` long."""
    return values.reshape(-1, size).at[at].get(mode="promise_in_bounds")


def before_barrier(number: Array, entered: Array, end: Array) -> Array:
    """Tell which instructions no barrier keeps: those before the next one, and it once they all have entered.

    **Shapes:** `entered` and `end` [warps] with `number` [..., length]; bool [warps, length].
    """
    before = number < (end & (NO_BARRIER - 1))[:, None]
    return before | ((number == end[:, None]) & (entered == end)[:, None])


def last_block(end: Array, f: Features) -> Array:
    """Return the block of the next barrier, or the row's last one."""
    return jnp.minimum((end & (NO_BARRIER - 1)) // BLOCK, f.length // BLOCK - 1)


def minima_of(own: Array, subsystem: Array, f: Features) -> list[Array]:
    """Return the least time per subsystem: [..., block] → [...]."""
    return [jnp.min(jnp.where(subsystem == s, own, clock(f).never), -1) for s in range(f.subsystems)]


def begin_rows(lane: Lane, tables: Tables, f: Features) -> Lane:
    """Fill the rows of warps that start, one lane after another: a lane's rows lie together."""
    never, mask = clock(f).never, clock(f).mask
    blocks = f.length // BLOCK
    number = lax.broadcasted_iota(jnp.int32, (1, f.length), 1)
    block = lax.broadcasted_iota(jnp.int32, (1, blocks), 1)

    def cut(name: str, first: Array) -> Array:
        return jax.vmap(lambda at: lax.dynamic_slice(tables[name], (at,), (f.length,)))(first)

    def one(state: tuple[Array, Lane]) -> tuple[Array, Lane]:
        touched, rows = state
        b = jnp.argmax(touched).astype(jnp.int32)

        def of_warps(name: str) -> Array:
            return lax.dynamic_slice_in_dim(lane[name], b, 1, 1)[:, 0]

        starts = of_warps("starts")
        first = of_warps("program")
        own = jnp.where(number < of_warps("length")[:, None], cut("initial", first), never)
        subsystem = (own & mask).astype(jnp.int32) if f.ticks else cut("subsystem", first)
        open_own, shown = own, block < blocks
        if f.barriers:
            end = of_warps("segment_end")
            last = last_block(end, f)[:, None]
            hidden = (number // BLOCK == last) & ~before_barrier(number, jnp.zeros_like(end), end)
            open_own, shown = jnp.where(hidden, never, own), block <= last
        in_blocks = (f.width, blocks, BLOCK)
        minima = minima_of(open_own.reshape(in_blocks), subsystem.reshape(in_blocks), f)
        least = [jnp.min(jnp.where(shown, x, never), 1) for x in minima]

        def replace(old: Array, new: Array, at: Array) -> Array:
            kept = lax.dynamic_slice_in_dim(old, at, new.shape[0])
            where = starts.reshape(-1, 1) if new.shape[0] == f.width else starts[None]
            return lax.dynamic_update_slice_in_dim(old, jnp.where(where, new, kept), at, 0)

        rows = {
            "own": replace(rows["own"], own, b * f.width),
            "minima": replace(rows["minima"], jnp.concatenate(minima, 1), b * f.width),
            "least": [replace(old, x[None], b) for old, x in zip(rows["least"], least, strict=True)],
        }
        return touched & (columns(f) != b), rows

    rows = {name: lane[name] for name in ("own", "minima", "least")}
    touched = jnp.any(lane["starts"], 0)
    return lane | lax.while_loop(lambda state: jnp.any(state[0]), one, (touched, rows))[1]


def find(
    lane: Lane, tables: Tables, f: Features, threshold: Array, gate: list[Array], warp: Array, row: Array
) -> Array:
    """Find the lowest-numbered instruction of a warp that may enter by the threshold: number [lanes]."""
    mask = clock(f).mask
    blocks = f.length // BLOCK
    if f.ticks:
        threshold |= mask  # the low bits are a subsystem
    open_gate = [g <= threshold for g in gate]
    minima = pieces(lane["minima"], row, f.subsystems * blocks).reshape(f.lanes, f.subsystems, blocks)
    ready = jnp.zeros((f.lanes, blocks), bool)
    for s in range(f.subsystems):
        ready |= (minima[:, s] <= threshold[:, None]) & open_gate[s][:, None]
    nth = lax.broadcasted_iota(jnp.int32, (1, blocks), 1)
    block = jnp.min(jnp.where(ready, nth, np.int32(blocks - 1)), 1)
    if f.barriers:
        block = jnp.minimum(block, last_block(at_row(lane["segment_end"], warp, f), f))

    own, subsystem = read_block(lane["own"], lane, tables, f, warp, row, block)
    number = (block * BLOCK)[:, None] + lax.broadcasted_iota(jnp.int32, (1, BLOCK), 1)
    ready = (own <= threshold[:, None]) & choose(subsystem, [g[:, None] for g in open_gate])
    if f.barriers:
        ready &= before_barrier(
            number, at_row(lane["entered"], warp, f), at_row(lane["segment_end"], warp, f)
        )
    return jnp.min(jnp.where(ready, number, ((block + 1) * BLOCK - 1)[:, None]), 1)


def read_block(
    own: Array, lane: Lane, tables: Tables, f: Features, warp: Array, row: Array, block: Array
) -> tuple[Array, Array]:
    """Read when a block's instructions may enter, and their subsystems: [lanes, block]."""
    values = pieces(own, row * (f.length // BLOCK) + block, BLOCK)
    if f.ticks:
        return values, (values & clock(f).mask).astype(jnp.int32)
    cut = jax.vmap(lambda first: lax.dynamic_slice(tables["subsystem"], (first,), (BLOCK,)))
    return may_enter(values, f), cut(at_row(lane["program"], warp, f) + block * BLOCK)


def dataflow_order(lane: Lane, tables: Tables, f: Features) -> tuple[Lane, Entry]:
    """Enter the candidate of the scheduler's warp, and follow a row of edges to what waits for its result.

    A lane that has more of them to follow enters nothing new: it repeats its last entry with the next row.
    """
    never, blocks = clock(f).never, f.length // BLOCK
    gate = gates(lane, f)
    earliest = jnp.maximum(lane["least"][0], gate[0][:, None])
    for s in range(1, f.subsystems):
        earliest = jnp.minimum(earliest, jnp.maximum(lane["least"][s], gate[s][:, None]))
    t, key = pick(jnp.maximum(lane["wake"], earliest).T, lane, f)
    again = lane["edges"] > 0
    active = (t < lane["limit"]) & ~again
    if f.sequence:
        active &= lane["ended"] < 0
    # A lane with nothing to enter points at the warp of its last entry, which has ended.
    warp = jnp.where(active, warp_of(key, lane, f), jnp.maximum(lane["last"], 0))
    row = columns(f) * f.width + warp

    threshold = t  # of the warp's candidate, its earliest time: with a valve, t may be later
    if f.valve:
        threshold = jnp.full_like(t, never)
        for s in range(f.subsystems):
            least = get(lane["least"][s].reshape(-1), row)
            threshold = jnp.minimum(threshold, jnp.maximum(least, gate[s]))
        threshold = jnp.maximum(threshold, get(lane["wake"].reshape(-1), row))
    i = jnp.where(again, lane["number"], find(lane, tables, f, threshold, gate, warp, row))
    t = jnp.where(again, lane["entered_at"], t)
    e = enter(lane, tables, f, t, warp, active, at_row(lane["program"], warp, f) + i)

    barrier = active & ((e.word & np.uint32(BARRIER)) != 0)
    entered = end = jnp.zeros_like(warp)
    if f.barriers:
        entered = at_row(lane["entered"], warp, f) + active.astype(jnp.int32)
        end = at_row(lane["segment_end"], warp, f)
        end = jnp.where(barrier, get(tables["segment_after"], e.instruction), end)

    # Follow the edges. Those that lead nowhere write the entry's own place once more.
    base, minima_base = row * f.length, row * (f.subsystems * blocks)
    edges = jnp.where(again, lane["edges"], e.instruction)
    own, minima = lane["own"].reshape(-1), lane["minima"].reshape(-1)
    own = put(own, base + i, gone(e.done, f))
    for n in range(f.succs):
        ahead, others, subsystem = edge(tables, f, edges * f.succs + n)
        leads = (active | again) & (ahead > 0)
        to = jnp.where(leads, i + ahead, i)
        ready = e.done
        for distance in others:
            done = result(get(own, base + to - jnp.where(leads, distance, 0)), f)
            ready = jnp.where(distance > 0, jnp.maximum(ready, done), ready)
        if f.ticks:
            ready = jnp.where(ready < never, ready | subsystem.astype(jnp.uint32), never)
        own = put(own, base + to, jnp.where(leads, ready, gone(e.done, f)))
        in_minima = minima_base + subsystem * blocks + to // BLOCK
        ready = jnp.where(leads, ready, never)
        minima = put(minima, in_minima, jnp.minimum(get(minima, in_minima), ready))

    # Now what has entered no longer counts; nor does, in the block of a barrier, what waits for that.
    for block in (i // BLOCK, last_block(end, f))[: 1 + f.barriers]:
        values, subsystem = read_block(own, lane, tables, f, warp, row, block)
        if f.barriers:
            number = (block * BLOCK)[:, None] + lax.broadcasted_iota(jnp.int32, (1, BLOCK), 1)
            values = jnp.where(before_barrier(number, entered, end), values, never)
        for s, least in enumerate(minima_of(values, subsystem, f)):
            minima = put(minima, minima_base + s * blocks + block, least)
    after = pieces(minima, row, f.subsystems * blocks).reshape(f.lanes, f.subsystems, blocks)
    if f.barriers:
        nth = lax.broadcasted_iota(jnp.int32, (1, 1, blocks), 2)
        after = jnp.where(nth <= last_block(end, f)[:, None, None], after, never)
    wake = e.wake
    if f.barriers:
        wake = jnp.where(again, get(lane["wake"].reshape(-1), row), jnp.where(barrier, never, wake))

    new: Lane = {
        "own": own.reshape(lane["own"].shape),
        "minima": minima.reshape(lane["minima"].shape),
        "least": [
            put(old.reshape(-1), row, jnp.min(after[:, s], 1)).reshape(old.shape)
            for s, old in enumerate(lane["least"])
        ],
        "wake": put(lane["wake"].reshape(-1), row, wake).reshape(lane["wake"].shape),
        "edges": jnp.where(active | again, get(tables["following"], edges), 0),
        "number": i,
        "entered_at": t,
    }
    if f.barriers:
        new["entered"] = with_row(lane["entered"], warp, entered, f)
        new["segment_end"] = with_row(lane["segment_end"], warp, end, f)
    if f.record:
        new |= record(lane, tables, f, e, i, again)
    lane = occupy(lane, f, e) | new
    lane["active"] |= again
    if f.barriers:
        over = (e.word & np.uint32(LAST)) != 0
        held = jnp.where(over, never, e.wake)
        lane, full, first, release = meet(lane, f, e)
        lane["held"] = with_row(lane["held"], warp, held, f)
        lane["wake"] = lax.cond(
            jnp.any(full),
            lambda wake, *others: set_free(wake.T, *others, f=f).T,
            lambda wake, *_: wake,
            *(lane["wake"], lane["held"], full, first, lane["warps"], release),
        )
    if f.sequence:
        lane = count_group(lane, f, e)
    return lane, e


def edge(tables: Tables, f: Features, at: Array) -> tuple[Array, list[Array], Array]:
    """Read an edge: the distance ahead (0: nowhere), those back to the other operands, and its subsystem."""
    low = np.uint32((1 << EDGE_BITS) - 1)
    words = [get(tables[f"edges{n}"], at) for n in range(0, max(f.preds, 2), 2)]
    distances = [
        (word >> np.uint32(shift) & low).astype(jnp.int32) for word in words for shift in (0, EDGE_BITS)
    ]
    subsystem = (words[0] >> np.uint32(2 * EDGE_BITS)).astype(jnp.int32)
    return distances[0], distances[1 : max(f.preds, 1)], subsystem


def record(lane: Lane, tables: Tables, f: Features, e: Entry, i: Array, again: Array) -> Lane:
    """Record what the critical path needs to know of an entry."""
    own = lane["own"].reshape(-1)
    place = (columns(f) * f.width + e.warp) * f.length + i
    needed, needed_id = jnp.zeros_like(e.t), jnp.full_like(e.warp, -1)
    for distance in needs(tables, f, e.instruction):  # the last of equals has the lowest number
        done, done_id = result(get(own, place - distance), f), get(lane["done_id"], place - distance)
        this = (distance > 0) & ((done > needed) | (needed_id < 0))
        needed, needed_id = jnp.where(this, done, needed), jnp.where(this, done_id, needed_id)
    parent, term = cause(lane, f, e, (needed, needed_id), at_row(lane["woken"], e.warp, f))
    entry = jnp.where(again, lane["count"] - 1, lane["count"])
    return {
        "done_id": put(lane["done_id"], place, entry),
        "previous_id": with_row(lane["previous_id"], e.warp, jnp.where(e.active | again, entry, -1), f),
        "woken": with_row(lane["woken"], e.warp, e.wake, f),
        "parent": parent,
        "term": term,
        "entry": lane["count"],
        "instruction": e.instruction,
    }

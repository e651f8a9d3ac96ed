"""One entry in each lane: what both orders share, and the step of program order."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dse.simulate.features import BARRIER, LAST, NEED_BITS, SLOT_AT, SMALL_LAM_BITS, Features
from dse.simulate.lanes import Lane, Tables, choose, clock, columns, get, keys, put, rows, slot_of, warp_of

OF_LATENCY, OF_LAM, OF_VALVE, OF_SAME_WARP = range(4)  # which term of the entry that it waited for binds


class Entry(NamedTuple):
    """What enters now: [lanes]."""

    active: Array  # whether anything does
    t: Array
    warp: Array
    at: Array  # its flat index
    instruction: Array
    word: Array
    subsystem: Array
    done: Array  # t + Λ
    accepts: Array  # t + λ
    wake: Array  # t + the same-warp interval


def gates(lane: Lane, f: Features) -> list[Array]:
    """When each subsystem takes its next instruction: it accepts one, and one in flight has gone."""
    if not f.cap:
        return lane["free"]
    return [jnp.maximum(free, oldest) for free, oldest in zip(lane["free"], lane["oldest"], strict=True)]


def pick(earliest: Array, lane: Lane, f: Features) -> tuple[Array, Array]:
    """The time of the next entry and the key of its warp, from each warp's earliest time.

    A word of ticks has its time in the upper bits: the least word with a key below it has the least time,
    then the least key. Its low bits may hold anything. With a valve, a warp is ready where its earliest
    time is past, so that the later of the two keeps the order.
    """
    mask = clock(f).mask
    if f.valve:
        earliest = jnp.maximum(earliest, lane["valve"][None])
    if f.ticks:
        least = jnp.min((earliest & ~mask) | keys(lane, f), 0)
        return least & ~mask, least & mask
    t = jnp.min(earliest, 0)
    return t, jnp.min(jnp.where(earliest <= t[None], keys(lane, f), mask), 0)


def enter(
    lane: Lane, tables: Tables, f: Features, t: Array, warp: Array, active: Array, at: Array, j: Array
) -> Entry:
    """Read the instruction and add its terms to t."""
    word = get(tables["word"], j)
    if f.packed:
        terms = get(tables["terms"], j)
        shift = np.uint32(f.key_bits)
        lam = (terms & np.uint32((1 << SMALL_LAM_BITS) - 1)) << shift
        latency = (terms >> np.uint32(SMALL_LAM_BITS)) << shift
    else:
        lam, latency = get(tables["lam"], j), get(tables["Lam"], j)
    wake = t + get(tables["same_warp"], j) if f.same_warp else t
    subsystem = (word & np.uint32(7)).astype(jnp.int32)
    return Entry(active, t, warp, at, j, word, subsystem, t + latency, t + lam, wake)


def needs(tables: Tables, f: Features, j: Array) -> list[Array]:
    """An instruction's dependences: slots counted from 1, in dataflow order distances; 0 for none."""
    needs = []
    for n in range(0, f.preds, 2):
        pair = get(tables[f"needs{n}"], j)
        needs.append((pair & np.uint32((1 << NEED_BITS) - 1)).astype(jnp.int32))
        needs.append((pair >> np.uint32(NEED_BITS)).astype(jnp.int32))
    return needs[: f.preds]


def occupy(lane: Lane, f: Features, e: Entry) -> Lane:
    """The subsystem, the valve, the limits in flight, and the counts after an entry."""
    new: Lane = {
        "free": [
            jnp.where(e.active & (e.subsystem == s), e.accepts, free) for s, free in enumerate(lane["free"])
        ],
        "last": jnp.where(e.active, e.warp, lane["last"]),
        "left": lane["left"] - e.active.astype(jnp.int32),
        "end": jnp.where(e.active, jnp.maximum(lane["end"], e.done), lane["end"]),
        "active": e.active,
    }
    if f.steady:
        new["now"] = jnp.where(e.active, e.t, lane["now"])
    if f.valve:
        new["valve"] = jnp.where(e.active, e.t + lane["interval"], lane["valve"])
    if f.cap:
        column = columns(f)
        cap, place = choose(e.subsystem, lane["cap"]), choose(e.subsystem, lane["place"])
        row = e.subsystem * f.cap
        following = jnp.where(place + 1 >= cap, 0, place + 1)
        # A lane that waits writes into the place that its next entry overwrites.
        new["flying"] = put(lane["flying"], (row + place) * f.lanes + column, e.done)
        oldest = get(new["flying"], (row + following) * f.lanes + column)
        oldest = jnp.where(cap > 0, oldest, jnp.zeros_like(oldest))
        here = [e.active & (e.subsystem == s) for s in range(f.subsystems)]
        new["oldest"] = [jnp.where(h, oldest, old) for h, old in zip(here, lane["oldest"], strict=True)]
        new["place"] = [jnp.where(h, following, old) for h, old in zip(here, lane["place"], strict=True)]
        if f.record:
            new["flying_id"] = put(lane["flying_id"], (row + place) * f.lanes + column, lane["count"])
            oldest_id = get(new["flying_id"], (row + following) * f.lanes + column)
            oldest_id = jnp.where(cap > 0, oldest_id, -1)
            new["oldest_id"] = [
                jnp.where(h, oldest_id, old) for h, old in zip(here, lane["oldest_id"], strict=True)
            ]
    if f.record:
        new["free_id"] = [
            jnp.where(e.active & (e.subsystem == s), lane["count"], old)
            for s, old in enumerate(lane["free_id"])
        ]
        later = e.active & ((e.done > lane["end"]) | (lane["count"] == 0))
        new["end_id"] = jnp.where(later, lane["count"], lane["end_id"])
        new["count"] = lane["count"] + e.active.astype(jnp.int32)
    return lane | new


def slot_index(lane: Lane, f: Features, warp: Array) -> tuple[Array, Array]:
    """A warp's slot and the slot's flat index."""
    if f.slots == 1:
        return jnp.zeros_like(warp), columns(f)
    slot = jnp.clip(slot_of(warp, lane), 0, f.slots - 1)
    return slot, slot * f.lanes + columns(f)


def meet(lane: Lane, f: Features, e: Entry) -> tuple[Lane, Array, Array, Array]:
    """Count a barrier's entry; whether all have met, the group's first warp, and its release: [lanes]."""
    slot, at = slot_index(lane, f, e.warp)
    barrier = e.active & ((e.word & np.uint32(BARRIER)) != 0)
    met, release = get(lane["met"], at), get(lane["release"], at)
    latest = jnp.where(barrier, jnp.maximum(release, e.done), release)
    count = met + barrier.astype(jnp.int32)
    full = barrier & (count >= lane["warps"])
    new: Lane = {
        "met": put(lane["met"], at, jnp.where(full, 0, count)),
        "release": put(lane["release"], at, jnp.where(full, jnp.zeros_like(latest), latest)),
    }
    if f.record:
        first = barrier & ((e.done > release) | (met == 0))
        latest_id = jnp.where(first, lane["count"] - 1, get(lane["release_id"], at))  # already counted
        new["release_id"] = put(lane["release_id"], at, latest_id)
        released, released_id = get(lane["released"], at), get(lane["released_id"], at)
        new["released"] = put(lane["released"], at, jnp.where(full, latest, released))
        new["released_id"] = put(lane["released_id"], at, jnp.where(full, latest_id, released_id))
    return lane | new, full, slot * lane["warps"], latest


def set_free(
    own: Array, held: Array, full: Array, first: Array, warps: Array, release: Array, f: Features
) -> Array:
    """Earliest times [width, lanes], where a barrier is full those that were held for its group's warps."""
    mask = clock(f).mask
    inside = full[None] & ((rows(f) - first[None]).astype(jnp.uint32) < warps.astype(jnp.uint32)[None])
    if f.ticks:
        held = jnp.maximum(held & ~mask, release[None]) | (held & mask)
    else:
        held = jnp.maximum(held, release[None])
    return jnp.where(inside, held, own)


def count_group(lane: Lane, f: Features, e: Entry) -> Lane:
    """Note when a group ends; if another follows, its lane waits."""
    slot, at = slot_index(lane, f, e.warp)
    left = get(lane["group_left"], at) - e.active.astype(jnp.int32)
    end = get(lane["group_end"], at)
    ended = e.active & (left == 0) & (lane["next_group"] < lane["groups"])
    new: Lane = {
        "group_left": put(lane["group_left"], at, left),
        "group_end": put(lane["group_end"], at, jnp.where(e.active, jnp.maximum(end, e.done), end)),
        "ended": jnp.where(ended, slot, lane["ended"]),
    }
    if f.record:
        end_id = get(lane["group_end_id"], at)
        # Done times are 0 at a group's start, below those of its entries or equal to them at time 0.
        first = e.active & ((e.done > end) | (end_id < 0))
        new["group_end_id"] = put(lane["group_end_id"], at, jnp.where(first, lane["count"] - 1, end_id))
    return lane | new


def cause(
    lane: Lane, f: Features, e: Entry, needed: tuple[Array, Array], woken: Array
) -> tuple[Array, Array]:
    """The entry that set the binding constraint, -1 for none, and which of its terms counts.

    The constraints come in the order of the list; `needed` is the dependences' time and first entry.
    """
    previous_id = get(lane["previous_id"], e.at)
    slot_at = slot_index(lane, f, e.warp)[1]
    found: list[tuple[Array, Array, int]] = [(needed[0], needed[1], OF_LATENCY)]
    found.append((choose(e.subsystem, lane["free"]), choose(e.subsystem, lane["free_id"]), OF_LAM))
    if f.valve:
        set_by = jnp.where(lane["interval"] > 0, lane["count"] - 1, -1)
        found.append((lane["valve"], set_by, OF_VALVE))
    if f.cap:
        oldest = choose(e.subsystem, lane["oldest"])
        found.append((oldest, choose(e.subsystem, lane["oldest_id"]), OF_LATENCY))
    if f.barriers:
        found.append((get(lane["released"], slot_at), get(lane["released_id"], slot_at), OF_LATENCY))
    found.append((woken, previous_id, OF_SAME_WARP))
    if f.sequence:
        first = jnp.where(previous_id < 0, get(lane["start_id"], slot_at), -1)
        found.append((get(lane["start"], slot_at), first, OF_LATENCY))
    parent, term = jnp.full_like(e.at, -1), jnp.zeros_like(e.at)
    for time, set_by, of in reversed(found):
        binds = (time == e.t) & (set_by >= 0)
        parent, term = jnp.where(binds, set_by, parent), jnp.where(binds, of, term)
    return parent, term


def following(lane: Lane, tables: Tables, f: Features, e: Entry) -> tuple[Array, Array, Lane]:
    """The instruction after this one, whether there is none, and the counts of loops that end with it."""
    after, over = e.instruction + 1, (e.word & np.uint32(LAST)) != 0
    new: Lane = {}
    again = jnp.zeros_like(over)
    for d in reversed(range(f.loops)):
        trips = get(tables[f"trips{d}"], e.instruction)
        count = get(lane[f"trip{d}"], e.at)
        ends = e.active & (trips > 0) & ~again
        more = ends & (count + 1 < trips)
        after = jnp.where(more, get(tables[f"back{d}"], e.instruction), after)
        new[f"trip{d}"] = put(lane[f"trip{d}"], e.at, jnp.where(ends, jnp.where(more, count + 1, 0), count))
        again |= more
    return after, over & ~again, new


def program_order(lane: Lane, tables: Tables, f: Features) -> tuple[Lane, Entry]:
    """Enter the next instruction of the scheduler's warp."""
    _, never, mask = clock(f)
    own = lane["own"]
    number = (own & mask).astype(jnp.int32) if f.ticks else lane["subsystem"]
    gate = choose(number, [g[None] for g in gates(lane, f)])
    t, key = pick(jnp.maximum(own, gate), lane, f)
    active = t < lane["limit"]
    if f.sequence:
        active &= lane["ended"] < 0
    # A lane with nothing to enter points at the warp of its last entry, which has ended.
    warp = jnp.where(active, warp_of(key, lane, f), jnp.maximum(lane["last"], 0))
    at = warp * f.lanes + columns(f)
    e = enter(lane, tables, f, t, warp, active, at, get(lane["next"], at))
    after, over, new = following(lane, tables, f, e)

    stride = f.width * f.lanes
    slot = ((e.word >> np.uint32(SLOT_AT)) & np.uint32((1 << NEED_BITS) - 1)).astype(jnp.int32)
    results = put(lane["results"], slot * stride + at, e.done)
    new |= {"results": results, "next": put(lane["next"], at, after)}
    if f.record:
        new["results_id"] = put(lane["results_id"], slot * stride + at, lane["count"])
    earliest, from_id = jnp.zeros_like(e.t), jnp.full_like(at, -1)
    for need in needs(tables, f, after):  # the lowest number first
        index = jnp.maximum(need - 1, 0) * stride + at
        result = jnp.where(need > 0, get(results, index), jnp.zeros_like(earliest))
        if f.record:
            this = (need > 0) & ((result > earliest) | (from_id < 0))
            from_id = jnp.where(this, get(new["results_id"], index), from_id)
        earliest = jnp.maximum(earliest, result)
    own_time = jnp.maximum(e.wake, earliest)
    if f.loops:
        subsystem = get(tables["word"], after) & np.uint32(7)
    else:
        subsystem = (e.word >> np.uint32(3)) & np.uint32(7)
    over |= ~active
    value = jnp.where(over, never, own_time | subsystem if f.ticks else own_time)
    held = value
    if f.barriers:
        value = jnp.where((e.word & np.uint32(BARRIER)) != 0, never, value)
    new["own"] = put(own.reshape(-1), at, value).reshape(own.shape)
    if not f.ticks:
        number = put(lane["subsystem"].reshape(-1), at, subsystem.astype(jnp.int32))
        new["subsystem"] = number.reshape(own.shape)
    if f.record:
        new["needed"] = put(lane["needed"], at, earliest)
        new["needed_id"] = put(lane["needed_id"], at, from_id)
        new["woken"] = put(lane["woken"], at, e.wake)
        new["previous_id"] = put(lane["previous_id"], at, jnp.where(active, lane["count"], -1))
        needed = (get(lane["needed"], at), get(lane["needed_id"], at))
        parent, term = cause(lane, f, e, needed, get(lane["woken"], at))
        new |= {"parent": parent, "term": term, "entry": lane["count"], "instruction": e.instruction}
    lane = occupy(lane, f, e) | new
    if f.barriers:
        lane, full, first, release = meet(lane, f, e)
        lane["held"] = put(lane["held"].reshape(-1), at, held).reshape(own.shape)
        # Rare, and a branch keeps the lanes' part from being worked out anew for each warp.
        lane["own"] = lax.cond(
            jnp.any(full),
            functools.partial(set_free, f=f),
            lambda own, *_: own,
            *(lane["own"], lane["held"], full, first, lane["warps"], release),
        )
    if f.sequence:
        lane = count_group(lane, f, e)
    return lane, e

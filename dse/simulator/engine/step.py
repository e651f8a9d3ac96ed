"""One entry in each lane: what both orders share, and the step of program order."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dse.simulator.engine.features import BARRIER, LAST, NEED_BITS, SLOT_AT, SMALL_THROUGHPUT_BITS, Features
from dse.simulator.engine.lanes import (
    Lane,
    Tables,
    at_row,
    choose,
    clock,
    count_up,
    get,
    keys,
    rows,
    slot_of,
    warp_of,
    with_row,
)

OF_LATENCY, OF_THROUGHPUT, OF_VALVE, OF_SAME_WARP = range(
    4
)  # which term of the entry that it waited for binds


class Entry(NamedTuple):
    """The instructions that enter now, one in each lane: [lanes]."""

    active: Array  # whether anything does
    t: Array
    warp: Array
    instruction: Array
    word: Array
    subsystem: Array
    done: Array  # t + Λ
    accepts: Array  # t + λ
    wake: Array  # t + the same-warp interval


def gates(lane: Lane, f: Features) -> list[Array]:
    """Return when each subsystem takes its next instruction: it accepts one, and one in flight has gone."""
    return list(jnp.maximum(lane["free"], lane["oldest"]) if f.cap else lane["free"])


def pick(earliest: Array, lane: Lane, f: Features) -> tuple[Array, Array]:
    """Pick the time of the next entry and the key of its warp, from each warp's earliest time.

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


def enter(lane: Lane, tables: Tables, f: Features, t: Array, warp: Array, active: Array, j: Array) -> Entry:
    """Read the instruction and add its terms to t."""
    word = get(tables["word"], j)
    if f.packed:
        terms = get(tables["terms"], j)
        shift = np.uint32(f.key_bits)
        throughput_cycles = (terms & np.uint32((1 << SMALL_THROUGHPUT_BITS) - 1)) << shift
        latency = (terms >> np.uint32(SMALL_THROUGHPUT_BITS)) << shift
    else:
        throughput_cycles, latency = get(tables["throughput_cycles"], j), get(tables["latency_cycles"], j)
    wake = t + get(tables["same_warp"], j) if f.same_warp else t
    subsystem = (word & np.uint32(7)).astype(jnp.int32)
    return Entry(active, t, warp, j, word, subsystem, t + latency, t + throughput_cycles, wake)


def needs(tables: Tables, f: Features, j: Array) -> list[Array]:
    """Read an instruction's dependences: slots counted from 1, in dataflow order distances; 0 for none."""
    needs = []
    for n in range(0, f.preds, 2):
        pair = get(tables[f"needs{n}"], j)
        needs.append((pair & np.uint32((1 << NEED_BITS) - 1)).astype(jnp.int32))
        needs.append((pair >> np.uint32(NEED_BITS)).astype(jnp.int32))
    return needs[: f.preds]


def occupy(lane: Lane, f: Features, e: Entry) -> Lane:
    """Update the subsystem, the valve, the limits in flight, and the counts after an entry."""
    here = e.active[None] & (count_up(f.subsystems) == e.subsystem[None])
    new: Lane = {
        "free": jnp.where(here, e.accepts[None], lane["free"]),
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
        cap, place = at_row(lane["cap"], e.subsystem, f), at_row(lane["place"], e.subsystem, f)
        row = e.subsystem * f.cap
        following = jnp.where(place + 1 >= cap, 0, place + 1)
        # A lane that waits writes into the place that its next entry overwrites.
        new["flying"] = with_row(lane["flying"], row + place, e.done, f)
        oldest = at_row(new["flying"], row + following, f)
        oldest = jnp.where(cap > 0, oldest, jnp.zeros_like(oldest))
        new["oldest"] = jnp.where(here, oldest[None], lane["oldest"])
        new["place"] = jnp.where(here, following[None], lane["place"])
        if f.record:
            new["flying_id"] = with_row(lane["flying_id"], row + place, lane["count"], f)
            oldest_id = at_row(new["flying_id"], row + following, f)
            oldest_id = jnp.where(cap > 0, oldest_id, -1)
            new["oldest_id"] = jnp.where(here, oldest_id[None], lane["oldest_id"])
    if f.record:
        new["free_id"] = jnp.where(here, lane["count"][None], lane["free_id"])
        later = e.active & ((e.done > lane["end"]) | (lane["count"] == 0))
        new["end_id"] = jnp.where(later, lane["count"], lane["end_id"])
        new["count"] = lane["count"] + e.active.astype(jnp.int32)
    return lane | new


def slot_number(lane: Lane, f: Features, warp: Array) -> Array:
    """Return a warp's slot, [lanes]."""
    return jnp.zeros_like(warp) if f.slots == 1 else jnp.clip(slot_of(warp, lane), 0, f.slots - 1)


def meet(lane: Lane, f: Features, e: Entry) -> tuple[Lane, Array, Array, Array]:
    """Count a barrier's entry; return whether all met, the group's first warp, and its release: [lanes]."""
    slot = slot_number(lane, f, e.warp)
    barrier = e.active & ((e.word & np.uint32(BARRIER)) != 0)
    met, release = at_row(lane["met"], slot, f), at_row(lane["release"], slot, f)
    latest = jnp.where(barrier, jnp.maximum(release, e.done), release)
    count = met + barrier.astype(jnp.int32)
    full = barrier & (count >= lane["warps"])
    new: Lane = {
        "met": with_row(lane["met"], slot, jnp.where(full, 0, count), f),
        "release": with_row(lane["release"], slot, jnp.where(full, jnp.zeros_like(latest), latest), f),
    }
    if f.record:
        first = barrier & ((e.done > release) | (met == 0))
        latest_id = jnp.where(
            first, lane["count"] - 1, at_row(lane["release_id"], slot, f)
        )  # already counted
        new["release_id"] = with_row(lane["release_id"], slot, latest_id, f)
        released, released_id = at_row(lane["released"], slot, f), at_row(lane["released_id"], slot, f)
        new["released"] = with_row(lane["released"], slot, jnp.where(full, latest, released), f)
        new["released_id"] = with_row(lane["released_id"], slot, jnp.where(full, latest_id, released_id), f)
    return lane | new, full, slot * lane["warps"], latest


def set_free(
    own: Array, held: Array, full: Array, first: Array, warps: Array, release: Array, f: Features
) -> Array:
    """Free the warps of full barriers: earliest times [width, lanes], theirs as they were held."""
    mask = clock(f).mask
    inside = full[None] & ((rows(f) - first[None]).astype(jnp.uint32) < warps.astype(jnp.uint32)[None])
    if f.ticks:
        held = jnp.maximum(held & ~mask, release[None]) | (held & mask)
    else:
        held = jnp.maximum(held, release[None])
    return jnp.where(inside, held, own)


def count_group(lane: Lane, f: Features, e: Entry) -> Lane:
    """Note when a group ends; if another follows, its lane waits."""
    slot = slot_number(lane, f, e.warp)
    left = at_row(lane["group_left"], slot, f) - e.active.astype(jnp.int32)
    end = at_row(lane["group_end"], slot, f)
    ended = e.active & (left == 0) & (lane["next_group"] < lane["groups"])
    latest = jnp.where(e.active, jnp.maximum(end, e.done), end)
    new: Lane = {
        "group_left": with_row(lane["group_left"], slot, left, f),
        "group_end": with_row(lane["group_end"], slot, latest, f),
        "ended": jnp.where(ended, slot, lane["ended"]),
    }
    if f.record:
        end_id = at_row(lane["group_end_id"], slot, f)
        # Done times are 0 at a group's start, below those of its entries or equal to them at time 0.
        first = e.active & ((e.done > end) | (end_id < 0))
        latest_id = jnp.where(first, lane["count"] - 1, end_id)
        new["group_end_id"] = with_row(lane["group_end_id"], slot, latest_id, f)
    return lane | new


def cause(
    lane: Lane, f: Features, e: Entry, needed: tuple[Array, Array], woken: Array
) -> tuple[Array, Array]:
    """Find the entry that set the binding constraint, -1 for none, and which of its terms counts.

    The constraints come in the order of the list; `needed` is the dependences' time and first entry.
    """
    previous_id, slot = at_row(lane["previous_id"], e.warp, f), slot_number(lane, f, e.warp)

    def of_subsystem(name: str) -> Array:
        return at_row(lane[name], e.subsystem, f)

    def of_slot(name: str) -> Array:
        return at_row(lane[name], slot, f)

    found: list[tuple[Array, Array, int]] = [(needed[0], needed[1], OF_LATENCY)]
    found.append((of_subsystem("free"), of_subsystem("free_id"), OF_THROUGHPUT))
    if f.valve:
        set_by = jnp.where(lane["interval"] > 0, lane["count"] - 1, -1)
        found.append((lane["valve"], set_by, OF_VALVE))
    if f.cap:
        found.append((of_subsystem("oldest"), of_subsystem("oldest_id"), OF_LATENCY))
    if f.barriers:
        found.append((of_slot("released"), of_slot("released_id"), OF_LATENCY))
    found.append((woken, previous_id, OF_SAME_WARP))
    if f.sequence:
        first = jnp.where(previous_id < 0, of_slot("start_id"), -1)
        found.append((of_slot("start"), first, OF_LATENCY))
    parent, term = jnp.full_like(e.warp, -1), jnp.zeros_like(e.warp)
    for time, set_by, of in reversed(found):
        binds = (time == e.t) & (set_by >= 0)
        parent, term = jnp.where(binds, set_by, parent), jnp.where(binds, of, term)
    return parent, term


def following(lane: Lane, tables: Tables, f: Features, e: Entry) -> tuple[Array, Array, Lane]:
    """Go on to the next instruction: its number, whether there is none, and the counts of loops that end."""
    after, over = e.instruction + 1, (e.word & np.uint32(LAST)) != 0
    new: Lane = {}
    again = jnp.zeros_like(over)
    for d in reversed(range(f.loops)):
        name = f"trip{d}"
        trips = get(tables[f"trips{d}"], e.instruction)
        count = at_row(lane[name], e.warp, f)
        ends = e.active & (trips > 0) & ~again
        more = ends & (count + 1 < trips)
        after = jnp.where(more, get(tables[f"back{d}"], e.instruction), after)
        counted = jnp.where(ends, jnp.where(more, count + 1, 0), count)
        new[name] = with_row(lane[name], e.warp, counted, f)
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
    e = enter(lane, tables, f, t, warp, active, at_row(lane["next"], warp, f))
    after, over, new = following(lane, tables, f, e)

    slot = ((e.word >> np.uint32(SLOT_AT)) & np.uint32((1 << NEED_BITS) - 1)).astype(jnp.int32)
    results = with_row(lane["results"], slot * f.width + warp, e.done, f)
    new |= {"results": results, "next": with_row(lane["next"], warp, after, f)}
    if f.record:
        new["results_id"] = with_row(lane["results_id"], slot * f.width + warp, lane["count"], f)
    earliest, from_id = jnp.zeros_like(e.t), jnp.full_like(warp, -1)
    for need in needs(tables, f, after):  # the lowest number first
        row = jnp.maximum(need - 1, 0) * f.width + warp
        result = jnp.where(need > 0, at_row(results, row, f), jnp.zeros_like(earliest))
        if f.record:
            this = (need > 0) & ((result > earliest) | (from_id < 0))
            from_id = jnp.where(this, at_row(new["results_id"], row, f), from_id)
        earliest = jnp.maximum(earliest, result)
    own_time = jnp.maximum(e.wake, earliest)
    if f.loops:
        subsystem = get(tables["word"], after) & np.uint32(7)
    else:
        subsystem = (e.word >> np.uint32(3)) & np.uint32(7)
    value = jnp.where(over | ~active, never, own_time | subsystem if f.ticks else own_time)
    held = value
    if f.barriers:
        value = jnp.where((e.word & np.uint32(BARRIER)) != 0, never, value)
    new["own"] = with_row(own, warp, value, f)
    if not f.ticks:
        new["subsystem"] = with_row(lane["subsystem"], warp, subsystem.astype(jnp.int32), f)
    if f.record:
        new["needed"] = with_row(lane["needed"], warp, earliest, f)
        new["needed_id"] = with_row(lane["needed_id"], warp, from_id, f)
        new["woken"] = with_row(lane["woken"], warp, e.wake, f)
        new["previous_id"] = with_row(lane["previous_id"], warp, jnp.where(active, lane["count"], -1), f)
        needed = (at_row(lane["needed"], warp, f), at_row(lane["needed_id"], warp, f))
        parent, term = cause(lane, f, e, needed, at_row(lane["woken"], warp, f))
        new |= {"parent": parent, "term": term, "entry": lane["count"], "instruction": e.instruction}
    lane = occupy(lane, f, e) | new
    if f.barriers:
        lane, full, first, release = meet(lane, f, e)
        lane["held"] = with_row(lane["held"], warp, held, f)
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

"""Steady state: where a core does the same over and over, all but one of these periods are skipped.

Now and then a lane keeps a snapshot of its state. When it comes into the same state again, relative to the
clock, all that it did since is a period, which repeats for as long as no loop ends and no group is missing:
what happens next depends on nothing but that state. Times that have passed are all alike. Snapshots are
taken at growing distances, so that any period is found, whatever came before it (Brent's algorithm).

Only sums of ticks may be moved along the clock: in float64 those of a case whose terms are ticks, too.
"""

import jax.numpy as jnp
from jax import Array

from dse.simulator.engine.features import Features
from dse.simulator.engine.lanes import Lane, Tables, at_row, clock, get

FIRST = ("own", "free")  # times that are looked at first
TIMES = ("results", "valve", "release", "held", "group_end", "end")
SAME = ("met", "rank", "slot_by_age")
COUNTS = ("left", "group_left")  # down


def remembered(lane: Lane) -> Lane:
    """Return the part of a lane's state that a snapshot has."""
    names = ("last", "next", *FIRST, *TIMES, *SAME, *COUNTS, "flying", "place", "now", "next_group")
    counters = [name for name in lane if name.startswith("trip")]
    return {name: lane[name] for name in (*names, *counters) if name in lane}


def begin(lane: Lane, load: Array) -> Lane:
    """Drop the snapshot where a case is loaded."""
    last = jnp.where(load, -2, lane["snapshot"]["last"])  # no lane is in such a state
    return lane | {
        "snapshot": lane["snapshot"] | {"last": last},
        "blocks": jnp.where(load, 0, lane["blocks"]),
        "until": jnp.where(load, 1, lane["until"]),
    }


def runs(lane: Lane, f: Features) -> Array:
    """Find the lanes that are in the middle of a case."""
    running = lane["active"] & (lane["left"] > 0)
    return running & (lane["ended"] < 0) if f.sequence else running


def returned(lane: Lane, f: Features) -> Array:
    """Find the lanes that seem to be in the state of their snapshot: a first look, without their results."""
    snapshot = lane["snapshot"]
    same = lane["steady"] & runs(lane, f) & (lane["last"] == snapshot["last"])
    same &= jnp.all(lane["next"] == snapshot["next"], 0)
    for name in FIRST:
        same &= jnp.all(_ahead(lane[name], lane, f) == _ahead(snapshot[name], snapshot, f), 0)
    return same


def keep(lane: Lane, f: Features) -> Lane:
    """Take the snapshots that are due."""
    due = (lane["blocks"] >= lane["until"]) & runs(lane, f)

    snapshot = {
        name: jnp.where(due[None] if old.ndim > 1 else due, lane[name], old)
        for name, old in lane["snapshot"].items()
    }
    return lane | {
        "snapshot": snapshot,
        "blocks": jnp.where(due, 0, lane["blocks"]),
        "until": jnp.where(due, 2 * lane["until"], lane["until"]),
    }


def _ahead(values: Array, state: Lane, f: Features) -> Array:
    """Return times relative to the clock, [rows, lanes]; what has passed is 0."""
    never, now = clock(f).never, state["now"][None]
    values = values.reshape(-1, f.lanes)
    return jnp.where(values == never, never, jnp.maximum(values, now) - now)


def _in_flight(state: Lane, lane: Lane, f: Features) -> Array:
    """Return the rings, the oldest place first, relative to the clock: [subsystems · cap, lanes]."""
    aligned = []
    for s in range(f.subsystems):
        cap, place = lane["cap"][s], state["place"][s]
        for k in range(f.cap):
            at = place + k
            at = jnp.where(at >= cap, at - cap, at)
            used = k < cap
            time = at_row(state["flying"], s * f.cap + jnp.where(used, at, 0), f)
            aligned.append(jnp.where(used, time, jnp.zeros_like(time)))
    return _ahead(jnp.stack(aligned), state, f)


def _same(lane: Lane, f: Features) -> Array:
    """Find the lanes in the state of their snapshot."""
    snapshot = lane["snapshot"]
    same = returned(lane, f)
    for name in TIMES:
        if name in snapshot:
            equal = _ahead(lane[name], lane, f) == _ahead(snapshot[name], snapshot, f)
            same &= jnp.all(equal, 0)
    for name in SAME:
        if name in snapshot:
            same &= jnp.all(lane[name] == snapshot[name], 0)
    if f.cap:
        same &= jnp.all(_in_flight(lane, lane, f) == _in_flight(snapshot, lane, f), 0)
    return same


def _periods(lane: Lane, tables: Tables, f: Features) -> tuple[Array, Array]:
    """Count how often the period since the snapshot comes again, and return the depth of its loop.

    The depth is -1 for the sequence of groups. All other loops have to be where they were.
    """
    snapshot, instruction = lane["snapshot"], lane["next"]
    advance = [lane[f"trip{d}"] - snapshot[f"trip{d}"] for d in range(f.loops)]
    still = [jnp.all(x == 0, 0) for x in advance]
    groups = lane["next_group"] - snapshot["next_group"] if f.sequence else jnp.zeros_like(lane["left"])
    times, depth = jnp.zeros_like(lane["left"]), jnp.full_like(lane["left"], -1)
    for d, x in enumerate(advance):
        others = groups == 0
        for other, is_still in enumerate(still):
            if other != d:
                others &= is_still
        around = get(tables[f"around{d}"], instruction)
        rest = (around - 1 - lane[f"trip{d}"]) // jnp.maximum(x, 1)
        rest = jnp.min(jnp.where(x > 0, rest, jnp.iinfo(jnp.int32).max), 0)
        goes = others & jnp.all(x >= 0, 0) & ~still[d]
        times, depth = jnp.where(goes, rest, times), jnp.where(goes, d, depth)
    if f.sequence:
        rest = (lane["groups"] - lane["next_group"]) // jnp.maximum(groups, 1)
        alone = groups > 0
        for is_still in still:
            alone &= is_still
        alone &= get(tables["case_period"], lane["case"]) == 1  # else groups differ
        times = jnp.where(alone, rest, times)
    return times, depth


def skip(lane: Lane, tables: Tables, f: Features) -> Lane:
    """Move lanes in the state of their snapshot on by as many periods as come again."""
    snapshot = lane["snapshot"]
    period = lane["now"] - snapshot["now"]
    times, depth = _periods(lane, tables, f)
    if f.ticks:
        room = (lane["limit"] - lane["now"]) // jnp.maximum(period, 1)
        times = jnp.minimum(times.astype(jnp.uint32), room).astype(jnp.int32)
    skips = _same(lane, f) & (times > 0)
    times = jnp.where(skips, times, 0)
    later = times.astype(clock(f).dtype) * period

    def along(x: Array, values: Array) -> Array:
        return x[None] if values.ndim > 1 else x

    new: Lane = {}
    for name in (*FIRST, *TIMES, "now", "start", "oldest", "flying"):
        if name in lane:
            old, never = lane[name], clock(f).never
            new[name] = jnp.where(old == never, never, old + along(later, old))
    for name in COUNTS:
        if name in lane:
            new[name] = lane[name] - along(times, lane[name]) * (snapshot[name] - lane[name])
    new["skipped"] = lane["skipped"] + lane["left"] - new["left"]
    for d in range(f.loops):
        name = f"trip{d}"
        here = jnp.where(depth == d, times, 0)
        new[name] = lane[name] + here[None] * (lane[name] - snapshot[name])
    if f.sequence:
        here = jnp.where(depth < 0, times, 0)
        new["next_group"] = lane["next_group"] + here * (lane["next_group"] - snapshot["next_group"])
    return begin(lane | new, skips)

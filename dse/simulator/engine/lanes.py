"""Lanes: each simulates one case at a time, and takes the next one from a common queue when it ends.

Arrays are [lanes], or [rows, lanes] with a row for each warp, subsystem or slot: the lane varies fastest, so
that one step of all lanes is a few loops over long rows. A lane whose group has ended waits until its next
group is put in its slot.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dse.simulator.engine.features import BLOCK, Features

Lane = dict[str, Any]  # what a lane knows, by name; what no case of the batch needs is absent
Tables = dict[str, Array]
FEW = 8  # rows: so many are all written anew sooner than one of them is found


class Clock(NamedTuple):
    """The type in which times are kept, and its special values."""

    dtype: Any
    never: Any  # a time that does not come
    mask: Any  # the low bits of a word of ticks, which are not time


def clock(features: Features) -> Clock:
    """Return the clock of a batch: words of ticks, or float64."""
    if features.ticks:
        return Clock(jnp.uint32, np.uint32(2**32 - 1), np.uint32((1 << features.key_bits) - 1))
    return Clock(jnp.float64, np.float64(np.inf), np.uint32((1 << features.key_bits) - 1))


def get(values: Array, at: Array) -> Array:
    """Read elements at indices that are known to be inside."""
    return values.at[at].get(mode="promise_in_bounds")


def put(values: Array, at: Array, new: Array) -> Array:
    """Replace elements at indices that are known to be inside and different."""
    return values.at[at].set(new, mode="promise_in_bounds", unique_indices=True)


def choose(number: Array, values: Sequence[Array]) -> Array:
    """Return values[number], elementwise."""
    chosen = values[0]
    for n, value in enumerate(values[1:], 1):
        chosen = jnp.where(number == n, value, chosen)
    return chosen


def count_up(n: int) -> Array:
    """Return 0, 1, ... n - 1 as a column."""
    return lax.broadcasted_iota(jnp.int32, (n, 1), 0)


def rows(features: Features) -> Array:
    """Return the numbers of the warps, [width, 1]."""
    return count_up(features.width)


def at_row(values: Array, row: Array, features: Features) -> Array:
    """Return values[row[b], b] for each lane b."""
    if len(values) <= FEW:
        return choose(row, list(values))
    return get(values.reshape(-1), row * features.lanes + columns(features))


def with_row(values: Array, row: Array, new: Array, features: Features) -> Array:
    """Replace values[row[b], b] by new[b]."""
    if len(values) <= FEW:
        return jnp.where(count_up(len(values)) == row[None], new[None], values)
    at = row * features.lanes + columns(features)
    return put(values.reshape(-1), at, new).reshape(values.shape)


def columns(features: Features) -> Array:
    """Return the numbers of the lanes, [lanes]."""
    return lax.iota(jnp.int32, features.lanes)


def slot_of(warp: Array, lane: Lane) -> Array:
    """Return the group slot of a warp: a product is exact enough, and a division is slow."""
    return ((warp.astype(jnp.float32) + np.float32(0.5)) * lane["per_warps"]).astype(jnp.int32)


def keys(lane: Lane, features: Features) -> Array:
    """Return the scheduler's preference for each warp, least first, uint32 [width, lanes]."""
    mask = clock(features).mask
    warp, last = rows(features), lane["last"][None]
    rr, gto, oldest = features.schedulers
    around = ((warp - last - 1).astype(jnp.uint32)) & mask
    if rr and not (gto or oldest):
        return around
    rank = lane["rank"] if "rank" in lane else (warp + 1).astype(jnp.uint32)
    rank = jnp.broadcast_to(rank, (features.width, features.lanes))
    if gto:
        greedy = warp == last
        if oldest or rr:
            greedy &= lane["gto"][None]
        rank = jnp.where(greedy, np.uint32(0), rank)
    return jnp.where(lane["rr"][None], around, rank) if rr else rank


def warp_of(key: Array, lane: Lane, features: Features) -> Array:
    """Return the warp that has this key, int32 [lanes]."""
    mask = clock(features).mask
    rr, gto, oldest = features.schedulers
    around = ((key + lane["last"].astype(jnp.uint32) + np.uint32(1)) & mask).astype(jnp.int32)
    if rr and not (gto or oldest):
        return around
    rank = key.astype(jnp.int32) - 1
    warp = rank
    if "rank" in lane:
        rank = jnp.maximum(rank, 0)
        place = jnp.minimum(slot_of(rank, lane), features.slots - 1)
        slot = at_row(lane["slot_by_age"], place, features)
        warp = rank + (slot - place) * lane["warps"]
    if gto:
        warp = jnp.where(key == 0, lane["last"], warp)
    return jnp.where(lane["rr"], around, warp) if rr else warp


def empty(features: Features) -> Lane:
    """Make lanes with nothing to do."""
    f, time, never = features, clock(features).dtype, clock(features).never

    def zeros(*rows: int) -> Array:
        return jnp.zeros((*rows, f.lanes), jnp.int32)

    def times(*rows: int) -> Array:
        return jnp.zeros((*rows, f.lanes), time)

    def nevers(*rows: int) -> Array:
        return jnp.full((*rows, f.lanes), never)

    lane: Lane = {
        "case": zeros(),  # set by the caller
        "warps": zeros() + 1,
        "left": zeros(),  # entries
        "limit": times(),
        "active": jnp.zeros(f.lanes, bool),
        "last": zeros() - 1,  # issued warp
        "free": times(f.subsystems),
        "end": times(),
    }
    if f.schedulers[0]:
        lane["rr"] = jnp.zeros(f.lanes, bool)
    if f.schedulers[1]:
        lane["gto"] = jnp.zeros(f.lanes, bool)
    if f.slots > 1:
        lane["per_warps"] = jnp.ones(f.lanes, jnp.float32)
    if f.dataflow:
        lane |= {
            # Of a warp, or of a lane's warps, together: each step reads all or some of one.
            "wake": jnp.full((f.lanes, f.width), never),
            "least": [jnp.full((f.lanes, f.width), never) for _ in range(f.subsystems)],
            "own": jnp.full((f.width * f.lanes, f.length), never),
            "minima": jnp.full((f.width * f.lanes, f.subsystems * (f.length // BLOCK)), never),
            "program": zeros(f.width),  # where it starts
            "length": zeros(f.width),
            "starts": jnp.zeros((f.width, f.lanes), bool),  # rows to fill
            "edges": zeros(),  # the row of them to follow next; 0: none
            "number": zeros(),  # of the instruction that they leave, which entered last
            "entered_at": times(),
        }
        if f.barriers:
            lane |= {
                "entered": zeros(f.width),  # instructions
                "segment_end": zeros(f.width),  # the next barrier, or the program's length
            }
    else:
        lane |= {
            "own": nevers(f.width),  # when its next instruction may enter, but for its subsystem
            "next": zeros(f.width),  # that instruction
            "results": times(f.window * f.width),
            **{f"trip{d}": zeros(f.width) for d in range(f.loops)},  # of the loops around that instruction
        }
        if not f.ticks:
            lane["subsystem"] = zeros(f.width)
    if f.valve:
        lane |= {"valve": times(), "interval": times()}
    if f.cap:
        lane |= {
            "oldest": times(f.subsystems),
            "flying": times(f.subsystems * f.cap),
            "place": zeros(f.subsystems),
            "cap": zeros(f.subsystems),
        }
    if f.barriers:
        lane |= {"met": zeros(f.slots), "release": times(f.slots), "held": nevers(f.width)}
    if f.sequence:
        lane |= {
            "group_left": zeros(f.slots),
            "group_end": times(f.slots),
            "next_group": zeros(),
            "groups": zeros(),
            "ended": zeros() - 1,  # slot that waits for its next group
            "start": times(f.slots),
        }
        if f.slots > 1 and (f.schedulers[1] or f.schedulers[2]):
            lane |= {
                "rank": jnp.zeros((f.width, f.lanes), jnp.uint32),
                "slot_by_age": zeros(f.slots),
                "slots": zeros(),
            }
    if f.steady:
        lane |= {"now": times(), "steady": jnp.zeros(f.lanes, bool), "blocks": zeros(), "until": zeros()}
        lane["skipped"] = zeros()  # entries
    return lane | _nothing_recorded(f, zeros, times) if f.record else lane


def _nothing_recorded(f: Features, zeros: Callable[..., Array], times: Callable[..., Array]) -> Lane:
    """Make the record of which entry set each time that a lane keeps, without any."""
    lane: Lane = {
        "base": zeros(),
        "count": zeros(),
        "end_id": zeros(),
        "free_id": zeros(f.subsystems) - 1,
        "previous_id": zeros(f.width) - 1,
    }
    if f.dataflow:
        lane |= {"done_id": jnp.zeros(f.width * f.lanes * f.length, jnp.int32), "woken": times(f.width)}
    else:
        lane |= {
            "needed": times(f.width),
            "needed_id": zeros(f.width) - 1,
            "woken": times(f.width),
            "results_id": zeros(f.window * f.width),
        }
    if f.cap:
        lane |= {"oldest_id": zeros(f.subsystems) - 1, "flying_id": zeros(f.subsystems * f.cap) - 1}
    if f.barriers:
        lane |= {
            "release_id": zeros(f.slots),
            "released": times(f.slots),
            "released_id": zeros(f.slots) - 1,
        }
    if f.sequence:
        lane |= {"group_end_id": zeros(f.slots) - 1, "start_id": zeros(f.slots) - 1}
        lane["group"] = zeros(f.slots)  # in each slot
    return lane


def fill(lane: Lane, tables: Tables, features: Features, load: Array, new: Array) -> Lane:
    """Put case new[b] in each lane b with load[b], and the next group in each slot that waits for one."""
    f = features
    lane = _load(lane, tables, f, load, new)
    turn = _turn(lane, f, load) if f.sequence else None
    starts, clear, start, program = _starts(lane, tables, f, load, new, turn)
    lane = _begin(lane, tables, f, starts, clear, start, program)
    if turn is not None:
        lane = _take_turn(lane, tables, f, load, turn, starts, program)
    return lane


def _load(lane: Lane, tables: Tables, f: Features, load: Array, new: Array) -> Lane:
    """Set a lane to its new case, before any group starts."""
    lane = dict(lane)

    def loaded(name: str, column: str) -> None:
        found = get(tables[column], new).astype(lane[name].dtype)
        lane[name] = jnp.where(load, found, lane[name])

    def reset(value: Any, *names: str) -> None:
        for name in names:
            if name in lane:
                fresh = jnp.asarray(value, lane[name].dtype)
                lane[name] = jnp.where(load[None] if lane[name].ndim > 1 else load, fresh, lane[name])

    for name in ("case", "warps", "entries", "limit", "interval", "groups", "slots", "base", "steady"):
        own_name = "left" if name == "entries" else name
        if own_name in lane:
            loaded(own_name, f"case_{name}")
    lane["warps"] = jnp.maximum(lane["warps"], 1)
    if f.slots > 1:
        lane["per_warps"] = 1 / lane["warps"].astype(jnp.float32)
    for n, name in enumerate(("rr", "gto")):
        if name in lane:
            lane[name] = jnp.where(load, get(tables["case_scheduler"], new) == n, lane[name])
    if f.cap:
        caps = tables["case_cap"][:, new]
        lane["cap"] = jnp.where(load[None], caps, lane["cap"])
    reset(0, "free", "end", "valve", "oldest", "flying", "place", "met", "release", "now", "skipped", "count")
    reset(-1, "last", "end_id", "free_id", "oldest_id", "flying_id", "released_id")
    return lane


class _Turn(NamedTuple):
    """Lanes in which a group has ended and the next one starts."""

    again: Array  # whether [lanes]
    slot: Array  # where
    group: Array  # its number
    time: Array  # when
    inside: Array  # its warps [width, lanes]


def _turn(lane: Lane, f: Features, load: Array) -> _Turn:
    again = (lane["ended"] >= 0) & ~load
    slot = jnp.maximum(lane["ended"], 0)
    time = at_row(lane["group_end"], slot, f)
    behind = (rows(f) - (slot * lane["warps"])[None]).astype(jnp.uint32)
    inside = again[None] & (behind < lane["warps"].astype(jnp.uint32)[None])
    return _Turn(again, slot, lane["next_group"], time, inside)


def _starts(
    lane: Lane, tables: Tables, f: Features, load: Array, new: Array, turn: _Turn | None
) -> tuple[Array, Array, Array, Array]:
    """Find which warps start, which are cleared, when they start, and with which program: [width, lanes]."""
    warp = rows(f)
    starts = load[None] & (warp < get(tables["case_resident"], new)[None])
    clear = jnp.broadcast_to(load[None], starts.shape)
    of_all = jnp.broadcast_to(warp, starts.shape)  # number of the warp over all groups
    start = jnp.zeros(starts.shape, clock(f).dtype)
    if turn is not None:
        of_all = jnp.where(turn.inside, warp + ((turn.group - turn.slot) * lane["warps"])[None], of_all)
        start = jnp.where(turn.inside, turn.time[None], start)
        starts, clear = starts | turn.inside, clear | turn.inside
    case = lane["case"]
    program = jnp.broadcast_to(get(tables["case_program"], case)[None], starts.shape)
    if f.several:
        period = jnp.maximum(get(tables["case_period"], case), 1)
        program = get(
            tables["assignment"], get(tables["case_assignment"], case)[None] + of_all % period[None]
        )
    return starts, clear, start, program


def _begin(
    lane: Lane, tables: Tables, f: Features, starts: Array, clear: Array, start: Array, program: Array
) -> Lane:
    """Put warps at the start of their programs."""
    never = clock(f).never
    first, subsystem = get(tables["program_first"], program), get(tables["program_subsystem"], program)
    lane = dict(lane)

    def begin(name: str, value: Array) -> None:
        old = lane[name]
        empty_value = jnp.asarray(never if old.dtype == clock(f).dtype else 0, old.dtype)
        lane[name] = jnp.where(clear, jnp.where(starts, value.astype(old.dtype), empty_value), old)

    def clear_results(name: str, value: Any) -> None:  # no iteration has handed anything over yet
        old = lane[name].reshape(f.window, f.width, f.lanes)
        cleared = jnp.where(clear[None], jnp.asarray(value, old.dtype), old)
        lane[name] = cleared.reshape(lane[name].shape)

    if f.dataflow:
        begin("program", first)
        begin("length", get(tables["program_entries"], program))  # nothing loops in this order
        lane["wake"] = jnp.where(clear, jnp.where(starts, start, never), lane["wake"].T).T
        if f.barriers:
            begin("entered", jnp.zeros_like(first))
            begin("segment_end", get(tables["program_end"], program))
        lane["starts"] = starts
    else:
        begin("own", start | subsystem.astype(jnp.uint32) if f.ticks else start)
        begin("next", first)
        if not f.ticks:
            begin("subsystem", subsystem)
        for d in range(f.loops):
            begin(f"trip{d}", jnp.zeros_like(first))
        if f.loops:
            clear_results("results", 0)
    if f.barriers:
        lane["held"] = jnp.where(clear, never, lane["held"])
    if f.record:
        lane["previous_id"] = jnp.where(clear, -1, lane["previous_id"])
        if not f.dataflow:
            lane["needed_id"] = jnp.where(clear, -1, lane["needed_id"])
        if f.loops:
            clear_results("results_id", -1)
    return lane


def _take_turn(
    lane: Lane, tables: Tables, f: Features, load: Array, turn: _Turn, starts: Array, program: Array
) -> Lane:
    """Give slots the groups that start."""
    number = count_up(f.slots)
    entries = jnp.where(starts, get(tables["program_entries"], program), 0)
    slot = jnp.zeros_like(entries)
    if f.slots > 1:
        warp = jnp.broadcast_to(rows(f), slot.shape)
        slot = slot_of(warp, {"per_warps": lane["per_warps"][None]})
    in_slot = slot[None] == number[:, :, None]
    of_slot = jnp.sum(jnp.where(in_slot, entries[None], 0), 1, dtype=jnp.int32)  # [slots, lanes]
    this = turn.again[None] & (number == turn.slot[None])
    fresh = load[None] | this

    def renewed(name: str, value: Any) -> Array:
        return jnp.where(fresh, value, lane[name])

    new: Lane = {}
    if f.record:
        new["start_id"] = renewed("start_id", jnp.where(this, lane["group_end_id"], -1))
        new["group_end_id"] = renewed("group_end_id", jnp.int32(-1))
        new["group"] = renewed("group", jnp.where(this, turn.group[None], number))
        if f.barriers:
            new["released_id"] = renewed("released_id", jnp.int32(-1))
    zero = jnp.zeros((), clock(f).dtype)
    new["start"] = renewed("start", jnp.where(this, turn.time[None], zero))
    new["group_left"] = renewed("group_left", of_slot)
    new["group_end"] = renewed("group_end", zero)
    following = turn.group + turn.again.astype(jnp.int32)
    new["next_group"] = jnp.where(load, get(tables["case_slots"], lane["case"]), following)
    new["ended"] = jnp.full_like(turn.slot, -1)
    lane = lane | new
    return lane | _ages(lane, f, slot) if "rank" in lane else lane


def _ages(lane: Lane, f: Features, slot: Array) -> Lane:
    """Rank slots and warps by their start, then their number; slots that a case does not have come last."""
    number, start = count_up(f.slots), lane["start"]
    start = jnp.where(number < lane["slots"][None], start, clock(f).never)  # not in use: last
    before = start[None] < start[:, None]
    before |= (start[None] == start[:, None]) & (number[None] < number[:, None])
    rank = jnp.sum(before, 1, dtype=jnp.int32)  # [slots, lanes]
    slot_by_age = jnp.sum(jnp.where(rank[None] == number[:, :, None], number[None], 0), 1, dtype=jnp.int32)
    moved = (rank - number) * lane["warps"][None]
    in_slot = slot[None] == number[:, :, None]
    shift = jnp.sum(jnp.where(in_slot, moved[:, None], 0), 0, dtype=jnp.int32)
    return {"slot_by_age": slot_by_age, "rank": (rows(f) + shift + 1).astype(jnp.uint32)}

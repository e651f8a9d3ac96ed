"""Lanes: each simulates one case at a time, and takes the next one from a common queue when it ends.

Arrays are flat, the lane varies fastest: warp w of lane b is at w·B + b, so that one step of all lanes is a
few loops over long rows. A lane whose group has ended waits until its next group is put in its slot.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dse.simulate.features import Features

Lane = dict[str, Any]  # what a lane knows, by name; what no case of the batch needs is absent
Tables = dict[str, Array]


class Clock(NamedTuple):
    """How times are kept."""

    dtype: Any
    never: Any  # a time that does not come
    mask: Any  # the low bits of a word of ticks, which are not time


def clock(features: Features) -> Clock:
    """Words of ticks, or float64."""
    if features.ticks:
        return Clock(jnp.uint32, np.uint32(2**32 - 1), np.uint32((1 << features.key_bits) - 1))
    return Clock(jnp.float64, np.float64(np.inf), np.uint32((1 << features.key_bits) - 1))


def get(values: Array, at: Array) -> Array:
    """Elements at indices that are known to be inside."""
    return values.at[at].get(mode="promise_in_bounds")


def put(values: Array, at: Array, new: Array) -> Array:
    """With elements replaced, at indices that are known to be inside and different."""
    return values.at[at].set(new, mode="promise_in_bounds", unique_indices=True)


def choose(number: Array, values: list[Array]) -> Array:
    """values[number], elementwise."""
    chosen = values[0]
    for n, value in enumerate(values[1:], 1):
        chosen = jnp.where(number == n, value, chosen)
    return chosen


def rows(features: Features) -> Array:
    """The numbers of the warps, [width, 1]."""
    return lax.broadcasted_iota(jnp.int32, (features.width, 1), 0)


def columns(features: Features) -> Array:
    """The numbers of the lanes, [lanes]."""
    return lax.iota(jnp.int32, features.lanes)


def plane(values: Array, features: Features) -> Array:
    """Flat values of warps as [width, lanes]."""
    return values.reshape(-1, features.lanes)


def slot_of(warp: Array, lane: Lane) -> Array:
    """Which group slot a warp belongs to: a product is exact enough, and a division is slow."""
    return ((warp.astype(jnp.float32) + np.float32(0.5)) * lane["per_warps"]).astype(jnp.int32)


def keys(lane: Lane, features: Features) -> Array:
    """The scheduler's preference for each warp, least first, uint32 [width, lanes]."""
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
    """The warp that has this key, int32 [lanes]."""
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
        slot = get(lane["slot_by_age"], place * features.lanes + columns(features))
        warp = rank + (slot - place) * lane["warps"]
    if gto:
        warp = jnp.where(key == 0, lane["last"], warp)
    return jnp.where(lane["rr"], around, warp) if rr else warp


def empty(features: Features) -> Lane:
    """Lanes with nothing to do."""
    f, time, never = features, clock(features).dtype, clock(features).never
    b, warps, slots = f.lanes, f.width * f.lanes, f.slots * f.lanes

    def zeros(n: int) -> Array:
        return jnp.zeros(n, jnp.int32)

    def times(n: int) -> Array:
        return jnp.zeros(n, time)

    lane: Lane = {
        "case": zeros(b),  # set by the caller
        "warps": zeros(b) + 1,
        "left": zeros(b),  # entries
        "limit": times(b),
        "active": jnp.zeros(b, bool),
        "last": zeros(b) - 1,  # issued warp
        "free": [times(b) for _ in range(f.subsystems)],
        "end": times(b),
    }
    if f.schedulers[0]:
        lane["rr"] = jnp.zeros(b, bool)
    if f.schedulers[1]:
        lane["gto"] = jnp.zeros(b, bool)
    if f.slots > 1:
        lane["per_warps"] = jnp.ones(b, jnp.float32)
    if f.dataflow:
        lane |= {
            "wake": jnp.full((f.width, b), never),
            "own": jnp.full((warps, f.length), never),  # rows of a lane lie together
            "done": jnp.full(warps * f.length, never),
            "least": [jnp.full((f.width, b), never) for _ in range(f.subsystems)],
            "entered": zeros(warps),  # instructions
            "segment_end": zeros(warps),  # the next barrier, or the program's length
            "program": zeros(warps),  # where it starts
            "starts": jnp.zeros((f.width, b), bool),  # rows to fill
        }
    else:
        lane |= {
            "own": jnp.full(
                (f.width, b), never
            ),  # when each warp's next instruction may enter, but for its subsystem
            "next": zeros(warps),  # that instruction
            "results": times(f.window * warps),
            **{f"trip{d}": zeros(warps) for d in range(f.loops)},  # of the loops around that instruction
        }
        if not f.ticks:
            lane["subsystem"] = jnp.zeros((f.width, b), jnp.int32)
    if f.valve:
        lane |= {"valve": times(b), "interval": times(b)}
    if f.cap:
        lane |= {
            "oldest": [times(b) for _ in range(f.subsystems)],
            "flying": times(f.subsystems * f.cap * b),
            "place": [zeros(b) for _ in range(f.subsystems)],
            "cap": [zeros(b) for _ in range(f.subsystems)],
        }
    if f.barriers:
        lane |= {"met": zeros(slots), "release": times(slots), "held": jnp.full((f.width, b), never)}
    if f.sequence:
        lane |= {
            "group_left": zeros(slots),
            "group_end": times(slots),
            "next_group": zeros(b),
            "groups": zeros(b),
            "ended": zeros(b) - 1,  # slot that waits for its next group
            "start": times(slots),
        }
        if f.slots > 1 and (f.schedulers[1] or f.schedulers[2]):
            lane |= {
                "rank": jnp.zeros((f.width, b), jnp.uint32),
                "slot_by_age": zeros(slots),
                "slots": zeros(b),
            }
    if f.steady:
        lane |= {"now": times(b), "steady": jnp.zeros(b, bool), "blocks": zeros(b), "until": zeros(b)}
        lane["skipped"] = zeros(b)  # entries
    if f.record:
        lane |= {
            "base": zeros(b),
            "count": zeros(b),
            "end_id": zeros(b),
            "free_id": [zeros(b) - 1 for _ in range(f.subsystems)],
            "previous_id": zeros(warps) - 1,
        }
        if f.dataflow:
            lane |= {"done_id": zeros(warps * f.length), "woken": times(warps)}
        else:
            lane |= {
                "needed": times(warps),
                "needed_id": zeros(warps) - 1,
                "woken": times(warps),
                "results_id": zeros(f.window * warps),
            }
        if f.cap:
            lane |= {
                "oldest_id": [zeros(b) - 1 for _ in range(f.subsystems)],
                "flying_id": zeros(f.subsystems * f.cap * b) - 1,
            }
        if f.barriers:
            lane |= {"release_id": zeros(slots), "released": times(slots), "released_id": zeros(slots) - 1}
        if f.sequence:
            lane |= {"group_end_id": zeros(slots) - 1, "start_id": zeros(slots) - 1}
    return lane


def fill(lane: Lane, tables: Tables, features: Features, load: Array, new: Array) -> Lane:
    """Put case new[b] in each lane b with load[b], and the next group in each slot that waits for one."""
    f, never = features, clock(features).never
    warp, slot_row = rows(f), lax.broadcasted_iota(jnp.int32, (f.slots, 1), 0)
    lane = {name: list(x) if isinstance(x, list) else x for name, x in lane.items()}

    def loaded(name: str, column: str) -> None:
        lane[name] = jnp.where(load, get(tables[column], new), lane[name])

    def reset(name: str, value: Any = 0) -> None:
        def one(old: Array) -> Array:
            where = jnp.broadcast_to(load[None], plane(old, f).shape).reshape(old.shape)
            return jnp.where(where, jnp.asarray(value, old.dtype), old)

        lane[name] = [one(x) for x in lane[name]] if isinstance(lane[name], list) else one(lane[name])

    lane["case"] = jnp.where(load, new, lane["case"])
    for name, column in (("warps", "case_warps"), ("left", "case_entries"), ("limit", "case_limit")):
        loaded(name, column)
    warps = jnp.maximum(lane["warps"], 1)
    lane["warps"] = warps
    if f.slots > 1:
        lane["per_warps"] = 1 / warps.astype(jnp.float32)
    for n, name in enumerate(("rr", "gto")):
        if name in lane:
            lane[name] = jnp.where(load, get(tables["case_scheduler"], new) == n, lane[name])
    reset("last", -1)
    reset("free")
    reset("end")
    if f.valve:
        loaded("interval", "case_valve")
        reset("valve")
    if f.cap:
        for name in ("oldest", "flying", "place"):
            reset(name)
        lane["cap"] = [
            jnp.where(load, get(tables["case_cap"][s], new), old) for s, old in enumerate(lane["cap"])
        ]

    # Which warps start, when, and with which program.
    starts = load[None] & (warp < get(tables["case_resident"], new)[None])
    of_all = jnp.broadcast_to(warp, (f.width, f.lanes))  # number of the warp over all groups
    start = jnp.zeros((f.width, f.lanes), clock(f).dtype)
    clear = jnp.broadcast_to(load[None], starts.shape)
    turn = _turn(lane, f, load) if f.sequence else None
    if turn is not None:
        of_all = jnp.where(turn.inside, warp + ((turn.group - turn.slot) * warps)[None], of_all)
        start = jnp.where(turn.inside, turn.time[None], start)
        starts |= turn.inside
        clear |= turn.inside
    program = jnp.broadcast_to(get(tables["case_program"], lane["case"])[None], starts.shape)
    if f.several:
        case = lane["case"]
        period = jnp.maximum(get(tables["case_period"], case), 1)
        nth = get(tables["case_assignment"], case)[None] + of_all % period[None]
        program = get(tables["assignment"], nth)
    first = get(tables["program_first"], program)
    subsystem = get(tables["program_subsystem"], program)

    def begin(name: str, value: Array) -> None:
        old = plane(lane[name], f)
        empty_value = jnp.asarray(never if old.dtype == clock(f).dtype else 0, old.dtype)
        value = jnp.where(starts, value.astype(old.dtype), empty_value)
        lane[name] = jnp.where(clear, value, old).reshape(lane[name].shape)

    if f.dataflow:
        begin("program", first)
        begin("wake", start)
        begin("entered", jnp.zeros_like(first))
        begin("segment_end", get(tables["program_end"], program))
        for s, old in enumerate(lane["least"]):
            value = jnp.where(starts, get(tables["program_least"][s], program), never)
            lane["least"][s] = jnp.where(clear, value, old)
        lane["starts"] = starts
    else:
        begin("own", start | subsystem.astype(jnp.uint32) if f.ticks else start)
        begin("next", first)
        for d in range(f.loops):
            begin(f"trip{d}", jnp.zeros_like(first))
        if f.loops:  # what no iteration has handed over yet
            ready = lane["results"].reshape(f.window, f.width, f.lanes)
            lane["results"] = jnp.where(clear[None], jnp.zeros((), ready.dtype), ready).reshape(-1)
        if not f.ticks:
            begin("subsystem", subsystem)
    if f.barriers:
        for name in ("met", "release"):
            reset(name)
        lane["held"] = jnp.where(clear, never, lane["held"])
    if f.steady:
        reset("now")
        reset("skipped")
        loaded("steady", "case_steady")
    if f.record:
        loaded("base", "case_base")
        reset("count")
        for name in ("end_id", "free_id", "oldest_id", "flying_id", "released_id"):
            if name in lane:
                reset(name, -1)
        lane["previous_id"] = jnp.where(clear, -1, plane(lane["previous_id"], f)).reshape(-1)
        if f.loops:
            who = lane["results_id"].reshape(f.window, f.width, f.lanes)
            lane["results_id"] = jnp.where(clear[None], -1, who).reshape(-1)
        if not f.dataflow:
            lane["needed_id"] = jnp.where(clear, -1, plane(lane["needed_id"], f)).reshape(-1)
    if turn is not None:
        loaded("groups", "case_groups")
        entries = jnp.where(starts, get(tables["program_entries"], program), 0)
        slot = jnp.zeros_like(first)
        if f.slots > 1:
            slot = jnp.broadcast_to(slot_of(warp, {"per_warps": lane["per_warps"][None]}), slot.shape)
        in_slot = slot[None] == slot_row[:, :, None]
        of_slot = jnp.sum(jnp.where(in_slot, entries[None], 0), 1, dtype=jnp.int32)  # [slots, lanes]
        this = turn.again[None] & (slot_row == turn.slot[None])
        fresh = load[None] | this

        def renew(name: str, value: Any) -> None:
            lane[name] = jnp.where(fresh, value, plane(lane[name], f)).reshape(-1)

        if f.record:
            renew("start_id", jnp.where(this, plane(lane["group_end_id"], f), -1))
            renew("group_end_id", jnp.int32(-1))
            if f.barriers:
                renew("released_id", jnp.int32(-1))
        renew("start", jnp.where(this, turn.time[None], jnp.zeros_like(start[:1])))
        renew("group_left", of_slot)
        renew("group_end", jnp.zeros((), clock(f).dtype))
        following = turn.group + turn.again.astype(jnp.int32)
        lane["next_group"] = jnp.where(load, get(tables["case_slots"], new), following)
        lane["ended"] = jnp.full_like(turn.slot, -1)
        if "rank" in lane:
            loaded("slots", "case_slots")
            lane |= _ages(lane, f, slot)
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
    time = get(lane["group_end"], slot * f.lanes + columns(f))
    behind = (rows(f) - (slot * lane["warps"])[None]).astype(jnp.uint32)
    inside = again[None] & (behind < lane["warps"].astype(jnp.uint32)[None])
    return _Turn(again, slot, lane["next_group"], time, inside)


def _ages(lane: Lane, f: Features, slot: Array) -> Lane:
    """Slots and warps by their start, then their number; slots that a case does not have come last."""
    number = lax.broadcasted_iota(jnp.int32, (f.slots, 1), 0)
    start = plane(lane["start"], f)
    start = jnp.where(number < lane["slots"][None], start, clock(f).never)  # not in use: last
    before = start[None] < start[:, None]
    before |= (start[None] == start[:, None]) & (number[None] < number[:, None])
    rank = jnp.sum(before, 1, dtype=jnp.int32)  # [slots, lanes]
    slot_by_age = jnp.sum(jnp.where(rank[None] == number[:, :, None], number[None], 0), 1, dtype=jnp.int32)
    moved = (rank - number) * lane["warps"][None]
    in_slot = slot[None] == number[:, :, None]
    shift = jnp.sum(jnp.where(in_slot, moved[:, None], 0), 0, dtype=jnp.int32)
    return {
        "slot_by_age": slot_by_age.reshape(-1),
        "rank": (rows(f) + shift + 1).astype(jnp.uint32),
    }

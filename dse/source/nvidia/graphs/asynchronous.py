"""Asynchronous work of a warp, and the instructions that wait for it.

Asynchronous copies, and products of a warp group or a block, are committed in groups, which other
instructions wait for (`dse.source.nvidia.profile.async_groups`). Groups may be empty, except on an mbarrier.
Source: PTX ISA, cp.async.commit_group and wgmma.commit_group.
"""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence

from dse.simulator.case.program import Loop, executed
from dse.source.nvidia.graphs.rolled_trace import bodies_repeated
from dse.source.nvidia.profile.async_groups import Role, role
from dse.source.nvidia.sass.program import Step

# (waiting instruction, instruction that it waits for) → which run, counted back from 1, the latest
Waits = Mapping[tuple[int, int], int]


def adds_up(step: Step, before: Step) -> bool:
    """Return whether a product of a warp group adds to the sums of another, without waiting for it."""
    roles = role(step), role(before)
    products = all(part is not None and part.starts and part.queue == "products" for part in roles)
    return products and step.writes == before.writes


def in_bulk(step: Step) -> bool:
    """Return whether an instruction copies a box or an array between global and shared memory."""
    step_role = role(step)
    return step_role is not None and step_role.starts and step_role.queue in ("mbarrier", "stores")


def with_waits(steps: list[Step], loops: list[Loop], most: int) -> tuple[list[Step], list[Loop], Waits]:
    """Repeat the bodies of loops until each wait is for the latest run of an instruction.

    Dependences can name no other run. If that takes more than `most` instructions, bodies are repeated as
    often as fits, and some waits are for later trips than in truth.
    """
    waited = waits(steps, loops)
    needed: dict[Loop, int] = {}
    for (_, begun), back in waited.items():
        around = [loop for loop in loops if begun in loop]
        if back > 1 and around:
            needed[around[-1]] = max(needed.get(around[-1], 1), back)
    for at_most in range(max(needed.values(), default=1), 1, -1):
        times = {loop: _times(min(back, at_most), loop.trips) for loop, back in needed.items()}
        repeated = bodies_repeated(steps, loops, times)
        if len(repeated[0]) <= most:
            return *repeated, waits(*repeated)
    return steps, loops, waited


def _times(least: int, trips: int) -> int:
    """Choose the repetitions of a body that, with those for the remaining trips, make the least code."""
    return min(range(least, 2 * least), key=lambda times: times + trips % times)


def waits(steps: Sequence[Step], loops: Sequence[Loop]) -> Waits:
    """Find all waits, once the waits of each loop's trips repeat."""
    roles = {i: step_role for i, step in enumerate(steps) if (step_role := role(step)) is not None}
    events = list(roles)
    left = max((step_role.left or 0 for step_role in roles.values()), default=0)
    settled = 2 + sum(step_role.closes for step_role in roles.values()) + left
    inside = [loop for loop in (_among(events, loop) for loop in loops) if loop is not None]
    under_way, runs, waited = _UnderWay(), Counter[int](), dict[tuple[int, int], int]()
    for event in executed(0, len(events), inside, most_trips=settled):
        i = events[event]
        runs[i] += 1
        for begun, run in under_way.execute(roles[i], i, runs[i]):
            waited[i, begun] = max(waited.get((i, begun), 1), runs[begun] - run + 1)
    return waited


def _among(events: Sequence[int], loop: Loop) -> Loop | None:
    """Return a loop as a range of the events in it; None if it has none."""
    first, stop = bisect_left(events, loop.first), bisect_left(events, loop.stop)
    return Loop(first, stop, loop.trips) if first < stop else None


class _UnderWay:
    """The groups in flight, oldest first, each with its work as (instruction, run)."""

    def __init__(self) -> None:
        self.open: dict[str, list[tuple[int, int]]] = {}
        self.groups: defaultdict[str, deque[list[tuple[int, int]]]] = defaultdict(deque)

    def execute(self, role: Role, number: int, run: int) -> list[tuple[int, int]]:
        """Execute an instruction, and return what it waits for."""
        if role.starts:
            self.open.setdefault(role.queue, []).append((number, run))
        if role.closes:
            group, queue = self.open.pop(role.queue, []), role.into or role.queue
            if group or queue != "mbarrier":
                self.groups[queue].append(group)
        awaited: list[tuple[int, int]] = []
        if role.waits:
            groups = self.groups[role.queue]
            if role.left is None:
                return groups.popleft() if groups else self.open.pop(role.queue, [])
            while len(groups) > role.left:
                awaited += groups.popleft()
        return awaited

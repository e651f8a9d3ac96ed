"""What a warp has under way beside its instructions, and which instructions wait for that.

Asynchronous copies, and products of matrices of a warp group or a block, are collected in groups:

    what            begins with             its group ends with       is waited for with
    copy            LDGSTS                  LDGDEPBAR                 DEPBAR.LE SB0, N
                                            ARRIVES.LDGSTSBAR         SYNCS.PHASECHK
    bulk store      UTMASTG, UBLKCP.G.S     UTMACMDFLUSH              DEPBAR.LE SB0, N
    bulk load       UTMALDG, UBLKCP.S.G     the next SYNCS.ARRIVE     SYNCS.PHASECHK
    warp group      HGMMA                   HGMMA with gsb0           WARPGROUP.DEPBAR.LE gsb0, N
    block           UTCHMMA                 UTCBAR                    SYNCS.PHASECHK

With N, all groups are waited for but the latest N. SYNCS.PHASECHK waits for an mbarrier. Which one is in a
register that is not known: it is taken to be for the oldest group that was not waited for, as where the
mbarriers of a ring of buffers take turns.

Source: PTX ISA 8.8, sections on cp.async, cp.async.bulk, wgmma, tcgen05.commit and mbarrier, against what
ptxas makes of them.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from dse.cuda.graphs.rolled_trace import RolledLoop, bodies_repeated, unrolled
from dse.cuda.sass.program import Step

_BEGINS = {
    "LDGSTS": "copy",
    "UTMASTG": "bulk store",
    "UTMAREDG": "bulk store",
    "UBLKRED": "bulk store",
    "UTMALDG": "bulk load",
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA", "BGMMA"), "warp group"),
    **dict.fromkeys(("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"), "block"),
}
_MBARRIER = "mbarrier"

# (waiting instruction, instruction that it waits for) → which of the runs of that one: 1, the latest, and so on
Waits = Mapping[tuple[int, int], int]


def begins(step: Step) -> str:
    """Name what goes on beside the warp's instructions from this one on; "" if nothing does."""
    if step.opcode == "UBLKCP":
        return "bulk store" if step.modifiers[:1] == ("G",) else "bulk load"
    return _BEGINS.get(step.opcode, "")


def adds_up(step: Step, before: Step) -> bool:
    """Tell whether a product of a warp group goes on with the sums of one before: it then waits for nothing."""
    return begins(step) == begins(before) == "warp group" and step.writes == before.writes


def with_waits(
    steps: list[Step], loops: list[RolledLoop], most: int
) -> tuple[list[Step], list[RolledLoop], Waits]:
    """Repeat the bodies of loops until all that is waited for is of an instruction's latest run.

    A dependence names no other run. Where that takes more than `most` instructions, bodies are repeated as
    often as fit: what is waited for is then of later trips than it is in truth.
    """
    found = waits(steps, loops)
    needed: dict[RolledLoop, int] = {}
    for (_, begun), back in found.items():
        around = [loop for loop in loops if loop.first <= begun <= loop.last]
        if back > 1 and around:
            needed[around[-1]] = max(needed.get(around[-1], 1), back)
    for at_most in range(max(needed.values(), default=1), 1, -1):
        times = {loop: _times(min(back, at_most), loop.trips) for loop, back in needed.items()}
        repeated = bodies_repeated(steps, loops, times)
        if len(repeated[0]) <= most:
            return *repeated, waits(*repeated)
    return steps, loops, found


def _times(least: int, trips: int) -> int:
    """Choose how often to repeat a body, so that with the trips left over it is written least often."""
    return min(range(least, 2 * least), key=lambda times: times + trips % times)


def waits(steps: Sequence[Step], loops: Sequence[RolledLoop]) -> Waits:
    """Find all that is waited for, once each loop has run until it goes on the same way."""
    events = [i for i, step in enumerate(steps) if begins(step) or _ends(step) or _awaits(step)]
    inside = [_among(events, loop) for loop in loops]
    closing = sum(bool(_ends(steps[i])) for i in events)
    kept = max((most or 0 for _, most in filter(None, (_awaits(steps[i]) for i in events))), default=0)
    under_way, runs, found = _UnderWay(), Counter[int](), dict[tuple[int, int], int]()
    for event in unrolled(0, len(events), [loop for loop in inside if loop], 2 + closing + kept):
        i = events[event]
        runs[i] += 1
        for begun, run in under_way.execute(steps[i], i, runs[i]):
            found[i, begun] = max(found.get((i, begun), 1), runs[begun] - run + 1)
    return found


def _among(events: Sequence[int], loop: RolledLoop) -> RolledLoop | None:
    """Return a loop by the numbers of the events in it; None if it has none."""
    first, stop = bisect_left(events, loop.first), bisect_left(events, loop.last + 1)
    return RolledLoop(first, stop - 1, loop.trips) if first < stop else None


def _ends(step: Step) -> tuple[str, str] | None:
    """Tell (of what a group ends here, by what it is waited for)."""
    if step.opcode == "LDGDEPBAR":
        return "copy", "SB0"
    if step.opcode == "ARRIVES" and step.has("LDGSTSBAR"):
        return "copy", _MBARRIER
    if step.opcode == "UTMACMDFLUSH":
        return "bulk store", "SB0"
    if step.opcode == "SYNCS" and step.has("ARRIVE"):
        return "bulk load", _MBARRIER
    if step.opcode == "UTCBAR":
        return "block", _MBARRIER
    if begins(step) == "warp group" and step.instruction.operands[-1] == "gsb0":
        return "warp group", "gsb0"
    return None


def _awaits(step: Step) -> tuple[str, int | None] | None:
    """Tell (by what this waits, for all groups but how many); None instead of a number: for the oldest."""
    if step.opcode == "SYNCS" and step.has("PHASECHK"):
        return _MBARRIER, None
    operands = step.instruction.operands
    if (step.opcode == "DEPBAR" or step.has("DEPBAR")) and step.has("LE") and len(operands) > 1:
        return operands[0], int(operands[1], 0)
    return None


class _UnderWay:
    """The groups that were not waited for, oldest first; of each what began, as (instruction, run)."""

    def __init__(self) -> None:
        self.open: dict[str, list[tuple[int, int]]] = {}
        self.groups: dict[str, deque[list[tuple[int, int]]]] = {}

    def execute(self, step: Step, number: int, run: int) -> list[tuple[int, int]]:
        """Execute a step, and return what it waits for."""
        if what := begins(step):
            self.open.setdefault(what, []).append((number, run))
        if ends := _ends(step):
            what, by = ends
            group = self.open.pop(what, [])
            if group or by != _MBARRIER:  # else an empty group counts, too
                self.groups.setdefault(by, deque()).append(group)
        awaited: list[tuple[int, int]] = []
        if waiting := _awaits(step):
            by, kept = waiting
            groups = self.groups.setdefault(by, deque())
            if kept is None:
                return groups.popleft() if groups else self.open.pop("bulk load", [])
            while len(groups) > kept:
                awaited += groups.popleft()
        return awaited

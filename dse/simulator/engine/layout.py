"""Inputs and records of a compiled loop: flat arrays, and the index of each number in their rows.

Numba has no objects, so constants name the columns. All are unsigned: unsigned indices need no check for
counting from the end, and a sum of signed and unsigned numbers would be a float.
"""

from typing import Any, NamedTuple

import numpy as np

Index = np.uint64
Place = Index | int  # type of an index in the source of a compiled function; unsigned when compiled

# Columns of `words`, an instruction each.
WORD, NEEDS, NEEDS_2, FURTHER_AT = map(Index, range(4))
# Bits of WORD: the subsystem below these, the slot of the result from SLOT_AT.
SUBSYSTEM_MASK = Index(7)
LAST = Index(1 << 3)  # of its program
BARRIER = Index(1 << 4)
REPEATS = Index(1 << 5)  # a loop ends here
FURTHER = Index(1 << 6)  # it needs more than four results
SLOT_AT = Index(16)
# NEEDS and NEEDS_2 have two slots each, 0 if unused.
NEED_AT, NEED_MASK = Index(16), Index((1 << 16) - 1)

# Columns of `terms`.
THROUGHPUT, LATENCY, SAME_WARP = map(Index, range(3))

# Columns of `loops`.
LOOP_FIRST, LOOP_TRIPS, LOOP_DEPTH, LOOP_OUTER = map(Index, range(4))
MOST_NESTED = Index(4)

# Columns of `programs`.
PROGRAM_FIRST, PROGRAM_ENTRIES, PROGRAM_LENGTH = map(Index, range(3))

# Columns of `cases`.
(
    CASE_ENTRIES,
    CASE_WARPS,
    CASE_SLOTS,
    CASE_GROUPS,
    CASE_ASSIGNED,
    CASE_PERIOD,
    CASE_SCHEDULER,
    CASE_FLAGS,
    CASE_MASK,
    CASE_WINDOW,
    CASE_BASE,
    CASE_SUBSYSTEMS,
    CASE_STEADY,
) = map(Index, range(13))
CASE_COLUMNS = 16
# Columns of `clock`.
INTERVAL, LIMIT = map(Index, range(2))
# Bits of CASE_FLAGS: features of the case's instructions or core.
HAS_MANY, HAS_SAME_WARP, HAS_CAPS, HAS_BARRIERS, HAS_SEQUENCE, HAS_LOOPS, HAS_SEVERAL, HAS_VALVE = (
    Index(1 << bit) for bit in range(8)
)
MOST_SUBSYSTEMS = Index(8)
RR, GTO, OLDEST = map(Index, range(3))

TOP = 1 << 31  # bound of tick times

# The term of the awaited entry that counts.
OF_LATENCY, OF_THROUGHPUT, OF_VALVE, OF_SAME_WARP = range(4)


class Inputs(NamedTuple):
    """The cases of a batch. T, the type of its times, is uint32 for ticks, else float64.

    Ticks are shifted left by the bits of a case's MASK, which hold a scheduler's key.
    """

    words: np.ndarray  # uint32 [n + 1, 4]: instructions of all programs, and a row of zeros
    terms: np.ndarray  # T [n + 1, 4]: their λ, Λ and same-warp interval
    further: np.ndarray  # uint32: slots of needs from the fifth on, terminated by 0
    loops: np.ndarray  # uint32 [l + 1, 4]: the first row is unused
    ends_loop: np.ndarray  # uint32 [n + 1]: the row in `loops` of the innermost that ends there; 0: none
    around: np.ndarray  # uint32 [n + 1, 4]: trips of the loop of each depth around an instruction; 0: none
    programs: np.ndarray  # uint32 [p, 4]
    assignment: np.ndarray  # uint32: rows of `programs`
    cases: np.ndarray  # uint32 [m, 16]
    caps: np.ndarray  # uint32 [m, 8]: 0 for none
    clock: np.ndarray  # T [m, 2]: of each case 1/IL, or 0, and the limit of its times: infinite in float64


class EntryRecord(NamedTuple):
    """Cause of each entry's time, for critical paths; for a profile also its time and warp.

    **Shapes:** `last` [m], the others [entries] or empty, a case's from its BASE on.
    """

    record: bool
    profile: bool
    last: np.ndarray  # int32: the entry that completes last, the first of equals
    waited_for: np.ndarray  # int32: the entry, counted in its case, that set the binding constraint; -1: none
    term: np.ndarray  # int32: the row of `words`, times 4, plus which term of the entry waited for counts
    time: np.ndarray  # float64
    warp: np.ndarray  # int32
    group: np.ndarray  # int32


def no_record() -> EntryRecord:
    """Return a record that nothing is written to."""
    none: Any = np.zeros(0, np.int32)
    return EntryRecord(False, False, none, none, none, np.zeros(0), none, none)

"""The critical path: from the last completion back through the entry that each entry waited for."""

from typing import Any

import numpy as np

from dse.core.numba_cache import compiled
from dse.simulator.engine import layout
from dse.simulator.engine.layout import EntryRecord, Inputs

KINDS = 4


def path_counts(inputs: Inputs, record: EntryRecord, ends: np.ndarray) -> np.ndarray:
    """Count how often each instruction's terms are on the path of its case, int64 [4, instructions].

    In the order of the terms' codes; the valve's are counted at the entry that closed it. A case with an
    unknown end has no path.
    """
    counts = np.zeros((KINDS, len(inputs.words) - 1), np.int64)
    base = inputs.cases[:, layout.CASE_BASE].astype(np.int64)
    _walk(base, np.isfinite(ends), record.last, record.waited_for, record.term, counts)
    return counts


@compiled
def _walk(base: Any, walks: Any, last: Any, waited_for: Any, term: Any, counts: Any) -> None:
    for case in range(len(base)):
        entry, kind = last[case], layout.OF_LATENCY
        if not walks[case]:
            continue
        while entry >= 0:
            word = term[base[case] + entry]
            counts[kind, word >> 2] += 1
            entry, kind = waited_for[base[case] + entry], word & 3

"""MWP-CWP as published, with the condition of Eq. 23 as it is printed.

The same as `mwp-cwp` but for launches whose computation takes longer than their memory accesses: they are
sent to the memory case, which holds almost none of their computation. Kept for comparison with the paper.
Leaves out: what `mwp-cwp` leaves out.
Source: Hong & Kim, ISCA 2009, Eq. 23.
"""

from dse.models import mwp_cwp
from dse.types import Gpu, Kernel, Launch, Prediction

MONOTONE = False


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Cycles of a launch: `mwp_cwp.predict` with Eq. 23's printed condition."""
    return mwp_cwp.predict(gpu, kernel, launch, memory_bound=mwp_cwp.printed)

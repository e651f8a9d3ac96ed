"""MWP-CWP as published, with the condition of Eq. 23 as it is printed.

It differs from `mwp-cwp` for launches whose computation takes longer than their memory accesses: they are in
the memory case, which omits almost all of their computation. Kept for comparison with the paper.
"""

from dataclasses import replace

from dse.models import mwp_cwp
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = replace(
    mwp_cwp.ABOUT,
    equations=mwp_cwp.ABOUT.equations
    | {"HK23": "CWP ≥ MWP or Comp_cycles > Mem_cycles: (Mem_cycles N / MWP + Comp_p (MWP − 1)) #Rep"},
    use_when="For comparison with the paper's text only.",
)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch: `mwp_cwp.predict` with Eq. 23's printed condition."""
    return mwp_cwp.predict(gpu, kernel, launch, memory_bound=mwp_cwp.printed)

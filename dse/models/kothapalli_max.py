"""Kothapalli et al., MAX: computation and memory of a thread overlap fully.

Known error: the paper's prediction for matrix multiplication does not follow from its formula.
"""

from dataclasses import replace

from dse.models import kothapalli
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = replace(
    kothapalli.ABOUT,
    equations={"K2 (MAX)": "C_T = max(N_comp, N_mem)"} | kothapalli.ABOUT.equations,
    use_when="For pencil-and-paper estimates of programs on GPUs of that time; it does not know occupancy.",
)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`. **Source:** Eqs. K2 (MAX) to K4.
    """
    comp, mem = kothapalli.of_thread(gpu, kernel)
    return Prediction.largest(gpu.clock, kothapalli.times(gpu, launch), compute=comp, memory=mem)

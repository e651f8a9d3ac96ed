"""Kothapalli et al., SUM: computation and memory of a thread do not overlap."""

from dataclasses import replace

from dse.models import kothapalli
from dse.types import Gpu, Kernel, Launch, Prediction

ABOUT = replace(
    kothapalli.ABOUT,
    equations={"K2 (SUM)": "C_T = N_comp + N_mem"} | kothapalli.ABOUT.equations,
    use_when="As `kothapalli-max`, where threads cannot hide what they wait for.",
)


def predict(gpu: Gpu, kernel: Kernel, launch: Launch) -> Prediction:
    """Predict the cycles of a launch.

    **Shapes:** every field broadcasts. **Units:** cycles of `gpu.clock`. **Source:** Eqs. K2 (SUM) to K4.
    """
    comp, mem = kothapalli.of_thread(gpu, kernel)
    times = kothapalli.times(gpu, launch)
    return Prediction.of(gpu.clock, compute=comp * times, memory=mem * times)

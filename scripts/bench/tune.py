"""What one step of tuning costs: `bench/tune.py [--configurations N] [--json]`.

A step refits the surrogate to what was measured and puts all configurations in order again, to choose the
next. Times are made by the model of a described kernel, with noise. The first step fits scales from nothing;
all are timed, by the CPU time of this process, on one core.
"""

import json
import os
from dataclasses import replace
from typing import Any

import front

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
front.pin()

import numpy as np

from dse import kernels
from dse.explore.tune.candidates import of_kernel
from dse.explore.tune.tuner import Tuner
from dse.hardware import gpus
from dse.report.show import show

KERNEL, GPU, MODEL = "gemm", "rtx-3090", "phase"
MEASURED = (10, 20, 50, 100)
STEPS = 5


def rows(count: int) -> list[dict[str, Any]]:
    """Seconds of a step after this many measurements."""
    description, random = kernels.load(KERNEL), np.random.default_rng(0)
    space = description.space.configurations(description.sizes())
    size = len(next(iter(space.values())))
    chosen = random.permutation(size)[:count] if count <= size else random.integers(size, size=count)
    candidates = of_kernel(
        description, gpus.load(GPU), MODEL, {name: values[chosen] for name, values in space.items()}
    )
    candidates = replace(candidates, position=candidates.position + 1e-6 * random.normal(size=(count, 1)))
    seconds = np.exp(candidates.log_s + 0.3 * random.normal(size=count))
    found = []
    for measured in MEASURED:
        tuner = Tuner(candidates)
        for place in random.permutation(count)[:measured]:
            tuner.tell(int(place), float(seconds[place]))
        taken = []
        for _ in range(1 + STEPS):
            seconds_taken, [place] = front.timed(tuner.ask)
            taken.append(seconds_taken)
            tuner.tell(place, float(seconds[place]))
        found.append(
            {"measured": measured, "first [s]": taken[0], "step [s]": float(np.median(taken[1:]))}
            | {"slowest [s]": max(taken[1:])}
        )
    return found


def main() -> None:
    parser = front.parser(__doc__)
    parser.add_argument("--configurations", type=int, default=20_000)
    options = parser.parse_args()
    found = rows(options.configurations)
    if options.json:
        print(json.dumps({"configurations": options.configurations, "steps": found}))
    else:
        show(found, title=f"A step of tuning, {options.configurations:,} configurations of {KERNEL}")


if __name__ == "__main__":
    main()

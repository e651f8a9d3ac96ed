"""Cost of a tuning step: `bench/tune.py [--configurations N] [--json]`.

A step refits the surrogate to the measurements and sorts all configurations again, to choose the next one.
Times come from the model of a described kernel, with noise; one launch in four fails. The first step fits
scales from scratch; all are timed by CPU time, on one core.
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
FAILING = 0.25  # share of launches


def rows(count: int) -> list[dict[str, Any]]:
    """Time a step after each number of MEASURED."""
    description, random = kernels.load(KERNEL), np.random.default_rng(0)
    space = description.space.configurations(description.sizes())
    size = len(next(iter(space.values())))
    sample = random.permutation(size)[:count] if count <= size else random.integers(size, size=count)
    candidates = of_kernel(
        description, gpus.load(GPU), MODEL, {name: values[sample] for name, values in space.items()}
    )
    position = candidates.position.copy()
    position[:, 0] += 1e-6 * random.normal(size=count)  # no two are alike
    candidates = replace(candidates, position=position)
    seconds = np.exp(candidates.log_s + 0.3 * random.normal(size=count))
    outcomes = [None if random.random() < FAILING else float(time) for time in seconds]
    steps = []
    for measured in MEASURED:
        tuner = Tuner(candidates)
        for index in random.permutation(count)[:measured]:
            tuner.tell(int(index), outcomes[index])
        durations = []
        for _ in range(1 + STEPS):
            duration, [index] = front.timed(tuner.ask)
            durations.append(duration)
            tuner.tell(index, outcomes[index])
        steps.append(
            {"measured": measured, "first [s]": durations[0], "step [s]": float(np.median(durations[1:]))}
            | {"slowest [s]": max(durations[1:])}
        )
    return steps


def main() -> None:
    parser = front.parser(__doc__)
    parser.add_argument("--configurations", type=int, default=20_000)
    options = parser.parse_args()
    steps = rows(options.configurations)
    if options.json:
        print(json.dumps({"configurations": options.configurations, "steps": steps}))
    else:
        show(steps, title=f"A step of tuning, {options.configurations:,} configurations of {KERNEL}")


if __name__ == "__main__":
    main()

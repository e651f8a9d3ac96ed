"""Cost of a fit, and coverage of its intervals: `bench/fit.py [--trials N] [--json]`.

Times of a described kernel on one GPU come from the model with parameters drawn from the prior, and noise.
Measured are the model evaluations of a whole fit (three solutions, since τ depends on them; an evaluation
with its derivatives counts once, in the second figure once more for each parameter), those of Nelder-Mead to
within 0.01 of the log density, and how often the 95 % interval of each parameter that the data determine
contains the planted value.
"""

import json
from typing import Any

import front
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from dse import kernels
from dse.core.precision import in_64_bits
from dse.explore.fit import launches
from dse.explore.fit.fit import Data, Parameters, fit
from dse.explore.fit.launches import Launches, log_seconds
from dse.explore.fit.parameters import NAMES, widths
from dse.hardware import gpus
from dse.models import get
from dse.report.show import show

KERNEL, GPU, MODEL = "gemm", "a100-pcie-40gb", "phase"
FREE = ("clock", "lsu_cycles", "cpi.fp32", "cpi.shared", "cpi.l1", "cpi.l2", "latency.l2", "latency.dram")
LAUNCHES = 400
NOISE = 0.05


def some_launches(count: int) -> Launches:
    """Draw launches of the kernel's space."""
    description, gpu = kernels.load(KERNEL), gpus.load(GPU, np.float64).gpu
    space = description.space.configurations(description.sizes())
    sample = np.random.default_rng(0).permutation(len(next(iter(space.values()))))[:count]
    return launches.of_kernel(description, gpu, {name: values[sample] for name, values in space.items()})


def planted(sample: Launches, parameters: Parameters, seed: int) -> tuple[np.ndarray, Data]:
    """Draw parameters, and predict noisy times by them."""
    random = np.random.default_rng(seed)
    theta = random.normal(size=len(parameters.names)) * parameters.width
    with in_64_bits():
        logs = np.asarray(log_seconds(sample, get(MODEL), parameters.names, jnp.asarray(theta)))
    return theta, Data.of(sample, np.exp(logs + NOISE * random.normal(size=len(logs))))


def trials(count: int) -> dict[str, Any]:
    """Count how often the intervals contain the planted values."""
    parameters = Parameters(FREE, widths(gpus.load(GPU), FREE)[None])
    sample, model = some_launches(LAUNCHES), get(MODEL)
    inside, determined, all_hold = 0, 0, 0
    seconds = []
    for seed in range(count):
        theta, data = planted(sample, parameters, seed)
        duration, fitted = front.timed(lambda data=data: fit([data], [0], parameters, model))
        seconds.append(duration)
        clear = np.array([name not in fitted.undetermined() for name in FREE])
        low, high = fitted.intervals()
        holds = (low <= theta) & (theta <= high)
        inside, determined = inside + int(holds[clear].sum()), determined + int(clear.sum())
        all_hold += int(holds[clear].all())
    return {
        "trials": count,
        "intervals that hold": inside / determined,
        "trials in which all do": all_hold,
        "parameters determined, mean": determined / count,
        "CPU seconds a fit": float(np.median(seconds)),
    }


def evaluations(seed: int = 0) -> list[dict[str, Any]]:
    """Count the evaluations of each method, all parameters free."""
    parameters = Parameters(NAMES, widths(gpus.load(GPU), NAMES)[None])
    sample, model = some_launches(LAUNCHES), get(MODEL)
    _, data = planted(sample, parameters, seed)
    fitted = fit([data], [0], parameters, model, starts=1)
    width = jnp.asarray(parameters.width)

    @jax.jit
    def loss(theta: jax.Array) -> jax.Array:
        r = (log_seconds(data.launches, model, NAMES, theta) - data.log_seconds) / fitted.unexplained
        robust = r**2 * 2 / (jnp.sqrt(1 + (r / 3.0) ** 2) + 1)
        return 0.5 * (jnp.sum(robust) + jnp.sum((theta / width) ** 2))

    rows = []
    with in_64_bits():
        aim = float(loss(jnp.asarray(fitted.theta))) + 0.01
        start = np.zeros(len(NAMES))
        for method in ("lm", "bfgs"):
            result = fit([data], [0], parameters, model, method, starts=1)
            rows.append(
                {"method": method, "evaluations": result.evaluations}
                | {"with each derivative": result.evaluations * (1 + len(NAMES))}
                | {"loss": float(loss(jnp.asarray(result.theta)))}
            )
        calls = 0

        class Reached(Exception):
            """The loss is reached."""

        def counted(theta: np.ndarray) -> float:
            nonlocal calls
            calls += 1
            value = float(loss(jnp.asarray(theta)))
            if value <= aim:
                raise Reached
            return value

        reached = True
        try:
            limits = {"maxfev": 100_000, "maxiter": 100_000}
            minimize(counted, start, method="Nelder-Mead", options={**limits, "adaptive": True})
            reached = False
        except Reached:
            pass
        name = "Nelder-Mead" if reached else "Nelder-Mead, gave up"
        rows.append({"method": name, "evaluations": calls, "with each derivative": calls, "loss": aim})
    return rows


def main() -> None:
    parser = front.parser(__doc__)
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    counts, intervals = evaluations(), trials(options.trials)
    if options.json:
        print(json.dumps({"evaluations": counts, "intervals": intervals}))
        return
    show(counts, title=f"Evaluations of {MODEL} to the same loss, {len(NAMES)} parameters")
    show(
        [intervals], title=f"Planted parameters, {NOISE:.0%} noise, {LAUNCHES} launches of {KERNEL} on {GPU}"
    )


if __name__ == "__main__":
    main()

"""What fitting costs, and whether its spreads can be believed: `bench/fit.py [--trials N] [--json]`.

Times of a described kernel on one GPU are made by the model with parameters drawn from before the data, and
noise. How many model evaluations does a whole fit take (three solutions, since τ depends on them; an
evaluation with its derivatives counts as one, and in the second figure as one a parameter more), and how
many does Nelder-Mead take to come as low, but for 0.01 in the log of the density? In how many trials does
the 95 % interval of each parameter that the data can tell hold the planted value?
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
    """Of the kernel's space, at random."""
    description, gpu = kernels.load(KERNEL), gpus.load(GPU, np.float64).gpu
    space = description.space.configurations(description.sizes())
    chosen = np.random.default_rng(0).permutation(len(next(iter(space.values()))))[:count]
    return launches.of_kernel(description, gpu, {name: values[chosen] for name, values in space.items()})


def planted(chosen: Launches, parameters: Parameters, seed: int) -> tuple[np.ndarray, Data]:
    """Parameters, and times that they make."""
    random = np.random.default_rng(seed)
    theta = random.normal(size=len(parameters.names)) * parameters.width
    with in_64_bits():
        logs = np.asarray(log_seconds(chosen, get(MODEL), parameters.names, jnp.asarray(theta)))
    return theta, Data.of(chosen, np.exp(logs + NOISE * random.normal(size=len(logs))))


def trials(count: int) -> dict[str, Any]:
    """How often the intervals hold."""
    parameters = Parameters(FREE, widths(gpus.load(GPU), FREE)[None])
    chosen, model = some_launches(LAUNCHES), get(MODEL)
    inside, told, all_hold = 0, 0, 0
    seconds = []
    for seed in range(count):
        theta, data = planted(chosen, parameters, seed)
        taken, found = front.timed(lambda data=data: fit([data], [0], parameters, model))
        seconds.append(taken)
        tells = np.array([name not in found.untold() for name in FREE])
        low, high = found.intervals()
        holds = (low <= theta) & (theta <= high)
        inside, told = inside + int(holds[tells].sum()), told + int(tells.sum())
        all_hold += int(holds[tells].all())
    return {
        "trials": count,
        "intervals that hold": inside / told,
        "trials in which all do": all_hold,
        "parameters told, mean": told / count,
        "CPU seconds a fit": float(np.median(seconds)),
    }


def evaluations(seed: int = 0) -> list[dict[str, Any]]:
    """Evaluations of each method, all parameters free."""
    parameters = Parameters(NAMES, widths(gpus.load(GPU), NAMES)[None])
    chosen, model = some_launches(LAUNCHES), get(MODEL)
    _, data = planted(chosen, parameters, seed)
    found = fit([data], [0], parameters, model, starts=1)
    width = jnp.asarray(parameters.width)

    @jax.jit
    def loss(theta: jax.Array) -> jax.Array:
        r = (log_seconds(data.launches, model, NAMES, theta) - data.log_seconds) / found.unexplained
        robust = r**2 * 2 / (jnp.sqrt(1 + (r / 3.0) ** 2) + 1)
        return 0.5 * (jnp.sum(robust) + jnp.sum((theta / width) ** 2))

    rows = []
    with in_64_bits():
        aim = float(loss(jnp.asarray(found.theta))) + 0.01
        start = np.zeros(len(NAMES))
        for method in ("lm", "bfgs"):
            each = fit([data], [0], parameters, model, method, starts=1)
            rows.append(
                {"method": method, "evaluations": each.evaluations}
                | {"with each derivative": each.evaluations * (1 + len(NAMES))}
                | {"loss": float(loss(jnp.asarray(each.theta)))}
            )
        calls = 0

        class Reached(Exception):
            """The loss is low enough."""

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
    counted, held = evaluations(), trials(options.trials)
    if options.json:
        print(json.dumps({"evaluations": counted, "intervals": held}))
        return
    show(counted, title=f"Evaluations of {MODEL} to the same loss, {len(NAMES)} parameters")
    show([held], title=f"Planted parameters, {NOISE:.0%} noise, {LAUNCHES} launches of {KERNEL} on {GPU}")


if __name__ == "__main__":
    main()

"""Constants fitted to near-best sets: all configurations of a case that ran within 1 % of the best.

Of what is not in a set nothing is known but that it was slower or not tried. What is minimised is, over
cases,

    -log Σ_set softmax(-log t / τ) + w ρ(log t_best) + ½ r Σ x² / cases

with x the standard-normal coordinates of the constants and ρ pseudo-Huber: the share of the space's softmax
that falls into the set, errors of the best time, and the prior. Cases of one layer differ by the
number of tokens alone and share what the model lacks: r of them tell no more than one.

Method: L-BFGS (Liu & Nocedal 1989) on gradients of JAX. Precision: float32.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from dse.matrix.configuration import Configuration, space
from dse.matrix.constants import ABOUT, Constants
from dse.matrix.machine import Machine, possible
from dse.matrix.records import NearBest, gpu_file
from dse.matrix.time import Case, seconds

TEMPERATURE = 0.02  # τ, of log time
NOISE = 0.1  # of log time, from which on errors count linearly
TIMES = 1.5  # w
LEAST_SHARE = 1e-3  # of a set: no case decides alone
GROUPS = (1, 16)  # of GROUP_SIZE_M, those fitted to: the others lie close
REPEATED = 18.0  # r: numbers of tokens that each layer was timed with
STEPS = 60


def fit(
    cases: Sequence[NearBest], steps: int = STEPS, repeated: float = REPEATED
) -> Float[np.ndarray, " constants"]:
    """Coordinates x of the most probable constants; `Constants.at(x)` are their values.

    `repeated` is r: how many of the cases tell no more than one.
    """
    evaluated = jax.jit(jax.value_and_grad(_objective(cases, repeated)))

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evaluated(jnp.asarray(x, jnp.float32))
        return float(value), np.asarray(gradient, float)

    bounds = [(-4.0, 4.0)] * len(ABOUT)
    return minimize(
        both, np.zeros(len(ABOUT)), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}
    ).x


def _objective(cases: Sequence[NearBest], repeated: float) -> Callable[[Array], Array]:
    table = space("wide")
    table = table[np.isin(table[:, 3], GROUPS)]
    place = {tuple(row): index for index, row in enumerate(table.tolist())}
    hits = np.zeros((len(cases), len(table)), bool)
    fits = np.zeros_like(hits)
    for row, case in enumerate(cases):
        hits[row, [place[one] for one in case.configurations if one in place]] = True
        fits[row] = possible(gpu_file(case.gpu), [case.product], table)[0]
    hits &= fits
    told = hits.any(1)
    kept = [cases[place] for place in np.flatnonzero(told).tolist()]
    files = {name: gpu_file(name) for name in dict.fromkeys(case.gpu for case in kept)}
    which = np.array([list(files).index(case.gpu) for case in kept])
    machine = jax.tree.map(lambda field: field[which][:, None], Machine.of(list(files.values())))
    case_, tile = Case.of([case.product for case in kept], table[:, 0]), Configuration.of(table)
    fastest = jnp.asarray(np.log([case.best for case in kept]), jnp.float32)
    in_set, there = jnp.asarray(hits[told]), jnp.asarray(fits[told])

    def objective(x: Float[Array, " constants"]) -> Array:
        time = jnp.where(there, jnp.log(seconds(machine, case_, tile, Constants.at(x))), 20.0)
        score = -time / TEMPERATURE
        share = jax.nn.logsumexp(jnp.where(in_set, score, -1e9), 1) - jax.nn.logsumexp(score, 1)
        missed = -jnp.mean(jnp.log(jnp.exp(share) + LEAST_SHARE))
        wrong = jnp.mean(jnp.sqrt(1.0 + ((jnp.min(time, 1) - fastest) / NOISE) ** 2) - 1.0)
        return missed + TIMES * wrong + 0.5 * repeated * jnp.sum(x * x) / len(kept)

    return objective

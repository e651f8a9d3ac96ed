"""Constants fitted to rankings: sets of all configurations near the best, and the best of tuning runs.

A configuration outside a set was slower or not tried. The loss is

    mean over sets of -log Σ_set softmax(-log t / τ) + w ρ(log t_best)
    + v mean over records of -log Σ_same tile softmax(-log t / τ_r)
    + u Σ over tables of measured times, mean over rows of ρ(log t)
    + ½ r Σ x² / sets

with x the standard-normal coordinates of the constants and ρ pseudo-Huber: the share of the space's softmax
that falls into the set, errors of the best time, the same share of what a noisy tuning run chose (whatever
the group, which hardly matters), errors of times where all were recorded, and the prior. Cases of one layer
differ by the number of tokens alone and share what the model lacks: r of them tell no more than one.

Method: L-BFGS (Liu & Nocedal 1989) on gradients of JAX. Precision: float32.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from dse.explore.matrix.records import NearBest, Recorded, gpu_file
from dse.explore.matrix.timed import Inputs, Timed
from dse.hardware.gpus import GpuFile
from dse.models.matrix.case import Case
from dse.models.matrix.configuration import Configuration, space
from dse.models.matrix.constants import ABOUT, Constants
from dse.models.matrix.machine import Machine, possible
from dse.models.matrix.problem import Product
from dse.models.matrix.time import seconds

TEMPERATURE = 0.02  # τ, of log time
NOISY = 0.04  # τ_r, of one run's choice
NOISE = 0.1  # of log time, from which on errors count linearly
TIMES = 1.5  # w
RECORDS = 0.7  # v
TABLES = 1.0  # u
MOST = 1500  # rows of a table: more say the same
LEAST_SHARE = 1e-3  # of a set: no case decides alone
GROUPS = (1, 16)  # of GROUP_SIZE_M, those fitted to: the others are close
REPEATED = 18.0  # r: numbers of tokens that each layer was timed with
STEPS = 40

Products = tuple[Product, ...]
Objective = Callable[[Array], Array]


def fit(
    cases: Sequence[NearBest],
    records: Sequence[Recorded] = (),
    timed: Sequence[Timed] = (),
    steps: int = STEPS,
    repeated: float = REPEATED,
    start: Float[np.ndarray, " constants"] | None = None,
) -> Float[np.ndarray, " constants"]:
    """Coordinates x of the most probable constants; `Constants.at(x)` are their values.

    `repeated` is r: how many of the cases tell no more than one. `start` is where to begin, at the defaults
    unless it is stated. Zeros, the defaults, where nothing tells.
    """
    kinds = groupby(sorted(records, key=_alike), key=_alike)
    parts = [_near(cases), *(_recorded(list(alike), RECORDS / len(records)) for _, alike in kinds)]
    parts += [_timed(objective) for objective in timed]
    evaluated = [jax.jit(jax.value_and_grad(part)) for part in parts if part]
    if not evaluated:
        return np.zeros(len(ABOUT))
    weight = 0.5 * repeated / (len(cases) or len(records) or MOST)

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [objective(jnp.asarray(x, jnp.float32)) for objective in evaluated]
        gradient = sum(np.asarray(objective[1], float) for objective in parts) + 2.0 * weight * x
        return sum(float(objective[0]) for objective in parts) + weight * float(x @ x), gradient

    bounds = [(-4.0, 4.0)] * len(ABOUT)
    begin = np.zeros(len(ABOUT)) if start is None else start
    return minimize(both, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}).x


def _near(cases: Sequence[NearBest]) -> Objective | None:
    """Return the mean loss of near-best sets, or None where they hold no information."""
    table, place = _space("wide")
    hits = np.zeros((len(cases), len(table)), bool)
    for row, case in enumerate(cases):
        hits[
            row, [place[configuration] for configuration in case.configurations if configuration in place]
        ] = True
    files = [gpu_file(case.gpu) for case in cases]
    launches = [(case.product,) for case in cases]
    there = _possible(files, launches, table)
    informative = np.flatnonzero((hits & there).any(1)).tolist()
    if not informative:
        return None
    time = _predicted(
        [files[row] for row in informative], [launches[row] for row in informative], table, there[informative]
    )
    fastest = jnp.asarray(np.log([cases[row].best for row in informative]), jnp.float32)
    in_set = jnp.asarray((hits & there)[informative])

    def objective(x: Array) -> Array:
        log_s = time(x)
        return jnp.mean(_missed(log_s / TEMPERATURE, in_set)) + TIMES * _wrong(jnp.min(log_s, 1) - fastest)

    return objective


def _wrong(error: Array) -> Array:
    return jnp.mean(jnp.sqrt(1.0 + (error / NOISE) ** 2) - 1.0)


def _timed(table: Timed) -> Objective:
    """Errors of a sample of the configurations that ran, against measured times."""
    ran = np.flatnonzero(np.isfinite(table.seconds))
    ran = np.random.default_rng(0).permutation(ran)[:MOST]
    inputs = Inputs.of(table.where(ran))
    measured = jnp.asarray(np.log(table.seconds[ran]), jnp.float32)

    def objective(x: Array) -> Array:
        return TABLES * _wrong(jnp.log(inputs.seconds(Constants.at(x))) - measured)

    return objective


def _recorded(records: Sequence[Recorded], weight: float) -> Objective | None:
    """Return the sum of losses of the winners of tuning runs that are alike, or None."""
    table, _ = _space(records[0].tried)
    tiles = np.delete(table, 3, axis=1)
    winners = np.array([np.delete(record.configuration, 3) for record in records])
    hits = (tiles[None] == winners[:, None]).all(2)
    tried = np.array([_tried(record.tried, record.block, table) for record in records])
    files = [gpu_file(record.gpu) for record in records]
    launches = [record.products for record in records]
    there = tried & _possible(files, launches, table)
    informative = np.flatnonzero((hits & there).any(1)).tolist()
    if not informative:
        return None
    time = _predicted(
        [files[row] for row in informative], [launches[row] for row in informative], table, there[informative]
    )
    in_set = jnp.asarray((hits & there)[informative])

    def objective(x: Array) -> Array:
        return weight * jnp.sum(_missed(time(x) / NOISY, in_set))

    return objective


def _missed(score: Float[Array, "cases configurations"], in_set: Array) -> Float[Array, " cases"]:
    share = jax.nn.logsumexp(jnp.where(in_set, -score, -1e9), 1) - jax.nn.logsumexp(-score, 1)
    return -jnp.log(jnp.exp(share) + LEAST_SHARE)


def _possible(files: Sequence[GpuFile], launches: Sequence[Products], table: np.ndarray) -> np.ndarray:
    rows = [possible(file, launch[:1], table)[0] for file, launch in zip(files, launches, strict=True)]
    return np.array(rows, bool).reshape(-1, len(table))


def _predicted(
    files: Sequence[GpuFile], launches: Sequence[Products], table: np.ndarray, there: np.ndarray
) -> Objective:
    """Log times of cases from coordinates; infinite where a configuration does not exist."""
    names = {file.name: file for file in files}
    which = np.array([list(names).index(file.name) for file in files])
    machine = jax.tree.map(lambda field: field[which][:, None], Machine.of(list(names.values())))
    cases = [Case.of([launch[n] for launch in launches], table[:, 0]) for n in range(len(launches[0]))]
    tile, possible_ones = Configuration.of(table), jnp.asarray(there)

    def time(x: Array) -> Array:
        k = Constants.at(x)
        total = sum(seconds(machine, case, tile, k) for case in cases)
        return jnp.where(possible_ones, jnp.log(total), 20.0)

    return time


def _space(name: str) -> tuple[np.ndarray, dict[tuple[int, ...], int]]:
    table = space(name)
    table = table[np.isin(table[:, 3], GROUPS) & (table[:, 6:7] == 0).all(1)]
    return table, {tuple(row): index for index, row in enumerate(table.tolist())}


def _tried(kernel: str, block: tuple[int, int] | tuple[()], table: np.ndarray) -> np.ndarray:
    own = {tuple(row) for row in space(kernel, block).tolist()}
    return np.array([tuple(row) in own for row in table.tolist()])


def _alike(record: Recorded) -> tuple[int, str]:
    return len(record.products), record.tried

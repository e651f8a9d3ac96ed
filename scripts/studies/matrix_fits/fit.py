"""Fit constants to rankings: sets of all configurations near the best, and the best of tuning runs.

A configuration outside a set was slower or not tried. The loss is

    mean over sets of -log Σ_set softmax(-log t / τ) + w ρ(log t_best)
    + v mean over records of -log Σ_same tile softmax(-log t / τ_r)
    + u Σ over tables of measured times, mean over rows of ρ(log t)
    + ½ r Σ x² / sets

with x the standard-normal coordinates of the constants and ρ pseudo-Huber. The terms are the share of the
softmax over the space in the set, errors of the best time, the share of the choice of a noisy tuning run (for
any group, which has little effect), errors of times if all were recorded, and the prior. Cases of one layer
differ only in the number of tokens and share model errors: r of them have the information of one.

Method: L-BFGS (Liu & Nocedal 1989) with gradients by JAX. Precision: float32.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matrix_fits.records import NearBest, Recorded
from matrix_fits.scores import members, tried
from matrix_fits.timed import Inputs, Timed
from scipy.optimize import minimize

from dse.explore.matrix.devices import gpu_file
from dse.models.matrix.case import Case
from dse.models.matrix.configuration import PARAMETERS, Configuration, space
from dse.models.matrix.constants import ABOUT, Constants
from dse.models.matrix.machine import Machine, possible
from dse.models.matrix.problem import Product
from dse.models.matrix.time import seconds

TEMPERATURE = 0.02  # τ, of log time
NOISY = 0.04  # τ_r, of one run's choice
NOISE = 0.1  # of log time, above which errors count linearly
TIMES = 1.5  # w
RECORDS = 0.7  # v
TABLES = 1.0  # u
MOST = 1500  # rows of a table: more add no information
LEAST_SHARE = 1e-3  # of a set: no case dominates
GROUPS = (1, 16)  # fitted values of GROUP_SIZE_M: the others are close
AMD_USUAL = (0, 16, 2)  # waves_per_eu, matrix_instr_nonkdim, kpack
REPEATED = 18.0  # r: numbers of tokens per layer
STEPS = 40

Products = tuple[Product, ...]
Loss = Callable[..., tuple[Array, Array]]  # value and gradient at x, given arrays
Part = tuple[Loss, tuple[Any, ...]]


def fit(
    cases: Sequence[NearBest],
    records: Sequence[Recorded] = (),
    timed: Sequence[Timed] = (),
    steps: int = STEPS,
    repeated: float = REPEATED,
    start: Float[np.ndarray, " constants"] | None = None,
) -> Float[np.ndarray, " constants"]:
    """Return the coordinates x of the most probable constants; `Constants.at(x)` are their values.

    `repeated` is r, the number of cases with the information of one. The fit starts at `start`, by default
    the default constants. Without data, x is zero, the defaults.
    """
    kinds = groupby(sorted(records, key=_alike), key=_alike)
    parts = [_near(cases), *(_recorded(list(alike), RECORDS / len(records)) for _, alike in kinds)]
    there = [part for part in parts if part] + [_timed(table) for table in timed]
    if not there:
        return np.zeros(len(ABOUT))
    weight = 0.5 * repeated / (len(cases) or len(records) or MOST)

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        losses = [loss(jnp.asarray(x, jnp.float32), *arrays) for loss, arrays in there]
        gradient = sum(np.asarray(slope, float) for _, slope in losses) + 2.0 * weight * x
        return sum(float(value) for value, _ in losses) + weight * float(x @ x), gradient

    bounds = [(-4.0, 4.0)] * len(ABOUT)
    begin = np.zeros(len(ABOUT)) if start is None else start
    return minimize(both, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps}).x


class _Ranked(eqx.Module):
    """Cases with known best configurations."""

    machine: Machine
    case: Case  # its first axis: products that run in sequence
    tile: Configuration
    there: Array  # whether a configuration was tried and fits
    best: Array

    @staticmethod
    def of(
        gpus: Sequence[str],
        launches: Sequence[Products],
        table: np.ndarray,
        tried: np.ndarray,
        best: np.ndarray,
    ) -> tuple["_Ranked", list[int]] | None:
        """Return the cases with information, and their indices; None if no case has any."""
        names = list(dict.fromkeys(gpus))
        files = [gpu_file(name) for name in names]
        which = np.array([names.index(gpu) for gpu in gpus], int)
        fits = [possible(files[n], launch[:1], table)[0] for n, launch in zip(which, launches, strict=True)]
        there = tried & np.array(fits, bool).reshape(-1, len(table))
        rows = np.flatnonzero((best & there).any(1)).tolist()
        if not rows:
            return None
        machine = jax.tree.map(lambda field: field[which[rows]][:, None], Machine.of(files))
        products = zip(*(launches[row] for row in rows), strict=True)
        cases = [Case.of(launch, table[:, 0]) for launch in products]
        case = jax.tree.map(lambda *fields: jnp.stack(fields), *cases)
        known = [jnp.asarray(values[rows]) for values in (there, best & there)]
        return _Ranked(machine, case, Configuration.of(table), *known), rows

    def log_times(self, x: Array) -> Array:
        """Return log times at coordinates; much larger than all others for untried configurations."""
        constants = Constants.at(x)
        alone = jax.vmap(lambda case: seconds(self.machine, case, self.tile, constants))(self.case)
        return jnp.where(self.there, jnp.log(alone.sum(0)), 20.0)

    def missed(self, log_s: Array, temperature: float) -> Float[Array, " cases"]:
        """Return minus the log of the share of the best."""
        score = -log_s / temperature
        share = jax.nn.logsumexp(jnp.where(self.best, score, -1e9), 1) - jax.nn.logsumexp(score, 1)
        return -jnp.log(jnp.exp(share) + LEAST_SHARE)


def _near(cases: Sequence[NearBest]) -> Part | None:
    """Return the mean loss of near-best sets, or None without information."""
    if not cases:
        return None
    table = _usual(tried(cases))
    launches = [(case.product,) for case in cases]
    near = members(cases, table)
    ranked = _Ranked.of([case.gpu for case in cases], launches, table, np.full(near.shape, True), near)
    if ranked is None:
        return None
    fastest = np.log([cases[row].best for row in ranked[1]])
    return _loss_near, (ranked[0], jnp.asarray(fastest, jnp.float32))


@jax.jit
@jax.value_and_grad
def _loss_near(x: Array, ranked: _Ranked, fastest: Array) -> Array:
    log_s = ranked.log_times(x)
    return jnp.mean(ranked.missed(log_s, TEMPERATURE)) + TIMES * _wrong(jnp.min(log_s, 1) - fastest)


def _wrong(error: Array) -> Array:
    return jnp.mean(jnp.sqrt(1.0 + (error / NOISE) ** 2) - 1.0)


def _timed(table: Timed) -> Part:
    """Return the loss of measured times, on a sample of the configurations that ran."""
    ran = np.flatnonzero(np.isfinite(table.seconds))
    ran = np.random.default_rng(0).permutation(ran)[:MOST]
    return _loss_timed, (Inputs.of(table.where(ran)), jnp.asarray(np.log(table.seconds[ran]), jnp.float32))


@jax.jit
@jax.value_and_grad
def _loss_timed(x: Array, inputs: Inputs, measured: Array) -> Array:
    return TABLES * _wrong(jnp.log(inputs.seconds(Constants.at(x))) - measured)


def _recorded(records: Sequence[Recorded], weight: float) -> Part | None:
    """Return the sum of losses of the winners of similar tuning runs, or None."""
    table = _usual(space(records[0].tried))
    tiles = np.delete(table[:, : len(PARAMETERS)], 3, axis=1)
    winners = np.array([np.delete(record.configuration[: len(PARAMETERS)], 3) for record in records])
    same = (tiles[None] == winners[:, None]).all(2)
    run = np.array([record.runs(table) for record in records])
    launches = [record.products for record in records]
    ranked = _Ranked.of([record.gpu for record in records], launches, table, run, same)
    return ranked and (_loss_recorded, (ranked[0], jnp.asarray(weight)))


@jax.jit
@jax.value_and_grad
def _loss_recorded(x: Array, ranked: _Ranked, weight: Array) -> Array:
    return weight * jnp.sum(ranked.missed(ranked.log_times(x), NOISY))


def _usual(table: np.ndarray) -> np.ndarray:
    """Return the rows of two groups, and of the most frequent value of AMD's options in records."""
    own = np.array(AMD_USUAL)[: table.shape[1] - len(PARAMETERS)]
    return table[np.isin(table[:, 3], GROUPS) & (table[:, len(PARAMETERS) :] == own).all(1)]


def _alike(record: Recorded) -> tuple[int, str]:
    return len(record.products), record.tried


def coordinates(constants: Constants) -> Float[np.ndarray, " constants"]:
    """Return the standard-normal coordinates of constants, the inverse of `Constants.at`."""
    values = ((float(getattr(constants, name)), about) for name, about in ABOUT.items())
    return np.array([np.log(value / about.default) / about.spread for value, about in values])

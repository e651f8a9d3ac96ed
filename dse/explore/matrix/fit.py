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
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from dse.explore.matrix.records import NearBest, Recorded, gpu_file
from dse.explore.matrix.scores import members
from dse.explore.matrix.timed import Inputs, Timed
from dse.models.matrix.case import Case
from dse.models.matrix.configuration import PARAMETERS, Configuration, space
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
AMD_USUAL = (0, 16, 2)  # waves_per_eu, matrix_instr_nonkdim, kpack
REPEATED = 18.0  # r: numbers of tokens that each layer was timed with
STEPS = 40

Products = tuple[Product, ...]
Loss = Callable[..., tuple[Array, Array]]  # value and gradient at x, of arrays
Part = tuple[Loss, tuple[Any, ...]]


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
    """Cases whose best configurations are known."""

    machine: Machine
    cases: list[Case]  # products that run one after the other
    tile: Configuration
    there: Array  # whether a configuration was tried, and fits
    best: Array

    @staticmethod
    def of(
        gpus: Sequence[str],
        launches: Sequence[Products],
        table: np.ndarray,
        tried: np.ndarray,
        best: np.ndarray,
    ) -> tuple["_Ranked", list[int]] | None:
        """Those of the cases that hold information, and their places; None where no case does."""
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
        known = [jnp.asarray(values[rows]) for values in (there, best & there)]
        return _Ranked(machine, cases, Configuration.of(table), *known), rows

    def log_times(self, x: Array) -> Array:
        """Log times from coordinates; far behind all others where a configuration is not there."""
        total = sum(seconds(self.machine, case, self.tile, Constants.at(x)) for case in self.cases)
        return jnp.where(self.there, jnp.log(total), 20.0)

    def missed(self, log_s: Array, temperature: float) -> Float[Array, " cases"]:
        """Minus the log of the share that falls to the best."""
        score = -log_s / temperature
        share = jax.nn.logsumexp(jnp.where(self.best, score, -1e9), 1) - jax.nn.logsumexp(score, 1)
        return -jnp.log(jnp.exp(share) + LEAST_SHARE)


def _near(cases: Sequence[NearBest]) -> Part | None:
    """The mean loss of near-best sets, or None where they hold no information."""
    table = _space("wide")
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
    """Errors of a sample of the configurations that ran, against measured times."""
    ran = np.flatnonzero(np.isfinite(table.seconds))
    ran = np.random.default_rng(0).permutation(ran)[:MOST]
    return _loss_timed, (Inputs.of(table.where(ran)), jnp.asarray(np.log(table.seconds[ran]), jnp.float32))


@jax.jit
@jax.value_and_grad
def _loss_timed(x: Array, inputs: Inputs, measured: Array) -> Array:
    return TABLES * _wrong(jnp.log(inputs.seconds(Constants.at(x))) - measured)


def _recorded(records: Sequence[Recorded], weight: float) -> Part | None:
    """The sum of losses of the winners of tuning runs that are alike, or None."""
    table = _space(records[0].tried)
    tiles = np.delete(table[:, : len(PARAMETERS)], 3, axis=1)
    winners = np.array([np.delete(record.configuration[: len(PARAMETERS)], 3) for record in records])
    same = (tiles[None] == winners[:, None]).all(2)
    tried = np.array([record.runs(table) for record in records])
    launches = [record.products for record in records]
    ranked = _Ranked.of([record.gpu for record in records], launches, table, tried, same)
    return ranked and (_loss_recorded, (ranked[0], jnp.asarray(weight)))


@jax.jit
@jax.value_and_grad
def _loss_recorded(x: Array, ranked: _Ranked, weight: Array) -> Array:
    return weight * jnp.sum(ranked.missed(ranked.log_times(x), NOISY))


def _space(name: str) -> np.ndarray:
    """A space with two of its groups, and the one value of AMD's own options that records mostly have."""
    table = space(name)
    own = np.array(AMD_USUAL)[: table.shape[1] - len(PARAMETERS)]
    return table[np.isin(table[:, 3], GROUPS) & (table[:, len(PARAMETERS) :] == own).all(1)]


def _alike(record: Recorded) -> tuple[int, str]:
    return len(record.products), record.tried

"""GPU parameters that make a model's times the measured ones: the most probable, and their spread.

    ½ Σ ρ((log f(θ) - log t) / τ) + ½ Σ (θ / width)²

is minimised over θ, the logs of GPU fields over their catalogue values; ρ is pseudo-Huber, so that a few
measurements that no model explains do not decide. τ, what is left unexplained, comes from the residuals.
The spread is that of samples of the density about the minimum, set out from Laplace's normal (the inverse of
the Gauss-Newton Hessian), which alone is too narrow where the model has kinks. A parameter whose spread is
nearly what it was before the data is one that these data cannot tell.

Several kernels and GPUs are fitted at a time: each GPU has its own parameters, but for those that are shared,
which move all GPUs from their catalogue values by the same factor.

Source: Huber 1964 (robust loss; its smooth form: Charbonnier et al. 1997); MacKay, Information Theory,
Inference, and Learning Algorithms, 2003, Ch. 27 (Laplace). Precision: float64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dse.core.optional import install, needs
from dse.core.precision import in_64_bits
from dse.errors import DseError
from dse.explore.fit.launches import Launches, log_seconds
from dse.explore.fit.posterior import sampled
from dse.models.protocol import Model

with needs("optimistix", install("fit")):
    import optimistix

Method = Literal["lm", "bfgs"]
METHODS = ("lm", "bfgs")
ROBUST = 3.0  # residuals, in τ, from which on ρ grows more slowly than a square
UNEXPLAINED = 0.1  # τ to begin with
LEAST = 1e-3  # τ at least: times have noise
TOLD = 0.9  # of its width: a parameter that keeps more of its spread than this is not told by the data
STEPS = 200
LEAST_WALKERS = 32  # or two a parameter
DRAWS = 4_096  # of Laplace's normal
WALK = 1_000  # steps of each walker, of which half count


class Data(eqx.Module):
    """Measured times of launches on one GPU."""

    launches: Launches
    log_seconds: Float[Array, " launches"]  # measured
    counts: Bool[Array, " launches"]  # towards the fit; what is held out keeps its place

    @staticmethod
    def of(launches: Launches, seconds: np.ndarray) -> "Data":
        """Keep those launches that are possible and ran. DseError if there is none."""
        rows = np.flatnonzero(np.isfinite(seconds) & np.asarray(launches.possible))
        if not len(rows):
            raise DseError("measured times: found no launch that ran and is possible, expected at least one")
        with in_64_bits():
            return Data(launches.rows(rows), jnp.asarray(np.log(seconds[rows])), jnp.ones(len(rows), bool))

    def only(self, chosen: Bool[np.ndarray, " launches"]) -> "Data":
        """Keep some of them, with the others held out."""
        return Data(self.launches, self.log_seconds, jnp.asarray(chosen))

    def __len__(self) -> int:
        return len(self.log_seconds)


@dataclass(frozen=True)
class Parameters:
    """θ: `names` for each GPU, of which those `shared` are one for all; widths [GPUs, names]."""

    names: tuple[str, ...]
    widths: np.ndarray
    shared: frozenset[str] = frozenset()

    @property
    def index(self) -> np.ndarray:
        """The place in θ of each name of each GPU, [GPUs, names]."""
        index, rows, common = 0, [], {}
        for _ in range(len(self.widths)):
            row = []
            for name in self.names:
                if name in common:
                    row.append(common[name])
                    continue
                if name in self.shared:
                    common[name] = index
                row.append(index)
                index += 1
            rows.append(row)
        return np.array(rows)

    @property
    def width(self) -> np.ndarray:
        """The width of each element of θ; a shared one has the widest of its GPUs."""
        width = np.zeros(self.index.max() + 1)
        np.maximum.at(width, self.index, self.widths)
        return width


@dataclass(frozen=True)
class Fit:
    """The most probable parameters after the data."""

    parameters: Parameters
    theta: np.ndarray
    samples: np.ndarray  # [S, θ], of its density
    unexplained: float  # τ
    loss: float  # the minimum of what is minimised
    evaluations: int  # of the model with its derivatives, from the best start on

    def logs(self, gpu: int = 0) -> np.ndarray:
        """Return θ of one GPU, in the order of the names."""
        return self.theta[self.parameters.index[gpu]]

    def spreads(self, gpu: int = 0) -> np.ndarray:
        """Return the standard deviation of each."""
        return self.samples.std(axis=0)[self.parameters.index[gpu]]

    def intervals(self, share: float = 0.95, gpu: int = 0) -> np.ndarray:
        """Return the ends of what holds this share of the density of each, [2, names]."""
        tail = (1 - share) / 2
        return np.quantile(self.samples, (tail, 1 - tail), axis=0)[:, self.parameters.index[gpu]]

    def untold(self, gpu: int = 0) -> tuple[str, ...]:
        """Return the names of what the data cannot tell."""
        width = self.parameters.width[self.parameters.index[gpu]]
        return tuple(
            name
            for name, spread, before in zip(self.parameters.names, self.spreads(gpu), width, strict=True)
            if spread > TOLD * before
        )


def fit(
    data: Sequence[Data],
    gpus: Sequence[int],
    parameters: Parameters,
    model: Model,
    method: Method = "lm",
    starts: int = 4,
    seed: int = 0,
    walk: int = WALK,
    advance: Callable[[int], None] = lambda done: None,
) -> Fit:
    """Fit the parameters to the data; `gpus` says which GPU each of `data` was measured on.

    `starts` points are tried, the catalogue's and others drawn from before the data; the best counts. `walk`
    is how many steps each walker takes; 0: samples are of Laplace's normal, where predictions cost too much.
    `advance` is told of each of `stages(starts)` that is done.
    """
    if method not in METHODS:
        raise DseError(f"method: found {method!r}, expected one of {', '.join(METHODS)}")
    width, index = parameters.width, parameters.index
    draws = np.random.default_rng(seed).normal(size=(starts, len(width))) * width
    draws[0] = 0.0
    with in_64_bits():
        problem = _Problem(tuple(data), tuple(jnp.asarray(index[g]) for g in gpus), jnp.asarray(width))

        def solved(start: Array, tau: float) -> tuple[Array, Array, Array]:
            return _solved(problem, start, jnp.asarray(tau), parameters.names, model, method)

        tau = UNEXPLAINED
        ends = []
        for start in draws:
            ends.append(jax.block_until_ready(solved(jnp.asarray(start), tau)))
            advance(1)
        theta, loss, steps = min(ends, key=lambda end: np.nan_to_num(float(end[1]), nan=np.inf))
        for _ in range(2):  # τ hangs on the fit, and the fit a little on τ
            off = np.asarray(_off(problem, theta, parameters.names, model))
            off = off[np.concatenate([np.asarray(part.counts) for part in data])]
            tau = max(LEAST, 1.4826 * float(np.median(np.abs(off))))  # the deviation of a normal one
            theta, loss, more = solved(theta, tau)
            steps += more
            advance(1)
        samples = np.asarray(_samples(problem, theta, jnp.asarray(tau), parameters.names, model, seed, walk))
        advance(1)
    return Fit(parameters, np.asarray(theta), samples, tau, float(loss), int(steps))


def stages(starts: int) -> int:
    """How many stages a fit has: its starts, two more with the deviation that was found, and the samples."""
    return starts + 3


class _Problem(eqx.Module):
    data: tuple[Data, ...]
    index: tuple[Array, ...]  # of each data set's parameters in θ
    width: Array


def _off(problem: _Problem, theta: Array, names: tuple[str, ...], model: Model) -> Array:
    """Return log f - log t of all data."""
    return jnp.concatenate(
        [
            log_seconds(data.launches, model, names, theta[index]).astype(theta.dtype) - data.log_seconds
            for data, index in zip(problem.data, problem.index, strict=True)
        ]
    )


def _robust(problem: _Problem, theta: Array, tau: Array, names: tuple[str, ...], model: Model) -> Array:
    """Return residuals to be squared, in τ: beyond ROBUST the square grows as the residual does itself."""
    r = _off(problem, theta, names, model) / tau
    counts = jnp.concatenate([data.counts for data in problem.data])
    smaller = r * jnp.sqrt(2.0 / (jnp.sqrt(1.0 + (r / ROBUST) ** 2) + 1.0))
    return jnp.where(counts, smaller, 0.0)


@eqx.filter_jit
def _solved(
    problem: _Problem, start: Array, tau: Array, names: tuple[str, ...], model: Model, method: Method
) -> tuple[Array, Array, Array]:
    """Find where a start leads, the loss there, and how many steps it took."""

    def residuals(theta: Array, _: None) -> Array:
        return jnp.concatenate([_robust(problem, theta, tau, names, model), theta / problem.width])

    def loss(theta: Array, _: None) -> Array:
        return 0.5 * jnp.sum(residuals(theta, None) ** 2)

    if method == "lm":
        solver = optimistix.LevenbergMarquardt(rtol=1e-6, atol=1e-6)
        solution = optimistix.least_squares(residuals, solver, start, max_steps=STEPS, throw=False)
    else:
        solver = optimistix.BFGS(rtol=1e-6, atol=1e-6)
        solution = optimistix.minimise(loss, solver, start, max_steps=STEPS, throw=False)
    return solution.value, loss(solution.value, None), solution.stats["num_steps"]


@eqx.filter_jit
def _samples(
    problem: _Problem,
    theta: Array,
    tau: Array,
    names: tuple[str, ...],
    model: Model,
    seed: int,
    walk: int,
) -> Array:
    """Sample the density of θ: walkers set out from Laplace's normal about the mode."""

    def log_density(at: Array) -> Array:
        times = _robust(problem, at, tau, names, model)
        return -0.5 * (jnp.sum(times**2) + jnp.sum((at / problem.width) ** 2))

    slopes = jax.jacfwd(lambda at: _robust(problem, at, tau, names, model))(theta)
    hessian = slopes.T @ slopes + jnp.diag(problem.width**-2.0)  # Gauss-Newton's
    first, second = jax.random.split(jax.random.key(seed))
    count = 2 * max(LEAST_WALKERS // 2, len(theta)) if walk else DRAWS
    normal = jax.random.normal(first, (count, len(theta)), theta.dtype)
    walkers = theta[None, :] + jax.scipy.linalg.solve_triangular(
        jnp.linalg.cholesky(hessian), normal.T, lower=True, trans="T"
    ).T  # fmt: skip
    return sampled(log_density, walkers, walk, second) if walk else walkers

"""Fit GPU parameters to measured times: the most probable values, and their uncertainty.

    ½ Σ ρ((log f(θ) - log t) / τ) + ½ Σ (θ / width)²

is minimised over θ, the logs of GPU fields over their catalogue values; ρ is pseudo-Huber, so that a few
outliers do not dominate. θ stays within bounds: no chip is faster than its lanes. τ, the unexplained
deviation, is estimated from the residuals. The spread is the standard deviation of samples of the density
about the minimum. They start from Laplace's normal (covariance: the inverse of the Gauss-Newton Hessian),
which alone is too narrow if the model has kinks. The data do not determine a parameter whose spread is close
to that of its prior.

Several kernels and GPUs are fitted together: each GPU has its own parameters, except shared ones, which scale
the catalogue values of all GPUs by the same factor.

Source: Huber 1964 (robust loss; its smooth form: Charbonnier et al. 1997); MacKay, Information Theory,
Inference, and Learning Algorithms, 2003, Ch. 27 (Laplace); Branch, Coleman & Li 1999 (least squares within
bounds). Precision: float64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.optimize import least_squares, minimize

from dse.core.precision import in_64_bits
from dse.core.programs import kept
from dse.errors import DseError, check_names
from dse.explore.fit.launches import Launches, compiled_log_seconds, log_seconds
from dse.explore.fit.posterior import sampled
from dse.models.protocol import Model

Method = Literal["lm", "bfgs"]
METHODS = ("lm", "bfgs")
ROBUST = 3.0  # residual, in τ, above which ρ grows more slowly than a square
UNEXPLAINED = 0.1  # initial τ
LEAST = 1e-3  # minimum τ: times have noise
TOLD = 0.9  # of its prior spread: the data do not determine a parameter with a larger share left
TOLD_UNMOVED = 0.5  # the same for one that stays at its catalogue value
FAR = 2.0  # widths from the catalogue's value beyond which a value is doubtful
AT_BOUND = 0.02  # of a log: maximum distance of a value at a bound
CLOCKED = ("cpi.dram", "latency.dram")  # in a separate clock domain: its cycles follow the SMs' clock
STEPS = 200
LEAST_WALKERS = 32  # or two per parameter
DRAWS = 4_096  # of Laplace's normal
WALK = 1_000  # steps of each walker; the second half counts


class Data(eqx.Module):
    """Measured times of launches on one GPU."""

    launches: Launches
    log_seconds: Float[Array, " launches"]  # measured
    counts: Bool[Array, " launches"]  # towards the fit; held-out launches stay in the arrays

    @staticmethod
    def of(launches: Launches, seconds: np.ndarray) -> "Data":
        """Keep the launches that are possible and ran. DseError if there is none."""
        rows = np.flatnonzero(np.isfinite(seconds) & np.asarray(launches.possible))
        if not len(rows):
            raise DseError("measured times: found no launch that ran and is possible, expected at least one")
        with in_64_bits():
            return Data(launches.rows(rows), jnp.asarray(np.log(seconds[rows])), jnp.ones(len(rows), bool))

    def only(self, launches: Bool[np.ndarray, " launches"]) -> "Data":
        """Fit to some of them and hold out the others."""
        return Data(self.launches, self.log_seconds, jnp.asarray(launches))

    def __len__(self) -> int:
        return len(self.log_seconds)


@dataclass(frozen=True)
class Parameters:
    """θ: `names` for each GPU, with one value for all in `shared`; widths [GPUs, names].

    `bounds` are the least and the largest θ, [2, GPUs, names], or None.
    """

    names: tuple[str, ...]
    widths: np.ndarray
    shared: frozenset[str] = frozenset()
    bounds: np.ndarray | None = None

    @property
    def index(self) -> np.ndarray:
        """The index in θ of each name of each GPU, [GPUs, names]."""
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
        """The width of each element of θ; for a shared one the largest over GPUs."""
        width = np.zeros(self.index.max() + 1)
        np.maximum.at(width, self.index, self.widths)
        return width

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of each element of θ; for a shared one the narrowest over GPUs."""
        least, most = np.full((2, self.index.max() + 1), np.inf) * [[-1.0], [1.0]]
        if self.bounds is not None:
            np.maximum.at(least, self.index, self.bounds[0])
            np.minimum.at(most, self.index, self.bounds[1])
        return least, most

    @property
    def follow(self) -> np.ndarray:
        """The matrix from one GPU's θ to logs of its fields, [names, names]: DRAM has a separate clock."""
        mixed = np.eye(len(self.names))
        if "clock" in self.names:
            for name in set(CLOCKED) & set(self.names):
                mixed[self.names.index(name), self.names.index("clock")] = 1.0
        return mixed


@dataclass(frozen=True)
class Fit:
    """The most probable parameters given the data."""

    parameters: Parameters
    theta: np.ndarray
    samples: np.ndarray  # [S, θ], of its density
    unexplained: float  # τ
    loss: float  # at the minimum
    evaluations: int  # of the model with derivatives, from the best start on

    def logs(self, gpu: int = 0, determined: bool = False) -> np.ndarray:
        """Return the logs of one GPU's fields over their catalogue values, in the order of the names.

        With `determined`, 0 for fields that the data do not determine.
        """
        theta = self.theta[self.parameters.index[gpu]]
        if determined:
            theta = np.where(np.isin(self.parameters.names, self.undetermined(gpu)), 0.0, theta)
        return self.parameters.follow @ theta

    def _moved(self, gpu: int) -> np.ndarray:
        return self.samples[:, self.parameters.index[gpu]] @ self.parameters.follow.T

    def spreads(self, gpu: int = 0) -> np.ndarray:
        """Return the standard deviation of each log."""
        return self._moved(gpu).std(axis=0)

    def undetermined(self, gpu: int = 0) -> tuple[str, ...]:
        """Return the names of the fields that the data do not determine."""
        from scipy.stats import truncnorm  # half a second

        index, width = self.parameters.index[gpu], self.parameters.width
        least, most = (limit / width for limit in self.parameters.limits)
        # At the catalogue's value, like a field without data: the criterion is stricter.
        unmoved = np.abs(self.theta) < AT_BOUND
        before = truncnorm.std(least, most, scale=width) * np.where(unmoved, TOLD_UNMOVED, TOLD)
        spreads = self.samples.std(axis=0)
        return tuple(np.array(self.parameters.names)[(spreads > before)[index]].tolist())

    def doubts(self, gpu: int = 0) -> dict[str, str]:
        """Return why fields are implausible although the data determine them: at a bound, or far off."""
        index, undetermined = self.parameters.index[gpu], self.undetermined(gpu)
        least, most = self.parameters.limits
        doubts = {}
        for name, place in zip(self.parameters.names, index, strict=True):
            at, width = self.theta[place], self.parameters.width[place]
            if name in undetermined:
                continue
            if min(at - least[place], most[place] - at) < AT_BOUND:
                doubts[name] = "at its bound"
            elif abs(at) > FAR * width:
                doubts[name] = f"{abs(at) / width:.1f} widths off"
        return doubts


def fit(
    data: Sequence[Data],
    gpus: Sequence[int],
    parameters: Parameters,
    model: Model,
    method: Method = "lm",
    starts: int = 4,
    seed: int = 0,
    walk: int | None = WALK,
    advance: Callable[[int], None] = lambda done: None,
) -> Fit:
    """Fit the parameters to the data; `gpus` is the index of the GPU of each of `data`.

    The fit starts from `starts` points, the catalogue's and draws of the prior, and keeps the best. `walk` is
    the number of steps of each walker; 0: samples of Laplace's normal, for expensive models; None: no samples
    and no spreads.
    `advance` is called after each of `stages(starts)`.
    """
    check_names("method", METHODS, method)
    width, index, limits = parameters.width, parameters.index, parameters.limits
    draws = np.random.default_rng(seed).normal(size=(starts, len(width))) * width
    draws[0] = 0.0
    with in_64_bits():
        mixed = jnp.asarray(parameters.follow)
        problem = _Problem(
            *(tuple(data), tuple(jnp.asarray(index[g]) for g in gpus), jnp.asarray(width), mixed),
            *((jnp.asarray(limits[0]), jnp.asarray(limits[1])), parameters.names, model),
        )
        tau = UNEXPLAINED
        ends = []
        for start in draws:
            ends.append(_solved(problem, start, tau, method))
            advance(1)
        theta, loss, steps = min(ends, key=lambda end: np.nan_to_num(end[1], nan=np.inf))
        for _ in range(2):  # τ depends on the fit, and the fit slightly on τ
            off = np.asarray(_off(problem, theta, compiled_log_seconds))
            off = off[np.concatenate([np.asarray(part.counts) for part in data])]
            tau = max(LEAST, 1.4826 * float(np.median(np.abs(off))))  # standard deviation of a normal
            theta, loss, more = _solved(problem, theta, tau, method)
            steps += more
            advance(1)
        samples = np.empty((0, len(theta)))
        if walk is not None:
            at = jnp.asarray(theta), jnp.asarray(tau)
            samples = np.asarray(_samples(problem, *at, _slopes(problem, *at), seed, walk))
        advance(1)
    return Fit(parameters, theta, samples, tau, loss, steps)


def stages(starts: int) -> int:
    """Return the number of stages of a fit: its starts, two with the estimated τ, and the samples."""
    return starts + 3


class _Problem(eqx.Module):
    data: tuple[Data, ...]
    index: tuple[Array, ...]  # of each data set's parameters in θ
    width: Array
    follow: Array
    limits: tuple[Array, Array]
    names: tuple[str, ...] = eqx.field(static=True)
    model: Model


def _off(
    problem: _Problem, theta: Array | np.ndarray, predicted: Callable[..., Array] = log_seconds
) -> Array:
    """Return log f - log t of all data."""
    return jnp.concatenate(
        [
            predicted(data.launches, problem.model, problem.names, problem.follow @ theta[index]).astype(
                theta.dtype
            )
            - data.log_seconds
            for data, index in zip(problem.data, problem.index, strict=True)
        ]
    )


def _robust(problem: _Problem, theta: Array, tau: Array) -> Array:
    """Return residuals to be squared, in τ: above ROBUST the square grows linearly with the residual."""
    r = _off(problem, theta) / tau
    counts = jnp.concatenate([data.counts for data in problem.data])
    smaller = r * jnp.sqrt(2.0 / (jnp.sqrt(1.0 + (r / ROBUST) ** 2) + 1.0))
    return jnp.where(counts, smaller, 0.0)


def _residuals(problem: _Problem, theta: Array, tau: Array) -> Array:
    return jnp.concatenate([_robust(problem, theta, tau), theta / problem.width])


_residuals_jitted = kept(_residuals)


@kept
def _slopes(problem: _Problem, theta: Array, tau: Array) -> Array:
    return jax.jacfwd(partial(_residuals, problem))(theta, tau)


@kept
def _loss(problem: _Problem, theta: Array, tau: Array) -> tuple[Array, Array]:
    return jax.value_and_grad(lambda at: 0.5 * jnp.sum(_residuals(problem, at, tau) ** 2))(theta)


def _solved(
    problem: _Problem, start: np.ndarray, tau: float, method: Method
) -> tuple[np.ndarray, float, int]:
    """Minimise from a start within the bounds; return θ, the loss, and the number of evaluations."""
    least, most = (np.asarray(limit) for limit in problem.limits)
    start, at_tau = np.clip(start, least, most), jnp.asarray(tau)

    def by(function: Callable[..., Array]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda at: np.asarray(function(problem, jnp.asarray(at), at_tau))

    if method == "lm":
        residuals, slopes, scale = by(_residuals_jitted), by(_slopes), np.asarray(problem.width)
        solution = least_squares(residuals, start, slopes, (least, most), x_scale=scale, max_nfev=STEPS)  # pyright: ignore[reportArgumentType]
        return solution.x, float(solution.cost), int(solution.nfev)

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _loss(problem, jnp.asarray(at), at_tau)
        return float(value), np.asarray(slope)

    settings = {"maxiter": STEPS, "ftol": 1e-12, "gtol": 1e-8}
    bounds = np.stack([least, most], axis=1)
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=settings)
    return solution.x, float(solution.fun), int(solution.nfev)


@eqx.filter_jit
def _samples(problem: _Problem, theta: Array, tau: Array, slopes: Array, seed: int, walk: int) -> Array:
    """Sample the density of θ: walkers start from Laplace's normal about the mode."""
    least, most = (limit[None, :] for limit in problem.limits)

    def log_density(at: Array) -> Array:
        density = -0.5 * jnp.sum(_residuals(problem, at, tau) ** 2)
        return jnp.where(((least <= at[None]) & (at[None] <= most)).all(), density, -jnp.inf)

    hessian = slopes.T @ slopes  # Gauss-Newton's
    first, second = jax.random.split(jax.random.key(seed))
    count = 2 * max(LEAST_WALKERS // 2, len(theta)) if walk else DRAWS
    normal = jax.random.normal(first, (count, len(theta)), theta.dtype)
    walkers = theta[None, :] + jax.scipy.linalg.solve_triangular(
        jnp.linalg.cholesky(hessian), normal.T, lower=True, trans="T"
    ).T  # fmt: skip
    inside = jnp.where(walkers < least, 2 * least - walkers, walkers)  # mirrored at the bounds
    inside = jnp.clip(jnp.where(inside > most, 2 * most - inside, inside), least, most)
    return sampled(log_density, inside, walk, second) if walk else inside

"""What measurements say of configurations that were not measured: a Gaussian process about a model.

    log t(x) = log f(x) + Σ_p θ_p s_p(x) + g(x) + ε

f is the model and s_p its derivative by the log of a GPU parameter, in prior standard deviations, so that θ
is standard normal: refitting the GPU, to first order. g is what the model misses: a smooth function of the
tuning parameters, as a sum over one parameter at a time and one over all of them together. ε is noise. All
are Gaussian, so the posterior is exact; the scales of g and ε are fitted by the gradient of its density.

Source: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006: Eqs. 2.23-2.24 (prediction), 2.30
(likelihood), 4.17 (Matérn, ν = 5/2). Precision: float64.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float

FEWEST = 16  # measurements are padded to this, or to a power of two above: few shapes to compile
OFFSET = 1.0  # prior standard deviation of what all times have in common, as a log
SLOW = 0.2  # what is slower than the median by this, or by 3 deviations, counts as just so slow
STEPS = 40  # of the fit of the scales, at most


class Points(NamedTuple):
    """N configurations as the surrogate sees them."""

    position: Float[Array, "n parameters"] | Float[np.ndarray, "n parameters"]  # `positions`
    slopes: Float[Array, "n gpu"] | Float[np.ndarray, "n gpu"]  # s_p, of each GPU parameter


class Scales(eqx.Module):
    """Logs of the standard deviations of g's two parts and of the noise, and of lengths over [0, 1]."""

    joint: Float[Array, ""]
    single: Float[Array, ""]
    noise: Float[Array, ""]
    lengths: Float[Array, " parameters"]


class Prior(NamedTuple):
    """Each of the scales is normal about its mean, in logs."""

    mean: Scales
    deviation: Scales


def positions(parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, "n varying"]:
    """Each parameter that varies, from 0 to 1: by its log where it is above 0, else by its rank."""
    columns = []
    for values in map(np.asarray, parameters.values()):
        known = np.unique(values)
        if len(known) < 2:
            continue
        numeric = np.issubdtype(values.dtype, np.number) and known[0] > 0
        x = np.log(values) if numeric else np.searchsorted(known, values).astype(float)
        columns.append((x - x.min()) / (x.max() - x.min()))
    count = len(next(iter(parameters.values())))
    return np.stack(columns, axis=1) if columns else np.zeros((count, 1))


def prior(parameters: int, missed: float) -> Prior:
    """`missed` is how far times are expected to lie from the model, as a log."""
    log = np.log

    def scales(joint: float, single: float, noise: float, length: float) -> Scales:
        return Scales(
            jnp.asarray(joint), jnp.asarray(single), jnp.asarray(noise), jnp.full(parameters, length)
        )

    mean = scales(log(missed), log(missed), log(0.03), log(0.6))
    return Prior(mean, scales(0.6, 0.6, 0.5, 0.7))


class Surrogate(eqx.Module):
    """A Gaussian process that has seen M measurements, padded."""

    scales: Scales
    seen: Points
    there: Bool[Array, " m"]  # not padding
    mean: Float[Array, ""]  # of what the measurements are off the model
    cholesky: Float[Array, "m m"]
    whitened: Float[Array, " m"]

    def __call__(self, points: Points) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Mean and standard deviation of log t - log f of other configurations, without noise."""
        return _predict(self, points)

    def joint(self, points: Points) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
        """Mean and covariance of log t - log f of other configurations, without noise."""
        return _joint(self, points)

    def left_out(self) -> Float[np.ndarray, " measured"]:
        """How many standard deviations each measurement is above what the others say (Eqs. 5.10-5.12)."""
        inverse = cho_solve((self.cholesky, True), jnp.eye(len(self.cholesky)))
        return np.asarray(self._weights() / jnp.sqrt(jnp.diag(inverse)))[np.asarray(self.there)]

    def gpu_parameters(self) -> Float[Array, " gpu"]:
        """Mean of θ, in prior standard deviations."""
        return jnp.asarray(self.seen.slopes).T @ self._weights()

    def _weights(self) -> Float[Array, " m"]:
        return solve_triangular(self.cholesky, self.whitened, lower=True, trans="T")


def fitted(prior: Prior, start: Scales, seen: Points, off: Float[np.ndarray, " m"]) -> Surrogate:
    """The surrogate after measurements whose logs are `off` the model's; scales are sought from `start`."""
    points, centred, there, mean = _padded(seen, off)
    return _conditioned(_scales(prior, start, points, centred, there), points, centred, there, mean)


def conditioned(scales: Scales, seen: Points, off: Float[np.ndarray, " m"]) -> Surrogate:
    """As `fitted`, with scales that are known."""
    return _conditioned(scales, *_padded(seen, off))


def _padded(seen: Points, off: np.ndarray) -> tuple[Points, Array, Array, Array]:
    """Measurements with rows up to one of few numbers, and which of them are there."""
    count = len(off)
    room = max(FEWEST, 1 << (count - 1).bit_length())
    filled = np.minimum(np.arange(room), count - 1)
    there = np.arange(room) < count
    points = Points(*(jnp.asarray(np.where(there[:, None], np.asarray(x)[filled], 0.0)) for x in seen))
    mean = np.median(off)
    off = np.minimum(off, mean + max(SLOW, 3 * 1.4826 * np.median(np.abs(off - mean))))
    return (
        points,
        jnp.asarray(np.where(there, off[filled] - mean, 0.0)),
        jnp.asarray(there),
        jnp.asarray(mean),
    )


@eqx.filter_jit
def _scales(prior: Prior, start: Scales, seen: Points, off: Array, there: Bool[Array, " m"]) -> Scales:
    """The most probable ones."""

    def cost(scales: Scales, _: None) -> Array:
        cholesky = _cholesky(scales, seen, there)
        whitened = solve_triangular(cholesky, off, lower=True)
        unlikely = 0.5 * whitened @ whitened + jnp.sum(jnp.log(jnp.diag(cholesky)))  # Eq. 2.30
        away = jax.tree.map(lambda x, m, s: jnp.sum(((x - m) / s) ** 2), scales, *prior)
        return unlikely + 0.5 * sum(jax.tree.leaves(away))

    solver = optimistix.BFGS(rtol=1e-3, atol=1e-3)
    return optimistix.minimise(cost, solver, start, max_steps=STEPS, throw=False).value


@eqx.filter_jit
def _conditioned(scales: Scales, seen: Points, off: Array, there: Array, mean: Array) -> Surrogate:
    cholesky = _cholesky(scales, seen, there)
    return Surrogate(scales, seen, there, mean, cholesky, solve_triangular(cholesky, off, lower=True))


@eqx.filter_jit
def _predict(surrogate: Surrogate, points: Points) -> tuple[Array, Array]:
    mean, explained = _explained(surrogate, points)
    variance = _variance(surrogate.scales, points) - jnp.sum(explained**2, axis=0)  # Eq. 2.24
    return mean, jnp.sqrt(jnp.maximum(variance, 1e-12))


@eqx.filter_jit
def _joint(surrogate: Surrogate, points: Points) -> tuple[Array, Array]:
    mean, explained = _explained(surrogate, points)
    return mean, _covariance(surrogate.scales, points, points) - explained.T @ explained  # Eq. 2.24


def _explained(surrogate: Surrogate, points: Points) -> tuple[Array, Array]:
    """The mean, and what measurements take of the covariance: its factor, [m, n]."""
    across = _covariance(surrogate.scales, surrogate.seen, points)
    across = jnp.where(surrogate.there[:, None], across, 0.0)
    explained = solve_triangular(surrogate.cholesky, across, lower=True)
    return surrogate.mean + explained.T @ surrogate.whitened, explained  # Eq. 2.23


def _cholesky(scales: Scales, seen: Points, there: Array) -> Array:
    """Of the covariance of measurements; the padding is independent of all."""
    covariance = jnp.where(there[:, None] & there[None, :], _covariance(scales, seen, seen), 0.0)
    return jnp.linalg.cholesky(covariance + jnp.diag(jnp.where(there, jnp.exp(2 * scales.noise), 1.0)))


def _covariance(scales: Scales, a: Points, b: Points) -> Array:
    apart = a.position[:, None, :] - b.position[None, :, :]
    squares = (apart / jnp.exp(scales.lengths)[None, None, :]) ** 2
    joint = jnp.exp(2 * scales.joint) * _matern(jnp.sum(squares, axis=-1))
    single = jnp.exp(2 * scales.single) * jnp.mean(_matern(squares), axis=-1)
    return OFFSET**2 + joint + single + a.slopes @ b.slopes.T


def _variance(scales: Scales, points: Points) -> Array:
    own = OFFSET**2 + jnp.exp(2 * scales.joint) + jnp.exp(2 * scales.single)
    return own + jnp.sum(jnp.square(points.slopes), axis=-1)


def _matern(squares: Any) -> Array:
    """Correlation at a squared distance, ν = 5/2 (Eq. 4.17)."""
    r = jnp.sqrt(5.0 * squares + 1e-12)  # its gradient at 0 is finite
    return (1.0 + r + r * r / 3.0) * jnp.exp(-r)

"""Predicts configurations that were not measured from those that were: a Gaussian process about a model.

    log t(x) = log f(x) + Σ_p θ_p s_p(x) + g(x) + ε

f is the model and s_p its derivative by the log of a GPU parameter, in prior standard deviations, so that θ
is standard normal: refitting the GPU, to first order. g is what the model misses: a smooth function of the
tuning parameters, as a sum over one parameter at a time and one over all of them together. ε is noise. All
are Gaussian, so the posterior is exact; the scales of g and ε are fitted by the gradient of its density.

Source: `dse.core.gaussian_process`. Precision: float64.
"""

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dse.core.gaussian_process import Posterior, Smooth, unlikeliness
from dse.core.optional import install, needs
from dse.core.precision import in_64_bits

with needs("optimistix", install("fit")):
    import optimistix

FEWEST = 16  # measurements are padded to this, or to a power of two above: few shapes to compile
OFFSET = 1.0  # prior standard deviation of what all times have in common, as a log
SLOW = 0.2  # what is slower than the median by this, or by 3 deviations, counts as just so slow
STEPS = 40  # of the fit of the scales, at most


class Points(NamedTuple):
    """The positions and slopes of N configurations."""

    position: Float[Array, "n parameters"] | Float[np.ndarray, "n parameters"]  # `positions`
    slopes: Float[Array, "n gpu"] | Float[np.ndarray, "n gpu"]  # s_p, of each GPU parameter


class Scales(eqx.Module):
    """The logs of the standard deviations of g's two parts and of the noise, and of lengths over [0, 1]."""

    joint: Float[Array, ""]
    single: Float[Array, ""]
    noise: Float[Array, ""]
    lengths: Float[Array, " parameters"]


class Prior(NamedTuple):
    """A prior of the scales: each is normal about its mean, in logs."""

    mean: Scales
    deviation: Scales


def positions(parameters: Mapping[str, np.ndarray]) -> Float[np.ndarray, "n varying"]:
    """Put each parameter that varies on 0 to 1: by its log where it is above 0, else by its rank."""
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
    """Return the prior where times are expected to lie `missed` from the model, as a log."""
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
    posterior: Posterior

    def __call__(self, points: Points) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Predict mean and standard deviation of log t - log f of other configurations, without noise."""
        return _predict(self, points)

    def joint(self, points: Points) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
        """Predict mean and covariance of log t - log f of other configurations, without noise."""
        return _joint(self, points)

    def left_out(self) -> Float[np.ndarray, " measured"]:
        """Return how many standard deviations each measurement is above what the others say."""
        with in_64_bits():
            above, variance = self.posterior.left_out(jnp)
            return np.asarray(above / jnp.sqrt(variance))[np.asarray(self.there)]

    def left_out_errors(self, off: Float[np.ndarray, " m"]) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each measurement is above what the others say, and the deviation of that: [m].

        `off` is what the surrogate was made of; what is so slow that it counts as less is as slow as it is.
        """
        above, variance = self.posterior.left_out(jnp)
        there = np.asarray(self.there)
        return np.asarray(above)[there] + off - _held(off)[0], np.sqrt(np.asarray(variance))[there]

    def gpu_parameters(self) -> Float[Array, " gpu"]:
        """Return the mean of θ, in prior standard deviations."""
        return jnp.asarray(self.seen.slopes).T @ self.posterior.weights


def fitted(prior: Prior, start: Scales, seen: Points, off: Float[np.ndarray, " m"]) -> Surrogate:
    """Condition on measurements whose logs are `off` the model's, with scales sought from `start`."""
    points, centred, there, mean = _padded(seen, off)
    return _conditioned(_scales(prior, start, points, centred, there), points, centred, there, mean)


def conditioned(scales: Scales, seen: Points, off: Float[np.ndarray, " m"]) -> Surrogate:
    """Condition as `fitted` does, with scales that are known."""
    return _conditioned(scales, *_padded(seen, off))


def _padded(seen: Points, off: np.ndarray) -> tuple[Points, Array, Array, Array]:
    """Pad measurements with rows up to one of few numbers; return also which of them are there."""
    count = len(off)
    room = max(FEWEST, 1 << (count - 1).bit_length())
    filled = np.minimum(np.arange(room), count - 1)
    there = np.arange(room) < count
    points = Points(*(jnp.asarray(np.where(there[:, None], np.asarray(x)[filled], 0.0)) for x in seen))
    off, mean = _held(off)
    return (
        points,
        jnp.asarray(np.where(there, off[filled] - mean, 0.0)),
        jnp.asarray(there),
        jnp.asarray(mean),
    )


def _held(off: np.ndarray) -> tuple[np.ndarray, float]:
    """Hold what is slower than SLOW says to just that; return also the median."""
    median = float(np.median(off))
    return np.minimum(off, median + max(SLOW, 3 * 1.4826 * np.median(np.abs(off - median)))), median


@eqx.filter_jit
def _scales(prior: Prior, start: Scales, seen: Points, off: Array, there: Bool[Array, " m"]) -> Scales:
    """Find the most probable scales."""

    def cost(scales: Scales, _: None) -> Array:
        posterior = _posterior(scales, seen, off, there)
        unlikely = unlikeliness(posterior.whitened @ posterior.whitened, posterior.cholesky, jnp)
        away = jax.tree.map(lambda x, m, s: jnp.sum(((x - m) / s) ** 2), scales, *prior)
        return unlikely + 0.5 * sum(jax.tree.leaves(away))

    solver = optimistix.BFGS(rtol=1e-3, atol=1e-3)
    return optimistix.minimise(cost, solver, start, max_steps=STEPS, throw=False).value


@eqx.filter_jit
def _conditioned(scales: Scales, seen: Points, off: Array, there: Array, mean: Array) -> Surrogate:
    return Surrogate(scales, seen, there, mean, _posterior(scales, seen, off, there))


@eqx.filter_jit
def _predict(surrogate: Surrogate, points: Points) -> tuple[Array, Array]:
    mean, explained = _explained(surrogate, points)
    variance = _variance(surrogate.scales, points) - jnp.sum(explained**2, axis=0)
    return mean, jnp.sqrt(jnp.maximum(variance, 1e-12))


@eqx.filter_jit
def _joint(surrogate: Surrogate, points: Points) -> tuple[Array, Array]:
    mean, explained = _explained(surrogate, points)
    return mean, _covariance(surrogate.scales, points, points) - explained.T @ explained


def _explained(surrogate: Surrogate, points: Points) -> tuple[Array, Array]:
    """Return the mean, and what measurements take of the covariance: its factor, [m, n]."""
    across = _covariance(surrogate.scales, surrogate.seen, points)
    across = jnp.where(surrogate.there[:, None], across, 0.0)
    mean, explained = surrogate.posterior.explained(across)
    return surrogate.mean + mean, explained


def _posterior(scales: Scales, seen: Points, off: Array, there: Array) -> Posterior:
    """Condition on what the measurements are off; the padding is independent of all."""
    covariance = jnp.where(there[:, None] & there[None, :], _covariance(scales, seen, seen), 0.0)
    noise = jnp.diag(jnp.where(there, jnp.exp(2 * scales.noise), 1.0))
    return Posterior.of(covariance + noise, off, jnp)


def _smooth(scales: Scales) -> Smooth:
    return Smooth(jnp.exp(2 * scales.joint), jnp.exp(2 * scales.single), jnp.exp(-2 * scales.lengths))


def _covariance(scales: Scales, a: Points, b: Points) -> Array:
    return OFFSET**2 + _smooth(scales).covariance(a.position, b.position, jnp) + a.slopes @ b.slopes.T


def _variance(scales: Scales, points: Points) -> Array:
    return OFFSET**2 + _smooth(scales).variance + jnp.sum(jnp.square(points.slopes), axis=-1)

"""Samples of a density about its mode, for densities with kinks, where Laplace's normal fails.

A model with the maximum of two times has a kink where they are equal, and modes are often there: the
curvature is unrelated to the width of the density. Hence the samples are from an ensemble of walkers, whose
moves are stretches along the lines between them, independent of axes and scales.

Source: Goodman & Weare 2010, Eqs. 7 and 9 (a = 2), in two halves as Foreman-Mackey et al. 2013 do.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

STRETCH = 2.0  # a


def sampled(
    log_density: Callable[[Array], Array],
    walkers: Float[Array, "walkers parameters"],
    steps: int,
    key: Array,
) -> Float[Array, "samples parameters"]:
    """Return the positions of an even number of walkers, in the second half of this number of steps."""
    half = len(walkers) // 2
    density = jax.vmap(log_density)

    def step(
        halves: tuple[tuple[Array, Array], ...], key: Array
    ) -> tuple[tuple[tuple[Array, Array], ...], Array]:
        """Move one half along the lines to walkers of the other, whose turn is next."""
        (at, now), (others, _) = halves
        first, second, third = jax.random.split(key, 3)
        z = (1 + (STRETCH - 1) * jax.random.uniform(first, (half,), at.dtype)) ** 2 / STRETCH  # Eq. 9
        partner = others[jax.random.randint(second, (half,), 0, half)]
        to = partner + z[:, None] * (at - partner)  # Eq. 7
        then = density(to)
        odds = (at.shape[1] - 1) * jnp.log(z) + then - now
        taken = jnp.log(jax.random.uniform(third, (half,), at.dtype)) < odds
        at, now = jnp.where(taken[:, None], to, at), jnp.where(taken, then, now)
        return (halves[1], (at, now)), at

    walkers = walkers[: 2 * half]
    left, right = zip(jnp.split(walkers, 2), jnp.split(density(walkers), 2), strict=True)
    keys = jax.vmap(jax.random.split)(jax.random.split(key, steps)).ravel()
    _, visited = jax.lax.scan(step, (left, right), keys)
    return visited[steps // 2 * 2 :].reshape(-1, walkers.shape[1])

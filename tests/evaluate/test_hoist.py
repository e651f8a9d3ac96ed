"""Functions cut in two, against the same functions whole."""

import jax
import jax.numpy as jnp
import numpy as np

from dse.evaluate.hoist import split

ROWS, COLUMNS = 5, 7


def arguments():
    random = np.random.default_rng(1)
    return jnp.asarray(random.uniform(1, 2, (ROWS, 1))), jnp.asarray(random.uniform(1, 2, (1, COLUMNS)))


def function(row, column):
    jnp.exp(row * column)  # of no use
    scale = jnp.where(row > 1.5, jnp.zeros_like(row), jnp.sqrt(row))  # a constant feeds what rows decide
    wide = jnp.broadcast_to(scale, (ROWS, COLUMNS))
    return [
        wide * jnp.log(column) + jax.nn.relu(column - row),
        jnp.sum(wide * column, axis=1, keepdims=True),
        scale,
    ]


def test_both_parts_together_are_the_whole_also_in_batches():
    values = arguments()
    once, item = split(function, *values)
    both = [jnp.stack([x, 2 * x]) for x in values]
    handed = jax.vmap(once)(*both)
    for i in range(2):
        actual, expected = item(*(x[i] for x in handed)), function(*(x[i] for x in both))
        for mine, other in zip(actual, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-14)
    assert {x[0].size for x in handed} == {ROWS, COLUMNS}
    assert len(handed) == 4  # the rows, their scale, the columns and their logarithm
    once, item = split(lambda x: [jnp.ones((3, 3)), x], jnp.zeros((3, 1)))
    assert [x.shape for x in item(*once(jnp.zeros((3, 1))))] == [(3, 3), (3, 1)]

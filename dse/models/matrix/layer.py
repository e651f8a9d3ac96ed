"""The launches of a layer of experts besides its products: routing, alignment, activation, sums, conversions.

Each is a short launch, bound by launch overhead or by its bytes.
Source: the launches of SGLang 0.5.10's fused_experts (Apache-2.0).
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import Machine
from dse.models.matrix.problem import Product

LAUNCHES = 8.0  # softmax and top-k, alignment (3), activation, sum over a token's experts (2), a copy
CONVERSIONS = 2.0  # of activations to eight bits, before each product
HALF = 2.0  # B of an element of input and output


class Rest(eqx.Module):
    """Launches of layers besides their products, as arrays. **Shapes:** [layers]."""

    launches: Float[Array, "*#batch"]
    moved: Float[Array, "*#batch"]  # bytes

    @staticmethod
    def of(layers: Sequence[tuple[Product, ...]]) -> "Rest":
        """Derive the launches of layers from their two products."""
        up, down = ([layer[place] for layer in layers] for place in (0, 1))
        converts = np.array([float(not product.halves) for product in up])
        tokens, rows = (
            np.array([getattr(product, name) for product in up], float) for name in ("tokens", "rows")
        )
        hidden, inner = (np.array([product.depth for product in launch], float) for launch in (up, down))
        activated = rows * 3.0 * inner * HALF  # gate and up read, their product written
        summed = (rows + tokens) * hidden * HALF
        converted = (HALF + 1.0) * (tokens * hidden + rows * inner)
        return Rest(
            launches=jnp.asarray(LAUNCHES + CONVERSIONS * converts, jnp.float32),
            moved=jnp.asarray(activated + summed + converts * converted, jnp.float32),
        )

    def seconds(self, machine: Machine, constants: Constants) -> Float[Array, "*#batch"]:
        """Return the sum of their times in s."""
        bandwidth = machine.dram_bandwidth * constants.stream
        return self.launches * constants.small / machine.clock + self.moved / bandwidth

"""The launches of a layer of experts besides its products: routing, alignment, activation, sums, conversions.

Each is a short launch, bound by launch overhead or by its bytes, which it reads from L2, or from DRAM where
the output of the launch before does not fit in L2.
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
    moved: tuple[Float[Array, "*#batch"], ...]  # bytes of each launch that has many

    @staticmethod
    def of(layers: Sequence[tuple[Product, ...]]) -> "Rest":
        """Derive the launches of layers from their two products."""
        up, down = ([layer[place] for layer in layers] for place in (0, 1))
        converts = np.array([float(not product.halves) for product in up])
        tokens, rows = (
            np.array([getattr(product, name) for product in up], float) for name in ("tokens", "rows")
        )
        hidden, inner = (np.array([product.depth for product in launch], float) for launch in (up, down))
        moved = (
            rows * 3.0 * inner * HALF,  # activation: gate and up read, their product written
            (rows + tokens) * hidden * HALF,  # sum
            converts * tokens * hidden * (HALF + 1.0),
            converts * rows * inner * (HALF + 1.0),
        )
        return Rest(
            launches=jnp.asarray(LAUNCHES + CONVERSIONS * converts, jnp.float32),
            moved=tuple(jnp.asarray(size, jnp.float32) for size in moved),
        )

    def seconds(self, machine: Machine, constants: Constants) -> Float[Array, "*#batch"]:
        """Return the sum of their times in s."""
        l2_bandwidth = machine.l2_bandwidth * machine.sms * machine.clock
        time = self.launches * constants.small / machine.clock
        for size in self.moved:
            kept = jnp.minimum(size, machine.kept_bytes)
            at_peak = kept / l2_bandwidth + (size - kept) / machine.dram_bandwidth
            time = time + at_peak / constants.stream
        return time

"""Matrix products as arrays, and how they are timed: the input of `dse.models.matrix.time`."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.models.matrix.machine import RATES
from dse.models.matrix.problem import OPERANDS, Product, active_experts, launched_row_tiles, row_tiles


class Timing(eqx.Module):
    """How a launch is timed: back to back with others, or between two events after a flush of L2."""

    events: float  # 1 if timed between events around a launch
    flushed: float  # 1 if L2 holds none of the operands


BACK_TO_BACK = Timing(0.0, 0.0)
BETWEEN_EVENTS = Timing(1.0, 1.0)


class Case(eqx.Module):
    """Products as arrays. **Shapes:** [products, 1]; tiles [products, configurations]."""

    rows: Float[Array, "*#batch"]
    columns: Float[Array, "*#batch"]
    depth: Float[Array, "*#batch"]
    active: Float[Array, "*#batch"]  # experts
    weights: Float[Array, "*#batch"]  # bytes, of active experts
    activations: Float[Array, "*#batch"]  # bytes, each row once
    beside: Float[Array, "*#batch"]  # bytes read by other launches in between
    row_tiles: Float[Array, "*#batch"]
    launched: Float[Array, "*#batch"]  # row tiles of the grid
    activation_bytes: Float[Array, "*#batch"]
    weight_bytes: Float[Array, "*#batch"]
    result_bytes: Float[Array, "*#batch"]
    activation_by_depth: Float[Array, "*#batch"]  # 1 if the depth is contiguous
    weight_by_depth: Float[Array, "*#batch"]
    activation_copy: Float[Array, "*#batch"]  # bytes of a thread's copy
    weight_copy: Float[Array, "*#batch"]
    runs_at: dict[str, Float[Array, "*#batch"]]  # 1 for its rate, else 0
    in_shared: Float[Array, "*#batch"]  # 1 if weights are in shared memory
    converts: Float[Array, "*#batch"]
    scaled: Float[Array, "*#batch"]
    apart: Float[Array, "*#batch"]

    @staticmethod
    def of(products: Sequence[Product], heights: np.ndarray) -> "Case":
        """Convert products to arrays; `heights` is BLOCK_SIZE_M of each configuration."""
        distinct, place = np.unique(heights, return_inverse=True)
        distinct = distinct.tolist()
        kinds = [OPERANDS[product.operands] for product in products]
        active = active_experts(products)

        def column(values: Sequence) -> Array:
            return jnp.asarray(np.array([float(value) for value in values], np.float32)[:, None])

        weights = [
            n * product.columns * product.depth for n, product in zip(active.tolist(), products, strict=True)
        ]
        read = [
            (product.tokens if product.shared_rows else product.rows) * product.depth for product in products
        ]
        copies = np.array([product.copy_bytes for product in products])
        return Case(
            rows=column([product.rows for product in products]),
            columns=column([product.columns for product in products]),
            depth=column([product.depth for product in products]),
            active=column(list(active)),
            weights=column([n * kind.weight_bytes for n, kind in zip(weights, kinds, strict=True)]),
            activations=column([n * kind.activation_bytes for n, kind in zip(read, kinds, strict=True)]),
            beside=column(
                [
                    n * kind.weight_bytes * product.beside
                    for n, kind, product in zip(weights, kinds, products, strict=True)
                ]
            ),
            row_tiles=jnp.asarray(row_tiles(products, distinct)[:, place].astype(np.float32)),
            launched=jnp.asarray(launched_row_tiles(products, distinct)[:, place].astype(np.float32)),
            activation_bytes=column([kind.activation_bytes for kind in kinds]),
            weight_bytes=column([kind.weight_bytes for kind in kinds]),
            result_bytes=column([kind.result_bytes for kind in kinds]),
            activation_by_depth=column([product.by_depth[0] for product in products]),
            weight_by_depth=column([product.by_depth[1] for product in products]),
            activation_copy=column(copies[:, 0].tolist()),
            weight_copy=column(copies[:, 1].tolist()),
            runs_at={name: column([kind.rate == name for kind in kinds]) for name in RATES},
            in_shared=column([not product.shuffled for product in products]),
            converts=column([kind.converts for kind in kinds]),
            scaled=column([kind.scaled_by_block for kind in kinds]),
            apart=column([kind.sums_apart for kind in kinds]),
        )

"""Products of matrices as arrays, and how their times are taken: what `dse.models.matrix.time` reads."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dse.models.matrix.machine import RATES
from dse.models.matrix.problem import OPERANDS, Product, active_experts, launched_row_tiles, row_tiles


class Timing(eqx.Module):
    """What a time is: launches back to back, or one between two events, after L2 was emptied."""

    events: float  # 1 where events around a launch see it begin and end
    flushed: float  # 1 where nothing of the operands is in L2


BACK_TO_BACK = Timing(0.0, 0.0)
BETWEEN_EVENTS = Timing(1.0, 1.0)


class Case(eqx.Module):
    """Products as arrays. **Shapes:** [products, 1], but for tiles: [products, configurations]."""

    rows: Float[Array, "*#batch"]
    columns: Float[Array, "*#batch"]
    depth: Float[Array, "*#batch"]
    active: Float[Array, "*#batch"]  # experts
    weights: Float[Array, "*#batch"]  # bytes, of active experts
    activations: Float[Array, "*#batch"]  # bytes, each row once
    beside: Float[Array, "*#batch"]  # bytes that other launches read in between
    row_tiles: Float[Array, "*#batch"]
    launched: Float[Array, "*#batch"]  # row tiles of the grid
    activation_bytes: Float[Array, "*#batch"]
    weight_bytes: Float[Array, "*#batch"]
    result_bytes: Float[Array, "*#batch"]
    activation_by_depth: Float[Array, "*#batch"]  # 1 where the depth is next in memory
    weight_by_depth: Float[Array, "*#batch"]
    activation_copy: Float[Array, "*#batch"]  # bytes that a thread copies at a time
    weight_copy: Float[Array, "*#batch"]
    runs_at: dict[str, Float[Array, "*#batch"]]  # 1 for the rate that it runs at, else 0
    in_shared: Float[Array, "*#batch"]  # 1 where weights go through shared memory
    converts: Float[Array, "*#batch"]
    scaled: Float[Array, "*#batch"]
    apart: Float[Array, "*#batch"]

    @staticmethod
    def of(products: Sequence[Product], heights: np.ndarray) -> "Case":
        """Products as arrays; `heights` is BLOCK_SIZE_M of each configuration."""
        distinct, place = np.unique(heights, return_inverse=True)
        distinct = distinct.tolist()
        kinds = [OPERANDS[product.operands] for product in products]
        active = active_experts(products)

        def column(values: Sequence) -> Array:
            return jnp.asarray(np.array([float(value) for value in values])[:, None], jnp.float32)

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
            row_tiles=jnp.asarray(row_tiles(products, distinct)[:, place], jnp.float32),
            launched=jnp.asarray(launched_row_tiles(products, distinct)[:, place], jnp.float32),
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

    @staticmethod
    def pairs(
        products: Sequence[Product], which: Int[np.ndarray, " pairs"], heights: Int[np.ndarray, " pairs"]
    ) -> "Case":
        """One product for each configuration, by its place in `products`. **Shapes:** [pairs]."""
        distinct, place = np.unique(heights, return_inverse=True)
        table = Case.of(products, distinct)
        return jax.tree.map(lambda field: field[which, place if field.shape[1] > 1 else 0], table)

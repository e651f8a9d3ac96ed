"""What NVIDIA's library takes for a dense product, in closed form: whether another kernel can win at all.

Its arithmetic and DRAM overlap, each at a share of its rate, as the library picks tiles and splits sums well.
It multiplies operands that no 16-byte copy fits more slowly. A launch of its own makes weights of eight bits
16-bit ones first.

Source: fitted to times of cuBLAS (August 2024, between two events, L2 emptied) of 7,196 products on an A100,
AlnisM/autoheuristic-datasets; the mean error there is 3 % for mixed products, 5 and 10 % for others.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.models.matrix.machine import Machine
from dse.models.matrix.problem import OPERANDS, Product

TENSOR, SCALAR, DRAM, CONVERT = 0.73, 0.92, 0.67, 0.35  # shares of rates
OVERLAP = 2.7  # exponent
LAUNCH, CONVERSION = 12.8e-6, 2.1e-6  # s
NARROW = 0.14  # more time for each halving of the widest copy
TILE = 32.0  # rows and columns are padded to
WIDEST = 16.0  # B of a copy
CONVERTED = 3.0  # B moved to convert a weight


def library_seconds(machine: Machine, products: Sequence[Product]) -> Float[Array, "gpus products"]:
    """Predict the library's times, in s, of dense products; NaN where it has none: experts, block scales."""
    kinds = [OPERANDS[product.operands] for product in products]

    pairs = list(zip(products, kinds, strict=True))

    def row(values: Sequence) -> Float[Array, "1 products"]:
        return jnp.asarray(np.array([[float(value) for value in values]]), jnp.float32)

    def column(values: Array) -> Float[Array, "gpus 1"]:
        return values[:, None]

    rows, columns, depth = (
        row([getattr(product, n) for product in products]) for n in ("rows", "columns", "depth")
    )
    a, result = (row([getattr(kind, n) for kind in kinds]) for n in ("activation_bytes", "result_bytes"))
    converts = row([kind.converts for kind in kinds])
    copy = row(
        [
            product.copy_bytes[0] if OPERANDS[product.operands].converts else min(product.copy_bytes)
            for product in products
        ]
    )
    scalar = row([kind.rate == "fp32" for kind in kinds])
    dense = row([product.experts == 1 and not kind.sums_apart for product, kind in pairs])
    cycles = jnp.stack([machine.mma[kind.rate] for kind in kinds], axis=1)  # of a multiply-add

    padded = jnp.ceil(rows / TILE) * jnp.ceil(columns / TILE) * TILE**2
    slower = 1.0 + NARROW * jnp.log2(WIDEST / copy)
    share = jnp.where(scalar > 0.0, SCALAR, TENSOR)
    arithmetic = padded * depth * slower / share * cycles / column(machine.sms * machine.clock)
    moved = (rows * depth + columns * depth) * a + rows * columns * result
    memory = moved / column(machine.dram_bandwidth * DRAM)
    converting = CONVERTED * columns * depth / column(machine.dram_bandwidth * CONVERT) + CONVERSION
    time = LAUNCH + (arithmetic**OVERLAP + memory**OVERLAP) ** (1.0 / OVERLAP) + converts * converting
    return jnp.where(dense > 0.0, time, jnp.nan)

"""Closed-form time of the vendor's library for a dense product: shows whether another kernel can be faster.

Arithmetic and DRAM overlap, each at a share of its rate, since the library selects tiles and splits sums
well. Operands unsuited to 16-byte copies are slower. A separate launch converts 8-bit weights to 16 bits
first.

Source: fitted to times of cuBLAS (August 2024, between two events, L2 emptied) of 7,196 products on an A100,
AlnisM/autoheuristic-datasets; the mean error there is 3 % for mixed products, 5 and 10 % for others. AMD's:
to the best of its libraries on MI300X and MI308X, ROCm/aiter e404860 (MIT), 26,081 products; the mean error
is 6 % for block-scaled products on MI300X, as nearly all are, and 17 to 22 % for others.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dse.models.matrix.machine import Machine
from dse.models.matrix.problem import OPERANDS, Product

# NVIDIA's, AMD's
TENSOR, DRAM = (0.73, 0.87), (0.67, 0.64)  # shares of rates
OVERLAP, LAUNCH = (2.7, 1.0), (12.8e-6, 6.8e-6)  # exponent; s
TILE = (32.0, 16.0)  # padding of rows and columns
BLOCKS = 0.62  # AMD's share of the tensor rate with scales per block
SCALAR, CONVERT = 0.92, 0.35  # shares
CONVERSION = 2.1e-6  # s
NARROW = 0.14  # additional time per halving of the widest copy
WIDEST = 16.0  # B of a copy
CONVERTED = 3.0  # B moved per converted weight


def library_seconds(machine: Machine, products: Sequence[Product]) -> Float[Array, "gpus products"]:
    """Predict the library's times of dense products in s; NaN if unknown: experts, separate sums.

    AMD's also has products with scales per block.
    """
    kinds = [OPERANDS[product.operands] for product in products]

    pairs = list(zip(products, kinds, strict=True))

    def row(values: Sequence) -> Float[Array, "1 products"]:
        return jnp.asarray(np.array([[float(value) for value in values]], np.float32))

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
    scaled = row([kind.scaled_by_block for kind in kinds])
    amd = column(machine.amd) > 0.0
    whole = row([product.experts == 1 and not kind.sums_apart for product, kind in pairs])
    dense = jnp.maximum(
        whole, jnp.where(amd, scaled * row([product.experts == 1 for product in products]), 0.0)
    )
    cycles = jnp.stack([machine.mma[kind.rate] for kind in kinds], axis=1)  # of a multiply-add

    tensor, dram, overlap, launch, tile = (
        jnp.where(amd, own, nvidia) for nvidia, own in (TENSOR, DRAM, OVERLAP, LAUNCH, TILE)
    )
    padded = jnp.ceil(rows / tile) * jnp.ceil(columns / tile) * tile**2
    slower = 1.0 + NARROW * jnp.log2(WIDEST / copy)
    tensor = jnp.where(scaled > 0.0, BLOCKS, tensor) / column(machine.sustained)
    share = jnp.where(scalar > 0.0, SCALAR, tensor)
    arithmetic = padded * depth * slower / share * cycles / column(machine.sms * machine.clock)
    moved = (rows * depth + columns * depth) * a + rows * columns * result
    memory = moved / (column(machine.dram_bandwidth) * dram)
    converting = CONVERTED * columns * depth / column(machine.dram_bandwidth * CONVERT) + CONVERSION
    time = launch + (arithmetic**overlap + memory**overlap) ** (1.0 / overlap) + converts * converting
    return jnp.where(dense > 0.0, time, jnp.nan)

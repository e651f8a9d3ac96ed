"""Products of matrices as a caller knows them: sizes, experts, operands, and the tiles to expect of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import binom

from dse.errors import DseError

MOST = 2**31 - 1  # of a size: kernels count in 32 bits
ROUTINGS = ("random", "even", "batch")
SCALE_DEPTH = 128  # of a block of scales: kernels cut deeper tiles to it


@dataclass(frozen=True)
class Operands:
    """What a kernel multiplies: bytes of an element, the tensor pipe's rate, and what scales cost."""

    activation_bytes: float
    weight_bytes: float
    rate: str  # field of PerClass: cycles of a multiply-add
    converts: bool = False  # weights are converted in registers
    scaled_by_block: bool = False  # sums are scaled after each block of the depth
    sums_apart: bool = False  # sums of a pass leave the tensor cores before they are added up


OPERANDS = {
    "bf16": Operands(2, 2, "mma_fp16"),
    "fp16": Operands(2, 2, "mma_fp16"),
    "fp8_w8a8": Operands(1, 1, "mma_fp8"),
    "fp8_w8a8_block": Operands(1, 1, "mma_fp8", scaled_by_block=True, sums_apart=True),
    "int8_w8a8": Operands(1, 1, "mma_int8", sums_apart=True),
    "int8_w8a8_block": Operands(1, 1, "mma_int8", scaled_by_block=True, sums_apart=True),
    "int8_w8a16": Operands(2, 1, "mma_fp16", converts=True),
}


@dataclass(frozen=True)
class Product:
    """One launch: `tokens` × `depth` times `depth` × `columns`, each token with `topk` of `experts` matrices.

    `routing` says how tokens meet experts: "random" draws them, as vLLM's and SGLang's tuners do; "even"
    hands them out in turn; "batch" does so too, in a grid that holds no blocks without rows: products side by
    side, `experts` of them. `shared_rows`: each row of activations is read for all of a token's experts, as
    by the first product of a layer of experts; the second has a row for each.
    """

    tokens: int
    columns: int
    depth: int
    experts: int = 1
    topk: int = 1
    operands: str = "bf16"
    routing: str = "random"  # or another of ROUTINGS
    shared_rows: bool = True

    def __post_init__(self) -> None:
        for name in ("tokens", "columns", "depth", "experts", "topk"):
            if not 1 <= getattr(self, name) <= MOST:
                raise DseError(
                    f"product: {name}: found {getattr(self, name)!r}, expected a number from 1 to {MOST:,}"
                )
        if self.operands not in OPERANDS:
            allowed = ", ".join(OPERANDS)
            raise DseError(f"product: operands: found {self.operands!r}, expected one of {allowed}")
        if self.routing not in ROUTINGS:
            raise DseError(f"product: routing: found {self.routing!r}, expected {' or '.join(ROUTINGS)}")

    @property
    def chosen(self) -> int:
        """Experts of a token: no more than there are."""
        return min(self.topk, self.experts)

    @property
    def rows(self) -> int:
        """Rows of the result: one for each token and expert of its."""
        return self.tokens * self.chosen


def experts_layer(
    tokens: int,
    experts: int,
    topk: int,
    hidden: int,
    intermediate: int,
    operands: str = "bf16",
    routing: str = "random",
) -> tuple[Product, Product]:
    """The two products of a layer of experts: w13 (gate and up side by side), then w2."""
    return (
        Product(tokens, 2 * intermediate, hidden, experts, topk, operands, routing),
        Product(tokens, hidden, intermediate, experts, topk, operands, routing, shared_rows=False),
    )


def active_experts(products: Sequence[Product]) -> Float[np.ndarray, " products"]:
    """The expected number of experts with at least one row."""
    return np.array(
        [
            min(one.experts, one.rows)
            if one.routing != "random"
            else one.experts * -np.expm1(one.tokens * np.log1p(-one.chosen / one.experts))
            if one.chosen < one.experts
            else one.experts
            for one in products
        ],
        float,
    )


def row_tiles(products: Sequence[Product], heights: Sequence[int]) -> Float[np.ndarray, "products heights"]:
    """The expected number of tiles over all experts' rows, Σ E[⌈rows / height⌉].

    At random, the rows of an expert are binomial: E[⌈X / h⌉] = Σ P(X > j h), j = 0, 1, ...
    """
    table = np.empty((len(products), len(heights)))
    known: dict[tuple, np.ndarray] = {}
    for place, one in enumerate(products):
        key = (one.tokens, one.experts, one.chosen, one.routing)
        if key not in known:
            known[key] = np.array([_tiles(one, height) for height in heights])
        table[place] = known[key]
    return table


def launched_row_tiles(
    products: Sequence[Product], heights: Sequence[int]
) -> Float[np.ndarray, "products heights"]:
    """Tiles over rows that the grid holds: it is launched before the padding of each expert is known.

    Source: vLLM 0.33.0, moe_align_block_size and invoke_fused_moe_kernel (Apache-2.0).
    """
    table = np.empty((len(products), len(heights)))
    for place, one in enumerate(products):
        if one.routing == "batch":
            table[place] = [_tiles(one, height) for height in heights]
            continue
        for column, height in enumerate(heights):
            most = one.rows + one.experts * (height - 1)
            if one.tokens < height:
                most = min(most, one.rows * height)
            table[place, column] = -(-(most if one.experts > 1 else one.rows) // height)
    return table


def _tiles(one: Product, height: int) -> float:
    if one.routing != "random":
        active = min(one.experts, one.rows)
        each, more = divmod(one.rows, active)
        return more * -(-(each + 1) // height) + (active - more) * -(-each // height)
    if one.chosen == one.experts:
        return one.experts * -(-one.tokens // height)
    share = one.chosen / one.experts
    mean, deviation = one.tokens * share, np.sqrt(one.tokens * share * (1.0 - share))
    full = int(max(mean - 8.0 * deviation, 0.0) // height)  # tiles that are there but for one in 10^15
    beyond = np.arange(full * height, min(one.tokens, mean + 8.0 * deviation + height), height)
    return one.experts * float(full + binom.sf(beyond, one.tokens, share).sum())

"""Products of matrices as a caller knows them: sizes, experts, operands, and the tiles to expect of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import binom

from dse.errors import DseError

MOST = 2**31 - 1  # of a size: kernels count in 32 bits
ROUTINGS = ("random", "even", "batch", "skewed")
SCALE_DEPTH = 128  # of a block of scales: kernels cut deeper tiles to it


@dataclass(frozen=True)
class Operands:
    """What a kernel multiplies: bytes of an element, the tensor pipe's rate, and what scales cost."""

    activation_bytes: float
    weight_bytes: float
    rate: str  # field of PerClass: cycles of a multiply-add
    result_bytes: float = 2
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
    "tf32": Operands(4, 4, "mma_tf32", result_bytes=4),
    "fp32": Operands(4, 4, "fp32", result_bytes=4),
}


@dataclass(frozen=True)
class Product:
    """One launch: `tokens` × `depth` times `depth` × `columns`, each token with `topk` of `experts` matrices.

    `routing` says how tokens meet experts: "random" draws them, as vLLM's and SGLang's tuners do; "even"
    hands them out in turn; "batch" does so too, in a grid that holds no blocks without rows: products side by
    side, `experts` of them; "skewed" loads experts by a power law of exponent `skew`. `shared_rows`: each row
    of activations is read for all of a token's experts, as by the first product of a layer of experts; the
    second has a row for each.

    `layouts` of activations and weights: "row" where the second index is next in memory, "column" where the
    first is. `strides`: elements from one row (or column) to the next where there are gaps. `constant`: sizes
    are constants of the compiler, not arguments. `beside`: bytes of weights that other launches read between
    two of this one, relative to its own, as both products of a layer of experts do in turn. `shuffled`:
    weights were laid out for the kernel beforehand, and go to registers straight, as AMD's libraries have it.
    """

    tokens: int
    columns: int
    depth: int
    experts: int = 1
    topk: int = 1
    operands: str = "bf16"
    routing: str = "random"  # or another of ROUTINGS
    skew: float = 1.2
    shared_rows: bool = True
    layouts: tuple[str, str] = ("row", "column")
    strides: tuple[int | None, int | None] = (None, None)
    constant: bool = False
    beside: float = 0.0
    shuffled: bool = False

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
            raise DseError(f"product: routing: found {self.routing!r}, expected {', '.join(ROUTINGS)}")
        if not 1.0 < self.skew < math.inf:
            raise DseError(f"product: skew: found {self.skew!r}, expected a number above 1")

    @property
    def chosen(self) -> int:
        """Experts of a token: no more than there are."""
        return min(self.topk, self.experts)

    @property
    def halves(self) -> bool:
        """Whether activations are 16-bit numbers, as layers hand them on."""
        return OPERANDS[self.operands].activation_bytes == 2

    @property
    def by_depth(self) -> tuple[bool, bool]:
        """Whether the depth is next in memory, of activations and weights; of one column the rows are."""

        def by_depth(stated: bool, side: int, stride: int | None) -> bool:
            single = stride in (None, 1) and 1 in (side, self.depth) and side != self.depth
            return self.depth > 1 if single else stated

        return (
            by_depth(self.layouts[0] == "row", self.tokens, self.strides[0]),
            by_depth(self.layouts[1] == "column", self.columns, self.strides[1]),
        )

    @property
    def copy_bytes(self) -> tuple[int, int]:
        """Bytes that a thread copies at a time of activations and weights: 16 where alignment lets it.

        Triton knows of an argument whether 16 divides it, of a constant all. **Source:** Triton's AxisInfo.
        """
        kind = OPERANDS[self.operands]
        sizes = (kind.activation_bytes, kind.weight_bytes)
        sides = zip(self.by_depth, (self.tokens, self.columns), strict=True)
        next_to = [self.depth if by_depth else side for by_depth, side in sides]
        copies = []
        for size, length, stride in zip(sizes, next_to, self.strides, strict=True):
            divides = math.gcd(length, stride or length, 16)
            elements = divides if self.constant or divides == 16 else 1
            copies.append(int(min(16, elements * size)))
        return copies[0], copies[1]

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
    skew: float = 1.2,
) -> tuple[Product, Product]:
    """The two products of a layer of experts: w13 (gate and up side by side), then w2."""
    return (
        Product(tokens, 2 * intermediate, hidden, experts, topk, operands, routing, skew, beside=0.5),
        Product(tokens, hidden, intermediate, experts, topk, operands, routing, skew, False, beside=2.0),
    )


def active_experts(products: Sequence[Product]) -> Float[np.ndarray, " products"]:
    """The expected number of experts with at least one row."""
    return np.array(
        [
            np.count_nonzero(_loads(product))
            if product.routing != "random"
            else product.experts * -np.expm1(product.tokens * np.log1p(-product.chosen / product.experts))
            if product.chosen < product.experts
            else product.experts
            for product in products
        ],
        float,
    )


def row_tiles(products: Sequence[Product], heights: Sequence[float]) -> Float[np.ndarray, "products heights"]:
    """The expected number of tiles over all experts' rows, Σ E[⌈rows / height⌉].

    At random, the rows of an expert are binomial: E[⌈X / h⌉] = Σ P(X > j h), j = 0, 1, ...
    """
    table = np.empty((len(products), len(heights)))
    known: dict[tuple, np.ndarray] = {}
    for place, product in enumerate(products):
        key = (product.tokens, product.experts, product.chosen, product.routing, product.skew)
        if key not in known:
            known[key] = np.array([_tiles(product, height) for height in heights])
        table[place] = known[key]
    return table


def launched_row_tiles(
    products: Sequence[Product], heights: Sequence[float]
) -> Float[np.ndarray, "products heights"]:
    """Tiles over rows that the grid holds: it is launched before the padding of each expert is known.

    Source: vLLM 0.33.0, moe_align_block_size and invoke_fused_moe_kernel (Apache-2.0).
    """
    table = np.empty((len(products), len(heights)))
    for place, product in enumerate(products):
        if product.routing == "batch":
            table[place] = [_tiles(product, height) for height in heights]
            continue
        for column, height in enumerate(heights):
            most = product.rows + product.experts * (height - 1)
            if product.tokens < height:
                most = min(most, product.rows * height)
            table[place, column] = -(-(most if product.experts > 1 else product.rows) // height)
    return table


def _loads(product: Product) -> Float[np.ndarray, " experts"]:
    """Rows of each expert, ascending, where they are not drawn.

    **Source:** of skewed ones, quantiles of the power law that aiconfigurator draws (ai-dynamo, Apache-2.0):
    from 1 to 0.8 of the tokens, or from 0.01 to 2 where there are no more rows than experts. A token that
    would meet an expert twice takes idle ones instead, the same for all tokens: as many as it has experts.
    """
    places = np.arange(product.experts)
    if product.routing != "skewed":
        return np.sort(product.rows // product.experts + (places < product.rows % product.experts)).astype(
            float
        )
    low, high = (1.0, max(0.8 * product.tokens, 1.0)) if product.rows > product.experts else (0.01, 2.0)
    power = 1.0 - product.skew
    drawn = (low**power + (high**power - low**power) * (places + 0.5) / product.experts) ** (1.0 / power)
    for _ in range(3):  # no expert has a token twice
        drawn = np.minimum(drawn * product.rows / drawn.sum(), product.tokens)
    rows = np.round(drawn)
    turns, more = divmod(int(product.rows - rows.sum()), product.experts)  # what rounding left, largest first
    rows = np.maximum(rows + turns + (places >= product.experts - more), 0.0)
    idle = np.flatnonzero(rows == 0.0)[::-1][
        : min(product.chosen, int(product.rows - np.count_nonzero(rows)))
    ]
    rows[idle] = 1.0
    return rows


def _tiles(product: Product, height: float) -> float:
    if product.routing != "random":
        return float(np.ceil(_loads(product) / height).sum())
    if product.chosen == product.experts:
        return product.experts * -(-product.tokens // height)
    share = product.chosen / product.experts
    mean, deviation = product.tokens * share, np.sqrt(product.tokens * share * (1.0 - share))
    full = int(max(mean - 8.0 * deviation, 0.0) // height)  # tiles that are there but for one in 10^15
    beyond = np.arange(full * height, min(product.tokens, mean + 8.0 * deviation + height), height)
    return product.experts * float(full + binom.sf(beyond, product.tokens, share).sum())

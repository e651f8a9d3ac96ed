"""Matrix products as the caller defines them: sizes, experts, operands, and their expected tiles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from dse.errors import DseError, check_names

MOST = 2**31 - 1  # of a size: kernels use 32-bit indices
ROUTINGS = ("random", "even", "batch", "skewed")
SCALE_DEPTH = 128  # of a block of scales: kernels reduce deeper tiles to it


@dataclass(frozen=True)
class Operands:
    """The operands of a kernel: bytes of an element, rate of the tensor pipe, and handling of scales."""

    activation_bytes: float
    weight_bytes: float
    rate: str  # field of PerClass: cycles of a multiply-add
    result_bytes: float = 2
    converts: bool = False  # weights are converted in registers
    scaled_by_block: bool = False  # sums are scaled after each block along the depth
    sums_apart: bool = False  # sums of a pass are added outside the tensor cores


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
    """One launch: `tokens` × `depth` times `depth` × `columns`, with `topk` of `experts` matrices per token.

    `routing` assigns tokens to experts: "random" draws, as vLLM's and SGLang's tuners do; "even" is
    round-robin; so is "batch", in a grid without empty blocks: a batch of `experts` products; "skewed" is a
    power law of exponent `skew`. `shared_rows`: all experts of a token read the same row of activations, as
    in the first product of a layer of experts; the second has a row for each.

    `layouts` of activations and weights: "row" if the second index is contiguous, "column" if the first is.
    `strides`: elements from one row (or column) to the next if there are gaps. `constant`: sizes are
    compile-time constants, not arguments. `beside`: bytes of weights that other launches read between two of
    this one, relative to its own, as for the alternating products of a layer of experts. `shuffled`: weights
    have the kernel's layout and are loaded directly into registers, as in AMD's libraries.
    """

    tokens: int
    columns: int
    depth: int
    experts: int = 1
    topk: int = 1
    operands: str = "bf16"
    routing: str = "random"  # one of ROUTINGS
    skew: float = 1.2
    shared_rows: bool = True
    layouts: tuple[str, str] = ("row", "column")
    strides: tuple[int | None, int | None] = (None, None)
    constant: bool = False
    beside: float = 0.0
    shuffled: bool = False

    def __post_init__(self) -> None:
        for name in ("tokens", "columns", "depth", "experts", "topk"):
            size = getattr(self, name)
            if not (isinstance(size, int | float | np.integer) and 1 <= size <= MOST and size % 1 == 0):
                raise DseError(f"product: {name}: found {size!r}, expected a whole number from 1 to {MOST:,}")
        check_names("product: operands", OPERANDS, self.operands)
        check_names("product: routing", ROUTINGS, self.routing)
        if not 1.0 < self.skew < math.inf:
            raise DseError(f"product: skew: found {self.skew!r}, expected a number above 1")

    @property
    def chosen(self) -> int:
        """Experts per token, at most `experts`."""
        return min(self.topk, self.experts)

    @property
    def halves(self) -> bool:
        """Whether activations are 16-bit numbers, as between layers."""
        return OPERANDS[self.operands].activation_bytes == 2

    @property
    def by_depth(self) -> tuple[bool, bool]:
        """Whether the depth is contiguous, of activations and weights; for one column the rows are."""

        def by_depth(stated: bool, side: int, stride: int | None) -> bool:
            single = stride in (None, 1) and 1 in (side, self.depth) and side != self.depth
            return self.depth > 1 if single else stated

        return (
            by_depth(self.layouts[0] == "row", self.tokens, self.strides[0]),
            by_depth(self.layouts[1] == "column", self.columns, self.strides[1]),
        )

    @property
    def copy_bytes(self) -> tuple[int, int]:
        """Bytes of a thread's copy of activations and weights: 16 if aligned.

        Triton knows if 16 divides an argument, and the value of a constant. **Source:** Triton's AxisInfo.
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
        """Rows of the result: one per token and chosen expert."""
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
    """Return the two products of a layer of experts: w13 (gate and up together), then w2."""
    return (
        Product(tokens, 2 * intermediate, hidden, experts, topk, operands, routing, skew, beside=0.5),
        Product(tokens, hidden, intermediate, experts, topk, operands, routing, skew, False, beside=2.0),
    )


def active_experts(products: Sequence[Product]) -> Float[np.ndarray, " products"]:
    """Return the expected number of experts with at least one row."""
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
    """Return the expected number of tiles over all experts' rows, Σ E[⌈rows / height⌉].

    With random routing, an expert's rows are binomial: E[⌈X / h⌉] = Σ P(X > j h), j = 0, 1, ...
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
    """Return the row tiles of the grid, which is launched before the padding of each expert is known.

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
    """Return the rows of each expert, ascending, for routing that is not random.

    **Source:** for "skewed", quantiles of the power law of aiconfigurator (ai-dynamo, Apache-2.0): from 1 to
    0.8 of the tokens, or from 0.01 to 2 if there are no more rows than experts. A token with an expert drawn
    twice takes idle experts instead, the same for all tokens: as many as it has experts.
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
    turns, more = divmod(int(product.rows - rows.sum()), product.experts)  # rounding remainder, largest first
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
    from scipy.stats import binom  # half a second

    share = product.chosen / product.experts
    mean, deviation = product.tokens * share, np.sqrt(product.tokens * share * (1.0 - share))
    full = int(max(mean - 8.0 * deviation, 0.0) // height)  # tiles present with probability 1 - 10^-15
    beyond = np.arange(full * height, min(product.tokens, mean + 8.0 * deviation + height), height)
    return product.experts * float(full + binom.sf(beyond, product.tokens, share).sum())

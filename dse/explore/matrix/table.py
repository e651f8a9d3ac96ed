"""The best configuration of vLLM's and SGLang's matrix kernels for each number of tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dse.errors import DseError, one_of
from dse.explore.matrix.rank import predict, scores
from dse.explore.matrix.refine import Correction, Timed, choose
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Number
from dse.models.matrix.configuration import as_dict, space
from dse.models.matrix.problem import OPERANDS, Product, experts_layer

SIZES = {"moe": ("E", "N", "K", "topk"), "w8a8": ("N", "K")}
DTYPES = tuple(name for name in OPERANDS if not name.endswith("_block"))


@dataclass(frozen=True)
class Kernel:
    """One kernel of vLLM and SGLang with its sizes, as they name them.

    moe: E experts, N columns of a projection on this device, K hidden size, topk experts a token; both
    products of the layer run with one configuration. w8a8: N columns, K depth, scales for blocks of both.
    """

    name: str
    sizes: Mapping[str, Number]
    dtype: str = "bf16"
    block: tuple[int, int] | None = None  # of scales: columns, depth

    def __post_init__(self) -> None:
        if self.name not in SIZES:
            raise DseError(f"kernel: found {self.name!r}, {one_of(self.name, SIZES)}")
        names = SIZES[self.name]
        if missing := [name for name in names if name not in self.sizes]:
            raise DseError(f"values: {missing[0]}: missing, expected {', '.join(names)}")
        if unknown := [name for name in self.sizes if name not in names]:
            raise DseError(f"values: {unknown[0]}: unknown, expected {', '.join(names)}")
        if wrong := [
            name for name in names if self.sizes[name] < 1 or not float(self.sizes[name]).is_integer()
        ]:
            found = self.sizes[wrong[0]]
            raise DseError(f"values: {wrong[0]}: found {found!r}, expected a whole number of at least 1")
        if self.dtype not in DTYPES:
            raise DseError(f"dtype: found {self.dtype!r}, {one_of(self.dtype, DTYPES)}")
        if (self.block or self.name == "w8a8") and f"{self.dtype}_block" not in OPERANDS:
            allowed = ", ".join(name for name in DTYPES if f"{name}_block" in OPERANDS)
            raise DseError(f"dtype: found {self.dtype!r} with scales of blocks, expected one of {allowed}")
        if self.name == "w8a8" and self.block is None:
            raise DseError("scale_block: missing, expected the block of a scale, as 128x128")

    @property
    def configurations(self) -> np.ndarray:
        """The space that its tuner tries."""
        return space(self.name, self.block if self.name == "moe" and self.block else ())

    def products(self, tokens: int) -> tuple[Product, ...]:
        """What it launches, one after the other."""
        operands = f"{self.dtype}_block" if self.block else self.dtype
        size = {name: int(value) for name, value in self.sizes.items()}
        if self.name == "w8a8":
            return (Product(tokens, size["N"], size["K"], operands=operands),)
        return experts_layer(tokens, size["E"], size["topk"], size["K"], size["N"], operands)


@dataclass(frozen=True)
class Predictor:
    """Log times of all configurations of a kernel on a GPU, for any number of tokens."""

    file: GpuFile
    kernel: Kernel
    configurations: np.ndarray  # [configurations, 6]
    known: dict[int, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def of(file: GpuFile, kernel: Kernel) -> "Predictor":
        """Predict the space that the kernel's tuner tries."""
        return Predictor(file, kernel, kernel.configurations)

    def __call__(self, tokens: int) -> np.ndarray:
        """Return log times [configurations], infinite where one does not fit."""
        self.prepare([tokens])
        return self.known[tokens]

    def prepare(self, tokens: Sequence[int]) -> None:
        """Predict several numbers of tokens at once, as that is faster."""
        numbers = [number for number in dict.fromkeys(tokens) if number not in self.known]
        if numbers:
            launches = zip(*(self.kernel.products(number) for number in numbers), strict=True)
            times = [predict([self.file], one, self.configurations)[0] for one in launches]
            total = np.sum(times, axis=0).astype(np.float64)
            self.known.update(zip(numbers, np.log(total), strict=True))

    def taken(self, tokens: Sequence[int]) -> np.ndarray:
        """What the prior takes off the log times, [tokens, configurations].

        It is of the kernel, not of each launch: the same for all of them.
        """
        first = [self.kernel.products(number)[0] for number in tokens]
        return scores(self.file, first, self.configurations, "prior")


def best(
    file: GpuFile, kernel: Kernel, tokens: Sequence[int], timed: Timed | None = None
) -> list[dict[str, Any]]:
    """The best configuration for each number of tokens, and its predicted time.

    Measured times, if any, correct what is predicted (`dse.explore.matrix.refine`), and `by` says of each row
    whether its time was measured or corrected.

    **Raises:** DseError for a GPU without tensor cores, or one on which nothing of the space fits.
    """
    predictor = Predictor.of(file, kernel)
    measured = timed or Timed.none()
    predictor.prepare([*tokens, *np.unique(measured.tokens).tolist()])
    corrected = Correction(predictor, predictor.configurations, measured)
    rows = []
    for number, taken in zip(tokens, predictor.taken(tokens), strict=True):
        place, seconds, known = choose(*corrected(number), taken, measured, number)
        if not np.isfinite(seconds):
            raise DseError(
                f"gpu: found {file.name}, expected one with shared memory for a tile of {kernel.name}"
            )
        row = {"M": int(number), **as_dict(predictor.configurations[place]), "time_s": seconds}
        if kernel.block:  # vLLM cuts deeper tiles itself, SGLang tries none
            row["BLOCK_SIZE_K"] = min(row["BLOCK_SIZE_K"], *kernel.block)
        rows.append(row if timed is None else row | {"by": "measured" if known else "corrected"})
    return rows

"""The best configurations of vLLM's and SGLang's matrix kernels by number of tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dse.errors import DseError, check_names
from dse.explore.matrix.rank import bound, predict, scores
from dse.explore.matrix.refine import Correction, Timed, choose
from dse.hardware.gpus import GpuFile
from dse.kernels.counts import Number
from dse.models.matrix.case import BACK_TO_BACK, BETWEEN_EVENTS, Timing
from dse.models.matrix.configuration import as_dict, space
from dse.models.matrix.constants import SPREAD, fitted
from dse.models.matrix.layer import Rest
from dse.models.matrix.library import library_seconds
from dse.models.matrix.machine import NEVER, Machine
from dse.models.matrix.problem import OPERANDS, Product, experts_layer

SIZES = {"moe": ("E", "N", "K", "topk"), "w8a8": ("N", "K"), "mm": ("N", "K")}
SINGLE = ("tf32", "fp32")  # of mm only
DTYPES = tuple(name for name in OPERANDS if not name.endswith("_block"))
HALVES = tuple(name for name in DTYPES if name not in SINGLE)
CDNA_4, RDNA = 0x950, 0x1000  # first AMD targets with a single kpack, a single matrix instruction in Triton
WITHIN = 1.96  # standard deviations, for 95 % of cases


@dataclass(frozen=True)
class Kernel:
    """A kernel of vLLM and SGLang with its sizes, by their names.

    moe: E experts, N columns of a projection on this device, K hidden size, topk experts per token; both
    products of the layer run with one configuration. w8a8: N columns, K depth, scales per block of both.
    mm: a dense product, N columns, K depth, timed between two events after a flush of L2, as by autotuners.
    """

    name: str
    sizes: Mapping[str, Number]
    dtype: str = "bf16"
    block: tuple[int, int] | None = None  # of scales: columns, depth

    def __post_init__(self) -> None:
        check_names("kernel", SIZES, self.name)
        names = SIZES[self.name]
        if missing := [name for name in names if name not in self.sizes]:
            raise DseError(f"values: {missing[0]}: missing, expected {', '.join(names)}")
        if unknown := [name for name in self.sizes if name not in names]:
            raise DseError(f"values: {unknown[0]}: unknown, expected {', '.join(names)}")
        if wrong := [
            name for name in names if self.sizes[name] < 1 or not float(self.sizes[name]).is_integer()
        ]:
            actual = self.sizes[wrong[0]]
            raise DseError(f"values: {wrong[0]}: found {actual!r}, expected a whole number of at least 1")
        if self.sizes.get("topk", 0) > self.sizes.get("E", np.inf):
            most = f"at most E, which is {self.sizes['E']}"
            raise DseError(f"values: topk: found {self.sizes['topk']}, expected {most}")
        check_names("dtype", DTYPES if self.name == "mm" else HALVES, self.dtype)
        if self.block and self.name == "mm":
            raise DseError("scale_block: found with mm, expected it with moe or w8a8")
        if (self.block or self.name == "w8a8") and f"{self.dtype}_block" not in OPERANDS:
            allowed = ", ".join(name for name in DTYPES if f"{name}_block" in OPERANDS)
            raise DseError(f"dtype: found {self.dtype!r} with scales of blocks, expected one of {allowed}")
        if self.name == "w8a8" and self.block is None:
            raise DseError("scale_block: missing, expected the block of a scale, as 128x128")

    def configurations(self, file: GpuFile) -> np.ndarray:
        """Return the space of its tuner on a GPU; on AMD's, the values that Triton's backend supports.

        **Raises:** DseError for fp8 on AMD's GPUs without fp8 matrix cores, which vLLM rejects.
        """
        fp8 = OPERANDS[self.dtype].rate == "mma_fp8" and file.gpu.gfx
        if fp8 and float(file.gpu.cpi.mma_fp8) >= NEVER:
            raise DseError(
                f"dtype: found {self.dtype!r}, expected one that the matrix cores of {file.name} multiply, "
                "which have no fp8"
            )
        block = self.block if self.name == "moe" and self.block else ()
        if not file.gpu.gfx:
            return space(self.name, block)
        if self.name == "mm":
            return space(self.name, amd=True)
        halves = OPERANDS[self.dtype].activation_bytes == 2
        table = space(f"{self.name}_amd" if halves or self.name == "w8a8" else f"{self.name}_amd_fp8", block)
        for gfx, column, value in ((RDNA, 7, 16), (CDNA_4, 8, 1)):  # matrix_instr_nonkdim, kpack
            if int(file.gpu.gfx) >= gfx:
                table = table[(table[:, column : column + 1] == value).all(1)]
        return table

    @property
    def timing(self) -> Timing:
        """Return how it is timed."""
        return BETWEEN_EVENTS if self.name == "mm" else BACK_TO_BACK

    def products(self, tokens: int) -> tuple[Product, ...]:
        """Return its launches, in sequence."""
        operands = f"{self.dtype}_block" if self.block else self.dtype
        size = {name: int(value) for name, value in self.sizes.items()}
        if self.name != "moe":
            return (Product(tokens, size["N"], size["K"], operands=operands),)
        return experts_layer(tokens, size["E"], size["topk"], size["K"], size["N"], operands)


@dataclass(frozen=True)
class Predictor:
    """Predicts log times of all configurations of a kernel on a GPU, for any number of tokens."""

    file: GpuFile
    kernel: Kernel
    configurations: np.ndarray  # [configurations, parameters]
    known: dict[int, np.ndarray] = field(default_factory=dict)

    @staticmethod
    def of(file: GpuFile, kernel: Kernel) -> "Predictor":
        """Make a predictor for the space of the kernel's tuner."""
        return Predictor(file, kernel, kernel.configurations(file))

    def __call__(self, tokens: int) -> np.ndarray:
        """Return log times [configurations], infinite for those that do not fit."""
        self.prepare([tokens])
        return self.known[tokens]

    def prepare(self, tokens: Sequence[int]) -> None:
        """Predict several numbers of tokens at once, which is faster."""
        numbers = [number for number in dict.fromkeys(tokens) if number not in self.known]
        if numbers:
            launches = zip(*(self.kernel.products(number) for number in numbers), strict=True)
            times = [self._times(launch) for launch in launches]
            total = np.sum(times, axis=0).astype(np.float64)
            self.known.update(zip(numbers, np.log(total), strict=True))

    def _times(self, products: Sequence[Product]) -> np.ndarray:
        return predict([self.file], products, self.configurations, timing=self.kernel.timing)[0]

    def taken(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the prior's change of the log times, [tokens, configurations].

        It is the same for all launches of the kernel.
        """
        first = [self.kernel.products(number)[0] for number in tokens]
        return scores(self.file, first, self.configurations, "prior")


def best(
    file: GpuFile, kernel: Kernel, tokens: Sequence[int], timed: Timed | None = None
) -> list[dict[str, Any]]:
    """Return the best configuration for each number of tokens, and its predicted time.

    Without measured times a row has the 95 % interval of the time and, for a dense product, the time of the
    vendor's library, for experts that of the whole layer. Measured times correct the predictions
    (`dse.explore.matrix.refine`); then `by` of each row is whether its time was measured or corrected.

    **Raises:** DseError for a GPU without tensor or matrix cores, or if no configuration fits.
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
        if kernel.block:  # vLLM reduces deeper tiles itself, SGLang tries none
            row["BLOCK_SIZE_K"] = min(row["BLOCK_SIZE_K"], *kernel.block)
        rows.append(row if timed is None else row | {"by": "measured" if known else "corrected"})
    return _with_others(file, kernel, rows) if timed is None else rows


def _with_others(file: GpuFile, kernel: Kernel, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the interval, and the time of the library or of the layer."""
    machine, factor = Machine.of([file]), float(np.exp(WITHIN * SPREAD))
    launches = [kernel.products(row["M"]) for row in rows]
    seconds = np.array([row["time_s"] for row in rows])
    least = sum(bound([file], products, kernel.timing)[0] for products in zip(*launches, strict=True))
    columns = {"low_s": np.maximum(seconds / factor, least), "high_s": seconds * factor}
    if kernel.name == "mm":
        columns["library_s"] = np.asarray(library_seconds(machine, [product for (product,) in launches])[0])
    if kernel.name == "moe":
        rest = Rest.of(launches).seconds(machine, fitted(bool(file.gpu.gfx)))
        columns["layer_s"] = seconds + np.asarray(rest)
    return [row | {name: float(of[n]) for name, of in columns.items()} for n, row in enumerate(rows)]

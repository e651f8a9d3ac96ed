"""TileLang: the configurations of a product of matrices worth timing, for `tilelang.autotune(configs=...)`.

    @tilelang.autotune(configs=configs("h100-sxm"))
    @tilelang.jit(out_idx=[-1])
    def matmul(M, N, K, block_M=128, block_N=128, block_K=32, num_stages=3, threads=128): ...

Names are those of TileLang's examples of products; `rename` maps them to others. Tried with TileLang 0.1.15.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dse.bridges.calls import best
from dse.bridges.tables import Row
from dse.errors import check_names
from dse.hardware.gpus import GpuFile
from dse.models.matrix.problem import Product

FIRST = 10
NAMES = ("block_M", "block_N", "block_K", "num_stages", "threads")


def configuration(row: Row) -> dict[str, int]:
    """One configuration by TileLang's names."""
    blocks = [row[f"BLOCK_SIZE_{axis}"] for axis in "MNK"]
    threads = int(row["gpu"].gpu.limits.warp_size) * row["num_warps"]
    return dict(zip(NAMES, (*blocks, row["num_stages"], threads), strict=True))


def configs(
    gpu: str | Path | GpuFile,
    operands: str = "fp16",
    first: int = FIRST,
    rename: Mapping[str, str | None] | None = None,
) -> Callable[..., list[dict[str, int]]]:
    """Make the function that TileLang calls with the kernel's arguments; M, N and K are the first.

    `rename` maps parameters that the kernel lacks to None. **Raises:** DseError for another name in it.
    """
    others = dict(rename or {})
    check_names("rename", NAMES, *others)

    def renamed(row: Row) -> dict[str, int]:
        named = {others.get(name, name): value for name, value in configuration(row).items()}
        return {name: value for name, value in named.items() if name}

    def ranked(M: int, N: int, K: int, *_: Any, **__: Any) -> list[dict[str, int]]:
        return best(gpu, Product(M, N, K, operands=operands), renamed, first)

    return ranked

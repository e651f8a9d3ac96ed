"""cuTile: a short list of tiles of a product of matrices, for `cuda.tile.tune.exhaustive_search`.

    search_space = short_list("b200", 4096, 4096, 4096)
    exhaustive_search(search_space, stream, grid_fn, matmul, args_fn)

cuTile chooses warps and stages itself, so configurations are tiles only. Names are those of its
documentation. Tried with cuTile 1.7.0.
"""

from pathlib import Path

from dse.bridges.calls import best
from dse.bridges.tables import Row
from dse.errors import DseError
from dse.hardware.gpus import GpuFile
from dse.models.matrix.problem import Product

FIRST = 5


def configuration(row: Row) -> dict[str, int]:
    """One configuration by cuTile's names. **Raises:** DseError for a GPU that is not NVIDIA's."""
    if row["gpu"].gpu.gfx:
        raise DseError(f"gpu: found {row['gpu'].name} with cuTile, expected a GPU of NVIDIA")
    return {"tm": row["BLOCK_SIZE_M"], "tn": row["BLOCK_SIZE_N"], "tk": row["BLOCK_SIZE_K"]}


def short_list(
    gpu: str | Path | GpuFile, m: int, n: int, k: int, operands: str = "fp16", first: int = FIRST
) -> list[dict[str, int]]:
    """The `first` tiles of a product of `m` × `k` and `k` × `n`, the fastest predicted first."""
    return best(gpu, Product(m, n, k, operands=operands), configuration, first)

"""A prior on fast configurations: how often each was among the best, on similar GPUs and cases.

A table has, for each GPU, type of operands and number of rows per expert, the share of cases in which a tile
(with warps and stages, for any group) was among the best, and for a tile's rows and columns the share of each
group. The prior is their mean over the table, weighted by the similarity of machine, operands and rows, and
shrunk towards no opinion without similar entries: a statistic with pseudo-counts. It contains no physics.

prior.csv.gz is such a table; `scripts/studies/evaluate_moe.py DIR --write` writes it with its source.
"""

import csv
import gzip
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dse.explore.matrix.devices import gpu_file
from dse.hardware.gpus import GpuFile
from dse.models.matrix.problem import OPERANDS, Product, active_experts

FILE = Path(__file__).with_name("prior.csv.gz")  # of NVIDIA's
AMD_FILE = Path(__file__).with_name("prior_amd.csv.gz")
COLUMNS = ("gpu", "weight_bytes", "rows", "kind", "key", "share")
NO_OPINION = 0.02  # share of an unknown configuration
PSEUDO_COUNT = 1.0  # identical cases with the same weight as no opinion
ROWS_ALIKE = 0.6  # of log2 rows of an expert
ALIKE = {"shared": 0.7, "needed": 1.5, "balance": 1.5, "gddr": 0.3}  # of log2, except gddr
OPERANDS_ALIKE = 0.7  # of log2 bytes of a weight

Tile = tuple[int, int, int, int, int]  # PARAMETERS without the group
Key = tuple[str, float, int]  # GPU, bytes of a weight, log2 of an expert's rows, rounded


@dataclass(frozen=True)
class Prior:
    """Shares among the best, by GPU, operands and rows."""

    tiles: dict[Key, dict[Tile, float]]
    groups: dict[tuple[int, int], dict[int, float]]  # of a tile's rows and columns

    def log_share(
        self, file: GpuFile, products: Sequence[Product], configurations: np.ndarray
    ) -> Float[np.ndarray, "products configurations"]:
        """Return the log of the expected share of each configuration."""
        tiles = [tile_of(configuration) for configuration in configurations.tolist()]
        distinct = {tile: place for place, tile in enumerate(dict.fromkeys(tiles))}
        keys = list(self.tiles)
        table = np.zeros((len(keys), len(distinct)))
        for row, key in enumerate(keys):
            for tile, share in self.tiles[key].items():
                if tile in distinct:
                    table[row, distinct[tile]] = share
        own = features(file)
        by_gpu = {gpu: _alike(own, _features_of(gpu)) for gpu in {key[0] for key in keys}}
        alike = np.array([by_gpu[key[0]] for key in keys])
        size = np.log2([[OPERANDS[product.operands].weight_bytes] for product in products])
        away = (size - np.log2([key[1] for key in keys])) / OPERANDS_ALIKE
        rows = (log_rows(products)[:, None] - np.array([key[2] for key in keys])) / ROWS_ALIKE
        weights = alike * np.exp(-0.5 * (away**2 + rows**2)) if keys else np.zeros((len(products), 0))
        share = (weights @ table + PSEUDO_COUNT * NO_OPINION) / (weights.sum(1, keepdims=True) + PSEUDO_COUNT)
        group = [self._group(configuration) for configuration in configurations.tolist()]
        opinion = weights.sum(1, keepdims=True) / (weights.sum(1, keepdims=True) + PSEUDO_COUNT)
        return np.log(share[:, [distinct[tile] for tile in tiles]]) + opinion * np.log(np.array(group))

    def _group(self, configuration: Sequence[int]) -> float:
        share = self.groups.get((configuration[0], configuration[1]))
        return (share.get(configuration[3], 0.0) + 0.05) / 1.05 if share else 1.0

    @staticmethod
    def read(text: str) -> "Prior":
        """Parse a table: COLUMNS of CSV."""
        tiles: dict[Key, dict[Tile, float]] = defaultdict(dict)
        groups: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        for row in csv.DictReader(io.StringIO(text)):
            numbers = tuple(map(int, row["key"].split("x")))
            if row["kind"] == "tile":
                rows, columns, depth, warps, stages = numbers
                key = (row["gpu"], float(row["weight_bytes"]), int(row["rows"]))
                tiles[key][rows, columns, depth, warps, stages] = float(row["share"])
            else:
                rows, columns, group = numbers
                groups[rows, columns][group] = float(row["share"])
        return Prior(dict(tiles), dict(groups))


@cache
def shipped(amd: bool = False) -> Prior:
    """Return the package's prior for NVIDIA's or AMD's GPUs."""
    return Prior.read(gzip.decompress((AMD_FILE if amd else FILE).read_bytes()).decode("utf-8"))


def features(file: GpuFile) -> dict[str, float]:
    """Return the features of similarity: shared memory, bytes in flight, flops per byte, type of DRAM."""
    from dse.models.matrix.machine import Machine

    gpu = file.gpu
    return {
        "shared": float(np.log2(float(gpu.limits.shared_bytes_per_sm))),
        "needed": float(np.log2(gpu.dram_bandwidth / gpu.clock / gpu.sm_count * gpu.latency.dram)),
        "balance": float(np.log2(gpu.sm_count * gpu.clock / gpu.cpi.mma_fp16 / gpu.dram_bandwidth)),
        "gddr": float(Machine.of([file]).gddr[0]),
    }


@cache
def _features_of(gpu: str) -> dict[str, float]:
    return features(gpu_file(gpu))


def _alike(own: dict[str, float], other: dict[str, float]) -> float:
    """Return the similarity of two machines: 1 if they have the same features."""
    return float(np.exp(-0.5 * sum(((own[name] - other[name]) / ALIKE[name]) ** 2 for name in ALIKE)))


def log_rows(products: Sequence[Product]) -> Float[np.ndarray, " products"]:
    """Return log2 of the mean rows of an active expert."""
    return np.log2(np.array([product.rows for product in products], float) / active_experts(products))


def tile_of(configuration: Sequence[int]) -> Tile:
    """Return the parameters of a configuration without its group."""
    rows, columns, depth, _, warps, stages, *_ = configuration
    return rows, columns, depth, warps, stages

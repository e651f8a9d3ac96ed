"""Recorded tuning results: every configuration near the best of a case, or the best of a tuning run.

A folder has near_best.csv.gz, recorded_best.csv.gz, or both, with the columns read here.
"""

import csv
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dse.errors import DseError
from dse.gpus import GpuFile, find, load
from dse.matrix.configuration import PARAMETERS
from dse.matrix.problem import OPERANDS, Product, experts_layer

UNKNOWN_DEPTH = 4096  # hidden size where a file's name has none: between the smallest and largest of models
UNKNOWN_TOPK = 8
BLOCK = (128, 128)  # of scales, where a tuner demands that tiles divide into them
VENDORS = ("NVIDIA", "GEFORCE", "AMD")


@dataclass(frozen=True)
class NearBest:
    """A case and all its configurations that ran within 1 % of the best."""

    gpu: str
    product: Product
    configurations: tuple[tuple[int, ...], ...]
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The time of the fastest one."""
        return min(self.seconds)


@dataclass(frozen=True)
class Recorded:
    """The configuration that one tuning run found best; `products` run with it one after the other."""

    gpu: str
    kernel: str
    depth_known: bool
    products: tuple[Product, ...]
    configuration: tuple[int, ...]
    block: tuple[int, int] | tuple[()]  # columns and depth that tiles must divide into


@cache
def gpu_file(device: str) -> GpuFile:
    """The GPU file of a device as records call it: NVIDIA_A100-SXM4-80GB, H20, GeForce_RTX_4090, ...

    Words are left off from the end until a file is found; a bare name is the SXM card where there is one. The
    A800 counts as the A100, of which it is a variant with slower links. **Raises:** DseError.
    """
    words = [
        word for word in re.split("[_ -]+", device.upper().replace("A800", "A100")) if word not in VENDORS
    ]
    if "A100" in words and "40GB" in words:  # both forms have the memory of the PCIe card
        words = ["A100", "PCIE", "40GB"]
    while words:
        name = "-".join(words)
        for text in (f"{name}-SXM", name):
            with suppress(DseError):
                return load(find(text))
        words.pop()
    raise DseError(f"gpu: found {device!r}, expected a device that gpus/ has a file of")


def near_best(folder: Path) -> list[NearBest]:
    """Read near_best.csv.gz; none where it is missing. Operands are bf16, tokens handed out evenly."""
    cases: dict[tuple, tuple[list, list]] = defaultdict(lambda: ([], []))
    for row in _rows(folder / "near_best.csv.gz"):
        key = (row["gpu"], row["weight_type"], *(int(row[name]) for name in ("M", "E", "topk", "H", "N")))
        configurations, seconds = cases[key]
        configurations.append(tuple(int(row[name]) for name in PARAMETERS))
        seconds.append(float(row["avg_duration"]) * 1e-6)
    return [
        NearBest(gpu, experts_layer(*sizes, routing="even")[weights == "w2"], tuple(found), tuple(times))
        for (gpu, weights, *sizes), (found, times) in cases.items()
    ]


def recorded(folder: Path) -> list[Recorded]:
    """Read recorded_best.csv.gz: NVIDIA's, inside the tuner's space. None where it is missing."""
    found = []
    for row in _rows(folder / "recorded_best.csv.gz"):
        if row["vendor"] != "NVIDIA" or row["in_space"] != "1":
            continue
        block = tuple(int(part) for part in row["block_shape"].split("x")) if row["block_shape"] else ()
        kind = {"bf16/fp16": "bf16", "float8": "fp8_w8a8"}.get(row["dtype"], row["dtype"])
        if block and f"{kind}_block" in OPERANDS:
            kind = f"{kind}_block"
        if kind not in OPERANDS:
            continue
        depth = int(row["K"]) if row["K"] else UNKNOWN_DEPTH
        if row["kernel"] == "w8a8":
            products = (Product(int(row["M"]), int(row["N"]), depth, operands=kind),)
        else:
            experts, topk = int(row["E"]), int(row["topk"] or UNKNOWN_TOPK)
            products = experts_layer(int(row["M"]), experts, topk, depth, int(row["N"]), kind)
            if row["part"] == "down":
                products = products[1:]
        found.append(
            Recorded(
                gpu=row["device"],
                kernel=row["kernel"],
                depth_known=bool(row["K"]),
                products=products,
                configuration=tuple(int(row[name]) for name in PARAMETERS),
                block=BLOCK if row["space"].endswith("block128x128") else (),
            )
        )
    return found


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if not path.exists():
        return
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DseError(f"{path}: cannot read: {error}") from None
    except KeyError as error:
        raise DseError(f"{path}: {error.args[0]}: missing, expected a column of that name") from None

"""Read random configurations of our Triton kernels: `check_triton.py [KERNEL...] [--sample 60] [--json]`.

Of each kernel and GPU, configurations of a space far larger than the kernel's own are compiled and their
machine code is read. Prints how many compile, how many of these are read, how many opcodes had no rule, and
the largest and smallest ratio of multiply-adds on tensor cores to those of the grid's tiles.
"""

import argparse
import json
import sys
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from dse.core.space.space import Space
from dse.hardware import gpus
from dse.report.show import progress, show
from dse.source.kernel import SourceKernel
from dse.source.profiles import KernelProfile
from dse.source.readers import load
from dse.types import MMA

TILES = {"BLOCK_M": (16, 32, 64, 128, 256), "BLOCK_N": (16, 32, 64, 128, 256), "BLOCK_K": (32, 64, 128)}
PIPELINE = {"num_warps": (4, 8), "num_stages": (1, 2, 3, 4, 5)}
SPACES: dict[str, dict[str, tuple[int, ...]]] = {
    "triton_matmul": TILES | {"GROUP_M": (1, 4, 8, 16)} | PIPELINE,
    "triton_matmul_tma": TILES | {"GROUP_M": (1, 8)} | PIPELINE,
    "triton_moe": TILES | {"GROUP_M": (1, 16, 32, 64)} | PIPELINE,
    "triton_attention": {
        "BLOCK_M": (16, 32, 64, 128), "BLOCK_N": (16, 32, 64, 128), "HEAD": (32, 64, 128), "CAUSAL": (0, 1),
        **PIPELINE,
    },
    "triton_softmax": {"ROWS": (1, 2, 4, 8, 16), "num_warps": (1, 2, 4, 8, 16, 32), "num_stages": (1, 2, 3)},
    "triton_layer_norm": {
        "BLOCK": (128, 256, 512, 1024, 2048, 4096), "num_warps": (1, 2, 4, 8, 16, 32),
        "num_stages": (1, 2, 3),
    },
}  # fmt: skip
GPUS = {"sm_80": "a100-pcie-40gb", "sm_90": "h100-sxm", "sm_120": "rtx-5090"}
ONLY_NEW = ("triton_matmul_tma",)  # kernels that need compute capability 9.0


def tiles(name: str, values: dict[str, Any], sizes: dict[str, Any], blocks: int) -> float:
    """Return the multiply-adds of the tiles of a launch with `blocks` blocks; 0 without products."""
    if "BLOCK_K" in values:
        depth = ceil(sizes["K"] / values["BLOCK_K"]) * values["BLOCK_K"]
        return float(blocks * values["BLOCK_M"] * values["BLOCK_N"] * depth)
    if name != "triton_attention":
        return 0.0
    length, rows = sizes["length"], values["BLOCK_M"]
    ends = [
        min(length, (row + 1) * rows) if values["CAUSAL"] else length for row in range(ceil(length / rows))
    ]
    columns = sum(ceil(end / values["BLOCK_N"]) * values["BLOCK_N"] for end in ends)
    return 2.0 * sizes["heads"] * columns * values["BLOCK_M"] * values["HEAD"]


def checked(name: str, arch: str, sample: int, seed: int) -> dict[str, Any]:
    """Read a sample of one kernel's configurations for one GPU."""
    description = load(name)
    space = Space(SPACES[name])
    kernel = SourceKernel(replace(description, space=space))
    every = space.configurations()
    rows = np.random.default_rng(seed).permutation(len(next(iter(every.values()))))[:sample]
    parameters = {key: values[rows] for key, values in every.items()}
    profiles = kernel.read(parameters, gpus.load(GPUS[arch]).gpu, None, progress)
    sizes = dict(kernel.problem)
    shares: list[float] = []
    failures: dict[str, list[str]] = {}
    for row, profile in enumerate(profiles):
        if not isinstance(profile, KernelProfile):
            failures.setdefault(profile.reason, []).append(profile.message)
            continue
        values = {key: column[row].item() for key, column in parameters.items()}
        expected = tiles(name, values, sizes, profile.counts.blocks)
        counted = profile.counts.blocks * sum(
            phase.passes * phase.tensor.get(kind, 0.0) for phase in profile.counts.phases for kind in MMA
        )
        if expected:
            shares.append(counted / expected)
    read = sum(isinstance(profile, KernelProfile) for profile in profiles)
    unread = failures.get("not executed", [])
    return {
        "kernel": name,
        "target": arch,
        "tried": len(profiles),
        "compiled": read + len(unread),
        "read": read,
        "unread": len(unread),
        "first reason": unread[0] if unread else "",
        "least work": min(shares, default=None),
        "most work": max(shares, default=None),
    }


def main() -> None:
    """Print a table, or one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(SPACES)}; all without")
    parser.add_argument("--sample", type=int, default=60, help="configurations of each kernel and GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [
        checked(name, arch, options.sample, options.seed)
        for name in options.kernels or SPACES
        for arch in GPUS
        if arch != "sm_80" or name not in ONLY_NEW
    ]
    if options.json:
        print(json.dumps({"sample": options.sample, "rows": rows}))
    else:
        show(rows, title="Random configurations read")
    if any(row["unread"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()

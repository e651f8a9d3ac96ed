"""How many times of matrix kernels the closed form predicts a second: `bench/matrix.py [--json]`.

A point is one (GPU, case, configuration); `dse.explore.matrix.rank.predict` is given all of them at once.
`cold` is the first call of the process, which compiles. Each warm call is asked for cases that it has not
seen: batch sizes and layers change from call to call. `dense` are plain products of bf16, `experts` the first
product of layers of experts with block-scaled fp8, whose tiles are expected over random experts.

By the clock on the wall, and by CPU time of all cores, which other work on the machine changes less. The
median of the calls is told, and the slowest and fastest beside it.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from dse.explore.matrix.rank import predict
from dse.hardware import gpus
from dse.models.matrix.configuration import space
from dse.models.matrix.problem import Product, experts_layer
from dse.report.show import show

GPUS = ("a100", "h100-sxm", "h200", "l40s", "rtx-4090", "b200")
TOKENS = (1, 16, 64, 256, 1024, 4096)
LAYERS = (1024, 2048, 4096, 7168, 8192, 14336)
CONFIGURATIONS = "wide"


def dense(call: int) -> list[Product]:
    """Products of six batch sizes and six matrices, others for each call."""
    depth = 4096 + 64 * call
    return [Product(tokens + call, columns, depth) for tokens in TOKENS for columns in LAYERS]


def experts(call: int) -> list[Product]:
    """First products of layers of experts, as many."""
    layers = [(tokens + call, hidden) for tokens in TOKENS for hidden in LAYERS]
    return [experts_layer(tokens, 128, 8, hidden, 1024, "fp8_w8a8_block")[0] for tokens, hidden in layers]


CASES = {"dense": dense, "experts": experts}


def measure(kind: str, calls: int) -> dict[str, Any]:
    """Points a second of a cold call, and of so many warm ones."""
    files, table, rates, by_cpu = [gpus.load(name) for name in GPUS], space(CONFIGURATIONS), [], []
    points = 0
    for call in range(calls + 1):
        products = CASES[kind](call)
        wall, cpu = time.perf_counter(), time.process_time()
        points = predict(files, products, table).size
        rates.append(points / (time.perf_counter() - wall))
        by_cpu.append(points / (time.process_time() - cpu))
    return {
        "cases": kind,
        "points": points,
        "cold_s": points / rates[0],
        "points_per_second": median(rates[1:]),
        "slowest": min(rates[1:]),
        "fastest": max(rates[1:]),
        "points_per_cpu_second": median(by_cpu[1:]),
    }


def machine() -> dict[str, Any]:
    """What it ran on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": name, "cores": cores}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--calls", type=int, default=7, help="warm ones of each kind")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args(arguments)
    if given.calls < 1:
        parser.error(f"--calls: found {given.calls}, expected at least 1")
    rows = [measure(kind, given.calls) for kind in CASES]
    configurations = len(space(CONFIGURATIONS))
    size = {"gpus": len(GPUS), "cases": len(TOKENS) * len(LAYERS), "configurations": configurations}
    if given.json:
        print(json.dumps({"rates": rows, "size": size, "machine": machine()}, indent=2))
        return
    show(rows, title="Predicted times of matrix kernels")
    about = machine()
    print(f"{size['gpus']} GPUs × {size['cases']} cases × {size['configurations']} configurations a call")
    print(f"{about['cpu']}, {about['cores']} cores")


if __name__ == "__main__":
    main()

"""Speed of the closed form of matrix kernels: `bench/matrix.py [--json]`.

A point is one (GPU, case, configuration); `dse.explore.matrix.rank.predict` evaluates all of them at once.
`cold` is the first call of the process, which compiles. Each warm call has new cases: batch sizes and layers
change from call to call. `dense` are plain products of bf16, `experts` the first product of layers of experts
with block-scaled fp8, with expected tiles over random experts.

Rates are by wall time, and by CPU time of all cores, which other work on the machine affects less: the median
of the calls, the slowest and the fastest.
"""

import json
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import front

from dse.explore.matrix.rank import predict
from dse.hardware import gpus
from dse.models.matrix.configuration import space
from dse.models.matrix.problem import Product, experts_layer
from dse.report.show import show


class Size(NamedTuple):
    """The axes of a call."""

    gpus: tuple[str, ...]
    tokens: tuple[int, ...]
    layers: tuple[int, ...]
    configurations: str  # a named space


FULL = Size(
    gpus=("a100", "h100-sxm", "h200", "l40s", "rtx-4090", "b200"),
    tokens=(1, 16, 64, 256, 1024, 4096),
    layers=(1024, 2048, 4096, 7168, 8192, 14336),
    configurations="wide",
)
QUICK = Size(("a100", "h200"), (1, 64), (1024,), "w8a8")


def dense(call: int, size: Size) -> list[Product]:
    """Products of six batch sizes and six matrices, different in each call."""
    depth = 4096 + 64 * call
    return [Product(tokens + call, columns, depth) for tokens in size.tokens for columns in size.layers]


def experts(call: int, size: Size) -> list[Product]:
    """As many first products of layers of experts."""
    layers = [(tokens + call, hidden) for tokens in size.tokens for hidden in size.layers]
    return [experts_layer(tokens, 128, 8, hidden, 1024, "fp8_w8a8_block")[0] for tokens, hidden in layers]


CASES = {"dense": dense, "experts": experts}


def measure(kind: str, calls: int, size: Size) -> dict[str, Any]:
    """Measure a cold call, and `calls` warm ones."""
    files, table = [gpus.load(name) for name in size.gpus], space(size.configurations)
    rates: list[float] = []
    by_cpu: list[float] = []
    points = 0
    for call in range(calls + 1):
        products = CASES[kind](call, size)
        points = len(files) * len(products) * len(table)
        measured = front.rates(lambda products=products: predict(files, products, table), points)
        rates += measured["wall"]
        by_cpu += measured["cpu"]
    return {
        "cases": kind,
        "points": points,
        "cold_s": points / rates[0],
        "points_per_second": median(rates[1:]),
        "slowest": min(rates[1:]),
        "fastest": max(rates[1:]),
        "points_per_cpu_second": median(by_cpu[1:]),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table or JSON."""
    parser = front.parser(__doc__)
    parser.add_argument("--calls", type=int, default=7, help="warm ones of each kind")
    parser.add_argument("--quick", action="store_true", help="few points: rates are not meaningful")
    options = parser.parse_args(arguments)
    if options.calls < 1:
        parser.error(f"--calls: found {options.calls}, expected at least 1")
    axes = QUICK if options.quick else FULL
    rows = [measure(kind, options.calls, axes) for kind in CASES]
    configurations = len(space(axes.configurations))
    size = {"gpus": len(axes.gpus), "cases": len(axes.tokens) * len(axes.layers)}
    size |= {"configurations": configurations}
    if options.json:
        print(json.dumps({"rates": rows, "size": size, "machine": front.machine()}, indent=2))
        return
    show(rows, title="Predicted times of matrix kernels")
    about = front.machine()
    print(f"{size['gpus']} GPUs × {size['cases']} cases × {size['configurations']} configurations a call")
    print(f"{about['cpu']}, {about['cores']} cores")


if __name__ == "__main__":
    main()

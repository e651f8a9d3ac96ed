"""How near searches come to the optimum of a large space: `bench_search.py [--trials N] [--json]`.

gemm with longer lists of values: 64 million configurations, of which few fulfil the constraints. The optimum
by the model comes from a sweep that looks at all of them. Each search is a study of Optuna in memory; how far
above the optimum its best is is told on the way, and what share of its time Optuna takes.
"""

import argparse
import json
import time
from dataclasses import replace
from typing import Any

from dse import gpus, kernels
from dse.kernels.description import Description
from dse.models import get
from dse.report.show import progress, show
from dse.searching import study
from dse.sweeping.product import Product
from dse.sweeping.sweep import Sweep

GPU, MODEL = "rtx-a4000", "phase"
MARKS = (100, 200, 500, 1_000, 2_000)  # trials after which the best is noted


def large() -> Description:
    """Return gemm with longer lists of tiles, blocks and widths: 64 million configurations."""
    kernel = kernels.load("gemm")
    powers = (4, 8, 16, 32, 64)
    more: dict[str, tuple[int, ...]] = dict.fromkeys(("MDIMC", "NDIMC", "MDIMA", "NDIMB"), powers)
    more |= dict.fromkeys(("MWG", "NWG"), (16, 32, 64, 128, 256)) | {"KWG": (8, 16, 32, 64)}
    more |= dict.fromkeys(("VWM", "VWN", "KWI"), (1, 2, 4, 8))
    more |= dict.fromkeys(("STRM", "STRN", "SA", "SB"), (0, 1))
    return replace(kernel, space=kernel.space.with_values(more))


def searched(kernel: Description, chosen: str, trials: int, best: float, seed: int) -> list[dict[str, Any]]:
    """Search once: a row at each mark."""
    file = gpus.load(GPU)
    variants = study.variants([(kernel, kernel.sizes())])
    found = study.start(variants, file.name, MODEL, ("time",), chosen, seed=seed, trials=trials)
    rows, began = [], time.process_time()
    with progress(chosen, trials) as advance:
        for mark in (*(mark for mark in MARKS if mark < trials), trials):
            study.run(found, file.gpu, MODEL, mark)
            advance(mark - (rows[-1]["trials"] if rows else 0))
            reached = found.best()[0]["time_s"]
            total = found.shares.model + found.shares.optuna
            rows.append(
                {"sampler": chosen, "seed": seed, "trials": mark, "time_s": reached}
                | {"above_optimum_percent": 100 * (reached / best - 1)}
                | {"optuna_percent": 100 * found.shares.optuna / total, "cpu_s": time.process_time() - began}
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--sampler", action="append", help="of dse search; repeatable; tpe without it")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    kernel = large()
    product = Product.of([(kernel, kernel.sizes())], [gpus.load(GPU)], [get(MODEL)])
    [best] = Sweep(product, progress=progress).top(1)
    rows = [
        row
        for chosen in options.sampler or ["tpe"]
        for seed in range(options.seeds)
        for row in searched(kernel, chosen, options.trials, best["time_s"], seed)
    ]
    head = {"configurations": kernel.space.size, "optimum_s": best["time_s"]}
    if options.json:
        print(json.dumps(head | {"searches": rows}))
    else:
        title = f"{kernel.space.size:,} configurations of {kernel.name} on {GPU} by {MODEL}"
        show(rows, title=f"{title}: optimum {best['time_s'] * 1e6:.1f} µs")


if __name__ == "__main__":
    main()

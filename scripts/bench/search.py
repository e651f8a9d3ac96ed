"""Distance of searches from the optimum of large spaces: `bench/search.py [--sampler tpe] [--seeds 5]`.

Kernels with longer lists of values: 10 to 64 million configurations, of which few of gemm's fulfil the
constraints. A sweep finds the model's optimum. Each search is a study of Optuna in memory. Printed are the
excess of its best over the optimum, and Optuna's share of the time; mean and worst of all seeds. Gaussian
processes need torch.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import front

from dse import kernels
from dse.evaluate.chunks import evaluate
from dse.explore.search import study
from dse.explore.sweep.product import SweepProduct
from dse.explore.sweep.sweep import Sweep
from dse.hardware import gpus
from dse.kernels.description import Description
from dse.models import get
from dse.report.show import progress, show

GPU, MODEL = "rtx-a4000", "phase"
MARKS = (100, 200, 500, 1_000, 2_000)  # trials after which the best is recorded
SPACES: Mapping[str, Mapping[str, Any]] = {
    "gemm": {
        **{name: {"powers_of_two": [4, 64]} for name in ("MDIMC", "NDIMC", "MDIMA", "NDIMB")},
        **{name: {"powers_of_two": [16, 256]} for name in ("MWG", "NWG")},
        **{name: {"powers_of_two": [1, 8]} for name in ("VWM", "VWN", "KWI")},
        **dict.fromkeys(("STRM", "STRN", "SA", "SB"), (0, 1)),
        "KWG": {"powers_of_two": [8, 64]},
    },
    "convolution": {
        "block_size_x": {"from": 1, "to": 160},
        "block_size_y": {"from": 1, "to": 32},
        "tile_size_x": {"from": 1, "to": 16},
        "tile_size_y": {"from": 1, "to": 16},
    },
    "dedispersion": {
        "block_size_x": {"from": 1, "to": 64},
        "block_size_y": {"from": 1, "to": 256},
        "tile_size_x": {"from": 1, "to": 16},
        "tile_size_y": {"from": 1, "to": 16},
    },
}


def large(name: str) -> Description:
    """Return a kernel with longer lists of values."""
    kernel = kernels.load(name)
    return replace(kernel, space=kernel.space.with_values(SPACES[name]))


@contextmanager
def timed_model() -> Iterator[list[float]]:
    """Add the seconds of each evaluation by the model to the list that it yields."""
    seconds: list[float] = []

    def timed(*arguments: Any) -> Any:
        began = time.perf_counter()
        evaluation = evaluate(*arguments)
        seconds.append(time.perf_counter() - began)
        return evaluation

    with mock.patch.object(study, "evaluate", timed):
        yield seconds


def searched(kernel: Description, sampler: str, trials: int, best: float, seed: int) -> list[dict[str, Any]]:
    """Search once, with a row at each mark."""
    file = gpus.load(GPU)
    variants = study.variants([(kernel, kernel.sizes())])
    search = study.start(variants, file.name, MODEL, ("time",), sampler, seed=seed, trials=trials)
    rows, began, wall = [], time.process_time(), time.perf_counter()
    with progress(sampler, trials) as advance, timed_model() as by_model:
        for mark in (*(mark for mark in MARKS if mark < trials), trials):
            study.run(search, file.gpu, MODEL, mark)
            advance(mark - (rows[-1]["trials"] if rows else 0))
            reached = (search.best or {"time_s": float("inf")})["time_s"]
            in_optuna = 1 - sum(by_model) / (time.perf_counter() - wall)
            rows.append(
                {"kernel": kernel.name, "sampler": sampler, "seed": seed, "trials": mark, "time_s": reached}
                | {"above_optimum_percent": 100 * (reached / best - 1)}
                | {"optuna_percent": 100 * in_optuna, "cpu_s": time.process_time() - began}
            )
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compute the mean and the worst of all seeds, at each mark."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kernel"], row["sampler"], row["trials"]), []).append(row)
    table = []
    for (kernel, sampler, trials), group in groups.items():
        above = [row["above_optimum_percent"] for row in group]
        table.append(
            {"kernel": kernel, "sampler": sampler, "trials": trials, "seeds": len(group)}
            | {"mean_above_percent": sum(above) / len(group), "worst_above_percent": max(above)}
            | {name: sum(row[name] for row in group) / len(group) for name in ("optuna_percent", "cpu_s")}
        )
    return table


def main() -> None:
    parser = front.parser(__doc__)
    parser.add_argument("--kernel", action="append", choices=SPACES, help="repeatable; all without it")
    parser.add_argument("--trials", type=int, default=2_000)
    parser.add_argument("--sampler", action="append", help="of dse search; repeatable; tpe without it")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    rows, heads = [], []
    for name in options.kernel or SPACES:
        kernel = large(name)
        product = SweepProduct.of([(kernel, kernel.sizes())], [gpus.load(GPU)], [get(MODEL)])
        [best] = Sweep(product, progress=progress).top(1)
        heads.append({"kernel": name, "configurations": kernel.space.size, "optimum_s": best["time_s"]})
        rows += [
            row
            for sampler in options.sampler or ["tpe"]
            for seed in range(options.seeds)
            for row in searched(kernel, sampler, options.trials, best["time_s"], seed)
        ]
    if options.json:
        print(json.dumps({"spaces": heads, "searches": rows, "summary": summary(rows)}))
    else:
        show(heads, title=f"Spaces, and their optimum on {GPU} by {MODEL}")
        show(summary(rows), title="Searches")


if __name__ == "__main__":
    main()

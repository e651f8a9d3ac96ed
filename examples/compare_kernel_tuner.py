"""Kernel Tuner with dse as its strategy, beside strategies of its own, on the same table of times.

    python examples/compare_kernel_tuner.py --cache A4000.json --kernel convolution --gpu a4000 --seeds 10

A cache of Kernel Tuner holds times of a space that was measured once; in simulation mode it answers in place
of the GPU. Without --cache the times are made up: predictions by another model, with noise. These show how it
runs; how good it is, only measured times show (docs/accuracy_tuning.md has those).
"""

import argparse
import contextlib
import io
import json
import random
import runpy
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from kernel_tuner import tune_kernel

import dse
from dse.bridges import export
from dse.bridges.kernel_tuner import strategy

OTHERS = ("genetic_algorithm", "random_sample")


def made_up_cache(kernel: str, gpu: str, path: Path) -> None:
    """Write a cache as Kernel Tuner leaves it behind, with made-up times."""
    found = dse.predict(kernel, gpu, models="volkov")
    columns = {name: values.tolist() for name, values in found.parameters.items()}
    noise = np.exp(0.05 * np.random.default_rng(0).normal(size=np.shape(found.seconds)))
    milliseconds = (1e3 * np.asarray(found.seconds) * noise).tolist()
    entries = {}
    for values, time in zip(zip(*columns.values(), strict=True), milliseconds, strict=True):
        result = {"time": time, "times": [time]} if np.isfinite(time) else {"time": "RuntimeFailedConfig"}
        entries[",".join(map(str, values))] = dict(zip(columns, values, strict=True)) | result
    content = {
        "device_name": gpu,
        "kernel_name": kernel,
        "problem_size": 1,
        "tune_params_keys": list(columns),
        "tune_params": {name: sorted(set(values)) for name, values in columns.items()},
        "objective": "time",
        "cache": entries,
    }
    path.write_text(json.dumps(content), encoding="utf-8")


def restrictions_of(content: dict[str, Any], folder: Path) -> list[Any]:
    """Make restrictions for Kernel Tuner that let through what the cache has, and nothing else."""
    names, entries = content["tune_params_keys"], list(content["cache"].values())
    path = folder / "restrictions.py"
    export.kernel_tuner({name: [entry[name] for entry in entries] for name in names}, path)
    return runpy.run_path(str(path))["restrictions"]


def reached(cache: Path, content: dict[str, Any], restrictions: list[Any], chosen: Any, budget: int) -> float:
    """Tune in simulation mode; return the share of the best performance that so many evaluations reach."""
    times = [entry["time"] for entry in content["cache"].values() if isinstance(entry["time"], float)]
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that no parameter has the name of a block's size
        _, environment = tune_kernel(
            content["kernel_name"],
            f'extern "C" __global__ void {content["kernel_name"]}() {{}}',
            content["problem_size"],
            [],
            content["tune_params"],
            restrictions=restrictions,
            strategy=chosen,
            strategy_options={"max_fevals": budget},
            simulation_mode=True,
            cache=str(cache),
        )
    return min(times) / environment["best_config"]["time"]


def main() -> None:
    parser = argparse.ArgumentParser(description="dse beside strategies of Kernel Tuner")
    parser.add_argument("--cache", type=Path, help="of Kernel Tuner; without it times are made up")
    parser.add_argument("--kernel", default="transpose")
    parser.add_argument("--gpu", default="a4000")
    parser.add_argument("--budget", type=int, default=30, help="evaluations")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = given.cache or Path(folder) / "cache.json"
        if given.cache is None:
            made_up_cache(given.kernel, given.gpu, cache)
        content = json.loads(cache.read_text(encoding="utf-8"))
        restrictions = restrictions_of(content, Path(folder))
        shares: dict[str, list[float]] = {}
        for seed in range(given.seeds):
            for name in ("dse", *OTHERS):
                random.seed(seed)
                np.random.seed(seed)  # noqa: NPY002, Kernel Tuner draws from it
                chosen = strategy(given.kernel, given.gpu, seed=seed) if name == "dse" else name
                share = reached(cache, content, restrictions, chosen, given.budget)
                shares.setdefault(name, []).append(share)
        for name, values in shares.items():
            print(
                f"{name}: {np.mean(values):.2f} of the best with {given.budget} evaluations, "
                f"mean of {given.seeds} runs"
            )


if __name__ == "__main__":
    main()

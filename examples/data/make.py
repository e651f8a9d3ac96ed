"""Write the sample tables: times by one model with noise, as a file of measurements has them."""

import csv
from pathlib import Path

import numpy as np

import dse

TABLES = {"transpose": "a100", "convolution": "a4000", "gemm": "rtx-3090", "reduction": "a100"}
ROWS = 300  # configurations of a table, evenly over the space


def main(folder: Path = Path(__file__).parent) -> None:
    for kernel, gpu in TABLES.items():
        found = dse.predict(kernel, gpu, models="volkov")
        names = dse.kernel(kernel).space.names
        some = np.unique(np.linspace(0, len(found) - 1, ROWS).round().astype(int))
        noise = np.exp(0.05 * np.random.default_rng(0).normal(size=len(found)))
        milliseconds = 1e3 * np.asarray(found.seconds) * noise
        with (folder / f"{kernel}_{gpu.replace('-', '_')}.csv").open(
            "w", encoding="utf-8", newline=""
        ) as file:
            write = csv.writer(file, lineterminator="\n").writerow
            write([*names, "time_ms"])
            for i in some:
                time = f"{milliseconds[i]:.5g}" if np.isfinite(milliseconds[i]) else ""
                write([*(found.parameters[name][i].item() for name in names), time])


if __name__ == "__main__":
    main()

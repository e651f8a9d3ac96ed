"""Counts from source against hardware counters: `check_counters.py FILE KERNEL GPU [--sample 300] [--json]`.

FILE is a measured table of the kernel (CSV, gzipped or not) with columns named as Nsight Compute names its
counters, and `registers`. A random sample of the configurations that ran is compiled and executed. Prints the
mean, median and largest relative error of each count, over the sample and over configurations with the
table's number of registers: others were compiled to different code.

The counter of L2 reads has instructions too: code that an SM's instruction cache does not hold is read again
and again. Unrolled convolutions on the RTX 2080 Ti have 1.00 to 1.03 times the reads that data explain up to
some 50 KiB of code, 1.8 times beyond 100 KiB.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv

from dse.cli import inputs
from dse.data import measured
from dse.errors import DseError
from dse.evaluate.compare import sample
from dse.hardware import gpus
from dse.report.show import progress, show
from dse.source.kernel import SourceKernel
from dse.source.nvidia.compile.nvrtc import compiler
from dse.source.profiles import KernelProfile


def traffic(profile: KernelProfile, name: str) -> float:
    """Sectors of an average block, by the cache model."""
    return sum(
        phase.passes * getattr(phase.traffic, name)
        for phase in profile.counts.phases
        if phase.traffic is not None
    )


# Counts of an average block, by the counter of the same quantity for the grid.
COUNTERS: dict[str, tuple[str, Callable[[KernelProfile], float]]] = {
    "warp instructions": ("smsp__inst_executed.sum", lambda profile: profile.counts.insts()),
    "FP32 operations": (
        "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum",
        lambda profile: profile.counts.fp32_ops / profile.counts.blocks,
    ),
    "shared-load wavefronts": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        lambda profile: profile.counts.total("shared load", "passes"),
    ),
    "shared-store wavefronts": (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        lambda profile: profile.counts.total("shared store", "passes"),
    ),
    "global-load requests": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        lambda profile: profile.counts.total("global load", "requests"),
    ),
    "local-load sectors": (
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
        lambda profile: profile.counts.total("local load", "sectors"),
    ),
    "local-store sectors": (
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
        lambda profile: profile.counts.total("local store", "sectors"),
    ),
    "L2 read sectors": ("lts__t_sectors_op_read.sum", lambda profile: traffic(profile, "loads_past_l1")),
    "L2 write sectors": ("lts__t_sectors_op_write.sum", lambda profile: traffic(profile, "stores")),
    "DRAM read sectors": ("dram__sectors_read.sum", lambda profile: traffic(profile, "loads_past_l2")),
    "DRAM write sectors": ("dram__sectors_write.sum", lambda profile: traffic(profile, "stores_past_l2")),
}


def errors(ours: np.ndarray, theirs: np.ndarray, which: np.ndarray) -> dict[str, float | int]:
    """Return errors in percent, for configurations with a counter above 0."""
    which = which & (theirs > 0)
    if not which.any():
        return {"configurations": 0}
    errors_percent = 100 * np.abs(ours[which] / theirs[which] - 1)
    return {
        "configurations": int(which.sum()),
        "mean [%]": float(errors_percent.mean()),
        "median [%]": float(np.median(errors_percent)),
        "largest [%]": float(errors_percent.max()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("kernel")
    parser.add_argument("gpu")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="only rows with it; repeatable")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    try:
        description, _ = inputs.description(options.kernel, inputs.settings(options.set))
        gpu = gpus.load(options.gpu)
        table = measured.load(options.file, description)
        rows_of_table = sample(table, description, options.sample, options.seed)
        columns = pyarrow.csv.read_csv(options.file)
        missing = {"registers", *(name for name, _ in COUNTERS.values())} - set(columns.column_names)
        if missing:
            raise DseError(
                f"{options.file}: found no column {min(missing)!r}, expected {len(COUNTERS)} counters"
            )
        parameters = table.rows(rows_of_table).parameters
        results = SourceKernel(description).read(parameters, gpu.gpu, table.problem, progress)
    except DseError as error:
        print(f"check_counters.py: {error}", file=sys.stderr)
        return 2
    done = [index for index, result in enumerate(results) if isinstance(result, KernelProfile)]
    profiles = [result for result in results if isinstance(result, KernelProfile)]
    rows_of_table = rows_of_table[done]
    registers = columns["registers"].to_numpy()[rows_of_table]
    same_registers = registers == np.array([profile.registers for profile in profiles])
    rows: list[dict[str, Any]] = []
    for name, (column, of_block) in COUNTERS.items():
        theirs = columns[column].to_numpy()[rows_of_table].astype(float)
        ours = np.array([of_block(profile) * profile.counts.blocks for profile in profiles])
        for which, label in ((np.ones_like(same_registers), "all"), (same_registers, "same registers")):
            rows.append({"count": name, "of": label} | errors(ours, theirs, which))
    about = {
        "compiler": compiler(),
        "configurations": len(profiles),
        "failures": len(results) - len(profiles),
        "same registers [%]": 100 * float(same_registers.mean()),
    }
    if options.json:
        print(json.dumps(about | {"counts": rows}))
        return 0
    title = ", ".join(
        f"{key}: {value:.1f}" if isinstance(value, float) else f"{key}: {value}"
        for key, value in about.items()
    )
    show(rows, title=title, section="count")
    return 0


if __name__ == "__main__":
    sys.exit(main())

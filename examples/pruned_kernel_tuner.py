"""Restrictions for Kernel Tuner that let through what is worth measuring, and nothing else."""

import runpy
import tempfile
from pathlib import Path

import dse
from dse.bridges import export


def main() -> None:
    kept = dse.prune("convolution", "a4000", risk=0.05)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "restrictions.py"
        export.kernel_tuner(kept, path)
        restrictions = runpy.run_path(str(path))["restrictions"]
    # tune_kernel(..., restrictions=restrictions)
    print(f"{len(kept.rows())} configurations, {len(restrictions)} restriction")


if __name__ == "__main__":
    main()

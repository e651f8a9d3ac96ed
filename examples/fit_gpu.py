"""For who has a GPU that dse predicts badly: fit its numbers to measured times, and see what that gains.

The measured times are made up here, on a GPU whose DRAM reaches less than the catalogue says, so that one can
see whether the fit finds what was planted. Put a file of yours in their place.
"""

import tempfile
from pathlib import Path

import numpy as np

import dse

KERNEL, GPU = "transpose", "a100-pcie-40gb"
PLANTED = 1.5  # times the catalogue's λ of DRAM


def write_times(path: Path, gpu: Path) -> None:
    """Write a table of times as one would measure them: a column a parameter, and one of milliseconds."""
    random = np.random.default_rng(0)
    names = dse.kernel(KERNEL).space.names
    rows = [row for row in dse.rank(KERNEL, gpu).rows() if row["possible"]]
    lines = [",".join([*names, "time_ms"])]
    for row in rows:
        milliseconds = 1e3 * row["time_s"] * (1 + 0.01 * random.normal())
        lines.append(",".join(map(str, [*(row[name] for name in names), milliseconds])))
    path.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        times, slower, fitted = (Path(folder) / name for name in ("times.csv", "slower.toml", "fitted.toml"))
        share = 0.964630225  # of the DRAM's bandwidth, that streaming reaches
        text = dse.gpu(GPU).path.read_text(encoding="utf-8")
        changed = text.replace(f"bandwidth_share = {share}", f"bandwidth_share = {share / PLANTED}")
        slower.write_text(changed, encoding="utf-8")
        write_times(times, slower)

        calibration = dse.fit({KERNEL: times}, GPU, free=["cpi.dram"])
        [row] = calibration.fields()
        found = row["fitted"] / row["catalogue"]
        spread = row["spread_percent"]
        print(f"λ of DRAM: {found:.2f} times the catalogue's (planted: {PLANTED}), ± {spread:.1f} %")
        calibration.write(fitted)
        for name, gpu in (("before", GPU), ("after", fitted)):
            [score, _] = dse.compare(KERNEL, gpu, times, "phase")
            print(f"{name}: mean error of the times {score['mape_percent']:.1f} %")


if __name__ == "__main__":
    main()

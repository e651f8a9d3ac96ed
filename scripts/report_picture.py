"""Take the picture of docs/report.md: a sweep, its report, and a screenshot by Chromium.

    python scripts/report_picture.py [OUT.png]

Needs `chromium`, `chromium-browser` or `google-chrome` on the PATH.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OUT = Path(__file__).parents[1] / "docs" / "figures" / "report.png"
KERNELS = ("convolution", "gemm", "transpose")
GPUS = ("a100-pcie-40gb", "rtx-3090", "h100-sxm")
SIZE = (980, 1480)


def main(out: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("report_picture.py: found no chromium, expected one on the PATH")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dse = [sys.executable, "-c", "from dse.cli.main import run; run()"]
        cards = [word for gpu in GPUS for word in ("-g", gpu)]
        sweep, page = folder / "sweep.parquet", folder / "report.html"
        subprocess.run([*dse, "sweep", *KERNELS, *cards, "-o", str(sweep)], check=True)
        subprocess.run([*dse, "report", str(sweep), "-o", str(page)], check=True)
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options = [f"--user-data-dir={folder / 'profile'}", f"--window-size={SIZE[0]},{SIZE[1]}"]
        options += ["--virtual-time-budget=10000", f"--screenshot={out}", page.as_uri()]
        subprocess.run([browser, *quiet, *options], check=True, capture_output=True)
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)

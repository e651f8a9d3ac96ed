"""The benchmark of the closed forms runs, agrees with NumPy, and prints what others read."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "bench_sweep.py"


def test_quick_run_agrees_with_numpy():
    command = [sys.executable, str(SCRIPT), "--quick", "--json", "--repeats", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads(ended.stdout)
    rates = [
        f"{what}_{precision}_{cores}_per_s"
        for what, cores in (
            ("closed_forms", "one_core"),
            ("closed_forms", "all_cores"),
            ("numpy", "one_core"),
        )
        for precision in ("f32", "f64")
    ]
    assert all(report[key] > 0 for key in rates)
    assert {"machine", "ratio_f32"} <= set(report)

"""The parts of scripts/measure_all.sh, by what it calls: another script stands in for `dse`."""

import os
import re
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "measure_all.sh"
PLAYS = """#!/bin/sh
shift 2
echo "$*" >> "$CALLS"
case "$*" in
*gpu.toml*) for name in gpu.toml records.parquet; do echo x > "$FOLDER/$name"; done ;;
*a100.zip*) exit 2 ;;
*) ;;
esac
"""


def test_each_part_has_the_time_that_is_left_and_one_that_fails_stops_nothing(tmp_path: Path):
    python, calls, folder = tmp_path / "python", tmp_path / "calls", tmp_path / "results"
    python.write_text(PLAYS)
    python.chmod(0o755)
    (tmp_path / "built").mkdir()
    for name in ("a100.zip", "h100.zip"):  # what is built for another GPU fails, and the next is tried
        (tmp_path / "built" / name).write_text("x")

    def run(seconds: int) -> tuple[list[str], list[int], str]:
        """What it wrote, by how many seconds it might take, and what it said."""
        calls.write_text("")
        names = {"PYTHON": str(python), "CALLS": str(calls), "FOLDER": str(folder)}
        command = [SCRIPT, folder, str(seconds)]
        env = {**os.environ, **names}
        ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        lines = calls.read_text().splitlines()
        written = [Path(line.split("-o ")[1].split()[0]).name for line in lines]
        return (
            written,
            [int(seconds) for seconds in re.findall(r"--budget (\d+)", "\n".join(lines))],
            ended.stderr,
        )

    written, budgets, errors = run(520)
    assert written == ["gpu.toml", "a100.parquet", "h100.parquet", "spaces.parquet", "occupancy.parquet"]
    assert "measure_all: failed: dse measure space --built built/a100.zip --repeats 3" in errors
    assert all(0 < seconds <= 520 for seconds in budgets)
    (tmp_path / "built").rename(tmp_path / "elsewhere")
    assert run(60)[0] == ["occupancy.parquet"]  # the GPU is measured already, and there is no time for more

"""Rank a list of kernels from their unchanged files: `check_sources.py LIST [--root DIR] [--gpu NAME]`.

A line of LIST has the arguments of `dse rank` for one kernel, its file first, relative to DIR; lines that
begin with # are remarks:

    package/ops/gate.py:gate --signature "*bf16,*bf16,None,i32" --constexpr DTYPE=tl.bf16 --grid 64 --set n=9

LIST may also be a file of `dse.triton.record`. Each kernel runs in its own process. Prints a JSON
object a kernel: time and bottleneck of its fastest configuration, CPU seconds, the last line of its stderr.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from dse.core.files import read_json, read_text
from dse.errors import DseError


def listed(path: Path) -> list[list[str]]:
    """The arguments of each kernel."""
    if path.suffix == ".json":
        launches = read_json(path)["launches"]
        return [[f"{path.resolve()}:{number}"] for number, _ in enumerate(launches, 1)]
    text = read_text(path)
    return [shlex.split(line) for line in text.splitlines() if line.strip() and line[0] != "#"]


def ranked(arguments: list[str], root: Path, gpu: str) -> dict[str, Any]:
    """Run `dse rank` on a kernel, and return a row of results."""
    before = os.times()
    command = [sys.executable, "-m", "dse", "rank", *arguments, "--gpu", gpu, "--json", "--top", "1"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True)
    after = os.times()
    rows = json.loads(run.stdout) if run.returncode == 0 else []
    row = rows[0] if rows else {}
    return {
        "kernel": arguments[0],
        "gpu": gpu,
        "read": row.get("time_s") is not None,
        "time_s": row.get("time_s"),
        "bottleneck": row.get("bottleneck"),
        "cpu_s": round(sum(after[2:4]) - sum(before[2:4]), 1),
        "words": (run.stderr.strip().splitlines() or [""])[-1],
    }


def main() -> None:
    """Print a line for each kernel as it ends; the exit status is 0 if all were read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("list", type=Path, metavar="LIST")
    parser.add_argument("--root", type=Path, default=Path(), metavar="DIR")
    parser.add_argument("--gpu", default="h100-sxm")
    options = parser.parse_args()
    unread = 0
    for arguments in listed(options.list):
        row = ranked(arguments, options.root, options.gpu)
        print(json.dumps(row), flush=True)
        unread += not row["read"]
    sys.exit(bool(unread))


if __name__ == "__main__":
    try:
        main()
    except DseError as error:
        print(f"check_sources.py: {error}", file=sys.stderr)
        sys.exit(2)

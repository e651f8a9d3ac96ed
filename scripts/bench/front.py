"""The common front of the benchmarks: options, one core, clocks, the machine, and JSON or text."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any


def parser(document: str | None) -> argparse.ArgumentParser:
    """Make a parser with `--json`, described by the first line of a script's docstring."""
    front = argparse.ArgumentParser(description=(document or "").splitlines()[0])
    front.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return front


def pin(core: int | None = None) -> int:
    """Keep this thread on one core, the first it may use by default; call it before JAX counts cores."""
    cores = usable_cores()
    core = cores[0] if core is None else core
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    return core


def usable_cores() -> list[int]:
    """List the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, Any]:
    """Return the seconds of a call, by default of CPU time, and its result."""
    start = clock()
    result = work()
    return clock() - start, result


def rates(work: Callable[[], Any], amount: float, repeats: int = 1) -> dict[str, list[float]]:
    """Return the amounts a second of repeated calls, by wall time (`wall`) and by CPU time (`cpu`)."""
    rounds: dict[str, list[float]] = {"wall": [], "cpu": []}
    for _ in range(repeats):
        wall, (cpu, _) = timed(lambda: timed(work), time.perf_counter)
        rounds["wall"].append(amount / wall)
        rounds["cpu"].append(amount / cpu)
    return rounds


def machine() -> dict[str, Any]:
    """Describe the machine: `cpu`, `cores`, `load_1_min`."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return {"cpu": name, "cores": len(usable_cores()), "load_1_min": os.getloadavg()[0]}


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of packages."""
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def in_process(script: str, *arguments: str) -> Any:
    """Run a script in another process, and return the JSON that it prints."""
    command = [sys.executable, script, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)

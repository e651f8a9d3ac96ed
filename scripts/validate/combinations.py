"""Random combinations of documented options over kernels and GPUs: `combinations.py [--count N] [--seed N]`.

Each command must give an answer (exit code 0, or 1 of a check) or one line (exit code 2) in time.
Anything else is listed: a crash, a traceback, more than one line.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from dse import kernels
from dse.hardware import gpus
from dse.models import CLOSED_FORMS, MODELS

PIPELINE = {
    "--scheduler": ("rr", "gto", "oldest"),
    "--order": ("program", "dataflow"),
    "--groups": ("1", "2", "7", "64"),
}
CHANGES = (
    *("conflicts=off", "barriers=off", "uncoalesced=off", "dram=off", "blocks=1", "scheduler=gto"),
    *("order=dataflow", "issue_limit=4", "sfu.lambda=1", "dram.Lambda=0.5x", "tensor.lambda=2x"),
)
COMMANDS = {  # and the values of its options; None: a flag
    "rank": PIPELINE
    | {
        "--model": ("pipeline", *CLOSED_FORMS),
        "--top": ("0", "1", "5"),
        "--diverse": None,
        "--sample": ("1", "20"),
        "--cascade": ("phase:5%,roofline:3", "volkov:10,pipeline:2"),
        "--json": None,
        "--csv": None,
        "--wide": None,
    },
    "simulate": PIPELINE | {"--what-if": CHANGES, "--warps": ("1", "8", "32"), "--teg": None, "--json": None},
    "occupancy-curve": PIPELINE | {"--model": tuple(MODELS), "--json": None, "--csv": None},
    "sweep": PIPELINE
    | {
        "--model": tuple(MODELS),
        "--top": ("1", "3"),
        "--pareto": ("time_s,registers", "time_s,threads"),
        "--histogram": None,
        "--counts": None,
        "--per": ("gpu", "size,gpu", "model"),
        "--where": ("time_s < 1e-3", "occupancy > 0.5 and possible"),
        "--json": None,
    },
    "search": {
        "--trials": ("1", "20"),
        "--sampler": ("tpe", "random", "qmc", "nsga2", "nsga3", "cmaes"),
        "--objective": ("time", "time,registers", "time,registers,shared"),
        "--seed": ("0", "7"),
        "--json": None,
    },
    "prune": {"--risk": ("0.01", "0.5"), "--within": ("0.01", "0.2"), "--top": ("0", "3"), "--json": None},
}


def drawn(rng: random.Random) -> list[str]:
    """Draw a command with some of its options."""
    command = rng.choice(list(COMMANDS))
    words = [command, rng.choice(kernels.names()), "--gpu", rng.choice(gpus.names())]
    options = COMMANDS[command]
    for name in rng.sample(list(options), rng.randint(0, min(4, len(options)))):
        values = options[name]
        words += [name] if values is None else [name, rng.choice(values)]
    return words + (["--storage", "none"] if command == "search" else [])


def wrong(words: list[str], seconds: float) -> str:
    """Run a command; "" if it answers, or refuses in one line."""
    with tempfile.TemporaryDirectory() as folder:
        ask = [sys.executable, "-m", "dse.cli.entry", "-q", *words]
        try:
            ran = subprocess.run(
                ask, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return f"over {seconds:g} s"
    lines = [line for line in ran.stderr.splitlines() if not line.startswith(("assumed: ", "dse: warning: "))]
    if ran.returncode in (0, 1) and not lines:
        return ""
    if ran.returncode == 2 and len(lines) == 1:
        return ""
    return f"exit code {ran.returncode}: {lines[-1] if lines else 'no line'}"


def main() -> int:
    """Run all; the exit code is 1 where one went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of one command")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    commands = [drawn(rng) for _ in range(options.count)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda words: wrong(words, options.seconds), commands))
    failed = {" ".join(words): how for words, how in zip(commands, results, strict=True) if how}
    counts = Counter(words[0] for words in commands)
    if options.json:
        print(json.dumps({"commands": counts, "seed": options.seed, "wrong": failed}, indent=2))
    else:
        print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        print("\n".join(f"{command}: {how}" for command, how in failed.items()) or "none wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

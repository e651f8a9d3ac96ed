"""What memory a large simulation takes: `check_memory.py [--cases N] [--json]`.

N cases (100,000 unless told), each with a program of its own (32 to 128 instructions, 1 to 32 warps), are
simulated in one call. Prints the largest resident size of the process; exit code 1 above 2 GB.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench_simulate import MIXED, cases

from dse.simulator import simulate

ALLOWED = 2e9  # bytes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    made = cases(arguments.cases, *MIXED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    entries = int(simulate(made).entries.sum())
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = {
        "cases": len(made),
        "entries": entries,
        "seconds": seconds,
        "cases_bytes": before,
        "peak_bytes": peak,
    }
    if arguments.json:
        print(json.dumps(found))
    else:
        print(
            f"{len(made):,} cases, {entries:,} entries in {seconds:.1f} s: at most {peak / 1e9:.2f} GB,"
            f" {before / 1e9:.2f} GB of them the cases"
        )
    return 1 if peak > ALLOWED else 0


if __name__ == "__main__":
    sys.exit(main())

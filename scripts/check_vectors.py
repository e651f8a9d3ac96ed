"""Compare the simulator with a file of vectors: `check_vectors.py pipeline_vectors.json [--json]`.

The file holds cases of the Pipeline simulator and what independent implementations found
(`{"format": "pipeline-vectors 1", "cases": [{..., "expect": {...}}]}`). Makespans, entries and the counts
along the critical path have to be equal, busy shares within 1e-9. One line of totals, above it one for each
case that misses. Exit code 1 where one does, 2 where the file cannot be read.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.simulator import Critical, read_case, simulate

ALLOWED = 1e-9  # of a busy share
FORMAT = "pipeline-vectors 1"
COUNTS = {"lam": "throughput_cycles", "Lam": "latency_cycles", "self": "same_warp"}  # the file's names, ours


def same_counts(found: Critical, expected: dict[str, Any]) -> bool:
    """Whether every count of the critical path is as the file has it."""
    if found.valve != expected["valve"]:
        return False
    return all(
        [counts.tolist() for counts in getattr(found, ours)] == expected[name]
        for name, ours in COUNTS.items()
    )


def check(path: str) -> dict[str, Any]:
    """How many cases hold, and which miss what."""
    try:
        content = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise DseError(f"{path}: {error}") from None
    found = content.get("format") if isinstance(content, dict) else type(content).__name__
    if found != FORMAT:
        raise DseError(f"{path}: format: found {found!r}, expected {FORMAT!r}")
    vectors = content["cases"]
    result = simulate([read_case(v, f"{path}: case {v.get('id')}") for v in vectors], critical=True)
    assert result.critical is not None
    held = {"makespan": 0, "entries": 0, "critical": 0, "busy": 0}
    missed = []
    for n, vector in enumerate(vectors):
        expect = vector["expect"]
        busy = result.busy(n)
        close = len(busy) == len(expect["busy"]) and np.allclose(
            busy, np.asarray(expect["busy"], float), rtol=0, atol=ALLOWED, equal_nan=True
        )
        holds = {
            "makespan": result.makespan[n] == expect["makespan"],
            "entries": result.entries[n] == expect["entries"],
            "critical": same_counts(result.critical[n], expect["critical"]),
            "busy": close,
        }
        for name, good in holds.items():
            held[name] += bool(good)
        if not all(holds.values()):
            missed.append(
                {"id": vector.get("id"), "missed": [name for name, good in holds.items() if not good]}
            )
    return {
        "cases": len(vectors),
        "held": held,
        "in_ticks": int(result.in_ticks.sum()),
        "entries": int(result.entries.sum()),
        "missed": missed,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    try:
        found = check(arguments.file)
    except DseError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(found))
    else:
        for miss in found["missed"]:
            print(f"case {miss['id']}: missed {', '.join(miss['missed'])}")
        held = ", ".join(f"{name} {count}" for name, count in found["held"].items())
        floats = found["cases"] - found["in_ticks"]
        print(f"{found['cases']} cases: {held} hold; {found['in_ticks']} in ticks, {floats} in float64")
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())

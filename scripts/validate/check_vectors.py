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

from dse.errors import DseError
from dse.reproduce.simulator_vectors import compare


def main() -> int:
    """Print the comparison; the exit code says whether all cases hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    try:
        totals = compare(json.loads(Path(arguments.file).read_text()), arguments.file)
    except DseError as error:
        print(error, file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"{arguments.file}: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(totals))
    else:
        for miss in totals["missed"]:
            print(f"case {miss['id']}: missed {', '.join(miss['missed'])}")
        held = ", ".join(f"{name} {count}" for name, count in totals["held"].items())
        floats = totals["cases"] - totals["in_ticks"]
        print(f"{totals['cases']} cases: {held} hold; {totals['in_ticks']} in ticks, {floats} in float64")
    return 1 if totals["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())

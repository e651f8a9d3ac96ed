"""Compare every closed form with a file of vectors: `check_models.py model_vectors.json [--json]`.

The file holds, for each model, inputs and the results of an independent implementation in plain Python
(`{"format": "model-vectors 1", "models": {name: [{"in": {...}, "out": {...}}]}}`). One line a model: the
worst relative error in float64, which may be at most 1e-9. Exit code 1 where one is worse, 2 where the file
cannot be read. Models that `dse` does not have yet are reported as absent.
"""

import argparse
import json
import sys
from pathlib import Path

from dse.reproduce.model_vectors import ALLOWED, compare


def main() -> int:
    """Print the comparison; the exit code says whether all models passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    try:
        rows = [compare(*item) for item in json.loads(options.vectors.read_text())["models"].items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        print(f"{options.vectors}: found {problem!r}, expected a file of model vectors", file=sys.stderr)
        return 2
    passed = all(row["worst"] is None or row["worst"] <= ALLOWED for row in rows)
    if options.json:
        print(json.dumps({"allowed": ALLOWED, "passed": passed, "models": rows}))
        return 0 if passed else 1
    for row in rows:
        verdict = "absent"
        if row["worst"] is not None:
            verdict = f"worst relative error {row['worst']:.1e}"
            verdict += "" if row["worst"] <= ALLOWED else f"  FAILED at {row['at']}"
        print(f"{row['model']:30} {row['cases']:4} cases  {verdict}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

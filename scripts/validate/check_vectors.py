"""Compare the simulator with a file of vectors: `check_vectors.py pipeline_vectors.json [--json]`.

The file holds cases of the Pipeline simulator and what independent implementations found
(`{"format": "pipeline-vectors 1", "cases": [{..., "expect": {...}}]}`). Makespans, entries and the counts
along the critical path have to be equal, busy shares within 1e-9. One line of totals, above it one for each
case that misses. Exit code 1 where one does, 2 where the file cannot be read.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dse.errors import DseError
from dse.simulator import Case, Critical, Program, simulate
from dse.simulator.case.program import MOST_SUBSYSTEMS

ALLOWED = 1e-9  # of a busy share
FORMAT = "pipeline-vectors 1"
COUNTS = {"lam": "throughput_cycles", "Lam": "latency_cycles", "self": "same_warp"}  # the file's names, ours


def read_case(raw: Mapping[str, Any], where: str = "case") -> Case:
    """Read a case from its JSON form, in the symbols of the papers: `null` in `cap` and `IL` is no limit.

    **Errors:** DseError that starts with `where`.
    """
    try:
        count = raw["S"]
        if not 1 <= count <= MOST_SUBSYSTEMS:
            raise DseError(f"S: found {count}, expected 1 to {MOST_SUBSYSTEMS}")
        caps = [math.inf if cap is None else cap for cap in raw["cap"]]
        if len(caps) != count:
            raise DseError(f"cap: found {len(caps)} values, expected {count}")
        return Case(
            programs=tuple(_read_program(p, count) for p in raw["programs"]),
            warps=raw["W"],
            slots=raw["g"],
            groups=raw["G"],
            issue_limit=math.inf if raw["IL"] is None else raw["IL"],
            caps=tuple(caps),
            order=raw["order"],
            scheduler=raw["scheduler"],
            assignment=tuple(raw["prog"]),
        )
    except KeyError as error:
        raise DseError(f"{where}: {error.args[0]}: missing") from None
    except (TypeError, ValueError, DseError) as error:
        raise DseError(f"{where}: {error}") from None


def _read_program(raw: Mapping[str, Any], subsystems: int) -> Program:
    numbers: Sequence[int] = raw["s"]
    if any(not 0 <= s < subsystems for s in numbers):
        raise DseError(f"s: found {max(numbers)}, expected 0 to {subsystems - 1}")
    return Program(
        subsystem=np.asarray(numbers),
        throughput_cycles=np.asarray(raw["lam"], np.float64),
        latency_cycles=np.asarray(raw["Lam"], np.float64),
        preds=tuple(tuple(js) for js in raw["dep"]),
        kind=raw["kind"],
        same_warp=np.asarray(raw.get("self", ())),
    )


def same_counts(ours: Critical, expected: Mapping[str, Any]) -> bool:
    """Whether all counts of the critical path equal the file's."""
    if ours.valve != expected["valve"]:
        return False
    return all(
        [counts.tolist() for counts in getattr(ours, field)] == expected[name]
        for name, field in COUNTS.items()
    )


def compare(content: Any, where: str) -> dict[str, Any]:
    """Count the cases of a file that agree, and list the others.

    **Raises:** DseError that starts with `where` for a file of another form.
    """
    form = content.get("format") if isinstance(content, dict) else type(content).__name__
    if form != FORMAT:
        raise DseError(f"{where}: format: found {form!r}, expected {FORMAT!r}")
    vectors = content["cases"]
    cases = [read_case(v, f"{where}: case {v.get('id')}") for v in vectors]
    result, in_float64 = simulate(cases), simulate(cases, critical=True)
    assert in_float64.critical is not None
    held = {"makespan": 0, "entries": 0, "critical": 0, "busy": 0}
    missed = []
    for number, vector in enumerate(vectors):
        expect = vector["expect"]
        busy = result.busy(number)
        close = len(busy) == len(expect["busy"]) and np.allclose(
            busy, np.asarray(expect["busy"], float), rtol=0, atol=ALLOWED, equal_nan=True
        )
        holds = {
            "makespan": result.makespan[number] == in_float64.makespan[number] == expect["makespan"],
            "entries": result.entries[number] == expect["entries"],
            "critical": same_counts(in_float64.critical[number], expect["critical"]),
            "busy": close,
        }
        for name, good in holds.items():
            held[name] += bool(good)
        misses = [name for name, good in holds.items() if not good]
        if misses:
            missed.append({"id": vector.get("id"), "missed": misses})
    return {
        "cases": len(vectors),
        "held": held,
        "in_ticks": int(result.in_ticks.sum()),
        "entries": int(result.entries.sum()),
        "missed": missed,
    }


def main() -> int:
    """Print the comparison; the exit code is 0 if all cases agree."""
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

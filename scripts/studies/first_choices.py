"""First choices among an autotuner's candidates, by four orders: `first_choices.py FOLDER [--gpu NAME]`.

A folder has tables of candidates (m, n, k, a_dtype, b_dtype, BLOCK_M, BLOCK_N, BLOCK_K, num_stages,
num_warps, time_ms, library_ms), as PyTorch's Inductor times them. Of each problem it says how near the
best of the first one and the first three comes to the best candidate, on average over problems:

- ours: as `dse.inductor.choices` cuts them (no problem of the table is looked at),
- popularity: how often a configuration was within 1 % of the best in the other half of the table's problems,
- random: the expectation,
- library: its time, without a choice.
"""

import argparse
import json
import sys
from collections import Counter
from math import comb
from pathlib import Path

import numpy as np
import pyarrow.csv as csv

from dse.accuracy.markdown import table
from dse.bridges.calls import Call, Tensor
from dse.bridges.inductor import ranked
from dse.errors import DseError
from dse.hardware.gpus import GpuFile, load

FIRST = (1, 3)
NEAR = 1.01
PROBLEM = ("m", "n", "k", "a_dtype", "b_dtype", "a_layout", "b_layout", "tf32")
CONFIGURATION = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps")


def main() -> None:
    """Score, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", default="a100-sxm4-80gb")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    files = sorted(given.folder.rglob("*.csv*"))
    if not files:
        raise DseError(f"{given.folder}: found no CSV, expected tables of candidates")
    rows = [row for path in files for row in scored(path, load(given.gpu))]
    if given.json:
        print(json.dumps(rows, indent=1))
    elif rows:
        print(table(list(rows[0]), [list(map(str, row.values())) for row in rows]))


def scored(path: Path, file: GpuFile) -> list[dict]:
    """Score one table: a row for each order."""
    read = csv.read_csv(path)
    if not {*PROBLEM[:5], *CONFIGURATION, "time_ms"} <= {*read.column_names}:
        print(f"{path}: no products of matrices, passed over", file=sys.stderr)
        return []
    problems: dict[tuple, list[dict]] = {}
    for row in read.to_pylist():
        if row["time_ms"] is not None:
            problems.setdefault(tuple(row.get(name) for name in PROBLEM), []).append(row)
    found: dict[str, list[list[float]]] = {"ours": [], "popularity": [], "random": [], "library": []}
    counted = [Counter(), Counter()]
    halves = {problem: place % 2 for place, problem in enumerate(problems)}
    for problem, rows in problems.items():
        best = min(row["time_ms"] for row in rows)
        counted[halves[problem]].update(named(row) for row in rows if row["time_ms"] <= NEAR * best)
    for problem, rows in problems.items():
        times = np.array([row["time_ms"] for row in rows])
        best, popular = times.min(), counted[1 - halves[problem]]
        order = ours(file, rows)
        if order is None:
            continue
        by_count = sorted(range(len(rows)), key=lambda place: -popular[named(rows[place])])
        found["ours"].append([best / times[order[:k]].min() for k in FIRST])
        found["popularity"].append([best / times[by_count[:k]].min() for k in FIRST])
        found["random"].append([expected(best / np.sort(times), k) for k in FIRST])
        if rows[0].get("library_ms"):
            found["library"].append([best / rows[0]["library_ms"]] * len(FIRST))
    return [
        {"table": path.name.partition(".")[0], "order": by, "problems": len(scores), "of": len(problems)}
        | {
            f"first_{k}": round(float(np.mean([one[place] for one in scores])), 3)
            for place, k in enumerate(FIRST)
        }
        for by, scores in found.items()
        if scores
    ]


def named(row: dict) -> tuple:
    """The configuration of a row."""
    return tuple(row[name] for name in CONFIGURATION)


def expected(shares: np.ndarray, k: int) -> float:
    """The best of `k` at random, on average; `shares` of the best, the fastest first."""
    count = len(shares)
    if k >= count:
        return float(shares[0])
    chances = [comb(count - place - 1, k - 1) / comb(count, k) for place in range(count - k + 1)]
    return float(np.dot(shares[: len(chances)], chances))


def ours(file: GpuFile, rows: list[dict]) -> list[int] | None:
    """Places of rows as the choices for Inductor have them; None where operands are of no known kind."""
    m, n, k, a, b = (rows[0][name] for name in PROBLEM[:5])
    call = Call("mm", (Tensor.of(a, (m, k)), Tensor.of(b, (k, n))))
    if not call.product:
        return None
    choices = [Choice(place, one) for place, one in enumerate(rows)]
    places = [one.place for one in ranked(file, choices, call, len(rows))]
    return places + [place for place in range(len(rows)) if place not in places]


class Choice:
    """A candidate as Inductor hands it over."""

    def __init__(self, place: int, row: dict) -> None:
        self.place, self.row, self.params = place, row, self

    def to_kwargs(self) -> dict:
        """The template's arguments."""
        return self.row


if __name__ == "__main__":
    main()

"""Check whether pruning keeps its promise, and how much: `calibrate_pruning.py DIR [--json] [-o PAGE]`.

DIR is as for evaluate_spaces.py; spaces without a kernel are left out. For each file: where the first
configuration within 5 % of the optimum stands in the model's order, and in the better of that and the order
refitted to 50 measurements (the worst of --draws), which is what `dse.pruning.keep` knows of measured spaces:
--calibration writes it to a file, as dse/pruning/calibration.toml is, and ends. Otherwise, over --trials
random calibrations of each size, how often the kept set held a configuration within 5 % of the optimum and
the median share kept: with all spaces known, and with those of other kernels on other GPUs only (`apart`).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from dse.accuracy.spaces import files
from dse.accuracy.tuning import from_description
from dse.errors import DseError
from dse.files import fill, replacing
from dse.measured.read import Measured
from dse.models import DEFAULT as MODEL
from dse.pruning import calibration
from dse.pruning.calibration import KnownSpaces
from dse.pruning.keep import SPREADS, keep
from dse.report.show import show
from dse.tuning.candidates import Candidates
from dse.tuning.tuner import Tuner

WITHIN, RISK = 0.05, 0.05
REFITTED_TO = 50
SIZES = (20, 50, 100)


@dataclass(frozen=True)
class CalibratedSpace:
    """One measured file of a described kernel."""

    name: str
    gpu: str
    kernel: str
    seconds: np.ndarray  # infinite where it failed
    candidates: Candidates
    by_model: float  # depths
    refitted: float

    @property
    def nearly(self) -> np.ndarray:
        """Mark the configurations that are nearly the fastest."""
        return self.seconds <= self.seconds.min() * (1 + WITHIN)


def space(path: Path, draws: int) -> CalibratedSpace | None:
    """Measure the depths of one file; None if its kernel is not described."""
    described = from_description(path, MODEL, note=lambda message: print(message, file=sys.stderr))
    if described is None:
        return None
    kernel, table, candidates = described
    seconds = _seconds(table)
    nearly = seconds <= seconds.min() * (1 + WITHIN)
    order = np.where(candidates.possible, candidates.log_s, np.inf)
    by_model = rankdata(order, "min")[nearly].min() / len(order)
    worst = 0.0
    for seed in range(draws):
        mean, deviation = Tuner(candidates, told=_told(seconds, REFITTED_TO, seed)).predict()
        lower = np.where(candidates.possible, mean - SPREADS * deviation, np.inf)
        worst = max(worst, rankdata(lower, "min")[nearly].min() / len(order))
    gpu = path.name.split(".")[0]
    return CalibratedSpace(path.parent.name, gpu, kernel, seconds, candidates, by_model, min(by_model, worst))


def _seconds(table: Measured) -> np.ndarray:
    return np.where(table.ok, table.time_s, np.inf)


def _told(seconds: np.ndarray, count: int, seed: int) -> dict[int, float]:
    """Take measurements at random, failures included."""
    places = np.random.default_rng(seed).permutation(len(seconds))[:count]
    return {int(place): float(seconds[place]) for place in places}


def calibrated(spaces: Sequence[CalibratedSpace], draws: int) -> KnownSpaces:
    """Collect the depths that were found in spaces."""
    return KnownSpaces(
        MODEL,
        WITHIN,
        REFITTED_TO,
        draws,
        tuple(
            calibration.KnownSpace(
                space.name, space.kernel, space.gpu, len(space.seconds), space.by_model, space.refitted
            )
            for space in spaces
        ),
    )


def rows(spaces: Sequence[CalibratedSpace], draws: int, trials: int) -> list[dict[str, Any]]:
    """Prune each space after each size of calibration: a row each."""
    table = []
    for space in spaces:
        others = [x for x in spaces if x.kernel != space.kernel and x.gpu != space.gpu]
        apart = calibrated(others, draws)
        for size in (0, *SIZES):
            row: dict[str, Any] = {"space": space.name, "gpu": space.gpu, "measured": size}
            row["nearly fastest [%]"] = 100 * float(space.nearly.mean())
            if not size:
                row |= {"depth by model [%]": 100 * space.by_model, "refitted [%]": 100 * space.refitted}
            for name, known in (("", calibration.load()), (" apart", apart)):
                if len(known.spaces) < 2:
                    continue
                kept = [
                    keep(space.candidates, RISK, WITHIN, _told(space.seconds, size, 1000 + trial), known)
                    for trial in range(trials if size else 1)
                ]
                holds = [bool(space.nearly[one.places].any()) for one in kept]
                row[f"holds{name}"] = float(np.mean(holds))
                row[f"kept{name} [%]"] = 100 * float(np.median([one.share for one in kept]))
            table.append(row)
            print(f"{space.name} on {space.gpu}, {size} measured", file=sys.stderr)
    return table


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarise all files, by the size of the calibration; shares over spaces that are not flat."""
    result = []
    for size in (0, *SIZES):
        some = [row for row in rows if row["measured"] == size]
        uneven = [row for row in some if row["nearly fastest [%]"] < 5]
        result.append(
            {"measured": size, "files": len(some)}
            | {
                f"holds{name}": float(np.mean([row[f"holds{name}"] for row in some]))
                for name in ("", " apart")
                if all(f"holds{name}" in row for row in some)
            }
            | {
                f"kept{name} [%]": float(np.median([row[f"kept{name} [%]"] for row in uneven]))
                for name in ("", " apart")
                if all(f"kept{name} [%]" in row for row in uneven)
            }
        )
    return result


def markdown(table: Sequence[dict[str, Any]]) -> str:
    """Write rows as a table in Markdown."""
    names = list(dict.fromkeys(name for row in table for name in row))
    lines = ["| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    for row in table:
        cells = [row.get(name, "") for name in names]
        lines.append("| " + " | ".join(f"{x:.3g}" if isinstance(x, float) else f"{x}" for x in cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers, to be filled")
    parser.add_argument("--calibration", type=Path, help="write what was found in the spaces there, no more")
    options = parser.parse_args()
    try:
        spaces = [one for path in files(options.folder) if (one := space(path, options.draws))]
        if not spaces:
            raise DseError(f"{options.folder}: found no table of a described kernel, expected some")
        if options.calibration:
            with replacing(options.calibration) as path:
                path.write_text(calibrated(spaces, options.draws).text(), encoding="utf-8")
            return 0
        table = rows(spaces, options.draws, options.trials)
        if options.json:
            print(json.dumps({"rows": table, "summary": summary(table)}))
        elif options.out is None:
            show(table, title="Pruning")
            show(summary(table), title="All")
        else:
            fill(options.out, "pruning", f"{markdown(summary(table))}\n\n{markdown(table)}")
    except DseError as error:
        print(f"calibrate_pruning.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Calibrate pruning, and check its risk: `calibrate_pruning.py DIR [--json] [-o PAGE]`.

DIR is as for `dse accuracy tuning`; spaces without a kernel are left out, with a note. The calibration of
each file (`dse.explore.prune.calibration`) comes from --slices of it; --calibration writes it to a file such
as dse/explore/prune/calibration.toml. With --json or -o, or without --calibration, it is tested over --trials
random sets of measurements of each size: how often the kept set contained a configuration within 5 % of the
optimum, and the median share kept, with the calibration of other kernels on other GPUs only. --known FILE
reads a calibration written before; tables that it lacks are held out.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from ending import run_script

from dse.accuracy import markdown
from dse.accuracy.known import from_description
from dse.accuracy.spaces import files
from dse.core.files import fill, replacing
from dse.core.jax_cache import cache
from dse.data.scores import spearman
from dse.errors import DseError
from dse.explore.prune.calibration import LEVELS, KnownSpace, KnownSpaces, load
from dse.explore.prune.keep import keep
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.tuner import Tuner
from dse.models import DEFAULT as MODEL
from dse.report.show import show

WITHIN, RISK = 0.05, 0.05
SIZES = (0, 20, 50, 100)
EXPLAINED = 0.7  # Spearman's rank correlation from which the model explains a space
FEWEST = 64  # configurations of a slice
REFIT_SIZES = (20, 50, 100)  # measurements to which slices are refitted, in turn
REFITTED = 5  # every fifth slice, since that takes longest
MOST = 64  # of the nearly fastest, evaluated by the surrogate
BEYOND = 10.0  # value of a slice whose nearly fastest are impossible by the model


@dataclass(frozen=True)
class MeasuredSpace:
    """One measured file of a described kernel."""

    name: str
    gpu: str
    kernel: str
    seconds: np.ndarray  # infinite for failures
    candidates: Candidates


def known(
    space: str, kernel: str, gpu: str, candidates: Candidates, seconds: np.ndarray, within: float, count: int
) -> KnownSpace:
    """Calibrate on a measured space; `seconds` [N] are infinite for failures."""
    ran = np.isfinite(seconds)
    expected = ran & candidates.possible
    missed = np.log(seconds[expected]) - candidates.log_s[expected]
    margins, spreads = [], []
    for seed, part in enumerate(slices(candidates, seconds, count)):
        random = np.random.default_rng(seed)
        margins.append(margin(candidates, seconds, part, within))
        turn, remainder = divmod(seed, REFITTED)
        if not remainder:
            measured = min(REFIT_SIZES[turn % len(REFIT_SIZES)], len(part) // 2)
            spreads.append(below(candidates, seconds, part, within, measured, random))
    levels = np.array(LEVELS)
    return KnownSpace(
        space,
        kernel,
        gpu,
        len(candidates),
        spearman(candidates.log_s[ran], seconds[ran]) or 0.0,
        float(np.std(candidates.log_s[candidates.possible])),
        float(np.std(missed)),
        tuple(map(float, np.quantile(margins, levels, method="higher"))),
        tuple(map(float, np.quantile(spreads, levels, method="higher"))),
    )


def slices(candidates: Candidates, seconds: np.ndarray, count: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield the whole space, and random slices with some parameters restricted to some of their values.

    Each has at least FEWEST configurations, of which half ran.
    """
    random, columns = np.random.default_rng(seed), list(candidates.varying.values())
    left, tries = count - 1, 100 * count
    yield np.arange(len(candidates))
    while left and tries:
        tries -= 1
        in_slice = np.ones(len(candidates), bool)
        for number in random.permutation(len(columns))[: random.integers(1, max(2, len(columns)))]:
            values = np.unique(columns[number])
            allowed = random.permutation(values)[: random.integers(1, max(2, len(values)))]
            in_slice &= np.isin(columns[number], allowed)
        if in_slice.sum() >= FEWEST and np.isfinite(seconds[in_slice]).mean() >= 0.5:
            left -= 1
            yield np.flatnonzero(in_slice)


def nearly(seconds: np.ndarray, within: float) -> np.ndarray:
    """Mask configurations within tolerance of the optimum."""
    return seconds <= seconds.min() * (1 + within)


def margin(candidates: Candidates, seconds: np.ndarray, in_slice: np.ndarray, within: float) -> float:
    """Margin of the first nearly fastest over the fastest prediction in log time, over the errors' spread.

    In a slice of the candidates; the spread is that of the model's errors there.
    """
    log_s, times, possible = (x[in_slice] for x in (candidates.log_s, seconds, candidates.possible))
    good = nearly(times, within) & possible
    if not good.any():
        return BEYOND
    expected = possible & np.isfinite(times)
    spread = np.std(np.log(times[expected]) - log_s[expected])
    return float(min(BEYOND, (log_s[good].min() - log_s[possible].min()) / spread))


def below(
    candidates: Candidates,
    seconds: np.ndarray,
    in_slice: np.ndarray,
    within: float,
    measured: int,
    random: np.random.Generator,
) -> float:
    """Deviations by which the surrogate overestimates the nearly fastest, refitted to `measured` times.

    Of the least overestimated one: its lower bound must fall below the time that beats the best measured one.
    """
    places = random.permutation(in_slice)[:measured]
    good = in_slice[nearly(seconds[in_slice], within)]
    if np.isin(places, good).any():
        return 0.0
    good = good[candidates.possible[good]]
    if not len(good):
        return BEYOND
    ran = places[np.isfinite(seconds[places])]
    tuner = Tuner(candidates, times={int(index): float(seconds[index]) for index in ran})
    mean, deviation = tuner.surrogate(candidates.points.rows(good[:MOST]))
    mean = mean + candidates.expected[good[:MOST]]
    beaten = np.log(seconds[ran].min()) - np.log1p(within)
    return float(np.clip((mean - beaten) / deviation, 0.0, BEYOND).min())


def spaces(folder: Path) -> Iterator[MeasuredSpace]:
    """Read the files whose kernels are described."""
    for path in files(folder):
        described = from_description(path, MODEL, note=_tell)
        if described is None:
            _tell(f"{path}: no kernel lists the space {path.parent.name}: left out")
            continue
        _, kernel, table, candidates = described
        seconds = np.where(table.ok, table.time_s, np.inf)
        yield MeasuredSpace(path.parent.name, path.name.split(".")[0], kernel, seconds, candidates)


def learned(measured: Sequence[MeasuredSpace], slices: int) -> KnownSpaces:
    """Calibrate on all spaces."""
    known_spaces = []
    for x in measured:
        known_spaces.append(known(x.name, x.kernel, x.gpu, x.candidates, x.seconds, WITHIN, slices))
        _tell(f"{x.name} on {x.gpu}: spread {known_spaces[-1].spread:.2f}")
    return KnownSpaces(MODEL, WITHIN, slices, tuple(known_spaces))


def rows(
    measured_spaces: Sequence[MeasuredSpace], all_known: KnownSpaces, trials: int
) -> list[dict[str, Any]]:
    """Prune each space with each number of measurements, by the calibration of others: a row for each."""
    table = []
    for space in measured_spaces:
        others = [x for x in all_known.spaces if x.kernel != space.kernel and x.gpu != space.gpu]
        calibration = replace(all_known, spaces=tuple(others))
        good, ran = nearly(space.seconds, WITHIN), np.isfinite(space.seconds)
        explained = spearman(space.candidates.log_s[ran], space.seconds[ran]) or 0.0
        for size in SIZES:
            prunings = [
                keep(space.candidates, RISK, WITHIN, _drawn(space.seconds, size, trial), calibration)
                for trial in range(trials if size else 1)
            ]
            row: dict[str, Any] = {"space": space.name, "gpu": space.gpu, "measured": size}
            row |= {"spearman": explained, "nearly fastest [%]": 100 * float(good.mean())}
            row["holds"] = float(np.mean([good[x.index].any() for x in prunings]))
            row["kept [%]"] = 100 * float(np.median([x.share for x in prunings]))
            row["with a reason"] = float(np.mean([bool(x.reason) for x in prunings]))
            table.append(row)
            _tell(
                f"{space.name} on {space.gpu}, {size} measured: {row['holds']:.2f}, {row['kept [%]']:.1f} %"
            )
    return table


def text_of(known_spaces: KnownSpaces) -> str:
    """Format a calibration as TOML, which `load` reads."""
    return "\n".join(_lines(known_spaces)) + "\n"


def _lines(known_spaces: KnownSpaces) -> Iterator[str]:
    count, levels = len(known_spaces.spaces), ", ".join(f"{level:g}" for level in LEVELS)
    yield "# Written by scripts/studies/calibrate_pruning.py --calibration; see docs/accuracy_tuning.md."
    yield f"# n = {count} spaces, {known_spaces.slices} slices of each. `margins` and `spreads` are"
    yield f"# quantiles over the slices, at {levels}."
    for name in ("model", "within", "slices"):
        yield f"{name} = {json.dumps(getattr(known_spaces, name))}"
    for space in known_spaces.spaces:
        yield "\n[[spaces]]"
        for name, value in asdict(space).items():
            yield f"{name} = {_value(value)}"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:.3g}" if isinstance(value, float) else json.dumps(value)


def _drawn(seconds: np.ndarray, count: int, seed: int) -> dict[int, float]:
    """Draw measurements at random, failures included."""
    indices = np.random.default_rng(1000 + seed).permutation(len(seconds))[:count]
    return {int(index): float(seconds[index]) for index in indices}


def _tell(message: str) -> None:
    print(message, file=sys.stderr)


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarise all files by the number of measurements, and by whether the model explains the space."""
    result = []
    for size in SIZES:
        of_size = [row for row in rows if row["measured"] == size]
        row: dict[str, Any] = {"measured": size, "files": len(of_size)}
        row["holds, worst file"] = min(row["holds"] for row in of_size)
        for name, explained in (("explained", True), ("others", False)):
            shares = [row["kept [%]"] for row in of_size if (row["spearman"] >= EXPLAINED) == explained]
            row[f"kept, {name} [%]"] = float(np.median(shares)) if shares else None
        result.append(row)
    return result


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Write rows as a table in Markdown."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [["" if row.get(name) is None else row[name] for name in names] for row in rows]
    text = [[f"{x:.3g}" if isinstance(x, float) else f"{x}" for x in row] for row in cells]
    return markdown.table(names, text, words=len(names))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--slices", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers to fill")
    parser.add_argument("--calibration", type=Path, help="write the calibration to this file")
    parser.add_argument("--known", type=Path, help="a file of --calibration, used instead")
    options = parser.parse_args()
    cache()
    measured_spaces = list(spaces(options.folder))
    if not measured_spaces:
        raise DseError(f"{options.folder}: found no table of a described kernel, expected at least one")
    calibration = load(options.known) if options.known else learned(measured_spaces, options.slices)
    if options.calibration:
        with replacing(options.calibration) as path:
            path.write_text(text_of(calibration), encoding="utf-8")
        if not (options.json or options.out):
            return
    table = rows(measured_spaces, calibration, options.trials)
    if options.json:
        print(json.dumps({"rows": table, "summary": summary(table)}))
    elif options.out is None:
        show(table, title="Pruning")
        show(summary(table), title="All")
    else:
        fill(options.out, "pruning", f"{page(summary(table))}\n\n{page(table)}")


if __name__ == "__main__":
    run_script(main)

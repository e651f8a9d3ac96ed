"""Accuracy of predicted times and orders of candidates: `evaluate_candidates.py DIR [--gpu NAME]
[--train DIR2 ...] [--orders] [--source PROBLEMS] [--json]`.

DIR and its subfolders have tables of candidates with their times, recorded by an autotuner of products or of
attention. Constants are the package's; `--train` fits them for each table, to all other tables of products in
DIR and in the named folders. A regime is scored by its own rows; top_k is the time of the fastest candidate
over that of the fastest of the first k, mean over problems; bias the median of predicted over measured time.
For AMD's libraries each GPU and each kind of product is left out. `--orders` adds other orders of the same
candidates: random, and popularity, the frequency of a configuration within 1 % of the best in the other half
of the table's problems; and the best candidate's time over the vendor library's, which runs without tuning.
`--source N` takes N problems of each table of products, with at most 4 candidates each, and also scores the
phase model on Inductor's template, compiled and read (`inductor_mm.py`): minutes for a hundred problems.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from ending import run_script
from evaluate_moe import FILES, LIBRARY_ROWS, Fits, kinds, of_amd, of_products, timed_tables
from matrix_fits.fit import REPEATED
from matrix_fits.timed import Timed

from dse.api import predict
from dse.data.scores import fraction_of_optimum, spearman
from dse.errors import DseError
from dse.explore.matrix.devices import gpu_file
from dse.hardware.gpus import GpuFile
from dse.models.matrix.constants import Constants, fitted
from dse.models.matrix.problem import OPERANDS, Product
from dse.report.numbers import json_text
from dse.report.show import show
from dse.source.kernel import SourceKernel
from dse.source.readers import load
from dse.source.readers.given import Given

SHORT = 30e-6  # s, of the fastest candidate
TOP = (1, 3, 10)
TOKENS = (8, 64, 1024)
NEAR = 1.01  # times the fastest: counted by popularity
SAMPLED = 4  # candidates of a problem that are read from source
SIZES = ("M", "N", "K", "a_row", "a_column", "b_row", "b_column")  # of the template
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
TYPES = {
    "fp16": ("fp16", "fp16", "fp16"),
    "bf16": ("bf16", "bf16", "bf16"),
    "fp32": ("fp32", "fp32", "fp32"),
    "tf32": ("fp32", "fp32", "fp32"),
    "int8_w8a16": ("fp16", "i8", "fp16"),
}

Regimes = Callable[[Timed], Mapping[str, np.ndarray]]
Filter = Callable[[Timed], bool]


def main(wanted: Filter, regimes: Regimes, title: str) -> None:
    """Score, and print."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", metavar="NAME", help="rows of this GPU alone")
    parser.add_argument("--train", type=Path, nargs="+", metavar="DIR2", help="fit, each table left out")
    parser.add_argument("--orders", action="store_true", help="other orders of the candidates as well")
    parser.add_argument(
        "--source", type=int, metavar="N", help="N problems of each table, from source as well"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tables = {name: table for name, table in timed_tables(options.folder).items() if wanted(table)}
    if not tables:
        raise DseError(f"{options.folder}: found no table of measured times, expected CSV files, as .csv.gz")
    rows = [
        row
        for name, table in tables.items()
        for part, in_part in _parts(table)
        if options.gpu is None
        or gpu_file(options.gpu).name == gpu_file(table.gpus[table.gpu[in_part][0]]).name
        for row in _rows(name, part, table, in_part, regimes, options)
    ]
    if options.json:
        print(json_text(rows))
    else:
        show(rows, title=title)


def _rows(
    name: str, part: str, table: Timed, in_part: np.ndarray, regimes: Regimes, options: argparse.Namespace
) -> list[dict[str, Any]]:
    times, constants = table.where(in_part), _constants(options, name, table, in_part)
    if options.source is None:
        return scored(name, part, times, constants, regimes, options.orders)
    return from_source(name, part, times, constants, options.source)


def scored(
    name: str, part: str, table: Timed, constants: Constants, regimes: Regimes, orders: bool = False
) -> list[dict[str, Any]]:
    """Score all times of a part, each regime, and other orders, a row for each."""
    predicted = table.predict(constants)
    others = _others(table) if orders else {}
    rows_by_regime = {"all": np.full(len(table), True), **regimes(table)}
    rows = []
    for regime, places in rows_by_regime.items():
        if places.any():
            head, times = {"file": name, "gpu": part, "regime": regime}, table.where(places)
            rows.append({**head, **scores(times, predicted[places]), **(_library(times) if orders else {})})
            for by, order in others.items():
                tops = {key: score for key, score in scores(times, order[places]).items() if "top" in key}
                rows.append({**head, "regime": f"{regime}, {by}", **tops})
    return rows


def from_source(
    name: str, part: str, table: Timed, constants: Constants, problems: int
) -> list[dict[str, Any]]:
    """Score a sample by the closed form, and by the phase model on the template's machine code."""
    if not of_products(table):
        return []
    times = _sampled(table, problems)
    launch = float(constants.launch + constants.events)
    file = gpu_file(table.gpus[times.gpu[0]])
    dirty = jnp.asarray(constants.dirty * file.gpu.l2_bytes, jnp.float32)
    flushed = replace(file, gpu=eqx.tree_at(lambda gpu: gpu.dirty_bytes, file.gpu, dirty))
    from_code = launch + _read(times, flushed)
    both = np.isfinite(from_code)
    predictions = {"closed form": times.predict(constants), "phase, from source": from_code}
    return [
        {"file": name, "gpu": part, "regime": model, **scores(times.where(both), predicted[both])}
        for model, predicted in predictions.items()
    ] + [{"file": name, "gpu": part, "regime": "not read", "rows": int((~both).sum())}]


def _sampled(table: Timed, problems: int) -> Timed:
    """Draw candidates that ran, of random problems."""
    random = np.random.default_rng(0)
    ran = np.flatnonzero(np.isfinite(table.seconds))
    drawn = random.permutation(np.unique(table.problem[ran]))[:problems]
    rows = [random.permutation(ran[table.problem[ran] == problem])[:SAMPLED] for problem in drawn]
    return table.where(np.concatenate(rows))


def _read(table: Timed, file: GpuFile) -> np.ndarray:
    """Predict times of Inductor's template by the phase model, in s; NaN where it was not read."""
    times = np.full(len(table), np.nan)
    kinds = np.array([product.operands for (product,) in table.problems])[table.problem]
    for kind in sorted(set(kinds.tolist())):
        rows = np.flatnonzero(kinds == kind)
        products = [table.problems[number][0] for number in table.problem[rows].tolist()]
        columns = (*np.array([_sizes(product) for product in products]).T, *table.configurations[rows].T)
        launch: dict[str, np.ndarray] = dict(zip((*SIZES, *TILE), columns, strict=True))
        kernel = load(
            Path(__file__).with_name("inductor_mm.py"),
            Given(
                function="product",
                grid=("cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)",),
                signature=tuple(f"*{argument}" for argument in TYPES[kind]),
                arguments=("M * K", "K * N", "M * N"),
                tuned=tuple((key, tuple(np.unique(values).tolist())) for key, values in launch.items()),
                defines=(("PRECISION", repr("tf32" if kind == "tf32" else "ieee")),),
            ),
        )
        times[rows] = predict(SourceKernel(kernel), file, launch).seconds
    return np.where(times < np.inf, times, np.nan)


def _sizes(product: Product) -> tuple[int, ...]:
    """Return a product's sizes, and the strides of both operands by row and column."""
    shapes = ((product.tokens, product.depth), (product.depth, product.columns))
    strides = [
        (stride or shape[1], 1) if layout == "row" else (1, stride or shape[0])
        for shape, layout, stride in zip(shapes, product.layouts, product.strides, strict=True)
    ]
    return product.tokens, product.columns, product.depth, *strides[0], *strides[1]


def _others(table: Timed) -> dict[str, np.ndarray]:
    near = table.seconds <= NEAR * _fastest(table)[table.problem]
    half = table.problem % 2
    _, number = np.unique(table.configurations, axis=0, return_inverse=True)
    counts = np.zeros((2, number.max() + 1))
    np.add.at(counts, (half[near], number[near]), 1.0)
    return {"random": np.zeros(len(table)), "popularity": -counts[1 - half, number]}


def _library(table: Timed) -> dict[str, float | None]:
    share = (_fastest(table) / table.library)[np.unique(table.problem)]
    share = share[np.isfinite(share)]
    return {"over_library": _rounded(share.mean() if len(share) else None)}


def _fastest(table: Timed) -> np.ndarray:
    best = np.full(len(table.problems), np.inf)
    np.fmin.at(best, table.problem, table.seconds)
    return best


def scores(table: Timed, predicted: np.ndarray) -> dict[str, Any]:
    """Score these rows."""
    ran = np.isfinite(table.seconds)
    ratio = (predicted / table.seconds)[ran & np.isfinite(predicted)]
    first, ranks = [], []
    for rows in np.split(np.argsort(table.problem, kind="stable"), _starts(table.problem)):
        if len(rows) < 2 or not ran[rows].any():
            continue
        problem = predicted[rows], table.seconds[rows], ran[rows]
        first.append([fraction_of_optimum(*problem, k) for k in TOP])
        rank = spearman(predicted[rows][ran[rows]], table.seconds[rows][ran[rows]])
        ranks += [] if rank is None else [rank]
    error = np.abs(ratio - 1.0)
    failed = ~ran
    tops = np.mean(first, axis=0) if first else [None] * len(TOP)
    return {
        "problems": len(np.unique(table.problem)),
        "rows": int(ran.sum()),
        **{f"top_{k}": _rounded(top) for k, top in zip(TOP, tops, strict=True)},
        "spearman": _rounded(np.mean(ranks) if ranks else None),
        "mape": _rounded(error.mean() if len(error) else None),
        "median_error": _rounded(np.median(error) if len(error) else None),
        "bias": _rounded(np.median(ratio) if len(ratio) else None),
        "ran_but_impossible": int((ran & ~np.isfinite(predicted)).sum()),
        "failed_and_impossible": _rounded((~np.isfinite(predicted[failed])).mean() if failed.any() else None),
    }


def _starts(problem: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.diff(np.sort(problem))) + 1


def _rounded(number: Any) -> float | None:
    return None if number is None else round(float(number), 4)


def _parts(table: Timed) -> list[tuple[str, np.ndarray]]:
    """Return the parts scored by constants of others: a GPU's rows; for AMD's libraries also a kind's."""
    by_gpu = [(gpu, table.gpu == number) for number, gpu in enumerate(table.gpus)]
    return by_gpu + kinds(table) if of_amd(table) else by_gpu


def _constants(options: argparse.Namespace, name: str, table: Timed, in_part: np.ndarray) -> Constants:
    """Return the package's constants, or those fitted to all data except this table, or this part of it."""
    if options.train is None:
        return fitted(of_amd(table))
    evidence: list = [[], [], []]
    for other in dict.fromkeys((options.folder, *options.train)):
        if any((other / file).is_file() for file in FILES):
            near, records, _ = Fits.of(other).without(lambda _: False)
            evidence[0] += near
            evidence[1] += records
        for other_name, times in timed_tables(other).items():
            if not of_products(times):
                continue
            if other != options.folder or other_name != name:
                evidence[2].append(times)
            elif not in_part.all():
                rest = [~in_part & rows for _, rows in kinds(times)]
                evidence[2] += [times.where(rows) for rows in rest if rows.any()]
    amd = of_amd(table)
    x = Fits(
        [], [], vendor="AMD" if amd else "NVIDIA", repeated=LIBRARY_ROWS if amd else REPEATED
    ).coordinates(*evidence)
    return Constants.at(jnp.asarray(x, jnp.float32))


def regimes_of_candidates(table: Timed) -> dict[str, np.ndarray]:
    """Return rows by regime: short launches, sizes that are no multiple of 8, kinds of operands."""
    best = _fastest(table)
    if not of_products(table):
        kinds = np.array([problem[0].operands for problem in table.problems])[table.problem]
        short = {"short": (best < SHORT)[table.problem]}
        return short | {kind: kinds == kind for kind in sorted(set(kinds.tolist()))}
    products = [problem[0] for problem in table.problems]
    sizes = np.array([[product.tokens, product.columns, product.depth] for product in products])
    mixed = np.array([OPERANDS[product.operands].converts for product in products])
    kinds = np.array([product.operands for product in products])
    regimes = {
        "short": best < SHORT,
        "unaligned": (sizes % 8 != 0).any(1),
        "mixed": mixed,
        **{kind: kinds == kind for kind in sorted(set(kinds.tolist()))},
    }
    return {name: rows[table.problem] for name, rows in regimes.items()}


def single(table: Timed) -> bool:
    """Whether a table has candidates of single launches."""
    return len(table.problems[0]) == 1


if __name__ == "__main__":
    run_script(lambda: main(single, regimes_of_candidates, "Times of candidates, predicted"))

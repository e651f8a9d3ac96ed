"""Accuracy of predicted configurations of Triton's matrix products: `evaluate_moe.py DIR [--train DIR2]
[--tables DIR3 ...] [--resume DIR4] [--json]`.

DIR has near_best.csv.gz (all configurations within 1 % of the best) or recorded_best.csv.gz (the best of
tuning runs), or both. Each GPU is scored with constants and prior from other architectures. `--train DIR2`
learns from DIR2 instead, `--shipped` uses those of the package. `--tables` also fits times of candidates and
of layers of experts, in a folder and its subfolders (evaluate_candidates.py and evaluate_layers.py score
them). `--write` fits all and writes dse/models/matrix/constants.toml and prior.csv.gz. A fit to all begins at
the package's constants and uses every EVERY-th set and record and at most 1,500 rows of a table; others begin
at the defaults, so that they contain nothing of the left-out data, and use half of these sets and records.
`--resume` keeps fits in a folder, to be emptied when formulas change. `--vendor AMD` is for AMD's GPUs, with
constants_amd.toml and prior_amd.csv.gz; if all records are of one architecture, each half of the layers is
scored with the other half.
"""

import argparse
import gzip
import hashlib
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from ending import run_script
from matrix_fits.fit import REPEATED, coordinates, fit
from matrix_fits.package_files import constants_text, counted, prior_text
from matrix_fits.records import NearBest, Recorded, columns, near_best, recorded
from matrix_fits.scores import (
    BY,
    Trained,
    by_gpu,
    configured,
    depths,
    near_best_hits,
    rates,
    recorded_depths,
)
from matrix_fits.timed import Timed, attentions, candidates, layers, libraries

from dse.accuracy.markdown import table
from dse.core.files import fill
from dse.errors import DseError
from dse.explore.matrix import prior, rank
from dse.explore.matrix.devices import gpu_file
from dse.models.matrix import constants
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import Machine
from dse.models.matrix.problem import OPERANDS, Product
from dse.report.numbers import json_text
from dse.report.show import show

EVERY = 6  # every sixth case is fitted: the others are redundant
EVERY_RECORD = {"NVIDIA": 48, "AMD": 24}
LIBRARY_ROWS = 30.0  # fitted ones of AMD's libraries with one N and K, which differ by M alone
LEAST_SHARE = 0.04  # of rows in the written prior
READERS = {"b_layout": candidates, "head_dim": attentions, "intermediate": layers, "cu_num": libraries}
FILES = ("near_best.csv.gz", "recorded_best.csv.gz")
SOURCE = {
    "AMD": "recorded best configurations of vllm 0.33.0 and sglang 0.5.23 on MI300X (Apache-2.0); best times "
    "of AMD's libraries on MI300X and MI308X, ROCm/aiter e404860 (MIT)",
    "NVIDIA": "near-best configurations of Triton's fused-MoE kernel on A100, H800 and L40, "
    "zksainx/pipeweave 55e0317; recorded best configurations of vllm 0.33.0 and sglang 0.5.23 (all "
    "Apache-2.0); candidates of "
    "PyTorch Inductor on an A100 with their times, AlnisM/autoheuristic-datasets; layers of experts on A100, "
    "H100 and L40S, ai-dynamo/aiconfigurator (Apache-2.0)",
}


Evidence = tuple[list[NearBest], list[Recorded], list[Timed]]


class Fits:
    """Constants fitted to near-best sets and records of some GPUs, each combination once."""

    def __init__(
        self,
        cases: Sequence[NearBest],
        records: Sequence[Recorded],
        timed: Sequence[Timed] = (),
        vendor: str = "NVIDIA",
        repeated: float = REPEATED,
        folder: Path | None = None,
    ) -> None:
        self.cases, self.records, self.timed, self.vendor = by_gpu(cases), records, timed, vendor
        self.repeated, self.folder = repeated, folder
        self._known: dict[str, np.ndarray] = {}

    @staticmethod
    def of(
        folder: Path, tables: Sequence[Path] = (), vendor: str = "NVIDIA", resumed: Path | None = None
    ) -> "Fits":
        """Read a folder's data of a vendor's known GPUs, and the tables of times in other folders."""
        times = [x for other in tables for x in timed_tables(other).values() if of_products(x)]
        timed = [x.where(rows) for x in times for _, rows in kinds(x)]
        near = near_best(folder) if vendor == "NVIDIA" else []
        records = _known(recorded(folder, vendor), [])
        return Fits(_known(near, []), records, timed, vendor, folder=resumed)

    def without(self, left_out: Callable[[str], bool]) -> Evidence:
        """Return the data of all GPUs except those left out."""
        near = [case for gpu, cases in self.cases.items() if not left_out(gpu) for case in cases]
        records = [record for record in self.records if not left_out(record.gpu)]
        timed = [_rows_of(table, lambda gpu: not left_out(gpu)) for table in self.timed]
        return near, records, [table for table in timed if len(table)]

    def coordinates(
        self, near: Sequence[NearBest], records: Sequence[Recorded], timed: Sequence[Timed]
    ) -> np.ndarray:
        """Return the fitted constants' coordinates, from the cache if possible."""
        gpus = {f"{case.gpu} ({type(case).__name__})" for case in [*near, *records]}
        gpus |= {f"{len(records)} records", *(f"{_names(table)} ({len(table)} times)" for table in timed)}
        key = ", ".join(sorted(gpus))
        file = self.folder and self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.npy"
        if key not in self._known and file and file.is_file():
            self._known[key] = np.load(file, allow_pickle=False)
        if key not in self._known:
            print(f"fitting to {key or 'nothing: defaults'}", file=sys.stderr)
            complete = (len(near), len(records)) == (sum(map(len, self.cases.values())), len(self.records))
            complete &= sum(map(len, timed)) == sum(map(len, self.timed)) > 0
            halved = 1 if complete else 2
            thinned = halved * (EVERY if near else EVERY_RECORD[self.vendor] if records else 1)
            self._known[key] = fit(
                near[:: EVERY * halved],
                records[:: EVERY_RECORD[self.vendor] * halved],
                timed,
                repeated=max(self.repeated / thinned, 1.0),
                start=coordinates(constants.fitted(self.vendor == "AMD")) if complete else None,
            )
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                np.save(file, self._known[key])
        return self._known[key]

    def trained(
        self, near: Sequence[NearBest], records: Sequence[Recorded], timed: Sequence[Timed]
    ) -> Trained:
        """Return constants and settings learned from these."""
        fitted = Constants.at(jnp.asarray(self.coordinates(near, records, timed), jnp.float32))
        return Trained.of(fitted, _weight(self.vendor), configured([*near, *records]))


def main() -> None:
    """Score, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=Path, metavar="DIR2", help="learn from this folder")
    parser.add_argument("--tables", type=Path, nargs="+", default=[], metavar="DIR3")
    parser.add_argument("--resume", type=Path, metavar="DIR4", help="keep fits in this folder")
    parser.add_argument("--shipped", action="store_true", help="take the package's constants and prior")
    parser.add_argument("--write", action="store_true", help="fit all, and write the package's files")
    parser.add_argument("--vendor", choices=tuple(SOURCE), default="NVIDIA")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", type=Path, metavar="FILE", help="fill the tables of this page")
    options = parser.parse_args()
    for folder in filter(None, (options.folder, options.train)):
        if not any((folder / name).is_file() for name in FILES):
            raise DseError(f"{folder}: found neither, expected {' or '.join(FILES)} in a folder")
    fits = Fits.of(options.train or options.folder, options.tables, options.vendor, options.resume)
    if options.write:
        write_files(fits)
    if options.write and not (options.page or options.json):
        return
    result = evaluate(options.folder, fits, options.shipped, elsewhere=options.train is not None)
    if options.page:
        fill_page(options.page, result)
    if options.json:
        print(json_text(result))
    else:
        present(result)


def evaluate(folder: Path, fits: Fits, shipped: bool = False, elsewhere: bool = False) -> dict:
    """Score a folder with fits to its other GPUs, or to another folder."""
    skipped: list[str] = []
    amd = fits.vendor == "AMD"
    near = [] if amd else _known(near_best(folder), skipped)
    records = _known(recorded(folder, fits.vendor), skipped)
    trained = None
    if shipped:
        parts = constants.fitted(amd), _weight(fits.vendor), configured(_all(fits)), prior.shipped(amd)
        trained = Trained.of(*parts)
    elif elsewhere:
        trained = fits.trained(*fits.without(lambda gpu: False))

    def without(gpu: str) -> Trained:
        """Train on other architectures: the same one may have the same card by another name."""
        if trained:
            return trained
        return fits.trained(*fits.without(lambda other: _architecture(other) == _architecture(gpu)))

    hits, errors = {}, {}
    for gpu, cases in by_gpu(near).items():
        hits[gpu], errors[gpu] = near_best_hits(cases, without(gpu))
    result: dict = {}
    if near:

        def of(*gpus: str) -> dict:
            mape = np.abs(np.concatenate([errors[gpu] for gpu in gpus])).mean()
            return {**rates(hits[gpu] for gpu in gpus), "mape": round(float(mape), 4)}

        result["near_best"] = {**of(*hits), "by_gpu": {gpu: of(gpu) for gpu in hits}}
    if records:
        result["recorded"] = _recorded(records, fits, trained)
    result["skipped"] = sorted(set(skipped))
    return result


def _recorded(records: Sequence[Recorded], fits: Fits, always: Trained | None) -> dict:
    depth, tiles = ({by: np.full(len(records), np.nan) for by in BY} for _ in range(2))
    tiles["default"] = np.array([_default_tile(x) == x.configuration[:3] for x in records], float)
    tiles["again"] = _again(records)
    parts = np.array(_parts(records))
    for part in sorted(set(parts.tolist())):
        rows = np.flatnonzero(parts == part)
        near, others, timed = fits.without(lambda gpu, left_out=part: _architecture(gpu) == left_out)
        if always is None and len(others) == len(fits.records):  # halves of one architecture
            others = [x for x, half in zip(fits.records, _parts(fits.records), strict=True) if half != part]
        trained = always or fits.trained(near, others, timed)
        results = recorded_depths([records[row] for row in rows.tolist()], trained)
        for column, scores in zip((depth, tiles), results, strict=True):
            for by, values in scores.items():
                column[by][rows] = values
    kinds = {
        "all": np.full(len(records), True),
        "depth_known": np.array([x.depth_known for x in records]),
        "moe": np.array([x.kernel == "moe" for x in records]),
        "w8a8": np.array([x.kernel == "w8a8" for x in records]),
        "16 bits": np.array([x.products[0].halves for x in records]),
        "8 bits": np.array([not x.products[0].halves for x in records]),
        "tuned again": np.isfinite(tiles["again"]),
    }
    kinds |= {gpu: np.array([x.gpu == gpu for x in records]) for gpu in sorted({x.gpu for x in records})}
    return {
        name: {
            "cases": int(rows.sum()),
            **depths({by: values[rows] for by, values in depth.items()}),
            "same_tile": {by: round(float(values[rows].mean()), 3) for by, values in tiles.items()},
        }
        for name, rows in kinds.items()
        if rows.any()
    }


def _again(records: Sequence[Recorded]) -> np.ndarray:
    """Share of other tunings of the same case with the recorded tile; NaN without others."""
    tuned: dict[tuple, list[tuple]] = defaultdict(list)
    for record in records:
        tuned[record.gpu, record.kernel, record.products].append(record.configuration[:3])
    share = []
    for record in records:
        tiles = tuned[record.gpu, record.kernel, record.products]
        same = tiles.count(record.configuration[:3]) - 1
        share.append(same / (len(tiles) - 1) if len(tiles) > 1 else np.nan)
    return np.array(share)


def _default_tile(record: Recorded) -> tuple[int, int, int]:
    """SGLang's tile without a tuned file. **Source:** SGLang 0.5.23, get_default_config (Apache-2.0)."""
    first = record.products[0]
    few = first.tokens <= first.experts
    if OPERANDS[first.operands].scaled_by_block:
        return 64, 128, 128
    if first.halves:
        return (16, 32, 64) if few else (64, 64, 32)
    return (64, 128, 128) if few else (128, 256, 128)


def _parts(records: Sequence[Recorded]) -> list[str]:
    """Name the group with which each record is left out: its architecture, or, of a single one, a half."""
    architectures = [_architecture(record.gpu) for record in records]
    if len(set(architectures)) > 1:
        return architectures
    # Halves by layer: alternate rows would leave out one type of operands completely.
    layers = [tuple((x.columns, x.depth, x.experts) for x in record.products) for record in records]
    numbers = {layer: number for number, layer in enumerate(dict.fromkeys(layers))}
    return [f"half {numbers[layer] % 2}" for layer in layers]


def _weight(vendor: str) -> float:
    return rank.AMD_WEIGHT if vendor == "AMD" else rank.WEIGHT


def write_files(fits: Fits) -> None:
    """Fit everything and write the package's constants and prior."""
    amd = fits.vendor == "AMD"
    x = fits.coordinates(*fits.without(lambda gpu: False))
    # AMD's GPUs here are of one architecture
    label = (lambda gpu: gpu) if amd else _architecture
    labels = sorted({label(case.gpu) for case in _all(fits)} | {label(g) for t in fits.timed for g in t.gpus})
    others = [fits.without(lambda gpu, name=name: label(gpu) == name) for name in labels]
    left_out = np.array([fits.coordinates(*evidence) for evidence in others])
    text = constants_text(x, left_out.std(axis=0), SOURCE[fits.vendor])
    (constants.AMD_FILE if amd else constants.FILE).write_text(text, encoding="utf-8")
    shares = prior_text(counted(configured(_all(fits))), LEAST_SHARE)
    (prior.AMD_FILE if amd else prior.FILE).write_bytes(gzip.compress(shares.encode(), mtime=0))


def fill_page(page: Path, result: dict) -> None:
    """Write the tables of docs/accuracy_matrix.md."""
    if missing := [name for name in ("near_best", "recorded") if name not in result]:
        raise DseError(f"--page: found no {missing[0]}, expected both files in the folder")
    near = result["near_best"]
    shown = [by for by in BY if by != "prior"]
    columns = [f"{by}, {first}" for by in shown for first in ("first", "ten")]
    rows = [
        [
            gpu,
            *(f"{scores[by][key]:.3f}" for by in shown for key in ("top1", "top10")),
            f"{100 * scores['mape']:.1f} %",
        ]
        for gpu, scores in [*near["by_gpu"].items(), ("all", near)]
    ]
    fill(page, "near-best", table(["GPU", *columns, "error of the best time"], rows))
    keys = ("median_percentile", "top_5_percent", "top_10_percent")
    names = ("median depth", "within 5 %", "within 10 %")
    kinds = [by for by in BY if by not in ("random", "prior")]
    rows = [
        [name.replace("NVIDIA_", "").replace("_", " "), str(scores["cases"])]
        + [f"{scores[by][key]:.3f}" for by in kinds for key in keys]
        for name, scores in result["recorded"].items()
    ]
    header = ["records", "cases", *(f"{by}, {name}" for by in kinds for name in names)]
    fill(page, "recorded", table(header, rows))


def present(result: dict) -> None:
    """Print tables."""
    if "near_best" in result:
        near = result["near_best"]
        rows = [
            {"gpu": gpu, "by": by, **scores[by]}
            for gpu, scores in [*near["by_gpu"].items(), ("all", near)]
            for by in BY
        ]
        show(rows, title="Near-best sets: share of cases with a hit")
        show([{"gpu": gpu, "mape": row["mape"]} for gpu, row in near["by_gpu"].items()], title="Best times")
    if "recorded" in result:
        rows = [
            {"records": name, "cases": row["cases"], "by": by, **row[by]}
            for name, row in result["recorded"].items()
            for by in BY
        ]
        show(rows, title="Recorded bests: depth in the ranking of the tuner's space")
        rows = [{"records": name, **row["same_tile"]} for name, row in result["recorded"].items()]
        show(rows, title="First choices with the recorded tile")
    for line in result["skipped"]:
        print(f"not scored: {line}")


def _all(fits: Fits) -> list[NearBest | Recorded]:
    near, records, _ = fits.without(lambda gpu: False)
    return [*near, *records]


def timed_tables(folder: Path) -> dict[str, Timed]:
    """Read the tables of measured times in a folder and its subfolders, by name; ignore others."""
    tables = {}
    for path in sorted(folder.rglob("*.csv.gz")):
        for column, read in READERS.items():
            if column in columns(path):
                tables[path.relative_to(folder).as_posix().removesuffix(".csv.gz")] = read(path)
    return tables


def of_products(table: Timed) -> bool:
    """Whether a table is of products, alone or in layers, to which constants are fitted."""
    return isinstance(table.problems[0][0], Product)


def of_amd(table: Timed) -> bool:
    """Whether a table's GPUs are AMD's."""
    return bool(gpu_file(table.gpus[0]).gpu.gfx)


def kinds(table: Timed) -> list[tuple[str, np.ndarray]]:
    """Return the rows of each kind of product of AMD's libraries, weighted equally; else all rows."""
    if not of_amd(table):
        return [("all", np.full(len(table), True))]
    names = [f"{product.operands}{', shuffled' if product.shuffled else ''}" for (product,) in table.problems]
    by_row = np.array(names)[table.problem]
    return [(kind, by_row == kind) for kind in sorted(set(names))]


def _rows_of(table: Timed, wanted: Callable[[str], bool]) -> Timed:
    return table.where(np.array([wanted(gpu) for gpu in table.gpus])[table.gpu])


def _names(table: Timed) -> str:
    return " ".join(table.gpus[number] for number in np.unique(table.gpu))


def _known(cases: Sequence, skipped: list[str]) -> list:
    """Return the cases of GPUs that can be predicted."""
    usable: dict[str, bool] = {}
    for gpu in dict.fromkeys(case.gpu for case in cases):
        try:
            Machine.of([gpu_file(gpu)])
            usable[gpu] = True
        except DseError as error:
            skipped.append(f"{gpu}: {error}")
            usable[gpu] = False
    return [case for case in cases if usable[case.gpu]]


def _architecture(gpu: str) -> str:
    return gpu_file(gpu).header.architecture


if __name__ == "__main__":
    run_script(main)

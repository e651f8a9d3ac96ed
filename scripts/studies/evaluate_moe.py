"""How well configurations of Triton's matrix products are predicted: `evaluate_moe.py DIR [--train DIR2]
[--tables DIR3 ...] [--resume DIR4] [--json]`.

DIR has near_best.csv.gz (all configurations within 1 % of the best) or recorded_best.csv.gz (the best of
tuning runs), or both. Each GPU is scored by what those of other architectures tell (constants, prior).
`--train DIR2` learns from DIR2 instead, `--shipped` takes what the
package comes with. `--tables` fits times of candidates and of layers of experts as well, those of a folder
and the folders in it (evaluate_candidates.py and evaluate_layers.py score them). `--write` fits all and
writes dse/models/matrix/constants.toml and prior.csv.gz. A fit to all begins at the package's constants and
takes every EVERY-th set and record and at most 1,500 rows of a table; others begin at the defaults, so that
they know nothing of what is left out, and take half of these sets and records. `--resume` keeps fits in a
folder, to be emptied when formulas change. With `--vendor AMD` all is of AMD's GPUs, and the
files are constants_amd.toml and prior_amd.csv.gz; where records are of one architecture, each half of the
layers is scored by what the other half tells.
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

from dse.accuracy.markdown import table
from dse.core.files import fill
from dse.errors import DseError
from dse.explore.matrix import prior, rank
from dse.explore.matrix.fit import REPEATED, fit
from dse.explore.matrix.records import NearBest, Recorded, columns, gpu_file, near_best, recorded
from dse.explore.matrix.scores import (
    BY,
    Trained,
    by_gpu,
    configured,
    depths,
    near_best_hits,
    rates,
    recorded_depths,
)
from dse.explore.matrix.timed import Timed, attentions, candidates, layers, libraries
from dse.models.matrix import constants
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import Machine
from dse.models.matrix.problem import OPERANDS, Product
from dse.report.numbers import json_text
from dse.report.show import show

EVERY = 6  # cases of the fit: the others say the same
EVERY_RECORD = {"NVIDIA": 48, "AMD": 24}
LIBRARY_ROWS = 400.0  # of AMD's libraries with one N and K, which differ by M alone
LEAST_SHARE = 0.04  # of the table that is written
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


Told = tuple[list[NearBest], list[Recorded], list[Timed]]


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
        """What a folder has of a vendor's GPUs that are known, and the tables of times of others."""
        found = [one for other in tables for one in timed_tables(other).values() if of_products(one)]
        timed = [one.where(rows) for one in found for _, rows in kinds(one)]
        near = near_best(folder) if vendor == "NVIDIA" else []
        records = _known(recorded(folder, vendor), [])
        return Fits(_known(near, []), records, timed, vendor, folder=resumed)

    def without(self, left_out: Callable[[str], bool]) -> Told:
        """All that GPUs tell but for those left out."""
        near = [case for gpu, found in self.cases.items() if not left_out(gpu) for case in found]
        records = [one for one in self.records if not left_out(one.gpu)]
        timed = [_rows_of(one, lambda gpu: not left_out(gpu)) for one in self.timed]
        return near, records, [one for one in timed if len(one)]

    def coordinates(
        self, near: Sequence[NearBest], records: Sequence[Recorded], timed: Sequence[Timed]
    ) -> np.ndarray:
        """x of the constants."""
        gpus = {f"{one.gpu} ({type(one).__name__})" for one in [*near, *records]}
        gpus |= {f"{len(records)} records", *(f"{_names(one)} ({len(one)} times)" for one in timed)}
        key = ", ".join(sorted(gpus))
        kept = self.folder and self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.npy"
        if key not in self._known and kept and kept.is_file():
            self._known[key] = np.load(kept, allow_pickle=False)
        if key not in self._known:
            print(f"fitting to {key or 'nothing: defaults'}", file=sys.stderr)
            whole = (len(near), len(records)) == (sum(map(len, self.cases.values())), len(self.records))
            whole &= sum(map(len, timed)) == sum(map(len, self.timed)) > 0
            halved = 1 if whole else 2
            self._known[key] = fit(
                near[:: EVERY * halved],
                records[:: EVERY_RECORD[self.vendor] * halved],
                timed,
                repeated=self.repeated,
                start=constants.coordinates(constants.fitted(self.vendor == "AMD")) if whole else None,
            )
            if kept:
                kept.parent.mkdir(parents=True, exist_ok=True)
                np.save(kept, self._known[key])
        return self._known[key]

    def trained(
        self, near: Sequence[NearBest], records: Sequence[Recorded], timed: Sequence[Timed]
    ) -> Trained:
        """What these tell."""
        found = Constants.at(jnp.asarray(self.coordinates(near, records, timed), jnp.float32))
        return Trained.of(found, _weight(self.vendor), configured([*near, *records]))


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
    given = parser.parse_args()
    for folder in filter(None, (given.folder, given.train)):
        if not any((folder / name).is_file() for name in FILES):
            raise DseError(f"{folder}: found neither, expected {' or '.join(FILES)} in a folder")
    told = Fits.of(given.train or given.folder, given.tables, given.vendor, given.resume)
    if given.write:
        write_files(told)
    if given.write and not (given.page or given.json):
        return
    found = evaluate(given.folder, told, given.shipped, elsewhere=given.train is not None)
    if given.page:
        fill_page(given.page, found)
    if given.json:
        print(json_text(found))
    else:
        present(found)


def evaluate(folder: Path, told: Fits, shipped: bool = False, elsewhere: bool = False) -> dict:
    """All scores of a folder, fitted to its other tables, or to all tables elsewhere."""
    skipped: list[str] = []
    amd = told.vendor == "AMD"
    near = [] if amd else _known(near_best(folder), skipped)
    records = _known(recorded(folder, told.vendor), skipped)
    own = None
    if shipped:
        known = constants.fitted(amd), _weight(told.vendor), configured(_all(told)), prior.shipped(amd)
        own = Trained.of(*known)
    elif elsewhere:
        own = told.trained(*told.without(lambda gpu: False))

    def without(gpu: str) -> Trained:
        """What others tell; records of the same architecture may be the same card by another name."""
        if own:
            return own
        return told.trained(*told.without(lambda other: _architecture(other) == _architecture(gpu)))

    hits, errors = {}, {}
    for gpu, cases in by_gpu(near).items():
        hits[gpu], errors[gpu] = near_best_hits(cases, without(gpu))
    result: dict = {}
    if near:
        mapes = {gpu: round(float(np.abs(one).mean()), 4) for gpu, one in errors.items()}
        result["near_best"] = {
            **rates(hits.values()),
            "mape": round(float(np.abs(np.concatenate(list(errors.values()))).mean()), 4),
            "by_gpu": {gpu: {**rates([one]), "mape": mapes[gpu]} for gpu, one in hits.items()},
        }
    if records:
        result["recorded"] = _recorded(records, told, own)
    result["skipped"] = sorted(set(skipped))
    return result


def _recorded(records: Sequence[Recorded], told: Fits, own: Trained | None) -> dict:
    depth, tiles = ({by: np.full(len(records), np.nan) for by in BY} for _ in range(2))
    tiles["default"] = np.array([_default_tile(one) == one.configuration[:3] for one in records], float)
    tiles["again"] = _again(records)
    parts = np.array(_parts(records))
    for part in sorted(set(parts.tolist())):
        places = np.flatnonzero(parts == part)
        near, known, timed = told.without(lambda gpu, left_out=part: _architecture(gpu) == left_out)
        if own is None and len(known) == len(told.records):  # halves of one architecture's
            known = [one for one, of in zip(told.records, _parts(told.records), strict=True) if of != part]
        trained = own or told.trained(near, known, timed)
        found = recorded_depths([records[int(place)] for place in places], trained)
        for kept, one in zip((depth, tiles), found, strict=True):
            for by, values in one.items():
                kept[by][places] = values
    kinds = {
        "all": np.full(len(records), True),
        "depth_known": np.array([one.depth_known for one in records]),
        "moe": np.array([one.kernel == "moe" for one in records]),
        "w8a8": np.array([one.kernel == "w8a8" for one in records]),
        "16 bits": np.array([one.products[0].halves for one in records]),
        "8 bits": np.array([not one.products[0].halves for one in records]),
        "tuned again": np.isfinite(tiles["again"]),
    }
    kinds |= {
        gpu: np.array([one.gpu == gpu for one in records]) for gpu in sorted({one.gpu for one in records})
    }
    return {
        name: {
            "cases": int(chosen.sum()),
            **depths({by: values[chosen] for by, values in depth.items()}),
            "same_tile": {by: round(float(values[chosen].mean()), 3) for by, values in tiles.items()},
        }
        for name, chosen in kinds.items()
        if chosen.any()
    }


def _again(records: Sequence[Recorded]) -> np.ndarray:
    """The share of other tunings of the same case that found the recorded tile; NaN where there is none."""
    tuned: dict[tuple, list[tuple]] = defaultdict(list)
    for one in records:
        tuned[one.gpu, one.kernel, one.products].append(one.configuration[:3])
    share = []
    for one in records:
        tiles = tuned[one.gpu, one.kernel, one.products]
        alike = tiles.count(one.configuration[:3]) - 1
        share.append(alike / (len(tiles) - 1) if len(tiles) > 1 else np.nan)
    return np.array(share)


def _default_tile(record: Recorded) -> tuple[int, int, int]:
    """SGLang's tile where there is no file. **Source:** SGLang 0.5.23, get_default_config (Apache-2.0)."""
    first = record.products[0]
    few = first.tokens <= first.experts
    if OPERANDS[first.operands].scaled_by_block:
        return 64, 128, 128
    if first.halves:
        return (16, 32, 64) if few else (64, 64, 32)
    return (64, 128, 128) if few else (128, 256, 128)


def _parts(records: Sequence[Recorded]) -> list[str]:
    """What records are left out with: their architecture, or half of the layers where there is one alone."""
    found = [_architecture(one.gpu) for one in records]
    if len(set(found)) > 1:
        return found
    # halves by size: folders list the operands of a layer in turn, which would leave out one kind whole
    layers = [tuple((of.columns, of.depth, of.experts) for of in one.products) for one in records]
    place = {layer: number for number, layer in enumerate(dict.fromkeys(layers))}
    return [f"half {place[layer] % 2}" for layer in layers]


def _weight(vendor: str) -> float:
    return rank.AMD_WEIGHT if vendor == "AMD" else rank.WEIGHT


def write_files(told: Fits) -> None:
    """Fit everything and write the package's constants and prior."""
    amd = told.vendor == "AMD"
    x = told.coordinates(*told.without(lambda gpu: False))
    # AMD's variants are of one architecture
    label = (lambda gpu: gpu) if amd else _architecture
    labels = sorted({label(one.gpu) for one in _all(told)} | {label(g) for t in told.timed for g in t.gpus})
    others = [told.without(lambda gpu, one=one: label(gpu) == one) for one in labels]
    left_out = np.array([told.coordinates(*found) for found in others])
    text = constants.text(x, left_out.std(axis=0), SOURCE[told.vendor])
    (constants.AMD_FILE if amd else constants.FILE).write_text(text, encoding="utf-8")
    shares = prior.Prior.of(configured(_all(told))).text(LEAST_SHARE)
    (prior.AMD_FILE if amd else prior.FILE).write_bytes(gzip.compress(shares.encode(), mtime=0))


def fill_page(page: Path, found: dict) -> None:
    """Write the tables of docs/accuracy.md."""
    if missing := [name for name in ("near_best", "recorded") if name not in found]:
        raise DseError(f"--page: found no {missing[0]}, expected both files in the folder")
    near = found["near_best"]
    shown = [by for by in BY if by != "prior"]
    columns = [f"{by}, {first}" for by in shown for first in ("first", "ten")]
    rows = [
        [
            gpu,
            *(f"{one[by][key]:.3f}" for by in shown for key in ("top1", "top10")),
            f"{100 * one['mape']:.1f} %",
        ]
        for gpu, one in [*near["by_gpu"].items(), ("all", near)]
    ]
    fill(page, "near-best", table(["GPU", *columns, "error of the best time"], rows))
    keys = ("median_percentile", "top_5_percent", "top_10_percent")
    names = ("median depth", "within 5 %", "within 10 %")
    kinds = [by for by in BY if by not in ("random", "prior")]
    rows = [
        [name.replace("NVIDIA_", "").replace("_", " "), str(one["cases"])]
        + [f"{one[by][key]:.3f}" for by in kinds for key in keys]
        for name, one in found["recorded"].items()
    ]
    header = ["records", "cases", *(f"{by}, {name}" for by in kinds for name in names)]
    fill(page, "recorded", table(header, rows))


def present(found: dict) -> None:
    """Print tables."""
    if "near_best" in found:
        near = found["near_best"]
        rows = [
            {"gpu": gpu, "by": by, **scores[by]}
            for gpu, scores in [*near["by_gpu"].items(), ("all", near)]
            for by in BY
        ]
        show(rows, title="Near-best sets: share of cases with a hit")
        show([{"gpu": gpu, "mape": one["mape"]} for gpu, one in near["by_gpu"].items()], title="Best times")
    if "recorded" in found:
        rows = [
            {"records": name, "cases": one["cases"], "by": by, **one[by]}
            for name, one in found["recorded"].items()
            for by in BY
        ]
        show(rows, title="Recorded bests: depth in the ranking of the tuner's space")
        rows = [{"records": name, **one["same_tile"]} for name, one in found["recorded"].items()]
        show(rows, title="First choices with the recorded tile")
    for line in found["skipped"]:
        print(f"not scored: {line}")


def _all(told: Fits) -> list[NearBest | Recorded]:
    near, records, _ = told.without(lambda gpu: False)
    return [*near, *records]


def timed_tables(folder: Path) -> dict[str, Timed]:
    """Tables of measured times in a folder and the folders in it, by name; others are passed over."""
    found = {}
    for path in sorted(folder.rglob("*.csv.gz")):
        for column, read in READERS.items():
            if column in columns(path):
                found[path.relative_to(folder).as_posix().removesuffix(".csv.gz")] = read(path)
    return found


def of_products(table: Timed) -> bool:
    """Whether it is of products, alone or in layers: constants are fitted to those."""
    return isinstance(table.problems[0][0], Product)


def of_amd(table: Timed) -> bool:
    """Whether its GPUs are AMD's."""
    return bool(gpu_file(table.gpus[0]).gpu.gfx)


def kinds(table: Timed) -> list[tuple[str, np.ndarray]]:
    """Rows of each kind of product of AMD's libraries, which count alike; of others all rows."""
    if not of_amd(table):
        return [("all", np.full(len(table), True))]
    names = [f"{one.operands}{', shuffled' if one.shuffled else ''}" for (one,) in table.problems]
    of = np.array(names)[table.problem]
    return [(kind, of == kind) for kind in sorted(set(names))]


def _rows_of(table: Timed, wanted: Callable[[str], bool]) -> Timed:
    return table.where(np.array([wanted(gpu) for gpu in table.gpus])[table.gpu])


def _names(table: Timed) -> str:
    return " ".join(table.gpus[place] for place in np.unique(table.gpu))


def _known(cases: Sequence, skipped: list[str]) -> list:
    """Those of GPUs that can be predicted."""
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
    try:
        main()
    except DseError as error:
        print(f"evaluate_moe.py: {error}", file=sys.stderr)
        sys.exit(2)

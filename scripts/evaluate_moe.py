"""How well configurations of Triton's matrix products are predicted: `evaluate_moe.py DIR [--train DIR2]
[--json]`.

DIR has near_best.csv.gz (all configurations within 1 % of the best) or recorded_best.csv.gz (the best of
tuning runs), or both. Each GPU is scored by what the others tell (constants, prior, weight of the prior),
records by those of other architectures. `--train DIR2` learns from DIR2 instead, `--shipped` takes what the
package comes with. `--write` fits all of DIR and writes dse/matrix/constants.toml and prior.csv.gz.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from dse.accuracy.markdown import table
from dse.errors import DseError
from dse.files import fill
from dse.matrix import constants, prior, rank
from dse.matrix.constants import Constants
from dse.matrix.fit import fit
from dse.matrix.machine import Machine
from dse.matrix.records import NearBest, Recorded, gpu_file, near_best, recorded
from dse.matrix.scores import (
    BY,
    Trained,
    best_weight,
    by_gpu,
    configured,
    depths,
    near_best_hits,
    rates,
    recorded_depths,
)
from dse.report.show import show

WEIGHTS = (0.0, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03)
EVERY = 2  # cases of the fit: the others say the same
LEAST_SHARE = 0.04  # of the table that is written
SOURCE = (
    "near-best configurations of Triton's fused-MoE kernel on A100, H800 and L40, zksainx/pipeweave 55e0317; "
    "recorded best configurations of vllm 0.33.0 and sglang 0.5.23 (all Apache-2.0)"
)


class Fits:
    """Constants fitted to the near-best sets of some GPUs, each combination once."""

    def __init__(self, cases: Sequence[NearBest]) -> None:
        self.cases = by_gpu(cases)
        self._known: dict[frozenset[str], np.ndarray] = {}

    def coordinates(self, gpus: Sequence[str]) -> np.ndarray:
        """x of the constants."""
        chosen = frozenset(gpus)
        if chosen not in self._known:
            print(f"fitting to {', '.join(sorted(chosen)) or 'nothing'}", file=sys.stderr)
            cases = [case for gpu in self.cases if gpu in chosen for case in self.cases[gpu]]
            self._known[chosen] = fit(cases[::EVERY]) if cases else np.zeros(len(constants.ABOUT))
        return self._known[chosen]

    def trained(
        self, gpus: Sequence[str], records: Sequence[Recorded], weight: float | None = None
    ) -> Trained:
        """What these GPUs and records tell."""
        near = [case for gpu in gpus for case in self.cases[gpu]]
        found = Constants.at(jnp.asarray(self.coordinates(gpus), jnp.float32))
        if weight is None:
            weight = self.weight(gpus, records)
        return Trained.of(found, weight, configured([*near, *records]))

    def weight(self, gpus: Sequence[str], records: Sequence[Recorded]) -> float:
        """The weight of the prior that is best among these GPUs."""
        if len(gpus) < 2:
            return rank.WEIGHT
        near = [case for gpu in gpus for case in self.cases[gpu]]

        def without(gpu: str) -> Trained:
            others = [other for other in gpus if other != gpu]
            return self.trained(others, _of_others(records, gpu), rank.WEIGHT)

        return best_weight(near, without, WEIGHTS)


def main() -> None:
    """Score, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=Path, metavar="DIR2", help="learn from this folder")
    parser.add_argument("--shipped", action="store_true", help="take the package's constants and prior")
    parser.add_argument("--write", action="store_true", help="fit all, and write the package's files")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", type=Path, metavar="FILE", help="fill the tables of this page")
    given = parser.parse_args()
    if not given.folder.is_dir():
        raise DseError(f"{given.folder}: found no folder, expected one with near_best.csv.gz")
    if given.write:
        write_files(given.folder)
        return
    found = evaluate(given.folder, given.train, given.shipped)
    if given.page:
        fill_page(given.page, found)
    if given.json:
        print(json.dumps(found, indent=2))
    else:
        present(found)


def evaluate(folder: Path, train: Path | None = None, shipped: bool = False) -> dict:
    """All scores of a folder."""
    skipped: list[str] = []
    near = _known(near_best(folder), skipped)
    records = _known(recorded(folder), skipped)
    source = train or folder
    told = Fits(_known(near_best(source), []))
    others = _known(recorded(source), [])
    own = (
        Trained(constants.fitted(), prior.shipped(), rank.WEIGHT, _counter(told, others)) if shipped else None
    )
    if train and not shipped:
        own = told.trained(list(told.cases), others)

    def without(gpu: str) -> Trained:
        return own or told.trained([one for one in told.cases if one != gpu], _of_others(others, gpu))

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
        result["recorded"] = _recorded(records, told, others, own)
    result["skipped"] = sorted(set(skipped))
    return result


def _recorded(
    records: Sequence[Recorded], told: Fits, others: Sequence[Recorded], own: Trained | None
) -> dict:
    depth = {by: np.full(len(records), np.nan) for by in BY}
    architectures = np.array([_architecture(one.gpu) for one in records])
    for architecture in sorted(set(architectures)):
        places = np.flatnonzero(architectures == architecture)
        trained = own or told.trained(
            [gpu for gpu in told.cases if _architecture(gpu) != architecture],
            [one for one in others if _architecture(one.gpu) != architecture],
        )
        for by, values in recorded_depths([records[int(place)] for place in places], trained).items():
            depth[by][places] = values
    kinds = {
        "all": np.full(len(records), True),
        "depth_known": np.array([one.depth_known for one in records]),
        "moe": np.array([one.kernel == "moe" for one in records]),
        "w8a8": np.array([one.kernel == "w8a8" for one in records]),
    }
    kinds |= {
        gpu: np.array([one.gpu == gpu for one in records]) for gpu in sorted({one.gpu for one in records})
    }
    return {
        name: {"cases": int(chosen.sum()), **depths({by: values[chosen] for by, values in depth.items()})}
        for name, chosen in kinds.items()
        if chosen.any()
    }


def write_files(folder: Path) -> None:
    """Fit everything and write the package's constants and prior."""
    told, records = Fits(_known(near_best(folder), [])), _known(recorded(folder), [])
    gpus = list(told.cases)
    x = told.coordinates(gpus)
    left_out = np.array([told.coordinates([one for one in gpus if one != gpu]) for gpu in gpus])
    constants.FILE.write_text(constants.text(x, left_out.std(axis=0), SOURCE), encoding="utf-8")
    shares = prior.Prior.of(configured([*(case for gpu in gpus for case in told.cases[gpu]), *records]))
    prior.FILE.write_bytes(gzip.compress(shares.text(LEAST_SHARE).encode(), mtime=0))
    print(f"weight of the prior, for dse/matrix/rank.py: {told.weight(gpus, records)}")


def fill_page(page: Path, found: dict) -> None:
    """Write the tables of docs/matrix_kernels.md."""
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
    for line in found["skipped"]:
        print(f"not scored: {line}")


def _counter(told: Fits, records: Sequence[Recorded]):
    near = [case for cases in told.cases.values() for case in cases]
    return Trained.of(constants.default(), 0.0, configured([*near, *records])).counted


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


def _of_others(records: Sequence[Recorded], gpu: str) -> list[Recorded]:
    """Records of GPUs of another architecture: those of the same may be the same card by another name."""
    return [one for one in records if _architecture(one.gpu) != _architecture(gpu)]


def _architecture(gpu: str) -> str:
    return gpu_file(gpu).header.architecture


if __name__ == "__main__":
    try:
        main()
    except DseError as error:
        sys.exit(str(error))

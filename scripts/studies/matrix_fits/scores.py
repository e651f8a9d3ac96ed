"""Score rankings of configurations against recorded tuning results.

Near-best sets: is one of the first k within 1 % of the best? Recorded bests: how deep in the ranking of the
tuner's space is the choice of a tuning run?
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from jaxtyping import Bool, Float
from matrix_fits.package_files import Configured, counted
from matrix_fits.records import NearBest, Recorded

from dse.explore.matrix.devices import gpu_file
from dse.explore.matrix.prior import Prior
from dse.explore.matrix.rank import order, predict
from dse.hardware.gpus import GpuFile
from dse.models.matrix.configuration import Configurations, space
from dse.models.matrix.constants import Constants
from dse.models.matrix.machine import possible
from dse.models.matrix.problem import Product

FIRST = (1, 3, 10)
BY = ("random", "popularity", "prior", "physics", "both")


@dataclass(frozen=True)
class Trained:
    """The basis of rankings of unseen cases."""

    constants: Constants
    prior: Prior
    weight: float
    counted: Counter  # how often each configuration was among the best

    @staticmethod
    def of(constants: Constants, weight: float, cases: Configured, prior: Prior | None = None) -> "Trained":
        """Count the configurations of cases; by default with their own prior."""
        cases = list(cases)
        number = Counter(tuple(configuration) for _, _, winners in cases for configuration in winners)
        return Trained(constants, prior or counted(cases), weight, number)


def near_best_hits(
    cases: Sequence[NearBest], trained: Trained
) -> tuple[dict[str, Float[np.ndarray, "cases 3"]], Float[np.ndarray, " cases"]]:
    """Return the probability of a hit among the first of FIRST, by ranking; and errors of the best time.

    All cases are of one GPU. **Shapes:** [cases, 3]; relative errors [cases].
    """
    table = tried(cases)
    file, products = gpu_file(cases[0].gpu), [case.product for case in cases]
    hits = members(cases, table)
    there = possible(file, products, table)
    score, time = _scores(file, [products], table, trained)
    hit_rates = {}
    for by, ranks in score.items():
        if by == "random":
            counts = zip((hits & there).sum(1).tolist(), there.sum(1).tolist(), strict=True)
            hit_rates[by] = np.array([_by_chance(good, number) for good, number in counts])
        else:
            hit = np.take_along_axis(hits, order(ranks, table)[:, : max(FIRST)], axis=1)
            hit_rates[by] = np.stack([hit[:, :first].any(1) for first in FIRST], axis=1).astype(float)
    return hit_rates, np.exp(time.min(1)) / np.array([case.best for case in cases]) - 1.0


def recorded_depths(
    records: Sequence[Recorded], trained: Trained
) -> tuple[dict[str, Float[np.ndarray, " records"]], dict[str, Float[np.ndarray, " records"]]]:
    """Return the share of the tuner's configurations ranked before the recorded best, by ranking.

    Also 1 if the first one has the recorded tile (rows, columns and depth).
    """
    depths: dict[str, np.ndarray] = {by: np.full(len(records), np.nan) for by in BY}
    tiles = {by: depth.copy() for by, depth in depths.items()}

    def key(place: int) -> tuple:
        record = records[place]
        return record.gpu, record.tried, record.block, len(record.products), record.products[0].operands

    for (gpu, tried, block, number, _), group in groupby(sorted(range(len(records)), key=key), key=key):
        places, table = list(group), space(tried, block)
        products = [[records[place].products[n] for place in places] for n in range(number)]
        run = np.array([records[place].runs(table) for place in places])
        score, _ = _scores(gpu_file(gpu), products, table, trained)
        rows = {tuple(row): n for n, row in enumerate(table.tolist())}
        columns = np.array([rows.get(records[place].configuration, -1) for place in places])
        for by, every in score.items():
            times = np.where(run, every, np.inf)
            own = np.take_along_axis(times, np.maximum(columns, 0)[:, None], axis=1)
            equal = (run & (times == own)).sum(1)
            depth = ((times < own).sum(1) + 0.5 * (equal - 1)) / run.sum(1)
            depths[by][places] = np.where(columns < 0, np.nan, depth)
            same = (table[np.argmin(times, 1), :3] == table[columns, :3]).all(1)
            tiles[by][places] = np.where(columns < 0, np.nan, same if by != "random" else np.nan)
    return depths, tiles


def rates(hits: Iterable[dict[str, np.ndarray]]) -> dict[str, dict[str, float]]:
    """Return the shares of cases with a hit: top1, top3, top10, by ranking."""
    return {
        by: {f"top{first}": _mean(column) for first, column in zip(FIRST, rows.T, strict=True)}
        for by, rows in _joined(hits).items()
    }


def depths(by_score: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Return the median depth, and the shares of records within the first 5 and 10 % of the space."""
    return {
        by: {
            "median_percentile": round(float(np.nanmedian(depth)), 4),
            "top_5_percent": _mean(depth[np.isfinite(depth)] <= 0.05),
            "top_10_percent": _mean(depth[np.isfinite(depth)] <= 0.1),
        }
        for by, depth in by_score.items()
    }


def by_gpu(cases: Sequence[NearBest]) -> dict[str, list[NearBest]]:
    """Group cases by GPU."""
    groups = defaultdict(list)
    for case in cases:
        groups[case.gpu].append(case)
    return dict(groups)


def configured(cases: Iterable[NearBest | Recorded]) -> Configured:
    """Return GPU, product and best configurations of records."""
    for case in cases:
        if isinstance(case, NearBest):
            yield case.gpu, case.product, case.configurations
        else:
            yield case.gpu, case.products[0], [case.configuration]


def _scores(
    file: GpuFile, products: Sequence[Sequence[Product]], table: np.ndarray, trained: Trained
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the scores of each ranking, and log times; `products` run in sequence."""
    time = np.log(sum(predict([file], product, table, trained.constants)[0] for product in products))
    share = trained.prior.log_share(file, products[0], table)
    popular = np.array([trained.counted[tuple(row)] for row in table.tolist()], float)

    def possible_ones(score: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(time), score, np.inf)

    return {
        "random": np.zeros(time.shape),
        "popularity": possible_ones(-popular[None]),
        "prior": possible_ones(-share),
        "physics": time,
        "both": possible_ones(time - trained.weight * share),
    }, time


def tried(cases: Sequence[NearBest]) -> Configurations:
    """Return the space of near-best sets: their tiles, each with its groups, by any warps and stages.

    The space is not published. A group of a tile is in hundreds of sets or in none: a list was searched.
    """
    table = space("wide")
    return table[[tuple(row) in cases[0].tried for row in table[:, :4].tolist()]]


def members(cases: Sequence[NearBest], table: np.ndarray) -> Bool[np.ndarray, "cases configurations"]:
    """Return which configurations of a table are in the sets of cases."""
    place = {tuple(row): n for n, row in enumerate(table.tolist())}
    hits = np.zeros((len(cases), len(table)), bool)
    for row, case in enumerate(cases):
        hits[row, [place[winner] for winner in case.configurations if winner in place]] = True
    return hits


def _by_chance(good: int, all_: int) -> list[float]:
    """Return the probability of a hit among the first of FIRST in random order."""
    missed = np.cumprod([max(all_ - good - n, 0) / (all_ - n) for n in range(min(max(FIRST), all_))])
    return [1.0 - float(missed[min(first, all_) - 1]) for first in FIRST]


def _joined(groups: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    parts = list(groups)
    return {by: np.concatenate([part[by] for part in parts]) for by in (parts[0] if parts else ())}


def _mean(values: np.ndarray) -> float:
    return round(float(np.mean(values)), 4)

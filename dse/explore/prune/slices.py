"""A measured space as an example of how far from the first a nearly fastest configuration lies.

One table is one example. Its slices, parts in which parameters are held to some of their values, are many:
each is a tuning space that somebody might have, with its own fastest configuration.
"""

from collections.abc import Iterator

import numpy as np

from dse.data.scores import spearman
from dse.explore.prune.calibration import LEVELS, KnownSpace
from dse.explore.tune.candidates import Candidates
from dse.explore.tune.tuner import Tuner

FEWEST = 64  # configurations of a slice
SIZES = (20, 50, 100)  # measurements that a slice is refitted to, in turn
REFITTED = 5  # one slice of so many, since that takes longest
MOST = 64  # of the nearly fastest, that are asked of
BEYOND = 10.0  # what counts where the model holds a slice's nearly fastest for impossible


def known(
    space: str, kernel: str, gpu: str, candidates: Candidates, seconds: np.ndarray, within: float, count: int
) -> KnownSpace:
    """Learn from a measured space; `seconds` [N] are infinite where it failed."""
    ran = np.isfinite(seconds)
    expected = ran & candidates.possible
    missed = np.log(seconds[expected]) - candidates.log_s[expected]
    margins, spreads = [], []
    for seed, part in enumerate(slices(candidates, seconds, count)):
        random = np.random.default_rng(seed)
        margins.append(margin(candidates, seconds, part, within))
        turn, rest = divmod(seed, REFITTED)
        if not rest:
            measured = min(SIZES[turn % len(SIZES)], len(part) // 2)
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
    """Yield the whole, and parts: some parameters held to some of their values, at random.

    Each has FEWEST configurations or more of which half ran.
    """
    random, columns = np.random.default_rng(seed), list(candidates.varying.values())
    left, tries = count - 1, 100 * count
    yield np.arange(len(candidates))
    while left and tries:
        tries -= 1
        in_slice = np.ones(len(candidates), bool)
        for place in random.permutation(len(columns))[: random.integers(1, max(2, len(columns)))]:
            values = np.unique(columns[place])
            held = random.permutation(values)[: random.integers(1, max(2, len(values)))]
            in_slice &= np.isin(columns[place], held)
        if in_slice.sum() >= FEWEST and np.isfinite(seconds[in_slice]).mean() >= 0.5:
            left -= 1
            yield np.flatnonzero(in_slice)


def nearly(seconds: np.ndarray, within: float) -> np.ndarray:
    """Mark the nearly fastest."""
    return seconds <= seconds.min() * (1 + within)


def margin(candidates: Candidates, seconds: np.ndarray, in_slice: np.ndarray, within: float) -> float:
    """How much slower than the fastest prediction the first nearly fastest is predicted, over the spread.

    Of the `chosen` of all candidates, as `below`; the spread is that of what the model misses of them.
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
    """How far the nearly fastest lie below what the surrogate says, refitted to so many, over its deviation.

    Of the one that is the least so, whose lower end is to be below what would beat the best measured one.
    """
    places = random.permutation(in_slice)[:measured]
    good = in_slice[nearly(seconds[in_slice], within)]
    if np.isin(places, good).any():
        return 0.0
    good = good[candidates.possible[good]]
    if not len(good):
        return BEYOND
    ran = places[np.isfinite(seconds[places])]
    tuner = Tuner(candidates, told={int(place): float(seconds[place]) for place in ran})
    mean, deviation = tuner.surrogate(candidates.points.rows(good[:MOST]))
    mean = mean + candidates.expected[good[:MOST]]
    beaten = np.log(seconds[ran].min()) - np.log1p(within)
    return float(np.clip((mean - beaten) / deviation, 0.0, BEYOND).min())

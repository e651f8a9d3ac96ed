"""The measured spaces that pruning's risk rests on, and how far to reach by them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from calibrate_pruning import text_of

from dse.explore.prune.calibration import (
    FILE,
    LEVELS,
    SCATTER,
    UNSEEN,
    UNSEEN_DEVIATIONS,
    KnownSpace,
    KnownSpaces,
    load,
)
from dse.hardware.gpus import find
from dse.kernels import load as load_kernel

PREDICTED = 0.5


def space(margins, spread=0.3, kernel="k", gpu="g"):
    return KnownSpace("s", kernel, gpu, 1000, 0.8, PREDICTED, spread, margins, margins)


def test_file_of_the_package_and_what_is_written_is_read_again(tmp_path):
    """Where each space is from, and that what was found in it can be."""
    known = load()
    assert (known.model, known.within, len(known.spaces)) == ("phase", 0.05, 7)
    for single in known.spaces:
        find(single.gpu)
        assert single.space in [alias.name for alias in load_kernel(single.kernel).spaces]
        for quantiles in (single.margins, single.spreads):
            assert len(quantiles) == len(LEVELS)
            assert np.all(np.diff(quantiles) >= 0)
            assert quantiles[0] >= 0
        assert 0 < single.spread < single.predicted < 2
        assert -1 <= single.spearman <= 1
    assert FILE.read_text() == text_of(load())
    first = load().spaces[0]
    other = replace(load(), model="roofline", spaces=(replace(first, spread=0.25, gpu='A "B"'),))
    path = tmp_path / "calibration.toml"
    path.write_text(text_of(other))
    assert load(path) == other


def test_spaces_are_equally_likely():
    """One with margins spread evenly up to 1, one in which the first was always right, and one not seen."""
    even = tuple(LEVELS)
    known = KnownSpaces("m", 0.05, 1, (space(even), space((0.0,) * len(LEVELS))))
    assert known.margin_in_spreads(0.05) == pytest.approx(UNSEEN, abs=1e-6)
    assert known.margin_in_spreads(0.4) == pytest.approx(0.8, abs=1e-6)  # a fifth of one, and that not seen
    assert known.spreads(0.05) == pytest.approx(UNSEEN_DEVIATIONS, abs=1e-6)
    assert known.spreads(0.4) == pytest.approx(0.8, abs=1e-6)
    assert known.margin_in_spreads(0.67) == pytest.approx(0.0, abs=0.02)


def test_without_measurements_the_spread_is_drawn_from_those_known():
    """Against draws: margins by one space's, spreads from the predictive distribution of two."""
    even = tuple(LEVELS)
    known = KnownSpaces("m", 0.05, 1, (space(even, 0.2), space(even, 0.4)))
    random = np.random.default_rng(0)
    logs = np.log([0.2, 0.4])
    scale = np.sqrt((SCATTER**2 + 2 * logs.var()) / 2 * 1.5)
    spread = np.exp(logs.mean() + random.normal(size=400_000) * scale)
    margins = np.where(random.uniform(size=400_000) < 1 / 3, UNSEEN, random.uniform(size=400_000))
    for risk, predicted in itertools.product((0.2, 0.4), (PREDICTED, 1.7)):
        expected = predicted / PREDICTED * np.quantile(margins * spread, 1 - risk)
        assert known.margin(risk, predicted) == pytest.approx(expected, rel=0.03)
    assert known.margin(0.1, 0.001) == known.margin(0.1, PREDICTED)  # too small a spread is not believed
    alike = KnownSpaces("m", 0.05, 1, (space(tuple(LEVELS), 0.3), space(tuple(LEVELS), 0.3)))
    assert alike.margin(0.05, PREDICTED) > 1.2 * UNSEEN * 0.3

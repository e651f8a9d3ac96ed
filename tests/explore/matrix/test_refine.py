"""Corrections by measured times: a planted error is learnt, and what was measured wins."""

import numpy as np
import pytest

from dse.explore.matrix import refine
from dse.explore.matrix.refine import CLEARLY, Correction, Timed, choose
from dse.explore.matrix.table import Kernel, Predictor, best
from dse.hardware import gpus
from dse.models.matrix.configuration import PARAMETERS

H20 = gpus.load("h20")
KERNEL = Kernel("moe", {"E": 64, "N": 512, "K": 2048, "topk": 6}, "fp8_w8a8")
PREDICTED = Predictor.of(H20, KERNEL)
TABLE = PREDICTED.configurations
PLACES = {tuple(row): place for place, row in enumerate(TABLE.tolist())}


def place_of(row: dict) -> int:
    return PLACES[tuple(row[name] for name in PARAMETERS)]


def slower(tokens: int) -> np.ndarray:
    """Log: the truth is slower by 30 % throughout, and by 65 % more where a tile is as wide as predicted."""
    width = best(H20, KERNEL, [tokens])[0]["BLOCK_SIZE_N"]
    return np.log(1.3) + 0.5 * (TABLE[:, 1] == width)


def truth(tokens: int, like: int) -> np.ndarray:
    return np.exp(PREDICTED(tokens) + slower(like))


def measured(tokens: list[int], like: int, number: int, seed: int = 0) -> Timed:
    """Time so many of the configurations predicted to be among the fastest 200, with 1 % of noise."""
    random = np.random.default_rng(seed)
    parts = []
    for token in tokens:
        selected = random.permutation(np.argsort(PREDICTED(token))[:200])[:number]
        noise = np.exp(0.01 * random.standard_normal(number))
        parts.append(Timed(np.full(number, token), selected, truth(token, like)[selected] * noise))
    return parts[0] if len(parts) == 1 else parts[0].and_(parts[1])


@pytest.mark.quick("32")
@pytest.mark.parametrize("tokens", [32, 1024])
def test_a_planted_error_of_a_tile_is_learnt_from_other_batch_sizes(tokens: int):
    timed = measured([tokens // 2, tokens * 2], tokens, 20)
    [before], [after] = best(H20, KERNEL, [tokens]), best(H20, KERNEL, [tokens], timed)
    real = truth(tokens, tokens)
    assert after["by"] == "corrected"
    assert after["BLOCK_SIZE_N"] != before["BLOCK_SIZE_N"]
    assert real[place_of(after)] < 0.75 * real[place_of(before)]
    assert real[place_of(after)] < 1.1 * real.min()
    assert after["time_s"] == pytest.approx(real[place_of(after)], rel=0.1)


def test_errors_of_those_left_out_shrink():
    timed = measured([64], 64, 40)
    mean, deviation = Correction(PREDICTED, TABLE, timed)(64)
    others = np.setdiff1d(np.argsort(PREDICTED(64))[:200], timed.places)
    real = np.log(truth(64, 64)[others])
    spread = np.std(slower(64)[others])
    assert np.sqrt(np.mean((mean[others] - real) ** 2)) < 0.4 * spread
    within = np.abs(mean[others] - real) < 2 * deviation[others]
    assert np.mean(within) > 0.85


def test_what_was_measured_to_be_the_fastest_wins_or_another_of_its_tile():
    [before] = best(H20, KERNEL, [256])
    others = [place_of(before), *np.argsort(PREDICTED(256))[200:204].tolist()]
    # One that is predicted to be slow is measured to be the fastest by far.
    seconds = before["time_s"] * np.array([1.0, 1.1, 0.5, 1.2, 1.3])
    [row] = best(H20, KERNEL, [256], Timed(np.full(5, 256), np.array(others), seconds))
    assert tuple(TABLE[place_of(row), :3]) == tuple(TABLE[others[2], :3])
    assert row["time_s"] <= seconds[2]
    timed = Timed(np.array([8]), np.array([0]), np.array([1.0]))
    log_s, none = np.array([0.0, -0.5]), np.zeros(2)
    for deviation, selected in ((0.51 / CLEARLY, 0), (0.49 / CLEARLY, 1)):
        assert choose(log_s, np.full(2, deviation), none, timed, 8)[0] == selected
    assert choose(log_s, np.full(2, 9.0), none, timed, 16)[0] == 1  # of another M nothing was measured
    assert choose(log_s, np.full(2, 9.0), np.array([-1.0, 0.0]), timed, 16)[0] == 0


def test_many_times_are_thinned_and_the_fastest_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(refine, "MOST", 40)
    timed = measured([64, 128], 64, 100)
    rows = refine._learnt_from(timed)
    assert len(rows) == 40 == len(set(rows.tolist()))
    for tokens in (64, 128):
        assert timed.of(tokens)[1][0] in timed.seconds[rows]
        assert timed.of(tokens)[1][-1] in timed.seconds[rows]


def test_nothing_measured_is_the_prediction():
    mean, _ = Correction(PREDICTED, TABLE, Timed.none())(64)
    assert np.array_equal(mean, PREDICTED(64))
    [row], [predicted] = best(H20, KERNEL, [64], Timed.none()), best(H20, KERNEL, [64])
    assert row.pop("by") == "corrected"
    assert row.items() <= predicted.items()

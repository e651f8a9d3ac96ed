"""Who is believed: a model that is right, one whose order is reversed, other GPUs' times."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from dse.explore.tune.candidates import bare
from dse.explore.tune.experts import MISSED, WRONG, experts, mixed, opinion, surprise, weights

SIDE = 8
A, B = (axis.ravel() for axis in np.meshgrid(2 ** np.arange(SIDE), 2 ** np.arange(SIDE), indexing="ij"))
N = len(A)
X, Y = np.log2(A) / (SIDE - 1), np.log2(B) / (SIDE - 1)
TRUE = 0.8 * (X - 0.7) ** 2 + 1.2 * (Y - 0.3) ** 2 + 0.3 * np.sin(9 * X * Y) - 7.0
PLACES = np.random.default_rng(0).permutation(N)[:10].tolist()


def candidates(log_s, prior=None):
    base = bare({"a": A, "b": B})
    return replace(base, log_s=log_s, modelled=True, prior=prior)


def believed(some, measured=PLACES):
    """The weight of each expert by its name."""
    opinions = [opinion(one, measured, TRUE[measured], None) for one in experts(some)]
    shares = weights(opinions)
    assert shares.sum() == pytest.approx(1.0)
    return dict(zip((one.expert.name for one in opinions), shares, strict=True))


def test_before_measurements_the_model_has_most_of_the_weight():
    model, alone = experts(candidates(TRUE))
    assert (model.weight, alone.weight) == (pytest.approx(1 - WRONG), pytest.approx(WRONG))
    both = experts(candidates(TRUE, TRUE))
    assert [one.name for one in both] == ["other GPUs", "model", "measurements"]
    assert sum(one.weight for one in both) == pytest.approx(1.0)
    [only] = experts(bare({"a": A, "b": B}))
    assert (only.name, only.weight) == ("measurements", 1.0)


def test_a_right_model_is_believed_and_a_reversed_one_is_not():
    right = believed(candidates(TRUE + 0.02 * np.random.default_rng(1).normal(size=N)))
    assert right["model"] > 0.99
    wrong = believed(candidates(-TRUE))
    assert wrong["measurements"] > 0.9


def test_a_single_measurement_tells_by_its_level():
    """A model that is right keeps its weight; one whose first choice takes 50 times as long loses it."""
    first = [int(TRUE.argmin())]
    assert believed(candidates(TRUE), first)["model"] > 1 - 1.5 * WRONG
    assert believed(candidates(TRUE - np.log(50)), first)["model"] < 0.5


def test_by_measurements_alone_times_vary_as_widely_as_predicted():
    """So that what is far from a few slow ones, which the model had put first, may be much faster."""
    for factor in (0.1, 4.0):
        alone = experts(candidates(factor * TRUE))[-1]
        assert alone.missed == pytest.approx(max(MISSED, factor * TRUE.std()))
    [only] = experts(bare({"a": A, "b": B}))
    assert only.missed == MISSED
    slow = np.argsort(-TRUE)[:3].tolist()
    gains = []
    for factor in (0.1, 4.0):
        alone = experts(candidates(-factor * TRUE))[-1]
        gains.append(opinion(alone, slow, TRUE[slow], None).deviation.max())
    assert gains[1] > 1.5 * gains[0]


def test_times_on_other_gpus_are_believed_where_the_model_is_wrong():
    found = believed(candidates(-TRUE, 2 * TRUE + TRUE))  # with the model's: TRUE
    assert found["other GPUs"] > 0.9


def test_the_likelihood_is_that_of_each_without_itself():
    expert = replace(experts(candidates(TRUE - 0.1 * X))[0], absolute=False)
    found = opinion(expert, PLACES, TRUE[PLACES], None)
    above = found.surrogate.left_out()
    _, deviation = found.surrogate.left_out_errors(TRUE[PLACES] - expert.log_s[PLACES])
    held = t.logpdf(above, 4).sum() - np.log(deviation).sum()
    assert found.likelihood <= held + 1e-6  # what is far slower than the rest counts in full here
    slow = TRUE.copy()
    slow[PLACES[0]] += 5.0
    assert opinion(expert, PLACES, slow[PLACES], None).likelihood < found.likelihood - 1


def test_a_level_that_is_far_off_speaks_against_a_model():
    expert = experts(candidates(TRUE))[0]
    order_only = replace(expert, absolute=False)
    changes = []
    for factor in (1.0, 2.0, 1 / 2.0, 100.0):
        logs = TRUE[PLACES] + np.log(factor)
        changes.append(
            opinion(expert, PLACES, logs, None).likelihood
            - opinion(order_only, PLACES, logs, None).likelihood
        )
    np.testing.assert_allclose(changes, [surprise(np.log(x)) for x in (1, 2, 0.5, 100)], rtol=1e-6)
    assert changes[0] > changes[1] > 0
    assert changes[1] == pytest.approx(changes[2])
    assert changes[3] < -2
    shifted = experts(candidates(TRUE, 3 * TRUE))
    assert [one.absolute for one in shifted] == [True, True, False]


def test_mixed_has_the_moments_of_a_mixture():
    opinions = [opinion(one, PLACES, TRUE[PLACES], None) for one in experts(candidates(-TRUE))]
    mean, deviation = mixed(opinions, np.array([0.25, 0.75]))
    random = np.random.default_rng(0)
    first = random.uniform(size=(40_000, 1)) < 0.25
    parts = [one.mean[:4] + one.deviation[:4] * random.normal(size=(40_000, 4)) for one in opinions]
    drawn = np.where(first, *parts)
    np.testing.assert_allclose(mean[:4], drawn.mean(0), atol=0.03)
    np.testing.assert_allclose(deviation[:4], drawn.std(0), rtol=0.03, atol=1e-3)

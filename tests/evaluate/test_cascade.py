"""Levels of a cascade: what each keeps, and where it differs from the one before."""

import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError
from dse.evaluate.cascade import cascade, read
from dse.evaluate.rank import rank
from dse.hardware import gpus

GPU = gpus.load("a100").gpu


@pytest.fixture
def kernel(toy_kernel):
    return kernels.load(toy_kernel)


def _times(ranking, model):
    """Times by configuration, fastest first."""
    names = list(ranking.parameters)
    rows = zip(*(ranking.parameters[name][ranking.order].tolist() for name in names), strict=True)
    seconds = ranking.evaluation.forecasts[model].seconds[0][ranking.order].tolist()
    return dict(zip(rows, seconds, strict=True))


def test_one_level_is_a_ranking_cut_short(kernel):
    done = cascade(read("volkov:3", kernel), GPU)
    whole = rank(kernel, GPU, ["volkov"])
    assert _times(done, "volkov") == dict(list(_times(whole, "volkov").items())[:3])
    [level] = done.levels
    assert (level["kept"], level["spearman"], level["kept_by_both"]) == (3, None, None)
    whole = rank(kernel, GPU, ["roofline"])
    seconds = whole.evaluation.forecasts["roofline"].seconds[0][whole.order]
    [level] = cascade(read("roofline:1", kernel), GPU).levels
    assert level["equal_dropped"] == np.sum(seconds <= seconds[0] * 1.001) - 1


def test_a_level_sees_what_the_one_before_kept(kernel):
    whole = rank(kernel, GPU, ["phase"])
    runs = whole.count - whole.impossible
    done = cascade(read("phase:50%,volkov:4,roofline:2", kernel), GPU)
    first, second, third = done.levels
    assert first["configurations"] == whole.count
    assert first["kept"] == second["configurations"] == -(-runs // 2)
    assert (second["kept"], third["configurations"], third["kept"]) == (4, 4, 2)
    assert list(done.evaluation.forecasts) == ["roofline", "volkov", "phase"]
    assert done.count == 2
    left = dict(list(_times(whole, "phase").items())[: first["kept"]])
    assert set(_times(done, "roofline")) <= set(left)
    assert _times(done, "phase").items() <= left.items()  # times of earlier levels stay with theirs


def test_equal_times_keep_the_order_of_the_level_before(kernel):
    done = cascade(read("phase:100%,roofline:100%", kernel), GPU)
    seconds, before = (done.evaluation.forecasts[name].seconds[0] for name in ("roofline", "phase"))
    equal = seconds[1:] == seconds[:-1]
    assert equal.any()
    assert np.all(before[1:][equal] >= before[:-1][equal])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("phase", "expected MODEL:COUNT or MODEL:SHARE%"),
        ("phase:0", "expected a whole number from 1"),
        ("phase:101%", "expected a share above 0 up to 100 %"),
        ("phase:5%,phase:2", "found 'phase' twice"),
        ("phas:5%", "did you mean phase"),
        ("phase:5%,source:2", "source: found none"),
        ("phase:1" + 5000 * "0", "expected MODEL:COUNT"),
    ],
)
def test_levels_that_cannot_be(kernel, text, problem):
    with pytest.raises(DseError, match=problem):
        read(text, kernel)
    with pytest.raises(DseError, match="found no level"):
        cascade([], GPU)

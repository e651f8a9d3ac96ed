"""Kernels of one's own: what a function counts is ranked, fitted and pruned as a described kernel is."""

from typing import Any

import numpy as np
import pytest

from dse.core.space import Space
from dse.errors import DseError
from dse.evaluate.chunks import evaluate
from dse.evaluate.rank import rank
from dse.hardware import gpus
from dse.kernels.counts import Counts, OwnKernel, sizes_of
from dse.types import CLASSES, Kernel, PerClass, Resources

SPACE = Space({"block": (64, 128, 256), "items": (1, 2)})


def scale(parameters, gpu, sizes):
    """Adds one to each of n numbers."""
    block, items = parameters["block"], parameters["items"]
    work = PerClass(**dict.fromkeys(CLASSES, 0.0) | {"fp32": items, "dram": 8 * items})
    counts: dict[str, Any] = dict.fromkeys(set(Kernel.__dataclass_fields__) - {"work", "phases"}, 1.0)
    blocks = -(-sizes["n"] // (block * items))
    kernel = Kernel(work=work, **counts | {"load_insts": items, "store_insts": items})
    return kernel, Resources(threads=block, blocks=blocks, registers=32, shared_bytes=0)


@pytest.fixture(scope="module")
def own():
    return OwnKernel("scale", SPACE, scale, (("n", 2**20),))


def test_of_ones_own(own):
    assert isinstance(own, Counts)
    ranking = rank(own, gpus.load("a100").gpu, ["roofline"])
    assert ranking.count == 6
    assert ranking.failures == {}
    assert ranking.rows(1)[0]["time_s"] > 0
    both = gpus.stack([gpus.load(name).gpu for name in ("a100", "h200")])
    parameters = SPACE.configurations()
    evaluated = evaluate(own, ["roofline"], both, parameters, {"n": 2**22})
    assert evaluated.forecasts["roofline"].seconds.shape == (2, 6)
    np.testing.assert_array_equal(
        evaluated.resources["blocks"][1], 2**22 // (parameters["block"] * parameters["items"])
    )
    assert sizes_of(own, {"n": 5}) == {"n": 5}
    with pytest.raises(DseError, match="scale: problem: found 'm', expected one of n"):
        sizes_of(own, {"m": 1})

"""A product of two kernels, several sizes, two GPUs and two models, and all of its rows."""

import itertools

import numpy as np
import pytest

from dse import kernels
from dse.evaluate.chunks import evaluate
from dse.explore.sweep.product import SweepProduct
from dse.hardware import gpus
from dse.models import get_all

SIZES = (1 << 16, 1 << 20, 3 << 20)


@pytest.fixture(scope="session")
def product(toy_kernel):
    """The toy kernel at three sizes and the example at one."""
    toy, example = kernels.load(toy_kernel), kernels.load("example")
    files = (gpus.load("a100"), gpus.load("gtx-280"))
    pairs = [(toy, {"n": SIZES}), (example, dict(example.problem))]
    return SweepProduct.of(pairs, files, get_all(("roofline", "volkov")))


def every_row(product):
    """All rows in the order of kernels, sizes, GPUs, models and configurations, evaluated point by point."""
    rows = []
    for kernel, sizes in zip(product.kernels, product.sizes, strict=True):
        for values in itertools.product(*sizes.values.values()):
            problem = dict(zip(sizes.names, values, strict=True))
            parameters = kernel.space.configurations(problem)
            evaluated = evaluate(kernel, product.models, product.stacked, parameters, problem)
            limits = evaluated.limited_by()
            for g, file in enumerate(product.gpus):
                for model, forecast in evaluated.forecasts.items():
                    rows += [
                        {"kernel": kernel.name, "gpu": file.name, "model": model}
                        | problem
                        | {name: values[i].item() for name, values in parameters.items()}
                        | {name: int(values[g, i]) for name, values in evaluated.resources.items()}
                        | {"limited_by": limits[g, i], "possible": bool(evaluated.possible[g, i])}
                        | {"time_s": float(forecast.seconds[g, i])}
                        for i in range(len(next(iter(parameters.values()))))
                    ]
    return rows


@pytest.fixture(scope="session")
def expected(product):
    """Every row of the product."""
    rows = every_row(product)
    assert 0 < np.mean([row["possible"] for row in rows]) < 1
    return rows

"""Chunks of configurations, against the same models called one configuration at a time."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from dse import kernels
from dse.evaluate import chunks as module
from dse.evaluate.chunks import chunks, evaluate, evaluate_counted
from dse.hardware import gpus, occupancy
from dse.kernels.description import describe
from dse.models import CLOSED_FORMS, get, get_all
from dse.models.protocol import ClosedForm

FEW, OTHERS = ("volkov", "wfg-corrected"), ("phase", "gpumech-gto")
NAMES = ("gtx-280", "mi250x")  # warps of 32 and of 64


def plain(description, models, gpu, configuration):
    """One configuration on one GPU by each model, without jit, chunks or a batch axis; and if it can run."""
    parameters = {name: np.asarray(value) for name, value in configuration.items()}
    kernel, resources = describe(description, parameters, description.sizes(), gpu)
    launch, limiter = occupancy.launch(gpu, resources)
    predictions = {model: get(model).predict(gpu, kernel, launch) for model in models}
    return predictions, bool(occupancy.possible(limiter))


@pytest.mark.quick("some")
@pytest.mark.parametrize("models", [FEW, OTHERS], ids=["some", "others"])
def test_equals_one_at_a_time(toy_kernel, models):
    description = kernels.load(toy_kernel)
    files = [gpus.load(name, np.float64) for name in NAMES]
    parameters = description.space.configurations(description.sizes())
    evaluated = evaluate(description, models, gpus.stack([file.gpu for file in files]), parameters)
    assert tuple(evaluated.forecasts) == models
    assert {forecast.seconds.dtype for forecast in evaluated.forecasts.values()} == {np.dtype(np.float64)}
    impossible = 0
    for g, file in enumerate(files):
        for i in (0, 9, len(parameters["block"]) - 1):
            single = {name: values[i] for name, values in parameters.items()}
            predictions, possible = plain(description, models, file.gpu, single)
            for model, prediction in predictions.items():
                forecast = evaluated.forecasts[model]
                if possible:
                    np.testing.assert_allclose(forecast.seconds[g, i], prediction.seconds, rtol=1e-12)
                    assert forecast.bottleneck[g, i] == prediction.bottleneck
                else:
                    impossible += 1
                    assert np.isinf(forecast.seconds[g, i])
                    assert np.isinf(forecast.cycles[g, i])
                    assert forecast.bottleneck_names()[g, i] == ""
                assert evaluated.possible[g, i] == possible
    assert impossible  # 1,024 threads are too many for the GTX 280


def test_chunks_do_not_matter(toy_kernel):
    description = kernels.load(toy_kernel)
    gpu = gpus.stack([gpus.load("a100").gpu])
    parameters = description.space.configurations(description.sizes())
    whole = evaluate(description, ("volkov",), gpu, parameters)
    counted, count = description.count(parameters, gpu), len(parameters["block"])
    parts = evaluate_counted(counted.batch, count, "toy", get_all(["volkov"]), gpu, sizes=(8,))
    np.testing.assert_array_equal(whole.forecasts["volkov"].seconds, parts.forecasts["volkov"].seconds)
    np.testing.assert_array_equal(whole.limiter, parts.limiter)
    again = [block["block"] for block in chunks(parameters, 8)]
    np.testing.assert_array_equal(np.concatenate(again), parameters["block"])
    with pytest.raises(ValueError, match="no configurations"):
        evaluate(description, ("volkov",), gpu, {name: values[:0] for name, values in parameters.items()})


def test_compiles_once_for_new_values_and_sizes(toy_kernel):
    description = kernels.load(toy_kernel)
    parameters = description.space.configurations(description.sizes())
    traced = []

    class Traced(ClosedForm):
        @property
        def predict(self) -> Any:
            return lambda *arguments: traced.append(self.name) or ClosedForm(self.name).predict(*arguments)

    for name, n in (("a100", 4096), ("rtx-3090", 8192), ("h200", 100_000)):
        gpu = gpus.stack([gpus.load(name).gpu])
        evaluate(description, (Traced("transit"),), gpu, parameters, {"n": n})
    assert traced == ["transit"]


@pytest.mark.slow
def test_precision_follows_the_gpu(toy_kernel):
    # that of float64 is checked where such is evaluated anyway
    description = kernels.load(toy_kernel)
    parameters = {"block": np.array([128, 256]), "items": np.array([1, 1])}
    gpu = gpus.stack([gpus.load("a100", np.float32).gpu])
    evaluated = evaluate(description, ("volkov",), gpu, parameters)
    assert {forecast.seconds.dtype for forecast in evaluated.forecasts.values()} == {np.dtype(np.float32)}
    column = jax.tree.map(lambda x: np.asarray(x)[:, None], gpu)
    chunk = description.count(parameters, gpu).batch.take(np.arange(2)).on(column)
    launch, possible, _ = module.place_launches(column, chunk.resources, chunk.kernel.work)
    for model in get_all(CLOSED_FORMS):
        traced = eqx.filter_eval_shape(module.forecast, model, column, chunk.kernel, launch, possible)
        assert {traced.cycles.dtype, traced.seconds.dtype} == {np.dtype(np.float32)}, model.name


def test_what_a_launch_costs_is_in_the_seconds_of_every_model(toy_kernel):
    description = kernels.load(toy_kernel)
    plain = gpus.load("a100", np.float64).gpu
    costly = eqx.tree_at(lambda gpu: gpu.launch_overhead, plain, np.asarray(5e-6))
    parameters = {"block": np.array([128, 64]), "items": np.array([1, 2])}
    models = ("roofline", "phase")
    evaluated = evaluate(description, models, gpus.stack([plain, costly]), parameters)
    for forecast in evaluated.forecasts.values():
        np.testing.assert_allclose(forecast.seconds[1], forecast.seconds[0] + 5e-6, rtol=1e-12)
        np.testing.assert_array_equal(*forecast.cycles)

"""The names that `import dse` offers."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet as pq
import pytest

import dse
from dse.errors import DseError
from dse.evaluate.curve import place_launch
from dse.types import Prediction

GPU = "a100-pcie-40gb"
REDUCTION = {"block": 128, "items": 4, "shuffle": 1}


def test_names():
    assert all(getattr(dse, name) for name in dse.__all__)
    assert set(dse.__all__) <= set(dir(dse))
    with pytest.raises(AttributeError, match="module 'dse' has no attribute 'rang'"):
        _ = dse.rang  # type: ignore[attr-defined]


def test_a_kernel_by_name_file_or_itself(toy_kernel):
    kernel, gpu = dse.kernel(toy_kernel), dse.gpu(GPU)
    by_name = dse.rank(toy_kernel, GPU, "roofline").rows(3)
    assert dse.rank(kernel, gpu, dse.models.get("roofline")).rows(3) == by_name
    with pytest.raises(DseError, match="gpu: found 'b52'"):
        dse.gpu("b52")


def test_predictions_of_a_few(toy_kernel):
    some = {"block": [64, 128], "items": [1, 2]}
    result = dse.predict(toy_kernel, [GPU, "h200"], some, "roofline", {"n": 4096})
    assert result.seconds.shape == (2, 2)
    rows = result.rows()
    gpus = [dse.gpu(name).name for name in (GPU, GPU, "h200", "h200")]
    assert [row["gpu"] for row in rows] == gpus
    assert [(row["block"], row["n"]) for row in rows] == [(64, 4096), (128, 4096)] * 2
    assert [row["time_s"] for row in rows] == np.ravel(result.seconds).tolist()
    predicted = dse.predict(toy_kernel, GPU, {"block": 64, "items": 1}, "roofline", {"n": 4096})
    assert (predicted.seconds.shape, predicted.rows()) == ((), rows[:1])


def test_predictions_of_objects():
    gpu, kernel = dse.gpu(GPU), dse.kernel("reduction")
    counts, launch = place_launch(kernel, gpu.gpu, REDUCTION, dict(kernel.problem))
    predicted = dse.predict(counts, gpu, launch, "roofline")
    assert isinstance(predicted, Prediction)
    assert predicted.seconds == pytest.approx(dse.predict(kernel, gpu, REDUCTION, "roofline").seconds)
    assert dse.predict(counts, gpu.gpu, launch, "roofline").seconds == predicted.seconds


@pytest.mark.slow
def test_a_gradient_is_finite_beside_what_cannot_run(toy_kernel):
    gpu = dse.gpu("gtx-280")
    predicted = dse.predict(toy_kernel, gpu, models="volkov")
    assert not predicted.possible.all()

    def total(gpu):
        seconds = dse.predict(toy_kernel, gpu, models="volkov").seconds
        return jnp.where(jnp.isfinite(seconds), seconds, jnp.zeros_like(seconds)).sum()

    assert all(np.isfinite(x).all() for x in jax.tree.leaves(jax.grad(total)(gpu)))


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "launch: toy: found 'blok', expected one of block, items": lambda toy: dse.predict(toy, GPU, {"blok": 1}),
    "launch: toy: found no items, expected each parameter": lambda toy: dse.predict(toy, GPU, {"block": 64}),
    "found values of block 2, items 3, expected equally many": lambda toy: dse.predict(
        toy, GPU, {"block": [64, 128], "items": [1, 2, 4]}
    ),
    "launch: toy: block: found [], expected numbers": lambda toy: dse.predict(
        toy, GPU, {"block": [], "items": 1}
    ),
    "gpu: found bare numbers": lambda toy: dse.predict(dse.gpu(GPU).gpu, "reduction", REDUCTION),  # type: ignore[call-overload]
    "model: found none, expected at least one": lambda toy: dse.rank(toy, GPU, []),
    "sample: found 0, expected at least 1": lambda toy: dse.rank(toy, GPU, sample=0),
    "measure: found -1.0, expected seconds above 0": lambda toy: dse.tune(toy, GPU, lambda row: -1.0, 1),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes(toy_kernel, message):
    with pytest.raises(DseError, match=re.escape(message)):
        MISTAKES[message](toy_kernel)


def test_values_of_launches_may_be_floats_of_a_table_and_names_exchanged():
    usual = dse.predict("reduction", GPU, REDUCTION, "roofline")
    floats = {name: np.array([float(value)]) for name, value in REDUCTION.items()}
    assert dse.predict("reduction", GPU, floats, "roofline").seconds == [usual.seconds]
    exchanged = dse.predict(GPU, "reduction", REDUCTION, "roofline")
    assert exchanged.seconds == usual.seconds
    with pytest.raises(DseError, match="model: found pipeline, which is simulated, expected a closed form"):
        jax.grad(lambda gpu: dse.predict(gpu, "reduction", REDUCTION, "pipeline").seconds)(dse.gpu(GPU))


@pytest.mark.parametrize("name", [name for name in dse.__all__ if name not in ("models", "__version__")])
def test_every_name_says_shapes_units_errors_and_source(name):
    said = getattr(dse, name).__doc__
    for part in ("Returns", "Raises", *(() if name == "cache" else ("Units", "Source"))):
        assert f"**{part}:**" in said, part
    if name not in ("gpu", "kernel", "cache"):
        assert "**Shapes:**" in said


@pytest.fixture(scope="module")
def results(toy_kernel):
    """What the functions give, by name, of the toy kernel."""
    first = [{"block": 1024, "items": 1}]
    search = dse.search(toy_kernel, GPU, 20, "roofline", sampler="random", seed=0, enqueue=first)
    return {
        "predict": dse.predict(toy_kernel, GPU, models="roofline"),
        "rank": dse.rank(toy_kernel, GPU, "roofline"),
        "prune": dse.prune(toy_kernel, GPU, models="roofline", risk=0.5),
        "tune": dse.tune(toy_kernel, GPU, lambda row: 1e-6 * row["block"], 4, "roofline", parallel=2),
        "search": search,
    }


@pytest.mark.parametrize("name", ["predict", "rank", "prune", "tune", "search"])
def test_results_are_tables(results, name, tmp_path):
    result = results[name]
    assert len(result.to_pandas()) == len(result.rows()) == result.to_arrow().num_rows > 0
    assert len(repr(result)) < 300
    assert "<th>block</th>" in result._repr_html_()
    result.write(tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == len(result.rows())


def test_results_have_a_best_row(results):
    ranking, run = results["rank"], results["tune"]
    assert ranking[0] == ranking.best == ranking.rows(1)[0]
    assert ranking[-1] == ranking.rows()[-1]
    assert len(ranking) == len(list(ranking)) == ranking.count
    shown = ranking._repr_html_()
    assert "<th>time [s]</th>" in shown
    assert "<th>kernel</th>" not in shown  # the same in all rows
    assert ranking.to_arrow().schema.field("time_s").metadata[b"unit"] == b"s"
    assert run.best["measured_s"] == min(row["measured_s"] for row in run)
    assert len(run.rows()) == 4
    assert results["search"].best == results["search"][0]
    assert results["search"].best["time_s"] >= ranking.best["time_s"]
    assert results["search"].evaluated()[0].params == {"toy.block": 7, "toy.items": 0}
    assert results["predict"].best["time_s"] == float(results["predict"].seconds.min())
    assert 0 < len(results["prune"]["block"]) < ranking.count


def test_measured_times_are_compared_and_refit(results, toy_kernel, tmp_path):
    ranking = results["rank"]
    times = ranking.evaluation.forecasts["roofline"].seconds[0]
    columns = ranking.parameters | {"time_s": times}
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    table = [",".join(columns), *(",".join(map(str, row)) for row in rows if np.isfinite(row[-1]))]
    (tmp_path / "times.csv").write_text("\n".join(table))
    scores = dse.compare(toy_kernel, GPU, tmp_path / "times.csv", "roofline")
    assert scores[0]["spearman"] == pytest.approx(1.0)
    refitted = dse.rank(toy_kernel, GPU, "roofline", measured=tmp_path / "times.csv", refit=True)
    assert refitted.rows(1)[0]["low_s"] <= refitted.rows(1)[0]["refitted_s"]
    with pytest.raises(DseError, match="expected a file of them"):
        dse.rank(toy_kernel, GPU, refit=True)
    times = {str(toy_kernel): tmp_path / "times.csv"}
    with pytest.raises(DseError, match="gpu: found 2, expected one, or 1, one for each file"):
        dse.fit(times, [GPU, "v100-pcie"])
    with pytest.raises(DseError, match="sizes: found 'm', expected one of n"):
        dse.fit(times, GPU, sizes={"m": 4})


def test_whole_spaces_are_swept_and_cascaded(results, toy_kernel, tmp_path):
    sweep = dse.sweep(toy_kernel, GPU, "roofline")
    assert sweep.to_parquet(tmp_path / "out.parquet") == results["rank"].count
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_rows == results["rank"].count
    cascaded = dse.rank(toy_kernel, GPU, cascade="roofline:50%,phase:3")
    assert (cascaded.count, len(cascaded.levels)) == (3, 2)


def test_one_configuration_is_simulated(toy_kernel):
    single = {"block": 64, "items": 1}
    simulated = dse.simulate(toy_kernel, GPU, single, {"n": 65536}, what_if=["dram=off"])
    assert simulated.makespan > 0
    assert simulated.rows(1)[0]["busy"] <= 1
    assert simulated.what_if[0]["gain"] >= 1

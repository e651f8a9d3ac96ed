"""The names that `import dse` offers."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import dse
from dse.errors import DseError

GPU = "a100-pcie-40gb"


def test_names_are_loaded_when_used(run_python):
    loaded = "'jax' in sys.modules"
    ran = run_python(f"import dse, sys\nbefore = {loaded}\ndse.rank\nprint(before, {loaded}, *dse.__all__)")
    assert ran.err == ""
    assert ran.out.split() == ["False", "True", *dse.__all__]
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
    found = dse.predict(toy_kernel, [GPU, "h200"], "roofline", some, {"n": 4096})
    assert found.forecasts["roofline"].seconds.shape == (2, 2)
    whole = dse.predict(toy_kernel, GPU, "roofline")
    assert whole.forecasts["roofline"].seconds.shape == (1, dse.rank(toy_kernel, GPU, "roofline").count)


def test_what_one_does_with_them(toy_kernel, tmp_path):
    ranking = dse.rank(toy_kernel, GPU, "roofline")
    count = dse.sweep(toy_kernel, GPU, tmp_path / "out.parquet", "roofline")
    assert count == ranking.count == pq.ParquetFile(tmp_path / "out.parquet").metadata.num_rows

    times = ranking.evaluation.forecasts["roofline"].seconds[0]
    columns = ranking.parameters | {"time_s": times}
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    table = [",".join(columns), *(",".join(map(str, row)) for row in rows if np.isfinite(row[-1]))]
    (tmp_path / "times.csv").write_text("\n".join(table))
    scores = dse.compare(toy_kernel, GPU, tmp_path / "times.csv", "roofline")
    assert scores[0]["spearman"] == pytest.approx(1.0)

    kept = dse.prune(toy_kernel, GPU, model="roofline")
    assert 0 < len(kept["block"]) < ranking.count
    run = dse.tune(toy_kernel, GPU, lambda given: 1e-6 * given["block"], budget=4, model="roofline")
    assert len(run.rows()) == 4
    best = dse.search([toy_kernel], GPU, trials=20, model="roofline", sampler="random", seed=0).best()
    assert best[0]["time_s"] >= ranking.rows(1)[0]["time_s"]
    simulated = dse.simulate(toy_kernel, GPU, {"block": 64, "items": 1}, {"n": 65536})
    assert simulated.makespan[0] > 0

"""The examples of docs/tuners.md run, one by one: Kernel Tuner in simulation mode, Triton without a GPU."""

import itertools
import json
import re
from pathlib import Path

import optuna
import pytest

from dse.source.readers import t1

PAGE = (Path(__file__).parents[2] / "docs" / "tuners.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def cache() -> str:
    """Times of all configurations, as Kernel Tuner leaves them behind; 128, 2 is the fastest."""
    tune = {"block_size_x": [32, 64, 128, 256, 512], "items": [1, 2, 3, 4]}
    entries = {}
    for block, items in itertools.product(*tune.values()):
        times = {"time": 1.0 + abs(block - 128) / 64 + abs(items - 2), "times": []}
        entries[f"{block},{items}"] = {"block_size_x": block, "items": items} | times
    header = {"device_name": "a GPU", "kernel_name": "add", "problem_size": 1048576, "objective": "time"}
    return json.dumps(header | {"tune_params_keys": list(tune), "tune_params": tune, "cache": entries})


@pytest.mark.slow
def test_the_examples(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    [kernel] = blocks("toml")
    (tmp_path / "add.toml").write_text(kernel)
    (tmp_path / "add.json").write_text(cache())
    (tmp_path / "add.cu").write_text("__global__ void add(const float *x, const float *y, float *sum) {}")
    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    names: dict = {}
    for code in blocks("python"):
        exec(compile(code, "docs/tuners.md", "exec"), names)

    assert len(names["results"]) == 8
    assert names["best"]["time"] == min(result["time"] for result in names["results"]) <= 2.0
    assert 0 < names["space"].size <= 18
    assert 0 < len(names["timed"]) <= len(names["configs"]) == 18  # as good as equal by the model
    assert names["study"].best_value == 1.0
    columns = t1.load("kept.json").space.configurations()
    assert set(zip(*columns.values(), strict=True)) == {(128, 2), (128, 4), (256, 2)}

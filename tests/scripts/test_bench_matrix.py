"""The benchmark of matrix kernels counts the points that it asks for, and asks for other cases each time."""

import importlib.util
import json
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench" / "matrix.py"


def script():
    spec = importlib.util.spec_from_file_location("bench_matrix", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_points_are_gpus_times_cases_times_configurations(capsys, monkeypatch):
    bench = script()
    monkeypatch.setattr(bench, "GPUS", ("a100", "h200"))
    monkeypatch.setattr(bench, "TOKENS", (1, 64))
    monkeypatch.setattr(bench, "LAYERS", (1024,))
    monkeypatch.setattr(bench, "CONFIGURATIONS", "w8a8")
    bench.main(["--calls", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["size"] == {"gpus": 2, "cases": 2, "configurations": 1280}
    assert [row["cases"] for row in found["rates"]] == ["dense", "experts"]
    for row in found["rates"]:
        assert row["points"] == 2 * 2 * 1280
        assert row["slowest"] <= row["points_per_second"] <= row["fastest"]


def test_no_case_is_asked_for_twice():
    for cases in script().CASES.values():
        asked = [case for call in range(8) for case in cases(call)]
        assert len(set(asked)) == len(asked)

"""Launches recorded without a GPU, and ranked from their file."""

import json
from pathlib import Path

import numpy as np
import pytest

import dse.triton
from dse.errors import DseError
from dse.source.nvidia.compile.triton_function import function
from dse.source.readers import load

triton = pytest.importorskip("triton")

FILE = Path(__file__).parents[1] / "source" / "readers" / "triton_kernels.py"


def launch(path: Path, rows: int = 4096, kind: str | float | None = "negative") -> None:
    half, ids = np.zeros(rows, np.float16), np.arange(rows, dtype=np.int32)
    gather, add = (_decorated(name) for name in ("gather", "add"))
    with dse.triton.record(path, launch=False):
        for _ in range(3):
            gather[lambda meta: (triton.cdiv(rows, meta["BLOCK"]),)](
                half, half, ids, np.array([32]), rows, BLOCK=128, KIND=kind, num_warps=2, maxnreg=None
            )
        gather[(0,)](half, half, ids, np.array([32]), 0, BLOCK=128, KIND=kind)  # which launches nothing
        add[lambda meta: (triton.cdiv(1024, meta["BLOCK"]), 2)](half, half, 1024)
    assert add.best_config.kwargs == {"BLOCK": 256}  # packages read it after a launch


def _decorated(name: str):
    actual = function(FILE, name)
    kernel = triton.heuristics(dict(actual.heuristics))(actual.jit) if actual.heuristics else actual.jit
    pruned = {"early_config_prune": actual.prune}
    tuned = triton.autotune(list(actual.configs), key=[], prune_configs_by=pruned) if actual.configs else None
    return tuned(kernel) if tuned else kernel


def test_a_launch_is_recorded_once_with_what_index_arrays_hold(tmp_path):
    launch(tmp_path / "launches.json")
    actual = json.loads((tmp_path / "launches.json").read_text())["launches"]
    assert [(item["kernel"], item.get("times", 1)) for item in actual] == [("gather", 3), ("add", 1)]
    gather, add = actual
    assert gather["arguments"].items() >= {"out": "*fp16", "x": "*fp16", "rows": 4096}.items()
    constants = {"BLOCK": "128", "KIND": "'negative'", "num_warps": "2"}
    assert gather["rows"] == [{"constants": constants, "grid": [32, 1, 1]}]
    launch(tmp_path / "none.json", kind=None)
    [row] = json.loads((tmp_path / "none.json").read_text())["launches"][0]["rows"]
    assert row["constants"] == constants | {"KIND": "None"}
    launch(tmp_path / "large.json", kind=-1e30)  # no parameter holds it
    build = load(f"{tmp_path}/large.json:gather").build
    assert build is not None
    assert "KIND=-1e+30" in build.options
    # What the hook keeps of the autotuner's list, with the blocks and heuristics of each.
    assert [(row["constants"]["BLOCK"], row["constants"]["EVEN"], row["grid"]) for row in add["rows"]] == [
        ("256", "True", [4, 2, 1]), ("512", "True", [2, 2, 1]), ("512", "True", [2, 2, 1])]  # fmt: skip


@pytest.mark.slow
def test_recorded_launches_are_ranked(run_dse, own_cache, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    path = tmp_path / "launches.json"
    launch(path)
    ran = run_dse("rank", f"{path}:gather", "-g", "a100-pcie-40gb", "--json")
    assert (ran.code, ran.err) == (0, "")
    [by_record] = json.loads(ran.out)
    stated = ("--signature", "*fp16,*fp16,*i32,*i64,i32", "--constexpr", "BLOCK=128", "--num-warps", "2")
    stated += ("--constexpr", "KIND=negative", "--grid", "cdiv(rows, BLOCK)", "--set", "rows=4096")
    stated += ("--arg", "ids=rows:int32:index", "--arg", "count=1:int64:32")
    ran = run_dse("rank", f"{FILE}:gather", "-g", "a100-pcie-40gb", "--json", *stated)
    [by_hand] = json.loads(ran.out)
    assert (by_record["time_s"], by_record["blocks"]) == (by_hand["time_s"], 32)
    ran = run_dse("rank", f"{path}:2", "-g", "a100-pcie-40gb", "--csv")
    assert (ran.code, ran.out.count("\n")) == (0, 4)


def test_a_record_is_found_with_its_package_elsewhere(tmp_path):
    launch(tmp_path / "launches.json")
    record = json.loads((tmp_path / "launches.json").read_text())
    for item in record["launches"]:
        item["file"] = "/nowhere/triton_kernels.py"
    (tmp_path / "launches.json").write_text(json.dumps(record))
    (tmp_path / "triton_kernels.py").write_text(FILE.read_text())
    assert load(f"{tmp_path}/launches.json:add").source == tmp_path / "triton_kernels.py"


def test_a_constant_that_was_not_recorded_has_no_grid(run_dse, tmp_path):
    launch(tmp_path / "launches.json")
    ran = run_dse("rank", f"{tmp_path}/launches.json:gather", "-g", "a100-pcie-40gb", "--set", "BLOCK=64")
    assert ran.code == 2
    assert "launches.json: grid: found none for BLOCK=64, expected a recorded configuration" in ran.err


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        ({}, "", r"launches.json: launch: found several, expected the number of one: 1 gather, 2 add"),
        ({}, ":3", r"launches.json: launch: found no 3, expected the number of one"),
        ({"rows": []}, ":1", r"launches.json: launches\[0\].rows: found \[\], expected"),
        ({"file": "no.py", "module": "no.py"}, ":1", r"launches.json: file: found no no.py, nor no.py below"),
        ({"arguments": {"ids": {"type": "int32", "zlib": "eA=="}}}, ":1", r"ids.zlib: found no packed"),
    ],
)
def test_mistakes(tmp_path, change, name, message):
    path = tmp_path / "launches.json"
    launch(path)
    record = json.loads(path.read_text())
    record["launches"][0] |= change
    path.write_text(json.dumps(record))
    with pytest.raises(DseError, match=message):
        load(f"{path}{name}")

"""The script that compares every closed form with a file of vectors, as a user runs it."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "check_models.py"

# Worked out by hand from the papers' equations
HONG_KIM = {
    "mem_ld": 420,
    "departure_del_uncoal": 10,
    "departure_del_coal": 4,
    "threads_per_block": 128,
    "threads_per_warp": 32,
    "blocks": 80,
    "active_sms": 16,
    "active_blocks_per_sm": 5,
    "comp_insts": 27,
    "uncoal_mem_insts": 6,
    "coal_mem_insts": 0,
    "synch_insts": 6,
    "uncoal_per_mw": 32,
    "load_bytes_per_warp": 128,
    "issue_cycles": 4,
    "freq_ghz": 1.0,
    "mem_bandwidth_gbs": 80.0,
}
TABLE_2 = {
    "N": 20,
    "mwp": 2.28125,
    "cwp": 20,
    "case": "memory",
    "exec_cycles_app": 38428.1875,
    "synch_cost": 12300.0,
    "exec_cycles": 50728.1875,
    "cpi": 38428.1875 / 660,
}
EXAMPLE = {"omega": 8, "a_comp": 4, "a_mem": 2, "l_comp": 1, "L_comp": 4, "l_mem": 2, "L_mem": 6}
INTERVALS = {"intervals": [[3, 6]], "warps": 4, "issue_rate": 1.0}
THREAD = {
    "n_comp": 100,
    "n_mem": 200,
    "blocks_per_sm": 1.5,
    "warps_per_block": 8,
    "threads_per_warp": 32,
    "cores_per_sm": 8,
    "pipeline_depth": 4,
    "clock_hz": 1e9,
}
FIG_1 = [
    {
        "op": "LOOP",
        "trip": 2,
        "body": [
            {"op": "C", "n": 2, "ilp": 1.0},
            {"op": "M", "name": "A", "bytes": 128},
            {"op": "S", "cycles": 0},
            {"op": "C", "n": 1, "ilp": 1.0, "uses": ["A"]},
        ],
    }
]
VECTORS = {
    "roofline": [{"in": EXAMPLE | {"omega": 1}, "out": {"wpc": 0.25}}],
    "volkov": [{"in": EXAMPLE | {"independent_comp": 1}, "out": {"lambda_app": 25.0, "wpc": 0.25}}],
    "transit": [{"in": EXAMPLE | {"omega": 5}, "out": {"wpc": 5 / 28}}],
    "mwp_cwp_hong_kim_as_printed": [{"in": HONG_KIM, "out": TABLE_2}],
    "mwp_cwp_hong_kim_as_narrated": [{"in": HONG_KIM, "out": TABLE_2}],
    "mwp_cwp_pipeline": [{"in": EXAMPLE, "out": {"mwp": 3.0, "cwp": 4.0, "case": "memory", "cpr": 38.0}}],
    "mwp_cwp_corrected": [{"in": EXAMPLE | {"lambda_app": 25.0}, "out": {"cpr": 39.0, "case": "few-warps"}}],
    "wfg_pipeline": [
        {
            "in": EXAMPLE | {"omega": 1, "l_instr": 1, "nodes": [["C", 2, 2], ["M"], ["C", 2, 1], ["M"]]},
            "out": {"cyc_comp": 14.0, "nbc": 14 / 3, "cpr": 24.0},
        }
    ],
    "wfg_corrected": [
        {
            "in": EXAMPLE | {"omega": 2, "l_mem": 0, "nodes": [["C", 4, 1], ["B"], ["M"]]},
            # 4·max(1, 4/2) = 8, NBC 8/3; the block hides its own latency: 6/2 is exposed
            "out": {"cyc_comp": 8.0, "nbc": 8 / 3, "cpw": 11.0, "cpr": 22.0},
        }
    ],
    "wfg_graph": [
        {
            "in": {  # Baghsorkhi et al., Fig. 1, twice over on one side of a branch, then a barrier
                "graph": [
                    {"op": "BRANCH", "rho_t": 1.0, "rho_f": 0.0, "else": [], "then": FIG_1},
                    {"op": "B"},
                ],
                "hardware": {
                    "simd_work": 32,
                    "simd_engine": 8,
                    "pipeline_latency": 24,
                    "wlp": 16,
                    "bytes_per_cycle": 4.0,
                    "latency_mem": 250,
                },
            },
            # C 8 + 4 + 4 in each of two trips, 4 for the barrier; NBC 36/4; 64 bytes too many a cycle
            "out": {"cyc_compute": 36.0, "latency_bw": 18.0, "latency_exposed": 115.0, "warp_latency": 258.0},
        }
    ],
    "gpumech_rr": [{"in": INTERVALS, "out": {"nonoverlapped": 2.0, "cpr": 11.0, "ipc": 12 / 11}}],
    "gpumech_rr_corrected": [{"in": INTERVALS, "out": {"nonoverlapped": 6.0, "cpr": 15.0, "wpc": 4 / 15}}],
    "gpumech_gto": [{"in": INTERVALS, "out": {"nonoverlapped": 3.0, "cpr": 12.0, "ipc": 1.0}}],
    "kothapalli_max": [{"in": THREAD, "out": {"cycles": 2400.0, "seconds": 2.4e-6}}],
    "kothapalli_sum": [{"in": THREAD, "out": {"cycles": 3600.0, "seconds": 3.6e-6}}],
    "no_such_model": [{"in": {}, "out": {}}],
}


@pytest.fixture
def write(tmp_path):
    def to_file(content):
        path = tmp_path / "vectors.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return to_file


@pytest.fixture
def check(monkeypatch, capsys):
    """The script in this process: exit code, stdout, stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return end.value.code, *capsys.readouterr()

    return run


def changed(model, key, value):
    models = json.loads(json.dumps(VECTORS))
    models[model][0]["out"][key] = value
    return {"format": "model-vectors 1", "models": models}


def test_passes_and_says_what_is_absent(write):
    path = write({"format": "model-vectors 1", "models": VECTORS})
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[1])}
    command = [sys.executable, "-W", "error", str(SCRIPT), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = {line.split()[0]: line for line in ran.stdout.splitlines()}
    assert list(lines) == list(VECTORS)
    assert lines.pop("no_such_model").endswith("absent")
    assert all("1 cases  worst relative error" in line and "FAILED" not in line for line in lines.values())


def test_json(write, check):
    code, out, _ = check(write({"models": VECTORS}), "--json")
    found = json.loads(out)
    assert (code, found["passed"], found["allowed"]) == (0, True, 1e-9)
    rows = {row["model"]: row for row in found["models"]}
    assert list(rows) == list(VECTORS)
    assert rows.pop("no_such_model")["worst"] is None
    assert all(0 <= row["worst"] < 1e-12 for row in rows.values())


@pytest.mark.parametrize("model", [model for model in VECTORS if model != "no_such_model"])
def test_a_wrong_value_fails(write, check, model):
    for key, value in VECTORS[model][0]["out"].items():
        wrong = "compute" if key == "case" else value * (1 + 1e-8)
        code, out, _ = check(write(changed(model, key, wrong)))
        assert code == 1
        failed = [line for line in out.splitlines() if "FAILED" in line]
        assert len(failed) == 1
        assert failed[0].split()[0] == model
        assert f"case 0, {key}" in failed[0]


def test_a_prediction_that_is_no_number_fails(write, check):
    # 0 computations and 0 accesses: a throughput without limit, or none
    nothing = EXAMPLE | {"a_comp": 0, "a_mem": 0, "independent_comp": 0}
    vectors = {"models": {"volkov": [{"in": nothing | {"omega": float("nan")}, "out": {"wpc": 0.25}}]}}
    code, out, _ = check(write(vectors))
    assert code == 1
    assert "FAILED at case 0, wpc" in out


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"models": []}',
        '{"models": {"volkov": {}}}',
        '{"models": {"volkov": [{"in": {}}]}}',
        '{"models": {"volkov": [{"in": {"omega": 1}, "out": {"wpc": 1}}]}}',
        json.dumps({"models": {"roofline": [{"in": EXAMPLE, "out": {"x": 1}}]}}),
        '{"models": {"roofline": []}}',
    ],
)
def test_a_malformed_file_is_named(write, check, content):
    path = write(content)
    code, out, err = check(path)
    assert code == 2
    assert out == ""
    assert err.startswith(f"{path}: found ")
    assert ", expected " in err
    assert err.count("\n") == 1


def test_a_missing_file_is_named(tmp_path, check):
    code, _, err = check(tmp_path / "none.json")
    assert code == 2
    assert err.startswith(f"{tmp_path / 'none.json'}: found ")

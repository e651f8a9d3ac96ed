"""The GPU catalogue: its names, and the numbers of its cards."""

import re
import tomllib
from dataclasses import MISSING, fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.gpus.rules import LEFT_OUT
from dse.hardware.gpus.table import path_of
from dse.types import CLASSES, TENSOR, Gpu, Limits, PerClass

NAMES = gpus.names()
NVIDIA = [slug for slug in NAMES if gpus.known()[slug].vendor == "NVIDIA"]
MATRIX = ("CDNA", "CDNA2", "CDNA3", "CDNA4", "RDNA3", "RDNA4")  # of AMD's, those with matrix cores


# Names


def test_the_catalogue_has_the_cards_of_the_papers_and_newer_ones():
    # Hong & Kim, Lai & Seznec, Kothapalli et al., Baghsorkhi et al.
    assert {"geforce_8800_gtx", "quadro_fx5600", "geforce_8800_gt", "gtx_280"} <= set(NAMES)
    # Lemeire et al.
    lemeire = {"tesla_c2050", "gtx_650_ti", "quadro_k620", "gtx_1060_6gb", "rtx_2070", "radeon_r9_380"}
    assert lemeire <= set(NAMES)
    assert {"a100_pcie_40gb", "h200", "mi300x", "radeon_pro_w7800"} <= set(NAMES)


NAMED = {
    "a100_pcie_40gb": "a100 | A100-PCIE-40GB | nvidia a100 pcie 40gb | a100_pcie_40gb",
    "gtx_280": "gtx280 | GTX 280",
    "geforce_8800_gt": "8800gt",
    "geforce_8800_gtx": "8800gtx",
    "quadro_fx5600": "fx5600",
    "gtx_1060_6gb": "1060",
    "rtx_2080_ti": "2080ti | RTX 2080 Ti",
    "titan_v": "titan v",
    "rtx_a4000": "a4000",
    "rtx_3060_laptop": "3060-laptop",
    "rtx_3080": "rtx-3080 | RTX 3080",
    "rtx_3080_12_gb": "GeForce RTX 3080 12GB",
    "gtx_1660_super": "1660 super",
    "gtx_1050_mobile": "1050 mobile",
    "a30_pcie": "a30",
    "l4": "l4",
    "l40": "l40",
    "l40s": "l40s",
    "a10": "a10",
    "h20": "h20",
    "h200": "h200",
    "h100_sxm": "h100 sxm",
    "v100_pcie_16gb": "v100-pcie",
    "b200": "b200",
    "gb200": "gb200",
    "rtx_5090": "rtx-5090 | 5090",
    "rtx_pro_6000_blackwell": "RTX PRO 6000",
    "jetson_agx_orin_64gb": "agx-orin-64gb",
    "mi250": "mi250",
    "mi250x": "mi250x",
    "mi300x": "MI300X",
    "rx_7900_xtx": "rx-7900-xtx",
    "rx_9070_xt": "9070-xt",
    "vii": "Radeon VII",
    "radeon_r9_380": "r9 380",
    "radeon_pro_w7800": "W7800",
}


@pytest.mark.parametrize("slug", NAMED)
def test_forgiving_names(slug):
    for name in NAMED[slug].split(" | "):
        assert gpus.find(name).stem == slug, name


def test_every_name_alias_and_full_name_finds_its_file():
    for slug, row in gpus.known().items():
        for name in (row.typed, *row.texts):
            assert gpus.find(name) == path_of(row)
        assert bool(row.like) != (slug in NAMES)


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("V100-SXM2", ["v100-sxm2-16gb", "v100-sxm2-32gb"]),
        ("a800", ["a800-pcie-40-gb", "a800-pcie-80-gb", "a800-sxm4-80-gb"]),
        ("8800", ["geforce-8800-gt", "geforce-8800-gtx"]),
        ("gb", ["gb10", "gb200"]),  # of all that have it, those that begin with it
    ],
)
def test_ambiguous_names_list_their_candidates(name, candidates):
    with pytest.raises(DseError) as error:
        gpus.find(name)
    assert str(error.value) == f"gpu: found {name!r}, expected one of {', '.join(candidates)}"


@pytest.mark.parametrize(
    ("name", "meant"), [("a1001", "a100-pcie-40gb"), ("mi251", "mi250"), ("rtx2071", "rtx-2070")]
)
def test_unknown_names_suggest_near_ones(name, meant):
    with pytest.raises(DseError, match=rf"^gpu: found '{name}', expected .*did you mean .*{meant}"):
        gpus.find(name)


def test_of_many_candidates_a_dozen_is_named():
    with pytest.raises(DseError, match=r"expected one of (\S+, ){11}\S+ and \d+ more \(`dse gpus --name`\)$"):
        gpus.find("mobile")


@pytest.mark.parametrize("name", ["a5", "h10", "l400", "40000", "mi30", "", " ", "-", "x" * 50])
def test_a_name_is_not_completed_to_another_number(name):
    with pytest.raises(DseError, match=r"^gpu: found "):
        gpus.find(name)


def test_a_path_is_a_name_too(edited):
    path = edited('name = "NVIDIA A100-PCIE-40GB"', 'name = "Mine"')
    assert gpus.find(path) == path
    assert gpus.load(str(path)).name == "Mine"


@pytest.mark.parametrize("name", ["no/such/file.toml", "a100.toml"])
def test_a_path_without_a_file(name):
    with pytest.raises(DseError, match=f"^{re.escape(name)}: found no file, expected a GPU file$"):
        gpus.load(name)


def test_listing_imports_no_jax(run_python):
    code = "import sys; from dse.hardware import gpus; gpus.find('a100'); print('jax' in sys.modules)"
    ran = run_python(code)
    assert (ran.code, ran.out.strip(), ran.err) == (0, "False", "")


# Values


def test_a100():
    file = gpus.load("a100", np.float64)
    gpu = file.gpu
    assert file.name == "NVIDIA A100-PCIE-40GB"
    assert file.header.compute_capability == "8.0"
    expected = {"sm_count": 108, "clock": 1.41e9, "dram_bandwidth": 1.555e12, "l1_bytes": 192 * 1024}
    expected |= {"l2_bytes": 40 * 2**20, "issue_limit": 4, "issue_cycles": 0.5}
    for field, value in expected.items():
        np.testing.assert_allclose(getattr(gpu, field), value, rtol=1e-15, err_msg=field)
    # Compute capability 8.0, CUDA programming guide.
    limits = {
        "warp_size": 32,
        "threads_per_block": 1024,
        "threads_per_sm": 2048,
        "warps_per_sm": 64,
        "blocks_per_sm": 32,
        "one_warp_blocks_per_sm": 32,
        "registers_per_sm": 65536,
        "registers_per_block": 65536,
        "registers_per_thread": 255,
        "register_unit": 256,
        "registers_by_block": 0,
        "warp_unit": 4,
        "sub_partitions": 4,
        "shared_bytes_per_sm": 164 * 1024,
        "shared_bytes_per_block": 163 * 1024,
        "shared_bytes_reserved": 1024,
        "shared_unit_bytes": 128,
    }
    assert {field: int(getattr(gpu.limits, field)) for field in limits} == limits
    assert set(limits) == {field.name for field in fields(Limits)}
    # 64, 32, 64, 64, 16 lanes; 128 bytes a cycle from shared memory and L1; 16 threads a cycle at a barrier.
    pipes = {"fp32": 0.5, "fp64": 1, "int32": 0.5, "imul32": 0.5, "sfu": 2, "shared": 1, "barrier": 2}
    assert {name: float(getattr(gpu.cpi, name)) for name in pipes} == pipes
    np.testing.assert_allclose(gpu.cpi.l1, 128 / 126.2, rtol=1e-3)
    np.testing.assert_allclose(gpu.cpi.l2, 32 * 108 * 1.41e9 / 5420.1e9, rtol=1e-3)
    np.testing.assert_allclose(gpu.cpi.dram, 32 * 108 * 1.41e9 / 1500e9, rtol=1e-3)
    waits = {
        "fp32": 4,
        "int32": 4,
        "imul32": 4,
        "fp64": 5,
        "shared": 23,
        "l1": 33,
        "l2": 210.5,
        "dram": 640.1,
    }
    assert {name: float(getattr(gpu.latency, name)) for name in waits} == waits


def test_compute_capability_1_allocates_registers_by_block(files):
    limits = files["gtx_280"].gpu.limits
    found = (limits.registers_by_block, limits.warp_unit, limits.sub_partitions, limits.register_unit)
    assert [int(x) for x in found] == [1, 2, 1, 512]


def test_mi250x_has_the_limits_of_a_compute_unit(files):
    limits = files["mi250x"].gpu.limits
    found = {field.name: int(getattr(limits, field.name)) for field in fields(Limits)}
    assert found["warp_size"] == 64
    assert found["threads_per_sm"] == 32 * 64
    assert found["registers_per_sm"] == found["registers_per_block"] == 4 * 512 * 64
    assert found["register_unit"] == 8 * 64
    assert found["sub_partitions"] == 4
    assert (found["blocks_per_sm"], found["one_warp_blocks_per_sm"]) == (16, 32)


def test_the_papers_fitted_values(files):
    # Hong & Kim, Table 6.
    for name, delays in (("quadro_fx5600", (4, 10)), ("geforce_8800_gtx", (4, 10)), ("gtx_280", (4, 40))):
        gpu = files[name].gpu
        found = gpu.departure_delay_coal_cycles, gpu.departure_delay_uncoal_cycles
        assert tuple(map(float, found)) == delays
        assert gpu.issue_cycles == 4


def test_lemeire_tables(files):
    # Table 5: mul.f32, mul.f64, cos.approx.f32, bar.sync, ld.global over the sectors of a warp; Table 4: IL.
    rows = {
        "tesla_c2050": (1, 2, 8, 2, 23 / 4, 1),
        "gtx_650_ti": (0.25, 4, 1, 0.75, 7.5 / 4, 4),
        "quadro_k620": (0.375, 7.5, 1, 4.5, 18 / 4, 4),
        "gtx_1060_6gb": (0.25, 8, 1, 2.25, 12 / 4, 4),
        "rtx_2070": (0.5, 19, 2, 1.5, 18 / 4, 2),
        "radeon_r9_380": (1, 8, 5, 7.5, 42 / 8, 1),
    }
    for name, expected in rows.items():
        gpu = files[name].gpu
        found = gpu.cpi.fp32, gpu.cpi.fp64, gpu.cpi.sfu, gpu.cpi.barrier, gpu.cpi.dram, gpu.issue_limit
        assert tuple(map(float, found)) == pytest.approx(expected, rel=1e-8), name


@pytest.mark.parametrize(
    ("name", "tflops"),
    [  # of the makers; GTX 280 without its second multiplier
        ("geforce_8800_gtx", 0.3456),
        ("gtx_280", 0.622),
        ("tesla_c2050", 1.030),
        ("v100_sxm2_16gb", 15.7),
        ("t4", 8.1),
        ("rtx_2080_ti", 13.45),
        ("a100_pcie_40gb", 19.5),
        ("rtx_a4000", 19.2),
        ("rtx_a6000", 38.7),
        ("rtx_3090", 35.6),
        ("rtx_4090", 82.6),
        ("l40s", 91.6),
        ("h100_sxm", 66.9),
        ("h100_pcie", 51.2),
        ("mi50", 13.25),
        ("mi250x", 47.9 / 2),
        ("radeon_pro_w6600", 10.4),
    ],
)
def test_peak_of_single_precision(files, name, tflops):
    gpu = files[name].gpu
    peak = 2 * gpu.sm_count * gpu.limits.warp_size.astype(float) / gpu.cpi.fp32 * gpu.clock
    np.testing.assert_allclose(peak, tflops * 1e12, rtol=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_every_card_makes_sense(files, name):
    gpu = files[name].gpu
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
    assert 1e9 <= gpu.clock * 1.1 <= 3.3e9
    assert 5e-8 < latency.dram / gpu.clock < 6e-7  # seconds
    assert limits.warps_per_sm * limits.warp_size == limits.threads_per_sm
    assert limits.threads_per_block <= limits.threads_per_sm
    assert limits.blocks_per_sm <= limits.one_warp_blocks_per_sm <= limits.warps_per_sm
    assert limits.registers_per_block <= limits.registers_per_sm
    assert limits.shared_bytes_per_block + limits.shared_bytes_reserved <= limits.shared_bytes_per_sm
    assert limits.registers_per_sm % (limits.register_unit * limits.sub_partitions) == 0
    for each in fields(PerClass):  # a pipe that took longer between two than for one would be no pipe
        if each.name in ("fp32", "int32", "imul32", "sfu", "shared", "barrier"):
            assert getattr(cpi, each.name) <= getattr(latency, each.name), each.name


@pytest.mark.parametrize("name", NAMES)
def test_every_value_says_where_it_is_from(files, name):
    records = files[name].fields
    with gpus.find(name).open("rb") as file:
        raw = tomllib.load(file)
    plain = [f"{group}.{each}" for group in ("cpi", "latency") for each in CLASSES if each not in TENSOR]
    tensor = {record.field for record in records if "mma" in record.field}
    may_be = {field.name for field in fields(Gpu) if field.default is not MISSING}
    compiler = {record.field for record in records} & may_be
    assert len(records) == 11 + len(fields(Limits)) + len(plain) + len(tensor) + len(compiler)
    assert ("guard_branches" in compiler) == (files[name].header.vendor == "AMD")
    of_cpi, of_latency = ({x for x in tensor if x.startswith(group)} for group in ("cpi", "latency"))
    assert {x.replace("cpi", "latency") for x in of_cpi} == of_latency
    header = files[name].header
    assert bool(tensor) == (header.capability >= 70 or header.architecture in MATRIX)
    for record in records:
        if record.follows == LEFT_OUT.get(record.field, ()):
            assert record.field not in raw
            continue
        entry = raw
        for key in record.field.split("."):
            entry = entry[key]
        stated = {k: v for k, v in vars(record).items() if k not in ("field", "follows") and v is not None}
        if record.follows is not None:
            key, number, like, note = record.follows
            stated = {k: stated[k] for k in ("source", "provenance")} | {key: like or number}
            stated |= ({"times": number} if like and number != 1 else {}) | ({"rule": note} if note else {})
        assert entry == stated
        assert record.source
        assert record.provenance in ("stated", "measured", "fitted", "derived")
        if record.provenance == "derived":
            assert record.rule
    header = files[name].header
    assert (header.compute_capability is None) == (header.vendor == "AMD")
    assert (header.gfx_name is None) == (header.vendor == "NVIDIA")


# Tensor cores: peaks in dense TFLOPS of the whitepapers and data sheets, at the clock that these state


@pytest.mark.parametrize(
    ("name", "mhz", "peaks"),
    [
        ("v100_sxm2_16gb", 1530, {"fp16": 125}),
        ("t4", 1590, {"fp16": 65, "int8": 130}),
        ("titan_rtx", 1770, {"fp16": 130.5, "fp16_fp16": 130.5}),
        ("rtx_2080_ti", 1545, {"fp16": 53.8, "fp16_fp16": 107.6, "int8": 215.2}),
        ("a100_pcie_40gb", 1410, {"fp16": 312, "tf32": 156, "int8": 624, "fp64": 19.5}),
        ("rtx_3090", 1695, {"fp16": 71.2, "fp16_fp16": 142.3, "tf32": 35.6, "int8": 284.7}),
        ("a40", 1740, {"fp16": 149.7, "tf32": 74.8, "int8": 299.3}),
        ("rtx_4090", 2520, {"fp16": 165.2, "fp16_fp16": 330.3, "tf32": 82.6, "fp8": 330.3, "int8": 660.6}),
        ("l40s", 2520, {"fp16": 362, "tf32": 183.2, "fp8": 733}),
        ("l40", 2490, {"fp16": 181, "fp8": 362}),
        ("l4", 2040, {"fp16": 121, "fp8": 242}),
        ("h100_sxm", 1830, {"fp16": 989.4, "tf32": 494.7, "fp8": 1978.9, "int8": 1978.9}),
        ("h100_sxm", 1980, {"fp64": 66.9}),
        ("h100_pcie", 1620, {"fp16": 756.4, "fp8": 1512.9}),
        ("h20", 1850, {"fp16": 148, "fp8": 296}),
        ("b200", 1856, {"fp16": 2250, "fp8": 4500}),
        ("rtx_5090", 2407, {"fp16": 209.5, "fp16_fp16": 419, "fp8": 419, "tf32": 104.8}),
        ("rtx_pro_6000_blackwell", 2617, {"fp16": 503.8, "fp8": 1007.6}),
        ("mi250x", 1700, {"fp16": 191.5, "fp32": 47.9, "fp64": 47.9}),  # one of two dies
        ("mi300x", 2100, {"fp16": 1307.4, "tf32": 653.7, "fp32": 163.4, "fp8": 2614.9, "fp64": 163.4}),
        ("radeon_pro_w7800", 2525, {"fp16": 90.5, "int8": 90.5}),
    ],
)
def test_peak_of_the_tensor_cores(files, name, mhz, peaks):
    gpu = files[name].gpu
    for kind, tflops in peaks.items():
        peak = 2 * float(gpu.sm_count) * mhz * 1e6 / float(getattr(gpu.cpi, f"mma_{kind}"))
        assert peak == pytest.approx(tflops * 1e12, rel=0.015), kind


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("gtx_1060_6gb", set(TENSOR)),
        ("mi50", set(TENSOR)),
        ("mi250x", {"mma_tf32", "mma_fp8"}),
        ("mi300x", set()),
        ("radeon_pro_w7800", {"mma_tf32", "mma_fp32", "mma_fp8", "mma_fp64"}),
        ("v100_pcie_16gb", {"mma_tf32", "mma_fp32", "mma_fp8", "mma_int8", "mma_fp64"}),
        ("t4", {"mma_tf32", "mma_fp32", "mma_fp8", "mma_fp64"}),
        ("a100_pcie_40gb", {"mma_fp32", "mma_fp8"}),
        ("h100_sxm", {"mma_fp32"}),
    ],
)
def test_products_that_a_gpu_cannot_do(files, name, lacking):
    gpu = files[name].gpu
    for group in (gpu.cpi, gpu.latency):
        assert {kind for kind in TENSOR if float(getattr(group, kind)) >= 1e29} == lacking


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if "7" <= gpus.known()[name].target[:1] <= "9" or gpus.known()[name].target[:2] in ("10", "11", "12")
    ],
)
def test_products_out_of_registers_are_no_faster_than_all_others(files, name):
    cpi = files[name].gpu.cpi
    fastest = min(float(cpi.mma_fp16), float(cpi.mma_fp16_fp16))
    assert float(cpi.mma_warp) >= 2048 * fastest * (1 - 1e-5) or name == "h20"  # the H20's core is cut


# Reading


def test_precision_is_the_callers(files):
    for dtype in (np.float32, np.float64):
        gpu = gpus.load("h200", dtype).gpu
        leaves = [*jax.tree.leaves((gpu.cpi, gpu.latency)), gpu.sm_count, gpu.clock, gpu.l2_bytes]
        assert {leaf.dtype for leaf in leaves} == {np.dtype(dtype)}
        assert {leaf.dtype for leaf in jax.tree.leaves(gpu.limits)} == {np.dtype(np.int32)}
        assert {leaf.shape for leaf in jax.tree.leaves(gpu)} == {()}
    assert gpus.load("h200").gpu.clock.dtype == np.float32


def test_stack_has_the_gpus_on_the_leading_axis(files):
    some = ["a100_pcie_40gb", "gtx_280", "mi250x"]
    stacked = gpus.stack([files[name].gpu for name in some])
    assert {leaf.shape for leaf in jax.tree.leaves(stacked)} == {(3,)}
    for i, name in enumerate(some):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], stacked)
        assert jax.tree.all(jax.tree.map(jnp.array_equal, one, files[name].gpu))

"""The kernels that come with the package: what their descriptions say, against worked numbers and brute force."""

import re
import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse import describe, occupancy
from dse.data import gpus, kernels
from dse.types import Gpu, Kernel, Resources

NAMES = kernels.names()
GPUS = {name: gpus.load(name, np.float64).gpu for name in ("a100-pcie-40gb", "mi250x", "quadro-fx5600")}
A100 = GPUS["a100-pcie-40gb"]


def described(name: str, gpu: Gpu = A100, **fixed: int) -> tuple[Kernel, Resources, dict[str, np.ndarray]]:
    """A kernel over its whole space, or over the part with these values: fields [L] or scalars."""
    description = kernels.load(name)
    parameters = description.space.configurations(description.sizes())
    keep = np.ones(len(next(iter(parameters.values()))), bool)
    for key, value in fixed.items():
        keep &= parameters[key] == value
    assert keep.any()
    parameters = {key: values[keep] for key, values in parameters.items()}
    arrays = {key: jnp.asarray(values) for key, values in parameters.items()}
    kernel, resources = describe.describe(description, arrays, {}, gpu, np.float64)
    return kernel, resources, parameters


def at(name: str, gpu: Gpu = A100, **values: int) -> tuple[Kernel, Resources]:
    """A kernel at one configuration, which need not be one of its space: scalars."""
    arrays = {key: jnp.asarray(value) for key, value in values.items()}
    return describe.describe(kernels.load(name), arrays, {}, gpu, np.float64)


def grid_warps(resources: Resources, warp_size: int = 32) -> np.ndarray:
    threads, blocks = np.asarray(resources.threads, float), np.asarray(resources.blocks, float)
    return np.ceil(threads / warp_size) * blocks


# All of them


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", NAMES)
def test_counts_are_possible_everywhere(name: str, gpu: str):
    # warps of 64, no caches and old limits among them
    describe.check(kernels.load(name), GPUS[gpu])


@pytest.mark.parametrize("name", NAMES)
def test_folder_is_named_after_the_kernel(name: str):
    assert kernels.load(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_no_unit_of_work_without_an_instruction(name: str):
    kernel, _, _ = described(name)
    work = kernel.work
    assert np.all((np.asarray(work.shared) > 0) <= (np.asarray(kernel.shared_insts) > 0))
    assert np.all((np.asarray(work.l1) > 0) <= (np.asarray(kernel.mem_insts) > 0))
    # nothing comes from further away that was not asked for nearer; caches fetch whole sectors
    assert np.all(np.asarray(work.dram) <= np.asarray(work.l2) * (1 + 1e-9))


# Spaces


@pytest.mark.parametrize(("name", "size"), [("convolution", 4_362), ("dedispersion", 11_130), ("gemm", 17_956)])
def test_measured_spaces_have_as_many_configurations_as_their_tables(name: str, size: int):
    description = kernels.load(name)
    assert len(description.space.configurations(description.sizes())[description.space.names[0]]) == size


def test_names_of_measured_spaces():
    spaces = {space.name for name in NAMES for space in kernels.load(name).spaces}
    assert spaces >= {"convolution_milo", "convolution_ktt", "dedispersion_milo", "gemm"}


def test_variants():
    assert kernels.variants("convolution") == ["convolution", "convolution_direct", "convolution_shared"]
    assert kernels.variants("matmul") == ["matmul_naive", "matmul_tiled"]


# The papers' kernels


def test_pipeline_paper_example():
    # Lemeire et al., Table 2: α_comp = 4, α_mem = 2; Sec. 2.2: three of the four in the chain
    kernel, _, parameters = described("example")
    np.testing.assert_array_equal(kernel.comp_insts, 4)
    np.testing.assert_array_equal(kernel.mem_insts, 2)
    np.testing.assert_allclose(kernel.ilp, 4 / 3)
    assert set(parameters["block_size"]) == {32, 64, 128, 256, 512, 1024}


def test_pipeline_paper_instruction_mix():
    # Sec. 6.1: beta = 4, 256 times
    kernel, _, _ = described("instruction_mix", beta=4, block_size=256)
    assert kernel.work.fp32.item() == 1024
    assert kernel.work.sfu.item() == 256
    assert kernel.ilp.item() == 1


def test_pipeline_paper_iterative_barrier():
    # Sec. 6.2: as many barriers as instructions; groups of 32 to 1024
    kernel, _, parameters = described("iterative_barrier")
    np.testing.assert_array_equal(kernel.work.barrier, kernel.work.fp32)
    assert {32, 1024} <= set(parameters["group_size"])


def test_hong_kim_worked_example():
    # Hong & Kim, Table 2
    gpu = GPUS["quadro-fx5600"]
    kernel, resources, _ = described("matmul_hk_fig12", gpu)
    counts = (kernel.comp_insts, kernel.mem_insts, kernel.uncoal_insts, kernel.work.barrier)
    assert [np.asarray(count).item() for count in counts] == [27, 6, 6, 6]
    assert kernel.transactions_per_uncoal.item() == 32
    assert kernel.bytes_per_access.item() == 128
    assert (np.asarray(resources.threads).item(), np.asarray(resources.blocks).item()) == (128, 80)
    launch, _ = occupancy.launch(gpu, resources)
    assert np.asarray(launch.resident_blocks).item() == 5
    assert np.asarray(launch.warps_per_sm).item() == 20


# Hong & Kim, Table 5: computation, memory, uncoalesced memory instructions; registers, shared bytes; threads in all
TABLE_5 = {
    "sepia": (71, 6, 6, 7, 52, 7000 * 7000),
    "linear": (111, 30, 30, 15, 60, 10_000 * 10_000),
    "svm": (10_871, 819, 0, 9, 44, 736 * 992),
    "mat_naive": (12_043, 4_001, 4_001, 10, 88, 2000 * 2000),
    "blackscholes": (137, 7, 7, 11, 36, 9_000_000),
}


@pytest.mark.parametrize("name", TABLE_5)
def test_hong_kim_table_5(name: str):
    comp, mem, uncoal, registers, shared, work = TABLE_5[name]
    kernel, resources, parameters = described(name, GPUS["quadro-fx5600"])
    np.testing.assert_array_equal(kernel.comp_insts, comp)
    np.testing.assert_array_equal(kernel.mem_insts, mem)
    np.testing.assert_array_equal(kernel.uncoal_insts, uncoal)
    np.testing.assert_array_equal(resources.registers, registers)
    np.testing.assert_array_equal(resources.shared_bytes, shared)
    threads = np.asarray(resources.blocks) * parameters["block_size"]
    assert np.all((threads >= work) & (threads < work + parameters["block_size"]))
    assert {4, 128, 512} <= set(parameters["block_size"])


def test_hong_kim_table_5_tiled():
    # 201 to 1001 memory and 9780 to 24580 computation instructions, and 3960 bytes in one case
    kernel, resources, parameters = described("mat_tiled", GPUS["quadro-fx5600"])
    tile = list(parameters["tile"])
    for side, comp, mem in ((20, 9_780, 201), (4, 24_580, 1_001)):
        assert kernel.comp_insts[tile.index(side)] == comp
        assert kernel.mem_insts[tile.index(side)] == mem
    np.testing.assert_array_equal(kernel.uncoal_insts, kernel.mem_insts)
    assert resources.shared_bytes[tile.index(22)] == 3_960
    np.testing.assert_array_equal(resources.registers, 18)


# What must add up over a grid


def test_gemm_multiplies_as_often_as_it_must():
    kernel, resources, parameters = described("gemm")
    accumulators = (parameters["MWG"] // parameters["MDIMC"]) * (parameters["NWG"] // parameters["NDIMC"])
    scaling = 2 * accumulators  # alpha and beta, once an element
    total = (np.asarray(kernel.work.fp32) - scaling) * grid_warps(resources)
    np.testing.assert_allclose(total, 4096**3 / 32, rtol=1e-12)


@pytest.mark.parametrize("name", ["matmul_naive", "matmul_tiled"])
def test_matmul_multiplies_as_often_as_it_must(name: str):
    kernel, resources, _ = described(name)
    np.testing.assert_allclose(kernel.work.fp32 * grid_warps(resources), 2048**3 / 32, rtol=1e-12)


@pytest.mark.parametrize("name", ["convolution", "convolution_shared", "convolution_direct"])
def test_convolution_multiplies_once_a_tap_and_output(name: str):
    kernel, resources, parameters = described(name)
    threads = parameters["block_size_x"] * parameters["block_size_y"]
    total = np.asarray(kernel.work.fp32) * threads * np.asarray(resources.blocks, float)
    tile_x = parameters["block_size_x"] * parameters["tile_size_x"]
    tile_y = parameters["block_size_y"] * parameters["tile_size_y"]
    covered = np.ceil(4096 / tile_x) * tile_x * np.ceil(4096 / tile_y) * tile_y  # the last blocks reach beyond
    np.testing.assert_allclose(total, covered * 225, rtol=1e-12)
    assert np.any(covered == 4096**2)


def test_dedispersion_converts_twice_a_channel_and_output():
    kernel, resources, parameters = described("dedispersion")
    threads = parameters["block_size_x"] * parameters["block_size_y"]
    full = threads % 32 == 0  # else lanes idle
    total = np.asarray(kernel.work.sfu) * grid_warps(resources) * 32
    np.testing.assert_allclose(total[full], 2 * 2048 * 25_000 * 1536, rtol=1e-12)
    assert np.all(total[~full] > total[full].max())


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("matmul_naive", 2048**2),
        ("matmul_tiled", 2048**2),
        ("stencil2d", 8192**2),
        ("transpose", 8192**2),
        ("gemm", 4096**2),
    ],
)
def test_every_element_of_the_result_is_stored_once(name: str, elements: int):
    kernel, resources, parameters = described(name)
    wide = np.minimum(parameters["VWM"], 4) if name == "gemm" else 1  # floats of a store
    np.testing.assert_allclose(np.asarray(kernel.store_insts) * wide * grid_warps(resources) * 32, elements, rtol=1e-12)


@pytest.mark.parametrize("name", ["reduction", "histogram"])
def test_every_element_of_the_input_is_loaded_once(name: str):
    kernel, resources, _ = described(name)
    np.testing.assert_allclose(kernel.load_insts * grid_warps(resources) * 32, 2**26, rtol=1e-12)


# Convolution in detail


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("convolution_shared", {"use_shmem": 1, "read_only": 0}),
        ("convolution_direct", {"use_shmem": 0, "use_padding": 0}),
    ],
)
def test_variants_are_the_branches_of_the_whole(name: str, fixed: dict[str, int], gpu: str):
    kernel, resources, parameters = described(name, GPUS[gpu])
    fixed = fixed | {"use_cmem": 1, "filter_width": 15, "filter_height": 15}
    both = parameters | {key: np.full(resources.threads.shape, value) for key, value in fixed.items()}
    arrays = {key: jnp.asarray(values) for key, values in both.items()}
    whole = describe.describe(kernels.load("convolution"), arrays, {}, GPUS[gpu], np.float64)
    for ours, theirs in zip(jax.tree.leaves((kernel, resources)), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(*np.broadcast_arrays(ours, theirs), rtol=1e-12)


# Counters of an RTX 2080 Ti over warps of the grid: block x, y, tile x, y; loads from shared memory, requests to
# global memory, warp instructions. (From the KTT table; such ratios may be kept, the table may not.)
COUNTED = [
    (32, 2, 1, 1, 225.5, 16.0, 764),
    (32, 4, 1, 2, 285.0, 11.0, 962),
    (32, 8, 1, 2, 345.0, 7.5, 961),
    (32, 16, 2, 2, 900.0, 8.625, 1935),
    (32, 2, 3, 1, 676.5, 55.6, 2039),
    (32, 4, 4, 2, 1140.6, 27.5, 3267),
    (32, 8, 2, 3, 931.9, 14.23, 2545),
]


@pytest.mark.parametrize(("x", "y", "tile_x", "tile_y", "shared", "requests", "insts"), COUNTED)
def test_convolution_against_hardware_counters(
    x: int, y: int, tile_x: int, tile_y: int, shared: float, requests: float, insts: float
):
    kernel, _ = at("convolution", **block(x, y, tile_x, tile_y, use_shmem=1))
    copies = kernel.shared_insts - kernel.work.fp32 * 0  # stores of the copy and loads of the window
    np.testing.assert_allclose(kernel.load_insts, requests, rtol=0.01)
    np.testing.assert_allclose(copies - kernel.load_insts, shared, rtol=0.01)
    # address arithmetic is the compiler's: an average over the space
    np.testing.assert_allclose(kernel.insts, insts, rtol=0.06)


def block(x: int, y: int, tile_x: int, tile_y: int, **rest: int) -> dict[str, int]:
    constants = {"read_only": 0, "use_padding": 0, "use_cmem": 1, "filter_height": 15, "filter_width": 15}
    return {"block_size_x": x, "block_size_y": y, "tile_size_x": tile_x, "tile_size_y": tile_y} | constants | rest


def mean_passes(x: int, y: int, pitch: int) -> float:
    """Passes of the shared-memory accesses of a block's warps, thread by thread."""
    passes = []
    for first in range(0, x * y, 32):
        banks: dict[int, set[int]] = {}
        for thread in range(first, min(first + 32, x * y)):
            word = thread // x * pitch + thread % x
            banks.setdefault(word % 32, set()).add(word)
        passes.append(max(map(len, banks.values())))
    return float(np.mean(passes))


shapes = st.sampled_from(
    [(x, y) for x in (2, 4, 8, *range(16, 257, 16)) for y in (1, 2, 4, 8, 16, 32) if 32 <= x * y <= 1024]
)


@given(shape=shapes, tile_x=st.integers(1, 8), padding=st.integers(0, 1))
def test_bank_conflicts_equal_those_of_the_threads(shape: tuple[int, int], tile_x: int, padding: int):
    x, y = shape
    padding = padding if x % 32 and x >= 16 else 0
    columns = x * tile_x + 14
    pitch = columns + padding * ((32 - (14 + x * tile_x - x)) % 32)
    kernel, resources = at("convolution", **block(x, y, tile_x, 1, use_shmem=1, use_padding=padding))
    assert resources.shared_bytes == 4 * pitch * (y + 14)
    np.testing.assert_allclose(kernel.work.shared / kernel.shared_insts, mean_passes(x, y, pitch), rtol=1e-9)


def sectors_of_rows(x: int, y: int, pitch: int) -> float:
    """Sectors of 32 bytes that a warp's floats touch, averaged over warps and where the block's row begins."""
    counts = []
    for begin in range(0, 8, 2):  # rows begin at even floats
        for first in range(0, x * y, 32):
            threads = np.arange(first, min(first + 32, x * y))
            counts.append(len(np.unique((begin + threads // x * pitch + threads % x) // 8)))
    return float(np.mean(counts))


@pytest.mark.parametrize(("x", "y"), [(16, 2), (16, 8), (32, 4), (48, 2), (48, 16), (64, 1), (112, 8), (256, 1)])
def test_sectors_of_direct_loads_equal_those_of_the_threads(x: int, y: int):
    kernel, _ = at("convolution_direct", block_size_x=x, block_size_y=y, tile_size_x=1, tile_size_y=1, read_only=0)
    loads = (kernel.sectors - 4 * kernel.store_insts) / kernel.load_insts
    # rows are 4110 floats apart: as likely as not in another sector of four, but the few rows of a block not evenly
    np.testing.assert_allclose(loads, sectors_of_rows(x, y, 4110), rtol=0.03)


# Sources

SOURCES = [name for name in NAMES if kernels.load(name).source is not None]


@pytest.mark.parametrize("name", SOURCES)
def test_macros_of_the_source_are_the_parameters(name: str):
    description = kernels.load(name)
    assert description.source is not None
    macros = set(re.findall(r"^#ifndef (\w+)$", description.source.read_text(), re.MULTILINE))
    parameters = {parameter.upper() for parameter in description.space.names}
    assert parameters <= macros
    assert macros - parameters <= {size.upper() for size, _ in description.problem}


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", SOURCES)
def test_sources_compile(name: str, tmp_path: Path):
    description = kernels.load(name)
    configurations = description.space.configurations(description.sizes())
    middle = {key.upper(): values[len(values) // 2] for key, values in configurations.items()}
    defines = [f"-D{key}={value}" for key, value in middle.items()]
    command = ["nvcc", "-ptx", "-arch=sm_80", *defines, "-o", str(tmp_path / "kernel.ptx"), str(description.source)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr, "a warning"

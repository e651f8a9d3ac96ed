"""The kernels of the package: what their descriptions say, against worked numbers and brute force."""

import re
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from dse import kernels
from dse.hardware import gpus, occupancy
from dse.kernels import description as describe
from dse.kernels.description import Description
from dse.types import Gpu, Kernel, Resources

NAMES = [name for name in kernels.names() if kernels.load(name).described]
A100, MI250X, FX5600 = "a100-pcie-40gb", "mi250x", "quadro-fx5600"
GPUS = {name: gpus.load(name, np.float64).gpu for name in (A100, MI250X, FX5600)}


def evaluated(name: str, gpu: str, parameters: Mapping[str, np.ndarray]) -> SimpleNamespace:
    """What the description says of these configurations: every field has the parameters' shape."""
    shape = np.shape(next(iter(parameters.values())))
    fields = _fields(kernels.load(name), parameters, GPUS[gpu])
    return SimpleNamespace(**{key: np.broadcast_to(value, shape) for key, value in fields.items()})


def _fields(description: Description, parameters: Mapping[str, np.ndarray], gpu: Gpu) -> dict[str, Any]:
    kernel, resources = describe.describe(description, parameters, {}, gpu)
    sums = _sums(kernel)
    block_warps = -(-np.asarray(resources.threads) // np.asarray(gpu.limits.warp_size))
    grid_warps = block_warps.astype(float) * np.asarray(resources.blocks, float)
    counts = {name: value for name, value in vars(kernel).items() if name != "phases"}
    fields = counts | vars(kernel.work) | vars(resources) | sums | {"grid_warps": grid_warps}
    return {name: value for name, value in fields.items() if name != "work"}


@jax.jit
def _sums(kernel: Kernel) -> dict[str, jax.Array]:
    return {name: getattr(kernel, name) for name in ("comp_insts", "mem_insts", "insts")}


@cache
def whole(name: str, gpu: str) -> tuple[SimpleNamespace, dict[str, np.ndarray]]:
    """A kernel over its whole space, and the parameters: every field [L]."""
    description = kernels.load(name)
    parameters = description.space.configurations(description.sizes())
    return evaluated(name, gpu, parameters), parameters


def at(name: str, gpu: str = A100, **values: int) -> SimpleNamespace:
    """A kernel at one configuration, which need not be one of its space: scalars."""
    return evaluated(name, gpu, {key: np.asarray(value) for key, value in values.items()})


# All of them


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_possible_everywhere(name: str):
    for gpu in GPUS.values():  # warps of 64, no caches and old limits among them
        describe.check(kernels.load(name), gpu, sample=1_000)


@pytest.mark.parametrize("name", NAMES)
def test_no_unit_of_work_without_an_instruction(name: str):
    kernel, _ = whole(name, A100)
    assert np.all((kernel.shared > 0) <= (kernel.shared_insts > 0))
    assert np.all((kernel.l1 > 0) <= (kernel.mem_insts > 0))
    # nothing comes from further away that was not asked for nearer
    assert np.all(kernel.dram <= kernel.l2 * (1 + 1e-9))


# Spaces


@pytest.mark.parametrize(("name", "size"), [("convolution", 4362), ("dedispersion", 11130), ("gemm", 17956)])
def test_measured_spaces_have_as_many_configurations_as_their_tables(name: str, size: int):
    description = kernels.load(name)
    assert len(description.space.configurations(description.sizes())[description.space.names[0]]) == size


# What AMD's compiler does

W6600, W7800 = "radeon-pro-w6600", "radeon-pro-w7800"
AMD = {name: gpus.load(name, np.float64).gpu for name in (MI250X, W6600, W7800)}

# GPU, parameters, and values that a thread spills, ScratchSize / 4 of clang: 15 for gfx90a and gfx1032, 20
# for gfx1100. Block, tile, use_shmem; MWG, NWG, MDIMC, NDIMC, SA = SB.
SPILLED = [
    (MI250X, (64, 4, 1, 2, 0), 0),
    (MI250X, (64, 4, 1, 4, 0), 70),
    (MI250X, (64, 8, 1, 4, 0), 221),
    (MI250X, (64, 4, 2, 2, 1), 0),
    (MI250X, (48, 4, 1, 2, 0), 338),
    (MI250X, (48, 4, 3, 3, 0), 568),
    (MI250X, (48, 4, 1, 1, 1), 0),
    (MI250X, (48, 4, 2, 2, 1), 399),
    (MI250X, (96, 1, 1, 2, 1), 111),
    (W6600, (48, 4, 1, 2, 0), 345),
    (W7800, (48, 4, 1, 1, 0), 40),
    (MI250X, (128, 128, 16, 16, 1), 0),
    (MI250X, (128, 128, 8, 8, 1), 272),
    (W6600, (128, 128, 8, 8, 1), 320),
    (W7800, (128, 128, 16, 8, 1), 0),
    (W7800, (128, 128, 8, 8, 1), 289),
]


@pytest.mark.parametrize(("gpu", "values", "slots"), SPILLED)
def test_amd_spills_what_clang_does(gpu: str, values: tuple[int, ...], slots: int):
    of_tiles = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "use_shmem")
    of_products = ("MWG", "NWG", "MDIMC", "NDIMC", "SA")
    if values[1] < 32:
        selected = dict(zip(of_tiles, values, strict=True)) | {"read_only": 1, "use_padding": 0}
        name = "convolution"
        fixed = {"filter_height": 15, "filter_width": 15}
    else:
        selected = dict(zip(of_products, values, strict=True))
        name = "gemm"
        fixed = {"SB": selected["SA"], "MDIMA": selected["MDIMC"], "NDIMB": selected["NDIMC"]}
        fixed |= {"KWG": 32, "KWI": 2, "VWM": 4, "VWN": 4}
    parameters = {key: np.asarray(value) for key, value in (selected | fixed).items()}
    actual = float(describe.evaluated_names(kernels.load(name), parameters, {}, AMD[gpu])["spilled"])
    # Within a third, and the ten or twenty values by which code of one tile differs from that of the next.
    assert abs(actual - slots) <= max(24, slots / 3)
    assert (actual > 24) == (slots > 24)


def test_guards_are_branches_and_shifts_scalar_loads_on_amd():
    # 64 * 3 does not divide 4096: on AMD loads wait one after another, and what is spilled is stored twice
    guarded = {"block_size_x": 64, "block_size_y": 4, "tile_size_x": 3, "tile_size_y": 1, "use_shmem": 0}
    fixed = {"read_only": 1, "use_padding": 0, "filter_height": 15, "filter_width": 15}
    amd, nvidia = (at("convolution", gpu, **guarded, **fixed) for gpu in (MI250X, A100))
    assert (amd.mlp, nvidia.mlp) == (1, 24)
    spilled_stores = amd.store_insts - nvidia.store_insts
    assert spilled_stores == 2 * (amd.load_insts - nvidia.load_insts) > 0
    block = {"block_size_x": 8, "block_size_y": 32, "block_size_z": 1, "tile_stride_x": 0, "tile_stride_y": 0}
    single, four = (
        at("dedispersion", MI250X, **block, tile_size_x=1, tile_size_y=n, loop_unroll_factor_channel=0)
        for n in (1, 4)
    )
    channels = 1536
    assert single.load_insts == pytest.approx(channels)
    assert four.load_insts == pytest.approx((4 + 3) * channels)


def test_further_lines_and_what_the_l2_sends_take_amds_l1():
    # 16 threads that read 2 (3) bytes apart span 30 (45) of a line's 64 bytes, the block's tile 15 bytes more
    block = {"block_size_x": 16, "block_size_y": 32, "block_size_z": 1, "tile_size_y": 1, "tile_stride_y": 0}
    fixed = {"tile_stride_x": 0, "loop_unroll_factor_channel": 0}

    def of_a_load(outputs: int) -> float:
        kernel = at("dedispersion", MI250X, **block, **fixed, tile_size_x=outputs)
        shifts = 1.7 * 2 * (outputs - 1) / outputs
        return kernel.l1 * 2 / kernel.load_insts * (2 * outputs - 1) / (2 * outputs) - shifts

    lines, sent = 4 * 15 / 64 / 2.1, 15 / 32 / 8 / 4  # four times 16 threads; eight waves share it
    assert of_a_load(3) - of_a_load(2) == pytest.approx(lines + sent, rel=0.02)


# The papers' kernels


def test_pipeline_papers_kernels():
    # Lemeire et al., Table 2: α_comp = 4, α_mem = 2; Sec. 2.2: three of the four in the chain
    kernel, parameters = whole("example", A100)
    np.testing.assert_array_equal(kernel.comp_insts, 4)
    np.testing.assert_array_equal(kernel.mem_insts, 2)
    np.testing.assert_allclose(kernel.ilp, 4 / 3)
    assert set(parameters["block_size"]) == {32, 64, 128, 256, 512, 1024}
    # Sec. 6.1: beta = 4, 256 times, all in one chain
    mix = at("instruction_mix", beta=4, block_size=256)
    assert (mix.fp32, mix.sfu, mix.ilp) == (1024, 256, 1)
    # Sec. 6.2: as many barriers as instructions; groups of 32 to 1024
    barriers, parameters = whole("iterative_barrier", A100)
    np.testing.assert_array_equal(barriers.barrier, barriers.fp32)
    assert {32, 1024} <= set(parameters["group_size"])


def test_hong_kim_worked_example_and_tiled_product():
    # Hong & Kim, Table 2
    kernel = at("matmul_hk_fig12", FX5600, block_size=128)
    assert (kernel.comp_insts, kernel.mem_insts, kernel.uncoal_insts, kernel.barrier) == (27, 6, 6, 6)
    assert (kernel.transactions_per_uncoal, kernel.bytes_per_access) == (32, 128)
    assert (kernel.threads, kernel.blocks) == (128, 80)
    asked = Resources(kernel.threads, kernel.blocks, kernel.registers, kernel.shared_bytes)
    launch, _ = occupancy.launch(GPUS[FX5600], asked)
    assert (launch.resident_blocks, launch.warps_per_sm) == (5, 20)
    # 201 to 1001 memory and 9780 to 24580 computation instructions, and 3960 bytes of shared memory
    most, least, largest = (at("mat_tiled", FX5600, tile=tile) for tile in (4, 20, 22))
    assert (least.comp_insts, least.mem_insts) == (9_780, 201)
    assert (most.comp_insts, most.mem_insts) == (24_580, 1_001)
    assert (most.uncoal_insts, most.registers) == (1_001, 18)
    assert largest.shared_bytes == 3_960


# Hong & Kim, Table 5: computation, memory, uncoalesced memory instructions; registers, shared bytes; input
TABLE_5 = {
    "sepia": (71, 6, 6, 7, 52, 7000 * 7000),
    "linear": (111, 30, 30, 15, 60, 10_000 * 10_000),
    "svm": (10_871, 819, 0, 9, 44, 736 * 992),
    "mat_naive": (12_043, 4_001, 4_001, 10, 88, 2000 * 2000),
    "blackscholes": (137, 7, 7, 11, 36, 9_000_000),
}


@pytest.mark.parametrize("name", TABLE_5)
def test_hong_kim_table_5(name: str):
    comp, mem, uncoal, registers, shared_bytes, size = TABLE_5[name]
    kernel, parameters = whole(name, FX5600)
    np.testing.assert_array_equal(kernel.comp_insts, comp)
    np.testing.assert_array_equal(kernel.mem_insts, mem)
    np.testing.assert_array_equal(kernel.uncoal_insts, uncoal)
    np.testing.assert_array_equal(kernel.registers, registers)
    np.testing.assert_array_equal(kernel.shared_bytes, shared_bytes)
    block = parameters["block_size"]
    np.testing.assert_array_equal(kernel.blocks, -(-size // block))  # a thread for each element of the input
    assert {4, 128, 512} <= set(block)


# What must add up over a grid


def test_products_and_conversions_are_as_many_as_there_must_be():
    gemm, parameters = whole("gemm", A100)
    accumulators = (parameters["MWG"] // parameters["MDIMC"]) * (parameters["NWG"] // parameters["NDIMC"])
    scaling = 2 * accumulators  # alpha and beta, once an element
    np.testing.assert_allclose((gemm.fp32 - scaling) * gemm.grid_warps, 4096**3 / 32, rtol=1e-12)
    for name in ("matmul_naive", "matmul_tiled"):
        kernel, _ = whole(name, A100)
        np.testing.assert_allclose(kernel.fp32 * kernel.grid_warps, 2048**3 / 32, rtol=1e-12)
    dedispersion, _ = whole("dedispersion", A100)
    conversions = dedispersion.sfu * dedispersion.grid_warps * 32
    full = dedispersion.threads % 32 == 0  # in the other blocks, lanes idle
    np.testing.assert_allclose(conversions[full], 2 * 2048 * 25_000 * 1536, rtol=1e-12)
    assert np.all(conversions[~full] > conversions[full].max())


@pytest.mark.parametrize("name", ["convolution", "convolution_shared", "convolution_direct"])
def test_convolution_multiplies_once_a_tap_and_output(name: str):
    kernel, parameters = whole(name, A100)
    tile_x = parameters["block_size_x"] * parameters["tile_size_x"]
    tile_y = parameters["block_size_y"] * parameters["tile_size_y"]
    # the last blocks reach beyond the image
    covered = np.ceil(4096 / tile_x) * tile_x * np.ceil(4096 / tile_y) * tile_y
    threads = np.asarray(kernel.blocks, float) * kernel.threads
    np.testing.assert_allclose(kernel.fp32 * threads, 225 * covered, rtol=1e-12)
    even = (covered == 4096**2) & (kernel.threads % 32 == 0)
    np.testing.assert_allclose((kernel.fp32 * kernel.grid_warps)[even], 225 * 4096**2 / 32, rtol=1e-12)
    assert even.any()


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("gemm", 4096**2),
        ("matmul_naive", 2048**2),
        ("matmul_tiled", 2048**2),
        ("stencil2d", 8192**2),
        ("transpose", 8192**2),
    ],
)
def test_every_element_of_the_result_is_stored_once(name: str, elements: int):
    kernel, parameters = whole(name, A100)
    floats, once = np.ones_like(kernel.store_insts), np.full(kernel.store_insts.shape, True)
    if name == "gemm":
        floats = np.minimum(parameters["VWM"], 4)  # of a store
        once = parameters["MWG"] // parameters["MDIMC"] * (parameters["NWG"] // parameters["NDIMC"]) < 256
    stored = kernel.store_insts * floats * kernel.grid_warps * 32
    np.testing.assert_allclose(stored[once], elements, rtol=1e-12)
    assert np.all(stored[~once] > elements)  # 16 x 16 sums have no room in registers


@pytest.mark.parametrize("name", ["reduction", "histogram"])
def test_every_element_of_the_input_is_loaded_once(name: str):
    kernel, _ = whole(name, A100)
    np.testing.assert_allclose(kernel.load_insts * kernel.grid_warps * 32, 2**26, rtol=1e-12)


# Convolution in detail


@pytest.mark.parametrize("gpu", [MI250X, FX5600])
@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("convolution_shared", {"use_shmem": 1, "read_only": 0}),
        ("convolution_direct", {"use_shmem": 0, "use_padding": 0}),
    ],
)
def test_variants_are_the_branches_of_the_whole(name: str, fixed: dict[str, int], gpu: str):
    branch, parameters = whole(name, gpu)
    fixed = fixed | {"use_cmem": 1, "filter_width": 15, "filter_height": 15}
    both = parameters | {key: np.full(branch.threads.shape, value) for key, value in fixed.items()}
    convolution = vars(evaluated("convolution", gpu, both))
    for field, value in vars(branch).items():
        np.testing.assert_allclose(value, convolution[field], rtol=1e-12, err_msg=field)


def convolution(x: Any, y: Any, tile_x: Any, tile_y: Any, padding: Any = 0) -> SimpleNamespace:
    """With shared memory, on a GPU with warps of 32: numbers, or arrays of them."""
    sizes = {"block_size_x": x, "block_size_y": y, "tile_size_x": tile_x, "tile_size_y": tile_y}
    rest = {"read_only": 0, "use_shmem": 1, "use_cmem": 1, "filter_width": 15, "filter_height": 15}
    values = sizes | {"use_padding": padding} | rest
    return evaluated("convolution", A100, {k: np.broadcast_to(n, np.shape(x)) for k, n in values.items()})


# Of an RTX 2080 Ti, each over the warps of the grid: block x, y, tile x, y; passes of shared loads, requests
# of global loads, warp instructions
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
    kernel = convolution(x, y, tile_x, tile_y)
    copied = kernel.load_insts  # stored to shared memory as often, without conflicts in rows of 32
    np.testing.assert_allclose(kernel.load_insts, requests, rtol=0.01)
    np.testing.assert_allclose(kernel.shared - copied, shared, rtol=0.01)
    # address arithmetic is the compiler's: what is described is its mean over the space
    np.testing.assert_allclose(kernel.insts, insts, rtol=0.06)


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


SHAPES = [(x, y) for x in (2, 4, 8, *range(16, 257, 16)) for y in (1, 2, 4, 8, 16, 32) if 32 <= x * y <= 1024]


def test_bank_conflicts_equal_those_of_the_threads():
    """All shapes of a block, each with another tile, padded or not."""
    x, y = np.array(SHAPES).T
    tile_x = np.random.default_rng(0).integers(1, 9, len(x))
    padding = ((np.arange(len(x)) % 2 > 0) & (x % 32 != 0) & (x >= 16)).astype(int)
    pitch = x * tile_x + 14 + padding * ((32 - (14 + x * tile_x - x)) % 32)
    kernel = convolution(x, y, tile_x, np.ones_like(x), padding)
    np.testing.assert_array_equal(kernel.shared_bytes, 4 * pitch * (y + 14))
    expected = [mean_passes(*map(int, shape)) for shape in zip(x, y, pitch, strict=True)]
    np.testing.assert_allclose(kernel.shared / kernel.shared_insts, expected, rtol=1e-9)


def mean_sectors(x: int, y: int, pitch: int) -> float:
    """Sectors of 32 bytes that a warp's floats touch, over a block's warps and where its first row begins."""
    counts = []
    for begin in range(0, 8, 2):  # rows begin at even floats
        for first in range(0, x * y, 32):
            threads = np.arange(first, min(first + 32, x * y))
            counts.append(len(np.unique((begin + threads // x * pitch + threads % x) // 8)))
    return float(np.mean(counts))


@pytest.mark.parametrize(
    ("x", "y"), [(16, 2), (16, 8), (32, 4), (48, 2), (48, 16), (64, 1), (112, 8), (256, 1)]
)
def test_sectors_of_direct_loads_equal_those_of_the_threads(x: int, y: int):
    sizes = {"block_size_x": x, "block_size_y": y, "tile_size_x": 1, "tile_size_y": 1}
    kernel = at("convolution_direct", A100, **sizes, read_only=0)
    sectors = (kernel.sectors - 4 * kernel.store_insts) / kernel.load_insts
    np.testing.assert_allclose(sectors, mean_sectors(x, y, 4096 + 14), rtol=1e-9)


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

"""The closed form: beside plain Python, its limits, and what must not make it faster."""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.explore.matrix import rank
from dse.explore.matrix.rank import bound
from dse.hardware import gpus
from dse.models.matrix.case import BACK_TO_BACK, BETWEEN_EVENTS, Case, Timing
from dse.models.matrix.configuration import Configuration, space
from dse.models.matrix.constants import ABOUT, Constants, default, fitted
from dse.models.matrix.machine import Machine
from dse.models.matrix.problem import OPERANDS, Product, experts_layer
from dse.models.matrix.time import seconds, thread_layout, warp_layout

A100, L40, H800 = (gpus.load(name) for name in ("a100-sxm", "l40", "h800"))
TABLE = space("moe")[::7]


def predict(files: list[gpus.GpuFile], *rest, **options):
    """Times as `rank.predict` has them, of two GPUs at least, so that few shapes are compiled."""
    return rank.predict([*files, *files[-1:] * (2 - len(files))], *rest, **options)[: len(files)]


def rows_of(file: gpus.GpuFile, products: list[Product], **changed: float) -> np.ndarray:
    constants = replace(default(), **{name: jnp.float32(value) for name, value in changed.items()})
    return predict([file], products, TABLE, constants)[0]


@pytest.mark.parametrize(
    ("layout", "tile", "expected"),
    [
        # AccelerateMatmul of Triton: rows first while they are the longer side, in tiles of 16 x 16
        (warp_layout, (16, 128, 4), (1, 4)),
        (warp_layout, (64, 128, 4), (2, 2)),
        (warp_layout, (128, 128, 4), (2, 2)),
        (warp_layout, (128, 256, 8), (2, 4)),
        (warp_layout, (256, 64, 8), (8, 1)),
        (warp_layout, (64, 64, 16), (4, 4)),
        (warp_layout, (16, 32, 1), (1, 1)),
        # BlockedEncodingAttr of Triton: 4 x 4, 2 x 2 or 1 sums of a thread, lanes over columns first
        (thread_layout, (64, 64, 4), (8, 4)),
        (thread_layout, (64, 128, 4), (16, 4)),
        (thread_layout, (32, 32, 4), (4, 2)),
        (thread_layout, (128, 128, 8), (16, 4)),
    ],
)
def test_layouts(layout: Callable, tile: tuple[int, int, int], expected: tuple[int, int]):
    rows, columns = layout(*(jnp.float32(value) for value in tile))
    assert (int(rows), int(columns)) == expected


@pytest.mark.quick("weights")
@pytest.mark.parametrize(
    ("product", "ideal", "most"),
    [
        pytest.param(Product(8192, 8192, 8192), 2 * 8192**3 / 312e12, 1.6, id="multiply-adds"),
        pytest.param(Product(16, 28672, 8192), 28672 * 8192 * 2 / 2039e9, 1.35, id="weights"),
    ],
)
def test_products_take_the_time_of_what_they_are_bound_by(product: Product, ideal: float, most: float):
    assert ideal < rows_of(A100, [product]).min() < most * ideal


def test_weights_that_stay_in_l2_are_read_faster_than_from_dram():
    small, large = Product(16, 4096, 2048), Product(16, 4096 * 16, 2048)
    times = rows_of(L40, [small, large]).min(axis=1)
    assert times[1] > 24 * times[0]  # 16 times as large, and more than L2 holds
    products = [Product(tokens, 4096, 4096, 64, 8) for tokens in (1, 4, 16, 64, 256, 1024, 4096)]
    assert (np.diff(rows_of(H800, products).min(axis=1)) > 0).all()
    in_l2, beyond = Product(16, 1024, 1024, experts=2), Product(16, 4096, 4096, experts=64)
    without, with_them = (rows_of(L40, [in_l2, beyond], short_rows=share, l2=0.05) for share in (0.0, 1.0))
    there = np.isfinite(without)
    np.testing.assert_allclose(with_them[0][there[0]], without[0][there[0]], rtol=1e-4)
    assert (with_them[1][there[1]] > 1.1 * without[1][there[1]]).any()


@pytest.mark.parametrize(("file", "stays"), [(L40, True), (A100, False), (H800, False)])
def test_an_l2_of_two_halves_does_not_keep_weights_of_nearly_its_size(file: gpus.GpuFile, stays: bool):
    size = 0.9 * float(file.gpu.l2_bytes)
    times = rows_of(file, [Product(16, int(size / 4096), 2048)])
    assert (times.min() < size / float(file.gpu.dram_bandwidth)) == stays


def test_rows_that_are_read_whole_lie_side_by_side_and_parts_cost_no_more():
    whole, parts = Product(16, 2**21, 64), Product(16, 2**15, 4096)
    without, slow = (rows_of(L40, [whole, parts], turn=turn) for turn in (0.03, 14.0))
    there = np.isfinite(without[0])
    ratio = slow[:, there] / without[:, there]
    assert ratio[0].max() < 1.05 < 1.3 < ratio[1].max()
    tiles = np.array([[16, 64, depth, 8, 4, 2] for depth in (32, 64)])  # rows of 32 and 64 bytes
    product = Product(16, 2**17, 2048, operands="int8_w8a16")
    shorter, whole = predict([A100], [product], tiles, default())[0, 0]
    assert whole <= shorter < 1.08 * whole


def test_blocks_of_two_warps_share_schedulers_by_pairs():
    sms = int(A100.gpu.sm_count)
    products = [Product(16, 32 * sms * blocks, 8192, operands="int8_w8a16") for blocks in (1, 2, 3, 4)]
    times = predict([A100], products, np.array([[16, 32, 128, 8, 2, 5]]), default())[0, :, 0]
    assert times[1] > 1.3 * times[0]
    assert times[2] < 1.2 * times[1]


@pytest.mark.parametrize("name", ["spill", "barrier", "crowded", "starved", "turn", "launch", "idle_block"])
def test_losses_only_lose(name: str):
    products = [*experts_layer(64, 8, 2, 2048, 1024), Product(2048, 4096, 4096)]
    single, more = (rows_of(L40, products, **{name: factor * ABOUT[name].default}) for factor in (1, 4))
    there = np.isfinite(single)
    assert (more[there] >= single[there] * (1 - 1e-5)).all()
    assert (more[there] > single[there] * (1 + 1e-5)).any()


def test_what_does_not_fit_in_shared_memory_is_never_done():
    [times] = predict([L40], [Product(256, 4096, 4096)], TABLE, default())[0]
    rows, columns, depth, stages = (TABLE[:, place] for place in (0, 1, 2, 5))
    too_large = (rows + columns) * depth * 2 * (stages - 1) > 99 * 1024
    np.testing.assert_array_equal(np.isinf(times), too_large)


def test_axes_broadcast_as_loops_do():
    products = [Product(7, 512, 1024), *experts_layer(48, 16, 4, 1024, 512, "fp8_w8a8_block")]
    files = [A100, H800, gpus.load("mi300x")]
    together = predict(files, products, TABLE, default())
    for row, file in enumerate(files):
        for place, product in enumerate(products):
            alone = predict([file], [product], TABLE, default())[0, 0]
            np.testing.assert_allclose(together[row, place], alone, rtol=1e-5)


@pytest.mark.slow
def test_gradient_is_that_of_small_steps():
    machine = jax.tree.map(lambda field: field[:, None].astype(jnp.float64), Machine.of([A100]))
    case, tile = Case.of([Product(200, 4096, 4096, 16, 2)], TABLE[:, 0]), Configuration.of(TABLE)
    case, tile = jax.tree.map(lambda field: field.astype(jnp.float64), (case, tile))

    def total(x: jax.Array) -> jax.Array:
        return jnp.log(seconds(machine, case, tile, Constants.at(x))).sum()

    x = jnp.full(len(ABOUT), 0.1)
    both, step = jax.jit(jax.value_and_grad(total)), 1e-5  # compiled once
    gradient = both(x)[1]
    assert bool(jnp.isfinite(gradient).all())
    for place, name in enumerate(ABOUT):
        if name in ("registers", "address_registers", "held_operands"):  # blocks on an SM jump with them
            continue
        aside = jnp.zeros(len(ABOUT)).at[place].set(step)
        slope = (both(x + aside)[0] - both(x - aside)[0]) / (2 * step)
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-3, atol=1e-3, err_msg=name)


def test_small_tiles_of_fp8_are_converted_where_only_shared_memory_feeds_fp8():
    """Compute-bound, in L2: on Hopper 16 rows of fp8 gain no rate, on Ada they double it."""
    tile = np.array([[16, 128, 128, 1, 4, 3]])

    def ratio(name: str) -> float:
        products = [Product(65536, 512, 1024, operands=kind) for kind in ("bf16", "fp8_w8a8")]
        half, eight = predict([gpus.load(name)], products, tile, default())[0, :, 0]
        return float(eight / half)

    assert ratio("l40") < 0.75
    assert ratio("h100-sxm") > ratio("l40") + 0.05
    # On Hopper tiles of 16 rows are made fp16 in registers, those of 64 rows are not, nor any on Ada.
    tiles = np.array([[16, 128, 128, 1, 4, 3], [64, 128, 128, 1, 4, 3]])
    products = [Product(65536, 512, 1024, operands="fp8_w8a8")]
    slow = eqx.tree_at(lambda one: one.fp8_slots, default(), jnp.asarray(8.0, jnp.float32))
    files = [gpus.load(name) for name in ("h100-sxm", "l40")]
    before, after = (predict(files, products, tiles, constants)[:, 0] for constants in (default(), slow))
    assert after[0, 0] > 1.5 * before[0, 0]
    np.testing.assert_array_equal(after[0, 1], before[0, 1])
    np.testing.assert_array_equal(after[1], before[1])


def test_tensor_memory_multiplies_64_rows_as_slowly_as_128():
    """Compute-bound, as L2 is made fast: twice the tiles of half the rows take B200 twice the time."""
    tiles = np.array([[64, 256, 64, 1, 8, 4], [128, 256, 64, 1, 8, 4]])
    fast = eqx.tree_at(lambda one: one.l2, default(), jnp.asarray(100.0, jnp.float32))
    products = [Product(128 * 148 * 8, 256, 4096)]
    few, many = predict([gpus.load("b200"), gpus.load("h200")], products, tiles, fast)[:, 0].T
    assert few[0] > 1.6 * many[0]
    assert few[1] < 1.2 * many[1]


def test_scaled_sums_wait_for_the_tensor_cores():
    """Two blocks of four warps overlap what one block of eight cannot."""
    tiles = np.array([[64, 128, 128, 1, 4, 3], [64, 128, 128, 1, 8, 3]])
    products = [Product(4096, 4096, 4096, operands=kind) for kind in ("fp8_w8a8", "fp8_w8a8_block")]
    plain, scaled = predict([gpus.load("h100-sxm")], products, tiles, default())[0]
    assert scaled[0] < 1.03 * plain[0]
    assert scaled[1] > 1.05 * plain[1]


AMD = ("mi210", "mi300x", "mi355x", "pro-w7900", "ai-pro-r9700")
FILES = [gpus.load(name) for name in ("a100-sxm", "h100-sxm", "l40s", "b200", "rtx-4090", *AMD)]
SIZES = (1, 100, 4096)


@pytest.mark.slow
@pytest.mark.parametrize("timing", [BACK_TO_BACK, BETWEEN_EVENTS])
def test_never_below_the_roofline(timing: Timing):
    products = [Product(m, n, k, operands=x) for x in OPERANDS for m in SIZES for n in SIZES for k in SIZES]
    products += [*experts_layer(64, 16, 2, 4096, 1024), *experts_layer(4096, 8, 2, 512, 256, "fp8_w8a8")]
    times = predict(FILES, products, TABLE, timing=timing)
    assert (times >= bound(FILES, products, timing)[:, :, None]).all()


@pytest.mark.parametrize(
    ("gpu", "operands", "tflops"),
    [
        ("mi300x", "bf16", 708),
        ("mi300x", "fp8_w8a8", 1273),
        ("mi325x", "bf16", 843),
        ("mi325x", "fp8_w8a8", 1519),
    ],
)
def test_large_products_run_at_the_clock_that_power_leaves(gpu: str, operands: str, tflops: float):
    """AMD, Measuring Max-Achievable FLOPs, part 2: hipBLASLt, of 1,307 TFLOP/s at the peak clock in bf16."""
    table, large = space("mm"), Product(4096, 4864, 32896, operands=operands)
    seconds = predict([gpus.load(gpu)], [large], table[table[:, 5] == 2]).min()
    assert 0.85 < 2 * 4096 * 4864 * 32896 / seconds / (tflops * 1e12) < 1.15


@pytest.mark.slow
def test_options_of_amd():
    """Registers for four waves of a SIMD do not hold these sums; narrow reads and large instructions cost."""
    tiles = np.array([[256, 128, 32, 8, 4, 2, *options] for options in ((0, 16, 2), (4, 16, 2), (0, 32, 1))])
    plain, waves, others = predict([gpus.load("mi300x")], [Product(8192, 8192, 8192)], tiles)[0, 0]
    assert waves > 1.5 * plain
    assert 1.0 < others / plain < 1.3


@pytest.mark.parametrize(("warps", "as_many", "fewer"), [(4, 2, 1), (8, 4, 2)])
def test_registers_of_amd_are_those_of_its_compiler(warps: int, as_many: int, fewer: int):
    """A CU holds two blocks of 128 x 128 x 64: Triton 3.9 gives threads of gfx942 158 registers, or 114."""
    waves = (0, as_many, fewer, 8)
    tiles = np.array([[128, 128, 64, 1, warps, 2, number, 16, 2] for number in waves])
    plain, same, alone, spilled = predict([gpus.load("mi300x")], [Product(8192, 8192, 8192)], tiles)[0, 0]
    assert same == pytest.approx(plain)
    assert min(alone, spilled) > 1.05 * plain


def test_groups_of_as_many_rows_as_dies_share_least():
    """Eight dies in turn: in groups of eight rows of tiles, each die has one row of them and all columns."""
    slow = eqx.tree_at(lambda k: k.fabric, fitted(True), jnp.asarray(0.02, jnp.float32))
    tiles = np.array([[128, 128, 64, group, 8, 2] for group in (1, 8, 32)])
    few, eight, many = predict([gpus.load("mi300x")], [Product(8192, 8192, 4096)], tiles, slow)[0, 0]
    assert eight > 2.0 * max(few, many)


def timed(products: list[Product], table: np.ndarray) -> list[np.ndarray]:
    return [predict([A100], products, table, fitted(), way)[0] for way in (BACK_TO_BACK, BETWEEN_EVENTS)]


def test_launches_between_events_take_longer():
    warm, cold = timed([Product(16, 4096, 4096), Product(4096, 4096, 4096, operands="fp32")], TABLE)
    there = np.isfinite(warm)
    assert (cold[there] > warm[there] + 2e-6).all()
    products = [Product(size, size, size) for size in (4096, 16384)]
    warm, cold = (times[:, 0] for times in timed(products, np.array([[128, 128, 32, 8, 4, 4]])))
    assert cold[0] < warm[0]  # 256 MB are written in a quarter of its time
    assert 0.99 < cold[1] / warm[1] < 1.01


def test_narrow_copies_are_slow_and_blocks_that_drift_apart_read_more():
    """A depth of 4,095: no 16-byte copy, none that is asynchronous."""
    aligned, narrow = rows_of(A100, [Product(1024, 4096, 4096), Product(1024, 4096, 4095)])
    assert narrow.min() > 1.3 * aligned.min()
    # The same work for each pass, eight times the depth: L2 keeps less of what blocks share.
    short, long = rows_of(A100, [Product(8192, 8192, 4096), Product(8192, 8192, 65536)], drift=0.3)
    assert long.min() > 17 * short.min()


def test_weights_by_columns_conflict_without_tensor_cores():
    """Lanes of FMA read columns of the weights: those that the depth keeps apart meet in one bank."""
    products = [
        Product(4096, 4096, 4096, operands=kind, layouts=("row", layout))
        for kind in ("fp32", "bf16")
        for layout in ("row", "column")
    ]
    rows, columns, other_rows, other_columns = rows_of(A100, products)[:, :]
    small = (TABLE[:, 0] == 64) & (TABLE[:, 1] == 64)
    assert (columns[small] > 1.5 * rows[small])[np.isfinite(rows[small])].all()
    np.testing.assert_allclose(other_rows.min(), other_columns.min(), rtol=0.1)

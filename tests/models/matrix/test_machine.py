"""What of a configuration fits on a GPU, beside what Triton's compiler asks for."""

import numpy as np
import pytest

from dse.errors import DseError
from dse.explore.matrix.rank import predict
from dse.hardware import gpus
from dse.models.matrix.constants import default
from dse.models.matrix.machine import SHARED_OPERANDS, SHARED_ROWS, Machine, buffer_bytes, possible
from dse.models.matrix.problem import OPERANDS, Product


@pytest.mark.parametrize(
    ("capability", "operands", "tile", "compiled"),
    [
        # metadata.shared of vLLM's kernel compiled by Triton 3.9: rows, columns, depth, stages
        (90, "bf16", (16, 64, 128, 3), 40960),
        (90, "bf16", (64, 64, 128, 3), 98304),
        (90, "bf16", (64, 128, 64, 4), 98304),
        (90, "fp8_w8a8", (16, 128, 128, 3), 36864),
        (90, "int8_w8a16", (128, 128, 64, 3), 81920),
        (90, "int8_w8a16", (64, 256, 64, 2), 65536),
        (80, "bf16", (64, 128, 64, 4), 73728),
        (100, "bf16", (16, 64, 128, 3), 40960),
        (120, "fp8_w8a8", (64, 128, 128, 3), 49152),
    ],
)
def test_buffers_are_those_that_triton_allocates(capability: int, operands: str, tile: tuple, compiled: int):
    kind = OPERANDS[operands]
    from_shared = float(capability in SHARED_OPERANDS and tile[0] >= SHARED_ROWS)
    sizes = [np.array([x]) for x in (kind.activation_bytes, kind.weight_bytes, float(kind.converts))]
    rows = tuple(np.array([value]) for value in tile)
    actual = buffer_bytes(rows, sizes[0], sizes[1], sizes[2], np.array([from_shared]))
    np.testing.assert_array_equal(actual, [compiled])


@pytest.mark.parametrize(
    ("operands", "tile", "compiled"),
    [
        # as above, for gfx950; gfx942 has a buffer less and no padding: 32768 of the first
        ("bf16", (128, 128, 64, 2), 66528),
        ("bf16", (128, 128, 64, 3), 99808),
        ("bf16", (64, 256, 128, 2), 166368),
        ("fp8_w8a8", (128, 256, 128, 2), 99808),
    ],
)
def test_copies_straight_to_shared_memory_have_a_buffer_for_each_stage(operands, tile, compiled):
    size, [product] = OPERANDS[operands].weight_bytes, [Product(64, 4096, 4096, operands=operands)]
    assert buffer_bytes(tile, size, size, 0, 0, direct=1) == pytest.approx(compiled, rel=1e-3)
    rows, columns, depth, stages = tile
    [[fits]] = possible(gpus.load("mi355x"), [product], np.array([[rows, columns, depth, 1, 8, stages]]))
    assert fits == (compiled <= 160 * 1024)


@pytest.mark.parametrize(
    ("gpu", "products_a_cycle"),  # of a CU, or of two that share their LDS: AMD's tables of peak rates
    [("mi210", 128), ("mi300x", 512), ("mi355x", 128), ("pro-w7900", 128)],
)
def test_tf32_of_amd_is_single_precision_where_matrix_cores_lack_it(gpu: str, products_a_cycle: float):
    machine = Machine.of([gpus.load(gpu)])
    np.testing.assert_allclose(machine.mma["mma_tf32"], [1.0 / products_a_cycle], rtol=1e-3)


def test_what_has_room():
    table = np.array([[32, 64, 256, 1, 4, 5], [64, 64, 256, 1, 4, 4]])  # 192 of 227 KiB, 256
    assert possible(gpus.load("h800"), [Product(64, 4096, 4096)], table).tolist() == [[True, False]]
    products = [Product(64, 4096, 4096, operands=name) for name in ("bf16", "fp8_w8a8", "bf16")]
    table = np.array([[128, 256, 128, 1, 8, 4]])
    assert possible(gpus.load("h100-sxm"), products, table).tolist() == [[False], [True], [False]]
    with pytest.raises(DseError, match=r"found AMD .*, expected one with tensor or matrix cores"):
        Machine.of([gpus.load("mi50")])
    table = np.array([[128, 128, 256, 1, 4, 4], [128, 128, 128, 1, 4, 4]])  # of fp8: 256 KiB, cut 128
    [product] = [Product(64, 4096, 4096, operands="fp8_w8a8_block")]
    np.testing.assert_array_equal(possible(gpus.load("h100-sxm"), [product], table), [[True, True]])
    [times] = predict([gpus.load("h100-sxm")], [product], table, default())[0]
    assert times[0] == times[1]

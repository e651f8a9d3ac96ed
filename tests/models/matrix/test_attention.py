"""Attention's times: beside what is published, its roofline, and what must change them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.models.matrix.attention import Attention, AttentionCase, buffer_bytes, possible, seconds
from dse.models.matrix.case import BACK_TO_BACK, BETWEEN_EVENTS, Timing
from dse.models.matrix.configuration import Configuration
from dse.models.matrix.constants import fitted
from dse.models.matrix.machine import Machine

A100, H100, B200 = (gpus.load(name) for name in ("a100-sxm", "h100-sxm", "b200"))
TILE = (128, 64, 4, 2)  # rows, columns, warps, stages


def times(file, attentions, tile=TILE, timing: Timing = BACK_TO_BACK, **way: bool) -> np.ndarray:
    machine = jax.tree.map(lambda field: field[:, None], Machine.of([file]))
    rows, columns, warps, stages = (jnp.full((1, 1), value, jnp.float32) for value in tile)
    tiles = Configuration(rows, columns, columns, jnp.ones((1, 1), jnp.float32), warps, stages)
    padded = attentions + [attentions[-1]] * (16 - len(attentions))  # so that one shape is compiled
    actual = seconds(machine, AttentionCase.of(padded), tiles, fitted(), timing, **way)
    return np.asarray(actual)[: len(attentions), 0]


def teraflops(file: gpus.GpuFile, one: Attention, tile: tuple[int, ...], **way: bool) -> float:
    flops = 4 * one.batch * one.heads * one.queries * one.keys * one.head_dim / (2 if one.causal else 1)
    return float(flops / times(file, [one], tile, BACK_TO_BACK, **way)[0] / 1e12)


def of_length(keys: int, depth: int, causal: bool = False) -> Attention:
    return Attention(16384 // keys, 2048 // depth, keys, keys, depth, operands="fp16", causal=causal)


LONG = {depth: of_length(16384, depth) for depth in (64, 128, 256)}
FLASH_2, FLASH_3 = {"from_registers": True}, {"by_turns": True}


@pytest.mark.parametrize(
    ("file", "depth", "tile", "way", "published"),
    [
        (A100, 128, (128, 64, 4, 2), FLASH_2, {(16384, False): 228}),  # Dao 2023: up to 73 % of 312
        (H100, 128, (128, 64, 8, 3), {}, {(16384, False): 477}),  # tutorial: pytorch/benchmark 2391
        # Shah et al. 2024, Fig. 5: FlashAttention 2, Triton, FlashAttention 3
        (H100, 64, (128, 128, 4, 2), FLASH_2, {(4096, False): 321, (4096, True): 284, (16384, True): 299}),
        (H100, 128, (128, 64, 4, 2), FLASH_2, {(4096, False): 368, (4096, True): 319, (16384, True): 335}),
        (H100, 256, (128, 64, 8, 2), FLASH_2, {(4096, False): 323, (4096, True): 293, (16384, True): 298}),
        (H100, 64, (128, 64, 4, 3), {}, {(4096, False): 400, (4096, True): 363, (16384, True): 363}),
        (H100, 128, (128, 64, 4, 3), {}, {(4096, False): 389, (4096, True): 353, (16384, True): 378}),
        (H100, 128, (128, 128, 8, 3), {}, {(4096, False): 389, (4096, True): 353, (16384, True): 378}),
        (H100, 64, (192, 128, 12, 3), FLASH_3, {(4096, False): 476, (4096, True): 420, (16384, True): 473}),
        (H100, 128, (128, 128, 8, 3), FLASH_3, {(4096, False): 638, (4096, True): 579, (16384, True): 616}),
        (H100, 256, (128, 80, 8, 3), FLASH_3, {(4096, False): 736, (4096, True): 612, (16384, True): 642}),
    ],
)
def test_published_rates(file: gpus.GpuFile, depth: int, tile: tuple, way: dict, published: dict):
    actual = {case: teraflops(file, of_length(case[0], depth, case[1]), tile, **way) for case in published}
    assert actual == pytest.approx(published, rel=0.15)


@pytest.mark.parametrize(
    ("tile", "compiled"),  # of 128 elements of a head, by Triton 3.9 for capability 9.0
    [((128, 64, 3), 131072), ((128, 128, 3), 229376), ((64, 64, 3), 114688), ((128, 32, 3), 81920)],
)
def test_buffers_are_those_that_triton_compiles(tile: tuple, compiled: int):
    assert buffer_bytes(tile, 128, 2, 1, 0) == compiled
    rows, columns, stages = tile
    configurations = np.array([[rows, columns, columns, 1, 4, stages], [rows, columns, columns, 1, 4, 8]])
    assert possible(H100.gpu, 128, 2, configurations).tolist() == [True, columns == 32]


@pytest.mark.parametrize(
    ("depth", "tile", "compiled"),  # by Triton 3.9 for capability 8.0
    [
        (128, (128, 128, 3), 163840),
        (256, (64, 64, 3), 172032),
        (64, (64, 128, 3), 73728),
        (64, (32, 64, 3), 40960),
    ],
)
def test_tiles_of_fewer_rows_than_the_head_exchange_scores(depth: int, tile: tuple, compiled: int):
    rows, columns, stages = tile
    assert buffer_bytes(tile, depth, 2, 0, rows < depth) == compiled
    configurations = np.array([[rows, columns, columns, 1, 4, stages]])
    assert possible(A100.gpu, depth, 2, configurations).tolist() == [compiled < 166912]


def test_causal_attention_takes_half_and_decoding_the_time_of_the_cache():
    whole, half = times(A100, [LONG[128], Attention(1, 16, 16384, 16384, 128, causal=True)])
    assert 0.48 < half / whole < 0.55
    single = Attention(64, 32, 1, 8192, 128, key_heads=8)
    together = replace(single, packed=True)
    alone, packed, paged = times(H100, [single, together, replace(together, page=1)], (16, 64, 4, 3))
    cache = 2 * 64 * 8 * 8192 * 128 * 2 / 3352e9
    assert cache < packed <= alone
    assert paged > packed


@pytest.mark.parametrize("timing", [BACK_TO_BACK, BETWEEN_EVENTS])
def test_never_below_the_roofline(timing: Timing):
    sizes = [(1, 1, 64), (2, 8, 512), (8, 16, 4096)]
    many = [Attention(b, h, n, n, d) for b, h, n in sizes for d in (16, 64, 128)]
    many += [Attention(16, 32, 1, n, 128, key_heads=8, packed=True) for n in (1024, 65536)]
    for file, peak, bandwidth in ((A100, 312e12, 2039e9), (H100, 989.4e12, 3352e9), (B200, 2250e12, 8e12)):
        actual = times(file, many, timing=timing)
        for single, time in zip(many, actual, strict=True):
            flops = 4 * single.batch * single.heads * single.queries * single.keys * single.head_dim
            bytes_ = 4 * single.batch * single.queries * single.heads * single.head_dim
            bytes_ += 4 * single.batch * single.groups * single.keys * single.head_dim
            assert time >= flops / peak * 0.99
            assert time >= bytes_ / bandwidth * timing.flushed * 0.99


def test_gradients_are_finite():
    machine = jax.tree.map(lambda field: field[:, None], Machine.of([A100]))
    case = AttentionCase.of([LONG[64], Attention(1, 1, 1, 1, 16)])

    def total(rows: jax.Array) -> jax.Array:
        tile = Configuration(*(jnp.full((1, 1), v, jnp.float32) for v in (0, 64, 64, 1, 4, 2)))
        tile = Configuration(rows, tile.columns, tile.depth, tile.group, tile.warps, tile.stages)
        return jnp.log(seconds(machine, case, tile, fitted())).sum()

    assert bool(jnp.isfinite(jax.jit(jax.grad(total))(jnp.full((1, 1), 128.0, jnp.float32))).all())


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"keys": 0}, "attention: keys: found 0, expected at least 1"),
        ({"key_heads": 3}, "attention: key_heads: found 3, expected a divisor of 8"),
        ({"operands": "int8_w8a16"}, "attention: operands: found 'int8_w8a16'"),
    ],
)
def test_mistakes_are_one_line(changed: dict, line: str):
    with pytest.raises(DseError, match=line):
        replace(Attention(1, 8, 64, 64, 64), **changed)

"""What Triton kernels must compute, held against whole arrays."""

from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

from dse import kernels
from dse.core.space import Expression
from dse.measure.checking import CheckedLaunch, Reference
from dse.measure.reference_triton import EPSILON, OF_TRITON, SCALE

RANDOM = np.random.default_rng(7)


def halves(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float16)


def found(name: str, names: dict[str, int], arrays: dict[int, np.ndarray], at: Any = None) -> np.ndarray:
    checks: Reference = OF_TRITON[name]
    at = np.arange(checks.size(names)) if at is None else np.array(at)
    case = CheckedLaunch(names, {place: np.ravel(array) for place, array in arrays.items()}, {}, at)
    return checks.expected(case)


def test_numbers_of_the_kernel_files():
    for name, place, number in (("triton_layer_norm", 5, EPSILON), ("triton_attention", 5, SCALE)):
        build = kernels.load(name).build
        assert build is not None
        argument = build.arguments[place]
        assert isinstance(argument, Expression)
        assert float(argument.text) == number


@pytest.mark.parametrize("name", ["triton_matmul", "triton_matmul_tma"])
def test_matmul(name: str):
    a, b = halves(6, 7), halves(7, 5)
    expected = a.astype(float) @ b.astype(float)
    np.testing.assert_allclose(
        found(name, {"M": 6, "N": 5, "K": 7}, {0: a, 1: b}), expected.ravel(), rtol=1e-12
    )


def test_softmax():
    matrix = RANDOM.random((4, 6)).astype(np.float32)
    names = {"rows": 4, "columns": 6}
    expected = softmax(matrix.astype(float), axis=1).ravel()
    np.testing.assert_allclose(found("triton_softmax", names, {1: matrix}), expected, rtol=1e-12)
    np.testing.assert_allclose(found("triton_softmax", names, {1: matrix}, [5, 6, 23]), expected[[5, 6, 23]])


def test_layer_norm():
    matrix, weight, bias = halves(4, 6), halves(6), halves(6)
    rows = matrix.astype(float)
    moved = (rows.T - rows.mean(1)) / np.sqrt(rows.var(1) + EPSILON)
    expected = moved.T * weight.astype(float) + bias.astype(float)
    arrays = {1: matrix, 2: weight, 3: bias}
    np.testing.assert_allclose(
        found("triton_layer_norm", {"rows": 4, "columns": 6}, arrays), expected.ravel()
    )


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(causal: int):
    heads, length, width = 2, 5, 4
    arrays = {place: halves(heads, length, width) for place in range(3)}
    queries, keys, values = (array.astype(float) for array in arrays.values())
    scores = SCALE * np.einsum("hqd,hkd->hqk", queries, keys)
    if causal:
        scores[:, *np.triu_indices(length, 1)] = -np.inf
    expected = np.einsum("hqk,hkd->hqd", softmax(scores, axis=2), values)
    names = {"heads": heads, "length": length, "HEAD": width, "CAUSAL": causal}
    np.testing.assert_allclose(found("triton_attention", names, arrays), expected.ravel(), rtol=1e-12)


def test_experts():
    """Three tokens, two experts each, of four; tiles of two rows, the last of an expert padded."""
    tokens, experts, n, k = halves(3, 5), halves(4, 6, 5), 6, 5
    of_pair = [2, 0, 0, 1, 2, 0]
    order = np.array([1, 2, 5, 6, 3, 6, 0, 4])  # by expert; 6 is none
    tiles = np.array([0, 0, 1, 2])
    expected = [tokens[pair // 2].astype(float) @ experts[of_pair[pair]].T.astype(float) for pair in range(6)]
    names = {"token_count": 3, "top_k": 2, "expert_count": 4, "N": n, "K": k, "BLOCK_M": 2}
    arrays = {0: tokens, 1: experts, 3: order.astype(np.int32), 4: tiles.astype(np.int32)}
    np.testing.assert_allclose(found("triton_moe", names, arrays), np.ravel(expected), rtol=1e-12)
    np.testing.assert_allclose(
        found("triton_moe", names, arrays, [7, 8]), np.ravel(expected)[7:9], rtol=1e-12
    )

"""A tuner's names become those of a kernel, or the one message says which do not."""

from dataclasses import replace

import numpy as np
import pytest

from dse.errors import DseError
from dse.explore.tune import predictor
from dse.explore.tune.candidates import bare
from dse.explore.tune.predictor import Predictor

COLUMNS = {"block": [32, 64, 64], "items": [1, 1, 2]}


def named(kernel, columns, sizes=None, optional=(), **settings):
    return Predictor(kernel, "a100-pcie-40gb", **settings).named(columns, "params", sizes, optional)


def test_names_in_the_kernels_order_renamed_fixed_and_unknown(toy_kernel):
    parameters, problem = named(toy_kernel, dict(reversed(COLUMNS.items())))
    assert {name: values.tolist() for name, values in parameters.items()} == COLUMNS
    assert list(parameters) == ["block", "items"]
    assert problem == {"n": 1048576}
    theirs = {"BLOCK": [32, 64], "unroll": ["no", "yes"], "version": [3, 3]}
    renamed, sizes = {"BLOCK": "block", "size": "n", "unroll": None}, {"size": 4096, "x": "tensor"}
    parameters, problem = named(toy_kernel, theirs, sizes, fixed={"items": 2}, rename=renamed)
    assert {name: values.tolist() for name, values in parameters.items()} == {
        "block": [32, 64],
        "items": [2, 2],
    }
    assert problem == {"n": 4096}
    theirs = {"BLOCK_SIZE_X": [32, 64], "BLOCK_SIZE_Y": [4, 4], "TILE_SIZE_X": [1, 2], "TILE_SIZE_Y": [1, 1]}
    theirs |= {"READ_ONLY": [0, 1], "IMAGE_WIDTH": [2048, 2048]}
    parameters, problem = named("convolution", theirs)
    assert parameters["block_size_x"].tolist() == [32, 64]
    assert parameters["use_shmem"].tolist() == [1, 1]  # as the space has it
    assert parameters["filter_width"].tolist() == [15, 15]  # its only value
    assert problem == {"image_width": 2048, "image_height": 4096}


@pytest.mark.parametrize(
    ("columns", "settings", "found"),
    [
        ({"block": [32, 64]}, {}, "found no 'items'"),
        (COLUMNS | {"warps": [1, 2, 1]}, {}, "found 'warps'"),
        (COLUMNS, {"fixed": {"items": 1}}, "found 'items' both tuned and fixed"),
        (COLUMNS | {"n": [1, 2, 3]}, {}, "found several values of the size 'n'"),
        (COLUMNS, {"fixed": {"itmes": 1}}, "fixed: found 'itmes', expected one of block, items, n; did you"),
        (COLUMNS | {"items": ["a", "b", "c"]}, {}, "items: found 'a', expected a number"),
    ],
)
def test_names_that_do_not_match(toy_kernel, columns, settings, found):
    with pytest.raises(DseError) as raised:
        named(toy_kernel, columns, **settings)
    assert str(raised.value).startswith("params: ")
    assert found in str(raised.value)


def test_what_the_kernel_does_not_know_still_tells_configurations_apart(toy_kernel, monkeypatch):
    def by_what_it_knows(description, file, model, parameters, problem):
        assert list(parameters) == ["block", "items"]
        return replace(bare(parameters), modelled=True)

    monkeypatch.setattr(predictor, "of_kernel", by_what_it_knows)
    columns = COLUMNS | {"unroll": ["no", "no", "yes"]}
    known = Predictor(toy_kernel, "a100-pcie-40gb", rename={"unroll": None}).candidates(columns, "params")
    assert known.modelled
    assert known.position.shape == (3, 3)
    assert len(np.unique(known.position, axis=0)) == 3
    unknown = Predictor(None).candidates(columns, "params")
    assert not unknown.modelled
    np.testing.assert_array_equal(unknown.position, known.position)


def test_no_configuration_and_no_gpu(toy_kernel):
    with pytest.raises(DseError, match=r"params: found no configuration"):
        Predictor(None).candidates({"block": []}, "params")
    with pytest.raises(DseError, match=r"gpu: found none"):
        Predictor(toy_kernel).candidates(COLUMNS, "params")

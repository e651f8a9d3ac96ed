"""Ranked configurations of products by the names of each reader, as it calls for them."""

import json

import pytest

from dse.bridges import cutile, tilelang, tokamax
from dse.bridges.calls import Call, Operand, table_of
from dse.bridges.tables import FORMATS, PRODUCT
from dse.errors import DseError
from dse.explore.matrix.rank import first
from dse.hardware import gpus
from dse.models.matrix.problem import Product

H100 = gpus.load("h100-sxm")
MM = Call("mm", (Operand.of("bfloat16", (512, 2048)), Operand.of("bfloat16", (2048, 1024))))
EXPERTS = Call("ragged_dot", (Operand.of("bfloat16", (512, 2048)), Operand.of("bfloat16", (8, 2048, 1024))))


def test_the_first_are_those_of_the_ranking():
    [rows] = first(H100, [Product(512, 1024, 2048)], 3)
    assert len(rows) == 3
    fastest = rows[0] | {"gpu": H100}
    [tiles] = tilelang.configs("h100-sxm", "bf16", first=1)(M=512, N=1024, K=2048)
    assert tiles == tilelang.configuration(fastest)
    assert cutile.short_list("h100-sxm", 512, 1024, 2048, "bf16")[0] == cutile.configuration(fastest)
    [rows] = first(gpus.load("mi300x"), [Product(512, 1024, 2048)], 1)
    [tiles] = tilelang.configs("mi300x", "bf16", first=1)(512, 1024, 2048)
    assert tiles["threads"] == 64 * rows[0]["num_warps"]


def test_configurations_differ_by_the_readers_own_names():
    tiles = cutile.short_list("h100-sxm", 512, 1024, 2048, first=4)
    assert len({tuple(tile.values()) for tile in tiles}) == 4
    renamed = tilelang.configs(H100, rename={"num_stages": None, "threads": "thread_num"})(512, 1024, 2048)
    assert set(renamed[0]) == {"block_M", "block_N", "block_K", "thread_num"}
    assert len({tuple(item.values()) for item in renamed}) == len(renamed) == tilelang.FIRST
    with pytest.raises(DseError, match=r"rename: found 'thread', expected one of .*; did you mean threads"):
        tilelang.configs(H100, rename={"thread": "thread_num"})
    with pytest.raises(DseError, match="first: found 0, expected 1 or more"):
        cutile.short_list(H100, 512, 512, 512, first=0)
    with pytest.raises(DseError, match=r"gpu: found AMD .* with cuTile, expected a GPU of NVIDIA"):
        cutile.short_list("mi300x", 512, 512, 512)


@pytest.mark.parametrize("name", [name for name, item in FORMATS.items() if PRODUCT in item.kernels])
def test_a_file_of_products(name):
    call = EXPERTS if name == "tokamax" else MM
    table = table_of(H100, [call], FORMATS[name].first)
    assert len(table.problems[0]) == FORMATS[name].first
    assert json.loads(FORMATS[name].text(table))


def test_the_cache_of_tokamax():
    table = table_of(H100, [EXPERTS], 1)
    assert tokamax.file_name(table) == "nvidia_h100_80gb_hbm3/pallas_triton_ragged_dot.json"
    [[arguments, actual]] = json.loads(tokamax.text(table)).items()
    assert json.loads(arguments)["rhs"] == "bf16[8,2048,1024]"
    assert json.loads(arguments)["group_sizes"] == {"num_groups": 8, "total_size": 512}
    [[configuration, times]] = actual.items()
    assert json.loads(configuration) == tokamax.configuration(table.problems[0][0])
    assert times["evaluation_times_ms"] == [1e3 * table.problems[0][0]["time_s"]]
    with pytest.raises(DseError, match="found mm, bfloat16 with format tokamax, expected ragged_dot"):
        tokamax.text(table_of(H100, [MM], 1))

"""Inductor's lookup table and its choices: by its own code where PyTorch is installed."""

import json
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

import dse.inductor
from dse.bridges import inductor
from dse.bridges.calls import Call, Tensor, table_of
from dse.explore.matrix.rank import first
from dse.hardware import gpus
from dse.models.matrix.problem import Product

H100 = gpus.load("h100-sxm")
MM = Call("mm", (Tensor.of("bfloat16", (1000, 2000)), Tensor.of("bfloat16", (2000, 512), "column")))
KEY = "((torch.bfloat16, [1000, 2000], [2000, 1]), (torch.bfloat16, [2000, 512], [1, 2000]))+mm"


def test_a_table_has_the_library_and_the_first_configurations():
    table = table_of(H100, [MM], 2)
    [[key, entries]] = json.loads(inductor.text(table)).items()
    assert key == KEY
    assert [entry["template_id"] for entry in entries] == ["aten::mm", "triton::mm", "triton::mm"]
    own = table.problems[0][0]
    assert entries[1]["BLOCK_M"] == own["BLOCK_SIZE_M"]
    assert all(entry["EVEN_K"] == (2000 % entry["BLOCK_K"] == 0) for entry in entries[1:])


def test_one_configuration_stands_alone_so_that_nothing_is_timed(tmp_path):
    (tmp_path / "shapes.csv").write_text("M,N,K,b_layout\n1000,512,2000,column\n")
    found = dse.inductor.table("h100-sxm", tmp_path / "shapes.csv", first=1, device="NVIDIA H100 80GB HBM3")
    assert list(found) == [f"NVIDIA H100 80GB HBM3+{KEY}"]
    assert [entry["template_id"] for entry in found.popitem()[1]] == ["triton::mm"]


@dataclass(eq=False)
class Choice:
    kwargs: dict

    @property
    def params(self) -> Any:
        return SimpleNamespace(to_kwargs=lambda: self.kwargs)


def test_candidates_are_cut_and_ordered_and_the_library_stays():
    [rows] = first(H100, [Product(1000, 512, 2000)], 4800)
    kept = [dict(zip(inductor.OF_PARAMETERS, row.values(), strict=False)) for row in rows[:40:10]]
    library, tiles = Choice({}), [Choice(kwargs) for kwargs in reversed(kept)]
    found = inductor.ranked(H100, [tiles[0], library, *tiles[1:]], MM, 2)
    assert found[0] is library
    assert {one.kwargs["BLOCK_M"] for one in found[1:]} <= {kwargs["BLOCK_M"] for kwargs in kept}
    assert len(found) == 3
    unknown = Call("mm", (Tensor.of("float64", (8, 8)), Tensor.of("float64", (8, 8))))
    assert inductor.ranked(H100, tiles, unknown, 2) == tiles


@pytest.mark.slow
def test_inductor_looks_the_keys_up_itself():
    pytest.importorskip("torch")
    torch = import_module("torch")
    lookup = import_module("torch._inductor.lookup_table").LookupTableChoices
    inputs = import_module("torch._inductor.kernel_inputs").MMKernelInputs
    choices = import_module("torch._inductor.kernel.mm")
    table = json.loads(inductor.text(table_of(H100, [MM], 2)))

    class Node:
        def __init__(self, shape: tuple, strides: tuple) -> None:
            self.shape, self.strides = shape, strides

        def get_dtype(self) -> Any:
            return torch.bfloat16

        def get_device(self) -> Any:
            return torch.device("cuda", 0)

        def get_size(self) -> tuple:
            return self.shape

        get_stride = property(lambda self: lambda: self.strides)

    class Own(lookup):
        _get_device_key = staticmethod(lambda device: "NVIDIA H100 80GB HBM3")

        def _get_lookup_table(self) -> dict:
            return table

    sizevars = SimpleNamespace(optimization_hints=tuple)
    with import_module("torch._inductor.virtualized").V.set_graph_handler(SimpleNamespace(sizevars=sizevars)):
        nodes = [Node(one.shape, one.strides) for one in MM.inputs]
        templates = [choices.aten_mm.uid, choices.mm_template.uid]
        found = Own().lookup_template_configs(inputs(nodes), "mm", templates)
        assert inductor.call_of(inputs(nodes), "mm") == MM
    assert list(found) == templates
    assert found["triton::mm"][0]["num_warps"] == table[KEY][1]["num_warps"]

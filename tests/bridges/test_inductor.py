"""Inductor's lookup table and its choices: by its own code where PyTorch is installed."""

import json
import re
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import dse.inductor
from dse.bridges import inductor
from dse.bridges.calls import Call, Operand, table_of
from dse.explore.matrix.rank import first
from dse.hardware import gpus
from dse.models.matrix.problem import Product

H100 = gpus.load("h100-sxm")
MM = Call("mm", (Operand.of("bfloat16", (1000, 2000)), Operand.of("bfloat16", (2000, 512), "column")))
KEY = "((torch.bfloat16, [1000, 2000], [2000, 1]), (torch.bfloat16, [2000, 512], [1, 2000]))+mm"


def test_a_table_has_the_library_and_the_first_configurations(tmp_path):
    table = table_of(H100, [MM], 2)
    [[key, entries]] = json.loads(inductor.text(table)).items()
    assert key == KEY
    assert [entry["template_id"] for entry in entries] == ["aten::mm", "triton::mm", "triton::mm"]
    own = table.problems[0][0]
    assert entries[1]["BLOCK_M"] == own["BLOCK_SIZE_M"]
    assert all(entry["EVEN_K"] == (2000 % entry["BLOCK_K"] == 0) for entry in entries[1:])
    (tmp_path / "shapes.csv").write_text("M,N,K,b_layout\n1000,512,2000,column\n")
    actual = dse.inductor.table("h100-sxm", tmp_path / "shapes.csv", first=1, device="NVIDIA H100 80GB HBM3")
    assert list(actual) == [f"NVIDIA H100 80GB HBM3+{KEY}"]
    assert [entry["template_id"] for entry in actual.popitem()[1]] == ["triton::mm"]


@dataclass(eq=False)
class Choice:
    kwargs: dict

    @property
    def params(self) -> Any:
        return SimpleNamespace(to_kwargs=lambda: self.kwargs)


@pytest.mark.slow
def test_candidates_are_cut_and_ordered_and_the_library_stays():
    [rows] = first(H100, [Product(1000, 512, 2000)], 4800)
    fit = [row for row in rows if row["BLOCK_SIZE_K"] <= 64]  # in single precision, too
    kept = [dict(zip(inductor.OF_PARAMETERS, row.values(), strict=False)) for row in fit[:40:10]]
    library, tiles = Choice({}), [Choice(kwargs) for kwargs in reversed(kept)]
    actual = inductor.ranked(H100, [tiles[0], library, *tiles[1:]], MM, 2)
    assert actual[0] is library
    assert {item.kwargs["BLOCK_M"] for item in actual[1:]} <= {kwargs["BLOCK_M"] for kwargs in kept}
    assert len(actual) == 3
    single = Call("mm", (Operand.of("float32", (1000, 2000)), Operand.of("float32", (2000, 512))))
    rounded = [Choice(tile.kwargs | {"ALLOW_TF32": True}) for tile in tiles]
    assert len(inductor.ranked(H100, tiles, single, 2)) == len(inductor.ranked(H100, rounded, single, 2)) == 2
    unknown = Call("mm", (Operand.of("float64", (8, 8)), Operand.of("float64", (8, 8))))
    assert inductor.ranked(H100, tiles, unknown, 2) == tiles


FLEX = [
    SimpleNamespace(block_m=rows, block_n=columns, num_stages=stages, num_warps=warps)
    for rows, columns, stages, warps in ((128, 64, 3, 4), (128, 128, 3, 4), (128, 128, 2, 8), (64, 64, 3, 4))
]


def test_candidates_of_flex_attention_are_cut_and_the_smallest_tile_stays():
    # With heads of 256, queries and a buffer a stage of any larger tile are too large for shared memory.
    assert inductor.attending(H100, FLEX, 256, "bfloat16", 4) == [FLEX[3]]
    assert FLEX[0] in inductor.attending(H100, FLEX, 128, "bfloat16", 4)
    first, *smallest = inductor.attending(H100, FLEX, 64, "bfloat16", 1)
    assert smallest == [FLEX[3]] or (first == FLEX[3] and not smallest)
    assert inductor.attending(H100, FLEX, 64, "float64", 1) == FLEX


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # others'
def test_inductor_asks_for_configurations_of_flex_attention(faked_gpu):
    torch = pytest.importorskip("torch")
    with faked_gpu(), import_module("torch._inductor.config").patch(max_autotune=True):
        default = import_module("torch._inductor.choices").InductorChoices()
        stated = "seq_len" in signature(default.get_flex_attention_fwd_configs).parameters  # since 2.14
        sizes = (64, 4096, torch.bfloat16) if stated else (64, torch.bfloat16)
        every = default.get_flex_attention_fwd_configs(*sizes)
        kept = inductor.choices(H100, first=2).get_flex_attention_fwd_configs(*sizes)
    assert len(kept) < len(every)
    assert all(item in every for item in kept)


class Compiled:
    """What Inductor is to compile: a graph of one product, and its operands."""

    def __init__(self, handler: Any, call: Call, faked_gpu: Any) -> None:
        """Compile for a GPU that is not there, with the last choice in the place of the fastest."""
        torch = import_module("torch")
        config, V = import_module("torch._inductor.config"), import_module("torch._inductor.virtualized").V
        select = import_module("torch._inductor.select_algorithm").AlgorithmSelectorCache
        trace = import_module("torch.fx.experimental.proxy_tensor").make_fx
        compile_graph = import_module("torch._inductor.compile_fx").compile_fx_inner
        self.choices: list[Any] = []

        def choose(selector: Any, name: str, choices: list, *rest: Any, **others: Any) -> Any:
            self.choices = choices
            return choices[-1].output_node(), None

        with faked_gpu(), mock.patch.object(select, "__call__", choose), V.set_choices_handler(handler):
            inputs = [
                torch.empty_strided(item.shape, item.strides, dtype=getattr(torch, item.dtype), device="cuda")
                for item in call.inputs
            ]
            product = getattr(torch, call.op)
            graph = trace(lambda *operands: (product(*operands),), tracing_mode="real")(*inputs)
            with (
                config.patch(max_autotune=True, compile_threads=1, force_disable_caches=True),
                pytest.raises(Exception, match="libcuda"),  # code is written, but cannot be loaded
            ):
                compile_graph(graph, inputs)

    @property
    def templates(self) -> list[dict[str, str]]:
        """The arguments of Triton's templates among the choices."""
        actual = [dict(re.findall(r"(\w+)=([\w.']+)", choice.description)) for choice in self.choices]
        return [item for item in actual if "BLOCK_M" in item]


SUM = Call("addmm", (Operand("float16", (16, 2048), (0, 1)), Operand.of("float16", (16, 4096)),
                     Operand.of("float16", (4096, 2048), "column")))  # fmt: skip
BATCH = Call("bmm", (Operand.of("bfloat16", (96, 128, 64)), Operand.of("bfloat16", (96, 64, 128))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # others'
@pytest.mark.parametrize("call", [MM, SUM, BATCH], ids=["mm", "addmm", "bmm"])
def test_inductor_compiles_what_is_chosen(call, faked_gpu):
    pytest.importorskip("torch")
    handler = import_module("torch._inductor.choices").InductorChoices()
    before = Compiled(handler, call, faked_gpu)
    after = Compiled(inductor.choices(H100, first=2), call, faked_gpu)
    assert len(before.templates) > 10
    assert len(after.templates) == 2
    assert len(after.choices) - 2 == len(before.choices) - len(before.templates) > 0  # the library's
    assert all(template in before.templates for template in after.templates)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # others'
@pytest.mark.parametrize("call", [MM, SUM, BATCH], ids=["mm", "addmm", "bmm"])
def test_inductor_compiles_what_it_looks_up(call, faked_gpu):
    pytest.importorskip("torch")
    lookup = import_module("torch._inductor.lookup_table").LookupTableChoices
    table = table_of(H100, [call], 2)
    entries = {"lookup_table.table": json.loads(inductor.text(table))}
    with import_module("torch._inductor.config").patch(entries):
        actual = Compiled(lookup(), call, faked_gpu)
    assert len(actual.choices) > len(actual.templates) == 2
    for template, row in zip(actual.templates, table.problems[0], strict=True):
        own = [row[name] for name in table.parameters]
        assert [int(template[name]) for name in inductor.OF_PARAMETERS] == own
        assert template["EVEN_K"] == str(call.matrices[0].shape[-1] % row["BLOCK_SIZE_K"] == 0)

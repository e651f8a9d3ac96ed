"""PyTorch's Inductor: its lookup table, written without PyTorch, and its candidates, sorted by prediction.

A table's keys are those of `LookupTableChoices.make_lookup_key` of torch/_inductor/lookup_table/choices.py
(BSD-3-Clause): type, sizes and strides of each operand, scalars, operation. `choices` makes a handler for
`torch._inductor.config.inductor_choices_class` that compiles only the first few candidates of a product, and
of flex attention, ordered for TYPICAL as far as Inductor does not state the sizes. Candidates with operands
that no closed form covers are all kept. Tried with PyTorch 2.13 to 2.15.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from dse.bridges.calls import IN_BATCHES, WITH_SUM, Call, Operand
from dse.bridges.tables import BestConfigurations, Row
from dse.core.optional import import_tested
from dse.core.version import __version__
from dse.errors import DseError
from dse.explore.matrix.rank import attend, predict
from dse.hardware.gpus import GpuFile, load
from dse.models.matrix.attention import Attention
from dse.models.matrix.case import BETWEEN_EVENTS

TORCH = "torch>=2.13,<2.16"
FIRST = 3
OPS = ("mm", "int_mm", "addmm", "bmm", "baddbmm", "scaled_mm")
OF_PARAMETERS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages")
LIBRARY = {"int_mm": "_int_mm", "scaled_mm": "_scaled_mm"}  # where its name differs from the operation's
SCALARS = "alpha=1&beta=1"  # of a sum; a log does not state them
TYPICAL = Attention(batch=4, heads=16, queries=1024, keys=1024, head_dim=64)
ATTENDED = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def key(call: Call, device: str = "") -> str:
    """The key of a call in the table, for one device or, with an empty name, for all."""
    inputs = (
        f"(torch.{operand.dtype}, {list(operand.shape)}, {list(operand.strides)})" for operand in call.inputs
    )
    scalars = [SCALARS] if call.op in WITH_SUM else []
    return "+".join([*([device] if device else []), f"({', '.join(inputs)})", *scalars, call.op])


def entry(call: Call, row: Row) -> dict[str, Any]:
    """One configuration; with EVEN_K no tile extends beyond the depth."""
    names = dict(zip(OF_PARAMETERS, row.values(), strict=False))
    template = "triton::bmm" if call.op in IN_BATCHES else "triton::mm"
    even = call.matrices[0].shape[-1] % names["BLOCK_K"] == 0
    return {"template_id": template, **names, "EVEN_K": even}


def text(table: BestConfigurations) -> str:
    """The content of the file: for each call the library's kernel and these configurations.

    A call with one configuration has no library kernel, so that nothing is timed. A table for one device has
    its name in the keys. **Raises:** DseError for an operation that has no template.
    """
    entries: dict[str, list[dict[str, Any]]] = {}
    for call, rows in zip(table.subject, table.problems, strict=True):
        if call.op not in OPS:
            raise DseError(f"op: found {call.op!r} with format inductor, expected one of {', '.join(OPS)}")
        library = [{"template_id": f"aten::{LIBRARY.get(call.op, call.op)}"}] if len(rows) > 1 else []
        settings = [{name: row[name] for name in table.parameters} for row in rows]
        entries[key(call, table.device)] = [*library, *(entry(call, row) for row in settings)]
    return json.dumps(entries, indent=1) + "\n"


def choices(gpu: str | Path | GpuFile, first: int = FIRST) -> Any:
    """Make a choices handler that keeps the `first` configurations of a product, and the library's kernels.

    **Raises:** DseError if PyTorch is missing, or of a version that this was not tried with.
    """
    base = import_tested(TORCH, "torch._inductor.choices", "inductor").InductorChoices
    file = load(gpu)

    class Choices(base):
        """Inductor's choices, cut and ordered by `dse`."""

        def _finalize_template_configs(
            self, template_choices: Any, kernel_inputs: Any, templates: Any, op_name: str, *others: Any
        ) -> list[Any]:
            candidates = super()._finalize_template_configs(
                template_choices, kernel_inputs, templates, op_name, *others
            )
            return ranked(file, candidates, call_of(kernel_inputs, op_name), first)

        def get_flex_attention_fwd_configs(self, *sizes: Any, **named: Any) -> list[Any]:
            of_base = super().get_flex_attention_fwd_configs
            asked = signature(of_base).bind(*sizes, **named).arguments
            dtype, queries = str(asked["dtype"]).removeprefix("torch."), str(asked.get("seq_len", ""))
            length = int(queries) if queries.isdigit() else TYPICAL.queries  # stated since 2.14, if static
            return attending(file, of_base(*sizes, **named), asked["head_dim"], dtype, first, length)

        def uuid(self) -> str:
            """The key of these choices in Inductor's caches."""
            return f"dse {__version__} {file.name} {first}"

    return Choices()


def call_of(kernel_inputs: Any, op: str) -> Call:
    """Describe the call that Inductor compiles; dynamic sizes have the value that it optimises for."""
    kinds = [str(dtype).removeprefix("torch.") for dtype in kernel_inputs.dtypes()]
    shapes = zip(kinds, kernel_inputs.shapes_hinted(), kernel_inputs.strides_hinted(), strict=True)
    return Call(op, tuple(Operand(kind, tuple(shape), tuple(steps)) for kind, shape, steps in shapes))


def ranked(file: GpuFile, candidates: Sequence[Any], call: Call, first: int) -> list[Any]:
    """Return all candidates without a tile, then the `first` best with one."""
    tiled = [
        candidate for candidate in candidates if {*OF_PARAMETERS[:3]} <= candidate.params.to_kwargs().keys()
    ]
    if call.op not in OPS or not call.product or not tiled:
        return list(candidates)
    arguments = [candidate.params.to_kwargs() for candidate in tiled]
    table = np.array([configuration(row) for row in arguments])
    product = replace(call.product, constant=True)  # Inductor compiles sizes as constants
    if product.operands == "fp32" and arguments[0].get("ALLOW_TF32"):
        product = replace(product, operands="tf32")
    score = predict([file], [product], table, timing=BETWEEN_EVENTS)[0, 0]
    best = [tiled[index] for index in np.argsort(score, kind="stable")[:first] if np.isfinite(score[index])]
    return [candidate for candidate in candidates if candidate not in tiled] + (best or tiled)


def attending(
    file: GpuFile,
    candidates: Sequence[Any],
    head_dim: int,
    dtype: str,
    first: int,
    length: int = TYPICAL.queries,
) -> list[Any]:
    """Keep the `first` candidates of flex attention, best first, and the smallest tile.

    A mask with blocks smaller than a tile rules the tile out later: then the smallest remains.
    """
    if dtype not in ATTENDED or not candidates:
        return list(candidates)
    sizes: dict[str, Any] = {"queries": length, "keys": length, "head_dim": head_dim}
    attention = replace(TYPICAL, operands=ATTENDED[dtype], **sizes)
    table = np.array([[c.block_m, c.block_n, c.block_n, 1, c.num_warps, c.num_stages] for c in candidates])
    score = attend(file, attention, table)
    best = [candidates[index] for index in np.argsort(score, kind="stable") if np.isfinite(score[index])]
    smallest = min(best, key=lambda c: max(c.block_m, c.block_n), default=None)
    return best[:first] + [smallest] * (smallest not in best[:first]) if best else list(candidates)


def configuration(row: Row) -> tuple[int, ...]:
    """The six parameters of a template's arguments."""
    return tuple(int(row.get(name, 8 if name == "GROUP_M" else 0)) for name in OF_PARAMETERS)

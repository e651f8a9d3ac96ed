"""tokamax: tuned configurations of JAX's products by experts (ragged_dot) as Pallas runs them on Triton.

It is a file of tokamax's own cache, data/autotuning/DEVICE/pallas_triton_ragged_dot.json in the folder of the
package, with predicted instead of measured times. DEVICE is JAX's name of it in lower case.
Tried with tokamax 0.0.12, whose `AutotuningResult` does not apply to this operation.
"""

import json
from typing import Any

from dse.bridges.calls import EXPERTS, Call
from dse.bridges.tables import BestConfigurations, Row
from dse.errors import DseError

OP = "pallas_triton_ragged_dot"
TYPES = {"bfloat16": "bf16", "float16": "f16"}
DIMENSIONS = {
    "dot_dimension_numbers": [[[1], [1]], [[], []]],
    "lhs_ragged_dimensions": [0],
    "rhs_group_dimensions": [0],
}


def configuration(row: Row) -> dict[str, int]:
    """One configuration by tokamax's names."""
    blocks = {f"block_{axis.lower()}": row[f"BLOCK_SIZE_{axis}"] for axis in "MNK"}
    return {**blocks, "split_k": 1, "num_warps": row["num_warps"], "num_stages": row["num_stages"]}


def file_name(table: BestConfigurations) -> str:
    """The name under which tokamax looks the file up."""
    return f"{table.named_device.lower().replace(' ', '_')}/{OP}.json"


def text(table: BestConfigurations) -> str:
    """The content of the file. **Raises:** DseError for another operation or type."""
    problems = {}
    for call, rows in zip(table.subject, table.problems, strict=True):
        timed = {}
        for row in rows:
            times = {
                "compile_time_ms": 0.0,
                "lower_time_ms": 0.0,
                "evaluation_times_ms": [row["time_s"] * 1e3],
            }
            timed[_compact(configuration(row))] = times | {"metadata": {}, "peak_memory_mb": None}
        problems[_compact(_arguments(call))] = timed
    return json.dumps(problems, indent=1) + "\n"


def _compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _arguments(call: Call) -> dict[str, Any]:
    """The arguments by which tokamax looks a configuration up."""
    a, b = call.matrices
    if call.op != EXPERTS or a.dtype not in TYPES:
        stated = f"{call.op}, {a.dtype} with format tokamax"
        raise DseError(f"op, dtype: found {stated}, expected {EXPERTS}, bf16 or fp16")
    lhs, rhs = (f"{TYPES[operand.dtype]}[{','.join(map(str, operand.shape))}]" for operand in (a, b))
    return {
        "lhs": lhs,
        "rhs": rhs,
        "group_sizes": {"num_groups": b.shape[0], "total_size": a.shape[0]},
        "ragged_dot_dimension_numbers": DIMENSIONS,
        "precision": ["DEFAULT", "DEFAULT"],
        "preferred_element_type": None,
        "return_residuals": False,
        "activation": None,
    }

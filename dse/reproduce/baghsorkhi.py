"""Baghsorkhi et al., PPoPP 2010 (WFG): the only example with printed numbers."""

from typing import Any

import jax.numpy as jnp

from dse.models.wfg.graph import Compute, Memory
from dse.models.wfg.weights import Hardware, average_warp
from dse.reproduce.papers import Row, table

TITLE = "Baghsorkhi et al. 2010 (WFG)"


def figure_1() -> list[Row]:
    """Compute x = A[threadID] + y on 8 lanes of 24 cycles, 16 warps; ILP 1, which the caption lacks."""
    before, after, warp_bytes, warps = (jnp.asarray(x) for x in (2.0, 1.0, 32 * 4.0, 16.0))
    graph = (Compute(before), Memory(warp_bytes, name="A"), Compute(after, uses=("A",)))
    fields: dict[str, Any] = {"issue_cycles": 32 / 8, "pipeline_latency": 24.0}
    hardware = Hardware(bytes_per_cycle=jnp.asarray(4.0), mem_latency=jnp.asarray(250.0), **fields)
    average = average_warp(graph, hardware, warps)
    # Eq. 3 counts in issue times of an instruction
    alone = average_warp((Compute(after),), hardware, warps).comp_cycles / hardware.issue_cycles
    ours = {"latency_comp": alone} | vars(average)
    return [
        Row("Fig. 1", row["quantity"], row["paper"], float(ours[row["quantity"]]), "model")
        for row in table("baghsorkhi_figure_1")
    ]


TABLES = (figure_1,)

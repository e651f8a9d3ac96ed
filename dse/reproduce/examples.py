"""GPUs, kernels and launches of the papers' examples, with neutral values elsewhere."""

from typing import Any

import jax.numpy as jnp

from dse.types import CLASSES, Gpu, Kernel, Launch, Limits, PerClass


def per_class(**values: Any) -> PerClass:
    """Make one number for each pipe: `values`, and 0 elsewhere."""
    return PerClass(**(dict[str, Any](dict.fromkeys(CLASSES, 0.0)) | values))


def gpu(**values: Any) -> Gpu:
    """Make a GPU with these values, on which everything else is free and unlimited."""
    fields: dict[str, Any] = dict.fromkeys(("sm_count", "clock", "issue_cycles"), 1.0)
    fields |= dict.fromkeys(("dram_bandwidth", "issue_limit"), jnp.inf)
    fields |= dict.fromkeys(("l1_bytes", "l2_bytes", "lsu_cycles", "l1_with_shared"), 0.0)
    fields |= dict.fromkeys(("departure_delay_coal_cycles", "departure_delay_uncoal_cycles"), 1.0)
    fields |= {"cpi": per_class(), "latency": per_class()}
    fields["limits"] = Limits(**dict[str, Any](dict.fromkeys(Limits.__dataclass_fields__, 1)))
    return Gpu(**(fields | values))


def kernel(loads: Any, comp: Any, **values: Any) -> Kernel:
    """Make a kernel whose warp has `comp` computations, and loads of a sector each that come from DRAM."""
    zeros = ("shared_insts", "store_insts", "uncoal_insts")
    fields: dict[str, Any] = dict.fromkeys(zeros, 0.0)
    fields |= dict.fromkeys(("transactions_per_uncoal", "ilp", "mlp"), 1.0)
    fields |= {"load_insts": loads, "sectors": loads, "bytes_per_access": 128.0}
    fields["work"] = per_class(fp32=comp, l2=loads, dram=loads)
    return Kernel(**(fields | values))


def launch(warps: Any, **values: Any) -> Launch:
    """Make a launch of one block of `warps` warps on one SM."""
    fields: dict[str, Any] = dict.fromkeys(("blocks", "resident_blocks", "active_sms", "waves"), 1.0)
    return Launch(**(fields | {"threads_per_block": 32.0 * warps, "warps_per_block": warps} | values))

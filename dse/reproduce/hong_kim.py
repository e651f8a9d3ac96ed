"""Hong & Kim, ISCA 2009 (MWP-CWP)."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from dse.hardware import gpus, occupancy
from dse.models import mwp_cwp, mwp_cwp_pipeline
from dse.models.notation import TwoPipes
from dse.reproduce import examples
from dse.reproduce.papers import Kind, Row, table, text
from dse.types import Resources

TITLE = "Hong & Kim 2009 (MWP-CWP)"
FILES = {
    "8800GTX": "geforce-8800-gtx",
    "Quadro_FX5600": "quadro-fx5600",
    "8800GT": "geforce-8800-gt",
    "GTX280": "gtx-280",
}


def table_1() -> list[Row]:
    """Look up the constants among the parameters, and compute #Rep of the text's example."""
    gpu, printed = gpus.load("quadro-fx5600", np.float64).gpu, text("hong_kim")
    rep = printed["rep"]
    small = eqx.tree_at(
        lambda x: (x.sm_count, x.limits.blocks_per_sm),
        gpu,
        (jnp.asarray(float(rep["sms"])), jnp.asarray(rep["blocks_per_sm"], jnp.int32)),
    )
    resources: dict[str, Any] = {"threads": 64, "blocks": rep["blocks"], "registers": 8, "shared_bytes": 0}
    waves = float(occupancy.launch(small, Resources(**resources))[0].waves)
    return [
        Row(
            "Table 1",
            "#Threads_per_warp",
            printed["threads_per_warp"],
            float(gpu.limits.warp_size),
            "look-up",
        ),
        Row("Table 1", "Issue_cycles", printed["issue_cycles"], float(gpu.issue_cycles), "look-up"),
        Row("Sec. 3.4", "#Rep of 40 blocks, 2 on each of 4 SMs", rep["rep"], waves, "model"),
    ]


def table_2() -> list[Row]:
    """Compute the example: a tiled matrix multiplication."""
    printed = {row["quantity"]: row["paper"] for row in table("hong_kim_table_2")}
    inputs = {name: float(value) for name, value in printed.items()}
    mem_insts = inputs["uncoal_mem_insts"]
    gpu = examples.gpu(
        clock=1e9,
        dram_bandwidth=80e9,
        sm_count=inputs["active_sms"],
        latency=examples.per_class(dram=inputs["mem_ld"]),
        issue_cycles=4.0,
        departure_delay_uncoal_cycles=inputs["departure_del_uncoal"],
    )
    kernel = examples.kernel(
        mem_insts,
        inputs["comp_insts"],
        uncoal_insts=mem_insts,
        transactions_per_uncoal=inputs["uncoal_per_mw"],
        work=examples.per_class(
            fp32=inputs["comp_insts"], barrier=inputs["synch_insts"], l2=mem_insts, dram=mem_insts
        ),
    )
    where = {"active_sms": inputs["active_sms"], "blocks": inputs["blocks"]}
    launch = examples.launch(4.0, resident_blocks=inputs["active_blocks_per_sm"], **where)
    many = examples.launch(1e6, **where)  # so many that warps limit neither MWP nor CWP

    predicted = mwp_cwp.predict(gpu, kernel, launch)
    mem_l, delay = mwp_cwp.memory_period(gpu, kernel)
    no_limit = eqx.tree_at(lambda x: x.dram_bandwidth, gpu, jnp.asarray(jnp.inf))
    no_delay = eqx.tree_at(
        lambda x: (x.latency.dram, x.departure_delay_uncoal_cycles), gpu, (mem_l, jnp.asarray(0.0))
    )
    by_latency, by_bandwidth = (mwp_cwp.predict(x, kernel, many).details for x in (no_limit, no_delay))
    sync = float(predicted.terms["sync"])
    app = float(predicted.cycles) - sync
    issued = gpu.issue_cycles * (kernel.insts - kernel.work.barrier)
    ours: dict[str, tuple[Any, Kind]] = {
        "active_warps_per_sm": (launch.warps_per_sm, "arithmetic"),
        "departure_delay": (delay, "model"),
        "mem_l": (mem_l, "model"),
        "mwp_without_bw_full": (by_latency["mwp"], "model"),
        "bw_per_warp_gbs": (gpu.clock * 128 / mem_l / 1e9, "model"),
        "mwp_peak_bw": (by_bandwidth["mwp"], "model"),
        "mwp": (predicted.details["mwp"], "model"),
        "comp_cycles": (issued, "arithmetic"),
        "mem_cycles": (mem_l * kernel.mem_insts, "model"),
        "cwp_full": (by_latency["cwp"], "model"),
        "cwp": (predicted.details["cwp"], "model"),
        "exec_cycles_app": (app, "model"),
        "synch_cost": (sync, "model"),
        "exec_cycles_with_synch": (app + sync, "model"),
    }
    return [Row("Table 2", name, printed[name], float(value), kind) for name, (value, kind) in ours.items()]


def table_3() -> list[Row]:
    """Look up the GPUs in their files."""
    rows = []
    for row in table("hong_kim_table_3"):
        for column, name in FILES.items():
            gpu = gpus.load(name, np.float64).gpu
            cores = float(gpu.sm_count) * float(gpu.limits.warp_size) / float(gpu.cpi.fp32)
            flops = 3 if column == "GTX280" else 2  # a multiplication besides the multiply-add
            ours = {
                "SMs": float(gpu.sm_count),
                "processor_cores": cores,
                "processor_clock": float(gpu.clock) / 1e9,
                "memory_bandwidth": float(gpu.dram_bandwidth) / 1e9,
                "peak_gflops": cores * flops * float(gpu.clock) / 1e9,
            }[row["quantity"]]
            rows.append(Row("Table 3", f"{row['quantity']} of {column}", row[column], ours, "look-up"))
    return rows


def section_3_2() -> list[Row]:
    """Compute the drawn cases: the periods of computation and of memory in a run."""
    rows, latency = [], 840.0  # any
    for name in ("case_1", "case_3"):
        case = text("hong_kim")[name]
        pipes: dict[str, Any] = {"comp_insts": 1.0, "mem_insts": 1.0, "mem_latency": latency}
        pipes |= {"comp_cpi": latency / (case["cwp"] - 1), "mem_cpi": latency / case["mwp"]}
        terms = mwp_cwp_pipeline.terms(jnp.asarray(float(case["warps"])), TwoPipes(**pipes))
        periods = {"memory": latency, "computation": latency / (case["cwp"] - 1)}
        for what, term in (("computation", "compute"), ("memory", "memory")):
            label = f"{name.replace('_', ' ')}: periods of {what} (mwp-cwp-pipeline)"
            rows.append(Row("Sec. 3.2", label, case[what], float(terms[term]) / periods[what], "model"))
    case = text("hong_kim")["case_1"]
    gpu = examples.gpu(
        latency=examples.per_class(dram=latency), departure_delay_coal_cycles=latency / case["mwp"]
    )
    period = latency / (case["cwp"] - 1)  # of computation, including the load's issue
    predicted = mwp_cwp.predict(
        gpu, examples.kernel(1.0, period - 1.0), examples.launch(float(case["warps"]))
    )
    ours = float(predicted.terms["compute"]) / period
    label = "case 1: periods of computation (mwp-cwp)"
    return [*rows, Row("Sec. 3.2", label, case["computation"], ours, "model")]


def table_5() -> list[Row]:
    """Compute the arithmetic intensity of the Merge benchmarks; of a range, its first end."""
    return [
        Row(
            "Table 5",
            f"arithmetic intensity of {row['benchmark']}",
            row["arithmetic_intensity"],
            int(row["comp_insts"]) / int(row["mem_insts"]),
            "arithmetic",
        )
        for row in table("hong_kim_table_5")
    ]


def table_6() -> list[Row]:
    """Look up the fitted parameters in the GPU files."""
    ours = {
        "mem_ld": lambda gpu: gpu.latency.dram,
        "departure_del_uncoal": lambda gpu: gpu.departure_delay_uncoal_cycles,
        "departure_del_coal": lambda gpu: gpu.departure_delay_coal_cycles,
    }
    rows = []
    for column, name in (("FX5600", "quadro-fx5600"), ("GTX280", "gtx-280")):
        gpu = gpus.load(name, np.float64).gpu
        for row in table("hong_kim_table_6"):
            parameter = row["parameter"]
            value = float(ours[parameter](gpu))
            rows.append(Row("Table 6", f"{parameter} of {column}", row[column], value, "look-up"))
    return rows


TABLES = (table_1, table_2, section_3_2, table_3, table_5, table_6)

"""Lemeire, Cornelis & Konstantinidis (Pipeline model), with its account of GPUMech.

Its measurements need its GPUs: of Tables 8 and 10 to 12 only averages are computed. Figures 12, 13 and 16 are
simulated by scripts/studies/pipeline_experiments.py.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from dse.hardware import gpus
from dse.models import (
    MODELS,
    gpumech,
    gpumech_rr,
    gpumech_rr_corrected,
    module,
    mwp_cwp_pipeline,
    roofline,
    volkov,
)
from dse.models.about import ASPECTS
from dse.models.notation import two_pipes
from dse.models.wfg import pipeline as wfg_pipeline
from dse.reproduce import examples
from dse.reproduce.papers import Reason, Row, table, text

TITLE = "Lemeire et al. (Pipeline model)"
FILES = {
    "fermi": "tesla-c2050",
    "kepler": "gtx-650-ti",
    "maxwell": "quadro-k620",
    "pascal": "gtx-1060-6gb",
    "turing": "rtx-2070",
    "tonga": "radeon-r9-380",
}
INSTRUCTIONS = {  # pipes of Table 5; the others are sequences of several instructions
    "cos.approx.f32": "sfu",
    "mul.f32": "fp32",
    "mul.f64": "fp64",
    "mul.s32": "imul32",
    "bar.sync": "barrier",
    "ld.global.s32": "dram",
    "ld.local.s32": "shared",
}


def table_2() -> list[Row]:
    """Compute the example kernel by the models of Sec. 2."""
    printed = text("lemeire")
    gpu = examples.gpu(
        cpi=examples.per_class(fp32=1.0, dram=2.0), latency=examples.per_class(fp32=4.0, dram=6.0)
    )
    kernel = examples.kernel(2.0, 4.0, ilp=4 / 3)
    single, full = examples.launch(1.0), examples.launch(8.0)
    alone = volkov.predict(gpu, kernel, single).details
    throughput = 1.0 / float(roofline.predict(gpu, kernel, single).cycles)
    bound = mwp_cwp_pipeline.predict(gpu, kernel, full).details
    return [
        Row("Sec. 2.1", "roofline, IPC of computation", printed["roofline_ipc"], 4 * throughput, "model"),
        Row("Sec. 2.1", "roofline, warps a cycle", printed["roofline_wpc"], throughput, "model"),
        Row(
            "Sec. 2.2", "Λ_app", printed["latency_of_one_warp"], float(alone["latency_of_one_warp"]), "model"
        ),
        Row("Sec. 2.2", "ridge, warps", printed["ridge_warps"], float(jnp.ceil(alone["ridge"])), "model"),
        Row("Sec. 2.3", "MWP", printed["mwp"], float(bound["mwp"]), "model"),
        Row("Sec. 2.3", "CWP", printed["cwp"], float(bound["cwp"]), "model"),
        Row("Sec. 2.3", "regime", printed["regime"], mwp_cwp_pipeline.CASES[int(bound["case"])], "model"),
    ]


def figure_5() -> list[Row]:
    """Find where WFG as published beats Volkov's bound, in the example C2 (ILP 2), M, C2 (ILP 1), M."""
    gpu = examples.gpu(
        cpi=examples.per_class(fp32=1.0, dram=2.0), latency=examples.per_class(fp32=4.0, dram=6.0)
    )
    kernel = examples.kernel(2.0, 4.0, ilp=4 / 3)
    warps = jnp.arange(1.0, 9.0)
    block: dict[str, Any] = {"comp_insts": 2.0, "mem_insts": 1.0, "waits": 1.0, "repeats": 1.0}
    blocks = [wfg_pipeline.ComputeBlock(**block, ilp=jnp.asarray(ilp)) for ilp in (2.0, 1.0)]
    ones = jnp.ones_like(warps)
    terms, _ = wfg_pipeline.terms(warps, two_pipes(gpu, kernel), 4.0 * ones, ones, 0.0 * ones, blocks)
    faster = sum(terms.values()) < volkov.predict(gpu, kernel, examples.launch(warps)).cycles
    printed = " ".join(map(str, text("lemeire")["wfg_above_volkov"]))
    ours = " ".join(str(n) for n in range(2, 9) if bool(faster[n - 1]))  # one warp: 24 cycles and 25
    return [Row("Sec. 2.4.4", "warps at which WFG is above Volkov", printed, ours, "model")]


def figure_6() -> list[Row]:
    """Compute one load behind computation, by Volkov and by WFG as published, which falls or soars.

    The paper prints Volkov's cycles, and for WFG only Eq. L40, which is evaluated here.
    """
    rows = []
    for latency, mem_latency in text("lemeire")["figure_6"]:
        gpu = examples.gpu(latency=examples.per_class(fp32=latency / 4, dram=float(mem_latency)))
        kernel = examples.kernel(1.0, 4.0)
        for warps in (1.0, 1.5):  # too few to hide it
            launch = examples.launch(warps)
            what = f"{latency} and {mem_latency} cycles, {warps:g} warps"
            eq_40 = latency + mem_latency * warps - (warps - 1) * latency / 2
            by_volkov = float(volkov.predict(gpu, kernel, launch).cycles)
            by_wfg = float(wfg_pipeline.predict(gpu, kernel, launch).cycles)
            rows += [
                Row("Fig. 6", f"Volkov, {what}", text("lemeire")["figure_6_volkov"], by_volkov, "model"),
                Row("Fig. 6", f"WFG, {what} (Eq. L40)", f"{eq_40:.2f}", by_wfg, "equation"),
            ]
    return rows


def figure_8() -> list[Row]:
    """Compute GPUMech's example: 3 instructions, 6 stall cycles, 4 warps."""
    case = text("lemeire")["figure_8"]
    of_warp = gpumech.Intervals.once(jnp.array([case["insts"]]), jnp.array([case["stalls"]]))
    rows = []
    for model, name, where in (
        (gpumech_rr, "equation", "Eq. G11"),
        (gpumech_rr_corrected, "figure", "drawn"),
    ):
        run = gpumech.run(of_warp, jnp.asarray(float(case["warps"])), jnp.asarray(1.0), model.nonoverlapped)
        insts = float(run[1]["nonoverlapped_insts"])
        label = f"non-overlapped instructions, {where}"
        rows.append(Row("GPUMech Fig. 8", label, case[name], insts, "model"))
    probability = float(gpumech.issue_probability(of_warp, jnp.asarray(1.0)))
    return [Row("GPUMech Fig. 8", "issue probability", case["probability"], probability, "model"), *rows]


def equations_43_to_45() -> list[Row]:
    """Compute the instruction mix of Fig. 12 by `volkov` at full occupancy: first operations a cycle.

    The paper prints only the equations, which are evaluated here.

    **Known error:** Eqs. L44 and L45 are printed with 1 / λ2 for β / λ2.
    """
    case = text("lemeire")["figure_12"]
    fast, slow, limit = (float(case[name]) for name in ("fast", "slow", "issue_limit"))
    rows = []
    for beta in (1.0, 2.0, 4.0, 8.0, 16.0):
        kernel = examples.kernel(0.0, beta, work=examples.per_class(fp32=beta, sfu=1.0))
        one_pipe = examples.kernel(0.0, beta, work=examples.per_class(fp32=beta * fast + slow))
        cpi = examples.per_class(fp32=fast, sfu=slow)
        for name, printed, work, il in (
            ("L43", beta / (beta * fast + slow), one_pipe, jnp.inf),
            ("L44", min(1 / fast, 1 / slow), kernel, jnp.inf),
            ("L45", min(1 / fast, 1 / slow, limit * beta / (beta + 1)), kernel, limit),
        ):
            gpu = examples.gpu(cpi=examples.per_class(fp32=1.0) if work is one_pipe else cpi, issue_limit=il)
            ours = beta / float(volkov.predict(gpu, work, examples.launch(1e6)).cycles) * 1e6
            rows.append(Row("Eqs. L43-L45", f"{name}, β = {beta:g}", f"{printed:.4f}", ours, "equation"))
    return rows


def table_4() -> list[Row]:
    """Look up instruction parameters in the GPU files."""
    rows = []
    for row, name in zip(table("lemeire_table_4"), FILES.values(), strict=True):
        gpu = gpus.load(name, np.float64).gpu
        ours = {"lambda_alu": gpu.cpi.fp32, "lambda_sfu": gpu.cpi.sfu, "issue_limit": gpu.issue_limit}
        rows += [
            Row("Table 4", f"{key} of {row['gpu']}", row[key], float(value), "look-up")
            for key, value in ours.items()
        ]
    return rows


def table_5() -> list[Row]:
    """Look up λ and Λ of single-pipe instructions in the GPU files."""
    rows = []
    for row in table("lemeire_table_5"):
        pipe = INSTRUCTIONS.get(row["instruction"])
        for device, name in FILES.items() if pipe else ():
            gpu = gpus.load(name, np.float64).gpu
            sectors = float(gpu.limits.warp_size) * 4 / 32 if pipe == "dram" else 1.0
            ours = {
                "λ": ("lambda", float(getattr(gpu.cpi, str(pipe))) * sectors),
                "Λ": ("Lambda", float(getattr(gpu.latency, str(pipe)))),
            }
            for symbol, (key, value) in ours.items():
                what = f"{symbol} of {row['instruction']}, {device.capitalize()}"
                rows.append(Row("Table 5", what, row[f"{device}_{key}"], value, "look-up"))
    return rows


def table_6() -> list[Row]:
    """Compute the achieved throughput from Table 5's λ of a load, at the clocks of the GPU files."""
    rows = []
    for row, name in zip(table("lemeire_table_6"), FILES.values(), strict=True):
        gpu = gpus.load(name, np.float64).gpu
        throughput = float(gpu.sm_count * 32.0 * gpu.clock / gpu.cpi.dram) / 1e9
        bandwidth = float(gpu.dram_bandwidth) / 1e9
        efficiency = 100 * float(row["throughput_gbs"]) / float(row["bandwidth_gbs"])
        device = row["device"]
        rows += [
            Row("Table 6", f"throughput of {device}, GB/s", row["throughput_gbs"], throughput, "look-up"),
            Row("Table 6", f"bandwidth of {device}, GB/s", row["bandwidth_gbs"], bandwidth, "look-up"),
            Row("Table 6", f"efficiency of {device}, %", row["efficiency_percent"], efficiency, "arithmetic"),
        ]
    return rows


def table_7() -> list[Row]:
    """Compare the aspects in the table with those that our models declare."""
    rows = []
    for name in MODELS:
        about = module(name).ABOUT
        for aspect, row in zip(ASPECTS, table("lemeire_table_7"), strict=True) if about.column else ():
            ours = "Y" if aspect in about.aspects else "N"
            why = about.differs.get(aspect)
            reason = Reason("N" if row[about.column] == "Y" else "Y", why) if why else None
            rows.append(Row("Table 7", f"{name}: {aspect}", row[about.column], ours, "declared", reason))
    return rows


def tables_10_to_12() -> list[Row]:
    """Average the 14 kernels from the printed cells, and compute the text's numbers from these."""
    rows, averages = [], {}
    for number in (10, 11, 12):
        *kernels, printed = table(f"lemeire_table_{number}")
        for column in [name for name in printed if name != "kernel"]:
            mean = sum(float(row[column]) for row in kernels) / len(kernels)
            averages.setdefault(column, []).append(float(printed[column]))
            rows.append(Row(f"Table {number}", f"average of {column}", printed[column], mean, "arithmetic"))
    for column, key in (("pipeline_mape", "mape_pipeline"), ("volkov_mape", "mape_volkov")):
        mean = sum(averages[column]) / 3
        rows.append(
            Row(
                "Tables 10-12",
                f"average of the averages of {column}",
                text("lemeire")[key],
                mean,
                "arithmetic",
            )
        )
    return rows


TABLES = (
    table_2,
    figure_5,
    figure_6,
    figure_8,
    equations_43_to_45,
    table_4,
    table_5,
    table_6,
    table_7,
    tables_10_to_12,
)

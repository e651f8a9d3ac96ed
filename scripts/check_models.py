"""Compare every closed form with a file of vectors: `check_models.py model_vectors.json [--json]`.

The file holds, for each model, inputs and the results of an independent implementation in plain Python
(`{"format": "model-vectors 1", "models": {name: [{"in": {...}, "out": {...}}]}}`). One line a model: the
worst relative error in float64, which may be at most 1e-9. Exit code 1 where one is worse, 2 where the file
cannot be read. Models that `dse` does not have yet are reported as absent.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dse.models import (
    gpumech,
    gpumech_gto,
    gpumech_rr,
    gpumech_rr_corrected,
    kothapalli,
    kothapalli_max,
    kothapalli_sum,
    mwp_cwp,
    mwp_cwp_corrected,
    mwp_cwp_pipeline,
    mwp_cwp_printed,
    roofline,
    transit,
    volkov,
)
from dse.models.notation import TwoPipes
from dse.models.wfg import corrected as wfg_corrected
from dse.models.wfg import pipeline as wfg_pipeline
from dse.models.wfg import weights as wfg_graph
from dse.models.wfg.graph import Barrier, Compute, Memory, Node, Scratchpad, WfgBranch, WfgLoop, WorkFlow
from dse.reproduce.examples import gpu, kernel, launch, per_class
from dse.types import Gpu, Kernel, Launch

ALLOWED = 1e-9
jax.config.update("jax_enable_x64", True)
Case = Mapping[str, Any]


def two_subsystems(case: Case) -> tuple[Gpu, Kernel, Launch]:
    """The Pipeline paper's notation as a GPU with one arithmetic pipe and DRAM."""
    independent = case.get("independent_comp", 0)
    dependent = case["a_comp"] - independent
    machine = gpu(
        cpi=per_class(fp32=case["l_comp"], l2=case["l_mem"], dram=case["l_mem"]),
        latency=per_class(fp32=case.get("L_comp", 0.0), dram=case.get("L_mem", 0.0)),
        issue_limit=case.get("issue_limit") or jnp.inf,
    )
    ilp = case["a_comp"] / dependent if dependent else jnp.inf
    program = kernel(case["a_mem"], case["a_comp"], ilp=ilp)
    return machine, program, launch(case.get("omega", 1))


def check_roofline(case: Case) -> Case:
    return {"wpc": case.get("omega", 1) / roofline.predict(*two_subsystems(case)).cycles}


def check_volkov(case: Case) -> Case:
    prediction = volkov.predict(*two_subsystems(case))
    return {
        "lambda_app": prediction.details["latency_of_one_warp"],
        "wpc": case["omega"] / prediction.cycles,
    }


def check_transit(case: Case) -> Case:
    return {"wpc": case["omega"] / transit.predict(*two_subsystems(case)).cycles}


def check_hong_kim(model: Any) -> Callable[[Case], Case]:
    def check(case: Case) -> Case:
        warps = -(-case["threads_per_block"] // case["threads_per_warp"])
        blocks, resident, sms = case["blocks"], case["active_blocks_per_sm"], case["active_sms"]
        waves = blocks / (resident * sms)
        machine = gpu(
            clock=case["freq_ghz"] * 1e9,
            dram_bandwidth=case["mem_bandwidth_gbs"] * 1e9,
            latency=per_class(dram=case["mem_ld"]),
            issue_cycles=case["issue_cycles"],
            departure_delay_coal_cycles=case["departure_del_coal"],
            departure_delay_uncoal_cycles=case["departure_del_uncoal"],
        )
        mem_insts = case["uncoal_mem_insts"] + case["coal_mem_insts"]
        program = kernel(
            mem_insts,
            case["comp_insts"],
            work=per_class(
                fp32=case["comp_insts"], barrier=case["synch_insts"], l2=mem_insts, dram=mem_insts
            ),
            uncoal_insts=case["uncoal_mem_insts"],
            transactions_per_uncoal=case["uncoal_per_mw"],
            bytes_per_access=case["load_bytes_per_warp"],
        )
        where = launch(warps, blocks=blocks, resident_blocks=resident, active_sms=sms, waves=waves)
        p = model.predict(machine, program, where)
        app = p.terms["memory"] + p.terms["compute"]
        return {
            "N": where.warps_per_sm,
            "mwp": p.details["mwp"],
            "cwp": p.details["cwp"],
            "case": mwp_cwp.CASES[int(p.details["case"])],
            "exec_cycles_app": app,
            "synch_cost": p.terms["sync"],
            "exec_cycles": p.cycles,
            "cpi": p.details["cpi"],
        }

    return check


def check_mwp_cwp_pipeline(case: Case) -> Case:
    p = mwp_cwp_pipeline.predict(*two_subsystems(case))
    return {
        "mwp": p.details["mwp"],
        "cwp": p.details["cwp"],
        "case": mwp_cwp_pipeline.CASES[int(p.details["case"])],
        "cpr": p.cycles,
        "wpc": case["omega"] / p.cycles,
    }


def pipes(case: Case) -> TwoPipes:
    return TwoPipes(
        comp_insts=case["a_comp"],
        comp_cpi=case["l_comp"],
        mem_insts=case["a_mem"],
        mem_cpi=case["l_mem"],
        mem_latency=case["L_mem"],
    )


def check_mwp_cwp_corrected(case: Case) -> Case:
    bounds = mwp_cwp_corrected.bounds(
        jnp.float64(case["omega"]), pipes(case), jnp.float64(case["lambda_app"])
    )
    cycles = max(float(value) for value in bounds.values())
    names = {"memory": "memory", "compute": "compute", "latency": "few-warps"}
    reached = {names[name] for name, value in bounds.items() if value >= cycles * (1 - 1e-12)}
    return {"cpr": cycles, "wpc": case["omega"] / cycles, "case": reached}


def blocks_of(nodes: list[list[Any]]) -> tuple[list[wfg_pipeline.ComputeBlock], float]:
    """Blocks and number of barriers of nodes ["C", insts, ilp], ["M"] and ["B"].

    A block ends with its load, or where the next computation begins; a barrier does not end it.
    """
    blocks, barriers = [], 0.0
    insts, ilp = 0.0, 1.0

    def close(loads: float) -> None:
        nonlocal insts, ilp
        fields: dict[str, Any] = {"comp_insts": insts, "ilp": ilp, "mem_insts": loads, "waits": loads}
        blocks.append(wfg_pipeline.ComputeBlock(**fields, repeats=jnp.float64(1)))
        insts, ilp = 0.0, 1.0

    for kind, *rest in nodes:
        if kind == "M":
            close(1.0)
        elif kind == "B":
            barriers += 1.0
        else:
            if insts:
                close(0.0)
            insts, ilp = map(float, rest)
    if insts:
        close(0.0)
    return blocks, barriers


def check_wfg(model: Any, issue: Callable[[Case], float]) -> Callable[[Case], Case]:
    def check(case: Case) -> Case:
        blocks, barriers = blocks_of(case["nodes"])
        counts = {
            "a_comp": sum(float(block.comp_insts) for block in blocks),
            "a_mem": sum(float(block.mem_insts) for block in blocks),
        }
        parts, details = wfg_pipeline.terms(
            jnp.float64(case["omega"]),
            pipes({**case, **counts}),
            jnp.float64(case["L_comp"]),
            jnp.float64(issue(case)),
            jnp.float64(barriers),
            blocks,
            model.exposed,
        )
        cycles = sum(parts.values())
        return {
            "cyc_comp": details["comp_cycles"],
            "nbc": details["between_waits"],
            "cpr": cycles,
            "cpw": cycles / case["omega"],
        }

    return check


def node(found: Case) -> Node:
    """A node of a work flow graph from its JSON form."""
    fields: dict[str, Any] = {"uses": tuple(found.get("uses", ()))}
    match found["op"]:
        case "C":
            return Compute(insts=found["n"], ilp=found["ilp"], **fields)
        case "M":
            return Memory(bytes=found["bytes"], name=found["name"], **fields)
        case "S":
            return Scratchpad(cycles=found["cycles"], **fields)
        case "B":
            return Barrier(**fields)
        case "LOOP":
            return WfgLoop(trips=found["trip"], body=nodes(found["body"]))
        case "BRANCH":
            then, otherwise = nodes(found["then"]), nodes(found["else"])
            return WfgBranch(taken=found["rho_t"], passed=found["rho_f"], then=then, otherwise=otherwise)
    raise ValueError(f"op: found {found['op']!r}")


def nodes(found: list[Case]) -> WorkFlow:
    return tuple(map(node, found))


def check_wfg_graph(case: Case) -> Case:
    hardware = case["hardware"]
    fields: dict[str, Any] = {
        "issue_cycles": hardware["simd_work"] / hardware["simd_engine"],
        "pipeline_latency": hardware["pipeline_latency"],
        "bytes_per_cycle": hardware["bytes_per_cycle"],
        "mem_latency": hardware["latency_mem"],
    }
    warps = jnp.float64(hardware["wlp"])
    found = wfg_graph.average_warp(nodes(case["graph"]), wfg_graph.Hardware(**fields), warps)
    return {
        "cyc_compute": found.comp_cycles,
        "num_mem": found.mem_insts,
        "num_bytes": found.bytes,
        "num_sync": found.barriers,
        "cyc_mem": found.mem_cycles,
        "latency_bw": found.bandwidth_latency,
        "nbc": found.between_waits,
        "latency_exposed": found.exposed_latency,
        "warp_latency": found.warp_latency,
    }


def check_gpumech(model: Any) -> Callable[[Case], Case]:
    def check(case: Case) -> Case:
        insts, stalls = (jnp.array([float(row[k]) for row in case["intervals"]]) for k in (0, 1))
        intervals = gpumech.Intervals(insts=insts, stalls=stalls, repeats=jnp.ones_like(insts))
        warps, rate = jnp.float64(case["warps"]), jnp.float64(case.get("issue_rate", 1.0))
        parts, details = gpumech.run(intervals, warps, rate, model.nonoverlapped)
        cycles = sum(parts.values())
        return {
            "nonoverlapped": details["nonoverlapped_insts"],
            "cpr": cycles,
            "ipc": details["ipc"],
            "wpc": warps / cycles,
        }

    return check


def check_kothapalli(model: Any) -> Callable[[Case], Case]:
    def check(case: Case) -> Case:
        """A thread of N_comp computations and N_mem accesses of a cycle each, then all threads of an SM."""
        machine = gpu(clock=case["clock_hz"], cpi=per_class(fp32=1.0), latency=per_class(dram=1.0))
        program = kernel(case["n_mem"], case["n_comp"], uncoal_insts=case["n_mem"])
        of_thread = model.predict(machine, program, launch(1)).cycles
        cycles = kothapalli.kernel_cycles(
            of_thread,
            case["blocks_per_sm"],
            case["warps_per_block"],
            case["threads_per_warp"],
            case["cores_per_sm"],
            case["pipeline_depth"],
        )
        return {"cycles": cycles, "seconds": cycles / case["clock_hz"]}

    return check


CHECKS: dict[str, Callable[[Case], Case]] = {
    "roofline": check_roofline,
    "volkov": check_volkov,
    "transit": check_transit,
    "mwp_cwp_hong_kim_as_printed": check_hong_kim(mwp_cwp_printed),
    "mwp_cwp_hong_kim_as_narrated": check_hong_kim(mwp_cwp),
    "mwp_cwp_pipeline": check_mwp_cwp_pipeline,
    "mwp_cwp_corrected": check_mwp_cwp_corrected,
    "wfg_pipeline": check_wfg(wfg_pipeline, lambda case: case["l_instr"]),
    "wfg_corrected": check_wfg(wfg_corrected, lambda case: 0.0),
    "wfg_graph": check_wfg_graph,
    "gpumech_rr": check_gpumech(gpumech_rr),
    "gpumech_rr_corrected": check_gpumech(gpumech_rr_corrected),
    "gpumech_gto": check_gpumech(gpumech_gto),
    "kothapalli_max": check_kothapalli(kothapalli_max),
    "kothapalli_sum": check_kothapalli(kothapalli_sum),
}


def error(expected: Any, found: Any) -> float:
    """Relative error of a number; 0 or infinity for a word. What is no number is infinitely wrong."""
    if isinstance(expected, str):
        return 0.0 if expected == found or (isinstance(found, set) and expected in found) else math.inf
    off = abs(float(found) - expected) / max(abs(expected), 1e-300)
    return math.inf if math.isnan(off) else off


def check(name: str, cases: Any) -> dict[str, Any]:
    """One row: the worst error of a model, and where. ValueError or KeyError for unreadable cases."""
    if not isinstance(cases, list) or not cases:
        raise ValueError(f"{name}: no list of cases")
    row: dict[str, Any] = {"model": name, "cases": len(cases), "worst": None, "at": None}
    if name in CHECKS:
        errors = []
        for index, case in enumerate(cases):
            found = CHECKS[name](case["in"])
            errors += [
                (error(expected, found[key]), f"case {index}, {key}") for key, expected in case["out"].items()
            ]
        row["worst"], row["at"] = max(errors)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    try:
        rows = [check(*item) for item in json.loads(options.vectors.read_text())["models"].items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        print(f"{options.vectors}: found {problem!r}, expected a file of model vectors", file=sys.stderr)
        return 2
    passed = all(row["worst"] is None or row["worst"] <= ALLOWED for row in rows)
    if options.json:
        print(json.dumps({"allowed": ALLOWED, "passed": passed, "models": rows}))
        return 0 if passed else 1
    for row in rows:
        verdict = "absent"
        if row["worst"] is not None:
            verdict = f"worst relative error {row['worst']:.1e}"
            verdict += "" if row["worst"] <= ALLOWED else f"  FAILED at {row['at']}"
        print(f"{row['model']:30} {row['cases']:4} cases  {verdict}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

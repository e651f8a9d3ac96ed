"""Compare every closed form with a file of vectors: `check_models.py model_vectors.json [--json]`.

The file holds, for each model, inputs and the results of an independent implementation in plain Python
(`{"format": "model-vectors 1", "models": {name: [{"in": {...}, "out": {...}}]}}`). One line a model: the
worst relative error in float64, which may be at most 1e-9. Exit code 1 where one is worse, 2 where the file
cannot be read. Models that `dse` does not have yet are reported as absent.

A model's cases are evaluated together: each input is an array over the cases.
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from dse.core.precision import in_64_bits
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

ALLOWED = 1e-9  # relative error in float64
Outputs = Mapping[str, Any]  # by name, an array or a list over the cases


@dataclass(frozen=True)
class Inputs:
    """The cases of one model: numbers by name as arrays [cases], other values unchanged."""

    cases: Sequence[Mapping[str, Any]]

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a number of each case. KeyError if a case lacks it."""
        return np.array([case[name] for case in self.cases], float)

    def get(self, name: str, default: float) -> np.ndarray:
        """Return a number of each case, or the default."""
        numbers = [case.get(name) for case in self.cases]
        return np.array([default if number is None else number for number in numbers], float)

    def rows(self, name: str, padding: tuple[float, ...]) -> np.ndarray:
        """Return each case's list of rows, padded to the longest one, [cases, rows, columns]."""
        lists = [case[name] for case in self.cases]
        longest = max(map(len, lists))
        return np.array([[*rows, *[padding] * (longest - len(rows))] for rows in lists], float)


def two_subsystems(case: Inputs) -> tuple[Gpu, Kernel, Launch]:
    """The Pipeline paper's notation as a GPU with one arithmetic pipe and DRAM."""
    dependent = case["a_comp"] - case.get("independent_comp", 0)
    ilp = np.divide(case["a_comp"], dependent, out=np.full_like(dependent, np.inf), where=dependent != 0)
    machine = gpu(
        cpi=per_class(fp32=case["l_comp"], l2=case["l_mem"], dram=case["l_mem"]),
        latency=per_class(fp32=case.get("L_comp", 0), dram=case.get("L_mem", 0)),
        issue_limit=case.get("issue_limit", np.inf),
    )
    return machine, kernel(case["a_mem"], case["a_comp"], ilp=ilp), launch(case.get("omega", 1))


def of_roofline(case: Inputs) -> Outputs:
    """Warps a cycle."""
    return {"wpc": case.get("omega", 1) / roofline.predict(*two_subsystems(case)).cycles}


def of_volkov(case: Inputs) -> Outputs:
    """Latency of one warp, and warps a cycle."""
    prediction = volkov.predict(*two_subsystems(case))
    return {
        "lambda_app": prediction.details["latency_of_one_warp"],
        "wpc": case["omega"] / prediction.cycles,
    }


def of_transit(case: Inputs) -> Outputs:
    """Warps a cycle."""
    return {"wpc": case["omega"] / transit.predict(*two_subsystems(case)).cycles}


def of_hong_kim(model: Any) -> Callable[[Inputs], Outputs]:
    """MWP-CWP in Hong & Kim's own notation, by one reading of it."""

    def outputs(case: Inputs) -> Outputs:
        warps = np.ceil(case["threads_per_block"] / case["threads_per_warp"])
        blocks, resident, sms = case["blocks"], case["active_blocks_per_sm"], case["active_sms"]
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
        waves = blocks / (resident * sms)
        laid = launch(warps, blocks=blocks, resident_blocks=resident, active_sms=sms, waves=waves)
        prediction = model.predict(machine, program, laid)
        return {
            "N": laid.warps_per_sm,
            "mwp": prediction.details["mwp"],
            "cwp": prediction.details["cwp"],
            "case": [mwp_cwp.CASES[int(number)] for number in prediction.details["case"]],
            "exec_cycles_app": prediction.terms["memory"] + prediction.terms["compute"],
            "synch_cost": prediction.terms["sync"],
            "exec_cycles": prediction.cycles,
            "cpi": prediction.details["cpi"],
        }

    return outputs


def of_mwp_cwp_pipeline(case: Inputs) -> Outputs:
    """MWP, CWP, the case that they make, and cycles."""
    prediction = mwp_cwp_pipeline.predict(*two_subsystems(case))
    return {
        "mwp": prediction.details["mwp"],
        "cwp": prediction.details["cwp"],
        "case": [mwp_cwp_pipeline.CASES[int(number)] for number in prediction.details["case"]],
        "cpr": prediction.cycles,
        "wpc": case["omega"] / prediction.cycles,
    }


def two_pipes(case: Inputs, comp_insts: Any, mem_insts: Any) -> TwoPipes:
    """Counts of a warp on the pipes of the Pipeline paper's notation."""
    return TwoPipes(
        comp_insts=comp_insts,
        comp_cpi=case["l_comp"],
        mem_insts=mem_insts,
        mem_cpi=case["l_mem"],
        mem_latency=case["L_mem"],
    )


def of_mwp_cwp_corrected(case: Inputs) -> Outputs:
    """Cycles, and the cases of equal length: at a tie the other implementation may name either."""
    pipes = two_pipes(case, case["a_comp"], case["a_mem"])
    bounds = mwp_cwp_corrected.bounds(jnp.asarray(case["omega"]), pipes, jnp.asarray(case["lambda_app"]))
    bounds = {name: case["omega"] * np.asarray(bound) for name, bound in bounds.items()}
    cycles = np.max(list(bounds.values()), axis=0)
    words = {"memory": "memory", "compute": "compute", "latency": "few-warps"}
    reached = {words[name]: np.asarray(bound) >= cycles * (1 - 1e-12) for name, bound in bounds.items()}
    cases = [{word for word, at in reached.items() if at[number]} for number in range(len(cycles))]
    return {"cpr": cycles, "wpc": case["omega"] / cycles, "case": cases}


def blocks_of(nodes: Sequence[Sequence[Any]]) -> tuple[list[tuple[float, float, float]], float]:
    """Computations, their parallelism and loads of each block, and the number of barriers.

    Nodes are ["C", insts, ilp], ["M"] and ["B"].

    A block ends with its load, or where the next computation begins; a barrier does not end it.
    """
    blocks, barriers = [], 0.0
    insts, ilp = 0.0, 1.0
    for kind, *numbers in nodes:
        if kind == "M":
            blocks.append((insts, ilp, 1.0))
            insts, ilp = 0.0, 1.0
        elif kind == "B":
            barriers += 1.0
        else:
            if insts:
                blocks.append((insts, ilp, 0.0))
            insts, ilp = map(float, numbers)
    if insts:
        blocks.append((insts, ilp, 0.0))
    return blocks, barriers


def of_wfg(model: Any, issue: Callable[[Inputs], np.ndarray | float]) -> Callable[[Inputs], Outputs]:
    """WFG in the Pipeline paper's notation, as published or corrected."""

    def outputs(case: Inputs) -> Outputs:
        parsed = [blocks_of(nodes["nodes"]) for nodes in case.cases]
        padded = Inputs([{"blocks": blocks} for blocks, _ in parsed]).rows("blocks", (0.0, 1.0, 0.0))
        barriers = np.array([number for _, number in parsed])
        blocks = []
        for insts, ilp, loads in np.moveaxis(padded, 0, -1):
            fields: dict[str, Any] = {"comp_insts": insts, "ilp": ilp, "mem_insts": loads, "waits": loads}
            blocks.append(wfg_pipeline.ComputeBlock(**fields, repeats=jnp.ones_like(insts)))
        parts, details = wfg_pipeline.terms(
            jnp.asarray(case["omega"]),
            two_pipes(case, padded[..., 0].sum(1), padded[..., 2].sum(1)),
            jnp.asarray(case["L_comp"]),
            jnp.asarray(issue(case)),
            jnp.asarray(barriers),
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

    return outputs


def node_of(form: Mapping[str, Any]) -> Node:
    """A node of a work flow graph from its JSON form."""
    fields: dict[str, Any] = {"uses": tuple(form.get("uses", ()))}
    match form["op"]:
        case "C":
            return Compute(insts=form["n"], ilp=form["ilp"], **fields)
        case "M":
            return Memory(bytes=form["bytes"], name=form["name"], **fields)
        case "S":
            return Scratchpad(cycles=form["cycles"], **fields)
        case "B":
            return Barrier(**fields)
        case "LOOP":
            return WfgLoop(trips=form["trip"], body=graph_of(form["body"]))
        case "BRANCH":
            then, otherwise = graph_of(form["then"]), graph_of(form["else"])
            return WfgBranch(taken=form["rho_t"], passed=form["rho_f"], then=then, otherwise=otherwise)
    raise ValueError(f"op: found {form['op']!r}")


def graph_of(forms: Sequence[Mapping[str, Any]]) -> WorkFlow:
    """A work flow graph from its JSON form."""
    return tuple(map(node_of, forms))


def of_wfg_graph(case: Inputs) -> Outputs:
    """The average warp of a work flow graph; graphs differ in form, so each is evaluated alone."""
    names = {
        "cyc_compute": "comp_cycles",
        "num_mem": "mem_insts",
        "num_bytes": "bytes",
        "num_sync": "barriers",
        "cyc_mem": "mem_cycles",
        "latency_bw": "bandwidth_latency",
        "nbc": "between_waits",
        "latency_exposed": "exposed_latency",
        "warp_latency": "warp_latency",
    }
    warps = []
    for graph in case.cases:
        hardware = graph["hardware"]
        fields: dict[str, Any] = {
            "issue_cycles": hardware["simd_work"] / hardware["simd_engine"],
            "pipeline_latency": hardware["pipeline_latency"],
            "bytes_per_cycle": hardware["bytes_per_cycle"],
            "mem_latency": hardware["latency_mem"],
        }
        resident = jnp.float64(hardware["wlp"])
        warps.append(wfg_graph.average_warp(graph_of(graph["graph"]), wfg_graph.Hardware(**fields), resident))
    return {name: [getattr(warp, ours) for warp in warps] for name, ours in names.items()}


def of_gpumech(model: Any) -> Callable[[Inputs], Outputs]:
    """GPUMech's intervals under one scheduler."""

    def outputs(case: Inputs) -> Outputs:
        rows = case.rows("intervals", (0.0, 0.0))
        intervals = gpumech.Intervals.once(rows[..., 0], rows[..., 1])
        warps = jnp.asarray(case["warps"])
        rate = jnp.asarray(case.get("issue_rate", 1))
        parts, details = gpumech.run(intervals, warps, rate, model.nonoverlapped)
        cycles = sum(parts.values())
        return {
            "nonoverlapped": details["nonoverlapped_insts"],
            "cpr": cycles,
            "ipc": details["ipc"],
            "wpc": warps / cycles,
        }

    return outputs


def of_kothapalli(model: Any) -> Callable[[Inputs], Outputs]:
    """A thread of N_comp computations and N_mem accesses of a cycle each, then all threads of an SM."""

    def outputs(case: Inputs) -> Outputs:
        machine = gpu(clock=case["clock_hz"], cpi=per_class(fp32=1.0), latency=per_class(dram=1.0))
        program = kernel(case["n_mem"], case["n_comp"], uncoal_insts=case["n_mem"])
        cycles = kothapalli.kernel_cycles(
            model.predict(machine, program, launch(1)).cycles,
            jnp.asarray(case["blocks_per_sm"]),
            jnp.asarray(case["warps_per_block"]),
            jnp.asarray(case["threads_per_warp"]),
            jnp.asarray(case["cores_per_sm"]),
            jnp.asarray(case["pipeline_depth"]),
        )
        return {"cycles": cycles, "seconds": cycles / case["clock_hz"]}

    return outputs


MODELS: dict[str, Callable[[Inputs], Outputs]] = {
    "roofline": of_roofline,
    "volkov": of_volkov,
    "transit": of_transit,
    "mwp_cwp_hong_kim_as_printed": of_hong_kim(mwp_cwp_printed),
    "mwp_cwp_hong_kim_as_narrated": of_hong_kim(mwp_cwp),
    "mwp_cwp_pipeline": of_mwp_cwp_pipeline,
    "mwp_cwp_corrected": of_mwp_cwp_corrected,
    "wfg_pipeline": of_wfg(wfg_pipeline, lambda case: case["l_instr"]),
    "wfg_corrected": of_wfg(wfg_corrected, lambda case: 0.0),
    "wfg_graph": of_wfg_graph,
    "gpumech_rr": of_gpumech(gpumech_rr),
    "gpumech_rr_corrected": of_gpumech(gpumech_rr_corrected),
    "gpumech_gto": of_gpumech(gpumech_gto),
    "kothapalli_max": of_kothapalli(kothapalli_max),
    "kothapalli_sum": of_kothapalli(kothapalli_sum),
}


def relative_error(expected: Any, ours: Any) -> float:
    """Relative error of a number, infinite for NaN; 0 or infinity for a word."""
    if isinstance(expected, str):
        return 0.0 if expected == ours or (isinstance(ours, set) and expected in ours) else math.inf
    error = abs(float(ours) - expected) / max(abs(expected), 1e-300)
    return math.inf if math.isnan(error) else error


def compare(model: str, cases: Any) -> dict[str, Any]:
    """Compare a model with its cases: the worst error in float64, and its case.

    Both are None for a model that there is not.

    **Raises:** ValueError, KeyError or TypeError for cases that cannot be read.
    """
    if not isinstance(cases, list) or not cases:
        raise ValueError(f"{model}: no list of cases")
    row: dict[str, Any] = {"model": model, "cases": len(cases), "worst": None, "at": None}
    if model in MODELS:
        with in_64_bits():
            outputs = MODELS[model](Inputs([case["in"] for case in cases]))
        columns = {name: _over_cases(values, len(cases)) for name, values in outputs.items()}
        row["worst"], row["at"] = max(
            (relative_error(expected, columns[name][number]), f"case {number}, {name}")
            for number, case in enumerate(cases)
            for name, expected in case["out"].items()
        )
    return row


def _over_cases(values: Any, cases: int) -> Sequence[Any]:
    if isinstance(values, list):
        return values
    return np.broadcast_to(np.asarray(values), cases).tolist()


def main() -> int:
    """Print the comparison; the exit code is 0 if all models passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    try:
        rows = [compare(*item) for item in json.loads(options.vectors.read_text())["models"].items()]
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

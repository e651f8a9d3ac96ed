"""The Pipeline paper's two microbenchmarks, simulated: `pipeline_experiments.py [--json] [--draw FOLDER]`.

The instruction mix (Sec. 6.1): beta operations of one kind and a transcendental one, over and over, in one
chain, at the largest occupancy; on one pipe, on two, and on two with an issue limit, compared with Eqs.
43-45: their text prints 1/λ2 where the ridge, and the simulation, are at beta/λ2. The iterative barrier (Sec.
6.2): an operation and a barrier, over and over, for every group size and number of groups that fit. λ, Λ and
limits are those of the GPU files. `--draw` writes instruction_mix.svg and iterative_barrier.svg.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from ending import run_script

from dse.hardware import gpus
from dse.report.show import show
from dse.simulator import Case, Loop, Program, simulate
from dse.types import Gpu

TABLE_4 = ("tesla_c2050", "gtx_650_ti", "quadro_k620", "gtx_1060_6gb", "rtx_2070", "radeon_r9_380")
FIGURE_16 = ("tesla_c2050", "gtx_1060_6gb")
BETAS = (1, 2, 4, 8, 16)
REPETITIONS = 256
INSTRUCTIONS = 1024  # of the barrier kernel
MOST_GROUP = 32  # warps
EQUATIONS = ("Eq. 43", "Eq. 44", "Eq. 45")


def mix(beta: int, fast: tuple[float, float], slow: tuple[float, float], pipes: int) -> Program:
    """A chain of `beta` fast instructions and a slow one, each with (λ, Λ), repeated."""
    n = beta + 1
    kinds = np.array([0] * beta + [pipes - 1])
    throughput_cycles, latency_cycles = (np.array([fast[k]] * beta + [slow[k]]) for k in (0, 1))
    preds = tuple(((i - 1) % n,) for i in range(n))
    return Program(kinds, throughput_cycles, latency_cycles, preds, loops=(Loop(0, n, REPETITIONS),))


def instruction_mix(name: str, scheduler: str) -> list[dict[str, Any]]:
    """Instructions of the first kind a cycle, by equation and simulated, for each beta."""
    file = gpus.load(name)
    gpu = file.gpu
    fast = (float(gpu.cpi.fp32), float(gpu.latency.fp32))
    slow = (float(gpu.cpi.sfu), float(gpu.latency.sfu))
    limit, warps = float(gpu.issue_limit), int(gpu.limits.warps_per_sm)
    settings = ((1, math.inf), (2, math.inf), (2, limit))
    cases = [
        Case((mix(beta, fast, slow, pipes),), warps, issue_limit=il, scheduler=scheduler)
        for beta in BETAS
        for pipes, il in settings
    ]
    cycles = simulate(cases).makespan.reshape(len(BETAS), 3)
    rows = []
    for beta, cycle in zip(BETAS, cycles, strict=True):
        single = beta / (beta * fast[0] + slow[0])  # Eq. 43
        two = min(1 / fast[0], beta / slow[0])  # Eq. 44
        expected = (single, two, min(two, limit * beta / (beta + 1)))  # Eq. 45
        throughputs = beta * REPETITIONS * warps / cycle
        rows += [
            {
                "gpu": file.name,
                "scheduler": scheduler,
                "beta": beta,
                "equation": equation,
                "expected": bound,
                "simulated": float(throughput),
                "below": float(1 - throughput / bound),
            }
            for equation, bound, throughput in zip(EQUATIONS, expected, throughputs, strict=True)
        ]
    return rows


def barrier_program(gpu: Gpu) -> Program:
    """An operation that waits for the previous one, and a barrier; repeated."""
    return Program(
        subsystem=np.array([0, 1]),
        throughput_cycles=np.array([float(gpu.cpi.fp32), float(gpu.cpi.barrier)]),
        latency_cycles=np.array([float(gpu.latency.fp32), float(gpu.latency.barrier)]),
        preds=((0,), (0,)),
        kind="cb",
        loops=(Loop(0, 2, INSTRUCTIONS),),
    )


def iterative_barrier(name: str, scheduler: str) -> list[dict[str, Any]]:
    """Operations a cycle for each size and number of groups that fits on the SM."""
    file = gpus.load(name)
    gpu = file.gpu
    limits = gpu.limits
    most_warps, most_groups = int(limits.warps_per_sm), int(limits.blocks_per_sm)
    program = barrier_program(gpu)
    sizes = [
        (w, g) for w in range(1, MOST_GROUP + 1) for g in range(1, most_groups + 1) if w * g <= most_warps
    ]
    cases = [
        Case((program,), w, g, g, issue_limit=float(gpu.issue_limit), scheduler=scheduler) for w, g in sizes
    ]
    result = simulate(cases)
    return [
        {
            "gpu": file.name,
            "model": "pipeline",
            "scheduler": scheduler,
            "warps": w * g,
            "group_size": 32 * w,
            "throughput": float(INSTRUCTIONS * w * g / cycles),
        }
        for (w, g), cycles in zip(sizes, result.makespan, strict=True)
    ]


BAND = 8  # resident warps from one line of the drawing to the next
PIPES = {"Eq. 43": "one pipe", "Eq. 44": "two pipes", "Eq. 45": "two pipes, issue limit"}


def draw(mixes: list[dict[str, Any]], barriers: list[dict[str, Any]], folder: Path) -> None:
    """Both figures, round robin: a panel for each GPU."""
    from dse.report.measured import curves
    from dse.report.save import save_chart

    points = [
        {"chart": row["gpu"], "series": f"{PIPES[row['equation']]}: {name}", "x": row["beta"], "y": row[key]}
        for name, key in (("equation", "expected"), ("simulated", "simulated"))
        for row in mixes
        if row["scheduler"] == "rr"
    ]
    panels = {row["gpu"]: ("beta", "operations a cycle") for row in mixes}
    save_chart(curves(points, panels), folder / "instruction_mix.svg")
    points = [
        {
            "chart": row["gpu"],
            "series": f"{row['warps']} warps",
            "x": row["group_size"],
            "y": row["throughput"],
        }
        for row in barriers
        if row["warps"] % BAND == 0
    ]
    panels = {row["gpu"]: ("group size", "operations a cycle") for row in barriers}
    title = "Iterative barrier kernel, simulated, by resident warps"
    save_chart(curves(points, panels, title=title), folder / "iterative_barrier.svg")


def main() -> None:
    """Print or draw both experiments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="write the drawings")
    arguments = parser.parse_args()
    mixes = [row for s in ("rr", "gto") for name in TABLE_4 for row in instruction_mix(name, s)]
    barriers = [row for name in FIGURE_16 for row in iterative_barrier(name, "rr")]
    if arguments.draw:
        draw(mixes, barriers, arguments.draw)
    if arguments.json:
        print(json.dumps({"instruction_mix": mixes, "iterative_barrier": barriers}))
        return
    show(mixes, title="Instruction mix: instructions a cycle")
    show(barriers, title="Iterative barrier: operations a cycle", section="warps")
    for name in dict.fromkeys(row["gpu"] for row in barriers):
        best = max(row["throughput"] for row in barriers if row["gpu"] == name)
        print(f"{name}: largest {best:.3f}")


if __name__ == "__main__":
    run_script(main)

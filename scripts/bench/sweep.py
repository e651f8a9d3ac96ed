"""Configurations a second that the closed forms evaluate, compared with NumPy.

    python scripts/bench/sweep.py [--quick] [--repeats 5] [--beside "./closed_form 1 1"] [--json]

A configuration is one (GPU, kernel, launch), evaluated by all of MODELS with the occupancy: the 16 fastest of
each model over a grid of 2^28 of them, by `dse.evaluate.grid` and by the chunked NumPy code below. Exit code
1 if the results differ. In one grid many launches are equal or impossible, since registers act through
occupancy alone; in the other no two launches of a kernel are alike.

`--beside` runs another program in turn with ours, on the same core. It prints lines that begin with
`nested float32 1 thread(s): best NUMBER M`, and the same for float64: millions of configurations a second.
The best of all rounds are compared. A program that evaluates every configuration of a dense grid, equal or
not, is a reference for both grids.

The process is pinned to one core, and rates are by its CPU time, which other work on the machine does not
affect.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import product
from math import prod
from statistics import median
from typing import Any

import front
import numpy as np
from front import rates

MODELS = ("volkov", "mwp-cwp", "mwp-cwp-corrected", "wfg-corrected")
AXES = ("gpu", "coarsening", "kernel", "vector width", "block size", "registers")
FULL = (16, 32, 64, 8, 32, 32)
QUICK = (4, 2, 6, 2, 8, 16)
OUTPUTS = 1 << 26  # of each kernel
BEST = 16
GRIDS = ("repeats", "distinct")
BESIDE = re.compile(r"^nested (float32|float64)\s+1 thread\(s\): best\s+([\d.]+) M", re.MULTILINE)
RATIOS = {
    f"ratio_{beside}{grid}{short}": f"dse over {other}, {short}{', no launches alike' if grid else ''}"
    for beside, other in (("", "NumPy"), ("beside_", "the other program"))
    for grid in ("", "distinct_")
    for short in ("f32", "f64")
}
CHUNKS = (1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17)  # configurations, tried for NumPy
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def grid(shape: Sequence[int], dtype: Any, distinct: bool = False) -> tuple[Any, Any, Any]:
    """Return GPUs of the catalogue, and synthetic kernels and launches. Fields are NumPy arrays along AXES.

    With `distinct` no two launches of a kernel are alike, since each has its own block size.
    """
    import jax

    from dse.hardware import gpus
    from dse.types import CLASSES, Kernel, PerClass, Resources

    def along(axis: str, values: Any) -> np.ndarray:
        return np.reshape(values, [-1 if name == axis else 1 for name in AXES])

    names = gpus.names()
    names = [names[i * len(names) // shape[0]] for i in range(shape[0])]
    stacked = gpus.stack([gpus.load(name, dtype).gpu for name in names])
    gpu = jax.tree.map(lambda x: along("gpu", np.asarray(x)), stacked)

    # A thread computes `c` outputs, `v` of them from one load; kernel `k` sets the instruction mix.
    c, v = along("coarsening", np.arange(1, shape[1] + 1)), along("vector width", np.arange(1, shape[3] + 1))
    k = along("kernel", np.arange(shape[2]))
    loads = (1 + k % 5) * np.ceil(c / v)
    stores = np.ceil(c / v)
    sectors = 4.0 * (1 + k % 5) * c + 4.0 * c
    sectors = sectors * np.where(k % 7 == 0, 8, 1)  # every seventh kernel is not coalesced
    past_l1 = sectors * (1 - k % 4 / 8)
    work: dict[str, Any] = dict.fromkeys(CLASSES, 0.0 * c) | {
        "fp32": (4 + 6 * k) * c,
        "fp64": np.where(k % 9 == 8, 4.0, 0.0) * c,
        "int32": np.where(k % 6 == 5, 1, 12) + 3 * c + 2 * loads,
        "imul32": 2 + loads,
        "sfu": k % 3 * c,
        "shared": np.where(k % 6 == 5, 40 + 12 * k, k % 6) * c,
        "l1": loads + stores,
        "l2": past_l1,
        "dram": past_l1 * (1 - k % 3 / 4),
        "barrier": k % 5,
    }
    kernel: dict[str, Any] = {
        "shared_insts": 0.75 * work["shared"],
        "load_insts": loads,
        "store_insts": stores,
        "uncoal_insts": np.where(k % 7 == 0, loads, 0),
        "transactions_per_uncoal": np.where(k % 7 == 0, 32, 1),
        "sectors": sectors,
        "bytes_per_access": 128.0 * np.minimum(v, c),
        "ilp": np.minimum(c, 1 + k % 4),
        "mlp": np.minimum(loads, 1 + k % 3),
        "other_insts": 0 * loads,
    }
    kernel = {name: np.asarray(values, dtype) for name, values in kernel.items()}
    classes: dict[str, Any] = {name: np.asarray(values, dtype) for name, values in work.items()}

    threads = along("block size", np.arange(32, 1025, 1024 // shape[4])[: shape[4]])
    registers = along("registers", np.linspace(16, 255, shape[5]).astype(int))
    if distinct:
        threads = threads - along("registers", np.arange(shape[5]))
        registers = along("registers", np.linspace(16, 63, shape[5]).astype(int))
    resources: dict[str, Any] = {
        "threads": threads,
        "blocks": -(-OUTPUTS // (threads * c)),
        "registers": registers,
        "shared_bytes": 16 * threads,
    }
    with jax.enable_x64(True):
        kernel_and_resources = Kernel(work=PerClass(**classes), **kernel), Resources(**resources)
        return gpu, *jax.tree.map(np.asarray, kernel_and_resources)


# The same equations in NumPy. Fields that do not vary along an axis have size 1 there, so that NumPy also
# computes partial results only once.


@dataclass
class NumpyLaunch:
    warps_per_sm: np.ndarray
    resident_blocks: np.ndarray
    active_sms: np.ndarray
    waves: np.ndarray
    possible: np.ndarray


def round_up(a: np.ndarray, unit: np.ndarray) -> np.ndarray:
    return -(-a // unit) * unit


def numpy_launch(gpu: Any, resources: Any, dtype: Any) -> NumpyLaunch:
    limits, threads, registers = gpu.limits, resources.threads, resources.registers
    warps = -(-threads // limits.warp_size)
    by_block = limits.registers_by_block != 0
    counted = round_up(warps, limits.warp_unit)
    allotted = round_up(np.where(by_block, counted, 1) * limits.warp_size * registers, limits.register_unit)
    file = np.where(by_block, limits.registers_per_sm, limits.registers_per_sm // limits.sub_partitions)
    register_warps = file // np.maximum(allotted, 1) * np.where(by_block, warps, limits.sub_partitions)
    block_registers = allotted * np.where(by_block, 1, counted)
    shared = round_up(resources.shared_bytes + limits.shared_bytes_reserved, limits.shared_unit_bytes)
    warp_slots = np.minimum(limits.warps_per_sm, limits.threads_per_sm // limits.warp_size)
    block_slots = np.where(warps == 1, limits.one_warp_blocks_per_sm, limits.blocks_per_sm)
    blocks = np.minimum(np.minimum(warp_slots, register_warps) // warps, block_slots)
    blocks = np.minimum(blocks, limits.shared_bytes_per_sm // np.maximum(shared, 1))
    possible = (
        (threads <= limits.threads_per_block)
        & (warps <= warp_slots)
        & (registers <= limits.registers_per_thread)
        & (block_registers <= limits.registers_per_block)
        & (warps <= register_warps)
        & (resources.shared_bytes <= limits.shared_bytes_per_block)
        & (shared <= limits.shared_bytes_per_sm)
    )
    busiest = -(-resources.blocks // gpu.sm_count.astype(np.int32))
    resident = np.maximum(np.minimum(np.where(possible, blocks, 0), busiest), 1)
    return NumpyLaunch(
        warps_per_sm=(warps * resident).astype(dtype),
        resident_blocks=resident.astype(dtype),
        active_sms=np.minimum(gpu.sm_count, resources.blocks.astype(dtype)),
        waves=busiest.astype(dtype) / resident.astype(dtype),
        possible=possible,
    )


def divide(a: np.ndarray, b: np.ndarray, default: float = 0.0) -> np.ndarray:
    return np.where(b == 0, b.dtype.type(default), a / b)


@dataclass
class Lumped:
    """Intermediate values of kernels on GPUs, shared by the models."""

    gpu: Any
    kernel: Any
    comp_insts: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        gpu, kernel, work = self.gpu, self.kernel, self.kernel.work
        self.comp_insts, self.mem_insts, self.insts = kernel.comp_insts, kernel.mem_insts, kernel.insts
        past_l1 = np.minimum(divide(work.l2, kernel.sectors), 1)
        past_l2 = np.minimum(divide(work.dram, kernel.sectors), past_l1)
        self.from_dram = past_l2
        self.mem_latency = (
            (1 - past_l1) * gpu.latency.l1 + (past_l1 - past_l2) * gpu.latency.l2 + past_l2 * gpu.latency.dram
        )
        self.busy = {name: getattr(work, name) * getattr(gpu.cpi, name) for name in vars(work)}
        memory = [self.busy[name] for name in ("l1", "l2", "dram")]
        self.mem_cpi = divide(reduce(np.maximum, memory, self.mem_insts * gpu.lsu_cycles), self.mem_insts)
        issue = np.maximum(self.comp_insts / gpu.issue_limit, kernel.shared_insts * gpu.lsu_cycles)
        comp = [self.busy[name] for name in ("fp32", "fp64", "int32", "imul32", "sfu", "shared")]
        self.comp_cpi = divide(reduce(np.maximum, comp, issue), self.comp_insts)
        self.busy["l1"] = self.busy["l1"] + gpu.l1_with_shared * self.busy["shared"]
        self.busy["lsu"] = (kernel.shared_insts + self.mem_insts) * gpu.lsu_cycles
        self.busy["issue"] = self.insts / gpu.issue_limit
        passes = divide(work.shared, kernel.shared_insts)
        latencies = kernel.shared_insts * (gpu.latency.shared + np.maximum(passes - 1, 0) * gpu.cpi.shared)
        for name in ("fp32", "fp64", "int32", "imul32", "sfu"):
            latencies = latencies + getattr(work, name) * getattr(gpu.latency, name)
        self.comp_latency = divide(latencies, self.comp_insts)
        self.waits = kernel.load_insts / kernel.mlp
        self.latency_of_one_warp = (
            latencies / kernel.ilp
            + sum(comp) * (1 - 1 / kernel.ilp)
            + self.waits * self.mem_latency
            + (self.mem_insts - self.waits) * self.mem_cpi
            + work.barrier * gpu.latency.barrier
        )


def numpy_volkov(x: Lumped, launch: NumpyLaunch) -> np.ndarray:
    full = reduce(np.maximum, x.busy.values())
    bound = np.maximum(full, x.latency_of_one_warp / launch.warps_per_sm)
    return bound * (launch.warps_per_sm * launch.waves)


def numpy_mwp_cwp(x: Lumped, launch: NumpyLaunch) -> np.ndarray:
    gpu, kernel, n = x.gpu, x.kernel, launch.warps_per_sm
    uncoal = divide(kernel.uncoal_insts, x.mem_insts)
    coal = divide(x.mem_insts - kernel.uncoal_insts, x.mem_insts)
    per_mw = kernel.transactions_per_uncoal
    mem_l = (x.mem_latency + (per_mw - 1) * gpu.departure_delay_uncoal_cycles) * uncoal + x.mem_latency * coal
    delay = gpu.departure_delay_uncoal_cycles * per_mw * uncoal + gpu.departure_delay_coal_cycles * coal
    mem, comp = mem_l * x.mem_insts, gpu.issue_cycles * (x.comp_insts + x.mem_insts)
    warp_bandwidth = divide(gpu.clock * kernel.bytes_per_access * x.from_dram, mem_l)
    peak = divide(gpu.dram_bandwidth, warp_bandwidth, np.inf) / launch.active_sms
    mwp = np.maximum(np.minimum(np.minimum(divide(mem_l, delay, np.inf), n), peak), 1)
    cwp = np.minimum(divide(mem + comp, comp, np.inf), n)
    exposed = divide(comp, x.mem_insts) * (mwp - 1)
    few, bound = (mwp == n) & (cwp == n), (cwp >= mwp) & (comp <= mem)
    both = np.where(few, mem + comp + exposed, np.where(bound, mem * n / mwp + exposed, mem_l + comp * n))
    sync = delay * (mwp - 1) * (kernel.work.barrier * launch.resident_blocks)
    return (np.where(x.mem_insts == 0, comp * n, both) + sync) * launch.waves


def numpy_mwp_cwp_corrected(x: Lumped, launch: NumpyLaunch) -> np.ndarray:
    n = launch.warps_per_sm
    period = x.comp_insts / np.maximum(x.mem_insts, 1) * x.comp_cpi
    some = np.minimum(x.mem_insts, 1)
    mwp = divide(x.mem_latency, x.mem_cpi, np.inf)
    bounds = [
        (some * x.mem_insts * x.mem_cpi) * n + (some * period) * np.minimum(mwp, n),
        (x.comp_insts * x.comp_cpi) * n + some * x.mem_latency,
        x.latency_of_one_warp + (some * period) * (n - 1),
        reduce(np.maximum, [x.busy[name] for name in ("l1", "lsu", "barrier", "issue")]) * n,
    ]
    return reduce(np.maximum, bounds) * launch.waves


def numpy_wfg_corrected(x: Lumped, launch: NumpyLaunch) -> np.ndarray:
    n = launch.warps_per_sm
    repeats = np.where(x.waits > 0, x.waits, 1)
    waits = np.where(x.waits > 0, x.waits.dtype.type(1), x.waits.dtype.type(0))
    insts = x.comp_insts / repeats
    comp = x.comp_insts * np.maximum(x.comp_cpi, x.comp_latency / x.kernel.ilp / n)
    transfer = np.maximum(x.mem_cpi - divide(comp, x.mem_insts), 0)
    between = comp / (repeats * waits + x.kernel.work.barrier + 1)
    hidden = (n - 1) * between - insts * x.comp_latency / x.kernel.ilp
    exposed = (x.mem_latency - np.maximum(hidden, 0)) / n
    beyond = repeats * waits * np.maximum(exposed - transfer, 0)
    return (comp + transfer * x.mem_insts + beyond) * (n * launch.waves)


NUMPY = dict(
    zip(MODELS, (numpy_volkov, numpy_mwp_cwp, numpy_mwp_cwp_corrected, numpy_wfg_corrected), strict=True)
)


@dataclass
class Summary:
    """One model's results on a grid."""

    seconds: np.ndarray = field(default_factory=lambda: np.full(BEST, np.inf))  # of the fastest, ascending
    index: np.ndarray = field(default_factory=lambda: np.full(BEST, -1))
    count: int = 0  # configurations that can run


def numpy_reduce(
    summaries: dict[str, Summary],
    fields: tuple[Any, Any, Any],
    shape: Sequence[int],
    gpus: Iterable[int],
    chunk: int,
) -> None:
    """Add GPUs to the summaries. Launches are computed once for all kernels, which come in chunks."""
    import jax

    row = shape[4] * shape[5]
    dtype = fields[0].clock.dtype

    def at(g: int, c: int, x: np.ndarray) -> np.ndarray:
        """Select one GPU and coarsening: [kernels * vector widths or 1, a row or 1]."""
        x = np.reshape(x, (1,) * len(shape)) if np.ndim(x) == 0 else x  # a scalar default
        x = x[g if x.shape[0] > 1 else 0, c if x.shape[1] > 1 else 0]
        rows = shape[2:4] if x[:, :, 0, 0].size > 1 else (1, 1)
        columns = shape[4:6] if x[0, 0].size > 1 else (1, 1)
        return np.broadcast_to(x, (*rows, *columns)).reshape(rows[0] * rows[1], columns[0] * columns[1])

    rows = max(1, chunk // row)
    with np.errstate(divide="ignore", invalid="ignore"):
        for g in gpus:
            for c in range(shape[1]):
                gpu, kernel, resources = jax.tree.map(partial(at, g, c), fields)
                launch = numpy_launch(gpu, resources, dtype)
                for first in range(0, shape[2] * shape[3], rows):
                    part = jax.tree.map(lambda x, f=first: x[f : f + rows] if len(x) > 1 else x, kernel)
                    lumped = Lumped(gpu, part)
                    offset = ((g * shape[1] + c) * shape[2] * shape[3] + first) * row
                    for name, model in NUMPY.items():
                        seconds = model(lumped, launch) / gpu.clock
                        numpy_merge(summaries[name], seconds, launch.possible, offset)


def numpy_merge(summary: Summary, seconds: np.ndarray, possible: np.ndarray, offset: int) -> None:
    summary.count += int(possible.sum()) * len(seconds)
    seconds = np.where(possible, seconds, np.inf)
    if seconds.min() < summary.seconds[-1]:
        seconds = seconds.ravel()
        near = np.argpartition(seconds, BEST)[:BEST]
        near.sort()
        both = np.concatenate([summary.seconds, seconds[near]])
        best = np.argsort(both, kind="stable")[:BEST]
        summary.index = np.concatenate([summary.index, offset + near])[best]
        summary.seconds = both[best]


def disagreement(seconds: np.ndarray, index: np.ndarray, numpy: Summary, tolerance: float) -> str | None:
    """Describe the difference of our fastest to NumPy's, if any. Equally fast ones may be swapped."""
    if not np.allclose(seconds, numpy.seconds, rtol=tolerance, atol=0):
        return f"fastest {seconds} and {numpy.seconds}"
    only_ours = seconds[~np.isin(index, numpy.index)]
    if np.any(only_ours < numpy.seconds[-1] * (1 - tolerance)):
        return f"fastest at {index} and {numpy.index}"
    return None


def measure_numpy(
    fields: tuple[Any, Any, Any], shape: tuple[int, ...]
) -> tuple[dict[str, Any], dict[str, Summary]]:
    """Measure rates with the best chunk, and return results. Each GPU counts as a repeat."""
    part = (1, min(shape[1], 4), *shape[2:])
    trials = {}
    for chunk in CHUNKS:
        run = partial(numpy_reduce, {name: Summary() for name in MODELS}, fields, part, [0], chunk)
        trials[chunk] = max(rates(run, prod(part), 2)["cpu"])
    best = max(trials, key=trials.__getitem__)
    summaries = {name: Summary() for name in MODELS}
    gpus = iter(range(shape[0]))
    measured = rates(
        lambda: numpy_reduce(summaries, fields, shape, [next(gpus)], best), prod(shape[1:]), shape[0]
    )
    return measured | {"chunk": best, "chunks": trials}, summaries


def measure_beside(command: str) -> dict[str, float]:
    """Return another program's rates, configurations a second by precision."""
    printed = subprocess.run(shlex.split(command), check=True, stdout=subprocess.PIPE, text=True).stdout
    return {dtype: float(rate) * 1e6 for dtype, rate in BESIDE.findall(printed)}


def measure(shape: tuple[int, ...], repeats: int, beside: str | None) -> dict[str, Any]:
    """Measure all rates on one core, and differences of results."""
    front.pin(front.usable_cores()[-1])  # before JAX counts the cores
    from dse.evaluate.grid import fastest_of_grid

    result: dict[str, Any] = {"differences": [], "first_call_s": {}, "possible": {}}
    runs = {}
    for grid_name, dtype in product(GRIDS, ("float32", "float64")):
        fields = grid(shape, np.dtype(dtype), distinct=grid_name == "distinct")
        run = partial(fastest_of_grid, MODELS, *fields, k=BEST)
        name = f"{grid_name} {dtype}"
        runs[name] = run
        # compiles; results are NumPy arrays, so nothing is left to wait for
        result["first_call_s"][name], ours = front.timed(run)
        result[f"numpy {name}"], theirs = measure_numpy(fields, shape)
        result["possible"][name] = theirs[MODELS[0]].count / prod(shape)
        for model in MODELS:
            (seconds,), (index,) = ours[model]
            if difference := disagreement(seconds, index, theirs[model], TOLERANCE[dtype]):
                result["differences"].append(f"{model}, {name}: {difference}")
    rounds: list[dict[str, Any]] = []
    for _ in range(repeats):
        rounds.append({name: rates(run, prod(shape), 1) for name, run in runs.items()})
        if beside:
            rounds[-1]["beside"] = measure_beside(beside)
    for name in runs:
        by_clock = {clock: [round_[name][clock][0] for round_ in rounds] for clock in ("wall", "cpu")}
        result[f"closed_forms {name}"] = by_clock
    if beside:
        result["beside"] = {
            dtype: [round_["beside"][dtype] for round_ in rounds] for dtype in rounds[0]["beside"]
        }
    return result


def in_process(options: argparse.Namespace) -> dict[str, Any]:
    """Run `measure` in another process, since XLA's cores are fixed when it starts."""
    arguments = ["--measure", "--repeats", str(options.repeats)]
    arguments += ["--quick"] if options.quick else []
    return front.in_process(__file__, *arguments, *(["--beside", options.beside] if options.beside else []))


def main() -> int:
    parser = front.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="a small grid: rates are not meaningful")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--beside", metavar="COMMAND", help="another program, run in turn on the same core")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = QUICK if options.quick else FULL
    if options.measure:
        print(json.dumps(measure(shape, options.repeats, options.beside)))
        return 0

    on_one = in_process(options)
    table, ratios = {}, {}  # rates of each repeat
    for grid_name, (dtype, short) in product(GRIDS, (("float32", "f32"), ("float64", "f64"))):
        kind = f"{grid_name}_{short}" if grid_name == "distinct" else short
        name = f"{grid_name} {dtype}"
        table[f"closed_forms_{kind}_one_core"] = on_one[f"closed_forms {name}"]["cpu"]
        table[f"numpy_{kind}_one_core"] = on_one[f"numpy {name}"]["cpu"]
        ours = table[f"closed_forms_{kind}_one_core"]
        ratios[f"ratio_{kind}"] = median(ours) / median(table[f"numpy_{kind}_one_core"])
        if beside := on_one.get("beside", {}).get(dtype):
            table[f"beside_{short}_one_core"] = beside
            ratios[f"ratio_beside_{kind}"] = max(ours) / max(beside)
    figures = {f"{name}_per_s": median(values) for name, values in table.items()}
    report = (
        figures
        | ratios
        | {
            "repeats": table,
            "one_core": on_one,
            "differences": on_one["differences"],
            "first_call_s": on_one["first_call_s"],
            "possible": on_one["possible"],
            "models": MODELS,
            "grid": dict(zip(AXES, shape, strict=True)),
            "configurations": prod(shape),
            "machine": front.machine(),
            "versions": front.versions("jax", "jaxlib", "numpy"),
        }
    )
    print(json.dumps(report) if options.json else text(report))
    return 1 if on_one["differences"] else 0


def text(report: dict[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    sizes = " x ".join(f"{name} {size}" for name, size in report["grid"].items())
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_1_min']:.1f}",
        ", ".join(f"{name} {number}" for name, number in versions.items()),
        f"{report['configurations']:,} configurations: {sizes}",
        f"each by {', '.join(report['models'])}, with occupancy",
        "",
        f"{'million configurations a second':34} {'min':>8} {'median':>8} {'max':>8}",
    ]
    for name, values in report["repeats"].items():
        label = name.replace("_", " ").replace("closed forms", "dse").replace("numpy", "NumPy")
        numbers = " ".join(f"{x / 1e6:8.1f}" for x in (min(values), median(values), max(values)))
        lines.append(f"{label:34} {numbers}")
    first = report["first_call_s"].items()
    lines += [
        "",
        *(f"{label:50} {report[key]:8.2f}" for key, label in RATIOS.items() if key in report),
        "",
        "first call, compilation included: " + ", ".join(f"{x:.1f} s ({name})" for name, x in first),
        "can run: " + ", ".join(f"{x:.2f} ({name})" for name, x in report["possible"].items()),
        "Pinned to one core, by CPU time. Repeats of NumPy are GPUs.",
    ]
    return "\n".join(lines + (report["differences"] or ["Both give the same fastest."]))


if __name__ == "__main__":
    sys.exit(main())

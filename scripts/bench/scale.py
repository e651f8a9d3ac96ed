"""Rate, memory, cost of each axis and resumption of sweeps of up to 10^9 configurations.

    python scripts/bench/scale.py [--scale 0.1] [--only grid rows kill axes source] [--json]

- `grid`: the 100 fastest of each GPU and size over 10^9 configurations of a made-up kernel (10 GPUs x 6 sizes
  x 2^24 launches) by the four models of `sweep.py`, in turn with its grids, by CPU time.
- `rows`: 10^7 rows of valid configurations into one Parquet file, which three libraries then read.
- `kill`: a sweep of 10^8 configurations killed three times by SIGKILL and restarted, and an undisturbed one.
- `axes`: growth of CPU time with GPUs, kernels, sizes and models, and compilations of a second call.
- `source`: a ranking of 2,000 configurations of `stencil2d` from source, in processes of this machine and on
4
  workers of Dask, each from an empty cache.

Each part runs in another process, whose peak memory is reported. `--scale` makes them smaller.
Rates are by CPU time of the process, which other work on the machine does not affect.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import front

MODELS = ("volkov", "mwp-cwp", "mwp-cwp-corrected", "wfg-corrected")
PARTS = ("grid", "rows", "kill", "axes", "source")
GPUS, SIZES, BEST = 10, 6, 100
ROWS = 10_000_000
KILLED = 100_000_000
FROM_SOURCE, WORKERS = 2_000, 4
# 5,556 valid configurations
STENCILS = {"block_x": [*range(16, 257, 16)], "block_y": [*range(1, 33)], "rows": [*range(1, 17)]}
POINTS = 12  # sizes in sweeps along the other axes
TIMES = (1, 2, 4)

KERNEL = """
name = "made_up"
summary = "as many kernels as `mix` has values, each with its own mix of instructions"

[problem]
outputs = 67108864

[parameters]
coarsening = { from = 1, to = 32 }
mix = { from = 0, to = 63 }
vector = { from = 1, to = 8 }
block = { from = 32, to = 1024, step = 32 }
limit = { from = 16, to = 233, step = 7 }

[launch]
threads = "block"
blocks = "ceil(outputs / (block * coarsening))"
registers = "limit"
shared_bytes = "16 * block"

[warp]
fp32 = "(4 + 6 * mix) * coarsening"
fp64 = "4 * coarsening if mix % 9 == 8 else 0"
int32 = "(1 if mix % 6 == 5 else 12) + 3 * coarsening"
imul32 = "2 + ceil(coarsening / vector)"
sfu = "mix % 3 * coarsening"
barrier = "mix % 5"
ilp = "min(coarsening, 1 + mix % 4)"
mlp = "min((1 + mix % 5) * ceil(coarsening / vector), 1 + mix % 3)"

[[access]]
name = "input"
space = "global"
op = "load"
bytes = "4 * min(vector, coarsening)"
count = "(1 + mix % 5) * ceil(coarsening / vector)"
sectors = "4 * min(vector, coarsening) * (8 if mix % 7 == 0 else 1)"
l2_sectors = "4 * (1 + mix % 5) * coarsening * (8 if mix % 7 == 0 else 1) * (1 - mix % 4 / 8)"
dram_sectors = "4 * (1 + mix % 5) * coarsening * (1 - mix % 4 / 8) * (1 - mix % 3 / 4)"

[[access]]
name = "output"
space = "global"
op = "store"
bytes = "4 * min(vector, coarsening)"
count = "ceil(coarsening / vector)"
sectors = "4 * min(vector, coarsening)"

[[access]]
name = "tile"
space = "shared"
op = "load"
count = "0.75 * (40 + 12 * mix if mix % 6 == 5 else mix % 6) * coarsening"
passes = "4 / 3"
"""


def made_up(folder: Path) -> Path:
    """Write the kernel.toml of a kernel with 2^24 launches."""
    path = folder / "kernel.toml"
    path.write_text(KERNEL)
    return path


def gpu_names(count: int) -> list[str]:
    """Return `count` GPUs, spread over the catalogue."""
    from dse.hardware import gpus

    names = gpus.names()
    return [names[i * len(names) // count] for i in range(count)]


def peak() -> float:
    """Return the peak memory of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def rate(run: Any, configurations: int) -> dict[str, float]:
    """Measure configurations a second, by CPU time and by wall time."""
    return {clock: value for clock, [value] in front.rates(run, configurations).items()}


def grid(scale: float, repeats: int) -> dict[str, Any]:
    """Sweep the made-up kernel, in turn with the grid of sweep.py."""
    import numpy as np

    import dse
    from dse.evaluate.grid import fastest_of_grid

    sizes = [1 << (22 + i) for i in range(max(1, round(SIZES * scale)))]
    with tempfile.TemporaryDirectory() as folder:
        swept = dse.sweep(made_up(Path(folder)), gpu_names(GPUS), MODELS, {"outputs": sizes})
    count = swept.product.raw // len(MODELS)

    def ours() -> None:
        rows = swept.top(BEST, ["gpu", "size"])
        assert len(rows) == BEST * GPUS * len(sizes) * len(MODELS)

    ours()
    memory_gb = peak()  # before the other grids are made
    rates: dict[str, list[dict[str, float]]] = {"sweep": []}
    import sweep as sweep_script

    others = {}
    for name in sweep_script.GRIDS:
        fields = sweep_script.grid(sweep_script.FULL, np.dtype("float32"), distinct=name == "distinct")
        others[name] = partial(fastest_of_grid, sweep_script.MODELS, *fields, k=sweep_script.BEST)
        others[name]()
        rates[name] = []
    for _ in range(repeats):
        rates["sweep"].append(rate(ours, count))
        for name, other in others.items():
            rates[name].append(rate(other, int(np.prod(sweep_script.FULL))))
    medians = {
        name: {by: median(x[by] for x in rounds) for by in ("cpu", "wall")} for name, rounds in rates.items()
    }
    ratios = {name: medians["sweep"]["cpu"] / medians[name]["cpu"] for name in others}
    return {"configurations": count, "peak_gb": memory_gb, "rates_per_s": medians, "ratio_cpu": ratios}


def rows(scale: float, repeats: int) -> dict[str, Any]:
    """Write rows of valid configurations of gemm and read them."""
    import dse

    goal = int(ROWS * scale)
    every = len(dse.kernel("gemm").space.indices({"m": 1024, "n": 1024, "k": 1024}))
    sizes = {"m": [1024 + 128 * i for i in range(max(1, -(-goal // (every * GPUS))))]}
    swept = dse.sweep("gemm", gpu_names(GPUS), "phase", sizes).filtered("possible")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.parquet"
        cpu, count = front.timed(lambda: swept.to_parquet(out))
        memory_gb = peak()
        code = "import {0}; print({1})"
        reads = {
            "pandas": "len(pandas.read_parquet({out!r}, columns=['time_s']))",
            "duckdb": "duckdb.sql('select count(*) from ' + repr({out!r})).fetchall()[0][0]",
            "polars": "polars.scan_parquet({out!r}).select('time_s').collect().height",
        }
        counts = {}
        for name, expression in reads.items():
            command = [sys.executable, "-c", code.format(name, expression.format(out=str(out)))]
            counts[name] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        size = out.stat().st_size
    return {
        "rows": count,
        "peak_gb": memory_gb,
        "cpu_s": cpu,
        "rows_per_s": count / cpu,
        "bytes": size,
        "read": counts,
    }


def kill(scale: float, repeats: int) -> dict[str, Any]:
    """Kill a sweep of gemm three times, and compare its file with that of an undisturbed one."""
    import dse

    every = dse.kernel("gemm").space.size
    sizes = ",".join(str(1024 + 64 * i) for i in range(max(20, int(KILLED * scale) // (every * 2))))
    ask = [sys.executable, "-m", "dse.cli.entry", "sweep", "gemm", "-g", "a100", "-g", "rtx-3090"]
    ask += ["--set", f"m={sizes}", "--top", "10", "--per", "gpu,size", "-o"]
    with tempfile.TemporaryDirectory() as folder:
        undisturbed_file, out = Path(folder) / "whole.parquet", Path(folder) / "out.parquet"
        start = time.perf_counter()
        subprocess.run([*ask, str(undisturbed_file)], check=True)
        undisturbed = time.perf_counter() - start
        state, kills = Path(folder) / "out.parquet.parts" / "state.npz", 0
        for _ in range(3):
            running = subprocess.Popen([*ask, str(out)])
            before = state.stat().st_mtime_ns if state.exists() else 0
            while running.poll() is None and (not state.exists() or state.stat().st_mtime_ns <= before):
                time.sleep(0.02)
            kills += running.poll() is None
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGKILL)
            running.wait()
        subprocess.run([*ask, str(out)], check=True)
        same = undisturbed_file.read_bytes() == out.read_bytes()
    count = every * 2 * len(sizes.split(","))
    return {"configurations": count, "kills": kills, "same_bytes": same, "undisturbed_s": undisturbed}


def axes(scale: float, repeats: int) -> dict[str, Any]:
    """Measure ratios of CPU time for 1, 2 and 4 times each axis, and compilations of a second call."""
    import dse
    from dse.models import CLOSED_FORMS

    points = max(1, round(POINTS * scale))

    def swept(gpus: int = 1, kernels: int = 1, sizes: int = 1, models: int = 1) -> Any:
        values = {"image_width": [1024 + 64 * i for i in range(sizes * points)]}
        copies: Any = [dse.kernel("convolution")] * kernels
        return dse.sweep(copies, gpu_names(8)[: 2 * gpus], CLOSED_FORMS[:models], values)

    def seconds(sweep: Any) -> float:
        return front.timed(lambda: sweep.top(10, ["gpu", "size"]))[0]

    table: dict[str, dict[str, float]] = {}
    for axis in ("gpus", "kernels", "sizes", "models"):
        durations = {}
        for times in TIMES:
            sweep = swept(**{axis: times})
            seconds(sweep)  # compiles
            durations[times] = median(seconds(sweep) for _ in range(repeats))
        table[axis] = {f"x{times}": durations[times] / durations[1] for times in TIMES} | {
            "cpu_s": durations[1]
        }
    return {"ratio": table, "traces_of_second_call": traces(swept(), swept())}


def traces(first: Any, second: Any) -> int:
    """Count the functions that a second sweep of the same shape traces again."""
    import jax

    first.top(10, ["gpu", "size"])
    seen: list[str] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/jaxpr_trace_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    second.top(10, ["gpu", "size"])
    return len(seen)


def source(scale: float, repeats: int) -> dict[str, Any]:
    """Rank configurations from source, local and by Dask, each from an empty cache; compare the rows."""
    import dse
    from dse.core.cluster import executing_on
    from dse.evaluate.rank import rank
    from dse.hardware import gpus
    from dse.models import DEFAULT
    from dse.source.kernel import SourceKernel

    described: Any = dse.kernel("stencil2d")
    kernel = SourceKernel(replace(described, space=described.space.with_values(STENCILS)))
    gpu, number = gpus.load("a100-pcie-40gb"), max(WORKERS, round(FROM_SOURCE * scale))
    texts, durations = {}, {}
    for name, workers in (("local", None), ("dask", WORKERS)):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["DSE_CACHE"] = folder  # of this process and its children
            start = time.perf_counter()
            with executing_on(workers):
                ranking = rank(kernel, gpu.gpu, [DEFAULT], sample=number, gpu_name=gpu.name)
            durations[name] = time.perf_counter() - start
            texts[name] = json.dumps(ranking.rows())
    rows_of_ranking = json.loads(texts["local"])
    return {
        "rows": len(rows_of_ranking),
        "different_times": len({row["time_s"] for row in rows_of_ranking}),
        "same_bytes": texts["local"] == texts["dask"],
        "wall_s": durations,
    }


def in_process(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one part in another process."""
    arguments = ("--part", part, "--scale", str(options.scale), "--repeats", str(options.repeats))
    return front.in_process(__file__, *arguments)


def lines(part: str, findings: dict[str, Any], level: int = 0) -> Iterator[str]:
    """Yield the findings of one part, a line each."""
    yield f"{'  ' * level}{part}:"
    for name, value in findings.items():
        if isinstance(value, dict):
            yield from lines(name, value, level + 1)
        else:
            shown = f"{value:,.3g}" if isinstance(value, float) else f"{value:,}"
            yield f"{'  ' * (level + 1)}{name}: {shown}"


def main() -> int:
    parser = front.parser(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1.0 is the full size")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        work = {"grid": grid, "rows": rows, "kill": kill, "axes": axes, "source": source}[options.part]
        print(json.dumps(work(options.scale, options.repeats)))
        return 0
    report = {part: in_process(part, options) for part in options.only}
    if options.json:
        print(json.dumps(report))
    else:
        print("\n".join(line for part, findings in report.items() for line in lines(part, findings)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

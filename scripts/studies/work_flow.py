"""Work flow graphs from CUDA source: `work_flow.py [DIR] [--only TEXT] [--sample N] [--json]`.

Fig. 1 of Baghsorkhi et al. from the source of its statement, with the figure's numbers for the GPU. Sec. 4.1
from the source of a matrix product: by how much tiles reduce the loads of both matrices, and what an SM takes
by the graph. With DIR, whose tables are as for `dse accuracy`: rank correlation and error of the three models
from source, with a kernel's phases as its graph and with equal trips of its averages, over N configurations
drawn at random of each table.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from ending import run_script

import dse
from dse.accuracy import markdown
from dse.accuracy.spaces import files, gpu_of, kernel_of, nothing_in, space_of
from dse.data import measured
from dse.evaluate.compare import compare, sample
from dse.hardware import gpus
from dse.models import get
from dse.models.wfg.graph import uses
from dse.models.wfg.weights import Hardware, average_warp
from dse.report.numbers import json_text
from dse.source.explain.nvidia import execute
from dse.source.explain.work_flow import joined, work_flow_rows
from dse.source.nvidia.graphs.flow import flow_graph
from dse.source.nvidia.graphs.workflow import work_flow
from dse.source.readers import read
from dse.source.readers.given import Given

Row = dict[str, Any]
STATEMENT = """extern "C" __global__ void statement(const float* A, float* x, float y)
{
    x[threadIdx.x] = A[threadIdx.x] + y;
}
"""
FIGURE_1 = {"issue_cycles": 32 / 8, "pipeline_latency": 24.0, "bytes_per_cycle": 4.0, "mem_latency": 250.0}
GPU = "rtx-2080-ti"
# Columns of a tile: threads along its 16 rows, and rows of a thread
TILES = {16: (16, 1), 32: (8, 2), 64: (4, 4), 128: (2, 8)}
MODELS = ("wfg", "wfg-pipeline", "wfg-corrected")


def figure_1() -> list[Row]:
    """Return the values of the figure, for the graph of the statement's machine code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "statement.cu"
        path.write_text(STATEMENT, encoding="utf-8")
        kernel = read.load(path, Given(block=(512,), grid=(1,), arguments=("512", "512", "y=1.0")))
        ran = execute(kernel, {}, {}, dse.gpu(GPU))
    graph = joined(work_flow(flow_graph(ran.machine)))
    hardware = Hardware(**{name: jnp.asarray(value) for name, value in FIGURE_1.items()})
    latency = average_warp(graph, hardware, jnp.asarray(16.0))
    nodes = " ".join(type(node).__name__[0] + ("'" if uses((node,)) else "") for node in graph)
    return [{"nodes": nodes} | {name: float(value) for name, value in vars(latency).items()}]


def section_4_1() -> Iterator[Row]:
    """Yield a row for the product without tiles and for each of its tiles."""
    gpu, size = dse.gpu(GPU), 2048
    launches: list[tuple[str, dict[str, int]]] = [("matmul_naive", {"block_x": 16, "block_y": 16})]
    for columns, (threads, rows) in TILES.items():
        shape = {"block_x": columns, "block_y": threads, "rows": rows, "tile_k": 16}
        launches.append(("matmul_tiled", shape))
    for name, parameters in launches:
        kernel = read.load(name)
        ran = execute(kernel, parameters, dict.fromkeys(dict(kernel.problem), size), gpu)
        outputs, columns = parameters.get("rows", 1), parameters["block_x"]
        _, latency = work_flow_rows(ran)
        loaded = float(latency.mem_insts) - outputs  # each output is stored
        cycles = size * size / 32 / outputs / float(gpu.gpu.sm_count) * float(latency.warp_latency)
        yield {
            "tile": f"16 x {columns}" if outputs > 1 or name == "matmul_tiled" else "none",
            "expected": 2 / (1 / 16 + 1 / columns) if name == "matmul_tiled" else 1.0,
            "loads_reduced_by": 2 * size * outputs / loaded,
            "ms": 1e3 * cycles / float(gpu.gpu.clock),
            "computing": float(latency.comp_cycles / latency.warp_latency),
        }


class Averaged:
    """A model that uses a kernel's averages instead of its phases."""

    differentiable = True

    def __init__(self, name: str) -> None:
        self.model = get(name)
        self.name, self.about, self.batch = f"{name} of averages", self.model.about, self.model.batch

    def predict(self, gpu: Any, kernel: Any, launch: Any) -> Any:
        """Predict without phases."""
        return self.model.predict(gpu, replace(kernel, phases=()), launch)


def accuracy(folder: Path, only: str, number: int) -> Iterator[Row]:
    """Yield a row for each table and model."""
    models = [model for name in MODELS for model in (get(name), Averaged(name))]
    for path in files(folder, only):
        described = kernel_of(path)
        if described is None:
            continue
        kernel = dse.kernel(described.path, source=True)
        table = measured.load(path, kernel)
        table = table.rows(sample(table, kernel, number))
        for row in compare(kernel, gpus.in_name(path).gpu, models, table):
            if row["model"] in {model.name for model in models}:
                yield {"table": f"{space_of(path)} {gpu_of(path)}"} | {
                    name: row[name] for name in ("model", "spearman", "mape_percent")
                }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="tables whose path has this text")
    parser.add_argument("--sample", type=int, default=20, metavar="N")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    options = parser.parse_args()
    tables = {"Fig. 1": figure_1(), "Sec. 4.1": list(section_4_1())}
    if options.folder:
        tables["Measured tables"] = list(accuracy(options.folder, options.only, options.sample))
        if not tables["Measured tables"]:
            raise nothing_in(options.folder)
    if options.json:
        print(json_text(tables))
        return
    for title, rows in tables.items():
        cells = [[x if isinstance(x, str) else markdown.number(x) for x in row.values()] for row in rows]
        print(f"\n{title}\n\n{markdown.table(list(rows[0]), cells)}")


if __name__ == "__main__":
    run_script(main)
